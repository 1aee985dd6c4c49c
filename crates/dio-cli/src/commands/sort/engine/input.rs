//! Opens the inputs.

use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use dio::names::stat;
use dio::stream::{Input, StreamOptions};
use dio_sys::start::was_closed;
use rustix::fs::FileType;
use rustix::io::Errno;

use super::failure::{SortFailure, SortResult};
use crate::tool::{Source, Tool, errno_of};

/// Opens an input with these options.
///
/// # Errors
/// Opening failed. A directory gives the error that reading it would give.
pub(super) fn open(tool: &Tool, name: &OsStr, how: &StreamOptions) -> SortResult<Source> {
    let opened = if name == "-" { stdin(how) } else { Input::open(Path::new(name), how) };
    match opened {
        Ok(input) => Ok(tool.source(input)),
        Err(error) if errno_of(&error) == Errno::ISDIR => {
            Err(SortFailure::Read { name: name.to_owned(), error })
        }
        Err(error) => Err(SortFailure::Input { name: name.to_owned(), error }),
    }
}

fn stdin(how: &StreamOptions) -> io::Result<Input> {
    if was_closed(0) {
        return Err(Errno::BADF.into());
    }
    Input::adopt(io::stdin().as_fd().try_clone_to_owned()?, "-", how)
}

/// Total size of all inputs in bytes, or `None` unless all are regular files.
pub(super) fn size_of_all<'n>(names: impl IntoIterator<Item = &'n OsStr>) -> Option<u64> {
    names.into_iter().try_fold(0u64, |sum, name| {
        let stat = if name == "-" { rustix::fs::fstat(io::stdin()) } else { stat(name) };
        let stat = stat
            .ok()
            .filter(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)?;
        // Files of the kernel (proc(5)) report size 0 although they have content.
        sum.checked_add(stat.st_size as u64).filter(|_| stat.st_size > 0 || name == "-")
    })
}

//! Opens the input and the output with the given flags.

use std::ffi::OsStr;
use std::fmt::Display;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use dio::names::FileId;
use dio_sys::start::was_closed;
use dio_sys::uninterrupted;
use rustix::fs::{CWD, FileType, Mode, OFlags, SeekFrom, Stat};
use rustix::io::Errno;

use super::account::SideRecords;
use super::flags::{Set, conv, flag, open_flags};
use super::plan::DdPlan;
use crate::quote::{quoted, words};
use crate::tool::device;

/// An open end of the copy: input or output.
#[derive(Debug)]
pub(super) struct End {
    pub(super) fd: OwnedFd,
    /// The name for messages.
    pub(super) name: PathBuf,
    /// The name for the receipt: `-` for standard input and output.
    pub(super) path: PathBuf,
    pub(super) stat: Stat,
    /// The file is striped: its bytes are in other files.
    pub(super) striped: bool,
}

/// The message for an error that occurs before anything is copied.
pub(super) type OpenFailure = String;

/// Makes a message of `what` and the reason.
pub(super) fn failure(what: impl Display, errno: Errno) -> OpenFailure {
    format!("{what}: {}", words(errno))
}

impl End {
    fn new(fd: OwnedFd, name: PathBuf, path: PathBuf) -> Result<End, OpenFailure> {
        let (stat, striped) =
            dio::names::fstat_striped(&fd).map_err(|errno| failure(quoted(&name), errno))?;
        Ok(End { fd, name, path, stat, striped })
    }

    /// The present size of a regular file, in bytes.
    pub(super) fn size(&self) -> Option<u64> {
        let regular = self.kind() == FileType::RegularFile;
        regular.then(|| dio::names::fstat(&self.fd).map_or(0, |stat| stat.st_size as u64))
    }

    /// Returns whether a regular file has bytes beyond `at`.
    pub(super) fn reaches_beyond(&self, at: u64) -> bool {
        self.size().is_some_and(|size| size > at)
    }

    /// The type of the file.
    pub(super) fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.stat.st_mode)
    }

    /// As [`device::is_endless`].
    pub(super) fn is_endless(&self) -> bool {
        device::is_endless(&self.stat)
    }

    /// As [`device::has_records`].
    pub(super) fn has_records(&self) -> bool {
        device::has_records(&self.stat)
    }

    /// Returns whether both are the same file or device.
    pub(super) fn is(&self, other: &End) -> bool {
        let (a, b) = (&self.stat, &other.stat);
        let devices = self.kind() == FileType::BlockDevice && other.kind() == FileType::BlockDevice;
        FileId::of(a) == FileId::of(b) || (devices && a.st_rdev == b.st_rdev)
    }
}

/// Opens the input.
pub(super) fn input(plan: &DdPlan) -> Result<End, OpenFailure> {
    let Some(name) = &plan.input else {
        if was_closed(0) {
            return Err(failure("error reading 'standard input'", Errno::BADF));
        }
        return standard(io::stdin().as_fd().try_clone_to_owned(), "standard input", plan.iflag);
    };
    let fd = open(name, OFlags::RDONLY | open_flags(plan.iflag))
        .map_err(|errno| not_opened(name, errno))?;
    End::new(fd, name.into(), name.into())
}

/// Opens the output, and truncates it where writing starts. The second value is the error of
/// truncating, if any.
pub(super) fn output(plan: &DdPlan) -> Result<(End, Option<OpenFailure>), OpenFailure> {
    let Some(name) = &plan.output else {
        if was_closed(1) {
            return Err(failure("error writing 'standard output'", Errno::BADF));
        }
        return Ok((
            standard(io::stdout().as_fd().try_clone_to_owned(), "standard output", plan.oflag)?,
            None,
        ));
    };
    let truncate = !plan.conv.any(conv::NOTRUNC);
    let mut flags = open_flags(plan.oflag);
    flags.set(OFlags::CREATE, !plan.conv.any(conv::NOCREAT));
    flags.set(OFlags::EXCL, plan.conv.any(conv::EXCL));
    // A seek of less than a block truncates the whole file, as with GNU dd.
    let seeks = plan.seek.records > 0;
    flags.set(OFlags::TRUNC, truncate && !seeks);
    let length = if truncate && seeks { Some(length(plan)?) } else { None };
    let fd = match seeks {
        true => open(name, OFlags::RDWR | flags).or_else(|_| open(name, OFlags::WRONLY | flags)),
        false => open(name, OFlags::WRONLY | flags),
    };
    let end = End::new(fd.map_err(|errno| not_opened(name, errno))?, name.into(), name.into())?;
    let cut = length.and_then(|length| cut(length, &end));
    Ok((end, cut))
}

/// The length to truncate the output to, which is the offset where writing starts.
fn length(plan: &DdPlan) -> Result<u64, OpenFailure> {
    plan.seek.offset(plan.obs).ok_or_else(|| {
        let (records, obs) = (plan.seek.records, plan.obs);
        format!(
            "offset too large: cannot truncate to a length of seek={records} ({obs}-byte) blocks"
        )
    })
}

/// Truncates the output; returns the error, if any. Devices cannot be truncated.
fn cut(length: u64, end: &End) -> Option<OpenFailure> {
    match dio::names::ftruncate(&end.fd, length) {
        Err(errno) if matches!(end.kind(), FileType::RegularFile | FileType::Directory) => {
            let what = format!(
                "failed to truncate to {length} bytes in output file {}",
                quoted(&end.name)
            );
            Some(failure(what, errno))
        }
        _ => None,
    }
}

fn open(name: &OsStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    uninterrupted(|| dio::names::openat(CWD, name, flags, Mode::from_raw_mode(0o666)))
}

fn not_opened(name: &OsStr, errno: Errno) -> OpenFailure {
    failure(format_args!("failed to open {}", quoted(name)), errno)
}

/// Duplicates standard input or output, and sets those flags that an open descriptor can get.
fn standard(fd: io::Result<OwnedFd>, name: &str, flags: Set) -> Result<End, OpenFailure> {
    let setting = |errno| failure(format_args!("setting flags for {}", quoted(name)), errno);
    let fd = fd.map_err(|error| setting(Errno::from_io_error(&error).unwrap_or(Errno::BADF)))?;
    let end = End::new(fd, name.into(), "-".into())?;
    if flags.any(flag::DIRECTORY) && end.kind() != FileType::Directory {
        return Err(setting(Errno::NOTDIR));
    }
    let wanted = open_flags(flags) & (OFlags::APPEND | OFlags::NONBLOCK | OFlags::NOATIME);
    let have = rustix::fs::fcntl_getfl(&end.fd).map_err(setting)?;
    if !have.contains(wanted) {
        rustix::fs::fcntl_setfl(&end.fd, have | wanted).map_err(setting)?;
    }
    Ok(end)
}

/// The file offset of a descriptor; `None` if it cannot seek.
pub(super) fn place(end: &End) -> Option<u64> {
    rustix::fs::tell(&end.fd).ok()
}

/// Sets the input's file offset behind the records that were reported as read, because more was
/// read ahead. They began at `from` and each has `ibs` bytes; otherwise the offset is not changed.
pub(super) fn leave_behind(input: &End, from: u64, read: SideRecords, ibs: u64) {
    if input.kind() == FileType::RegularFile && read.partial == 0 {
        let end = read.full.saturating_mul(ibs).saturating_add(from);
        let _ = rustix::fs::seek(&input.fd, SeekFrom::Start(end));
    }
}

/// Moves a descriptor forward by `offset` bytes; `None` means that the offset is not valid.
///
/// # Errors
/// `lseek(2)` failed; EOVERFLOW for an invalid offset.
pub(super) fn advance(end: &End, offset: Option<u64>) -> Result<u64, Errno> {
    let offset = offset.and_then(|offset| i64::try_from(offset).ok()).ok_or(Errno::OVERFLOW)?;
    rustix::fs::seek(&end.fd, SeekFrom::Current(offset))
}

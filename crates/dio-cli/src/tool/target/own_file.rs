//! Small files of the program's own, such as notes of its progress. They are replaced as a whole,
//! and used only if no other user may have written them.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use dio::credentials::is_trusted;
use dio_sys::reopen;
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};

use super::naming::{open_parent, sync_names};

/// Replaces `path` durably by a small file of the program's own; the old file stays complete until
/// then. Until it is complete, the new file is called `temporary`, a predictable name beside it, so
/// that the next run removes a file that a killed one left. Files and links that another user may
/// have put there are neither written to nor followed.
///
/// # Errors
/// Errors of creating, writing, syncing and renaming.
pub(crate) fn replace_by(path: &Path, temporary: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let removed = std::fs::remove_file(temporary);
    removed.or_else(
        |error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) },
    )?;
    let mut file = File::options().write(true).create_new(true).mode(mode).open(temporary)?;
    let mut replace = || -> io::Result<()> {
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(temporary, path)?;
        Ok(sync_names(open_parent(path)?, &file)?)
    };
    replace().inspect_err(|_| {
        // The first error is the one to report.
        let _ = std::fs::remove_file(temporary);
    })
}

/// Returns the contents of a file that [`replace_by`] has left, if it is the program's own: a
/// regular file of at most `most` bytes that belongs to this user or root, and that no other user
/// may write. Returns `None` for anything else.
pub(crate) fn read_own(path: &Path, most: u64) -> Option<Vec<u8>> {
    // Opening an unknown file may block or have side effects, so `O_PATH` is used first.
    let place =
        openat(CWD, path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let found = fstat(&place).ok()?;
    let is_file = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
    let is_own = is_trusted(found.st_uid) && found.st_mode & 0o022 == 0;
    if !is_file || !is_own || found.st_size as u64 > most {
        return None;
    }
    let file = reopen(&place, OFlags::RDONLY).ok()?;
    let mut bytes = Vec::new();
    File::from(file).take(most).read_to_end(&mut bytes).ok().map(|_| bytes)
}

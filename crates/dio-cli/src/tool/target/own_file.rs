//! Small files of the program's own, such as notes of how far it has come: replaced as a whole, and
//! believed only if nobody else may have written them.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use dio::credentials::is_trusted;
use dio_sys::reopen;
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};

use super::naming::{open_parent, sync_names};

/// Puts a small file of the program's own in the place of what has the name, durably: that stays
/// whole until then. Until it is complete it is called `temporary`, a name beside it that can be
/// foreseen, so that the next run removes what a killed one left. Nothing is written into, or found
/// through, what somebody else may have put there.
///
/// # Errors
/// What making, writing, syncing and renaming answer.
pub(crate) fn replace_by(path: &Path, temporary: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let removed = std::fs::remove_file(temporary);
    removed.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })?;
    let mut file = File::options().write(true).create_new(true).mode(mode).open(temporary)?;
    let mut replace = || -> io::Result<()> {
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(temporary, path)?;
        Ok(sync_names(open_parent(path)?, &file)?)
    };
    replace().inspect_err(|_| {
        // The error that is told is the first.
        let _ = std::fs::remove_file(temporary);
    })
}

/// The contents of a file that [`replace_by`] has left, if it is the program's own: a regular file
/// of at most `most` bytes that belongs to this user or root, and that nobody else may write.
/// `None` for anything else.
pub(crate) fn read_own(path: &Path, most: u64) -> Option<Vec<u8>> {
    // To open what is there may wait, or do something.
    let place = openat(CWD, path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()).ok()?;
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

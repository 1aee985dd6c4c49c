//! What a migration that was killed leaves beside the file that it was to move.
//!
//! A file is moved by making the new one under a name of its own, `.NAME.dio-migrate`, and exchanging the two. So what is left under
//! that name is either the new file, as far as it was made, or the old one, whose bytes are under NAME again.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::remnants::is_old;
use dio::stripe::object::is_local;

const END: &[u8] = b".dio-migrate";

/// The name of the new file until it is complete.
pub fn migration_name(path: &Path) -> Option<PathBuf> {
    let mut name = OsString::from(".");
    name.push(path.file_name()?);
    name.push(OsStr::from_bytes(END));
    Some(path.with_file_name(name))
}

/// What an interrupted migration has left.
#[derive(Debug)]
pub struct LeftByMigration {
    /// What is left: a descriptor, or an ordinary file.
    pub path: PathBuf,
    /// The file that was to be moved, which is there.
    pub of: PathBuf,
    /// Keeps others from moving the file, as long as this lives.
    _held: fs::File,
}

/// What interrupted migrations have left in a directory, not below it. Where the locks of other machines are not seen, what is
/// younger than `age` may be under way there, and is left out.
///
/// # Errors
/// What reading the directory answers.
pub fn left_by_migrations(directory: &Path, age: Duration) -> io::Result<Vec<LeftByMigration>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(fs::canonicalize(directory)?)? {
        found.extend(left_at(&entry?.path(), age));
    }
    found.sort_by(|one: &LeftByMigration, other| one.path.cmp(&other.path));
    Ok(found)
}

fn left_at(path: &Path, age: Duration) -> Option<LeftByMigration> {
    let name = path.file_name()?.as_bytes().strip_suffix(END)?.strip_prefix(b".").filter(|name| !name.is_empty())?;
    let of = path.with_file_name(OsStr::from_bytes(name));
    let metadata = fs::symlink_metadata(path).ok()?;
    // Without the file, what is left may be all that there is of it.
    if !metadata.is_file() || !fs::symlink_metadata(&of).ok()?.is_file() {
        return None;
    }
    // The old file is locked by whoever moves it, and has either name.
    let (held, left) = (unlocked(&of)?, unlocked(path)?);
    let sees_locks = is_local(&held) && is_local(&left);
    (sees_locks || is_old(&metadata, age)).then(|| LeftByMigration { path: path.to_owned(), of, _held: held })
}

/// A file that nobody has locked alone, open and locked against that.
fn unlocked(path: &Path) -> Option<fs::File> {
    let file = crate::orphans::open(path)?;
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Err(Errno::WOULDBLOCK) => None,
        // Where there are no locks, the age decides.
        _ => Some(file),
    }
}

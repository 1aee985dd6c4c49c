//! Finds files that interrupted migrations left.
//!
//! A migration makes the new file under a temporary name, `.NAME.dio-migrate`, and exchanges the
//! two names. So a file left under the temporary name is either the incomplete new file, or the old
//! file, whose bytes are under NAME again.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::regular::{entries_of, open};
use crate::remnants::is_old;
use dio::stripe::object::is_local;

const END: &[u8] = b".dio-migrate";

/// Returns the temporary name of the new file; `None` for a path without a last component.
pub fn migration_name(path: &Path) -> Option<PathBuf> {
    let mut name = OsString::from(".");
    name.push(path.file_name()?);
    name.push(OsStr::from_bytes(END));
    Some(path.with_file_name(name))
}

/// A file left by an interrupted migration.
#[derive(Debug)]
pub struct MigrationLeftover {
    /// The leftover file: a descriptor or a plain file.
    pub path: PathBuf,
    /// The file that was to be migrated, which still exists.
    pub of: PathBuf,
    /// Excludes other migrations of the file while this exists.
    _held: fs::File,
}

/// Returns the files that interrupted migrations left in a directory, without its subdirectories.
/// Their paths begin with `directory` as it is given. If locks of other machines are not visible
/// here, files younger than `age` may belong to a migration on another machine, and are left out.
///
/// # Errors
/// Those of reading the directory.
pub fn migration_leftovers(directory: &Path, age: Duration) -> io::Result<Vec<MigrationLeftover>> {
    let mut found = Vec::new();
    for path in entries_of(directory)? {
        found.extend(left_at(&path, age));
    }
    found.sort_by(|one: &MigrationLeftover, other| one.path.cmp(&other.path));
    Ok(found)
}

fn left_at(path: &Path, age: Duration) -> Option<MigrationLeftover> {
    let name = path
        .file_name()?
        .as_bytes()
        .strip_suffix(END)?
        .strip_prefix(b".")
        .filter(|name| !name.is_empty())?;
    let of = path.with_file_name(OsStr::from_bytes(name));
    let metadata = fs::symlink_metadata(path).ok()?;
    // If the file is missing, the leftover may be all that remains of it.
    if !metadata.is_file() || !fs::symlink_metadata(&of).ok()?.is_file() {
        return None;
    }
    // A running migration holds a lock on the old file, which has one of the two names.
    let (held, left) = (unlocked(&of)?, unlocked(path)?);
    let sees_locks = is_local(&held) && is_local(&left);
    (sees_locks || is_old(&metadata, age)).then(|| MigrationLeftover {
        path: path.to_owned(),
        of,
        _held: held,
    })
}

/// Opens a file that no process has locked exclusively, and takes a shared lock.
fn unlocked(path: &Path) -> Option<fs::File> {
    let file = open(path)?;
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Err(Errno::WOULDBLOCK) => None,
        // If the file system has no locks, the age decides.
        _ => Some(file),
    }
}

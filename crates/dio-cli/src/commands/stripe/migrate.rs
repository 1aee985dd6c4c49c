//! Moving a file to another layout under the same name.
//!
//! The new file is complete and durable, under a name of its own, before it takes the name of the old one; the old objects go
//! last. So at every moment the name leads to all of the bytes; what an interruption leaves is the new file under its own
//! name, or the old one, which the next attempt removes, or old objects that nobody refers to.

use std::ffi::OsString;
use std::fs::{self, File as Plain};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use dio::stripe::{self, Alone, Head, Hold, Plan, Report};
use dio::transfer::{Contents, Copier, Sparse, TransferError, Watch};
use dio::{File, FileError, Io, OpenOptions};
use rustix::fs::{Timespec, Timestamps};

use super::super::words;
use crate::stop::Stop;

/// Memory of a copy: blocks of this size, and how many.
const BLOCK: (usize, usize) = (4 << 20, 8);

/// Why a file was not migrated.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Transfer(#[from] TransferError),
    #[error("cannot migrate '{}': {}", .0.display(), words(.1))]
    System(PathBuf, io::Error),
    #[error("cannot migrate '{}': it has other names, which would keep the old bytes", .0.display())]
    Linked(PathBuf),
    #[error("cannot migrate '{}': it is a copy of the descriptor of a striped file ('dio stripe adopt' makes it the file's own)", .0.display())]
    Copy(PathBuf),
}

/// Stops a copy on a signal, or when somebody wants to write to the source: he waits meanwhile.
struct Stopping<'a>(&'a Hold);

impl Watch for Stopping<'_> {
    fn stopped(&self) -> bool {
        Stop::on_signals().asked() || !self.0.is_undisturbed()
    }
}

/// Moves one file.
pub(super) fn migrate(path: &Path, plan: &Plan) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::System(path.to_owned(), error);
    // What a link leads to is moved, not the link.
    let path = &fs::canonicalize(path).map_err(failed)?;
    let before = fs::metadata(path).map_err(failed)?;
    if before.nlink() > 1 {
        return Err(Failure::Linked(path.clone()));
    }
    let hold = Hold::against_writers(path)?;
    let old = stripe::inspect(path)?;
    if old.as_ref().is_some_and(|old| old.copy) {
        return Err(Failure::Copy(path.clone()));
    }
    let mut alone = old.as_ref().map(|old| stripe::alone(path, &old.descriptor)).transpose()?;
    let head = Plain::open(path).and_then(|head| Ok(Head::of(&head)?)).map_err(failed)?;
    let new = beside(path);
    clear(&new)?;
    let moved = make(path, &new, &before, plan, &hold).and_then(|()| Ok(hold.give_name_to(&new, path)?));
    match moved {
        // Under the new file's name there is the old one now.
        Ok(true) => fs::remove_file(&new).map_err(failed)?,
        Ok(false) => {}
        Err(error) => {
            // The error that is told is the first.
            let _ = clear(&new);
            return Err(error);
        }
    }
    // What is kept from others cannot be wiped; nobody finds it any more.
    alone.iter_mut().for_each(Alone::leave_devices);
    let remove = |old: Report| stripe::remove_objects(path, &old.descriptor, before.uid(), &head).map(drop);
    old.map_or(Ok(()), |old| Ok(remove(old)?))
}

/// The name of the new file until it is complete.
fn beside(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().expect("a canonical path of a file has a name"));
    name.push(".dio-migrate");
    path.with_file_name(name)
}

/// Takes away what an earlier attempt left.
fn clear(new: &Path) -> Result<(), Failure> {
    match stripe::inspect(new) {
        Ok(Some(_)) => Ok(stripe::remove(new).map(drop)?),
        Ok(None) => fs::remove_file(new).map_err(|error| Failure::System(new.to_owned(), error)),
        Err(error) if error.errno() == rustix::io::Errno::NOENT => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Makes the new file, with the owner, the permissions, the times and all bytes of the old one, durably.
fn make(path: &Path, new: &Path, old: &fs::Metadata, plan: &Plan, hold: &Hold) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::System(path.to_owned(), error);
    let empty = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(new).map_err(failed)?;
    std::os::unix::fs::fchown(&empty, Some(old.uid()), Some(old.gid())).map_err(failed)?;
    empty.set_permissions(fs::Permissions::from_mode(old.mode() & 0o7777)).map_err(failed)?;
    drop(empty);
    stripe::create_called(new, plan, path)?;
    let source = File::open(path)?;
    let target = OpenOptions::new().read(true).write(true).open(new)?;
    let io = Io::shared().map_err(|error| failed(io::Error::other(error)))?;
    let size = source.size()?;
    let contents = Contents { source: &source, target: &target, size, start: 0, sparse: Sparse::Auto, pace: None };
    Copier::new(&io, BLOCK.0, BLOCK.1)?.copy_contents(&contents, &mut Stopping(hold))?;
    let time = |seconds, nanoseconds| Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
    let times = Timestamps {
        last_access: time(old.atime(), old.atime_nsec()),
        last_modification: time(old.mtime(), old.mtime_nsec()),
    };
    if let Some(head) = target.descriptor() {
        rustix::fs::futimens(head, &times).map_err(|errno| failed(errno.into()))?;
        rustix::fs::fsync(head).map_err(|errno| failed(errno.into()))?;
    }
    Ok(target.sync_all()?)
}

//! Migrates a file to another layout under the same name.
//!
//! The new file is complete and durable, under a temporary name, before it takes the name of the
//! old one; the old objects are removed last. So the name leads to all of the bytes at every
//! moment. After an interruption there may be the new file or the old one under the temporary name,
//! which the next attempt removes, or old objects that no file refers to.
//!
//! Locks (`flock(2)`) exclude concurrent migrations of a file: on the old file, on its first object
//! if it is striped, and on the first object of the new file until the new file is certain to stay.

use dio::quote::quoted;
use std::fs::{self, File as Plain};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use dio::file::words;
use dio::stripe::{self, ReplaceGuard, StripePlan, inspect, inspect_open};
use dio::transfer::{Contents, Copier, Sparse, TransferError, Watch, blocks_for};
use dio::{File, FileError, Io, OpenOptions};
use dio_sys::reopen;
use rustix::fs::{OFlags, Timespec, Timestamps, XattrFlags};
use rustix::io::Errno;

use crate::alone::{WriterExclusion, exclude_other_writers, exclude_writers};
use crate::migration::migration_name;
use crate::system::errno;

/// Size of a block of the copy in bytes, number of blocks for files that are not striped, and most
/// bytes of all blocks.
const BLOCK: usize = 1 << 20;
const DEPTH: usize = 16;
const MOST_BUFFERS: usize = 64 << 20;

/// The reasons why a file was not migrated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MigrateError {
    /// An operation on one of the files failed.
    #[error(transparent)]
    File(#[from] FileError),
    /// The copy failed or was interrupted.
    #[error(transparent)]
    Transfer(#[from] TransferError),
    /// A system call on the file failed.
    #[error("cannot migrate {}: {}", quoted(.0), words(errno(.1)))]
    System(PathBuf, io::Error),
    /// The file has other names, which would keep the old bytes.
    #[error("cannot migrate {}: it has other names, which would keep the old bytes", quoted(.0))]
    Linked(PathBuf),
    /// The file has an access control list, which its objects would not have.
    #[error(
        "cannot migrate {}: it has an access control list, which its objects would not have",
        quoted(.0)
    )]
    Listed(PathBuf),
    /// The file is a copy of the descriptor of a striped file.
    #[error("cannot migrate {}: it is a copy of the descriptor of a striped file ('dio stripe \
             adopt' makes it the file's own)", quoted(.0))]
    Copy(PathBuf),
}

/// Stops the copy on a signal, or when a process waits to write to the source.
struct Stopping<'a> {
    hold: &'a ReplaceGuard,
    asked: &'a dyn Fn() -> bool,
}

impl Watch for Stopping<'_> {
    fn stopped(&self) -> bool {
        (self.asked)() || !self.hold.is_undisturbed()
    }
}

/// Migrates one file. `stopped` is called during the copy; if it returns true, the migration is
/// undone.
///
/// # Errors
/// The reason why the file was not migrated. The file is unchanged then, unless only the removal of
/// its old objects failed.
pub fn migrate(
    path: &Path,
    plan: &StripePlan,
    stopped: &dyn Fn() -> bool,
) -> Result<(), MigrateError> {
    let failed = |error: io::Error| MigrateError::System(path.to_owned(), error);
    // The file that a link leads to is migrated, not the link.
    let path = &fs::canonicalize(path).map_err(failed)?;
    // If several processes migrate a file at the same time, one succeeds.
    let hold = ReplaceGuard::against_writers(path)?;
    // From here on the open file is used, and not its name: in a directory of another user the name
    // can change.
    let file = Plain::from(hold.file().try_clone().map_err(failed)?);
    let before = file.metadata().map_err(failed)?;
    if before.nlink() > 1 {
        return Err(MigrateError::Linked(path.clone()));
    }
    if stripe::has_acl(&file) {
        return Err(MigrateError::Listed(path.clone()));
    }
    let old = inspect_open(&file, path)?;
    if old.as_ref().is_some_and(|old| old.copy) {
        return Err(MigrateError::Copy(path.clone()));
    }
    let mut alone =
        old.as_ref().map(|old| exclude_writers(path, &old.descriptor, before.uid())).transpose()?;
    let new = migration_name(path).expect("a canonical path of a file has a name");
    clear(&new)?;
    let target =
        make((path, &file), &new, &before, plan, &mut Stopping { hold: &hold, asked: stopped })
            .inspect_err(|_| {
                // The first error is returned.
                let _ = clear(&new);
            })?;
    let made = target.descriptor().expect("a striped file is one of the system");
    match hold.give_name_to(&new, made, path) {
        // The old file has the temporary name now.
        Ok(true) => hold.remove_name(&new, hold.stat()).map_err(|errno| failed(errno.into()))?,
        Ok(false) => {}
        Err(error) => {
            // A process that found the new file under the old name waits until the new file is
            // removed.
            if rustix::fs::fstat(made).is_ok_and(|made| hold.leads_to(&new, &made)) {
                let _ = stripe::remove(&new);
            }
            return Err(error.into());
        }
    }
    // From now on, other processes may write to the new file.
    drop(target);
    if old.is_none() {
        return Ok(());
    }
    // A device that is kept open exclusively cannot be wiped. The old file cannot be found any
    // more.
    alone.iter_mut().for_each(WriterExclusion::release_devices);
    Ok(stripe::remove_objects_if_unlinked(path, &file, hold.directory())?)
}

/// Removes what an earlier attempt left under the temporary name. A file that another process is
/// making, or has open for writing, stays.
///
/// # Errors
/// EBUSY for such a file; those of the removal.
pub fn clear(new: &Path) -> Result<(), MigrateError> {
    match inspect(new) {
        Ok(Some(left)) => {
            let owner = fs::symlink_metadata(new)
                .map_err(|error| MigrateError::System(new.to_owned(), error))?
                .uid();
            let mut alone = match exclude_writers(new, &left.descriptor, owner) {
                // It is partly removed already.
                Err(error) if error.errno() == Errno::NOENT => None,
                other => Some(other?),
            };
            // A device that is kept open exclusively cannot be wiped.
            alone.iter_mut().for_each(WriterExclusion::release_devices);
            Ok(stripe::remove(new).map(drop)?)
        }
        Ok(None) => {
            let hold = ReplaceGuard::against_writers(new)?;
            hold.remove_name(new, hold.stat())
                .map_err(|errno| MigrateError::System(new.to_owned(), errno.into()))
        }
        Err(error) if error.errno() == Errno::NOENT => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Makes the new file, durably, with owner, permissions, times and all bytes of the old one. No
/// other process writes to it until the returned file is closed.
fn make(
    (path, file): (&Path, &Plain),
    new: &Path,
    old: &fs::Metadata,
    plan: &StripePlan,
    watch: &mut Stopping<'_>,
) -> Result<File, MigrateError> {
    let failed = |error: io::Error| MigrateError::System(path.to_owned(), error);
    let (_, head) = stripe::create_like(new, plan, path, old)?;
    let source = OpenOptions::new()
        .read(true)
        .adopt(reopen(file, OFlags::RDONLY).map_err(|errno| failed(errno.into()))?, path)?;
    // Not opened by its name, which may belong to another file by now.
    let head = reopen(&head, OFlags::RDWR).map_err(|errno| failed(errno.into()))?;
    let target = OpenOptions::new().read(true).write(true).adopt(head, new)?;
    exclude_other_writers(&target)?;
    let io = Io::shared().map_err(|error| failed(io::Error::other(error)))?;
    let size = source.size()?;
    let contents = Contents {
        source: &source,
        target: &target,
        size,
        start: 0,
        sparse: Sparse::Auto,
        pace: None,
    };
    let blocks = blocks_for(&source, Some(&target), BLOCK, DEPTH, MOST_BUFFERS);
    Copier::new(&io, BLOCK, blocks)?.copy_contents(&contents, watch)?;
    let time = |seconds, nanoseconds| Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
    let times = Timestamps {
        last_access: time(old.atime(), old.atime_nsec()),
        last_modification: time(old.mtime(), old.mtime_nsec()),
    };
    if let Some(head) = target.descriptor() {
        copy_attributes(file, head).map_err(|errno| failed(errno.into()))?;
        rustix::fs::futimens(head, &times).map_err(|errno| failed(errno.into()))?;
        rustix::fs::fsync(head).map_err(|errno| failed(errno.into()))?;
    }
    target.sync_all()?;
    Ok(target)
}

/// Copies the extended attributes: all of `user.*`, which must succeed, and the others as far as
/// the process may set them.
fn copy_attributes(from: &Plain, to: BorrowedFd<'_>) -> Result<(), Errno> {
    // The largest list, and the largest value, that the kernel allows (xattr(7)).
    let (mut list, mut value) = (vec![0u8; 64 << 10], vec![0u8; 64 << 10]);
    let length = match rustix::fs::flistxattr(from, &mut list[..]) {
        Err(Errno::OPNOTSUPP) => 0,
        other => other?,
    };
    for name in list[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let copied = rustix::fs::fgetxattr(from, name, &mut value[..]).and_then(|length| {
            rustix::fs::fsetxattr(to, name, &value[..length], XattrFlags::empty())
        });
        if name.starts_with(b"user.") {
            copied?;
        }
    }
    Ok(())
}

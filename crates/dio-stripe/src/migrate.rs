//! Moving a file to another layout under the same name.
//!
//! The new file is complete and durable, under a name of its own, before it takes the name of the old one; the old objects go
//! last. So at every moment the name leads to all of the bytes; what an interruption leaves is the new file under its own
//! name, or the old one, which the next attempt removes, or old objects that nobody refers to.
//!
//! Locks (`flock(2)`) keep apart who moves the same file: the old one is locked, so is the first object of an old file that is
//! striped, and that of the new one until it is certain that it stays.

use std::fs::{self, File as Plain};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use dio::file::words;
use dio::stripe::{self, Hold, Plan, inspect};
use dio::transfer::{Contents, Copier, Sparse, TransferError, Watch, blocks_for};
use dio::{File, FileError, Io, OpenOptions};
use rustix::fs::{Mode, OFlags, Timespec, Timestamps, XattrFlags};
use rustix::io::Errno;

use crate::{Alone, alone, errno, keep_alone, migration_name};

/// A copy: bytes of a block, how many blocks for files that are not striped, and most bytes of all.
const BLOCK: usize = 1 << 20;
const DEPTH: usize = 16;
const MOST_BUFFERS: usize = 64 << 20;

/// Why a file was not migrated.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    /// An operation on one of the files.
    #[error(transparent)]
    File(#[from] FileError),
    /// The copy of the bytes, or its interruption.
    #[error(transparent)]
    Transfer(#[from] TransferError),
    /// A system call on the file.
    #[error("cannot migrate '{}': {}", .0.display(), words(errno(.1)))]
    System(PathBuf, io::Error),
    /// It has other names, which would keep the old bytes.
    #[error("cannot migrate '{}': it has other names, which would keep the old bytes", .0.display())]
    Linked(PathBuf),
    /// It has an access control list, which its objects would not have.
    #[error("cannot migrate '{}': it has an access control list, which its objects would not have", .0.display())]
    Listed(PathBuf),
    /// It is a copy of the descriptor of a striped file.
    #[error("cannot migrate '{}': it is a copy of the descriptor of a striped file ('dio stripe adopt' makes it the file's own)", .0.display())]
    Copy(PathBuf),
}

/// Stops a copy on a signal, or when somebody wants to write to the source: he waits meanwhile.
struct Stopping<'a> {
    hold: &'a Hold,
    asked: &'a dyn Fn() -> bool,
}

impl Watch for Stopping<'_> {
    fn stopped(&self) -> bool {
        (self.asked)() || !self.hold.is_undisturbed()
    }
}

/// Moves one file.
pub fn migrate(path: &Path, plan: &Plan, stopped: &dyn Fn() -> bool) -> Result<(), MigrateError> {
    let failed = |error: io::Error| MigrateError::System(path.to_owned(), error);
    // What a link leads to is moved, not the link.
    let path = &fs::canonicalize(path).map_err(failed)?;
    // Of several who move a file, one does.
    let hold = Hold::against_writers(path)?;
    let before = fs::metadata(path).map_err(failed)?;
    if before.nlink() > 1 {
        return Err(MigrateError::Linked(path.clone()));
    }
    if stripe::has_acl(path) {
        return Err(MigrateError::Listed(path.clone()));
    }
    let old = inspect(path)?;
    if old.as_ref().is_some_and(|old| old.copy) {
        return Err(MigrateError::Copy(path.clone()));
    }
    let mut alone = old.as_ref().map(|old| alone(path, &old.descriptor, before.uid())).transpose()?;
    let head = Plain::open(path).map_err(failed)?;
    let new = migration_name(path).expect("a canonical path of a file has a name");
    clear(&new)?;
    make_empty(&new, &before).map_err(failed)?;
    let target = make(path, &new, &before, plan, &mut Stopping { hold: &hold, asked: stopped }).inspect_err(|_| {
        // The error that is told is the first.
        let _ = clear(&new);
    })?;
    let made = target.descriptor().expect("a striped file is one of the system");
    match hold.give_name_to(&new, made, path) {
        // Under the new file's name there is the old one now.
        Ok(true) => fs::remove_file(&new).map_err(failed)?,
        Ok(false) => {}
        Err(error) => {
            // Who has found it by the name of the old one waits until it is gone.
            if rustix::fs::fstat(made).is_ok_and(|made| stripe::leads_to(&new, &made)) {
                let _ = stripe::remove(&new);
            }
            return Err(error.into());
        }
    }
    // From now on it may be written to.
    drop(target);
    if old.is_none() {
        return Ok(());
    }
    // What is kept from others cannot be wiped; nobody finds it any more.
    alone.iter_mut().for_each(Alone::leave_devices);
    // Not to be read, which may not be allowed.
    let (place, flags) = (path.parent().unwrap_or(Path::new("/")), OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC);
    let place = rustix::fs::open(place, flags, Mode::empty()).map_err(|errno| failed(errno.into()))?;
    Ok(stripe::remove_nameless(path, &head, place)?)
}

/// Takes away what an earlier attempt left; not what somebody else is making, or has open for writing.
pub fn clear(new: &Path) -> Result<(), MigrateError> {
    match inspect(new) {
        Ok(Some(left)) => {
            let owner = fs::symlink_metadata(new).map_err(|error| MigrateError::System(new.to_owned(), error))?.uid();
            let mut alone = match alone(new, &left.descriptor, owner) {
                // It was being removed.
                Err(error) if error.errno() == Errno::NOENT => None,
                other => Some(other?),
            };
            // What is kept from others cannot be wiped.
            alone.iter_mut().for_each(Alone::leave_devices);
            Ok(stripe::remove(new).map(drop)?)
        }
        Ok(None) => {
            let _hold = Hold::against_writers(new)?;
            fs::remove_file(new).map_err(|error| MigrateError::System(new.to_owned(), error))
        }
        Err(error) if error.errno() == Errno::NOENT => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Takes the name for the new file, with the owner and the permissions of the old one.
fn make_empty(new: &Path, old: &fs::Metadata) -> io::Result<()> {
    let empty = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(new)?;
    let permissions = fs::Permissions::from_mode(old.mode() & 0o7777);
    let made = std::os::unix::fs::fchown(&empty, Some(old.uid()), Some(old.gid()))
        .and_then(|()| empty.set_permissions(permissions));
    if made.is_err() {
        // The error that is told is the first.
        let _ = fs::remove_file(new);
    }
    made
}

/// Makes the new file of the empty one, with the times and all bytes of the old one, durably. As long as what is returned lives,
/// nobody else writes to it.
fn make(
    path: &Path,
    new: &Path,
    old: &fs::Metadata,
    plan: &Plan,
    watch: &mut Stopping<'_>,
) -> Result<File, MigrateError> {
    let failed = |error: io::Error| MigrateError::System(path.to_owned(), error);
    stripe::create_called(new, plan, path)?;
    let source = File::open(path)?;
    let target = OpenOptions::new().read(true).write(true).open(new)?;
    keep_alone(&target)?;
    let io = Io::shared().map_err(|error| failed(io::Error::other(error)))?;
    let size = source.size()?;
    let contents = Contents { source: &source, target: &target, size, start: 0, sparse: Sparse::Auto, pace: None };
    let blocks = blocks_for(&source, Some(&target), BLOCK, DEPTH, MOST_BUFFERS);
    Copier::new(&io, BLOCK, blocks)?.copy_contents(&contents, watch)?;
    let time = |seconds, nanoseconds| Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
    let times = Timestamps {
        last_access: time(old.atime(), old.atime_nsec()),
        last_modification: time(old.mtime(), old.mtime_nsec()),
    };
    if let Some(head) = target.descriptor() {
        copy_attributes(path, head).map_err(|errno| failed(errno.into()))?;
        rustix::fs::futimens(head, &times).map_err(|errno| failed(errno.into()))?;
        rustix::fs::fsync(head).map_err(|errno| failed(errno.into()))?;
    }
    target.sync_all()?;
    Ok(target)
}

/// Gives the new file the extended attributes of the old one: all that users set; of those of the system, what may be set.
fn copy_attributes(from: &Path, to: BorrowedFd<'_>) -> Result<(), Errno> {
    // The most that the kernel lets a list, or a value, be (xattr(7)).
    let (mut list, mut value) = (vec![0u8; 64 << 10], vec![0u8; 64 << 10]);
    let length = match rustix::fs::llistxattr(from, &mut list[..]) {
        Err(Errno::OPNOTSUPP) => 0,
        other => other?,
    };
    for name in list[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let copied = rustix::fs::lgetxattr(from, name, &mut value[..])
            .and_then(|length| rustix::fs::fsetxattr(to, name, &value[..length], XattrFlags::empty()));
        if name.starts_with(b"user.") {
            copied?;
        }
    }
    Ok(())
}

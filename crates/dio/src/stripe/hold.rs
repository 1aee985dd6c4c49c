//! Replaces a file under its name without losing bytes of anybody: a process that has the file
//! open, or opens it meanwhile, is detected.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{
    AtFlags, FileType, FlockOperation, Mode as Permissions, OFlags, RenameFlags, Stat, flock,
    fstat, lstat, openat, renameat, renameat_with, statat,
};
use rustix::io::Errno;

use super::directory::{NameDirectory, directory_of, remove_name_in};
use crate::file::FileError;
use crate::identity::FileId;
use crate::patience::take_within;
use dio_sys::{Lease, has_lease, take_lease};

/// How long a lease or a lock is tried for. A descriptor that was just closed may still count while
/// a child process of another thread holds a copy of it.
pub const PATIENCE_FORK: Duration = Duration::from_millis(14);

/// A file that is to be replaced, and that nobody else has open.
///
/// A lease (`fcntl(2)`) ensures that. It is refused while others have the file open, and is broken
/// when somebody opens it; that open then waits until this is dropped, at most 45 seconds. File
/// systems without leases (networks, FUSE) and files of other users have none: then only changes of
/// the file itself are detected.
///
/// Several read leases are possible at once, so a lock (`flock(2)`) goes with them: of several
/// processes that want to replace a file, one does. All names are looked up in the directory in
/// which the file was found, which stays open: a user who may rename directories above it must not
/// have names in another one exchanged.
#[derive(Debug)]
pub struct ReplaceGuard {
    directory: OwnedFd,
    file: OwnedFd,
    lease: Option<Lease>,
    before: Stat,
}

impl ReplaceGuard {
    /// Opens a file that nobody writes to.
    ///
    /// # Errors
    /// EBUSY if somebody has it open for writing, or locked; what opening it answers.
    pub fn against_writers(path: &Path) -> Result<ReplaceGuard, FileError> {
        ReplaceGuard::new(path, Lease::Writers)
    }

    /// Opens a file that nobody else has open.
    pub(super) fn against_all(path: &Path) -> Result<ReplaceGuard, FileError> {
        ReplaceGuard::new(path, Lease::Everybody)
    }

    fn new(path: &Path, lease: Lease) -> Result<ReplaceGuard, FileError> {
        let failed = |errno| FileError::new("take", path, errno);
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let place = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory =
            rustix::fs::open(directory_of(path), place, Permissions::empty()).map_err(failed)?;
        let name = name_of(path).map_err(failed)?;
        let open = |access| openat(&directory, name, access | flags, Permissions::empty());
        let file = match open(OFlags::RDONLY) {
            // Either access is enough for this lease.
            Err(Errno::ACCESS) if lease == Lease::Everybody => open(OFlags::WRONLY),
            other => other,
        };
        let file = file.map_err(|errno| match errno {
            // Somebody else has a lease.
            Errno::WOULDBLOCK => busy(path, lease),
            errno => failed(errno),
        })?;
        let before = fstat(&file).map_err(failed)?;
        if FileType::from_raw_mode(before.st_mode) != FileType::RegularFile {
            return Err(failed(Errno::INVAL).with_detail("it is no regular file"));
        }
        // File systems without such locks, or (NFS) without them for readers, leave only the checks
        // of the names.
        let lock = || flock(&file, FlockOperation::NonBlockingLockExclusive);
        if let Err(Errno::WOULDBLOCK) = take_within(PATIENCE_FORK, lock) {
            let error = FileError::new("replace", path, Errno::BUSY);
            return Err(error.with_detail("somebody else is replacing it, or has locked it"));
        }
        let lease = match take_within(PATIENCE_FORK, || take_lease(file.as_fd(), lease)) {
            Ok(()) => Some(lease),
            Err(Errno::AGAIN) => return Err(busy(path, lease)),
            // The file system has no leases, or none for this user.
            Err(_) => None,
        };
        let hold = ReplaceGuard { directory, file, lease, before };
        // Whoever had the lock before may have replaced the file and removed its objects.
        if hold.is_called(path) { Ok(hold) } else { Err(hold.disturbed(path)) }
    }

    /// Whether the file is unchanged, and nobody has opened it or waits to.
    pub fn is_undisturbed(&self) -> bool {
        let same = |now: Stat| {
            let what = |stat: &Stat| (stat.st_size, stat.st_mtime, stat.st_mtime_nsec);
            what(&now) == what(&self.before)
        };
        let alone =
            self.lease.is_none_or(|lease| has_lease(self.file.as_fd(), lease).unwrap_or(false));
        alone && fstat(&self.file).is_ok_and(same)
    }

    /// Whether the name, in the directory of the file, belongs to the file.
    fn is_called(&self, path: &Path) -> bool {
        self.leads_to(path, &self.before)
    }

    /// Whether the name, in the directory of the file, belongs to this other file.
    pub fn leads_to(&self, path: &Path, file: &Stat) -> bool {
        let found =
            name_of(path).and_then(|name| statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW));
        found.is_ok_and(|found| FileId::of(&found) == FileId::of(file))
    }

    /// The `stat` of the file when it was opened.
    pub fn stat(&self) -> &Stat {
        &self.before
    }

    /// The file, open for reading if that is allowed.
    pub fn file(&self) -> &OwnedFd {
        &self.file
    }

    /// The directory of the file, opened with `O_PATH`.
    pub fn directory(&self) -> &OwnedFd {
        &self.directory
    }

    /// Removes a name in the directory of the file, if it belongs to the file `looked_at`.
    ///
    /// # Errors
    /// ESTALE if the name belongs to another file by now; what `unlinkat(2)` answers.
    pub fn remove_name(&self, path: &Path, looked_at: &Stat) -> Result<(), Errno> {
        remove_name_in(&self.directory, name_of(path)?, FileId::of(looked_at))
    }

    /// Exchanges the names `path`, of this file, and `new`, of the open file `made`, durably. This
    /// file is called `new` then, and the caller removes it. Returns false if the file system
    /// cannot exchange names: then `path` was replaced and `new` is gone.
    ///
    /// # Errors
    /// EBUSY if one of the names belongs to another file by now, or somebody has opened this one;
    /// what `renameat2(2)` and `fsync(2)` answer. The names are then as they were, unless undoing
    /// failed: the caller checks which file `path` belongs to before it removes what was made.
    pub fn give_name_to(
        &self,
        new: &Path,
        made: impl AsFd,
        path: &Path,
    ) -> Result<bool, FileError> {
        let failed = |errno| FileError::new("replace", path, errno);
        let stat = fstat(&made).map_err(failed)?;
        let names = NameDirectory::beside(self.directory.as_fd(), c"").map_err(failed)?;
        let ready = self.leads_to(new, &stat) && self.is_called(path) && self.is_undisturbed();
        if !ready {
            return Err(self.disturbed(path));
        }
        let (old_name, new_name) = (name_of(path).map_err(failed)?, name_of(new).map_err(failed)?);
        let (here, there) = (&self.directory, &self.directory);
        let exchange = || renameat_with(here, new_name, there, old_name, RenameFlags::EXCHANGE);
        match exchange() {
            Err(Errno::INVAL | Errno::NOSYS) => {
                renameat(here, new_name, there, old_name).map_err(failed)?;
                names.sync(&made).map_err(failed)?;
                return Ok(false);
            }
            other => other.map_err(failed)?,
        }
        // A process that found the file by its name before now, but had not opened it yet, has met
        // the lease by the time this ends.
        let synced = names.sync(&made);
        let in_place = self.leads_to(path, &stat) && self.is_called(new);
        if synced.is_ok() && in_place && self.is_undisturbed() {
            return Ok(true);
        }
        // Exchanged back only if this file still has the other name.
        if self.is_called(new) {
            exchange().map_err(failed)?;
        }
        synced.map_err(failed)?;
        Err(self.disturbed(path))
    }

    fn disturbed(&self, path: &Path) -> FileError {
        match self.lease {
            Some(lease) if self.is_called(path) => busy(path, lease),
            _ => FileError::new("replace", path, Errno::BUSY)
                .with_detail("somebody else has changed it"),
        }
    }
}

/// The last component of a path.
fn name_of(path: &Path) -> Result<&OsStr, Errno> {
    path.file_name().ok_or(Errno::INVAL)
}

/// Whether a path belongs to this file.
pub fn leads_to(path: &Path, file: &Stat) -> bool {
    lstat(path).is_ok_and(|found| (found.st_dev, found.st_ino) == (file.st_dev, file.st_ino))
}

fn busy(path: &Path, lease: Lease) -> FileError {
    let what = match lease {
        Lease::Writers => "somebody else has it open for writing",
        Lease::Everybody => "somebody else has it open",
    };
    FileError::new("replace", path, Errno::BUSY).with_detail(what)
}

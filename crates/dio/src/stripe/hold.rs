//! Taking the name of a file away from it without anybody losing bytes: whoever has it open, or opens it meanwhile, is noticed.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{
    AtFlags, FileType, FlockOperation, Mode as Permissions, OFlags, RenameFlags, Stat, flock, fstat, lstat, openat,
    renameat, renameat_with, statat,
};
use rustix::io::Errno;

use super::create::directory_of;
use super::directory::{Names, identity, remove_name_in};
use crate::file::FileError;
use dio_sys::{Lease, has_lease, take_lease};

/// How often a lease or a lock is asked for: descriptors that were closed a moment ago may still count, while a child process of
/// another thread has not got rid of its own.
const ATTEMPTS: u32 = 4;

/// A file that is to be replaced by another, and that nobody else has open.
///
/// A lease (`fcntl(2)`) says so: it is refused while others have the file open, and tells when somebody wants to; who does waits
/// until this is dropped, at most 45 seconds. File systems without leases (networks, FUSE) and files of other users have none:
/// then only what can be seen of the file itself tells that it has changed.
///
/// Leases against writers do not keep each other out, so a lock (`flock(2)`) goes with them: of several who want to replace a
/// file, one does.
/// All names are looked for in the directory that the file was found in, which stays open: whoever may rename directories on
/// the way there must not have names in another one exchanged.
#[derive(Debug)]
pub struct Hold {
    directory: OwnedFd,
    file: OwnedFd,
    lease: Option<Lease>,
    before: Stat,
}

impl Hold {
    /// A file that nobody writes to.
    ///
    /// # Errors
    /// EBUSY when somebody has it open for writing, or locked; what opening it answers.
    pub fn against_writers(path: &Path) -> Result<Hold, FileError> {
        Hold::new(path, Lease::Writers)
    }

    /// A file that nobody has open.
    pub(super) fn against_all(path: &Path) -> Result<Hold, FileError> {
        Hold::new(path, Lease::Everybody)
    }

    fn new(path: &Path, lease: Lease) -> Result<Hold, FileError> {
        let failed = |errno| FileError::new("take", path, errno);
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let place = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(directory_of(path), place, Permissions::empty()).map_err(failed)?;
        let name = name_of(path).map_err(failed)?;
        let open = |access| openat(&directory, name, access | flags, Permissions::empty());
        let file = match open(OFlags::RDONLY) {
            // For this the one is as good as the other.
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
        // Where there are no such locks, or (NFS) none for who reads, all depends on what is seen of the names.
        if let Err(Errno::WOULDBLOCK) = patiently(|| flock(&file, FlockOperation::NonBlockingLockExclusive)) {
            let error = FileError::new("replace", path, Errno::BUSY);
            return Err(error.with_detail("somebody else is replacing it, or has locked it"));
        }
        let lease = match patiently(|| take_lease(file.as_fd(), lease)) {
            Ok(()) => Some(lease),
            Err(Errno::AGAIN) => return Err(busy(path, lease)),
            // There are none here, or not for us.
            Err(_) => None,
        };
        let hold = Hold { directory, file, lease, before };
        // Whoever had the lock before may have replaced the file and removed its objects.
        if hold.is_called(path) { Ok(hold) } else { Err(hold.disturbed(path)) }
    }

    /// Whether the file is as it was, and nobody has come, or waits.
    pub fn is_undisturbed(&self) -> bool {
        let same = |now: Stat| {
            let what = |stat: &Stat| (stat.st_size, stat.st_mtime, stat.st_mtime_nsec);
            what(&now) == what(&self.before)
        };
        let alone = self.lease.is_none_or(|lease| has_lease(self.file.as_fd(), lease).unwrap_or(false));
        alone && fstat(&self.file).is_ok_and(same)
    }

    /// Whether the name, in the directory of the file, leads to it.
    fn is_called(&self, path: &Path) -> bool {
        self.leads_to(path, &self.before)
    }

    /// Whether the name, in the directory of the file, leads to another one.
    pub fn leads_to(&self, path: &Path, file: &Stat) -> bool {
        let found = name_of(path).and_then(|name| statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW));
        found.is_ok_and(|found| identity(&found) == identity(file))
    }

    /// What the file was.
    pub fn stat(&self) -> &Stat {
        &self.before
    }

    /// The file, open for reading where it may be read.
    pub fn file(&self) -> &OwnedFd {
        &self.file
    }

    /// The directory that the file was found in, as a place.
    pub fn directory(&self) -> &OwnedFd {
        &self.directory
    }

    /// Takes a name in the directory of the file away from a file that was looked at before.
    ///
    /// # Errors
    /// ESTALE when it leads to another file by now; what `unlinkat(2)` answers.
    pub fn remove_name(&self, path: &Path, looked_at: &Stat) -> Result<(), Errno> {
        remove_name_in(&self.directory, name_of(path)?, identity(looked_at))
    }

    /// Gives the file's name, `path`, to `new`, which leads to the open file `made`, durably. The file itself is called `new` then,
    /// and is the caller's to remove. False where the file system cannot exchange names: then the file has lost its name and `new`
    /// is gone.
    ///
    /// # Errors
    /// EBUSY when one of the names leads elsewhere by now or somebody has come; what `renameat2(2)` and `fsync(2)` answer. Both names
    /// lead where they did then, unless taking back failed: the caller asks where `path` leads before removing what was made.
    pub fn give_name_to(&self, new: &Path, made: impl AsFd, path: &Path) -> Result<bool, FileError> {
        let failed = |errno| FileError::new("replace", path, errno);
        let stat = fstat(&made).map_err(failed)?;
        let names = Names::beside(self.directory.as_fd(), c"").map_err(failed)?;
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
        // Who had found the file by its name before now, but had not opened it yet, has come to the lease by the end of this.
        let synced = names.sync(&made);
        let in_place = self.leads_to(path, &stat) && self.is_called(new);
        if synced.is_ok() && in_place && self.is_undisturbed() {
            return Ok(true);
        }
        // Only if the file is still there to be given its name back.
        if self.is_called(new) {
            exchange().map_err(failed)?;
        }
        synced.map_err(failed)?;
        Err(self.disturbed(path))
    }

    fn disturbed(&self, path: &Path) -> FileError {
        match self.lease {
            Some(lease) if self.is_called(path) => busy(path, lease),
            _ => FileError::new("replace", path, Errno::BUSY).with_detail("somebody else has changed it"),
        }
    }
}

/// The last part of a path.
fn name_of(path: &Path) -> Result<&OsStr, Errno> {
    path.file_name().ok_or(Errno::INVAL)
}

/// Whether a name leads to a file.
pub fn leads_to(path: &Path, file: &Stat) -> bool {
    lstat(path).is_ok_and(|found| (found.st_dev, found.st_ino) == (file.st_dev, file.st_ino))
}

/// Asks for a lease or a lock, several times.
pub fn patiently(take: impl Fn() -> Result<(), Errno>) -> Result<(), Errno> {
    for attempt in 1..ATTEMPTS {
        match take() {
            Err(Errno::AGAIN) => std::thread::sleep(Duration::from_millis(1 << attempt)),
            other => return other,
        }
    }
    take()
}

fn busy(path: &Path, lease: Lease) -> FileError {
    let what = match lease {
        Lease::Writers => "somebody else has it open for writing",
        Lease::Everybody => "somebody else has it open",
    };
    FileError::new("replace", path, Errno::BUSY).with_detail(what)
}

//! The tree: inodes, names and attributes of the source. Nothing outside the source can be reached.
//!
//! Every name is looked up alone, in an open directory, and symbolic links are never followed. So
//! neither `..`, nor a link, nor a concurrent move of directories leads out of the source. It does
//! not matter that the mount may cover the source. A table (`inodes`) has a record of each inode
//! that the kernel holds. Most inodes have no open descriptor; they are opened by a file handle or,
//! where the server may not open handles, by the name by which they were found (`resolve`).

mod attributes;
mod create;
mod credentials;
mod descriptors;
mod directories;
mod flags;
mod forbidden;
mod forgetting;
mod inodes;
mod links;
mod listing;
mod lookup;
mod mounts;
mod objects;
mod requests;
mod resolve;
mod xattrs;

#[cfg(test)]
mod tests;

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use rustix::fs::{FileType, Mode, OFlags, fstat, openat};
use rustix::io::{Errno, Result};

use self::descriptors::raise_descriptor_limit;
use self::directories::Directories;
pub use self::directories::{Name, NameCache};
pub use self::forbidden::Forbidden;
pub use self::forgetting::MEMORY_SHARE_DIVISOR;
use self::forgetting::SharedTree;
use self::inodes::Table;
pub use self::inodes::{InodeId, Leaf, ROOT};
use self::mounts::{Mount, Mounts, own_descriptors};
use self::objects::Keeper;
pub use self::objects::Objects;
pub use self::requests::{Caller, Changes, FoundInode, Time};
use crate::options::Live;
use crate::users::Users;
use dio::credentials::Credentials;

/// Settings of a tree that is served.
#[derive(Debug, Clone)]
pub struct NamesConfig {
    /// Whether the server takes on the identity of a caller, so that new inodes belong to it. Only
    /// a server with all privileges can do that; one without serves its own user.
    pub act_as_callers: bool,
    /// The settings, whose `limit` determines the memory for inodes (see [`MEMORY_SHARE_DIVISOR`]);
    /// they may change.
    pub settings: Live,
    /// The users' shares of the server's descriptors, for open directories and for files that lost
    /// their last name.
    pub(crate) descriptors: Arc<Users>,
}

/// The tree of one mount.
///
/// It starts a thread, so a program that becomes a daemon must create it afterwards.
#[derive(Debug)]
pub struct Names {
    shared: Arc<SharedTree>,
    /// `/proc/self/fd`, through which `O_PATH` descriptors are reopened.
    process: OwnedFd,
    callers: Option<Credentials>,
    directories: Directories,
    users: Arc<Users>,
    keeper: Keeper,
    /// `st_dev` of the mount that serves this tree; 0 until it is set.
    own_device: AtomicU64,
    /// Returns the restrictions of that mount.
    forbidden_by_own: OnceLock<AskForbidden>,
    /// Number of renames begun. The inodes of a rename are pinned when it is counted.
    renames: AtomicU64,
    began: Instant,
}

/// Returns the restrictions of the mount that serves the tree. It is called at each use, because
/// the mount may be remounted with other flags.
struct AskForbidden(Box<dyn Fn() -> Forbidden + Send + Sync>);

impl std::fmt::Debug for AskForbidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AskForbidden")
    }
}

/// Settings that only tests change.
#[derive(Debug, Clone, Copy, Default)]
struct Limits {
    /// Most cached descriptors.
    descriptors: Option<usize>,
    /// Whether to act as if handles could not be opened.
    no_handles: bool,
}

impl Names {
    /// Makes the tree below `source`, an open directory (`O_PATH` suffices).
    ///
    /// The limit on descriptors of this process is raised as far as the process may raise it.
    ///
    /// # Errors
    /// Those of `fstat(2)` and `open(2)`, `ENOTDIR`, `EACCES` if the directory may not be read,
    /// `ENOENT` if `/proc` is not mounted. `EOPNOTSUPP` for a file system of the kernel's own
    /// (`/proc`, `/sys`), if the server acts as its callers.
    pub fn new(source: OwnedFd, how: NamesConfig) -> Result<Names> {
        Names::with(source, how, Limits::default())
    }

    fn with(source: OwnedFd, how: NamesConfig, limits: Limits) -> Result<Names> {
        let place = openat(
            &source,
            c".",
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        if how.act_as_callers && dio::names::is_of_the_kernel(&place) {
            return Err(Errno::OPNOTSUPP);
        }
        let process = own_descriptors()?;
        let allowed = raise_descriptor_limit();
        let mut mounts = Mounts::new(limits.no_handles);
        let mount = mounts.put(Mount::of(&place, &process, limits.no_handles)?);
        let stat = fstat(&place)?;
        let identity = mounts.identity(&place, &stat, mount);
        // Open files need descriptors too.
        let usual = if mounts.opens_handles(mount) {
            (allowed / 4).min(4096)
        } else {
            (allowed / 2).min(1 << 17)
        };
        let kept = limits.descriptors.unwrap_or(usual);
        let shared = SharedTree::new(Table::new(identity), kept, mounts, how.settings);
        shared.lock().descriptors.pin(ROOT, &Arc::new(place));
        forgetting::start(&shared)?;
        Ok(Names {
            shared,
            process,
            callers: how.act_as_callers.then(Credentials::of_thread).transpose()?,
            directories: Directories::default(),
            users: how.descriptors,
            keeper: Keeper::default(),
            own_device: AtomicU64::new(0),
            forbidden_by_own: OnceLock::new(),
            renames: AtomicU64::new(0),
            began: Instant::now(),
        })
    }

    /// Sets the `st_dev` of the mount that serves this tree, and the function that returns the
    /// restrictions of that mount. If the mount point is itself below the source, the tree shows
    /// the covered directory there, not the mount inside itself.
    pub fn served_by(
        &self,
        device: u64,
        forbidden: impl Fn() -> Forbidden + Send + Sync + 'static,
    ) {
        self.own_device.store(device, Ordering::Relaxed);
        // The first call counts.
        let _ = self.forbidden_by_own.set(AskForbidden(Box::new(forbidden)));
    }

    /// Counts `count` lookups of an inode that the kernel forgot.
    pub fn forget(&self, inode: InodeId, count: u64) {
        let mut state = self.shared.lock();
        state.table.forget(inode, count);
        let unused = state.release_gone();
        drop(state);
        drop(unused);
    }

    /// Returns the path by which an inode was last looked up, relative to the source; empty for the
    /// root. `None` if it is no longer known.
    pub fn path(&self, inode: InodeId) -> Option<PathBuf> {
        self.shared.lock().table.path(inode)
    }

    /// Returns the number of records, and the bytes that they take. There are records of inodes
    /// that the kernel holds, and of the directories above them.
    pub fn held(&self) -> (usize, u64) {
        let state = self.shared.lock();
        (state.table.len(), state.table.bytes())
    }

    /// Sets the callback that asks the kernel to forget names when inodes take too much memory,
    /// least recently used names first. `ask` is called on a thread of its own, without a lock
    /// held. The kernel may ignore a name, for example that of an open file. The callback can be
    /// set once.
    pub fn forget_through(&self, ask: impl Fn(&Leaf) + Send + Sync + 'static) {
        self.shared.set_ask(Box::new(ask));
    }

    /// Opens an inode, a regular file or a directory, anew and with the server's own rights.
    /// `O_CREAT`, `O_EXCL`, `O_NOFOLLOW` and `O_NOCTTY` are left out.
    ///
    /// # Errors
    /// `ESTALE` if it is gone, `EACCES` where the server may not open it, `EINVAL` for an inode
    /// that is neither a file nor a directory, and those of `open(2)`.
    pub fn open(&self, inode: InodeId, flags: OFlags) -> Result<OwnedFd> {
        let kind = self.shared.lock().table.get(inode)?.identity.kind;
        // Opening a device or a pipe has side effects, and may block for ever.
        if !matches!(kind, FileType::RegularFile | FileType::Directory) {
            return Err(Errno::INVAL);
        }
        let place = self.descriptor(inode)?;
        self.or_with_fewer_descriptors(|| self.reopen_place(&place, flags))
    }

    /// As [`Names::open`], for a program. The program may have used a name that the kernel still
    /// caches although the file was removed or replaced without the mount: data written to such a
    /// file would be lost. After `ESTALE` the kernel looks the name up again (`do_filp_open`,
    /// fs/namei.c). A file that lost its last name through the mount, or never had one, is opened:
    /// no program can have reached it by an outdated name.
    ///
    /// # Errors
    /// As [`Names::open`]; `ESTALE` also for a file that was removed beside the mount.
    pub fn open_for_program(&self, inode: InodeId, flags: OFlags) -> Result<OwnedFd> {
        let fd = self.open(inode, flags)?;
        if fstat(&fd)?.st_nlink == 0 && !self.shared.lock().has_lost_its_name(inode) {
            return Err(Errno::STALE);
        }
        Ok(fd)
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        self.shared.end();
    }
}

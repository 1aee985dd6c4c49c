//! The tree: inodes, names and attributes of the source, resolved beneath it and nowhere else.
//!
//! Every name is looked up alone, in an open directory, and symbolic links are never followed:
//! neither `..` nor a link nor whoever moves directories meanwhile leads out of the source, and it
//! does not matter that the mount may cover it. What the kernel knows is kept as a record in a
//! table (`inodes`); of most of them there is no descriptor but a file handle, or, where the server
//! may not open handles, the name by which they were found (`resolve`).

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
pub use self::directories::{Copied, Name};
pub use self::forbidden::Forbidden;
pub use self::forgetting::SHARE;
use self::forgetting::Shared;
use self::inodes::Table;
pub use self::inodes::{InodeId, Leaf, ROOT};
use self::mounts::{Mount, Mounts, own_descriptors};
use self::objects::Keeper;
pub use self::objects::Objects;
pub use self::requests::{Caller, Changes, Entry, Time};
use crate::options::Live;
use crate::users::Users;
use dio::credentials::Credentials;

/// How a tree is served.
#[derive(Debug, Clone)]
pub struct How {
    /// What is created belongs to its creator: the server takes on the caller's identity for it.
    /// Only a server with all privileges can; one without serves its own user.
    pub act_as_callers: bool,
    /// `limit`, of which inodes take up to [`SHARE`]; it may change.
    pub settings: Live,
    /// What users hold of the server's descriptors: open directories, and files that have lost
    /// their last name.
    pub(crate) descriptors: Arc<Users>,
}

/// The tree of one mount.
///
/// It starts a thread, so a program that becomes a daemon makes it afterwards.
#[derive(Debug)]
pub struct Names {
    shared: Arc<Shared>,
    /// `/proc/self/fd`, through which places are opened.
    process: OwnedFd,
    callers: Option<Credentials>,
    directories: Directories,
    users: Arc<Users>,
    keeper: Keeper,
    /// `st_dev` of the mount that this tree is served by; 0 while nobody said.
    own_device: AtomicU64,
    /// What that mount forbids.
    forbidden_by_own: OnceLock<AskForbidden>,
    /// Renames that were begun, each counted while what it moves is pinned.
    renames: AtomicU64,
    began: Instant,
}

/// What the mount forbids that serves the tree, asked when it matters: it may be mounted anew with
/// other flags.
struct AskForbidden(Box<dyn Fn() -> Forbidden + Send + Sync>);

impl std::fmt::Debug for AskForbidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AskForbidden")
    }
}

/// What can be different in tests.
#[derive(Debug, Clone, Copy, Default)]
struct Limits {
    /// Descriptors to keep.
    descriptors: Option<usize>,
    /// Do as if handles could not be opened.
    no_handles: bool,
}

impl Names {
    /// The tree below `source`, an open directory (`O_PATH` suffices).
    ///
    /// The limit on descriptors of this process is raised as far as it may.
    ///
    /// # Errors
    /// Those of `fstat(2)` and `open(2)`, `ENOTDIR`, `EACCES` if the directory may not be read,
    /// `ENOENT` if `/proc` is not mounted; `EOPNOTSUPP` for a file system of the kernel's own
    /// (`/proc`, `/sys`), if others are to be served.
    pub fn new(source: OwnedFd, how: How) -> Result<Names> {
        Names::with(source, how, Limits::default())
    }

    fn with(source: OwnedFd, how: How, limits: Limits) -> Result<Names> {
        let place = openat(&source, c".", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        if how.act_as_callers && dio::names::is_of_the_kernel(&place) {
            return Err(Errno::OPNOTSUPP);
        }
        let process = own_descriptors()?;
        let allowed = raise_descriptor_limit();
        let mut mounts = Mounts::new(limits.no_handles);
        let mount = mounts.put(Mount::of(&place, &process, limits.no_handles)?);
        let stat = fstat(&place)?;
        let identity = mounts.identity(&place, &stat, mount);
        // Others need descriptors too: open files.
        let usual = if mounts.opens_handles(mount) { (allowed / 4).min(4096) } else { (allowed / 2).min(1 << 17) };
        let kept = limits.descriptors.unwrap_or(usual);
        let shared = Shared::new(Table::new(identity), kept, mounts, how.settings);
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

    /// Tells the `st_dev` of the mount that serves this tree, and how to find out what that mount
    /// forbids. Where the mount point is itself below the source, what it covers is shown there
    /// instead of the mount in the mount.
    pub fn served_by(&self, device: u64, forbidden: impl Fn() -> Forbidden + Send + Sync + 'static) {
        self.own_device.store(device, Ordering::Relaxed);
        // It is told once.
        let _ = self.forbidden_by_own.set(AskForbidden(Box::new(forbidden)));
    }

    /// The kernel forgets `count` lookups of an inode.
    pub fn forget(&self, inode: InodeId, count: u64) {
        let mut state = self.shared.lock();
        state.table.forget(inode, count);
        let unused = state.release_gone();
        drop(state);
        drop(unused);
    }

    /// The path by which an inode was last looked up, relative to the source; empty for the root.
    /// `None` if that is not known any more.
    pub fn path(&self, inode: InodeId) -> Option<PathBuf> {
        self.shared.lock().table.path(inode)
    }

    /// Inodes that the kernel holds or that are above one that it holds, and the bytes that their
    /// records take.
    pub fn held(&self) -> (usize, u64) {
        let state = self.shared.lock();
        (state.table.len(), state.table.bytes())
    }

    /// Has the kernel asked to forget names, the least used first, when there are too many inodes
    /// for the limit on memory. `ask` is called on a thread of its own, without a lock held; it may
    /// ignore a name (of a file that is open, say). It can be set once.
    pub fn forget_through(&self, ask: impl Fn(&Leaf) + Send + Sync + 'static) {
        self.shared.set_ask(Box::new(ask));
    }

    /// Opens an inode, a regular file or a directory, anew and by the server's own rights.
    /// `O_CREAT`, `O_EXCL`, `O_NOFOLLOW`, `O_APPEND` and `O_NOCTTY` are left out.
    ///
    /// # Errors
    /// `ESTALE` if it is gone, `EACCES` where the server may not, `EINVAL` for what is neither file
    /// nor directory, those of `open(2)`.
    pub fn open(&self, inode: InodeId, flags: OFlags) -> Result<OwnedFd> {
        let kind = self.shared.lock().table.get(inode)?.identity.kind;
        // Opening a device or a pipe does things, and may wait for ever.
        if !matches!(kind, FileType::RegularFile | FileType::Directory) {
            return Err(Errno::INVAL);
        }
        let place = self.descriptor(inode)?;
        self.or_with_fewer_descriptors(|| self.reopen_place(&place, flags))
    }

    /// As [`Names::open`], for a program, which may have come by a name that the kernel still
    /// believes although the file was removed or replaced beside the mount: what it would write to
    /// a file without a name would be lost. The kernel looks the name up again then
    /// (`do_filp_open`, fs/namei.c). A file that has lost its last name below the mount, or never
    /// had one, has none to be found by, so it is meant.
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

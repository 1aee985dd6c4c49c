//! The tree: inodes, names and attributes of the source, resolved beneath it and nowhere else.
//!
//! Every name is looked up alone, in an open directory, and symbolic links are never followed: neither `..` nor a link nor
//! whoever moves directories meanwhile leads out of the source, and it does not matter that the mount may cover it. What
//! the kernel knows is kept as a record in a table (`inodes`); of most of them there is no descriptor but a file handle,
//! or, where the server may not open handles, the name by which they were found (`resolve`).

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
mod resolve;
mod xattrs;

#[cfg(test)]
mod tests;

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, openat};
use rustix::io::{Errno, Result};

pub use self::directories::Copied;
use self::directories::Directories;
pub use self::forbidden::Forbidden;
use self::forgetting::Shared;
pub use self::inodes::Leaf;
use self::inodes::{Identity, Table};
use self::links::Keeper;
pub use self::links::Objects;
use self::resolve::{Mount, Mounts, raise_descriptor_limit};
use crate::options::Live;
use crate::users::{Share, Users};
use dio::credentials::Credentials;

/// The number by which the kernel knows an inode of a mount; 1 is the root. No number is ever given to a second inode.
pub type InodeId = u64;

/// The root of every mount.
pub const ROOT: InodeId = 1;

/// Who asks: credentials of the process behind a request.
#[derive(Debug, Clone, Copy)]
pub struct Caller {
    /// User for file accesses.
    pub uid: u32,
    /// Group for file accesses.
    pub gid: u32,
    /// Process (thread) number, 0 where it is not visible from here.
    pub pid: u32,
}

/// An inode that was looked up; the kernel holds it until it says `forget`.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its number in this mount.
    pub inode: InodeId,
    /// Distinguishes two inodes that had the same number one after the other; there are none, so it is 0.
    pub generation: u64,
    /// Its attributes. `st_ino` is unique in the mount: it is that of the source, but on file systems that are mounted
    /// below the source it has an index of the file system in its upper bits.
    pub stat: Stat,
}

/// A time to set.
#[derive(Debug, Clone, Copy)]
pub enum Time {
    /// That of the server when it comes to it.
    Now,
    /// This one.
    At(SystemTime),
}

/// Attributes to change.
#[derive(Debug, Clone, Copy, Default)]
pub struct Changes {
    /// Permission bits.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Access time.
    pub accessed: Option<Time>,
    /// Modification time.
    pub modified: Option<Time>,
}

impl Changes {
    /// Whether nothing is to be changed.
    pub fn is_empty(&self) -> bool {
        let Changes { mode, uid, gid, accessed, modified } = self;
        mode.or(*uid).or(*gid).is_none() && accessed.or(*modified).is_none()
    }
}

/// One name in a directory.
#[derive(Debug, Clone)]
pub struct Name {
    /// The name; `.` and `..` among them.
    pub name: OsString,
    /// `d_type` of `getdents64(2)`.
    pub kind: FileType,
    /// Its inode number, as `st_ino` of [`Entry::stat`]; of a mount point the number of what is covered.
    pub number: u64,
    /// Where reading goes on behind it.
    pub next: u64,
}

/// How a tree is served.
#[derive(Debug, Clone)]
pub struct How {
    /// What is created belongs to its creator: the server takes on the caller's identity for it. Only a server with
    /// all privileges can; one without serves its own user.
    pub act_as_callers: bool,
    /// `limit`, of which inodes take up to [`SHARE`]; it may change.
    pub settings: Live,
    /// What users hold of the server's descriptors: open directories, and files that have lost their last name.
    pub(crate) descriptors: Arc<Users>,
}

/// Inodes take up to this part of [`crate::Settings::limit`].
pub const SHARE: u64 = 4;

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

/// What the mount forbids that serves the tree, asked when it matters: it may be mounted anew with other flags.
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
    /// Those of `fstat(2)` and `open(2)`, `ENOTDIR`, `EACCES` if the directory may not be read, `ENOENT` if `/proc` is not
    /// mounted; `EOPNOTSUPP` for a file system of the kernel's own (`/proc`, `/sys`), if others are to be served.
    pub fn new(source: OwnedFd, how: How) -> Result<Names> {
        Names::with(source, how, Limits::default())
    }

    fn with(source: OwnedFd, how: How, limits: Limits) -> Result<Names> {
        let place = openat(&source, c".", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        if how.act_as_callers && dio::names::is_of_the_kernel(&place) {
            return Err(Errno::OPNOTSUPP);
        }
        let process = resolve::own_descriptors()?;
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

    /// Tells the `st_dev` of the mount that serves this tree, and how to find out what that mount forbids. Where the mount
    /// point is itself below the source, what it covers is shown there instead of the mount in the mount.
    pub fn served_by(&self, device: u64, forbidden: impl Fn() -> Forbidden + Send + Sync + 'static) {
        self.own_device.store(device, Ordering::Relaxed);
        // It is told once.
        let _ = self.forbidden_by_own.set(AskForbidden(Box::new(forbidden)));
    }

    /// Looks a name up, and counts that the kernel was told of what is found. `.` is any inode itself and `..` the
    /// directory where it was last found, for a kernel that was given a handle of it (`FUSE_EXPORT_SUPPORT`).
    ///
    /// # Errors
    /// `ENOENT`, also above the root, `ESTALE` if the directory is gone, `EAGAIN` if its owner holds a lease on what may be
    /// a striped file, those of `open(2)`.
    pub fn lookup(&self, parent: InodeId, name: &OsStr) -> Result<Entry> {
        match name.as_encoded_bytes() {
            b"." => return self.again(parent),
            b".." => {
                let above = self.shared.lock().table.above(parent)?;
                return self.again(above);
            }
            _ => resolve::check(name)?,
        }
        let directory = self.descriptor(parent)?;
        let found = self.find(&directory, self.mount_of(parent)?, name)?;
        Ok(self.enter(found, parent, name))
    }

    /// A known inode, looked up once more without a name.
    fn again(&self, inode: InodeId) -> Result<Entry> {
        let stat = self.stat(inode)?;
        self.shared.lock().table.count(inode)?;
        Ok(Entry { inode, generation: 0, stat })
    }

    /// Whether the kernel was told within the last `time` of what a directory has by this name.
    pub fn was_told(&self, directory: InodeId, name: &Name, time: Duration) -> bool {
        let mut state = self.shared.lock();
        state.table.tick(self.now());
        let Ok(above) = state.table.get(directory) else { return false };
        let key = above.identity.key_below(name.number, name.kind);
        let milliseconds = u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
        state.table.was_told(&key, directory, &name.name, milliseconds)
    }

    /// For the table.
    fn now(&self) -> u32 {
        self.began.elapsed().as_millis() as u32
    }

    /// The kernel forgets `count` lookups of an inode.
    pub fn forget(&self, inode: InodeId, count: u64) {
        let mut state = self.shared.lock();
        state.table.forget(inode, count);
        let unused = state.release_gone();
        drop(state);
        drop(unused);
    }

    /// Attributes of an inode; `st_ino` as in [`Entry::stat`].
    ///
    /// # Errors
    /// `ESTALE` if it is gone, `EAGAIN` if its owner holds a lease on what may be a striped file, those of `fstat(2)`.
    pub fn stat(&self, inode: InodeId) -> Result<Stat> {
        let place = self.descriptor(inode)?;
        let stat = fstat(&*place)?;
        let mut stat = resolve::attributes_of_contents(&place, stat)?;
        let mut state = self.shared.lock();
        let mount = state.table.get(inode)?.identity.mount;
        state.mounts.show(&mut stat, mount);
        Ok(stat)
    }

    /// The path by which an inode was last looked up, relative to the source; empty for the root. `None` if that is not
    /// known any more.
    pub fn path(&self, inode: InodeId) -> Option<PathBuf> {
        self.shared.lock().table.path(inode)
    }

    /// Inodes that the kernel holds or that are above one that it holds, and the bytes that their records take.
    pub fn held(&self) -> (usize, u64) {
        let state = self.shared.lock();
        (state.table.len(), state.table.bytes())
    }

    /// Has the kernel asked to forget names, the least used first, when there are too many inodes for the limit on memory.
    /// `ask` is called on a thread of its own, without a lock held; it may ignore a name (of a file that is open, say). It
    /// can be set once.
    pub fn forget_through(&self, ask: impl Fn(&Leaf) + Send + Sync + 'static) {
        self.shared.set_ask(Box::new(ask));
    }

    /// Opens an inode, a regular file or a directory, anew and by the server's own rights. `O_CREAT`, `O_EXCL`,
    /// `O_NOFOLLOW`, `O_APPEND` and `O_NOCTTY` are left out.
    ///
    /// # Errors
    /// `ESTALE` if it is gone, `EACCES` where the server may not, `EINVAL` for what is neither file nor directory, those
    /// of `open(2)`.
    pub fn open(&self, inode: InodeId, flags: OFlags) -> Result<OwnedFd> {
        let kind = self.shared.lock().table.get(inode)?.identity.kind;
        // Opening a device or a pipe does things, and may wait for ever.
        if !matches!(kind, FileType::RegularFile | FileType::Directory) {
            return Err(Errno::INVAL);
        }
        let place = self.descriptor(inode)?;
        self.or_with_fewer_descriptors(|| self.reopen_place(&place, flags))
    }

    /// As [`Names::open`], for a program, which may have come by a name that the kernel still believes although the file was
    /// removed or replaced beside the mount: what it would write to a file without a name would be lost. The kernel looks the
    /// name up again then (`do_filp_open`, fs/namei.c). A file that has lost its last name below the mount, or never had one,
    /// has none to be found by, so it is meant.
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

    /// What was found is in the table, looked up once more.
    fn enter(&self, found: resolve::Found, parent: InodeId, name: &OsStr) -> Entry {
        let resolve::Found { place, mut stat, mount, .. } = found;
        let inode = match self.enter_open(&mut stat, mount, parent, name) {
            Some(known) => known,
            None => {
                let identity = self.identity(&place, &stat, mount);
                self.shared.lock().mounts.show(&mut stat, mount);
                self.enter_identity(identity, place, parent, name)
            }
        };
        Entry { inode, generation: 0, stat }
    }

    /// A new inode without a name is in the table, pinned until it has one.
    fn enter_unnamed(&self, found: resolve::Found, share: Share) -> Entry {
        let resolve::Found { place, mut stat, mount, .. } = found;
        let identity = self.identity(&place, &stat, mount);
        let place = Arc::new(place);
        let mut state = self.shared.lock();
        state.mounts.show(&mut stat, mount);
        let inode = state.table.enter_unnamed(identity);
        let unused = state.release_gone();
        state.is_nameless(inode, &place, Some(share));
        drop(state);
        drop(unused);
        Entry { inode, generation: 0, stat }
    }

    /// The short way for an inode of which a place is open: as long as it is, no other has its number. Then `stat` becomes what
    /// the mount shows of it.
    fn enter_open(&self, stat: &mut Stat, mount: u32, parent: InodeId, name: &OsStr) -> Option<InodeId> {
        let mut state = self.shared.lock();
        let key = state.mounts.key(stat, mount);
        let inode = state.table.find(&key).filter(|inode| state.descriptors.get(*inode).is_some())?;
        state.named_again(inode);
        state.table.tick(self.now());
        state.table.visit(inode, parent, name);
        state.mounts.show(stat, mount);
        let unused = state.release_gone();
        drop(state);
        drop(unused);
        Some(inode)
    }

    fn enter_identity(&self, identity: Identity, place: OwnedFd, parent: InodeId, name: &OsStr) -> InodeId {
        let mut state = self.shared.lock();
        state.table.tick(self.now());
        let inode = state.table.enter(identity, parent, name);
        let unused = (state.release_gone(), state.descriptors.keep(inode, Arc::new(place)));
        let bytes = state.table.bytes();
        drop(state);
        drop(unused);
        self.shared.grew_to(bytes);
        inode
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        self.shared.end();
    }
}

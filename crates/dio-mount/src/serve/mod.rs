//! Requests of the kernel, translated into calls of the rooms below; nothing is decided here.

mod attributes;

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fuser::{
    AccessFlags, BsdFileFlags, CopyFileRangeFlags, FileAttr, FileHandle, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request,
    TimeOrNow, WriteFlags,
};
use rustix::fs::{Access, OFlags, Stat, XattrFlags};
use rustix::io::{Errno, Result};

use crate::file::{Files, How};
use crate::names::{Changes, Entry, InodeId, Names};
use crate::options::{Live, Mode};
use crate::stats::{Operation, Stats, Timer};
use attributes::{attributes, caller, errno, kind, time_to_set};

/// Largest write, and largest read, of one request.
const LARGEST: u32 = 1 << 20;

/// Requests that the kernel may have under way without a waiting program (read-ahead, asynchronous direct I/O).
const BACKGROUND: u16 = 64;

/// One mount as the kernel sees it.
#[derive(Debug)]
pub(crate) struct Mount {
    pub(crate) names: Arc<Names>,
    pub(crate) files: Arc<Files>,
    pub(crate) stats: Arc<Stats>,
    pub(crate) live: Live,
    /// How long the kernel may believe names and attributes.
    pub(crate) remember: Duration,
    /// Whether the kernel may read, write and map files of the source by itself.
    pub(crate) passthrough: bool,
}

/// Gives `$reply` what `$result` holds, or the error, which is counted.
macro_rules! answer {
    ($timer:ident, $reply:ident, $result:expr, $good:pat => $give:expr) => {
        match $result {
            Ok($good) => $give,
            Err(error) => {
                $timer.fail(error);
                $reply.error(errno(error));
            }
        }
    };
}

impl Mount {
    /// The attributes of an inode, with the bytes that are acknowledged and not yet in the source.
    fn stat(&self, inode: InodeId) -> Result<Stat> {
        self.names.stat(inode).map(|stat| self.complete(inode, stat))
    }

    fn complete(&self, inode: InodeId, mut stat: Stat) -> Stat {
        if let Some(size) = self.files.size_of(inode) {
            stat.st_size = stat.st_size.max(size as i64);
        }
        stat
    }

    fn attributes(&self, entry: &Entry) -> FileAttr {
        attributes(entry.inode, &self.complete(entry.inode, entry.stat))
    }

    fn give_entry(&self, mut timer: Timer<'_>, reply: ReplyEntry, result: Result<Entry>) {
        answer!(timer, reply, result, entry => {
            reply.entry(&self.remember, &self.attributes(&entry), Generation(entry.generation));
        });
    }

    /// The path of an inode, and the mode that the rules give it by that.
    fn path_and_mode(&self, inode: InodeId) -> (PathBuf, Mode) {
        let settings = self.live.get();
        let path = self.names.path(inode).unwrap_or_default();
        let mode = settings.rules.mode_of(&path);
        (path, mode)
    }
}

fn flags_of(flags: i32) -> OFlags {
    OFlags::from_bits_retain(flags as u32)
}

fn empty(mut timer: Timer<'_>, reply: ReplyEmpty, result: Result<()>) {
    answer!(timer, reply, result, () => reply.ok());
}

impl Filesystem for Mount {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let wanted = [
            InitFlags::FUSE_ASYNC_READ,
            InitFlags::FUSE_ASYNC_DIO,
            InitFlags::FUSE_ATOMIC_O_TRUNC,
            InitFlags::FUSE_EXPORT_SUPPORT,
            InitFlags::FUSE_DONT_MASK,
            InitFlags::FUSE_POSIX_ACL,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_READDIRPLUS_AUTO,
            InitFlags::FUSE_CACHE_SYMLINKS,
            InitFlags::FUSE_AUTO_INVAL_DATA,
            InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
        ];
        for flag in wanted {
            // A kernel that lacks one does without: each is an improvement, none is needed.
            let _ = config.add_capabilities(flag);
        }
        if self.passthrough {
            self.passthrough =
                config.add_capabilities(InitFlags::FUSE_PASSTHROUGH).is_ok() && config.set_max_stack_depth(1).is_ok();
        }
        let _ = config.set_max_write(LARGEST);
        let _ = config.set_max_background(BACKGROUND);
        if let Err(most) = config.set_max_readahead(LARGEST) {
            let _ = config.set_max_readahead(most);
        }
        Ok(())
    }

    fn destroy(&mut self) {
        self.files.settle_all();
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let timer = self.stats.begin(Operation::Lookup);
        self.give_entry(timer, reply, self.names.lookup(parent.0, name));
    }

    fn forget(&self, _: &Request, inode: INodeNo, count: u64) {
        let _timer = self.stats.begin(Operation::Forget);
        self.names.forget(inode.0, count);
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let mut timer = self.stats.begin(Operation::Getattr);
        answer!(timer, reply, self.stat(inode.0), stat => reply.attr(&self.remember, &attributes(inode.0, &stat)));
    }

    fn setattr(
        &self,
        _: &Request,
        inode: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _: Option<SystemTime>,
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let mut timer = self.stats.begin(Operation::Setattr);
        let (accessed, modified) = (accessed.map(time_to_set), modified.map(time_to_set));
        let changes = Changes { mode, uid, gid, accessed, modified };
        let change = || {
            if let Some(size) = size {
                let open = |flags| self.names.open(inode.0, flags);
                self.files.set_size(inode.0, handle.map(|handle| handle.0), size, &open)?;
            }
            if modified.is_some() {
                // What is written later would set the time anew.
                self.files.settle(inode.0);
            }
            self.names.change(inode.0, &changes)?;
            self.stat(inode.0)
        };
        answer!(timer, reply, change(), stat => reply.attr(&self.remember, &attributes(inode.0, &stat)));
    }

    fn readlink(&self, _: &Request, inode: INodeNo, reply: ReplyData) {
        let mut timer = self.stats.begin(Operation::Readlink);
        answer!(timer, reply, self.names.read_link(inode.0), target => reply.data(&target));
    }

    fn mknod(
        &self,
        by: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        let timer = self.stats.begin(Operation::Mknod);
        let made = self.names.make_node(caller(by), parent.0, name, mode, umask, device);
        self.give_entry(timer, reply, made);
    }

    fn mkdir(&self, by: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, reply: ReplyEntry) {
        let timer = self.stats.begin(Operation::Mkdir);
        self.give_entry(timer, reply, self.names.make_directory(caller(by), parent.0, name, mode, umask));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let timer = self.stats.begin(Operation::Unlink);
        empty(timer, reply, self.names.unlink(parent.0, name));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let timer = self.stats.begin(Operation::Rmdir);
        empty(timer, reply, self.names.remove_directory(parent.0, name));
    }

    fn symlink(&self, by: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let timer = self.stats.begin(Operation::Symlink);
        self.give_entry(timer, reply, self.names.symlink(caller(by), parent.0, name, target));
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: fuser::RenameFlags,
        reply: ReplyEmpty,
    ) {
        let timer = self.stats.begin(Operation::Rename);
        let flags = rustix::fs::RenameFlags::from_bits_retain(flags.bits());
        empty(timer, reply, self.names.rename(parent.0, name, new_parent.0, new_name, flags));
    }

    fn link(&self, _: &Request, inode: INodeNo, new_parent: INodeNo, new_name: &OsStr, reply: ReplyEntry) {
        let timer = self.stats.begin(Operation::Link);
        self.give_entry(timer, reply, self.names.link(inode.0, new_parent.0, new_name));
    }

    fn open(&self, _: &Request, inode: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let mut timer = self.stats.begin(Operation::Open);
        let open = |flags| self.names.open(inode.0, flags);
        let back = |file: std::os::fd::BorrowedFd<'_>| reply.open_backing(file);
        let (path, mode) = self.path_and_mode(inode.0);
        let opened = self.files.open(inode.0, &path, &open, flags_of(flags.0), mode, &back);
        answer!(timer, reply, opened, opened => match opened.backing {
            Some(backing) => reply.opened_passthrough(FileHandle(opened.handle), opened.flags, &backing),
            None => reply.opened(FileHandle(opened.handle), opened.flags),
        });
    }

    fn create(
        &self,
        by: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let mut timer = self.stats.begin(Operation::Create);
        let flags = flags_of(flags);
        let create = || {
            let made = self.names.create(caller(by), parent.0, name, mode, umask, Files::creating(flags));
            let (entry, file): (Entry, OwnedFd) = made?;
            let back = |file: std::os::fd::BorrowedFd<'_>| reply.open_backing(file);
            let (path, mode) = self.path_and_mode(entry.inode);
            let opened = self.files.adopt(entry.inode, &path, file, flags, mode, &back);
            // The kernel holds no inode of which it was not told.
            let opened = opened.inspect_err(|_| self.names.forget(entry.inode, 1))?;
            Ok((entry, opened))
        };
        answer!(timer, reply, create(), (entry, opened) => {
            let (attributes, generation) = (self.attributes(&entry), Generation(entry.generation));
            let (time, handle) = (&self.remember, FileHandle(opened.handle));
            match opened.backing {
                Some(backing) => {
                    reply.created_passthrough(time, &attributes, generation, handle, opened.flags, &backing);
                }
                None => reply.created(time, &attributes, generation, handle, opened.flags),
            }
        });
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut timer = self.stats.begin(Operation::Read);
        // What the kernel reads into its own cache belongs to nobody.
        let cache = owner.is_none();
        self.files.read(handle.0, offset, size, cache, |bytes| {
            answer!(timer, reply, bytes, bytes => reply.data(bytes));
        });
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        bytes: &[u8],
        flags: WriteFlags,
        open: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let mut timer = self.stats.begin(Operation::Write);
        let how = How {
            flags: flags_of(open.0),
            cache: flags.contains(WriteFlags::FUSE_WRITE_CACHE),
            kill_privileges: flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID),
        };
        answer!(timer, reply, self.files.write(handle.0, offset, bytes, how), written => reply.written(written));
    }

    fn flush(&self, _: &Request, _: INodeNo, handle: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        let timer = self.stats.begin(Operation::Flush);
        empty(timer, reply, self.files.flush(handle.0));
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        let _timer = self.stats.begin(Operation::Release);
        self.files.release(handle.0);
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, handle: FileHandle, data_only: bool, reply: ReplyEmpty) {
        let timer = self.stats.begin(Operation::Sync);
        empty(timer, reply, self.files.sync(handle.0, data_only));
    }

    fn opendir(&self, _: &Request, inode: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let mut timer = self.stats.begin(Operation::Directory);
        answer!(timer, reply, self.names.open_directory(inode.0), handle => {
            reply.opened(FileHandle(handle), FopenFlags::empty());
        });
    }

    fn readdir(&self, _: &Request, _: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let mut timer = self.stats.begin(Operation::Readdir);
        let read = self.names.read_directory(handle.0, offset, |name| {
            reply.add(INodeNo(name.number), name.next, kind(name.kind), &name.name)
        });
        answer!(timer, reply, read, () => reply.ok());
    }

    fn readdirplus(&self, _: &Request, inode: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectoryPlus) {
        let mut timer = self.stats.begin(Operation::Readdir);
        let read = self.names.read_directory(handle.0, offset, |name| self.add(inode.0, &name, &mut reply));
        answer!(timer, reply, read, () => reply.ok());
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.names.close_directory(handle.0);
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, handle: FileHandle, data_only: bool, reply: ReplyEmpty) {
        let timer = self.stats.begin(Operation::Directory);
        empty(timer, reply, self.names.sync_directory(handle.0, data_only));
    }

    fn statfs(&self, _: &Request, inode: INodeNo, reply: ReplyStatfs) {
        let mut timer = self.stats.begin(Operation::Statfs);
        answer!(timer, reply, self.names.statfs(inode.0), fs => {
            let (unit, length) = (fs.f_frsize as u32, fs.f_namemax as u32);
            reply.statfs(fs.f_blocks, fs.f_bfree, fs.f_bavail, fs.f_files, fs.f_ffree, fs.f_bsize as u32, length, unit);
        });
    }

    fn setxattr(&self, _: &Request, inode: INodeNo, name: &OsStr, value: &[u8], flags: i32, _: u32, reply: ReplyEmpty) {
        let timer = self.stats.begin(Operation::Setxattr);
        empty(timer, reply, self.names.set_xattr(inode.0, name, value, XattrFlags::from_bits_retain(flags as u32)));
    }

    fn getxattr(&self, _: &Request, inode: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let timer = self.stats.begin(Operation::Getxattr);
        sized(timer, reply, size, self.names.get_xattr(inode.0, name));
    }

    fn listxattr(&self, by: &Request, inode: INodeNo, size: u32, reply: ReplyXattr) {
        let timer = self.stats.begin(Operation::Getxattr);
        sized(timer, reply, size, self.names.list_xattr(caller(by), inode.0));
    }

    fn removexattr(&self, _: &Request, inode: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let timer = self.stats.begin(Operation::Setxattr);
        empty(timer, reply, self.names.remove_xattr(inode.0, name));
    }

    fn access(&self, by: &Request, inode: INodeNo, mask: AccessFlags, reply: ReplyEmpty) {
        let timer = self.stats.begin(Operation::Access);
        empty(timer, reply, self.names.access(caller(by), inode.0, Access::from_bits_retain(mask.bits() as u32)));
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let timer = self.stats.begin(Operation::Fallocate);
        empty(timer, reply, self.files.allocate(handle.0, mode, offset, length));
    }

    fn lseek(&self, _: &Request, _: INodeNo, handle: FileHandle, offset: i64, whence: i32, reply: ReplyLseek) {
        let mut timer = self.stats.begin(Operation::Seek);
        let sought = u64::try_from(offset).map_err(|_| Errno::NXIO);
        let sought = sought.and_then(|offset| self.files.seek(handle.0, offset, whence));
        answer!(timer, reply, sought, offset => reply.offset(offset as i64));
    }

    fn copy_file_range(
        &self,
        _: &Request,
        _: INodeNo,
        from: FileHandle,
        from_offset: u64,
        _: INodeNo,
        to: FileHandle,
        to_offset: u64,
        length: u64,
        _: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let mut timer = self.stats.begin(Operation::CopyRange);
        // The answer has 32 bits.
        let length = length.min(u64::from(u32::MAX) & !0xfff);
        let copied = self.files.copy_range(from.0, from_offset, to.0, to_offset, length);
        answer!(timer, reply, copied, copied => reply.written(copied as u32));
    }
}

impl Mount {
    /// One name with its attributes; the kernel looks it up by this, except `.` and `..`. True when there is no room for it.
    fn add(&self, directory: InodeId, name: &crate::names::Name, reply: &mut ReplyDirectoryPlus) -> bool {
        if name.name == "." || name.name == ".." {
            // The kernel takes only the name of these two.
            let attributes = attributes::nothing(name.number);
            let (number, generation) = (INodeNo(name.number), Generation(0));
            return reply.add(number, name.next, &name.name, &Duration::ZERO, &attributes, generation);
        }
        let Ok(entry) = self.names.lookup(directory, &name.name) else {
            // Gone since the directory was read.
            return false;
        };
        let (attributes, generation) = (self.attributes(&entry), Generation(entry.generation));
        let full = reply.add(INodeNo(entry.inode), name.next, &name.name, &self.remember, &attributes, generation);
        if full {
            self.names.forget(entry.inode, 1);
        }
        full
    }
}

fn sized(mut timer: Timer<'_>, reply: ReplyXattr, size: u32, value: Result<Vec<u8>>) {
    answer!(timer, reply, value, value => match size as usize {
        0 => reply.size(value.len() as u32),
        room if room < value.len() => reply.error(errno(Errno::RANGE)),
        _ => reply.data(&value),
    });
}

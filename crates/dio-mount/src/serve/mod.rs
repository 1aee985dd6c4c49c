//! Translates requests of the kernel into calls of the modules below; decides nothing itself.
//!
//! Advisory locks (`flock(2)`, `fcntl(2)`) stay in the kernel. There, a program that waits for a
//! lock can be interrupted, and the locks apply to all programs below the mount. Programs that use
//! the source without the mount do not see them.

mod attributes;
mod flags;
pub(crate) mod idle_poll;
mod listing;
mod mount;
mod transport;

use std::ffi::OsStr;
use std::io;
use std::path::Path;

use dio_fuse::{
    AccessFlags, CopyFileRangeFlags, FileHandle, Filesystem, FopenFlags, INodeNo, InitFlags, Ioctl,
    KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyCopy, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen,
    ReplyStatfs, ReplyStatx, ReplyWrite, ReplyXattr, Request, SetxattrFlags, Statx, StatxMask,
    WriteFlags,
};
use rustix::fs::{Access, OFlags, XattrFlags};
use rustix::io::Errno;

use crate::file::{Wanted, WriteProperties};
use crate::names::{Changes, NameCache};
use crate::stats::{Operation, Wait};
use attributes::{attributes, caller, kind, time_to_set};
use idle_poll::IdlePoll;
pub(crate) use mount::Mount;
use mount::{answer, empty, sized};

/// Most requests in progress for which no program waits (read-ahead, asynchronous direct I/O).
const BACKGROUND: u16 = 64;

fn flags_of(flags: i32) -> OFlags {
    OFlags::from_bits_retain(flags as u32)
}

impl Filesystem for Mount {
    fn answer(&self, caller: u32) -> impl Sized {
        if let Some(idle_poll) = &self.idle_poll {
            idle_poll.note();
        }
        dio::stripe::begin_request(caller)
    }

    fn init(&mut self, _: &Request<'_>, config: &mut KernelConfig) -> io::Result<()> {
        let wanted = [
            InitFlags::FUSE_ASYNC_READ,
            InitFlags::FUSE_ASYNC_DIO,
            InitFlags::FUSE_EXPORT_SUPPORT,
            InitFlags::FUSE_DONT_MASK,
            InitFlags::FUSE_POSIX_ACL,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_READDIRPLUS_AUTO,
            InitFlags::FUSE_CACHE_SYMLINKS,
            InitFlags::FUSE_AUTO_INVAL_DATA,
            InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
            // Without it the kernel asks for `security.capability` before each write.
            InitFlags::FUSE_HANDLE_KILLPRIV_V2,
        ];
        // FUSE_ATOMIC_O_TRUNC is missing: with it, the file of a running program would be truncated
        // before the kernel refuses with ETXTBSY.
        for flag in wanted {
            // Each of these is an improvement that a mount can do without, if the kernel lacks it.
            let _ = config.add_capabilities(flag);
        }
        if self.passthrough {
            self.passthrough = config.add_capabilities(InitFlags::FUSE_PASSTHROUGH).is_ok()
                && config.set_max_stack_depth(1).is_ok();
        }
        let _ = config.set_max_write(transport::largest_request(self.threads, &self.live.get()));
        let _ = config.set_max_background(BACKGROUND);
        if let Err(most) = config.set_max_readahead(transport::READ_AHEAD_MAX) {
            let _ = config.set_max_readahead(most);
        }
        let by_rings = transport::agree_on_rings(self.rings, self.threads, config)?;
        self.stats.describe("requests", if by_rings { "io_uring" } else { "device" });
        self.idle_poll = IdlePoll::new(self.idle_polling)?;
        if self.idle_poll.is_some() {
            self.stats.describe("idle_processors", "poll");
        }
        Ok(())
    }

    fn destroy(&mut self) {
        self.files.settle_all();
    }

    fn queued(&self) {
        self.stats.was_blocked(Wait::Queue);
    }

    fn lookup(&self, _: &Request<'_>, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let timer = self.stats.begin(Operation::Lookup);
        self.give_entry(timer, reply, || self.names.lookup(parent.0, name));
    }

    fn forget(&self, _: &Request<'_>, inode: INodeNo, count: u64) {
        let _timer = self.stats.begin(Operation::Forget);
        self.names.forget(inode.0, count);
    }

    fn getattr(&self, _: &Request<'_>, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let mut timer = self.stats.begin(Operation::Getattr);
        answer!(timer, reply, self.stat(inode.0), stat =>
            reply.attr(&self.believed(&stat), &attributes(&stat))
        );
    }

    fn statx(
        &self,
        _: &Request<'_>,
        inode: INodeNo,
        _: Option<FileHandle>,
        _: u32,
        _: StatxMask,
        reply: ReplyStatx,
    ) {
        let mut timer = self.stats.begin(Operation::Getattr);
        answer!(timer, reply, self.stat(inode.0), stat => {
            let (mut attr, mut mask) = (attributes(&stat), StatxMask::BASIC_STATS);
            if let Some(birth) = self.names.birth(inode.0) {
                attr.crtime = birth;
                mask |= StatxMask::BTIME;
            }
            let (attributes, attributes_mask) = Default::default();
            reply.statx(&self.believed(&stat), &Statx { attr, mask, attributes, attributes_mask });
        });
    }

    fn setattr(
        &self,
        by: &Request<'_>,
        inode: INodeNo,
        changes: &dio_fuse::Changes,
        reply: ReplyAttr,
    ) {
        let mut timer = self.stats.begin(Operation::Setattr);
        let (accessed, modified) = (changes.atime.map(time_to_set), changes.mtime.map(time_to_set));
        let (size, handle, kill) = (changes.size, changes.fh, changes.kill_suidgid);
        let changes =
            Changes { mode: changes.mode, uid: changes.uid, gid: changes.gid, accessed, modified };
        let change = || {
            if size.is_none() && changes.is_empty() {
                self.names.take_privileges(caller(by), inode.0, self.files.is_written(inode.0))?;
            }
            if let Some(size) = size {
                // For a change of the owner the file system below clears them.
                if kill {
                    self.names.clear_set_id(inode.0)?;
                }
                let open = |flags| self.names.open(inode.0, flags);
                self.files.set_size(inode.0, handle.map(|handle| handle.0), size, &open)?;
            }
            if modified.is_some() || changes.mode.is_some() {
                // Pending writes come first: a later write would set the time again, and might
                // clear set-id bits.
                self.files.settle(inode.0);
            }
            self.names.change(caller(by), inode.0, &changes)?;
            self.stat(inode.0)
        };
        answer!(timer, reply, change(), stat =>
            reply.attr(&self.believed(&stat), &attributes(&stat))
        );
    }

    fn readlink(&self, _: &Request<'_>, inode: INodeNo, reply: ReplyData) {
        let mut timer = self.stats.begin(Operation::Readlink);
        answer!(timer, reply, self.names.read_link(inode.0), target => reply.data(&target));
    }

    fn mknod(
        &self,
        by: &Request<'_>,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        let timer = self.stats.begin(Operation::Mknod);
        self.give_entry(timer, reply, || {
            self.names.make_node(caller(by), parent.0, name, mode, umask, device)
        });
    }

    fn mkdir(
        &self,
        by: &Request<'_>,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let timer = self.stats.begin(Operation::Mkdir);
        self.give_entry(timer, reply, || {
            self.names.make_directory(caller(by), parent.0, name, mode, umask)
        });
    }

    fn unlink(&self, by: &Request<'_>, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let timer = self.stats.begin(Operation::Unlink);
        empty(timer, reply, self.names.unlink(caller(by), parent.0, name));
    }

    fn rmdir(&self, by: &Request<'_>, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let timer = self.stats.begin(Operation::Rmdir);
        empty(timer, reply, self.names.remove_directory(caller(by), parent.0, name));
    }

    fn symlink(
        &self,
        by: &Request<'_>,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let timer = self.stats.begin(Operation::Symlink);
        self.give_entry(timer, reply, || self.names.symlink(caller(by), parent.0, name, target));
    }

    fn rename(
        &self,
        by: &Request<'_>,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: dio_fuse::RenameFlags,
        reply: ReplyEmpty,
    ) {
        let timer = self.stats.begin(Operation::Rename);
        let flags = rustix::fs::RenameFlags::from_bits_retain(flags.bits());
        empty(
            timer,
            reply,
            self.names.rename(caller(by), parent.0, name, new_parent.0, new_name, flags),
        );
    }

    fn link(
        &self,
        by: &Request<'_>,
        inode: INodeNo,
        new_parent: INodeNo,
        new_name: &OsStr,
        reply: ReplyEntry,
    ) {
        let timer = self.stats.begin(Operation::Link);
        self.give_entry(timer, reply, || {
            self.names.link(caller(by), inode.0, new_parent.0, new_name)
        });
    }

    fn open(
        &self,
        by: &Request<'_>,
        inode: INodeNo,
        flags: OpenFlags,
        kill: bool,
        reply: ReplyOpen,
    ) {
        let mut timer = self.stats.begin(Operation::Open);
        let open = |flags| self.names.open_for_program(inode.0, flags);
        let back = |file: std::os::fd::BorrowedFd<'_>| reply.open_backing(file);
        let (path, mode) = self.path_and_mode(inode.0);
        let cleared = if kill { self.names.clear_set_id(inode.0) } else { Ok(()) };
        let flags = flags_of(flags.0);
        let wanted = Wanted { ino: inode.0, path: &path, user: by.uid() };
        let opened = cleared.and_then(|()| self.files.open(&wanted, &open, flags, mode, &back));
        answer!(timer, reply, opened, opened => match opened.backing {
            Some(backing) =>
                reply.opened_passthrough(FileHandle(opened.handle), opened.flags, &backing),
            None => reply.opened(FileHandle(opened.handle), opened.flags),
        });
    }

    fn create(
        &self,
        by: &Request<'_>,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: OpenFlags,
        // A file that is created here is new, and keeps the bits it is given.
        _kill: bool,
        reply: ReplyCreate,
    ) {
        self.give_created(by, reply, flags_of(flags.0), |flags| {
            self.names.create(caller(by), parent.0, name, mode, umask, flags)
        });
    }

    fn tmpfile(
        &self,
        by: &Request<'_>,
        parent: INodeNo,
        mode: u32,
        umask: u32,
        flags: OpenFlags,
        reply: ReplyCreate,
    ) {
        self.give_created(by, reply, flags_of(flags.0), |flags| {
            self.names.create_unnamed(caller(by), parent.0, mode, umask, flags)
        });
    }

    fn read(
        &self,
        _: &Request<'_>,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut timer = self.stats.begin(Operation::Read);
        // Only reads into the kernel's page cache have no lock owner.
        let cache = owner.is_none();
        self.files.read(handle.0, offset, size, cache, |bytes| {
            answer!(timer, reply, bytes, bytes => reply.data(bytes));
        });
    }

    fn write(
        &self,
        _: &Request<'_>,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        bytes: &[u8],
        flags: WriteFlags,
        open: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let mut timer = self.stats.begin_long(Operation::Write);
        let how = WriteProperties {
            flags: flags_of(open.0),
            cache: flags.contains(WriteFlags::FUSE_WRITE_CACHE),
            kill_privileges: flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID),
        };
        self.files.write(handle.0, offset, bytes, how, move |written| {
            answer!(timer, reply, written, written => reply.written(written));
        });
    }

    fn flush(
        &self,
        _: &Request<'_>,
        _: INodeNo,
        handle: FileHandle,
        _: LockOwner,
        reply: ReplyEmpty,
    ) {
        let timer = self.stats.begin(Operation::Flush);
        empty(timer, reply, self.files.flush(handle.0));
    }

    fn release(
        &self,
        _: &Request<'_>,
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

    fn fsync(
        &self,
        _: &Request<'_>,
        _: INodeNo,
        handle: FileHandle,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        let timer = self.stats.begin(Operation::Sync);
        empty(timer, reply, self.files.sync(handle.0, data_only));
    }

    fn opendir(&self, by: &Request<'_>, inode: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let mut timer = self.stats.begin(Operation::Directory);
        answer!(timer, reply, self.names.open_directory(caller(by).uid, inode.0), handle => {
            let flags = match self.names.copied(handle, self.remember) {
                NameCache::Never => FopenFlags::empty(),
                NameCache::Anew => FopenFlags::FOPEN_CACHE_DIR,
                NameCache::Still => FopenFlags::FOPEN_CACHE_DIR | FopenFlags::FOPEN_KEEP_CACHE,
            };
            reply.opened(FileHandle(handle), flags);
        });
    }

    fn readdir(
        &self,
        _: &Request<'_>,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let mut timer = self.stats.begin(Operation::Readdir);
        let read = self.names.read_directory(handle.0, offset, |name| {
            reply.add(INodeNo(name.number), name.next, kind(name.kind), &name.name)
        });
        answer!(timer, reply, read, () => reply.ok());
    }

    fn readdirplus(
        &self,
        _: &Request<'_>,
        inode: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let mut timer = self.stats.begin(Operation::Readdir);
        let mut leased = false;
        let read = self.names.read_directory(handle.0, offset, |name| {
            self.add(inode.0, &name, &mut reply, &mut leased)
        });
        answer!(timer, reply, read, () => reply.ok());
    }

    fn releasedir(
        &self,
        _: &Request<'_>,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.names.close_directory(handle.0);
        reply.ok();
    }

    fn fsyncdir(
        &self,
        _: &Request<'_>,
        _: INodeNo,
        handle: FileHandle,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        let timer = self.stats.begin(Operation::Directory);
        empty(timer, reply, self.names.sync_directory(handle.0, data_only));
    }

    fn statfs(&self, _: &Request<'_>, inode: INodeNo, reply: ReplyStatfs) {
        let mut timer = self.stats.begin(Operation::Statfs);
        answer!(timer, reply, self.names.statfs(inode.0), fs => {
            let (unit, length) = (fs.f_frsize as u32, fs.f_namemax as u32);
            reply.statfs(
                fs.f_blocks, fs.f_bfree, fs.f_bavail, fs.f_files, fs.f_ffree, fs.f_bsize as u32,
                length, unit
            );
        });
    }

    fn setxattr(
        &self,
        by: &Request<'_>,
        inode: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: SetxattrFlags,
        reply: ReplyEmpty,
    ) {
        let timer = self.stats.begin(Operation::Setxattr);
        let flags = XattrFlags::from_bits_retain(flags as u32);
        // Pending writes come first: a later write might remove capabilities
        // (`security.capability`).
        self.files.settle(inode.0);
        empty(timer, reply, self.names.set_xattr(caller(by), inode.0, name, value, flags));
    }

    fn getxattr(
        &self,
        _: &Request<'_>,
        inode: INodeNo,
        name: &OsStr,
        size: u32,
        reply: ReplyXattr,
    ) {
        let timer = self.stats.begin(Operation::Getxattr);
        sized(timer, reply, size, self.names.get_xattr(inode.0, name));
    }

    fn listxattr(&self, by: &Request<'_>, inode: INodeNo, size: u32, reply: ReplyXattr) {
        let timer = self.stats.begin(Operation::Getxattr);
        sized(timer, reply, size, self.names.list_xattr(caller(by), inode.0));
    }

    fn removexattr(&self, by: &Request<'_>, inode: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let timer = self.stats.begin(Operation::Setxattr);
        empty(
            timer,
            reply,
            self.names.remove_xattr(caller(by), inode.0, name, self.files.is_written(inode.0)),
        );
    }

    fn access(&self, by: &Request<'_>, inode: INodeNo, mask: AccessFlags, reply: ReplyEmpty) {
        let timer = self.stats.begin(Operation::Access);
        empty(
            timer,
            reply,
            self.names.access(caller(by), inode.0, Access::from_bits_retain(mask.bits())),
        );
    }

    fn fallocate(
        &self,
        by: &Request<'_>,
        inode: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let timer = self.stats.begin(Operation::Fallocate);
        let cleared = self.clear_set_id(by, inode);
        empty(
            timer,
            reply,
            cleared.and_then(|()| self.files.allocate(handle.0, mode, offset, length)),
        );
    }

    fn ioctl(&self, by: &Request<'_>, inode: INodeNo, ioctl: &Ioctl<'_>, reply: ReplyIoctl) {
        self.answer_ioctl(by, inode, ioctl, reply);
    }

    fn lseek(
        &self,
        _: &Request<'_>,
        _: INodeNo,
        handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let mut timer = self.stats.begin(Operation::Seek);
        let sought = u64::try_from(offset).map_err(|_| Errno::NXIO);
        let sought = sought.and_then(|offset| self.files.seek(handle.0, offset, whence));
        answer!(timer, reply, sought, offset => reply.offset(offset as i64));
    }

    fn copy_file_range(
        &self,
        by: &Request<'_>,
        _: INodeNo,
        from: FileHandle,
        from_offset: u64,
        target: INodeNo,
        to: FileHandle,
        to_offset: u64,
        length: u64,
        _: CopyFileRangeFlags,
        reply: ReplyCopy,
    ) {
        let mut timer = self.stats.begin(Operation::CopyRange);
        let length = length.min(reply.bytes_max());
        let cleared = self.clear_set_id(by, target);
        let copied = cleared
            .and_then(|()| self.files.copy_range(from.0, from_offset, to.0, to_offset, length));
        answer!(timer, reply, copied, copied => reply.copied(copied));
    }
}

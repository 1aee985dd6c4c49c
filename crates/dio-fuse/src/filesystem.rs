//! What a file system has to answer.

use std::ffi::OsStr;
use std::io;
use std::path::Path;

use rustix::io::Errno;

use crate::config::KernelConfig;
use crate::flags::{AccessFlags, CopyFileRangeFlags, FopenFlags, RenameFlags, SetxattrFlags, StatxMask, WriteFlags};
use crate::reply::{
    ReplyAttr, ReplyCopy, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry,
    ReplyIoctl, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyStatx, ReplyWrite, ReplyXattr,
};
use crate::request::Request;
use crate::types::{Changes, FileHandle, INodeNo, Ioctl, LockOwner, OpenFlags, RequestId};

/// A file system. Its methods are called from several threads; each gets the right to answer, which may be passed on to
/// another thread. Parameters that are not explained are those of the system call that has the method's name.
///
/// What is not implemented answers `ENOSYS`, which makes the kernel do without and, for some, not ask again; opening
/// succeeds without a handle, closing succeeds.
#[allow(clippy::too_many_arguments)] // The protocol has as many.
pub trait Filesystem: Send + Sync + 'static {
    /// Before everything else: what kernel and server agree on.
    ///
    /// # Errors
    /// The mount fails with it.
    fn init(&mut self, request: &Request<'_>, config: &mut KernelConfig) -> io::Result<()> {
        let _ = (request, config);
        Ok(())
    }

    /// After everything else; also where `init` failed.
    fn destroy(&mut self) {}

    /// The program that waits for request `unique` has got a signal; [`Request::is_interrupted`] is true there, or will be.
    /// There is nothing to answer: whoever makes requests wait wakes them up here, so that they look.
    fn interrupt(&self, unique: RequestId) {
        let _ = unique;
    }

    /// A request has come while all threads were busy, and waits for this one, or another that has become free.
    fn queued(&self) {}

    /// The calling thread answers a request of the thread `caller` from now on, until what this gives is dropped. The number is 0
    /// where that thread cannot be seen from here.
    fn answer(&self, caller: u32) -> impl Sized {
        let _ = caller;
    }

    /// Finds a name. Every entry that is answered, here and elsewhere, counts as one lookup of its inode.
    fn lookup(&self, request: &Request<'_>, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let _ = (request, parent, name);
        reply.error(Errno::NOSYS);
    }

    /// The kernel forgets `count` lookups of an inode. When the mount ends, it forgets all without telling.
    fn forget(&self, request: &Request<'_>, inode: INodeNo, count: u64) {
        let _ = (request, inode, count);
    }

    /// The same for many.
    fn batch_forget(&self, request: &Request<'_>, nodes: &mut dyn Iterator<Item = (INodeNo, u64)>) {
        nodes.for_each(|(inode, count)| self.forget(request, inode, count));
    }

    /// Attributes.
    fn getattr(&self, request: &Request<'_>, inode: INodeNo, fh: Option<FileHandle>, reply: ReplyAttr) {
        let _ = (request, inode, fh);
        reply.error(Errno::NOSYS);
    }

    /// Attributes with what `stat(2)` lacks. `flags` are `AT_STATX_*`, `mask` is what is asked for; more and less may be told.
    fn statx(
        &self,
        request: &Request<'_>,
        inode: INodeNo,
        fh: Option<FileHandle>,
        flags: u32,
        mask: StatxMask,
        reply: ReplyStatx,
    ) {
        let _ = (request, inode, fh, flags, mask);
        reply.error(Errno::NOSYS);
    }

    /// Changes attributes and answers all.
    fn setattr(&self, request: &Request<'_>, inode: INodeNo, changes: &Changes, reply: ReplyAttr) {
        let _ = (request, inode, changes);
        reply.error(Errno::NOSYS);
    }

    /// The target of a symbolic link, without a byte that ends it.
    fn readlink(&self, request: &Request<'_>, inode: INodeNo, reply: ReplyData) {
        let _ = (request, inode);
        reply.error(Errno::NOSYS);
    }

    /// Creates an inode of any type but directory and symbolic link. `rdev` is encoded, see
    /// [`decode_device`](crate::decode_device).
    fn mknod(
        &self,
        request: &Request<'_>,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let _ = (request, parent, name, mode, umask, rdev);
        reply.error(Errno::NOSYS);
    }

    /// Creates a directory.
    fn mkdir(&self, request: &Request<'_>, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, reply: ReplyEntry) {
        let _ = (request, parent, name, mode, umask);
        reply.error(Errno::NOSYS);
    }

    /// Removes a name that is no directory's.
    fn unlink(&self, request: &Request<'_>, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let _ = (request, parent, name);
        reply.error(Errno::NOSYS);
    }

    /// Removes a directory.
    fn rmdir(&self, request: &Request<'_>, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let _ = (request, parent, name);
        reply.error(Errno::NOSYS);
    }

    /// Creates a symbolic link.
    fn symlink(&self, request: &Request<'_>, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let _ = (request, parent, name, target);
        reply.error(Errno::NOSYS);
    }

    /// Moves a name.
    fn rename(
        &self,
        request: &Request<'_>,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let _ = (request, parent, name, new_parent, new_name, flags);
        reply.error(Errno::NOSYS);
    }

    /// Gives an inode one more name; also the first one to what [`Filesystem::tmpfile`] made.
    fn link(&self, request: &Request<'_>, inode: INodeNo, new_parent: INodeNo, new_name: &OsStr, reply: ReplyEntry) {
        let _ = (request, inode, new_parent, new_name);
        reply.error(Errno::NOSYS);
    }

    /// Opens a file. `kill_suidgid`: its set-user-ID and set-group-ID bits are to be cleared with its contents (`O_TRUNC` by a
    /// caller that may not keep them; only with `FUSE_HANDLE_KILLPRIV_V2`).
    fn open(&self, request: &Request<'_>, inode: INodeNo, flags: OpenFlags, kill_suidgid: bool, reply: ReplyOpen) {
        let _ = (request, inode, flags, kill_suidgid);
        reply.opened(FileHandle(0), FopenFlags::empty());
    }

    /// Reads; fewer bytes than `size` mean the end of the file. `flags` are those that the file has now. `lock_owner` is
    /// `None` where the kernel fills its cache.
    fn read(
        &self,
        request: &Request<'_>,
        inode: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        flags: OpenFlags,
        lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let _ = (request, inode, fh, offset, size, flags, lock_owner);
        reply.error(Errno::NOSYS);
    }

    /// Writes. `data` begins at a multiple of [`dio::block::BLOCK_ALIGN`] in memory and is gone when the method returns.
    /// `flags` are those that the file has now, by which this write has come.
    fn write(
        &self,
        request: &Request<'_>,
        inode: INodeNo,
        fh: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let _ = (request, inode, fh, offset, data, write_flags, flags, lock_owner);
        reply.error(Errno::NOSYS);
    }

    /// A descriptor of an open file is closed, perhaps one of several; an error is what `close(2)` answers.
    fn flush(&self, request: &Request<'_>, inode: INodeNo, fh: FileHandle, lock_owner: LockOwner, reply: ReplyEmpty) {
        let _ = (request, inode, fh, lock_owner);
        reply.error(Errno::NOSYS);
    }

    /// Nobody has the file open by this handle any more.
    fn release(
        &self,
        request: &Request<'_>,
        inode: INodeNo,
        fh: FileHandle,
        flags: OpenFlags,
        lock_owner: Option<LockOwner>,
        flush: bool,
        reply: ReplyEmpty,
    ) {
        let _ = (request, inode, fh, flags, lock_owner, flush);
        reply.ok();
    }

    /// Makes what was written durable; `data_only` as `fdatasync(2)`.
    fn fsync(&self, request: &Request<'_>, inode: INodeNo, fh: FileHandle, data_only: bool, reply: ReplyEmpty) {
        let _ = (request, inode, fh, data_only);
        reply.error(Errno::NOSYS);
    }

    /// Opens a directory.
    fn opendir(&self, request: &Request<'_>, inode: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let _ = (request, inode, flags);
        reply.opened(FileHandle(0), FopenFlags::empty());
    }

    /// Names in a directory, from `offset`: 0, or one that was given with a name.
    fn readdir(&self, request: &Request<'_>, inode: INodeNo, fh: FileHandle, offset: u64, reply: ReplyDirectory) {
        let _ = (request, inode, fh, offset);
        reply.error(Errno::NOSYS);
    }

    /// The same with what they stand for.
    fn readdirplus(
        &self,
        request: &Request<'_>,
        inode: INodeNo,
        fh: FileHandle,
        offset: u64,
        reply: ReplyDirectoryPlus,
    ) {
        let _ = (request, inode, fh, offset);
        reply.error(Errno::NOSYS);
    }

    /// Nobody has the directory open by this handle any more.
    fn releasedir(&self, request: &Request<'_>, inode: INodeNo, fh: FileHandle, flags: OpenFlags, reply: ReplyEmpty) {
        let _ = (request, inode, fh, flags);
        reply.ok();
    }

    /// Makes the names in a directory durable.
    fn fsyncdir(&self, request: &Request<'_>, inode: INodeNo, fh: FileHandle, data_only: bool, reply: ReplyEmpty) {
        let _ = (request, inode, fh, data_only);
        reply.error(Errno::NOSYS);
    }

    /// Figures of the file system.
    fn statfs(&self, request: &Request<'_>, inode: INodeNo, reply: ReplyStatfs) {
        let _ = (request, inode);
        reply.statfs(0, 0, 0, 0, 0, 512, 255, 0);
    }

    /// Sets an extended attribute; `flags` are `XATTR_CREATE` and `XATTR_REPLACE`.
    fn setxattr(
        &self,
        request: &Request<'_>,
        inode: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        extra: SetxattrFlags,
        reply: ReplyEmpty,
    ) {
        let _ = (request, inode, name, value, flags, extra);
        reply.error(Errno::NOSYS);
    }

    /// An extended attribute; with `size` 0 its length, `ERANGE` if it is longer than `size`.
    fn getxattr(&self, request: &Request<'_>, inode: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let _ = (request, inode, name, size);
        reply.error(Errno::NOSYS);
    }

    /// Names of extended attributes, each ended by a zero byte; `size` as in [`Filesystem::getxattr`].
    fn listxattr(&self, request: &Request<'_>, inode: INodeNo, size: u32, reply: ReplyXattr) {
        let _ = (request, inode, size);
        reply.error(Errno::NOSYS);
    }

    /// Removes an extended attribute.
    fn removexattr(&self, request: &Request<'_>, inode: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let _ = (request, inode, name);
        reply.error(Errno::NOSYS);
    }

    /// Whether the caller may; not asked where the kernel checks (`default_permissions`).
    fn access(&self, request: &Request<'_>, inode: INodeNo, mask: AccessFlags, reply: ReplyEmpty) {
        let _ = (request, inode, mask);
        reply.error(Errno::NOSYS);
    }

    /// Creates a file, or opens it if it is there, unless `flags` have `O_EXCL`. `kill_suidgid` as in [`Filesystem::open`].
    fn create(
        &self,
        request: &Request<'_>,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: OpenFlags,
        kill_suidgid: bool,
        reply: ReplyCreate,
    ) {
        let _ = (request, parent, name, mode, umask, flags, kill_suidgid);
        reply.error(Errno::NOSYS);
    }

    /// Creates a file without a name (`O_TMPFILE`).
    fn tmpfile(
        &self,
        request: &Request<'_>,
        parent: INodeNo,
        mode: u32,
        umask: u32,
        flags: OpenFlags,
        reply: ReplyCreate,
    ) {
        let _ = (request, parent, mode, umask, flags);
        reply.error(Errno::NOSYS);
    }

    /// Allocates, or punches holes, and so on: `mode` as in `fallocate(2)`.
    fn fallocate(
        &self,
        request: &Request<'_>,
        inode: INodeNo,
        fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let _ = (request, inode, fh, offset, length, mode);
        reply.error(Errno::NOSYS);
    }

    /// `ioctl(2)`; `ENOSYS` becomes `ENOTTY`.
    fn ioctl(&self, request: &Request<'_>, inode: INodeNo, ioctl: &Ioctl<'_>, reply: ReplyIoctl) {
        let _ = (request, inode, ioctl);
        reply.error(Errno::NOSYS);
    }

    /// Looks for data or holes; the kernel does other seeks itself.
    fn lseek(
        &self,
        request: &Request<'_>,
        inode: INodeNo,
        fh: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let _ = (request, inode, fh, offset, whence);
        reply.error(Errno::NOSYS);
    }

    /// Copies from one file to another, at most [`ReplyCopy::most`] bytes.
    fn copy_file_range(
        &self,
        request: &Request<'_>,
        inode_in: INodeNo,
        fh_in: FileHandle,
        offset_in: u64,
        inode_out: INodeNo,
        fh_out: FileHandle,
        offset_out: u64,
        length: u64,
        flags: CopyFileRangeFlags,
        reply: ReplyCopy,
    ) {
        let _ = (request, inode_in, fh_in, offset_in, inode_out, fh_out, offset_out, length, flags);
        reply.error(Errno::NOSYS);
    }

    /// Makes everything durable that was written (`syncfs(2)`). Kernels ask this of a few kinds of mount only.
    fn syncfs(&self, request: &Request<'_>, inode: INodeNo, reply: ReplyEmpty) {
        let _ = (request, inode);
        reply.error(Errno::NOSYS);
    }
}

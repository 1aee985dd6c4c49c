//! The trait that a file system implements.

use std::ffi::OsStr;
use std::io;
use std::path::Path;

use rustix::io::Errno;

use crate::config::KernelConfig;
use crate::flags::{
    AccessFlags, CopyFileRangeFlags, FopenFlags, RenameFlags, SetxattrFlags, StatxMask, WriteFlags,
};
use crate::reply::{
    ReplyAttr, ReplyCopy, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty,
    ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyStatx, ReplyWrite, ReplyXattr,
};
use crate::request::Request;
use crate::types::{Changes, FileHandle, INodeNo, Ioctl, LockOwner, OpenFlags, RequestId};

/// A file system. Its methods are called from several threads. Each method gets a reply, which it
/// may pass on to another thread. Parameters that are not explained here are those of the system
/// call with the method's name.
///
/// A method that is not implemented replies `ENOSYS`. The kernel then does without the operation,
/// and for some operations never asks again. Opening and closing succeed without an implementation;
/// the handle is then 0.
#[allow(clippy::too_many_arguments)] // The protocol has as many.
pub trait Filesystem: Send + Sync + 'static {
    /// Called before every other method, to negotiate features with the kernel.
    ///
    /// # Errors
    /// The mount fails with the error.
    fn init(&mut self, request: &Request<'_>, config: &mut KernelConfig) -> io::Result<()> {
        let _ = (request, config);
        Ok(())
    }

    /// Called after every other method, even if `init` failed.
    fn destroy(&mut self) {}

    /// Called when the program that waits for request `unique` has received a signal.
    /// [`Request::is_interrupted`] of that request is true now, or will be when the request begins.
    /// There is no reply. A file system in which requests wait wakes them here, so that they check.
    fn interrupt(&self, unique: RequestId) {
        let _ = unique;
    }

    /// Called when a request has arrived while all threads were busy. It waits for the calling
    /// thread, or for another thread that has become free.
    fn queued(&self) {}

    /// Called before the method that serves a request, by the same thread. The returned value is
    /// dropped after that method. `caller` is the number of the thread that made the request, or 0
    /// if this process cannot see that thread.
    fn answer(&self, caller: u32) -> impl Sized {
        let _ = caller;
    }

    /// Looks up a name. Every entry in a reply, of this method and others, counts as one lookup of
    /// its inode.
    fn lookup(&self, request: &Request<'_>, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let _ = (request, parent, name);
        reply.error(Errno::NOSYS);
    }

    /// Takes back `count` lookups of an inode, which the kernel has forgotten. At the end of the
    /// mount the kernel forgets all inodes without calling this.
    fn forget(&self, request: &Request<'_>, inode: INodeNo, count: u64) {
        let _ = (request, inode, count);
    }

    /// As [`Filesystem::forget`], for several inodes.
    fn batch_forget(&self, request: &Request<'_>, nodes: &mut dyn Iterator<Item = (INodeNo, u64)>) {
        nodes.for_each(|(inode, count)| self.forget(request, inode, count));
    }

    /// Gets the attributes of an inode.
    fn getattr(
        &self,
        request: &Request<'_>,
        inode: INodeNo,
        fh: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        let _ = (request, inode, fh);
        reply.error(Errno::NOSYS);
    }

    /// Gets the attributes of an inode, with those that `stat(2)` lacks. `flags` are `AT_STATX_*`,
    /// and `mask` has the fields that the program requests. The reply may have more or fewer
    /// fields.
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

    /// Changes attributes. The reply has all attributes, the unchanged ones too.
    fn setattr(&self, request: &Request<'_>, inode: INodeNo, changes: &Changes, reply: ReplyAttr) {
        let _ = (request, inode, changes);
        reply.error(Errno::NOSYS);
    }

    /// Reads the target of a symbolic link. The reply does not end with a zero byte.
    fn readlink(&self, request: &Request<'_>, inode: INodeNo, reply: ReplyData) {
        let _ = (request, inode);
        reply.error(Errno::NOSYS);
    }

    /// Creates an inode of any type except directory and symbolic link. `rdev` is encoded, see
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
    fn mkdir(
        &self,
        request: &Request<'_>,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let _ = (request, parent, name, mode, umask);
        reply.error(Errno::NOSYS);
    }

    /// Removes a name of anything but a directory.
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
    fn symlink(
        &self,
        request: &Request<'_>,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let _ = (request, parent, name, target);
        reply.error(Errno::NOSYS);
    }

    /// Renames a file or directory, within a directory or to another one.
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

    /// Gives an inode another name, or its first name if [`Filesystem::tmpfile`] made it.
    fn link(
        &self,
        request: &Request<'_>,
        inode: INodeNo,
        new_parent: INodeNo,
        new_name: &OsStr,
        reply: ReplyEntry,
    ) {
        let _ = (request, inode, new_parent, new_name);
        reply.error(Errno::NOSYS);
    }

    /// Opens a file. With `kill_suidgid`, the file system clears the set-user-ID and set-group-ID
    /// bits when it truncates the file (`O_TRUNC` by a caller that may not keep them; only with
    /// `FUSE_HANDLE_KILLPRIV_V2`).
    fn open(
        &self,
        request: &Request<'_>,
        inode: INodeNo,
        flags: OpenFlags,
        kill_suidgid: bool,
        reply: ReplyOpen,
    ) {
        let _ = (request, inode, flags, kill_suidgid);
        reply.opened(FileHandle(0), FopenFlags::empty());
    }

    /// Reads from a file. A reply with fewer than `size` bytes means the end of the file. `flags`
    /// are the current flags of the open file. `lock_owner` is `None` if the kernel reads into its
    /// cache.
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

    /// Writes to a file. `data` begins at a multiple of [`dio::block::BLOCK_ALIGN`] in memory, and
    /// is valid until the method returns. `flags` are the current flags of the open file.
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

    /// Called when a descriptor of an open file is closed, which may be one of several. An error in
    /// the reply is the error of `close(2)`.
    fn flush(
        &self,
        request: &Request<'_>,
        inode: INodeNo,
        fh: FileHandle,
        lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        let _ = (request, inode, fh, lock_owner);
        reply.error(Errno::NOSYS);
    }

    /// Called when the kernel has dropped its last reference to a file handle.
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

    /// Makes the written data durable. `data_only` as for `fdatasync(2)`.
    fn fsync(
        &self,
        request: &Request<'_>,
        inode: INodeNo,
        fh: FileHandle,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        let _ = (request, inode, fh, data_only);
        reply.error(Errno::NOSYS);
    }

    /// Opens a directory.
    fn opendir(&self, request: &Request<'_>, inode: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let _ = (request, inode, flags);
        reply.opened(FileHandle(0), FopenFlags::empty());
    }

    /// Reads the names in a directory from `offset`, which is 0 or an offset that was passed to
    /// [`ReplyDirectory::add`].
    fn readdir(
        &self,
        request: &Request<'_>,
        inode: INodeNo,
        fh: FileHandle,
        offset: u64,
        reply: ReplyDirectory,
    ) {
        let _ = (request, inode, fh, offset);
        reply.error(Errno::NOSYS);
    }

    /// As [`Filesystem::readdir`], with the inode of each name.
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

    /// Called when the kernel has dropped its last reference to a directory handle.
    fn releasedir(
        &self,
        request: &Request<'_>,
        inode: INodeNo,
        fh: FileHandle,
        flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        let _ = (request, inode, fh, flags);
        reply.ok();
    }

    /// Makes the names in a directory durable.
    fn fsyncdir(
        &self,
        request: &Request<'_>,
        inode: INodeNo,
        fh: FileHandle,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        let _ = (request, inode, fh, data_only);
        reply.error(Errno::NOSYS);
    }

    /// Gets statistics of the file system, see `statvfs(3)`.
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

    /// Gets an extended attribute. With `size` 0 the reply is its length. If it is longer than
    /// `size`, the reply is `ERANGE`.
    fn getxattr(
        &self,
        request: &Request<'_>,
        inode: INodeNo,
        name: &OsStr,
        size: u32,
        reply: ReplyXattr,
    ) {
        let _ = (request, inode, name, size);
        reply.error(Errno::NOSYS);
    }

    /// Lists the names of extended attributes, each followed by a zero byte. `size` is as in
    /// [`Filesystem::getxattr`].
    fn listxattr(&self, request: &Request<'_>, inode: INodeNo, size: u32, reply: ReplyXattr) {
        let _ = (request, inode, size);
        reply.error(Errno::NOSYS);
    }

    /// Removes an extended attribute.
    fn removexattr(&self, request: &Request<'_>, inode: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let _ = (request, inode, name);
        reply.error(Errno::NOSYS);
    }

    /// Checks whether the caller has the permissions in `mask`. It is not called if the kernel
    /// checks permissions (`default_permissions`).
    fn access(&self, request: &Request<'_>, inode: INodeNo, mask: AccessFlags, reply: ReplyEmpty) {
        let _ = (request, inode, mask);
        reply.error(Errno::NOSYS);
    }

    /// Creates and opens a file. An existing file is opened, unless `flags` have `O_EXCL`.
    /// `kill_suidgid` is as in [`Filesystem::open`].
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

    /// Creates and opens a file without a name (`O_TMPFILE`).
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

    /// Allocates space, punches a hole, or makes another change that `mode` selects, see
    /// `fallocate(2)`.
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

    /// Does an `ioctl(2)`. Programs get `ENOTTY` if the reply is `ENOSYS`.
    fn ioctl(&self, request: &Request<'_>, inode: INodeNo, ioctl: &Ioctl<'_>, reply: ReplyIoctl) {
        let _ = (request, inode, ioctl);
        reply.error(Errno::NOSYS);
    }

    /// Finds the next data or hole. The kernel does all other seeks itself.
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

    /// Copies from one file to another, at most [`ReplyCopy::bytes_max`] bytes.
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

    /// Makes everything that was written durable (`syncfs(2)`). Kernels call this only on a few
    /// kinds of mount.
    fn syncfs(&self, request: &Request<'_>, inode: INodeNo, reply: ReplyEmpty) {
        let _ = (request, inode);
        reply.error(Errno::NOSYS);
    }
}

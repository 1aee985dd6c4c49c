//! A message becomes a call of the file system.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use rustix::io::Errno;

use crate::channel::Channel;
use crate::config::Agreed;
use crate::filesystem::Filesystem;
use crate::interrupts::Interrupts;
use crate::operation::Operation;
use crate::reply::{
    Reply, ReplyAttr, ReplyCopy, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry,
    ReplyIoctl, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyStatx, ReplyWrite, ReplyXattr,
};
use crate::request::{Malformed, Message, Request};
use crate::serving;
use crate::types::{INodeNo, RequestId};

/// One thread's share of a connection.
#[derive(Debug)]
pub(crate) struct Desk<F: Filesystem> {
    pub(crate) filesystem: Arc<Served<F>>,
    pub(crate) channel: Arc<Channel>,
    pub(crate) interrupts: Arc<Interrupts>,
    pub(crate) thread: usize,
    pub(crate) agreed: Agreed,
}

/// A file system that is told of its end, by whichever thread is the last.
#[derive(Debug)]
pub(crate) struct Served<F: Filesystem>(pub(crate) F);

impl<F: Filesystem> Drop for Served<F> {
    fn drop(&mut self) {
        self.0.destroy();
    }
}

impl<F: Filesystem> Desk<F> {
    /// Has one message answered. Whatever is in it, and whatever the file system does, this returns.
    pub(crate) fn handle(&self, bytes: &[u8]) {
        let message = match Message::parse(bytes) {
            Ok(message) => message,
            Err(malformed) => return self.refuse(malformed),
        };
        let header = &message.header;
        let Ok(operation) = Operation::parse(header.opcode, message.body, self.agreed.setxattr_ext) else {
            return self.refuse(Malformed::Short(header.unique));
        };
        if let Operation::Interrupt { unique } = operation {
            return self.interrupt(unique);
        }
        serving::answers();
        if serving::is_answering(header.pid) && operation.is_asked() {
            return Reply::new(&self.channel, header.unique).error(Errno::DEADLK);
        }
        let request = message.request(self.interrupts.begin(self.thread, header.unique));
        // The file system is behind shared references all the time; what its locks guard after a panic, they poison.
        let call = AssertUnwindSafe(|| {
            let _answering = self.filesystem.0.answer(header.pid);
            self.call(&request, INodeNo(header.nodeid), operation, Reply::new(&self.channel, header.unique));
        });
        if catch_unwind(call).is_err() {
            self.channel.faults.panicked();
        }
        self.interrupts.end(self.thread);
    }

    fn refuse(&self, malformed: Malformed) {
        self.channel.faults.was_malformed();
        if let Malformed::Short(unique) = malformed {
            Reply::new(&self.channel, unique).error(Errno::IO);
        }
    }

    /// The kernel wants no answer: an error would have it send the interrupt again, or never more.
    fn interrupt(&self, unique: u64) {
        self.interrupts.interrupt(unique);
        if catch_unwind(AssertUnwindSafe(|| self.filesystem.0.interrupt(RequestId(unique)))).is_err() {
            self.channel.faults.panicked();
        }
    }

    fn call(&self, request: &Request<'_>, inode: INodeNo, operation: Operation<'_>, reply: Reply) {
        let fs = &self.filesystem.0;
        match operation {
            Operation::Lookup { name } => fs.lookup(request, inode, name, ReplyEntry(reply)),
            Operation::Forget { count } => fs_forgets(reply, || fs.forget(request, inode, count)),
            Operation::BatchForget { mut nodes } => fs_forgets(reply, || fs.batch_forget(request, &mut nodes)),
            Operation::Getattr { fh } => fs.getattr(request, inode, fh, ReplyAttr(reply)),
            Operation::Statx { fh, flags, mask } => fs.statx(request, inode, fh, flags, mask, ReplyStatx(reply)),
            Operation::Setattr(changes) => fs.setattr(request, inode, &changes, ReplyAttr(reply)),
            Operation::Readlink => fs.readlink(request, inode, ReplyData(reply)),
            Operation::Statfs => fs.statfs(request, inode, ReplyStatfs(reply)),
            Operation::Setxattr { name, value, flags, extra } => {
                fs.setxattr(request, inode, name, value, flags, extra, ReplyEmpty(reply));
            }
            Operation::Getxattr { name, size } => fs.getxattr(request, inode, name, size, ReplyXattr(reply)),
            Operation::Listxattr { size } => fs.listxattr(request, inode, size, ReplyXattr(reply)),
            Operation::Removexattr { name } => fs.removexattr(request, inode, name, ReplyEmpty(reply)),
            Operation::Access { mask } => fs.access(request, inode, mask, ReplyEmpty(reply)),
            Operation::Opendir { flags } => fs.opendir(request, inode, flags, ReplyOpen(reply)),
            Operation::Readdir(read) => {
                fs.readdir(request, inode, read.fh, read.offset, ReplyDirectory::new(reply, read.size));
            }
            Operation::Readdirplus(read) => {
                fs.readdirplus(request, inode, read.fh, read.offset, ReplyDirectoryPlus::new(reply, read.size));
            }
            Operation::Releasedir(release) => {
                fs.releasedir(request, inode, release.fh, release.flags, ReplyEmpty(reply));
            }
            Operation::Fsyncdir { fh, data_only } => fs.fsyncdir(request, inode, fh, data_only, ReplyEmpty(reply)),
            Operation::Syncfs => fs.syncfs(request, inode, ReplyEmpty(reply)),
            // The end comes when the device says so: there may be requests under way.
            Operation::Destroy => reply.send(&[]),
            Operation::Unknown => reply.error(Errno::NOSYS),
            // Answered already, or not to be answered.
            Operation::Interrupt { .. } | Operation::NotifyReply => reply.forego(),
            names_or_data => self.call_names(request, inode, names_or_data, reply),
        }
    }

    /// What makes, moves and removes names.
    fn call_names(&self, request: &Request<'_>, inode: INodeNo, operation: Operation<'_>, reply: Reply) {
        let fs = &self.filesystem.0;
        match operation {
            Operation::Symlink { name, target } => fs.symlink(request, inode, name, target, ReplyEntry(reply)),
            Operation::Mknod { name, mode, umask, rdev } => {
                fs.mknod(request, inode, name, mode, umask, rdev, ReplyEntry(reply));
            }
            Operation::Mkdir { name, mode, umask } => {
                fs.mkdir(request, inode, name, mode, umask, ReplyEntry(reply));
            }
            Operation::Unlink { name } => fs.unlink(request, inode, name, ReplyEmpty(reply)),
            Operation::Rmdir { name } => fs.rmdir(request, inode, name, ReplyEmpty(reply)),
            Operation::Rename { name, new_parent, new_name, flags } => {
                fs.rename(request, inode, name, new_parent, new_name, flags, ReplyEmpty(reply));
            }
            // The header has the new directory here, not the inode.
            Operation::Link { inode: linked, new_name } => {
                fs.link(request, linked, inode, new_name, ReplyEntry(reply));
            }
            Operation::Create(new) => {
                let (mode, umask, flags) = (new.mode, new.umask, new.flags);
                fs.create(request, inode, new.name, mode, umask, flags, new.kill_suidgid, ReplyCreate(reply));
            }
            Operation::Tmpfile(new) => {
                fs.tmpfile(request, inode, new.mode, new.umask, new.flags, ReplyCreate(reply));
            }
            data => self.call_data(request, inode, data, reply),
        }
    }

    /// What is done with open files.
    fn call_data(&self, request: &Request<'_>, inode: INodeNo, operation: Operation<'_>, reply: Reply) {
        let fs = &self.filesystem.0;
        match operation {
            Operation::Open { flags, kill_suidgid } => {
                fs.open(request, inode, flags, kill_suidgid, ReplyOpen(reply));
            }
            Operation::Read(read) => {
                let (offset, size, owner) = (read.offset, read.size, read.lock_owner);
                fs.read(request, inode, read.fh, offset, size, read.flags, owner, ReplyData(reply));
            }
            Operation::Write { fh, offset, data, how, flags, owner } => {
                fs.write(request, inode, fh, offset, data, how, flags, owner, ReplyWrite(reply));
            }
            Operation::Flush { fh, lock_owner } => fs.flush(request, inode, fh, lock_owner, ReplyEmpty(reply)),
            Operation::Release(end) => {
                fs.release(request, inode, end.fh, end.flags, end.lock_owner, end.flush, ReplyEmpty(reply));
            }
            Operation::Fsync { fh, data_only } => fs.fsync(request, inode, fh, data_only, ReplyEmpty(reply)),
            Operation::Fallocate { fh, offset, length, mode } => {
                fs.fallocate(request, inode, fh, offset, length, mode, ReplyEmpty(reply));
            }
            Operation::Lseek { fh, offset, whence } => {
                fs.lseek(request, inode, fh, offset, whence, ReplyLseek(reply));
            }
            Operation::Ioctl(ioctl) => fs.ioctl(request, inode, &ioctl, ReplyIoctl(reply)),
            Operation::CopyFileRange(copy) => fs.copy_file_range(
                request,
                inode,
                copy.from,
                copy.from_offset,
                copy.to_inode,
                copy.to,
                copy.to_offset,
                copy.length,
                copy.flags,
                ReplyCopy::new(reply, copy.wide),
            ),
            _ => reply.error(Errno::NOSYS),
        }
    }
}

/// Forgets: there is no answer to that, not even if it panics.
fn fs_forgets(reply: Reply, forget: impl FnOnce()) {
    reply.forego();
    forget();
}

#[cfg(test)]
mod tests;

//! Decodes messages and calls the file system.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use rustix::io::Errno;

use crate::channel::Channel;
use crate::config::Negotiated;
use crate::filesystem::Filesystem;
use crate::interrupts::Interrupts;
use crate::operation::Operation;
use crate::reply::{
    Reply, ReplyAttr, ReplyCopy, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus,
    ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyStatx, ReplyWrite,
    ReplyXattr,
};
use crate::request::{Malformed, Message, Request};
use crate::serving;
use crate::types::{INodeNo, RequestId};
use crate::user_shares::{Admission, UserShares};

/// The state with which one thread serves the requests of a connection.
#[derive(Debug)]
pub(crate) struct Dispatcher<F: Filesystem> {
    pub(crate) filesystem: Arc<MountedFilesystem<F>>,
    pub(crate) channel: Arc<Channel>,
    pub(crate) interrupts: Arc<Interrupts>,
    pub(crate) thread: usize,
    pub(crate) negotiated: Negotiated,
    /// The limits for users other than the server's, if there are any.
    pub(crate) shares: Option<Arc<UserShares>>,
}

/// A file system whose `destroy` is called when the last serving thread drops it.
#[derive(Debug)]
pub(crate) struct MountedFilesystem<F: Filesystem>(pub(crate) F);

impl<F: Filesystem> Drop for MountedFilesystem<F> {
    fn drop(&mut self) {
        self.0.destroy();
    }
}

impl<F: Filesystem> Dispatcher<F> {
    /// Serves one message, or leaves it to another thread if its user has no share of the threads
    /// left. Then serves requests that waited for the end of this one.
    pub(crate) fn handle_in_turn(&self, bytes: &[u8]) {
        let Some(shares) = &self.shares else { return self.handle(bytes) };
        match shares.admit(bytes, &self.channel) {
            Admission::Unlimited => self.handle(bytes),
            Admission::Limited(user) => {
                self.handle(bytes);
                let mut next = shares.end(user);
                while let Some((user, waited)) = next {
                    self.handle_from(&waited.channel, &waited.message);
                    next = shares.end(user);
                }
            }
            // Its interrupt may have been served before it began to wait.
            Admission::Waits(unique) if self.interrupts.came_early(unique) => {
                self.withdraw(unique);
            }
            Admission::Waits(_) => {}
            Admission::Refused(unique) => self.channel.reply(unique, Err(Errno::NOMEM)),
        }
    }

    /// Replies to a waiting request whose caller was interrupted. Returns whether it waited.
    fn withdraw(&self, unique: u64) -> bool {
        let withdrawn = self.shares.as_ref().and_then(|shares| shares.withdraw(unique));
        if let Some(waiting) = &withdrawn {
            waiting.channel.reply(unique, Err(Errno::INTR));
        }
        withdrawn.is_some()
    }

    /// Serves one message from the channel of this thread.
    pub(crate) fn handle(&self, bytes: &[u8]) {
        self.handle_from(&self.channel, bytes);
    }

    /// Serves one message, and replies through `channel`. This returns whatever the message
    /// contains, and even if the file system panics.
    fn handle_from(&self, channel: &Arc<Channel>, bytes: &[u8]) {
        let message = match Message::parse(bytes) {
            Ok(message) => message,
            Err(malformed) => return self.refuse(channel, malformed),
        };
        let header = &message.header;
        let Ok(operation) =
            Operation::parse(header.opcode, message.body, self.negotiated.setxattr_ext)
        else {
            return self.refuse(channel, Malformed::Short(header.unique));
        };
        if let Operation::Interrupt { unique } = operation {
            return self.interrupt(unique);
        }
        serving::register_thread();
        if serving::is_serving(header.pid) && operation.may_be_refused() {
            return Reply::new(channel, header.unique).error(Errno::DEADLK);
        }
        let request = message.request(self.interrupts.begin(self.thread, header.unique));
        // Catching a panic is safe here: the file system is only used by shared reference, and what
        // its locks guard is complete wherever a holder can panic.
        let call = AssertUnwindSafe(|| {
            let _answering = self.filesystem.0.answer(header.pid);
            self.call(
                &request,
                INodeNo(header.nodeid),
                operation,
                Reply::new(channel, header.unique),
            );
        });
        if catch_unwind(call).is_err() {
            self.channel.errors.count_panic();
        }
        self.interrupts.end(self.thread);
    }

    fn refuse(&self, channel: &Arc<Channel>, malformed: Malformed) {
        self.channel.errors.count_malformed();
        if let Malformed::Short(unique) = malformed {
            Reply::new(channel, unique).error(Errno::IO);
        }
    }

    /// Serves an interrupt. It sends no reply, because the kernel expects none: after an error the
    /// kernel would send the interrupt again (`EAGAIN`), or no interrupt any more (`ENOSYS`).
    fn interrupt(&self, unique: u64) {
        self.interrupts.interrupt(unique);
        if self.withdraw(unique) {
            return;
        }
        if catch_unwind(AssertUnwindSafe(|| self.filesystem.0.interrupt(RequestId(unique))))
            .is_err()
        {
            self.channel.errors.count_panic();
        }
    }

    fn call(&self, request: &Request<'_>, inode: INodeNo, operation: Operation<'_>, reply: Reply) {
        let fs = &self.filesystem.0;
        match operation {
            Operation::Lookup { name } => fs.lookup(request, inode, name, ReplyEntry(reply)),
            Operation::Forget { count } => {
                forget_without_reply(reply, || fs.forget(request, inode, count))
            }
            Operation::BatchForget { mut nodes } => {
                forget_without_reply(reply, || fs.batch_forget(request, &mut nodes))
            }
            Operation::Getattr { fh } => fs.getattr(request, inode, fh, ReplyAttr(reply)),
            Operation::Statx { fh, flags, mask } => {
                fs.statx(request, inode, fh, flags, mask, ReplyStatx(reply))
            }
            Operation::Setattr(changes) => fs.setattr(request, inode, &changes, ReplyAttr(reply)),
            Operation::Readlink => fs.readlink(request, inode, ReplyData(reply)),
            Operation::Statfs => fs.statfs(request, inode, ReplyStatfs(reply)),
            Operation::Setxattr { name, value, flags, extra } => {
                fs.setxattr(request, inode, name, value, flags, extra, ReplyEmpty(reply));
            }
            Operation::Getxattr { name, size } => {
                fs.getxattr(request, inode, name, size, ReplyXattr(reply))
            }
            Operation::Listxattr { size } => fs.listxattr(request, inode, size, ReplyXattr(reply)),
            Operation::Removexattr { name } => {
                fs.removexattr(request, inode, name, ReplyEmpty(reply))
            }
            Operation::Access { mask } => fs.access(request, inode, mask, ReplyEmpty(reply)),
            Operation::Opendir { flags } => fs.opendir(request, inode, flags, ReplyOpen(reply)),
            Operation::Readdir(read) => {
                fs.readdir(
                    request,
                    inode,
                    read.fh,
                    read.offset,
                    ReplyDirectory::new(reply, read.size),
                );
            }
            Operation::Readdirplus(read) => {
                fs.readdirplus(
                    request,
                    inode,
                    read.fh,
                    read.offset,
                    ReplyDirectoryPlus::new(reply, read.size),
                );
            }
            Operation::Releasedir(release) => {
                fs.releasedir(request, inode, release.fh, release.flags, ReplyEmpty(reply));
            }
            Operation::Fsyncdir { fh, data_only } => {
                fs.fsyncdir(request, inode, fh, data_only, ReplyEmpty(reply))
            }
            Operation::Syncfs => fs.syncfs(request, inode, ReplyEmpty(reply)),
            // `destroy` is called later, when the device reports the end of the mount: requests may
            // still be in flight.
            Operation::Destroy => reply.send(&[]),
            Operation::Unknown => reply.error(Errno::NOSYS),
            // The kernel expects no reply to these. Interrupts are served in `handle`.
            Operation::Interrupt { .. } | Operation::NotifyReply => reply.skip_reply(),
            names_or_data => self.call_names(request, inode, names_or_data, reply),
        }
    }

    /// Calls the file system to make, move or remove names.
    fn call_names(
        &self,
        request: &Request<'_>,
        inode: INodeNo,
        operation: Operation<'_>,
        reply: Reply,
    ) {
        let fs = &self.filesystem.0;
        match operation {
            Operation::Symlink { name, target } => {
                fs.symlink(request, inode, name, target, ReplyEntry(reply))
            }
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
            // Here the header names the new directory, not the inode.
            Operation::Link { inode: linked, new_name } => {
                fs.link(request, linked, inode, new_name, ReplyEntry(reply));
            }
            Operation::Create(new) => {
                let (mode, umask, flags) = (new.mode, new.umask, new.flags);
                fs.create(
                    request,
                    inode,
                    new.name,
                    mode,
                    umask,
                    flags,
                    new.kill_suidgid,
                    ReplyCreate(reply),
                );
            }
            Operation::Tmpfile(new) => {
                fs.tmpfile(request, inode, new.mode, new.umask, new.flags, ReplyCreate(reply));
            }
            data => self.call_data(request, inode, data, reply),
        }
    }

    /// Calls the file system for open files.
    fn call_data(
        &self,
        request: &Request<'_>,
        inode: INodeNo,
        operation: Operation<'_>,
        reply: Reply,
    ) {
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
            Operation::Flush { fh, lock_owner } => {
                fs.flush(request, inode, fh, lock_owner, ReplyEmpty(reply))
            }
            Operation::Release(end) => {
                fs.release(
                    request,
                    inode,
                    end.fh,
                    end.flags,
                    end.lock_owner,
                    end.flush,
                    ReplyEmpty(reply),
                );
            }
            Operation::Fsync { fh, data_only } => {
                fs.fsync(request, inode, fh, data_only, ReplyEmpty(reply))
            }
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

/// Calls `forget`. The kernel expects no reply, not even if `forget` panics.
fn forget_without_reply(reply: Reply, forget: impl FnOnce()) {
    reply.skip_reply();
    forget();
}

#[cfg(test)]
mod tests;

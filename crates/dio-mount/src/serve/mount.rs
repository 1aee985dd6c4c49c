//! The file system of a mount, and the answers that several requests share.

use super::attributes::attributes;
use super::idle_poll::IdlePoll;
use crate::file::{Files, Wanted};
use crate::names::{FoundInode, InodeId, Names};
use crate::options::{IdlePolling, Live, Mode, Rings};
use crate::set_id;
use crate::stats::{Operation, Stats, Timer};
use dio_fuse::{
    FileHandle, Generation, INodeNo, ReplyCreate, ReplyEmpty, ReplyEntry, ReplyXattr, Request,
};
use rustix::fs::{OFlags, Stat};
use rustix::io::{Errno, Result};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The file system of one mount, as the kernel uses it.
#[derive(Debug)]
pub(crate) struct Mount {
    pub(crate) names: Arc<Names>,
    pub(crate) files: Arc<Files>,
    pub(crate) stats: Arc<Stats>,
    pub(crate) live: Live,
    /// How long the kernel may cache names and attributes.
    pub(crate) remember: Duration,
    /// The channel by which requests come.
    pub(crate) rings: Rings,
    /// Number of threads that was asked for.
    pub(crate) threads: usize,
    /// Whether idle processors poll while many requests arrive.
    pub(crate) idle_polling: IdlePolling,
    /// Has them poll, from the kernel's greeting on.
    pub(crate) idle_poll: Option<IdlePoll>,
    /// Whether the kernel may read, write and map files of the source by itself.
    pub(crate) passthrough: bool,
}

/// Sends the value of `$result` by `$reply`, or its error, which is counted.
macro_rules! answer {
    ($timer:ident, $reply:ident, $result:expr, $good:pat => $give:expr) => {
        match $result {
            Ok($good) => $give,
            Err(error) => {
                $timer.fail(error);
                $reply.error(error);
            }
        }
    };
}

pub(super) use answer;

impl Mount {
    /// Returns the attributes of an inode, including bytes that are acknowledged and not yet in the
    /// source.
    pub(super) fn stat(&self, inode: InodeId) -> Result<Stat> {
        self.files.settle_scattered(inode);
        // In this order: bytes that are written between the two calls are included in the
        // attributes.
        let pending = self.files.size_of(inode);
        let mut stat = self.names.stat(inode)?;
        self.files.compare_attributes(inode, &stat);
        if let Some(size) = pending {
            stat.st_size = stat.st_size.max(size as i64);
        }
        Ok(stat)
    }

    /// Clears set-id bits before a change whose request does not say whether to do so. The kernel
    /// asks for that beforehand, but only if it knows of the bits; they may have been set without
    /// the mount.
    pub(super) fn clear_set_id(&self, by: &Request<'_>, inode: INodeNo) -> Result<()> {
        if by.uid() == 0 { Ok(()) } else { self.names.clear_set_id(inode.0) }
    }

    /// How long the kernel may cache attributes. It may not cache modes with set-id bits, because
    /// it may not notice when these are cleared.
    pub(super) fn believed(&self, stat: &Stat) -> Duration {
        if set_id::are_in(stat) { Duration::ZERO } else { self.remember }
    }

    /// Builds the answer to a lookup; `before` is the files' epoch before the lookup.
    pub(super) fn entry(&self, found: &FoundInode, before: u64) -> dio_fuse::Entry {
        self.files.compare_attributes(found.inode, &found.stat);
        // Bytes that were pending at the lookup are either still pending, or were written since;
        // then the epoch has changed.
        let stale = self.files.size_of(found.inode).is_some() || self.files.epoch() != before;
        let stat = if stale { self.stat(found.inode).unwrap_or(found.stat) } else { found.stat };
        dio_fuse::Entry {
            inode: INodeNo(found.inode),
            generation: Generation(found.generation),
            entry_ttl: self.remember,
            attr: attributes(&stat),
            attr_ttl: self.believed(&stat),
        }
    }

    pub(super) fn give_entry(
        &self,
        mut timer: Timer<'_>,
        reply: ReplyEntry,
        entry: impl FnOnce() -> Result<FoundInode>,
    ) {
        let before = self.files.epoch();
        answer!(timer, reply, entry(), found => {
            reply.entry(&self.entry(&found, before));
        });
    }

    /// Creates a file by `create` and opens it with the requested access.
    pub(super) fn give_created(
        &self,
        by: &Request<'_>,
        reply: ReplyCreate,
        flags: OFlags,
        create: impl FnOnce(OFlags) -> Result<(FoundInode, OwnedFd)>,
    ) {
        let mut timer = self.stats.begin(Operation::Create);
        let before = self.files.epoch();
        let created = create(Files::creating(flags)).and_then(|(entry, file)| {
            let back = |file: std::os::fd::BorrowedFd<'_>| reply.open_backing(file);
            let (path, mode) = self.path_and_mode(entry.inode);
            let opened = self.files.adopt(
                &Wanted { ino: entry.inode, path: &path, user: by.uid() },
                file,
                flags,
                mode,
                &back,
            );
            // The kernel holds no inode that was not sent to it.
            let opened = opened.inspect_err(|_| self.names.forget(entry.inode, 1))?;
            Ok((entry, opened))
        });
        answer!(timer, reply, created, (entry, opened) => {
            let (entry, handle) = (self.entry(&entry, before), FileHandle(opened.handle));
            match opened.backing {
                Some(backing) => reply.created_passthrough(&entry, handle, opened.flags, &backing),
                None => reply.created(&entry, handle, opened.flags),
            }
        });
    }

    /// Returns the path of an inode, and the mode that the rules assign to the path.
    pub(super) fn path_and_mode(&self, inode: InodeId) -> (PathBuf, Mode) {
        let settings = self.live.get();
        let path = self.names.path(inode).unwrap_or_default();
        let mode = settings.rules.mode_of(&path);
        (path, mode)
    }
}

pub(super) fn empty(mut timer: Timer<'_>, reply: ReplyEmpty, result: Result<()>) {
    answer!(timer, reply, result, () => reply.ok());
}

pub(super) fn sized(mut timer: Timer<'_>, reply: ReplyXattr, size: u32, value: Result<Vec<u8>>) {
    answer!(timer, reply, value, value => match size as usize {
        0 => reply.size(value.len() as u32),
        room if room < value.len() => reply.error(Errno::RANGE),
        _ => reply.data(&value),
    });
}

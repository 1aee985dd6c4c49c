//! Whole aligned blocks in flight, for the copy loop, streams and queues: they run their own [`Driver`], and the file
//! keeps its rules (route, counters, latch, what passed through the cache) in one place, here.
//!
//! [`Driver`]: crate::drive::Driver

use std::ops::Range;

use super::{File, FileError, Mode};
use crate::block::Mem;
use crate::drive::Finished;
use crate::engine::{Kind, Op};
use crate::geometry::align_up;
use crate::lock::{LockClass, LockGuard};

impl File {
    /// Multiple of bytes that offsets and lengths of blocks must have, for reading and for writing.
    pub fn block_align(&self) -> u64 {
        let route = self.route();
        self.align(route, Kind::Read).offset.max(self.align(route, Kind::Write).offset)
    }

    /// An operation on a block; the caller gives the finished operation to [`File::block_done`].
    pub(crate) fn block_op(&self, kind: Kind, offset: u64, mem: Mem, tag: u64) -> Op {
        let route = self.route();
        let range = offset..offset + mem.len() as u64;
        match kind {
            Kind::Read => self.before_read(route, &range),
            _ => self.before_write(route, &range),
        };
        self.count_requests(kind, 1);
        let mut op = self.op(kind, route, self.flags(route), offset, Some(mem));
        op.tag = tag;
        op
    }

    /// Keeps the file's accounts of a finished operation. A refused `RWF_DONTCACHE` is run again without it.
    pub(crate) fn block_done(&self, over: Finished) -> (Finished, Result<usize, FileError>) {
        let over = self.without_dontcache(over);
        let (kind, offset) = (over.op.kind, over.op.offset);
        let range = offset..offset + over.op.len() as u64;
        let outcome = match (kind, over.outcome) {
            (Kind::Read, Ok(count)) => {
                self.count_straight_read(count as u64);
                self.after_read(over.op.route, &range, None, count as u64).map(|()| count)
            }
            (_, Ok(count)) => {
                self.count_straight_write(count as u64);
                self.after_write(over.op.route, &range, None).map(|()| count)
            }
            (Kind::Read, Err(_)) => self.read_outcome(&over),
            (_, Err(_)) => self.write_outcome(&over).map(|()| 0),
        };
        (over, outcome)
    }

    /// Whether what direct I/O does here is still to be seen: the first read and write then go through
    /// [`File::read_at`] and [`File::write_at`], which look.
    pub(crate) fn on_trial(&self) -> bool {
        self.read_trial.is_open() || (self.writable && self.write_trial.is_open())
    }

    /// Keeps resizes and misaligned writes out while blocks are in flight.
    pub(crate) fn lock_blocks(&self, kind: Kind) -> Option<LockGuard> {
        let class = if kind == Kind::Read { LockClass::Read } else { LockClass::Write };
        (self.mode.wants_direct() || kind == Kind::Write).then(|| self.locks.whole_shared(class))
    }

    /// Whether both are opens of one file, under one policy.
    pub(crate) fn shares_locks(&self, other: &File) -> bool {
        std::sync::Arc::ptr_eq(&self.locks, &other.locks)
    }

    /// As [`File::lock`], without waiting: the outer `None` says that it would have to.
    pub(crate) fn try_lock(&self, kind: Kind, range: Range<u64>) -> Option<Option<LockGuard>> {
        match (self.mode, kind) {
            (Mode::Cached | Mode::Uncached, Kind::Write) => self.locks.try_whole_shared(LockClass::Write).map(Some),
            (Mode::Cached | Mode::Uncached, _) => Some(None),
            (Mode::Direct, Kind::Write) => self.locks.try_exclusive(range, LockClass::Write).map(Some),
            (Mode::Direct, _) => self.locks.try_shared(range, LockClass::Read).map(Some),
            (Mode::Concurrent, Kind::Write) => self.locks.try_whole_shared(LockClass::Write).map(Some),
            (Mode::Concurrent, _) => self.locks.try_whole_shared(LockClass::Read).map(Some),
        }
    }

    fn count_straight_write(&self, bytes: u64) {
        let (class, reason) = self.write_class();
        self.meter.count_written(class, bytes);
        if let Some(reason) = reason {
            self.meter.count_reason(reason, bytes);
        }
    }

    /// `len` rounded up to whole blocks.
    pub(crate) fn whole_blocks(&self, len: u64) -> u64 {
        align_up(len, self.block_align())
    }
}

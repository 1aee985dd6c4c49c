//! Running the stretches of a request: rounds of bounded memory, all requests of a round submitted before one is
//! waited for. Shared by reads and writes.

use rustix::io::Errno;

use super::layout::{Align, Stretch, requests};
use super::{File, FileError};
use crate::block::{Block, Mem, Segment};
use crate::drive::{Finished, run_here};
use crate::engine::{Flags, Kind, Op, Route};
use crate::geometry::align_down;

/// Most pieces of one request: well under `IOV_MAX` (1024, `readv(2)`), and a longer vector gains nothing.
const MOST_SEGMENTS: usize = 256;

/// Splits stretches into rounds that need at most `blocks` bounce blocks each.
pub(super) fn rounds(stretches: &[Stretch], blocks: usize) -> impl Iterator<Item = &[Stretch]> {
    let mut rest = stretches;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let mut bounced = 0;
        let fits = |stretch: &&Stretch| {
            bounced += usize::from(stretch.straight.is_none());
            bounced <= blocks
        };
        let count = rest.iter().take_while(fits).count();
        let (round, after) = rest.split_at(count);
        rest = after;
        Some(round)
    })
}

impl File {
    /// Bounce blocks that one request may hold at a time: half of them all, so that two can proceed.
    pub(super) fn blocks_per_round(&self) -> usize {
        (self.io.limits().bounce_blocks / 2).max(1)
    }

    /// Most bytes of a straight and of a bounced stretch on a route: within the limits, whole blocks of the file, and
    /// such that memory behind an aligned stretch is aligned too. One block where the limit is less.
    pub(super) fn longest_stretches(&self, align: Align) -> (u64, u64) {
        let unit = align.offset.max(align.memory);
        let straight = align_down(self.io.limits().request as u64, unit).max(unit);
        let bounced = align_down(self.io.bounce().block_len() as u64, align.offset).min(straight);
        (straight, bounced)
    }

    /// Takes the bounce blocks of a round.
    pub(super) fn take_blocks(&self, round: &[Stretch]) -> Vec<Block> {
        let count = round.iter().filter(|stretch| stretch.straight.is_none()).count();
        if count == 0 { Vec::new() } else { self.io.bounce().take_many(count) }
    }

    /// Groups the stretches of a round, with their memory, into operations.
    pub(super) fn ops(
        &self,
        kind: Kind,
        route: Route,
        round: &[Stretch],
        mut segment: impl FnMut(&Stretch) -> Segment,
    ) -> Vec<Op> {
        let most = self.io.limits().request as u64;
        let mut ops = Vec::new();
        for request in requests(round, most, MOST_SEGMENTS) {
            let mut mem: Option<Mem> = None;
            for stretch in request {
                let segment = segment(stretch);
                match &mut mem {
                    None => mem = Some(Mem::one(segment)),
                    Some(mem) => mem.push(segment),
                }
            }
            ops.push(self.op(kind, route, self.flags(route), request[0].file.start, mem));
        }
        ops
    }

    /// Submits all operations, waits for all, and gives them back in file order.
    pub(super) fn run(&self, ops: Vec<Op>) -> Result<Vec<Finished>, FileError> {
        let Some(kind) = ops.first().map(|op| op.kind) else { return Ok(Vec::new()) };
        self.count_requests(kind, ops.len() as u64);
        let mut finished = Vec::with_capacity(ops.len());
        if ops.len() == 1 {
            finished.extend(ops.into_iter().map(run_here));
        } else {
            let mut driver = self.io.borrow_driver();
            ops.into_iter().for_each(|op| driver.submit(op));
            let engine = driver.drain(&mut finished);
            engine.map_err(|error| {
                let failed = self.failed("run I/O on", super::raw(&error));
                // What became of the writes in flight is not known.
                if kind == Kind::Write { self.latched(failed) } else { failed }
            })?;
            finished.sort_unstable_by_key(|over| over.op.offset);
        }
        Ok(finished.into_iter().map(|over| self.without_dontcache(over)).collect())
    }

    /// Where the kernel has no `RWF_DONTCACHE` for this file (EOPNOTSUPP, or EINVAL before 6.14), the request is run
    /// again without, now and from now on: `settle` drops the pages instead.
    pub(super) fn without_dontcache(&self, over: Finished) -> Finished {
        let refused = matches!(over.outcome, Err(Errno::OPNOTSUPP | Errno::INVAL)) && over.op.flags.dontcache;
        if !refused {
            return over;
        }
        self.uncache.no_dontcache.store(true, std::sync::atomic::Ordering::Relaxed);
        let mut op = over.op;
        op.flags = Flags { dontcache: false, ..op.flags };
        run_here(op)
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;

    use super::*;
    use crate::engine::{Done, Engine, NullMedium};
    use crate::geometry::Geometry;
    use crate::{Io, Limits, OpenOptions};

    /// Takes everything and gives nothing back.
    struct Broken(Vec<Op>);

    impl Engine for Broken {
        fn name(&self) -> &'static str {
            "broken"
        }

        fn depth(&self) -> usize {
            32
        }

        fn in_flight(&self) -> usize {
            self.0.len()
        }

        fn start(&mut self, op: Op) -> Result<(), Op> {
            self.0.push(op);
            Ok(())
        }

        fn finish(&mut self, _min: usize, _done: &mut Vec<Done>) -> io::Result<()> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
    }

    #[test]
    fn writes_lost_with_their_engine_latch() {
        let limits = Limits { request: 4096, bounce_block: 4096, ..Limits::default() };
        let io = Io::with_engine(limits, "broken", |_| Box::new(Broken(Vec::new()))).unwrap();
        let medium = Arc::new(NullMedium { size: 1 << 20 });
        let geometry = Geometry::fixed(512, 512).unwrap();
        let file = OpenOptions::new().read(true).write(true).io(&io).open_medium("file", medium, geometry).unwrap();
        file.read_at(&mut [0; 8192], 0).unwrap_err();
        file.sync_data().unwrap();
        file.write_at(&[1; 8192], 0).unwrap_err();
        file.sync_data().unwrap_err();
    }
}

//! Runs the planned segments of a read or write. Requests without bounced segments are submitted at
//! once. The others go through a bounded number of blocks: some blocks are in flight while others
//! are filled or emptied.

use super::error::{FileError, errno_of};
use super::handle::File;
use super::routing::Routing;
use super::segments::{PlannedSegment, RouteAlign};
use crate::block::{Block, Mem, Segment};
use crate::drive::{Driver, Finished, Request};
use crate::engine::OpKind;
use crate::geometry::align_down;

/// Most segments of one request, well under `IOV_MAX` (1024, `readv(2)`). A longer vector gains
/// nothing.
const SEGMENTS_MAX: usize = 256;

/// Requests that share the bounce blocks: one or two are being copied while the others are in
/// flight.
const BOUNCED_REQUESTS: usize = 8;

/// Groups segments, which follow each other in the file, into requests of at most `bytes_max`
/// bytes. At most `bounced_max` segments of a request need a block.
fn group_segments(
    planned: &[PlannedSegment],
    bytes_max: u64,
    bounced_max: usize,
) -> impl Iterator<Item = &[PlannedSegment]> {
    let mut rest = planned;
    std::iter::from_fn(move || {
        let start = rest.first()?.file.start;
        let mut blocks = 0;
        let fits = |segment: &&PlannedSegment| {
            blocks += usize::from(segment.caller.is_none());
            blocks <= bounced_max && segment.file.end - start <= bytes_max
        };
        let count = rest.iter().take(SEGMENTS_MAX).take_while(fits).count().max(1);
        let (group, after) = rest.split_at(count);
        rest = after;
        Some(group)
    })
}

/// Bounce blocks that keep one disk busy: eight requests of 1 MiB in blocks of the usual size.
/// Measured: half as many are slower on a fast disk, and twice as many are not faster.
const BLOCKS_PER_DISK: usize = 128;

fn bounced(planned: &[PlannedSegment]) -> usize {
    planned.iter().filter(|segment| segment.caller.is_none()).count()
}

/// Supplies the memory of requests and takes their results. Both methods are called in the order of
/// the file.
pub(super) trait FlowHandler<'env> {
    /// Pushes the memory of each segment of a request. `blocks` has one block for each bounced
    /// segment, to be taken from the front.
    fn collect_memory(
        &mut self,
        group: &[PlannedSegment],
        blocks: &mut std::vec::Drain<'_, Block>,
        segments: &mut Vec<Segment>,
    );

    /// Takes a finished request and puts its blocks into `spare`. False ends the flow: the results
    /// of later requests in flight are awaited and ignored.
    fn finish_request(
        &mut self,
        finished: Finished,
        spare: &mut Vec<Block>,
    ) -> Result<bool, FileError>;
}

/// Calls `each` for every segment of a finished request, with its block and its length. The block
/// holds its share of the first `count` bytes.
pub(super) fn for_each_block(
    mem: Option<Mem>,
    mut count: usize,
    mut each: impl FnMut(Option<Block>, usize),
) {
    for segment in mem.into_iter().flat_map(Mem::into_segments) {
        let (len, filled) = (segment.len(), count.min(segment.len()));
        count -= filled;
        each(segment.into_block(filled), len);
    }
}

/// Most bounce blocks that one read or write may hold: enough for every disk that holds a part of
/// the file, and at most half of all, so that two can proceed.
fn bounce_blocks_max(file: &File) -> usize {
    (file.io.limits().bounce_blocks / 2)
        .min(BLOCKS_PER_DISK.saturating_mul(file.traits.objects))
        .max(1)
}

/// Largest single request in bytes. For a striped file, one of the usual size to each object.
pub(super) fn request_bytes_max(file: &File) -> usize {
    file.io.limits().request.saturating_mul(file.traits.objects)
}

/// Most bytes of a zero-copy and of a bounced segment on a route. They are whole blocks of the
/// file, within the limits but at least one, so that memory behind an aligned segment is aligned
/// too.
pub(super) fn segment_bytes_max(file: &File, align: RouteAlign) -> (u64, u64) {
    let unit = align.offset.max(align.memory);
    let zero_copy = align_down(request_bytes_max(file) as u64, unit).max(unit);
    let bounced = align_down(file.io.bounce().block_len() as u64, align.offset).min(zero_copy);
    (zero_copy, bounced)
}

pub(super) fn in_flight_of(file: &File, len: u64) -> u64 {
    let bytes_max = request_bytes_max(file) as u64;
    let (requests, each) = (len.div_ceil(bytes_max), len.min(bytes_max));
    let parts = each.div_ceil(file.traits.stripe).clamp(1, file.traits.objects as u64);
    let mut driver = file.io.borrow_driver();
    if requests > 1 {
        file.block_io().grow_driver(
            &mut driver,
            usize::try_from(requests).unwrap_or(usize::MAX),
            false,
        );
    }
    (driver.depth() as u64).saturating_mul(each.div_ceil(parts)).min(len)
}

/// Runs all segments. When it returns, whatever the result, nothing is in flight.
pub(super) fn run<'env>(
    file: &File,
    kind: OpKind,
    routing: Routing,
    planned: &[PlannedSegment],
    handler: &mut impl FlowHandler<'env>,
) -> Result<(), FileError> {
    let (blocks, bytes_max) = (bounce_blocks_max(file), request_bytes_max(file) as u64);
    let groups: Vec<&[PlannedSegment]> =
        group_segments(planned, bytes_max, blocks.div_ceil(BOUNCED_REQUESTS)).collect();
    file.count_requests(kind, groups.len() as u64);
    let needed = bounced(planned).min(blocks);
    // All blocks are taken together, before anything is held, so that two requests never wait for
    // each other's blocks.
    let mut spare = if needed == 0 { Vec::new() } else { file.io.bounce().take_many(needed) };
    let flow = Flow { file, kind, routing };
    if let [group] = groups[..] {
        let request = flow.prepare((0, group), &mut spare, handler);
        return handler
            .finish_request(file.without_dontcache(file.io.run(request)), &mut spare)
            .map(|_| ());
    }
    let mut driver = file.io.borrow_driver();
    // All parts of a request to a striped file are submitted before one is waited for.
    file.block_io().grow_driver(&mut driver, groups.len(), false);
    let outcome = flow.run_in(&mut driver, &groups, spare, handler);
    // Later requests may still be in flight after an error or at the end of the file. If the engine
    // fails, it waits for them when it is dropped.
    let _ = driver.drain(&mut Vec::new());
    outcome
}

/// A read or write of several requests.
struct Flow<'a> {
    file: &'a File,
    kind: OpKind,
    routing: Routing,
}

impl Flow<'_> {
    fn run_in<'env>(
        &self,
        driver: &mut Driver,
        groups: &[&[PlannedSegment]],
        mut spare: Vec<Block>,
        handler: &mut impl FlowHandler<'env>,
    ) -> Result<(), FileError> {
        let broken = |error: std::io::Error| {
            let failed = self.file.failed("run I/O on", errno_of(&error));
            // What became of the writes in flight is not known.
            if self.kind == OpKind::Write { self.file.latch.set(failed) } else { failed }
        };
        let (mut started, mut completed) = (0, 0);
        let mut finished = Vec::new();
        let mut results: Vec<Option<Finished>> = groups.iter().map(|_| None).collect();
        while completed < groups.len() {
            let may_start = |started: usize| !self.routing.in_order || started == completed;
            while let Some(group) = groups
                .get(started)
                .filter(|group| bounced(group) <= spare.len() && may_start(started))
            {
                driver.submit(self.prepare((started, group), &mut spare, handler));
                started += 1;
                if bounced(group) > 0 {
                    // The request starts now, and not after more bytes have been copied.
                    driver.wait(0, &mut finished).map_err(broken)?;
                }
            }
            if finished.is_empty() && results[completed].is_none() {
                driver.wait(1, &mut finished).map_err(broken)?;
            }
            for result in finished.drain(..) {
                let index = result.request.tag as usize;
                results[index] = Some(result);
            }
            let Some(result) = results[completed].take() else { continue };
            completed += 1;
            if !handler.finish_request(self.file.without_dontcache(result), &mut spare)? {
                return Ok(());
            }
        }
        Ok(())
    }

    fn prepare<'env>(
        &self,
        (index, group): (usize, &[PlannedSegment]),
        spare: &mut Vec<Block>,
        handler: &mut impl FlowHandler<'env>,
    ) -> Request {
        let mut segments = Vec::with_capacity(group.len());
        handler.collect_memory(group, &mut spare.drain(..bounced(group)), &mut segments);
        let mut segments = segments.into_iter();
        let mut mem = Mem::one(segments.next().expect("a group has a segment"));
        segments.for_each(|segment| mem.push(segment));
        let request = self.file.request(self.kind, self.routing, group[0].file.start, Some(mem));
        Request { tag: index as u64, ..request }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Done, Engine, NullMedium, Op};
    use crate::geometry::Geometry;
    use crate::{Io, Limits, OpenOptions, stripe};
    use proptest::prelude::*;
    use std::io;
    use std::sync::Arc;

    /// An engine that takes everything and gives nothing back.
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
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .io(&io)
            .open_medium("file", medium, geometry)
            .unwrap();
        file.read_at(&mut [0; 8192], 0).unwrap_err();
        file.sync_data().unwrap();
        file.write_at(&[1; 8192], 0).unwrap_err();
        file.sync_data().unwrap_err();
    }

    #[test]
    fn what_is_in_flight_is_all_parts_that_the_engine_takes() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let targets: Vec<_> =
            (0..4).map(|target| directory.path().join(target.to_string())).collect();
        targets.iter().for_each(|target| std::fs::create_dir(target).unwrap());
        let path = directory.path().join("striped");
        stripe::create(
            &path,
            &stripe::StripePlan { stripe: Some(4096), targets, ..stripe::StripePlan::default() },
        )
        .unwrap();
        let io = Io::new(Limits { depth: 2, request: 64 << 10, ..Limits::default() }).unwrap();
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).io(&io).open(&path).unwrap();
        assert_eq!(file.in_flight_of(4096), 4096);
        assert_eq!(file.in_flight_of(8192), 8192);
        // One request has four parts, of which the engine takes two.
        assert_eq!(file.in_flight_of(256 << 10), 128 << 10);
        // Several requests get an engine for all their parts.
        assert_eq!(file.in_flight_of(1 << 20), 1 << 20);
        // So it is with one object.
        let (path, targets) = (directory.path().join("one"), vec![directory.path().join("0")]);
        stripe::create(
            &path,
            &stripe::StripePlan { stripe: Some(4096), targets, ..stripe::StripePlan::default() },
        )
        .unwrap();
        assert_eq!(options.open(&path).unwrap().in_flight_of(1 << 20), 1 << 20);
        let plain = options.create(true).open(directory.path().join("plain")).unwrap();
        assert_eq!(plain.in_flight_of(64 << 10), 64 << 10);
    }

    proptest! {
        #[test]
        fn groups_keep_the_order_and_the_limits(
            kinds in prop::collection::vec((any::<bool>(), 1u64..20), 1..400),
            bytes_max in 1u64..64,
            blocks in 1usize..9,
        ) {
            let mut at = 0;
            let planned: Vec<PlannedSegment> = kinds
                .iter()
                .map(|(zero_copy, len)| {
                    let file = at..at + len * 512;
                    at = file.end;
                    PlannedSegment { file, caller: zero_copy.then_some((0, 0)) }
                })
                .collect();
            let groups: Vec<&[PlannedSegment]> =
                group_segments(&planned, bytes_max * 512, blocks).collect();
            prop_assert_eq!(&groups.concat(), &planned);
            for group in groups {
                let bytes = group[group.len() - 1].file.end - group[0].file.start;
                prop_assert!(bounced(group) <= blocks && group.len() <= SEGMENTS_MAX);
                prop_assert!(bytes <= bytes_max * 512 || group.len() == 1);
            }
        }
    }
}

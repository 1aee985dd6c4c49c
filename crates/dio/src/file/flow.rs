//! Running the stretches of a request: what needs no block of ours is submitted at once; what does goes through a bounded number of
//! blocks, some of which are under way while others are filled or emptied. Shared by reads and writes.

use super::layout::{Align, Stretch};
use super::routing::Routing;
use super::{File, FileError};
use crate::block::{Block, Mem, Segment};
use crate::drive::{Driver, Finished, Request};
use crate::engine::OpKind;
use crate::geometry::align_down;

/// Most pieces of one request: well under `IOV_MAX` (1024, `readv(2)`), and a longer vector gains nothing.
const MOST_SEGMENTS: usize = 256;

/// Requests that the blocks of ours are shared out to: one or two are copied, the others are under way.
const SHARES: usize = 8;

/// Groups stretches, which follow each other in the file, into requests of at most `most` bytes, of which at most `bounced` need a
/// block.
fn groups(stretches: &[Stretch], most: u64, bounced: usize) -> impl Iterator<Item = &[Stretch]> {
    let mut rest = stretches;
    std::iter::from_fn(move || {
        let start = rest.first()?.file.start;
        let mut blocks = 0;
        let fits = |stretch: &&Stretch| {
            blocks += usize::from(stretch.straight.is_none());
            blocks <= bounced && stretch.file.end - start <= most
        };
        let count = rest.iter().take(MOST_SEGMENTS).take_while(fits).count().max(1);
        let (group, after) = rest.split_at(count);
        rest = after;
        Some(group)
    })
}

/// Blocks that keep one disk busy: eight requests of 1 MiB in blocks of the usual size. Measured: half as many are slower
/// where the disk is fast, twice as many are not faster.
const BLOCKS: usize = 128;

fn bounced(stretches: &[Stretch]) -> usize {
    stretches.iter().filter(|stretch| stretch.straight.is_none()).count()
}

/// What is done with the requests of a flow; both are called in the order of the file.
pub(super) trait Ends<'env> {
    /// The memory of a group of stretches; `blocks` has one for each that is bounced, which are taken from its front.
    fn begin(&mut self, group: &[Stretch], blocks: &mut std::vec::Drain<'_, Block>, segments: &mut Vec<Segment>);

    /// A request is over. Its blocks are put into `spare`. False ends the flow: what was submitted beyond is waited for, and
    /// forgotten.
    fn end(&mut self, over: Finished, spare: &mut Vec<Block>) -> Result<bool, FileError>;
}

/// Returns the blocks of a finished operation, holding the first `count` bytes.
pub(super) fn blocks_of(mem: Option<Mem>, mut count: usize, mut each: impl FnMut(Option<Block>, usize)) {
    for segment in mem.into_iter().flat_map(Mem::into_segments) {
        let (len, filled) = (segment.len(), count.min(segment.len()));
        count -= filled;
        each(segment.into_block(filled), len);
    }
}

/// Bounce blocks that one request may hold at a time: enough for every disk that holds a part of the file, and at most half
/// of them all, so that two can proceed.
fn blocks_of_one(file: &File) -> usize {
    (file.io.limits().bounce_blocks / 2).min(BLOCKS.saturating_mul(file.shape.objects)).max(1)
}

/// Largest single request in bytes: of a striped file, one of the usual size to each object.
pub(super) fn largest_request(file: &File) -> usize {
    file.io.limits().request.saturating_mul(file.shape.objects)
}

/// Most bytes of a straight and of a bounced stretch on a route: within the limits, whole blocks of the file, and
/// such that memory behind an aligned stretch is aligned too. One block where the limit is less.
pub(super) fn longest_stretches(file: &File, align: Align) -> (u64, u64) {
    let unit = align.offset.max(align.memory);
    let straight = align_down(largest_request(file) as u64, unit).max(unit);
    let bounced = align_down(file.io.bounce().block_len() as u64, align.offset).min(straight);
    (straight, bounced)
}

pub(super) fn in_flight_of(file: &File, len: u64) -> u64 {
    let most = largest_request(file) as u64;
    let (requests, each) = (len.div_ceil(most), len.min(most));
    let parts = each.div_ceil(file.shape.stripe).clamp(1, file.shape.objects as u64);
    let mut driver = file.io.borrow_driver();
    if requests > 1 {
        file.blocks().grow(&mut driver, usize::try_from(requests).unwrap_or(usize::MAX), false);
    }
    (driver.depth() as u64).saturating_mul(each.div_ceil(parts)).min(len)
}

/// Runs all stretches. Nothing is under way when it returns, whatever it returns.
pub(super) fn run<'env>(
    file: &File,
    kind: OpKind,
    routing: Routing,
    stretches: &[Stretch],
    ends: &mut impl Ends<'env>,
) -> Result<(), FileError> {
    let (blocks, most) = (blocks_of_one(file), largest_request(file) as u64);
    let groups: Vec<&[Stretch]> = groups(stretches, most, blocks.div_ceil(SHARES)).collect();
    file.count_requests(kind, groups.len() as u64);
    let needed = bounced(stretches).min(blocks);
    // All that will be needed, before anything is held: two requests never wait for each other's.
    let mut spare = if needed == 0 { Vec::new() } else { file.io.bounce().take_many(needed) };
    let flow = Flow { file, kind, routing };
    if let [group] = groups[..] {
        let request = flow.prepare((0, group), &mut spare, ends);
        return ends.end(file.without_dontcache(file.io.run(request)), &mut spare).map(|_| ());
    }
    let mut driver = file.io.borrow_driver();
    // All parts of a striped file's request are submitted before one is waited for.
    file.blocks().grow(&mut driver, groups.len(), false);
    let outcome = flow.run_in(&mut driver, &groups, spare, ends);
    // After an error, or at the end of the file, requests beyond may still be under way; if the engine fails, it waits for
    // them when it is dropped.
    let _ = driver.drain(&mut Vec::new());
    outcome
}

/// A request of several stretches under way.
struct Flow<'a> {
    file: &'a File,
    kind: OpKind,
    routing: Routing,
}

impl Flow<'_> {
    fn run_in<'env>(
        &self,
        driver: &mut Driver,
        groups: &[&[Stretch]],
        mut spare: Vec<Block>,
        ends: &mut impl Ends<'env>,
    ) -> Result<(), FileError> {
        let broken = |error: std::io::Error| {
            let failed = self.file.failed("run I/O on", super::raw(&error));
            // What became of the writes in flight is not known.
            if self.kind == OpKind::Write { self.file.latch.set(failed) } else { failed }
        };
        let (mut begun, mut ended) = (0, 0);
        let mut finished = Vec::new();
        let mut over: Vec<Option<Finished>> = groups.iter().map(|_| None).collect();
        while ended < groups.len() {
            let may_begin = |begun: usize| !self.routing.in_order || begun == ended;
            while let Some(group) = groups.get(begun).filter(|group| bounced(group) <= spare.len() && may_begin(begun))
            {
                driver.submit(self.prepare((begun, group), &mut spare, ends));
                begun += 1;
                if bounced(group) > 0 {
                    // It starts now, and not after more has been copied.
                    driver.wait(0, &mut finished).map_err(broken)?;
                }
            }
            if finished.is_empty() && over[ended].is_none() {
                driver.wait(1, &mut finished).map_err(broken)?;
            }
            for one in finished.drain(..) {
                let index = one.request.tag as usize;
                over[index] = Some(one);
            }
            let Some(one) = over[ended].take() else { continue };
            ended += 1;
            if !ends.end(self.file.without_dontcache(one), &mut spare)? {
                return Ok(());
            }
        }
        Ok(())
    }

    fn prepare<'env>(
        &self,
        (index, group): (usize, &[Stretch]),
        spare: &mut Vec<Block>,
        ends: &mut impl Ends<'env>,
    ) -> Request {
        let mut segments = Vec::with_capacity(group.len());
        ends.begin(group, &mut spare.drain(..bounced(group)), &mut segments);
        let mut segments = segments.into_iter();
        let mut mem = Mem::one(segments.next().expect("a group has a stretch"));
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

    #[test]
    fn what_is_in_flight_is_all_parts_that_the_engine_takes() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let targets: Vec<_> = (0..4).map(|target| directory.path().join(target.to_string())).collect();
        targets.iter().for_each(|target| std::fs::create_dir(target).unwrap());
        let path = directory.path().join("striped");
        stripe::create(&path, &stripe::Plan { stripe: Some(4096), targets, ..stripe::Plan::default() }).unwrap();
        let io = Io::new(Limits { depth: 2, request: 64 << 10, ..Limits::default() }).unwrap();
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).io(&io).open(&path).unwrap();
        assert_eq!(file.in_flight_of(4096), 4096);
        assert_eq!(file.in_flight_of(8192), 8192);
        // One request in four parts, of which the engine takes two.
        assert_eq!(file.in_flight_of(256 << 10), 128 << 10);
        // Several requests have an engine for all their parts.
        assert_eq!(file.in_flight_of(1 << 20), 1 << 20);
        // So it is with one object.
        let (path, targets) = (directory.path().join("one"), vec![directory.path().join("0")]);
        stripe::create(&path, &stripe::Plan { stripe: Some(4096), targets, ..stripe::Plan::default() }).unwrap();
        assert_eq!(options.open(&path).unwrap().in_flight_of(1 << 20), 1 << 20);
        let plain = options.create(true).open(directory.path().join("plain")).unwrap();
        assert_eq!(plain.in_flight_of(64 << 10), 64 << 10);
    }

    proptest! {
        #[test]
        fn groups_keep_the_order_and_the_limits(
            kinds in prop::collection::vec((any::<bool>(), 1u64..20), 1..400),
            most in 1u64..64,
            blocks in 1usize..9,
        ) {
            let mut at = 0;
            let stretches: Vec<Stretch> = kinds
                .iter()
                .map(|(straight, len)| {
                    let file = at..at + len * 512;
                    at = file.end;
                    Stretch { file, straight: straight.then_some((0, 0)) }
                })
                .collect();
            let groups: Vec<&[Stretch]> = groups(&stretches, most * 512, blocks).collect();
            prop_assert_eq!(&groups.concat(), &stretches);
            for group in groups {
                let bytes = group[group.len() - 1].file.end - group[0].file.start;
                prop_assert!(bounced(group) <= blocks && group.len() <= MOST_SEGMENTS);
                prop_assert!(bytes <= most * 512 || group.len() == 1);
            }
        }
    }
}

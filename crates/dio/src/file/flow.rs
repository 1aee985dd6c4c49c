//! Running the stretches of a request: what needs no block of ours is submitted at once; what does goes through a bounded number of
//! blocks, some of which are under way while others are filled or emptied. Shared by reads and writes.

use super::layout::Stretch;
use super::{File, FileError, Passage};
use crate::block::{Block, Mem, Segment};
use crate::drive::{Finished, run_here};
use crate::engine::{Kind, Op};

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

impl File {
    /// Bounce blocks that one request may hold at a time: enough for every disk that holds a part of the file, and at most half of
    /// them all, so that two can proceed.
    fn blocks_of_one(&self) -> usize {
        (self.io.limits().bounce_blocks / 2).min(BLOCKS.saturating_mul(self.objects().len())).max(1)
    }

    /// Bytes of an aligned request of so many bytes that are under way at once: all of it, unless it has more parts than an engine
    /// takes at a time.
    pub fn in_flight_of(&self, len: u64) -> u64 {
        let most = self.largest_request() as u64;
        let (requests, each) = (len.div_ceil(most), len.min(most));
        let parts = self.stripes.as_ref().map_or(1, |stripes| {
            let layout = stripes.layout();
            each.div_ceil(layout.stripe()).clamp(1, layout.objects() as u64)
        });
        let mut driver = self.io.borrow_driver();
        if requests > 1 {
            self.suit(&mut driver, usize::try_from(requests).unwrap_or(usize::MAX), false);
        }
        (driver.depth() as u64).saturating_mul(each.div_ceil(parts)).min(len)
    }

    /// Runs all stretches. Nothing is under way when it returns, whatever it returns.
    pub(super) fn flow<'env>(
        &self,
        kind: Kind,
        way: Passage,
        stretches: &[Stretch],
        ends: &mut impl Ends<'env>,
    ) -> Result<(), FileError> {
        let blocks = self.blocks_of_one();
        let most = self.largest_request() as u64;
        let groups: Vec<&[Stretch]> = groups(stretches, most, blocks.div_ceil(SHARES)).collect();
        self.count_requests(kind, groups.len() as u64);
        let needed = bounced(stretches).min(blocks);
        // All that will be needed, before anything is held: two requests never wait for each other's.
        let mut spare = if needed == 0 { Vec::new() } else { self.io.bounce().take_many(needed) };
        if let [group] = groups[..] {
            let op = self.prepare(kind, way, (0, group), &mut spare, ends);
            return ends.end(self.without_dontcache(run_here(op)), &mut spare).map(|_| ());
        }
        let mut driver = self.io.borrow_driver();
        // All parts of a striped file's request are submitted before one is waited for.
        self.suit(&mut driver, groups.len(), false);
        let outcome = self.flow_in(&mut driver, (kind, way), &groups, spare, ends);
        // After an error, or at the end of the file, requests beyond may still be under way; if the engine fails, it waits for
        // them when it is dropped.
        let _ = driver.drain(&mut Vec::new());
        outcome
    }

    fn flow_in<'env>(
        &self,
        driver: &mut crate::drive::Driver,
        (kind, way): (Kind, Passage),
        groups: &[&[Stretch]],
        mut spare: Vec<Block>,
        ends: &mut impl Ends<'env>,
    ) -> Result<(), FileError> {
        let broken = |error: std::io::Error| {
            let failed = self.failed("run I/O on", super::raw(&error));
            // What became of the writes in flight is not known.
            if kind == Kind::Write { self.latched(failed) } else { failed }
        };
        let (mut begun, mut ended) = (0, 0);
        let mut finished = Vec::new();
        let mut over: Vec<Option<Finished>> = groups.iter().map(|_| None).collect();
        while ended < groups.len() {
            let may_begin = |begun: usize| !way.in_order || begun == ended;
            while let Some(group) = groups.get(begun).filter(|group| bounced(group) <= spare.len() && may_begin(begun))
            {
                driver.submit(self.prepare(kind, way, (begun, group), &mut spare, ends));
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
                let index = one.op.tag as usize;
                over[index] = Some(one);
            }
            let Some(one) = over[ended].take() else { continue };
            ended += 1;
            if !ends.end(self.without_dontcache(one), &mut spare)? {
                return Ok(());
            }
        }
        Ok(())
    }

    fn prepare<'env>(
        &self,
        kind: Kind,
        way: Passage,
        (index, group): (usize, &[Stretch]),
        spare: &mut Vec<Block>,
        ends: &mut impl Ends<'env>,
    ) -> Op {
        let mut segments = Vec::with_capacity(group.len());
        ends.begin(group, &mut spare.drain(..bounced(group)), &mut segments);
        let mut segments = segments.into_iter();
        let mut mem = Mem::one(segments.next().expect("a group has a stretch"));
        segments.for_each(|segment| mem.push(segment));
        let op = self.op(kind, way.route, self.flags(way), group[0].file.start, Some(mem));
        Op { tag: index as u64, ..op }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Io, Limits, OpenOptions, stripe};
    use proptest::prelude::*;

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

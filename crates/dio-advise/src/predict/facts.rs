//! What the requests of a trace have in common: the evidence for advice.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use dio::file::DIRECT_FROM;
use dio_common::recent::slot;

use super::reuse::{PAGE, ReuseCounter, Use};
use crate::replay::planned::{Plan, PlannedRequest, PlannedThread};
use crate::speed::Way;
use crate::trace::Call;

/// The sizes of a file's requests are counted one by one up to so many different ones.
const SIZES_MAX: usize = 64;

/// Whether the pages that a request reads were used before, and would still be in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Known {
    /// Through the page cache.
    pub(super) cached: bool,
    /// In mode `auto`.
    pub(super) auto: bool,
}

/// The distances of all uses by powers of two: number `n` has the bytes that were used again after
/// at least 2^(n-1) and less than 2^n other bytes.
pub(super) type Distances = [u64; 64];

/// What is known of the requests to one file, or to several.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) read: Moved,
    pub(super) written: Moved,
    /// Bytes that were read again, and how much was used in between.
    pub(super) distances: Distances,
    pub(super) syncs: u64,
    /// Threads that wrote.
    writers: HashSet<u32>,
    /// The most threads that wrote one file.
    pub(super) writers_of_one: usize,
    /// Bytes of pages that were new to the page cache.
    pub(super) new_to_cache: u64,
    /// Bytes that were written and not synced.
    pub(super) unsynced: u64,
    /// Requests of files that were open for direct I/O.
    pub(super) direct: u64,
    /// Bytes that were touched in mapped memory.
    pub(super) mapped: u64,
    /// Bytes of pages that were written in mapped memory.
    pub(super) written_mapped: u64,
    /// Bytes of different pages.
    pub(super) touched: u64,
}

impl Default for Facts {
    fn default() -> Facts {
        Facts {
            read: Moved::default(),
            written: Moved::default(),
            distances: [0; 64],
            syncs: 0,
            writers: HashSet::new(),
            writers_of_one: 0,
            new_to_cache: 0,
            unsynced: 0,
            direct: 0,
            mapped: 0,
            written_mapped: 0,
            touched: 0,
        }
    }
}

/// The requests in one direction.
#[derive(Clone, Debug, Default)]
pub(super) struct Moved {
    pub(super) requests: u64,
    pub(super) bytes: u64,
    pub(super) in_order: u64,
    sizes: HashMap<u64, u64>,
}

impl Moved {
    fn add(&mut self, asked: u64, bytes: u64, in_order: bool) {
        self.requests += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        self.in_order += u64::from(in_order);
        if self.sizes.len() < SIZES_MAX || self.sizes.contains_key(&asked) {
            *self.sizes.entry(asked).or_default() += 1;
        }
    }

    fn join(&mut self, other: &Moved) {
        self.requests += other.requests;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.in_order += other.in_order;
        for (size, count) in &other.sizes {
            *self.sizes.entry(*size).or_default() += count;
        }
    }

    /// The size that was asked for most often, and the part of the requests that asked for it.
    pub(super) fn usual_size(&self) -> Option<(u64, f64)> {
        let most = self.sizes.iter().max_by_key(|(size, count)| (**count, Reverse(**size)))?;
        Some((*most.0, *most.1 as f64 / self.requests.max(1) as f64))
    }

    /// The part of the requests that began where the thread's last one to the file ended.
    pub(super) fn order(&self) -> f64 {
        self.in_order as f64 / self.requests.max(1) as f64
    }
}

impl Facts {
    /// Adds those of another file.
    pub(super) fn join(&mut self, other: &Facts) {
        self.read.join(&other.read);
        self.written.join(&other.written);
        let sums = self.distances.iter_mut().zip(other.distances);
        sums.for_each(|(sum, one)| *sum = sum.saturating_add(one));
        self.syncs += other.syncs;
        self.writers_of_one = self.writers_of_one.max(other.writers_of_one);
        self.new_to_cache = self.new_to_cache.saturating_add(other.new_to_cache);
        self.unsynced = self.unsynced.saturating_add(other.unsynced);
        self.direct += other.direct;
        self.mapped = self.mapped.saturating_add(other.mapped);
        self.written_mapped = self.written_mapped.saturating_add(other.written_mapped);
        self.touched = self.touched.saturating_add(other.touched);
    }

    /// Bytes that were read again.
    pub(super) fn read_again(&self) -> u64 {
        self.distances.iter().fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }

    /// Whether the requests are direct already: most of them, at least.
    pub(super) fn is_direct(&self) -> bool {
        2 * self.direct > self.read.requests + self.written.requests
    }

    /// Bytes of the page cache that the files use by a way.
    pub(super) fn cache_bytes(&self, way: Way) -> u64 {
        match way {
            _ if self.is_direct() => 0,
            Way::Cached => self.touched,
            Way::Auto => self.read_again().min(self.touched),
            Way::Direct | Way::Concurrent | Way::Tool => 0,
        }
    }

    /// The memory within which nine tenths of what was read again was read again.
    pub(super) fn memory_for_reuse(&self) -> u64 {
        let most = self.read_again() / 10 * 9;
        let mut sum = 0_u64;
        for (power, bytes) in self.distances.iter().enumerate() {
            sum = sum.saturating_add(*bytes);
            if sum > most {
                return 1_u64.checked_shl(power as u32).unwrap_or(u64::MAX).max(PAGE);
            }
        }
        0
    }
}

/// What was learned from all requests.
#[derive(Debug)]
pub(super) struct History {
    /// By file.
    pub(super) files: Vec<Facts>,
    /// By thread and request.
    pub(super) known: Vec<Vec<Known>>,
    /// The owner of each thread.
    pub(super) owners: Vec<u32>,
    /// Of all files.
    pub(super) distances: Distances,
    /// The trace has more than is looked at.
    pub(super) is_cut: bool,
}

/// So many uses of pages are looked at: those of four tebibytes. A trace of a few bytes may tell of
/// any number.
const USES_MAX: u64 = 1 << 30;

/// Looks at all requests in the order in which they began. `memory` is that of the machine, in
/// bytes.
pub(super) fn history(plan: &Plan, memory: u64) -> History {
    let mut order: Vec<(u64, u32, u32)> = Vec::new();
    for (thread, planned) in plan.threads.iter().enumerate() {
        let of = |(index, request): (usize, &PlannedRequest)| {
            (request.start, thread as u32, index as u32)
        };
        order.extend(planned.requests.iter().enumerate().map(of));
    }
    order.sort_unstable();
    let mut historian = Historian::new(plan, memory);
    order.iter().for_each(|(_, thread, index)| historian.take(*thread, *index));
    for facts in &mut historian.history.files {
        facts.writers_of_one = facts.writers.len();
    }
    historian.history
}

struct Historian<'a> {
    plan: &'a Plan,
    memory: u64,
    reuse: ReuseCounter,
    /// Pages that mode `auto` has in the page cache.
    promoted: HashSet<(u32, u64)>,
    /// By file and slot, the marks of pieces that were used recently, as a mount notes them.
    recent: HashMap<(u32, usize), u32>,
    /// Uses of pages that are looked at yet.
    uses_left: u64,
    /// Where the last read and the last write of a thread to a file ended.
    ends: HashMap<(u32, u32, bool), u64>,
    history: History,
}

impl<'a> Historian<'a> {
    fn new(plan: &'a Plan, memory: u64) -> Historian<'a> {
        Historian {
            plan,
            memory,
            reuse: ReuseCounter::new(),
            promoted: HashSet::new(),
            recent: HashMap::new(),
            uses_left: USES_MAX,
            ends: HashMap::new(),
            history: History {
                files: vec![Facts::default(); plan.files.len()],
                known: plan
                    .threads
                    .iter()
                    .map(|thread| vec![Known::default(); thread.requests.len()])
                    .collect(),
                owners: plan.threads.iter().map(|thread| thread.owner).collect(),
                distances: [0; 64],
                is_cut: false,
            },
        }
    }

    /// The pages of a range, as far as they are looked at.
    fn uses(&mut self, offset: u64, bytes: u64) -> std::ops::Range<u64> {
        let range = pages(offset, bytes);
        let count = (range.end - range.start).min(self.uses_left);
        self.history.is_cut |= count < range.end - range.start;
        self.uses_left -= count;
        range.start..range.start + count
    }

    fn take(&mut self, thread: u32, index: u32) {
        let PlannedThread { owner, requests, .. } = &self.plan.threads[thread as usize];
        let (owner, request) = (*owner, &requests[index as usize]);
        let facts = &mut self.history.files[request.file as usize];
        facts.new_to_cache = facts.new_to_cache.saturating_add(request.new_to_cache);
        let moves = request.call.reads() || request.call.writes();
        facts.direct += u64::from(request.direct && moves);
        match request.call {
            Call::Fsync | Call::Fdatasync => {
                facts.syncs += 1;
                facts.unsynced = 0;
            }
            call if call.reads() => {
                let known = self.read(owner, request);
                self.history.known[thread as usize][index as usize] = known;
                if let Some((to, place)) = request.to {
                    self.write(owner, request, to, place);
                }
            }
            call if call.writes() => self.write(owner, request, request.file, request.offset),
            _ => {}
        }
    }

    fn read(&mut self, thread: u32, request: &PlannedRequest) -> Known {
        let (file, offset) = (request.file, request.offset);
        let (mut looked_at, mut cached, mut auto) = (0_u64, 0_u64, 0_u64);
        let is_warm = self.plan.files[file as usize].is_warm;
        let in_order = self.ends.insert((thread, file, false), offset.saturating_add(request.done));
        let in_order = in_order.map_or(offset == 0, |end| end == offset);
        let is_promoted = !in_order && self.is_recent(file, offset, request.done);
        for page in self.uses(offset, request.done) {
            let weight = self.reuse.weight() * PAGE;
            let used = self.reuse.touch((file, page));
            let facts = &mut self.history.files[file as usize];
            match used {
                Use::Skipped => continue,
                Use::First => {
                    facts.touched = facts.touched.saturating_add(weight);
                    cached += u64::from(is_warm);
                    auto += u64::from(is_warm);
                }
                Use::Again(pages) => {
                    let distance = pages.saturating_mul(PAGE);
                    let power = (u64::BITS - distance.leading_zeros()) as usize;
                    for distances in [&mut facts.distances, &mut self.history.distances] {
                        let bytes = &mut distances[power.min(63)];
                        *bytes = bytes.saturating_add(weight);
                    }
                    let is_kept = distance < self.memory;
                    cached += u64::from(is_kept);
                    auto += u64::from(is_kept && self.promoted.contains(&(file, page)));
                }
            }
            if is_promoted {
                self.promoted.insert((file, page));
            }
            looked_at += 1;
        }
        let facts = &mut self.history.files[file as usize];
        if request.call == Call::Fault {
            facts.mapped = facts.mapped.saturating_add(request.done);
        } else {
            facts.read.add(request.bytes, request.done, in_order);
        }
        let most = |count: u64| looked_at > 0 && 2 * count > looked_at;
        Known { cached: most(cached), auto: most(auto) }
    }

    /// Whether mode `auto` takes a small request through the page cache, since its place was used
    /// recently; notes that it is used now.
    fn is_recent(&mut self, file: u32, offset: u64, bytes: u64) -> bool {
        let (slot, mark) = slot(offset);
        bytes < DIRECT_FROM && self.recent.insert((file, slot), mark) == Some(mark)
    }

    fn write(&mut self, thread: u32, request: &PlannedRequest, file: u32, offset: u64) {
        for page in self.uses(offset, request.done) {
            let weight = self.reuse.weight() * PAGE;
            if self.reuse.touch((file, page)) == Use::First {
                let touched = &mut self.history.files[file as usize].touched;
                *touched = touched.saturating_add(weight);
            }
        }
        let end = offset.saturating_add(request.done);
        let in_order = self.ends.insert((thread, file, true), end);
        let facts = &mut self.history.files[file as usize];
        let in_order = in_order.map_or(offset == 0, |end| end == offset);
        if request.call == Call::WriteFault {
            facts.written_mapped = facts.written_mapped.saturating_add(request.done);
        } else {
            facts.written.add(request.bytes, request.done, in_order);
        }
        facts.writers.insert(thread);
        if request.synced {
            facts.syncs += 1;
        } else {
            facts.unsynced = facts.unsynced.saturating_add(request.done);
        }
    }
}

/// The most bytes that the kernel moves in one call (`MAX_RW_COUNT`), about. A trace may say
/// anything; what it says of more in one request is not looked at.
const MOVED_MAX: u64 = 1 << 31;

/// The pages of a range.
fn pages(offset: u64, bytes: u64) -> std::ops::Range<u64> {
    if bytes == 0 {
        return 0..0;
    }
    let bytes = bytes.min(MOVED_MAX);
    offset / PAGE..offset.saturating_add(bytes).div_ceil(PAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_that_tells_of_too_much_is_looked_at_in_part() {
        let plan = Plan::default();
        let mut historian = Historian::new(&plan, 1 << 30);
        historian.uses_left = 3;
        assert_eq!(historian.uses(0, 2 * PAGE), 0..2);
        assert!(!historian.history.is_cut);
        assert_eq!(historian.uses(8 * PAGE, 1 << 40), 8..9);
        assert!(historian.history.is_cut);
        assert_eq!(historian.uses(0, 1), 0..0);
    }
}

//! The blocks that a reader holds, by file offset: in flight, read, being consumed, and those
//! already consumed.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::ops::Range;

use super::limits::BlockSizes;
use crate::block::{Block, Pool};
use crate::geometry::{align_down, align_up};

/// A block, the file offset of its bytes, and which of them the consumer has used.
#[derive(Debug)]
pub(super) struct CachedBlock {
    pub(super) start: u64,
    pub(super) block: Block,
    /// The end of the file lies within the requested range.
    pub(super) last: bool,
    /// From the first to the last byte that the consumer has used, counted from the start of the
    /// block.
    used: Range<usize>,
}

impl CachedBlock {
    pub(super) fn len(&self) -> usize {
        self.block.filled().len()
    }

    /// Records that the consumer has used the bytes of `range` that lie in this block.
    pub(super) fn mark_used(&mut self, range: Range<u64>) {
        let inside = |at: u64| (at.saturating_sub(self.start) as usize).min(self.len());
        let (from, to) = (inside(range.start), inside(range.end));
        if from < to {
            let empty = self.used.is_empty();
            self.used.start = if empty { from } else { self.used.start.min(from) };
            self.used.end = if empty { to } else { self.used.end.max(to) };
        }
    }

    /// Bytes read and not used. A request cannot be smaller than a file block, so if any byte of a
    /// file block was used, all of it counts as used.
    pub(super) fn unused(&self, unit: u64) -> u64 {
        let used = align_down(self.used.start as u64, unit)..align_up(self.used.end as u64, unit);
        let useful = if self.used.is_empty() { 0 } else { used.end - used.start };
        (self.len() as u64).saturating_sub(useful)
    }
}

#[derive(Debug)]
enum SlotState {
    /// The request is in flight.
    InFlight,
    /// The consumer has the block.
    Out,
    Ready(CachedBlock),
}

#[derive(Debug)]
struct CacheSlot {
    /// End in the file: of the request, or of the bytes read.
    end: u64,
    state: SlotState,
    /// Distinguishes this block from others that were at the same offset, and from itself before it
    /// was last used.
    ticket: u64,
    /// The stream that it was read for.
    stream_id: u32,
}

/// What is held at an offset.
#[derive(Debug)]
pub(super) enum Lookup {
    Nothing,
    InFlight,
    Block(CachedBlock),
}

/// Blocks of one length.
#[derive(Debug)]
struct BlockClass {
    len: usize,
    count: usize,
    pool: Option<Pool>,
    /// Blocks that the consumer has left, as start and ticket, the longest ago first. A block may
    /// be gone or in use again; then its ticket is another.
    left: VecDeque<(u64, u64)>,
}

/// The blocks of a reader, and the memory for them, which is made when it is first needed.
#[derive(Debug)]
pub(super) struct BlockCache {
    unit: u64,
    lent: usize,
    /// Slots by file offset. Invariant: no two overlap, except that a block cut by the end of the
    /// file ends before the multiple of the unit at which the next one starts.
    slots: BTreeMap<u64, CacheSlot>,
    classes: [BlockClass; 2],
    tickets: u64,
    /// Bytes dropped that the consumer had not used.
    pub(super) unused: u64,
}

const SMALL: usize = 0;
const LARGE: usize = 1;

impl BlockCache {
    pub(super) fn new(sizes: &BlockSizes, lent: usize) -> BlockCache {
        let class = |(len, count)| BlockClass { len, count, pool: None, left: VecDeque::new() };
        let classes = [class(sizes.small), class(sizes.large)];
        BlockCache {
            unit: sizes.bounds.unit,
            lent,
            slots: BTreeMap::new(),
            classes,
            tickets: 0,
            unused: 0,
        }
    }

    /// Adapts to the size of the file: a small file needs little memory. Without effect once there
    /// is memory.
    pub(super) fn adapt_to_size(&mut self, size: u64) {
        let small = &mut self.classes[SMALL];
        if small.pool.is_none() && size < small.len as u64 && small.count > 0 {
            small.len = align_up(size.max(1), self.unit.max(4096)) as usize;
            small.count = 2 + self.lent;
        }
    }

    /// Longest request that a small block can hold; 0 if there are no small blocks.
    pub(super) fn small_len(&self) -> usize {
        if self.classes[SMALL].count > 0 { self.classes[SMALL].len } else { 0 }
    }

    fn class_for(&self, len: usize) -> usize {
        if len <= self.small_len() { SMALL } else { LARGE }
    }

    /// The memory for requests of `len` bytes.
    pub(super) fn pool_for(&mut self, len: usize) -> io::Result<&Pool> {
        let class = self.class_for(len);
        let BlockClass { len, count, pool, .. } = &mut self.classes[class];
        match pool {
            Some(pool) => Ok(pool),
            None => Ok(pool.insert(Pool::new(*len, *count)?)),
        }
    }

    /// Memory for a request of `len` bytes for a stream. Tries a free block first, then one that
    /// the consumer has left, then one that was read ahead for a stream that is not among the
    /// `live_streams`. If `live_streams` is `None`, because the consumer waits for this request,
    /// any block that is not in flight will do.
    pub(super) fn memory(
        &mut self,
        len: usize,
        stream_id: u32,
        live_streams: Option<&[u32]>,
    ) -> io::Result<Option<Block>> {
        let class = self.class_for(len);
        loop {
            if let Some(block) = self.pool_for(len)?.try_take() {
                return Ok(Some(block));
            }
            if !self.drop_least_needed(class, stream_id, live_streams) {
                return Ok(None);
            }
        }
    }

    /// Drops the block of a class that is needed least. False if there is none to drop.
    fn drop_least_needed(
        &mut self,
        class: usize,
        stream_id: u32,
        live_streams: Option<&[u32]>,
    ) -> bool {
        while let Some((start, ticket)) = self.classes[class].left.pop_front() {
            if self.slots.get(&start).is_some_and(|slot| slot.ticket == ticket) {
                self.remove(start);
                return true;
            }
        }
        let capacity = self.classes[class].pool.as_ref().map_or(0, Pool::block_len);
        let droppable = |slot: &CacheSlot| match &slot.state {
            SlotState::Ready(cached) => {
                let kept = |live_streams: &[u32]| {
                    slot.stream_id == stream_id || live_streams.contains(&slot.stream_id)
                };
                cached.block.capacity() == capacity && !live_streams.is_some_and(kept)
            }
            SlotState::InFlight | SlotState::Out => false,
        };
        let candidates = self.slots.iter().filter(|(_, slot)| droppable(slot));
        let least = candidates
            .min_by_key(|(_, slot)| (slot.stream_id == stream_id, slot.ticket))
            .map(|(start, _)| *start);
        let Some(start) = least else { return false };
        self.remove(start);
        true
    }

    /// Reserves the slot of a new request and returns its ticket.
    pub(super) fn reserve(&mut self, range: Range<u64>, stream_id: u32) -> u64 {
        self.tickets += 1;
        let slot = CacheSlot {
            end: range.end,
            state: SlotState::InFlight,
            ticket: self.tickets,
            stream_id,
        };
        let old = self.slots.insert(range.start, slot);
        debug_assert!(old.is_none(), "two requests for {range:?}");
        self.tickets
    }

    /// Stores the block of a finished request. `last` says that the file ended within it. An empty
    /// block is not kept.
    pub(super) fn fill(&mut self, start: u64, ticket: u64, block: Block, last: bool) {
        let cached = CachedBlock { start, block, last, used: 0..0 };
        match self.slots.get_mut(&start) {
            Some(slot) if slot.ticket == ticket => {
                if cached.len() == 0 {
                    self.slots.remove(&start);
                    return;
                }
                slot.end = start + cached.len() as u64;
                slot.state = SlotState::Ready(cached);
            }
            // Nobody waits for it any more.
            _ => self.unused += cached.len() as u64,
        }
    }

    /// Looks up `position`. A block that holds it goes to the consumer.
    pub(super) fn take(&mut self, position: u64) -> Lookup {
        let Some((_, slot)) = self.slots.range_mut(..=position).next_back() else {
            return Lookup::Nothing;
        };
        if slot.end <= position {
            return Lookup::Nothing;
        }
        match std::mem::replace(&mut slot.state, SlotState::Out) {
            SlotState::Ready(cached) => Lookup::Block(cached),
            SlotState::InFlight => {
                slot.state = SlotState::InFlight;
                Lookup::InFlight
            }
            SlotState::Out => unreachable!("a reader gives one block back before it takes another"),
        }
    }

    /// Whether `position` is held or in flight.
    pub(super) fn holds(&self, position: u64) -> bool {
        self.slots.range(..=position).next_back().is_some_and(|(_, slot)| slot.end > position)
    }

    /// Takes a block back from the consumer. The block is probably needed no more if the consumer
    /// has used it to the end, or if it is `behind` for another reason.
    pub(super) fn put_back(&mut self, cached: CachedBlock, behind: bool) {
        let (start, capacity) = (cached.start, cached.block.capacity());
        let behind = behind || align_up(cached.used.end as u64, self.unit) >= cached.len() as u64;
        self.tickets += 1;
        let Some(slot) = self.slots.get_mut(&start) else { return };
        (slot.ticket, slot.state) = (self.tickets, SlotState::Ready(cached));
        if !behind {
            return;
        }
        let Some(class) = self.classes.iter_mut().find(|class| class.pool_len() == capacity) else {
            return;
        };
        class.left.push_back((start, self.tickets));
        if class.left.len() > 8 * class.count.max(32) {
            let slots = &self.slots;
            class.left.retain(|(start, ticket)| {
                slots.get(start).is_some_and(|slot| slot.ticket == *ticket)
            });
        }
    }

    /// Takes a block out of the cache, because the consumer keeps it.
    pub(super) fn give_away(&mut self, cached: CachedBlock) -> Block {
        self.slots.remove(&cached.start);
        self.unused += cached.unused(self.unit);
        cached.block
    }

    /// Drops the block that covers the file block at `start`, a multiple of the unit, if the end of
    /// the file has cut it: it is of no use any more.
    pub(super) fn drop_cut(&mut self, start: u64) {
        let last = self.slots.range(..start + self.unit).next_back();
        if let Some((at, slot)) = last
            && slot.end > start
        {
            self.remove(*at);
        }
    }

    /// Where the blocks around `at`, a multiple of the unit, end. `None` if there are none.
    pub(super) fn covered(&self, at: u64) -> Option<u64> {
        let (_, slot) = self.slots.range(..=at).next_back()?;
        Some(align_up(slot.end, self.unit)).filter(|end| *end > at)
    }

    /// Start of the first block behind `at`.
    pub(super) fn next_start(&self, at: u64) -> Option<u64> {
        self.slots.range(at + 1..).next().map(|(start, _)| *start)
    }

    /// Drops everything.
    pub(super) fn clear(&mut self) {
        let starts: Vec<u64> = self.slots.keys().copied().collect();
        starts.into_iter().for_each(|start| self.remove(start));
        self.classes.iter_mut().for_each(|class| class.left.clear());
    }

    fn remove(&mut self, start: u64) {
        if let Some(CacheSlot { state: SlotState::Ready(cached), .. }) = self.slots.remove(&start) {
            self.unused += cached.unused(self.unit);
        }
    }

    /// Bytes that have been read and that the consumer has not used so far.
    pub(super) fn unused_bytes(&self) -> u64 {
        let unused_bytes = |slot: &CacheSlot| match &slot.state {
            SlotState::Ready(cached) => cached.unused(self.unit),
            SlotState::InFlight | SlotState::Out => 0,
        };
        self.slots.values().map(unused_bytes).sum()
    }
}

impl BlockClass {
    fn pool_len(&self) -> usize {
        self.pool.as_ref().map_or(0, Pool::block_len)
    }
}

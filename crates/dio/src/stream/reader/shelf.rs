//! The blocks that a reader holds, by their place in the file: in flight, read, being consumed, and those behind.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::ops::Range;

use super::limits::Sizes;
use crate::block::{Block, Pool};
use crate::geometry::{align_down, align_up};

/// A block with what it holds of the file and which of that the consumer has seen.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) start: u64,
    pub(super) block: Block,
    /// Hull of what the consumer has seen, from the start of the block.
    seen: Range<usize>,
}

impl Held {
    pub(super) fn len(&self) -> usize {
        self.block.filled().len()
    }

    /// The consumer has seen `range` of the file, as far as it is here.
    pub(super) fn see(&mut self, range: Range<u64>) {
        let inside = |at: u64| (at.saturating_sub(self.start) as usize).min(self.len());
        let (from, to) = (inside(range.start), inside(range.end));
        if from < to {
            let empty = self.seen.is_empty();
            self.seen.start = if empty { from } else { self.seen.start.min(from) };
            self.seen.end = if empty { to } else { self.seen.end.max(to) };
        }
    }

    /// Bytes read in vain; a request cannot be smaller than a block of the file, so of such a block all were of use.
    pub(super) fn vain(&self, unit: u64) -> u64 {
        let seen = align_down(self.seen.start as u64, unit)..align_up(self.seen.end as u64, unit);
        let useful = if self.seen.is_empty() { 0 } else { seen.end - seen.start };
        (self.len() as u64).saturating_sub(useful)
    }
}

#[derive(Debug)]
enum State {
    /// Its request has not come back.
    InFlight,
    /// The consumer has it.
    Out,
    Ready(Held),
}

#[derive(Debug)]
struct Place {
    /// Where it ends in the file: what was asked for, or what was there.
    end: u64,
    state: State,
    /// Tells this block from others that were at the same place, and from itself before it was last used.
    ticket: u64,
    /// The stream that it was read for.
    plan: u32,
}

/// What is held of a place.
#[derive(Debug)]
pub(super) enum Found {
    Nothing,
    InFlight,
    Block(Held),
}

/// Blocks of one length.
#[derive(Debug)]
struct Class {
    len: usize,
    count: usize,
    pool: Option<Pool>,
    /// Blocks that the consumer has left, as start and ticket, longest ago first. Some may be gone, or be in use again:
    /// then their ticket is another.
    left: VecDeque<(u64, u64)>,
}

/// What a reader holds, and the memory for it, which is made when it is first needed.
#[derive(Debug)]
pub(super) struct Shelf {
    unit: u64,
    lent: usize,
    /// Invariant: no two overlap, but that a block cut by the end of the file ends before the multiple of the unit at
    /// which the next one starts.
    places: BTreeMap<u64, Place>,
    classes: [Class; 2],
    tickets: u64,
    /// Bytes dropped that the consumer had not seen.
    pub(super) vain: u64,
}

const SMALL: usize = 0;
const LARGE: usize = 1;

impl Shelf {
    pub(super) fn new(sizes: &Sizes, lent: usize) -> Shelf {
        let class = |(len, count)| Class { len, count, pool: None, left: VecDeque::new() };
        let classes = [class(sizes.small), class(sizes.large)];
        Shelf { unit: sizes.bounds.unit, lent, places: BTreeMap::new(), classes, tickets: 0, vain: 0 }
    }

    /// The file has `size` bytes: a small one needs little memory. Without effect once there is any.
    pub(super) fn suit(&mut self, size: u64) {
        let small = &mut self.classes[SMALL];
        if small.pool.is_none() && size < small.len as u64 && small.count > 0 {
            small.len = align_up(size.max(1), self.unit.max(4096)) as usize;
            small.count = 2 + self.lent;
        }
    }

    /// Longest request that a small block can hold; 0 where there are none.
    pub(super) fn small_len(&self) -> usize {
        if self.classes[SMALL].count > 0 { self.classes[SMALL].len } else { 0 }
    }

    fn class_for(&self, len: usize) -> usize {
        if len <= self.small_len() { SMALL } else { LARGE }
    }

    /// The memory for requests of `len` bytes.
    pub(super) fn pool_for(&mut self, len: usize) -> io::Result<&Pool> {
        let class = self.class_for(len);
        let Class { len, count, pool, .. } = &mut self.classes[class];
        match pool {
            Some(pool) => Ok(pool),
            None => Ok(pool.insert(Pool::new(*len, *count)?)),
        }
    }

    /// Memory for a request of `len` bytes that is made for a stream: a free block, or one that the consumer has left
    /// behind, or one that was read ahead for a stream that is not among the `others`; where there are none, which is for
    /// what the consumer waits for, any but those in flight.
    pub(super) fn memory(&mut self, len: usize, plan: u32, others: Option<&[u32]>) -> io::Result<Option<Block>> {
        let class = self.class_for(len);
        loop {
            if let Some(block) = self.pool_for(len)?.try_take() {
                return Ok(Some(block));
            }
            if !self.give_up(class, plan, others) {
                return Ok(None);
            }
        }
    }

    /// Drops a block of a class that is needed least; false if there is none to drop.
    fn give_up(&mut self, class: usize, plan: u32, others: Option<&[u32]>) -> bool {
        while let Some((start, ticket)) = self.classes[class].left.pop_front() {
            if self.places.get(&start).is_some_and(|place| place.ticket == ticket) {
                self.remove(start);
                return true;
            }
        }
        let capacity = self.classes[class].pool.as_ref().map_or(0, Pool::block_len);
        let droppable = |place: &Place| match &place.state {
            State::Ready(held) => {
                let kept = |others: &[u32]| place.plan == plan || others.contains(&place.plan);
                held.block.capacity() == capacity && !others.is_some_and(kept)
            }
            State::InFlight | State::Out => false,
        };
        let candidates = self.places.iter().filter(|(_, place)| droppable(place));
        let least = candidates.min_by_key(|(_, place)| (place.plan == plan, place.ticket)).map(|(start, _)| *start);
        let Some(start) = least else { return false };
        self.remove(start);
        true
    }

    /// A request is made: reserves its place and gives it a number.
    pub(super) fn reserve(&mut self, range: Range<u64>, plan: u32) -> u64 {
        self.tickets += 1;
        let place = Place { end: range.end, state: State::InFlight, ticket: self.tickets, plan };
        let old = self.places.insert(range.start, place);
        debug_assert!(old.is_none(), "two requests for {range:?}");
        self.tickets
    }

    /// A request has come back with a block; an empty one is not kept.
    pub(super) fn fill(&mut self, start: u64, ticket: u64, block: Block) {
        let held = Held { start, block, seen: 0..0 };
        match self.places.get_mut(&start) {
            Some(place) if place.ticket == ticket => {
                if held.len() == 0 {
                    self.places.remove(&start);
                    return;
                }
                place.end = start + held.len() as u64;
                place.state = State::Ready(held);
            }
            // Nobody waits for it any more.
            _ => self.vain += held.len() as u64,
        }
    }

    /// What is held of `position`; a block goes to the consumer.
    pub(super) fn take(&mut self, position: u64) -> Found {
        let Some((_, place)) = self.places.range_mut(..=position).next_back() else { return Found::Nothing };
        if place.end <= position {
            return Found::Nothing;
        }
        match std::mem::replace(&mut place.state, State::Out) {
            State::Ready(held) => Found::Block(held),
            State::InFlight => {
                place.state = State::InFlight;
                Found::InFlight
            }
            State::Out => unreachable!("a reader gives one block back before it takes another"),
        }
    }

    /// Whether `position` is held, or on its way.
    pub(super) fn holds(&self, position: u64) -> bool {
        self.places.range(..=position).next_back().is_some_and(|(_, place)| place.end > position)
    }

    /// The consumer has left a block, which it needs no more as far as is known when it has seen it to the end or when it
    /// is `behind` for another reason.
    pub(super) fn put_back(&mut self, held: Held, behind: bool) {
        let (start, capacity) = (held.start, held.block.capacity());
        let behind = behind || align_up(held.seen.end as u64, self.unit) >= held.len() as u64;
        self.tickets += 1;
        let Some(place) = self.places.get_mut(&start) else { return };
        (place.ticket, place.state) = (self.tickets, State::Ready(held));
        if !behind {
            return;
        }
        let Some(class) = self.classes.iter_mut().find(|class| class.pool_len() == capacity) else { return };
        class.left.push_back((start, self.tickets));
        if class.left.len() > 8 * class.count.max(32) {
            let places = &self.places;
            class.left.retain(|(start, ticket)| places.get(start).is_some_and(|place| place.ticket == *ticket));
        }
    }

    /// The consumer keeps a block.
    pub(super) fn give_away(&mut self, held: Held) -> Block {
        self.places.remove(&held.start);
        self.vain += held.vain(self.unit);
        held.block
    }

    /// Drops what is held of the block of the file that starts at `start`, a multiple of the unit, and is no use: one
    /// that the end of the file has cut.
    pub(super) fn drop_cut(&mut self, start: u64) {
        let last = self.places.range(..start + self.unit).next_back();
        if let Some((at, place)) = last
            && place.end > start
        {
            self.remove(*at);
        }
    }

    /// Where what is held around `at`, a multiple of the unit, ends; `None` if nothing is.
    pub(super) fn covered(&self, at: u64) -> Option<u64> {
        let (_, place) = self.places.range(..=at).next_back()?;
        Some(align_up(place.end, self.unit)).filter(|end| *end > at)
    }

    /// Where the first block behind `at` starts.
    pub(super) fn next_start(&self, at: u64) -> Option<u64> {
        self.places.range(at + 1..).next().map(|(start, _)| *start)
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        let starts: Vec<u64> = self.places.keys().copied().collect();
        starts.into_iter().for_each(|start| self.remove(start));
        self.classes.iter_mut().for_each(|class| class.left.clear());
    }

    fn remove(&mut self, start: u64) {
        if let Some(Place { state: State::Ready(held), .. }) = self.places.remove(&start) {
            self.vain += held.vain(self.unit);
        }
    }

    /// Bytes that have been read and that the consumer has not seen so far.
    pub(super) fn unseen(&self) -> u64 {
        let unseen = |place: &Place| match &place.state {
            State::Ready(held) => held.vain(self.unit),
            State::InFlight | State::Out => 0,
        };
        self.places.values().map(unseen).sum()
    }
}

impl Class {
    fn pool_len(&self) -> usize {
        self.pool.as_ref().map_or(0, Pool::block_len)
    }
}

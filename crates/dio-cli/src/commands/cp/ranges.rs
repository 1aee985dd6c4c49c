//! The ranges of a large file that several processes copy. Each holder of ranges copies pieces from
//! their front, and gives half of what is left, from the back, to a process that has nothing to do.

use std::collections::VecDeque;
use std::ffi::CString;
use std::ops::Range;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use super::dirs::Dir;
use super::error::CopyError;
use super::facts::FileFacts;
use super::notes::Notes;

/// Bytes that are copied at a time. A file of fewer than two such pieces is not shared.
pub const PIECE_BYTES: u64 = 32 << 20;

/// Ranges to copy, ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rest {
    ranges: VecDeque<Range<u64>>,
}

impl Rest {
    /// Number of bytes in the ranges.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.ranges.iter().map(|range| range.end - range.start).sum()
    }

    /// Removes what is left of the first piece; nothing if there is none. Pieces begin at multiples
    /// of `piece`, so that they are the same whoever takes them.
    pub fn take_front(&mut self, piece: u64) -> Vec<Range<u64>> {
        let mut taken = Vec::new();
        let Some(first) = self.ranges.front() else { return taken };
        let end = next_piece(first.start, piece);
        while let Some(first) = self.ranges.front_mut()
            && first.start < end
        {
            let cut = first.end.min(end);
            taken.push(first.start..cut);
            first.start = cut;
            if first.is_empty() {
                self.ranges.pop_front();
            }
        }
        taken
    }

    /// Removes about half of the bytes from the back, in whole pieces; nothing if less than a piece
    /// would stay or go.
    pub fn take_back_half(&mut self, piece: u64) -> Vec<Range<u64>> {
        let mut room = self.bytes() / 2 / piece * piece;
        let mut taken = VecDeque::new();
        while room > 0
            && let Some(last) = self.ranges.back_mut()
        {
            let length = last.end - last.start;
            if length <= room {
                room -= length;
                taken.extend(self.ranges.pop_back());
                continue;
            }
            let cut = (last.end - room).next_multiple_of(piece).max(last.start);
            room = 0;
            if cut < last.end {
                taken.push_back(cut..last.end);
                last.end = cut;
            }
        }
        taken.into_iter().rev().collect()
    }

    /// Adds ranges.
    pub fn give(&mut self, ranges: impl IntoIterator<Item = Range<u64>>) {
        self.ranges.extend(ranges);
        self.ranges.make_contiguous().sort_unstable_by_key(|range| range.start);
    }
}

/// The end of the piece that has the byte at `offset`.
fn next_piece(offset: u64, piece: u64) -> u64 {
    (offset / piece + 1).saturating_mul(piece)
}

/// Returns `ranges` without those parts of pieces that are known, and the parts that are.
pub(crate) fn without_known(
    ranges: Vec<Range<u64>>,
    piece: u64,
    is_known: impl Fn(&Range<u64>) -> bool,
) -> (Vec<Range<u64>>, Vec<Range<u64>>) {
    let (mut left, mut known) = (Vec::<Range<u64>>::new(), Vec::new());
    for range in ranges {
        let mut start = range.start;
        while start < range.end {
            let part = start..next_piece(start, piece).min(range.end);
            start = part.end;
            let list = if is_known(&part) { &mut known } else { &mut left };
            match list.last_mut() {
                Some(last) if last.end == part.start => last.end = part.end,
                _ => list.push(part),
            }
        }
    }
    (left, known)
}

/// Why a range was not copied: the lowest offset that is missing, and the message.
pub(crate) type Failure = (u64, CopyError);

/// A file of which ranges are given away.
pub(crate) struct SharedFile {
    pub(crate) dir: Arc<Dir>,
    /// Names in both directories.
    pub(crate) names: (CString, CString),
    pub(crate) facts: FileFacts,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    rest: Rest,
    /// Number of times that ranges were given away and have not come back.
    lent: usize,
    failure: Option<Failure>,
    /// Of two files that are compared: the first byte that differs, as far as it is known.
    difference: Option<u64>,
    /// Another process could not open the files.
    kept: bool,
}

/// The other processes, as the copy of one file needs them.
pub(crate) trait Helpers {
    /// Lets other processes take ranges of `file`; returns false if too many files are shared.
    fn share(&self, file: &Arc<SharedFile>) -> bool;
    /// Ends that.
    fn withdraw(&self, file: &Arc<SharedFile>);
    /// Calls `wait`, which waits for another process.
    fn aside(&self, wait: &mut dyn FnMut());
    /// Where it is noted what is durable.
    fn notes(&self) -> Option<&dyn Notes>;
}

impl SharedFile {
    pub(crate) fn new(
        dir: Arc<Dir>,
        names: (CString, CString),
        facts: FileFacts,
        ranges: impl IntoIterator<Item = Range<u64>>,
    ) -> SharedFile {
        let mut state = State::default();
        state.rest.give(ranges);
        SharedFile { dir, names, facts, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Takes ranges for another process; empty if there is too little.
    pub(crate) fn lend(&self) -> Vec<Range<u64>> {
        let mut state = self.state.lock();
        if state.kept || state.failure.is_some() {
            return Vec::new();
        }
        let taken = state.rest.take_back_half(PIECE_BYTES);
        state.lent += usize::from(!taken.is_empty());
        taken
    }

    /// Records that byte `at` differs. What is behind it need not be compared.
    pub(crate) fn differs_at(&self, at: u64) {
        let mut state = self.state.lock();
        let lowest = state.difference.map_or(at, |known| known.min(at));
        state.difference = Some(lowest);
        let rest = std::mem::take(&mut state.rest.ranges);
        let before = rest.into_iter().map(|range| range.start..range.end.min(lowest));
        state.rest.ranges = before.filter(|range| !range.is_empty()).collect();
    }

    /// The first byte that differs.
    pub(crate) fn difference(&self) -> Option<u64> {
        self.state.lock().difference
    }

    /// Returns whether there is something to lend.
    pub(crate) fn can_lend(&self) -> bool {
        let state = self.state.lock();
        !state.kept && state.failure.is_none() && state.rest.bytes() >= 2 * PIECE_BYTES
    }

    /// Another process is done with ranges that it took. `undone` are those that it could not
    /// begin.
    pub(crate) fn returned(&self, undone: Vec<Range<u64>>, failure: Option<Failure>) {
        let mut state = self.state.lock();
        state.lent -= 1;
        state.kept |= !undone.is_empty();
        state.rest.give(undone);
        if let Some(failure) = failure {
            fail(&mut state, failure);
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Copies everything that is left by calling `copy` for one piece after another, and waits for
    /// the other processes. Returns the first failure, at the lowest offset that is missing.
    pub(crate) fn complete(
        &self,
        helpers: &dyn Helpers,
        mut copy: impl FnMut(&[Range<u64>]) -> Result<(), CopyError>,
    ) -> Result<(), Failure> {
        loop {
            let piece = self.state.lock().rest.take_front(PIECE_BYTES);
            if let Some(first) = piece.first() {
                if let Err(error) = copy(&piece) {
                    fail(&mut self.state.lock(), (first.start, error));
                }
                continue;
            }
            let is_idle = |state: &State| state.rest.bytes() == 0 && state.lent > 0;
            if is_idle(&self.state.lock()) {
                helpers.aside(&mut || {
                    let mut state = self.state.lock();
                    self.changed.wait_while(&mut state, |state| is_idle(state));
                });
            }
            let mut state = self.state.lock();
            if state.rest.bytes() == 0 && state.lent == 0 {
                return state.failure.take().map_or(Ok(()), Err);
            }
        }
    }
}

/// Notes a failure. Nothing more is copied.
fn fail(state: &mut State, (mut at, error): Failure) {
    if let Some(first) = state.rest.ranges.front() {
        at = at.min(first.start);
    }
    state.rest.ranges.clear();
    match &mut state.failure {
        Some((lowest, _)) => *lowest = at.min(*lowest),
        None => state.failure = Some((at, error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rest(ranges: impl IntoIterator<Item = Range<u64>>) -> Rest {
        let mut rest = Rest::default();
        rest.give(ranges);
        rest
    }

    /// Start and end of each range.
    fn ends(ranges: Vec<Range<u64>>) -> Vec<(u64, u64)> {
        ranges.into_iter().map(|range| (range.start, range.end)).collect()
    }

    #[test]
    fn half_goes_in_whole_pieces() {
        let mut all = rest([0..100, 200..300]);
        assert_eq!(ends(all.take_back_half(10)), [(200, 300)]);
        assert_eq!(ends(all.take_back_half(10)), [(50, 100)]);
        assert_eq!(ends(all.take_back_half(30)), []);
        assert_eq!(ends(all.take_front(30)), [(0, 30)]);
        assert_eq!(ends(all.take_front(30)), [(30, 50)]);
        assert_eq!(ends(all.take_front(30)), []);
        let mut odd = rest(std::iter::once(0..35));
        assert_eq!((ends(odd.take_back_half(10)), odd.bytes()), (vec![(30, 35)], 30));
    }

    #[test]
    fn pieces_are_the_same_whoever_takes_them() {
        let all = || rest([3..25, 40..45, 46..48, 60..80]);
        let mut front = all();
        let mut pieces = Vec::new();
        while front.bytes() > 0 {
            pieces.push(ends(front.take_front(10)));
        }
        let of_file = pieces.clone();
        assert_eq!(of_file[..3], [[(3, 10)], [(10, 20)], [(20, 25)]]);
        assert_eq!(of_file[3..], [vec![(40, 45), (46, 48)], vec![(60, 70)], vec![(70, 80)]]);
        let mut halves = vec![all()];
        while let Some(mut one) = halves.pop() {
            let half = one.take_back_half(10);
            if !half.is_empty() {
                halves.extend([one, rest(half)]);
                continue;
            }
            while one.bytes() > 0 {
                let piece = ends(one.take_front(10));
                pieces.retain(|known| *known != piece);
            }
        }
        assert!(pieces.is_empty(), "{pieces:?}");
        let is_known = |part: &Range<u64>| part.start < 20 && part.start > 5 || part.start == 46;
        let (left, known) = without_known(all().ranges.into_iter().collect(), 10, is_known);
        assert_eq!(ends(known), [(10, 20), (46, 48)]);
        assert_eq!(ends(left), [(3, 10), (20, 25), (40, 45), (60, 80)]);
    }

    #[test]
    fn nothing_is_lost_and_nothing_comes_twice() {
        let mut holders = vec![rest([0..1000, 1024..5003, 8192..8200])];
        let (mut found, mut turn) = (Vec::new(), 0_usize);
        while let Some(at) = holders.iter().position(|one| one.bytes() > 0) {
            turn += 1;
            let half = holders[at].take_back_half(8);
            if turn % 3 != 0 && !half.is_empty() {
                holders.push(rest(half));
            } else {
                holders[at].give(half);
                found.extend(holders[at].take_front(16));
            }
        }
        found.sort_unstable_by_key(|range| range.start);
        let bytes: Vec<u64> = found.into_iter().flatten().collect();
        let expected: Vec<u64> = (0..1000).chain(1024..5003).chain(8192..8200).collect();
        assert!(bytes == expected);
    }
}

//! The ranges of a large file that several processes copy. Each holder of ranges copies pieces from
//! their front, and gives half of what is left, from the back, to a process that has nothing to do.

use std::collections::VecDeque;
use std::ffi::CString;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::checks::{CheckedFile, Findings, WrittenPiece};
use super::dirs::Dir;
use super::error::CopyError;
use super::facts::FileFacts;
use crate::tool::Notes;

/// Bytes that are copied at a time, at most.
pub const PIECE_BYTES: u64 = 32 << 20;

/// A file of fewer bytes is not shared.
pub(crate) const SHARED_BYTES_MIN: u64 = 16 << 20;

/// Bytes that are copied at a time, at least.
const PIECE_BYTES_MIN: u64 = 4 << 20;

/// The time that a piece should take: so long may one process work at the end when all others have
/// nothing left to do, and so much may a kill make of no use.
const PIECE_TIME: Duration = Duration::from_millis(250);

/// How often a process at rest looks whether it still is.
const REST_POLL: Duration = Duration::from_millis(5);

/// Ranges to copy, ascending, and how much of them is taken at a time.
///
/// A piece is what lies in a block whose size is a power of two, from 4 MiB to [`PIECE_BYTES`], and
/// whose offset is a multiple of its size. So `without_known` finds pieces again, however large
/// they were.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rest {
    ranges: VecDeque<Range<u64>>,
    /// Size of the largest piece that is taken; 0 before the first one, which is small.
    piece: u64,
}

impl Rest {
    /// Number of bytes in the ranges.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.ranges.iter().map(|range| range.end - range.start).sum()
    }

    /// Bytes of the largest piece that is taken.
    #[must_use]
    pub fn piece_bytes(&self) -> u64 {
        self.piece.max(PIECE_BYTES_MIN)
    }

    /// Removes the next piece to copy; nothing if there is none.
    pub fn take_piece(&mut self) -> Vec<Range<u64>> {
        let Some(first) = self.ranges.front() else { return Vec::new() };
        let mut piece = self.piece_bytes();
        // The bytes before it may have been another piece: the block begins here.
        if first.start > 0 && first.start % PIECE_BYTES_MIN == 0 {
            piece = piece.min(first.start & first.start.wrapping_neg());
        }
        while piece > PIECE_BYTES_MIN && self.is_cut_within(piece) {
            piece /= 2;
        }
        self.take_front(piece)
    }

    /// Whether a part of the first block of `piece` bytes may be elsewhere: where other processes
    /// were lent a part, a range ends or begins at a multiple of the smallest piece.
    fn is_cut_within(&self, piece: u64) -> bool {
        let Some(first) = self.ranges.front() else { return false };
        let end = next_piece(first.start, piece);
        let may_be_cut = |offset: u64| offset < end && offset % PIECE_BYTES_MIN == 0;
        let mut within = self.ranges.iter().take_while(|range| range.start < end);
        within.any(|range| {
            may_be_cut(range.end) || range.start > first.start && may_be_cut(range.start)
        })
    }

    /// Makes pieces larger or smaller after `bytes` bytes were copied in this time.
    pub fn took(&mut self, bytes: u64, time: Duration) {
        let pieces = PIECE_TIME.as_secs_f64() / time.as_secs_f64().max(1e-6);
        let wanted = (bytes as f64 * pieces) as u64;
        let most = (self.piece_bytes() * 2).min(PIECE_BYTES);
        // The greatest power of two that is not more.
        let piece = 1 << wanted.max(1).ilog2();
        self.piece = piece.clamp(PIECE_BYTES_MIN, most);
    }

    /// Returns whether half of it can be given away.
    #[must_use]
    pub fn can_lend(&self) -> bool {
        self.bytes() >= 2 * self.piece_bytes()
    }

    /// Removes about half of it, from the back, for another process; nothing if there is too
    /// little.
    pub fn lend(&mut self) -> Vec<Range<u64>> {
        // While there is much, cuts fall on whole stripes of the file system.
        let is_much = self.bytes() >= 4 * PIECE_BYTES;
        self.take_back_half(if is_much { PIECE_BYTES } else { self.piece_bytes() })
    }

    /// Removes what is left of the first block of `piece` bytes; nothing if there is none. Blocks
    /// begin at multiples of `piece`, so that they are the same whoever takes them.
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
    is_known: impl Fn(&Range<u64>) -> bool,
) -> (Vec<Range<u64>>, Vec<Range<u64>>) {
    let (mut left, mut known) = (Vec::<Range<u64>>::new(), Vec::new());
    let mut add = |part: Range<u64>, is_known: bool| {
        let list = if is_known { &mut known } else { &mut left };
        match list.last_mut() {
            Some(last) if last.end == part.start => last.end = part.end,
            _ => list.push(part),
        }
    };
    for range in ranges {
        let mut start = range.start;
        while start < range.end {
            let part = start..next_piece(start, PIECE_BYTES).min(range.end);
            start = part.end;
            divide_known(part, PIECE_BYTES, &is_known, &mut add);
        }
    }
    (left, known)
}

/// Calls `add` for the parts of `part`, which lies in one block of `piece` bytes, in order. If it
/// is not known as a whole, it may have been copied in smaller pieces.
fn divide_known(
    part: Range<u64>,
    piece: u64,
    is_known: &impl Fn(&Range<u64>) -> bool,
    add: &mut impl FnMut(Range<u64>, bool),
) {
    if is_known(&part) {
        return add(part, true);
    }
    if piece <= PIECE_BYTES_MIN {
        return add(part, false);
    }
    let half = piece / 2;
    let middle = next_piece(part.start, half);
    if middle < part.end {
        divide_known(part.start..middle, half, is_known, add);
        divide_known(middle..part.end, half, is_known, add);
    } else {
        divide_known(part, half, is_known, add);
    }
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
    /// What was written, if it is to be read back.
    written: Vec<WrittenPiece>,
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
    /// The number of this process.
    fn rank(&self) -> usize;
    /// Whether there are other processes.
    fn has_others(&self) -> bool;
    /// Whether this process is to leave work to others while they can take it.
    fn is_at_rest(&self) -> bool;
    /// Has each piece of a file read back by another process than the one that has written it.
    fn check(&self, file: CheckedFile, pieces: Vec<WrittenPiece>) -> Result<Findings, CopyError>;
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
        let taken = state.rest.lend();
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
        !state.kept && state.failure.is_none() && state.rest.can_lend()
    }

    /// Bytes of the largest pieces that are taken.
    pub(crate) fn piece_bytes(&self) -> u64 {
        self.state.lock().rest.piece_bytes()
    }

    /// Adds pieces that were written, and have to be read back.
    pub(crate) fn add_written(&self, pieces: impl IntoIterator<Item = WrittenPiece>) {
        self.state.lock().written.extend(pieces);
    }

    /// Takes out all pieces that were written.
    pub(crate) fn take_written(&self) -> Vec<WrittenPiece> {
        std::mem::take(&mut self.state.lock().written)
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
            self.rest_while_others_can(helpers);
            let piece = self.state.lock().rest.take_piece();
            if let Some(first) = piece.first() {
                let begun = Instant::now();
                if let Err(error) = copy(&piece) {
                    fail(&mut self.state.lock(), (first.start, error));
                }
                let bytes = piece.iter().map(|range| range.end - range.start).sum();
                self.state.lock().rest.took(bytes, begun.elapsed());
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

    /// While this process is at rest, leaves the ranges to others that have nothing to do. It goes
    /// on when too little is left to be given away.
    fn rest_while_others_can(&self, helpers: &dyn Helpers) {
        if helpers.is_at_rest() && self.can_lend() {
            helpers.aside(&mut || {
                while helpers.is_at_rest() && self.can_lend() {
                    std::thread::sleep(REST_POLL);
                }
            });
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
    }

    /// However large the pieces were that each of several holders took, and whichever of them were
    /// noted, a later attempt finds exactly these.
    #[test]
    fn pieces_of_any_size_are_found_again() {
        const MIB: u64 = 1 << 20;
        for turn in 0..200_u64 {
            let mut random = turn;
            let mut next = |below: u64| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(97);
                (random >> 33) % below
            };
            let (mut ranges, mut at) = (Vec::new(), 0);
            while at < 300 * MIB {
                let start = at + [0, 5, MIB + 3, 4 * MIB, 70 * MIB][next(5) as usize];
                at = start + 1 + next(90 * MIB);
                ranges.push(start..at);
                at += 1;
            }
            let (mut noted, mut bytes) = (Vec::new(), 0);
            let mut holders = vec![rest(ranges.clone())];
            while let Some(place) = holders.iter().position(|one| one.bytes() > 0) {
                let half = holders[place].lend();
                if !half.is_empty() {
                    holders.push(rest(half));
                }
                let piece = holders[place].take_piece();
                let taken = piece.iter().map(|range| range.end - range.start).sum::<u64>();
                assert!(taken > 0 && taken <= PIECE_BYTES);
                holders[place].took(taken, Duration::from_millis(1 << next(12)));
                if next(3) > 0 {
                    bytes += taken;
                    noted.extend(piece);
                }
            }
            let (left, known) = without_known(ranges.clone(), |part| noted.contains(part));
            let length = |list: &[Range<u64>]| list.iter().map(|one| one.end - one.start).sum();
            let all: u64 = length(&ranges);
            assert_eq!((length(&known), length(&left)), (bytes, all - bytes), "turn {turn}");
        }
    }

    #[test]
    fn pieces_take_a_quarter_of_a_second() {
        let mut slow = rest(std::iter::once(0..PIECE_BYTES * 40));
        let sizes = |rest: &mut Rest, bytes_per_second: f64| -> Vec<u64> {
            let mut sizes = Vec::new();
            while rest.bytes() > 0 {
                let piece = rest.take_piece();
                let bytes: u64 = piece.iter().map(|range| range.end - range.start).sum();
                rest.took(bytes, Duration::from_secs_f64(bytes as f64 / bytes_per_second));
                sizes.push(bytes >> 20);
            }
            sizes
        };
        // From a small one on, the sizes are those of blocks that begin where the last one ends.
        let mut fast = slow.clone();
        assert_eq!(sizes(&mut fast, 1e9)[..6], [4, 4, 8, 16, 32, 32]);
        let half = slow.lend();
        assert_eq!(half.first().map(|range| range.start % PIECE_BYTES), Some(0));
        assert_eq!(sizes(&mut slow, 2e7)[..3], [4, 4, 4]);
        // So little is left that pieces of full size could not be shared.
        let mut little = rest(std::iter::once(0..PIECE_BYTES));
        assert!(little.can_lend());
        assert_eq!(ends(little.lend()), [(PIECE_BYTES / 2, PIECE_BYTES)]);
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

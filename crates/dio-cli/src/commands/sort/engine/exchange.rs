//! Hands pieces over from the thread that decodes streams to the thread that merges.

use std::collections::VecDeque;

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::failure::{SortFailure, SortResult};
use super::piece::{Decoder, LinePiece, LineRules};

/// Number of pieces per stream that hold chunks and wait for the merge: two, so that one can be
/// merged while the next is made. As many pieces made of lines that span two chunks may wait too,
/// and no more: where lines are longer than chunks, all pieces are of that kind.
const WAITING: usize = 2;

/// Number of chunks of a stream that are held at a time: by the merge, waiting, and being decoded.
pub(super) const HELD: usize = WAITING + 2;

/// State shared by the decoding thread and the merging thread.
#[derive(Debug)]
pub(super) struct Exchange {
    state: Mutex<ExchangeState>,
    /// Signals that a piece was decoded, or that decoding failed.
    decoded: Condvar,
    /// Signals that there is room for another piece, or that the merge waits for one.
    room: Condvar,
}

#[derive(Debug)]
struct ExchangeState {
    lanes: Vec<WaitingLane>,
    /// The lane that the merge waits for.
    wanted: Option<usize>,
    failure: Option<SortFailure>,
    /// The merge takes no more pieces.
    over: bool,
}

#[derive(Debug, Default)]
struct WaitingLane {
    pieces: VecDeque<LinePiece>,
    ended: bool,
}

impl WaitingLane {
    fn is_full(&self) -> bool {
        let chunks = self.pieces.iter().filter(|piece| piece.holds_chunk()).count();
        self.ended || chunks >= WAITING || self.pieces.len() - chunks >= WAITING
    }
}

impl Exchange {
    pub(super) fn new(lanes: usize) -> Exchange {
        let lanes = (0..lanes).map(|_| WaitingLane::default()).collect();
        let state = Mutex::new(ExchangeState { lanes, wanted: None, failure: None, over: false });
        Exchange { state, decoded: Condvar::new(), room: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, ExchangeState> {
        self.state.lock()
    }

    /// Decodes until all streams have ended or the merge takes no more pieces.
    pub(super) fn decode(&self, mut decoders: Vec<Decoder>, how: LineRules<'_>) {
        let _over = ExchangeEnd(self);
        while let Some(lane) = self.next_lane(&decoders) {
            let piece = decoders[lane].next_piece(how);
            let mut state = self.lock();
            match piece {
                Ok(Some(piece)) => state.lanes[lane].pieces.push_back(piece),
                Ok(None) => state.lanes[lane].ended = true,
                Err(failure) => {
                    state.failure = Some(failure);
                    state.over = true;
                }
            }
            if state.wanted == Some(lane) || state.failure.is_some() {
                state.wanted = None;
                self.decoded.notify_one();
            }
        }
    }

    /// Chooses the lane to decode next: the one that the merge waits for, else the ready one with
    /// the fewest waiting pieces. `None` means that decoding is over.
    fn next_lane(&self, decoders: &[Decoder]) -> Option<usize> {
        let mut state = self.lock();
        loop {
            if state.over || state.lanes.iter().all(|lane| lane.ended) {
                return None;
            }
            if let Some(lane) = state.wanted {
                return Some(lane);
            }
            let open = state.lanes.iter().enumerate().filter(|(_, lane)| !lane.is_full());
            // A pipe that has no data now must not delay the other lanes.
            let ready = open.filter(|(index, _)| decoders[*index].is_ready());
            if let Some((lane, _)) = ready.min_by_key(|(_, lane)| lane.pieces.len()) {
                return Some(lane);
            }
            self.room.wait(&mut state);
        }
    }

    /// Returns the next piece of a lane, or `None` at its end.
    ///
    /// # Errors
    /// Decoding failed.
    pub(super) fn next_piece(&self, lane: usize) -> SortResult<Option<LinePiece>> {
        let mut state = self.lock();
        loop {
            if let Some(piece) = state.lanes[lane].pieces.pop_front() {
                self.room.notify_one();
                return Ok(Some(piece));
            }
            if state.lanes[lane].ended {
                return Ok(None);
            }
            if let Some(failure) = state.failure.take() {
                return Err(failure);
            }
            assert!(!state.over, "lines are wanted after the end");
            state.wanted = Some(lane);
            self.room.notify_one();
            self.decoded.wait(&mut state);
        }
    }

    /// Returns a guard that ends the decoding when the merge returns or panics.
    pub(super) fn close_at_the_end(&self) -> ExchangeEnd<'_> {
        ExchangeEnd(self)
    }
}

/// Guard of either thread: when it is dropped, by return or panic, the other thread stops waiting.
#[derive(Debug)]
pub(super) struct ExchangeEnd<'a>(&'a Exchange);

impl Drop for ExchangeEnd<'_> {
    fn drop(&mut self) {
        self.0.lock().over = true;
        self.0.decoded.notify_one();
        self.0.room.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use dio::stream::{Input, StreamOptions};

    use super::super::stream::Stream;
    use super::*;
    use crate::commands::sort::key::Order;
    use crate::tool::{IoArgs, Tool};

    #[test]
    fn no_more_is_decoded_than_is_soon_wanted() {
        let order = Order::bytes(false);
        let how = LineRules { order: &order, terminator: b'\n', unique: false };
        for length in [3, 3000, 10_000] {
            let path = tempfile::NamedTempFile::new_in("/var/tmp").unwrap();
            let line = [vec![b'x'; length], b"\n".to_vec()].concat();
            std::fs::write(path.path(), line.repeat(500_000 / length)).unwrap();
            let options = StreamOptions { block: 4096, depth: 2, ..StreamOptions::default() };
            let input = Input::open(path.path(), &options).unwrap();
            let tool = Tool::new("sort", &IoArgs::default());
            let mut decoder =
                Decoder::new(Stream::Run { input, directory: PathBuf::new(), tool }, 64);
            let mut waiting = WaitingLane::default();
            while !waiting.is_full() {
                waiting.pieces.extend(decoder.next_piece(how).unwrap());
            }
            let bytes: usize = waiting.pieces.iter().map(|piece| piece.bytes().len()).sum();
            assert!(bytes <= 4 * (length + 4096), "{bytes} of lines of {length}");
        }
    }
}

//! Decides where the input is cut: state machines that get it chunk by chunk and return what to do
//! with the next bytes.
//!
//! They hold no bytes and do no I/O, so their results depend only on the input, not on how it
//! arrives.

mod chunks;
mod cutter;
mod line_bytes;
mod lines;
#[cfg(test)]
mod tests;

pub(super) use chunks::{Chunks, LineChunks, Shares};
use cutter::at_most;
pub(super) use cutter::{Cut, CutAction, Cutter};
pub(super) use line_bytes::LineBytes;
pub(super) use lines::{LineCut, RoundRobin};

/// `-b`: `each` bytes to each output.
#[derive(Debug)]
pub(super) struct Bytes {
    each: u64,
    piece: u64,
    /// Bytes that the current output can still take. Invariant: at least 1.
    room: u64,
}

impl Bytes {
    pub(super) fn new(each: u64) -> Bytes {
        Bytes { each, piece: 0, room: each }
    }
}

impl Cutter for Bytes {
    fn cut(&mut self, chunk: &[u8]) -> Cut {
        let len = at_most(chunk, self.room);
        self.room -= len as u64;
        let cut = Cut::put(self.piece, len, self.room == 0);
        if cut.ends {
            self.piece += 1;
            self.room = self.each;
        }
        cut
    }
}

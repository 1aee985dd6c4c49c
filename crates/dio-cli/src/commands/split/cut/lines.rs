//! `-l` and `-n r/`: cutting by lines.

use memchr::{memchr, memchr_iter};

use super::cutter::{Cut, Cutter};

/// `-l`: `each` lines to each output.
#[derive(Debug)]
pub(in crate::commands::split) struct LineCut {
    separator: u8,
    each: u64,
    piece: u64,
    /// Lines that the current output can still take. Invariant: at least 1.
    room: u64,
}

impl LineCut {
    pub(in crate::commands::split) fn new(separator: u8, each: u64) -> LineCut {
        LineCut { separator, each, piece: 0, room: each }
    }
}

impl Cutter for LineCut {
    fn cut(&mut self, chunk: &[u8]) -> Cut {
        for at in memchr_iter(self.separator, chunk) {
            self.room -= 1;
            if self.room == 0 {
                let cut = Cut::put(self.piece, at + 1, true);
                self.piece += 1;
                self.room = self.each;
                return cut;
            }
        }
        Cut::put(self.piece, chunk.len(), false)
    }
}

/// `-n r/N`: the first line to the first output, the next to the next, and around again.
#[derive(Debug)]
pub(in crate::commands::split) struct RoundRobin {
    separator: u8,
    count: u64,
    piece: u64,
}

impl RoundRobin {
    pub(in crate::commands::split) fn new(separator: u8, count: u64) -> RoundRobin {
        RoundRobin { separator, count, piece: 0 }
    }
}

impl Cutter for RoundRobin {
    fn cut(&mut self, chunk: &[u8]) -> Cut {
        let piece = self.piece;
        match memchr(self.separator, chunk) {
            Some(at) => {
                self.piece = (piece + 1) % self.count;
                Cut::put(piece, at + 1, false)
            }
            None => Cut::put(piece, chunk.len(), false),
        }
    }
}

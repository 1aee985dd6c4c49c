//! `-n N` and `-n l/N`: outputs of the same size. The size of the input is known.

use memchr::memchr;

use super::cutter::{Cut, CutAction, Cutter, at_most};

/// The division of an input of known size: all shares are equal but the last, which gets the rest.
/// Only shares behind the end of the input are empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::commands::split) struct Shares {
    size: u64,
    count: u64,
    each: u64,
}

impl Shares {
    pub(in crate::commands::split) fn new(size: u64, count: u64) -> Shares {
        Shares { size, count, each: (size / count).max(1) }
    }

    /// Returns the offset where a share begins; shares are counted from 0.
    pub(in crate::commands::split) fn start(self, piece: u64) -> u64 {
        self.each.saturating_mul(piece).min(self.size)
    }

    /// Returns the offset where a share ends.
    pub(in crate::commands::split) fn end(self, piece: u64) -> u64 {
        if piece + 1 >= self.count { self.size } else { self.start(piece + 1) }
    }

    /// Returns the share that contains an offset.
    fn holding(self, offset: u64) -> u64 {
        (offset / self.each).min(self.count - 1)
    }
}

/// `-n N`: each output is its share.
#[derive(Debug)]
pub(in crate::commands::split) struct Chunks {
    shares: Shares,
    position: u64,
}

impl Chunks {
    /// `position` is the offset of the first byte that is passed to `cut`.
    pub(in crate::commands::split) fn new(shares: Shares, position: u64) -> Chunks {
        Chunks { shares, position }
    }
}

impl Cutter for Chunks {
    fn cut(&mut self, chunk: &[u8]) -> Cut {
        let piece = self.shares.holding(self.position);
        let end = self.shares.end(piece);
        if self.position >= end {
            // The input has grown since its size was determined.
            return Cut { action: CutAction::Drop, piece, len: chunk.len(), ends: false };
        }
        let len = at_most(chunk, end - self.position);
        self.position += len as u64;
        Cut::put(piece, len, self.position == end)
    }
}

/// `-n l/N`: each output has the lines that begin in its share.
#[derive(Debug)]
pub(in crate::commands::split) struct LineChunks {
    shares: Shares,
    separator: u8,
    position: u64,
    /// The output of the current line.
    piece: u64,
}

impl LineChunks {
    /// `position` is the offset of the first byte that is passed to `cut`; a line must begin there.
    pub(in crate::commands::split) fn new(
        shares: Shares,
        separator: u8,
        position: u64,
    ) -> LineChunks {
        LineChunks { shares, separator, position, piece: shares.holding(position) }
    }
}

impl Cutter for LineChunks {
    fn cut(&mut self, chunk: &[u8]) -> Cut {
        let within = at_most(chunk, self.shares.size.saturating_sub(self.position));
        if within == 0 {
            // The input has grown since its size was determined.
            return Cut {
                action: CutAction::Drop,
                piece: self.piece,
                len: chunk.len(),
                ends: false,
            };
        }
        let chunk = &chunk[..within];
        let piece = self.piece;
        // The first line that ends at the last byte of the share or behind it is the last of this
        // output, so bytes before that position need not be searched.
        let unseen = at_most(chunk, (self.shares.end(piece) - 1).saturating_sub(self.position));
        let found = memchr(self.separator, &chunk[unseen..]).map(|at| unseen + at + 1);
        let len = found.unwrap_or(chunk.len());
        self.position += len as u64;
        if found.is_some() {
            self.piece = self.shares.holding(self.position);
        }
        Cut::put(piece, len, self.piece != piece)
    }
}

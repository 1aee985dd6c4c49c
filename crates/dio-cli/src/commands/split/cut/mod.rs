//! Where the input is cut: state machines that see it chunk by chunk and say what to do with the next bytes.
//!
//! They hold no bytes and do no I/O, so their answers depend on the input alone, not on how it arrives.

mod chunks;
mod line_bytes;
mod lines;
#[cfg(test)]
mod tests;

pub(super) use chunks::{Chunks, LineChunks, Shares};
pub(super) use line_bytes::LineBytes;
pub(super) use lines::{Lines, RoundRobin};

/// What to do with the bytes at the front of the chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// They belong to the output.
    Put,
    /// They are kept aside, behind what is there already: which output they belong to is not known yet.
    Keep,
    /// Nothing with them: all that is kept aside belongs to the output.
    PutKept,
    /// They belong to no output that is wanted.
    Drop,
}

/// One step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) action: Action,
    /// The number of the output, from 0.
    pub(super) piece: u64,
    /// So many bytes at the front of the chunk.
    pub(super) len: usize,
    /// This output is complete.
    pub(super) ends: bool,
}

impl Cut {
    fn put(piece: u64, len: usize, ends: bool) -> Cut {
        Cut { action: Action::Put, piece, len, ends }
    }
}

/// A way to cut.
pub(super) trait Cutter {
    /// What to do next, given the bytes that follow those it has decided about; there is at least one.
    fn cut(&mut self, chunk: &[u8]) -> Cut;

    /// What to do at the end of the input.
    fn end(&mut self) -> Option<Cut> {
        None
    }
}

/// `-b`: so many bytes to each output.
#[derive(Debug)]
pub(super) struct Bytes {
    each: u64,
    piece: u64,
    /// What the present output still takes. Invariant: at least 1.
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

/// The length of the chunk or `most`, whichever is less.
fn at_most(chunk: &[u8], most: u64) -> usize {
    usize::try_from(most).map_or(chunk.len(), |most| most.min(chunk.len()))
}

//! What every way to cut answers.

/// What to do with the bytes at the front of the chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Action {
    /// They belong to the output.
    Put,
    /// They are kept aside, behind what is there already: which output they belong to is not known
    /// yet.
    Keep,
    /// Nothing with them: all that is kept aside belongs to the output.
    PutKept,
    /// They belong to no output that is wanted.
    Drop,
}

/// One step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Cut {
    pub(in super::super) action: Action,
    /// The number of the output, from 0.
    pub(in super::super) piece: u64,
    /// So many bytes at the front of the chunk.
    pub(in super::super) len: usize,
    /// This output is complete.
    pub(in super::super) ends: bool,
}

impl Cut {
    pub(super) fn put(piece: u64, len: usize, ends: bool) -> Cut {
        Cut { action: Action::Put, piece, len, ends }
    }
}

/// A way to cut.
pub(in super::super) trait Cutter {
    /// What to do next, given the bytes that follow those it has decided about; there is at least
    /// one.
    fn cut(&mut self, chunk: &[u8]) -> Cut;

    /// What to do at the end of the input.
    fn end(&mut self) -> Option<Cut> {
        None
    }
}

/// The length of the chunk or `most`, whichever is less.
pub(super) fn at_most(chunk: &[u8], most: u64) -> usize {
    usize::try_from(most).map_or(chunk.len(), |most| most.min(chunk.len()))
}

//! The interface of all cutters.

/// The action for the bytes at the front of the chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum CutAction {
    /// Write them to the output.
    Put,
    /// Set them aside, behind the bytes set aside before: the output that they belong to is not
    /// known yet.
    Keep,
    /// Leave them; write all bytes set aside to the output.
    PutKept,
    /// Discard them: they belong to no requested output.
    Drop,
}

/// One step of cutting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Cut {
    pub(in super::super) action: CutAction,
    /// The number of the output, from 0.
    pub(in super::super) piece: u64,
    /// The number of bytes at the front of the chunk.
    pub(in super::super) len: usize,
    /// Whether this output is complete.
    pub(in super::super) ends: bool,
}

impl Cut {
    pub(super) fn put(piece: u64, len: usize, ends: bool) -> Cut {
        Cut { action: CutAction::Put, piece, len, ends }
    }
}

/// A method of cutting the input.
pub(in super::super) trait Cutter {
    /// Decides the next step. `chunk` holds the bytes behind those already decided, at least one.
    fn cut(&mut self, chunk: &[u8]) -> Cut;

    /// Decides the last step, at the end of the input.
    fn end(&mut self) -> Option<Cut> {
        None
    }
}

/// Returns the length of the chunk or `most`, whichever is less.
pub(super) fn at_most(chunk: &[u8], most: u64) -> usize {
    usize::try_from(most).map_or(chunk.len(), |most| most.min(chunk.len()))
}

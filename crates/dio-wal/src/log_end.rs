//! The state that recovery passes to the writer.

use std::collections::BTreeMap;

/// The end of a log when it was opened: what is needed to append to it.
pub(crate) struct LogEnd {
    /// LSN where the last record ends.
    pub(crate) end: u64,
    /// Checksum of the last record; 0 if there is none.
    pub(crate) chain: u32,
    /// LSN below which everything was truncated.
    pub(crate) start: u64,
    /// The last record is a mark that says that everything before it is durable.
    pub(crate) ended: bool,
    /// For each segment with marks, the LSN of its first mark, by the segment's number.
    pub(crate) first_marks: BTreeMap<u64, u64>,
}

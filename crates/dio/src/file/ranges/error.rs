//! Errors of ranges.

use crate::file::FileError;

/// Why not all ranges were read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RangesError {
    /// A range failed.
    #[error("range {index}: {error}")]
    Failed {
        /// Which one. Ranges before it that failed too would be reported instead, unless they
        /// were not begun.
        index: usize,
        /// Why.
        #[source]
        error: FileError,
    },
    /// The caller stopped it.
    #[error("stopped")]
    Stopped {
        /// The bytes transferred of each range that is done. A call with the others goes on.
        done: Vec<Option<usize>>,
    },
}

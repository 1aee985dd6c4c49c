//! What a file keeps for its appends.

use std::os::fd::OwnedFd;
use std::sync::OnceLock;

use parking_lot::Mutex;

/// State of a file that only its appends use.
#[derive(Debug, Default)]
pub(super) struct AppendState {
    /// Held by the thread that appends to a striped file.
    pub(super) turn: Mutex<()>,
    /// A descriptor with `O_APPEND`, for file systems where the flag of a single write is not
    /// enough. The inner `None` means that it cannot be opened.
    pub(super) descriptor: OnceLock<Option<OwnedFd>>,
}

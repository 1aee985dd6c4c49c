//! What options and statuses of sort stand for.

/// The exit status of everything that goes wrong.
pub(super) const TROUBLE: u8 = 2;

/// Whether a file is sorted, instead of sorting it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Check {
    /// `-c`: the first line that is not in its place is told.
    Aloud,
    /// `-C`
    Silently,
}

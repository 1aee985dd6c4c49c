//! Values of options and statuses of sort.

/// The exit status for all errors.
pub(super) const TROUBLE: u8 = 2;

/// How to check that a file is sorted, instead of sorting it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SortCheck {
    /// `-c`: the first line that is out of order is reported.
    Aloud,
    /// `-C`: nothing is reported.
    Silently,
}

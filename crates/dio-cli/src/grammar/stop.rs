//! Why parsing of a command line ended early.

use super::refusal::Refusal;

/// The reason why parsing ended early.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Help is requested.
    Help,
    /// The version is requested.
    Version,
    /// An option does not exist, or its value is missing.
    Unreadable(Refusal),
    /// An option or its value is invalid.
    Refused(Refusal),
}

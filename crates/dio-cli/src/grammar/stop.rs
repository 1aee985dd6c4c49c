//! Why a command line is not read to its end.

use super::refusal::Refusal;

/// What ends the reading of a command line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Help is asked for.
    Help,
    /// The version is asked for.
    Version,
    /// There is no such option, or its value is missing.
    Unreadable(Refusal),
    /// An option or its value makes no sense.
    Refused(Refusal),
}

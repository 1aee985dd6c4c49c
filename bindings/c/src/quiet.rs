//! Calls that have no way to report an error.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `work`. Returns `otherwise` after a panic, whose message has been printed.
pub(crate) fn quiet<T>(otherwise: T, work: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(otherwise)
}

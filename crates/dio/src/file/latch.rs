//! The first write or sync error of a file, which stays in force.

use std::sync::OnceLock;

use super::error::FileError;

/// Invariant: set once. From then on every write, resize and sync fails with this error, since the
/// kernel may have thrown away what it failed to write, and a later success would acknowledge lost
/// data. Reads still work: they acknowledge nothing.
#[derive(Debug, Default)]
pub(super) struct Latch(OnceLock<FileError>);

impl Latch {
    /// The error in force.
    pub(super) fn check(&self) -> Result<(), FileError> {
        self.0.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Records an error unless there is one already. Returns the one in force.
    pub(super) fn set(&self, error: FileError) -> FileError {
        self.0.get_or_init(|| error).clone()
    }
}

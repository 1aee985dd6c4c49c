//! What is done with the entries of a pair of directories.

use serde::{Deserialize, Serialize};

/// What a job does with names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Task {
    /// Copies the names from the source.
    #[default]
    Copy,
    /// Removes the names from the target if the source lacks them.
    Remove,
    /// Compares what has these names.
    Compare,
}

/// Which directories of a pair exist. One that does not exist is represented by the other one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Sides {
    #[default]
    Both,
    /// A dry run did not make the target.
    Source,
    /// The source has no such directory, so the target is being removed.
    Target,
}

/// The purpose of a pair of directories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Role {
    pub(crate) task: Task,
    pub(crate) sides: Sides,
}

//! One case of a run, and its outcome.

use serde::{Deserialize, Serialize};

use super::case::Case;
use super::work::Outcome;

/// One case and its outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The measured case.
    pub case: Case,
    /// Its outcome.
    pub outcome: Outcome,
}

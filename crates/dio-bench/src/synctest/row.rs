//! One case of a run, and its outcome.

use serde::{Deserialize, Serialize};

use super::case::Case;
use super::work::Outcome;

/// One case and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// What was measured.
    pub case: Case,
    /// What came of it.
    pub outcome: Outcome,
}

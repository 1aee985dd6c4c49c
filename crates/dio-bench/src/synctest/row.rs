//! One case of a run, and its outcome.

use serde::{Deserialize, Serialize};

use super::case::SyncCase;
use super::work::CaseOutcome;

/// One case and its outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SynctestRow {
    /// The measured case.
    pub case: SyncCase,
    /// Its outcome.
    pub outcome: CaseOutcome,
}

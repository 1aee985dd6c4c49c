//! The whole result.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::advice::Advice;
use super::facts::StorageFacts;
use super::judge::Honesty;
use super::row::SynctestRow;
use super::sweep::Measured;
use super::work::CaseOutcome;
use crate::environment::Environment;

/// All results.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SynctestReport {
    /// The path as given.
    #[serde(default)]
    pub path: PathBuf,
    /// The machine and the storage.
    pub environment: Environment,
    /// The kernel's facts about the storage.
    pub storage: StorageFacts,
    /// Seconds of each case.
    pub seconds: f64,
    /// Number of rounds that this time is divided into; all cases of a section are measured in
    /// each.
    #[serde(default)]
    pub rounds: u32,
    /// Whether the run was ended early.
    #[serde(default)]
    pub interrupted: bool,
    /// The cases, in the order of measuring.
    pub rows: Vec<SynctestRow>,
    /// Measurements of flushes; `None` if they were not requested, or if the run ended before.
    pub flushes: Option<Measured>,
    /// The verdict about the disk.
    pub honesty: Option<Honesty>,
    /// Advised settings.
    pub advice: Vec<Advice>,
}

impl SynctestReport {
    /// Whether a measurement failed; refusals do not count.
    pub fn has_failed(&self) -> bool {
        self.rows.iter().any(|row| matches!(row.outcome, CaseOutcome::Failed(_)))
    }
}

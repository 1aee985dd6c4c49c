//! The whole result.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::advice::Advice;
use super::facts::Facts;
use super::judge::Honesty;
use super::row::Row;
use super::sweep::Measured;
use super::work::Outcome;
use crate::environment::Environment;

/// Everything that was found.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// The path as given.
    #[serde(default)]
    pub path: PathBuf,
    /// The machine and the storage.
    pub environment: Environment,
    /// What the kernel says about the storage.
    pub storage: Facts,
    /// Seconds of each case.
    pub seconds: f64,
    /// Rounds that this time is divided into; all cases of a section are measured in each.
    #[serde(default)]
    pub rounds: u32,
    /// Whether it was stopped before its end.
    #[serde(default)]
    pub interrupted: bool,
    /// The cases, in the order they were measured in.
    pub rows: Vec<Row>,
    /// What was measured of flushes; `None` if that was not asked for, or not come to.
    pub flushes: Option<Measured>,
    /// What is said of the disk.
    pub honesty: Option<Honesty>,
    /// Settings that follow.
    pub advice: Vec<Advice>,
}

impl Report {
    /// Whether something that was to be measured failed, refusals not counted.
    pub fn has_failed(&self) -> bool {
        self.rows.iter().any(|row| matches!(row.outcome, Outcome::Failed(_)))
    }
}

//! The result of a study, and the comparison of its contenders.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Contender, ContenderRow, ContenderRun};
use crate::environment::Environment;
use crate::stats::ratios;

/// A published figure: transactions per second and response time in seconds.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Reference {
    /// The kind of storage: `raw`, `direct` or `concurrent`.
    pub name: Cow<'static, str>,
    /// Transactions per second.
    pub tps: f64,
    /// Response time in seconds.
    pub response_seconds: f64,
}

/// The data that all studies have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Study<'a> {
    /// The contenders, in the order in which they are shown. Runs with the same index were made in
    /// the same round.
    pub(crate) rows: &'a [ContenderRow],
    /// Published figures of the same kind of storage.
    pub(crate) reference: &'a [Reference],
    /// The settings, by name; `seconds` are those of ramp-up, steady state and ramp-down.
    pub(crate) settings: &'a Map<String, Value>,
    /// Remarks on what could not be measured.
    pub(crate) notes: &'a [String],
    /// The machine and storage that it was measured on.
    pub(crate) environment: &'a Environment,
}

impl ContenderRow {
    pub(super) fn name(&self) -> String {
        self.contender.name().to_owned()
    }

    /// The figures of all runs that have a finite one.
    pub(super) fn figures(&self, of: impl Fn(&ContenderRun) -> Option<f64>) -> Vec<f64> {
        self.runs.iter().filter_map(of).filter(|value| value.is_finite()).collect()
    }

    pub(super) fn throughput(&self) -> impl Iterator<Item = f64> + '_ {
        self.runs.iter().map(|run| run.tps)
    }
}

impl Study<'_> {
    /// The contender that the others are compared with: the raw device, else the bare files, else
    /// buffered files, else the first one.
    pub(super) fn first(&self) -> Option<&ContenderRow> {
        let named = |name: Contender| self.rows.iter().find(|row| row.contender == name);
        named(Contender::Raw)
            .or_else(|| named(Contender::Bare))
            .or_else(|| named(Contender::Buffered))
            .or(self.rows.first())
    }

    /// Throughput of each run of a contender divided by that of [`Study::first`] in the same round.
    pub(super) fn ratios(&self, row: &ContenderRow) -> Vec<f64> {
        ratios(row.throughput(), self.first().into_iter().flat_map(ContenderRow::throughput))
    }

    pub(super) fn reference(&self, name: &str) -> Option<&Reference> {
        self.reference.iter().find(|reference| reference.name == name)
    }

    /// The published figure of the same kind of storage. The published direct I/O took the file's
    /// lock for every write, so it corresponds to `DirectFile`.
    pub(super) fn published(&self, row: &ContenderRow) -> Option<&Reference> {
        self.reference(if row.contender == Contender::DirectFile {
            "direct"
        } else {
            row.contender.name()
        })
    }

    /// The published figure divided by that of the raw device.
    pub(super) fn published_to_raw(&self, row: &ContenderRow) -> Option<f64> {
        Some(self.published(row)?.tps / self.reference("raw")?.tps)
    }

    /// The published ratio, if the contender that ours are compared with is raw, or bare, which is
    /// nearly the same.
    pub(super) fn published_ratio(&self, row: &ContenderRow) -> Option<f64> {
        let like_raw = [Contender::Raw, Contender::Bare].contains(&self.first()?.contender);
        self.published_to_raw(row).filter(|_| like_raw)
    }

    /// Seconds of ramp-up, steady state and ramp-down.
    pub(super) fn seconds(&self) -> Option<[f64; 3]> {
        let seconds = self.settings.get("seconds")?.as_array()?;
        let seconds: Vec<f64> = seconds.iter().filter_map(Value::as_f64).collect();
        seconds.try_into().ok()
    }

    /// Begin and end of the steady state.
    pub(super) fn steady(&self) -> Option<(f64, f64)> {
        let [up, steady, _] = self.seconds()?;
        Some((up, up + steady))
    }
}

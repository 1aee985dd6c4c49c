//! The study's result: a table beside the published figures, JSON, and the time series as CSV.

use std::fmt::Write;

use serde::Serialize;

use super::{Open, Plan};
use crate::environment::Environment;
use crate::study::{Contender, Row, Run, table};
use dio_common::units::size;

/// A published figure: transactions per second and response time in seconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Reference {
    /// What it is of.
    pub name: &'static str,
    /// Transactions per second.
    pub tps: f64,
    /// Response time in seconds.
    pub response_seconds: f64,
}

/// Measured with Oracle on AIX 5.2 (Kashyap, Olszewski, Hendrickson: *Improving database performance with AIX concurrent
/// I/O*, IBM 2003). Only their ratios mean anything elsewhere.
pub const REFERENCE: [Reference; 3] = [
    Reference { name: "raw", tps: 710.19, response_seconds: 0.06 },
    Reference { name: "direct", tps: 219.69, response_seconds: 0.12 },
    Reference { name: "concurrent", tps: 652.12, response_seconds: 0.07 },
];

/// The settings that the figures are of.
#[derive(Clone, Debug, Serialize)]
pub struct Settings {
    /// Files of pages.
    pub files: u64,
    /// Bytes of each.
    pub file_bytes: u64,
    /// Bytes of a page.
    pub page_bytes: usize,
    /// Clients.
    pub clients: usize,
    /// Pages that a transaction reads.
    pub reads: usize,
    /// Those that it changes and writes.
    pub writes: usize,
    /// Seconds of ramp-up, steady state and ramp-down.
    pub seconds: [f64; 3],
    /// Runs of each contender.
    pub rounds: usize,
    /// How files below mounts are opened.
    pub open: Open,
    /// Whether mounts other than that with the file lock were to have io_uring.
    pub io_uring: bool,
    /// More options of all mounts.
    pub mount_options: Vec<String>,
    /// Limit to the memory of the study, page cache included.
    pub memory_bytes: Option<u64>,
}

/// The whole result.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The contenders.
    pub rows: Vec<Row>,
    /// Published figures.
    pub reference: [Reference; 3],
    /// The settings.
    pub settings: Settings,
    /// What was missing.
    pub notes: Vec<String>,
    /// Where it was measured.
    pub environment: Environment,
}

impl Report {
    pub(super) fn new(plan: &Plan, results: Vec<Vec<Run>>, notes: Vec<String>, environment: Environment) -> Report {
        let rows = Row::all(&plan.contenders, results);
        let settings = Settings {
            files: plan.files,
            file_bytes: plan.size,
            page_bytes: plan.page,
            clients: plan.clients,
            reads: plan.reads.max(plan.writes),
            writes: plan.writes,
            seconds: [plan.ramp_up, plan.steady, plan.ramp_down].map(|time| time.as_secs_f64()),
            rounds: plan.rounds,
            open: plan.open,
            io_uring: plan.io_uring,
            mount_options: plan.mount_options.clone(),
            memory_bytes: plan.memory,
        };
        Report { rows, reference: REFERENCE, settings, notes, environment }
    }

    /// The report for people.
    pub fn text(&self) -> String {
        let settings = &self.settings;
        let [up, steady, down] = settings.seconds;
        let mut text = format!(
            "{} clients; {} pages of {} read, {} of them written, in each transaction, over {} files of {}; a log write at \
             commit\n{up} s ramp-up, {steady} s steady state, {down} s ramp-down; rounds: {}, medians shown\n\
             files below mounts are opened {}\n\n",
            settings.clients,
            settings.reads,
            size(settings.page_bytes as u64),
            settings.writes,
            settings.files,
            size(settings.file_bytes),
            settings.rounds,
            match settings.open {
                Open::Plain =>
                    "without O_DIRECT: writes return when the server has them, commits when they are durable",
                Open::Direct => "with O_DIRECT",
            }
        );
        if let Some(bytes) = settings.memory_bytes {
            let _ = writeln!(text, "memory, page cache included: {}\n", size(bytes));
        }
        text.push_str(&table::transactions(&self.rows, published));
        text.push('\n');
        text.push_str(&table::resources(&self.rows));
        let _ = write!(text, "\n{}", table::LEGEND);
        let checked: u64 = self.rows.iter().flat_map(|row| &row.runs).filter_map(|run| run.pages_checked).sum();
        let _ = writeln!(text, "every page read was what was written last; {checked} were compared again afterwards");
        self.notes.iter().for_each(|note| text.push_str(&format!("{note}\n")));
        text.push('\n');
        text.push_str(&self.environment.text());
        text
    }

    /// The time series of all runs, a line for each slot.
    pub fn csv(&self) -> String {
        format!("{}{}", table::SERIES, table::series("", &self.rows))
    }
}

/// The published figure of the same kind of storage: single-writer semantics took the lock of the file there.
fn published(contender: Contender) -> Option<table::Published> {
    let figure = match contender {
        Contender::Raw => REFERENCE[0],
        Contender::DirectFile => REFERENCE[1],
        Contender::Concurrent => REFERENCE[2],
        Contender::Bare | Contender::Buffered | Contender::DirectRange => return None,
    };
    let to_raw = figure.tps / REFERENCE[0].tps;
    Some(table::Published { tps: figure.tps, to_raw, response_seconds: figure.response_seconds })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::study::run::tests::run;
    use std::path::{Path, PathBuf};
    use std::time::Duration;

    /// Three rounds of two contenders.
    pub(in super::super) fn report() -> Report {
        let plan = Plan {
            contenders: vec![Contender::Raw, Contender::Concurrent],
            raw: None,
            directory: PathBuf::from("."),
            files: 2,
            size: 1 << 20,
            page: 8192,
            clients: 4,
            reads: 4,
            writes: 2,
            ramp_up: Duration::from_secs(1),
            steady: Duration::from_secs(3),
            ramp_down: Duration::from_secs(1),
            every: Duration::from_secs(1),
            rounds: 3,
            open: Open::Plain,
            io_uring: false,
            mount_options: Vec::new(),
            memory: None,
            program: PathBuf::from("dio"),
        };
        let results = [[1000.0, 2000.0, 500.0], [900.0, 1900.0, 500.0]].map(|tps| tps.map(run).to_vec());
        Report::new(&plan, results.to_vec(), Vec::new(), Environment::of(Path::new("/proc/self/exe")).unwrap())
    }

    #[test]
    fn published_figures_stand_beside_ours() {
        let text = report().text();
        assert!(text.contains("652.12") && text.contains("0.95×") && text.contains("0.92×"), "{text}");
        assert!(report().csv().lines().count() > 1);
    }
}

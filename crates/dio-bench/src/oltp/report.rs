//! The study's result, beside the published figures, and its time series as CSV.

use std::borrow::Cow;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::OltpPlan;
use crate::environment::Environment;
use crate::section::{Benchmark, Section};
use crate::study::{
    ContenderRow, ContenderRun, Reference, ReportTexts, Study, named, plots, series,
};
use crate::{BenchError, plot};

/// The texts with which the study presents its results.
pub(crate) const WORDS: ReportTexts<'static> = ReportTexts {
    id: "oltp",
    title: "A database's pages on raw, direct and concurrent storage",
    events: "transactions",
    lead: "Transactions read pages at random places of a few large files, change and write some of \
           them, and write a log durably at commit. Pages have locks of their own, so the file's \
           lock is in nobody's service; every page read was compared with what was written last.",
};

/// Published figures, measured with Oracle on AIX 5.2 (Kashyap, Olszewski, Hendrickson: *Improving
/// database performance with AIX concurrent I/O*, IBM 2003). Only their ratios can be compared with
/// other machines.
pub const REFERENCE: [Reference; 3] = [
    Reference { name: Cow::Borrowed("raw"), tps: 710.19, response_seconds: 0.06 },
    Reference { name: Cow::Borrowed("direct"), tps: 219.69, response_seconds: 0.12 },
    Reference { name: Cow::Borrowed("concurrent"), tps: 652.12, response_seconds: 0.07 },
];

/// The whole result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OltpReport {
    /// The contenders.
    pub rows: Vec<ContenderRow>,
    /// Published figures.
    #[serde(default)]
    pub reference: Vec<Reference>,
    /// The settings.
    #[serde(default)]
    pub settings: Map<String, Value>,
    /// Remarks on what could not be measured.
    #[serde(default)]
    pub notes: Vec<String>,
    /// The machine and storage that it was measured on.
    pub environment: Environment,
}

impl OltpReport {
    pub(super) fn new(
        plan: &OltpPlan,
        results: Vec<Vec<ContenderRun>>,
        notes: Vec<String>,
        environment: Environment,
    ) -> OltpReport {
        let rows = ContenderRow::all(&plan.contenders, results);
        let settings = named([
            ("files", plan.files.into()),
            ("file_bytes", plan.size.into()),
            ("page_bytes", plan.page.into()),
            ("clients", plan.clients.into()),
            ("reads", plan.reads.max(plan.writes).into()),
            ("writes", plan.writes.into()),
            (
                "seconds",
                [plan.ramp_up, plan.steady, plan.ramp_down]
                    .map(|time| time.as_secs_f64())
                    .to_vec()
                    .into(),
            ),
            ("rounds", plan.rounds.into()),
            ("open", plan.open.name().into()),
            ("io_uring", plan.io_uring.into()),
            ("mount_options", plan.mount_options.clone().into()),
            ("memory_bytes", plan.memory.into()),
        ]);
        OltpReport { rows, reference: REFERENCE.to_vec(), settings, notes, environment }
    }

    pub(crate) fn study(&self) -> Study<'_> {
        Study {
            rows: &self.rows,
            reference: &self.reference,
            settings: &self.settings,
            notes: &self.notes,
            environment: &self.environment,
        }
    }

    /// The time series of all runs, a line for each slot.
    pub fn csv(&self) -> String {
        series::csv(&self.rows)
    }

    /// Writes plots into a directory, which is created. Plots of figures that were not measured are
    /// left out.
    ///
    /// # Errors
    /// [`BenchError`], such as no space.
    pub fn write_plots(&self, directory: &Path) -> Result<(), BenchError> {
        plot::write(&plots::plots(&self.study(), WORDS.events), directory)
    }
}

impl Benchmark for OltpReport {
    const NAME: &'static str = "oltp";
    const FIELDS: &'static [&'static str] = &["rows", "reference", "settings"];

    fn section(&self) -> Section {
        let mut section = self.study().section(&WORDS);
        let checked: u64 =
            self.rows.iter().flat_map(|row| &row.runs).filter_map(|run| run.pages_checked).sum();
        if checked > 0 {
            section
                .notes
                .insert(0, format!("{checked} changed pages were compared again after the runs."));
        }
        section
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::study::Contender;
    use crate::study::run::tests::run;
    use std::path::PathBuf;
    use std::time::Duration;

    /// Three rounds of two contenders.
    pub(crate) fn report() -> OltpReport {
        let plan = OltpPlan {
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
            open: super::super::OpenMode::Plain,
            io_uring: false,
            mount_options: Vec::new(),
            memory: None,
            program: PathBuf::from("dio"),
        };
        let results =
            [[1000.0, 2000.0, 500.0], [900.0, 1900.0, 500.0]].map(|tps| tps.map(run).to_vec());
        OltpReport::new(
            &plan,
            results.to_vec(),
            Vec::new(),
            Environment::of(Path::new("/proc/self/exe")).unwrap(),
        )
    }

    #[test]
    fn published_figures_stand_beside_ours() {
        let text = report().text();
        assert!(
            text.contains("652.12") && text.contains("0.95×") && text.contains("0.92×"),
            "{text}"
        );
        assert!(report().csv().lines().count() > 1);
    }

    #[test]
    fn plots_have_all_contenders_and_leave_out_what_was_not_measured() {
        let directory = tempfile::tempdir().unwrap();
        report().write_plots(directory.path()).unwrap();
        let text = |name: &str| std::fs::read_to_string(directory.path().join(name)).unwrap();
        let throughput = text("throughput.svg");
        assert!(
            throughput.starts_with("<svg")
                && throughput.contains("concurrent")
                && throughput.contains("raw")
        );
        assert!(text("share.svg").contains("0.95") && text("share.svg").contains("published 0.92"));
        assert!(
            text("cpu-concurrent.svg").contains("user")
                && text("utilisation.svg").contains("<polyline")
        );
        assert!(text("response-times.svg").contains("<polygon"));
        assert!(!directory.path().join("io-rate.svg").exists(), "nobody counted requests");
    }
}

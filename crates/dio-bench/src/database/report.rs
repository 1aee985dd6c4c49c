//! The result: a study for each workload and size of the database's cache, and the time series as
//! CSV.

use dio_common::units::size;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::plan::{DatabasePlan, DatabaseSystem};
use crate::environment::Environment;
use crate::oltp::report::REFERENCE;
use crate::section::{Benchmark, Finding, slug};
use crate::study::{Contender, ContenderRow, ContenderRun, ReportTexts, Study, named, series};

/// One workload with one size of the database's cache.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Section {
    /// The script of the load generator.
    pub workload: String,
    /// Bytes of the database's own cache.
    pub pool_bytes: u64,
    /// The contenders.
    pub rows: Vec<ContenderRow>,
}

impl Section {
    pub(super) fn new(
        workload: &str,
        pool: u64,
        contenders: &[Contender],
        results: Vec<Vec<ContenderRun>>,
    ) -> Section {
        Section {
            workload: workload.to_owned(),
            pool_bytes: pool,
            rows: ContenderRow::all(contenders, results),
        }
    }

    /// A title of the section.
    pub fn title(&self) -> String {
        format!("{}, cache of {}", self.workload, size(self.pool_bytes))
    }
}

/// The whole result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DatabaseReport {
    /// The database.
    pub database: DatabaseSystem,
    /// Its version.
    pub version: String,
    /// Its workloads.
    pub sections: Vec<Section>,
    /// The settings.
    pub settings: Map<String, Value>,
    /// Remarks on what could not be measured.
    #[serde(default)]
    pub notes: Vec<String>,
    /// The machine and storage that it was measured on.
    pub environment: Environment,
}

impl DatabaseReport {
    pub(super) fn new(
        plan: &DatabasePlan,
        version: String,
        sections: Vec<Section>,
        notes: Vec<String>,
        environment: Environment,
    ) -> DatabaseReport {
        let settings = named([
            ("bytes", plan.size.into()),
            ("clients", plan.clients.into()),
            // The warm-up load, the measured load, and no load after it.
            ("seconds", vec![plan.ramp_up.as_secs_f64(), plan.steady.as_secs_f64(), 0.0].into()),
            ("rounds", plan.rounds.into()),
            ("io_uring", plan.io_uring.into()),
            ("mount_options", plan.mount_options.clone().into()),
            ("memory_bytes", plan.memory.into()),
        ]);
        DatabaseReport { database: plan.kind, version, sections, settings, notes, environment }
    }

    /// The time series of all runs, a line for each slot.
    pub fn csv(&self) -> String {
        let before = |section: &Section| format!("{},{},", section.workload, section.pool_bytes);
        let parts: Vec<(String, &[ContenderRow])> =
            self.sections.iter().map(|section| (before(section), &section.rows[..])).collect();
        series::beside(
            "workload,pool_bytes,",
            parts.iter().map(|(before, rows)| (before.as_str(), *rows)),
        )
    }
}

/// Number of findings of each workload that are shown at the top of a page.
const FINDINGS: usize = 3;

impl Benchmark for DatabaseReport {
    const NAME: &'static str = "database";
    const FIELDS: &'static [&'static str] = &["database", "sections"];

    fn section(&self) -> crate::section::Section {
        let name = self.database.name();
        let title = format!("{name} on raw, direct and concurrent storage");
        let lead = format!(
            "{name} {} with its data on each kind of storage, loaded by the generator that its \
             people use, for each workload and each size of its own cache. A first load, which is \
             not measured, warms it up.",
            self.version
        );
        let words = ReportTexts {
            id: DatabaseReport::NAME,
            title: &title,
            events: "transactions",
            lead: &lead,
        };
        let Some(first) = self.sections.first() else {
            let notes = self.notes.clone();
            let section = crate::section::Section::new(words.id, title.clone(), &self.environment);
            return crate::section::Section { lead, notes, ..section };
        };
        let mut shown = self.study(first).section(&words);
        (shown.findings, shown.blocks, shown.data) = (Vec::new(), Vec::new(), Vec::new());
        for section in &self.sections {
            let (part, study) = (section.title(), self.study(section));
            let found = study.findings().into_iter().take(FINDINGS);
            shown.findings.extend(
                found.map(|finding| Finding {
                    label: format!("{part}: {}", finding.label),
                    ..finding
                }),
            );
            shown.blocks.extend(study.blocks(&words, Some(&part)));
            shown.data.push((format!("series-{}", slug(&part)), series::csv(&section.rows)));
        }
        shown
    }
}

impl DatabaseReport {
    fn study<'a>(&'a self, section: &'a Section) -> Study<'a> {
        Study {
            rows: &section.rows,
            reference: &REFERENCE,
            settings: &self.settings,
            notes: &self.notes,
            environment: &self.environment,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::Page;
    use crate::study::run::tests::rows;

    #[test]
    fn every_section_has_its_tables_and_its_series() {
        let section =
            |name: &str| Section { workload: name.to_owned(), pool_bytes: 128 << 20, rows: rows() };
        let settings =
            named([("bytes", (500 << 20).into()), ("seconds", vec![3.0, 10.0, 0.0].into())]);
        let environment = Environment::of(std::path::Path::new("/proc/self/exe")).unwrap();
        let sections = vec![section("one"), section("two")];
        let report = DatabaseReport {
            database: DatabaseSystem::Mariadb,
            version: "10".into(),
            sections,
            settings,
            notes: Vec::new(),
            environment,
        };
        let text = report.text();
        assert!(text.contains("one, cache of 128 MiB") && text.contains("two, cache of"), "{text}");
        let csv = report.csv();
        assert_eq!(csv.lines().count(), 1 + 2 * 2 * 3 * 5);
        assert!(csv.contains("\ntwo,134217728,concurrent,3,"), "{csv}");
    }

    #[test]
    fn every_workload_has_its_plots_and_series() {
        let study: Value = serde_json::from_str(&crate::study::section::tests::text()).unwrap();
        let rows = &study["rows"];
        let workload =
            |pool: u64| serde_json::json!({"workload": "oltp", "pool_bytes": pool, "rows": rows});
        let result = serde_json::json!({
            "database": "mariadb",
            "version": "10.11",
            "sections": [workload(1 << 20), workload(1 << 30)],
            "settings": {"bytes": 1 << 20, "seconds": [1, 2, 0]},
            "notes": [],
            "environment": study["environment"],
        });
        let section = crate::page::read("db.json", &result.to_string()).unwrap();
        assert_eq!(section.title, "MariaDB on raw, direct and concurrent storage");
        assert_eq!(section.findings[0].label, "oltp, cache of 1 MiB: concurrent");
        assert!(
            section.settings.contains(&("data".to_owned(), "1 MiB".to_owned())),
            "{:?}",
            section.settings
        );
        let page = Page::new(None, vec![section]);
        let names: Vec<String> = page.plots().into_iter().map(|(name, _)| name).collect();
        let has = |name: &str| names.iter().any(|other| other == name);
        assert!(
            has("database-oltp-cache-of-1-mib-share.svg")
                && has("database-oltp-cache-of-1-gib-share.svg"),
            "{names:?}"
        );
        assert!(
            page.tables().iter().any(|(name, _)| name == "database-series-oltp-cache-of-1-gib.csv")
        );
        let none = result.to_string().replace(&result["sections"].to_string(), "[]");
        assert!(crate::page::read("db.json", &none).unwrap().blocks.is_empty());
    }
}

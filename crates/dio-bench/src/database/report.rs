//! The study's result: tables for people, JSON, and the time series as CSV.

use std::fmt::Write;

use serde::Serialize;

use super::{Contender, Kind, Plan, Run};
use crate::environment::Environment;
use crate::study::{Row, table};
use dio_common::units::size;

/// One workload with one size of the database's cache.
#[derive(Clone, Debug, Serialize)]
pub struct Section {
    /// The script of the load generator.
    pub workload: String,
    /// Bytes of the database's own cache.
    pub pool_bytes: u64,
    /// The contenders.
    pub rows: Vec<Row>,
}

impl Section {
    pub(super) fn new(workload: &str, pool: u64, contenders: &[Contender], results: Vec<Vec<Run>>) -> Section {
        Section { workload: workload.to_owned(), pool_bytes: pool, rows: Row::all(contenders, results) }
    }

    /// What it is of, in words.
    pub fn title(&self) -> String {
        format!("{}, cache of {}", self.workload, size(self.pool_bytes))
    }
}

/// The settings that the figures are of.
#[derive(Clone, Debug, Serialize)]
pub struct Settings {
    /// Bytes of data, about.
    pub bytes: u64,
    /// Clients.
    pub clients: usize,
    /// Seconds of the load before, of the load that is measured, and none after it.
    pub seconds: [f64; 3],
    /// Runs of each contender.
    pub rounds: usize,
    /// Whether mounts other than that with the file lock were to have io_uring.
    pub io_uring: bool,
    /// More options of all mounts.
    pub mount_options: Vec<String>,
    /// Limit to the memory of the database, its clients and the mount, page cache included.
    pub memory_bytes: Option<u64>,
}

/// The whole result.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The database.
    pub database: Kind,
    /// Its version.
    pub version: String,
    /// Its workloads.
    pub sections: Vec<Section>,
    /// The settings.
    pub settings: Settings,
    /// What was missing.
    pub notes: Vec<String>,
    /// Where it was measured.
    pub environment: Environment,
}

impl Report {
    pub(super) fn new(
        plan: &Plan,
        version: String,
        sections: Vec<Section>,
        notes: Vec<String>,
        environment: Environment,
    ) -> Report {
        let settings = Settings {
            bytes: plan.size,
            clients: plan.clients,
            seconds: [plan.ramp_up.as_secs_f64(), plan.steady.as_secs_f64(), 0.0],
            rounds: plan.rounds,
            io_uring: plan.io_uring,
            mount_options: plan.mount_options.clone(),
            memory_bytes: plan.memory,
        };
        Report { database: plan.kind, version, sections, settings, notes, environment }
    }

    /// The report for people.
    pub fn text(&self) -> String {
        let settings = &self.settings;
        let [up, steady, _] = settings.seconds;
        let memory = settings.memory_bytes.map_or_else(|| "not limited".to_owned(), size);
        let mut text = format!(
            "{} {}, {} clients, {} of data; memory of server, clients and mount, page cache included: {memory}\n\
             {up} s of load before, {steady} s measured; rounds: {}, medians shown\n",
            self.database.name(),
            self.version,
            settings.clients,
            size(settings.bytes),
            settings.rounds,
        );
        for section in &self.sections {
            let _ = write!(text, "\n{}\n{}\n", section.title(), table::transactions(&section.rows, |_| None));
            text.push_str(&table::resources(&section.rows));
        }
        let _ = write!(text, "\n{}", table::LEGEND);
        self.notes.iter().for_each(|note| text.push_str(&format!("{note}\n")));
        text.push('\n');
        text.push_str(&self.environment.text());
        text
    }

    /// The time series of all runs, a line for each slot.
    pub fn csv(&self) -> String {
        let mut text = format!("workload,pool_bytes,{}", table::SERIES);
        for section in &self.sections {
            let before = format!("{},{},", section.workload, section.pool_bytes);
            text.push_str(&table::series(&before, &section.rows));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::run::tests::rows;

    #[test]
    fn every_section_has_its_tables_and_its_series() {
        let section = |name: &str| Section { workload: name.to_owned(), pool_bytes: 128 << 20, rows: rows() };
        let settings = Settings {
            bytes: 500 << 20,
            clients: 16,
            seconds: [3.0, 10.0, 0.0],
            rounds: 3,
            io_uring: false,
            mount_options: Vec::new(),
            memory_bytes: Some(500 << 20),
        };
        let environment = Environment::of(std::path::Path::new("/proc/self/exe")).unwrap();
        let sections = vec![section("one"), section("two")];
        let report = Report {
            database: Kind::Mariadb,
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
}

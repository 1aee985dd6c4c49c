//! `dio bench database`: a study for each workload and size of the database's cache.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::environment::Environment;
use super::model::{Finding, Section};
use super::slug;
use super::study::{Contender, Reference, Study, Words, show};
use crate::oltp::report::REFERENCE;
use dio_common::units::size;

#[derive(Deserialize)]
struct Report {
    database: String,
    version: String,
    sections: Vec<Workload>,
    settings: Map<String, Value>,
    #[serde(default)]
    notes: Vec<String>,
    environment: Environment,
}

#[derive(Deserialize)]
struct Workload {
    workload: String,
    pool_bytes: u64,
    rows: Vec<Contender>,
}

/// Findings of each workload that the top of a page has room for.
const FINDINGS: usize = 3;

pub(super) fn section(text: &str) -> serde_json::Result<Section> {
    let report: Report = serde_json::from_str(text)?;
    let name = match report.database.as_str() {
        "mariadb" => "MariaDB",
        "postgresql" => "PostgreSQL",
        other => other,
    };
    let title = format!("{name} on raw, direct and concurrent storage");
    let lead = format!(
        "{name} {} with its data on each kind of storage, loaded by the generator that its people use, for each workload and \
         each size of its own cache. A first load, which is not measured, warms it up.",
        report.version
    );
    let words = Words { id: "database", title: &title, events: "transactions", lead: &lead };
    let mut studies = Vec::new();
    for workload in report.sections {
        let part = format!("{}, cache of {}", workload.workload, size(workload.pool_bytes));
        let study = Study {
            contenders: workload.rows,
            reference: REFERENCE.iter().map(Reference::from).collect(),
            settings: report.settings.clone(),
            notes: report.notes.clone(),
            environment: report.environment.clone(),
        };
        studies.push((part, study.sorted()));
    }
    let Some((_, first)) = studies.first() else {
        return Ok(Section {
            id: words.id.to_owned(),
            lead: lead.clone(),
            title: title.clone(),
            notes: report.notes,
            environment: report.environment.rows(),
            ..Section::default()
        });
    };
    let mut section =
        Section { findings: Vec::new(), blocks: Vec::new(), data: Vec::new(), ..show::section(first, &words) };
    for (part, study) in &studies {
        let found = show::findings(study).into_iter().take(FINDINGS);
        section
            .findings
            .extend(found.map(|finding| Finding { label: format!("{part}: {}", finding.label), ..finding }));
        section.blocks.extend(show::blocks(study, &words, Some(part)));
        section.data.push((format!("series-{}", slug(part)), study.csv()));
    }
    Ok(section)
}

#[cfg(test)]
mod tests {
    use super::super::Page;
    use super::*;

    #[test]
    fn every_workload_has_its_plots_and_series() {
        let study: Value = serde_json::from_str(&super::super::study::tests::text()).unwrap();
        let workload = |pool: u64| serde_json::json!({"workload": "oltp", "pool_bytes": pool, "rows": study["rows"]});
        let result = serde_json::json!({"database": "mariadb", "version": "10.11", "sections": [workload(1 << 20), workload(1 << 30)],
            "settings": {"bytes": 1 << 20, "seconds": [1, 2, 0]}, "notes": [], "environment": study["environment"]});
        let section = super::super::read("db.json", &result.to_string()).unwrap();
        assert_eq!(section.title, "MariaDB on raw, direct and concurrent storage");
        assert_eq!(section.findings[0].label, "oltp, cache of 1 MiB: concurrent");
        assert!(section.settings.contains(&("data".to_owned(), "1 MiB".to_owned())), "{:?}", section.settings);
        let page = Page::new(None, vec![section]);
        let names: Vec<String> = page.plots().into_iter().map(|(name, _)| name).collect();
        let has = |name: &str| names.iter().any(|other| other == name);
        assert!(
            has("database-oltp-cache-of-1-mib-share.svg") && has("database-oltp-cache-of-1-gib-share.svg"),
            "{names:?}"
        );
        assert!(page.tables().iter().any(|(name, _)| name == "database-series-oltp-cache-of-1-gib.csv"));
        let none = result.to_string().replace(&result["sections"].to_string(), "[]");
        assert!(super::super::read("db.json", &none).unwrap().blocks.is_empty());
    }
}

//! `dio bench increments`.

use serde::Deserialize;

use super::environment::Environment;
use super::model::{Block, Cell, Column, Finding, Section, Table};
use super::times;
use crate::plot::{Dots, Kind, Plot, Row};
use crate::quantity::Unit;
use crate::stats::Summary;
use dio_common::units::size;

#[derive(Deserialize)]
struct Report {
    rows: Vec<Step>,
    samples: Vec<Samples>,
    runs: u64,
    environment: Environment,
}

#[derive(Deserialize)]
struct Step {
    step_bytes: u64,
    file_bytes: u64,
    cached_device_bytes: Option<u64>,
    direct_device_bytes: Option<u64>,
}

#[derive(Deserialize)]
struct Samples {
    cached: Vec<Usage>,
    direct: Vec<Usage>,
}

#[derive(Deserialize)]
struct Usage {
    wall_seconds: f64,
    cpu_seconds: f64,
}

/// One step with its runs.
struct Both<'a> {
    step: &'a Step,
    samples: &'a Samples,
}

impl Both<'_> {
    fn name(&self) -> String {
        size(self.step.step_bytes)
    }

    /// Time through the cache divided by that of direct I/O, run by run.
    fn gains(&self) -> Vec<f64> {
        let pairs = self.samples.cached.iter().zip(&self.samples.direct);
        pairs.map(|(cached, direct)| cached.wall_seconds / direct.wall_seconds).collect()
    }

    /// Seconds in the reference, cached and direct.
    fn published(&self) -> Option<(f64, f64)> {
        let found = crate::increments::REFERENCE.iter().find(|(step, ..)| *step == self.step.step_bytes);
        found.map(|(_, cached, direct)| (*cached, *direct))
    }
}

pub(super) fn section(text: &str) -> serde_json::Result<Section> {
    let report: Report = serde_json::from_str(text)?;
    let steps: Vec<Both<'_>> =
        report.rows.iter().zip(&report.samples).map(|(step, samples)| Both { step, samples }).collect();
    let finding = |both: &Both<'_>| {
        let published = both.published().map(|(cached, direct)| format!("published {}", times(cached / direct)));
        let gain = Summary::of(both.gains()).median;
        Finding::new(
            format!("steps of {}", both.name()),
            format!("{} as fast", times(gain)),
            published.unwrap_or_default(),
        )
    };
    Ok(Section {
        id: "increments".to_owned(),
        title: "Cold sequential reading in small and large steps".to_owned(),
        lead: format!(
            "A cold file is read from front to back, each step one call: read(2) through the page cache, and the library's \
             stream past it, in turns, {} times each. Opening and closing count.",
            report.runs
        ),
        findings: steps.iter().map(finding).collect(),
        blocks: vec![Block::Plots(vec![gains(&steps), elapsed(&steps)]), Block::Table(table(&steps))],
        notes: vec![
            "Published: AIX JFS, 1 MB in steps of 1 B, 1 GB otherwise, where every step was a request to the disk. Only ratios \
             compare."
                .to_owned(),
        ],
        environment: report.environment.rows(),
        ..Section::default()
    })
}

fn gains(steps: &[Both<'_>]) -> Plot {
    let row = |both: &Both<'_>| Row {
        name: both.name(),
        tone: 4,
        values: both.gains(),
        published: both.published().map(|(cached, direct)| cached / direct),
    };
    let rows = steps.iter().map(row).collect();
    Plot {
        name: "gain".to_owned(),
        title: "Cached ÷ direct time".to_owned(),
        about: "Each dot is a pair of runs, the bar the median; right of the line at 1 direct reading is faster. Diamonds are \
                published ratios."
            .to_owned(),
        kind: Kind::Dots(Dots { unit: Unit::Ratio, label: "times as fast".to_owned(), guide: Some(1.0), rows }),
    }
}

fn elapsed(steps: &[Both<'_>]) -> Plot {
    let row = |both: &Both<'_>, way: &str, tone, runs: &[Usage]| Row {
        name: format!("{}, {way}", both.name()),
        tone,
        values: runs.iter().map(|run| run.wall_seconds).collect(),
        published: None,
    };
    let both =
        |both: &Both<'_>| [row(both, "cached", 1, &both.samples.cached), row(both, "direct", 4, &both.samples.direct)];
    let rows = steps.iter().flat_map(both).collect();
    Plot {
        name: "elapsed".to_owned(),
        title: "Elapsed time".to_owned(),
        about: "Each dot is a run, the bar the median; further left is better.".to_owned(),
        kind: Kind::Dots(Dots { unit: Unit::Seconds, label: "median".to_owned(), guide: None, rows }),
    }
}

fn table(steps: &[Both<'_>]) -> Table {
    let columns = vec![
        Column::of("of", Unit::Bytes),
        Column::of("cached", Unit::Seconds),
        Column::of("direct", Unit::Seconds),
        Column::of("cached ÷ direct", Unit::Ratio),
        Column::of("published", Unit::Ratio),
        Column::of("CPU cached", Unit::Seconds),
        Column::of("CPU direct", Unit::Seconds),
        Column::of("from the device, cached", Unit::Bytes),
        Column::of("direct", Unit::Bytes),
    ];
    let row = |both: &Both<'_>| {
        let wall = |runs: &[Usage]| Cell::runs(runs.iter().map(|run| run.wall_seconds));
        let cpu = |runs: &[Usage]| Cell::runs(runs.iter().map(|run| run.cpu_seconds));
        let bytes = |bytes: Option<u64>| Cell::of(bytes.map(|bytes| bytes as f64));
        let cells = vec![
            bytes(Some(both.step.file_bytes)),
            wall(&both.samples.cached),
            wall(&both.samples.direct),
            Cell::runs(both.gains()),
            Cell::of(both.published().map(|(cached, direct)| cached / direct)),
            cpu(&both.samples.cached),
            cpu(&both.samples.direct),
            bytes(both.step.cached_device_bytes),
            bytes(both.step.direct_device_bytes),
        ];
        (both.name(), cells)
    };
    Table {
        name: "steps".to_owned(),
        caption: "Medians of the runs, with the least and the greatest".to_owned(),
        head: "step".to_owned(),
        columns,
        rows: steps.iter().map(row).collect(),
    }
    .dense()
}

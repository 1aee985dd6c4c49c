//! `dio bench pipeline`.

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
    rows: Vec<Way>,
    file_bytes: u64,
    command: String,
    cold: String,
    runs: u64,
    environment: Environment,
}

#[derive(Deserialize)]
struct Way {
    ends: String,
    line: String,
    device_bytes: Option<u64>,
    target_bytes: u64,
    source_pages_after: u64,
    target_pages_after: u64,
    samples: Vec<Sample>,
}

#[derive(Deserialize)]
struct Sample {
    wall_seconds: f64,
    cpu_seconds: f64,
    commands_seconds: f64,
}

impl Way {
    fn name(&self) -> String {
        match self.ends.as_str() {
            "plain" => "at neither end",
            "input" => "at the input",
            "both" => "at both ends",
            other => other,
        }
        .to_owned()
    }

    /// Time of the plain pipeline divided by this one's, run by run.
    fn gains(&self, plain: &Way) -> Vec<f64> {
        plain.samples.iter().zip(&self.samples).map(|(plain, this)| plain.wall_seconds / this.wall_seconds).collect()
    }
}

pub(super) fn section(text: &str) -> serde_json::Result<Section> {
    let report: Report = serde_json::from_str(text)?;
    let plain = report.rows.iter().find(|way| way.ends == "plain");
    let mut findings = Vec::new();
    for way in report.rows.iter().filter(|way| way.ends != "plain") {
        if let Some(gain) = plain.map(|plain| Summary::of(way.gains(plain)).median).filter(|gain| *gain > 0.0) {
            let note = if way.ends == "both" { "published 1.16× to 1.21×" } else { "" };
            findings.push(Finding::new(format!("large I/O {}", way.name()), format!("{} as fast", times(gain)), note));
        }
    }
    let cold = if report.cold == "system" { "the caches of the system" } else { "the pages of the source" };
    let commands = report.rows.iter().map(|way| (way.name(), way.line.clone())).collect();
    Ok(Section {
        id: "pipeline".to_owned(),
        title: format!("Large direct I/O around `{}`", report.command),
        lead: format!(
            "{} of cold data go through an unchanged command, with large direct I/O at neither end, at its input and at both, in \
             turns, {} times each. Before each run {cold} were dropped; a run ends when the target is durable.",
            size(report.file_bytes),
            report.runs
        ),
        findings,
        blocks: vec![
            Block::Plots(vec![elapsed(&report.rows)]),
            Block::Table(table(&report, plain)),
            Block::Commands(commands),
        ],
        notes: vec!["Published: tar and gzip on AIX gained 16 to 21 % by large I/O at both ends.".to_owned()],
        environment: report.environment.rows(),
        ..Section::default()
    })
}

fn elapsed(ways: &[Way]) -> Plot {
    let row = |(place, way): (usize, &Way)| Row {
        name: way.name(),
        tone: [1, 3, 4][place % 3],
        values: way.samples.iter().map(|run| run.wall_seconds).collect(),
        published: None,
    };
    let rows = ways.iter().enumerate().map(row).collect();
    Plot {
        name: "elapsed".to_owned(),
        title: "Time until the target is durable".to_owned(),
        about: "Each dot is a run, the bar the median; further left is better.".to_owned(),
        kind: Kind::Dots(Dots { unit: Unit::Seconds, label: "median".to_owned(), guide: None, rows }),
    }
}

fn table(report: &Report, plain: Option<&Way>) -> Table {
    let columns = vec![
        Column::of("durable", Unit::Seconds),
        Column::of("commands ended", Unit::Seconds),
        Column::of("gain", Unit::Ratio),
        Column::of("CPU", Unit::Seconds),
        Column::of("throughput", Unit::BytesPerSecond),
        Column::of("from the device", Unit::Bytes),
        Column::of("target", Unit::Bytes),
        Column::of("pages left of the source", Unit::Count),
        Column::of("of the target", Unit::Count),
    ];
    let row = |way: &Way| {
        let of = |figure: fn(&Sample) -> f64| Cell::runs(way.samples.iter().map(figure));
        let count = |count: u64| Cell::Number(count as f64);
        let cells = vec![
            of(|run| run.wall_seconds),
            of(|run| run.commands_seconds),
            Cell::runs(plain.map_or_else(Vec::new, |plain| way.gains(plain))),
            of(|run| run.cpu_seconds),
            Cell::runs(way.samples.iter().map(|run| report.file_bytes as f64 / run.wall_seconds)),
            Cell::of(way.device_bytes.map(|bytes| bytes as f64)),
            count(way.target_bytes),
            count(way.source_pages_after),
            count(way.target_pages_after),
        ];
        (way.name(), cells)
    };
    Table {
        name: "ways".to_owned(),
        caption: "Medians of the runs, with the least and the greatest".to_owned(),
        head: "large I/O".to_owned(),
        columns,
        rows: report.rows.iter().map(row).collect(),
    }
    .dense()
}

//! `dio bench random`.

use serde::Deserialize;

use super::environment::Environment;
use super::model::{Block, Cell, Column, Finding, Section, Table};
use super::study::Bucket;
use super::study::plots::{distribution, distribution_plot};
use crate::plot::{Dots, Kind, Plot, Row, Series};
use crate::quantity::Unit;
use dio_common::units::{seconds, size};

#[derive(Deserialize)]
struct Report {
    rows: Vec<Depth>,
    mode: String,
    engine: String,
    file_bytes: u64,
    runs: u64,
    environment: Environment,
}

#[derive(Deserialize)]
struct Depth {
    block_bytes: u64,
    depth: u64,
    reads_per_second: f64,
    cpu_seconds_per_read: Option<f64>,
    latency: Latency,
    #[serde(default)]
    histogram: Vec<Bucket>,
    samples: Vec<f64>,
}

#[derive(Deserialize)]
struct Latency {
    p50: f64,
    p99: f64,
    p999: f64,
    max: f64,
}

impl Depth {
    fn name(&self) -> String {
        format!("{} in flight", self.depth)
    }
}

pub(super) fn section(text: &str) -> serde_json::Result<Section> {
    let report: Report = serde_json::from_str(text)?;
    let block = report.rows.first().map_or(0, |row| row.block_bytes);
    let row = |(tone, depth): (usize, &Depth)| Row {
        name: depth.name(),
        tone,
        values: depth.samples.clone(),
        published: None,
    };
    let rows = report.rows.iter().enumerate().map(row).collect();
    let mut plots = vec![Plot {
        name: "rate".to_owned(),
        title: "Reads".to_owned(),
        about: "Reads per second by how many are in flight: each dot is a run, the bar the median.".to_owned(),
        kind: Kind::Dots(Dots { unit: Unit::PerSecond, label: "median".to_owned(), guide: None, rows }),
    }];
    let series = report.rows.iter().enumerate().filter_map(|(tone, depth)| {
        Some(Series { name: depth.name(), tone, points: distribution([&depth.histogram[..]].into_iter())? })
    });
    let series: Vec<Series> = series.collect();
    if !series.is_empty() {
        plots.push(distribution_plot("latency", "Latency of reads".to_owned(), series));
    }
    let scale = Unit::PerSecond.scale(report.rows.iter().map(|row| row.reads_per_second));
    let finding = |depth: &Depth| {
        let note = format!("p50 {}, p99 {}", seconds(depth.latency.p50), seconds(depth.latency.p99));
        Finding::new(depth.name(), scale.show(depth.reads_per_second), note)
    };
    let mut notes = Vec::new();
    if report.engine == "null" {
        notes.push("Nothing was read: this is the cost of the harness and the library alone.".to_owned());
    }
    Ok(Section {
        id: "random".to_owned(),
        title: "Random reads through a queue".to_owned(),
        lead: format!(
            "Aligned reads of {} at random places among {}, mode {}, engine {}; {} runs of each depth, in turns. Latency is from \
             queueing a read until it is given back, of all runs.",
            size(block),
            size(report.file_bytes),
            report.mode,
            report.engine,
            report.runs
        ),
        findings: report.rows.iter().map(finding).collect(),
        blocks: vec![Block::Plots(plots), Block::Table(table(&report.rows))],
        notes,
        environment: report.environment.rows(),
        ..Section::default()
    })
}

fn table(depths: &[Depth]) -> Table {
    let columns = vec![
        Column::of("reads", Unit::PerSecond),
        Column::of("throughput", Unit::BytesPerSecond),
        Column::of("CPU per read", Unit::Seconds),
        Column::of("p50", Unit::Seconds),
        Column::of("p99", Unit::Seconds),
        Column::of("p99.9", Unit::Seconds),
        Column::of("longest", Unit::Seconds),
    ];
    let row = |depth: &Depth| {
        let latency = &depth.latency;
        let mut cells = vec![
            Cell::runs(depth.samples.iter().copied()),
            Cell::runs(depth.samples.iter().map(|rate| rate * depth.block_bytes as f64)),
            Cell::of(depth.cpu_seconds_per_read),
        ];
        cells.extend([latency.p50, latency.p99, latency.p999, latency.max].map(Cell::Number));
        (depth.depth.to_string(), cells)
    };
    Table {
        name: "depths".to_owned(),
        caption: "Reads and their latency; rates are medians, with the least and the greatest".to_owned(),
        head: "in flight".to_owned(),
        columns,
        rows: depths.iter().map(row).collect(),
    }
    .dense()
}

//! `dio bench copy`.

use serde::Deserialize;

use super::environment::Environment;
use super::model::{Block, Cell, Column, Finding, Section, Table};
use super::times;
use crate::plot::{Dots, Kind, Plot, Row};
use crate::quantity::Unit;
use dio_common::units::size;

#[derive(Deserialize)]
struct Report {
    rows: Vec<Way>,
    gain: Option<f64>,
    runs: u64,
    environment: Environment,
}

#[derive(Deserialize)]
struct Way {
    block_bytes: u64,
    depth: u64,
    file_bytes: u64,
    read_requests: u64,
    write_requests: u64,
    source_pages_after: u64,
    target_pages_after: u64,
    samples: Vec<Usage>,
}

#[derive(Deserialize)]
struct Usage {
    wall_seconds: f64,
    cpu_seconds: f64,
}

impl Way {
    fn name(&self) -> String {
        format!("{} × {}", size(self.block_bytes), self.depth)
    }

    fn rates(&self) -> impl Iterator<Item = f64> + '_ {
        self.samples.iter().map(|run| self.file_bytes as f64 / run.wall_seconds)
    }
}

pub(super) fn section(text: &str) -> serde_json::Result<Section> {
    let report: Report = serde_json::from_str(text)?;
    let (small, large) = crate::copy::REFERENCE_SECONDS;
    let row = |(tone, way): (usize, &Way)| Row {
        name: format!("blocks of {}, {} in flight", size(way.block_bytes), way.depth),
        tone: [1, 4][tone % 2],
        values: way.rates().collect(),
        published: None,
    };
    let rows = report.rows.iter().enumerate().map(row).collect();
    let plot = Plot {
        name: "throughput".to_owned(),
        title: "Throughput".to_owned(),
        about: "Bytes copied per second, until the target is durable: each dot is a run, the bar the median."
            .to_owned(),
        kind: Kind::Dots(Dots { unit: Unit::BytesPerSecond, label: "median".to_owned(), guide: None, rows }),
    };
    let published = format!("published {}", times(small / large));
    let gain = report
        .gain
        .map(|gain| Finding::new("large blocks in flight", format!("{} the throughput", times(gain)), published));
    Ok(Section {
        id: "copy".to_owned(),
        title: "Copying in small and in large blocks".to_owned(),
        lead: format!(
            "A cold file is copied past the page cache in blocks of 4 KiB, one at a time, and in large blocks, several in \
             flight, in turns, {} times each. Both end when the target is durable; they copy different amounts.",
            report.runs
        ),
        findings: gain.into_iter().collect(),
        blocks: vec![Block::Plots(vec![plot]), Block::Table(table(&report.rows))],
        notes: vec![format!(
            "Published: cp of 1 GB on AIX, {small} s in requests of 4 KB, {large} s in those of 8 MB."
        )],
        environment: report.environment.rows(),
        ..Section::default()
    })
}

fn table(ways: &[Way]) -> Table {
    let columns = vec![
        Column::of("of", Unit::Bytes),
        Column::of("elapsed", Unit::Seconds),
        Column::of("throughput", Unit::BytesPerSecond),
        Column::of("CPU per GiB", Unit::Seconds),
        Column::of("read requests", Unit::Count),
        Column::of("write requests", Unit::Count),
        Column::of("pages left of the source", Unit::Count),
        Column::of("of the target", Unit::Count),
    ];
    let row = |way: &Way| {
        let gibibytes = way.file_bytes as f64 / f64::from(1 << 30);
        let count = |count: u64| Cell::Number(count as f64);
        let cells = vec![
            count(way.file_bytes),
            Cell::runs(way.samples.iter().map(|run| run.wall_seconds)),
            Cell::runs(way.rates()),
            Cell::runs(way.samples.iter().map(|run| run.cpu_seconds / gibibytes)),
            count(way.read_requests),
            count(way.write_requests),
            count(way.source_pages_after),
            count(way.target_pages_after),
        ];
        (way.name(), cells)
    };
    Table {
        name: "ways".to_owned(),
        caption: "Medians of the runs, with the least and the greatest".to_owned(),
        head: "block × depth".to_owned(),
        columns,
        rows: ways.iter().map(row).collect(),
    }
    .dense()
}

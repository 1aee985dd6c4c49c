//! `dio bench streams`.

use serde::Deserialize;

use super::environment::Environment;
use super::model::{Block, Cell, Column, Finding, Section, Table};
use super::slug;
use crate::plot::{Dots, Kind, Plot, Row};
use crate::quantity::Unit;
use dio_common::units::size;

#[derive(Deserialize)]
struct Report {
    workloads: Vec<Workload>,
    runs: u64,
    environment: Environment,
}

#[derive(Deserialize)]
struct Workload {
    name: String,
    step_bytes: u64,
    bytes: u64,
    ways: Vec<Way>,
}

#[derive(Deserialize)]
struct Way {
    name: String,
    stream_ratio: Option<f64>,
    in_vain_part: Option<f64>,
    buffer_bytes: Option<u64>,
    pages_after: u64,
    samples: Vec<Run>,
}

#[derive(Deserialize)]
struct Run {
    wall_seconds: f64,
    cpu_seconds: f64,
}

pub(super) fn section(text: &str) -> serde_json::Result<Section> {
    let report: Report = serde_json::from_str(text)?;
    let finding = |workload: &Workload| {
        let peer = workload.ways.get(1)?;
        let ratio = peer.stream_ratio?;
        Some(Finding::new(workload.name.clone(), format!("{ratio:.2} of the time"), format!("stream ÷ {}", peer.name)))
    };
    let mut blocks = vec![Block::Plots(report.workloads.iter().map(elapsed).collect())];
    blocks.extend(report.workloads.iter().map(|workload| Block::Table(table(workload))));
    Ok(Section {
        id: "streams".to_owned(),
        title: "The library's streams against the page cache".to_owned(),
        lead: format!(
            "Every workload is done in several ways, each starting cold, in turns, {} times each. The first way is the library's \
             stream, which the others are compared with. Writing ends durable.",
            report.runs
        ),
        findings: report.workloads.iter().filter_map(finding).collect(),
        blocks,
        notes: vec![
            "In vain: bytes read beyond those asked for, as a part of those asked for; the worst run. Pages left: resident pages \
             of the file afterwards; the most of all runs."
                .to_owned(),
        ],
        environment: report.environment.rows(),
        ..Section::default()
    })
}

fn elapsed(workload: &Workload) -> Plot {
    let row = |(place, way): (usize, &Way)| Row {
        name: way.name.clone(),
        tone: [4, 1, 3, 5, 2][place % 5],
        values: way.samples.iter().map(|run| run.wall_seconds).collect(),
        published: None,
    };
    Plot {
        name: slug(&workload.name),
        title: workload.name.clone(),
        about: format!("Elapsed time for {}: each dot is a run, the bar the median.", size(workload.bytes)),
        kind: Kind::Dots(Dots {
            unit: Unit::Seconds,
            label: "median".to_owned(),
            guide: None,
            rows: workload.ways.iter().enumerate().map(row).collect(),
        }),
    }
}

fn table(workload: &Workload) -> Table {
    let columns = vec![
        Column::of("elapsed", Unit::Seconds),
        Column::of("stream ÷ this", Unit::Ratio),
        Column::of("throughput", Unit::BytesPerSecond),
        Column::of("steps", Unit::PerSecond),
        Column::of("CPU", Unit::Seconds),
        Column::of("in vain", Unit::Part),
        Column::of("buffers", Unit::Bytes),
        Column::of("pages left", Unit::Count),
    ];
    let stream = workload.ways.first().map_or(&[][..], |way| &way.samples);
    let row = |way: &Way| {
        let pairs = stream.iter().zip(&way.samples);
        let steps = workload.bytes.div_ceil(workload.step_bytes.max(1)) as f64;
        let cells = vec![
            Cell::runs(way.samples.iter().map(|run| run.wall_seconds)),
            Cell::runs(pairs.map(|(stream, this)| stream.wall_seconds / this.wall_seconds)),
            Cell::runs(way.samples.iter().map(|run| workload.bytes as f64 / run.wall_seconds)),
            Cell::runs(way.samples.iter().map(|run| steps / run.wall_seconds)),
            Cell::runs(way.samples.iter().map(|run| run.cpu_seconds)),
            Cell::of(way.in_vain_part),
            Cell::of(way.buffer_bytes.map(|bytes| bytes as f64)),
            Cell::Number(way.pages_after as f64),
        ];
        (way.name.clone(), cells)
    };
    Table {
        name: format!("{}-ways", slug(&workload.name)),
        caption: format!("{}, {}", workload.name, size(workload.bytes)),
        head: "way".to_owned(),
        columns,
        rows: workload.ways.iter().map(row).collect(),
    }
    .dense()
}

//! `dio bench locks`.

use serde::Deserialize;

use super::model::{Block, Cell, Column, Finding, Section, Table};
use crate::plot::{Dots, Kind, Plot, Row};
use crate::quantity::Unit;
use dio_common::units::seconds;

#[derive(Deserialize)]
struct Report {
    command: String,
    status: Option<i32>,
    seconds: f64,
    mounts: Vec<Mount>,
    library: Library,
    kernel: Kernel,
    #[serde(default)]
    system: bool,
}

#[derive(Deserialize)]
struct Mount {
    mountpoint: String,
    mode: String,
    rows: Vec<Blocks>,
    error: Option<String>,
}

#[derive(Deserialize)]
struct Library {
    processes: u64,
    rows: Vec<Blocks>,
}

#[derive(Deserialize)]
struct Kernel {
    method: String,
    notes: Vec<String>,
    rows: Vec<Blocks>,
}

#[derive(Deserialize)]
struct Blocks {
    class: String,
    #[serde(default)]
    side: Option<String>,
    blocks: u64,
    blocks_per_second: f64,
    waited_seconds: Option<f64>,
    #[serde(default)]
    functions: Vec<Function>,
}

#[derive(Deserialize)]
struct Function {
    name: String,
    blocks: u64,
}

impl Report {
    /// All rows with the place they come from and their colour.
    fn rows(&self) -> impl Iterator<Item = (String, usize, &Blocks)> {
        let several = self.mounts.len() > 1;
        let mounts = self.mounts.iter().flat_map(move |mount| {
            let name = if several { format!("mount {}", mount.mountpoint) } else { "mount".to_owned() };
            mount.rows.iter().map(move |row| (format!("{}: {}", name, row.class), 4, row))
        });
        let library = self.library.rows.iter().map(|row| (format!("library: {}", row.class), 1, row));
        let kernel = self.kernel.rows.iter().map(|row| {
            let side = row.side.as_ref().map_or_else(String::new, |side| format!(" ({side})"));
            (format!("kernel: {}{side}", row.class), 2, row)
        });
        mounts.chain(library).chain(kernel)
    }
}

pub(super) fn section(text: &str) -> serde_json::Result<Section> {
    let report: Report = serde_json::from_str(text)?;
    let ended = match report.status {
        Some(0) => String::new(),
        Some(status) => format!(" and ended with status {status}"),
        None => " and was ended by a signal".to_owned(),
    };
    let mut notes = report.kernel.notes.clone();
    for mount in &report.mounts {
        notes.push(match &mount.error {
            Some(error) => format!("{}: {error}", mount.mountpoint),
            None => format!("{} is a mount in mode {}.", mount.mountpoint, mount.mode),
        });
    }
    notes.push(format!("{} programs of dio have told of the library's locks.", report.library.processes));
    let mut most: Vec<(String, usize, &Blocks)> = report.rows().collect();
    most.sort_by_key(|(.., row)| std::cmp::Reverse(row.blocks));
    let scale = Unit::PerSecond.scale(most.iter().map(|(.., row)| row.blocks_per_second));
    let finding = |(name, _, row): &(String, usize, &Blocks)| {
        let waited = row.waited_seconds.map_or_else(String::new, |time| format!("{} waited in all", seconds(time)));
        Finding::new(name.clone(), scale.show(row.blocks_per_second), waited)
    };
    let findings = match most.is_empty() {
        true => vec![Finding::new("blocks on locks", "none", "nobody was seen to be blocked")],
        false => most.iter().take(3).map(finding).collect(),
    };
    let mut blocks = Vec::new();
    if !most.is_empty() {
        blocks.push(Block::Plots(vec![plot(&report)]));
        blocks.push(Block::Table(table(&report)));
    }
    let method = match report.kernel.method.as_str() {
        "tracepoint" => "by the tracepoint lock:contention_begin",
        _ => "by what threads sleep in, which is a lower bound",
    };
    let whose = if report.system { "all processes" } else { "the command and its descendants" };
    Ok(Section {
        id: "locks".to_owned(),
        title: "What a command was blocked on".to_owned(),
        lead: format!(
            "`{}` ran for {}{ended}. A block is a thread, or a request, that could not have a lock at once and waited. The \
             kernel's locks were seen {method}, of {whose}.",
            report.command,
            seconds(report.seconds)
        ),
        findings,
        blocks,
        notes,
        ..Section::default()
    })
}

fn plot(report: &Report) -> Plot {
    let row = |(name, tone, row): (String, usize, &Blocks)| Row {
        name,
        tone,
        values: vec![row.blocks_per_second],
        published: None,
    };
    Plot {
        name: "blocks".to_owned(),
        title: "Blocks per second".to_owned(),
        about: "How often somebody had to wait for a lock of each class.".to_owned(),
        kind: Kind::Dots(Dots {
            unit: Unit::PerSecond,
            label: String::new(),
            guide: None,
            rows: report.rows().map(row).collect(),
        }),
    }
}

fn table(report: &Report) -> Table {
    let columns = vec![
        Column::of("blocks", Unit::PerSecond),
        Column::of("in all", Unit::Count),
        Column::of("mean wait", Unit::Seconds),
        Column::of("waited in all", Unit::Seconds),
        Column::text("wanted by"),
    ];
    let row = |(name, _, row): (String, usize, &Blocks)| {
        let functions: Vec<String> =
            row.functions.iter().map(|function| format!("{} {}", function.name, function.blocks)).collect();
        let cells = vec![
            Cell::Number(row.blocks_per_second),
            Cell::Number(row.blocks as f64),
            Cell::of(row.waited_seconds.map(|time| time / row.blocks.max(1) as f64)),
            Cell::of(row.waited_seconds),
            if functions.is_empty() { Cell::Missing } else { Cell::Text(functions.join(", ")) },
        ];
        (name, cells)
    };
    Table {
        name: "blocks".to_owned(),
        caption: "Blocks by class".to_owned(),
        head: "blocked on".to_owned(),
        columns,
        rows: report.rows().map(row).collect(),
    }
    .dense()
}

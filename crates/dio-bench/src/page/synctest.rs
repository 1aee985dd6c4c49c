//! `dio synctest`.

use serde::Deserialize;

use super::environment::Environment;
use super::model::{Block, Cell, Column, Finding, Section, Table};
use super::slug;
use crate::plot::{Axis, Dots, Kind, Lines, Plot, Row as Dot, Series};
use crate::quantity::Unit;
use dio_common::units::{seconds, size};

#[derive(Deserialize)]
struct Report {
    seconds: f64,
    #[serde(default)]
    rounds: Option<u32>,
    #[serde(default)]
    interrupted: bool,
    storage: Storage,
    rows: Vec<Row>,
    flushes: Option<Flushes>,
    honesty: Option<Honesty>,
    advice: Vec<Advice>,
    environment: Environment,
}

#[derive(Deserialize)]
struct Storage {
    virtual_machine: bool,
    disk: Option<Disk>,
}

#[derive(Deserialize)]
struct Disk {
    name: String,
    model: Option<String>,
    driver: Option<String>,
    fua: Option<bool>,
}

#[derive(Deserialize)]
struct Row {
    case: Case,
    outcome: Outcome,
}

#[derive(Deserialize)]
struct Case {
    section: String,
    method: String,
    direct: bool,
    pattern: String,
    size: u64,
    writes: u64,
    threads: u64,
    sharing: String,
    descriptor: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Measured(Figures),
    Refused(String),
    Failed(String),
}

#[derive(Deserialize)]
struct Figures {
    per_second: f64,
    least: f64,
    most: f64,
    mean: f64,
    p50: f64,
    p99: f64,
    p999: f64,
    max: f64,
    cached_pages: Option<u64>,
}

#[derive(Deserialize)]
struct Flushes {
    same_place: Option<SamePlace>,
    flush_after: Vec<(u64, f64)>,
}

#[derive(Deserialize)]
struct SamePlace {
    per_second: f64,
    p50: f64,
}

#[derive(Deserialize)]
struct Honesty {
    verdict: String,
    confidence: String,
    reason: String,
    evidence: Vec<Evidence>,
}

#[derive(Deserialize)]
struct Evidence {
    what: String,
    found: String,
    means: String,
    confidence: String,
}

#[derive(Deserialize)]
struct Advice {
    program: String,
    settings: Vec<String>,
    why: Vec<String>,
}

/// Sections of the test: what they hold, in the words of a heading.
const SECTIONS: [(&str, &str); 9] = [
    ("compare", "Every method, one write of 8 KiB"),
    ("two", "Every method, two writes of 8 KiB"),
    ("patterns", "Where 8 KiB go"),
    ("sizes", "Sizes of writes"),
    ("open_sizes", "16 KiB in one write or several, each synced"),
    ("threads", "Threads, 8 KiB each"),
    ("descriptors", "fsync on the descriptor written to, and on another"),
    ("unsynced", "Writes that are not synced"),
    ("matrix", "What was asked for"),
];

fn heading(section: &str) -> &str {
    SECTIONS.iter().find(|(known, _)| *known == section).map_or(section, |(_, heading)| heading)
}

impl Row {
    fn figures(&self) -> Option<&Figures> {
        match &self.outcome {
            Outcome::Measured(figures) => Some(figures),
            Outcome::Refused(_) | Outcome::Failed(_) => None,
        }
    }

    /// What tells it from the others of its section.
    fn name(&self) -> String {
        let Case { method, pattern, size: bytes, writes, threads, sharing, .. } = &self.case;
        let threads = || {
            if *threads == 1 { String::new() } else { format!(", {threads} threads, {sharing}") }
        };
        let way = if self.case.direct { ", direct" } else { "" };
        let name = match self.case.section.as_str() {
            "patterns" => format!("{method}, {pattern}"),
            "sizes" => format!("{method}, {}", size(*bytes)),
            "open_sizes" => format!("{writes} × {}", size(*bytes)),
            "threads" => format!("{method}{}", threads()),
            "descriptors" => format!("{method}, {} descriptor", self.case.descriptor),
            "matrix" => format!("{method}, {pattern}, {writes} × {}{}", size(*bytes), threads()),
            _ => method.clone(),
        };
        name + way
    }

    /// Whether what was written is durable afterwards.
    fn is_durable(&self) -> bool {
        !["none", "sync_file_range"].contains(&self.case.method.as_str())
    }
}

pub(super) fn section(text: &str) -> serde_json::Result<Section> {
    let report: Report = serde_json::from_str(text)?;
    let mut sections: Vec<&str> = report.rows.iter().map(|row| row.case.section.as_str()).collect();
    sections.dedup();
    let of = |section: &str| -> Vec<&Row> { report.rows.iter().filter(|row| row.case.section == section).collect() };
    let mut plots: Vec<Plot> = sections.iter().filter_map(|section| rates(section, &of(section))).collect();
    plots.extend(report.flushes.as_ref().and_then(sweep));
    let mut blocks = Vec::new();
    if let Some(honesty) = report.honesty.as_ref().filter(|honesty| !honesty.evidence.is_empty()) {
        blocks.extend([Block::Heading("Is the disk honest?".to_owned()), Block::Text(honesty.reason.clone())]);
        blocks.push(Block::Table(evidence(honesty)));
    }
    if !report.advice.is_empty() {
        blocks.extend([Block::Heading("Settings that follow".to_owned()), Block::Table(settings(&report.advice))]);
    }
    blocks.push(Block::Heading("What was measured".to_owned()));
    if !plots.is_empty() {
        blocks.push(Block::Plots(plots));
    }
    blocks.extend(sections.iter().map(|section| Block::Table(table(section, &of(section)))));
    Ok(Section {
        id: "synctest".to_owned(),
        title: "Ways to make writes durable".to_owned(),
        lead: format!(
            "Writes are made durable by every method, past the page cache and through it, {} s for each{}; then flushes are \
             measured and the disk is judged by them.",
            report.seconds,
            report.rounds.filter(|rounds| *rounds > 1).map_or(String::new(), |rounds| format!(", in {rounds} rounds"))
        ),
        findings: findings(&report),
        blocks,
        notes: notes(&report),
        settings: storage(&report.storage),
        environment: report.environment.rows(),
        ..Section::default()
    })
}

fn findings(report: &Report) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(honesty) = &report.honesty {
        let (verdict, reached) = match honesty.verdict.as_str() {
            "lies" => ("it lies", Some(false)),
            "not_durable" => ("nothing is durable", Some(false)),
            "suspect" => ("suspicious", None),
            "nothing_against" => ("nothing seen against it", None),
            _ => ("cannot be told", None),
        };
        let note =
            if honesty.verdict == "unknown" { String::new() } else { format!("confidence: {}", honesty.confidence) };
        findings.push(Finding { label: "the disk".to_owned(), value: verdict.to_owned(), note, reached });
    }
    let compared = report.rows.iter().filter(|row| row.case.section == "compare" && row.is_durable());
    let fastest = compared.filter_map(|row| Some((row, row.figures()?)));
    if let Some((row, figures)) = fastest.max_by(|one, other| one.1.per_second.total_cmp(&other.1.per_second)) {
        let value = Unit::PerSecond.scale([figures.per_second]).show(figures.per_second);
        findings.push(Finding::new("fastest, 8 KiB", value, row.name()));
    }
    if let Some(place) = report.flushes.as_ref().and_then(|flushes| flushes.same_place.as_ref()) {
        let value = Unit::PerSecond.scale([place.per_second]).show(place.per_second);
        findings.push(Finding::new("flushes at one place", value, format!("p50 {}", seconds(place.p50))));
    }
    let of = |advice: &Advice| Some(Finding::new(format!("for {}", advice.program), advice.settings.first()?, ""));
    findings.extend(report.advice.iter().filter_map(of));
    findings
}

/// Operations per second of a section's rows. Of the rounds only the least and the most are known.
fn rates(section: &str, rows: &[&Row]) -> Option<Plot> {
    let dot = |row: &&Row| {
        let figures = row.figures()?;
        let tone = match (row.is_durable(), row.case.direct) {
            (false, _) => 6,
            (true, true) => 4,
            (true, false) => 1,
        };
        let values = vec![figures.least, figures.per_second, figures.most];
        Some(Dot { name: row.name(), tone, values, published: None })
    };
    let rows: Vec<Dot> = rows.iter().filter_map(dot).collect();
    if rows.is_empty() {
        return None;
    }
    Some(Plot {
        name: slug(section),
        title: heading(section).to_owned(),
        about: "Operations per second: the slowest round, all of them, and the fastest; further right is better."
            .to_owned(),
        kind: Kind::Dots(Dots { unit: Unit::PerSecond, label: "of all rounds".to_owned(), guide: None, rows }),
    })
}

/// What a flush costs after growing amounts of unsynced data.
fn sweep(flushes: &Flushes) -> Option<Plot> {
    // There is no place for nothing on a logarithmic axis; the table has it.
    let some = flushes.flush_after.iter().filter(|(bytes, _)| *bytes > 0);
    let points: Vec<(f64, f64)> = some.map(|(bytes, seconds)| (*bytes as f64, *seconds)).collect();
    if points.len() < 2 {
        return None;
    }
    let series = vec![Series { name: "fdatasync".to_owned(), tone: 4, points }];
    let x = Axis { unit: Unit::Bytes, logarithmic: true };
    Some(Plot {
        name: "flush-after".to_owned(),
        title: "A flush, by what was written before it".to_owned(),
        about: "The median time of fdatasync after so many unsynced bytes. Where more bytes cost no more time, either nothing \
                was kept back or nothing is written down."
            .to_owned(),
        kind: Kind::Lines(Lines { x, y: Unit::Seconds, bands: Vec::new(), series, filled: false }),
    })
}

fn table(section: &str, rows: &[&Row]) -> Table {
    let columns = vec![
        Column::of("operations", Unit::PerSecond),
        Column::of("least", Unit::PerSecond),
        Column::of("most", Unit::PerSecond),
        Column::of("mean", Unit::Seconds),
        Column::of("p50", Unit::Seconds),
        Column::of("p99", Unit::Seconds),
        Column::of("p99.9", Unit::Seconds),
        Column::of("longest", Unit::Seconds),
        Column::of("pages left", Unit::Count),
        Column::text("not measured"),
    ];
    let row = |row: &&Row| {
        let figure = |figure: fn(&Figures) -> f64| Cell::of(row.figures().map(figure));
        let mut cells: Vec<Cell> = [
            (|figures| figures.per_second) as fn(&Figures) -> f64,
            |figures| figures.least,
            |figures| figures.most,
            |figures| figures.mean,
            |figures| figures.p50,
            |figures| figures.p99,
            |figures| figures.p999,
            |figures| figures.max,
        ]
        .map(figure)
        .into();
        cells.push(Cell::of(row.figures().and_then(|figures| figures.cached_pages).map(|pages| pages as f64)));
        cells.push(match &row.outcome {
            Outcome::Measured(_) => Cell::Missing,
            Outcome::Refused(words) => Cell::Text(format!("refused: {words}")),
            Outcome::Failed(words) => Cell::Text(format!("failed: {words}")),
        });
        (row.name(), cells)
    };
    Table {
        name: slug(section),
        caption: heading(section).to_owned(),
        head: "method".to_owned(),
        columns,
        rows: rows.iter().map(row).collect(),
    }
    .dense()
}

fn evidence(honesty: &Honesty) -> Table {
    let row = |evidence: &Evidence| {
        let cells = [&evidence.found, &evidence.means, &evidence.confidence].map(|text| Cell::Text(text.clone()));
        (evidence.what.clone(), cells.into())
    };
    Table {
        name: "evidence".to_owned(),
        caption: "What the judgement rests on".to_owned(),
        head: "what".to_owned(),
        columns: ["found", "means", "confidence"].map(Column::text).into(),
        rows: honesty.evidence.iter().map(row).collect(),
    }
}

fn settings(advice: &[Advice]) -> Table {
    let row = |advice: &Advice| {
        let cells = [advice.settings.join("; "), advice.why.join("; ")].map(Cell::Text);
        (advice.program.clone(), cells.into())
    };
    Table {
        name: "settings".to_owned(),
        caption: "Settings that follow from what was measured".to_owned(),
        head: "program".to_owned(),
        columns: ["settings", "why"].map(Column::text).into(),
        rows: advice.iter().map(row).collect(),
    }
}

fn storage(storage: &Storage) -> Vec<(String, String)> {
    let mut rows = vec![("machine", if storage.virtual_machine { "virtual" } else { "not virtual" }.to_owned())];
    if let Some(disk) = &storage.disk {
        rows.push(("disk", disk.name.clone()));
        rows.extend(disk.model.clone().map(|model| ("model", model)));
        rows.extend(disk.driver.clone().map(|driver| ("driver", driver)));
        rows.extend(disk.fua.map(|fua| ("FUA", if fua { "yes" } else { "no" }.to_owned())));
    }
    rows.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn notes(report: &Report) -> Vec<String> {
    let mut notes = vec![
        "What a test sees cannot prove that a disk is honest. The proof is to pull the plug: dio synctest --witness."
            .to_owned(),
    ];
    if report.rows.iter().any(|row| !row.is_durable()) {
        notes.push("none and sync_file_range make nothing durable; they are there to be compared with.".to_owned());
    }
    let in_vain = |row: &&Row| row.case.direct && row.figures().is_some_and(|figures| figures.cached_pages > Some(0));
    if report.rows.iter().any(|row| in_vain(&row)) {
        notes.push("Rows that are direct and left pages in the cache were direct in vain.".to_owned());
    }
    if report.interrupted {
        notes.push("It was interrupted: what is said rests on what was measured until then.".to_owned());
    }
    notes
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::Page;
    use crate::synctest::{self, Case, Method, Pattern, Plan};

    fn result() -> synctest::Report {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let case = |section, method, direct| Case::new(section, method, direct);
        let cases = vec![
            case(synctest::Section::Compare, Method::Fdatasync, true),
            case(synctest::Section::Compare, Method::Fsync, false),
            Case { size: 4096, pattern: Pattern::Zeroed, ..case(synctest::Section::Sizes, Method::OpenDatasync, true) },
            case(synctest::Section::Unsynced, Method::None, false),
        ];
        let (path, time) = (directory.path().to_owned(), Duration::from_millis(20));
        let plan = Plan { path, force: false, time, file_size: 1 << 20, cases, honesty: true };
        synctest::run(&plan, &|_| (), &|| false).unwrap()
    }

    #[test]
    fn what_is_written_here_is_shown_with_its_name_and_without() {
        let report = result();
        let plain = serde_json::to_string(&report).unwrap();
        for text in [crate::record::json(&report).unwrap(), plain.clone()] {
            let section = super::super::read("synctest.json", &text).unwrap();
            assert_eq!((section.id.as_str(), section.findings[0].label.as_str()), ("synctest", "the disk"));
            assert!(section.findings.iter().any(|finding| finding.label == "fastest, 8 KiB"), "{:?}", section.findings);
            assert!(section.notes.iter().any(|note| note.contains("make nothing durable")));
            let page = Page::new(None, vec![section]);
            let plots: Vec<String> = page.plots().into_iter().map(|(name, _)| name).collect();
            let expected = ["compare", "sizes", "unsynced", "flush-after"];
            assert_eq!(plots, expected.map(|name| format!("synctest-{name}.svg")));
            let tables: Vec<String> = page.tables().into_iter().map(|(name, _)| name).collect();
            assert!(tables.contains(&"synctest-table-evidence.csv".to_owned()), "{tables:?}");
            let html = page.html();
            assert!(html.contains("open_datasync, 4 KiB, direct") && html.contains("Is the disk honest?"));
        }
        // What a disk that lies is told by, and a case that was refused.
        let mut lie: serde_json::Value = serde_json::from_str(&plain).unwrap();
        lie["honesty"]["verdict"] = "lies".into();
        lie["rows"][0]["outcome"] = serde_json::json!({"refused": "cannot open <x>"});
        let section = super::super::read("lie.json", &lie.to_string()).unwrap();
        assert_eq!((section.findings[0].value.as_str(), section.findings[0].reached), ("it lies", Some(false)));
        assert!(Page::new(None, vec![section]).html().contains("refused: cannot open &lt;x&gt;"));
    }
}

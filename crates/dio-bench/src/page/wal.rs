//! `dio bench wal`, and `dio wal bench`.

use serde::Deserialize;

use super::environment::Environment;
use super::model::{Block, Cell, Column, Finding, Section, Table};
use super::times;
use crate::plot::{Dots, Kind, Plot, Row};
use crate::quantity::Unit;
use crate::stats::Summary;
use crate::wal::REFERENCE;
use dio_common::units::size;

#[derive(Deserialize)]
struct Report {
    record_bytes: u64,
    commits: Vec<Commits>,
    #[serde(default)]
    flushes: Vec<Flush>,
    stream: Option<Stream>,
    postgresql: Option<Postgresql>,
    block_bytes: u64,
    runs: u64,
    seconds: f64,
    environment: Environment,
}

#[derive(Deserialize)]
struct Commits {
    method: String,
    direct: bool,
    clients: u64,
    grouped: bool,
    response: Latency,
    cpu_seconds_per_commit: f64,
    log_bytes_per_commit: f64,
    resident_pages: u64,
    samples: Vec<f64>,
    limit: Option<Limit>,
}

#[derive(Deserialize)]
struct Latency {
    p50: f64,
    p99: f64,
    p999: f64,
}

#[derive(Deserialize)]
struct Limit {
    records_per_flush: f64,
    flushes_per_second: f64,
    reached: f64,
    binds: String,
}

#[derive(Deserialize)]
struct Flush {
    method: String,
    direct: bool,
    samples: Vec<f64>,
}

#[derive(Deserialize)]
struct Stream {
    /// Older results do not say how the log was written.
    method: Option<String>,
    direct: Option<bool>,
    bytes: u64,
    record_bytes: u64,
    commit_bytes: u64,
    waiting: Range,
    asynchronous: Range,
    disk: Range,
    of_disk: Range,
    recovery: Range,
    disk_read: Range,
    resident_pages: u64,
}

#[derive(Clone, Copy, Deserialize)]
struct Range {
    median: f64,
    min: f64,
    max: f64,
}

#[derive(Deserialize)]
struct Postgresql {
    version: String,
    workload: String,
    bytes: u64,
    seconds: f64,
    rounds: u64,
    #[serde(default)]
    mount_options: Vec<String>,
    rows: Vec<Transactions>,
}

#[derive(Deserialize)]
struct Transactions {
    method: String,
    place: String,
    clients: u64,
    response_seconds: Range,
    p99_seconds: Range,
    resident_pages: u64,
    samples: Vec<f64>,
}

impl Range {
    fn cell(self) -> Cell {
        Cell::Runs(Summary { median: self.median, min: self.min, max: self.max })
    }
}

impl Commits {
    fn median(&self) -> f64 {
        Summary::of(self.samples.iter().copied()).median
    }

    fn way(&self) -> String {
        way(&self.method, self.direct)
    }

    /// Who commits: `64 clients`.
    fn who(&self) -> String {
        let clients = if self.clients == 1 { "1 client".to_owned() } else { format!("{} clients", self.clients) };
        if self.grouped || self.clients == 1 { clients } else { format!("{clients}, one after the other") }
    }

    fn is_like(&self, other: &Commits) -> bool {
        (&self.method, self.clients, self.grouped) == (&other.method, other.clients, other.grouped)
    }
}

fn way(method: &str, direct: bool) -> String {
    format!("{method}, {}", if direct { "direct" } else { "cached" })
}

fn tone(direct: bool) -> usize {
    if direct { 4 } else { 1 }
}

/// What direct gains by `open_sync`, as published: the mean of two runs.
fn published(method: &str) -> Option<f64> {
    let gains = REFERENCE.map(|(cached, direct)| direct / cached);
    (method == "open_sync").then(|| gains.iter().sum::<f64>() / gains.len() as f64)
}

fn ratios(ours: &[f64], theirs: &[f64]) -> Vec<f64> {
    ours.iter().zip(theirs).filter(|(_, theirs)| **theirs > 0.0).map(|(ours, theirs)| ours / theirs).collect()
}

pub(super) fn section(text: &str) -> serde_json::Result<Section> {
    let report: Report = serde_json::from_str(text)?;
    let mut plots: Vec<Plot> = groups(&report).iter().map(|rows| rate(rows)).collect();
    plots.extend(gain(&report));
    let mut blocks = Vec::new();
    if !plots.is_empty() {
        blocks.push(Block::Plots(plots));
        blocks.push(Block::Table(commits(&report)));
    }
    if !report.flushes.is_empty() {
        blocks.push(Block::Table(flushes(&report.flushes)));
    }
    if let Some(stream) = &report.stream {
        blocks.extend([Block::Heading("Large records".to_owned()), Block::Table(large(stream))]);
    }
    if let Some(found) = &report.postgresql {
        blocks.push(Block::Heading("PostgreSQL".to_owned()));
        blocks.extend(postgresql(found));
    }
    Ok(Section {
        id: "wal".to_owned(),
        title: "Durable commits".to_owned(),
        lead: lead(&report),
        findings: findings(&report),
        blocks,
        notes: vec![
            "Of the limit: commits per second ÷ (records that a flush carries × flushes per second), in the same run. A flush \
             carries one record of each client, and at most those of a block; flushes are those of one thread that overwrites \
             one block at one place by the same method."
                .to_owned(),
            "Published: transactions per second of PostgreSQL with wal_sync_method = open_sync, direct ÷ cached; only the ratio \
             means anything here."
                .to_owned(),
        ],
        environment: report.environment.rows(),
        ..Section::default()
    })
}

fn lead(report: &Report) -> String {
    if report.commits.is_empty() {
        return "PostgreSQL by wal_sync_method, with its log through the page cache, past it, and below a mount."
            .to_owned();
    }
    format!(
        "Clients append a record of {} to dio's log and wait until it is durable, over and over, by sync method, past the page \
         cache and through it; those that wait at the same time share a flush. {} s for each run, {} runs of each way, all ways in \
         turns, each on a new log with blocks of {}.",
        size(report.record_bytes),
        report.seconds,
        report.runs,
        size(report.block_bytes)
    )
}

/// Rows that differ in method and way only, in their order.
fn groups(report: &Report) -> Vec<Vec<&Commits>> {
    let mut groups: Vec<Vec<&Commits>> = Vec::new();
    for row in &report.commits {
        let same = |group: &&mut Vec<&Commits>| (group[0].clients, group[0].grouped) == (row.clients, row.grouped);
        match groups.iter_mut().find(same) {
            Some(group) => group.push(row),
            None => groups.push(vec![row]),
        }
    }
    groups
}

fn findings(report: &Report) -> Vec<Finding> {
    let best = |rows: &[&Commits]| rows.iter().map(|row| row.median()).fold(0.0, f64::max);
    let mut findings = Vec::new();
    let groups = groups(report);
    let grouped: Vec<&Vec<&Commits>> = groups.iter().filter(|rows| rows[0].grouped || rows[0].clients == 1).collect();
    for rows in &grouped {
        let Some(row) = rows.iter().max_by(|one, other| one.median().total_cmp(&other.median())) else { continue };
        let limit = row.limit.as_ref();
        let note = limit.map(|limit| format!("; {:.2} of the limit, bound by {}", limit.reached, binds(&limit.binds)));
        let value = Unit::PerSecond.scale([row.median()]).show(row.median());
        findings.push(Finding::new(row.who(), value, format!("{}{}", row.way(), note.unwrap_or_default())));
    }
    if let [first, .., last] = &grouped[..]
        && first[0].clients == 1
        && best(first) > 0.0
    {
        let gain = times(best(last) / best(first));
        findings.push(Finding::new(format!("{} ÷ 1 client", last[0].who()), gain, "what sharing flushes gains"));
    }
    if let Some(stream) = &report.stream {
        let note = format!("records of {}", size(stream.record_bytes));
        findings.push(Finding::new("appending ÷ the disk", times(stream.of_disk.median), note));
    }
    let rows = report.postgresql.iter().flat_map(|found| &found.rows);
    let fastest = |row: &&Transactions| Summary::of(row.samples.iter().copied()).median;
    if let Some(row) = rows.max_by(|one, other| fastest(one).total_cmp(&fastest(other))) {
        let value = Unit::PerSecond.scale([fastest(&row)]).show(fastest(&row));
        let note = format!("{} clients, {}, pg_wal: {}", row.clients, row.method, place(&row.place));
        findings.push(Finding::new("PostgreSQL at best", value, note));
    }
    findings
}

/// In words, what a result names.
fn binds(name: &str) -> &str {
    match name {
        "flush" => "flushes",
        "clients" => "clients × flushes",
        "block" => "blocks × flushes",
        "nothing" => "none of these",
        other => other,
    }
}

fn rate(rows: &[&Commits]) -> Plot {
    let row =
        |row: &&Commits| Row { name: row.way(), tone: tone(row.direct), values: row.samples.clone(), published: None };
    Plot {
        name: super::slug(&format!("commits {}", rows[0].who())),
        title: format!("Commits, {}", rows[0].who()),
        about: "Commits per second: each dot is a run, the bar the median; further right is better.".to_owned(),
        kind: Kind::Dots(Dots {
            unit: Unit::PerSecond,
            label: "median".to_owned(),
            guide: None,
            rows: rows.iter().map(row).collect(),
        }),
    }
}

/// What direct I/O gains over the same way through the page cache, pair by pair; `None` where only one was measured.
fn gain(report: &Report) -> Option<Plot> {
    let pair = |direct: &Commits| {
        let cached = report.commits.iter().find(|row| !row.direct && row.is_like(direct))?;
        let values = ratios(&direct.samples, &cached.samples);
        let name = format!("{}, {}", direct.method, direct.who());
        Some(Row { name, tone: 4, values, published: published(&direct.method) })
    };
    let rows: Vec<Row> = report.commits.iter().filter(|row| row.direct).filter_map(pair).collect();
    if rows.is_empty() {
        return None;
    }
    Some(Plot {
        name: "gain".to_owned(),
        title: "Direct ÷ cached".to_owned(),
        about: "Each dot is a pair of runs, the bar the median; right of the line at 1 direct commits are more. Diamonds are \
                published ratios."
            .to_owned(),
        kind: Kind::Dots(Dots { unit: Unit::Ratio, label: "direct ÷ cached".to_owned(), guide: Some(1.0), rows }),
    })
}

fn commits(report: &Report) -> Table {
    let columns = vec![
        Column::text("clients"),
        Column::of("commits", Unit::PerSecond),
        Column::of("p50", Unit::Seconds),
        Column::of("p99", Unit::Seconds),
        Column::of("p99.9", Unit::Seconds),
        Column::of("CPU per commit", Unit::Seconds),
        Column::of("log per commit", Unit::Bytes),
        Column::of("pages left", Unit::Count),
        Column::of("records per flush, at most", Unit::Ratio),
        Column::of("flushes alone", Unit::PerSecond),
        Column::of("of the limit", Unit::Ratio),
        Column::text("bound by"),
    ];
    let row = |row: &Commits| {
        let limit = |figure: fn(&Limit) -> f64| Cell::of(row.limit.as_ref().map(figure));
        let cells = vec![
            Cell::Text(row.who()),
            Cell::runs(row.samples.iter().copied()),
            Cell::Number(row.response.p50),
            Cell::Number(row.response.p99),
            Cell::Number(row.response.p999),
            Cell::Number(row.cpu_seconds_per_commit),
            Cell::Number(row.log_bytes_per_commit),
            Cell::Number(row.resident_pages as f64),
            limit(|limit| limit.records_per_flush),
            limit(|limit| limit.flushes_per_second),
            limit(|limit| limit.reached),
            row.limit.as_ref().map_or(Cell::Missing, |limit| Cell::Text(binds(&limit.binds).to_owned())),
        ];
        (row.way(), cells)
    };
    Table {
        name: "commits".to_owned(),
        caption: "Commits: medians of the runs, with the least and the greatest; response times of all runs".to_owned(),
        head: "method".to_owned(),
        columns,
        rows: report.commits.iter().map(row).collect(),
    }
    .dense()
}

fn flushes(flushes: &[Flush]) -> Table {
    let row = |flush: &Flush| (way(&flush.method, flush.direct), vec![Cell::runs(flush.samples.iter().copied())]);
    Table {
        name: "flushes".to_owned(),
        caption: "Plain flushes: one thread overwrites one block at one place, durably".to_owned(),
        head: "method".to_owned(),
        columns: vec![Column::of("flushes", Unit::PerSecond)],
        rows: flushes.iter().map(row).collect(),
    }
}

fn large(stream: &Stream) -> Table {
    let part = |rate: Range, disk: Range| Cell::of(Some(rate.median / disk.median));
    let rows = [
        ("append, waiting for commits", stream.waiting, stream.disk),
        ("append, commits in flight", stream.asynchronous, stream.disk),
        ("the disk alone, writing", stream.disk, stream.disk),
        ("open again (recovery)", stream.recovery, stream.disk_read),
        ("the disk alone, reading", stream.disk_read, stream.disk_read),
    ];
    let how = match (&stream.method, stream.direct) {
        (Some(method), Some(direct)) => format!("by {method}, {}; ", if direct { "direct" } else { "cached" }),
        _ => String::new(),
    };
    Table {
        name: "large".to_owned(),
        caption: format!(
            "{how}{} in records of {}, a commit every {}; pages left in the cache: {}",
            size(stream.bytes),
            size(stream.record_bytes),
            size(stream.commit_bytes),
            stream.resident_pages
        ),
        head: "what".to_owned(),
        columns: vec![Column::of("throughput", Unit::BytesPerSecond), Column::of("of the disk", Unit::Ratio)],
        rows: rows.map(|(name, rate, disk)| (name.to_owned(), vec![rate.cell(), part(rate, disk)])).to_vec(),
    }
}

/// In words, where a log was.
fn place(name: &str) -> &str {
    match name {
        "mount" => "mount, cio",
        other => other,
    }
}

/// A plot for each number of clients, and the table of all.
fn postgresql(found: &Postgresql) -> Vec<Block> {
    let mut numbers: Vec<u64> = found.rows.iter().map(|row| row.clients).collect();
    numbers.dedup();
    let plot = |clients: &u64| {
        let rows = found.rows.iter().filter(|row| row.clients == *clients).map(|row| Row {
            name: format!("{}, {}", row.method, place(&row.place)),
            tone: [("cached", 1), ("direct", 4)]
                .iter()
                .find(|(place, _)| *place == row.place)
                .map_or(2, |(_, tone)| *tone),
            values: row.samples.clone(),
            published: None,
        });
        Plot {
            name: format!("postgresql-{clients}"),
            title: format!("PostgreSQL, clients: {clients}"),
            about:
                "Transactions per second by wal_sync_method and where pg_wal is: each dot is a run, the bar the median."
                    .to_owned(),
            kind: Kind::Dots(Dots {
                unit: Unit::PerSecond,
                label: "median".to_owned(),
                guide: None,
                rows: rows.collect(),
            }),
        }
    };
    let row = |row: &Transactions| {
        let is_cached = |other: &&Transactions| {
            (other.method.as_str(), other.clients, other.place.as_str()) == (&row.method, row.clients, "cached")
        };
        let cached = found.rows.iter().find(is_cached).filter(|_| row.place != "cached");
        let cells = vec![
            Cell::Text(place(&row.place).to_owned()),
            Cell::Number(row.clients as f64),
            Cell::runs(row.samples.iter().copied()),
            cached.map_or(Cell::Missing, |cached| Cell::runs(ratios(&row.samples, &cached.samples))),
            Cell::of(published(&row.method).filter(|_| row.place == "direct")),
            row.response_seconds.cell(),
            row.p99_seconds.cell(),
            Cell::Number(row.resident_pages as f64),
        ];
        (row.method.clone(), cells)
    };
    let table = Table {
        name: "postgresql".to_owned(),
        caption: format!(
            "PostgreSQL {}, pgbench {}, {} of data, {} s each, {} runs in turns; mount: {}",
            found.version,
            found.workload,
            size(found.bytes),
            found.seconds,
            found.rounds,
            ["cio"].into_iter().chain(found.mount_options.iter().map(String::as_str)).collect::<Vec<_>>().join(",")
        ),
        head: "wal_sync_method".to_owned(),
        columns: vec![
            Column::text("pg_wal"),
            Column::of("clients", Unit::Count),
            Column::of("transactions", Unit::PerSecond),
            Column::of("this ÷ cached", Unit::Ratio),
            Column::of("published", Unit::Ratio),
            Column::of("response", Unit::Seconds),
            Column::of("p99", Unit::Seconds),
            Column::of("pages left", Unit::Count),
        ],
        rows: found.rows.iter().map(row).collect(),
    };
    vec![Block::Plots(numbers.iter().map(plot).collect()), Block::Table(table.dense())]
}

#[cfg(test)]
mod tests {
    use super::super::Page;

    #[test]
    fn what_is_written_here_is_shown() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let mut report = crate::wal::run(&crate::wal::tests::plan(directory.path())).unwrap();
        report.postgresql = Some(crate::database::tests_of_log::report());
        let text = crate::record::json(&report).unwrap();
        let section = super::super::read("wal.json", &text).unwrap();
        let labels: Vec<&str> = section.findings.iter().map(|finding| finding.label.as_str()).collect();
        let expected = ["1 client", "4 clients", "4 clients ÷ 1 client", "appending ÷ the disk", "PostgreSQL at best"];
        assert_eq!(labels, expected);
        assert!(section.findings[0].note.contains("of the limit"), "{:?}", section.findings);
        let page = Page::new(None, vec![section]);
        let plots: Vec<String> = page.plots().into_iter().map(|(name, _)| name).collect();
        let expected = ["commits-1-client", "commits-4-clients", "commits-4-clients-one-after-the-other", "gain"];
        let expected = expected.into_iter().chain(["postgresql-1", "postgresql-16"]);
        assert_eq!(plots, expected.map(|name| format!("wal-{name}.svg")).collect::<Vec<_>>());
        let tables = page.tables();
        let table = |name: &str| &tables.iter().find(|(file, _)| file == &format!("wal-table-{name}.csv")).unwrap().1;
        assert_eq!(table("commits").lines().count(), 1 + 12);
        assert!(table("commits").lines().all(|line| line.split(',').count() >= 14), "{}", table("commits"));
        assert_eq!((table("flushes").lines().count(), table("large").lines().count()), (1 + 4, 1 + 5));
        let direct = table("postgresql").lines().find(|line| line.starts_with("open_sync,direct")).unwrap();
        assert!(direct.contains(",1.34,") && direct.contains("1.40"), "{direct}");
    }

    #[test]
    fn a_result_without_flushes_and_postgresql_is_shown_too() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let plan = crate::wal::Plan { size: 0, clients: vec![2], ..crate::wal::tests::plan(directory.path()) };
        let text = crate::record::json(&crate::wal::run(&plan).unwrap()).unwrap();
        let mut old: serde_json::Value = serde_json::from_str(&text).unwrap();
        for field in ["benchmark", "format", "flushes"] {
            old.as_object_mut().unwrap().remove(field);
        }
        for row in old["commits"].as_array_mut().unwrap() {
            row.as_object_mut().unwrap().remove("limit");
        }
        let section = super::super::read("old.json", &old.to_string()).unwrap();
        assert_eq!((section.id.as_str(), section.findings.len()), ("wal", 1));
    }
}

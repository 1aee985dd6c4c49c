//! The section that shows a result.

use dio_common::units::size;

use super::{CommitCase, Commits, Flush, Limit, REFERENCE, Stream, WalReport};
use crate::database::{LogPlace, LogReport, LogRow};
use crate::plot::{Dot, Plot};
use crate::quantity::Unit;
use crate::section::{Benchmark, Block, Finding, Rows, Section, Table, slug, times};
use crate::stats::{Summary, ratios};

fn way(method: &str, direct: bool) -> String {
    format!("{method}, {}", if direct { "direct" } else { "cached" })
}

fn tone(direct: bool) -> usize {
    if direct { 4 } else { 1 }
}

fn median(samples: &[f64]) -> f64 {
    Summary::of(samples.iter().copied()).median
}

fn quotients(ours: &[f64], theirs: &[f64]) -> Vec<f64> {
    ratios(ours.iter().copied(), theirs.iter().copied())
}

/// The published gain of direct I/O with `open_sync`: the mean of two runs.
fn published(method: &str) -> Option<f64> {
    let gains = REFERENCE.map(|(cached, direct)| direct / cached);
    (method == "open_sync").then(|| gains.iter().sum::<f64>() / gains.len() as f64)
}

/// The published gains of the row's method, one for each of two runs.
fn reference(row: &Commits) -> Option<String> {
    let gains = REFERENCE.map(|(cached, direct)| times(direct / cached)).join(", ");
    Some(gains).filter(|_| row.way.direct && published(row.way.method.name()).is_some())
}

impl Commits {
    fn way(&self) -> String {
        way(self.way.method.name(), self.way.direct)
    }

    /// The clients in words: `64 clients`.
    fn who(&self) -> String {
        let CommitCase { clients, grouped, in_flight, followed, .. } = self.way;
        let who = if clients == 1 { "1 client".to_owned() } else { format!("{clients} clients") };
        if followed {
            return format!("{who}, followed");
        }
        if in_flight > 0 {
            return format!("{who}, {in_flight} in flight");
        }
        if grouped || clients == 1 { who } else { format!("{who}, one after the other") }
    }
}

impl Benchmark for WalReport {
    const NAME: &'static str = "wal";
    const FIELDS: &'static [&'static str] = &["commits", "record_bytes", "stream"];

    fn section(&self) -> Section {
        let mut plots: Vec<Plot> = self.groups().iter().map(|rows| rate(rows)).collect();
        plots.extend(self.gain());
        let mut blocks = Vec::new();
        if !plots.is_empty() {
            blocks.push(Block::Plots(plots));
            blocks.push(Block::Table(self.commits()));
        }
        if !self.flushes.is_empty() {
            blocks.push(Block::Table(flushes(&self.flushes)));
        }
        if let Some(stream) = &self.stream {
            blocks
                .extend([Block::Heading("Large records".to_owned()), Block::Table(large(stream))]);
        }
        if let Some(found) = &self.postgresql {
            blocks.push(Block::Heading("PostgreSQL".to_owned()));
            blocks.extend([Block::Plots(postgresql_plots(found)), Block::Table(postgresql(found))]);
        }
        Section {
            lead: self.lead(),
            findings: self.findings(),
            blocks,
            notes: vec![
                "Of the limit: commits per second ÷ (records that a flush carries × flushes per \
                 second), in the same run. A flush carries one record of each client, and at most \
                 those of a block; flushes are those of one thread that overwrites one block at \
                 one place by the same method."
                    .to_owned(),
                "Published: transactions per second of PostgreSQL with wal_sync_method = \
                 open_sync, direct ÷ cached; only the ratio means anything here."
                    .to_owned(),
            ],
            ..Section::new(WalReport::NAME, "Durable commits", &self.environment)
        }
    }
}

impl WalReport {
    fn lead(&self) -> String {
        if self.commits.is_empty() {
            return "PostgreSQL by wal_sync_method, with its log through the page cache, past it, \
                    and below a mount."
                .to_owned();
        }
        format!(
            "Clients append a record of {} to dio's log and wait until it is durable, over and \
             over, by sync method, past the page cache and through it; those that wait at the same \
             time share a flush. {} s for each run, {} runs of each way, all ways in turns, each \
             on a new log with blocks of {}{}.",
            size(self.record_bytes),
            self.seconds,
            self.runs,
            size(self.block_bytes),
            match (self.reused, self.preallocate.as_str()) {
                (true, _) => " in segments that truncation gave back",
                (false, "zeros") => " in segments of written zeros",
                (false, _) => "",
            },
        )
    }

    /// Groups of rows that differ in method and kind of I/O only, in their order.
    fn groups(&self) -> Vec<Vec<&Commits>> {
        let mut groups: Vec<Vec<&Commits>> = Vec::new();
        for row in &self.commits {
            let same = |group: &&mut Vec<&Commits>| group[0].who() == row.who();
            match groups.iter_mut().find(same) {
                Some(group) => group.push(row),
                None => groups.push(vec![row]),
            }
        }
        groups
    }

    /// The row of the same way through the page cache.
    fn cached(&self, row: &Commits) -> Option<&Commits> {
        let cached = CommitCase { direct: false, ..row.way };
        self.commits.iter().find(|other| other.way == cached).filter(|_| row.way.direct)
    }

    /// Commits with direct I/O divided by those of the same way through the page cache, run by run.
    fn gains(&self, row: &Commits) -> Option<Vec<f64>> {
        Some(quotients(&row.samples, &self.cached(row)?.samples))
    }

    fn findings(&self) -> Vec<Finding> {
        let rate = |samples: &[f64]| Unit::PerSecond.scale([median(samples)]).show(median(samples));
        let mut findings = Vec::new();
        let groups = self.groups();
        let shared = groups.iter().filter(|rows| rows[0].way.grouped || rows[0].way.clients == 1);
        let by_rate = |one: &&Commits, other: &&Commits| {
            median(&one.samples).total_cmp(&median(&other.samples))
        };
        let best: Vec<&Commits> =
            shared.filter_map(|rows| rows.iter().copied().max_by(by_rate)).collect();
        for row in &best {
            let limit = |limit: Limit| {
                format!("; {:.2} of the limit, bound by {}", limit.reached, limit.binds.words())
            };
            let note = format!("{}{}", row.way(), row.limit.map(limit).unwrap_or_default());
            findings.push(Finding::new(row.who(), rate(&row.samples), note));
        }
        let waiting: Vec<&&Commits> =
            best.iter().filter(|row| row.way.in_flight == 0 && !row.way.followed).collect();
        if let [first, .., last] = &waiting[..]
            && first.way.clients == 1
            && median(&first.samples) > 0.0
        {
            let gain = times(median(&last.samples) / median(&first.samples));
            findings.push(Finding::new(
                format!("{} ÷ 1 client", last.who()),
                gain,
                "what sharing flushes gains",
            ));
        }
        if let Some(stream) = &self.stream {
            let note = format!("records of {}", size(stream.record_bytes));
            findings.push(Finding::new("appending ÷ the disk", times(stream.of_disk.median), note));
        }
        let rows = self.postgresql.iter().flat_map(|found| &found.rows);
        if let Some(row) =
            rows.max_by(|one, other| median(&one.samples).total_cmp(&median(&other.samples)))
        {
            let note =
                format!("{} clients, {}, pg_wal: {}", row.clients, row.method, row.place.name());
            findings.push(Finding::new("PostgreSQL at best", rate(&row.samples), note));
        }
        findings
    }

    /// The gain of direct I/O over the same way through the page cache, run by run; `None` if only
    /// one of the two was measured.
    fn gain(&self) -> Option<Plot> {
        let pair = |direct: &Commits| {
            let method = direct.way.method.name();
            let dot = Dot::new(format!("{method}, {}", direct.who()), 4, self.gains(direct)?);
            Some(dot.beside(published(method)))
        };
        let rows: Vec<Dot> = self.commits.iter().filter_map(pair).collect();
        let about = "Each dot is a pair of runs, the bar the median; right of the line at 1 direct \
                     commits are more. Diamonds are published ratios.";
        (!rows.is_empty())
            .then(|| Plot::ratios("gain", "Direct ÷ cached", about, "direct ÷ cached", rows))
    }

    fn commits(&self) -> Table {
        let limit = |row: &Commits, figure: fn(&Limit) -> f64| row.limit.as_ref().map(figure);
        let caption = "Commits: medians of the runs, with the least and the greatest; response \
                       times of all runs";
        Rows::new(("commits", "method"), caption, &self.commits, Commits::way)
            .words("clients", Commits::who)
            .column("commits", Unit::PerSecond, |row| row.samples.clone())
            .column("p50", Unit::Seconds, |row| row.response.p50)
            .column("p99", Unit::Seconds, |row| row.response.p99)
            .column("p99.9", Unit::Seconds, |row| row.response.p999)
            .column("CPU", Unit::Seconds, |row| row.cpu_seconds_per_commit)
            .column("log", Unit::Bytes, |row| row.log_bytes_per_commit)
            .column("pages", Unit::Count, |row| row.resident_pages)
            .column("records per flush, at most", Unit::Ratio, |row| {
                limit(row, |limit| limit.records_per_flush)
            })
            .only_on_page()
            .column("flushes alone", Unit::PerSecond, |row| {
                limit(row, |limit| limit.flushes_per_second)
            })
            .only_on_page()
            .column("of limit", Unit::Ratio, |row| limit(row, |limit| limit.reached))
            .words("bound by", |row| row.limit.map(|limit| limit.binds.words()))
            .column("direct gains", Unit::Times, |row| self.gains(row))
            .words("reference", reference)
            .table()
    }
}

fn rate(rows: &[&Commits]) -> Plot {
    let dots = rows
        .iter()
        .map(|row| Dot::new(row.way(), tone(row.way.direct), row.samples.clone()))
        .collect();
    let (who, about) = (
        rows[0].who(),
        "Commits per second: each dot is a run, the bar the median; further right is better.",
    );
    Plot::dots(
        slug(&format!("commits {who}")),
        format!("Commits, {who}"),
        about,
        Unit::PerSecond,
        dots,
    )
}

fn flushes(flushes: &[Flush]) -> Table {
    let caption = "Plain flushes: one thread overwrites one block at one place, durably";
    Rows::new(("flushes", "method"), caption, flushes, |flush| {
        way(flush.method.name(), flush.direct)
    })
    .column("flushes", Unit::PerSecond, |flush| flush.samples.clone())
    .table()
}

fn large(stream: &Stream) -> Table {
    let rows = [
        ("append, waiting for commits", stream.waiting, stream.disk),
        ("append, commits in flight", stream.asynchronous, stream.disk),
        ("the disk alone, writing", stream.disk, stream.disk),
        ("open again (recovery)", stream.recovery, stream.disk_read),
        ("the disk alone, reading", stream.disk_read, stream.disk_read),
    ];
    // Older results lack the method of the log.
    let how = match (&stream.method, stream.direct) {
        (Some(method), Some(direct)) => {
            format!("by {method}, {}; ", if direct { "direct" } else { "cached" })
        }
        _ => String::new(),
    };
    let caption = format!(
        "{how}{} in records of {}, a commit every {}; pages left in the cache: {}",
        size(stream.bytes),
        size(stream.record_bytes),
        size(stream.commit_bytes),
        stream.resident_pages
    );
    Rows::new(("large", "what"), caption, &rows, |(name, ..)| (*name).to_owned())
        .column("throughput", Unit::BytesPerSecond, |(_, rate, _)| *rate)
        .column("of the disk", Unit::Times, |(_, rate, disk)| rate.median / disk.median)
        .table()
}

/// The plots of PostgreSQL, one for each number of clients.
fn postgresql_plots(found: &LogReport) -> Vec<Plot> {
    let mut numbers: Vec<usize> = found.rows.iter().map(|row| row.clients).collect();
    numbers.dedup();
    let plot = |clients: usize| {
        let rows = found.rows.iter().filter(|row| row.clients == clients).map(|row| {
            let tone = match row.place {
                LogPlace::Cached => 1,
                LogPlace::Direct => 4,
                LogPlace::Mount => 2,
            };
            Dot::new(format!("{}, {}", row.method, row.place.name()), tone, row.samples.clone())
        });
        let about = "Transactions per second by wal_sync_method and where pg_wal is: each dot is a \
                     run, the bar the median.";
        let title = format!("PostgreSQL, clients: {clients}");
        Plot::dots(format!("postgresql-{clients}"), title, about, Unit::PerSecond, rows.collect())
    };
    numbers.into_iter().map(plot).collect()
}

/// The table of PostgreSQL's transactions by method and place of its log.
fn postgresql(found: &LogReport) -> Table {
    let to_cached = |row: &LogRow| {
        let is_cached = |other: &&LogRow| {
            (&other.method, other.clients, other.place)
                == (&row.method, row.clients, LogPlace::Cached)
        };
        let cached = found.rows.iter().find(is_cached).filter(|_| row.place != LogPlace::Cached)?;
        Some(quotients(&row.samples, &cached.samples))
    };
    let options: String = found.mount_options.iter().map(|option| format!(",{option}")).collect();
    let caption = format!(
        "PostgreSQL {}, pgbench {}, {} of data, {} s each, {} runs in turns; mount: cio{options}",
        found.version,
        found.workload,
        size(found.bytes),
        found.seconds,
        found.rounds,
    );
    Rows::new(("postgresql", "wal_sync_method"), caption, &found.rows, |row| row.method.to_string())
        .words("pg_wal", |row| row.place.name())
        .column("clients", Unit::Count, |row| row.clients)
        .column("transactions", Unit::PerSecond, |row| row.samples.clone())
        .column("this ÷ cached", Unit::Times, to_cached)
        .column("published", Unit::Times, |row| {
            published(&row.method).filter(|_| row.place == LogPlace::Direct)
        })
        .column("response", Unit::Seconds, |row| row.response_seconds)
        .column("p99", Unit::Seconds, |row| row.p99_seconds)
        .column("pages", Unit::Count, |row| row.resident_pages)
        .table()
}

#[cfg(test)]
mod tests {
    use crate::page::{Page, read};
    use crate::section::Benchmark;

    #[test]
    fn what_is_written_here_is_shown() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let mut report = crate::wal::run(&crate::wal::tests::plan(directory.path())).unwrap();
        report.postgresql = Some(crate::database::tests_of_log::report());
        let text = report.json().unwrap();
        let section = read("wal.json", &text).unwrap();
        let labels: Vec<&str> =
            section.findings.iter().map(|finding| finding.label.as_str()).collect();
        let expected = [
            "1 client",
            "1 client, followed",
            "4 clients",
            "4 clients, followed",
            "1 client, 20 in flight",
            "4 clients ÷ 1 client",
            "appending ÷ the disk",
            "PostgreSQL at best",
        ];
        assert_eq!(labels, expected);
        assert!(section.findings[0].note.contains("of the limit"), "{:?}", section.findings);
        let page = Page::new(None, vec![section]);
        let plots: Vec<String> = page.plots().into_iter().map(|(name, _)| name).collect();
        let expected = [
            "commits-1-client",
            "commits-1-client-followed",
            "commits-4-clients",
            "commits-4-clients-followed",
            "commits-4-clients-one-after-the-other",
            "commits-1-client-20-in-flight",
            "gain",
        ];
        let expected = expected.into_iter().chain(["postgresql-1", "postgresql-16"]);
        assert_eq!(plots, expected.map(|name| format!("wal-{name}.svg")).collect::<Vec<_>>());
        let tables = page.tables();
        let table = |name: &str| {
            &tables.iter().find(|(file, _)| file == &format!("wal-table-{name}.csv")).unwrap().1
        };
        assert_eq!(table("commits").lines().count(), 1 + 24);
        assert!(
            table("commits").lines().all(|line| line.split(',').count() >= 14),
            "{}",
            table("commits")
        );
        assert_eq!(
            (table("flushes").lines().count(), table("large").lines().count()),
            (1 + 4, 1 + 5)
        );
        let direct =
            table("postgresql").lines().find(|line| line.starts_with("open_sync,direct")).unwrap();
        assert!(direct.contains(",1.34,") && direct.contains("1.40"), "{direct}");
    }

    #[test]
    fn a_result_without_flushes_and_postgresql_is_shown_too() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let plan = crate::wal::WalPlan {
            size: 0,
            clients: vec![2],
            in_flight: 0,
            followed: false,
            ..crate::wal::tests::plan(directory.path())
        };
        let text = crate::wal::run(&plan).unwrap().json().unwrap();
        let mut old: serde_json::Value = serde_json::from_str(&text).unwrap();
        for field in ["benchmark", "format", "flushes"] {
            old.as_object_mut().unwrap().remove(field);
        }
        for row in old["commits"].as_array_mut().unwrap() {
            row.as_object_mut().unwrap().remove("limit");
        }
        let section = read("old.json", &old.to_string()).unwrap();
        assert_eq!((section.id.as_str(), section.findings.len()), ("wal", 1));
    }

    #[test]
    fn postgresql_is_told_beside_the_reference() {
        let text = super::postgresql(&crate::database::tests_of_log::report()).text();
        let line = |place: &str| {
            text.lines().find(|line| line.contains(place)).unwrap_or_default().to_owned()
        };
        assert!(line("  direct").contains("1.34×") && line("  direct").contains("1340"), "{text}");
        assert!(
            line("mount, cio ").contains("0.90×") && text.contains("mount: cio,native"),
            "{text}"
        );
    }
}

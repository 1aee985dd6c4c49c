//! The report for people.

use super::{Commits, Report, Stream, Way};
use crate::database::{LogPlace, LogReport, LogRow};
use crate::table::Table;
use dio_common::units::{factor, rate, seconds, size};

/// The reference: transactions per second with `open_sync`, cached and direct, of two runs (PostgreSQL's hackers list, 2003 to
/// 2005: direct I/O for the write-ahead log).
pub(crate) const REFERENCE: [(f64, f64); 2] = [(109.9, 147.2), (102.7, 150.8)];

impl Report {
    /// Tables, and what they mean.
    pub fn text(&self) -> String {
        let commits = if self.commits.is_empty() { String::new() } else { self.commits_text() };
        let stream = self.stream.as_ref().map_or(String::new(), Stream::text);
        let postgresql = self.postgresql.as_ref().map_or(String::new(), postgresql);
        format!("{commits}{stream}{postgresql}{}", self.environment.text())
    }

    fn commits_text(&self) -> String {
        let headings = [
            "method",
            "way",
            "clients",
            "commits/s",
            "p50",
            "p99",
            "p99.9",
            "CPU",
            "log",
            "pages",
            "of limit",
            "bound by",
            "direct gains",
            "reference",
        ];
        let mut table = Table::new(headings);
        for row in &self.commits {
            let Commits { way, response, .. } = row;
            let sharing = if way.clients == 1 || way.grouped { "" } else { ", one by one" };
            table.row([
                way.method.to_owned(),
                format!("{}{sharing}", if way.direct { "direct" } else { "cached" }),
                way.clients.to_string(),
                format!("{:.0}", row.commits_per_second),
                seconds(response.p50),
                seconds(response.p99),
                seconds(response.p999),
                seconds(row.cpu_seconds_per_commit),
                size(row.log_bytes_per_commit as u64),
                row.resident_pages.to_string(),
                row.limit.map_or_else(|| "-".to_owned(), |limit| format!("{:.2}", limit.reached)),
                row.limit.map_or("-", |limit| limit.binds.words()).to_owned(),
                self.gain(row),
                reference(way),
            ]);
        }
        format!(
            "Durable commits of records of {}; blocks of {}{}, {} s each, runs: {}, medians shown, all ways in turns\n\n{}\n\
             p50, p99, p99.9: from the start of an append to the end of its commit. CPU, log: for each commit.\n\
             pages: of the log in the page cache afterwards. direct gains: commits/s, direct / cached.\n\
             reference: PostgreSQL, open_sync, direct / cached; only ratios compare.\n{}\n",
            size(self.record_bytes),
            size(self.block_bytes),
            if self.preallocate == "zeros" { " in segments of written zeros" } else { "" },
            self.seconds,
            self.runs,
            table.text(),
            self.limits(),
        )
    }

    /// What flushes allow, in words and figures.
    fn limits(&self) -> String {
        let Some(limit) = self.commits.iter().find_map(|row| row.limit) else { return String::new() };
        let mut text = format!(
            "of limit: commits/s / (records a flush carries × flushes/s), in the same run; a flush carries one record of each\n\
             client, and at most the {} of a block. flushes/s of one thread that overwrites a block at one place:\n",
            limit.records_per_block
        );
        for flush in &self.flushes {
            let way = if flush.direct { "direct" } else { "cached" };
            let rate = flush.flushes_per_second;
            text.push_str(&format!(
                "  {} {way}: {rate:.0}; 0.9 × {} × {rate:.0} = {:.0} commits/s\n",
                flush.method,
                limit.records_per_block,
                0.9 * limit.records_per_block * rate
            ));
        }
        text
    }

    /// What direct I/O gains over the same way through the page cache.
    fn gain(&self, row: &Commits) -> String {
        let cached = Way { direct: false, ..row.way };
        match self.commits.iter().find(|other| other.way == cached).filter(|_| row.way.direct) {
            Some(cached) => factor(row.commits_per_second, cached.commits_per_second),
            None => "-".to_owned(),
        }
    }
}

/// PostgreSQL's transactions by the method of its log and where that is.
fn postgresql(report: &LogReport) -> String {
    let headings = [
        "wal_sync_method",
        "pg_wal",
        "clients",
        "tps",
        "min – max",
        "response",
        "p99",
        "pages",
        "to cached",
        "reference",
    ];
    let mut table = Table::new(headings);
    for row in &report.rows {
        let cached =
            |other: &&LogRow| (other.method, other.clients, other.place) == (row.method, row.clients, LogPlace::Cached);
        let cached = report.rows.iter().find(cached).filter(|_| row.place != LogPlace::Cached);
        let way =
            Way { method: row.method, direct: row.place == LogPlace::Direct, clients: row.clients, grouped: true };
        table.row([
            row.method.to_owned(),
            row.place.name().to_owned(),
            row.clients.to_string(),
            format!("{:.0}", row.tps.median),
            format!("{:.0} – {:.0}", row.tps.min, row.tps.max),
            seconds(row.response_seconds.median),
            seconds(row.p99_seconds.median),
            row.resident_pages.to_string(),
            cached.map_or_else(|| "-".to_owned(), |cached| factor(row.tps.median, cached.tps.median)),
            reference(&way),
        ]);
    }
    let options: String = report.mount_options.iter().map(|option| format!(",{option}")).collect();
    format!(
        "PostgreSQL {}, pgbench {} on {} of data, {} s each, runs: {}, medians shown, all ways in turns; mount: cio{options}\n\n{}\n\
         pages: of pg_wal in the page cache after a load. to cached: tps, this / cached by the same method.\n\
         direct: PostgreSQL's own O_DIRECT, which up to 15 it has with open_* and wal_level=minimal only.\n\n",
        report.version,
        report.workload,
        size(report.bytes),
        report.seconds,
        report.rounds,
        table.text()
    )
}

fn reference(way: &Way) -> String {
    if !way.direct || way.method != "open_sync" {
        return "-".to_owned();
    }
    REFERENCE.map(|(cached, direct)| factor(direct, cached)).join(", ")
}

impl Stream {
    fn text(&self) -> String {
        let mut table = Table::new(["", "rate", "min – max", "of the disk"]);
        let rows = [
            ("append, waiting for commits", self.waiting, self.disk),
            ("append, commits asynchronous", self.asynchronous, self.disk),
            ("the disk alone, writing", self.disk, self.disk),
            ("open again (recovery)", self.recovery, self.disk_read),
            ("the disk alone, reading", self.disk_read, self.disk_read),
        ];
        for (name, summary, disk) in rows {
            let shown = |value: f64| rate(value as u64, 1.0);
            table.row([
                name.to_owned(),
                shown(summary.median),
                format!("{} – {}", shown(summary.min), shown(summary.max)),
                factor(summary.median, disk.median),
            ]);
        }
        format!(
            "by {}, {}; {} in records of {}, a commit every {}; pages in the cache afterwards: {}\n\n{}\n",
            self.method,
            if self.direct { "direct" } else { "cached" },
            size(self.bytes),
            size(self.record_bytes),
            size(self.commit_bytes),
            self.resident_pages,
            table.text()
        )
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn postgresql_is_told_beside_the_reference() {
        let text = super::postgresql(&crate::database::tests_of_log::report());
        let line = |place: &str| text.lines().find(|line| line.contains(place)).unwrap_or_default().to_owned();
        assert!(line("  direct").contains("1.34×") && line("  direct").contains("1340"), "{text}");
        assert!(line("mount, cio ").contains("0.90×") && text.contains("mount: cio,native"), "{text}");
    }
}

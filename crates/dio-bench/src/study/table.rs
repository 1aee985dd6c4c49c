//! Rows as tables for people, and their time series as CSV.

use std::fmt::Write;

use super::{Contender, Row, Used};
use crate::table::Table;
use dio_common::units::{factor, seconds};

/// What the columns of [`resources`] mean.
pub(crate) const LEGEND: &str = "utilisation: part of the time in which the device had something to do; file, range: requests that \
    waited for these locks of the mount (dio stat); inode: threads that waited for the kernel's locks of inodes, of the program \
    that works and the server (lock:contention_begin)\n";

/// What ratios are to.
fn first(rows: &[Row]) -> &'static str {
    let has = |contender| rows.iter().any(|row| row.contender == contender);
    match () {
        () if has(Contender::Raw) => "to raw",
        () if has(Contender::Bare) => "to bare",
        () => "to buffered",
    }
}

/// A published figure of the same kind of storage: transactions per second, that divided by the raw device's, response time.
pub(crate) struct Published {
    pub(crate) tps: f64,
    pub(crate) to_raw: f64,
    pub(crate) response_seconds: f64,
}

/// Throughput and response times; beside published ones where there are any.
pub(crate) fn transactions(rows: &[Row], published: impl Fn(Contender) -> Option<Published>) -> String {
    let beside = rows.iter().any(|row| published(row.contender).is_some());
    let ours = ["storage", "tps", "min – max", first(rows), "response", "p99"];
    let theirs = ["published", "to raw", "response"];
    let headings = ours.into_iter().chain(theirs.into_iter().filter(|_| beside));
    let mut table = Table::new(headings);
    for row in rows {
        let mut cells = vec![
            row.contender.name().to_owned(),
            format!("{:.0}", row.tps.median),
            format!("{:.0} – {:.0}", row.tps.min, row.tps.max),
            row.to_first.map_or_else(|| "-".to_owned(), |ratio| factor(ratio, 1.0)),
            seconds(row.response_seconds.median),
            seconds(row.p99_seconds.median),
        ];
        match published(row.contender) {
            Some(figure) => cells.extend([
                figure.tps.to_string(),
                factor(figure.to_raw, 1.0),
                format!("{} s", figure.response_seconds),
            ]),
            None if beside => cells.extend(["-", "-", "-"].map(str::to_owned)),
            None => {}
        }
        table.row(cells);
    }
    table.text()
}

/// What the machine did, and what was waited for.
pub(crate) fn resources(rows: &[Row]) -> String {
    let headings =
        ["storage", "reads/s", "writes/s", "utilisation", "user", "system", "idle", "file/s", "range/s", "inode/s"];
    let mut table = Table::new(headings);
    let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.0}"));
    let percent = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{:.0} %", value * 100.0));
    for row in rows {
        table.row([
            row.contender.name().to_owned(),
            number(row.median(|run| run.used.device_reads_per_second)),
            number(row.median(|run| run.used.device_writes_per_second)),
            percent(row.median(|run| run.used.utilisation)),
            percent(row.median(|run| Some(run.used.user))),
            percent(row.median(|run| Some(run.used.system))),
            percent(row.median(|run| Some(run.used.idle + run.used.iowait))),
            number(row.file_blocks_per_second),
            number(row.range_blocks_per_second),
            number(row.inode_blocks_per_second),
        ]);
    }
    table.text()
}

/// Names of the columns of [`series`].
pub(crate) const SERIES: &str = "storage,round,seconds,phase,tps,device_reads_per_second,device_writes_per_second,\
    device_bytes_per_second,utilisation,user,system,iowait,idle,steal\n";

/// The fields of one slot of a time series, in the order of [`SERIES`]: of a contender, in a round (from 0), at a moment in seconds,
/// in a phase, with so many transactions per second.
pub(crate) fn slot(name: &str, round: usize, (seconds, phase, tps): (f64, &str, f64), used: &Used) -> Vec<String> {
    let shown = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.4}"));
    let mut fields = vec![name.to_owned(), (round + 1).to_string(), format!("{seconds:.3}"), phase.to_owned()];
    fields.push(format!("{tps:.2}"));
    let device = [used.device_reads_per_second, used.device_writes_per_second, used.device_bytes_per_second];
    fields.extend(device.map(shown));
    fields.push(shown(used.utilisation));
    let parts = [used.user, used.system, used.iowait, used.idle, used.steal];
    fields.extend(parts.map(|part| format!("{part:.4}")));
    fields
}

/// The time series of all runs as CSV, a line for each slot, each beginning with `before`.
pub(crate) fn series(before: &str, rows: &[Row]) -> String {
    let mut text = String::new();
    let runs = rows.iter().flat_map(|row| row.runs.iter().enumerate().map(move |(round, run)| (row, round, run)));
    for (row, round, run) in runs {
        for point in &run.points {
            let moment = (point.seconds, point.phase.name(), point.tps);
            let _ = writeln!(text, "{before}{}", slot(row.contender.name(), round, moment, &point.used).join(","));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::run::tests::rows;
    use super::*;

    #[test]
    fn the_series_has_a_line_for_each_slot_and_as_many_fields_as_headings() {
        let csv = format!("{SERIES}{}", series("", &rows()));
        let fields: Vec<usize> = csv.lines().map(|line| line.split(',').count()).collect();
        assert_eq!(fields, vec![14; 1 + 2 * 3 * 5]);
        assert!(csv.contains("\nconcurrent,3,5.000,steady,505.00,,,,0.5000,0.2500,"), "{csv}");
    }

    #[test]
    fn published_figures_have_columns_only_where_there_are_some() {
        let rows = rows();
        let text = transactions(&rows, |contender| {
            (contender == Contender::Raw).then_some(Published { tps: 710.19, to_raw: 1.0, response_seconds: 0.06 })
        });
        assert!(text.contains("published") && text.contains("710.19") && text.contains("0.95×"), "{text}");
        assert!(!transactions(&rows, |_| None).contains("published"));
    }
}

//! The study's result: a table beside the published figures, JSON, and the time series as CSV.

use std::fmt::Write;

use serde::Serialize;

use super::{Contender, Open, Plan, Run};
use crate::environment::Environment;
use crate::locks::class::Class;
use crate::stats::Summary;
use crate::table::Table;
use crate::units::{factor, seconds, size};

/// A published figure: transactions per second and response time in seconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Reference {
    /// What it is of.
    pub name: &'static str,
    /// Transactions per second.
    pub tps: f64,
    /// Response time in seconds.
    pub response_seconds: f64,
}

/// Measured with Oracle on AIX 5.2 (Kashyap, Olszewski, Hendrickson: *Improving database performance with AIX concurrent
/// I/O*, IBM 2003). Only their ratios mean anything elsewhere.
pub const REFERENCE: [Reference; 3] = [
    Reference { name: "raw", tps: 710.19, response_seconds: 0.06 },
    Reference { name: "direct", tps: 219.69, response_seconds: 0.12 },
    Reference { name: "concurrent", tps: 652.12, response_seconds: 0.07 },
];

/// One contender: medians of its runs.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Who.
    pub contender: Contender,
    /// Transactions per second.
    pub tps: Summary,
    /// Mean response time of each run, in seconds.
    pub response_seconds: Summary,
    /// 99th percentile of each run, in seconds.
    pub p99_seconds: Summary,
    /// Transactions per second divided by those of the raw device in the same round, or of the bare files where there is no
    /// raw one; the median of that.
    pub to_first: Option<f64>,
    /// Blocks per second on the file's lock of the mount, ranges not included.
    pub file_blocks_per_second: Option<f64>,
    /// Blocks per second on ranges of files.
    pub range_blocks_per_second: Option<f64>,
    /// Blocks per second on the lock of the kernel's inodes.
    pub inode_blocks_per_second: Option<f64>,
    /// The single runs, in their order.
    pub runs: Vec<Run>,
}

/// The settings that the figures are of.
#[derive(Clone, Debug, Serialize)]
pub struct Settings {
    /// Files of pages.
    pub files: u64,
    /// Bytes of each.
    pub file_bytes: u64,
    /// Bytes of a page.
    pub page_bytes: usize,
    /// Clients.
    pub clients: usize,
    /// Pages that a transaction reads.
    pub reads: usize,
    /// Those that it changes and writes.
    pub writes: usize,
    /// Seconds of ramp-up, steady state and ramp-down.
    pub seconds: [f64; 3],
    /// Runs of each contender.
    pub rounds: usize,
    /// How files below mounts are opened.
    pub open: Open,
    /// Whether mounts other than that with the file lock were to have io_uring.
    pub io_uring: bool,
    /// More options of all mounts.
    pub mount_options: Vec<String>,
}

/// The whole result.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The contenders.
    pub rows: Vec<Row>,
    /// Published figures.
    pub reference: [Reference; 3],
    /// The settings.
    pub settings: Settings,
    /// What was missing.
    pub notes: Vec<String>,
    /// Where it was measured.
    pub environment: Environment,
}

/// The median of something that not every run has.
fn median(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let values: Vec<f64> = values.flatten().collect();
    if values.is_empty() { None } else { Some(Summary::of(values).median) }
}

impl Report {
    pub(super) fn new(plan: &Plan, results: Vec<Vec<Run>>, notes: Vec<String>, environment: Environment) -> Report {
        let place = |contender| plan.contenders.iter().position(|other| *other == contender);
        let first = place(Contender::Raw).or_else(|| place(Contender::Bare));
        let first: Vec<f64> = first.map_or_else(Vec::new, |place| results[place].iter().map(|run| run.tps).collect());
        let rows = plan.contenders.iter().zip(results).map(|(contender, runs)| row(*contender, runs, &first));
        let settings = Settings {
            files: plan.files,
            file_bytes: plan.size,
            page_bytes: plan.page,
            clients: plan.clients,
            reads: plan.reads.max(plan.writes),
            writes: plan.writes,
            seconds: [plan.ramp_up, plan.steady, plan.ramp_down].map(|time| time.as_secs_f64()),
            rounds: plan.rounds,
            open: plan.open,
            io_uring: plan.io_uring,
            mount_options: plan.mount_options.clone(),
        };
        Report { rows: rows.collect(), reference: REFERENCE, settings, notes, environment }
    }

    /// The report for people.
    pub fn text(&self) -> String {
        let settings = &self.settings;
        let [up, steady, down] = settings.seconds;
        let mut text = format!(
            "{} clients; {} pages of {} read, {} of them written, in each transaction, over {} files of {}; a log write at \
             commit\n{up} s ramp-up, {steady} s steady state, {down} s ramp-down; rounds: {}, medians shown\n\
             files below mounts are opened {}\n\n",
            settings.clients,
            settings.reads,
            size(settings.page_bytes as u64),
            settings.writes,
            settings.files,
            size(settings.file_bytes),
            settings.rounds,
            match settings.open {
                Open::Plain =>
                    "without O_DIRECT: writes return when the server has them, commits when they are durable",
                Open::Direct => "with O_DIRECT",
            }
        );
        text.push_str(&self.transactions());
        text.push('\n');
        text.push_str(&self.resources());
        text.push_str(
            "\nutilisation: part of the time in which the device had something to do; file, range: requests that waited \
             for these locks of the mount (dio stat); inode: threads that waited for the kernel's locks of inodes, of this \
             process and the server (lock:contention_begin)\n",
        );
        let checked: u64 = self.rows.iter().flat_map(|row| &row.runs).map(|run| run.pages_checked).sum();
        let _ = writeln!(text, "every page read was what was written last; {checked} were compared again afterwards");
        self.notes.iter().for_each(|note| text.push_str(&format!("{note}\n")));
        text.push('\n');
        text.push_str(&self.environment.text());
        text
    }

    /// Throughput and response times, beside the published ones.
    fn transactions(&self) -> String {
        let first = if self.rows.iter().any(|row| row.contender == Contender::Raw) { "to raw" } else { "to bare" };
        let headings = ["storage", "tps", "min – max", first, "response", "p99", "published", "to raw", "response"];
        let mut table = Table::new(headings);
        for row in &self.rows {
            let published = published(row.contender);
            table.row([
                row.contender.name().to_owned(),
                format!("{:.0}", row.tps.median),
                format!("{:.0} – {:.0}", row.tps.min, row.tps.max),
                row.to_first.map_or_else(|| "-".to_owned(), |ratio| factor(ratio, 1.0)),
                seconds(row.response_seconds.median),
                seconds(row.p99_seconds.median),
                published.map_or_else(|| "-".to_owned(), |figure| figure.tps.to_string()),
                published.map_or_else(|| "-".to_owned(), |figure| factor(figure.tps, REFERENCE[0].tps)),
                published.map_or_else(|| "-".to_owned(), |figure| format!("{} s", figure.response_seconds)),
            ]);
        }
        table.text()
    }

    /// What the machine did, and what was waited for.
    fn resources(&self) -> String {
        let headings =
            ["storage", "reads/s", "writes/s", "utilisation", "user", "system", "idle", "file/s", "range/s", "inode/s"];
        let mut table = Table::new(headings);
        let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.0}"));
        let percent =
            |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{:.0} %", value * 100.0));
        for row in &self.rows {
            let of = |value: fn(&Run) -> Option<f64>| median(row.runs.iter().map(value));
            table.row([
                row.contender.name().to_owned(),
                number(of(|run| run.used.device_reads_per_second)),
                number(of(|run| run.used.device_writes_per_second)),
                percent(of(|run| run.used.utilisation)),
                percent(of(|run| Some(run.used.user))),
                percent(of(|run| Some(run.used.system))),
                percent(of(|run| Some(run.used.idle + run.used.iowait))),
                number(row.file_blocks_per_second),
                number(row.range_blocks_per_second),
                number(row.inode_blocks_per_second),
            ]);
        }
        table.text()
    }

    /// The time series of all runs, a line for each slot.
    pub fn csv(&self) -> String {
        let mut text = "storage,round,seconds,phase,tps,device_reads_per_second,device_writes_per_second,\
                        device_bytes_per_second,utilisation,user,system,iowait,idle,steal\n"
            .to_owned();
        let shown = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.4}"));
        for row in &self.rows {
            for (round, run) in row.runs.iter().enumerate() {
                for point in &run.points {
                    let used = &point.used;
                    let _ = writeln!(
                        text,
                        "{},{},{:.3},{},{:.2},{},{},{},{},{:.4},{:.4},{:.4},{:.4},{:.4}",
                        row.contender.name(),
                        round + 1,
                        point.seconds,
                        point.phase.name(),
                        point.tps,
                        shown(used.device_reads_per_second),
                        shown(used.device_writes_per_second),
                        shown(used.device_bytes_per_second),
                        shown(used.utilisation),
                        used.user,
                        used.system,
                        used.iowait,
                        used.idle,
                        used.steal
                    );
                }
            }
        }
        text
    }
}

/// The published figure of the same kind of storage: single-writer semantics took the lock of the file there.
fn published(contender: Contender) -> Option<&'static Reference> {
    match contender {
        Contender::Raw => Some(&REFERENCE[0]),
        Contender::DirectFile => Some(&REFERENCE[1]),
        Contender::Concurrent => Some(&REFERENCE[2]),
        Contender::Bare | Contender::DirectRange => None,
    }
}

fn row(contender: Contender, runs: Vec<Run>, first: &[f64]) -> Row {
    let ratios = runs.iter().zip(first).map(|(run, first)| (*first > 0.0).then(|| run.tps / first));
    let blocks = |class: &str| {
        let count = |run: &Run| {
            let rows = run.mount_blocks.iter().filter(|row| row.class == class);
            rows.fold(0.0, |sum, row| sum + row.blocks_per_second)
        };
        contender.is_mount().then(|| Summary::of(runs.iter().map(count)).median)
    };
    Row {
        contender,
        tps: Summary::of(runs.iter().map(|run| run.tps)),
        response_seconds: Summary::of(runs.iter().map(|run| run.response.mean)),
        p99_seconds: Summary::of(runs.iter().map(|run| run.response.p99)),
        to_first: median(ratios),
        file_blocks_per_second: blocks("file"),
        range_blocks_per_second: blocks("range"),
        inode_blocks_per_second: median(
            runs.iter().map(|run| run.kernel_blocks.as_ref().map(|kernel| kernel.rate(Class::Inode))),
        ),
        runs,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::{Phase, Point, Response, Used};
    use super::*;
    use std::path::{Path, PathBuf};
    use std::time::Duration;

    fn run(tps: f64) -> Run {
        let used = Used { user: 0.25, idle: 0.75, utilisation: Some(0.5), ..Used::default() };
        let point = |n: u32| Point { seconds: f64::from(n), phase: Phase::Steady, tps: tps + f64::from(n), used };
        let response = Response { mean: 0.002, p99: 0.004, ..Response::default() };
        Run {
            tps,
            response,
            log_writes_per_second: tps / 2.0,
            used,
            mount_blocks: Vec::new(),
            kernel_blocks: None,
            pages_checked: 10,
            points: (1..=5).map(point).collect(),
        }
    }

    /// Three rounds of two contenders.
    pub(in super::super) fn report() -> Report {
        let plan = Plan {
            contenders: vec![Contender::Raw, Contender::Concurrent],
            raw: None,
            directory: PathBuf::from("."),
            files: 2,
            size: 1 << 20,
            page: 8192,
            clients: 4,
            reads: 4,
            writes: 2,
            ramp_up: Duration::from_secs(1),
            steady: Duration::from_secs(3),
            ramp_down: Duration::from_secs(1),
            every: Duration::from_secs(1),
            rounds: 3,
            open: Open::Plain,
            io_uring: false,
            mount_options: Vec::new(),
            program: PathBuf::from("dio"),
        };
        let results = [[1000.0, 2000.0, 500.0], [900.0, 1900.0, 500.0]].map(|tps| tps.map(run).to_vec());
        Report::new(&plan, results.to_vec(), Vec::new(), Environment::of(Path::new("/proc/self/exe")).unwrap())
    }

    #[test]
    fn ratios_are_of_the_same_round() {
        let report = report();
        assert_eq!((report.rows[1].tps.median, report.rows[1].to_first), (900.0, Some(0.95)));
        assert_eq!((report.rows[0].file_blocks_per_second, report.rows[1].file_blocks_per_second), (None, Some(0.0)));
        let text = report.text();
        assert!(text.contains("652.12") && text.contains("0.95×") && text.contains("0.92×"), "{text}");
    }

    #[test]
    fn the_series_has_a_line_for_each_slot_and_as_many_fields_as_headings() {
        let csv = report().csv();
        let fields: Vec<usize> = csv.lines().map(|line| line.split(',').count()).collect();
        assert_eq!(fields, vec![14; 1 + 2 * 3 * 5]);
        assert!(csv.contains("\nconcurrent,3,5.000,steady,505.00,,,,0.5000,0.2500,"), "{csv}");
    }
}

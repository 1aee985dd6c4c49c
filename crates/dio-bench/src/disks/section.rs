//! The section of a page that shows a result.

use dio_common::units::{rate, size};

use super::report::{REFERENCE, REFERENCE_TARGETS, Settings, reference};
use super::{AccessPath, Direction, DisksReport, DisksRow, DisksRun, plot};
use crate::plot::{Dot, Plot};
use crate::quantity::Unit;
use crate::section::{Benchmark, Block, Finding, Rows, Section, Table};
use crate::stats::{Summary, ratios};

const GIB: f64 = (1 << 30) as f64;

/// Published throughput of the raw devices, in KB/s.
const RAW_KB: f64 = REFERENCE[2].1;

impl DisksReport {
    fn of(&self, direction: Direction) -> Vec<&DisksRow> {
        self.rows.iter().filter(|row| row.case.direction == direction).collect()
    }

    /// The number of disks that is compared with the reference: the reference's own number, or else
    /// the greatest that was measured.
    fn compared(&self) -> Option<usize> {
        let counts = || self.rows.iter().map(|row| row.case.targets);
        counts().find(|count| *count == REFERENCE_TARGETS).or_else(|| counts().max())
    }

    /// Rows of the number of disks that is compared.
    fn compared_rows(&self) -> Vec<&DisksRow> {
        let compared = self.compared();
        self.rows.iter().filter(|row| Some(row.case.targets) == compared).collect()
    }

    /// Throughput divided by that of the raw devices in the same round; empty if those were not
    /// measured.
    fn to_raw(&self, row: &DisksRow) -> Vec<f64> {
        let is_raw = |other: &&DisksRow| {
            (other.case.targets, other.case.direction, other.case.way)
                == (row.case.targets, row.case.direction, AccessPath::Raw)
        };
        let Some(raw) = self.rows.iter().find(is_raw) else { return Vec::new() };
        ratios(
            row.runs.iter().map(DisksRun::bytes_per_second),
            raw.runs.iter().map(DisksRun::bytes_per_second),
        )
    }
}

/// The published figures of a row: throughput as a part of the raw devices', and processor
/// utilisation as a part of 1.
fn published(row: &DisksRow) -> Option<(f64, f64)> {
    reference(&row.case).map(|(rate, busy)| (rate / RAW_KB, busy / 100.0))
}

fn disks(count: usize) -> String {
    if count == 1 { "1 disk".to_owned() } else { format!("{count} disks") }
}

impl Benchmark for DisksReport {
    const NAME: &'static str = "disks";
    const FIELDS: &'static [&'static str] = &["rows", "settings", "notes"];

    fn section(&self) -> Section {
        let Settings { rate_bytes_per_second, seconds: [warm, steady], rounds, .. } = self.settings;
        let mut blocks = Vec::new();
        // A single number of disks gives no line.
        if self.rows.iter().any(|row| row.case.targets != self.rows[0].case.targets) {
            blocks.push(Block::Plots(plot::plots(&self.rows, rate_bytes_per_second)));
        }
        let compared = self.compared_rows();
        if let Some(row) = compared.first() {
            blocks.push(Block::Heading(format!("On {}", disks(row.case.targets))));
            blocks.push(Block::Plots(comparisons(self, &compared)));
            blocks.push(Block::Heading("All of it".to_owned()));
        }
        for direction in Direction::ALL {
            let rows = self.of(direction);
            if !rows.is_empty() {
                blocks.push(Block::Table(table(self, direction, &rows)));
            }
        }
        Section {
            lead: format!(
                "Sequential reading and writing over some disks: a striped file through the page \
                 cache and past it, and the raw devices. Each disk is limited to {} in each \
                 direction; {steady} s at that rate are counted after {warm} s, in {rounds} runs \
                 of each way, all ways in turns. Reading begins with nothing cached, writing ends \
                 durable.",
                rate(rate_bytes_per_second, 1.0)
            ),
            findings: findings(self, &compared),
            blocks,
            notes: notes(self),
            settings: settings(&self.settings),
            ..Section::new(
                DisksReport::NAME,
                "Cached, direct and raw over several disks",
                &self.environment,
            )
        }
    }
}

/// A dot in the colour that the row's way has in the plots over the number of disks.
fn dot(row: &DisksRow, values: Vec<f64>, published: Option<f64>) -> Dot {
    let name = format!("{}, {}", row.case.direction.name(), row.case.way.name());
    Dot::new(name, plot::tone(row.case.way), values).beside(published)
}

/// Plots of every run on one number of disks, beside the published figures: throughput as a part of
/// raw, throughput in bytes per second, and CPU time.
fn comparisons(report: &DisksReport, rows: &[&DisksRow]) -> Vec<Plot> {
    let share = rows.iter().filter(|row| row.case.way != AccessPath::Raw).filter_map(|row| {
        let values = report.to_raw(row);
        (!values.is_empty()).then(|| dot(row, values, published(row).map(|published| published.0)))
    });
    let share: Vec<Dot> = share.collect();
    let mut plots = Vec::new();
    if !share.is_empty() {
        let about = "Throughput divided by that of the raw devices in the same round: each dot is \
                     a round, the bar the median. Diamonds are published ratios.";
        plots.push(Plot::ratios("share", "Of the raw devices' throughput", about, "median", share));
    }
    let rates =
        |row: &&DisksRow| dot(row, row.runs.iter().map(DisksRun::bytes_per_second).collect(), None);
    let about = "Each dot is a run, the bar the median; further right is better.";
    plots.push(Plot::dots(
        "throughput",
        "Throughput",
        about,
        Unit::BytesPerSecond,
        rows.iter().map(rates).collect(),
    ));
    let busy = |row: &&DisksRow| {
        let published = published(row).map(|published| published.1);
        dot(row, row.runs.iter().map(|run| run.busy).collect(), published)
    };
    let about = "Part of all processors' time, the kernel's threads included: each dot is a run, \
                 the bar the median; further left is better. Diamonds are published figures.";
    plots.push(Plot::dots(
        "busy",
        "Processors' time",
        about,
        Unit::Part,
        rows.iter().map(busy).collect(),
    ));
    plots
}

fn findings(report: &DisksReport, compared: &[&DisksRow]) -> Vec<Finding> {
    let percent = |part: f64| Unit::Part.scale([part]).show(part);
    let raw = |row: &DisksRow| {
        compared.iter().find(|other| {
            other.case.way == AccessPath::Raw && other.case.direction == row.case.direction
        })
    };
    let finding = |row: &&&DisksRow| {
        let row = **row;
        let to_raw = report.to_raw(row);
        let value = match (to_raw.is_empty(), row.bytes_per_second.median) {
            (true, rate) => Unit::BytesPerSecond.scale([rate]).show(rate),
            (false, _) => {
                let share = Summary::of(to_raw).median;
                format!("{} of raw", Unit::Ratio.scale([share]).number(share))
            }
        };
        let mut note = format!("{} of the processors", percent(row.busy));
        if let Some(raw) = raw(row) {
            note.push_str(&format!(", raw {}", percent(raw.busy)));
        }
        if let Some((share, busy)) = published(row) {
            note.push_str(&format!("; published {share:.2} of raw, {}", percent(busy)));
        }
        let label = format!(
            "{}, {}, {}",
            row.case.direction.name(),
            row.case.way.name(),
            disks(row.case.targets)
        );
        Finding::new(label, value, note)
    };
    // Direct comes first, since it is the subject of the comparison.
    let of = |way: AccessPath| compared.iter().filter(move |row| row.case.way == way);
    let all: Vec<&&DisksRow> = of(AccessPath::Direct).chain(of(AccessPath::Cached)).collect();
    all.iter().map(finding).collect()
}

fn table(report: &DisksReport, direction: Direction, rows: &[&DisksRow]) -> Table {
    let runs = |row: &DisksRow, figure: fn(&DisksRun) -> f64| {
        row.runs.iter().map(figure).collect::<Vec<f64>>()
    };
    let limits =
        |row: &DisksRow| report.settings.rate_bytes_per_second as f64 * row.case.targets as f64;
    let words = |row: &DisksRow| reference(&row.case).map(|(rate, _)| format!("{rate} KB/s"));
    let caption = format!(
        "{} by each way: medians of the runs, with the least and the greatest",
        direction.name()
    );
    Rows::new((direction.name(), "way"), caption, rows.iter().copied(), |row| {
        row.case.way.name().to_owned()
    })
    .column("disks", Unit::Count, |row| row.case.targets)
    .column("throughput", Unit::BytesPerSecond, |row| runs(row, DisksRun::bytes_per_second))
    .column("of the limits", Unit::Ratio, |row| row.bytes_per_second.median / limits(row))
    .column("to one", Unit::Times, |row| row.to_one)
    .column("to raw", Unit::Ratio, |row| report.to_raw(row))
    .column("published to raw", Unit::Ratio, |row| published(row).map(|published| published.0))
    .column("CPU", Unit::Part, |row| runs(row, |run| run.busy))
    .column("published CPU", Unit::Part, |row| published(row).map(|published| published.1))
    .exact()
    .column("CPU/GiB", Unit::Seconds, |row| {
        runs(row, |run| (run.own_cpu_seconds + run.kernel_cpu_seconds) / (run.bytes as f64 / GIB))
    })
    .column("own", Unit::Seconds, |row| {
        runs(row, |run| run.own_cpu_seconds / (run.bytes as f64 / GIB))
    })
    .words("published", words)
    .only_on_page()
    .table()
}

fn notes(report: &DisksReport) -> Vec<String> {
    let mut notes = report.notes.clone();
    notes.push(
        "CPU: part of all processors' time that the benchmark and the kernel's own threads took, \
         those of the loop devices included, which real disks do not need; own: the benchmark \
         alone."
            .to_owned(),
    );
    let published =
        REFERENCE.map(|(way, rate, busy)| format!("{} {rate} KB/s at {busy} %", way.name()));
    notes.push(format!(
        "Published: sequential reading over {REFERENCE_TARGETS} disks with JFS on AIX, {}. Only \
         ratios compare.",
        published.join(", ")
    ));
    notes
}

fn settings(settings: &Settings) -> Vec<(String, String)> {
    let Settings {
        rate_bytes_per_second,
        limited_by,
        stripe_bytes,
        depth,
        seconds: [warm, steady],
        rounds,
    } = settings;
    let rows = [
        ("disks", format!("loop devices, limited by {limited_by}")),
        ("each, in each direction", rate(*rate_bytes_per_second, 1.0)),
        ("stripe", size(*stripe_bytes)),
        ("requests to each in flight", depth.to_string()),
        ("warming up, counted", format!("{warm} s, {steady} s")),
        ("runs", rounds.to_string()),
    ];
    rows.map(|(name, value)| (name.to_owned(), value)).to_vec()
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::report;
    use crate::page::{Page, read};
    use crate::section::Benchmark;

    #[test]
    fn what_is_written_here_is_shown_with_the_reference_beside_it() {
        let text = report().json().unwrap();
        let section = read("disks.json", &text).unwrap();
        let labels: Vec<&str> =
            section.findings.iter().map(|finding| finding.label.as_str()).collect();
        let expected = ["read, direct", "write, direct", "read, cached", "write, cached"];
        assert_eq!(labels, expected.map(|label| format!("{label}, 8 disks")));
        let direct = &section.findings[0];
        assert_eq!(direct.value, "0.98 of raw");
        assert!(direct.note.ends_with("published 0.93 of raw, 54.4\u{202f}%"), "{}", direct.note);
        assert!(
            section.notes.iter().any(|note| note.contains("cached 17892 KB/s at 98.3 %")),
            "{:?}",
            section.notes
        );
        let page = Page::new(None, vec![section]);
        let plots: Vec<String> = page.plots().into_iter().map(|(name, _)| name).collect();
        let expected = [
            "throughput-read",
            "throughput-write",
            "cpu-read",
            "cpu-write",
            "share",
            "throughput",
            "busy",
        ];
        assert_eq!(plots, expected.map(|name| format!("disks-{name}.svg")));
        let tables = page.tables();
        let table = |name: &str| {
            &tables.iter().find(|(file, _)| file == &format!("disks-{name}.csv")).unwrap().1
        };
        assert!(table("throughput-read").contains("limits of the disks together,8,838860800"));
        let lines = table("share").lines();
        assert_eq!(
            lines.filter(|line| line.contains("published")).count(),
            2,
            "{}",
            table("share")
        );
        assert!(table("busy").contains("\"read, cached\",published,0.983"), "{}", table("busy"));
        let row = table("table-read").lines().find(|line| line.starts_with("direct,8,78")).unwrap();
        assert!(row.contains(",0.544,") && row.ends_with(",30062 KB/s"), "{row}");
        assert!(!table("table-write").contains("KB/s"), "{}", table("table-write"));
    }

    #[test]
    fn one_number_of_disks_without_raw_and_without_a_name_is_shown_too() {
        let mut old = serde_json::to_value(report()).unwrap();
        old["rows"]
            .as_array_mut()
            .unwrap()
            .retain(|row| row["targets"] == 1 && row["way"] != "raw");
        let section = read("old.json", &old.to_string()).unwrap();
        assert_eq!((section.id.as_str(), section.findings.len()), ("disks", 4));
        assert!(section.findings[0].value.ends_with("MiB/s"), "{:?}", section.findings);
        let page = Page::new(None, vec![section]);
        let plots: Vec<String> = page.plots().into_iter().map(|(name, _)| name).collect();
        assert_eq!(plots, ["disks-throughput.svg", "disks-busy.svg"]);
        old["rows"].as_array_mut().unwrap().clear();
        assert!(read("none.json", &old.to_string()).unwrap().blocks.is_empty());
    }
}

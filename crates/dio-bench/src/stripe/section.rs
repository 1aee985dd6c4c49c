//! The section that shows a result.

use dio_common::units::{seconds, size};

use super::report::{MIB, REFERENCE};
use super::{Direction, DiskToDisk, Rig, StripeBenchReport, StripeRow, Timing, plot};
use crate::plot::{Dot, Plot};
use crate::quantity::Unit;
use crate::section::{Benchmark, Block, Cell, Finding, Rows, Section, Table, times};
use crate::stats::Summary;

const DIRECTIONS: [Direction; 2] = [Direction::Write, Direction::Read];

/// The rigs, with their names on the page.
const RIGS: [(Rig, &str); 3] = [
    (Rig::Modelled, "Modelled disks"),
    (Rig::Real, "Directories of the real disk"),
    (Rig::Network, "Mounts of a network file system"),
];

impl Benchmark for StripeBenchReport {
    const NAME: &'static str = "stripe";
    const FIELDS: &'static [&'static str] = &["rows", "grounds", "timing"];

    fn section(&self) -> Section {
        let mut blocks = Vec::new();
        for (rig, called) in RIGS {
            let rows: Vec<&StripeRow> = self.rows.iter().filter(|row| row.rig == rig).collect();
            let copy = self.copy.as_ref().filter(|_| rig == Rig::Modelled);
            if rows.is_empty() && copy.is_none() {
                continue;
            }
            blocks.push(Block::Heading(called.to_owned()));
            let ground = self.grounds.iter().find(|ground| ground.rig == rig);
            blocks.extend(ground.map(|ground| Block::Text(format!("{}.", ground.about))));
            if !rows.is_empty() {
                blocks.extend(of_rig(self, rig, &rows));
            }
            blocks.extend(copy.map(|copy| Block::Table(copying(copy))));
        }
        Section {
            lead: format!(
                "Requests to a striped file are made by a loop that waits for each stripe, by \
                 submitting all stripes and waiting once, and asynchronously, as many stripes in \
                 flight as a request has. At least {} in each run, {} runs of each way, in turns.",
                size(self.moved_bytes),
                self.runs
            ),
            findings: findings(self),
            blocks,
            notes: notes(self),
            settings: settings(self),
            ..Section::new(
                StripeBenchReport::NAME,
                "Requests over several stripes",
                &self.environment,
            )
        }
    }
}

/// Plots and the table of one rig.
fn of_rig(report: &StripeBenchReport, rig: Rig, rows: &[&StripeRow]) -> Vec<Block> {
    let mut blocks = Vec::new();
    for direction in DIRECTIONS {
        let mut plots = plot::plots(&report.rows, rig, direction);
        let rows: Vec<&StripeRow> =
            rows.iter().filter(|row| row.direction == direction).copied().collect();
        if plots.is_empty() && !rows.is_empty() {
            // A single size and layout gives no line, so the runs are shown as dots.
            plots.push(rates(rig, direction, &rows));
        }
        if !plots.is_empty() {
            blocks.push(Block::Plots(plots));
        }
    }
    let chosen = chosen(rows);
    blocks.push(Block::Plots(vec![gains(rig, &chosen), parts(rig, &chosen)]));
    blocks.push(Block::Table(table(rig, rows)));
    blocks
}

/// For each layout and direction, the requests with the reference's parameters, or else the largest
/// ones.
fn chosen<'a>(rows: &[&'a StripeRow]) -> Vec<&'a StripeRow> {
    let mut chosen: Vec<&StripeRow> = Vec::new();
    let rank = |row: &StripeRow| (row.published().is_some(), row.transfer_bytes);
    for row in rows {
        let same = |other: &&mut &StripeRow| {
            (other.direction, other.stripe_bytes, other.stripes)
                == (row.direction, row.stripe_bytes, row.stripes)
        };
        match chosen.iter_mut().find(same) {
            Some(other) if rank(row) > rank(other) => *other = row,
            Some(_) => {}
            None => chosen.push(row),
        }
    }
    chosen
}

/// A name that identifies a row among those of its rig: `write, 8 × 1 MiB, requests of 64 MiB`.
fn name(row: &StripeRow) -> String {
    let layout = format!("{} × {}", row.stripes, size(row.stripe_bytes));
    format!("{}, {layout}, requests of {}", row.direction.name(), size(row.transfer_bytes))
}

/// Throughput of submitting all divided by that of another way, in the same round. Earlier results
/// contain only the median and the extremes.
fn ratios(row: &StripeRow, other: &[f64], known: Summary) -> Vec<f64> {
    let pairs = row.samples_mib_s.submit_all.iter().zip(other).filter(|(_, other)| **other > 0.0);
    let ratios: Vec<f64> = pairs.map(|(all, other)| all / other).collect();
    if ratios.is_empty() { vec![known.min, known.median, known.max] } else { ratios }
}

fn gain_of(row: &StripeRow) -> Vec<f64> {
    ratios(row, &row.samples_mib_s.wait_each, row.gain)
}

fn part_of(row: &StripeRow) -> Vec<f64> {
    ratios(row, &row.samples_mib_s.asynchronous, row.of_async)
}

/// Bytes per second of each run of a way; only the median if an earlier result lacks the runs.
fn runs(samples: &[f64], median: f64) -> Vec<f64> {
    match samples {
        [] => vec![median * MIB],
        samples => samples.iter().map(|rate| rate * MIB).collect(),
    }
}

/// Throughput of each way: waiting for each stripe, submitting all, asynchronous.
fn ways(row: &StripeRow) -> [(&'static str, Vec<f64>); 3] {
    let samples = &row.samples_mib_s;
    [
        ("wait each", runs(&samples.wait_each, row.wait_each_mib_s)),
        ("submit all", runs(&samples.submit_all, row.submit_all_mib_s)),
        ("asynchronous", runs(&samples.asynchronous, row.async_mib_s)),
    ]
}

fn rates(rig: Rig, direction: Direction, rows: &[&StripeRow]) -> Plot {
    let dots = |row: &&StripeRow| {
        let called = name(row);
        let dot = move |((way, values), tone)| Dot::new(format!("{way}: {called}"), tone, values);
        ways(row).into_iter().zip(plot::TONES).map(dot)
    };
    let about =
        "Throughput of each way: each dot is a run, the bar the median; further right is better.";
    let (name, title) =
        (format!("{}-{}", rig.name(), direction.name()), format!("Striped {}", direction.name()));
    Plot::dots(name, title, about, Unit::BytesPerSecond, rows.iter().flat_map(dots).collect())
}

fn gains(rig: Rig, rows: &[&StripeRow]) -> Plot {
    let dot = |row: &&StripeRow| {
        Dot::new(name(row), plot::TONES[1], gain_of(row))
            .beside(row.published().map(|(each, all)| all / each))
    };
    let about = "Each dot is a pair of runs, the bar the median; right of the line at 1 waiting \
                 once is faster. Diamonds are published ratios.";
    let rows = rows.iter().map(dot).collect();
    Plot::ratios(
        format!("{}-gain", rig.name()),
        "Submit all ÷ wait each",
        about,
        "times as fast",
        rows,
    )
}

fn parts(rig: Rig, rows: &[&StripeRow]) -> Plot {
    let rows = rows.iter().map(|row| Dot::new(name(row), plot::TONES[1], part_of(row))).collect();
    let about = "Each dot is a pair of runs, the bar the median; at the line at 1 waiting once for \
                 each request costs nothing.";
    let name = format!("{}-of-asynchronous", rig.name());
    Plot::ratios(name, "Submit all ÷ asynchronous", about, "of asynchronous", rows)
}

fn table(rig: Rig, rows: &[&StripeRow]) -> Table {
    let way = |row: &StripeRow, place: usize| Cell::runs(ways(row)[place].1.iter().copied());
    let words =
        |row: &StripeRow| row.published().map(|(each, all)| format!("{each} → {all} MiB/s"));
    let caption = "Medians of the runs, with the least and the greatest";
    Rows::new((rig.name(), "direction"), caption, rows.iter().copied(), |row| {
        row.direction.name().to_owned()
    })
    .column("targets", Unit::Count, |row| row.stripes)
    .column("stripe", Unit::Bytes, |row| row.stripe_bytes)
    .column("request", Unit::Bytes, |row| row.transfer_bytes)
    .column("wait each", Unit::BytesPerSecond, |row| way(row, 0))
    .column("submit all", Unit::BytesPerSecond, |row| way(row, 1))
    .column("asynchronous", Unit::BytesPerSecond, |row| way(row, 2))
    .words("depth", |row| Some(row.depth()).filter(|_| row.async_depth_wanted > 0))
    .column("gain", Unit::Times, gain_of)
    .column("published", Unit::Times, |row| row.published().map(|(each, all)| all / each))
    .column("of async", Unit::Ratio, part_of)
    .words("published, wait each → submit all", words)
    .only_on_page()
    .table()
}

fn copying(copy: &DiskToDisk) -> Table {
    let programs =
        [("dio cp", copy.dio_cp_mib_s, Some(copy.gain)), ("dd bs=8M, direct", copy.dd_mib_s, None)];
    let caption =
        format!("Copying {} from one modelled disk to another, durably", size(copy.bytes));
    Rows::new(("copy", "program"), caption, &programs, |(name, ..)| (*name).to_owned())
        .column("throughput", Unit::BytesPerSecond, |(_, rate, _)| rate * MIB)
        .column("dio cp ÷ dd", Unit::Times, |(.., gain)| *gain)
        .table()
}

/// For each rig and direction, the request with the reference's parameters, or else the largest
/// request on the most targets.
fn findings(report: &StripeBenchReport) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (rig, called) in RIGS {
        for direction in DIRECTIONS {
            let rows =
                report.rows.iter().filter(|row| (row.rig, row.direction) == (rig, direction));
            let rank = |row: &&StripeRow| {
                (row.published().is_some(), row.stripes, row.transfer_bytes, row.stripe_bytes)
            };
            let Some(row) = rows.max_by_key(rank) else { continue };
            let median = |ratios: Vec<f64>| Summary::of(ratios).median;
            let mut note =
                format!("submit all ÷ wait each; {:.2} of asynchronous", median(part_of(row)));
            if let Some((each, all)) = row.published() {
                note.push_str(&format!("; published {} ({each} → {all} MiB/s)", times(all / each)));
            }
            findings.push(Finding::new(
                format!("{called}: {}", name(row)),
                times(median(gain_of(row))),
                note,
            ));
        }
    }
    if let Some(copy) = &report.copy {
        let note = "dio cp ÷ dd; twice is what can be had";
        findings.push(Finding::new(
            "copying between two modelled disks",
            times(copy.gain.median),
            note,
        ));
    }
    findings
}

fn notes(report: &StripeBenchReport) -> Vec<String> {
    let [write, read] = REFERENCE.map(|(direction, each, all)| {
        format!("{} {each} → {all} MiB/s ({})", direction.name(), times(all / each))
    });
    let mut notes = vec![
        "Wait each: a loop waits for each stripe of a request. Submit all: one call to the striped \
         file, which waits once. Asynchronous: requests of one stripe, with as many bytes in \
         flight as submitting all has, unless the engine takes fewer. Gain: submit all ÷ wait \
         each, and of async: submit all ÷ asynchronous, in the same round."
            .to_owned(),
        format!(
            "Published: Lustre (LU-13798), requests of 64 MiB over 1 MiB stripes on 8 targets, \
             {write}, {read}, as fast as asynchronous I/O at the same depth. Only ratios compare."
        ),
    ];
    notes.extend(
        report
            .skipped
            .iter()
            .map(|skipped| format!("{}: skipped: {}", skipped.rig.name(), skipped.reason)),
    );
    notes
}

fn settings(report: &StripeBenchReport) -> Vec<(String, String)> {
    let mut settings = vec![
        ("runs of each way", report.runs.to_string()),
        ("bytes of a run, at least", size(report.moved_bytes)),
    ];
    if report.grounds.iter().any(|ground| ground.rig == Rig::Modelled) {
        let Timing { service_seconds, read_bytes_per_second, write_bytes_per_second } =
            report.timing;
        settings.push(("a modelled disk answers after", seconds(service_seconds)));
        settings.push(("it reads", format!("{}/s", size(read_bytes_per_second))));
        settings.push(("it writes", format!("{}/s", size(write_bytes_per_second))));
    }
    settings.extend(report.grounds.iter().map(|ground| (ground.rig.name(), ground.about.clone())));
    settings.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use crate::page::{Page, read};
    use crate::section::Benchmark;
    use crate::stripe;

    /// A result as JSON, with rows of the real disk; the network rig is skipped.
    fn result(transfers: Vec<u64>) -> Value {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let refused = vec![(stripe::Rig::Network, "no cable".to_owned())];
        let rigs = vec![stripe::Rig::Real, stripe::Rig::Network];
        let plan = stripe::StripeBenchPlan {
            transfers,
            rigs,
            refused,
            ..stripe::tests::plan(directory.path())
        };
        let text = stripe::run(&plan).unwrap().json().unwrap();
        serde_json::from_str(&text).unwrap()
    }

    /// The result with additional rows of modelled disks: eight times as fast on eight disks.
    fn with_modelled(mut result: Value) -> Value {
        let mut row = result["rows"][0].clone();
        row["rig"] = "modelled".into();
        (row["stripe_bytes"], row["transfer_bytes"], row["stripes"]) =
            ((1 << 20).into(), (64 << 20).into(), 8.into());
        row["samples_mib_s"] = serde_json::json!({
            "wait_each": [40.0, 50.0, 60.0],
            "submit_all": [400.0, 400.0, 420.0],
            "async": [400.0, 410.0, 400.0],
        });
        result["rows"].as_array_mut().unwrap().push(row);
        result["grounds"]
            .as_array_mut()
            .unwrap()
            .push(serde_json::json!({"rig": "modelled", "about": "images"}));
        let gain = serde_json::json!({"median": 1.9, "min": 1.8, "max": 2.0});
        result["copy"] = serde_json::json!({
            "bytes": 1 << 20, "dio_cp_mib_s": 47.5, "dd_mib_s": 25.0, "gain": gain
        });
        result
    }

    #[test]
    fn what_is_written_here_is_shown_with_the_reference_beside_it() {
        let text = with_modelled(result(vec![1 << 20, 4 << 20])).to_string();
        let section = read("stripe.json", &text).unwrap();
        let finding = &section.findings[0];
        assert_eq!(
            (finding.label.as_str(), finding.value.as_str()),
            ("Modelled disks: write, 8 × 1 MiB, requests of 64 MiB", "8.00×")
        );
        assert_eq!(
            finding.note,
            "submit all ÷ wait each; 1.00 of asynchronous; published 8.90× (583 → 5186 MiB/s)"
        );
        assert_eq!(section.findings.last().unwrap().value, "1.90×");
        assert!(
            section.notes.contains(&"network: skipped: no cable".to_owned()),
            "{:?}",
            section.notes
        );
        assert!(section.settings.iter().any(|(name, _)| name == "a modelled disk answers after"));
        let page = Page::new(None, vec![section]);
        let plots: Vec<String> = page.plots().into_iter().map(|(name, _)| name).collect();
        let modelled = ["modelled-write", "modelled-gain", "modelled-of-asynchronous"].into_iter();
        let expected = modelled.chain([
            "real-write-stripes",
            "real-write-3-4096",
            "real-write-3-65536",
            "real-read-stripes",
            "real-read-3-4096",
            "real-read-3-65536",
            "real-gain",
            "real-of-asynchronous",
        ]);
        assert_eq!(plots, expected.map(|name| format!("stripe-{name}.svg")).collect::<Vec<_>>());
        let tables = page.tables();
        let table = |name: &str| {
            &tables.iter().find(|(file, _)| file == &format!("stripe-{name}.csv")).unwrap().1
        };
        assert_eq!(table("table-real").lines().count(), 1 + 8);
        let row = table("table-modelled").lines().nth(1).unwrap();
        assert!(
            row.starts_with("write,8,1048576,67108864,52428800,")
                && row.ends_with(",583 → 5186 MiB/s"),
            "{row}"
        );
        assert!(table("modelled-gain").contains("published,8.89"), "{}", table("modelled-gain"));
        assert_eq!(table("table-copy").lines().count(), 3);
        let html = page.html();
        assert!(
            html.contains("Images.") && html.contains("Directories of one file system"),
            "{html}"
        );
    }

    #[test]
    fn earlier_results_and_those_of_one_size_are_shown_too() {
        let mut old = result(vec![1 << 20]);
        for field in ["benchmark", "format"] {
            old.as_object_mut().unwrap().remove(field);
        }
        let rows = old["rows"].as_array_mut().unwrap();
        rows.retain(|row| row["stripe_bytes"] == 4096);
        for row in rows {
            for field in ["samples_mib_s", "async_depth", "async_depth_wanted"] {
                row.as_object_mut().unwrap().remove(field);
            }
        }
        let section = read("old.json", &old.to_string()).unwrap();
        assert_eq!((section.id.as_str(), section.findings.len()), ("stripe", 2));
        let page = Page::new(None, vec![section]);
        let plots: Vec<String> = page.plots().into_iter().map(|(name, _)| name).collect();
        let expected = ["write", "read", "gain", "of-asynchronous"]
            .map(|name| format!("stripe-real-{name}.svg"));
        assert_eq!(plots, expected);
        let tables = page.tables();
        let gain = &tables.iter().find(|(name, _)| name == "stripe-real-gain.csv").unwrap().1;
        assert_eq!(gain.lines().count(), 1 + 2 * 3, "least, median and greatest: {gain}");
    }
}

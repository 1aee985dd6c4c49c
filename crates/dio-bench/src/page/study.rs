//! Contenders that were measured in turns, each run with a time series: what `oltp` measures, and every benchmark of its shape.

pub(super) mod plots;
pub(super) mod show;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::environment::Environment;
use super::model::Section;
use crate::plot::csv_line;
use crate::study::Used;
use crate::study::table::{SERIES, slot};

pub use plots::plots;

/// What a benchmark of this shape calls things.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a> {
    /// The name of the benchmark, for anchors and files.
    pub id: &'a str,
    /// The heading.
    pub title: &'a str,
    /// What is counted: `transactions`.
    pub events: &'a str,
    /// One sentence on the workload.
    pub lead: &'a str,
}

/// The JSON of such a benchmark: those fields that are shown. What older or simpler results lack may be missing.
#[derive(Clone, Debug, Deserialize)]
pub struct Study {
    /// The contenders, in the order in which they are shown.
    #[serde(rename = "rows")]
    pub contenders: Vec<Contender>,
    /// Published figures of the same kind of storage.
    #[serde(default)]
    pub reference: Vec<Reference>,
    /// What it was run with, whatever it is called; `seconds` are those of ramp-up, steady state and ramp-down.
    #[serde(default)]
    pub settings: Map<String, Value>,
    /// What was missing.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Where it was measured.
    pub(super) environment: Environment,
}

/// One contender.
#[derive(Clone, Debug, Deserialize)]
pub struct Contender {
    /// Its name: `direct_file`.
    #[serde(rename = "contender")]
    pub key: String,
    /// Its runs; those of the same place in all contenders were made in the same round.
    pub runs: Vec<Run>,
}

/// A published figure.
#[derive(Clone, Debug, Deserialize)]
pub struct Reference {
    /// What it is of: `raw`, `direct` or `concurrent`.
    pub name: String,
    /// Transactions per second.
    pub tps: f64,
    /// Response time in seconds.
    pub response_seconds: f64,
}

impl From<&crate::oltp::report::Reference> for Reference {
    fn from(figure: &crate::oltp::report::Reference) -> Reference {
        Reference { name: figure.name.to_owned(), tps: figure.tps, response_seconds: figure.response_seconds }
    }
}

/// One run. All figures but the points are of its steady state.
#[derive(Clone, Debug, Deserialize)]
pub struct Run {
    /// Transactions per second.
    pub tps: f64,
    /// Response times.
    #[serde(default)]
    pub response: Response,
    /// How the response times are spread.
    #[serde(default)]
    pub histogram: Vec<Bucket>,
    /// What the machine did.
    #[serde(default)]
    pub used: Used,
    /// Blocks counted by the mount; `None` without one.
    #[serde(default)]
    pub mount_blocks: Option<Vec<Blocks>>,
    /// Blocks on the kernel's locks; `None` where they cannot be seen.
    #[serde(default)]
    pub kernel_blocks: Option<Kernel>,
    /// The time series, ramps included.
    #[serde(default)]
    pub points: Vec<Point>,
}

/// Response times in seconds.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Response {
    /// The mean.
    pub mean: Option<f64>,
    /// The median.
    pub p50: Option<f64>,
    /// What nine of ten do not exceed.
    pub p90: Option<f64>,
    /// What 99 of 100 do not exceed.
    pub p99: Option<f64>,
    /// What 999 of 1000 do not exceed.
    pub p999: Option<f64>,
    /// The longest.
    pub max: Option<f64>,
}

/// A part of a histogram of times.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Bucket {
    /// The longest time in it, in seconds. The shortest is the longest one of the bucket before.
    pub seconds: f64,
    /// Events.
    pub count: u64,
}

/// Blocks on locks of a class.
#[derive(Clone, Debug, Deserialize)]
pub struct Blocks {
    /// The class.
    pub class: String,
    /// How many per second.
    pub blocks_per_second: f64,
}

/// Blocks on the kernel's locks.
#[derive(Clone, Debug, Deserialize)]
pub struct Kernel {
    /// By class, and in how they were wanted.
    pub rows: Vec<Blocks>,
    /// What is worth knowing about it.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// One slot of a time series.
#[derive(Clone, Debug, Deserialize)]
pub struct Point {
    /// When it ended, in seconds since the first client came.
    pub seconds: f64,
    /// `ramp_up`, `steady` or `ramp_down`.
    #[serde(default)]
    pub phase: String,
    /// Transactions per second.
    pub tps: f64,
    /// What the machine did.
    #[serde(flatten)]
    pub used: Used,
}

impl Contender {
    /// The name as it is shown: that of its option.
    pub fn name(&self) -> String {
        self.key.replace('_', "-")
    }

    /// Its colour: that of its kind of storage wherever it appears.
    fn tone(&self, place: usize) -> usize {
        match self.key.as_str() {
            "raw" => 0,
            "bare" => 1,
            "direct_file" | "direct" => 2,
            "direct_range" => 3,
            "concurrent" => 4,
            "buffered" | "cached" => 5,
            _ => 6 + place,
        }
    }

    /// The figures of all runs that have one.
    fn figures(&self, of: impl Fn(&Run) -> Option<f64>) -> Vec<f64> {
        self.runs.iter().filter_map(of).filter(|value| value.is_finite()).collect()
    }
}

impl Run {
    /// Blocks per second on the locks of the mount of one class; `None` without a mount.
    fn mount(&self, class: &str) -> Option<f64> {
        self.mount_blocks.as_ref().map(|rows| rate(rows, class))
    }

    /// Blocks per second on the kernel's locks of one class.
    fn kernel(&self, class: &str) -> Option<f64> {
        self.kernel_blocks.as_ref().map(|kernel| rate(&kernel.rows, class))
    }
}

/// The rates of a class together; from 0, as the sum of no numbers would be -0.
fn rate(rows: &[Blocks], class: &str) -> f64 {
    rows.iter().filter(|row| row.class == class).fold(0.0, |sum, row| sum + row.blocks_per_second)
}

impl Study {
    /// Reads the JSON of such a benchmark.
    ///
    /// # Errors
    /// Where it is damaged.
    pub fn read(text: &str) -> serde_json::Result<Study> {
        let study: Study = serde_json::from_str(text)?;
        Ok(study.sorted())
    }

    /// Tells contenders without a mount from those whose mount counted no blocks: results have an empty list for both.
    pub(super) fn sorted(mut self) -> Study {
        for contender in &mut self.contenders {
            let mount = !matches!(contender.key.as_str(), "raw" | "bare" | "buffered" | "cached");
            contender.runs.iter_mut().filter(|_| !mount).for_each(|run| run.mount_blocks = None);
        }
        self
    }

    /// The contender to which the others are compared: the raw device, else the bare files, else the first one.
    fn first(&self) -> Option<&Contender> {
        let named = |name: &str| self.contenders.iter().find(|contender| contender.key == name);
        named("raw").or_else(|| named("bare")).or_else(|| named("buffered")).or(self.contenders.first())
    }

    /// Throughput of each run of a contender divided by that of the first one in the same round.
    fn ratios(&self, contender: &Contender) -> Vec<f64> {
        let first = self.first().map_or(&[][..], |first| &first.runs);
        contender
            .runs
            .iter()
            .zip(first)
            .filter(|(_, first)| first.tps > 0.0)
            .map(|(run, first)| run.tps / first.tps)
            .collect()
    }

    /// The published figure of the same kind of storage: direct I/O with one writer took the lock of the file there.
    fn published(&self, contender: &Contender) -> Option<&Reference> {
        let name = match contender.key.as_str() {
            "direct_file" => "direct",
            other => other,
        };
        self.reference.iter().find(|reference| reference.name == name)
    }

    /// The published figure divided by that of the raw device, where that is what ours are divided by.
    fn published_ratio(&self, contender: &Contender) -> Option<f64> {
        let raw = self.reference.iter().find(|reference| reference.name == "raw")?;
        let first = self.first()?;
        let figure = self.published(contender)?;
        (["raw", "bare"].contains(&first.key.as_str()) && raw.tps > 0.0).then(|| figure.tps / raw.tps)
    }

    /// When the steady state began and ended.
    fn steady(&self) -> Option<(f64, f64)> {
        let [up, steady, _] = self.seconds()?;
        Some((up, up + steady))
    }

    /// Seconds of ramp-up, steady state and ramp-down.
    fn seconds(&self) -> Option<[f64; 3]> {
        let seconds = self.settings.get("seconds")?.as_array()?;
        let seconds: Vec<f64> = seconds.iter().filter_map(Value::as_f64).collect();
        seconds.try_into().ok()
    }

    /// The time series of all runs, a line for each slot.
    pub fn csv(&self) -> String {
        let mut text = SERIES.to_owned();
        for contender in &self.contenders {
            for (round, run) in contender.runs.iter().enumerate() {
                for point in &run.points {
                    let (name, phase) = (contender.name(), point.phase.replace('_', "-"));
                    let fields = slot(&name, round, (point.seconds, &phase, point.tps), &point.used);
                    text.push_str(&csv_line(&fields));
                }
            }
        }
        text
    }
}

/// The section of a result of this shape.
///
/// # Errors
/// Where it is damaged.
pub fn section(text: &str, words: &Words<'_>) -> serde_json::Result<Section> {
    Ok(show::section(&Study::read(text)?, words))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Three contenders, two rounds.
    pub(in super::super) fn text() -> String {
        let run = |tps: f64, blocks: &str| {
            format!(
                r#"{{"tps":{tps},"response":{{"mean":0.002,"p50":0.001,"p99":0.01,"max":0.1}},
                "histogram":[{{"seconds":0.001,"count":5}},{{"seconds":0.0011,"count":9}}],
                "used":{{"user":0.2,"system":0.3,"iowait":0.1,"idle":0.4,"device_reads_per_second":100,
                "device_writes_per_second":50,"utilisation":0.5}},"mount_blocks":{blocks},
                "kernel_blocks":{{"rows":[{{"class":"inode","blocks_per_second":2.5}}]}},
                "points":[{{"seconds":1,"phase":"ramp_up","tps":{tps},"user":0.25}},
                          {{"seconds":2,"phase":"steady","tps":{tps},"user":0.5,"utilisation":0.75}}]}}"#
            )
        };
        let row = |name: &str, runs: [f64; 2], blocks: &str| {
            let [one, other] = runs.map(|tps| run(tps, blocks));
            format!(r#"{{"contender":"{name}","runs":[{one},{other}]}}"#)
        };
        let file = r#"[{"class":"file","blocks_per_second":5200}]"#;
        format!(
            r#"{{"rows":[{},{},{}],"reference":[{{"name":"raw","tps":710.19,"response_seconds":0.06}},
            {{"name":"direct","tps":219.69,"response_seconds":0.12}}],
            "settings":{{"seconds":[1,2,0.5],"page_bytes":8192,"rounds":2}},"notes":["a note"],
            "environment":{{"version":"0.1.0","kernel":"6.1","cpu":"c","cpus":2,"memory_bytes":1,"file_system":"xfs",
            "engine":"io_uring"}}}}"#,
            row("raw", [1000.0, 2000.0], "[]"),
            row("direct_file", [400.0, 400.0], file),
            row("concurrent", [900.0, 2000.0], "[]")
        )
    }

    #[test]
    fn ratios_are_of_the_same_round_and_beside_published_ones() {
        let study = Study::read(&text()).unwrap();
        assert_eq!(study.ratios(&study.contenders[2]), [0.9, 1.0]);
        assert_eq!(study.published_ratio(&study.contenders[1]), Some(219.69 / 710.19));
        assert_eq!(study.published_ratio(&study.contenders[2]), None, "there is no figure");
        assert_eq!(study.steady(), Some((1.0, 3.0)));
        let [raw, direct, concurrent] = &study.contenders[..] else { panic!() };
        assert_eq!((raw.runs[0].mount("file"), direct.runs[0].mount("file")), (None, Some(5200.0)));
        assert_eq!((concurrent.runs[0].mount("file"), raw.runs[0].kernel("inode")), (Some(0.0), Some(2.5)));
    }

    #[test]
    fn the_series_has_a_line_for_each_slot_and_as_many_fields_as_headings() {
        let csv = Study::read(&text()).unwrap().csv();
        assert!(csv.lines().all(|line| line.split(',').count() == 14) && csv.lines().count() == 1 + 3 * 2 * 2);
        assert!(csv.contains("\nconcurrent,2,2.000,steady,2000.00,,,,0.7500,0.5000,"), "{csv}");
    }
}

//! A command between two files, with large direct I/O at neither end, at one, or at both.
//!
//! The reference is the published measurement of `tar` and `gzip` on AIX: large reads and writes
//! put at both ends of an unchanged command gained 16 to 21 %.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::BenchError;
use crate::cold::{EmptiedCaches, make_cold, reachable, resident_pages};
use crate::commands::{PipelineCommand, run_line};
use crate::data::Scratch;
use crate::environment::Environment;
use crate::measure::{RunMeter, Usage, children_cpu_seconds};
use crate::plot::{self, Plot};
use crate::progress::{self, time_for};
use crate::quantity::Unit;
use crate::section::{Benchmark, Block, Cell, Finding, Rows, Section, Table, times};
use crate::stats::{Summary, median_count, number, ratios};
use dio_common::units::size;
use std::time::Duration;

/// The measurements to make.
#[derive(Clone, Debug)]
pub struct PipelinePlan {
    /// Bytes of the file that is read.
    pub size: u64,
    /// The directory in which source and target are created.
    pub directory: PathBuf,
    /// An existing file to read instead, all of it.
    pub file: Option<PathBuf>,
    /// The command in the middle, in the shell's syntax. It reads its standard input and writes its
    /// standard output.
    pub command: String,
    /// The program that provides `cat` and `tee` with large direct I/O.
    pub dio: PathBuf,
    /// Runs of each row.
    pub runs: usize,
    /// The caches that are emptied before each run.
    pub cold: EmptiedCaches,
}

/// The ends of the command at which there is large direct I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DirectEnds {
    /// The system's `cat` before it, and the shell's redirection after it.
    Plain,
    /// `dio cat` before it.
    Input,
    /// `dio cat` before it and `dio tee` after it.
    Both,
}

impl DirectEnds {
    const ALL: [DirectEnds; 3] = [DirectEnds::Plain, DirectEnds::Input, DirectEnds::Both];

    fn text(self) -> &'static str {
        match self {
            DirectEnds::Plain => "at neither end",
            DirectEnds::Input => "at the input",
            DirectEnds::Both => "at both ends",
        }
    }
}

/// One run.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Sample {
    /// Time until the target is durable, CPU time of the commands and of the sync, and the bytes
    /// that the commands read.
    #[serde(flatten)]
    pub usage: Usage,
    /// Seconds until the last command ended. With the page cache, its output is not written yet at
    /// that time.
    pub commands_seconds: f64,
    /// Bytes of the target.
    #[serde(default)]
    pub target_bytes: u64,
    /// Pages of the source in the cache afterwards.
    #[serde(default)]
    pub source_pages_after: u64,
    /// Pages of the target in the cache afterwards.
    #[serde(default)]
    pub target_pages_after: u64,
}

/// One row of the table, with the medians of its runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PipelineRow {
    /// The ends at which there is large direct I/O.
    pub ends: DirectEnds,
    /// The commands, as a person would type them.
    pub line: String,
    /// Elapsed seconds, until the target is durable.
    #[serde(default)]
    pub seconds: f64,
    /// Elapsed seconds, until the last command ended.
    #[serde(default)]
    pub commands_seconds: f64,
    /// CPU seconds of the commands and of the sync. The kernel's own threads, which write dirty
    /// pages, are not included.
    #[serde(default)]
    pub cpu_seconds: f64,
    /// Elapsed seconds of the plain row divided by those of this one.
    #[serde(default, deserialize_with = "number")]
    pub gain: f64,
    /// Bytes that storage delivered for the commands; `None` if the kernel does not count them.
    pub device_bytes: Option<u64>,
    /// Bytes of the target.
    pub target_bytes: u64,
    /// Pages of the source in the cache after a run; the most of all runs.
    pub source_pages_after: u64,
    /// Pages of the target in the cache after a run; the most of all runs.
    pub target_pages_after: u64,
    /// The single runs.
    pub samples: Vec<Sample>,
}

/// The whole result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PipelineBenchReport {
    /// Large direct I/O at neither end, at the input, at both.
    pub rows: Vec<PipelineRow>,
    /// Bytes of the source.
    pub file_bytes: u64,
    /// The command in the middle.
    pub command: String,
    /// The caches that were emptied before each run; less than requested if this process may not
    /// drop the system's caches.
    pub cold: EmptiedCaches,
    /// The machine and storage that it was measured on.
    pub environment: Environment,
    /// Runs of each row.
    pub runs: usize,
}

/// Runs the three pipelines in turns.
///
/// # Errors
/// [`BenchError`]; [`BenchError::Command`] when one of the commands fails, [`BenchError::NotCold`]
/// where the cache cannot be emptied.
pub fn run(plan: &PipelinePlan) -> Result<PipelineBenchReport, BenchError> {
    if plan.runs == 0 || plan.size == 0 {
        return Err(BenchError::Asked("size and runs must be positive".to_owned()));
    }
    let bytes = match &plan.file {
        Some(path) => std::fs::metadata(path).map_err(BenchError::system("open", path))?.len(),
        None => plan.size,
    };
    let pace = progress::pace(&plan.directory);
    // The estimate assumes that the command processes 40 MB per second, as gzip does.
    let making = if plan.file.is_some() { Duration::ZERO } else { time_for(bytes, pace) };
    progress::begin(3 * plan.runs, making + time_for(bytes, pace.min(4e7)) * 3 * plan.runs as u32);
    let scratch = Scratch::new(&plan.directory)?;
    let source = match &plan.file {
        Some(path) => path.clone(),
        None => scratch.text_file("source", plan.size)?,
    };
    let target = scratch.path("target");
    let file_bytes = std::fs::metadata(&source).map_err(BenchError::system("open", &source))?.len();
    let mut samples = DirectEnds::ALL.map(|ends| (ends, Vec::new()));
    for _ in 0..plan.runs {
        for (ends, samples) in &mut samples {
            progress::step(&show(*ends, plan));
            make_cold(&source, plan.cold)?;
            samples.push(once(*ends, plan, &source, &target)?);
            std::fs::remove_file(&target).map_err(BenchError::system("remove", &target))?;
        }
    }
    let mut rows = samples.map(|(ends, samples)| row(ends, show(ends, plan), samples)).to_vec();
    let plain = rows[0].seconds;
    rows.iter_mut().for_each(|row| row.gain = plain / row.seconds);
    Ok(PipelineBenchReport {
        rows,
        file_bytes,
        command: plan.command.clone(),
        cold: reachable(plan.cold),
        environment: Environment::of(&source)?,
        runs: plan.runs,
    })
}

/// The commands of one pipeline.
fn parts(
    ends: DirectEnds,
    plan: &PipelinePlan,
    source: &Path,
    target: &Path,
) -> Vec<PipelineCommand> {
    let (cat, tee) = (OsStr::new("cat"), OsStr::new("tee"));
    let first = match ends {
        DirectEnds::Plain => PipelineCommand::new([cat, source.as_os_str()]),
        DirectEnds::Input | DirectEnds::Both => {
            PipelineCommand::new([plan.dio.as_os_str(), cat, source.as_os_str()])
        }
    };
    let mut parts = vec![first, PipelineCommand::shell(&plan.command)];
    if ends == DirectEnds::Both {
        parts.push(PipelineCommand::new([plan.dio.as_os_str(), tee, target.as_os_str()]));
    }
    parts
}

/// The command line of one pipeline as a person would type it, with short names.
fn show(ends: DirectEnds, plan: &PipelinePlan) -> String {
    let short = PipelinePlan { dio: PathBuf::from("dio"), ..plan.clone() };
    let parts = parts(ends, &short, Path::new("SOURCE"), Path::new("TARGET"));
    let line: Vec<&str> = parts.iter().map(PipelineCommand::shown).collect();
    format!(
        "{} > {}",
        line.join(" | "),
        if ends == DirectEnds::Both { "/dev/null" } else { "TARGET" }
    )
}

/// Makes one run. Its time covers everything from starting the commands to the sync of the target.
fn once(
    ends: DirectEnds,
    plan: &PipelinePlan,
    source: &Path,
    target: &Path,
) -> Result<Sample, BenchError> {
    let parts = parts(ends, plan, source, target);
    let children = children_cpu_seconds();
    let meter = RunMeter::start();
    let start = Instant::now();
    let output = match ends {
        DirectEnds::Plain | DirectEnds::Input => {
            File::create_new(target).map_err(BenchError::system("create", target))?
        }
        DirectEnds::Both => {
            let null = Path::new("/dev/null");
            File::options().write(true).open(null).map_err(BenchError::system("open", null))?
        }
    };
    run_line(&parts, output)?;
    let commands_seconds = start.elapsed().as_secs_f64();
    let written = File::open(target).map_err(BenchError::system("open", target))?;
    written.sync_all().map_err(BenchError::system("sync", target))?;
    let mut usage = meter.stop();
    if let (Some(before), Some(after)) = (children, children_cpu_seconds()) {
        usage.cpu_seconds += after - before;
    }
    Ok(Sample {
        usage,
        commands_seconds,
        target_bytes: written.metadata().map_err(BenchError::system("examine", target))?.len(),
        source_pages_after: resident_pages(source)?,
        target_pages_after: resident_pages(target)?,
    })
}

fn row(ends: DirectEnds, line: String, samples: Vec<Sample>) -> PipelineRow {
    let median = |of: fn(&Sample) -> f64| Summary::of(samples.iter().map(of)).median;
    let most = |of: fn(&Sample) -> u64| samples.iter().map(of).max().unwrap_or(0);
    let device: Option<Vec<u64>> = samples.iter().map(|sample| sample.usage.device_bytes).collect();
    PipelineRow {
        ends,
        line,
        seconds: median(|sample| sample.usage.wall_seconds),
        commands_seconds: median(|sample| sample.commands_seconds),
        cpu_seconds: median(|sample| sample.usage.cpu_seconds),
        gain: 1.0,
        device_bytes: device.map(median_count),
        target_bytes: median_count(samples.iter().map(|sample| sample.target_bytes)),
        source_pages_after: most(|sample| sample.source_pages_after),
        target_pages_after: most(|sample| sample.target_pages_after),
        samples,
    }
}

impl PipelineRow {
    fn runs(&self, of: fn(&Sample) -> f64) -> impl Iterator<Item = f64> + '_ {
        self.samples.iter().map(of)
    }

    /// Time of the plain pipeline divided by that of this one, run by run.
    fn gains(&self, plain: &PipelineRow) -> Vec<f64> {
        let wall: fn(&Sample) -> f64 = |run| run.usage.wall_seconds;
        ratios(plain.runs(wall), self.runs(wall))
    }
}

impl Benchmark for PipelineBenchReport {
    const NAME: &'static str = "pipeline";
    const FIELDS: &'static [&'static str] = &["rows", "command", "cold"];

    fn section(&self) -> Section {
        let plain = self.rows.iter().find(|row| row.ends == DirectEnds::Plain);
        let finding = |row: &PipelineRow| {
            let gain = Summary::of_some(row.gains(plain?))?.median;
            let note = if row.ends == DirectEnds::Both { "published 1.16× to 1.21×" } else { "" };
            Some(Finding::new(
                format!("large I/O {}", row.ends.text()),
                format!("{} as fast", times(gain)),
                note,
            ))
        };
        let cold = match self.cold {
            EmptiedCaches::System => "the caches of the system",
            EmptiedCaches::File => "the pages of the source",
        };
        let commands =
            self.rows.iter().map(|row| (row.ends.text().to_owned(), row.line.clone())).collect();
        let blocks = vec![
            Block::Plots(vec![self.plot()]),
            Block::Table(self.table(plain)),
            Block::Commands(commands),
        ];
        let title = format!("Large direct I/O around `{}`", self.command);
        Section {
            lead: format!(
                "{} of cold data go through an unchanged command, `{}`, with large direct I/O at \
                 neither end, at its input and at both, in turns, {} times each. Before each run \
                 {cold} were dropped; a run ends when the target is durable.",
                size(self.file_bytes),
                self.command,
                self.runs
            ),
            findings: self
                .rows
                .iter()
                .filter(|row| row.ends != DirectEnds::Plain)
                .filter_map(finding)
                .collect(),
            blocks,
            notes: vec![
                "Published: tar and gzip on AIX gained 16 to 21 % by large I/O at both ends."
                    .to_owned(),
            ],
            ..Section::new(PipelineBenchReport::NAME, title, &self.environment)
        }
    }
}

impl PipelineBenchReport {
    fn plot(&self) -> Plot {
        let row = |(place, row): (usize, &PipelineRow)| {
            let wall = row.runs(|run| run.usage.wall_seconds).collect();
            plot::Dot::new(row.ends.text(), [1, 3, 4][place % 3], wall)
        };
        let about = "Each dot is a run, the bar the median; further left is better.";
        let rows = self.rows.iter().enumerate().map(row).collect();
        Plot::dots("elapsed", "Time until the target is durable", about, Unit::Seconds, rows)
    }

    fn table(&self, plain: Option<&PipelineRow>) -> Table {
        let caption = "Medians of the runs, with the least and the greatest";
        let rate = |row: &PipelineRow| {
            Cell::runs(
                row.runs(|run| run.usage.wall_seconds)
                    .map(|seconds| self.file_bytes as f64 / seconds),
            )
        };
        Rows::new(("ways", "large I/O"), caption, &self.rows, |row| row.ends.text().to_owned())
            .column("durable", Unit::Seconds, |row| {
                Cell::runs(row.runs(|run| run.usage.wall_seconds))
            })
            .column("commands ended", Unit::Seconds, |row| {
                Cell::runs(row.runs(|run| run.commands_seconds))
            })
            .column("gain", Unit::Times, |row| plain.map(|plain| row.gains(plain)))
            .column("CPU", Unit::Seconds, |row| Cell::runs(row.runs(|run| run.usage.cpu_seconds)))
            .column("throughput", Unit::BytesPerSecond, rate)
            .column("from the device", Unit::Bytes, |row| row.device_bytes)
            .column("target", Unit::Bytes, |row| row.target_bytes)
            .column("pages left of the source", Unit::Count, |row| row.source_pages_after)
            .column("of the target", Unit::Count, |row| row.target_pages_after)
            .table()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The plan's `dio` program is `env`, so that `env cat FILE` and `env tee FILE` run the
    /// system's tools: any program that runs its arguments will do here.
    fn plan(scratch: &Scratch, command: &str) -> PipelinePlan {
        PipelinePlan {
            size: 300_000,
            directory: scratch.path(""),
            file: None,
            command: command.to_owned(),
            dio: PathBuf::from("env"),
            runs: 2,
            cold: EmptiedCaches::File,
        }
    }

    fn is_empty(scratch: &Scratch) -> bool {
        std::fs::read_dir(scratch.path("")).unwrap().next().is_none()
    }

    #[test]
    fn all_three_ways_pass_every_byte_through_the_command() {
        let scratch = Scratch::new(Path::new("/var/tmp")).unwrap();
        let report = match run(&plan(&scratch, "cat; echo end")) {
            Err(BenchError::NotCold { .. }) => {
                return println!("skipped: /var/tmp is in memory, where no file is cold");
            }
            report => report.unwrap(),
        };
        let lines: Vec<&str> = report.rows.iter().map(|row| row.line.as_str()).collect();
        let expected = [
            "cat SOURCE | cat; echo end > TARGET",
            "dio cat SOURCE | cat; echo end > TARGET",
            "dio cat SOURCE | cat; echo end | dio tee TARGET > /dev/null",
        ];
        assert_eq!(lines, expected);
        for row in &report.rows {
            assert_eq!((row.target_bytes, row.samples.len()), (300_004, 2));
            assert!(
                row.seconds >= row.commands_seconds && row.commands_seconds > 0.0 && row.gain > 0.0
            );
            // The system's own tools leave what they touch in the cache: 300,000 bytes are 74 pages
            // of 4 KiB.
            assert!(row.source_pages_after >= 4 && row.target_pages_after >= 4, "{row:?}");
        }
        assert!(Benchmark::text(&report).contains("at both ends"));
        assert!(is_empty(&scratch));
    }

    #[test]
    fn a_command_that_fails_leaves_no_report_and_no_files() {
        let scratch = Scratch::new(Path::new("/var/tmp")).unwrap();
        let error = run(&plan(&scratch, "cat > /dev/null; exit 7")).unwrap_err();
        if !matches!(error, BenchError::NotCold { .. }) {
            assert_eq!(error.to_string(), "'cat > /dev/null; exit 7' failed: exit status: 7");
        }
        assert!(is_empty(&scratch));
    }
}

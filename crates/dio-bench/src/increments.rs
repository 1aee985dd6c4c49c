//! Measures cold sequential reading in small and large steps, through the page cache and past it.
//!
//! The reference is the published measurement of direct I/O on AIX's JFS, where every step was a
//! request to the disk: direct reading lost whenever the steps were small. The library reads ahead
//! itself, so that direct reading need not lose here.

use std::hint::black_box;
use std::io::Read;
use std::path::{Path, PathBuf};

use dio::stream::Reader;
use dio::{Mode, OpenOptions};
use serde::{Deserialize, Serialize};

use crate::BenchError;
use crate::cold::{EmptiedCaches, make_cold};
use crate::data::Scratch;
use crate::environment::Environment;
use crate::measure::{RunMeter, Usage};
use crate::plot::{self, Plot};
use crate::progress::{self, time_for};
use crate::quantity::Unit;
use crate::section::{Benchmark, Block, Cell, Finding, Rows, Section, Table, times};
use crate::stats::{Summary, median_count, ratios};
use dio_common::units::size;
use std::time::Duration;

/// Rows with smaller steps than this read at most [`MOST_STEPS`] steps, so that a row ends in
/// reasonable time.
const SMALL_STEP: u64 = 4096;

/// The most steps of a row with small steps; with steps of 1 byte it reads 1 MiB.
const MOST_STEPS: u64 = 1 << 20;

/// The measurements to make.
#[derive(Clone, Debug)]
pub struct IncrementsPlan {
    /// Bytes of the file that is read; for an existing file, the most bytes to read of it.
    pub size: u64,
    /// The directory in which files are created.
    pub directory: PathBuf,
    /// An existing file to read instead.
    pub file: Option<PathBuf>,
    /// Bytes of each read call, one row for each value.
    pub steps: Vec<u64>,
    /// Runs of each row, through the page cache and past it.
    pub runs: usize,
    /// The caches that are emptied before each run.
    pub cold: EmptiedCaches,
}

/// One row of the table; the values are medians.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct IncrementsRow {
    /// Bytes of each read call.
    pub step_bytes: u64,
    /// Bytes read in all.
    pub file_bytes: u64,
    /// Elapsed seconds through the page cache.
    #[serde(default)]
    pub cached_seconds: f64,
    /// Elapsed seconds through direct I/O.
    #[serde(default)]
    pub direct_seconds: f64,
    /// Bytes that storage delivered for the cached run; `None` if the kernel does not count them.
    pub cached_device_bytes: Option<u64>,
    /// Bytes that storage delivered for the direct run.
    pub direct_device_bytes: Option<u64>,
}

/// The runs behind one row, in the order in which they were made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Samples {
    /// Bytes of each read call.
    #[serde(default)]
    pub step_bytes: u64,
    /// The runs through the page cache.
    pub cached: Vec<Usage>,
    /// The runs through direct I/O.
    pub direct: Vec<Usage>,
}

/// The whole result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct IncrementsReport {
    /// One row for each step.
    pub rows: Vec<IncrementsRow>,
    /// The machine and storage that it was measured on.
    pub environment: Environment,
    /// Runs of each row, through the page cache and past it.
    pub runs: usize,
    /// The single runs.
    pub samples: Vec<Samples>,
}

/// The reference: bytes of a step, seconds cached, seconds direct.
pub(crate) const REFERENCE: [(u64, f64, f64); 3] =
    [(1, 1.59, 185.27), (4 << 10, 21.18, 104.31), (10 << 20, 20.59, 6.81)];

/// Creates the files, and measures every row.
///
/// # Errors
/// [`BenchError`]; [`BenchError::NotCold`] where the cache cannot be emptied.
pub fn run(plan: &IncrementsPlan) -> Result<IncrementsReport, BenchError> {
    let size = check(plan)?;
    let scratch = match plan.file {
        Some(_) => None,
        None => Some(Scratch::new(&plan.directory)?),
    };
    let pace = progress::pace(&plan.directory);
    let bytes: u64 = plan.steps.iter().map(|step| row_bytes(*step, size)).sum();
    let making = if plan.file.is_some() { Duration::ZERO } else { time_for(bytes, pace) };
    // Each round reads cached and direct. Small steps are estimated to be ten times as slow.
    let slow: u64 = plan
        .steps
        .iter()
        .filter(|step| **step < SMALL_STEP)
        .map(|step| row_bytes(*step, size))
        .sum();
    let round = time_for(2 * (bytes - slow), pace) + time_for(2 * slow, pace / 10.0);
    progress::begin(plan.steps.len() * plan.runs, making + round * plan.runs as u32);
    let mut files: Vec<(u64, PathBuf)> = Vec::new();
    let (mut rows, mut samples) = (Vec::new(), Vec::new());
    for step in &plan.steps {
        let bytes = row_bytes(*step, size);
        let path = match (&plan.file, &scratch, files.iter().find(|(len, _)| *len == bytes)) {
            (Some(path), ..) => path.clone(),
            (None, _, Some((_, path))) => path.clone(),
            (None, Some(scratch), None) => scratch.random_file(&format!("data-{bytes}"), bytes)?,
            (None, None, None) => unreachable!("without a file there is a directory"),
        };
        files.push((bytes, path.clone()));
        let runs = alternate(&path, *step, bytes, plan)?;
        rows.push(row(&runs, bytes));
        samples.push(runs);
    }
    let (_, path) = files.last().expect("there is at least one step");
    Ok(IncrementsReport { rows, environment: Environment::of(path)?, runs: plan.runs, samples })
}

/// Rejects a plan that measures nothing; returns the number of bytes to read.
fn check(plan: &IncrementsPlan) -> Result<u64, BenchError> {
    let refuse = |text: &str| Err(BenchError::Asked(text.to_owned()));
    if plan.steps.is_empty() || plan.steps.contains(&0) || plan.runs == 0 || plan.size == 0 {
        return refuse("size, steps and runs must be positive");
    }
    match &plan.file {
        Some(path) => {
            match std::fs::metadata(path).map_err(BenchError::system("open", path))?.len() {
                0 => refuse("there is nothing in the file to read"),
                length => Ok(plan.size.min(length)),
            }
        }
        None => Ok(plan.size),
    }
}

/// Bytes that a row reads.
fn row_bytes(step: u64, size: u64) -> u64 {
    if step < SMALL_STEP { size.min(step * MOST_STEPS) } else { size }
}

/// Runs cached, direct, cached, direct, …, each cold, so that a drift of the machine affects both.
fn alternate(
    path: &Path,
    step: u64,
    bytes: u64,
    plan: &IncrementsPlan,
) -> Result<Samples, BenchError> {
    let mut samples = Samples { step_bytes: step, cached: Vec::new(), direct: Vec::new() };
    // The choice of an engine costs each process some time once, so it is made before the runs.
    dio::Io::shared()?;
    let mut buffer = vec![0; usize::try_from(step.min(bytes)).unwrap_or(usize::MAX)];
    for _ in 0..plan.runs {
        progress::step(&format!("steps of {}", size(step)));
        make_cold(path, plan.cold)?;
        samples.cached.push(read_cached(path, &mut buffer, bytes)?);
        make_cold(path, plan.cold)?;
        samples.direct.push(read_direct(path, &mut buffer, bytes)?);
    }
    Ok(samples)
}

/// Reads as a program that calls read(2) for every step. The time includes opening and closing.
fn read_cached(path: &Path, buffer: &mut [u8], bytes: u64) -> Result<Usage, BenchError> {
    let meter = RunMeter::start();
    let mut file = std::fs::File::open(path).map_err(BenchError::system("open", path))?;
    read_all(&mut file, path, buffer, bytes)?;
    drop(file);
    Ok(meter.stop())
}

/// Reads as the same program with the library's stream. The time includes opening and closing too.
fn read_direct(path: &Path, buffer: &mut [u8], bytes: u64) -> Result<Usage, BenchError> {
    let meter = RunMeter::start();
    let file = OpenOptions::new().read(true).mode(Mode::Direct).open(path)?;
    let mut reader = Reader::new(file).map_err(BenchError::system("read", path))?;
    read_all(&mut reader, path, buffer, bytes)?;
    drop(reader);
    Ok(meter.stop())
}

/// Reads `bytes` bytes in steps of the buffer's length and drops them. An early end of the file is
/// an error.
pub(crate) fn read_all(
    from: &mut impl Read,
    path: &Path,
    buffer: &mut [u8],
    bytes: u64,
) -> Result<(), BenchError> {
    let mut left = bytes;
    while left > 0 {
        let want = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let count = from.read(&mut buffer[..want]).map_err(BenchError::system("read", path))?;
        if count == 0 {
            return Err(BenchError::Asked(format!(
                "'{}' ended {left} bytes early",
                path.display()
            )));
        }
        // Keeps the compiler from removing the reads.
        black_box(&buffer[..count]);
        left -= count as u64;
    }
    Ok(())
}

fn row(samples: &Samples, bytes: u64) -> IncrementsRow {
    let wall = |runs: &[Usage]| Summary::of(runs.iter().map(|run| run.wall_seconds)).median;
    let device = |runs: &[Usage]| {
        let counted: Option<Vec<u64>> = runs.iter().map(|run| run.device_bytes).collect();
        counted.map(median_count)
    };
    IncrementsRow {
        step_bytes: samples.step_bytes,
        file_bytes: bytes,
        cached_seconds: wall(&samples.cached),
        direct_seconds: wall(&samples.direct),
        cached_device_bytes: device(&samples.cached),
        direct_device_bytes: device(&samples.direct),
    }
}

/// One step, with the row and its runs.
struct StepRuns<'a> {
    step: &'a IncrementsRow,
    runs: &'a Samples,
}

fn wall(runs: &[Usage]) -> impl Iterator<Item = f64> + '_ {
    runs.iter().map(|run| run.wall_seconds)
}

impl StepRuns<'_> {
    fn name(&self) -> String {
        size(self.step.step_bytes)
    }

    /// Time through the cache divided by that of direct I/O, run by run.
    fn gains(&self) -> Vec<f64> {
        ratios(wall(&self.runs.cached), wall(&self.runs.direct))
    }

    /// The same gain in the reference, if it has this step.
    fn published(&self) -> Option<f64> {
        let found = REFERENCE.iter().find(|(step, ..)| *step == self.step.step_bytes);
        found.map(|(_, cached, direct)| cached / direct)
    }
}

impl Benchmark for IncrementsReport {
    const NAME: &'static str = "increments";
    const FIELDS: &'static [&'static str] = &["rows", "samples"];

    fn section(&self) -> Section {
        let steps: Vec<StepRuns<'_>> = self
            .rows
            .iter()
            .zip(&self.samples)
            .map(|(step, runs)| StepRuns { step, runs })
            .collect();
        let finding = |both: &StepRuns<'_>| {
            let gain = format!("{} as fast", times(Summary::of(both.gains()).median));
            let published = both.published().map(|gain| format!("published {}", times(gain)));
            Finding::new(format!("steps of {}", both.name()), gain, published.unwrap_or_default())
        };
        Section {
            lead: format!(
                "A cold file is read from front to back, each step one call: read(2) through the \
                 page cache, and the library's stream past it, in turns, {} times each. Opening \
                 and closing count.",
                self.runs
            ),
            findings: steps.iter().map(finding).collect(),
            blocks: vec![
                Block::Plots(vec![gains(&steps), elapsed(&steps)]),
                Block::Table(table(&steps)),
            ],
            notes: vec![
                "Published: AIX JFS, 1 MB in steps of 1 B, 1 GB otherwise, where every step was a \
                 request to the disk. Only ratios compare."
                    .to_owned(),
            ],
            ..Section::new(
                IncrementsReport::NAME,
                "Cold sequential reading in small and large steps",
                &self.environment,
            )
        }
    }
}

fn gains(steps: &[StepRuns<'_>]) -> Plot {
    let rows = steps
        .iter()
        .map(|both| plot::Dot::new(both.name(), 4, both.gains()).beside(both.published()));
    let about = "Each dot is a pair of runs, the bar the median; right of the line at 1 direct \
                 reading is faster. Diamonds are published ratios.";
    Plot::ratios("gain", "Cached ÷ direct time", about, "times as fast", rows.collect())
}

fn elapsed(steps: &[StepRuns<'_>]) -> Plot {
    let rows = steps.iter().flat_map(|both| {
        [("cached", 1, &both.runs.cached), ("direct", 4, &both.runs.direct)].map(
            |(way, tone, runs)| {
                plot::Dot::new(format!("{}, {way}", both.name()), tone, wall(runs).collect())
            },
        )
    });
    let about = "Each dot is a run, the bar the median; further left is better.";
    Plot::dots("elapsed", "Elapsed time", about, Unit::Seconds, rows.collect())
}

fn table(steps: &[StepRuns<'_>]) -> Table {
    let cpu = |runs: &[Usage]| Cell::runs(runs.iter().map(|run| run.cpu_seconds));
    let caption = "Medians of the runs, with the least and the greatest";
    Rows::new(("steps", "step"), caption, steps, StepRuns::name)
        .column("of", Unit::Bytes, |both| both.step.file_bytes)
        .column("cached", Unit::Seconds, |both| Cell::runs(wall(&both.runs.cached)))
        .column("direct", Unit::Seconds, |both| Cell::runs(wall(&both.runs.direct)))
        .column("cached ÷ direct", Unit::Times, StepRuns::gains)
        .column("published", Unit::Times, StepRuns::published)
        .column("CPU cached", Unit::Seconds, |both| cpu(&both.runs.cached))
        .column("CPU direct", Unit::Seconds, |both| cpu(&both.runs.direct))
        .column("from the device, cached", Unit::Bytes, |both| both.step.cached_device_bytes)
        .column("direct", Unit::Bytes, |both| both.step.direct_device_bytes)
        .table()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_steps_read_less() {
        assert_eq!(row_bytes(1, 1 << 30), 1 << 20);
        assert_eq!(row_bytes(1, 1000), 1000);
        assert_eq!(row_bytes(4096, 1 << 33), 1 << 33);
    }

    #[test]
    fn every_byte_is_asked_for_once() {
        let mut source: &[u8] = &[7; 1000];
        read_all(&mut source, Path::new("x"), &mut [0; 64], 900).unwrap();
        assert_eq!(source.len(), 100);
        assert!(read_all(&mut source, Path::new("x"), &mut [0; 64], 101).is_err());
    }
}

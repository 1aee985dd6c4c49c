//! Copies a file in 4 KiB blocks, one at a time, and in large blocks, several of them in flight.
//! Both copies use direct I/O and are durable at the end.
//!
//! The reference is the published `cp` on AIX, 1 GB on a direct file system: 521 s in its own 4 KB
//! requests, 23.9 s in requests of 8 MB. The rows copy different amounts (the small blocks would
//! take minutes), so throughput is compared.

use std::path::{Path, PathBuf};

use dio::transfer::{Copier, CopierJob, NoWatch};
use dio::{File, Io, OpenOptions};
use serde::{Deserialize, Serialize};

use crate::BenchError;
use crate::cold::{EmptiedCaches, make_cold, resident_pages};
use crate::data::Scratch;
use crate::environment::Environment;
use crate::measure::{RunMeter, Usage};
use crate::plot::{self, Plot};
use crate::progress::{self, time_for};
use crate::quantity::Unit;
use crate::section::{Benchmark, Block, Cell, Finding, Rows, Section, times};
use crate::stats::{Summary, number};
use dio_common::units::size;
use std::time::Duration;

/// Bytes of a small block: the request size of the reference's `cp`.
const SMALL_BLOCK: usize = 4096;

/// Seconds of the reference: in small requests (521 s) and in large ones (23.9 s).
pub(crate) const REFERENCE_SECONDS: (f64, f64) = (521.0, 23.9);

/// The measurements to make.
#[derive(Clone, Debug)]
pub struct CopyPlan {
    /// Bytes copied in large blocks.
    pub size: u64,
    /// Bytes copied in small blocks.
    pub small_size: u64,
    /// Bytes of a large block.
    pub block: usize,
    /// Large blocks in flight.
    pub depth: usize,
    /// The directory in which source and target are created.
    pub directory: PathBuf,
    /// An existing file to copy instead.
    pub file: Option<PathBuf>,
    /// Runs of each row.
    pub runs: usize,
    /// The caches that are emptied before each run.
    pub cold: EmptiedCaches,
}

/// One block size and depth, with the medians of its runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CopyRow {
    /// Bytes of a block.
    pub block_bytes: u64,
    /// Blocks in flight.
    pub depth: u64,
    /// Bytes copied.
    pub file_bytes: u64,
    /// Elapsed seconds, until the target is durable.
    #[serde(default)]
    pub seconds: f64,
    /// CPU seconds of the process, kernel time included.
    #[serde(default)]
    pub cpu_seconds: f64,
    /// CPU seconds for each GiB (2^30 bytes) copied.
    #[serde(default, deserialize_with = "number")]
    pub cpu_seconds_per_gib: f64,
    /// Bytes copied in a second.
    #[serde(default, deserialize_with = "number")]
    pub bytes_per_second: f64,
    /// Read requests, of the last run.
    pub read_requests: u64,
    /// Write requests, of the last run.
    pub write_requests: u64,
    /// Pages of the source in the cache after a run; the most of all runs.
    pub source_pages_after: u64,
    /// Pages of the target in the cache after a run; the most of all runs.
    pub target_pages_after: u64,
    /// The single runs.
    pub samples: Vec<Usage>,
}

/// The whole result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CopyReport {
    /// Small blocks, then large ones.
    pub rows: Vec<CopyRow>,
    /// Throughput of the large blocks divided by that of the small ones.
    #[serde(deserialize_with = "number")]
    pub gain: f64,
    /// The machine and storage that it was measured on.
    pub environment: Environment,
    /// Runs of each row.
    pub runs: usize,
}

/// The measurements of one copy.
struct Copied {
    usage: Usage,
    requests: (u64, u64),
    pages: (u64, u64),
}

/// Copies with small and with large blocks in turns.
///
/// # Errors
/// [`BenchError`]; [`BenchError::NotCold`] where the cache cannot be emptied.
pub fn run(plan: &CopyPlan) -> Result<CopyReport, BenchError> {
    if plan.runs == 0
        || plan.size == 0
        || plan.small_size == 0
        || plan.depth == 0
        || plan.block < SMALL_BLOCK
    {
        return Err(BenchError::Asked(
            "sizes, runs and depth must be positive, and a block at least 4K".to_owned(),
        ));
    }
    let pace = progress::pace(&plan.directory);
    // Small blocks, one at a time, reach some 50 MB/s on the fastest disks.
    let round = time_for(2 * plan.size, pace) + time_for(2 * plan.small_size, pace.min(5e7));
    let making = if plan.file.is_some() { Duration::ZERO } else { time_for(plan.size, pace) };
    progress::begin(2 * plan.runs, making + round * plan.runs as u32);
    let scratch = Scratch::new(&plan.directory)?;
    let source = match &plan.file {
        Some(path) => path.clone(),
        None => scratch.random_file("source", plan.size.max(plan.small_size))?,
    };
    let target = scratch.path("target");
    let length = std::fs::metadata(&source).map_err(BenchError::system("open", &source))?.len();
    let ways = [
        (SMALL_BLOCK, 1, plan.small_size.min(length)),
        (plan.block, plan.depth, plan.size.min(length)),
    ];
    let mut copies = [Vec::new(), Vec::new()];
    for _ in 0..plan.runs {
        for ((block, depth, bytes), copies) in ways.iter().zip(&mut copies) {
            progress::step(&format!("blocks of {}", size(*block as u64)));
            make_cold(&source, plan.cold)?;
            copies.push(copy(&source, &target, *block, *depth, *bytes)?);
            std::fs::remove_file(&target).map_err(BenchError::system("remove", &target))?;
        }
    }
    let rows: Vec<CopyRow> =
        ways.iter().zip(copies).map(|(way, copies)| row(*way, &copies)).collect();
    let gain = rows[1].bytes_per_second / rows[0].bytes_per_second;
    Ok(CopyReport { rows, gain, environment: Environment::of(&source)?, runs: plan.runs })
}

/// Makes one copy as a program would: the time covers everything from opening to the sync of the
/// target.
fn copy(
    source: &Path,
    target: &Path,
    block: usize,
    depth: usize,
    bytes: u64,
) -> Result<Copied, BenchError> {
    let io = Io::shared()?;
    let meter = RunMeter::start();
    let from = File::open(source)?;
    let to = OpenOptions::new().write(true).create_new(true).open(target)?;
    // If the file system cannot reserve space, the size alone is set, so that no write extends the
    // file.
    if to.allocate(0..bytes, true).is_err() {
        to.set_size(bytes)?;
    }
    let mut copier = Copier::new(&io, block, depth)?;
    let all = 0..bytes;
    copier.run(
        &CopierJob {
            source: &from,
            target: Some(&to),
            ranges: std::slice::from_ref(&all),
            pace: None,
            skip_zeros: false,
        },
        &mut NoWatch,
    )?;
    to.sync_all()?;
    drop(copier);
    let requests = (from.counters().read_requests, to.counters().write_requests);
    drop((from, to));
    let usage = meter.stop();
    Ok(Copied { usage, requests, pages: (resident_pages(source)?, resident_pages(target)?) })
}

fn row((block, depth, bytes): (usize, usize, u64), copies: &[Copied]) -> CopyRow {
    let median =
        |of: fn(&Usage) -> f64| Summary::of(copies.iter().map(|copy| of(&copy.usage))).median;
    let (wall, cpu) = (median(|usage| usage.wall_seconds), median(|usage| usage.cpu_seconds));
    let (read_requests, write_requests) = copies.last().map_or((0, 0), |copy| copy.requests);
    let most = |of: fn(&Copied) -> u64| copies.iter().map(of).max().unwrap_or(0);
    CopyRow {
        block_bytes: block as u64,
        depth: depth as u64,
        file_bytes: bytes,
        seconds: wall,
        cpu_seconds: cpu,
        cpu_seconds_per_gib: cpu / (bytes as f64 / f64::from(1 << 30)),
        bytes_per_second: bytes as f64 / wall,
        read_requests,
        write_requests,
        source_pages_after: most(|copy| copy.pages.0),
        target_pages_after: most(|copy| copy.pages.1),
        samples: copies.iter().map(|copy| copy.usage).collect(),
    }
}

impl CopyRow {
    fn rates(&self) -> Vec<f64> {
        self.samples.iter().map(|run| self.file_bytes as f64 / run.wall_seconds).collect()
    }
}

impl Benchmark for CopyReport {
    const NAME: &'static str = "copy";
    const FIELDS: &'static [&'static str] = &["rows", "gain"];

    fn section(&self) -> Section {
        let (small, large) = REFERENCE_SECONDS;
        let dots = |(tone, row): (usize, &CopyRow)| {
            let name = format!("blocks of {}, {} in flight", size(row.block_bytes), row.depth);
            plot::Dot::new(name, [1, 4][tone % 2], row.rates())
        };
        let about = "Bytes copied per second, until the target is durable: each dot is a run, the \
                     bar the median.";
        let dots = self.rows.iter().enumerate().map(dots).collect();
        let plot = Plot::dots("throughput", "Throughput", about, Unit::BytesPerSecond, dots);
        let gain = format!("{} the throughput", times(self.gain));
        let finding = Finding::new(
            "large blocks in flight",
            gain,
            format!("published {}", times(small / large)),
        );
        Section {
            lead: format!(
                "A cold file is copied past the page cache in blocks of 4 KiB, one at a time, and \
                 in large blocks, several in flight, in turns, {} times each. Both end when the \
                 target is durable; they copy different amounts.",
                self.runs
            ),
            findings: self.gain.is_finite().then_some(finding).into_iter().collect(),
            blocks: vec![Block::Plots(vec![plot]), Block::Table(self.table())],
            notes: vec![format!(
                "Published: cp of 1 GB on AIX, {small} s in requests of 4 KB, {large} s in those \
                 of 8 MB."
            )],
            ..Section::new(
                CopyReport::NAME,
                "Copying in small and in large blocks",
                &self.environment,
            )
        }
    }
}

impl CopyReport {
    fn table(&self) -> crate::section::Table {
        let caption = "Medians of the runs, with the least and the greatest";
        let name = |row: &CopyRow| format!("{} × {}", size(row.block_bytes), row.depth);
        let per_gibibyte = |row: &CopyRow| {
            let gibibytes = row.file_bytes as f64 / f64::from(1 << 30);
            Cell::runs(row.samples.iter().map(|run| run.cpu_seconds / gibibytes))
        };
        Rows::new(("ways", "block × depth"), caption, &self.rows, name)
            .column("of", Unit::Bytes, |row| row.file_bytes)
            .column("elapsed", Unit::Seconds, |row| {
                Cell::runs(row.samples.iter().map(|run| run.wall_seconds))
            })
            .column("throughput", Unit::BytesPerSecond, CopyRow::rates)
            .column("CPU per GiB", Unit::Seconds, per_gibibyte)
            .column("read requests", Unit::Count, |row| row.read_requests)
            .column("write requests", Unit::Count, |row| row.write_requests)
            .column("pages left of the source", Unit::Count, |row| row.source_pages_after)
            .column("of the target", Unit::Count, |row| row.target_pages_after)
            .table()
    }
}

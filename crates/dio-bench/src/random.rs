//! Measures random aligned reads through a queue: the rate of requests, their latency, and the CPU
//! time of each.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use dio::block::Pool;
use dio::engine::{EngineKind, Null, NullMedium, Selection, Uring};
use dio::geometry::Geometry;
use dio::queue::Queue;
use dio::{File, Io, Limits, Mode, Need, OpenOptions};
use serde::{Deserialize, Serialize};

use crate::BenchError;
use crate::data::{Random, Scratch};
use crate::environment::Environment;
use crate::histogram::{Histogram, Latency};
use crate::measure::RunMeter;
use crate::plot::{self, Plot, Series};
use crate::progress::{self, time_for};
use crate::quantity::Unit;
use crate::section::{Benchmark, Block, Cell, Finding, Rows, Section, Table};
use crate::stats::{Summary, number};
use crate::study::Bucket;
use crate::study::plots::{distribution, distribution_plot};
use dio_common::units::{seconds, size};

/// The measurements to make.
#[derive(Clone, Debug)]
pub struct RandomPlan {
    /// Bytes of the file; for an existing file, the most bytes to spread the reads over.
    pub size: u64,
    /// Bytes of each read.
    pub block: usize,
    /// Numbers of reads in flight, one row for each.
    pub depths: Vec<usize>,
    /// Duration of each run.
    pub time: Duration,
    /// Runs of each row.
    pub runs: usize,
    /// How the file is opened: direct or concurrent.
    pub mode: Mode,
    /// The engine; `None` to let the library choose.
    pub engine: Option<EngineKind>,
    /// Whether a null engine completes every read at once without reading, which measures the
    /// harness.
    pub null: bool,
    /// The directory in which the file is created.
    pub directory: PathBuf,
    /// An existing file to read instead.
    pub file: Option<PathBuf>,
}

/// The results of one depth: medians of its runs, and the latencies of all runs together.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RandomRow {
    /// Bytes of each read.
    pub block_bytes: u64,
    /// Reads in flight.
    pub depth: u64,
    /// Reads per second.
    pub reads_per_second: f64,
    /// Bytes per second.
    #[serde(default, deserialize_with = "number")]
    pub bytes_per_second: f64,
    /// CPU seconds of the process for each read, kernel time included.
    #[serde(deserialize_with = "number")]
    pub cpu_seconds_per_read: f64,
    /// Seconds from the call that queues a read to the return of the call that hands out its
    /// completion.
    pub latency: Latency,
    /// The distribution of the latencies.
    #[serde(default)]
    pub histogram: Vec<Bucket>,
    /// Reads per second of the single runs.
    pub samples: Vec<f64>,
}

/// The whole result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RandomReport {
    /// One row for each depth.
    pub rows: Vec<RandomRow>,
    /// How the file was opened.
    pub mode: String,
    /// The engine that ran the reads.
    pub engine: String,
    /// Bytes of the file over which the reads are spread.
    pub file_bytes: u64,
    /// Runs of each row.
    pub runs: usize,
    /// The machine and storage that it was measured on.
    pub environment: Environment,
}

/// One run.
struct RandomRun {
    reads: u64,
    wall: f64,
    cpu: f64,
}

/// Measures all depths in turns.
///
/// # Errors
/// [`BenchError`]; EOPNOTSUPP if the file system has no direct I/O.
pub fn run(plan: &RandomPlan) -> Result<RandomReport, BenchError> {
    let bad =
        plan.runs == 0 || plan.depths.is_empty() || plan.depths.contains(&0) || plan.block == 0;
    if bad || plan.time.is_zero() {
        return Err(BenchError::Asked("runs, depths, block and time must be positive".to_owned()));
    }
    let made = if plan.file.is_some() || plan.null { 0 } else { plan.size };
    let runs = plan.runs * plan.depths.len();
    let making = time_for(made, progress::pace(&plan.directory));
    progress::begin(runs, making + plan.time * runs as u32);
    let scratch = Scratch::new(&plan.directory)?;
    let path = match (&plan.file, plan.null) {
        (Some(path), _) => path.clone(),
        // The null engine needs a file only for its alignment.
        (None, true) => scratch.random_file("data", 1 << 20)?,
        (None, false) => scratch.random_file("data", plan.size)?,
    };
    let io = engine(plan)?;
    let file = Arc::new(open(plan, &io, &path)?);
    settle_trial(&file, plan.block)?;
    let blocks = plan.size.min(file.size()?) / plan.block as u64;
    if blocks == 0 || plan.block as u64 % file.block_align() != 0 {
        let text = format!(
            "a block must be a multiple of {} and fit into the file",
            size(file.block_align())
        );
        return Err(BenchError::Asked(text));
    }
    let mut results: Vec<(Vec<RandomRun>, Histogram)> =
        plan.depths.iter().map(|_| Default::default()).collect();
    for round in 0..plan.runs {
        for (depth, (runs, histogram)) in plan.depths.iter().zip(&mut results) {
            progress::step(&format!("depth {depth}"));
            let load =
                Load { file: &file, block: plan.block, blocks, depth: *depth, time: plan.time };
            runs.push(load.run(&io, round as u64, histogram)?);
        }
    }
    let environment =
        Environment { engine: io.engine_name().to_owned(), ..Environment::of(&path)? };
    let rows = plan
        .depths
        .iter()
        .zip(&results)
        .map(|(depth, (runs, latency))| row(plan.block, *depth, runs, latency));
    Ok(RandomReport {
        rows: rows.collect(),
        mode: plan.mode.name().to_owned(),
        engine: io.engine_name().to_owned(),
        file_bytes: blocks * plan.block as u64,
        runs: plan.runs,
        environment,
    })
}

fn engine(plan: &RandomPlan) -> Result<Io, BenchError> {
    if plan.null {
        return Ok(Io::with_engine(Limits::default(), "null", |depth| Box::new(Null::new(depth)))?);
    }
    match plan.engine {
        None => Ok(Io::new(Limits::default())?),
        Some(kind) => {
            // Without this check the library would fall back to threads, and the report would name
            // the wrong engine.
            if kind == EngineKind::Uring {
                Uring::new(1).map_err(|error| BenchError::Asked(error.to_string()))?;
            }
            let selection = Selection { kind, reason: None };
            let name = selection.name();
            Ok(Io::with_engine(Limits::default(), name, move |depth| selection.engine(depth))?)
        }
    }
}

fn open(plan: &RandomPlan, io: &Io, path: &Path) -> Result<File, BenchError> {
    let mut options = OpenOptions::new();
    options.read(true).mode(plan.mode).need(Need::Required).io(io);
    let file = options.open(path)?;
    if !plan.null {
        return Ok(file);
    }
    let medium = Arc::new(NullMedium { size: plan.size });
    let geometry: Geometry = *file.geometry();
    Ok(options.open_medium(path, medium, geometry)?)
}

/// Makes one read outside the queue. If the kernel does not report whether direct I/O is really
/// direct, the library finds out by this read.
fn settle_trial(file: &File, block: usize) -> Result<(), BenchError> {
    let pool = Pool::new(block, 1).map_err(BenchError::system("map memory for", file.path()))?;
    let mut memory = pool.try_take().expect("nobody else takes from this pool");
    file.read_at(memory.bytes_mut(), 0)?;
    Ok(())
}

/// The reads of one run.
struct Load<'a> {
    file: &'a Arc<File>,
    block: usize,
    /// Number of blocks in the file.
    blocks: u64,
    depth: usize,
    time: Duration,
}

impl Load<'_> {
    /// Keeps `depth` reads in flight until the time is over. The memory of a finished read is used
    /// for the next read at once.
    fn run(&self, io: &Io, seed: u64, histogram: &mut Histogram) -> Result<RandomRun, BenchError> {
        let failed = BenchError::system("read", self.file.path());
        let mut queue = Queue::new(io, self.block, self.depth)
            .map_err(BenchError::system("queue reads of", self.file.path()))?;
        let mut random = Random::new(seed);
        let mut started = vec![Instant::now(); self.depth];
        let mut completions = Vec::with_capacity(self.depth);
        let meter = RunMeter::start();
        let begin = Instant::now();
        let mut now = begin;
        for (tag, started) in started.iter_mut().enumerate() {
            let block = queue.block().expect("the queue has a block for each read in flight");
            *started = now;
            let offset = random.below(self.blocks) * self.block as u64;
            queue
                .read(self.file, block, offset, self.block, tag as u64)
                .map_err(|refused| refused.error)?;
        }
        let mut reads = 0;
        while queue.in_flight() > 0 {
            if let Err(error) = queue.wait(1, &mut completions) {
                return Err(failed(error));
            }
            now = Instant::now();
            let go_on = now - begin < self.time;
            for done in completions.drain(..) {
                done.outcome?;
                let tag = done.tag as usize;
                histogram.add((now - started[tag]).as_nanos() as u64);
                reads += 1;
                if go_on {
                    started[tag] = now;
                    let offset = random.below(self.blocks) * self.block as u64;
                    queue
                        .read(self.file, done.block, offset, self.block, done.tag)
                        .map_err(|refused| refused.error)?;
                }
            }
        }
        let usage = meter.stop();
        Ok(RandomRun { reads, wall: usage.wall_seconds, cpu: usage.cpu_seconds })
    }
}

fn row(block: usize, depth: usize, runs: &[RandomRun], histogram: &Histogram) -> RandomRow {
    let samples: Vec<f64> = runs.iter().map(|run| run.reads as f64 / run.wall).collect();
    let reads_per_second = Summary::of(samples.iter().copied()).median;
    RandomRow {
        block_bytes: block as u64,
        depth: depth as u64,
        reads_per_second,
        bytes_per_second: reads_per_second * block as f64,
        cpu_seconds_per_read: Summary::of(runs.iter().map(|run| run.cpu / run.reads as f64)).median,
        latency: histogram.latency(),
        histogram: histogram.spread(),
        samples,
    }
}

impl RandomRow {
    fn name(&self) -> String {
        format!("{} in flight", self.depth)
    }
}

impl Benchmark for RandomReport {
    const NAME: &'static str = "random";
    const FIELDS: &'static [&'static str] = &["rows", "mode", "engine"];

    fn section(&self) -> Section {
        let scale = Unit::PerSecond.scale(self.rows.iter().map(|row| row.reads_per_second));
        let finding = |row: &RandomRow| {
            let note =
                format!("p50 {}, p99 {}", seconds(row.latency.p50), seconds(row.latency.p99));
            Finding::new(row.name(), scale.show(row.reads_per_second), note)
        };
        let mut notes = Vec::new();
        if self.engine == "null" {
            notes.push(
                "Nothing was read: this is the cost of the harness and the library alone."
                    .to_owned(),
            );
        }
        Section {
            lead: format!(
                "Aligned reads of {} at random places among {}, mode {}, engine {}; {} runs of \
                 each depth, in turns. Latency is from queueing a read until it is given back, of \
                 all runs.",
                size(self.rows.first().map_or(0, |row| row.block_bytes)),
                size(self.file_bytes),
                self.mode,
                self.engine,
                self.runs
            ),
            findings: self.rows.iter().map(finding).collect(),
            blocks: vec![Block::Plots(self.plots()), Block::Table(self.table())],
            notes,
            ..Section::new(RandomReport::NAME, "Random reads through a queue", &self.environment)
        }
    }
}

impl RandomReport {
    fn plots(&self) -> Vec<Plot> {
        let rates = self.rows.iter().enumerate();
        let rates = rates
            .map(|(tone, row)| plot::Dot::new(row.name(), tone, row.samples.clone()))
            .collect();
        let about =
            "Reads per second by how many are in flight: each dot is a run, the bar the median.";
        let mut plots = vec![Plot::dots("rate", "Reads", about, Unit::PerSecond, rates)];
        let series = self.rows.iter().enumerate().filter_map(|(tone, row)| {
            Some(Series {
                name: row.name(),
                tone,
                points: distribution([&row.histogram[..]].into_iter())?,
            })
        });
        let series: Vec<Series> = series.collect();
        if !series.is_empty() {
            plots.push(distribution_plot("latency", "Latency of reads".to_owned(), series));
        }
        plots
    }

    fn table(&self) -> Table {
        let caption = "Reads and their latency; rates are medians, with the least and the greatest";
        let throughput = |row: &RandomRow| {
            Cell::runs(row.samples.iter().map(|rate| rate * row.block_bytes as f64))
        };
        Rows::new(("depths", "in flight"), caption, &self.rows, |row| row.depth.to_string())
            .column("reads", Unit::PerSecond, |row| row.samples.clone())
            .column("throughput", Unit::BytesPerSecond, throughput)
            .column("CPU per read", Unit::Seconds, |row| row.cpu_seconds_per_read)
            .column("p50", Unit::Seconds, |row| row.latency.p50)
            .column("p99", Unit::Seconds, |row| row.latency.p99)
            .column("p99.9", Unit::Seconds, |row| row.latency.p999)
            .column("longest", Unit::Seconds, |row| row.latency.max)
            .table()
    }
}

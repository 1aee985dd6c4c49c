//! The library's streams against the page cache, where direct I/O used to lose: small steps, many streams in one file, and
//! random reads, which no read-ahead may slow down.
//!
//! Every workload has several ways to do the same; the first is the stream. They take turns, each run beginning with
//! another one, and each starts cold.

mod many;
mod random;
mod steps;

use std::path::{Path, PathBuf};

use dio::File;
use dio::stream::ReadStats;
use serde::{Deserialize, Serialize};

use crate::BenchError;
use crate::cold::{Cold, resident_pages};
use crate::data::Scratch;
use crate::environment::Environment;
use crate::measure::Usage;
use crate::plot::{self, Plot};
use crate::progress::{self, time_for};
use crate::quantity::Unit;
use crate::section::{Benchmark, Block, Cell, Finding, Rows, Section, Table, slug};
use crate::stats::{Summary, number, ratios};
use dio_common::units::size;
use std::time::Duration;

/// A group of workloads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Reading a file from front to back in steps.
    #[default]
    Read,
    /// Writing a new file from front to back in steps, durable at the end.
    Write,
    /// Many sequential streams in one file, in turns.
    Many,
    /// Reading 4 KiB at random places.
    Random,
}

/// The measurements to make.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The workloads.
    pub parts: Vec<Part>,
    /// Bytes that each workload reads or writes, or among which random reads are spread; of an existing file, at most so
    /// much.
    pub size: u64,
    /// Bytes of a workload whose every small step costs a system call.
    pub small_size: u64,
    /// Bytes of each step of reading and writing.
    pub steps: Vec<u64>,
    /// Streams in one file.
    pub streams: usize,
    /// Bytes read from a stream before it is the next one's turn.
    pub piece: u64,
    /// Bytes of memory for each of many streams, the block with the consumer included.
    pub stream_memory: usize,
    /// Random reads of each way and run.
    pub reads: u64,
    /// The directory in which files are made.
    pub directory: PathBuf,
    /// An existing file to read instead; what is written is made in `directory`.
    pub file: Option<PathBuf>,
    /// Runs of each way.
    pub runs: usize,
    /// The number of the first run: it decides which way begins, and what is read at random.
    pub round: usize,
    /// What is made cold before each run.
    pub cold: Cold,
}

/// One run of one way.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Run {
    /// Time, CPU time, bytes from the device.
    #[serde(flatten)]
    pub usage: Usage,
    /// Bytes that were read and not asked for: the greatest of what the counters of the device, the file and the streams
    /// tell. The first two cannot see bytes in vain behind others that were kept and asked for again, the last misses
    /// what is in flight. `None` where nothing counts them, and for writing.
    pub in_vain_bytes: Option<u64>,
    /// Bytes of the streams' buffers; `None` for ways without the library.
    pub buffer_bytes: Option<u64>,
    /// Pages of the file in the page cache afterwards.
    #[serde(default)]
    pub pages_after: u64,
}

/// One way to do a workload.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Way {
    /// Its name.
    pub name: String,
    /// Elapsed seconds, median.
    #[serde(default)]
    pub seconds: f64,
    /// CPU seconds of the process, kernel time included, median.
    #[serde(default)]
    pub cpu_seconds: f64,
    /// Bytes per second at the median.
    #[serde(default, deserialize_with = "number")]
    pub bytes_per_second: f64,
    /// Steps per second at the median: calls of the program, whatever the requests to the device.
    #[serde(default, deserialize_with = "number")]
    pub steps_per_second: f64,
    /// Elapsed time of the stream divided by this way's, run by run, the median of that: below 1 the stream is faster.
    #[serde(deserialize_with = "number")]
    pub stream_ratio: f64,
    /// Bytes read in vain for each byte asked for; the worst run.
    pub in_vain_part: Option<f64>,
    /// Bytes of the streams' buffers.
    pub buffer_bytes: Option<u64>,
    /// Pages of the file in the page cache afterwards; the most of all runs.
    pub pages_after: u64,
    /// The single runs.
    pub samples: Vec<Run>,
}

/// One workload.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Workload {
    /// What is done.
    pub name: String,
    /// The group it belongs to.
    #[serde(default)]
    pub part: Part,
    /// Bytes of each step.
    pub step_bytes: u64,
    /// Bytes read or written in all.
    pub bytes: u64,
    /// The stream, then the ways to compare it with.
    pub ways: Vec<Way>,
}

/// The whole result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// The workloads, in the order of [`Part`].
    pub workloads: Vec<Workload>,
    /// Where it was measured.
    pub environment: Environment,
    /// Runs of each way.
    pub runs: usize,
}

/// Measures every workload asked for.
///
/// # Errors
/// [`BenchError`]; [`BenchError::NotCold`] where the cache cannot be emptied.
pub fn run(plan: &Plan) -> Result<Report, BenchError> {
    let size = check(plan)?;
    // What a process pays once, whatever it reads: the choice of an engine.
    dio::Io::shared()?;
    let (runs, time) = plan.expected(size, progress::pace(&plan.directory));
    progress::begin(runs, time);
    let scratch = Scratch::new(&plan.directory)?;
    let source = match &plan.file {
        Some(path) => path.clone(),
        None if plan.parts.iter().any(|part| *part != Part::Write) => scratch.random_file("source", size)?,
        // Only to learn where it is.
        None => scratch.random_file("source", 1)?,
    };
    let mut workloads = Vec::new();
    if plan.parts.contains(&Part::Read) {
        steps::read(plan, &source, size, &mut workloads)?;
    }
    if plan.parts.contains(&Part::Write) {
        steps::write(plan, &scratch.path("target"), size, &mut workloads)?;
    }
    if plan.parts.contains(&Part::Many) {
        workloads.push(many::read(plan, &source, size)?);
    }
    if plan.parts.contains(&Part::Random) {
        workloads.push(random::read(plan, &source, size)?);
    }
    Ok(Report { workloads, environment: Environment::of(&source)?, runs: plan.runs })
}

impl Plan {
    /// How many runs there are, and about how long they take, where the disk moves `pace` bytes a second.
    fn expected(&self, size: u64, pace: f64) -> (usize, Duration) {
        let (mut ways, mut time) = (0, time_for(size, pace));
        // Steps of single bytes cost the processor some 5 ns each, and others some 200.
        let stepping = |step: u64, bytes: u64| {
            let each = if step < 64 { 5e-9 } else { 2e-7 };
            time_for(bytes, pace) + Duration::from_secs_f64(bytes as f64 / step as f64 * each)
        };
        let bytes_of = |step: u64| if step == 1 { size.min(self.small_size) } else { size };
        for part in &self.parts {
            let (count, each) = match part {
                Part::Read | Part::Write => {
                    (2 * self.steps.len(), self.steps.iter().map(|step| 2 * stepping(*step, bytes_of(*step))).sum())
                }
                Part::Many => (3, 3 * time_for(size, pace)),
                // One after the other, each waits some 0.2 ms.
                Part::Random => (2, Duration::from_secs_f64(2.0 * self.reads as f64 * 2e-4)),
            };
            ways += count;
            time += each * self.runs as u32;
        }
        (ways * self.runs, time)
    }
}

/// Refuses what measures nothing; returns how many bytes there are to work on.
fn check(plan: &Plan) -> Result<u64, BenchError> {
    let refuse = |text: String| Err(BenchError::Asked(text));
    let counts = [plan.size, plan.small_size, plan.piece, plan.reads, plan.streams as u64, plan.runs as u64];
    if counts.contains(&0) || plan.parts.is_empty() || plan.steps.is_empty() || plan.steps.contains(&0) {
        return refuse("sizes, steps, streams, reads and runs must be positive".to_owned());
    }
    let size = match &plan.file {
        Some(path) => plan.size.min(std::fs::metadata(path).map_err(BenchError::system("open", path))?.len()),
        None => plan.size,
    };
    if size == 0 {
        return refuse("there is nothing in the file to read".to_owned());
    }
    if plan.parts.contains(&Part::Many) && size / (plan.streams as u64) < plan.piece {
        return refuse(format!("{} is too small for {} streams", self::size(size), plan.streams));
    }
    if plan.parts.contains(&Part::Random) && size < random::BLOCK {
        return refuse("random reads need a file of 4K or more".to_owned());
    }
    Ok(size)
}

/// A way that is to run, with its name.
type Runner<'a> = (&'static str, Box<dyn FnMut() -> Result<Run, BenchError> + 'a>);

/// The runs of each way, made in turns: A B C, B C A, …, so that neither a drift of the machine nor what one way leaves
/// behind always hits the same one.
fn in_turns(plan: &Plan, ways: &mut [Runner<'_>]) -> Result<Vec<(&'static str, Vec<Run>)>, BenchError> {
    let mut results: Vec<_> = ways.iter().map(|(name, _)| (*name, Vec::new())).collect();
    for run in 0..plan.runs {
        for turn in 0..ways.len() {
            let index = (plan.round + run + turn) % ways.len();
            progress::step(ways[index].0);
            results[index].1.push(ways[index].1()?);
        }
    }
    Ok(results)
}

/// What the library counted in a run.
#[derive(Clone, Copy)]
struct Counted {
    /// Bytes read from the file.
    file: u64,
    /// Bytes that streams read and nobody asked for.
    streams: u64,
}

impl Counted {
    /// The counters of a file whose streams are gone; `stats` are the last of each.
    fn of(file: &File, stats: impl IntoIterator<Item = ReadStats>) -> Counted {
        let streams = stats.into_iter().map(|stats| stats.unused + stats.ahead).sum();
        Counted { file: file.counters().read.total(), streams }
    }
}

impl Run {
    /// A run that read `bytes` of a file that is closed now.
    fn read(usage: Usage, bytes: u64, path: &Path, counted: Option<Counted>) -> Result<Run, BenchError> {
        let beyond = [usage.device_bytes, counted.map(|counted| counted.file)].into_iter().flatten();
        let in_vain = beyond.map(|read| read.saturating_sub(bytes)).chain(counted.map(|counted| counted.streams));
        Ok(Run { usage, in_vain_bytes: in_vain.max(), buffer_bytes: None, pages_after: resident_pages(path)? })
    }

    fn with_buffers(self, bytes: usize) -> Run {
        Run { buffer_bytes: Some(bytes as u64), ..self }
    }
}

impl Workload {
    fn new(name: String, part: Part, (step, bytes): (u64, u64), runs: Vec<(&'static str, Vec<Run>)>) -> Workload {
        let stream: Vec<f64> = runs[0].1.iter().map(|run| run.usage.wall_seconds).collect();
        let ways = runs.into_iter().map(|(name, samples)| Way::new(name, (step, bytes), samples, &stream));
        Workload { name, part, step_bytes: step, bytes, ways: ways.collect() }
    }
}

impl Way {
    fn new(name: &'static str, (step, bytes): (u64, u64), samples: Vec<Run>, stream: &[f64]) -> Way {
        let median = |of: fn(&Usage) -> f64| Summary::of(samples.iter().map(|run| of(&run.usage))).median;
        let wall = median(|usage| usage.wall_seconds);
        let ratios = samples.iter().zip(stream).map(|(run, stream)| stream / run.usage.wall_seconds);
        let in_vain: Option<Vec<u64>> = samples.iter().map(|run| run.in_vain_bytes).collect();
        Way {
            name: name.to_owned(),
            seconds: wall,
            cpu_seconds: median(|usage| usage.cpu_seconds),
            bytes_per_second: bytes as f64 / wall,
            steps_per_second: bytes.div_ceil(step) as f64 / wall,
            stream_ratio: Summary::of(ratios).median,
            in_vain_part: in_vain.and_then(|bytes| bytes.into_iter().max()).map(|worst| worst as f64 / bytes as f64),
            buffer_bytes: samples.iter().filter_map(|run| run.buffer_bytes).max(),
            pages_after: samples.iter().map(|run| run.pages_after).max().unwrap_or(0),
            samples,
        }
    }
}

impl Way {
    fn wall(&self) -> impl Iterator<Item = f64> + '_ {
        self.samples.iter().map(|run| run.usage.wall_seconds)
    }
}

impl Benchmark for Report {
    const NAME: &'static str = "streams";
    const FIELDS: &'static [&'static str] = &["workloads", "runs"];

    fn section(&self) -> Section {
        let finding = |workload: &Workload| {
            let peer = workload.ways.get(1).filter(|peer| peer.stream_ratio.is_finite())?;
            let value = format!("{:.2} of the time", peer.stream_ratio);
            Some(Finding::new(workload.name.clone(), value, format!("stream ÷ {}", peer.name)))
        };
        let mut blocks = vec![Block::Plots(self.workloads.iter().map(Workload::plot).collect())];
        blocks.extend(self.workloads.iter().map(|workload| Block::Table(workload.table())));
        Section {
            lead: format!(
                "Every workload is done in several ways, each starting cold, in turns, {} times each. The first way is the \
                 library's stream, which the others are compared with. Writing ends durable.",
                self.runs
            ),
            findings: self.workloads.iter().filter_map(finding).collect(),
            blocks,
            notes: vec![
                "In vain: bytes read beyond those asked for, as a part of those asked for; the worst run. Pages left: resident \
                 pages of the file afterwards; the most of all runs."
                    .to_owned(),
            ],
            ..Section::new(Report::NAME, "The library's streams against the page cache", &self.environment)
        }
    }
}

impl Workload {
    fn plot(&self) -> Plot {
        let row = |(place, way): (usize, &Way)| {
            plot::Row::new(way.name.clone(), [4, 1, 3, 5, 2][place % 5], way.wall().collect())
        };
        let about = format!("Elapsed time for {}: each dot is a run, the bar the median.", size(self.bytes));
        let rows = self.ways.iter().enumerate().map(row).collect();
        Plot::dots(slug(&self.name), self.name.clone(), &about, Unit::Seconds, rows)
    }

    fn table(&self) -> Table {
        let name = format!("{}-ways", slug(&self.name));
        let caption = format!("{}, {}", self.name, size(self.bytes));
        let steps = self.bytes.div_ceil(self.step_bytes.max(1)) as f64;
        let stream = || self.ways.first().into_iter().flat_map(Way::wall);
        Rows::new((&name, "way"), caption, &self.ways, |way| way.name.clone())
            .column("elapsed", Unit::Seconds, |way| Cell::runs(way.wall()))
            .column("stream ÷ this", Unit::Ratio, |way| ratios(stream(), way.wall()))
            .column("throughput", Unit::BytesPerSecond, |way| {
                Cell::runs(way.wall().map(|seconds| self.bytes as f64 / seconds))
            })
            .column("steps", Unit::PerSecond, |way| Cell::runs(way.wall().map(|seconds| steps / seconds)))
            .column("CPU", Unit::Seconds, |way| Cell::runs(way.samples.iter().map(|run| run.usage.cpu_seconds)))
            .column("in vain", Unit::Part, |way| way.in_vain_part)
            .column("buffers", Unit::Bytes, |way| way.buffer_bytes)
            .column("pages left", Unit::Count, |way| way.pages_after)
            .table()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        Plan {
            parts: vec![Part::Read],
            size: 1 << 20,
            small_size: 1 << 10,
            steps: vec![1],
            streams: 4,
            piece: 64 << 10,
            stream_memory: 1 << 20,
            reads: 10,
            directory: std::env::temp_dir(),
            file: None,
            runs: 3,
            round: 1,
            cold: Cold::File,
        }
    }

    fn took(wall_seconds: f64) -> Run {
        let usage = Usage { wall_seconds, ..Usage::default() };
        Run { usage, in_vain_bytes: Some((wall_seconds * 10.0) as u64), buffer_bytes: None, pages_after: 0 }
    }

    #[test]
    fn every_run_begins_with_another_way() {
        let order = std::cell::RefCell::new(String::new());
        let way = |name: &'static str| -> Runner<'_> {
            let order = &order;
            (
                name,
                Box::new(move || {
                    order.borrow_mut().push_str(name);
                    Ok(took(1.0))
                }),
            )
        };
        let results = in_turns(&plan(), &mut [way("A"), way("B"), way("C")]).unwrap();
        assert!(results.iter().all(|(_, runs)| runs.len() == 3));
        assert_eq!(*order.borrow(), "BCACABABC");
    }

    #[test]
    fn ratios_pair_the_runs_and_the_worst_run_tells_what_was_read_in_vain() {
        let runs =
            vec![("stream", vec![took(1.0), took(10.0), took(100.0)]), ("peer", [2.0, 20.0, 200.0].map(took).into())];
        let workload = Workload::new("w".to_owned(), Part::Read, (10, 4000), runs);
        assert_eq!((workload.ways[0].stream_ratio, workload.ways[1].stream_ratio), (1.0, 0.5));
        assert_eq!((workload.ways[0].seconds, workload.ways[0].steps_per_second), (10.0, 40.0));
        assert_eq!(workload.ways[0].in_vain_part, Some(0.25));
    }

    #[test]
    fn what_measures_nothing_is_refused() {
        assert_eq!(check(&plan()).unwrap(), 1 << 20);
        assert!(check(&Plan { reads: 0, ..plan() }).is_err());
        assert!(check(&Plan { parts: vec![], ..plan() }).is_err());
        let many = Plan { parts: vec![Part::Many], ..plan() };
        assert!(check(&Plan { streams: 16, ..many.clone() }).is_ok());
        assert!(check(&Plan { streams: 17, ..many }).is_err());
        assert!(check(&Plan { parts: vec![Part::Random], size: 4095, ..plan() }).is_err());
    }
}

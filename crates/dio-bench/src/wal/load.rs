//! Runs clients that commit records.

use std::collections::VecDeque;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

use dio_wal::{CommitFuture, Log, Lsn, Reader, WalError};
use parking_lot::Mutex;

use super::limit;
use super::page_cache::resident_pages;
use super::plan::{CommitCase, WalPlan};
use super::report::{Commits, Flush};
use crate::BenchError;
use crate::data::{Random, Scratch};
use crate::histogram::Histogram;
use crate::measure::cpu_seconds;
use crate::progress;
use crate::stats::Summary;

/// The combined measurements of the runs of one way.
#[derive(Default)]
struct Sum {
    rates: Vec<f64>,
    cpu: Vec<f64>,
    log: Vec<f64>,
    resident: u64,
    histogram: Histogram,
}

/// The measurements.
#[derive(Default)]
pub(super) struct Measured {
    pub(super) commits: Vec<Commits>,
    pub(super) flushes: Vec<Flush>,
    pub(super) block_bytes: u64,
}

/// Measures all ways one after the other, each with a plain flush by the same method, and repeats
/// that in every run, so that a drift of the machine affects all of them.
pub(super) fn measure(plan: &WalPlan) -> Result<Measured, BenchError> {
    let ways = plan.ways();
    let mut sums: Vec<Sum> = ways.iter().map(|_| Sum::default()).collect();
    let mut flushes = Vec::new();
    for method in &plan.methods {
        flushes.extend(plan.direct.iter().map(|direct| ((*method, *direct), Vec::new())));
    }
    let mut block_bytes = 0;
    for _ in 0..plan.runs {
        for (way, sum) in ways.iter().zip(&mut sums) {
            progress::step(&format!("{} clients, {}", way.clients, way.method.name()));
            block_bytes = run(plan, *way, sum)?;
        }
        let scratch = Scratch::new(&plan.directory)?;
        for (way, samples) in &mut flushes {
            progress::step("a plain flush");
            samples.extend(limit::flush(plan, &scratch.path(""), *way, block_bytes));
        }
        scratch.remove_quietly();
    }
    let median = |values: &[f64]| Summary::of(values.iter().copied()).median;
    let rows = ways.into_iter().zip(sums).map(|(way, sum)| Commits {
        way,
        commits_per_second: median(&sum.rates),
        response: sum.histogram.latency(),
        cpu_seconds_per_commit: median(&sum.cpu),
        log_bytes_per_commit: median(&sum.log),
        resident_pages: sum.resident,
        samples: sum.rates,
        limit: None,
    });
    // A method that was refused in one run has no pairs in the other runs.
    flushes.retain(|(_, samples)| samples.len() == plan.runs);
    let flushes = flushes.into_iter().map(|((method, direct), samples)| Flush {
        method,
        direct,
        flushes_per_second: median(&samples),
        samples,
    });
    Ok(Measured { commits: rows.collect(), flushes: flushes.collect(), block_bytes })
}

/// Makes one run on a new log; returns the log's block size.
fn run(plan: &WalPlan, way: CommitCase, sum: &mut Sum) -> Result<u64, BenchError> {
    let scratch = Scratch::new(&plan.directory)?;
    let directory = scratch.path("log");
    std::fs::create_dir(&directory).map_err(BenchError::system("create", &directory))?;
    let log = Log::open(&directory, &plan.options(way.method, way.direct))?;
    if plan.reused {
        reuse_segments(&log)?;
    }
    // The first commit includes one-time costs of a log, so it is not measured.
    log.commit(log.append(&[0])?)?;
    let (from, cpu) = (log.end().0, cpu_seconds());
    let follower = way.followed.then(|| Follower::start(&directory, way.direct, log.end()));
    let (turn, barrier) = (Mutex::new(()), Barrier::new(way.clients));
    let client = |number: usize| {
        let mut random = Random::new(number as u64);
        let mut record = vec![0; plan.record];
        random.fill(&mut record);
        barrier.wait();
        if way.in_flight > 0 {
            return futures(&log, &record, way.in_flight, plan.time);
        }
        let mut histogram = Histogram::default();
        let begin = Instant::now();
        let mut now = begin;
        while now - begin < plan.time {
            let before = now;
            {
                let _turn = (!way.grouped).then(|| turn.lock());
                log.commit(log.append(&record)?)?;
            }
            now = Instant::now();
            histogram.add((now - before).as_nanos() as u64);
        }
        Ok::<_, BenchError>((histogram, (now - begin).as_secs_f64()))
    };
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..way.clients)
            .map(|number| scope.spawn(move || client_of(number, &client)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    let cpu = cpu_seconds() - cpu;
    follower.map_or(Ok(()), Follower::end)?;
    let (mut commits, mut rate) = (0, 0.0);
    for outcome in outcomes {
        let (histogram, seconds) = outcome?;
        commits += histogram.count();
        rate += histogram.count() as f64 / seconds;
        sum.histogram.merge(&histogram);
    }
    sum.rates.push(rate);
    sum.cpu.push(cpu / commits as f64);
    sum.log.push((log.end().0 - from) as f64 / commits as f64);
    sum.resident = sum.resident.max(resident_pages(&directory)?);
    let block = log.layout().block_bytes();
    drop(log);
    scratch.remove_quietly();
    Ok(block)
}

/// Fills segments and truncates them twice, so that the log ends in a segment that held records
/// before, and keeps more of these.
pub(super) fn reuse_segments(log: &Log) -> Result<(), BenchError> {
    let layout = log.layout();
    let record = vec![0; REUSED_RECORD_BYTES];
    for _ in 0..2 {
        let end = layout.segment_of(log.end().0) + REUSED_SEGMENTS;
        while layout.segment_of(log.end().0) < end {
            // Reading can begin where a group does, so each segment needs some.
            let group: Result<Vec<_>, _> = (0..8).map(|_| log.append(&record)).collect();
            group?.last().map_or(Ok(()), |last| log.commit(*last))?;
        }
        log.truncate_before(log.end())?;
    }
    Ok(())
}

/// Segments that are filled before a truncation: as many as a log keeps for reuse.
const REUSED_SEGMENTS: u64 = 4;
/// Bytes of the records that fill them.
const REUSED_RECORD_BYTES: usize = 1 << 20;

/// How often a follower looks for new records.
const FOLLOWS_EVERY: Duration = Duration::from_millis(200);

/// A thread that reads the records of a log as they come, through its files.
struct Follower {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Result<(), WalError>>,
}

impl Follower {
    fn start(directory: &Path, direct: bool, from: Lsn) -> Follower {
        let is_over = Arc::<AtomicBool>::default();
        let (directory, stop) = (directory.to_owned(), Arc::clone(&is_over));
        let thread = std::thread::spawn(move || {
            let mut reader = Reader::open(directory, direct, from)?;
            while !stop.load(Ordering::Relaxed) {
                if reader.next()?.is_none() {
                    std::thread::sleep(FOLLOWS_EVERY);
                }
            }
            Ok(())
        });
        Follower { is_over, thread }
    }

    fn end(self) -> Result<(), WalError> {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// Appends records and commits them as futures, so many of them in flight. Returns how long each
/// took, and the seconds of all.
fn futures(
    log: &Log,
    record: &[u8],
    in_flight: usize,
    time: Duration,
) -> Result<(Histogram, f64), BenchError> {
    let mut waiting: VecDeque<(Instant, CommitFuture)> = VecDeque::new();
    let mut histogram = Histogram::default();
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let begin = Instant::now();
    let mut now = begin;
    while now - begin < time || !waiting.is_empty() {
        if now - begin < time && waiting.len() < in_flight {
            waiting.push_back((now, log.commit_async(log.append(record)?)));
            now = Instant::now();
            continue;
        }
        // The first is ready first.
        let mut is_any_ready = false;
        while let Some((appended, first)) = waiting.front_mut() {
            let Poll::Ready(outcome) = Pin::new(first).poll(&mut context) else { break };
            outcome?;
            now = Instant::now();
            histogram.add((now - *appended).as_nanos() as u64);
            waiting.pop_front();
            is_any_ready = true;
        }
        if !is_any_ready {
            std::thread::park();
        }
    }
    Ok((histogram, (now - begin).as_secs_f64()))
}

/// Wakes a thread that is parked.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs the client of this number.
fn client_of<T>(number: usize, client: &impl Fn(usize) -> T) -> T {
    client(number)
}

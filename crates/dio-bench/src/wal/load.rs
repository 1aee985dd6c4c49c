//! Runs clients that commit records.

use std::sync::Barrier;
use std::time::Instant;

use dio_wal::Log;
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
    // The first commit includes one-time costs of a log, so it is not measured.
    log.commit(log.append(&[0])?)?;
    let (from, cpu) = (log.end().0, cpu_seconds());
    let (turn, barrier) = (Mutex::new(()), Barrier::new(way.clients));
    let client = |number: usize| {
        let mut random = Random::new(number as u64);
        let mut record = vec![0; plan.record];
        random.fill(&mut record);
        let mut histogram = Histogram::default();
        barrier.wait();
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

/// Runs the client of this number.
fn client_of<T>(number: usize, client: &impl Fn(usize) -> T) -> T {
    client(number)
}

//! What watching costs, measured before the command starts.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use dio_sys::ask_for_slices;
use dio_sys::ptrace::Caller;

use crate::trace::{Call, WatchCost};
use crate::watch::{Record, Sees, Step, Tracer, WatchError, Watched, Watcher};

/// Calls of a round, and rounds; the fastest round counts, because others were interrupted.
const CALLS: u32 = 500;
const ROUNDS: u32 = 6;

/// The slices of processor time of a thread that traces, in nanoseconds: the shortest that there
/// are.
const SLICE: u64 = 100_000;

/// The costs of watching, and the requests that it sees.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Watching {
    pub(super) cost: WatchCost,
    /// The same of calls that come densely.
    pub(super) dense: WatchCost,
    pub(super) sees: Sees,
}

/// Starts to watch, and measures what that adds to a call.
///
/// # Errors
/// Those of watching. What cannot be measured costs nothing.
pub(super) fn start_watching() -> Result<(Watcher, Watching), WatchError> {
    let alone = fastest_round();
    let mut watcher = Watcher::start()?;
    let refused = |error| WatchError::Refused { what: "watch a thread", error };
    watcher.watch_this_thread(true).map_err(refused)?;
    let watched = fastest_round();
    let mut within = Vec::new();
    watcher.drain(|record| within.push(record.end.saturating_sub(record.start)));
    let dense = watcher.with_batches(fastest_round).map_err(refused)?;
    watcher.watch_this_thread(false).map_err(refused)?;
    let sees = watcher.sees();
    let (Ok(alone), Ok(watched), Ok(dense)) = (alone, watched, dense) else {
        return Ok((watcher, Watching { sees, ..Watching::default() }));
    };
    let cost = cost_of(alone, watched, within);
    // Such calls are taken to last as long as others that are watched, with what that adds.
    let around = dense.saturating_sub(alone).saturating_sub(cost.within);
    Ok((watcher, Watching { cost, dense: WatchCost { around, ..cost }, sees }))
}

/// What is added to a call that takes `alone` and, when it is watched, `watched` nanoseconds, and
/// that was recorded to take `recorded`.
fn cost_of(alone: u64, watched: u64, mut recorded: Vec<u64>) -> WatchCost {
    recorded.sort_unstable();
    let median = recorded.get(recorded.len() / 2).copied().unwrap_or(0);
    let added = watched.saturating_sub(alone);
    // A recorded call takes longer than the same call alone by what is added within it.
    let within = median.saturating_sub(alone).min(added);
    WatchCost { within, around: added - within, other: 0 }
}

/// Begins to trace from this thread, and measures what that adds to the calls of a process.
///
/// # Errors
/// Those of tracing. What cannot be measured costs nothing.
pub(super) fn start_tracing() -> Result<(Tracer, Watching), WatchError> {
    let refused = |what| move |error| WatchError::Refused { what, error };
    if !cfg!(target_arch = "x86_64") {
        return Err(WatchError::Processor);
    }
    let sees = Sees::default();
    let mut tracer = Tracer::new();
    let file = File::open("/dev/zero").map_err(refused("open /dev/zero"))?;
    let alone = Caller::new(file.as_fd(), ROUNDS, CALLS).and_then(|mut caller| {
        caller.let_go();
        caller.fastest()
    });
    let mut caller = Caller::new(file.as_fd(), ROUNDS, CALLS).map_err(refused("make a process"))?;
    fs::metadata(format!("/proc/{}/fd", caller.number())).map_err(refused("read /proc"))?;
    tracer.seize_at_once(caller.number()).map_err(refused("trace a process"))?;
    // Whoever waits for this thread waits the less, the sooner it runs when it has work. Where that
    // cannot be asked for, it takes longer.
    let _ = ask_for_slices(SLICE);
    caller.let_go();
    let mut within = Vec::new();
    let mut take = |record: &Record<'_>| {
        if record.what == Watched::Call(Call::Pread) {
            within.push(record.end.saturating_sub(record.start));
        }
    };
    // The child that was not traced has ended, too.
    loop {
        match tracer.step(&mut take).map_err(refused("trace a process"))? {
            Step::Ended(process, _) if process == caller.number() => break,
            _ => {}
        }
    }
    let (Ok(alone), Ok(watched)) = (alone, caller.fastest()) else {
        return Ok((tracer, Watching { sees, ..Watching::default() }));
    };
    let [[read, nothing], [read_watched, nothing_watched]] =
        [alone, watched].map(|times| times.map(|time| time.as_nanos() as u64));
    let other = nothing_watched.saturating_sub(nothing);
    tracer.set_stopped(other);
    let cost = WatchCost { other, ..cost_of(read, read_watched, within) };
    Ok((tracer, Watching { cost, dense: cost, sees }))
}

/// Nanoseconds of a call in the fastest round.
fn fastest_round() -> io::Result<u64> {
    let file = File::open("/dev/zero")?;
    let mut byte = [0];
    let mut fastest = Duration::MAX;
    for _ in 0..ROUNDS {
        let began = Instant::now();
        for _ in 0..CALLS {
            file.read_at(&mut byte, 0)?;
        }
        fastest = fastest.min(began.elapsed());
    }
    Ok((fastest / CALLS).as_nanos() as u64)
}

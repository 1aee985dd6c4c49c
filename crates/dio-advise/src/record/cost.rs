//! What watching costs, measured before the command starts.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use crate::trace::WatchCost;
use crate::watch::{Sees, WatchError, Watcher};

/// Calls of a round, and rounds; the fastest round counts, because others were interrupted.
const CALLS: u32 = 500;
const ROUNDS: u32 = 6;

/// What watching costs, and what it sees.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Watching {
    pub(super) cost: WatchCost,
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
    watcher.watch_this_thread(false).map_err(refused)?;
    let mut within = Vec::new();
    watcher.drain(|record| within.push(record.end.saturating_sub(record.start)));
    within.sort_unstable();
    let sees = watcher.sees();
    let (Ok(alone), Ok(watched)) = (alone, watched) else {
        return Ok((watcher, Watching { cost: WatchCost::default(), sees }));
    };
    let median = within.get(within.len() / 2).copied().unwrap_or(0);
    let added = watched.saturating_sub(alone);
    // A recorded call takes longer than the same call alone by what is added within it.
    let within = median.saturating_sub(alone).min(added);
    let cost = WatchCost { within, around: added - within };
    Ok((watcher, Watching { cost, sees }))
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

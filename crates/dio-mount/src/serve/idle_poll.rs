//! Has idle processors poll for work while many requests arrive, instead of halting.
//!
//! Each request wakes a thread of the server, and its reply wakes the program. To wake a virtual
//! processor that has halted takes the host tens of microseconds, several times what a small
//! request takes otherwise. While somebody holds `/dev/cpu_dma_latency` with a latency of zero
//! (`Documentation/power/pm_qos_interface.rst`), idle processors look for work in a loop, and are
//! there at once. That costs the processor time that was idle, so it is held only while requests
//! come one after the other.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::options::IdlePolling;

/// Holds a latency as long as it is open.
const DEVICE: &str = "/dev/cpu_dma_latency";

/// The driver of idle processors.
const DRIVER: &str = "/sys/devices/system/cpu/cpuidle/current_driver";

/// The driver of processors that a host has to wake.
const VIRTUAL: &str = "haltpoll";

/// How often the requests are counted, while some arrive.
const TICK: Duration = Duration::from_millis(10);

/// With so many requests in a tick, 2,000 in a second, waking takes a tenth of the time or more.
const MANY: u64 = 20;

/// After so many ticks with fewer requests, idle processors halt again.
const PATIENCE: u32 = 3;

/// After so many ticks without any request, nothing is counted until the next one.
const QUIET: u32 = 100;

/// Asks for polling while requests of one mount arrive.
#[derive(Debug)]
pub(crate) struct IdlePoll(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    device: PathBuf,
    /// All requests so far.
    requests: AtomicU64,
    /// Whether a thread counts them.
    is_counting: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    has_thread: bool,
    has_ended: bool,
    /// How often polling was asked for.
    asked: u64,
    /// Whether it is asked for now.
    is_held: bool,
}

impl IdlePoll {
    /// Returns `None` if idle processors are left alone.
    ///
    /// # Errors
    /// The reason why the device cannot be used, if polling is required.
    pub(crate) fn new(polling: IdlePolling) -> io::Result<Option<IdlePoll>> {
        let usable = || ask(Path::new(DEVICE)).map(drop);
        match polling {
            IdlePolling::Never => return Ok(None),
            IdlePolling::Required => usable().map_err(|error| {
                io::Error::new(error.kind(), format!("no idle_poll: open {DEVICE}: {error}"))
            })?,
            IdlePolling::Preferred => {
                let is_virtual = fs::read_to_string(DRIVER).is_ok_and(|it| it.trim() == VIRTUAL);
                if !is_virtual || usable().is_err() {
                    return Ok(None);
                }
            }
        }
        Ok(Some(IdlePoll::with(Path::new(DEVICE))))
    }

    fn with(device: &Path) -> IdlePoll {
        IdlePoll(Arc::new(Shared {
            device: device.to_owned(),
            requests: AtomicU64::new(0),
            is_counting: AtomicBool::new(false),
            state: Mutex::default(),
            changed: Condvar::new(),
        }))
    }

    /// Notes that a request has arrived.
    pub(crate) fn note(&self) {
        self.0.requests.fetch_add(1, Ordering::Relaxed);
        if !self.0.is_counting.load(Ordering::Relaxed) {
            self.begin_to_count();
        }
    }

    #[cold]
    fn begin_to_count(&self) {
        let mut state = self.0.state.lock();
        if self.0.is_counting.swap(true, Ordering::Relaxed) {
            return;
        }
        if !state.has_thread {
            let shared = Arc::clone(&self.0);
            let thread = thread::Builder::new().name("idle-poll".into());
            // Without a thread, processors halt as before.
            state.has_thread = thread.spawn(move || shared.count()).is_ok();
        }
        self.0.changed.notify_all();
    }
}

impl Drop for IdlePoll {
    fn drop(&mut self) {
        self.0.state.lock().has_ended = true;
        self.0.changed.notify_all();
    }
}

impl Shared {
    /// Counts requests in each tick, until the mount ends.
    fn count(&self) {
        dio_fuse::leave_processor();
        let mut held: Option<File> = None;
        let (mut before, mut few, mut quiet) = (0, 0, 0);
        let mut state = self.state.lock();
        while !state.has_ended {
            if quiet >= QUIET {
                self.is_counting.store(false, Ordering::Relaxed);
                self.changed.wait_while(&mut state, |state| {
                    !state.has_ended && !self.is_counting.load(Ordering::Relaxed)
                });
                quiet = 0;
                continue;
            }
            self.changed.wait_for(&mut state, TICK);
            let now = self.requests.load(Ordering::Relaxed);
            let arrived = now - std::mem::replace(&mut before, now);
            quiet = if arrived == 0 { quiet + 1 } else { 0 };
            few = if arrived < MANY { few + 1 } else { 0 };
            if few >= PATIENCE {
                held = None;
            } else if few == 0 && held.is_none() {
                held = ask(&self.device).ok();
                state.asked += u64::from(held.is_some());
            }
            state.is_held = held.is_some();
        }
    }
}

/// Asks for polling as long as the returned file is open.
fn ask(device: &Path) -> io::Result<File> {
    let mut device = File::options().write(true).open(device)?;
    device.write_all(&0_i32.to_ne_bytes())?;
    Ok(device)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn eventually(holds: impl Fn() -> bool) {
        let began = std::time::Instant::now();
        while !holds() {
            assert!(began.elapsed() < Duration::from_secs(60), "it never holds");
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn polling_is_asked_for_while_many_requests_come() {
        let device = tempfile::NamedTempFile::new().unwrap();
        let poll = IdlePoll::with(device.path());
        let asked = || poll.0.state.lock().asked;
        let is_held = || poll.0.state.lock().is_held;
        assert_eq!((asked(), is_held()), (0, false));
        eventually(|| {
            (0..MANY).for_each(|_| poll.note());
            asked() == 1
        });
        assert_eq!(fs::read(device.path()).unwrap(), [0; 4]);
        eventually(|| !is_held());
        eventually(|| {
            (0..MANY).for_each(|_| poll.note());
            asked() == 2
        });
        let shared = Arc::clone(&poll.0);
        drop(poll);
        eventually(|| Arc::strong_count(&shared) == 1);
    }

    #[test]
    fn a_few_requests_change_nothing() {
        let poll = IdlePoll::with(Path::new("/nonexistent"));
        poll.note();
        eventually(|| !poll.0.is_counting.load(Ordering::Relaxed));
        poll.note();
        assert_eq!(poll.0.state.lock().asked, 0);
        assert!(IdlePoll::new(IdlePolling::Never).unwrap().is_none());
    }
}

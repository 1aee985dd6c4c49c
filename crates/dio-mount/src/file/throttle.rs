//! Slows the reads and writes of programs down: to a rate, and while others wait too long for the
//! device.
//!
//! What others wait is measured by a small direct read of the device every 25 ms, as long as there
//! are requests. The device's own counters (`/sys/block/*/stat`) would mix it with the time of this
//! mount's large requests, which are slow even if nobody else uses the device.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use dio::transfer::Pace;
use dio_sys::{reopen, uninterrupted};
use parking_lot::Mutex;
use rustix::fs::OFlags;

use super::memory::with_buffer;
use crate::options::{Live, ThrottleSettings};

/// How often the device is probed.
const PROBE_EVERY: Duration = Duration::from_millis(25);

/// Bytes of a probe.
const PROBE_BYTES: usize = 4096;

/// How often the allowed rate changes: after four probes, so that one slow read changes little.
const STEP: Duration = Duration::from_millis(100);

/// A longer step contains a pause, so it does not show how fast the programs are.
const STEP_MAX: Duration = Duration::from_secs(2);

/// Lowest allowed rate in bytes per second: what is slowed down still ends.
const RATE_MIN: f64 = (1 << 20) as f64;

/// Divides a second: the time in which bytes that were read ahead should be used.
const AHEAD_PER_SECOND: u64 = 4;

/// Factors of the allowed rate after a step in which the device was too slow, or fast enough.
const SLOWER: f64 = 0.7;
const FASTER: f64 = 1.25;

/// An allowed rate that is so many times what programs move limits nothing, and is given up.
const UNUSED: f64 = 4.0;

/// The limits of a mount, which its open files share.
#[derive(Debug)]
pub(super) struct Throttle {
    live: Live,
    rate: Pace,
    brake: Brake,
    /// Number of probes so far.
    probes: AtomicU64,
}

/// The limit that the device's latency sets.
#[derive(Debug)]
struct Brake {
    pace: Pace,
    state: Mutex<BrakeState>,
}

#[derive(Debug)]
struct BrakeState {
    probed: Instant,
    probing: bool,
    /// Sum and number of the latencies of this step.
    latency: (Duration, u32),
    stepped: Instant,
    /// Bytes of requests in this step.
    moved: u64,
    /// In bytes per second; `None` if it limits nothing.
    allowed: Option<f64>,
}

impl Throttle {
    pub(super) fn new(live: Live) -> Throttle {
        let now = Instant::now();
        let state = BrakeState {
            probed: now,
            probing: false,
            latency: (Duration::ZERO, 0),
            stepped: now,
            moved: 0,
            allowed: None,
        };
        let brake = Brake { pace: Pace::new(u64::MAX), state: Mutex::new(state) };
        Throttle { live, rate: Pace::new(u64::MAX), brake, probes: AtomicU64::new(0) }
    }

    pub(super) fn is_on(&self) -> bool {
        self.live.get().throttle.is_on()
    }

    /// Waits until a request of so many bytes may start, and returns how long that took. `probe`
    /// returns how long a small read of the device takes.
    pub(super) fn admit(
        &self,
        bytes: u64,
        probe: impl FnOnce() -> Option<Duration>,
    ) -> Option<Duration> {
        let settings = self.live.get().throttle;
        if !settings.is_on() {
            return None;
        }
        let wait = self.reserve(settings, bytes, probe);
        if !wait.is_zero() {
            thread::sleep(wait);
        }
        Some(wait)
    }

    /// Counts bytes whose request must not wait.
    pub(super) fn count(&self, bytes: u64) {
        let settings = self.live.get().throttle;
        if settings.is_on() {
            self.reserve(settings, bytes, || None);
        }
    }

    /// Returns how long a small read of a file takes on the device. `None` if it has no whole
    /// block, or cannot be read past the page cache.
    pub(super) fn probe(&self, file: BorrowedFd<'_>) -> Option<Duration> {
        let file = reopen(file, OFlags::RDONLY | OFlags::DIRECT).ok()?;
        let blocks = rustix::fs::fstat(&file).ok()?.st_size as u64 / PROBE_BYTES as u64;
        let number = self.probes.fetch_add(1, Ordering::Relaxed);
        // Far from each other, so that neither the device nor its host has read them ahead.
        let block = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).checked_rem(blocks)?;
        let offset = block * PROBE_BYTES as u64;
        let measured = with_buffer(PROBE_BYTES, |buffer| {
            let began = Instant::now();
            let read = uninterrupted(|| rustix::io::pread(&file, &mut *buffer, offset));
            read.is_ok_and(|read| read > 0).then(|| began.elapsed())
        });
        measured.ok().flatten()
    }

    fn reserve(
        &self,
        settings: ThrottleSettings,
        bytes: u64,
        probe: impl FnOnce() -> Option<Duration>,
    ) -> Duration {
        let by_rate = settings.rate.map_or(Duration::ZERO, |rate| {
            self.rate.set_rate(rate);
            self.rate.reserve(bytes)
        });
        let by_latency =
            settings.latency.map_or(Duration::ZERO, |most| self.brake.reserve(most, bytes, probe));
        by_rate.max(by_latency)
    }

    /// Returns how many bytes are worth reading ahead: those that the programs may read soon. What
    /// is read ahead further gets too old before it is used.
    pub(super) fn read_ahead_max(&self) -> u64 {
        let ThrottleSettings { rate, latency } = self.live.get().throttle;
        let allowed = latency.and_then(|_| self.brake.state.lock().allowed);
        let by_rate = rate.unwrap_or(u64::MAX);
        by_rate.min(allowed.map_or(u64::MAX, |allowed| allowed as u64)) / AHEAD_PER_SECOND
    }

    /// Takes back bytes that were admitted and turned out not to be there.
    pub(super) fn give_back(&self, bytes: u64) {
        let settings = self.live.get().throttle;
        if settings.rate.is_some() {
            self.rate.give_back(bytes);
        }
        if settings.latency.is_some() {
            self.brake.give_back(bytes);
        }
    }
}

impl Brake {
    fn reserve(
        &self,
        most: Duration,
        bytes: u64,
        probe: impl FnOnce() -> Option<Duration>,
    ) -> Duration {
        let now = Instant::now();
        let mut state = self.state.lock();
        state.moved += bytes;
        if !state.probing && now.duration_since(state.probed) >= PROBE_EVERY {
            (state.probing, state.probed) = (true, now);
            drop(state);
            let latency = probe();
            state = self.state.lock();
            state.probing = false;
            if let Some(latency) = latency {
                let (sum, count) = state.latency;
                state.latency = (sum + latency, count + 1);
            }
        }
        if now.duration_since(state.stepped) >= STEP {
            state.step(most, now);
        }
        let Some(allowed) = state.allowed else { return Duration::ZERO };
        drop(state);
        self.pace.set_rate(allowed as u64);
        self.pace.reserve(bytes)
    }

    fn give_back(&self, bytes: u64) {
        let mut state = self.state.lock();
        state.moved = state.moved.saturating_sub(bytes);
        if state.allowed.is_some() {
            self.pace.give_back(bytes);
        }
    }
}

impl BrakeState {
    fn step(&mut self, most: Duration, now: Instant) {
        let took = now.duration_since(self.stepped);
        let (sum, count) = self.latency;
        if count > 0 && took <= STEP_MAX {
            let moved = self.moved as f64 / took.as_secs_f64();
            self.allowed = allowed_next(self.allowed, moved, sum / count > most);
        }
        (self.latency, self.stepped, self.moved) = ((Duration::ZERO, 0), now, 0);
    }
}

/// Returns the allowed rate after a step in which programs moved `moved` bytes per second.
fn allowed_next(allowed: Option<f64>, moved: f64, too_slow: bool) -> Option<f64> {
    if too_slow {
        let now = allowed.map_or(moved, |allowed| allowed.min(moved.max(RATE_MIN)));
        return Some((now * SLOWER).max(RATE_MIN));
    }
    allowed
        .map(|allowed| allowed * FASTER)
        .filter(|allowed| *allowed < UNUSED * moved.max(RATE_MIN * UNUSED))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::tests::settings;
    use crate::options::Settings;

    fn throttle(throttle: ThrottleSettings) -> Throttle {
        Throttle::new(Live::new(Settings { throttle, ..settings() }))
    }

    #[test]
    fn a_slow_device_slows_the_programs_down_and_a_fast_one_lets_them_go() {
        let full = 400e6;
        let mut allowed = allowed_next(None, full, false);
        assert_eq!(allowed, None, "a device that is fast enough sets no limit");
        for _ in 0..100 {
            let before = allowed.unwrap_or(full);
            allowed = allowed_next(allowed, before, true);
            assert!(allowed.unwrap() < before || allowed == Some(RATE_MIN));
        }
        assert_eq!(allowed, Some(RATE_MIN), "never less, or what is slowed down would not end");
        let steps = (0..200).find(|_| {
            allowed = allowed_next(allowed, allowed.unwrap_or(full).min(full), false);
            allowed.is_none()
        });
        assert!(steps.is_some(), "a limit that limits nothing goes");
    }

    #[test]
    fn a_program_that_does_less_than_allowed_is_slowed_from_what_it_does() {
        assert_eq!(allowed_next(Some(400e6), 100e6, true), Some(100e6 * SLOWER));
    }

    #[test]
    fn the_device_is_probed_only_where_its_latency_counts() {
        let probes = |settings| {
            let throttle = throttle(settings);
            throttle.brake.state.lock().probed -= PROBE_EVERY;
            let mut count = 0;
            for _ in 0..2 {
                throttle.admit(1, || {
                    count += 1;
                    None
                });
            }
            count
        };
        let (rate, latency) = (Some(u64::MAX), Some(Duration::from_secs(1)));
        assert_eq!(probes(ThrottleSettings::default()), 0);
        assert_eq!(probes(ThrottleSettings { rate, latency: None }), 0);
        assert_eq!(probes(ThrottleSettings { rate: None, latency }), 1);
    }

    #[test]
    fn probes_are_reads_of_the_device() {
        let file = tempfile::NamedTempFile::new_in("/var/tmp").unwrap();
        let throttle = throttle(ThrottleSettings::default());
        let probe = || {
            // The probe opens the file again, so it does not matter that this cannot read.
            let file = std::fs::OpenOptions::new().write(true).open(file.path()).unwrap();
            throttle.probe(std::os::fd::AsFd::as_fd(&file))
        };
        assert_eq!(probe(), None, "there is nothing to read");
        std::fs::write(file.path(), vec![1; 3 * PROBE_BYTES + 1]).unwrap();
        assert!((0..10).all(|_| probe().is_some_and(|took| !took.is_zero())));
    }

    #[test]
    fn bytes_that_were_not_there_cost_nothing() {
        let throttle = throttle(ThrottleSettings { rate: Some(1), latency: None });
        assert_eq!(throttle.admit(1 << 20, || None), Some(Duration::ZERO));
        throttle.give_back(1 << 20);
        assert!(throttle.admit(0, || None).unwrap() < Duration::from_secs(1));
    }
}

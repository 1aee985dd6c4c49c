//! How many threads work on each machine: a search for the number with which most is done.
//!
//! The search is a state machine that has no clock of its own, as [`crate::steal`] is. It measures
//! the speed of the whole job, tries another number for about a second, and measures the first one
//! once more. A number is kept only if it was 5 % faster than the first one, both before and
//! after, so a job stays as it began unless there is something to gain. Trials that gain nothing
//! become rare. One search for all machines is enough, and several would take from each other: on
//! storage that all share, each gets more by asking for more.

use std::time::Duration;

use dio_cli::commands::cp::shared::Load;

/// How long the speed is measured.
const WINDOW: Duration = Duration::from_secs(1);

/// How much faster a job has to be with another number.
const GAIN: f64 = 1.05;

/// A trial with less speed than this ends after a quarter of its time.
const LOSS: f64 = 0.8;

/// A number and the next larger one that is tried.
const STEP: f64 = 1.5;

/// A job of less time is never tried with fewer threads: what a trial may lose would be too large a
/// part of it.
const FEWER_AFTER: Duration = Duration::from_secs(10);

/// The first and the longest time after a trial in which there is no other one, if it gained
/// nothing.
const PAUSE_FIRST: Duration = Duration::from_secs(4);
const PAUSE_LONGEST: Duration = Duration::from_secs(64);

/// What an entry of a directory counts for besides its bytes. A thread moves about as much of a
/// large file in the time of a small one.
const ENTRY_BYTES: f64 = 1024.0 * 1024.0;

/// The number of those of `threads` threads of a machine that run in the process `index` of `here`
/// processes on it. With fewer threads than processes, some are at rest.
#[must_use]
pub fn share_of(threads: usize, (index, here): (usize, usize)) -> usize {
    let here = here.max(1);
    threads / here + usize::from(index < threads % here)
}

/// A number of threads that is being measured.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// The one in force.
    Kept,
    /// Another one.
    Trial(usize),
    /// The one in force again, after a faster trial: number and speed.
    Check(usize, f64),
}

#[derive(Clone, Copy, Debug)]
struct Window {
    since: Duration,
    work: f64,
    /// The most threads of a machine that were running.
    running: f64,
}

/// The search, in the rank that leads the job.
#[derive(Clone, Debug)]
pub struct Tuner {
    threads: usize,
    most: usize,
    /// How long after a change the counts of earlier work still arrive.
    settle: Duration,
    phase: Phase,
    /// Counts are of the present number from then on.
    settled: Duration,
    window: Option<Window>,
    /// Speed with the number in force, when it was measured last.
    speed: f64,
    /// The next trial is one with more threads.
    upwards: bool,
    pause: Duration,
    next_trial: Duration,
}

impl Tuner {
    /// Begins with `threads` threads on each machine, at most `most`. Counts take up to `settle` to
    /// arrive.
    #[must_use]
    pub fn new(threads: usize, most: usize, settle: Duration) -> Tuner {
        Tuner {
            threads,
            most: most.max(threads),
            settle,
            phase: Phase::Kept,
            settled: settle,
            window: None,
            speed: 0.0,
            upwards: true,
            pause: PAUSE_FIRST,
            next_trial: Duration::ZERO,
        }
    }

    /// The number of threads that is in force, but for a trial.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Takes what all ranks have done until `now`, and how many threads are running on each
    /// machine. Returns the number of threads if another one is to be used from now on.
    pub fn look(&mut self, now: Duration, load: &Load, running: f64) -> Option<usize> {
        if now < self.settled {
            return None;
        }
        let work = load.bytes as f64 + load.entries as f64 * ENTRY_BYTES;
        let window = self.window.get_or_insert(Window { since: now, work, running: 0.0 });
        window.running = window.running.max(running);
        let elapsed = now - window.since;
        let speed = (work - window.work) / elapsed.as_secs_f64().max(1e-9);
        let fails = matches!(self.phase, Phase::Trial(_))
            && elapsed >= WINDOW / 4
            && speed < self.speed * LOSS;
        if fails {
            return self.fail(now);
        }
        if elapsed < WINDOW {
            return None;
        }
        let most_running = window.running;
        self.window = None;
        match self.phase {
            Phase::Kept => {
                self.speed = speed;
                let trial = self.candidate(now, most_running)?;
                self.begin(now, Phase::Trial(trial), trial)
            }
            Phase::Trial(trial) if speed > self.speed * GAIN => {
                self.begin(now, Phase::Check(trial, speed), self.threads)
            }
            Phase::Check(trial, gained) if gained > speed * GAIN => {
                self.upwards = trial > self.threads;
                (self.threads, self.pause) = (trial, PAUSE_FIRST);
                self.begin(now, Phase::Kept, trial)
            }
            Phase::Trial(_) | Phase::Check(..) => self.fail(now),
        }
    }

    /// The number to try next, if it is time. `running` threads were in use at most.
    fn candidate(&mut self, now: Duration, running: f64) -> Option<usize> {
        if now < self.next_trial || self.speed <= 0.0 {
            return None;
        }
        // More threads change nothing while some have nothing to do.
        let are_all_used = running >= 0.9 * self.threads as f64;
        if self.upwards && are_all_used && self.threads < self.most {
            return Some(((self.threads as f64 * STEP).ceil() as usize).min(self.most));
        }
        let used = (running.ceil() as usize).min(self.threads);
        let fewer = (used as f64 / STEP).floor().max(1.0) as usize;
        (fewer < used && now >= FEWER_AFTER).then_some(fewer)
    }

    fn begin(&mut self, now: Duration, phase: Phase, threads: usize) -> Option<usize> {
        (self.phase, self.window) = (phase, None);
        self.settled = now + self.settle;
        Some(threads)
    }

    /// A trial has gained nothing. The next one goes the other way.
    fn fail(&mut self, now: Duration) -> Option<usize> {
        self.upwards = !self.upwards;
        self.next_trial = now + self.pause;
        self.pause = (self.pause * 2).min(PAUSE_LONGEST);
        self.begin(now, Phase::Kept, self.threads)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_millis(100);

    /// Runs a job on storage that does `speed(threads)` a second, all of whose threads are used up
    /// to `used`. Returns the search at the end, and the mean speed.
    fn run(
        mut tuner: Tuner,
        seconds: u64,
        used: f64,
        mut speed: impl FnMut(usize) -> f64,
    ) -> (Tuner, f64) {
        let (mut now, mut work, mut threads) = (Duration::ZERO, 0.0, tuner.threads());
        while now < Duration::from_secs(seconds) {
            now += TICK;
            work += speed(threads) * TICK.as_secs_f64();
            let load = Load { bytes: work as u64, ..Load::default() };
            let running = used.min(threads as f64);
            threads = tuner.look(now, &load, running).unwrap_or(threads);
            assert!((1..=64).contains(&threads));
        }
        (tuner, work / now.as_secs_f64())
    }

    fn from(threads: usize) -> Tuner {
        Tuner::new(threads, 64, TICK * 2)
    }

    /// Up to `noise` of a number more or less.
    fn noisy(seed: u64, noise: f64) -> impl FnMut() -> f64 {
        let mut state = seed;
        move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
            1.0 + noise * ((state >> 33) as f64 / f64::from(1_u32 << 30) - 1.0)
        }
    }

    #[test]
    fn it_grows_until_nothing_is_gained() {
        for limit in [12.0, 30.0, 1000.0] {
            let speed = |threads: usize| (threads as f64).min(limit) * 1e6;
            let (tuner, mean) = run(from(8), 120, 1e9, speed);
            let best = limit.min(64.0) * 1e6;
            assert!(speed(tuner.threads()) >= 0.95 * best, "{limit}: {}", tuner.threads());
            assert!(mean > 0.85 * best, "{limit}: {mean}");
        }
    }

    #[test]
    fn it_goes_back_where_more_is_slower() {
        // Best with 4, and half of that with 16.
        let speed = |threads: usize| (threads as f64).min(4.0) * 24.0 / (20 + threads) as f64;
        let (tuner, mean) = run(from(16), 300, 1e9, |threads| speed(threads) * 1e6);
        assert!((3..=6).contains(&tuner.threads()), "{}", tuner.threads());
        assert!(mean > 0.9 * speed(4) * 1e6, "{mean}");
    }

    #[test]
    fn it_stays_where_nothing_is_to_be_gained() {
        for seed in 0..50 {
            let mut noise = noisy(seed, 0.02);
            let (tuner, mean) = run(from(8), 600, 1e9, |_| 1e9 * noise());
            assert_eq!(tuner.threads(), 8, "seed {seed}");
            assert!(mean > 0.98e9);
        }
    }

    #[test]
    fn trials_cost_little() {
        // Each thread adds as much, and there may be no more of them: only trials with fewer.
        for (seconds, least) in [(9, 1.0), (20, 0.97), (60, 0.98), (600, 0.99)] {
            let speed = |threads: usize| threads as f64 * 1e6;
            let (tuner, mean) = run(Tuner::new(8, 8, TICK * 4), seconds, 1e9, speed);
            assert_eq!(tuner.threads(), 8);
            assert!(mean >= least * 7.999e6, "{seconds} s: {mean}");
        }
    }

    #[test]
    fn noise_leads_to_no_slow_number() {
        for seed in 0..50 {
            for start in [4, 8, 32] {
                // Saturated at 6, and slower from 20 on.
                let speed = |threads: usize| {
                    (threads as f64).min(6.0) * (1.0 - (threads as f64 - 20.0).max(0.0) * 0.01)
                };
                let mut noise = noisy(seed, 0.3);
                let run = run(from(start), 600, 1e9, |threads| speed(threads) * 1e6 * noise());
                assert!(run.1 > 0.85 * 6e6, "seed {seed}, from {start}: {run:?}");
            }
        }
    }

    #[test]
    fn threads_without_work_are_not_added() {
        let (tuner, _) = run(from(8), 60, 2.0, |threads| (threads as f64).min(2.0) * 1e6);
        assert_eq!(tuner.threads(), 8);
    }

    #[test]
    fn threads_are_divided_evenly() {
        let shares = |threads, here| -> Vec<usize> {
            (0..here).map(|index| share_of(threads, (index, here))).collect()
        };
        assert_eq!(shares(8, 3), [3, 3, 2]);
        assert_eq!(shares(3, 4), [1, 1, 1, 0]);
        assert_eq!(shares(1, 1), [1]);
    }
}

//! Whether a thread slept between two calls.
//!
//! How often it slept is counted by the kernel, but each stop for the tracer counts there too. What
//! is not distorted is the time that a thread was running or ready to run: what is missing to the
//! time that went by is the time in which it waited, for another thread or for the tracer.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// Time in which a thread waited without more than that is the tracer's, in nanoseconds: what wakes
/// a thread on a processor that sleeps takes this long.
const SHORT: u64 = 50_000;

/// The times of a thread so far, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sample {
    pub(super) time: u64,
    /// In which it ran, or waited for a processor.
    pub(super) ready: u64,
}

impl Sample {
    /// Whether the thread has slept since an earlier sample; `stopped` is the time in which it was
    /// stopped meanwhile.
    pub(super) fn has_slept_since(&self, earlier: &Sample, stopped: u64) -> bool {
        let passed = self.time.saturating_sub(earlier.time);
        let ready = self.ready.saturating_sub(earlier.ready);
        passed.saturating_sub(ready) > stopped.saturating_mul(2).saturating_add(SHORT)
    }
}

/// The scheduler's account of a thread (`/proc/PID/task/TID/schedstat`).
#[derive(Debug)]
pub(super) struct Account(Option<File>);

impl Account {
    pub(super) fn of(thread: u32) -> Account {
        Account(File::open(format!("/proc/{thread}/schedstat")).ok())
    }

    /// The times so far; `None` where the kernel does not count them.
    pub(super) fn sample(&self, time: u64) -> Option<Sample> {
        let mut bytes = [0; 96];
        let read = self.0.as_ref()?.read_at(&mut bytes, 0).ok()?;
        let ready = ready_of(&bytes[..read])?;
        Some(Sample { time, ready })
    }
}

/// The sum of the first two numbers: time on a processor, and time waiting for one.
fn ready_of(text: &[u8]) -> Option<u64> {
    let mut numbers = text.split(|byte| *byte == b' ');
    let mut number = || std::str::from_utf8(numbers.next()?).ok()?.parse::<u64>().ok();
    number()?.checked_add(number()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_that_is_neither_run_nor_ready_was_slept() {
        let at = |time, ready| Sample { time, ready };
        let before = at(1_000_000, 500_000);
        assert!(!at(1_900_000, 1_390_000).has_slept_since(&before, 0));
        assert!(!at(1_040_000, 500_000).has_slept_since(&before, 0));
        assert!(at(2_000_000, 600_000).has_slept_since(&before, 0));
        assert!(!at(2_000_000, 600_000).has_slept_since(&before, 500_000));
        assert_eq!(ready_of(b"12 30 4\n"), Some(42));
        assert_eq!(ready_of(b""), None);
        assert_eq!(ready_of(b"x 1 2"), None);
    }
}

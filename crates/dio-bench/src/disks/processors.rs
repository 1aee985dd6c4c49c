//! The processors' time of the kernel's own threads: those of loop devices, of file systems, of
//! writing back.
//!
//! The counters of the whole machine (`/proc/stat`) would add what other programs do meanwhile.
//! `/proc/PID/schedstat` has nanoseconds (`Documentation/scheduler/sched-stats.rst`), so many
//! threads that each do little add up to the truth.

use std::collections::HashMap;
use std::fs;

/// `PF_KTHREAD` of `include/linux/sched.h`: the task is a thread of the kernel.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// Nanoseconds that each of the kernel's threads has run, by its number.
#[derive(Clone, Debug, Default)]
pub(super) struct Threads(HashMap<u32, u64>);

impl Threads {
    /// What they have run so far; empty where the kernel does not tell.
    pub(super) fn read() -> Threads {
        let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
        let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let run = |number: u32| {
            let stat = fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
            let ran = fs::read_to_string(format!("/proc/{number}/schedstat")).ok()?;
            if flags(&stat)? & KERNEL_THREAD == 0 {
                return None;
            }
            Some((number, ran.split_whitespace().next()?.parse().ok()?))
        };
        Threads(numbers.filter_map(run).collect())
    }

    /// Seconds that they have run since an earlier reading. What threads did that have ended
    /// meanwhile is missing; there are few.
    pub(super) fn since(&self, earlier: &Threads) -> f64 {
        let before = |number: &u32| earlier.0.get(number).copied().unwrap_or(0);
        let nanos: u64 = self.0.iter().map(|(number, nanos)| nanos.saturating_sub(before(number))).sum();
        nanos as f64 / 1e9
    }
}

/// `flags` of `/proc/PID/stat` (`proc_pid_stat(5)`), field 9; after the name, which may hold
/// anything, `state` is field 3.
fn flags(stat: &str) -> Option<u64> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(9 - 3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_threads_of_the_kernel_count_and_new_ones_count_whole() {
        assert_eq!(flags("12 (a) b (c) S 2 0 0 0 -1 2129984 0 0"), Some(2_129_984));
        assert_eq!(flags("12 (a"), None);
        let earlier = Threads([(1, 5_000_000_000), (2, 7)].into());
        let now = Threads([(1, 6_500_000_000), (3, 500_000_000)].into());
        assert_eq!(now.since(&earlier), 2.0);
        assert!(!Threads::read().0.contains_key(&std::process::id()));
    }
}

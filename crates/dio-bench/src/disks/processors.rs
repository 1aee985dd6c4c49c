//! The processor time of the kernel's own threads: those of loop devices, of file systems and of
//! writeback.
//!
//! The counters of the whole machine (`/proc/stat`) would include other programs.
//! `/proc/PID/schedstat` counts nanoseconds (`Documentation/scheduler/sched-stats.rst`), so the sum
//! stays exact even over many threads that each run briefly.

use std::collections::HashMap;
use std::fs;

use dio_common::processes;

/// `PF_KTHREAD` of `include/linux/sched.h`: the task is a thread of the kernel.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// Nanoseconds that each kernel thread has run, by thread id.
#[derive(Clone, Debug, Default)]
pub(super) struct Threads(HashMap<u32, u64>);

impl Threads {
    /// Reads the current values; empty if the kernel does not report them.
    pub(super) fn read() -> Threads {
        let numbers = processes::ids().into_iter().flatten();
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

    /// Seconds that the threads have run since an earlier reading. The time of threads that have
    /// ended meanwhile is missing; there are few such threads.
    pub(super) fn since(&self, earlier: &Threads) -> f64 {
        let before = |number: &u32| earlier.0.get(number).copied().unwrap_or(0);
        let nanos: u64 =
            self.0.iter().map(|(number, nanos)| nanos.saturating_sub(before(number))).sum();
        nanos as f64 / 1e9
    }
}

/// Reads `flags` of `/proc/PID/stat` (`proc_pid_stat(5)`), field 9.
fn flags(stat: &str) -> Option<u64> {
    processes::stat_fields(stat, 9)?.next()?.parse().ok()
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

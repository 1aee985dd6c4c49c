//! Samples the kernel functions in which the threads of a command sleep. This method needs no
//! privileges.
//!
//! `/proc/PID/task/TID/wchan` names the function in which a thread of the same user sleeps
//! (`proc_pid_wchan(5)`). The kernel skips the functions of locks, so it names the function that
//! wants the lock. Sleeps between two samples are missed, hence the blocks are a lower bound, and
//! the times an estimate.

use std::collections::HashMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::class::{Class, WaitMode, of_function};
use super::kernel::{Count, Kernel, Method, Sums};
use super::processes::{family, threads};

/// Time between two samples.
const EVERY: Duration = Duration::from_millis(5);

/// Samples after which the processes are listed again.
const LIST: u32 = 10;

/// Beginnings of the names of functions in which threads sleep for other reasons than locks.
const NO_LOCK: [&str; 8] = [
    "pipe_",
    "jbd2_log_wait",
    "jbd2_journal_commit",
    "ext4_sync_file",
    "__jbd2",
    "jbd2_complete",
    "jbd2_fc_",
    "kjournald",
];

/// A sample of one thread.
#[derive(Debug, PartialEq, Eq)]
struct ThreadSample {
    function: String,
    /// How often the thread was put on a processor. If it is unchanged, the thread is still in the
    /// same sleep.
    runs: u64,
}

#[derive(Debug, Default)]
struct Watcher {
    before: HashMap<u32, ThreadSample>,
    counts: HashMap<String, Count>,
    looks: u64,
    refused: u64,
}

impl Watcher {
    /// Counts a sample of a thread; a sleep is assumed to have lasted for `passed`, the time since
    /// the last sample.
    fn see(&mut self, thread: u32, look: Option<ThreadSample>, passed: Duration) {
        let Some(look) = look else {
            self.before.remove(&thread);
            return;
        };
        let count = self.counts.entry(look.function.clone()).or_default();
        count.blocks += u64::from(self.before.get(&thread) != Some(&look));
        count.nanos += u64::try_from(passed.as_nanos()).unwrap_or(u64::MAX);
        self.before.insert(thread, look);
    }

    fn run(mut self, root: u32, stop: &AtomicBool) -> Watcher {
        let mut all = Vec::new();
        let (mut last, mut left) = (Instant::now(), 0);
        while !stop.load(Ordering::Acquire) {
            if left == 0 {
                let processes = family(root);
                all = processes
                    .iter()
                    .flat_map(|process| threads(*process).into_iter().map(|t| (*process, t)))
                    .collect();
                left = LIST;
            }
            left -= 1;
            let passed = last.elapsed();
            last = Instant::now();
            for (process, thread) in &all {
                match look(*process, *thread) {
                    Ok(look) => self.see(*thread, look, passed),
                    Err(()) => self.refused += 1,
                }
            }
            self.looks += 1;
            thread::sleep(EVERY);
        }
        self
    }
}

/// The lock that a thread waits for; `None` if it runs or waits for something else. An error if
/// this process may not see it.
fn look(process: u32, thread: u32) -> Result<Option<ThreadSample>, ()> {
    let at = |name: &str| fs::read_to_string(format!("/proc/{process}/task/{thread}/{name}"));
    let function = match at("wchan") {
        Ok(function) => function,
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => return Err(()),
        Err(_) => return Ok(None),
    };
    if class_of(&function).is_none() {
        return Ok(None);
    }
    let times = at("schedstat").unwrap_or_default();
    let runs = times.split_whitespace().nth(2).and_then(|runs| runs.parse().ok()).unwrap_or(0);
    Ok(Some(ThreadSample { function, runs }))
}

/// The class of the lock that a thread waits for if it sleeps in this function.
fn class_of(function: &str) -> Option<Class> {
    if NO_LOCK.iter().any(|begin| function.starts_with(begin)) {
        return None;
    }
    of_function(function)
}

/// A sampler that is running in a thread.
#[derive(Debug)]
pub(super) struct Channels {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Watcher>,
}

impl Channels {
    /// Starts to sample a process and its descendants.
    pub(super) fn start(root: u32) -> std::io::Result<Channels> {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let watch = move || Watcher::default().run(root, &seen);
        let thread = thread::Builder::new().name("channels".to_owned()).spawn(watch)?;
        Ok(Channels { stop, thread })
    }

    /// Stops, and returns the result for a command that ran for `seconds` seconds.
    pub(super) fn finish(self, seconds: f64) -> Kernel {
        self.stop.store(true, Ordering::Release);
        let watcher = self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let mut notes = vec![format!(
            "{} looks at what the threads of the command sleep in: blocks are at least so many, \
             times are estimates",
            watcher.looks
        )];
        if watcher.refused > 0 {
            notes.push(format!("{} times a thread was not to be looked at", watcher.refused));
        }
        let mut sums = Sums::default();
        for (function, count) in &watcher.counts {
            sums.add(class_of(function).unwrap_or(Class::Other), WaitMode::Any, function, *count);
        }
        Kernel { method: Method::WaitChannels, notes, rows: sums.rows(seconds) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_that_lasts_is_one_block_and_another_one_is_another() {
        let mut watcher = Watcher::default();
        let look =
            |function: &str, runs| Some(ThreadSample { function: function.to_owned(), runs });
        let passed = Duration::from_millis(5);
        for seen in [
            look("ext4_file_write_iter", 1),
            look("ext4_file_write_iter", 1),
            look("ext4_file_write_iter", 3),
            None,
        ] {
            watcher.see(7, seen, passed);
        }
        watcher.see(7, look("ext4_file_write_iter", 3), passed);
        let count = watcher.counts["ext4_file_write_iter"];
        assert_eq!((count.blocks, count.nanos), (3, 20_000_000));
    }

    #[test]
    fn only_locks_count() {
        assert_eq!(class_of("ext4_buffered_write_iter"), Some(Class::Inode));
        for function in
            ["0", "pipe_read", "jbd2_log_wait_commit", "futex_do_wait", "folio_wait_bit_common"]
        {
            assert_eq!(class_of(function), None, "{function}");
        }
    }
}

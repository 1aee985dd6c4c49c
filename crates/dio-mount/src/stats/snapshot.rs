//! All statistics at one moment, and the difference of two such moments.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use super::figures::Figures;
use super::latency::Latency;

/// The version of the format of snapshots. Additions do not change it.
pub const VERSION: u32 = 1;

/// All statistics from the start of a mount to one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Snapshot {
    /// [`VERSION`] of the server that made it.
    pub version: u32,
    /// When the server began, in microseconds since 1970.
    pub started: u64,
    /// How long the server had run, in nanoseconds.
    pub nanos: u64,
    /// The server's texts about itself: `mountpoint`, `source`, `source_identity` (device and
    /// inode), `mode`.
    pub about: BTreeMap<String, String>,
    /// Latencies of the kernel's requests by [`Operation`](super::Operation), without operations
    /// that were never used.
    pub operations: BTreeMap<String, Latency>,
    /// Requests that failed, by error number (`errno(3)`).
    pub errors: BTreeMap<i32, u64>,
    /// Sums over all files.
    pub total: Figures,
    /// Number of open inodes.
    pub open_files: u64,
    /// The busiest files, the busiest first.
    pub files: Vec<FileFigures>,
    /// Values by [`Gauge`](super::Gauge), for the gauges that have a value.
    pub gauges: BTreeMap<String, u64>,
    /// The server's process.
    pub process: Process,
}

/// The statistics of one path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FileFigures {
    /// Relative to the root of the mount, as the file was opened.
    pub path: String,
    /// Its inode in the mount, while it is open.
    pub inode: Option<u64>,
    /// Number of inodes that are open by this path: 0 or 1, or more if the name was given to
    /// another file meanwhile.
    pub open: u64,
    /// When these counters began, in nanoseconds since the server began: at the first open by this
    /// path, or at a later open if the path was forgotten in between.
    pub since: u64,
    /// The counters of this path.
    #[serde(flatten)]
    pub figures: Figures,
}

/// The server's process (`proc_pid_stat(5)`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Process {
    /// Process ID, in the server's namespace.
    pub pid: u32,
    /// Resident memory in bytes.
    pub resident_bytes: u64,
    /// Number of threads.
    pub threads: u64,
    /// Processor time in user mode, in nanoseconds; the kernel reports it in steps of 1/100 s.
    pub user_nanos: u64,
    /// Processor time in the kernel, in nanoseconds, in the same steps.
    pub system_nanos: u64,
}

impl Process {
    /// Returns the statistics of this process; zeros where `/proc` is missing.
    pub fn this() -> Process {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        Process::parse(&stat).unwrap_or(Process { pid: std::process::id(), ..Process::default() })
    }

    /// Parses the fields after the name, which is in parentheses and may contain any character.
    fn parse(stat: &str) -> Option<Process> {
        let fields: Vec<&str> = stat.get(stat.rfind(')')? + 1..)?.split_whitespace().collect();
        // The first of them is field 3 of the manual page: state.
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        let tick = 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1);
        Some(Process {
            pid: std::process::id(),
            resident_bytes: field(24)? * rustix::param::page_size() as u64,
            threads: field(20)?,
            user_nanos: field(14)? * tick,
            system_nanos: field(15)? * tick,
        })
    }
}

impl Snapshot {
    /// Returns the sum over the files that [`files`](Self::files) does not list.
    pub fn others(&self) -> Figures {
        let mut others = self.total.clone();
        for file in &self.files {
            others.minus(&file.figures);
        }
        others
    }

    /// Returns the changes since an earlier snapshot; since the server began if there is none or if
    /// it is of another server.
    pub fn since(&self, earlier: Option<&Snapshot>) -> Interval {
        let earlier = earlier
            .filter(|earlier| earlier.started == self.started && earlier.nanos <= self.nanos);
        let mut change = self.clone();
        if let Some(earlier) = earlier {
            change.nanos -= earlier.nanos;
            change.total.minus(&earlier.total);
            for (name, latency) in &mut change.operations {
                if let Some(before) = earlier.operations.get(name) {
                    latency.minus(before);
                }
            }
            for (errno, count) in &mut change.errors {
                *count = count.saturating_sub(earlier.errors.get(errno).copied().unwrap_or(0));
            }
            change.errors.retain(|_, count| *count > 0);
            change.process.user_nanos =
                change.process.user_nanos.saturating_sub(earlier.process.user_nanos);
            change.process.system_nanos =
                change.process.system_nanos.saturating_sub(earlier.process.system_nanos);
            change.files_since(earlier);
        }
        Interval { seconds: change.nanos as f64 / 1e9, change }
    }

    /// Subtracts the earlier counters of each file. Leaves out files without changes. Also leaves
    /// out files whose earlier counters are unknown, because they were not among the busiest then
    /// or were forgotten in between.
    fn files_since(&mut self, earlier: &Snapshot) {
        let before: HashMap<&str, &FileFigures> =
            earlier.files.iter().map(|file| (file.path.as_str(), file)).collect();
        self.files.retain_mut(|file| {
            match before.get(file.path.as_str()) {
                Some(before)
                    if before.since == file.since && file.figures.at_least(&before.figures) =>
                {
                    file.figures.minus(&before.figures);
                }
                _ if file.since > earlier.nanos => {}
                _ => return false,
            }
            file.figures != Figures::default()
        });
        self.files.sort_by_key(|file| std::cmp::Reverse(file.figures.requests.total()));
    }
}

/// The changes between two snapshots.
#[derive(Clone, Debug, PartialEq)]
pub struct Interval {
    /// Its length in seconds.
    pub seconds: f64,
    /// The changes of counters; gauges, `about` and `open_files` are those of the later snapshot.
    pub change: Snapshot,
}

impl Interval {
    /// Returns `count` per second; 0 in an interval without length.
    pub fn rate(&self, count: u64) -> f64 {
        if self.seconds > 0.0 { count as f64 / self.seconds } else { 0.0 }
    }

    /// Returns the latencies of one operation, if there were any.
    pub fn operation(&self, operation: super::Operation) -> Option<&Latency> {
        self.change.operations.get(operation.name()).filter(|latency| latency.count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_anything() {
        let stat = "7 (a) b) (c) S 1 7 7 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 9 0 100 1000000 \
                    512 18446744073709551615";
        let process = Process::parse(stat).unwrap();
        let tick = 1_000_000_000 / rustix::param::clock_ticks_per_second();
        assert_eq!(
            (process.user_nanos, process.system_nanos, process.threads),
            (250 * tick, 50 * tick, 9)
        );
        assert_eq!(process.resident_bytes, 512 * rustix::param::page_size() as u64);
        assert_eq!(Process::parse("7 (a) S 1"), None);
    }

    #[test]
    fn this_process_uses_memory() {
        let process = Process::this();
        assert!(process.resident_bytes > 100_000 && process.threads > 0, "{process:?}");
    }
}

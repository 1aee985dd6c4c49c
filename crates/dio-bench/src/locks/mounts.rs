//! Blocks that the mounts of dio count themselves, read through their control sockets.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dio_mount::control::{self, Client, ControlError};
use dio_mount::session::table::{self, KIND, MountRecord};
use dio_mount::stats::{Interval, Snapshot, Wait};
use rustix::process::Pid;
use serde::{Deserialize, Serialize};

use super::processes::family;

/// Time between two rounds. Each round looks for new mounts and reads the counters of all known
/// mounts; if a mount disappears, its last counters count.
const EVERY: Duration = Duration::from_millis(250);

/// Blocks of one kind of wait.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MountWaitRow {
    /// `file`, `range`, `queue`, `room` or `device`, with the meaning that they have in `dio stat`.
    pub class: Cow<'static, str>,
    /// Number of requests that began to wait.
    #[serde(default)]
    pub blocks: u64,
    /// Blocks per second.
    pub blocks_per_second: f64,
    /// Sum of the times of all waits, in seconds; not known for the queue.
    #[serde(default)]
    pub waited_seconds: Option<f64>,
}

/// One mount.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Mount {
    /// Its mount point.
    pub mountpoint: PathBuf,
    /// Its mode, as its server reports it.
    pub mode: String,
    /// Its counters; classes in which no request waited are left out.
    pub rows: Vec<MountWaitRow>,
    /// Why the mount could not be queried, or could not be queried until the end.
    pub error: Option<String>,
}

/// The rows of a mount's counters in a period of `seconds` seconds.
pub fn rows(change: &Interval, seconds: f64) -> Vec<MountWaitRow> {
    let total = &change.change.total;
    let row = |wait: Wait| {
        let blocks = total.waits.get(wait);
        let waited_seconds = (wait != Wait::Queue).then(|| total.waited.get(wait) as f64 / 1e9);
        let blocks_per_second = if seconds > 0.0 { blocks as f64 / seconds } else { 0.0 };
        MountWaitRow { class: wait.name().into(), blocks, blocks_per_second, waited_seconds }
    };
    Wait::ALL.into_iter().map(row).filter(|row| row.blocks > 0).collect()
}

/// A mount whose counters are read again and again.
#[derive(Debug)]
struct Followed {
    at: PathBuf,
    client: Option<Client>,
    first: Option<Snapshot>,
    last: Option<Snapshot>,
    error: Option<String>,
}

impl Followed {
    /// `began` is the time at which the command began, in microseconds since 1970. The counters of
    /// a mount that started later count from zero; those of an earlier mount count from its first
    /// snapshot.
    fn new(at: PathBuf, client: Result<Client, ControlError>, began: u64) -> Followed {
        let mut followed = Followed { at, client: None, first: None, last: None, error: None };
        match client {
            Ok(client) => followed.client = Some(client),
            Err(error) => followed.error = Some(error.to_string()),
        }
        followed.look();
        if followed.last.as_ref().is_some_and(|first| first.started < began) {
            followed.first = followed.last.clone();
        }
        followed
    }

    fn look(&mut self) {
        let Some(client) = &mut self.client else { return };
        match client.snapshot() {
            Ok(snapshot) => self.last = Some(snapshot),
            Err(error) => {
                self.error = Some(format!(
                    "its last figures are from up to {} ms before its end: {error}",
                    EVERY.as_millis()
                ));
                self.client = None;
            }
        }
    }

    fn told(mut self, seconds: f64) -> Mount {
        self.look();
        let change = self.last.as_ref().map(|last| last.since(self.first.as_ref()));
        let mode = change
            .as_ref()
            .and_then(|change| change.change.about.get("mode").cloned())
            .unwrap_or_default();
        let rows = change.map(|change| rows(&change, seconds)).unwrap_or_default();
        Mount { mountpoint: self.at, mode, rows, error: self.error }
    }
}

/// The mounts that are followed, by device number.
#[derive(Debug)]
struct FollowedMounts {
    began: u64,
    /// Whether the caller named the mounts. If not, every mount that appears is followed.
    named: bool,
    mounts: BTreeMap<u64, Followed>,
}

impl FollowedMounts {
    /// Adds the mounts that are visible to a process, or to this process, and are not followed yet.
    fn add(&mut self, process: Option<u32>) {
        let pid = process.and_then(|process| Pid::from_raw(process.cast_signed()));
        let seen: Vec<MountRecord> = table::mounts_of(pid).unwrap_or_default();
        for entry in seen.into_iter().filter(|entry| entry.kind == KIND) {
            if self.mounts.contains_key(&entry.device) {
                continue;
            }
            let client = match pid {
                Some(pid) => control::connect_of(pid, Some(&entry.at)),
                None => control::connect(&entry.at),
            };
            self.mounts.insert(entry.device, Followed::new(entry.at, client, self.began));
        }
    }

    /// Reads the counters of all followed mounts. Unless the caller named the mounts, it then looks
    /// for new ones, in this process's mount namespace and in those of the command's processes.
    fn look(&mut self, root: u32) {
        self.mounts.values_mut().for_each(Followed::look);
        if self.named {
            return;
        }
        self.add(None);
        let mut namespaces = HashSet::from([namespace("self")]);
        for process in family(root) {
            if namespaces.insert(namespace(&process.to_string())) {
                self.add(Some(process));
            }
        }
    }
}

/// Identifies the mount namespace of a process.
fn namespace(process: &str) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/{process}/ns/mnt")).ok()
}

/// Mounts whose counters were read before a command starts.
#[derive(Debug)]
pub(super) struct Mounts {
    roll: FollowedMounts,
}

impl Mounts {
    /// Records what the mounts have counted so far: the named mounts, or all that this process can
    /// see.
    ///
    /// # Errors
    /// [`ControlError`] of a named mount.
    pub(super) fn before(named: &[PathBuf]) -> Result<Mounts, ControlError> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let began = u64::try_from(since.as_micros()).unwrap_or(u64::MAX);
        let mut roll = FollowedMounts { began, named: !named.is_empty(), mounts: BTreeMap::new() };
        for path in named {
            let client = control::connect(path)?;
            let device =
                rustix::fs::stat(path).map_or(roll.mounts.len() as u64, |stat| stat.st_dev);
            roll.mounts.insert(device, Followed::new(path.clone(), Ok(client), began));
        }
        if !roll.named {
            roll.add(None);
        }
        Ok(Mounts { roll })
    }

    /// Follows these mounts, and those that appear, while a command runs.
    pub(super) fn follow(mut self, root: u32) -> std::io::Result<Following> {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let thread = thread::Builder::new().name("mounts".to_owned()).spawn(move || {
            while !seen.load(Ordering::Acquire) {
                self.roll.look(root);
                thread::park_timeout(EVERY);
            }
            self.roll
        })?;
        Ok(Following { stop, thread })
    }
}

/// A thread that follows mounts while a command runs.
#[derive(Debug)]
pub(super) struct Following {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<FollowedMounts>,
}

impl Following {
    /// Stops, and returns what the mounts counted during `seconds` seconds.
    pub(super) fn finish(self, seconds: f64) -> Vec<Mount> {
        self.stop.store(true, Ordering::Release);
        self.thread.thread().unpark();
        let roll = self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let mut mounts: Vec<Mount> =
            roll.mounts.into_values().map(|mount| mount.told(seconds)).collect();
        mounts.sort_by(|one, other| Path::cmp(&one.mountpoint, &other.mountpoint));
        mounts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_that_nobody_waited_for_are_left_out() {
        let mut change = Snapshot::default();
        change.total.waits.add(Wait::File, 30);
        change.total.waited.add(Wait::File, 1_500_000_000);
        change.total.waits.add(Wait::Queue, 10);
        let rows = rows(&Interval { seconds: 5.0, change }, 5.0);
        assert_eq!(rows.len(), 2);
        assert_eq!(
            (&*rows[0].class, rows[0].blocks_per_second, rows[0].waited_seconds),
            ("file", 6.0, Some(1.5))
        );
        assert_eq!((&*rows[1].class, rows[1].blocks, rows[1].waited_seconds), ("queue", 10, None));
    }

    #[test]
    fn what_is_no_mount_of_dio_cannot_be_named() {
        let directory = tempfile::tempdir().unwrap();
        assert!(Mounts::before(&[directory.path().to_owned()]).is_err());
    }
}

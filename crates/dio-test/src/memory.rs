//! Processes that have little memory.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::Duration;

/// Mount point of the memory controller (`cgroups(7)`, version 1).
const CONTROLLER: &str = "/sys/fs/cgroup/memory";

/// A control group that limits the memory of its processes, including the page cache for their
/// files.
///
/// It is removed when this is dropped; its processes must have ended by then. A process joins it by
/// writing its ID into [`MemoryGroup::procs`].
#[derive(Debug)]
pub struct MemoryGroup {
    path: PathBuf,
}

impl MemoryGroup {
    /// Makes a group that is limited to `bytes`. Returns `None`, and reports a
    /// [skip](crate::skip!), if that is not possible: it needs root and the controller of version
    /// 1.
    ///
    /// # Panics
    /// As [`skip!`](crate::skip!) does.
    #[track_caller]
    #[must_use]
    pub fn new(bytes: u64) -> Option<MemoryGroup> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name =
            format!("dio-test-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = Path::new(CONTROLLER).join(name);
        let made = fs::create_dir(&path).and_then(|()| {
            let group = MemoryGroup { path };
            fs::write(group.path.join("memory.limit_in_bytes"), bytes.to_string()).map(|()| group)
        });
        made.map_err(|error| crate::skip!("no control group with a limit of memory: {error}")).ok()
    }

    /// The file to which processes write their IDs in order to join, as by `echo $$ > …` in a
    /// shell.
    #[must_use]
    pub fn procs(&self) -> PathBuf {
        self.path.join("cgroup.procs")
    }
}

impl Drop for MemoryGroup {
    /// A process that was waited for may not have left the group yet.
    fn drop(&mut self) {
        for _ in 0..100 {
            if fs::remove_dir(&self.path).is_ok() {
                return;
            }
            sleep(Duration::from_millis(20));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::{file_systems, resident_pages, run};

    #[test]
    fn the_page_cache_counts_and_groups_go_away() {
        const LIMIT: u64 = 16 << 20;
        let Some(group) = MemoryGroup::new(LIMIT) else { return };
        let dir = file_systems()[0].dir();
        let script =
            format!("echo $$ > {} && head -c 64M /dev/zero > file", group.procs().display());
        let out = run(Command::new("sh").args(["-c", &script]).current_dir(dir.path()));
        assert!(out.status.success(), "{out:?}");
        // A page has 4096 bytes or more.
        assert!(resident_pages(dir.path().join("file")) <= LIMIT / 4096);
        let path = group.path.clone();
        drop(group);
        assert!(!path.exists(), "{} is still there", path.display());
    }
}

//! Limits the memory of commands, and distinguishes memory that a virtual machine has not touched
//! yet from memory that it has.
//!
//! A host gives a virtual machine its memory page by page, when each page is first touched. A
//! program that fills the page cache pays for that too: `cp && sync` of 4 GiB took more than twice
//! as long in new memory as in memory that had been used. Therefore the report says which of the
//! two it was; with `--used-memory` it is used memory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use dio_common::memory::use_once;

use crate::Result;
use crate::tool::tool;

/// Writes to every page of the memory that is free now, and releases it. Returns the number of
/// touched bytes.
pub(crate) fn touch_all() -> u64 {
    eprintln!("benchsuite: touching all free memory");
    use_once(u64::MAX)
}

/// Prefix of the names of groups.
const PREFIX: &str = "dio-benchsuite-";

/// A control group with a memory limit, removed when dropped.
pub(crate) struct MemoryGroup {
    dir: PathBuf,
}

impl MemoryGroup {
    /// Version 1 has a separate hierarchy for memory; version 2 has one hierarchy for all
    /// controllers.
    pub(crate) fn new(limit: u64) -> Result<MemoryGroup> {
        let name = format!("{PREFIX}{}", std::process::id());
        let v1 = Path::new("/sys/fs/cgroup/memory");
        let (base, file) = if v1.join("memory.limit_in_bytes").exists() {
            (v1, "memory.limit_in_bytes")
        } else {
            (Path::new("/sys/fs/cgroup"), "memory.max")
        };
        remove_stale(base)?;
        let group = MemoryGroup { dir: base.join(name) };
        fs::create_dir(&group.dir).map_err(|e| format!("{}: {e}", group.dir.display()))?;
        fs::write(group.dir.join(file), limit.to_string())
            .map_err(|e| format!("cannot limit memory: {e}"))?;
        Ok(group)
    }

    /// `command` as a member of the group, together with all processes that it starts.
    pub(crate) fn member(&self, command: &Command) -> Command {
        let mut shell = tool("sh");
        shell.args(["-c", "echo $$ >\"$0\" && exec \"$@\""]).arg(self.dir.join("cgroup.procs"));
        shell.arg(command.get_program()).args(command.get_args());
        for (key, value) in command.get_envs() {
            shell.env(key, value.unwrap_or_default());
        }
        shell
    }
}

/// Removes groups that a killed run left behind. The kernel refuses to remove a group that contains
/// processes, so such a group stays.
fn remove_stale(base: &Path) -> Result<()> {
    for entry in fs::read_dir(base)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(PREFIX) {
            let _ = fs::remove_dir(entry.path());
        }
    }
    Ok(())
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // Version 1 only: returns the pages that are still charged to the group.
        let _ = fs::write(self.dir.join("memory.force_empty"), "0");
        // The server of a `dio run` ends some milliseconds after its command.
        let mut removed = fs::remove_dir(&self.dir);
        for _ in 0..50 {
            if removed.is_ok() {
                break;
            }
            thread::sleep(Duration::from_millis(100));
            removed = fs::remove_dir(&self.dir);
        }
        if let Err(e) = removed {
            eprintln!("benchsuite: {}: {e}", self.dir.display());
        }
    }
}

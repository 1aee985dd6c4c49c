//! Limits the memory of a study, page cache included: with plenty of memory, the page cache makes
//! everything that goes through it look faster.
//!
//! If the memory controller of version 1 is mounted, its `memory.limit_in_bytes` is used, otherwise
//! `memory.max` of version 2 (`cgroups(7)`; `Documentation/admin-guide/cgroup-v1/memory.rst`,
//! `cgroup-v2.rst`).

use std::fs;
use std::path::{Path, PathBuf};

use crate::BenchError;
use crate::undo::Undo;

/// The smallest limit with which a benchmark can run at all.
const LEAST: u64 = 32 << 20;

/// A control group with a memory limit. This process, and every process that it starts, is in it
/// until this is dropped.
#[derive(Debug)]
pub(crate) struct Limit {
    home: PathBuf,
    _undo: Undo,
}

/// The current control group, the one to create, and the name of its file for the limit.
#[derive(Debug, PartialEq, Eq)]
struct GroupPaths {
    /// The group that this process is in.
    home: PathBuf,
    /// The group to create.
    group: PathBuf,
    limit: &'static str,
}

/// Finds both groups by `/proc/self/cgroup` and the list of mounts.
fn place(own: &str, mounts: &str, name: &str) -> Option<GroupPaths> {
    let mounted = |kind: &str, option: &str| {
        mounts.lines().find_map(|line| {
            let fields: Vec<&str> = line.split(' ').collect();
            let [_, at, file_system, options, ..] = fields[..] else { return None };
            let found = file_system == kind
                && (option.is_empty() || options.split(',').any(|other| other == option));
            found.then(|| PathBuf::from(at))
        })
    };
    let path = |wanted: fn(&str) -> bool| {
        own.lines().find_map(|line| {
            let (_, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            wanted(controllers).then(|| path.trim_start_matches('/').to_owned())
        })
    };
    // Inside a container the path may not exist below the mount point; then the root of the mount
    // is used.
    let home_of = |root: PathBuf, path: String| {
        Some(root.join(path)).filter(|home| home.is_dir()).unwrap_or(root)
    };
    if let Some(root) = mounted("cgroup", "memory") {
        let home = home_of(
            root,
            path(|controllers| controllers.split(',').any(|other| other == "memory"))?,
        );
        let group = home.join(name);
        return Some(GroupPaths { home, group, limit: "memory.limit_in_bytes" });
    }
    // A group of version 2 that contains processes cannot have limited child groups, so ours is a
    // sibling of the one that this process is in.
    let home = home_of(mounted("cgroup2", "")?, path(str::is_empty)?);
    let group = home.parent()?.join(name);
    Some(GroupPaths { home, group, limit: "memory.max" })
}

impl Limit {
    /// Limits the memory of this process and of the processes that it starts.
    ///
    /// # Errors
    /// When there is no memory controller, or when this process has no right to create groups.
    pub(crate) fn enter(bytes: u64) -> Result<Limit, BenchError> {
        if bytes < LEAST {
            return Err(BenchError::Asked(format!(
                "a memory limit below {LEAST} bytes leaves no room to work"
            )));
        }
        let read = |path: &str| {
            fs::read_to_string(path).map_err(BenchError::system("read", Path::new(path)))
        };
        let name = format!("dio-bench-{}", std::process::id());
        let place = place(&read("/proc/self/cgroup")?, &read("/proc/self/mounts")?, &name);
        let Some(place) = place else {
            let text =
                "memory cannot be limited: no memory controller of control groups is mounted";
            return Err(BenchError::Asked(text.to_owned()));
        };
        fs::create_dir(&place.group)
            .map_err(BenchError::system("create the control group", &place.group))?;
        // Only empty groups can be removed, so the processes in it are moved back first.
        let script = r#"for p in $(cat "$0/cgroup.procs" 2>/dev/null); do echo $p > "$1/cgroup.procs" 2>/dev/null; done; [ ! -d "$0" ] || rmdir "$0""#;
        let words = [
            "sh".into(),
            "-c".into(),
            script.into(),
            place.group.clone().into(),
            place.home.clone().into(),
        ];
        let limit = Limit { home: place.home, _undo: Undo::by(words) };
        let file = place.group.join(place.limit);
        fs::write(&file, bytes.to_string()).map_err(BenchError::system("write", &file))?;
        join(&place.group)?;
        Ok(limit)
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        // The undo then moves the remaining processes out of the group and removes it.
        let _ = join(&self.home);
    }
}

fn join(group: &Path) -> Result<(), BenchError> {
    let file = group.join("cgroup.procs");
    fs::write(&file, std::process::id().to_string()).map_err(BenchError::system("write", &file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_made_where_the_controller_is() {
        let first = "cgroup /c/cpu cgroup rw,cpu 0 0\ncgroup /c/memory cgroup rw,relatime,memory 0 \
                     0\ncgroup2 /c/u cgroup2 rw 0 0\n";
        let own = "4:memory:/jobs/1\n1:cpu:/\n0::/\n";
        let found = place(own, first, "x").unwrap();
        // This directory does not exist here, so the root of the mount is used.
        assert_eq!(
            found,
            GroupPaths {
                home: "/c/memory".into(),
                group: "/c/memory/x".into(),
                limit: "memory.limit_in_bytes"
            }
        );
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        fs::create_dir_all(at.join("slice/service")).unwrap();
        let second =
            format!("none / tmpfs rw 0 0\ncgroup2 {} cgroup2 rw,nsdelegate 0 0\n", at.display());
        let found = place("0::/slice/service\n", &second, "x").unwrap();
        let expected = GroupPaths {
            home: at.join("slice/service"),
            group: at.join("slice/x"),
            limit: "memory.max",
        };
        assert_eq!(found, expected);
        assert_eq!(place("0::/\n", "none / tmpfs rw 0 0\n", "x"), None);
    }

    #[test]
    fn too_little_is_refused() {
        assert!(Limit::enter(1 << 20).unwrap_err().to_string().contains("leaves no room"));
    }
}

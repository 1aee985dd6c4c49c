//! Block devices that are made as slow as a disk: a limit to the bytes per second of each direction.
//!
//! The controller is `blkio` of control groups, version 1 (`Documentation/admin-guide/cgroup-v1/blkio-controller.rst`). The rule
//! is that of the *root* group: what is written through the page cache goes to the device from threads of the kernel, which are
//! in it, and a rule of the group of the program alone would let that pass. While rules are there, this process is in the root
//! group too, so all its ways to the device meet the same limit.

use std::fs;
use std::path::{Path, PathBuf};

use crate::BenchError;
use crate::undo::Undo;

/// The root group of the controller, with this process in it until it is dropped.
#[derive(Debug)]
pub(super) struct Controller {
    root: PathBuf,
    _home: Option<Undo>,
}

/// Where the controller is mounted.
fn root(mounts: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(' ').collect();
        let [_, at, "cgroup", options, ..] = fields[..] else { return None };
        options.split(',').any(|option| option == "blkio").then(|| PathBuf::from(at))
    })
}

/// The group that a process is in, by its `/proc/PID/cgroup`, below the root; empty for the root itself.
fn own(groups: &str) -> Option<&str> {
    groups.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        controllers.split(',').any(|name| name == "blkio").then(|| path.trim_start_matches('/'))
    })
}

impl Controller {
    /// Finds the controller and enters its root group.
    ///
    /// # Errors
    /// Without the controller, or the right to change groups.
    pub(super) fn enter() -> Result<Controller, BenchError> {
        let read = |path: &str| fs::read_to_string(path).map_err(BenchError::system("read", Path::new(path)));
        let Some(root) = root(&read("/proc/self/mounts")?) else {
            let text =
                "devices cannot be slowed down: the controller blkio of control groups, version 1, is not mounted";
            return Err(BenchError::Asked(text.to_owned()));
        };
        let groups = read("/proc/self/cgroup")?;
        let home = own(&groups).filter(|path| !path.is_empty()).map(|path| root.join(path).join("cgroup.procs"));
        let process = std::process::id().to_string();
        let mut undo = None;
        if let Some(home) = home.filter(|home| home.exists()) {
            let entry = root.join("cgroup.procs");
            fs::write(&entry, &process).map_err(BenchError::system("write", &entry))?;
            let script = r#"echo "$1" > "$0""#;
            undo = Some(Undo::by(["sh".into(), "-c".into(), script.into(), home.into(), process.into()]));
        }
        Ok(Controller { root, _home: undo })
    }

    /// A rule for a device, not in force yet. `number` is its `MAJOR:MINOR`.
    pub(super) fn rule(&self, number: &str, rate: u64) -> Rule {
        let script = r#"for way in read write; do echo "$1 0" > "$0/blkio.throttle.${way}_bps_device"; done"#;
        let root = self.root.clone();
        let words = ["sh".into(), "-c".into(), script.into(), root.clone().into(), number.into()];
        Rule { root, number: number.to_owned(), rate, _undo: Undo::by(words) }
    }
}

/// The limit of one device; gone when dropped.
#[derive(Debug)]
pub(super) struct Rule {
    root: PathBuf,
    number: String,
    rate: u64,
    _undo: Undo,
}

impl Rule {
    /// Puts the rule in force, or lifts it.
    pub(super) fn set(&self, on: bool) -> Result<(), BenchError> {
        let rate = if on { self.rate } else { 0 };
        for way in ["read", "write"] {
            let file = self.root.join(format!("blkio.throttle.{way}_bps_device"));
            fs::write(&file, format!("{} {rate}", self.number)).map_err(BenchError::system("write", &file))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_controller_is_found_among_others() {
        let mounts = "cgroup /c/cpu cgroup rw,cpu 0 0\nblkio /mnt tmpfs rw,blkio 0 0\n\
                      cgroup /c/io cgroup rw,relatime,blkio 0 0\ncgroup2 /c/u cgroup2 rw 0 0\n";
        assert_eq!(root(mounts), Some("/c/io".into()));
        assert_eq!(root("cgroup2 /c/u cgroup2 rw 0 0\n"), None);
        assert_eq!(own("9:cpu:/a\n7:net_cls,blkio:/jobs/one\n0::/\n"), Some("jobs/one"));
        assert_eq!(own("7:blkio:/\n"), Some(""));
        assert_eq!(own("0::/\n"), None);
    }
}

//! The control group whose limits apply to a device, in either version of control groups.
//!
//! Version 1 (`Documentation/admin-guide/cgroup-v1/blkio-controller.rst`): the limits are those of
//! the *root* group of `blkio`. Writes through the page cache reach the device from kernel threads,
//! which are in that group; a limit on a group of the program alone would not apply to them.
//!
//! Version 2 (`Documentation/admin-guide/cgroup-v2.rst`, "IO"): the root group has no limits, so a
//! group is created below it. Writes through the page cache count for the group that wrote the data
//! if that group has the memory controller as well ("Writeback").

use std::fs;
use std::path::{Path, PathBuf};

use crate::BenchError;

/// A version of control groups. Each has a file system type of its own that its controllers are
/// mounted as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    First,
    Second,
}

/// The control group that the limits are written to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LimitGroup {
    pub(super) version: Version,
    /// The mount point of the controller.
    pub(super) root: PathBuf,
    /// The group that this process is in at the start.
    pub(super) home: PathBuf,
    /// The group with the limits.
    pub(super) group: PathBuf,
}

/// Mount points of a file system, with their options.
fn mounted<'a>(mounts: &'a str, file_system: &'a str) -> impl Iterator<Item = (PathBuf, &'a str)> {
    mounts.lines().filter_map(move |line| {
        let fields: Vec<&str> = line.split(' ').collect();
        let [_, at, found, options, ..] = fields[..] else { return None };
        (found == file_system).then(|| (PathBuf::from(at), options))
    })
}

/// The group that a process is in, by its `/proc/PID/cgroup`. Inside a container the path may not
/// exist below the mount point; then the root of the mount is used.
fn home(groups: &str, root: &Path, is_ours: impl Fn(&str) -> bool) -> PathBuf {
    let path = groups.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        is_ours(controllers).then(|| path.trim_start_matches('/'))
    });
    let home = path.filter(|path| !path.is_empty()).map(|path| root.join(path));
    home.filter(|home| home.is_dir()).unwrap_or_else(|| root.to_owned())
}

fn has_word(text: &str, separator: char, word: &str) -> bool {
    text.trim().split(separator).any(|other| other == word)
}

impl LimitGroup {
    /// Finds the control group by `/proc/self/mounts` and `/proc/self/cgroup`; `name` is the name
    /// of a group to create, if one is needed.
    ///
    /// # Errors
    /// When neither version has the controller.
    pub(super) fn find(mounts: &str, groups: &str, name: &str) -> Result<LimitGroup, BenchError> {
        let first = mounted(mounts, "cgroup").find(|(_, options)| has_word(options, ',', "blkio"));
        if let Some((root, _)) = first {
            let home = home(groups, &root, |controllers| has_word(controllers, ',', "blkio"));
            return Ok(LimitGroup { version: Version::First, group: root.clone(), root, home });
        }
        let second = mounted(mounts, "cgroup2").find(|(root, _)| {
            fs::read_to_string(root.join("cgroup.controllers"))
                .is_ok_and(|there| has_word(&there, ' ', "io"))
        });
        let Some((root, _)) = second else {
            let text = "devices cannot be slowed down: control groups have neither the controller \
                        blkio (version 1) nor io (version 2) here";
            return Err(BenchError::Asked(text.to_owned()));
        };
        let home = home(groups, &root, str::is_empty);
        Ok(LimitGroup { version: Version::Second, group: root.join(name), root, home })
    }

    /// The controller's name.
    pub(super) fn controller(&self) -> &'static str {
        match self.version {
            Version::First => "blkio",
            Version::Second => "io",
        }
    }

    /// The group that this process creates and removes, if any.
    pub(super) fn own(&self) -> Option<&Path> {
        (self.version == Version::Second).then_some(&*self.group)
    }

    /// Whether this process has to be moved to another group for the limits to apply to it.
    pub(super) fn is_elsewhere(&self) -> bool {
        self.home != self.group
    }

    /// The files that hold the limits.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        let names: &[&str] = match self.version {
            Version::First => {
                &["blkio.throttle.read_bps_device", "blkio.throttle.write_bps_device"]
            }
            Version::Second => &["io.max"],
        };
        names.iter().map(|name| self.group.join(name)).collect()
    }

    /// The text that follows a device number in such a file, for a rate or for no limit.
    pub(super) fn words(&self, rate: Option<u64>) -> String {
        match (self.version, rate) {
            (Version::First, rate) => rate.unwrap_or(0).to_string(),
            (Version::Second, Some(rate)) => format!("rbps={rate} wbps={rate}"),
            (Version::Second, None) => "rbps=max wbps=max".to_owned(),
        }
    }

    /// Creates the group with its controllers, if one has to be created. The controllers stay
    /// enabled for groups below the root after the group is removed, since another group may use
    /// them by then.
    ///
    /// # Errors
    /// When this process has no right to, or when the root group contains processes. The latter
    /// fails in a container only: the root group of a machine may contain processes.
    pub(super) fn make(&self) -> Result<(), BenchError> {
        let Some(group) = self.own() else { return Ok(()) };
        let control = self.root.join("cgroup.subtree_control");
        let there = fs::read_to_string(&control).unwrap_or_default();
        if !has_word(&there, ' ', "memory") {
            // Without the memory controller, writes through the page cache are not limited, which
            // the report says.
            let _ = fs::write(&control, "+memory");
        }
        if !has_word(&there, ' ', "io") {
            fs::write(&control, "+io").map_err(|error| {
                let text = format!(
                    "the controller io cannot be enabled in '{}': {error}",
                    control.display()
                );
                BenchError::Asked(format!("devices cannot be slowed down: {text}"))
            })?;
        }
        match fs::create_dir(group) {
            // A process with the same id left it behind.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            made => made.map_err(BenchError::system("create the control group", group))?,
        }
        Ok(())
    }

    /// Moves this process, with all its threads, into a group. Processes that it starts from now on
    /// are in the group too.
    pub(super) fn join(group: &Path) -> std::io::Result<()> {
        fs::write(group.join("cgroup.procs"), std::process::id().to_string())
    }

    /// Moves this process back to its original group, and removes the group that was created.
    pub(super) fn leave(&self) -> Result<(), String> {
        let failed = |what: &str, at: &Path, error: std::io::Error| {
            format!("cannot {what} '{}': {error}", at.display())
        };
        if self.home.is_dir() {
            LimitGroup::join(&self.home)
                .map_err(|error| failed("go back to the control group", &self.home, error))?;
        } else {
            LimitGroup::join(&self.root)
                .map_err(|error| failed("go to the control group", &self.root, error))?;
        }
        match self.own().map(|group| (group, fs::remove_dir(group))) {
            Some((group, Err(error))) if group.exists() => {
                Err(failed("remove the control group", group, error))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A directory that looks like version 2 with these controllers, and the list of mounts.
    pub(in crate::disks) fn second(controllers: &str) -> (tempfile::TempDir, String) {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("cgroup.controllers"), format!("{controllers}\n")).unwrap();
        fs::write(root.path().join("cgroup.subtree_control"), "memory\n").unwrap();
        let mounts = format!(
            "none / tmpfs rw 0 0\ncgroup2 {} cgroup2 rw,nsdelegate 0 0\n",
            root.path().display()
        );
        (root, mounts)
    }

    #[test]
    fn the_first_version_is_found_among_others() {
        let (_root, second) = second("cpu io memory");
        let mounts = "cgroup /c/cpu cgroup rw,cpu 0 0\nblkio /mnt tmpfs rw,blkio 0 0\n\
                      cgroup /c/io cgroup rw,relatime,blkio 0 0\n";
        let place = LimitGroup::find(
            &format!("{second}{mounts}"),
            "9:cpu:/a\n7:net_cls,blkio:/\n0::/\n",
            "x",
        )
        .unwrap();
        assert_eq!(
            (place.version, &*place.root, &*place.group),
            (Version::First, "/c/io".as_ref(), "/c/io".as_ref())
        );
        assert!(!place.is_elsewhere() && place.own().is_none());
        assert_eq!(place.files()[1], Path::new("/c/io/blkio.throttle.write_bps_device"));
        assert_eq!((place.words(Some(5)), place.words(None)), ("5".to_owned(), "0".to_owned()));
    }

    #[test]
    fn home_is_the_group_of_the_process() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("jobs/one")).unwrap();
        let blkio = |controllers: &str| has_word(controllers, ',', "blkio");
        let found = home("9:cpu:/a\n7:net_cls,blkio:/jobs/one\n0::/\n", root.path(), blkio);
        assert_eq!(found, root.path().join("jobs/one"));
        assert_eq!(home("7:blkio:/not/here\n", root.path(), blkio), root.path());
        assert_eq!(home("0::/jobs\n", root.path(), str::is_empty), root.path().join("jobs"));
    }

    #[test]
    fn the_second_version_has_a_group_below_its_root() {
        let (root, mounts) = second("cpu io memory");
        let place = LimitGroup::find(&mounts, "0::/\n", "dio-bench-1").unwrap();
        assert_eq!((place.version, place.controller()), (Version::Second, "io"));
        let group = root.path().join("dio-bench-1");
        assert_eq!((place.own(), place.files()), (Some(&*group), vec![group.join("io.max")]));
        place.make().unwrap();
        assert!(group.is_dir() && place.is_elsewhere());
        assert_eq!(fs::read_to_string(root.path().join("cgroup.subtree_control")).unwrap(), "+io");
        place.make().unwrap();
        place.leave().unwrap();
        assert!(!group.exists());
        let home = fs::read_to_string(root.path().join("cgroup.procs")).unwrap();
        assert_eq!(home, std::process::id().to_string());
        place.leave().unwrap();
    }

    #[test]
    fn without_a_controller_it_is_refused_clearly() {
        let (_root, mounts) = second("cpu memory");
        let error = LimitGroup::find(&mounts, "0::/\n", "x").unwrap_err().to_string();
        assert!(
            error.contains("neither the controller blkio (version 1) nor io (version 2)"),
            "{error}"
        );
        let (root, mounts) = second("cpu io");
        fs::remove_file(root.path().join("cgroup.subtree_control")).unwrap();
        fs::create_dir(root.path().join("cgroup.subtree_control")).unwrap();
        let error =
            LimitGroup::find(&mounts, "0::/\n", "x").unwrap().make().unwrap_err().to_string();
        assert!(error.contains("the controller io cannot be enabled in"), "{error}");
    }
}

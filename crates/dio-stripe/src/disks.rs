//! Which targets are on one disk, and so are no faster than one.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use dio::stripe::Plan;

/// Targets of a plan that are on the same disk as one before them, each with that: directories of one file system, or file
/// systems and devices that are partitions of one disk. What cannot be asked is not among them.
pub fn on_one_disk(plan: &Plan) -> Vec<(&Path, &Path)> {
    let mut known: Vec<(&Path, Disk)> = Vec::new();
    let mut shared = Vec::new();
    for target in &plan.targets {
        let Some(disk) = Disk::of(target) else { continue };
        match known.iter().find(|(_, other)| *other == disk) {
            Some((first, _)) => shared.push((target.as_path(), *first)),
            None => known.push((target, disk)),
        }
    }
    shared
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Disk {
    /// The directory of a disk in sysfs.
    Known(PathBuf),
    /// A file system without a disk of its own (networks, btrfs), by its device number.
    Unknown(u64),
}

impl Disk {
    fn of(target: &Path) -> Option<Disk> {
        let found = fs::metadata(target).ok()?;
        let number = if found.file_type().is_block_device() { found.rdev() } else { found.dev() };
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        let Ok(device) = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")) else {
            return Some(Disk::Unknown(number));
        };
        // A partition is in the directory of its disk.
        let is_partition = device.join("partition").exists();
        Some(Disk::Known(if is_partition { device.parent()?.to_owned() } else { device }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_one_file_system_are_on_one_disk() {
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        let targets: Vec<PathBuf> = ["a", "b"].map(|name| dir.path().join(name)).into();
        targets.iter().for_each(|target| fs::create_dir(target).unwrap());
        let plan =
            Plan { targets: [targets.clone(), vec!["/proc".into(), "/nowhere".into()]].concat(), ..Plan::default() };
        assert_eq!(on_one_disk(&plan), [(targets[1].as_path(), targets[0].as_path())]);
    }
}

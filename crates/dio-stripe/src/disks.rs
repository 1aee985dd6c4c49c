//! Finds targets that share a disk, and so are no faster than one target.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use dio::stripe::StripePlan;

/// Returns the targets of a plan that share a disk with an earlier target, each with that earlier
/// target. These are directories of one file system, or file systems and devices on partitions of
/// one disk. Targets that cannot be examined are left out.
pub fn targets_sharing_disks(plan: &StripePlan) -> Vec<(&Path, &Path)> {
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
    /// A disk, by its directory in sysfs.
    Known(PathBuf),
    /// A file system without a disk of its own (network, btrfs), by its device number.
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
        // The directory of a partition is in that of its disk.
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
        let plan = StripePlan {
            targets: [targets.clone(), vec!["/proc".into(), "/nowhere".into()]].concat(),
            ..StripePlan::default()
        };
        assert_eq!(targets_sharing_disks(&plan), [(targets[1].as_path(), targets[0].as_path())]);
    }
}

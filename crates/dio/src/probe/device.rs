//! Properties of a block device that the kernel's block layer exports in sysfs
//! (`Documentation/ABI/stable/sysfs-block`).

use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Stat};

use super::answer::Kind;
use crate::file::words_of as words;
use crate::geometry::Mount;

/// A block device; for a partition, the properties are those of the whole disk. Sizes are in bytes.
/// A property that the kernel does not export is `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Device {
    /// Kernel name of the device or partition: `sda1`, `nvme0n1`, `dm-0`.
    pub name: String,
    /// Kernel name of the disk, if the device is a partition.
    pub disk: Option<String>,
    /// Kernel names of the devices below, if it is composed of others (device mapper, md).
    pub parts: Vec<String>,
    /// Major device number of the device or partition.
    pub major: u32,
    /// Minor device number of the device or partition.
    pub minor: u32,
    /// Smallest unit that it can address.
    pub logical_block: Option<u64>,
    /// Smallest unit that it can write without rewriting more.
    pub physical_block: Option<u64>,
    /// Smallest preferred size of requests.
    pub minimum_io: Option<u64>,
    /// Optimal size of requests; `None` if it states none.
    pub optimal_io: Option<u64>,
    /// Largest request that the kernel sends to it; larger ones are split.
    pub largest_request: Option<u64>,
    /// Largest request that the hardware accepts (`max_sectors_kb` may be raised to this).
    pub largest_hardware_request: Option<u64>,
    /// Most memory segments in one request.
    pub segments: Option<u64>,
    /// Alignment of memory that its transfers need.
    pub memory_align: Option<u64>,
    /// Number of requests that the queue holds.
    pub queue_depth: Option<u64>,
    /// Kernel read-ahead for buffered reads.
    pub read_ahead: Option<u64>,
    /// Active I/O scheduler.
    pub scheduler: Option<String>,
    /// Whether it is a rotational disk, whose seeks take time.
    pub rotational: Option<bool>,
    /// Whether it has a volatile write cache: data that was not flushed is lost when the power
    /// fails.
    pub volatile_write_cache: Option<bool>,
    /// Whether single writes can be forced to the medium.
    pub fua: Option<bool>,
    /// Whether completions can be polled for.
    pub polling: Option<bool>,
    /// Largest write that it never tears; `None` if it guarantees none.
    pub atomic_write_max: Option<u64>,
}

impl Device {
    /// Returns the block device below a file system, or the device itself.
    pub(super) fn below(kind: Kind, stat: &Stat, mount: Option<&Mount>) -> Result<Device, String> {
        let number = match kind {
            Kind::BlockDevice => stat.st_rdev,
            Kind::File | Kind::Directory => stat.st_dev,
        };
        let sysfs = Path::new("/sys");
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        if major != 0 {
            return Device::read(sysfs, major, minor).map_err(|error| words(&error));
        }
        // btrfs gives its subvolumes numbers of their own; the mount names the device.
        let source = mount.map(|mount| mount.source.as_str());
        match source.filter(|source| source.starts_with('/')).map(rustix::fs::stat) {
            Some(Ok(stat)) if FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice => {
                let number = stat.st_rdev;
                Device::read(sysfs, rustix::fs::major(number), rustix::fs::minor(number))
                    .map_err(|error| words(&error))
            }
            _ => Err("the file system is on no block device".to_owned()),
        }
    }

    /// Reads the properties of a device in sysfs, which is mounted at `sysfs`.
    ///
    /// # Errors
    /// If there is no such device.
    pub(super) fn read(sysfs: &Path, major: u32, minor: u32) -> io::Result<Self> {
        let link = sysfs.join(format!("dev/block/{major}:{minor}"));
        let own = std::fs::canonicalize(link)?;
        let is_partition = own.join("partition").exists();
        let disk = match own.parent() {
            Some(parent) if is_partition => parent.to_owned(),
            _ => own.clone(),
        };
        let queue = DeviceQueue(disk.join("queue"));
        Ok(Self {
            name: name_of(&own),
            disk: is_partition.then(|| name_of(&disk)),
            parts: parts_of(&disk),
            major,
            minor,
            logical_block: queue.number("logical_block_size"),
            physical_block: queue.number("physical_block_size"),
            minimum_io: queue.positive("minimum_io_size"),
            optimal_io: queue.positive("optimal_io_size"),
            largest_request: queue.kibibytes("max_sectors_kb"),
            largest_hardware_request: queue.kibibytes("max_hw_sectors_kb"),
            segments: queue.positive("max_segments"),
            // sysfs contains a mask of the bits that must be 0.
            memory_align: queue.number("dma_alignment").and_then(|mask| mask.checked_add(1)),
            queue_depth: queue.positive("nr_requests"),
            read_ahead: queue.kibibytes("read_ahead_kb"),
            scheduler: queue.text("scheduler").map(|text| active(&text)),
            rotational: queue.flag("rotational"),
            volatile_write_cache: queue.text("write_cache").map(|text| text != "write through"),
            fua: queue.flag("fua"),
            polling: queue.flag("io_poll"),
            atomic_write_max: queue.positive("atomic_write_unit_max_bytes"),
        })
    }
}

/// The `queue` directory of a disk.
struct DeviceQueue(PathBuf);

impl DeviceQueue {
    fn text(&self, name: &str) -> Option<String> {
        let text = std::fs::read_to_string(self.0.join(name)).ok()?;
        Some(text.trim().to_owned())
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.parse().ok()
    }

    /// Reads a number where 0 means that the device states nothing.
    fn positive(&self, name: &str) -> Option<u64> {
        self.number(name).filter(|number| *number > 0)
    }

    fn kibibytes(&self, name: &str) -> Option<u64> {
        self.number(name)?.checked_mul(1024)
    }

    fn flag(&self, name: &str) -> Option<bool> {
        self.number(name).map(|number| number != 0)
    }
}

/// Returns the word in brackets of a list such as `none [mq-deadline] kyber`, or the whole text
/// without brackets.
fn active(list: &str) -> String {
    let inside = list.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    inside.map_or(list, |(word, _)| word).to_owned()
}

fn name_of(directory: &Path) -> String {
    let name = directory.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Returns the names in the `slaves` directory, sorted.
fn parts_of(disk: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(disk.join("slaves")) else {
        return Vec::new();
    };
    let mut names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A tree like sysfs with a disk `sdq` (8:0) and its partition `sdq1` (8:1).
    fn tree() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let disk = root.path().join("devices/pci/block/sdq");
        fs::create_dir_all(disk.join("queue")).unwrap();
        fs::create_dir_all(disk.join("sdq1")).unwrap();
        fs::write(disk.join("sdq1/partition"), "1\n").unwrap();
        for (name, text) in [
            ("logical_block_size", "512\n"),
            ("optimal_io_size", "0\n"),
            ("max_sectors_kb", "1280\n"),
            ("dma_alignment", "3\n"),
            ("scheduler", "none [mq-deadline] kyber\n"),
            ("write_cache", "write back\n"),
            ("fua", "0\n"),
            ("rotational", "1\n"),
        ] {
            fs::write(disk.join("queue").join(name), text).unwrap();
        }
        let numbers = root.path().join("dev/block");
        fs::create_dir_all(&numbers).unwrap();
        std::os::unix::fs::symlink(&disk, numbers.join("8:0")).unwrap();
        std::os::unix::fs::symlink(disk.join("sdq1"), numbers.join("8:1")).unwrap();
        root
    }

    #[test]
    fn a_partition_answers_with_the_queue_of_its_disk() {
        let root = tree();
        let disk = Device::read(root.path(), 8, 0).unwrap();
        let partition = Device::read(root.path(), 8, 1).unwrap();
        assert_eq!((disk.name.as_str(), disk.disk.clone()), ("sdq", None));
        assert_eq!((partition.name.as_str(), partition.disk.as_deref()), ("sdq1", Some("sdq")));
        for device in [disk, partition] {
            assert_eq!(device.logical_block, Some(512));
            assert_eq!(device.optimal_io, None);
            assert_eq!(device.largest_request, Some(1280 * 1024));
            assert_eq!(device.memory_align, Some(4));
            assert_eq!(device.scheduler.as_deref(), Some("mq-deadline"));
            assert_eq!(device.volatile_write_cache, Some(true));
            assert_eq!((device.fua, device.rotational), (Some(false), Some(true)));
            assert_eq!(device.queue_depth, None);
        }
    }

    #[test]
    fn a_number_without_device_is_an_error() {
        let root = tree();
        let error = Device::read(root.path(), 8, 2).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_scheduler_without_choice_is_itself() {
        assert_eq!(active("none"), "none");
        assert_eq!(active("[none] bfq"), "none");
    }
}

//! Facts that the kernel reports about the storage below a file, without any measurement.

use std::path::{Path, PathBuf};

use dio::probe::{Device, Report};
use serde::{Deserialize, Serialize};

/// Facts about the storage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StorageFacts {
    /// Type of the file system; `None` on a bare device.
    pub file_system: Option<String>,
    /// Options of the mount.
    pub mount_options: Vec<String>,
    /// The block device below; `None` if there is none or the kernel does not report it.
    pub disk: Option<Disk>,
    /// Whether the processor reports that this machine is virtual.
    pub virtual_machine: bool,
    /// Whether direct writes were observed to pass through the page cache.
    pub buffers_direct_writes: bool,
}

/// A block device. For a partition, its whole disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Disk {
    /// Kernel name of the device.
    pub name: String,
    /// Vendor and model, if the device reports them.
    pub model: Option<String>,
    /// Name of the driver, if sysfs has it.
    pub driver: Option<String>,
    /// Names of the devices below it.
    pub parts: Vec<String>,
    /// The file behind a loop device.
    pub backing_file: Option<PathBuf>,
    /// `queue/rotational`.
    pub rotational: Option<bool>,
    /// `queue/write_cache`: true for "write back".
    pub volatile_cache: Option<bool>,
    /// `queue/fua`.
    pub fua: Option<bool>,
    /// `queue/physical_block_size`, in bytes: the smallest unit that the device writes.
    pub physical_block: Option<u64>,
    /// `queue/atomic_write_unit_max_bytes`: the largest write that is complete or absent after a
    /// power failure (NVMe's AWUPF).
    pub atomic: Option<u64>,
    /// Whether its requests pass the block layer's queues, which count its flushes. dm, md, bcache
    /// and NVMe's multipath forward them to lower devices without counting.
    pub queued: bool,
    /// The file with the counts of requests, including flushes.
    #[serde(skip)]
    pub(crate) stat: PathBuf,
}

/// The reason why a disk is not a physical medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum VirtualReason {
    /// A hypervisor provides it.
    Virtual,
    /// It is a file on another file system.
    Loop,
    /// It is memory.
    Memory,
    /// It is composed of other devices.
    Composed,
    /// Another machine, or a process, provides it.
    Remote,
}

impl Disk {
    /// Whether it is not a physical medium in this machine, as far as its names show.
    pub fn unreal(&self) -> Option<VirtualReason> {
        let name = self.name.as_str();
        let model = self.model.as_deref().unwrap_or("").to_lowercase();
        let driver = self.driver.as_deref().unwrap_or("");
        let begins = |list: &[&str]| list.iter().any(|beginning| name.starts_with(beginning));
        let makers = [
            "qemu",
            "vmware",
            "msft",
            "virtual",
            "vbox",
            "amazon elastic",
            "persistentdisk",
            "xen",
        ];
        if begins(&["loop"]) {
            Some(VirtualReason::Loop)
        } else if begins(&["ram", "zram", "brd"]) {
            Some(VirtualReason::Memory)
        } else if begins(&["nbd", "rbd", "drbd", "ublk"]) || driver.contains("iscsi") {
            Some(VirtualReason::Remote)
        } else if begins(&["dm-", "md", "bcache"]) {
            Some(VirtualReason::Composed)
        } else if begins(&["vd", "xvd"])
            || driver.contains("virtio")
            || makers.iter().any(|maker| model.contains(maker))
        {
            Some(VirtualReason::Virtual)
        } else {
            None
        }
    }
}

impl StorageFacts {
    /// The facts about the storage that a probe found.
    pub fn of(report: &Report) -> StorageFacts {
        let options = report.mount.as_ref().map_or("", |mount| mount.options.as_str());
        let by_magic = report.file_system.and_then(|found| found.name()).map(str::to_owned);
        let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        StorageFacts {
            file_system: report.mount.as_ref().map(|mount| mount.file_system.clone()).or(by_magic),
            mount_options: options
                .split(',')
                .filter(|option| !option.is_empty())
                .map(str::to_owned)
                .collect(),
            disk: report.device.as_ref().ok().map(|device| disk_of(Path::new("/sys"), device)),
            buffers_direct_writes: matches!(report.trials.write_direct, dio::probe::Answer::No(_)),
            virtual_machine: cpu
                .lines()
                .any(|line| line.starts_with("flags") && line.contains(" hypervisor")),
        }
    }

    /// The first of these options that the mount has, if any.
    pub(crate) fn mounted_with(&self, options: &[&str]) -> Option<&str> {
        self.mount_options.iter().map(String::as_str).find(|option| options.contains(option))
    }
}

fn disk_of(sysfs: &Path, device: &Device) -> Disk {
    let name = device.disk.as_ref().unwrap_or(&device.name);
    let place = sysfs.join("block").join(name);
    let text = |file: &str| {
        let text = std::fs::read_to_string(place.join(file)).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    let vendor = text("device/vendor").filter(|vendor| !vendor.starts_with("0x"));
    let model: Vec<String> = [vendor, text("device/model")].into_iter().flatten().collect();
    let driver = std::fs::read_link(place.join("device/driver")).ok();
    Disk {
        name: name.clone(),
        model: (!model.is_empty()).then(|| model.join(" ")),
        driver: driver.and_then(|link| Some(link.file_name()?.to_string_lossy().into_owned())),
        parts: device.parts.clone(),
        backing_file: text("loop/backing_file").map(PathBuf::from),
        rotational: device.rotational,
        volatile_cache: device.volatile_write_cache,
        fua: device.fua,
        physical_block: device.physical_block,
        atomic: device.atomic_write_max,
        queued: place.join("mq").exists(),
        stat: place.join("stat"),
    }
}

impl Disk {
    /// Whether a write of 512 bytes preserves the adjacent bytes even if the power fails. A disk
    /// with larger blocks reads the whole block, changes a part and writes it back, which is safe
    /// only if the write is atomic.
    pub(crate) fn keeps_neighbours(&self) -> bool {
        let Some(physical) = self.physical_block else { return false };
        physical <= 512 || self.atomic.is_some_and(|atomic| atomic >= physical.max(4096))
    }

    /// Its size in bytes. The file `size` counts sectors of 512 bytes on every disk.
    pub(crate) fn bytes(&self) -> Option<u64> {
        let text = std::fs::read_to_string(self.stat.with_file_name("size")).ok()?;
        Some(text.trim().parse::<u64>().ok()? * 512)
    }

    /// Number of flush requests that the disk has completed since it was attached
    /// (`Documentation/block/stat.rst`, Linux 5.5); `None` if they are not counted.
    pub(crate) fn flushes(&self) -> Option<u64> {
        if !self.queued {
            return None;
        }
        let text = std::fs::read_to_string(&self.stat).ok()?;
        text.split_whitespace().nth(15)?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_medium_is_known_by_its_name_driver_or_maker() {
        let disk = |name: &str, model: &str, driver: &str| Disk {
            name: name.into(),
            model: (!model.is_empty()).then(|| model.into()),
            driver: (!driver.is_empty()).then(|| driver.into()),
            ..Disk::default()
        };
        for (name, model, driver, expected) in [
            ("sda", "ATA ST4000DM004-2CV1", "sd", None),
            ("nvme0n1", "Samsung SSD 980 PRO 1TB", "nvme", None),
            ("vda", "", "virtio_blk", Some(VirtualReason::Virtual)),
            ("sda", "QEMU QEMU HARDDISK", "sd", Some(VirtualReason::Virtual)),
            ("nvme1n1", "Amazon Elastic Block Store", "nvme", Some(VirtualReason::Virtual)),
            ("loop7", "", "", Some(VirtualReason::Loop)),
            ("zram0", "", "", Some(VirtualReason::Memory)),
            ("dm-3", "", "", Some(VirtualReason::Composed)),
            ("nbd0", "", "", Some(VirtualReason::Remote)),
        ] {
            assert_eq!(disk(name, model, driver).unreal(), expected, "{name}");
        }
    }

    #[test]
    fn sysfs_is_read_and_flushes_are_the_sixteenth_number() {
        let root = tempfile::tempdir().unwrap();
        let place = root.path().join("block/sdq");
        std::fs::create_dir_all(place.join("device")).unwrap();
        std::fs::create_dir(place.join("mq")).unwrap();
        std::fs::write(place.join("device/model"), "ST4000DM004 \n").unwrap();
        std::fs::write(place.join("device/vendor"), "ATA     \n").unwrap();
        std::fs::write(place.join("stat"), " 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 4711 17\n")
            .unwrap();
        let device = Device { name: "sdq1".into(), disk: Some("sdq".into()), ..Device::default() };
        let disk = disk_of(root.path(), &device);
        assert_eq!((disk.name.as_str(), disk.model.as_deref()), ("sdq", Some("ATA ST4000DM004")));
        assert_eq!(disk.flushes(), Some(4711));
        // A device that forwards bios to lower devices has the counter too, but it is always 0.
        std::fs::remove_dir(place.join("mq")).unwrap();
        assert_eq!(disk_of(root.path(), &device).flushes(), None);
        // Kernels before 5.5 do not count them.
        std::fs::write(place.join("stat"), "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15\n").unwrap();
        assert_eq!(disk.flushes(), None);
    }
}

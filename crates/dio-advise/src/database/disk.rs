//! The disk of a directory, as far as a database cares.

use std::path::Path;

use dio::probe::{Answer, probe};

/// The properties of a disk and its file system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskFacts {
    /// The disk and the kind of its file system, for people.
    pub name: String,
    /// Bytes of a logical block; the unit of direct I/O.
    pub logical_block: u64,
    /// Bytes of a physical block: a smaller write is read, patched and written by the disk.
    pub physical_block: u64,
    /// Whether it turns; `None` if it is not known.
    pub rotational: Option<bool>,
    /// Whether the file system takes direct I/O.
    pub takes_direct: bool,
    /// Whether the file system never writes in place (btrfs, ZFS).
    pub copies_on_write: bool,
}

impl DiskFacts {
    /// Looks at the disk below a directory, in which files are made for a moment.
    ///
    /// # Errors
    /// A text that says what failed.
    pub(super) fn of(directory: &Path) -> Result<DiskFacts, String> {
        let report = probe(directory).map_err(|error| error.to_string())?;
        let kind = report.mount.as_ref().map_or("unknown", |mount| mount.file_system.as_str());
        let kind = kind.to_owned();
        let device = report.device.as_ref().ok();
        let disk = device.map_or("no disk", |device| device.name.as_str());
        let logical = device.and_then(|device| device.logical_block).unwrap_or(512);
        let physical = device.and_then(|device| device.physical_block).unwrap_or(logical);
        Ok(DiskFacts {
            name: format!("{disk}, {kind}"),
            logical_block: logical,
            physical_block: physical.max(logical),
            rotational: device.and_then(|device| device.rotational),
            takes_direct: matches!(report.trials.write_direct, Answer::Yes),
            copies_on_write: matches!(kind.as_str(), "btrfs" | "zfs" | "bcachefs"),
        })
    }
}

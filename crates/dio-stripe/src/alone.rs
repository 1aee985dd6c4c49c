//! Excludes writers from a striped file.

use std::os::fd::OwnedFd;
use std::path::Path;

use dio::stripe::Descriptor;
use dio::stripe::object::{DEVICE_IN_USE, PATIENCE_FORK, object_error, open_checked, take_within};
use dio::{File, FileError};
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

/// Excludes all writers from a striped file: while this exists, no process writes to the file or
/// opens it for writing.
#[derive(Debug)]
pub struct WriterExclusion {
    #[expect(dead_code, reason = "its lock ends with it")]
    first: Option<OwnedFd>,
    devices: Vec<OwnedFd>,
}

impl WriterExclusion {
    /// Releases the devices, so that they can be opened exclusively for the next step.
    pub fn release_devices(&mut self) {
        self.devices.clear();
    }
}

/// Excludes all writers from a striped file that belongs to user `owner`.
///
/// # Errors
/// EBUSY if it is open for writing; those of opening its first object.
pub fn exclude_writers(
    name: &Path,
    descriptor: &Descriptor,
    owner: u32,
) -> Result<WriterExclusion, FileError> {
    let open = |index: usize, access: OFlags| {
        let opened = open_checked(descriptor, index, owner, access).map(OwnedFd::from);
        opened.map_err(|(errno, what)| {
            let what = if errno == Errno::BUSY { DEVICE_IN_USE } else { what };
            object_error("take", name, index, &descriptor.object_path(index), errno, what)
        })
    };
    let devices = (0..descriptor.targets.len()).filter(|index| descriptor.is_device(*index));
    let devices =
        devices.map(|index| open(index, OFlags::RDWR | OFlags::EXCL)).collect::<Result<_, _>>()?;
    if descriptor.is_device(0) {
        return Ok(WriterExclusion { first: None, devices });
    }
    let first = match open(0, OFlags::RDWR) {
        // Network file systems grant exclusive locks only on files that are open for writing; for
        // other file systems the mode does not matter.
        Err(error) if matches!(error.errno(), Errno::ACCESS | Errno::PERM | Errno::ROFS) => {
            open(0, OFlags::RDONLY)
        }
        other => other,
    }?;
    take_within(PATIENCE_FORK, || flock(&first, FlockOperation::NonBlockingLockExclusive))
        .map_err(|errno| match errno {
            Errno::WOULDBLOCK => FileError::new("take", name, Errno::BUSY)
                .with_detail("somebody has it open for writing"),
            errno => object_error("take", name, 0, &descriptor.object_path(0), errno, ""),
        })?;
    Ok(WriterExclusion { first: Some(first), devices })
}

/// Excludes all other writers from a striped file that is open for writing, until `file` is closed.
///
/// # Errors
/// EBUSY if another process has it open for writing.
pub fn exclude_other_writers(file: &File) -> Result<(), FileError> {
    if file.objects()[0].is_device() {
        // A writer of a device has it open exclusively; only this process could open it again.
        return Ok(());
    }
    let Some(first) = file.objects()[0].descriptor() else { return Ok(()) };
    match take_within(PATIENCE_FORK, || flock(first, FlockOperation::NonBlockingLockExclusive)) {
        Err(Errno::WOULDBLOCK) => {
            // The failed attempt has dropped the shared lock (flock(2)).
            let _ = flock(first, FlockOperation::NonBlockingLockShared);
            Err(FileError::new("take", file.path(), Errno::BUSY)
                .with_detail("somebody else has it open for writing"))
        }
        // File systems without such locks return other errors; no process holds a lock there.
        _ => Ok(()),
    }
}

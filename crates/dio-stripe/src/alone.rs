//! Keeping writers out of a striped file.

use std::os::fd::OwnedFd;
use std::path::Path;

use dio::stripe::Descriptor;
use dio::stripe::object::{TAKEN, of_object, open_judged, patiently};
use dio::{File, FileError};
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

/// The right to move a striped file elsewhere: nobody writes it, or opens it for writing, while this lives.
#[derive(Debug)]
pub struct Alone {
    #[expect(dead_code, reason = "its lock ends with it")]
    first: Option<OwnedFd>,
    devices: Vec<OwnedFd>,
}

impl Alone {
    /// Lets go of the devices, for what is to be done with them next.
    pub fn leave_devices(&mut self) {
        self.devices.clear();
    }
}

/// Keeps all writers out of a striped file, whose owner is the user `owner`.
///
/// # Errors
/// EBUSY when somebody has it open for writing; what opening its first object answers.
pub fn alone(name: &Path, descriptor: &Descriptor, owner: u32) -> Result<Alone, FileError> {
    let open = |index: usize, access: OFlags| {
        let opened = open_judged(descriptor, index, owner, access).map(OwnedFd::from);
        opened.map_err(|(errno, what)| {
            let what = if errno == Errno::BUSY { TAKEN } else { what };
            of_object("take", name, index, &descriptor.object_path(index), errno, what)
        })
    };
    let devices = (0..descriptor.targets.len()).filter(|index| descriptor.is_device(*index));
    let devices = devices.map(|index| open(index, OFlags::RDWR | OFlags::EXCL)).collect::<Result<_, _>>()?;
    if descriptor.is_device(0) {
        return Ok(Alone { first: None, devices });
    }
    let first = match open(0, OFlags::RDWR) {
        // Network file systems lock alone only what may be written to; others do not mind.
        Err(error) if matches!(error.errno(), Errno::ACCESS | Errno::PERM | Errno::ROFS) => open(0, OFlags::RDONLY),
        other => other,
    }?;
    patiently(|| flock(&first, FlockOperation::NonBlockingLockExclusive)).map_err(|errno| match errno {
        Errno::WOULDBLOCK => FileError::new("take", name, Errno::BUSY).with_detail("somebody has it open for writing"),
        errno => of_object("take", name, 0, &descriptor.object_path(0), errno, ""),
    })?;
    Ok(Alone { first: Some(first), devices })
}

/// Keeps all others from writing to a striped file, or opening it for writing, as long as this open of it for writing lives.
///
/// # Errors
/// EBUSY when somebody else has it open for writing.
pub fn keep_alone(file: &File) -> Result<(), FileError> {
    if file.objects()[0].is_device() {
        // Who writes to one has it alone; only this process may have it open once more.
        return Ok(());
    }
    let Some(first) = file.objects()[0].descriptor() else { return Ok(()) };
    match patiently(|| flock(first, FlockOperation::NonBlockingLockExclusive)) {
        Err(Errno::WOULDBLOCK) => {
            // The one that it had has gone with the attempt (flock(2)).
            let _ = flock(first, FlockOperation::NonBlockingLockShared);
            Err(FileError::new("take", file.path(), Errno::BUSY).with_detail("somebody else has it open for writing"))
        }
        // Where there are no such locks nobody holds one.
        _ => Ok(()),
    }
}

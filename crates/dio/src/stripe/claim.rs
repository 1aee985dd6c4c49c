//! Claims devices for the objects of a new file.

use crate::quote::quoted;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::cures::CURE_HELD;
use super::device::{LARGE_BLOCKS, is_empty, open_exclusive, read_record, wipe};
use super::error::{format_error, object_error};
use super::format::{Descriptor, FormatError, HEADER_LEN, Header, LengthRecord, RECORD_AT};
use super::stamp::{STAMP_AT, Stamp};
use crate::file::{FileError, errno_of};
use crate::layout::STRIPE_BYTES_MIN;

const CURE_BUSY: &str = "unmount it, or end what uses it";
const CURE_FULL: &str = "see what it is with 'wipefs' or 'blkid -p'; --force overwrites it";
const CURE_SMALL: &str = "use smaller stripes or a larger device";

/// A device opened for the new file, which nobody else uses.
#[derive(Debug)]
pub(super) struct ClaimedDevice {
    pub(super) index: usize,
    path: PathBuf,
    file: fs::File,
}

/// Opens the devices of a new file exclusively, all of them or none, and writes nothing yet. A
/// device that holds data is refused, unless `force` allows to lose it.
///
/// # Errors
/// EBUSY for a device that is mounted or in use; EEXIST for one that holds data; what opening it
/// answers; EINVAL or ENOSPC if the layout does not fit the device.
pub(super) fn claim_devices(
    name: &Path,
    descriptor: &Descriptor,
    force: bool,
) -> Result<Vec<ClaimedDevice>, FileError> {
    let devices = (0..descriptor.targets.len()).filter(|index| descriptor.is_device(*index));
    let one = |index: usize| {
        let path = descriptor.object_path(index);
        let failed = |errno, what: &str| object_error("stripe", name, index, &path, errno, what);
        let file = open_exclusive(&path).map_err(|error| match errno_of(&error) {
            Errno::BUSY => failed(Errno::BUSY, "is mounted, or in use").with_cure(CURE_BUSY),
            errno => failed(errno, "cannot be opened"),
        })?;
        let system = |error: io::Error| failed(errno_of(&error), "");
        let block = rustix::fs::ioctl_blksszget(&file).map_err(|errno| failed(errno, ""))?;
        if u64::from(block) > STRIPE_BYTES_MIN {
            return Err(failed(Errno::INVAL, LARGE_BLOCKS));
        }
        let size = dio_sys::block_device_size(file.as_fd()).map_err(system)?;
        if size < descriptor.layout.start() + STRIPE_BYTES_MIN {
            return Err(failed(Errno::NOSPC, "has no room for a stripe").with_cure(CURE_SMALL));
        }
        if !force {
            check_empty(&file, &failed)?;
        }
        Ok(ClaimedDevice { index, path, file })
    };
    devices.map(one).collect()
}

fn check_empty(
    file: &fs::File,
    failed: &impl Fn(Errno, &str) -> FileError,
) -> Result<(), FileError> {
    let system = |error: io::Error| failed(errno_of(&error), "cannot be read");
    if let Some(header) = read_device_header(file).map_err(system)? {
        let of = header.name.map_or(header.id.to_string(), quoted);
        let what = format!("holds object {} of the striped file {of}", header.index);
        return Err(failed(Errno::EXIST, &what).with_cure(CURE_HELD));
    }
    match is_empty(file).map_err(system)? {
        true => Ok(()),
        false => Err(failed(Errno::EXIST, "is not empty: its first or last MiB holds something")
            .with_cure(CURE_FULL)),
    }
}

/// Reads the header of the object on a device; `None` if there is none.
pub fn read_device_header(file: &fs::File) -> io::Result<Option<Header>> {
    let mut bytes = vec![0; HEADER_LEN as usize];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(Header::decode(&bytes).ok())
}

impl ClaimedDevice {
    /// Writes the empty object with this header to the device, durably.
    ///
    /// Header, stamp and record cover three sectors only, so both ends of the device are wiped
    /// first. Otherwise the superblock of ext4, at byte 1024, would stay between them, and the
    /// device could still be mounted as the old file system.
    pub(super) fn make(&self, name: &Path, header: &Header) -> Result<(), FileError> {
        let failed = |error: io::Error| {
            object_error("stripe", name, self.index, &self.path, errno_of(&error), "")
        };
        let start = header.layout.start();
        let record =
            LengthRecord { id: header.id, durable: start, length: start, boot: String::new() };
        let senseless = |error: FormatError| format_error("stripe", name, &error);
        let stamp = Stamp::first(header.id, header.index, start).encode().map_err(senseless)?;
        let (record, header) =
            (record.encode().map_err(senseless)?, header.encode().map_err(senseless)?);
        let write = |bytes: &[u8], at| {
            self.file.write_all_at(bytes, at).and_then(|()| self.file.sync_data())
        };
        if !is_empty(&self.file).map_err(failed)? {
            wipe(&self.file).map_err(failed)?;
        }
        // The header is written last: where it is, the record and the stamp are too.
        write(&record, RECORD_AT)
            .and_then(|()| write(&stamp, STAMP_AT))
            .and_then(|()| write(&header, 0))
            .map_err(failed)
    }

    /// Undoes [`ClaimedDevice::make`].
    pub(super) fn undo(&self, descriptor: &Descriptor) {
        let id = descriptor.id;
        let header = read_device_header(&self.file)
            .is_ok_and(|found| found.is_some_and(|found| found.id == id));
        if header || read_record(&self.file, id, descriptor.layout.start()).is_ok() {
            // The first error is returned.
            let _ = wipe(&self.file);
        }
    }
}

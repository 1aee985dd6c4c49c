//! Looking at a striped file without opening it for I/O: what is there, and what is wrong.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::device::length_of;
use super::format::{Descriptor, HEADER_LEN};
use super::head::Head;
use super::open::{descriptor_of, judge_header, object_flags};
use crate::file::{FileError, words};

/// What was found of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectState {
    /// It is the right one.
    Sound,
    /// It is not there.
    Missing,
    /// Something else is there, or it cannot be read: in words.
    Wrong(String),
}

/// One object of a striped file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectReport {
    /// Where it is.
    pub path: PathBuf,
    /// What was found there.
    pub state: ObjectState,
    /// Its size in bytes, the header included; 0 where it is not known.
    pub size: u64,
    /// The size that it should have, by that of the file.
    pub share: u64,
    /// Bytes that it occupies on its disk.
    pub allocated: u64,
    /// Of an object that is a device, the size of that, in bytes.
    pub capacity: Option<u64>,
    /// It belongs to the file, by another descriptor than the one that was looked at.
    pub of_another: bool,
}

/// What a striped file consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The descriptor.
    pub descriptor: Descriptor,
    /// What was looked at is a copy of the descriptor, by at least one of the objects.
    pub copy: bool,
    /// Size of the contents in bytes, as far as the objects that were found tell.
    pub size: u64,
    /// The objects, in order.
    pub objects: Vec<ObjectReport>,
}

impl Report {
    /// Whether every object is there and is the right one.
    pub fn is_sound(&self) -> bool {
        self.objects.iter().all(|object| object.state == ObjectState::Sound)
    }

    /// Whether some objects hold bytes behind the end of the file, as a crash during an extension or a truncation leaves
    /// them; also while another process is writing there.
    pub fn has_surplus(&self) -> bool {
        self.objects.iter().any(|object| object.state == ObjectState::Sound && object.size > object.share)
    }

    /// Bytes on all disks together.
    pub fn allocated(&self) -> u64 {
        self.objects.iter().map(|object| object.allocated).sum()
    }
}

/// Looks at a file: `None` when it is an ordinary one.
///
/// # Errors
/// What opening and reading it answer; EBADMSG for a damaged descriptor. What is wrong with objects is in the report.
pub fn inspect(path: impl AsRef<Path>) -> Result<Option<Report>, FileError> {
    let path = path.as_ref();
    let failed = |error: io::Error| {
        FileError::new("read the stripes of", path, Errno::from_io_error(&error).unwrap_or(Errno::IO))
    };
    let head = fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(failed)?;
    let stat = rustix::fs::fstat(&head).map_err(|errno| failed(errno.into()))?;
    let Some(descriptor) = descriptor_of(&head, &stat, path)? else { return Ok(None) };
    let head = Head::of(&head).map_err(|errno| failed(errno.into()))?;
    let objects: Vec<_> = (0..descriptor.targets.len()).map(|index| look(&descriptor, index, &head)).collect();
    Ok(Some(Report::of(descriptor, objects)))
}

impl Report {
    fn of(descriptor: Descriptor, mut objects: Vec<ObjectReport>) -> Report {
        let layout = descriptor.layout;
        let reached = |(index, object): (usize, &ObjectReport)| {
            (object.state == ObjectState::Sound).then(|| layout.position(index, object.size))
        };
        let size = objects.iter().enumerate().filter_map(reached).min().unwrap_or(0);
        for (index, object) in objects.iter_mut().enumerate() {
            object.share = layout.share(index, size);
        }
        let copy = objects.iter().any(|object| object.of_another);
        Report { descriptor, copy, size, objects }
    }
}

pub(super) fn look(descriptor: &Descriptor, index: usize, head: &Head) -> ObjectReport {
    let path = descriptor.object_path(index);
    let mut report = ObjectReport {
        path,
        state: ObjectState::Sound,
        size: 0,
        share: 0,
        allocated: 0,
        capacity: None,
        of_another: false,
    };
    let system = |error: &io::Error| words(Errno::from_io_error(error).unwrap_or(Errno::IO));
    let opened = fs::OpenOptions::new()
        .read(true)
        .custom_flags(object_flags(descriptor, index).bits().cast_signed())
        .open(&report.path);
    match opened {
        Err(error) if error.kind() == io::ErrorKind::NotFound => report.state = ObjectState::Missing,
        Err(error) => report.state = ObjectState::Wrong(system(&error)),
        Ok(file) => {
            if let Err(what) = report.look_into(&file, descriptor, index, head, &system) {
                report.state = ObjectState::Wrong(what);
            }
        }
    }
    report
}

impl ObjectReport {
    /// Looks at an object that could be opened; in words what is wrong.
    fn look_into(
        &mut self,
        file: &fs::File,
        descriptor: &Descriptor,
        index: usize,
        head: &Head,
        system: &impl Fn(&io::Error) -> String,
    ) -> Result<(), String> {
        let metadata = file.metadata().map_err(|error| system(&error))?;
        (self.size, self.allocated) = (metadata.len(), metadata.blocks() * 512);
        if descriptor.is_device(index) && !metadata.file_type().is_block_device() {
            return Err("is no block device".into());
        }
        let mut bytes = vec![0; HEADER_LEN as usize];
        file.read_exact_at(&mut bytes, 0).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => "is cut off within its header".to_owned(),
            _ => system(&error),
        })?;
        let found = judge_header(&bytes, &descriptor.header(index, *head)).map_err(|(_, what)| what)?;
        self.of_another = !found.head.may_be(head);
        if descriptor.is_device(index) {
            let capacity = crate::sys::block_device_size(file.as_fd()).map_err(|error| system(&error))?;
            let length = length_of(file, descriptor.id, descriptor.layout.start());
            self.size = length.map_err(|(errno, what)| if what.is_empty() { words(errno) } else { what })?;
            (self.allocated, self.capacity) = (self.size, Some(capacity));
            if self.size > capacity {
                return Err("is shorter than what it held".into());
            }
        }
        Ok(())
    }
}

//! Inspects a striped file without opening it for I/O: its objects, and what is wrong with them.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode as Permissions, OFlags, Stat};
use rustix::io::Errno;

use super::device::{BOOT_ID, device_length};
use super::error::open_error;
use super::format::{Descriptor, HEADER_LEN};
use super::head::DescriptorInode;
use super::local::is_local;
use super::open::{LeaseWait, check_header, descriptor_of, open_checked, wait_until_consistent};
use super::stamp::{FoundState, compare_stamps};
use super::stamp_io::read_stamp;
use crate::file::{FileError, errno_of, words};

/// Permission bits of others than the owner to read and write.
const OTHERS: u32 = 0o066;

/// What was found where an object should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectState {
    /// The right object.
    Sound,
    /// Nothing.
    Missing,
    /// Something else, or an object that cannot be read or is damaged: the reason in words.
    Wrong(String),
}

/// One object of a striped file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectReport {
    /// Its path.
    pub path: PathBuf,
    /// What was found at this path.
    pub state: ObjectState,
    /// Its size in bytes, header included; 0 if unknown.
    pub size: u64,
    /// The size in bytes that it should have, by the size of the file.
    pub share: u64,
    /// Bytes allocated on its disk.
    pub allocated: u64,
    /// Size of the device in bytes, if the object is one.
    pub capacity: Option<u64>,
    /// Whether its header names another descriptor than the one inspected.
    pub of_another: bool,
    /// Whether more users may read or write it than may read or write the file. Never set for a
    /// device.
    pub exposed: bool,
    /// Its stamp and its length, until they are compared.
    seen: Option<FoundState>,
    /// The size in bytes by its stamp, if the object is wrong.
    stamped_size: Option<u64>,
}

/// The result of inspecting a striped file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StripeReport {
    /// The descriptor.
    pub descriptor: Descriptor,
    /// The owner of the descriptor file.
    pub owner: u32,
    /// Whether at least one object names another descriptor, so that the inspected one is a copy.
    pub copy: bool,
    /// Size of the contents in bytes, as far as the objects found determine it. For an object that
    /// was cut off or extended, the size in its stamp counts.
    pub size: u64,
    /// The objects, in the order of the layout.
    pub objects: Vec<ObjectReport>,
    /// The generation of the objects, which each writing session raises; 0 for the format without
    /// stamps, in which old copies of objects are not detected.
    pub generation: u64,
    /// Whether a writing session is open or was interrupted: then less is known of the lengths of
    /// the objects.
    pub open: bool,
}

impl StripeReport {
    /// Whether all objects are there and right.
    pub fn is_sound(&self) -> bool {
        self.objects.iter().all(|object| object.state == ObjectState::Sound)
    }

    /// Whether some objects hold bytes behind the end of the file. A crash during an extension or a
    /// truncation leaves such bytes; a process that is extending the file has them for a moment.
    pub fn has_surplus(&self) -> bool {
        self.objects
            .iter()
            .any(|object| object.state == ObjectState::Sound && object.size > object.share)
    }

    /// Bytes allocated on all disks.
    pub fn allocated(&self) -> u64 {
        self.objects.iter().map(|object| object.allocated).sum()
    }
}

/// Inspects a file. `None` if it is not striped.
///
/// # Errors
/// What opening and reading it answer; EAGAIN if its owner holds a lease on it
/// ([`LeaseWait::Briefly`]); EBADMSG for a damaged descriptor. Faults of objects are in the report.
pub fn inspect(path: impl AsRef<Path>) -> Result<Option<StripeReport>, FileError> {
    let path = path.as_ref();
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let head =
        LeaseWait::Briefly.open(|more| rustix::fs::open(path, flags | more, Permissions::empty()));
    let head = head.map_err(|errno| open_error("read the stripes of", path, errno))?;
    inspect_open(&head, path)
}

/// As [`inspect`], for an open file. `path` is used in messages.
///
/// # Errors
/// As [`inspect`].
pub fn inspect_open(head: impl AsFd, path: &Path) -> Result<Option<StripeReport>, FileError> {
    let failed = |errno| FileError::new("read the stripes of", path, errno);
    let stat = rustix::fs::fstat(&head).map_err(failed)?;
    let Some(descriptor) = descriptor_of(&head, &stat, path, LeaseWait::Briefly)? else {
        return Ok(None);
    };
    let head = DescriptorInode::of(&head).map_err(failed)?;
    let mut objects: Vec<ObjectReport> = Vec::new();
    let look = || {
        objects = (0..descriptor.targets.len())
            .map(|index| look(&descriptor, index, &head, &stat))
            .collect();
        let seen: Vec<FoundState> =
            objects.iter().filter_map(|object| object.seen.clone()).collect();
        let judged = compare_stamps(descriptor.id, &seen, &BOOT_ID);
        Ok((seen, judged))
    };
    let judged = wait_until_consistent(look, |faults| faults);
    let seen: Vec<FoundState> =
        objects.iter_mut().filter_map(|object| object.seen.take()).collect();
    let (generation, open) = match judged {
        Ok(standing) => (standing.generation, standing.is_open),
        Err(faults) => {
            let newest =
                seen.iter().filter_map(FoundState::stamp).map(|stamp| stamp.generation).max();
            for fault in faults {
                let object = &mut objects[fault.index];
                object.stamped_size =
                    seen.iter().find(|seen| seen.index == fault.index).and_then(|seen| {
                        let stamp =
                            seen.stamp().filter(|stamp| Some(stamp.generation) == newest)?;
                        Some(stamp.length_of(seen.length, seen.is_local, &BOOT_ID))
                    });
                object.state = ObjectState::Wrong(fault.what);
            }
            (0, false)
        }
    };
    Ok(Some(StripeReport {
        generation,
        open,
        ..StripeReport::of(descriptor, stat.st_uid, objects)
    }))
}

impl StripeReport {
    fn of(descriptor: Descriptor, owner: u32, mut objects: Vec<ObjectReport>) -> StripeReport {
        let layout = descriptor.layout;
        let reached = |(index, object): (usize, &ObjectReport)| {
            let length = if object.state == ObjectState::Sound {
                Some(object.size)
            } else {
                object.stamped_size
            };
            length.map(|length| layout.position(index, length))
        };
        let size = objects.iter().enumerate().filter_map(reached).min().unwrap_or(0);
        for (index, object) in objects.iter_mut().enumerate() {
            object.share = layout.object_size(index, size);
        }
        let copy = objects.iter().any(|object| object.of_another);
        StripeReport { descriptor, owner, copy, size, objects, generation: 0, open: false }
    }
}

pub(super) fn look(
    descriptor: &Descriptor,
    index: usize,
    head: &DescriptorInode,
    file: &Stat,
) -> ObjectReport {
    let path = descriptor.object_path(index);
    let mut report = ObjectReport {
        path,
        state: ObjectState::Sound,
        size: 0,
        share: 0,
        allocated: 0,
        capacity: None,
        of_another: false,
        exposed: false,
        seen: None,
        stamped_size: None,
    };
    let system = |error: &io::Error| words(errno_of(error));
    match open_checked(descriptor, index, file.st_uid, OFlags::RDONLY) {
        Err((Errno::NOENT, _)) => report.state = ObjectState::Missing,
        Err((errno, "")) => report.state = ObjectState::Wrong(words(errno)),
        Err((_, what)) => report.state = ObjectState::Wrong(what.to_owned()),
        Ok(object) => {
            let looked_into = rustix::fs::fstat(&object).map_err(words).and_then(|found| {
                report.look_into(&object, descriptor, index, head, &system)?;
                let wider = found.st_mode & OTHERS & !file.st_mode != 0;
                report.exposed = wider && !report.of_another && !descriptor.is_device(index);
                Ok(())
            });
            if let Err(what) = looked_into {
                report.state = ObjectState::Wrong(what);
            }
        }
    }
    report
}

impl ObjectReport {
    /// Inspects an object that could be opened. The error is in words.
    fn look_into(
        &mut self,
        file: &fs::File,
        descriptor: &Descriptor,
        index: usize,
        head: &DescriptorInode,
        system: &impl Fn(&io::Error) -> String,
    ) -> Result<(), String> {
        let metadata = file.metadata().map_err(|error| system(&error))?;
        (self.size, self.allocated) = (metadata.len(), metadata.blocks() * 512);
        let mut bytes = vec![0; HEADER_LEN as usize];
        file.read_exact_at(&mut bytes, 0).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => "is cut off within its header".to_owned(),
            _ => system(&error),
        })?;
        let found =
            check_header(&bytes, &descriptor.header(index, *head)).map_err(|(_, what)| what)?;
        self.of_another = !found.head.may_be(head);
        if descriptor.is_device(index) {
            let capacity =
                dio_sys::block_device_size(file.as_fd()).map_err(|error| system(&error))?;
            let length = device_length(file, descriptor.id, descriptor.layout.start());
            self.size = length
                .map_err(|(errno, what)| if what.is_empty() { words(errno) } else { what })?;
            (self.allocated, self.capacity) = (self.size, Some(capacity));
            if self.size > capacity {
                return Err("is shorter than what it held".into());
            }
        }
        let stamp = || read_stamp(|bytes, at| rustix::io::pread(file, bytes, at)).map_err(words);
        let stamp = found.stamped.then(stamp).transpose()?;
        if !descriptor.is_device(index) {
            // The size is asked again, because the stamp may have been written after the first
            // `stat`.
            self.size = file.metadata().map_err(|error| system(&error))?.len();
        }
        self.seen = Some(FoundState { index, stamp, length: self.size, is_local: is_local(file) });
        Ok(())
    }
}

//! Looking at a striped file without opening it for I/O: what is there, and what is wrong.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{OFlags, Stat};
use rustix::io::Errno;

use super::device::{BOOT, length_of};
use super::format::{Descriptor, HEADER_LEN};
use super::head::Head;
use super::local::is_local;
use super::open::{descriptor_of, judge_header, open_judged, settle_judgement};
use super::session::read_stamp;
use super::stamp::{Seen, judge};
use crate::file::{FileError, words};

/// Permissions of others than the owner to read and write.
const OTHERS: u32 = 0o066;

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
    /// Others may read or write it who may not read or write the file; of an object that is no device.
    pub exposed: bool,
    /// Its stamp and its length.
    seen: Option<Seen>,
    /// Of an object that is wrong, the size that its stamp tells.
    stamped_size: Option<u64>,
}

/// What a striped file consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The descriptor.
    pub descriptor: Descriptor,
    /// What was looked at is a copy of the descriptor, by at least one of the objects.
    pub copy: bool,
    /// Size of the contents in bytes, as far as the objects that were found tell; of one that was cut off or made longer,
    /// its stamp.
    pub size: u64,
    /// The objects, in order.
    pub objects: Vec<ObjectReport>,
    /// The generation of the objects, raised by each session of writing; 0 for the format without, of which old copies are not
    /// told from the objects.
    pub generation: u64,
    /// Somebody writes to the file, or was interrupted: then less is known of the lengths of its objects.
    pub open: bool,
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
    inspect_open(&head, path)
}

/// As [`inspect`], of a file that is open already; `path` is for messages.
///
/// # Errors
/// As [`inspect`].
pub fn inspect_open(head: impl AsFd, path: &Path) -> Result<Option<Report>, FileError> {
    let failed = |errno| FileError::new("read the stripes of", path, errno);
    let stat = rustix::fs::fstat(&head).map_err(failed)?;
    let Some(descriptor) = descriptor_of(&head, &stat, path)? else { return Ok(None) };
    let head = Head::of(&head).map_err(failed)?;
    let mut objects: Vec<ObjectReport> = Vec::new();
    let look = || {
        objects = (0..descriptor.targets.len()).map(|index| look(&descriptor, index, &head, &stat)).collect();
        let seen: Vec<Seen> = objects.iter().filter_map(|object| object.seen.clone()).collect();
        let judged = judge(descriptor.id, &seen, &BOOT);
        Ok((seen, judged))
    };
    let judged = settle_judgement(look, |faults| faults);
    let seen: Vec<Seen> = objects.iter_mut().filter_map(|object| object.seen.take()).collect();
    let (generation, open) = match judged {
        Ok(standing) => (standing.generation, standing.is_open),
        Err(faults) => {
            let newest = seen.iter().filter_map(Seen::stamp).map(|stamp| stamp.generation).max();
            for fault in faults {
                let object = &mut objects[fault.index];
                object.stamped_size = seen.iter().find(|seen| seen.index == fault.index).and_then(|seen| {
                    let stamp = seen.stamp().filter(|stamp| Some(stamp.generation) == newest)?;
                    Some(stamp.length_of(seen.length, seen.is_local, &BOOT))
                });
                object.state = ObjectState::Wrong(fault.what);
            }
            (0, false)
        }
    };
    Ok(Some(Report { generation, open, ..Report::of(descriptor, objects) }))
}

impl Report {
    fn of(descriptor: Descriptor, mut objects: Vec<ObjectReport>) -> Report {
        let layout = descriptor.layout;
        let reached = |(index, object): (usize, &ObjectReport)| {
            let length = if object.state == ObjectState::Sound { Some(object.size) } else { object.stamped_size };
            length.map(|length| layout.position(index, length))
        };
        let size = objects.iter().enumerate().filter_map(reached).min().unwrap_or(0);
        for (index, object) in objects.iter_mut().enumerate() {
            object.share = layout.object_size(index, size);
        }
        let copy = objects.iter().any(|object| object.of_another);
        Report { descriptor, copy, size, objects, generation: 0, open: false }
    }
}

pub(super) fn look(descriptor: &Descriptor, index: usize, head: &Head, file: &Stat) -> ObjectReport {
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
    let system = |error: &io::Error| words(Errno::from_io_error(error).unwrap_or(Errno::IO));
    match open_judged(descriptor, index, file.st_uid, OFlags::RDONLY) {
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
        let mut bytes = vec![0; HEADER_LEN as usize];
        file.read_exact_at(&mut bytes, 0).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => "is cut off within its header".to_owned(),
            _ => system(&error),
        })?;
        let found = judge_header(&bytes, &descriptor.header(index, *head)).map_err(|(_, what)| what)?;
        self.of_another = !found.head.may_be(head);
        if descriptor.is_device(index) {
            let capacity = dio_sys::block_device_size(file.as_fd()).map_err(|error| system(&error))?;
            let length = length_of(file, descriptor.id, descriptor.layout.start());
            self.size = length.map_err(|(errno, what)| if what.is_empty() { words(errno) } else { what })?;
            (self.allocated, self.capacity) = (self.size, Some(capacity));
            if self.size > capacity {
                return Err("is shorter than what it held".into());
            }
        }
        let stamp = || read_stamp(|bytes, at| rustix::io::pread(file, bytes, at)).map_err(words);
        let stamp = found.stamped.then(stamp).transpose()?;
        if !descriptor.is_device(index) {
            // The stamp may be of a moment after the first look.
            self.size = file.metadata().map_err(|error| system(&error))?.len();
        }
        self.seen = Some(Seen { index, stamp, length: self.size, is_local: is_local(file) });
        Ok(())
    }
}

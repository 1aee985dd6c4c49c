//! Mending a striped file: cutting off what a crash has left behind its end, giving stamps to objects of the first format, and
//! taking for the file what is left of a damaged one.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{OFlags, Stat};
use rustix::io::Errno;

use crate::alone::{alone, keep_alone};
use crate::errno;
use dio::file::{FileError, OpenOptions};
use dio::stripe::Head;
use dio::stripe::descriptor_of;
use dio::stripe::inspect;
use dio::stripe::object::{BOOT, length_of};
use dio::stripe::object::{Phase, STAMP_AT, Stamp};
use dio::stripe::object::{judge_header, judge_owner, of_object, open_judged, wrong};
use dio::stripe::{Descriptor, HEADER_LEN, Header};

/// Cuts off what objects hold behind the end of a file, wherever they are, durably, and gives stamps to objects that have none.
/// Who opens a file for writing cuts only on file systems of this machine alone: where the locks of other machines are not seen,
/// somebody there may be making the file longer at that moment, and the caller has to know that nobody does.
///
/// # Errors
/// EINVAL for what is no striped file; EBUSY when somebody has it open for writing, as far as this machine knows; what opening and
/// resizing it answer, which is what is wrong with an object.
pub fn repair(path: impl AsRef<Path>) -> Result<(), FileError> {
    let path = path.as_ref();
    // Of objects without stamps nobody can say which of them is wrong, so they are taken as they are.
    let old = inspect(path)?.is_some_and(|report| report.is_sound() && report.generation == 0);
    even_out(path, old)?;
    if old { give_stamps(path) } else { Ok(()) }
}

/// Takes for the file what is left of one whose objects are too old, too short or damaged: it ends where the first byte is missing,
/// and what objects hold behind that is lost. Objects that are missing, or of another file, cannot be taken.
///
/// # Errors
/// As [`repair`], but for objects that do not fit together.
pub fn allow_damaged(path: impl AsRef<Path>) -> Result<(), FileError> {
    even_out(path.as_ref(), true)?;
    give_stamps(path.as_ref())
}

fn even_out(path: &Path, what_is_there: bool) -> Result<(), FileError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    if what_is_there {
        options.allow_damaged();
    }
    let file = options.open(path)?;
    if file.layout().is_none() {
        return Err(FileError::new("repair", path, Errno::INVAL).with_detail("it is no striped file"));
    }
    keep_alone(&file)?;
    file.set_size(file.size()?)?;
    file.sync_all()
}

/// Gives all objects stamps of a new generation if some have none, in the order of phases that a session has: an interruption of
/// the first ones leaves a file that can be read, and be given stamps again.
fn give_stamps(path: &Path) -> Result<(), FileError> {
    let failed = |errno| FileError::new("repair", path, errno);
    let head = fs::File::open(path).map_err(|error| failed(errno(&error)))?;
    let stat = rustix::fs::fstat(&head).map_err(failed)?;
    let Some(descriptor) = descriptor_of(&head, &stat, path)? else { return Err(failed(Errno::INVAL)) };
    let own = Head::of(&head).map_err(failed)?;
    let _alone = alone(path, &descriptor, stat.st_uid)?;
    let objects = (0..descriptor.targets.len())
        .map(|index| Old::open(path, (&descriptor, index), &stat, &own))
        .collect::<Result<Vec<_>, _>>()?;
    if objects.iter().all(|object| object.header.stamped) {
        return Ok(());
    }
    let generation = objects.iter().map(|object| object.generation).max().unwrap_or(0) + 1;
    for (phase, with_header) in [(Phase::Opening, true), (Phase::Closed, false)] {
        for object in &objects {
            let written = object.write_stamp(&descriptor, generation, phase).and_then(|()| match with_header {
                true => object.write_header(),
                false => Ok(()),
            });
            written.map_err(|error| of_object("repair", path, object.index, &object.path, errno(&error), ""))?;
        }
    }
    Ok(())
}

/// An object that is to get a stamp.
struct Old {
    index: usize,
    path: PathBuf,
    file: fs::File,
    header: Header,
    /// 0 of one without a stamp.
    generation: u64,
    length: u64,
}

impl Old {
    fn open(name: &Path, (descriptor, index): (&Descriptor, usize), head: &Stat, own: &Head) -> Result<Old, FileError> {
        let path = descriptor.object_path(index);
        let failed = |errno, what: &str| of_object("repair", name, index, &path, errno, what);
        let file = open_judged(descriptor, index, head.st_uid, OFlags::RDWR);
        let file = file.map_err(|(errno, what)| failed(errno, what))?;
        let mut bytes = vec![0; HEADER_LEN as usize];
        file.read_exact_at(&mut bytes, 0).map_err(|error| failed(errno(&error), ""))?;
        let header = judge_header(&bytes, &descriptor.header(index, *own));
        let header = header.map_err(|(errno, what)| failed(errno, &what))?;
        judge_owner(descriptor, index, &header, head.st_uid).map_err(|(errno, what)| failed(errno, what))?;
        let length = match descriptor.is_device(index) {
            true => length_of(&file, descriptor.id, descriptor.layout.start()),
            false => file.metadata().map(|found| found.len()).map_err(|error| (errno(&error), String::new())),
        };
        let length = length.map_err(|(errno, what)| failed(errno, &what))?;
        let stamp = header.stamped.then(|| Stamp::within(&bytes).ok()).flatten();
        let generation = stamp.map_or(0, |stamp| stamp.generation);
        Ok(Old { index, path, file, header, generation, length })
    }

    /// A writer that comes before all objects have stamps knows of none, so until then they claim nothing.
    fn write_stamp(&self, descriptor: &Descriptor, generation: u64, phase: Phase) -> std::io::Result<()> {
        let length = if phase == Phase::Closed { self.length } else { descriptor.layout.start() };
        let boot = BOOT.clone();
        let (id, index) = (descriptor.id, self.index);
        let stamp = Stamp { id, index, generation, phase, durable: length, length, boot };
        let bytes = stamp.encode().map_err(std::io::Error::other)?;
        self.file.write_all_at(&bytes, STAMP_AT)?;
        self.file.sync_all()
    }

    fn write_header(&self) -> std::io::Result<()> {
        let header = Header { stamped: true, ..self.header.clone() };
        let bytes = header.encode().map_err(|error| wrong("repair", &self.path, &error))?;
        self.file.write_all_at(&bytes, 0)?;
        self.file.sync_all()
    }
}

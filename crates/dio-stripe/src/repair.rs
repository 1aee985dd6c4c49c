//! Repairs striped files: cuts off bytes that a crash left after the end, gives stamps to objects
//! of the first format, and accepts damaged objects as they are.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{OFlags, Stat};
use rustix::io::Errno;

use crate::alone::{exclude_other_writers, exclude_writers};
use crate::system::errno;
use dio::file::{FileError, OpenOptions};
use dio::stripe::inspect;
use dio::stripe::object::{BOOT_ID, device_length};
use dio::stripe::object::{Phase, STAMP_AT, Stamp};
use dio::stripe::object::{check_header, check_owner, format_error, object_error, open_checked};
use dio::stripe::{Descriptor, DescriptorInode, HEADER_LEN, Header, LeaseWait, descriptor_of};

/// Cuts off the bytes of objects after the end of a file, durably, on any file system, and gives
/// stamps to objects without stamps. Opening a file for writing does that only on local file
/// systems. On other file systems, a process on another machine may be extending the file unseen;
/// the caller must make sure that none is.
///
/// # Errors
/// EINVAL for a file that is not striped; EBUSY if it is open for writing, as far as this machine
/// can determine; those of opening and resizing it, for example for a faulty object.
pub fn repair(path: impl AsRef<Path>) -> Result<(), FileError> {
    let path = path.as_ref();
    // Without stamps it cannot be determined which object is damaged, so all are accepted as they
    // are.
    let old = inspect(path)?.is_some_and(|report| report.is_sound() && report.generation == 0);
    even_out(path, old)?;
    if old { give_stamps(path) } else { Ok(()) }
}

/// Accepts objects that are outdated, too short or damaged as they are: the file ends at the first
/// missing byte, and bytes after that are lost. Missing objects, and objects of another file, are
/// not accepted.
///
/// # Errors
/// As [`repair`], except for objects that do not fit together.
pub fn allow_damaged(path: impl AsRef<Path>) -> Result<(), FileError> {
    even_out(path.as_ref(), true)?;
    give_stamps(path.as_ref())
}

fn even_out(path: &Path, accept_damage: bool) -> Result<(), FileError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    if accept_damage {
        options.allow_damaged();
    }
    let file = options.open(path)?;
    if file.layout().is_none() {
        return Err(
            FileError::new("repair", path, Errno::INVAL).with_detail("it is no striped file")
        );
    }
    exclude_other_writers(&file)?;
    file.set_size(file.size()?)?;
    file.sync_all()
}

/// Gives all objects stamps of a new generation if some have none. The phases have the same order
/// as when a file is opened and closed. So after an interruption the file can be read, and can be
/// given stamps again.
fn give_stamps(path: &Path) -> Result<(), FileError> {
    let failed = |errno| FileError::new("repair", path, errno);
    let head = fs::File::open(path).map_err(|error| failed(errno(&error)))?;
    let stat = rustix::fs::fstat(&head).map_err(failed)?;
    let Some(descriptor) = descriptor_of(&head, &stat, path, LeaseWait::AsOpen)? else {
        return Err(failed(Errno::INVAL));
    };
    let own = DescriptorInode::of(&head).map_err(failed)?;
    let _alone = exclude_writers(path, &descriptor, stat.st_uid)?;
    let objects = (0..descriptor.targets.len())
        .map(|index| RepairedObject::open(path, (&descriptor, index), &stat, &own))
        .collect::<Result<Vec<_>, _>>()?;
    if objects.iter().all(|object| object.header.stamped) {
        return Ok(());
    }
    let generation = objects.iter().map(|object| object.generation).max().unwrap_or(0) + 1;
    for (phase, with_header) in [(Phase::Opening, true), (Phase::Closed, false)] {
        for object in &objects {
            let written =
                object.write_stamp(&descriptor, generation, phase).and_then(
                    |()| match with_header {
                        true => object.write_header(),
                        false => Ok(()),
                    },
                );
            written.map_err(|error| {
                object_error("repair", path, object.index, &object.path, errno(&error), "")
            })?;
        }
    }
    Ok(())
}

/// An object that gets a stamp.
struct RepairedObject {
    index: usize,
    path: PathBuf,
    file: fs::File,
    header: Header,
    /// 0 for an object without a stamp.
    generation: u64,
    length: u64,
}

impl RepairedObject {
    fn open(
        name: &Path,
        (descriptor, index): (&Descriptor, usize),
        head: &Stat,
        own: &DescriptorInode,
    ) -> Result<RepairedObject, FileError> {
        let path = descriptor.object_path(index);
        let failed = |errno, what: &str| object_error("repair", name, index, &path, errno, what);
        let file = open_checked(descriptor, index, head.st_uid, OFlags::RDWR);
        let file = file.map_err(|(errno, what)| failed(errno, what))?;
        let mut bytes = vec![0; HEADER_LEN as usize];
        file.read_exact_at(&mut bytes, 0).map_err(|error| failed(errno(&error), ""))?;
        let header = check_header(&bytes, &descriptor.header(index, *own));
        let header = header.map_err(|(errno, what)| failed(errno, &what))?;
        check_owner(descriptor, index, &header, head.st_uid)
            .map_err(|(errno, what)| failed(errno, what))?;
        let length = match descriptor.is_device(index) {
            true => device_length(&file, descriptor.id, descriptor.layout.start()),
            false => file
                .metadata()
                .map(|found| found.len())
                .map_err(|error| (errno(&error), String::new())),
        };
        let length = length.map_err(|(errno, what)| failed(errno, &what))?;
        let stamp = header.stamped.then(|| Stamp::within(&bytes).ok()).flatten();
        let generation = stamp.map_or(0, |stamp| stamp.generation);
        Ok(RepairedObject { index, path, file, header, generation, length })
    }

    /// Writers that open the file before all objects have stamps do not update them, so until then
    /// the stamps state no length.
    fn write_stamp(
        &self,
        descriptor: &Descriptor,
        generation: u64,
        phase: Phase,
    ) -> std::io::Result<()> {
        let length = if phase == Phase::Closed { self.length } else { descriptor.layout.start() };
        let boot = BOOT_ID.clone();
        let (id, index) = (descriptor.id, self.index);
        let stamp = Stamp { id, index, generation, phase, durable: length, length, boot };
        let bytes = stamp.encode().map_err(std::io::Error::other)?;
        self.file.write_all_at(&bytes, STAMP_AT)?;
        self.file.sync_all()
    }

    fn write_header(&self) -> std::io::Result<()> {
        let header = Header { stamped: true, ..self.header.clone() };
        let bytes = header.encode().map_err(|error| format_error("repair", &self.path, &error))?;
        self.file.write_all_at(&bytes, 0)?;
        self.file.sync_all()
    }
}

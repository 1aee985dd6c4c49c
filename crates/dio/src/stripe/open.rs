//! Recognising a striped file, and opening its objects.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{FileType, FlockOperation, Mode as Permissions, OFlags, Stat, flock};
use rustix::io::Errno;

use super::device::{BOOT, Device, DeviceObject, length_of};
use super::format::{Descriptor, FormatError, HEADER_LEN, Header, may_be_descriptor};
use super::head::Head;
use super::local::is_local;
use super::medium::Striped;
use super::reach::may_look;
use super::session::{Session, read_stamp};
use super::stamp::{Fault, Seen, Stamp, Standing, judge};
use super::trust::may_lead_to;
use crate::engine::{Medium, OsMedium, Route};
use crate::file::{File, FileError, OpenOptions, StripedObjects};
use crate::io::Io;
use crate::layout::Layout;
use crate::lock::LockTable;

/// How long whoever opens a file for writing waits for somebody who has it alone.
const PATIENCE: Duration = Duration::from_secs(2);

/// How often objects are looked at that do not fit together, and how long between: a writer may just have begun or ended.
const LOOKS: u32 = 20;
const BETWEEN_LOOKS: Duration = Duration::from_millis(2);

/// Whether a file can be a descriptor, by what `fstat(2)` said of it.
pub fn may_be_striped(stat: &Stat) -> bool {
    may_be_descriptor(stat.st_size as u64) && FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

/// The descriptor in an open file, `None` if it is an ordinary one. `stat` is what `fstat(2)` said of it.
///
/// A file that cannot be opened for reading counts as ordinary: its bytes do not tell.
///
/// # Errors
/// EBADMSG for a damaged descriptor, EPROTONOSUPPORT for one of a later version; EDEADLK where this thread of a server answers one of
/// another server that looks for objects; what reading answers.
pub fn descriptor_of(fd: impl AsFd, stat: &Stat, name: &Path) -> Result<Option<Descriptor>, FileError> {
    if !may_be_striped(stat) {
        return Ok(None);
    }
    let fd = fd.as_fd();
    // Opened again: this one may be direct, or for writing only.
    let again = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let own = rustix::fs::open(again, OFlags::RDONLY | OFlags::CLOEXEC, Permissions::empty()).ok();
    let mut bytes = vec![0; stat.st_size as usize];
    let from = own.as_ref().map_or(fd, AsFd::as_fd);
    let mut filled = 0;
    while filled < bytes.len() {
        match rustix::io::pread(from, &mut bytes[filled..], filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            Err(_) if own.is_none() => return Ok(None),
            Err(errno) => return Err(FileError::new("read the stripes of", name, errno)),
        }
    }
    if !Descriptor::is_one(&bytes[..filled]) {
        return Ok(None);
    }
    // Whoever has a descriptor is about to look for its objects.
    may_look().map_err(|errno| FileError::new("read the stripes of", name, errno).with_detail(CIRCLE))?;
    Descriptor::decode(&bytes[..filled]).map(Some).map_err(|error| wrong("read the stripes of", name, &error))
}

/// What is wrong with a descriptor or a header, as an error of a file.
pub fn wrong(operation: &'static str, path: &Path, error: &FormatError) -> FileError {
    let errno = match error {
        FormatError::Version(_) => Errno::PROTONOSUPPORT,
        FormatError::Foreign => Errno::STALE,
        FormatError::TooLong => Errno::NAMETOOLONG,
        FormatError::Damaged | FormatError::Longer | FormatError::Senseless(_) => Errno::BADMSG,
    };
    let failed = FileError::new(operation, path, errno).with_detail(error.to_string());
    if matches!(error, FormatError::Longer) { failed.with_cure(CURE_LONGER) } else { failed }
}

/// An error that concerns an object.
pub fn of_object(
    operation: &'static str,
    name: &Path,
    index: usize,
    path: &Path,
    errno: Errno,
    what: &str,
) -> FileError {
    let comma = if what.is_empty() { "" } else { " " };
    FileError::new(operation, name, errno).with_detail(format!("object {index}, '{}'{comma}{what}", path.display()))
}

/// Compares the header of an object with what it must be, but for the head; in words what is wrong.
pub fn judge_header(bytes: &[u8], expected: &Header) -> Result<Header, (Errno, String)> {
    let found = Header::decode(bytes).map_err(|error| match error {
        FormatError::Foreign => (Errno::STALE, "is no object of a striped file".to_owned()),
        FormatError::Version(_) => (Errno::PROTONOSUPPORT, format!("has a header that cannot be used: {error}")),
        other => (Errno::BADMSG, format!("has a header that cannot be used: {other}")),
    })?;
    if found.id != expected.id {
        return Err((Errno::STALE, format!("belongs to another file, {}", found.id)));
    }
    if found.index != expected.index {
        return Err((Errno::STALE, format!("is object {} of this file", found.index)));
    }
    if found.layout != expected.layout {
        return Err((Errno::STALE, "has another layout".to_owned()));
    }
    Ok(found)
}

/// Whether an open object is what the descriptor says, a file or a device, and belongs to the user `owner`: anyone can write a
/// descriptor, and must not be able to point it at what only others may read. Of a device its header says whose it is.
pub fn judge_kind(descriptor: &Descriptor, index: usize, stat: &Stat, owner: u32) -> Result<(), (Errno, &'static str)> {
    let kind = FileType::from_raw_mode(stat.st_mode);
    match descriptor.is_device(index) {
        true if kind != FileType::BlockDevice => Err((Errno::STALE, "is no block device")),
        false if kind != FileType::RegularFile => Err((Errno::STALE, "is no regular file")),
        false if stat.st_uid != owner => Err((Errno::PERM, FOREIGN)),
        _ => Ok(()),
    }
}

/// Finds an object: what is there is judged before it is opened, since to open a device may do something already.
///
/// # Errors
/// As [`judge_kind`]; what looking for it answers.
fn find_object(descriptor: &Descriptor, index: usize, owner: u32) -> Result<(OwnedFd, Stat), (Errno, &'static str)> {
    let system = |errno| (errno, "");
    may_look().map_err(|errno| (errno, CIRCLE))?;
    // No link is followed; but the names of devices may be links, to what is found today.
    let follow = if descriptor.is_device(index) { OFlags::empty() } else { OFlags::NOFOLLOW };
    let flags = OFlags::PATH | OFlags::CLOEXEC | follow;
    let found = rustix::fs::open(descriptor.object_path(index), flags, Permissions::empty()).map_err(system)?;
    let stat = rustix::fs::fstat(&found).map_err(system)?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
        return Err(system(Errno::LOOP));
    }
    judge_kind(descriptor, index, &stat, owner)?;
    Ok((found, stat))
}

/// Opens an object that is what it should be, and nothing else.
///
/// # Errors
/// As [`judge_kind`]; what opening it answers.
pub fn open_judged(
    descriptor: &Descriptor,
    index: usize,
    owner: u32,
    access: OFlags,
) -> Result<fs::File, (Errno, &'static str)> {
    let (found, _) = find_object(descriptor, index, owner)?;
    let again = format!("/proc/self/fd/{}", found.as_raw_fd());
    let flags = access | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    rustix::fs::open(again, flags, Permissions::empty()).map(fs::File::from).map_err(|errno| (errno, ""))
}

/// As [`judge_kind`], of the header of a device.
pub fn judge_owner(
    descriptor: &Descriptor,
    index: usize,
    found: &Header,
    owner: u32,
) -> Result<(), (Errno, &'static str)> {
    if descriptor.is_device(index) && found.owner != Some(owner) { Err((Errno::PERM, FOREIGN)) } else { Ok(()) }
}

const CIRCLE: &str = "whoever asks for it is a server that looks for an object itself";
const FOREIGN: &str = "belongs to another user than the file";
const FORGED: &str = "belongs to another file of that owner, and others may write to this one";
const CURE_FORGED: &str = "who may write to it may have put this descriptor there; 'chmod go-w' says that you trust it";
/// What is wrong with a device that another process writes to.
pub const TAKEN: &str = "is taken: somebody else writes to it; files on devices have one writing process at a time";
const CURE_DAMAGED: &str = "restore it, or take what is left for the file with 'dio stripe check --repair --force'; \
                            'dio stripe check' shows all that is wrong";
const CURE_WRONG: &str = "'dio stripe check' shows all that is wrong";
const CURE_MISSING: &str = "mount its target; 'dio stripe check' shows all that is wrong";
const UNEVEN: &str = "some objects hold bytes behind its end: a crash left them there, or another object was cut off";
const CURE_UNEVEN: &str = "see 'dio stripe check'; with --repair it cuts them off";
const CURE_LONGER: &str = "'truncate -s 8171' takes that off; the bytes of the file are in its objects";
const CURE_COPY: &str = "only read it, or make it the file's own with 'dio stripe adopt'";

/// An open object: as a device, if it is one; its stamp, if it has one.
type Opened = (File, Option<Arc<DeviceObject>>, Option<Result<Stamp, FormatError>>);

impl OpenOptions {
    /// Opens the objects of a descriptor, all of them as this was to be.
    pub(crate) fn open_striped(
        &self,
        name: &Path,
        head: OsMedium,
        descriptor: &Descriptor,
        stat: &Stat,
        io: Io,
    ) -> Result<File, FileError> {
        let own = Head::of(head.any()).map_err(|errno| FileError::new("open", name, errno))?;
        let mut objects = Vec::with_capacity(descriptor.targets.len());
        let (mut devices, mut stamps) = (Vec::new(), Vec::new());
        for index in 0..descriptor.targets.len() {
            let (object, device, stamp) = self.open_object(name, (descriptor, index), stat, &own, &io)?;
            objects.push(object);
            devices.push(device);
            stamps.push(stamp);
        }
        let stamped = stamps.iter().all(Option::is_some);
        if !self.allows_damaged() {
            check_stamps(name, descriptor, &objects, stamps)?;
        }
        if !descriptor.has_devices() {
            devices.clear();
        }
        let first = objects[0].descriptor().map(rustix::fs::fstat);
        let first = first.expect("an object is a file of the system");
        let locks = LockTable::of_file(&first.map_err(|errno| FileError::new("open", name, errno))?);
        let mut striped = Striped::new(name, descriptor.layout, objects, devices, Some(head))
            .map_err(|what| FileError::new("open", name, Errno::INVAL).with_detail(what))?;
        if self.writes() {
            let session = || Session::new(descriptor.id, !self.is_cached());
            striped.session = stamped.then(session);
            check_not_left(&striped)
                .and_then(|()| trim(&striped, self.allows_damaged()))
                .map_err(|error| not_shared(name, error))?;
        }
        let geometry = *striped.geometry();
        let file = self.over_objects(name, Arc::new(striped), geometry, locks);
        if self.truncates() && file.size()? > 0 {
            file.set_size(0)?;
        }
        Ok(file)
    }

    fn open_object(
        &self,
        name: &Path,
        (descriptor, index): (&Descriptor, usize),
        head: &Stat,
        own: &Head,
        io: &Io,
    ) -> Result<Opened, FileError> {
        let path = descriptor.object_path(index);
        let failed = |errno, what: &str| of_object("open", name, index, &path, errno, what);
        let is_device = descriptor.is_device(index);
        let (found, stat) = find_object(descriptor, index, head.st_uid).map_err(|(errno, what)| match errno {
            Errno::NOENT => failed(Errno::NOENT, "is missing").with_cure(CURE_MISSING),
            errno => failed(errno, what),
        })?;
        let opened = self.for_object(io).open_found(&found, &path);
        let mut object = opened.map_err(|error| failed(error.errno(), error.detail().unwrap_or("")))?;
        let mut bytes = vec![0; HEADER_LEN as usize];
        let count = object.read_at(&mut bytes, 0).map_err(|error| failed(error.errno(), ""))?;
        let found = judge_header(&bytes[..count], &descriptor.header(index, *own));
        let found = found.map_err(|(errno, what)| failed(errno, &what).with_cure(CURE_WRONG))?;
        judge_owner(descriptor, index, &found, head.st_uid).map_err(|(errno, what)| failed(errno, what))?;
        if self.writes() && !found.head.may_be(own) {
            let copy = FileError::new("open for writing", name, Errno::PERM);
            return Err(copy.with_detail("it is a copy of the descriptor of a striped file").with_cure(CURE_COPY));
        }
        if !may_lead_to(head, own, &stat, &found.head) {
            return Err(failed(Errno::PERM, FORGED).with_cure(CURE_FORGED));
        }
        let device = is_device.then(|| self.as_device(&mut object, descriptor, &stat)).transpose();
        let device = device.map_err(|(errno, what)| failed(errno, &what))?;
        Ok((object, device, found.stamped.then(|| Stamp::within(&bytes[..count]))))
    }

    /// Has an object that is a device answer with the length that it says it has.
    fn as_device(
        &self,
        object: &mut File,
        descriptor: &Descriptor,
        stat: &Stat,
    ) -> Result<Arc<DeviceObject>, (Errno, String)> {
        let os = object.os_medium().expect("an object is a file of the system");
        let (id, start) = (descriptor.id, descriptor.layout.start());
        let device = Device::of(stat.st_rdev, id, object.path(), start);
        let system = |error: io::Error| (Errno::from_io_error(&error).unwrap_or(Errno::IO), String::new());
        let writer = self.writes().then(|| device.write(os.any())).transpose();
        let writer = writer.map_err(|(errno, what)| match errno {
            Errno::BUSY => (errno, TAKEN.to_owned()),
            errno => (errno, what),
        })?;
        let length = length_of(os.descriptor(Route::Buffered).map_err(system)?, id, start)?;
        if length > object.size().map_err(|error| (error.errno(), String::new()))? {
            return Err((Errno::STALE, "is shorter than what it held".to_owned()));
        }
        let device = Arc::new(DeviceObject::new(os, device, writer, self.is_durable()));
        object.ruled_by(device.clone());
        Ok(device)
    }

    /// A file over objects of the caller's, such as simulated ones. They were opened as this is to be; what lies before
    /// [`Layout::start`] in each is not looked at.
    ///
    /// # Errors
    /// EINVAL when the layout does not fit them.
    pub fn open_objects(&self, name: impl AsRef<Path>, objects: Vec<File>, layout: Layout) -> Result<File, FileError> {
        let name = name.as_ref();
        let failed = |what: &str| FileError::new("open", name, Errno::INVAL).with_detail(what);
        let striped = Striped::new(name, layout, objects, Vec::new(), None).map_err(failed)?;
        if self.writes() {
            trim(&striped, false).map_err(|error| not_shared(name, error))?;
        }
        let geometry = *striped.geometry();
        Ok(self.over_objects(name, Arc::new(striped), geometry, LockTable::new()))
    }
}

/// Waits until objects fit together that somebody may just begin or end to write, as long as their stamps change; the first that
/// does not.
fn check_stamps(
    name: &Path,
    descriptor: &Descriptor,
    objects: &[File],
    stamps: Vec<Option<Result<Stamp, FormatError>>>,
) -> Result<(), FileError> {
    let stamped: Vec<bool> = stamps.iter().map(Option::is_some).collect();
    let mut first = Some(stamps);
    // Direct reads are of whole blocks.
    let read = |object: &File| {
        read_stamp(|bytes: &mut [u8], at: u64| {
            let mut whole = vec![0; HEADER_LEN as usize];
            let count = object.read_at(&mut whole, 0)?.saturating_sub(at as usize).min(bytes.len());
            bytes[..count].copy_from_slice(&whole[at as usize..at as usize + count]);
            Ok::<usize, FileError>(count)
        })
    };
    let again = || objects.iter().zip(&stamped).map(|(object, is)| is.then(|| read(object)).transpose()).collect();
    let seen = |(index, stamp): (usize, Option<Result<Stamp, FormatError>>)| {
        let object = &objects[index];
        let is_local = object.descriptor().is_some_and(is_local);
        Ok(Seen { index, stamp, length: object.size()?, is_local })
    };
    let look = || {
        let stamps: Vec<_> = first.take().map_or_else(again, Ok)?;
        let found = stamps.into_iter().enumerate().map(seen).collect::<Result<Vec<_>, FileError>>()?;
        let judged = judge(descriptor.id, &found, &BOOT);
        Ok((found, judged))
    };
    settle_judgement(look, |faults| damaged(name, &faults[0], &descriptor.object_path(faults[0].index))).map(drop)
}

/// Looks at objects again that do not fit together, until they do, or nothing changes any more.
///
/// # Errors
/// What looking answers; what `failed` makes of what is wrong.
pub fn settle_judgement<E>(
    mut look: impl FnMut() -> Result<(Vec<Seen>, Result<Standing, Vec<Fault>>), E>,
    failed: impl FnOnce(Vec<Fault>) -> E,
) -> Result<Standing, E> {
    let (mut before, mut judged) = look()?;
    for _ in 1..LOOKS {
        if judged.is_ok() {
            break;
        }
        std::thread::sleep(BETWEEN_LOOKS);
        let (now, again) = look()?;
        judged = again;
        if std::mem::replace(&mut before, now) == before {
            break;
        }
    }
    judged.map_err(failed)
}

/// The error of an object that is not what it should be.
pub fn damaged(name: &Path, fault: &Fault, path: &Path) -> FileError {
    of_object("open", name, fault.index, path, fault.errno, &fault.what).with_cure(CURE_DAMAGED)
}

fn not_shared(name: &Path, error: io::Error) -> FileError {
    let failed = |errno| FileError::new("open", name, errno);
    match Errno::from_io_error(&error) {
        Some(Errno::BUSY) => failed(Errno::BUSY).with_detail("it is being migrated"),
        Some(Errno::STALE) => failed(Errno::STALE).with_detail("it has just been migrated: open it again"),
        Some(errno) => failed(errno),
        None => match error.downcast::<FileError>() {
            Ok(inner) if inner.path() == name => inner,
            Ok(inner) => FileError::new("cut off what a crash left behind the end of", name, inner.errno()).by(&inner),
            Err(_) => failed(Errno::IO),
        },
    }
}

/// Whoever waited until devices were free may have waited for the end of the file: it has been moved, or removed.
///
/// # Errors
/// ESTALE then.
fn check_not_left(striped: &Striped) -> io::Result<()> {
    let first = (0..striped.objects().len()).filter_map(|index| striped.device(index)).any(|device| device.first);
    match striped.named_file().filter(|_| first) {
        Some(head) if rustix::fs::fstat(head)?.st_nlink == 0 => Err(Errno::STALE.into()),
        _ => Ok(()),
    }
}

/// Cuts off what objects hold behind the end, which a crash has left there, unless somebody else is writing: then it may
/// be about to become part of the file. Whoever writes holds a shared lock of the first object while the file is open. Where other
/// machines may write without its being seen here, nothing is cut off: see [`super::repair()`].
///
/// Nothing is cut off either where the objects have no stamps, unless the caller takes `what_is_there`: an object that was cut off
/// by something else looks the same then, and the others would lose what they hold.
fn trim(striped: &Striped, what_is_there: bool) -> io::Result<()> {
    let first = striped.objects()[0].descriptor();
    let alone = match (striped.device(0), first) {
        // No other process writes, and none is waited for.
        (Some(device), _) => device.first,
        (None, Some(first)) => flock(first, FlockOperation::NonBlockingLockExclusive).is_ok(),
        (None, None) => true,
    };
    if alone {
        let system = striped.named_file().is_some();
        let local = || striped.objects().iter().all(|object| object.descriptor().is_some_and(is_local));
        if what_is_there {
            striped.stamp_anew().map_err(io::Error::other)?;
        } else {
            striped.recover().map_err(io::Error::other)?;
        }
        if (striped.has_devices() || !system || local()) && striped.has_surplus()? {
            if system && striped.session.is_none() && !what_is_there {
                let error = FileError::new("open for writing", striped.name(), Errno::UCLEAN);
                return Err(io::Error::other(error.with_detail(UNEVEN).with_cure(CURE_UNEVEN)));
            }
            striped.set_size(striped.size()?)?;
        }
    }
    match first.filter(|_| striped.device(0).is_none()) {
        Some(first) => share(first),
        None => Ok(()),
    }
}

/// Takes a shared lock, waiting as long as somebody may need it alone to cut off what a crash has left. A migration takes
/// longer.
fn share(first: BorrowedFd<'_>) -> io::Result<()> {
    let start = Instant::now();
    while let Err(errno) = flock(first, FlockOperation::NonBlockingLockShared) {
        match errno {
            Errno::WOULDBLOCK if start.elapsed() < PATIENCE => std::thread::sleep(PATIENCE / 100),
            Errno::WOULDBLOCK => return Err(Errno::BUSY.into()),
            // Where there are no such locks nobody holds one.
            _ => break,
        }
    }
    // While this one waited, the file may have been moved to other objects.
    if rustix::fs::fstat(first)?.st_nlink == 0 { Err(Errno::STALE.into()) } else { Ok(()) }
}

//! Recognises striped files, and opens their objects.

use std::fs;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use dio_sys::{RWF_DONTCACHE, reopen, uninterrupted};
use rustix::fs::{
    Advice, FileType, FlockOperation, Mode as Permissions, OFlags, Stat, fadvise, flock,
};
use rustix::io::{Errno, ReadWriteFlags, preadv2};

use super::cures::{CURE_COPY, CURE_MISSING, CURE_UNEVEN, CURE_WRONG};
use super::device::{BOOT_ID, Device, DeviceObject, device_length};
use super::error::{damaged_object_error, format_error, object_error, open_error};
use super::format::{Descriptor, FormatError, HEADER_LEN, Header, may_be_descriptor};
use super::head::DescriptorInode;
use super::local::is_local;
use super::medium::{Striped, WritingSession};
use super::redirect::check_may_open_objects;
use super::stamp::{FoundState, ObjectFault, SessionState, Stamp, compare_stamps};
use super::stamp_io::read_stamp;
use super::trust::{as_owner, may_refer_to, refused_to_owner};
use crate::engine::{Medium, OsMedium, Route};
use crate::file::{File, FileError, OpenOptions, StripedObjects, errno_of};
use crate::io::Io;
use crate::layout::Layout;
use crate::lock::LockTable;
use crate::patience::take_within;
use crate::residency::ResidencySnapshot;

/// How long an open for writing waits while another process holds the exclusive lock.
const PATIENCE: Duration = Duration::from_secs(2);

/// How often objects that do not fit together are read again, and the time between: a writer may
/// just have begun or ended a session.
const READ_ATTEMPTS: u32 = 20;
const READ_INTERVAL: Duration = Duration::from_millis(2);

/// How long [`LeaseWait::Briefly`] waits.
const LEASE_PATIENCE: Duration = Duration::from_secs(1);

/// Whether a file may be a descriptor, by its `fstat(2)`.
pub fn may_be_striped(stat: &Stat) -> bool {
    may_be_descriptor(stat.st_size as u64)
        && FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

/// How long reading a descriptor waits while somebody else holds a lease on the file (`fcntl(2)`,
/// `F_SETLEASE`). The owner of a file can hold one that he does not give up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseWait {
    /// As open(2) does: until the lease ends, at most as long as `/proc/sys/fs/lease-break-time`
    /// says, 45 seconds. For callers that open the file, or change its contents.
    AsOpen,
    /// About a second, then EAGAIN. For callers that only look at the file. A
    /// [`ReplaceGuard`](super::ReplaceGuard) gives its lease up sooner.
    Briefly,
}

impl LeaseWait {
    /// Opens a file: calls `open` with the flags that the wait needs.
    ///
    /// # Errors
    /// What `open` answers; EAGAIN if the lease is still held after [`LeaseWait::Briefly`].
    pub fn open<T>(self, mut open: impl FnMut(OFlags) -> Result<T, Errno>) -> Result<T, Errno> {
        match self {
            LeaseWait::AsOpen => open(OFlags::empty()),
            LeaseWait::Briefly => take_within(LEASE_PATIENCE, || open(OFlags::NONBLOCK)),
        }
    }
}

/// The descriptor in an open file; `None` if the file is not striped. `stat` is the `fstat(2)` of
/// the file.
///
/// A file that may not be read counts as plain.
///
/// # Errors
/// EAGAIN if somebody holds a lease on the file for longer than `wait`; EBADMSG for a damaged
/// descriptor; EPROTONOSUPPORT for one of a later version; EDEADLK if this thread answers another
/// server that opens objects; what reading answers.
pub fn descriptor_of(
    fd: impl AsFd,
    stat: &Stat,
    name: &Path,
    wait: LeaseWait,
) -> Result<Option<Descriptor>, FileError> {
    if !may_be_striped(stat) {
        return Ok(None);
    }
    let fd = fd.as_fd();
    // The file is opened again, because `fd` may be direct or write-only.
    let own = match wait.open(|flags| reopen(fd, OFlags::RDONLY | flags)) {
        // Whether it is striped is not known.
        Err(errno @ Errno::AGAIN) => return Err(open_error("read the stripes of", name, errno)),
        other => other.ok(),
    };
    match contents(own.as_ref().map_or(fd, AsFd::as_fd), stat) {
        Err(_) if own.is_none() => Ok(None),
        read => decode(read, name),
    }
}

/// As [`descriptor_of`], for a file that is open for reading, and not for direct I/O. No descriptor
/// of the file is opened or closed: by closing one, the process would lose its POSIX locks on the
/// file (`fcntl(2)`).
///
/// # Errors
/// As [`descriptor_of`].
pub fn descriptor_in(
    fd: impl AsFd,
    stat: &Stat,
    name: &Path,
) -> Result<Option<Descriptor>, FileError> {
    if !may_be_striped(stat) {
        return Ok(None);
    }
    decode(contents(fd, stat), name)
}

/// All bytes of a small file. Most files of that size are plain: of these no pages stay in the page
/// cache that were not there before. Those of a descriptor stay, since it is read with each open.
fn contents(fd: impl AsFd, stat: &Stat) -> Result<Vec<u8>, Errno> {
    let mut bytes = vec![0; stat.st_size as usize];
    let mut before = None;
    let mut count = read_whole(&fd, &mut bytes, RWF_DONTCACHE);
    if count.is_err() {
        // This kernel or file system has no such flag. Another error comes again.
        before = ResidencySnapshot::take(&fd, bytes.len() as u64).ok();
        count = read_whole(&fd, &mut bytes, ReadWriteFlags::empty());
    }
    let count = count?;
    let is_descriptor = Descriptor::is_one(&bytes[..count]);
    match before {
        // Pages that stay only cost memory.
        Some(before) if !is_descriptor => drop(before.drop_new(&fd, 0..count as u64)),
        None if is_descriptor => drop(fadvise(&fd, 0, None, Advice::WillNeed)),
        _ => {}
    }
    bytes.truncate(count);
    Ok(bytes)
}

/// Reads until the buffer is full or the file ends.
fn read_whole(fd: impl AsFd, bytes: &mut [u8], flags: ReadWriteFlags) -> Result<usize, Errno> {
    let mut filled = 0;
    while filled < bytes.len() {
        let mut rest = [IoSliceMut::new(&mut bytes[filled..])];
        match uninterrupted(|| preadv2(&fd, &mut rest, filled as u64, flags))? {
            0 => break,
            count => filled += count,
        }
    }
    Ok(filled)
}

/// The descriptor that was read, if it is one.
fn decode(read: Result<Vec<u8>, Errno>, name: &Path) -> Result<Option<Descriptor>, FileError> {
    let bytes = read.map_err(|errno| FileError::new("read the stripes of", name, errno))?;
    if !Descriptor::is_one(&bytes) {
        return Ok(None);
    }
    // A caller that gets a descriptor is about to open objects.
    check_may_open_objects()
        .map_err(|errno| FileError::new("read the stripes of", name, errno).with_detail(CIRCLE))?;
    Descriptor::decode(&bytes)
        .map(Some)
        .map_err(|error| format_error("read the stripes of", name, &error))
}

/// Compares the header of an object with the expected one, except for the inode of the descriptor.
/// The error is in words.
pub fn check_header(bytes: &[u8], expected: &Header) -> Result<Header, (Errno, String)> {
    let found = Header::decode(bytes).map_err(|error| match error {
        FormatError::Foreign => (Errno::STALE, "is no object of a striped file".to_owned()),
        FormatError::Version(_) => {
            (Errno::PROTONOSUPPORT, format!("has a header that cannot be used: {error}"))
        }
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

/// Checks that an open object has the kind that the descriptor says, file or device, and belongs to
/// the user `owner`. Anyone can write a descriptor, and must not be able to make it refer to files
/// that only others may read. The owner of a device is in its header ([`check_owner`]).
pub fn check_kind(
    descriptor: &Descriptor,
    index: usize,
    stat: &Stat,
    owner: u32,
) -> Result<(), (Errno, &'static str)> {
    let kind = FileType::from_raw_mode(stat.st_mode);
    match descriptor.is_device(index) {
        true if kind != FileType::BlockDevice => Err((Errno::STALE, "is no block device")),
        false if kind != FileType::RegularFile => Err((Errno::STALE, "is no regular file")),
        false if stat.st_uid != owner => Err((Errno::PERM, FOREIGN)),
        _ => Ok(()),
    }
}

/// Opens an object with `O_PATH` and checks it. Opening a device itself may already have effects.
/// Root looks for it with the rights of the user `owner`.
///
/// # Errors
/// As [`check_kind`]; what opening it answers.
pub(crate) fn find_object(
    descriptor: &Descriptor,
    index: usize,
    owner: u32,
) -> Result<(OwnedFd, Stat), (Errno, &'static str)> {
    let system = |errno| (errno, "");
    check_may_open_objects().map_err(|errno| (errno, CIRCLE))?;
    // Links are not followed, except to devices, whose names are often links.
    let follow = if descriptor.is_device(index) { OFlags::empty() } else { OFlags::NOFOLLOW };
    let flags = OFlags::PATH | OFlags::CLOEXEC | follow;
    let path = descriptor.object_path(index);
    let found = as_owner(owner, || rustix::fs::open(path, flags, Permissions::empty()));
    let found = found.map_err(|errno| (errno, refused_to_owner(owner, errno)))?;
    let stat = rustix::fs::fstat(&found).map_err(system)?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
        return Err(system(Errno::LOOP));
    }
    check_kind(descriptor, index, &stat, owner)?;
    Ok((found, stat))
}

/// Opens an object after it was checked.
///
/// # Errors
/// As [`check_kind`]; what opening it answers.
pub fn open_checked(
    descriptor: &Descriptor,
    index: usize,
    owner: u32,
    access: OFlags,
) -> Result<fs::File, (Errno, &'static str)> {
    let (found, _) = find_object(descriptor, index, owner)?;
    let flags = access | OFlags::NONBLOCK | OFlags::NOCTTY;
    reopen(found, flags).map(fs::File::from).map_err(|errno| (errno, ""))
}

/// Checks that a device belongs to the user `owner`, by its header.
pub fn check_owner(
    descriptor: &Descriptor,
    index: usize,
    found: &Header,
    owner: u32,
) -> Result<(), (Errno, &'static str)> {
    if descriptor.is_device(index) && found.owner != Some(owner) {
        Err((Errno::PERM, FOREIGN))
    } else {
        Ok(())
    }
}

const CIRCLE: &str = "whoever asks for it is a server that looks for an object itself";
const FOREIGN: &str = "belongs to another user than the file";
const FORGED: &str = "belongs to another file of that owner, and others may write to this one";
const CURE_FORGED: &str =
    "who may write to it may have put this descriptor there; 'chmod go-w' says that you trust it";
/// The fault of a device that another process writes to.
pub const DEVICE_IN_USE: &str =
    "is taken: somebody else writes to it; files on devices have one writing process at a time";
const UNEVEN: &str = "some objects hold bytes behind its end: a crash left them there, or another \
                      object was cut off";

/// An open object, the device if it is one, and its stamp if it has one.
type Opened = (File, Option<Arc<DeviceObject>>, Option<Result<Stamp, FormatError>>);

impl OpenOptions {
    /// Opens the objects of a descriptor, all of them with these options.
    pub(crate) fn open_striped(
        &self,
        name: &Path,
        head: OsMedium,
        descriptor: &Descriptor,
        stat: &Stat,
        io: Io,
    ) -> Result<File, FileError> {
        let own =
            DescriptorInode::of(head.any()).map_err(|errno| FileError::new("open", name, errno))?;
        let mut objects = Vec::with_capacity(descriptor.targets.len());
        let (mut devices, mut stamps) = (Vec::new(), Vec::new());
        for index in 0..descriptor.targets.len() {
            let (object, device, stamp) =
                self.open_object(name, (descriptor, index), stat, &own, &io)?;
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
        let locks =
            LockTable::of_file(&first.map_err(|errno| FileError::new("open", name, errno))?);
        let mut striped = Striped::new(name, descriptor.layout, objects, devices, Some(head))
            .map_err(|what| FileError::new("open", name, Errno::INVAL).with_detail(what))?;
        if self.writes() {
            let session = || WritingSession::new(descriptor.id, !self.is_cached());
            striped.session = stamped.then(session);
            check_still_linked(&striped)
                .and_then(|()| cut_surplus(&striped, self.allows_damaged()))
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
        own: &DescriptorInode,
        io: &Io,
    ) -> Result<Opened, FileError> {
        let path = descriptor.object_path(index);
        let failed = |errno, what: &str| object_error("open", name, index, &path, errno, what);
        let is_device = descriptor.is_device(index);
        let (found, stat) =
            find_object(descriptor, index, head.st_uid).map_err(|(errno, what)| match errno {
                Errno::NOENT => failed(Errno::NOENT, "is missing").with_cure(CURE_MISSING),
                errno => failed(errno, what),
            })?;
        let opened = self.for_object(io).open_found(&found, &path);
        let mut object =
            opened.map_err(|error| failed(error.errno(), error.detail().unwrap_or("")))?;
        let mut bytes = vec![0; HEADER_LEN as usize];
        let count = object.read_at(&mut bytes, 0).map_err(|error| failed(error.errno(), ""))?;
        let found = check_header(&bytes[..count], &descriptor.header(index, *own));
        let found = found.map_err(|(errno, what)| failed(errno, &what).with_cure(CURE_WRONG))?;
        check_owner(descriptor, index, &found, head.st_uid)
            .map_err(|(errno, what)| failed(errno, what))?;
        if self.writes() && !found.head.may_be(own) {
            let copy = FileError::new("open for writing", name, Errno::PERM);
            return Err(copy
                .with_detail("it is a copy of the descriptor of a striped file")
                .with_cure(CURE_COPY));
        }
        if !may_refer_to(head, own, &stat, &found.head) {
            return Err(failed(Errno::PERM, FORGED).with_cure(CURE_FORGED));
        }
        let device = is_device.then(|| self.as_device(&mut object, descriptor, &stat)).transpose();
        let device = device.map_err(|(errno, what)| failed(errno, &what))?;
        Ok((object, device, found.stamped.then(|| Stamp::within(&bytes[..count]))))
    }

    /// Makes an object on a device report the length in its record as its size.
    fn as_device(
        &self,
        object: &mut File,
        descriptor: &Descriptor,
        stat: &Stat,
    ) -> Result<Arc<DeviceObject>, (Errno, String)> {
        let os = object.os_medium().expect("an object is a file of the system");
        let (id, start) = (descriptor.id, descriptor.layout.start());
        let device = Device::of(stat.st_rdev, id, object.path(), start);
        let system = |error: io::Error| (errno_of(&error), String::new());
        let writer = self.writes().then(|| device.write(os.any())).transpose();
        let writer = writer.map_err(|(errno, what)| match errno {
            Errno::BUSY => (errno, DEVICE_IN_USE.to_owned()),
            errno => (errno, what),
        })?;
        let length = device_length(os.descriptor(Route::Buffered).map_err(system)?, id, start)?;
        if length > object.size().map_err(|error| (error.errno(), String::new()))? {
            return Err((Errno::STALE, "is shorter than what it held".to_owned()));
        }
        let device = Arc::new(DeviceObject::new(os, device, writer, self.is_durable()));
        object.ruled_by(device.clone());
        Ok(device)
    }

    /// A file over objects of the caller's, such as simulated ones. They were opened as this is to
    /// be; what lies before [`Layout::start`] in each is not looked at.
    ///
    /// # Errors
    /// EINVAL when the layout does not fit them.
    pub fn open_objects(
        &self,
        name: impl AsRef<Path>,
        objects: Vec<File>,
        layout: Layout,
    ) -> Result<File, FileError> {
        let name = name.as_ref();
        let failed = |what: &str| FileError::new("open", name, Errno::INVAL).with_detail(what);
        let striped = Striped::new(name, layout, objects, Vec::new(), None).map_err(failed)?;
        if self.writes() {
            cut_surplus(&striped, false).map_err(|error| not_shared(name, error))?;
        }
        let geometry = *striped.geometry();
        Ok(self.over_objects(name, Arc::new(striped), geometry, LockTable::new()))
    }
}

/// Checks that the objects fit together. Waits while their stamps change, because a writer may just
/// begin or end a session. The error is that of the first wrong object.
fn check_stamps(
    name: &Path,
    descriptor: &Descriptor,
    objects: &[File],
    stamps: Vec<Option<Result<Stamp, FormatError>>>,
) -> Result<(), FileError> {
    let stamped: Vec<bool> = stamps.iter().map(Option::is_some).collect();
    let mut first = Some(stamps);
    // Direct reads need whole blocks.
    let read = |object: &File| {
        read_stamp(|bytes: &mut [u8], at: u64| {
            let mut whole = vec![0; HEADER_LEN as usize];
            let count = object.read_at(&mut whole, 0)?.saturating_sub(at as usize).min(bytes.len());
            bytes[..count].copy_from_slice(&whole[at as usize..at as usize + count]);
            Ok::<usize, FileError>(count)
        })
    };
    let again = || {
        objects
            .iter()
            .zip(&stamped)
            .map(|(object, is)| is.then(|| read(object)).transpose())
            .collect()
    };
    let seen = |(index, stamp): (usize, Option<Result<Stamp, FormatError>>)| {
        let object = &objects[index];
        let is_local = object.descriptor().is_some_and(is_local);
        Ok(FoundState { index, stamp, length: object.size()?, is_local })
    };
    let look = || {
        let stamps: Vec<_> = first.take().map_or_else(again, Ok)?;
        let found =
            stamps.into_iter().enumerate().map(seen).collect::<Result<Vec<_>, FileError>>()?;
        let judged = compare_stamps(descriptor.id, &found, &BOOT_ID);
        Ok((found, judged))
    };
    wait_until_consistent(look, |faults| {
        damaged_object_error(name, &faults[0], &descriptor.object_path(faults[0].index))
    })
    .map(drop)
}

/// Repeats `look` while the objects do not fit together and their state changes.
///
/// # Errors
/// What `look` returns; what `failed` makes of the faults.
pub fn wait_until_consistent<E>(
    mut look: impl FnMut() -> Result<(Vec<FoundState>, Result<SessionState, Vec<ObjectFault>>), E>,
    failed: impl FnOnce(Vec<ObjectFault>) -> E,
) -> Result<SessionState, E> {
    let (mut before, mut judged) = look()?;
    for _ in 1..READ_ATTEMPTS {
        if judged.is_ok() {
            break;
        }
        std::thread::sleep(READ_INTERVAL);
        let (now, again) = look()?;
        judged = again;
        if std::mem::replace(&mut before, now) == before {
            break;
        }
    }
    judged.map_err(failed)
}

fn not_shared(name: &Path, error: io::Error) -> FileError {
    let failed = |errno| FileError::new("open", name, errno);
    match Errno::from_io_error(&error) {
        Some(Errno::BUSY) => failed(Errno::BUSY).with_detail("it is being migrated"),
        Some(Errno::STALE) => {
            failed(Errno::STALE).with_detail("it has just been migrated: open it again")
        }
        Some(errno) => failed(errno),
        None => match error.downcast::<FileError>() {
            Ok(inner) if inner.path() == name => inner,
            Ok(inner) => {
                FileError::new("cut off what a crash left behind the end of", name, inner.errno())
                    .by(&inner)
            }
            Err(_) => failed(Errno::IO),
        },
    }
}

/// Checks that the file still exists. While an open waited for a device, the file may have been
/// moved or removed.
///
/// # Errors
/// ESTALE if it is gone.
fn check_still_linked(striped: &Striped) -> io::Result<()> {
    let first = (0..striped.objects().len())
        .filter_map(|index| striped.device(index))
        .any(|device| device.is_first_writer);
    match striped.named_file().filter(|_| first) {
        Some(head) if rustix::fs::fstat(head)?.st_nlink == 0 => Err(Errno::STALE.into()),
        _ => Ok(()),
    }
}

/// Cuts off the bytes that a crash has left behind the end of the file, unless another process is
/// writing: then they may be about to become part of the file. Each writer holds a shared lock on
/// the first object while the file is open. If other machines may write unseen, nothing is cut off:
/// see `dio_stripe::repair`.
///
/// Nothing is cut off either if the objects have no stamps, unless the caller accepts damage
/// (`allow_damaged`): an object that something else has cut off looks the same then, and the others
/// would lose their bytes.
fn cut_surplus(striped: &Striped, accept_damage: bool) -> io::Result<()> {
    let first = striped.objects()[0].descriptor();
    let alone = match (striped.device(0), first) {
        // Only one process at a time writes to devices.
        (Some(device), _) => device.is_first_writer,
        (None, Some(first)) => flock(first, FlockOperation::NonBlockingLockExclusive).is_ok(),
        (None, None) => true,
    };
    if alone {
        let system = striped.named_file().is_some();
        let local =
            || striped.objects().iter().all(|object| object.descriptor().is_some_and(is_local));
        if accept_damage {
            striped.restamp().map_err(io::Error::other)?;
        } else {
            striped.recover().map_err(io::Error::other)?;
        }
        if (striped.has_devices() || !system || local()) && striped.has_surplus()? {
            if system && striped.session.is_none() && !accept_damage {
                let error = FileError::new("open for writing", striped.name(), Errno::UCLEAN);
                return Err(io::Error::other(error.with_detail(UNEVEN).with_cure(CURE_UNEVEN)));
            }
            striped.set_size(striped.size()?)?;
        }
    }
    match first.filter(|_| striped.device(0).is_none()) {
        Some(first) => lock_shared(first),
        None => Ok(()),
    }
}

/// Takes a shared lock. Waits while another process needs the exclusive lock to cut off what a
/// crash has left; a migration takes longer than that.
fn lock_shared(first: BorrowedFd<'_>) -> io::Result<()> {
    // File systems without such locks answer other errors; nobody holds a lock there.
    if let Err(Errno::WOULDBLOCK) =
        take_within(PATIENCE, || flock(first, FlockOperation::NonBlockingLockShared))
    {
        return Err(Errno::BUSY.into());
    }
    // Meanwhile, the file may have been moved to other objects.
    if rustix::fs::fstat(first)?.st_nlink == 0 { Err(Errno::STALE.into()) } else { Ok(()) }
}

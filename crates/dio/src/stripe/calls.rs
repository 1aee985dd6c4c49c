//! System calls on files as programs mean them: of a striped file they concern its contents, not its descriptor.
//!
//! For programs that ask for sizes, or empty files, by descriptor, beside the I/O that they do through the library. On every
//! other file they are the call of that name.
//!
//! They answer with error numbers, as the system does. What is wrong with which object is in [`take_reasons`](super::take_reasons).

use std::ffi::{CStr, OsStr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Gid, Mode as Permissions, OFlags, Stat, Timespec, Timestamps, Uid};
use rustix::io::Errno;

use super::claim::header_on;
use super::create::Plan;
use super::device::{BOOT, length_of};
use super::format::{Descriptor, HEADER_LEN, Header};
use super::head::Head;
use super::local::is_local;
use super::names::Names;
use super::open::{
    damaged, descriptor_of, judge_header, judge_kind, judge_owner, may_be_striped, of_object, open_judged,
    settle_judgement,
};
use super::reasons::{keep, reduced};
use super::remove::header_of;
use super::session::read_stamp;
use super::stamp::{Fault, Seen, Stamp, judge};
use super::trust::others_may_write;
use crate::file::{FileError, OpenOptions};
use crate::residency::ResidencyError;

/// `fstat(2)`. Of a striped file, `st_size` and `st_blocks` are those of its contents, and `st_mtime` that of the object that
/// was written last, if that is later; devices remember no times, so who writes to one gives the descriptor the time.
///
/// # Errors
/// What `fstat(2)` answers; ENOENT and the like when an object is missing.
pub fn fstat(fd: impl AsFd) -> Result<Stat, Errno> {
    Ok(look(fd)?.0)
}

/// As [`fstat`]; also whether the file is striped.
///
/// # Errors
/// As [`fstat`].
pub fn look(fd: impl AsFd) -> Result<(Stat, bool), Errno> {
    let stat = rustix::fs::fstat(&fd)?;
    amended(&fd, stat)
}

/// `stat(2)`, in the same way as [`fstat`].
///
/// # Errors
/// As [`fstat`].
pub fn stat(path: impl rustix::path::Arg + Copy) -> Result<Stat, Errno> {
    statat(rustix::fs::CWD, path, AtFlags::empty())
}

/// `unlink(2)`. With the last name of a striped file, its objects go.
///
/// # Errors
/// What `unlink(2)` answers; the first object that could not be removed.
pub fn unlink(path: &Path) -> Result<(), Errno> {
    if may_be_striped(&rustix::fs::lstat(path)?) {
        match super::remove(path) {
            Err(error) if error.errno() == Errno::INVAL => {}
            other => return other.map(drop).map_err(|error| reduced(&error)),
        }
    }
    rustix::fs::unlink(path)
}

/// `fstatat(2)`, in the same way.
///
/// # Errors
/// As [`fstat`].
pub fn statat(dir: impl AsFd, name: impl rustix::path::Arg + Copy, flags: AtFlags) -> Result<Stat, Errno> {
    let stat = rustix::fs::statat(&dir, name, flags)?;
    if !may_be_striped(&stat) {
        return Ok(stat);
    }
    match rustix::fs::openat(&dir, name, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Permissions::empty()) {
        Ok(fd) => Ok(amended(&fd, stat)?.0),
        // What cannot be read cannot be told from an ordinary file.
        Err(Errno::ACCESS) => Ok(stat),
        Err(errno) => Err(errno),
    }
}

/// What `fstat(2)` said of a file, as [`look`] gives it.
///
/// # Errors
/// As [`fstat`].
pub fn amended(fd: impl AsFd, stat: Stat) -> Result<(Stat, bool), Errno> {
    let Some(descriptor) = described(&fd, &stat)? else { return Ok((stat, false)) };
    let (mut sizes, mut stat, owner) = (Vec::new(), stat, stat.st_uid);
    stat.st_blocks = 0;
    for index in 0..descriptor.targets.len() {
        if descriptor.is_device(index) {
            let length = device_length(&descriptor, index, owner).map_err(|error| number(&fd, error))?;
            sizes.push(length);
            stat.st_blocks += (length - descriptor.layout.start()).div_ceil(512).cast_signed();
            continue;
        }
        let path = descriptor.object_path(index);
        let object =
            rustix::fs::lstat(&path).map_err(|errno| number(&fd, not_reached("look at", index, &path, errno)))?;
        judge_kind(&descriptor, index, &object, owner)
            .map_err(|(errno, what)| number(&fd, of_object("look at", Path::new(""), index, &path, errno, what)))?;
        sizes.push(object.st_size as u64);
        stat.st_blocks += object.st_blocks;
        if (object.st_mtime, object.st_mtime_nsec) > (stat.st_mtime, stat.st_mtime_nsec) {
            (stat.st_mtime, stat.st_mtime_nsec) = (object.st_mtime, object.st_mtime_nsec);
        }
    }
    stat.st_size = size_told(&descriptor, sizes, owner).cast_signed();
    Ok((stat, true))
}

/// The size of a file whose objects have these sizes, if nothing else has written to them: of an object that was cut off or made longer,
/// the size that its stamp tells counts. Only the object that ends the file is asked, and those that hold more than that lets them; so
/// a sound file costs one small read.
fn size_told(descriptor: &Descriptor, mut sizes: Vec<u64>, owner: u32) -> u64 {
    let (layout, count) = (descriptor.layout, sizes.len());
    let mut asked = vec![false; count];
    loop {
        let size = layout.size(sizes.iter().copied());
        let last = (0..count).min_by_key(|index| layout.position(*index, sizes[*index].max(layout.start())));
        let is_odd = |index: usize| Some(index) == last || sizes[index] > layout.share(index, size);
        let Some(index) = (0..count).find(|index| !asked[*index] && is_odd(*index)) else { return size };
        asked[index] = true;
        if let Some(length) = length_told(descriptor, index, sizes[index], owner) {
            sizes[index] = length;
        }
    }
}

/// How long an object is by its stamp that is found so long; `None` of a device, and where no stamp can be read.
fn length_told(descriptor: &Descriptor, index: usize, length: u64, owner: u32) -> Option<u64> {
    if descriptor.is_device(index) {
        return None;
    }
    let object = open_judged(descriptor, index, owner, OFlags::RDONLY).ok()?;
    let mut bytes = vec![0; HEADER_LEN as usize];
    let count = rustix::io::pread(&object, &mut bytes[..], 0).ok()?;
    let stamped = judge_header(&bytes[..count], &descriptor.header(index, Head::default())).ok()?.stamped;
    let stamp = Stamp::within(&bytes[..count]).ok().filter(|_| stamped)?;
    Some(stamp.length_of(length, is_local(&object), &BOOT))
}

/// The number of an error that a file had; what it says beyond that can be asked for ([`super::take_reasons`]).
fn number(fd: impl AsFd, error: FileError) -> Errno {
    let name = || {
        let own = format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd());
        std::fs::read_link(&own).unwrap_or_else(|_| own.into())
    };
    if !error.path().as_os_str().is_empty() {
        // It happened to something else than the file, as to one of its targets.
        keep(&error);
    }
    reduced(&error.called(name))
}

/// An object that its path does not lead to.
fn not_reached(operation: &'static str, index: usize, path: &Path, errno: Errno) -> FileError {
    let what = if errno == Errno::NOENT { "is missing" } else { "" };
    of_object(operation, Path::new(""), index, path, errno, what)
}

/// The descriptor in an open file, if it is striped.
fn described(fd: impl AsFd, stat: &Stat) -> Result<Option<Descriptor>, Errno> {
    descriptor_of(&fd, stat, Path::new("")).map_err(|error| number(&fd, error))
}

/// How long an object is that is a device.
fn device_length(descriptor: &Descriptor, index: usize, owner: u32) -> Result<u64, FileError> {
    let path = descriptor.object_path(index);
    let failed = |errno, what: &str| of_object("look at", Path::new(""), index, &path, errno, what);
    let fd = open_judged(descriptor, index, owner, OFlags::RDONLY).map_err(|(errno, what)| match errno {
        Errno::NOENT => failed(errno, "is missing"),
        errno => failed(errno, what),
    })?;
    length_of(fd, descriptor.id, descriptor.layout.start()).map_err(|(errno, what)| failed(errno, &what))
}

/// Where an open object of a file ends, in bytes: also a device, of which `fstat(2)` says nothing.
///
/// # Errors
/// What `fstat(2)` answers; EBADMSG for a device whose length is damaged.
pub fn end_of_object(descriptor: &Descriptor, index: usize, object: impl AsFd) -> Result<u64, Errno> {
    if descriptor.is_device(index) {
        return length_of(object, descriptor.id, descriptor.layout.start()).map_err(|(errno, _)| errno);
    }
    Ok(rustix::fs::fstat(object)?.st_size as u64)
}

/// Whether an open file is striped.
///
/// # Errors
/// What `fstat(2)` answers; EBADMSG for a damaged descriptor.
pub fn is_striped(fd: impl AsFd) -> Result<bool, Errno> {
    let stat = rustix::fs::fstat(&fd)?;
    Ok(described(fd, &stat)?.is_some())
}

/// After an open file was given another owner, other permissions or times: gives them to its objects too, if it is striped.
/// Devices keep theirs; one that is an object remembers whose the file is.
/// `before` is what the system said of it then. The super-user changes only objects that belonged to the same user: anyone
/// can write a descriptor.
///
/// # Errors
/// What `chown(2)`, `chmod(2)` and `utimensat(2)` answer.
pub fn follow(fd: impl AsFd, before: &Stat) -> Result<(), Errno> {
    if !may_be_striped(before) {
        return Ok(());
    }
    let now = rustix::fs::fstat(&fd)?;
    let Some(descriptor) = described(&fd, &now)? else { return Ok(()) };
    let own = Head::of(&fd)?;
    (0..descriptor.targets.len()).try_for_each(|index| match follows(&descriptor, index, &own, before)? {
        false => Ok(()),
        true if descriptor.is_device(index) => follow_device(&descriptor, index, before, &now),
        true => follow_one(&descriptor.object_path(index), before, &now),
    })
}

/// Whether an object is to be like the file: of a copy of a descriptor it is the copy alone that was changed.
///
/// # Errors
/// What opening the object answers; ESTALE for what is not one of the file; EPERM where others may have written the descriptor, and the
/// object does not say that it is its own.
fn follows(descriptor: &Descriptor, index: usize, own: &Head, before: &Stat) -> Result<bool, Errno> {
    let object = match open_judged(descriptor, index, before.st_uid, OFlags::RDONLY) {
        // Its owner may not read it; whoever may not is not root, and changes nothing that is not his.
        Err((Errno::ACCESS, _)) => return Ok(true),
        // Objects of another user: whatever this was, it was no way to them.
        Err((Errno::PERM, what)) if !what.is_empty() => return Ok(false),
        other => other.map_err(|(errno, _)| errno)?,
    };
    let header = header_of(&object, &descriptor.header(index, *own)).map_err(|(errno, _)| errno)?;
    if !header.head.may_be(own) {
        return Ok(false);
    }
    if others_may_write(before) && !own.is_surely(&header.head) { Err(Errno::PERM) } else { Ok(true) }
}

fn follow_device(descriptor: &Descriptor, index: usize, before: &Stat, now: &Stat) -> Result<(), Errno> {
    if now.st_uid == before.st_uid {
        return Ok(());
    }
    let errno = |error: std::io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
    let device = open_judged(descriptor, index, before.st_uid, OFlags::RDWR).map_err(|(errno, _)| errno)?;
    let header = header_on(&device).map_err(errno)?.filter(|header| header.id == descriptor.id);
    let header = header.filter(|header| header.index == index).ok_or(Errno::STALE)?;
    judge_owner(descriptor, index, &header, before.st_uid).map_err(|(errno, _)| errno)?;
    let bytes = Header { owner: Some(now.st_uid), ..header }.encode().map_err(|_| Errno::INVAL)?;
    device.write_all_at(&bytes, 0).and_then(|()| device.sync_data()).map_err(errno)
}

fn follow_one(path: &Path, before: &Stat, now: &Stat) -> Result<(), Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let object = rustix::fs::open(path, flags, Permissions::empty())?;
    let stat = rustix::fs::fstat(&object)?;
    let foreign = stat.st_uid != before.st_uid && rustix::process::geteuid().is_root();
    if foreign || FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(Errno::PERM);
    }
    if (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid) {
        let (user, group) = (Uid::from_raw(now.st_uid), Gid::from_raw(now.st_gid));
        rustix::fs::chownat(&object, c"", Some(user), Some(group), AtFlags::EMPTY_PATH)?;
    }
    if now.st_mode != before.st_mode {
        let name = format!("/proc/self/fd/{}", object.as_raw_fd());
        rustix::fs::chmod(name, Permissions::from_bits_retain(now.st_mode & 0o777))?;
    }
    if (now.st_mtime, now.st_mtime_nsec) != (before.st_mtime, before.st_mtime_nsec) {
        let time = |tv_sec, nanoseconds: u64| Timespec { tv_sec, tv_nsec: nanoseconds as i64 };
        let times = Timestamps {
            last_access: time(now.st_atime, now.st_atime_nsec),
            last_modification: time(now.st_mtime, now.st_mtime_nsec),
        };
        rustix::fs::utimensat(&object, c"", &times, AtFlags::EMPTY_PATH)?;
    }
    Ok(())
}

/// `ftruncate(2)`.
///
/// # Errors
/// What `ftruncate(2)` answers; those of opening a striped file.
pub fn ftruncate(fd: impl AsFd, size: u64) -> Result<(), Errno> {
    let stat = rustix::fs::fstat(&fd)?;
    if !may_be_striped(&stat) {
        return rustix::fs::ftruncate(fd, size);
    }
    if !is_striped(&fd)? {
        return rustix::fs::ftruncate(fd, size);
    }
    let own = rustix::io::fcntl_dupfd_cloexec(&fd, 3)?;
    let file = OpenOptions::new().write(true).adopt(own, "").map_err(|error| number(&fd, error))?;
    file.set_size(size).map_err(|error| number(&fd, error))
}

/// `openat(2)`. With `O_TRUNC`, a striped file stays striped and is emptied. With `O_CREAT`, an empty file gets the stripes that
/// are the default of its directory.
///
/// # Errors
/// What `openat(2)` and `ftruncate(2)` answer.
pub fn openat(
    dir: impl AsFd,
    name: impl rustix::path::Arg,
    flags: OFlags,
    mode: impl Into<Permissions>,
) -> Result<OwnedFd, Errno> {
    let name = name.as_cow_c_str()?;
    let fd = rustix::fs::openat(&dir, &*name, flags - OFlags::TRUNC, mode.into())?;
    if !flags.intersects(OFlags::TRUNC | OFlags::CREATE) {
        return Ok(fd);
    }
    let stat = rustix::fs::fstat(&fd)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Ok(fd);
    }
    if flags.contains(OFlags::TRUNC) && stat.st_size > 0 {
        ftruncate(&fd, 0)?;
    }
    if !flags.contains(OFlags::CREATE) || stat.st_size > 0 {
        return Ok(fd);
    }
    Ok(striped_by_default(dir.as_fd(), OsStr::from_bytes(name.to_bytes()), fd, flags)?.0)
}

/// An empty file that was opened with `flags`, just after it was made: as its directory has it by default. Whether it was striped;
/// then it was opened anew.
///
/// # Errors
/// Those of [`stripe_by_default`](super::stripe_by_default); EEXIST when with `O_EXCL` somebody else's file has taken the name
/// meanwhile.
pub fn striped_by_default(
    dir: BorrowedFd<'_>,
    name: &OsStr,
    fd: OwnedFd,
    flags: OFlags,
) -> Result<(OwnedFd, bool), Errno> {
    let (path, made) = (path_in(dir, name), rustix::fs::fstat(&fd)?);
    if !super::may_apply(&path, &made) {
        return Ok((fd, false));
    }
    // Whether somebody else has it open can be asked only when we have not.
    drop(fd);
    let striped = super::stripe_by_default(path).map_err(|error| reduced(&error))?;
    let mut again = flags - OFlags::CREATE - OFlags::EXCL - OFlags::TRUNC;
    again.set(OFlags::NOFOLLOW, flags.intersects(OFlags::EXCL | OFlags::NOFOLLOW));
    let fd = rustix::fs::openat(dir, name, again, Permissions::empty())?;
    if flags.contains(OFlags::EXCL) && !super::is_what_was_made(&fd, &made, striped.as_ref())? {
        return Err(Errno::EXIST);
    }
    Ok((fd, striped.is_some()))
}

/// A striped file that may be about to lose its last name.
struct Leaving {
    head: OwnedFd,
    descriptor: Descriptor,
    owner: u32,
    /// Where the name is.
    names: Names,
}

impl Leaving {
    /// What has a name, if that is a striped file.
    fn look(dir: BorrowedFd<'_>, name: &CStr) -> Option<Leaving> {
        let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        if !may_be_striped(&stat) {
            return None;
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let head = rustix::fs::openat(dir, name, flags, Permissions::empty()).ok()?;
        let descriptor = descriptor_of(&head, &rustix::fs::fstat(&head).ok()?, Path::new("")).ok()??;
        let names = Names::beside(dir, name).ok()?;
        Some(Leaving { head, descriptor, owner: stat.st_uid, names })
    }

    /// Whether all objects can go with the name, if they are to.
    fn check(&self) -> Result<(), Errno> {
        super::check_removable(&self.head).map_err(|error| number(&self.head, error))
    }

    /// Its name has gone: with the last one, its objects go.
    fn left(self) -> Result<(), Errno> {
        if rustix::fs::fstat(&self.head)?.st_nlink > 0 {
            return Ok(());
        }
        // A crash must not bring the name back without the bytes.
        self.names.sync(&self.head)?;
        let head = Head::of(&self.head)?;
        let removed = super::remove_objects(Path::new(""), &self.descriptor, self.owner, &head);
        removed.map(drop).map_err(|error| number(&self.head, error))
    }
}

/// `unlinkat(2)` of anything but a directory. With the last name of a striped file, its objects go, once it is durable that the
/// name has gone.
///
/// # Errors
/// What `unlinkat(2)` answers; what syncing the directory answers: then the objects stay; the first object that could not be
/// removed. Nothing is removed where one of them is missing, as [`remove`](super::remove) has it.
pub fn unlinkat(dir: impl AsFd, name: &CStr) -> Result<(), Errno> {
    let leaving = Leaving::look(dir.as_fd(), name);
    leaving.as_ref().map_or(Ok(()), Leaving::check)?;
    rustix::fs::unlinkat(dir, name, AtFlags::empty())?;
    leaving.map_or(Ok(()), Leaving::left)
}

/// `renameat(2)` within a directory. A striped file that is replaced loses its objects with its last name, once it is durable that
/// this has gone.
///
/// # Errors
/// What `renameat(2)` answers. As [`unlinkat`], nothing is replaced where an object is missing or cannot be removed.
pub fn renameat(dir: impl AsFd, from: &CStr, to: &CStr) -> Result<(), Errno> {
    let leaving = Leaving::look(dir.as_fd(), to);
    leaving.as_ref().map_or(Ok(()), Leaving::check)?;
    rustix::fs::renameat(&dir, from, &dir, to)?;
    // Two names of one file: nothing happened, and it has them still.
    leaving.map_or(Ok(()), |leaving| leaving.left().or(Ok(())))
}

/// `fsync(2)`: of a striped file, the objects too.
///
/// # Errors
/// What `fsync(2)` answers; those of opening a striped file.
pub fn fsync(fd: impl AsFd) -> Result<(), Errno> {
    rustix::fs::fsync(&fd)?;
    let stat = rustix::fs::fstat(&fd)?;
    let Some(descriptor) = described(&fd, &stat)? else { return Ok(()) };
    // The length of a device is written by syncs.
    let file = OpenOptions::new()
        .read(true)
        .write(descriptor.has_devices())
        .adopt(rustix::io::fcntl_dupfd_cloexec(&fd, 3)?, "");
    file.and_then(|file| file.sync_all()).map_err(|error| number(&fd, error))
}

/// Makes an empty file that is striped as another one is, under a name that is free, open for reading and writing.
///
/// # Errors
/// EINVAL if the other one is not striped; EOPNOTSUPP if it is on devices, which are one file's; those of
/// [`create`](super::create).
pub fn striped_like(other: impl AsFd, dir: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    let stat = rustix::fs::fstat(&other)?;
    let descriptor = described(&other, &stat)?.ok_or(Errno::INVAL)?;
    if descriptor.has_devices() {
        return Err(Errno::OPNOTSUPP);
    }
    let (stripe, count) = (Some(descriptor.layout.stripe()), Some(descriptor.targets.len()));
    let targets = descriptor.targets.iter().map(|target| target.path().to_owned()).collect();
    let plan = Plan { stripe, count, targets, force: false };
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // For nobody else until its owner and permissions are known.
    drop(rustix::fs::openat(dir, name, flags, Permissions::RUSR | Permissions::WUSR)?);
    let made = super::create(path_in(dir, OsStr::from_bytes(name.to_bytes())), &plan);
    let made = made.map_err(|error| number(&other, error));
    let opened =
        made.and_then(|_| rustix::fs::openat(dir, name, flags - OFlags::CREATE - OFlags::EXCL, Permissions::empty()));
    opened.inspect_err(|_| {
        // The error that is told is the first.
        let _ = unlinkat(dir, name);
    })
}

/// An object, open for reading.
#[derive(Debug)]
pub struct Part {
    /// The object.
    pub file: OwnedFd,
    /// Where its data begin, in bytes.
    pub start: u64,
    /// Nothing of the file is behind; where a device goes on, in bytes.
    pub end: u64,
}

/// The objects of an open file, in order; `None` of one that is not striped.
///
/// # Errors
/// What opening them answers; EBADMSG for a damaged descriptor.
pub fn parts(fd: impl AsFd) -> Result<Option<Vec<Part>>, Errno> {
    let stat = rustix::fs::fstat(&fd)?;
    let Some(descriptor) = described(&fd, &stat)? else { return Ok(None) };
    parts_of(&descriptor, stat.st_uid).map(Some).map_err(|error| number(&fd, error))
}

fn parts_of(descriptor: &Descriptor, owner: u32) -> Result<Vec<Part>, FileError> {
    let open = |index: usize| {
        let path = descriptor.object_path(index);
        let file = open_judged(descriptor, index, owner, OFlags::RDONLY).map_err(|(errno, what)| match what {
            "" => not_reached("open", index, &path, errno),
            what => of_object("open", Path::new(""), index, &path, errno, what),
        })?;
        let end = if descriptor.is_device(index) { device_length(descriptor, index, owner)? } else { u64::MAX };
        Ok(Part { file: file.into(), start: descriptor.layout.start(), end })
    };
    let parts: Vec<Part> = (0..descriptor.targets.len()).map(open).collect::<Result<_, FileError>>()?;
    check_parts(descriptor, &parts)?;
    Ok(parts)
}

/// Whether objects that were opened fit together.
fn check_parts(descriptor: &Descriptor, parts: &[Part]) -> Result<(), FileError> {
    let one = |(index, part): (usize, &Part)| {
        let failed =
            |errno, what: &str| of_object("open", Path::new(""), index, &descriptor.object_path(index), errno, what);
        let plain = |errno| failed(errno, "");
        let mut header = vec![0; HEADER_LEN as usize];
        let count = rustix::io::pread(&part.file, &mut header[..], 0).map_err(plain)?;
        let header = judge_header(&header[..count], &descriptor.header(index, Head::default()));
        let stamped = header.map_err(|(errno, what)| failed(errno, &what))?.stamped;
        let stamp = stamped.then(|| read_stamp(|bytes, at| rustix::io::pread(&part.file, bytes, at)));
        let stamp = stamp.transpose().map_err(plain)?;
        let length = end_of_object(descriptor, index, &part.file).map_err(plain)?;
        Ok(Seen { index, stamp, length, is_local: is_local(&part.file) })
    };
    let look = || {
        let seen = parts.iter().enumerate().map(one).collect::<Result<Vec<_>, FileError>>()?;
        let judged = judge(descriptor.id, &seen, &BOOT);
        Ok((seen, judged))
    };
    let path = |fault: &Fault| descriptor.object_path(fault.index);
    settle_judgement(look, |faults| damaged(Path::new(""), &faults[0], &path(&faults[0]))).map(drop)
}

/// [`residency::resident_pages`](crate::residency::resident_pages); of a striped file, those of its data in all objects.
///
/// # Errors
/// As there; those of [`parts`].
pub fn resident_pages(fd: impl AsFd) -> Result<u64, ResidencyError> {
    let failed = |errno: Errno| ResidencyError::System { operation: "open", offset: 0, source: errno.into() };
    match parts(&fd).map_err(failed)? {
        None => crate::residency::resident_pages(fd),
        Some(parts) => {
            let pages = |part: &Part| crate::residency::resident_in(&part.file, part.start..part.end);
            parts.iter().map(pages).sum()
        }
    }
}

/// A name in an open directory as a path.
pub fn path_in(dir: BorrowedFd<'_>, name: &OsStr) -> PathBuf {
    if dir.as_raw_fd() == rustix::fs::CWD.as_raw_fd() {
        return name.into();
    }
    Path::new(&format!("/proc/self/fd/{}", dir.as_raw_fd())).join(name)
}

//! Attributes of files: of a striped one, those of its contents.

use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Gid, Mode as Permissions, OFlags, Stat, Timespec, Timestamps, Uid};
use rustix::io::Errno;

use super::striped::{described, device_length, not_reached, number};
use crate::stripe::object::{
    BOOT, HEADER_LEN, Stamp, header_of, header_on, is_local, judge_header, judge_kind, judge_owner, of_object,
    open_judged,
};
use crate::stripe::trust::others_may_write;
use crate::stripe::{Descriptor, Head, Header, may_be_striped};

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
    stat_of_contents(&fd, stat)
}

/// `stat(2)`, in the same way as [`fstat`].
///
/// # Errors
/// As [`fstat`].
pub fn stat(path: impl rustix::path::Arg + Copy) -> Result<Stat, Errno> {
    statat(rustix::fs::CWD, path, AtFlags::empty())
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
        Ok(fd) => Ok(stat_of_contents(&fd, stat)?.0),
        // What cannot be read cannot be told from an ordinary file.
        Err(Errno::ACCESS) => Ok(stat),
        Err(errno) => Err(errno),
    }
}

/// What `fstat(2)` said of a file, as [`look`] gives it.
///
/// # Errors
/// As [`fstat`].
pub fn stat_of_contents(fd: impl AsFd, stat: Stat) -> Result<(Stat, bool), Errno> {
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
        let is_odd = |index: usize| Some(index) == last || sizes[index] > layout.object_size(index, size);
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

/// After an open file was given another owner, other permissions or times: gives them to its objects too, if it is striped.
/// Devices keep theirs; one that is an object remembers whose the file is.
/// `before` is what the system said of it then. The super-user changes only objects that belonged to the same user: anyone
/// can write a descriptor.
///
/// # Errors
/// What `chown(2)`, `chmod(2)` and `utimensat(2)` answer.
pub fn pass_on_attributes(fd: impl AsFd, before: &Stat) -> Result<(), Errno> {
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

//! Attributes of files. For a striped file, those of its contents.

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;

use dio_sys::fd_path;
use rustix::fs::{
    AtFlags, FileType, Gid, Mode as Permissions, OFlags, Stat, Timespec, Timestamps, Uid,
};
use rustix::io::Errno;

use super::details::errno_of;
use super::striped::{descriptor_in, device_object_len, errno_for, unreachable_object};
use crate::stripe::object::{
    BOOT_ID, HEADER_LEN, Stamp, as_owner, check_header, check_kind, check_owner, is_local,
    object_error, open_checked, open_error, read_checked_header, read_device_header,
};
use crate::stripe::trust::others_may_write;
use crate::stripe::{Descriptor, DescriptorInode, Header, LeaseWait, may_be_striped};

/// `fstat(2)`. For a striped file, `st_size` and `st_blocks` are those of its contents, and
/// `st_mtime` is that of the object written last, if that is later. Devices have no times: whoever
/// writes to one sets the time of the descriptor file.
///
/// # Errors
/// What `fstat(2)` answers; EAGAIN if its owner holds a lease on it ([`LeaseWait::Briefly`]); the
/// error of an object that cannot be found, such as ENOENT.
pub fn fstat(fd: impl AsFd) -> Result<Stat, Errno> {
    Ok(fstat_striped(fd)?.0)
}

/// As [`fstat`]. The second value is whether the file is striped.
///
/// # Errors
/// As [`fstat`].
pub fn fstat_striped(fd: impl AsFd) -> Result<(Stat, bool), Errno> {
    let stat = rustix::fs::fstat(&fd)?;
    stat_of_contents(&fd, stat)
}

/// `stat(2)`, for striped files as [`fstat`].
///
/// # Errors
/// As [`fstat`].
pub fn stat(path: impl rustix::path::Arg + Copy) -> Result<Stat, Errno> {
    statat(rustix::fs::CWD, path, AtFlags::empty())
}

/// `fstatat(2)`, for striped files as [`fstat`].
///
/// # Errors
/// As [`fstat`].
pub fn statat(
    dir: impl AsFd,
    name: impl rustix::path::Arg + Copy,
    flags: AtFlags,
) -> Result<Stat, Errno> {
    let stat = rustix::fs::statat(&dir, name, flags)?;
    if !may_be_striped(&stat) {
        return Ok(stat);
    }
    let how = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    match LeaseWait::Briefly
        .open(|more| rustix::fs::openat(&dir, name, how | more, Permissions::empty()))
    {
        Ok(fd) => Ok(stat_of_contents(&fd, stat)?.0),
        // A file that may not be read cannot be recognised as striped.
        Err(Errno::ACCESS) => Ok(stat),
        Err(errno) => {
            let name = name.as_cow_c_str()?;
            Err(errno_of(&open_error(
                "look at",
                Path::new(OsStr::from_bytes(name.to_bytes())),
                errno,
            )))
        }
    }
}

/// Turns the `stat` that `fstat(2)` returned for a file into what [`fstat_striped`] returns.
///
/// # Errors
/// As [`fstat`].
pub fn stat_of_contents(fd: impl AsFd, stat: Stat) -> Result<(Stat, bool), Errno> {
    let Some(descriptor) = descriptor_in(&fd, &stat, LeaseWait::Briefly)? else {
        return Ok((stat, false));
    };
    let (mut sizes, mut stat, owner) = (Vec::new(), stat, stat.st_uid);
    stat.st_blocks = 0;
    for index in 0..descriptor.targets.len() {
        if descriptor.is_device(index) {
            let length = device_object_len(&descriptor, index, owner)
                .map_err(|error| errno_for(&fd, error))?;
            sizes.push(length);
            stat.st_blocks += (length - descriptor.layout.start()).div_ceil(512).cast_signed();
            continue;
        }
        let path = descriptor.object_path(index);
        let object = as_owner(owner, || rustix::fs::lstat(&path)).map_err(|errno| {
            errno_for(&fd, unreachable_object("look at", index, &path, errno, owner))
        })?;
        check_kind(&descriptor, index, &object, owner).map_err(|(errno, what)| {
            errno_for(&fd, object_error("look at", Path::new(""), index, &path, errno, what))
        })?;
        sizes.push(object.st_size as u64);
        stat.st_blocks += object.st_blocks;
        if (object.st_mtime, object.st_mtime_nsec) > (stat.st_mtime, stat.st_mtime_nsec) {
            (stat.st_mtime, stat.st_mtime_nsec) = (object.st_mtime, object.st_mtime_nsec);
        }
    }
    stat.st_size = contents_size(&descriptor, sizes, owner).cast_signed();
    Ok((stat, true))
}

/// The size of a file whose objects have these sizes. If another program has cut off or extended an
/// object, the length in its stamp counts instead. Only the stamps of the object that ends the
/// file, and of objects longer than that one allows, are read: a sound file costs one small read.
fn contents_size(descriptor: &Descriptor, mut sizes: Vec<u64>, owner: u32) -> u64 {
    let (layout, count) = (descriptor.layout, sizes.len());
    let mut asked = vec![false; count];
    loop {
        let size = layout.size(sizes.iter().copied());
        let last = (0..count)
            .min_by_key(|index| layout.position(*index, sizes[*index].max(layout.start())));
        let is_odd =
            |index: usize| Some(index) == last || sizes[index] > layout.object_size(index, size);
        let Some(index) = (0..count).find(|index| !asked[*index] && is_odd(*index)) else {
            return size;
        };
        asked[index] = true;
        if let Some(length) = stamped_len(descriptor, index, sizes[index], owner) {
            sizes[index] = length;
        }
    }
}

/// The length of an object by its stamp, given the length that was found. `None` for a device, and
/// if no stamp can be read.
fn stamped_len(descriptor: &Descriptor, index: usize, length: u64, owner: u32) -> Option<u64> {
    if descriptor.is_device(index) {
        return None;
    }
    let object = open_checked(descriptor, index, owner, OFlags::RDONLY).ok()?;
    let mut bytes = vec![0; HEADER_LEN as usize];
    let count = rustix::io::pread(&object, &mut bytes[..], 0).ok()?;
    let stamped =
        check_header(&bytes[..count], &descriptor.header(index, DescriptorInode::default()))
            .ok()?
            .stamped;
    let stamp = Stamp::within(&bytes[..count]).ok().filter(|_| stamped)?;
    Some(stamp.length_of(length, is_local(&object), &BOOT_ID))
}

/// Copies owner, permissions and times of an open striped file to its objects, after they were
/// changed on the descriptor file. `before` is the `stat` from before the change. Devices keep
/// their own attributes; only the owner recorded in their header changes. Root changes only objects
/// that belonged to the same user, because anyone can write a descriptor.
///
/// # Errors
/// What `chown(2)`, `chmod(2)` and `utimensat(2)` answer.
pub fn pass_on_attributes(fd: impl AsFd, before: &Stat) -> Result<(), Errno> {
    if !may_be_striped(before) {
        return Ok(());
    }
    let now = rustix::fs::fstat(&fd)?;
    let Some(descriptor) = descriptor_in(&fd, &now, LeaseWait::Briefly)? else { return Ok(()) };
    let own = DescriptorInode::of(&fd)?;
    (0..descriptor.targets.len()).try_for_each(|index| {
        match takes_attributes(&descriptor, index, &own, before)? {
            false => Ok(()),
            true if descriptor.is_device(index) => {
                update_device_owner(&descriptor, index, before, &now)
            }
            true => copy_attributes(&descriptor.object_path(index), before, &now),
        }
    })
}

/// Whether an object takes the new attributes. It does not if the descriptor file is a copy: then
/// only the copy was changed.
///
/// # Errors
/// What opening the object answers; ESTALE for something that is no object of the file; EPERM if
/// other users may have written the descriptor and the object does not name this inode as its
/// descriptor.
fn takes_attributes(
    descriptor: &Descriptor,
    index: usize,
    own: &DescriptorInode,
    before: &Stat,
) -> Result<bool, Errno> {
    let object = match open_checked(descriptor, index, before.st_uid, OFlags::RDONLY) {
        // A process that may not read it is not root, and can change nothing but its own files.
        Err((Errno::ACCESS, _)) => return Ok(true),
        // Objects of another user: the changed file was not their descriptor.
        Err((Errno::PERM, what)) if !what.is_empty() => return Ok(false),
        other => other.map_err(|(errno, _)| errno)?,
    };
    let header = read_checked_header(&object, &descriptor.header(index, *own))
        .map_err(|(errno, _)| errno)?;
    if !header.head.may_be(own) {
        return Ok(false);
    }
    if others_may_write(before) && !own.is_surely(&header.head) {
        Err(Errno::PERM)
    } else {
        Ok(true)
    }
}

fn update_device_owner(
    descriptor: &Descriptor,
    index: usize,
    before: &Stat,
    now: &Stat,
) -> Result<(), Errno> {
    if now.st_uid == before.st_uid {
        return Ok(());
    }
    let errno = |error: std::io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
    let device =
        open_checked(descriptor, index, before.st_uid, OFlags::RDWR).map_err(|(errno, _)| errno)?;
    let header =
        read_device_header(&device).map_err(errno)?.filter(|header| header.id == descriptor.id);
    let header = header.filter(|header| header.index == index).ok_or(Errno::STALE)?;
    check_owner(descriptor, index, &header, before.st_uid).map_err(|(errno, _)| errno)?;
    let bytes = Header { owner: Some(now.st_uid), ..header }.encode().map_err(|_| Errno::INVAL)?;
    device.write_all_at(&bytes, 0).and_then(|()| device.sync_data()).map_err(errno)
}

fn copy_attributes(path: &Path, before: &Stat, now: &Stat) -> Result<(), Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let object = as_owner(before.st_uid, || rustix::fs::open(path, flags, Permissions::empty()))?;
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
        rustix::fs::chmod(fd_path(&object), Permissions::from_bits_retain(now.st_mode & 0o777))?;
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

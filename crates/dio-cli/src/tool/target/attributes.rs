//! The metadata of files: owner, permissions, times, extended attributes and inode flags.

use std::os::fd::OwnedFd;

use dio::names;
use rustix::fs::{
    Gid, IFlags, Mode, Stat, Timespec, Timestamps, Uid, XattrFlags, fchmod, fchown, fgetxattr,
    flistxattr, fremovexattr, fsetxattr, fstat, futimens, ioctl_getflags, ioctl_setflags,
};
use rustix::io::Errno;

/// The kernel's limit for a list of attribute names, and for a value (xattr(7)), in bytes.
const ATTRIBUTE_BYTES_MAX: usize = 64 << 10;

/// Inode flags that belong to the file and not to its layout (`ioctl_iflags(2)`).
const FLAGS: IFlags =
    IFlags::NOATIME.union(IFlags::NOCOW).union(IFlags::NODUMP).union(IFlags::SYNC);

/// Copies the owner, permissions, extended attributes (including ACLs) and inode flags of `old` to
/// the empty file `new`.
///
/// # Errors
/// One of them cannot be set.
pub(super) fn give_all(old: &OwnedFd, stat: &Stat, new: &OwnedFd) -> Result<(), Errno> {
    let before = fstat(new)?;
    if (before.st_uid, before.st_gid) != (stat.st_uid, stat.st_gid) {
        fchown(new, Some(Uid::from_raw(stat.st_uid)), Some(Gid::from_raw(stat.st_gid)))?;
    }
    if let (Ok(wanted), Ok(has)) = (ioctl_getflags(old), ioctl_getflags(new))
        && wanted & FLAGS != has & FLAGS
    {
        ioctl_setflags(new, (has - FLAGS) | (wanted & FLAGS))?;
    }
    give_all_extended(old, new)?;
    let mut mode = stat.st_mode & 0o7777;
    if !rustix::process::geteuid().is_root() {
        // A write by any user but the superuser would clear these bits.
        mode &= if mode & 0o010 != 0 { 0o1777 } else { 0o3777 };
    }
    fchmod(new, Mode::from_bits_retain(mode))?;
    names::pass_on_attributes(new, &before)
}

fn give_all_extended(old: &OwnedFd, new: &OwnedFd) -> Result<(), Errno> {
    let (wanted, mut has) = (extended_of(old)?, extended_of(new)?);
    let mut value = vec![0u8; ATTRIBUTE_BYTES_MAX];
    for name in &wanted {
        let length = fgetxattr(old, name.as_slice(), &mut value[..])?;
        fsetxattr(new, name.as_slice(), &value[..length], XattrFlags::empty())?;
        has.retain(|other| other != name);
    }
    // Removes attributes that the new file got from its directory, such as a default ACL.
    has.iter().try_for_each(|name| fremovexattr(new, name.as_slice()))
}

/// Returns the names of a file's extended attributes, except those of security modules, which the
/// kernel sets itself: a write removes capabilities, and the policy assigns labels.
fn extended_of(fd: &OwnedFd) -> Result<Vec<Vec<u8>>, Errno> {
    let mut list = vec![0u8; ATTRIBUTE_BYTES_MAX];
    let length = match flistxattr(fd, &mut list[..]) {
        Err(Errno::OPNOTSUPP) => 0,
        other => other?,
    };
    let names = list[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Ok(names.filter(|name| !name.starts_with(b"security.")).map(<[u8]>::to_vec).collect())
}

/// Copies the owner, permissions and times of another file, with `mtime` instead of its
/// modification time. Owner and group are set as far as permitted. Set-user-ID and set-group-ID
/// bits are not copied, so nobody gets the right to run the file as another owner.
///
/// # Errors
/// Errors of setting the times or the permissions.
pub(crate) fn give_usual(fd: &OwnedFd, stat: &Stat, mtime: Option<i64>) -> Result<(), Errno> {
    let modified = Timespec { tv_sec: stat.st_mtime as _, tv_nsec: stat.st_mtime_nsec as _ };
    let times = Timestamps {
        last_access: Timespec { tv_sec: stat.st_atime as _, tv_nsec: stat.st_atime_nsec as _ },
        last_modification: mtime
            .map_or(modified, |seconds| Timespec { tv_sec: seconds, tv_nsec: 0 }),
    };
    let before = fstat(fd)?;
    let _ = fchown(fd, None, Some(Gid::from_raw(stat.st_gid)));
    let permitted = fchmod(fd, Mode::from_bits_retain(stat.st_mode & 0o777));
    let _ = fchown(fd, Some(Uid::from_raw(stat.st_uid)), None);
    futimens(fd, &times).and(permitted).and_then(|()| names::pass_on_attributes(fd, &before))
}

/// Copies the extended attributes (including ACLs) of another file, as far as they can be set.
pub(crate) fn give_extended(from: &OwnedFd, to: &OwnedFd) {
    let (mut list, mut value) = (vec![0u8; ATTRIBUTE_BYTES_MAX], vec![0u8; ATTRIBUTE_BYTES_MAX]);
    let length = flistxattr(from, &mut list[..]).unwrap_or(0);
    for name in list[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        if let Ok(length) = fgetxattr(from, name, &mut value[..]) {
            let _ = fsetxattr(to, name, &value[..length], XattrFlags::empty());
        }
    }
}

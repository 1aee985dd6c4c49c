//! What a file has besides its contents.

use std::os::fd::OwnedFd;

use dio::names;
use rustix::fs::{
    Gid, IFlags, Mode, Stat, Uid, XattrFlags, fchmod, fchown, fgetxattr, flistxattr, fremovexattr, fsetxattr, fstat,
    ioctl_getflags, ioctl_setflags,
};
use rustix::io::Errno;

/// The most that the kernel lets a list, or a value, be (xattr(7)), in bytes.
const ATTRIBUTE_BYTES_MAX: usize = 64 << 10;

/// Inode flags that belong to the file and not to its layout (`ioctl_iflags(2)`).
const FLAGS: IFlags = IFlags::NOATIME.union(IFlags::NOCOW).union(IFlags::NODUMP).union(IFlags::SYNC);

/// Gives an empty file the owner, permissions, extended attributes (ACLs among them) and inode
/// flags of another.
///
/// # Errors
/// One of them cannot be set.
pub(super) fn give(old: &OwnedFd, stat: &Stat, new: &OwnedFd) -> Result<(), Errno> {
    let before = fstat(new)?;
    if (before.st_uid, before.st_gid) != (stat.st_uid, stat.st_gid) {
        fchown(new, Some(Uid::from_raw(stat.st_uid)), Some(Gid::from_raw(stat.st_gid)))?;
    }
    if let (Ok(wanted), Ok(has)) = (ioctl_getflags(old), ioctl_getflags(new))
        && wanted & FLAGS != has & FLAGS
    {
        ioctl_setflags(new, (has - FLAGS) | (wanted & FLAGS))?;
    }
    give_extended(old, new)?;
    let mut mode = stat.st_mode & 0o7777;
    if !rustix::process::geteuid().is_root() {
        // A write by others than the superuser takes these rights away.
        mode &= if mode & 0o010 != 0 { 0o1777 } else { 0o3777 };
    }
    fchmod(new, Mode::from_bits_retain(mode))?;
    names::pass_on_attributes(new, &before)
}

fn give_extended(old: &OwnedFd, new: &OwnedFd) -> Result<(), Errno> {
    let (wanted, mut has) = (names(old)?, names(new)?);
    let mut value = vec![0u8; ATTRIBUTE_BYTES_MAX];
    for name in &wanted {
        let length = fgetxattr(old, name.as_slice(), &mut value[..])?;
        fsetxattr(new, name.as_slice(), &value[..length], XattrFlags::empty())?;
        has.retain(|other| other != name);
    }
    // What a new file gets from its directory, such as a default ACL.
    has.iter().try_for_each(|name| fremovexattr(new, name.as_slice()))
}

/// The extended attributes of a file. Those of security modules are the kernel's to set:
/// capabilities end with a write, and a label is given by the policy.
fn names(fd: &OwnedFd) -> Result<Vec<Vec<u8>>, Errno> {
    let mut list = vec![0u8; ATTRIBUTE_BYTES_MAX];
    let length = match flistxattr(fd, &mut list[..]) {
        Err(Errno::OPNOTSUPP) => 0,
        other => other?,
    };
    let names = list[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Ok(names.filter(|name| !name.starts_with(b"security.")).map(<[u8]>::to_vec).collect())
}

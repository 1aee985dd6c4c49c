//! Sets owner, permissions, extended attributes, ACLs and times of extracted files.

use std::ffi::{CStr, CString};
use std::os::fd::BorrowedFd;

use dio_sys::fd_path;
use rustix::fs::{
    AtFlags, CWD, Gid, Mode, Timespec, Timestamps, UTIME_OMIT, Uid, XattrFlags, chmodat, chownat,
    fchmod, fchown, fremovexattr, fsetxattr, fstat, futimens, utimensat,
};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::messages::MemberMessages;

const ACL_ACCESS: &CStr = c"system.posix_acl_access";
const ACL_DEFAULT: &CStr = c"system.posix_acl_default";

/// The permission bits, and the set-id and sticky bits.
const PERMISSIONS: u32 = 0o777;
const SPECIAL: u32 = 0o7000;

/// An ACL as the value of its extended attribute; `None` means that the file has none.
pub(crate) type Acl = Option<Vec<u8>>;

/// The metadata that a file gets once its contents are complete.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Meta {
    /// The mode, with the umask already applied. Without `whole`, only its permission bits are set.
    pub(crate) mode: u32,
    /// Whether the set-id and sticky bits are set as well; otherwise they are left unchanged.
    pub(crate) whole: bool,
    /// User and group, if they are to be set.
    pub(crate) owner: Option<(u32, u32)>,
    /// The modification time, if it is to be set.
    #[serde(with = "stamp")]
    pub(crate) mtime: Option<Timespec>,
    /// Extended attributes.
    pub(crate) xattrs: Vec<(CString, Vec<u8>)>,
    /// The access and the default ACL; an inner `None` removes the ACL.
    pub(crate) acls: Option<(Acl, Acl)>,
}

/// A time as other processes get it.
mod stamp {
    use rustix::fs::Timespec;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(
        time: &Option<Timespec>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        time.map(|time| (time.tv_sec, time.tv_nsec)).serialize(to)
    }

    pub(super) fn deserialize<'d, D: Deserializer<'d>>(
        from: D,
    ) -> Result<Option<Timespec>, D::Error> {
        let time = Option::<(i64, i64)>::deserialize(from)?;
        Ok(time.map(|(tv_sec, tv_nsec)| Timespec { tv_sec, tv_nsec }))
    }
}

/// An open file, by the kind of its descriptor.
#[derive(Clone, Copy, Debug)]
pub(super) enum Object<'a> {
    /// Open for reading or writing.
    Open(BorrowedFd<'a>),
    /// Opened with `O_PATH`; may be a symbolic link itself.
    NewFile(BorrowedFd<'a>),
}

impl Meta {
    /// Sets the metadata of a symbolic link: owner, attributes and times; a link has no mode of its
    /// own.
    pub(super) fn apply_to_link(&self, link: Object<'_>, words: &MemberMessages<'_>) {
        if let Some((uid, gid)) = self.owner {
            words.owner(uid, gid, link.set_owner(uid, gid));
        }
        for (name, value) in &self.xattrs {
            words.attribute("lsetxattr", name, link.set_attribute(name, value));
        }
        if let Some(mtime) = self.mtime {
            words.times(link.set_times(mtime));
        }
    }

    /// Sets all metadata of a file or directory. Failures are reported, and the remaining steps
    /// still done.
    pub(super) fn apply(&self, object: Object<'_>, directory: bool, words: &MemberMessages<'_>) {
        let mut mode = self.mode;
        if let Some((uid, gid)) = self.owner {
            let set = object.set_owner(uid, gid);
            if set.is_err() {
                // Set-id bits must not grant the rights of a different owner or group.
                mode &= !0o6000;
            }
            words.owner(uid, gid, set);
        }
        for (name, value) in &self.xattrs {
            words.attribute("setxattrat", name, object.set_attribute(name, value));
        }
        words.mode(mode, self.set_mode(object, mode, directory));
        if let Some((access, default)) = &self.acls {
            words.acl(true, object.set_acl(ACL_ACCESS, access.as_deref()));
            if directory {
                words.acl(default.is_some(), object.set_acl(ACL_DEFAULT, default.as_deref()));
            }
        }
        if let Some(mtime) = self.mtime {
            words.times(object.set_times(mtime));
        }
    }

    fn set_mode(&self, object: Object<'_>, mode: u32, directory: bool) -> Result<(), Errno> {
        let mode = match self.whole {
            true => mode,
            // A new directory may have inherited a set-group-id bit, which is kept.
            false if directory => fstat(object.fd())?.st_mode & SPECIAL | mode & PERMISSIONS,
            false => mode & PERMISSIONS,
        };
        object.set_mode(mode)
    }
}

fn stamps(mtime: Timespec) -> Timestamps {
    let omit = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT as _ };
    Timestamps { last_access: omit, last_modification: mtime }
}

/// `chown(2)` takes the number −1 as "unchanged".
fn user(uid: u32) -> Option<Uid> {
    (uid != u32::MAX).then(|| Uid::from_raw(uid))
}

fn group(gid: u32) -> Option<Gid> {
    (gid != u32::MAX).then(|| Gid::from_raw(gid))
}

impl<'a> Object<'a> {
    fn fd(self) -> BorrowedFd<'a> {
        match self {
            Object::Open(fd) | Object::NewFile(fd) => fd,
        }
    }

    /// Sets the owner; with an `O_PATH` descriptor, `fchownat(2)` needs an empty name.
    fn set_owner(self, uid: u32, gid: u32) -> Result<(), Errno> {
        let (uid, gid) = (user(uid), group(gid));
        match self {
            Object::Open(fd) => fchown(fd, uid, gid),
            Object::NewFile(fd) => chownat(fd, c"", uid, gid, AtFlags::EMPTY_PATH),
        }
    }

    pub(super) fn set_mode(self, mode: u32) -> Result<(), Errno> {
        let mode = Mode::from_bits_retain(mode);
        match self {
            Object::Open(fd) => fchmod(fd, mode),
            // Older kernels have no call that changes the mode through an `O_PATH` descriptor. This
            // name in `/proc` leads to that inode and no other.
            Object::NewFile(fd) => chmodat(CWD, fd_path(fd), mode, AtFlags::empty()),
        }
    }

    fn set_times(self, mtime: Timespec) -> Result<(), Errno> {
        match self {
            Object::Open(fd) => futimens(fd, &stamps(mtime)),
            Object::NewFile(fd) => match utimensat(fd, c"", &stamps(mtime), AtFlags::EMPTY_PATH) {
                // The kernel accepts an empty name since Linux 5.8.
                Err(Errno::INVAL) => utimensat(CWD, fd_path(fd), &stamps(mtime), AtFlags::empty()),
                set => set,
            },
        }
    }

    fn set_attribute(self, name: &CStr, value: &[u8]) -> Result<(), Errno> {
        match self {
            Object::Open(fd) => fsetxattr(fd, name, value, XattrFlags::empty()),
            Object::NewFile(fd) => {
                rustix::fs::setxattr(fd_path(fd), name, value, XattrFlags::empty())
            }
        }
    }

    /// Sets an ACL, or removes it.
    fn set_acl(self, name: &CStr, acl: Option<&[u8]>) -> Result<(), Errno> {
        let Some(acl) = acl else {
            let removed = match self {
                Object::Open(fd) => fremovexattr(fd, name),
                Object::NewFile(fd) => rustix::fs::removexattr(fd_path(fd), name),
            };
            return match removed {
                Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(()),
                other => other,
            };
        };
        self.set_attribute(name, acl)
    }
}

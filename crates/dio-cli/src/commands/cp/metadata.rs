//! Owner, times, mode, ACLs and extended attributes of a copy.
//!
//! System calls are made only where the target differs from what its creation already gave: for
//! tens of thousands of small files, each call matters.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::os::fd::BorrowedFd;
use std::path::PathBuf;

use dio::credentials::is_trusted;
use dio_sys::fd_path;
use rustix::fs::{
    AtFlags, CWD, Gid, Mode, Stat, Timespec, Timestamps, Uid, XattrFlags, chmodat, chownat, fchmod,
    fchown, fgetxattr, flistxattr, fremovexattr, fsetxattr, futimens, getxattr, listxattr,
    removexattr, setxattr, utimensat,
};
use rustix::io::Errno;

use super::error::{CopyError, FailedOperation};
use super::session::CopyRun;

const ACL_ACCESS: &CStr = c"system.posix_acl_access";
const ACL_DEFAULT: &CStr = c"system.posix_acl_default";

/// Attributes that are listed but not copied. The kernel or the file system sets them itself, or
/// they are permissions, which are copied with the mode. From attr's xattr.conf(5).
const NOT_COPIED: [&str; 9] = [
    "system.nfs4_acl",
    "system.nfs4acl",
    "system.posix_acl_",
    "trusted.SGI_",
    "xfsroot.",
    "user.Beagle.",
    "security.evm",
    "security.ima",
    "afs.",
];

/// A file whose attributes are read or set. It is never accessed by its name, which another file
/// may have by then.
#[derive(Clone, Copy, Debug)]
pub(super) enum Object<'a> {
    /// Open for reading or writing.
    Open(BorrowedFd<'a>),
    /// Open only with `O_PATH`: a link, a fifo, a device, a directory that cannot be read.
    Place(BorrowedFd<'a>),
}

/// Known attributes of the target before any are set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    /// User and group.
    pub(super) owner: (u32, u32),
    /// Permission bits, if known.
    pub(super) mode: Option<u32>,
    /// The target was made by this run.
    pub(super) fresh: bool,
    /// The target may have an ACL of its own, inherited or from before.
    pub(super) acl: bool,
}

/// One copy, with what is needed to set its attributes.
pub(super) struct Attributes<'a> {
    pub(super) session: &'a CopyRun,
    pub(super) source: Object<'a>,
    pub(super) target: Object<'a>,
    /// Attributes of the source.
    pub(super) stat: &'a Stat,
    pub(super) now: Now,
    pub(super) symlink: bool,
    pub(super) directory: bool,
    /// The mode to set if the source's mode is not preserved, if any.
    pub(super) plain_mode: Option<u32>,
    pub(super) shown: &'a dyn Fn() -> PathBuf,
}

impl Attributes<'_> {
    /// Sets what the options ask for. An error is reported, and the remaining attributes are still
    /// set.
    pub(super) fn apply(&self) {
        let preserve = &self.session.options.preserve;
        if preserve.timestamps {
            self.tell(FailedOperation::Times, set_times(&self.target, self.stat));
        }
        let mut wanted = self.stat.st_mode & 0o7777;
        let chown = preserve.ownership && self.now.owner != (self.stat.st_uid, self.stat.st_gid);
        let mut mode_now = self.now.mode;
        if chown {
            if !self.now.fresh && preserve.mode && !self.symlink {
                mode_now = self.close_to_others().or(mode_now);
            }
            if !self.set_owner() {
                // The set-id bits would make the file run with the rights of the user who copies
                // it.
                wanted &= 0o777;
            }
            // Changing the owner clears the set-id bits of some files.
            mode_now = mode_now.filter(|mode| mode & 0o6000 == 0);
        }
        let acl = self.copy_attributes(preserve.xattr);
        if preserve.xattr && !self.now.fresh && self.session.options.mirror.is_some() {
            self.remove_others();
        }
        if self.symlink {
            return;
        }
        if preserve.mode {
            let exact = self.session.options.mirror.is_some();
            if self.directory && wanted & 0o7000 == 0 && !exact {
                // A set-group-id bit inherited from the parent directory stays, as with GNU cp.
                wanted |= self.now.mode.unwrap_or(0) & 0o7000;
            }
            self.set_permissions(wanted, mode_now, acl);
        } else if let Some(plain) = self.plain_mode {
            // Default permissions come from the umask, not from an ACL inherited from the
            // directory.
            let inherited = preserve.default_mode && self.now.acl;
            if inherited {
                self.tell(FailedOperation::Permissions, remove(&self.target, ACL_ACCESS));
            }
            if inherited || mode_now != Some(plain) {
                self.tell(FailedOperation::Permissions, set_mode(&self.target, plain));
            }
        }
    }

    fn tell(&self, doing: FailedOperation, result: Result<(), Errno>) {
        if let Err(errno) = result {
            self.session.report.error(CopyError::At { doing, path: (self.shown)(), errno });
        }
    }

    /// Before the owner of an existing file changes, removes the permissions that group and others
    /// of the new owner would not get. Returns the new mode, if one was set.
    fn close_to_others(&self) -> Option<u32> {
        let old = self.now.mode?;
        let safe = old & self.stat.st_mode & 0o700;
        if old & 0o7777 & !safe == 0 {
            return None;
        }
        let set = set_mode(&self.target, safe);
        if set.is_err_and(|errno| self.session.root || errno != Errno::PERM) {
            self.tell(FailedOperation::ClearPermissions, set);
        }
        set.ok().map(|()| safe)
    }

    /// Sets the owner and group of the source. Returns whether both are now the source's.
    fn set_owner(&self) -> bool {
        let (uid, gid) = (self.stat.st_uid, self.stat.st_gid);
        let both = set_owner(&self.target, Some(uid), gid);
        let Err(errno) = both else { return true };
        let expected = matches!(errno, Errno::PERM | Errno::INVAL) && !self.session.root;
        if !expected {
            self.tell(FailedOperation::Owner, both);
        } else {
            // Only the superuser may give files away. The group can still be set if the user is a
            // member of it.
            let _ = set_owner(&self.target, None, gid);
        }
        false
    }

    /// Copies extended attributes if `wanted`. Returns the source's access ACL, if it has one.
    fn copy_attributes(&self, wanted: bool) -> Option<Vec<u8>> {
        if !wanted {
            let acl = self.session.options.preserve.mode && !self.symlink;
            return if acl { get(&self.source, ACL_ACCESS).ok().flatten() } else { None };
        }
        let required = self.session.options.preserve.xattr_required;
        let names = match list(&self.source) {
            Ok(names) => names,
            Err(Errno::OPNOTSUPP) => return None,
            Err(errno) => {
                if required {
                    self.tell(FailedOperation::ListAttributes, Err(errno));
                }
                return None;
            }
        };
        let mut acl = None;
        if each_name(&names).any(|name| name == ACL_ACCESS) {
            acl = get(&self.source, ACL_ACCESS).ok().flatten();
        }
        for name in copied(&names) {
            let value = get(&self.source, name);
            if let Ok(Some(value)) = &value {
                let set = set(&self.target, name, value);
                if required {
                    self.tell(FailedOperation::SetAttributes, set);
                }
            } else if required && let Err(errno) = value {
                self.tell(FailedOperation::GetAttributes, Err(errno));
            }
        }
        acl
    }

    /// Removes extended attributes that the source lacks.
    fn remove_others(&self) {
        let names = |object| list(object).unwrap_or_default();
        let (wanted, found) = (names(&self.source), names(&self.target));
        let wanted: Vec<&CStr> = copied(&wanted).collect();
        for name in copied(&found).filter(|name| !wanted.contains(name)) {
            self.tell(FailedOperation::SetAttributes, remove(&self.target, name));
        }
    }

    /// Gives the target the source's permission bits and ACLs.
    fn set_permissions(&self, wanted: u32, mode_now: Option<u32>, acl: Option<Vec<u8>>) {
        let has_acl = acl.is_some();
        if let Some(acl) = acl {
            self.tell(FailedOperation::Permissions, set(&self.target, ACL_ACCESS, &acl));
        } else if self.now.acl {
            self.tell(FailedOperation::Permissions, remove(&self.target, ACL_ACCESS));
        }
        if self.directory {
            match get(&self.source, ACL_DEFAULT) {
                Ok(Some(acl)) => {
                    self.tell(FailedOperation::Permissions, set(&self.target, ACL_DEFAULT, &acl))
                }
                _ if self.now.acl => {
                    self.tell(FailedOperation::Permissions, remove(&self.target, ACL_DEFAULT))
                }
                _ => {}
            }
        }
        if has_acl || self.now.acl || mode_now != Some(wanted) {
            self.tell(FailedOperation::Permissions, set_mode(&self.target, wanted));
        }
    }
}

/// The names in a list of attributes.
fn each_name(names: &[u8]) -> impl Iterator<Item = &CStr> {
    names.split_inclusive(|&b| b == 0).filter_map(|name| CStr::from_bytes_with_nul(name).ok())
}

/// Those of the names that are copied.
fn copied(names: &[u8]) -> impl Iterator<Item = &CStr> {
    each_name(names).filter(|name| {
        !NOT_COPIED.iter().any(|prefix| name.to_bytes().starts_with(prefix.as_bytes()))
    })
}

/// Returns whether two files have the same extended attributes, if `xattr` is set, and the same
/// ACL, if `acl` is. Attributes that cannot be read count as different.
pub(super) fn same_extended((a, b): (&Object<'_>, &Object<'_>), xattr: bool, acl: bool) -> bool {
    let values = |object: &Object<'_>| -> Result<BTreeMap<CString, Option<Vec<u8>>>, Errno> {
        let names = match list(object) {
            _ if !xattr => Vec::new(),
            Err(Errno::OPNOTSUPP) => Vec::new(),
            names => names?,
        };
        let acl = acl.then_some(ACL_ACCESS);
        let names = copied(&names).chain(acl);
        names.map(|name| Ok((name.to_owned(), get(object, name)?))).collect()
    };
    matches!((values(a), values(b)), (Ok(a), Ok(b)) if a == b)
}

/// Returns whether files made in `dir` inherit an ACL from it.
pub(super) fn has_default_acl(dir: &Object<'_>) -> bool {
    matches!(get(dir, ACL_DEFAULT), Ok(Some(_)))
}

/// Returns whether files made in `dir`, an existing directory, may inherit an ACL. An untrusted
/// owner can add one at any time.
pub(super) fn may_hand_down_acl(dir: &Object<'_>, stat: &Stat) -> bool {
    !is_trusted(stat.st_uid) || has_default_acl(dir)
}

pub(super) fn set_times(target: &Object<'_>, stat: &Stat) -> Result<(), Errno> {
    let times = Timestamps {
        last_access: Timespec { tv_sec: stat.st_atime as _, tv_nsec: stat.st_atime_nsec as _ },
        last_modification: Timespec {
            tv_sec: stat.st_mtime as _,
            tv_nsec: stat.st_mtime_nsec as _,
        },
    };
    match target {
        Object::Open(fd) => futimens(fd, &times),
        Object::Place(fd) => {
            utimensat(fd, c"", &times, AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW)
        }
    }
}

pub(super) fn set_mode(target: &Object<'_>, mode: u32) -> Result<(), Errno> {
    let mode = Mode::from_bits_retain(mode & 0o7777);
    match target {
        Object::Open(fd) => fchmod(fd, mode),
        // Older kernels have no call that sets the mode through an `O_PATH` descriptor. This path
        // leads to exactly that inode.
        Object::Place(fd) => chmodat(CWD, fd_path(fd), mode, AtFlags::empty()),
    }
}

fn set_owner(target: &Object<'_>, uid: Option<u32>, gid: u32) -> Result<(), Errno> {
    let (uid, gid) = (uid.map(Uid::from_raw), Some(Gid::from_raw(gid)));
    match target {
        Object::Open(fd) => fchown(fd, uid, gid),
        Object::Place(fd) => {
            chownat(fd, c"", uid, gid, AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW)
        }
    }
}

/// The largest list of attribute names, and the largest value, that Linux allows
/// (`XATTR_LIST_MAX`).
const LARGEST: usize = 64 << 10;

/// Calls `read` with a small buffer, which is nearly always enough, then with the largest one.
fn grow(mut read: impl FnMut(&mut [u8]) -> Result<usize, Errno>) -> Result<Vec<u8>, Errno> {
    let mut small = [0; 256];
    match read(&mut small) {
        Err(Errno::RANGE) => {
            let mut large = vec![0; LARGEST];
            let length = read(&mut large)?;
            large.truncate(length);
            Ok(large)
        }
        length => Ok(small[..length?].to_vec()),
    }
}

fn list(object: &Object<'_>) -> Result<Vec<u8>, Errno> {
    grow(|buffer| match object {
        Object::Open(fd) => flistxattr(fd, buffer),
        Object::Place(fd) => listxattr(fd_path(fd), buffer),
    })
}

/// Returns the value of an attribute; `None` if it does not exist or the file system does not
/// support attributes.
fn get(object: &Object<'_>, name: &CStr) -> Result<Option<Vec<u8>>, Errno> {
    let value = grow(|buffer| match object {
        Object::Open(fd) => fgetxattr(fd, name, buffer),
        Object::Place(fd) => getxattr(fd_path(fd), name, buffer),
    });
    match value {
        Ok(value) => Ok(Some(value)),
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(None),
        Err(errno) => Err(errno),
    }
}

fn set(object: &Object<'_>, name: &CStr, value: &[u8]) -> Result<(), Errno> {
    match object {
        Object::Open(fd) => fsetxattr(fd, name, value, XattrFlags::empty()),
        Object::Place(fd) => setxattr(fd_path(fd), name, value, XattrFlags::empty()),
    }
}

fn remove(object: &Object<'_>, name: &CStr) -> Result<(), Errno> {
    let removed = match object {
        Object::Open(fd) => fremovexattr(fd, name),
        Object::Place(fd) => removexattr(fd_path(fd), name),
    };
    match removed {
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(()),
        other => other,
    }
}

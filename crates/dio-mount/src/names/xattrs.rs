//! Extended attributes, ACLs among them.
//!
//! An `O_PATH` descriptor cannot be used for them, but its link in /proc leads to the inode itself,
//! even to that of a symbolic link.

use std::ffi::OsStr;

use dio_sys::fd_path;
use rustix::buffer::spare_capacity;
use rustix::fs::{
    Access, OFlags, XattrFlags, fremovexattr, fsetxattr, fstat, getxattr, listxattr, removexattr,
    setxattr,
};
use rustix::io::{Errno, Result};

use super::forbidden::CAPABILITIES;
use super::{Caller, Forbidden, InodeId, Names};
use crate::set_id;

/// Prefix of attributes that only a privileged process sees (`xattr(7)`).
const TRUSTED: &[u8] = b"trusted.";

/// The longest value and the longest list (`XATTR_SIZE_MAX`, `XATTR_LIST_MAX` of
/// `include/uapi/linux/limits.h`).
const LONGEST: usize = 64 << 10;

/// Prefix of attributes by which a file system exposes data of its own. Only the file system can
/// decide who may set them: except for ACLs, the kernel does not check the caller
/// (`xattr_permission` of `fs/xattr.c`).
const SYSTEM: &[u8] = b"system.";

/// Prefix of the names of ACLs (`acl(5)`).
const ACL: &[u8] = b"system.posix_acl_";

/// First buffer size in bytes; most values are shorter.
const USUAL: usize = 512;

impl Names {
    fn forbidden(&self, inode: InodeId) -> Result<Forbidden> {
        let state = self.shared.lock();
        Ok(state.mounts.forbidden(state.table.get(inode)?.identity.mount))
    }

    /// Returns the value of an attribute. Where the file system below does not support ACLs, an ACL
    /// is reported as missing. To the kernel, `EOPNOTSUPP` means that permissions cannot be
    /// determined, and it would refuse everybody but the owner (`check_acl`, fs/namei.c).
    ///
    /// # Errors
    /// `ENODATA` if there is none of that name, `EOPNOTSUPP`, `ESTALE` if the inode is gone, and
    /// those of `getxattr(2)`.
    pub fn get_xattr(&self, inode: InodeId, name: &OsStr) -> Result<Vec<u8>> {
        let place = self.descriptor(inode)?;
        if self.forbidden(inode)?.hides_xattr(name.as_encoded_bytes()) {
            return Err(Errno::NODATA);
        }
        let path = fd_path(&place);
        match growing(|value| getxattr(&path, name, spare_capacity(value))) {
            Err(Errno::OPNOTSUPP) if name.as_encoded_bytes().starts_with(ACL) => Err(Errno::NODATA),
            other => other,
        }
    }

    /// Sets an attribute. Attributes of the file system (`system.*`) are set as the caller, since
    /// the kernel has not checked the caller's rights. ACLs (`system.posix_acl_access`,
    /// `system.posix_acl_default`), which the kernel has checked, are set as the caller for another
    /// reason: if the caller is not in the group of the inode, the file system below clears the
    /// set-group-id bit (`posix_acl_update_mode` of `fs/posix_acl.c`). The kernel would leave that
    /// to the server.
    ///
    /// # Errors
    /// `EOPNOTSUPP`, `ENOSPC`, `ESTALE` if the inode is gone, and those of `setxattr(2)`.
    pub fn set_xattr(
        &self,
        caller: Caller,
        inode: InodeId,
        name: &OsStr,
        value: &[u8],
        flags: XattrFlags,
    ) -> Result<()> {
        if name.as_encoded_bytes().starts_with(SYSTEM) {
            // Only the server can use the link in /proc, so the attribute is set on an open file.
            // Pipes and devices are not opened; a set-group-id bit has no meaning for them.
            match self.open(inode, OFlags::RDONLY | OFlags::NONBLOCK) {
                Err(Errno::INVAL) if name.as_encoded_bytes().starts_with(ACL) => {}
                Err(Errno::INVAL) => return Err(Errno::OPNOTSUPP),
                file => {
                    let file = file?;
                    return self.as_caller_in_full(caller, || fsetxattr(&file, name, value, flags));
                }
            }
        }
        let place = self.descriptor(inode)?;
        self.as_caller(caller, 0, || setxattr(fd_path(&place), name, value, flags))
    }

    /// Lists the names of all attributes, each with a terminating zero byte. Names that begin with
    /// `trusted.` are only for the superuser.
    ///
    /// # Errors
    /// `EOPNOTSUPP`, `ESTALE` if the inode is gone, and those of `listxattr(2)`.
    pub fn list_xattr(&self, caller: Caller, inode: InodeId) -> Result<Vec<u8>> {
        let place = self.descriptor(inode)?;
        let path = fd_path(&place);
        let mut list = growing(|list| listxattr(&path, spare_capacity(list)))?;
        if caller.uid != 0 {
            list = without(&list, |name| name.starts_with(TRUSTED));
        }
        let forbidden = self.forbidden(inode)?;
        if !forbidden.is_nothing() {
            list = without(&list, |name| forbidden.hides_xattr(name));
        }
        Ok(list)
    }

    /// Removes an attribute as the caller: the kernel may have checked the caller's rights with
    /// outdated attributes.
    ///
    /// Capabilities are removed as the server. The kernel itself removes them from a file that is
    /// truncated, by any caller (`security_inode_killpriv`, `fs/attr.c`); for `removexattr(2)` it
    /// checks a capability of the caller, which needs no cached attributes. The kernel also removes
    /// them for a `chown(2)` that is refused afterwards, where other file systems refuse it first
    /// if the file has set-id bits. `is_written` says that the file is open for writing.
    ///
    /// # Errors
    /// `ENODATA` if there is none of that name, `EOPNOTSUPP`, `ESTALE` if the inode is gone, and
    /// those of `removexattr(2)`.
    pub fn remove_xattr(
        &self,
        caller: Caller,
        inode: InodeId,
        name: &OsStr,
        is_written: bool,
    ) -> Result<()> {
        let bytes = name.as_encoded_bytes();
        if bytes.starts_with(SYSTEM) && !bytes.starts_with(ACL) {
            let file = self.open(inode, OFlags::RDONLY | OFlags::NONBLOCK);
            let file =
                file.map_err(|errno| if errno == Errno::INVAL { Errno::OPNOTSUPP } else { errno })?;
            return self.as_caller_in_full(caller, || fremovexattr(&file, name));
        }
        let place = self.descriptor(inode)?;
        let remove = || removexattr(fd_path(&place), name);
        if bytes != CAPABILITIES {
            return self.as_caller(caller, 0, remove);
        }
        let stat = fstat(&*place)?;
        let is_owner = self.callers.is_none() || [0, stat.st_uid].contains(&caller.uid);
        if !is_owner && !is_written && set_id::are_in(&stat) {
            self.access(caller, inode, Access::WRITE_OK).map_err(|_| Errno::PERM)?;
        }
        remove()
    }
}

/// Returns a list of names, each with a terminating zero byte, without those to leave out.
fn without(list: &[u8], is_left_out: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let names = list.split_inclusive(|byte| *byte == 0);
    names
        .filter(|name| !is_left_out(name.strip_suffix(b"\0").unwrap_or(name)))
        .flatten()
        .copied()
        .collect()
}

/// Calls `ask` again with the largest buffer if the first buffer was too small.
fn growing(mut ask: impl FnMut(&mut Vec<u8>) -> Result<usize>) -> Result<Vec<u8>> {
    let mut buffer = Vec::with_capacity(USUAL);
    match ask(&mut buffer) {
        Err(Errno::RANGE) => {
            buffer.reserve_exact(LONGEST);
            ask(&mut buffer)?;
            buffer.shrink_to_fit();
        }
        other => {
            other?;
        }
    }
    Ok(buffer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trusted_names_are_left_out_and_no_others() {
        let list = b"user.a\0trusted.b\0security.c\0trusted.\0user.trusted.\0";
        let without_trusted = |list: &[u8]| without(list, |name| name.starts_with(TRUSTED));
        assert_eq!(without_trusted(list), b"user.a\0security.c\0user.trusted.\0");
        assert_eq!(without_trusted(b""), b"");
        assert_eq!(
            without(list, |name| name == b"security.c"),
            b"user.a\0trusted.b\0trusted.\0user.trusted.\0"
        );
    }
}

//! Notifications to the kernel.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Weak};

use rustix::io::Errno;
use zerocopy::IntoBytes;

use crate::abi::{self, notify};
use crate::channel::Channel;
use crate::types::INodeNo;

/// Tells the kernel which cached names, attributes and pages are no longer valid.
///
/// A notification waits for locks of the kernel. So it must never be sent while a request about the
/// same inode or directory is being served; a separate thread is safe.
#[derive(Debug, Clone)]
pub struct Notifier {
    /// Weak, so that a notifier does not keep the connection alive.
    device: Weak<OwnedFd>,
}

impl Notifier {
    pub(crate) fn new(device: &Arc<OwnedFd>) -> Notifier {
        Notifier { device: Arc::downgrade(device) }
    }

    /// Makes the kernel forget the attributes of an inode, and `length` bytes of its cache from
    /// `offset` on. A `length` of 0 means up to the end; a negative `offset` means no bytes.
    ///
    /// # Errors
    /// `ENODEV` if the mount is gone. It is no error if the kernel does not know the inode.
    pub fn inval_inode(&self, inode: INodeNo, offset: i64, length: i64) -> io::Result<()> {
        let out = abi::NotifyInvalInodeOut { ino: inode.0, off: offset, len: length };
        self.send(notify::INVAL_INODE, &[out.as_bytes()])
    }

    /// Makes the kernel forget which inode a name refers to.
    ///
    /// # Errors
    /// `ENODEV` if the mount is gone, `ENOTDIR` if `parent` is no directory, `ENAMETOOLONG`. It is
    /// no error if the kernel does not know the name.
    pub fn inval_entry(&self, parent: INodeNo, name: &OsStr) -> io::Result<()> {
        let out = abi::NotifyInvalEntryOut { parent: parent.0, namelen: length(name)?, flags: 0 };
        self.send(notify::INVAL_ENTRY, &[out.as_bytes(), name.as_bytes(), &[0]])
    }

    /// As [`Notifier::inval_entry`], for a name of `child` that was removed: programs that watch
    /// the name are notified too.
    ///
    /// # Errors
    /// As [`Notifier::inval_entry`]; `ENOTEMPTY` or `EBUSY` if a directory cannot have been
    /// removed.
    pub fn delete(&self, parent: INodeNo, child: INodeNo, name: &OsStr) -> io::Result<()> {
        let out = abi::NotifyDeleteOut {
            parent: parent.0,
            child: child.0,
            namelen: length(name)?,
            padding: 0,
        };
        self.send(notify::DELETE, &[out.as_bytes(), name.as_bytes(), &[0]])
    }

    fn send(&self, code: i32, parts: &[&[u8]]) -> io::Result<()> {
        let device = self.device.upgrade().ok_or(Errno::NODEV)?;
        match Channel::notify(&device, code, parts) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

fn length(name: &OsStr) -> Result<u32, Errno> {
    u32::try_from(name.len()).map_err(|_| Errno::NAMETOOLONG)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Answer, Kernel, longs, name, words};

    #[test]
    fn notifications_have_their_code_in_the_place_of_the_error() {
        let (kernel, device) = Kernel::pair();
        let device = Arc::new(device);
        let notifier = Notifier::new(&device);
        let told = |error, body: &[Vec<u8>]| Answer { error, unique: 0, body: body.concat() };
        notifier.inval_inode(INodeNo(5), -1, 7).unwrap();
        assert_eq!(kernel.answer(), told(2, &[longs(&[5, u64::MAX, 7])]));
        notifier.inval_entry(INodeNo(5), name("gone")).unwrap();
        assert_eq!(kernel.answer(), told(3, &[longs(&[5]), words(&[4, 0]), b"gone\0".to_vec()]));
        notifier.delete(INodeNo(5), INodeNo(6), name("gone")).unwrap();
        assert_eq!(kernel.answer(), told(6, &[longs(&[5, 6]), words(&[4, 0]), b"gone\0".to_vec()]));
        drop(device);
        assert_eq!(notifier.inval_inode(INodeNo(5), 0, 0).unwrap_err().raw_os_error(), Some(19));
    }
}

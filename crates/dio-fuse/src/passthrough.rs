//! Files that the kernel reads, writes and maps by itself.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Weak};

use dio_sys::fuse::{backing_close, backing_open};

/// A file that was registered with the kernel. Dropping this unregisters the file; open files that
/// use it stay usable.
#[derive(Debug)]
pub struct BackingId {
    /// Weak, so that a forgotten id does not keep the connection alive.
    device: Weak<OwnedFd>,
    number: u32,
}

impl BackingId {
    pub(crate) fn create(device: &Arc<OwnedFd>, file: BorrowedFd<'_>) -> io::Result<BackingId> {
        let number = backing_open(device.as_fd(), file)?;
        Ok(BackingId { device: Arc::downgrade(device), number })
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }
}

impl Drop for BackingId {
    fn drop(&mut self) {
        if let Some(device) = self.device.upgrade() {
            // If this fails, the kernel does not have the file any more, which is the purpose.
            let _ = backing_close(device.as_fd(), self.number);
        }
    }
}

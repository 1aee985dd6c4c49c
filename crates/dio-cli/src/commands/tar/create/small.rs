//! Contents of small files, through a page cache that forgets (`RWF_DONTCACHE`), so that no page stays that was not there
//! before. A direct request would pay a round trip to the device for each file where the kernel gathers many.

use std::io::IoSliceMut;
use std::os::fd::BorrowedFd;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};

use dio::residency::Picture;
use dio::sys::RWF_DONTCACHE;
use rustix::io::{Errno, ReadWriteFlags, preadv2};

/// Reads small files.
#[derive(Debug)]
pub(super) struct Small {
    /// Pages may stay.
    cached: bool,
    /// The kernel refuses the flag; found out at the first file.
    refused: AtomicBool,
    /// Buffers that are free.
    free: Mutex<Vec<Vec<u8>>>,
}

/// What was read.
#[derive(Debug)]
pub(super) struct Held {
    /// The bytes that there were, at most as many as asked for.
    pub(super) bytes: Vec<u8>,
    pub(super) requests: u64,
    /// Why it is not all, if that was not the end of the file.
    pub(super) failed: Option<Errno>,
}

impl Small {
    pub(super) fn new(cached: bool) -> Small {
        Small { cached, refused: AtomicBool::new(false), free: Mutex::default() }
    }

    /// Reads the first `size` bytes of a file.
    pub(super) fn read(&self, fd: BorrowedFd<'_>, size: usize) -> Held {
        let mut bytes = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
        bytes.resize(size, 0);
        let (mut done, mut requests, mut failed) = (0, 0, None);
        let mut before = None;
        while done < size {
            let flags = match self.cached || self.refused.load(Ordering::Relaxed) {
                true => ReadWriteFlags::empty(),
                false => RWF_DONTCACHE,
            };
            if flags.is_empty() && !self.cached {
                before.get_or_insert_with(|| Picture::take(fd, size as u64).ok());
            }
            match preadv2(fd, &mut [IoSliceMut::new(&mut bytes[done..])], done as u64, flags) {
                Ok(0) => break,
                Ok(count) => (done, requests) = (done + count, requests + 1),
                Err(Errno::INTR) => {}
                // EINVAL before Linux 6.14.
                Err(Errno::OPNOTSUPP | Errno::INVAL) if !flags.is_empty() => {
                    self.refused.store(true, Ordering::Relaxed);
                }
                Err(errno) => {
                    failed = Some(errno);
                    break;
                }
            }
        }
        if let Some(Some(before)) = before {
            // Pages that stay only cost memory.
            let _ = before.drop_new(fd, 0..size as u64);
        }
        bytes.truncate(done);
        Held { bytes, requests, failed }
    }

    /// Takes a buffer back.
    pub(super) fn give_back(&self, bytes: Vec<u8>) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(bytes);
    }

    /// How the bytes travelled.
    pub(super) fn is_cached(&self) -> bool {
        self.cached
    }
}

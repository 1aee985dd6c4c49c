//! Contents of small files, through a page cache that forgets (`RWF_DONTCACHE`), so that no page stays that was not there
//! before. A direct request would pay a round trip to the device for each file where the kernel gathers many.

use std::io::IoSliceMut;
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, PoisonError};

use dio::residency::Picture;
use rustix::io::{Errno, preadv2};

use crate::tool::DontCache;

/// Reads small files.
#[derive(Debug)]
pub(super) struct Small {
    /// Pages may stay.
    cached: bool,
    /// Refused by the kernel; found out at the first file.
    forgetting: DontCache,
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
        Small { cached, forgetting: DontCache::new(!cached), free: Mutex::default() }
    }

    /// Reads the first `size` bytes of a file.
    pub(super) fn read(&self, fd: BorrowedFd<'_>, size: usize) -> Held {
        let mut bytes = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
        bytes.resize(size, 0);
        let (mut done, mut requests, mut failed) = (0, 0, None);
        let mut before = None;
        while done < size {
            let read = self.forgetting.request(|flags| {
                if flags.is_empty() && !self.cached {
                    before.get_or_insert_with(|| Picture::take(fd, size as u64).ok());
                }
                preadv2(fd, &mut [IoSliceMut::new(&mut bytes[done..])], done as u64, flags)
            });
            match read {
                Ok(0) => break,
                Ok(count) => (done, requests) = (done + count, requests + 1),
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

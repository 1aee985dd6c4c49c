//! Reads small files through the page cache with `RWF_DONTCACHE`, so that no page stays that was
//! not cached before. Direct I/O would need a round trip to the device for each file, where the
//! kernel can merge many.

use std::ffi::OsStr;
use std::io::{self, IoSliceMut};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use dio::names;
use dio::residency::ResidencySnapshot;
use dio::stream::{Input, StreamOptions};
use dio_sys::uninterrupted;
use parking_lot::Mutex;
use rustix::fs::{SeekFrom, seek};
use rustix::io::{Errno, pread, preadv2};

use crate::tool::{DontCache, errno_of};

/// Reads small files.
#[derive(Debug)]
pub(super) struct SmallReader {
    /// Whether pages may stay in the cache.
    cached: bool,
    /// Whether the kernel supports `RWF_DONTCACHE`, which the first file shows.
    forgetting: DontCache,
    /// Unused buffers.
    free: Mutex<Vec<Vec<u8>>>,
}

/// The result of reading a file.
#[derive(Debug)]
pub(super) struct HeldFile {
    /// The bytes read, at most as many as requested.
    pub(super) bytes: Vec<u8>,
    pub(super) requests: u64,
    /// The error that ended reading early, if one did.
    pub(super) failed: Option<Errno>,
}

/// Bytes read at a time when there are no descriptors for a stream.
const PLAIN_BYTES: usize = 128 << 10;

/// Whether a file can be read by [`plainly`] after opening it as a stream failed because there are
/// too few descriptors. A striped file cannot, because its bytes are in other files.
pub(super) fn is_plain(fd: impl AsFd, error: &io::Error) -> bool {
    errno_of(error) == Errno::MFILE && names::is_striped(fd).is_ok_and(|striped| !striped)
}

/// Opens a stream of the whole file. The stream starts at the position of the descriptor, which
/// looking for holes has moved, so that is reset.
pub(super) fn from_start(fd: &OwnedFd, path: &[u8], how: &StreamOptions) -> io::Result<Input> {
    seek(fd, SeekFrom::Start(0))?;
    Input::adopt(fd.try_clone()?, OsStr::from_bytes(path), how)
}

/// Reads a part of a file through the page cache, with the given descriptor alone, and passes the
/// bytes to `take`. Returns the number of bytes read; the outer error is that of `take`.
pub(super) fn plainly<E>(
    fd: BorrowedFd<'_>,
    part: Range<u64>,
    mut take: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<Result<u64, Errno>, E> {
    let mut bytes = vec![0; PLAIN_BYTES];
    let mut at = part.start;
    while at < part.end {
        let most = usize::try_from(part.end - at).map_or(PLAIN_BYTES, |left| left.min(PLAIN_BYTES));
        match uninterrupted(|| pread(fd, &mut bytes[..most], at)) {
            Ok(0) => break,
            Ok(count) => {
                take(&bytes[..count])?;
                at += count as u64;
            }
            Err(errno) => return Ok(Err(errno)),
        }
    }
    Ok(Ok(at - part.start))
}

impl SmallReader {
    pub(super) fn new(cached: bool) -> SmallReader {
        SmallReader { cached, forgetting: DontCache::new(!cached), free: Mutex::default() }
    }

    /// Reads the first `size` bytes of a file.
    pub(super) fn read(&self, fd: BorrowedFd<'_>, size: usize) -> HeldFile {
        let mut bytes = self.free.lock().pop().unwrap_or_default();
        bytes.resize(size, 0);
        let (mut done, mut requests, mut failed) = (0, 0, None);
        let mut before = None;
        while done < size {
            let read = self.forgetting.request(|flags| {
                if flags.is_empty() && !self.cached {
                    before.get_or_insert_with(|| ResidencySnapshot::take(fd, size as u64).ok());
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
            // A failure is ignored: pages that stay in the cache only cost memory.
            let _ = before.drop_new(fd, 0..size as u64);
        }
        bytes.truncate(done);
        HeldFile { bytes, requests, failed }
    }

    /// Returns a buffer for reuse.
    pub(super) fn give_back(&self, bytes: Vec<u8>) {
        self.free.lock().push(bytes);
    }

    /// Whether files are read in cached mode.
    pub(super) fn is_cached(&self) -> bool {
        self.cached
    }
}

//! Contents of small files, through a page cache that forgets (`RWF_DONTCACHE`), so that no page
//! stays that was not there before. A direct request would pay a round trip to the device for each
//! file where the kernel gathers many.

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

/// Bytes that are read at a time where there are no descriptors for streams.
const PLAIN_BYTES: usize = 128 << 10;

/// Whether a file that could not be opened as a stream, because there are too few descriptors, can
/// be read by [`plainly`]: a striped one has its bytes elsewhere.
pub(super) fn is_plain(fd: impl AsFd, error: &io::Error) -> bool {
    errno_of(error) == Errno::MFILE && names::is_striped(fd).is_ok_and(|striped| !striped)
}

/// A stream of a whole file. It begins where the descriptor is, which looking for holes has moved.
pub(super) fn from_start(fd: &OwnedFd, path: &[u8], how: &StreamOptions) -> io::Result<Input> {
    seek(fd, SeekFrom::Start(0))?;
    Input::adopt(fd.try_clone()?, OsStr::from_bytes(path), how)
}

/// Reads part of a file through the page cache, with the one descriptor that there is. Gives how
/// many bytes there were; the outer error is that of `take`.
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

impl Small {
    pub(super) fn new(cached: bool) -> Small {
        Small { cached, forgetting: DontCache::new(!cached), free: Mutex::default() }
    }

    /// Reads the first `size` bytes of a file.
    pub(super) fn read(&self, fd: BorrowedFd<'_>, size: usize) -> Held {
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
            // Pages that stay only cost memory.
            let _ = before.drop_new(fd, 0..size as u64);
        }
        bytes.truncate(done);
        Held { bytes, requests, failed }
    }

    /// Takes a buffer back.
    pub(super) fn give_back(&self, bytes: Vec<u8>) {
        self.free.lock().push(bytes);
    }

    /// How the bytes travelled.
    pub(super) fn is_cached(&self) -> bool {
        self.cached
    }
}

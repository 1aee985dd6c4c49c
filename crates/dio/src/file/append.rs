//! Appends, whoever else appends.
//!
//! An append names no offset: after asking where a file ends, and before a write there, another
//! program may append and sync. So the kernel finds the end (`RWF_APPEND`) under its own lock of
//! the inode. For a striped file the programs that append must find the end themselves, so only one
//! at a time may look for it and write there.

use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd};

use parking_lot::MutexGuard;
use rustix::fs::OFlags;
use rustix::io::{Errno, ReadWriteFlags, pwritev2};

use super::backing::SingleFile;
use super::byte_lock::{ByteLock, PATIENCE};
use super::counters::{Class, Reason};
use super::error::{FileError, errno_of};
use super::handle::File;
use super::size::before_zeroing;
use crate::engine::{Medium, OpKind, OsMedium, Route};
use crate::geometry::{Directness, FileSystem};
use crate::lock::LockClass;
use dio_sys::{RWF_DONTCACHE, reopen, uninterrupted};

/// Most buffers of one call (`IOV_MAX`, `writev(2)`).
const BUFFERS_MAX: usize = 1024;

/// The byte that is locked. It lies in the header, which nobody writes while the file is open.
const LOCK_BYTE: i64 = 0;

const CURE_LOCKED: &str =
    "another program keeps the lock of its end; end that program (see 'lslocks')";

/// The right to append to a striped file. It ends when this is dropped.
#[derive(Debug)]
pub struct EndLock<'a> {
    /// The lock against other opens of the file, in whatever process. `None` if the file system has
    /// no such locks.
    _locked: Option<ByteLock<'a>>,
    /// Excludes other threads that share this file.
    _alone: MutexGuard<'a, ()>,
}

pub(super) fn append(file: &File, buffers: &[IoSlice<'_>]) -> Result<Class, FileError> {
    file.latch.check()?;
    if !file.access.writable {
        return Err(file
            .failed("append to", Errno::BADF)
            .with_cure("it was opened for reading only"));
    }
    let single = file.backing.single().and_then(|single| single.os.as_ref().map(|os| (single, os)));
    let Some((single, os)) = single else { return Err(file.failed("append to", Errno::OPNOTSUPP)) };
    let _guard = file.locks.whole(LockClass::Resize);
    let old = before_zeroing(file)?;
    let (outcome, buffered) = append_to(file, single, os, buffers);
    if buffered > 0 && !file.is_cached() {
        // Others may have cut the file off in the meantime.
        let end = file.size()?;
        if single.residue.touch(old.min(end)..end, true) {
            file.settle_now()?;
        }
    }
    outcome
}

/// Returns the outcome, and how many bytes went through the page cache.
fn append_to(
    file: &File,
    single: &SingleFile,
    os: &OsMedium,
    buffers: &[IoSlice<'_>],
) -> (Result<Class, FileError>, u64) {
    let mut rest = buffers.to_vec();
    let mut rest = rest.as_mut_slice();
    IoSlice::advance_slices(&mut rest, 0);
    let (mut direct, mut buffered, mut may_be_direct) = (0, 0, appends_directly(file));
    while !rest.is_empty() {
        let part = &rest[..rest.len().min(BUFFERS_MAX)];
        let is_direct = may_be_direct && ends_with_a_block(file) && is_whole(file, part);
        let route = if is_direct { Route::Direct } else { Route::Buffered };
        let forget = route == Route::Buffered && !file.is_cached() && single.residue.dontcache();
        let flags =
            ReadWriteFlags::APPEND | if forget { RWF_DONTCACHE } else { ReadWriteFlags::empty() };
        let written = descriptor_to_append(file, os, route);
        match written.and_then(|fd| uninterrupted(|| pwritev2(fd, part, 0, flags))) {
            Ok(0) => return (Err(append_failed(file, Errno::IO)), buffered),
            Ok(count) => {
                *(if is_direct { &mut direct } else { &mut buffered }) += count as u64;
                let how = if is_direct { (Class::Direct, None) } else { buffered_class(file) };
                file.count_requests(OpKind::Write, 1);
                file.meter.count(OpKind::Write, count as u64, how);
                IoSlice::advance_slices(&mut rest, count);
            }
            Err(Errno::OPNOTSUPP) if forget => single.residue.no_dontcache(),
            // Another program has appended a part of a block in the meantime.
            Err(Errno::INVAL) if is_direct => may_be_direct = false,
            Err(errno) => return (Err(append_failed(file, errno)), buffered),
        }
    }
    let class = if direct > buffered { Class::Direct } else { buffered_class(file).0 };
    (Ok(class), buffered)
}

/// A file system behind FUSE receives the flags of the descriptor but not those of a single write.
/// For such a write the kernel passes on the end that it has cached (`fuse_write_flags`,
/// fs/fuse/file.c).
fn descriptor_to_append<'a>(
    file: &'a File,
    os: &'a OsMedium,
    route: Route,
) -> Result<BorrowedFd<'a>, Errno> {
    let fd = os.descriptor(route).map_err(|error| errno_of(&error))?;
    if route == Route::Direct
        || !file.geometry.file_system().is_some_and(FileSystem::passes_data_through)
    {
        return Ok(fd);
    }
    let open = || {
        let kept = rustix::fs::fcntl_getfl(fd).ok()? & (OFlags::SYNC | OFlags::DSYNC);
        reopen(fd, OFlags::WRONLY | OFlags::APPEND | kept).ok()
    };
    Ok(file.appending.descriptor.get_or_init(open).as_ref().map_or(fd, AsFd::as_fd))
}

fn append_failed(file: &File, errno: Errno) -> FileError {
    let error = file.failed("append to", errno);
    // These errors refuse the request itself: nothing was lost.
    if matches!(errno, Errno::BADF | Errno::FBIG | Errno::INVAL) {
        error
    } else {
        file.latch.set(error)
    }
}

/// Whether the kernel keeps direct appends of several programs to this file apart.
fn appends_directly(file: &File) -> bool {
    file.default_routing().route == Route::Direct
        && file.geometry.directness() == Directness::Reported
        && file.geometry.file_system().is_some_and(FileSystem::keeps_direct_appends_apart)
}

fn ends_with_a_block(file: &File) -> bool {
    file.size().is_ok_and(|size| size % file.geometry.offset_align() == 0)
}

fn is_whole(file: &File, buffers: &[IoSlice<'_>]) -> bool {
    let (block, memory) = (file.geometry.offset_align(), file.geometry.mem_align());
    buffers
        .iter()
        .all(|buffer| buffer.len() as u64 % block == 0 && buffer.as_ptr() as u64 % memory == 0)
}

/// The class of appended bytes that go through the page cache, and the reason.
fn buffered_class(file: &File) -> (Class, Option<Reason>) {
    match file.write_class() {
        (Class::Direct, _) => (Class::Uncached, Some(Reason::EndOfFile)),
        other => other,
    }
}

pub(super) fn lock_end(file: &File) -> Result<Option<EndLock<'_>>, FileError> {
    let Some(objects) = file.backing.objects() else { return Ok(None) };
    let alone = file.appending.turn.lock();
    // Not the first object: over NFS its flock(2), which every writer shares, locks all of its
    // bytes.
    let last = objects.last().and_then(File::descriptor);
    let lock = |fd| ByteLock::take(fd, LOCK_BYTE, PATIENCE);
    let locked = last.map(lock).transpose().map_err(|errno| {
        let error = file.failed("lock the end of", errno);
        if errno == Errno::AGAIN { error.with_cure(CURE_LOCKED) } else { error }
    })?;
    Ok(Some(EndLock { _locked: locked.flatten(), _alone: alone }))
}

//! Files and block devices of the operating system.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

use parking_lot::Mutex;
use rustix::fs::{Advice, AtFlags, FallocateFlags, FileType, OFlags, SeekFrom, StatxFlags};
use rustix::io::{Errno, ReadWriteFlags};

use super::{Medium, Op, OpFlags, OpKind, Route};
use dio_sys::{RWF_DONTCACHE, reopen, uninterrupted};

/// An open file with up to two file descriptors. Operations that cannot go direct use a second
/// descriptor of the same file, because clearing `O_DIRECT` on the first (`fcntl(2)`) fails on some
/// file systems and misbehaves on overlays.
#[derive(Debug)]
pub struct OsMedium {
    direct: Option<OwnedFd>,
    buffered: OnceLock<OwnedFd>,
    reopen: OFlags,
    /// Held while the buffered descriptor is opened, so that no second one is opened and closed.
    opening: Mutex<()>,
    /// A direct descriptor that is not used. No descriptor is closed before the file is, because
    /// the process then loses its POSIX locks on the file (`fcntl(2)`).
    unused: Option<OwnedFd>,
}

impl OsMedium {
    /// A file opened with `O_DIRECT`. The buffered descriptor is opened when it is first needed. It
    /// is opened through `/proc/self/fd`, so it is the same file even if the name has gone.
    /// `reopen` holds the access mode and the sync flags for it.
    pub fn direct(fd: OwnedFd, reopen: OFlags) -> OsMedium {
        OsMedium::of(Some(fd), OnceLock::new(), reopen)
    }

    /// A file opened with `O_DIRECT` and without.
    pub fn both(direct: OwnedFd, buffered: OwnedFd) -> OsMedium {
        OsMedium::of(Some(direct), OnceLock::from(buffered), OFlags::empty())
    }

    /// A file opened without `O_DIRECT`.
    pub fn buffered(fd: OwnedFd) -> OsMedium {
        OsMedium::of(None, OnceLock::from(fd), OFlags::empty())
    }

    fn of(direct: Option<OwnedFd>, buffered: OnceLock<OwnedFd>, reopen: OFlags) -> OsMedium {
        OsMedium { direct, buffered, reopen, opening: Mutex::new(()), unused: None }
    }

    /// The same file through the page cache only.
    ///
    /// # Errors
    /// What `open(2)` answers, if the buffered descriptor had to be opened.
    pub fn without_direct(self) -> io::Result<OsMedium> {
        self.buffered_descriptor()?;
        let unused = self.direct;
        Ok(OsMedium { direct: None, unused, ..self })
    }

    /// A descriptor for questions about the file itself, direct or buffered.
    pub fn any(&self) -> BorrowedFd<'_> {
        match (&self.direct, self.buffered.get()) {
            (Some(fd), _) | (None, Some(fd)) => fd.as_fd(),
            (None, None) => unreachable!("a medium is made with one descriptor or the other"),
        }
    }

    /// All descriptors that are open.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let kept = self.unused.iter();
        self.direct.iter().chain(self.buffered.get()).chain(kept).map(AsFd::as_fd)
    }

    /// Keeps the kernel from reading ahead, which would leave pages in the page cache that nobody
    /// asked for. For files whose reads are not to be cached.
    pub fn no_read_ahead(&self) {
        for fd in self.direct.iter().chain(self.buffered.get()) {
            no_read_ahead(fd.as_fd());
        }
    }

    fn buffered_descriptor(&self) -> io::Result<BorrowedFd<'_>> {
        if let Some(fd) = self.buffered.get() {
            return Ok(fd.as_fd());
        }
        let _one_at_a_time = self.opening.lock();
        if let Some(fd) = self.buffered.get() {
            return Ok(fd.as_fd());
        }
        let fd = reopen(self.any(), self.reopen)?;
        // What goes through the page cache of a direct file is dropped afterwards, so the kernel
        // must not read ahead.
        no_read_ahead(fd.as_fd());
        Ok(self.buffered.get_or_init(|| fd).as_fd())
    }
}

/// Turns the kernel's read-ahead off. This is advice: a refusal fails nothing.
fn no_read_ahead(fd: BorrowedFd<'_>) {
    let _ = rustix::fs::fadvise(fd, 0, None, Advice::Random);
}

/// The flags as the kernel takes them.
pub(super) fn rw_flags(flags: OpFlags) -> ReadWriteFlags {
    let mut bits = ReadWriteFlags::empty();
    bits.set(ReadWriteFlags::DSYNC, flags.dsync);
    bits.set(RWF_DONTCACHE, flags.dontcache);
    bits
}

/// The error number of an error that came from a system call.
fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

impl Medium for OsMedium {
    fn transfer(&self, op: &mut Op) -> Result<usize, Errno> {
        let fd = self.descriptor(op.route).map_err(|error| errno(&error))?;
        let (position, flags) = (op.position(), rw_flags(op.flags));
        match (op.kind, op.mem.as_mut()) {
            (OpKind::Read, Some(mem)) => {
                rustix::io::preadv2(fd, &mut mem.slices_mut(op.skip), position, flags)
            }
            (OpKind::Write, Some(mem)) => {
                rustix::io::pwritev2(fd, &mem.slices(op.skip), position, flags)
            }
            (OpKind::SyncData, _) => rustix::fs::fdatasync(fd).map(|()| 0),
            (OpKind::SyncAll, _) => rustix::fs::fsync(fd).map(|()| 0),
            (OpKind::Read | OpKind::Write, None) => Err(Errno::INVAL),
        }
    }

    fn descriptor(&self, route: Route) -> io::Result<BorrowedFd<'_>> {
        match (route, &self.direct) {
            (Route::Direct, Some(fd)) => Ok(fd.as_fd()),
            (Route::Direct, None) => Err(Errno::BADF.into()),
            (Route::Buffered, _) => self.buffered_descriptor(),
        }
    }

    fn size(&self) -> io::Result<u64> {
        let fd = self.any();
        // fstat(2) also reads the times of the file. The kernel then gives the next write a time of
        // its own, and the next sync must write the inode for that time (multigrain timestamps,
        // Linux 6.13, `fs/inode.c`). statx(2) with this mask does not.
        let stat =
            rustix::fs::statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::TYPE | StatxFlags::SIZE)?;
        if FileType::from_raw_mode(stat.stx_mode.into()) == FileType::BlockDevice {
            // A device's inode has size 0; seeking to the end finds the size. Nobody else uses the
            // position of this descriptor: all I/O here names its offset.
            return Ok(rustix::fs::seek(fd, SeekFrom::End(0))?);
        }
        Ok(stat.stx_size)
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        Ok(rustix::fs::ftruncate(self.any(), size)?)
    }

    fn allocate(&self, range: Range<u64>, extend: bool) -> io::Result<()> {
        let flags = if extend { FallocateFlags::empty() } else { FallocateFlags::KEEP_SIZE };
        // On older kernels, tmpfs gives up at any signal (`shmem_fallocate`).
        let length = range.end - range.start;
        Ok(uninterrupted(|| rustix::fs::fallocate(self.any(), flags, range.start, length))?)
    }

    fn punch(&self, range: Range<u64>) -> io::Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let length = range.end - range.start;
        Ok(uninterrupted(|| rustix::fs::fallocate(self.any(), flags, range.start, length))?)
    }
}

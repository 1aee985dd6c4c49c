//! How streams are opened.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, OFlags, Stat};
use rustix::io::Errno;

use super::bounds::{BLOCK_BYTES_MAX, BLOCKS_MAX, STRIPED_BYTES_MAX};
use super::{ReadAhead, WriteBehind};
use crate::file::{Mode, Need, OpenOptions};
use crate::io::Io;

/// How an [`super::Input`] or [`super::Output`] treats its file or descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamOptions {
    /// How bytes of files travel.
    pub mode: Mode,
    /// Whether that mode is preferred or required.
    pub need: Need,
    /// Size of one request in bytes, from 1 to 2^40. A value outside counts as the nearest of
    /// these.
    pub block: usize,
    /// Requests kept in flight on each side, from 1 to 65,536. A value outside counts as the
    /// nearest of these.
    pub depth: usize,
    /// Sources up to this size in bytes pass through the page cache and are dropped from it, which
    /// costs less for them than direct requests do. 0 for none.
    pub small: u64,
    /// Most bytes that are read ahead of a striped file, or written behind to one, if it needs more
    /// requests in flight than `depth`: four for each of its objects, so that none of their disks
    /// waits for another. 0 keeps it to `depth`.
    pub striped_bytes_max: usize,
    /// Requests to files run on threads instead of a ring. The kernel finishes a ring's requests in
    /// the thread that made them, and interrupts a system call of that thread to do so. A read(2)
    /// of some devices then returns fewer bytes than it would have (`signal_pending` in
    /// `drivers/char/random.c`). For callers that take one read(2) for a record.
    pub on_threads: bool,
}

impl Default for StreamOptions {
    fn default() -> StreamOptions {
        let (mode, need) = (Mode::Direct, Need::Preferred);
        StreamOptions {
            mode,
            need,
            block: 1 << 20,
            depth: 8,
            small: 0,
            striped_bytes_max: STRIPED_BYTES_MAX,
            on_threads: false,
        }
    }
}

impl StreamOptions {
    /// The same options with every field within its limits, so that sums and products of them
    /// cannot overflow.
    pub(super) fn clamped(&self) -> StreamOptions {
        StreamOptions {
            block: self.block.clamp(1, BLOCK_BYTES_MAX),
            depth: self.depth.clamp(1, BLOCKS_MAX),
            ..*self
        }
    }

    /// Options that open files with the right engine.
    pub(super) fn open_options(&self) -> io::Result<OpenOptions> {
        let mut options = OpenOptions::new();
        if self.on_threads {
            options.io(&Io::on_threads().map_err(io::Error::other)?);
        }
        Ok(options)
    }

    /// Requests in flight to a file of so many objects.
    fn depth_for_objects(&self, objects: usize) -> usize {
        crate::layout::depth_over(objects, self.depth, self.block, self.striped_bytes_max)
    }

    /// The read-ahead for `left` bytes of a file of so many objects. A stream is read in order, so
    /// the window starts with a whole request. A short source needs no memory for more than it
    /// holds.
    pub(super) fn read_ahead(&self, left: u64, objects: usize) -> ReadAhead {
        let whole =
            usize::try_from(left).unwrap_or(usize::MAX).saturating_add(1).next_multiple_of(4096);
        let request = self.block.min(whole);
        // As many chunks as a writer of the same options keeps, and one in the consumer's hands. A
        // short source gets no fewer: it may grow, or arrive in small pieces where it is damaged.
        let lent = self.depth + 2;
        ReadAhead {
            min: request,
            max: (self.block * self.depth_for_objects(objects)).min(whole),
            request,
            lent,
        }
    }

    /// The write-behind.
    pub(super) fn write_behind(&self) -> WriteBehind {
        WriteBehind {
            block: self.block,
            depth: self.depth,
            striped_bytes_max: self.striped_bytes_max,
        }
    }
}

/// Whether a file has blocks and a size: a regular file or a block device.
pub(super) fn has_blocks(stat: &Stat) -> bool {
    matches!(FileType::from_raw_mode(stat.st_mode), FileType::RegularFile | FileType::BlockDevice)
}

/// Opens the same file again, so that advice and position do not affect those who share the given
/// open file description. `None` where that is not allowed (a file of another user, no /proc).
pub(super) fn reopen(fd: BorrowedFd<'_>, flags: OFlags) -> Option<OwnedFd> {
    dio_sys::reopen(fd, flags | OFlags::NOCTTY | OFlags::NONBLOCK).ok()
}

/// A second descriptor of the same open file description.
pub(super) fn duplicate(fd: impl AsFd) -> Result<OwnedFd, Errno> {
    rustix::io::fcntl_dupfd_cloexec(fd, 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_striped_file_is_read_ahead_on_all_its_disks_within_the_bound() {
        let usual = StreamOptions::default();
        let ahead =
            |options: &StreamOptions, objects| options.read_ahead(1 << 40, objects).max >> 20;
        assert_eq!(
            [1, 2, 4, 8, 16, 100].map(|objects| ahead(&usual, objects)),
            [8, 8, 16, 32, 64, 64]
        );
        assert_eq!(ahead(&StreamOptions { striped_bytes_max: 0, ..usual }, 8), 8);
        assert_eq!(ahead(&StreamOptions { depth: 100, ..usual }, 8), 100);
        assert_eq!(ahead(&StreamOptions { block: 16 << 20, depth: 2, ..usual }, 8), 64);
        // No more than there is to read, and as many chunks lent as before.
        assert_eq!(
            (usual.read_ahead(100_000, 8).max, usual.read_ahead(1 << 40, 8).lent),
            (102_400, 10)
        );
    }
}

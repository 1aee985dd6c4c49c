//! How streams are opened.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, OFlags, Stat};
use rustix::io::Errno;

use super::{ReadAhead, WriteBehind};
use crate::file::{Mode, Need, OpenOptions};
use crate::io::Io;

/// How an [`super::Input`] or [`super::Output`] treats what it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamOptions {
    /// How bytes of files travel.
    pub mode: Mode,
    /// How firmly that is asked for.
    pub need: Need,
    /// Size of one request in bytes, from 1 to 2^40; what is outside counts as the nearest of these.
    pub block: usize,
    /// Requests kept in flight on each side, from 1 to 65,536 likewise.
    pub depth: usize,
    /// Sources up to this size pass through the page cache and leave it again, which for them costs less than direct
    /// requests do. In bytes; 0 for none.
    pub small: u64,
    /// Most bytes that are read ahead of a striped file, or written behind to one, of which more requests are in flight than
    /// `depth`: four for each of the files that hold it, so that none of their disks waits for another. 0 keeps it to `depth`.
    pub spread: usize,
    /// Requests to files run on threads instead of a ring. The kernel finishes a ring's requests in
    /// the thread that made them, and interrupts a system call of that thread to do so: a read(2)
    /// of some devices then returns fewer bytes than it would have (`signal_pending` in
    /// `drivers/char/random.c`). For callers that take one read(2) for a record.
    pub undisturbed: bool,
}

/// Largest block of a stream, in bytes.
pub(super) const MOST_BYTES: usize = 1 << 40;

/// What a striped file is read ahead, or written behind to, by default, in bytes.
pub(super) const SPREAD: usize = 64 << 20;

/// Most blocks of a stream.
pub(super) const MOST_BLOCKS: usize = 1 << 16;

impl Default for StreamOptions {
    fn default() -> StreamOptions {
        let (mode, need) = (Mode::Direct, Need::Preferred);
        StreamOptions { mode, need, block: 1 << 20, depth: 8, small: 0, spread: SPREAD, undisturbed: false }
    }
}

impl StreamOptions {
    /// The same within the limits that the fields name, so that sums and products of them stay numbers.
    pub(super) fn sound(&self) -> StreamOptions {
        StreamOptions { block: self.block.clamp(1, MOST_BYTES), depth: self.depth.clamp(1, MOST_BLOCKS), ..*self }
    }

    /// How files are opened: by which engine.
    pub(super) fn open_options(&self) -> io::Result<OpenOptions> {
        let mut options = OpenOptions::new();
        if self.undisturbed {
            options.io(&Io::on_threads().map_err(io::Error::other)?);
        }
        Ok(options)
    }

    /// Requests of a file in flight, which so many files hold.
    fn depth_over(&self, objects: usize) -> usize {
        crate::layout::depth_over(objects, self.depth, self.block, self.spread)
    }

    /// The read-ahead for `left` bytes of a file that so many hold: a stream is read in order, so the window starts at a whole request, and a short
    /// source needs no memory for more than it holds.
    pub(super) fn read_ahead(&self, left: u64, objects: usize) -> ReadAhead {
        let whole = usize::try_from(left).unwrap_or(usize::MAX).saturating_add(1).next_multiple_of(4096);
        let request = self.block.min(whole);
        // As many chunks as a writer of the same options keeps, and one in the consumer's hands; not fewer for a short
        // source, which may grow, or come in small pieces where it is damaged.
        let lent = self.depth + 2;
        ReadAhead { min: request, max: (self.block * self.depth_over(objects)).min(whole), request, lent }
    }

    /// The write-behind.
    pub(super) fn write_behind(&self) -> WriteBehind {
        WriteBehind { block: self.block, depth: self.depth, spread: self.spread }
    }
}

/// Whether a file has blocks and a size: a regular file or a block device.
pub(super) fn has_blocks(stat: &Stat) -> bool {
    matches!(FileType::from_raw_mode(stat.st_mode), FileType::RegularFile | FileType::BlockDevice)
}

/// The same file under a description of our own, so that what we advise and where we are does not reach those who share
/// the given one; `None` where that is not allowed (a file of another user, no /proc).
pub(super) fn reopen(fd: BorrowedFd<'_>, flags: OFlags) -> Option<OwnedFd> {
    let name = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    rustix::fs::open(name, flags, rustix::fs::Mode::empty()).ok()
}

/// A second descriptor of the same description.
pub(super) fn duplicate(fd: impl AsFd) -> Result<OwnedFd, Errno> {
    rustix::io::fcntl_dupfd_cloexec(fd, 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_striped_file_is_read_ahead_on_all_its_disks_within_the_bound() {
        let usual = StreamOptions::default();
        let ahead = |options: &StreamOptions, objects| options.read_ahead(1 << 40, objects).max >> 20;
        assert_eq!([1, 2, 4, 8, 16, 100].map(|objects| ahead(&usual, objects)), [8, 8, 16, 32, 64, 64]);
        assert_eq!(ahead(&StreamOptions { spread: 0, ..usual }, 8), 8);
        assert_eq!(ahead(&StreamOptions { depth: 100, ..usual }, 8), 100);
        assert_eq!(ahead(&StreamOptions { block: 16 << 20, depth: 2, ..usual }, 8), 64);
        // No more than there is, and as many chunks lent as before.
        assert_eq!((usual.read_ahead(100_000, 8).max, usual.read_ahead(1 << 40, 8).lent), (102_400, 10));
    }
}

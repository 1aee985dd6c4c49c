//! How much a reader may read ahead, and what that is by default.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use rustix::fs::FileType;

use super::pattern::Bounds;
use crate::file::File;
use crate::geometry::{align_down, align_up};
use crate::stream::options::SPREAD;

/// How far to read ahead, in bytes.
///
/// A reader never needs more memory than [`super::Reader::buffer_bytes`], which follows from these numbers: at most three
/// times `max`, one `request` and the chunks lent. Many readers of one file want a smaller `max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadAhead {
    /// The first request at the start of a stream. Random reads ask for what is wanted and no more.
    pub min: usize,
    /// The most that is read ahead of the consumer, of all its streams together.
    pub max: usize,
    /// The largest single request.
    pub request: usize,
    /// Chunks that the consumer may hold while it reads on (see [`super::Reader::next_chunk`]); each costs a block of
    /// memory.
    pub lent: usize,
}

impl Default for ReadAhead {
    fn default() -> ReadAhead {
        ReadAhead { min: 64 << 10, max: 8 << 20, request: 1 << 20, lent: 0 }
    }
}

/// Least and most that a device's own wish can make of the largest request.
const REQUEST: (u64, u64) = (256 << 10, 4 << 20);

impl ReadAhead {
    /// What suits the device below a file: the largest request is a multiple of the size that the device likes best (a
    /// stripe of a RAID, say) or that the file system prefers, and the window holds eight of them. Whether a disk rotates
    /// is not asked: virtual ones say so whatever is behind them. Bounded by 256 KiB and 4 MiB a request; the default where nothing is known.
    /// Of a striped file the window holds four for each of its targets if that is more, up to 64 MiB.
    pub fn for_file(file: &File) -> ReadAhead {
        let suited = ReadAhead::suited(optimal_of(file).unwrap_or(0), file.geometry().preferred());
        let depth = file.block_io().depth_for_objects(suited.max / suited.request, suited.request, SPREAD);
        ReadAhead { max: suited.max.max(depth * suited.request), ..suited }
    }

    /// What suits a device whose optimal request has `optimal` bytes (0: it states none) below a file system that prefers
    /// requests of `preferred` bytes: what [`ReadAhead::for_file`] asks of a file.
    pub fn suited(optimal: u64, preferred: u64) -> ReadAhead {
        let usual = ReadAhead::default();
        // Sizes that are no multiple of a page, as some USB bridges report (65,535 sectors), are no sizes.
        let likes = [optimal, preferred].into_iter().find(|size| *size > 4096 && size % 4096 == 0);
        let request = likes.map_or(usual.request as u64, |size| match size {
            size if size > REQUEST.1 => REQUEST.1,
            size => (usual.request as u64 / size).max(1) * size,
        });
        let request = request.clamp(REQUEST.0, REQUEST.1) as usize;
        ReadAhead { request, max: 8 * request.max(usual.request), ..usual }
    }
}

/// The request size that the disk below a file likes best, in bytes, 0 where it states none (`optimal_io_size`,
/// `Documentation/ABI/stable/sysfs-block`). Remembered by device: programs open many files of one.
fn optimal_of(file: &File) -> Option<u64> {
    static KNOWN: LazyLock<Mutex<HashMap<u64, Option<u64>>>> = LazyLock::new(Mutex::default);
    let stat = rustix::fs::fstat(file.descriptor()?).ok()?;
    let is_device = FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice;
    let number = if is_device { stat.st_rdev } else { stat.st_dev };
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    *known.entry(number).or_insert_with(|| {
        let device = format!("/sys/dev/block/{}:{}", rustix::fs::major(number), rustix::fs::minor(number));
        // A partition has the queue of its disk.
        let read = |queue: &str| std::fs::read_to_string(format!("{device}/{queue}/optimal_io_size")).ok();
        read("queue").or_else(|| read("../queue"))?.trim().parse().ok()
    })
}

/// Most small blocks of a reader: three for each of 64 interleaved streams, two ahead and one being consumed.
const MOST_SMALL: usize = 192;

/// No limit is above this, in bytes, lest sums of them wrap around.
const MOST: u64 = 1 << 40;

/// The limits in whole blocks of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) bounds: Bounds,
    /// Length and number of the blocks for small requests; none where every request is large.
    pub(super) small: (usize, usize),
    /// The same for large ones.
    pub(super) large: (usize, usize),
}

impl Sizes {
    pub(super) fn new(file: &File, limits: ReadAhead) -> Sizes {
        // Through the page cache nothing need be aligned; its pages are whole all the same.
        let unit = if file.block_align() == 1 { 4096 } else { file.block_align() };
        let whole = |size: usize| align_up((size as u64).clamp(1, MOST), unit);
        let request = whole(limits.request);
        let min = whole(limits.min).min(request);
        let max = align_down((limits.max as u64).min(MOST), unit).max(request);
        let small = if min < request { (2 * max / min) as usize } else { 0 };
        let small = if small > 0 { small.min(MOST_SMALL) + 2 + limits.lent } else { 0 };
        let large = max.div_ceil(request) as usize + 1 + limits.lent;
        let bounds = Bounds { unit, min, max, request };
        Sizes { bounds, small: (min as usize, small), large: (request as usize, large) }
    }

    /// Most memory for blocks, in bytes.
    pub(super) fn bytes(&self) -> usize {
        (self.small.0 * self.small.1).saturating_add(self.large.0.saturating_mul(self.large.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_what_the_device_likes_within_bounds() {
        let request = |optimal, preferred| ReadAhead::suited(optimal, preferred).request;
        assert_eq!(request(0, 4096), 1 << 20);
        assert_eq!(request(384 << 10, 4096), 768 << 10, "two whole stripes");
        assert_eq!(request(3 << 20, 4096), 3 << 20);
        assert_eq!(request(1 << 30, 4096), 4 << 20);
        assert_eq!(request(65_535 * 512, 128 << 10), 1 << 20, "no size of a page's multiple");
        assert_eq!(ReadAhead::suited(4 << 20, 4096).max, 32 << 20);
    }
}

//! How much a reader may read ahead, and the defaults.

use std::collections::HashMap;
use std::sync::LazyLock;

use parking_lot::Mutex;
use rustix::fs::FileType;

use super::pattern::ReadAheadBounds;
use crate::file::File;
use crate::geometry::{align_down, align_up};
use crate::stream::bounds::STRIPED_BYTES_MAX;

/// How far to read ahead, in bytes.
///
/// A reader never needs more memory than [`super::Reader::buffer_bytes`], which follows from these
/// numbers: at most three times `max`, one `request` and the lent chunks. Many readers of one file
/// should have a smaller `max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadAhead {
    /// The first request at the start of a stream. Random reads read what is wanted and no more.
    pub min: usize,
    /// Most bytes read ahead of the consumer, for all its streams together.
    pub max: usize,
    /// The largest single request.
    pub request: usize,
    /// Chunks that the consumer may hold while reading goes on (see [`super::Reader::next_chunk`]).
    /// Each costs a block of memory.
    pub lent: usize,
}

impl Default for ReadAhead {
    fn default() -> ReadAhead {
        // With requests of 1 MiB, a consumer that looks at the bytes took 15 % longer, and with two
        // of 4 MiB in flight 5 % (virtio disk at 3.6 GiB/s). A block of 2 MiB is a huge page.
        ReadAhead { min: 64 << 10, max: 8 << 20, request: 2 << 20, lent: 0 }
    }
}

/// A request that consists of several of the sizes that the device prefers has about so many bytes.
const PREFERRED_REQUEST_BYTES: usize = 1 << 20;

/// The largest request is never smaller than this, in bytes, whatever the device prefers.
const REQUEST_BYTES_MIN: u64 = 256 << 10;

/// The largest request is never larger than this, in bytes, whatever the device prefers.
const REQUEST_BYTES_MAX: u64 = 4 << 20;

impl ReadAhead {
    /// The read-ahead for the device below a file. The largest request is a multiple of the size
    /// that the device prefers (a stripe of a RAID, say) or that the file system prefers, between
    /// 256 KiB and 4 MiB, of which the window holds eight; the default if neither is known. For a
    /// striped file the window holds four for each object if that is more, up to 64 MiB. Whether
    /// the disk rotates is not asked: virtual disks report that they do, whatever is behind them.
    pub fn for_file(file: &File) -> ReadAhead {
        let for_device = ReadAhead::for_device(
            optimal_request_of(file).unwrap_or(0),
            file.geometry().preferred(),
        );
        let depth = file.block_io().depth_for_objects(
            for_device.max / for_device.request,
            for_device.request,
            STRIPED_BYTES_MAX,
        );
        ReadAhead { max: for_device.max.max(depth * for_device.request), ..for_device }
    }

    /// The read-ahead for a device whose optimal request has `optimal` bytes (0 if it reports
    /// none), below a file system that prefers requests of `preferred` bytes.
    /// [`ReadAhead::for_file`] asks a file for both.
    pub fn for_device(optimal: u64, preferred: u64) -> ReadAhead {
        let default = ReadAhead::default();
        // A size that is no multiple of a page, as some USB bridges report (65,535 sectors), is
        // ignored.
        let preferred_size =
            [optimal, preferred].into_iter().find(|size| *size > 4096 && size % 4096 == 0);
        let Some(size) = preferred_size else { return default };
        let request = (PREFERRED_REQUEST_BYTES as u64 / size).max(1) * size;
        let request = request.clamp(REQUEST_BYTES_MIN, REQUEST_BYTES_MAX) as usize;
        ReadAhead { request, max: 8 * request.max(PREFERRED_REQUEST_BYTES), ..default }
    }
}

/// The request size in bytes that the disk below a file prefers; 0 if it reports none
/// (`optimal_io_size`, `Documentation/ABI/stable/sysfs-block`). It is kept for each device, because
/// programs open many files of one.
fn optimal_request_of(file: &File) -> Option<u64> {
    static KNOWN: LazyLock<Mutex<HashMap<u64, Option<u64>>>> = LazyLock::new(Mutex::default);
    let stat = rustix::fs::fstat(file.descriptor()?).ok()?;
    let is_device = FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice;
    let number = if is_device { stat.st_rdev } else { stat.st_dev };
    let mut known = KNOWN.lock();
    *known.entry(number).or_insert_with(|| {
        let device =
            format!("/sys/dev/block/{}:{}", rustix::fs::major(number), rustix::fs::minor(number));
        // A partition has the queue of its disk.
        let read =
            |queue: &str| std::fs::read_to_string(format!("{device}/{queue}/optimal_io_size")).ok();
        read("queue").or_else(|| read("../queue"))?.trim().parse().ok()
    })
}

/// Most small blocks of a reader: three for each of 64 interleaved streams, two ahead and one being
/// consumed.
const SMALL_BLOCKS_MAX: usize = 192;

/// Upper bound of every limit, in bytes, so that sums of them cannot overflow.
const LIMIT_BYTES_MAX: u64 = 1 << 40;

/// The limits in whole blocks of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockSizes {
    pub(super) bounds: ReadAheadBounds,
    /// Length and number of the blocks for small requests. The number is 0 if every request is
    /// large.
    pub(super) small: (usize, usize),
    /// Length and number of the blocks for large requests.
    pub(super) large: (usize, usize),
}

impl BlockSizes {
    pub(super) fn new(file: &File, limits: ReadAhead) -> BlockSizes {
        // Through the page cache nothing needs alignment, but whole pages are read.
        let unit = if file.block_align() == 1 { 4096 } else { file.block_align() };
        let whole = |size: usize| align_up((size as u64).clamp(1, LIMIT_BYTES_MAX), unit);
        let request = whole(limits.request);
        let min = whole(limits.min).min(request);
        let max = align_down((limits.max as u64).min(LIMIT_BYTES_MAX), unit).max(request);
        let small = if min < request { (2 * max / min) as usize } else { 0 };
        let small = if small > 0 { small.min(SMALL_BLOCKS_MAX) + 2 + limits.lent } else { 0 };
        let large = max.div_ceil(request) as usize + 1 + limits.lent;
        let bounds = ReadAheadBounds { unit, min, max, request };
        BlockSizes { bounds, small: (min as usize, small), large: (request as usize, large) }
    }

    /// Most bytes of memory for blocks.
    pub(super) fn bytes(&self) -> usize {
        (self.small.0 * self.small.1).saturating_add(self.large.0.saturating_mul(self.large.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_what_the_device_likes_within_bounds() {
        let request = |optimal, preferred| ReadAhead::for_device(optimal, preferred).request;
        assert_eq!(request(0, 4096), 2 << 20);
        assert_eq!(request(384 << 10, 4096), 768 << 10, "two whole stripes");
        assert_eq!(request(3 << 20, 4096), 3 << 20);
        assert_eq!(request(1 << 30, 4096), 4 << 20);
        assert_eq!(request(65_535 * 512, 128 << 10), 1 << 20, "no size of a page's multiple");
        assert_eq!(ReadAhead::for_device(4 << 20, 4096).max, 32 << 20);
        assert_eq!(ReadAhead::for_device(0, 4096).max, 8 << 20);
    }
}

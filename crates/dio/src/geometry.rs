//! The numbers that direct I/O to an open file depends on: alignments, sizes, atomic write units.
//!
//! Alignment belongs to an open file, not to a machine: it differs between files of one file
//! system, and memory, reads and writes each have their own. [`Geometry::of`] asks the kernel once
//! and validates the answer once. The only rounding functions of the project are here.
//!
//! ```no_run
//! use std::os::fd::AsFd;
//! use dio::geometry::{Directness, Geometry};
//!
//! let file = std::fs::File::open("/var/tmp/data")?;
//! let geometry = Geometry::of(file.as_fd())?;
//! if geometry.directness() == Directness::Reported {
//!     println!("offsets are multiples of {} bytes", geometry.offset_align());
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod file_system;
mod mount;

use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, FileType, Statx, StatxFlags};

pub use file_system::FileSystem;
pub use mount::Mount;

/// `STATX_WRITE_ATOMIC` (Linux 6.11, `statx(2)`).
const STATX_WRITE_ATOMIC: StatxFlags = StatxFlags::from_bits_retain(0x1_0000);

/// `STATX_DIO_READ_ALIGN` (Linux 6.14, `statx(2)`).
const STATX_DIO_READ_ALIGN: StatxFlags = StatxFlags::from_bits_retain(0x2_0000);

/// Smallest alignment assumed if the kernel reports none, in bytes. It is a multiple of the logical
/// block of every common disk.
const ASSUMED_ALIGN_BYTES: u64 = 4096;

/// No file system has larger blocks, in bytes. Network and record-based file systems put a transfer
/// size into `f_bsize` (NFS up to 1 MiB, ZFS 128 KiB), which is no alignment.
const BLOCK_BYTES_MAX: u64 = 64 * 1024;

/// Rounds down to a multiple of `align`, a power of two.
pub const fn align_down(value: u64, align: u64) -> u64 {
    debug_assert!(align.is_power_of_two());
    value & !(align - 1)
}

/// Rounds up to a multiple of `align`, a power of two.
///
/// # Panics
/// If the result exceeds 64 bits. File offsets are below 2^63, so theirs never do.
pub const fn align_up(value: u64, align: u64) -> u64 {
    match checked_align_up(value, align) {
        Some(aligned) => aligned,
        None => panic!("an aligned offset exceeds 64 bits"),
    }
}

/// Rounds up to a multiple of `align`, a power of two; `None` if the result exceeds 64 bits.
pub const fn checked_align_up(value: u64, align: u64) -> Option<u64> {
    debug_assert!(align.is_power_of_two());
    match value.checked_add(align - 1) {
        Some(sum) => Some(align_down(sum, align)),
        None => None,
    }
}

/// Whether `value` is a multiple of `align`, a power of two.
pub const fn is_aligned(value: u64, align: u64) -> bool {
    align_down(value, align) == value
}

/// Why the geometry of a file is not known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GeometryError {
    /// A system call failed.
    #[error("{call}: {source}")]
    System {
        /// The call, by the name of its man page.
        call: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// Only regular files and block devices have blocks.
    #[error("neither a regular file nor a block device")]
    NoBlocks,
    /// The kernel reported an alignment that is not a power of two.
    #[error("the kernel reports {value} as {what}, which is not a power of two")]
    NotAPowerOfTwo {
        /// Which number it reported.
        what: &'static str,
        /// Its value in bytes.
        value: u64,
    },
}

fn failed<E: Into<io::Error>>(call: &'static str) -> impl FnOnce(E) -> GeometryError {
    move |source| GeometryError::System { call, source: source.into() }
}

/// What the kernel reports about direct I/O to a file. Only resident pages show what really
/// happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Directness {
    /// The kernel reports the alignments that direct I/O needs.
    Reported,
    /// Direct I/O is impossible, even where `open(O_DIRECT)` succeeds: the kernel reports
    /// alignments of 0 (ext4 with `data=journal`), or the file lives in memory (tmpfs, ramfs,
    /// hugetlbfs).
    Refused,
    /// The kernel reports nothing (btrfs, network file systems, Linux before 6.1). Alignments are
    /// assumed.
    Unknown,
}

/// Sizes of direct writes with `RWF_ATOMIC`, which are never torn (`statx(2)`). The length of such
/// a write is a power of two, and its offset a multiple of the length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AtomicWrites {
    /// Smallest such write in bytes, a power of two.
    pub unit_min: u64,
    /// Largest such write in bytes, a power of two.
    pub unit_max: u64,
    /// Most segments of memory that such a write may be gathered from.
    pub segments_max: u32,
    /// Largest size that the hardware helps with (Linux 6.16); 0 if no limit but `unit_max`
    /// applies.
    pub unit_max_fast: u64,
}

/// Alignments and sizes of one open regular file or block device, all in bytes.
///
/// Invariant: every alignment is a power of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    mem_align: u64,
    offset_align: u64,
    read_offset_align: u64,
    block: u64,
    preferred: u64,
    atomic: Option<AtomicWrites>,
    directness: Directness,
    file_system: Option<FileSystem>,
}

impl Geometry {
    /// Asks the kernel about an open file.
    ///
    /// # Errors
    /// [`GeometryError::NoBlocks`] for directories, pipes and the like.
    /// [`GeometryError::NotAPowerOfTwo`] if the kernel reports an impossible alignment. What
    /// `statx(2)` or `fstatfs(2)` answer.
    pub fn of(fd: BorrowedFd<'_>) -> Result<Self, GeometryError> {
        let mask =
            StatxFlags::TYPE | StatxFlags::DIOALIGN | STATX_WRITE_ATOMIC | STATX_DIO_READ_ALIGN;
        let statx =
            rustix::fs::statx(fd, "", AtFlags::EMPTY_PATH, mask).map_err(failed("statx"))?;
        match FileType::from_raw_mode(statx.stx_mode.into()) {
            FileType::RegularFile => Self::of_regular(fd, &statx),
            FileType::BlockDevice => Self::of_device(fd, &statx),
            _ => Err(GeometryError::NoBlocks),
        }
    }

    fn of_regular(fd: BorrowedFd<'_>, statx: &Statx) -> Result<Self, GeometryError> {
        let statfs = rustix::fs::fstatfs(fd).map_err(failed("fstatfs"))?;
        let file_system = FileSystem::from_magic(statfs.f_type as u32);
        let block = plausible_block(statfs.f_bsize as u64);
        let reported = Reported::from(statx);
        let directness =
            if file_system.is_memory() { Directness::Refused } else { reported.directness };
        Self::build(statx, reported, directness, block, ASSUMED_ALIGN_BYTES.max(block))
            .map(|geometry| Self { file_system: Some(file_system), ..geometry })
    }

    fn of_device(fd: BorrowedFd<'_>, statx: &Statx) -> Result<Self, GeometryError> {
        let block = rustix::fs::ioctl_blksszget(fd).map_err(failed("ioctl BLKSSZGET"))?.into();
        let mut reported = Reported::from(statx);
        if reported.directness == Directness::Unknown {
            // A kernel whose statx reports nothing for devices still tells the logical block size.
            // Direct I/O to a device needs that alignment, and no device needs more of memory.
            reported = Reported {
                mem: block,
                offset: block,
                read: block,
                directness: Directness::Reported,
            };
        }
        Self::build(statx, reported, reported.directness, block, block)
    }

    /// The geometry of a medium outside the operating system, such as a simulated disk. The
    /// alignments, in bytes, are those of memory and of the offset and length of requests.
    ///
    /// # Errors
    /// [`GeometryError::NotAPowerOfTwo`].
    pub fn fixed(mem_align: u64, offset_align: u64) -> Result<Self, GeometryError> {
        Ok(Self {
            mem_align: power_of_two("memory alignment", mem_align)?,
            offset_align: power_of_two("offset alignment", offset_align)?,
            read_offset_align: offset_align,
            block: offset_align,
            preferred: offset_align,
            atomic: None,
            directness: Directness::Reported,
            file_system: None,
        })
    }

    /// The geometry of a striped file: the strictest demand of its objects. The offset of a byte
    /// decides where in a buffer the memory of one object ends and that of the next begins, so
    /// offsets are aligned as memory is.
    pub(crate) fn joined(each: &[&Geometry], preferred: u64) -> Result<Self, GeometryError> {
        let most = |of: fn(&Geometry) -> u64| each.iter().map(|one| of(one)).max().unwrap_or(1);
        let memory = most(Geometry::mem_align);
        Ok(Self {
            read_offset_align: most(Geometry::read_offset_align).max(memory),
            block: most(Geometry::block),
            preferred,
            ..Self::fixed(memory, most(Geometry::offset_align).max(memory))?
        })
    }

    /// The same geometry with another directness.
    pub(crate) fn with_directness(self, directness: Directness) -> Self {
        Self { directness, ..self }
    }

    /// Puts together the `reported` numbers, or `assumed` ones if there are none, and validates
    /// them.
    fn build(
        statx: &Statx,
        reported: Reported,
        directness: Directness,
        block: u64,
        assumed: u64,
    ) -> Result<Self, GeometryError> {
        let (mem, offset, read) = match directness {
            Directness::Reported => (reported.mem, reported.offset, reported.read),
            Directness::Refused | Directness::Unknown => (assumed, assumed, assumed),
        };
        Ok(Self {
            mem_align: power_of_two("memory alignment", mem)?,
            offset_align: power_of_two("offset alignment", offset)?,
            read_offset_align: power_of_two("read offset alignment", read)?,
            block: power_of_two("block size", block)?,
            preferred: u64::from(statx.stx_blksize).max(1),
            atomic: atomic_writes(statx)?,
            directness,
            file_system: None,
        })
    }

    /// Alignment of the memory of every buffer.
    pub fn mem_align(&self) -> u64 {
        self.mem_align
    }

    /// Alignment of the offset and length of writes.
    pub fn offset_align(&self) -> u64 {
        self.offset_align
    }

    /// Alignment of the offset and length of reads. It is smaller than that of writes where the
    /// file system rewrites blocks out of place.
    pub fn read_offset_align(&self) -> u64 {
        self.read_offset_align
    }

    /// Size of a block of the file system, or of a logical block of the device. File systems that
    /// rewrite partial blocks need no exclusive lock for writes of whole ones.
    pub fn block(&self) -> u64 {
        self.block
    }

    /// Transfer size that the file system suggests (`st_blksize`). Direct I/O profits from much
    /// larger ones. It is no alignment.
    pub fn preferred(&self) -> u64 {
        self.preferred
    }

    /// Sizes of untorn writes; `None` if there are none.
    pub fn atomic(&self) -> Option<AtomicWrites> {
        self.atomic
    }

    /// What the kernel reports about direct I/O.
    pub fn directness(&self) -> Directness {
        self.directness
    }

    /// The file system of a regular file; `None` for a block device.
    pub fn file_system(&self) -> Option<FileSystem> {
        self.file_system
    }

    /// Whether a buffer at this address may be used without copying.
    pub fn is_memory_aligned(&self, address: usize) -> bool {
        is_aligned(address as u64, self.mem_align)
    }

    /// Whether a read of this range may be issued unchanged.
    pub fn is_read_aligned(&self, range: &Range<u64>) -> bool {
        is_aligned(range.start | range.end, self.read_offset_align)
    }

    /// Whether a write of this range may be issued unchanged.
    pub fn is_write_aligned(&self, range: &Range<u64>) -> bool {
        is_aligned(range.start | range.end, self.offset_align)
    }

    /// The smallest aligned range for reads that contains `range`.
    pub fn read_span(&self, range: Range<u64>) -> Range<u64> {
        outward(range, self.read_offset_align)
    }

    /// The smallest aligned range for writes that contains `range`.
    pub fn write_span(&self, range: Range<u64>) -> Range<u64> {
        outward(range, self.offset_align)
    }

    /// The largest aligned part of `range` for reads; empty if there is none.
    pub fn read_core(&self, range: Range<u64>) -> Range<u64> {
        inward(range, self.read_offset_align)
    }

    /// The largest aligned part of `range` for writes; empty if there is none.
    pub fn write_core(&self, range: Range<u64>) -> Range<u64> {
        inward(range, self.offset_align)
    }
}

/// Extends a range to multiples of `align`. An empty range stays empty.
fn outward(range: Range<u64>, align: u64) -> Range<u64> {
    let start = align_down(range.start, align);
    if range.is_empty() {
        return start..start;
    }
    start..align_up(range.end, align)
}

/// Shrinks a range to multiples of `align`. If no whole unit lies inside, the result is empty and
/// lies at the end of the range.
fn inward(range: Range<u64>, align: u64) -> Range<u64> {
    let end = align_down(range.end, align);
    match checked_align_up(range.start, align) {
        Some(start) if start < end => start..end,
        _ => range.end..range.end,
    }
}

/// What `statx` reported about direct I/O, not validated.
#[derive(Clone, Copy)]
struct Reported {
    mem: u64,
    offset: u64,
    read: u64,
    directness: Directness,
}

impl From<&Statx> for Reported {
    fn from(statx: &Statx) -> Self {
        let mem = u64::from(statx.stx_dio_mem_align);
        let offset = u64::from(statx.stx_dio_offset_align);
        let read = u64::from(statx.stx_dio_read_offset_align);
        let has = |flag: StatxFlags| statx.stx_mask & flag.bits() != 0;
        let directness = if !has(StatxFlags::DIOALIGN) {
            Directness::Unknown
        } else if mem == 0 || offset == 0 {
            Directness::Refused
        } else {
            Directness::Reported
        };
        let read = if has(STATX_DIO_READ_ALIGN) && read != 0 { read } else { offset };
        Self { mem, offset, read, directness }
    }
}

fn atomic_writes(statx: &Statx) -> Result<Option<AtomicWrites>, GeometryError> {
    let has = statx.stx_mask & STATX_WRITE_ATOMIC.bits() != 0;
    if !has || statx.stx_atomic_write_unit_max == 0 {
        return Ok(None);
    }
    Ok(Some(AtomicWrites {
        unit_min: power_of_two("atomic write minimum", statx.stx_atomic_write_unit_min.into())?,
        unit_max: power_of_two("atomic write maximum", statx.stx_atomic_write_unit_max.into())?,
        segments_max: statx.stx_atomic_write_segments_max,
        unit_max_fast: statx.stx_atomic_write_unit_max_opt.into(),
    }))
}

/// The block size of a file system from `f_bsize`, unless that is a transfer size.
fn plausible_block(f_bsize: u64) -> u64 {
    if f_bsize.is_power_of_two() && f_bsize <= BLOCK_BYTES_MAX {
        f_bsize
    } else {
        ASSUMED_ALIGN_BYTES
    }
}

fn power_of_two(what: &'static str, value: u64) -> Result<u64, GeometryError> {
    if value.is_power_of_two() {
        Ok(value)
    } else {
        Err(GeometryError::NotAPowerOfTwo { what, value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;

    proptest! {
        #[test]
        fn rounding_finds_the_nearest_multiples(value in 0..u64::MAX / 2, shift in 0_u32..32) {
            let align = 1_u64 << shift;
            let (down, up) = (align_down(value, align), align_up(value, align));
            prop_assert!(down <= value && value <= up);
            prop_assert!(value - down < align && up - value < align);
            prop_assert_eq!((down % align, up % align), (0, 0));
            prop_assert_eq!(is_aligned(value, align), value % align == 0);
        }

        #[test]
        fn spans_hold_the_range_and_cores_lie_in_it(
            start in 0_u64..1 << 40, length in 0_u64..1 << 22, shift in 0_u32..20,
        ) {
            let align = 1_u64 << shift;
            let range = start..start + length;
            let (out, core) = (outward(range.clone(), align), inward(range.clone(), align));
            prop_assert!(is_aligned(out.start | out.end, align));
            prop_assert_eq!(out.is_empty(), range.is_empty());
            if !range.is_empty() {
                prop_assert!(out.start <= range.start && range.end <= out.end);
                prop_assert!(range.start - out.start < align && out.end - range.end < align);
            }
            if core.is_empty() {
                // No whole unit fits between the bounds.
                prop_assert!(align_up(range.start, align) + align > range.end);
                prop_assert_eq!(core.start, range.end);
            } else {
                prop_assert!(is_aligned(core.start | core.end, align));
                prop_assert!(range.start <= core.start && core.end <= range.end);
                prop_assert!(core.start - range.start < align && range.end - core.end < align);
            }
        }
    }

    #[test]
    fn rounding_up_past_64_bits_is_noticed() {
        assert_eq!(checked_align_up(u64::MAX, 512), None);
        assert_eq!(checked_align_up(u64::MAX - 511, 512), Some(u64::MAX - 511));
        assert_eq!(inward(u64::MAX - 5..u64::MAX, 512), u64::MAX..u64::MAX);
    }

    /// Checks that the reported alignment is enough: a direct write and a direct read with exactly
    /// this alignment succeed.
    #[test]
    fn the_reported_alignment_is_accepted() {
        let file = match rustix::fs::open(
            "/var/tmp",
            rustix::fs::OFlags::TMPFILE | rustix::fs::OFlags::RDWR | rustix::fs::OFlags::DIRECT,
            rustix::fs::Mode::RUSR,
        ) {
            Ok(fd) => std::fs::File::from(fd),
            Err(error) => {
                return println!("skipped: no direct temporary file in /var/tmp: {error}");
            }
        };
        let geometry = Geometry::of(file.as_fd()).unwrap();
        if geometry.directness() != Directness::Reported {
            return println!("skipped: /var/tmp reports no alignment");
        }
        let unit = geometry.offset_align() as usize;
        let mut memory = vec![9_u8; unit + 2 * geometry.mem_align() as usize];
        // An address that is a multiple of `mem_align` and of nothing larger.
        let skip = memory.as_ptr().align_offset(2 * geometry.mem_align() as usize);
        let skip = (skip + geometry.mem_align() as usize) % (2 * geometry.mem_align() as usize);
        let buffer = &mut memory[skip..skip + unit];
        assert!(geometry.is_memory_aligned(buffer.as_ptr() as usize));
        file.write_all_at(buffer, 3 * unit as u64).unwrap();
        buffer.fill(0);
        file.read_exact_at(buffer, 3 * unit as u64).unwrap();
        assert!(buffer.iter().all(|byte| *byte == 9));
        assert_eq!(crate::residency::resident_pages(&file).unwrap(), 0);
    }

    #[test]
    fn files_in_memory_refuse() {
        let Ok(file) = tempfile::tempfile_in("/dev/shm") else {
            return println!("skipped: no /dev/shm");
        };
        let geometry = Geometry::of(file.as_fd()).unwrap();
        let Some(file_system) = geometry.file_system().filter(|found| found.is_memory()) else {
            return println!("skipped: /dev/shm is not in memory");
        };
        assert_eq!(file_system.name(), Some("tmpfs"));
        assert_eq!(geometry.directness(), Directness::Refused);
        assert_eq!(geometry.offset_align(), 4096);
    }

    #[test]
    fn what_has_no_blocks_has_no_geometry() {
        let directory = std::fs::File::open("/").unwrap();
        let (reader, _writer) = std::io::pipe().unwrap();
        let null = std::fs::File::open("/dev/null").unwrap();
        for fd in [directory.as_fd(), reader.as_fd(), null.as_fd()] {
            assert!(matches!(Geometry::of(fd), Err(GeometryError::NoBlocks)));
        }
    }

    #[test]
    fn transfer_sizes_are_not_taken_for_blocks() {
        assert_eq!(plausible_block(1024), 1024);
        assert_eq!(plausible_block(64 * 1024), 64 * 1024);
        assert_eq!(plausible_block(1024 * 1024), 4096);
        assert_eq!(plausible_block(0), 4096);
        assert_eq!(plausible_block(4097), 4096);
    }

    #[test]
    fn what_is_no_power_of_two_is_an_error() {
        for value in [0, 3, 513, u64::MAX] {
            power_of_two("alignment", value).unwrap_err();
        }
        assert_eq!(power_of_two("alignment", 1).unwrap(), 1);
    }
}

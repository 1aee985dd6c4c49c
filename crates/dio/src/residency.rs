//! Which pages of a file are in the page cache, and how to remove those that one brought in oneself.
//!
//! `POSIX_FADV_DONTNEED` evicts pages whoever loaded them. To be neutral towards everyone else's cache, take
//! a [`Picture`] before the I/O and let [`Picture::drop_new`] evict only what was not in it.
//!
//! Two system calls tell about residency. `cachestat(2)` counts cheaply but is blind on file systems that
//! pass data through to another inode: there it answers 0 for a fully cached file (seen on overlayfs with
//! Linux 6.18). `mincore(2)` sees what a mapping would see, so it is right there too. The first is used where
//! it can be trusted, the second elsewhere.

use std::io;
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{Access, Advice, AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::geometry::FileSystem;

/// Runs a picture may hold (16 bytes each); past this, gaps are closed, which keeps more than necessary.
const MAX_RUNS: usize = 1 << 18;

/// Why residency could not be told or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResidencyError {
    /// The kernel tells only who owns a file, or may write it, which of its pages are resident.
    #[error("the resident pages of a file are told only to its owner and to those who may write it")]
    Hidden,
    /// A system call failed.
    #[error("cannot {operation} at offset {offset}: {source}")]
    System {
        /// What was being done, as a verb phrase.
        operation: &'static str,
        /// First byte of the range concerned.
        offset: u64,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl From<ResidencyError> for io::Error {
    fn from(error: ResidencyError) -> Self {
        match error {
            ResidencyError::Hidden => Self::new(io::ErrorKind::PermissionDenied, error),
            ResidencyError::System { ref source, .. } => Self::new(source.kind(), error),
        }
    }
}

fn failed<E: Into<io::Error>>(operation: &'static str, offset: u64) -> impl FnOnce(E) -> ResidencyError {
    move |source| ResidencyError::System { operation, offset, source: source.into() }
}

/// Pages of the file that are in the page cache now.
///
/// # Errors
/// [`ResidencyError::Hidden`] for files of others; whatever `cachestat(2)`, `mmap(2)` or `mincore(2)` say.
pub fn resident_pages(fd: impl AsFd) -> Result<u64, ResidencyError> {
    let fd = fd.as_fd();
    if let Some(stat) = trusted_cachestat(fd, 0, 0)? {
        return Ok(stat.cache);
    }
    count_by_mincore(fd, 0..pages_of(length_of(fd)?))
}

/// Resident pages that are not yet written back; `None` where the kernel does not count them.
///
/// # Errors
/// Those of `cachestat(2)`.
pub fn dirty_pages(fd: impl AsFd) -> Result<Option<u64>, ResidencyError> {
    let stat = trusted_cachestat(fd.as_fd(), 0, 0)?;
    Ok(stat.map(|stat| stat.dirty))
}

/// Resident pages of `range` (bytes, rounded out to pages).
///
/// # Errors
/// As [`resident_pages`].
pub fn resident_in(fd: impl AsFd, range: Range<u64>) -> Result<u64, ResidencyError> {
    let first = range.start / rustix::param::page_size() as u64;
    if range.is_empty() {
        return Ok(0);
    }
    count(fd.as_fd(), first..pages_of(range.end.min(i64::MAX as u64)))
}

/// Visits the runs of resident pages of the first `len` bytes in order, as ranges of page numbers.
/// Adjacent runs may come separately. Nothing is stored, however many runs there are.
///
/// # Errors
/// As [`resident_pages`].
pub fn visit_runs(fd: impl AsFd, len: u64, visit: impl FnMut(Range<u64>)) -> Result<(), ResidencyError> {
    visit_resident(fd.as_fd(), 0..pages_of(len), visit)
}

/// The runs of resident pages of the first `len` bytes, as ranges of page numbers: sorted, disjoint and
/// not adjacent. `len` is rounded up to whole pages.
///
/// # Errors
/// As [`resident_pages`].
pub fn resident_runs(fd: impl AsFd, len: u64) -> Result<Vec<Range<u64>>, ResidencyError> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    visit_runs(fd, len, |run| append(&mut runs, run, 0))?;
    Ok(runs)
}

/// Length of the file or block device in bytes.
///
/// # Errors
/// Those of `fstat(2)` and `BLKGETSIZE64`.
pub fn length_of(fd: impl AsFd) -> Result<u64, ResidencyError> {
    let fd = fd.as_fd();
    let stat = rustix::fs::fstat(fd).map_err(failed("stat the file", 0))?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice {
        return dio_sys::block_device_size(fd).map_err(failed("ask the size of the device", 0));
    }
    Ok(u64::try_from(stat.st_size).unwrap_or(0))
}

/// Writes the dirty pages of `range` (bytes) and waits for them, so that they can be dropped.
///
/// This makes nothing durable: metadata and the device's cache are not flushed. Where the file system passes
/// data through to another inode `sync_file_range(2)` does nothing, so `fdatasync(2)` is used there.
///
/// # Errors
/// The error of writing, which the caller must treat as it treats a failed sync: the data is lost.
pub fn write_back(fd: impl AsFd, range: Range<u64>) -> Result<(), ResidencyError> {
    let fd = fd.as_fd();
    if range.is_empty() {
        return Ok(());
    }
    let offset = range.start;
    if passes_data_through(fd) {
        return rustix::fs::fdatasync(fd).map_err(failed("write back", offset));
    }
    let end = range.end.min(i64::MAX as u64);
    match dio_sys::sync_file_range(fd, offset..end) {
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => {
            rustix::fs::fdatasync(fd).map_err(failed("write back", offset))
        }
        other => other.map_err(failed("write back", offset)),
    }
}

/// Evicts the clean pages of `range` (bytes, rounded out to pages), whoever loaded them; returns how many.
///
/// Pages that are dirty, mapped, locked or part of a folio that reaches beyond the range stay.
/// On tmpfs, where the cache is the storage, nothing is ever evicted.
///
/// # Errors
/// As [`resident_pages`], and those of `posix_fadvise(2)`.
pub fn evict(fd: impl AsFd, range: Range<u64>) -> Result<u64, ResidencyError> {
    Picture::empty().drop_new(fd, range)
}

/// Which pages of a file were resident at one moment, as runs.
///
/// Memory is bounded (4 MiB): of a file resident in more than 2^18 separate runs the smallest gaps are taken
/// as resident, so that a page of someone else is never evicted for the sake of a smaller picture.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Picture {
    /// Page numbers; sorted, disjoint, not adjacent, none empty.
    runs: Vec<Range<u64>>,
}

impl Picture {
    /// The picture of a file that had no page resident, such as one just created.
    pub fn empty() -> Self {
        Self::default()
    }

    /// Takes the picture of the first `len` bytes. Pages beyond count as not resident.
    ///
    /// # Errors
    /// As [`resident_pages`].
    pub fn take(fd: impl AsFd, len: u64) -> Result<Self, ResidencyError> {
        let mut runs = Vec::new();
        // Gaps of up to `closed` pages are taken as resident.
        let mut closed = 0;
        visit_resident(fd.as_fd(), 0..pages_of(len), |run| {
            append(&mut runs, run, closed);
            while runs.len() > MAX_RUNS {
                closed = closed * 2 + 1;
                let long = std::mem::take(&mut runs);
                long.into_iter().for_each(|run| append(&mut runs, run, closed));
            }
        })?;
        Ok(Self { runs })
    }

    /// The runs of pages that were resident, as ranges of page numbers.
    pub fn runs(&self) -> &[Range<u64>] {
        &self.runs
    }

    /// Pages that were resident.
    pub fn pages(&self) -> u64 {
        self.runs.iter().map(|run| run.end - run.start).sum()
    }

    /// Evicts the pages of `range` (bytes, rounded out to pages) that were not resident in the picture and
    /// returns how many went.
    ///
    /// Only clean pages can go. The caller must have written back dirty ones ([`write_back`], or a sync)
    /// first: the kernel starts writing those it meets here but keeps them. A page that someone else loaded
    /// after the picture was taken cannot be told from one's own and goes too.
    ///
    /// # Errors
    /// As [`resident_pages`], and those of `posix_fadvise(2)`.
    pub fn drop_new(&self, fd: impl AsFd, range: Range<u64>) -> Result<u64, ResidencyError> {
        let fd = fd.as_fd();
        let page_size = rustix::param::page_size() as u64;
        let last = pages_of(range.end.min(i64::MAX as u64));
        let mut dropped = 0;
        for gap in self.gaps(range.start / page_size..last) {
            let before = count(fd, gap.clone())?;
            if before == 0 {
                continue;
            }
            let offset = gap.start * page_size;
            // The last page of a file of the greatest length would end one byte past it.
            let length = ((gap.end - gap.start) * page_size).min(i64::MAX as u64 - offset);
            rustix::fs::fadvise(fd, offset, NonZeroU64::new(length), Advice::DontNeed)
                .map_err(failed("evict pages", offset))?;
            dropped += before.saturating_sub(count(fd, gap)?);
        }
        Ok(dropped)
    }

    /// The pages of `pages` that were not resident, as ranges in order.
    fn gaps(&self, pages: Range<u64>) -> Vec<Range<u64>> {
        let mut gaps = Vec::new();
        let mut start = pages.start;
        let skipped = self.runs.partition_point(|run| run.end <= pages.start);
        for run in &self.runs[skipped..] {
            if run.start >= pages.end {
                break;
            }
            if start < run.start {
                gaps.push(start..run.start);
            }
            start = run.end;
        }
        if start < pages.end {
            gaps.push(start..pages.end);
        }
        gaps
    }
}

/// Appends a run that follows all others, joining it to the last if at most `closed` pages lie between.
fn append(runs: &mut Vec<Range<u64>>, run: Range<u64>, closed: u64) {
    match runs.last_mut() {
        Some(last) if run.start - last.end <= closed => last.end = run.end,
        _ => runs.push(run),
    }
}

/// Pages that `len` bytes occupy.
fn pages_of(len: u64) -> u64 {
    len.div_ceil(rustix::param::page_size() as u64)
}

/// Resident pages among `pages` (page numbers).
fn count(fd: BorrowedFd<'_>, pages: Range<u64>) -> Result<u64, ResidencyError> {
    let page_size = rustix::param::page_size() as u64;
    let length = (pages.end - pages.start).saturating_mul(page_size);
    if let Some(stat) = trusted_cachestat(fd, pages.start * page_size, length)? {
        return Ok(stat.cache);
    }
    // Nothing can be resident beyond the end of the file, and mapping far beyond it costs time.
    let end = pages.end.min(pages_of(length_of(fd)?));
    count_by_mincore(fd, pages.start..end)
}

fn count_by_mincore(fd: BorrowedFd<'_>, pages: Range<u64>) -> Result<u64, ResidencyError> {
    let mut total = 0;
    visit_by_mincore(fd, pages, |run| total += run.end - run.start)?;
    Ok(total)
}

/// Pages below which `mincore` is asked at once rather than `cachestat` about each half.
const FEW_PAGES: u64 = 1 << 16;

/// Visits the resident runs among `pages`, in order. Asks `cachestat` first, so that a cold file costs one call, and so does
/// one of which everything is resident (`mincore` takes 20 ms for a gibibyte), and about ever smaller halves of a large one:
/// to map a sparse file of a tebibyte for `mincore` would take ten seconds.
fn visit_resident(
    fd: BorrowedFd<'_>,
    pages: Range<u64>,
    mut visit: impl FnMut(Range<u64>),
) -> Result<(), ResidencyError> {
    let page_size = rustix::param::page_size() as u64;
    let mut left = vec![pages];
    while let Some(pages) = left.pop() {
        let count = pages.end - pages.start.min(pages.end);
        if count == 0 {
            continue;
        }
        match trusted_cachestat(fd, pages.start * page_size, count.saturating_mul(page_size))? {
            Some(stat) if stat.cache == 0 => {}
            Some(stat) if stat.cache >= count => visit(pages),
            Some(_) if count > FEW_PAGES => {
                let middle = pages.start + count / 2;
                left.push(middle..pages.end);
                left.push(pages.start..middle);
            }
            _ => visit_by_mincore(fd, pages, &mut visit)?,
        }
    }
    Ok(())
}

fn visit_by_mincore(
    fd: BorrowedFd<'_>,
    pages: Range<u64>,
    mut visit: impl FnMut(Range<u64>),
) -> Result<(), ResidencyError> {
    // Of files of others `mincore` says "all resident", which would be taken for the truth.
    if !may_look(fd)? {
        return Err(ResidencyError::Hidden);
    }
    let offset = pages.start * rustix::param::page_size() as u64;
    let operation = "map the resident pages";
    match dio_sys::resident_map(fd, pages.clone(), &mut visit) {
        // A descriptor open for writing only cannot be mapped: EACCES comes before any visit.
        Err(error) if error.raw_os_error() == Some(libc::EACCES) => {
            let readable = reopen_for_reading(fd).map_err(failed(operation, offset))?;
            dio_sys::resident_map(readable.as_fd(), pages, visit).map_err(failed(operation, offset))
        }
        other => other.map_err(failed(operation, offset)),
    }
}

/// `cachestat`, or `None` where it is missing, refused or blind, so that `mincore` must be asked.
fn trusted_cachestat(
    fd: BorrowedFd<'_>,
    offset: u64,
    length: u64,
) -> Result<Option<dio_sys::CacheStat>, ResidencyError> {
    if passes_data_through(fd) {
        return Ok(None);
    }
    match dio_sys::cachestat(fd, offset, length) {
        Ok(stat) => Ok(Some(stat)),
        Err(error) => match error.raw_os_error() {
            // EPERM: a file of someone else, or a system call filter that does not know the call.
            Some(libc::ENOSYS | libc::EPERM | libc::EOPNOTSUPP) => Ok(None),
            _ => Err(failed("count the resident pages", offset)(error)),
        },
    }
}

/// Whether the file's pages may belong to another inode, which `cachestat` and `sync_file_range` miss.
fn passes_data_through(fd: BorrowedFd<'_>) -> bool {
    // Where even this fails, the caller's own call reports the reason.
    FileSystem::of(fd).is_ok_and(FileSystem::passes_data_through)
}

/// Whether the kernel tells the truth about this file's pages: to its owner, to root and to those who may
/// write it (`can_do_mincore` of `mm/mincore.c`).
fn may_look(fd: BorrowedFd<'_>) -> Result<bool, ResidencyError> {
    let user = rustix::process::geteuid();
    let stat = rustix::fs::fstat(fd).map_err(failed("stat the file", 0))?;
    if user.is_root() || stat.st_uid == user.as_raw() {
        return Ok(true);
    }
    let mode = rustix::fs::fcntl_getfl(fd).map_err(failed("ask the open mode", 0))?;
    if mode.intersects(OFlags::WRONLY | OFlags::RDWR) {
        return Ok(true);
    }
    Ok(rustix::fs::accessat(CWD, self_path(fd), Access::WRITE_OK, AtFlags::EACCESS).is_ok())
}

fn reopen_for_reading(fd: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    rustix::fs::open(self_path(fd), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
}

fn self_path(fd: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

#[cfg(test)]
#[path = "residency_tests.rs"]
mod tests;

//! Which pages of a file are in the page cache, and how to evict those that one's own I/O brought
//! in.
//!
//! `POSIX_FADV_DONTNEED` evicts pages whoever loaded them. To leave everyone else's pages alone,
//! take a [`ResidencySnapshot`] before the I/O and let [`ResidencySnapshot::drop_new`] evict only
//! the pages that are not in it.
//!
//! Two system calls report residency. `cachestat(2)` counts cheaply but is blind on file systems
//! that pass data through to another inode: it answers 0 for a fully cached file (seen on overlayfs
//! with Linux 6.18). `mincore(2)` reports the pages of a mapping and is right there too. This
//! module uses the first where it can be trusted and the second elsewhere.
//!
//! ```no_run
//! use dio::residency::{ResidencySnapshot, resident_pages};
//!
//! let file = std::fs::File::open("/var/tmp/data")?;
//! let length = file.metadata()?.len();
//! let before = ResidencySnapshot::take(&file, length)?;
//! std::io::copy(&mut &file, &mut std::io::sink())?;
//! let dropped = before.drop_new(&file, 0..length)?;
//! println!("{dropped} pages dropped, {} left", resident_pages(&file)?);
//! # Ok::<(), std::io::Error>(())
//! ```

use std::io;
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};

use dio_sys::{fd_path, reopen};
use rustix::fs::{Access, Advice, AtFlags, CWD, FileType, OFlags};

use crate::geometry::FileSystem;

/// Most runs that a snapshot holds, of 16 bytes each. Beyond them the smallest gaps are closed,
/// which protects more pages than necessary.
const RUNS_MAX: usize = 1 << 18;

/// Why residency could not be read or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResidencyError {
    /// The kernel reports the resident pages of a file only to its owner and to those who may write
    /// it.
    #[error(
        "the resident pages of a file are told only to its owner and to those who may write it"
    )]
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

fn failed<E: Into<io::Error>>(
    operation: &'static str,
    offset: u64,
) -> impl FnOnce(E) -> ResidencyError {
    move |source| ResidencyError::System { operation, offset, source: source.into() }
}

/// Number of pages of the file that are in the page cache now.
///
/// # Errors
/// [`ResidencyError::Hidden`] for files of others; what `cachestat(2)`, `mmap(2)` or `mincore(2)`
/// answer.
pub fn resident_pages(fd: impl AsFd) -> Result<u64, ResidencyError> {
    let fd = fd.as_fd();
    if let Some(stat) = trusted_cachestat(fd, 0, 0)? {
        return Ok(stat.cache);
    }
    count_by_mincore(fd, 0..pages_of(length_of(fd)?))
}

/// Number of resident pages that are not yet written back; `None` if the kernel does not count
/// them.
///
/// # Errors
/// What `cachestat(2)` answers.
pub fn dirty_pages(fd: impl AsFd) -> Result<Option<u64>, ResidencyError> {
    let stat = trusted_cachestat(fd.as_fd(), 0, 0)?;
    Ok(stat.map(|stat| stat.dirty))
}

/// Number of resident pages of `range` (bytes, rounded out to pages).
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

/// Calls `visit` for each run of resident pages of the first `len` bytes, in order, as a range of
/// page numbers. Adjacent runs may come separately. Nothing is stored, however many runs there are.
///
/// # Errors
/// As [`resident_pages`].
pub fn visit_runs(
    fd: impl AsFd,
    len: u64,
    visit: impl FnMut(Range<u64>),
) -> Result<(), ResidencyError> {
    visit_resident(fd.as_fd(), 0..pages_of(len), visit)
}

/// The runs of resident pages of the first `len` bytes, as ranges of page numbers: sorted, disjoint
/// and not adjacent. `len` is rounded up to whole pages.
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
/// What `fstat(2)` and `BLKGETSIZE64` answer.
pub fn length_of(fd: impl AsFd) -> Result<u64, ResidencyError> {
    let fd = fd.as_fd();
    let stat = rustix::fs::fstat(fd).map_err(failed("stat the file", 0))?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice {
        return dio_sys::block_device_size(fd).map_err(failed("ask the size of the device", 0));
    }
    Ok(u64::try_from(stat.st_size).unwrap_or(0))
}

/// Writes the dirty pages of `range` (bytes) back and waits for them, so that they can be dropped.
///
/// This makes nothing durable: metadata and the device's cache are not flushed. Where the file
/// system passes data through to another inode, `sync_file_range(2)` does nothing, so
/// `fdatasync(2)` is used.
///
/// # Errors
/// The error of writing. The caller must treat it like a failed sync: the data is lost.
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

/// Evicts the clean pages of `range` (bytes, rounded out to pages), whoever loaded them. Returns
/// how many it evicted.
///
/// Pages that are dirty, mapped, locked or part of a folio that reaches beyond the range stay. On
/// tmpfs, where the cache is the storage, nothing is ever evicted.
///
/// # Errors
/// As [`resident_pages`], and what `posix_fadvise(2)` answers.
pub fn evict(fd: impl AsFd, range: Range<u64>) -> Result<u64, ResidencyError> {
    ResidencySnapshot::empty().drop_new(fd, range)
}

/// Which pages of a file were resident at one moment, as runs.
///
/// Its memory is bounded (4 MiB). If a file is resident in more than 2^18 separate runs, the
/// smallest gaps count as resident, so that a page of someone else is never evicted to save memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResidencySnapshot {
    /// Page numbers. Invariant: sorted, disjoint, not adjacent, and none empty.
    runs: Vec<Range<u64>>,
}

impl ResidencySnapshot {
    /// The snapshot of a file without resident pages, such as one just created.
    pub fn empty() -> Self {
        Self::default()
    }

    /// Takes a snapshot of the first `len` bytes. Pages beyond them count as not resident.
    ///
    /// # Errors
    /// As [`resident_pages`].
    pub fn take(fd: impl AsFd, len: u64) -> Result<Self, ResidencyError> {
        let mut runs = Vec::new();
        // Gaps of up to so many pages count as resident.
        let mut gap_max = 0;
        visit_resident(fd.as_fd(), 0..pages_of(len), |run| {
            append(&mut runs, run, gap_max);
            while runs.len() > RUNS_MAX {
                gap_max = gap_max * 2 + 1;
                let long = std::mem::take(&mut runs);
                long.into_iter().for_each(|run| append(&mut runs, run, gap_max));
            }
        })?;
        Ok(Self { runs })
    }

    /// The runs of resident pages, as ranges of page numbers.
    pub fn runs(&self) -> &[Range<u64>] {
        &self.runs
    }

    /// Number of resident pages.
    pub fn pages(&self) -> u64 {
        self.runs.iter().map(|run| run.end - run.start).sum()
    }

    /// Evicts the pages of `range` (bytes, rounded out to pages) that were not resident at the time
    /// of the snapshot. Returns how many it evicted.
    ///
    /// Only clean pages can be evicted, so the caller must first have written dirty ones back
    /// ([`write_back`], or a sync). The kernel only starts to write dirty pages that it finds here.
    /// A page that someone else loaded after the snapshot cannot be told from one's own and is
    /// evicted too.
    ///
    /// # Errors
    /// As [`resident_pages`], and what `posix_fadvise(2)` answers.
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
            // The last page of a file of the greatest length would end one byte past that length.
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

/// Appends a run that follows all others. Joins it to the last run if at most `gap_max` pages lie
/// between.
fn append(runs: &mut Vec<Range<u64>>, run: Range<u64>, gap_max: u64) {
    match runs.last_mut() {
        Some(last) if run.start - last.end <= gap_max => last.end = run.end,
        _ => runs.push(run),
    }
}

/// Number of pages that `len` bytes occupy.
fn pages_of(len: u64) -> u64 {
    len.div_ceil(rustix::param::page_size() as u64)
}

/// Number of resident pages among `pages` (page numbers).
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

/// Up to so many pages, `mincore` is asked at once instead of `cachestat` about each half.
const MINCORE_PAGES_MAX: u64 = 1 << 16;

/// Calls `visit` for each resident run among `pages`, in order. It asks `cachestat` first: one call
/// settles a file without resident pages, or one that is wholly resident (`mincore` takes 20 ms for
/// a gibibyte). A large range in between is halved and asked again, because mapping a sparse file
/// of a tebibyte for `mincore` would take ten seconds.
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
            Some(_) if count > MINCORE_PAGES_MAX => {
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
    // For files of others `mincore` answers "all resident", which is not the truth.
    if !may_look(fd)? {
        return Err(ResidencyError::Hidden);
    }
    let offset = pages.start * rustix::param::page_size() as u64;
    let operation = "map the resident pages";
    match dio_sys::resident_map(fd, pages.clone(), &mut visit) {
        // A descriptor open for writing only cannot be mapped. EACCES comes before any visit.
        Err(error) if error.raw_os_error() == Some(libc::EACCES) => {
            let readable = reopen(fd, OFlags::RDONLY).map_err(failed(operation, offset))?;
            dio_sys::resident_map(readable.as_fd(), pages, visit).map_err(failed(operation, offset))
        }
        other => other.map_err(failed(operation, offset)),
    }
}

/// Calls `cachestat`. Returns `None` if the call is missing, refused or blind, so that `mincore`
/// must be asked.
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
            // EPERM: a file of someone else, or a system call filter that does not allow the call.
            Some(libc::ENOSYS | libc::EPERM | libc::EOPNOTSUPP) => Ok(None),
            _ => Err(failed("count the resident pages", offset)(error)),
        },
    }
}

/// Whether the file's pages may belong to another inode, where `cachestat` and `sync_file_range`
/// miss them.
fn passes_data_through(fd: BorrowedFd<'_>) -> bool {
    // If even this fails, the caller's own call reports the reason.
    FileSystem::of(fd).is_ok_and(FileSystem::passes_data_through)
}

/// Whether the kernel reports this file's pages truthfully: it does to the owner, to root and to
/// those who may write the file (`can_do_mincore` of `mm/mincore.c`).
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
    Ok(rustix::fs::accessat(CWD, fd_path(fd), Access::WRITE_OK, AtFlags::EACCESS).is_ok())
}

#[cfg(test)]
#[path = "residency_tests.rs"]
mod tests;

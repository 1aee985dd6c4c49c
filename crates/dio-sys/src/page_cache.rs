//! The pages of a file in the page cache, and their write-back.

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Number of the system call `cachestat`, the same on every architecture (`scripts/syscall.tbl`,
/// 451).
const SYS_CACHESTAT: libc::c_long = 451;

/// Pages that one `mincore` call examines: 256 MiB of a file with 4 KiB pages, 64 KiB of answer.
const WINDOW_PAGES: u64 = 64 * 1024;

/// The number of pages of a file range in the page cache (`struct cachestat` of
/// `include/uapi/linux/mman.h`).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheStat {
    /// Resident pages.
    pub cache: u64,
    /// Resident pages that are not yet written back.
    pub dirty: u64,
    /// Resident pages that are being written back now.
    pub writeback: u64,
    /// Pages that were resident and have been reclaimed, as far as the kernel has a record of it.
    pub evicted: u64,
    /// Reclaimed pages that are recent enough that reading them again counts as thrashing.
    pub recently_evicted: u64,
}

/// `struct cachestat_range` of `include/uapi/linux/mman.h`.
#[repr(C)]
struct CacheStatRange {
    offset: u64,
    len: u64,
}

/// Counts the resident pages of `len` bytes from `offset`; `len` 0 means to the end of the file.
///
/// # Errors
/// `ENOSYS` before Linux 6.5 (or `EPERM` where a system call filter refuses it), `EPERM` if the
/// caller neither may write to the file nor owns it, `EOPNOTSUPP` on hugetlbfs. On file systems
/// whose data is in the cache of another inode (overlayfs, FUSE passthrough), the result is always
/// 0.
pub fn cachestat(fd: BorrowedFd<'_>, offset: u64, len: u64) -> io::Result<CacheStat> {
    let range = CacheStatRange { offset, len };
    let mut stat = CacheStat::default();
    // SAFETY: both pointers are to live values of the layout the kernel documents, borrowed for the
    // call only; `fd` is open for as long as it is borrowed. The kernel writes nothing but `stat`.
    let result = unsafe {
        libc::syscall(
            SYS_CACHESTAT,
            fd.as_raw_fd(),
            &raw const range,
            &raw mut stat,
            0 as libc::c_uint,
        )
    };
    if result == 0 { Ok(stat) } else { Err(io::Error::last_os_error()) }
}

/// Writes the dirty pages of `range` (bytes) and waits for them, including pages whose write-back
/// has already started.
///
/// It flushes neither metadata nor the device's cache, so it makes nothing durable
/// (`sync_file_range(2)`).
///
/// # Errors
/// `EIO` and `ENOSPC` from writing the pages, `ESPIPE` for a file that is no regular file, device
/// or directory.
pub fn sync_file_range(fd: BorrowedFd<'_>, range: Range<u64>) -> io::Result<()> {
    // A length of 0 would mean "to the end of the file".
    if range.is_empty() {
        return Ok(());
    }
    let flags = libc::SYNC_FILE_RANGE_WAIT_BEFORE
        | libc::SYNC_FILE_RANGE_WRITE
        | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    sync_file_range_with(fd, range.start, range.end - range.start, flags)
}

/// `sync_file_range(2)` with its own arguments.
///
/// # Errors
/// As [`sync_file_range`], and `EINVAL` for other flags and for offsets that a file cannot have.
pub fn sync_file_range_with(
    fd: BorrowedFd<'_>,
    offset: u64,
    length: u64,
    flags: u32,
) -> io::Result<()> {
    let (offset, length) = (to_offset(offset)?, to_offset(length)?);
    // SAFETY: no memory is passed; `fd` is open for as long as it is borrowed.
    let result = unsafe { libc::sync_file_range(fd.as_raw_fd(), offset, length, flags) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Starts the write-back of all dirty pages of a file, and does not wait for it
/// (`sync_file_range(2)`, `SYNC_FILE_RANGE_WRITE`).
///
/// # Errors
/// As [`sync_file_range`]; `ENOSYS` where the kernel has no such call.
pub fn start_write_back(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: no memory is passed; `fd` is open for as long as it is borrowed.
    let result =
        unsafe { libc::sync_file_range(fd.as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Visits the runs of resident pages in the pages `pages` of a file, in order, as ranges of page
/// numbers.
///
/// Adjacent runs may be reported separately where a window ends. Pages beyond the end of the file
/// are reported absent. The descriptor must be open for reading; mapping it may update the access
/// time.
///
/// # Errors
/// `EACCES` if `fd` is not open for reading, `ENODEV` if its file system does not support mappings.
/// For a file that the caller neither owns nor may write to, the kernel reports all pages as
/// resident without an error (`mincore(2)`): callers must rule that out themselves.
pub fn resident_map(
    fd: BorrowedFd<'_>,
    pages: Range<u64>,
    mut visit: impl FnMut(Range<u64>),
) -> io::Result<()> {
    let mut answer = Vec::new();
    let mut first = pages.start;
    while first < pages.end {
        let count = (pages.end - first).min(WINDOW_PAGES);
        mincore_window(fd, first, count, &mut answer)?;
        let mut page = 0;
        while page < answer.len() {
            let resident = answer[page] & 1;
            let same = answer[page..].iter().take_while(|byte| *byte & 1 == resident).count();
            if resident == 1 {
                visit(first + page as u64..first + (page + same) as u64);
            }
            page += same;
        }
        first += count;
    }
    Ok(())
}

/// Fills `answer` with one byte for each of `count` pages from page `first`; bit 0 is set if the
/// page is resident.
fn mincore_window(
    fd: BorrowedFd<'_>,
    first: u64,
    count: u64,
    answer: &mut Vec<u8>,
) -> io::Result<()> {
    debug_assert!(count > 0 && count <= WINDOW_PAGES);
    let page_size = rustix::param::page_size();
    let count = count as usize;
    let length = count * page_size;
    let offset = first.checked_mul(page_size as u64).ok_or(rustix::io::Errno::OVERFLOW)?;
    let window = Window::map(fd, offset, length)?;
    answer.clear();
    answer.resize(count, 0);
    loop {
        // SAFETY: the window is mapped with exactly `length` bytes, a multiple of the page size,
        // and `answer` has one byte for each of its pages. Only page tables and page cache are
        // examined: the mapped memory itself is never accessed, so a file that shrinks cannot cause
        // a fault.
        let result = unsafe { libc::mincore(window.address, length, answer.as_mut_ptr()) };
        if result == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        // The kernel is out of memory for the moment (`mincore(2)`).
        if error.raw_os_error() != Some(libc::EAGAIN) {
            return Err(error);
        }
        std::thread::yield_now();
    }
}

/// A private, read-only mapping of a file that is never dereferenced; unmapped when dropped.
struct Window {
    address: *mut libc::c_void,
    length: usize,
}

impl Window {
    fn map(fd: BorrowedFd<'_>, offset: u64, length: usize) -> io::Result<Self> {
        use rustix::mm::{MapFlags, ProtFlags, mmap};
        // SAFETY: a null hint without MAP_FIXED replaces no mapping, and no reference into it is
        // made.
        let address = unsafe {
            mmap(std::ptr::null_mut(), length, ProtFlags::READ, MapFlags::PRIVATE, fd, offset)
        }?;
        Ok(Self { address, length })
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this address and length, and nothing refers into it.
        // Failing is impossible for a mapping that exists; nothing could be done about it either.
        let _ = unsafe { rustix::mm::munmap(self.address, self.length) };
    }
}

/// Converts a file offset to the kernel's type; offsets end at 2^63-1.
fn to_offset(value: u64) -> io::Result<i64> {
    i64::try_from(value).map_err(|_| io::Error::from(rustix::io::Errno::OVERFLOW))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;

    #[test]
    fn a_written_range_is_visited_as_one_run() {
        let page = rustix::param::page_size();
        let file = tempfile::tempfile().unwrap();
        file.set_len(64 * page as u64).unwrap();
        file.write_all_at(&vec![7; 3 * page], 5 * page as u64).unwrap();
        let mut runs = Vec::new();
        resident_map(file.as_fd(), 0..64, |run| runs.push(run)).unwrap();
        assert_eq!(runs, vec![5..8]);
    }

    #[test]
    fn a_window_beyond_the_first_has_its_own_page_numbers() {
        let page = rustix::param::page_size() as u64;
        let file = tempfile::tempfile().unwrap();
        let far = 2 * WINDOW_PAGES + 9;
        file.write_all_at(&[1], far * page).unwrap();
        let mut runs = Vec::new();
        resident_map(file.as_fd(), 0..far + 5, |run| runs.push(run)).unwrap();
        assert_eq!(runs, vec![far..far + 1]);
    }

    #[test]
    fn write_only_descriptors_cannot_be_mapped() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, b"x").unwrap();
        let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
        let error = resident_map(file.as_fd(), 0..1, |_| {}).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EACCES));
    }

    #[test]
    fn cachestat_agrees_with_mincore_where_it_exists() {
        let page = rustix::param::page_size();
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&vec![7; 11 * page], 0).unwrap();
        match cachestat(file.as_fd(), 0, 0) {
            Ok(stat) => assert_eq!(stat.cache, 11),
            Err(error) => println!("skipped: cachestat is not available here: {error}"),
        }
    }

    #[test]
    fn an_empty_range_is_not_the_whole_file() {
        let file = tempfile::tempfile().unwrap();
        sync_file_range(file.as_fd(), 4096..4096).unwrap();
        sync_file_range(file.as_fd(), u64::MAX - 1..u64::MAX).unwrap_err();
    }
}

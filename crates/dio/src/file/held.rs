//! Finds out whether direct writes are direct where the kernel does not report it and pages cannot
//! be counted afterwards.
//!
//! btrfs writes checksummed data through the page cache and drops the pages before the write
//! returns (`btrfs_direct_write`, since Linux 6.14; `invalidate_mapping_pages`). It cannot drop a
//! page that somebody holds, whereas a direct write drops every page of its range, held or not
//! (`invalidate_inode_pages2_range`). So a pipe holds a page, and a direct write goes over it. If
//! the page is still cached, the write went through the page cache.
//!
//! The trial uses our own unnamed file in the same directory, once for each file system and kind of
//! file.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use dio_sys::{fd_path, reopen};
use parking_lot::Mutex;
use rustix::fs::{IFlags, Mode, OFlags};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags};

use crate::block::Pool;

/// Most answers that are kept. Beyond them all are forgotten and found out again.
const ANSWERS_MAX: usize = 256;

/// The device of a file, and whether its data is written without checksums (`chattr +C`).
type ProbeKey = (u64, bool);

static ANSWERS: Mutex<BTreeMap<ProbeKey, Option<bool>>> = Mutex::new(BTreeMap::new());

/// Whether direct writes to new files like this one, on its file system, pass through the page
/// cache. `None` if it cannot be tried. `block` is the alignment of direct requests, in bytes.
pub(super) fn buffers_writes(file: BorrowedFd<'_>, block: u64) -> Option<bool> {
    let stat = rustix::fs::fstat(file).ok()?;
    let key = (stat.st_dev, is_unchecked(file));
    if let Some(answer) = ANSWERS.lock().get(&key) {
        return *answer;
    }
    let answer = try_beside(file, key, block).ok().flatten();
    let mut answers = ANSWERS.lock();
    if answers.len() >= ANSWERS_MAX {
        answers.clear();
    }
    answers.insert(key, answer);
    answer
}

fn is_unchecked(file: BorrowedFd<'_>) -> bool {
    rustix::fs::ioctl_getflags(file).is_ok_and(|flags| flags.contains(IFlags::NOCOW))
}

/// Tries it in the directory where the file is now.
fn try_beside(file: BorrowedFd<'_>, key: ProbeKey, block: u64) -> Result<Option<bool>, Errno> {
    let path = rustix::fs::readlink(fd_path(file), Vec::new())?;
    let path = PathBuf::from(OsString::from_vec(path.into_bytes()));
    let Some(directory) = path.parent() else { return Ok(None) };
    let access = OFlags::RDWR | OFlags::CLOEXEC;
    let own = rustix::fs::open(directory, access | OFlags::TMPFILE, Mode::RUSR | Mode::WUSR)?;
    if rustix::fs::fstat(&own)?.st_dev != key.0 {
        return Ok(None);
    }
    if is_unchecked(own.as_fd()) != key.1 {
        // This flag can be changed for an empty file only.
        let mut flags = rustix::fs::ioctl_getflags(&own)?;
        flags.set(IFlags::NOCOW, key.1);
        rustix::fs::ioctl_setflags(&own, flags)?;
    }
    let direct = reopen(&own, access | OFlags::DIRECT)?;
    keeps_held_page(own.as_fd(), direct.as_fd(), block)
}

/// Whether a direct write leaves the page that it overwrites in the page cache while a pipe holds
/// the page. The file is our own; `buffered` and `direct` are two descriptors of it. `None` if no
/// page could be held.
///
/// # Errors
/// What the system calls answer.
pub(crate) fn keeps_held_page(
    buffered: BorrowedFd<'_>,
    direct: BorrowedFd<'_>,
    block: u64,
) -> Result<Option<bool>, Errno> {
    let length = block.max(rustix::param::page_size() as u64);
    let pool = Pool::new(length as usize, 1).map_err(|_| Errno::NOMEM)?;
    let Some(mut memory) = pool.try_take() else { return Ok(None) };
    memory.bytes_mut().fill(0xd1);
    let resident = || dio_sys::cachestat(buffered, 0, length).map(|found| found.cache);
    if rustix::io::pwrite(direct, memory.bytes_mut(), 0)? as u64 != length {
        return Ok(None);
    }
    let (_reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    let held =
        rustix::pipe::splice(buffered, Some(&mut 0), &writer, None, 1, SpliceFlags::empty())?;
    if held == 0 || resident().map_err(|error| super::error::errno_of(&error))? == 0 {
        return Ok(None);
    }
    if rustix::io::pwrite(direct, memory.bytes_mut(), 0)? as u64 != length {
        return Ok(None);
    }
    Ok(Some(resident().map_err(|error| super::error::errno_of(&error))? > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks file systems whose behaviour is known: those that report alignments are direct.
    #[test]
    fn a_page_that_is_held_tells_direct_writes_from_buffered_ones() {
        for fs in dio_test::file_systems() {
            let dir = fs.dir();
            let file = std::fs::File::create(dir.path().join("file")).unwrap();
            let found = buffers_writes(file.as_fd(), 4096);
            match fs.name.as_str() {
                "ext4" | "xfs" => assert_eq!(found, Some(false), "{}", fs.name),
                "ext4-journal" | "tmpfs" => assert_ne!(found, Some(false), "{}", fs.name),
                "btrfs" => {
                    // btrfs writes data without checksums directly.
                    let buffered = std::fs::File::create(dir.path().join("plain")).unwrap();
                    rustix::fs::ioctl_setflags(&buffered, IFlags::NOCOW).unwrap();
                    let unchecked = buffers_writes(buffered.as_fd(), 4096);
                    assert_eq!((found, unchecked), (Some(true), Some(false)));
                }
                _ => {}
            }
            assert_eq!(
                std::fs::read_dir(dir.path()).unwrap().count(),
                if fs.name == "btrfs" { 2 } else { 1 }
            );
        }
    }
}

//! What calls bring into the page cache: the difference of what `cachestat(2)` finds before and
//! after.
//!
//! A call may read far ahead, so a range of many pages has to be looked at, twice for each call.
//! That would take longer than the call. Therefore a range that was wholly there a moment ago is
//! not looked at again, and what follows it has hardly any pages yet, which takes no time.

use std::collections::HashMap;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use dio_sys::cachestat;

/// Bytes of a page.
const PAGE: u64 = 4096;

/// What was there is taken to be there for this long: programs may drop it, and read it again.
const TRUSTED: Duration = Duration::from_millis(100);

/// A range counts as wholly there if no more than this part of it is missing: a machine that is
/// short of memory takes pages away here and there.
const MISSING_PART: u64 = 16;

/// Where a file is in the page cache in patches, no more than this is looked at beyond a call.
const PATCHY_AHEAD: u64 = 512 << 10;

/// The ranges of so many files are remembered.
const FILES_MAX: usize = 10_000;

/// A file, by its file system and inode.
pub(super) type Inode = (u64, u64);

/// What is remembered of files.
#[derive(Debug, Default)]
pub(super) struct Pages {
    known: HashMap<Inode, Known>,
}

#[derive(Clone, Debug)]
struct Known {
    /// Bytes that are in the page cache, and since when that is known.
    there: Range<u64>,
    since: Instant,
    /// Where the last call ended.
    end: u64,
    is_patchy: bool,
}

/// What was there before a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Before {
    /// Bytes that are looked at.
    range: Range<u64>,
    pages: u64,
    /// Where the call ends.
    end: u64,
}

impl Pages {
    /// Looks at a range, from `offset` on, and at `ahead` bytes more if the kernel may read ahead.
    pub(super) fn before(
        &mut self,
        file: BorrowedFd<'_>,
        key: Inode,
        (offset, bytes, ahead): (u64, u64, u64),
    ) -> Result<Before, ()> {
        let first = offset / PAGE * PAGE;
        let known = self.known.get(&key);
        let there = known.filter(|known| known.since.elapsed() < TRUSTED);
        let there = there.map_or(0..0, |known| known.there.clone());
        // The kernel reads ahead of a call that goes on where the last one ended, that begins the
        // file, or that follows what is there (`page_cache_sync_ra`).
        let goes_on = offset == 0
            || there.contains(&offset)
            || known.is_some_and(|known| known.end == offset)
            || count(file, &(first.saturating_sub(PAGE)..first))? > 0;
        let is_patchy = known.is_some_and(|known| known.is_patchy);
        let ahead = if is_patchy { ahead.min(PATCHY_AHEAD) } else { ahead };
        let end = offset.saturating_add(bytes);
        let window = end.saturating_add(if goes_on { ahead } else { 0 });
        let begin = if there.contains(&first) { there.end } else { first };
        let range =
            begin..window.next_multiple_of(PAGE).min(i64::MAX as u64 / PAGE * PAGE).max(begin);
        let pages = count(file, &range)?;
        Ok(Before { range, pages, end })
    }

    /// The pages that are there and were not before.
    pub(super) fn after(&mut self, file: BorrowedFd<'_>, key: Inode, before: &Before) -> u64 {
        let Ok(pages) = count(file, &before.range) else { return 0 };
        if self.known.len() >= FILES_MAX && !self.known.contains_key(&key) {
            self.known.clear();
        }
        let (range, looked_at) = (&before.range, (before.range.end - before.range.start) / PAGE);
        let known = self.known.entry(key).or_insert_with(|| Known {
            there: 0..0,
            since: Instant::now(),
            end: 0,
            is_patchy: false,
        });
        known.end = before.end;
        let is_whole = (looked_at - pages.min(looked_at)) * MISSING_PART <= looked_at;
        let end = if is_whole { range.end } else { range.start + pages * PAGE };
        // Those that are there need not be the first ones.
        if pages > 0 && (is_whole || count(file, &(range.start..end)) == Ok(pages)) {
            if known.there.end == range.start && known.since.elapsed() < TRUSTED {
                known.there.end = end;
            } else {
                (known.there, known.since) = (range.start..end, Instant::now());
            }
        } else if pages > 0 {
            known.is_patchy = true;
        }
        pages.saturating_sub(before.pages)
    }
}

/// The pages of a range that are in the page cache.
fn count(file: BorrowedFd<'_>, range: &Range<u64>) -> Result<u64, ()> {
    // A length of 0 would mean the whole file.
    if range.is_empty() {
        return Ok(0);
    }
    cachestat(file, range.start, range.end - range.start).map(|found| found.cache).map_err(drop)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsFd;

    use rustix::fs::{Advice, fadvise};

    use super::*;

    const PART: u64 = 64 << 10;
    const SIZE: u64 = 8 << 20;

    #[test]
    fn each_page_is_new_once_also_what_was_read_ahead() {
        let mut file = tempfile::tempfile_in("/var/tmp").unwrap();
        file.write_all(&vec![7; SIZE as usize]).unwrap();
        file.sync_all().unwrap();
        fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        if !matches!(count(file.as_fd(), &(0..SIZE)), Ok(0)) {
            return eprintln!("the page cache cannot be looked at here, or is the storage");
        }
        let mut pages = Pages::default();
        let mut read_all = || {
            let (mut new, mut part) = (0, vec![0; PART as usize]);
            let mut reader = &file;
            std::io::Seek::seek(&mut reader, std::io::SeekFrom::Start(0)).unwrap();
            for offset in (0..SIZE).step_by(PART as usize) {
                let before = pages.before(file.as_fd(), (1, 1), (offset, PART, 32 << 20)).unwrap();
                reader.read_exact(&mut part).unwrap();
                new += pages.after(file.as_fd(), (1, 1), &before);
            }
            new * PAGE
        };
        assert_eq!(read_all(), SIZE);
        assert_eq!(read_all(), 0);
        fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        std::thread::sleep(TRUSTED);
        assert_eq!(read_all(), SIZE);
    }

    #[test]
    fn a_file_with_holes_is_not_looked_at_far_ahead_each_time() {
        let mut file = tempfile::tempfile_in("/var/tmp").unwrap();
        file.write_all(&vec![7; SIZE as usize]).unwrap();
        file.sync_all().unwrap();
        let mut pages = Pages::default();
        let mut looked_at = |offset| {
            let before = pages.before(file.as_fd(), (1, 1), (offset, PAGE, SIZE)).unwrap();
            pages.after(file.as_fd(), (1, 1), &before);
            before.range.end - before.range.start
        };
        if count(file.as_fd(), &(0..SIZE)).is_err() {
            return eprintln!("the page cache cannot be looked at here");
        }
        // One page is missing.
        fadvise(&file, 100 * PAGE, std::num::NonZeroU64::new(PAGE), Advice::DontNeed).unwrap();
        assert_eq!(looked_at(0), SIZE + PAGE);
        // What is beyond its end has no pages.
        assert!((1..100).all(|page| looked_at(page * PAGE) <= 100 * PAGE));
        // Every other part of it is.
        for part in (PART..SIZE).step_by(2 * PART as usize) {
            fadvise(&file, part, std::num::NonZeroU64::new(PART), Advice::DontNeed).unwrap();
        }
        std::thread::sleep(TRUSTED);
        looked_at(0);
        assert!((1..100).all(|page| looked_at(page * PAGE) <= PATCHY_AHEAD + 2 * PAGE));
    }
}

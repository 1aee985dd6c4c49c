//! Trials: they perform I/O and count the resident pages.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use dio_sys::uninterrupted;
use rustix::fs::{Advice, OFlags};
use rustix::io::ReadWriteFlags;

use super::answer::Answer;
use super::sharing::{Overwrites, Sharing};
use super::trial_file::{Buffer, SPAN, reopen};
use crate::file::words_of as words;
use crate::geometry::{Directness, Geometry, align_down, align_up};
use crate::residency::{self, ResidencyError};

/// Number of positions in an existing file that are searched for a range that is not in the cache.
const PLACES: u64 = 64;

/// Number of direct writes that are watched: the first writes new data, the others overwrite it.
const WATCHED_WRITES: usize = 4;

/// How long to wait until pages are dropped after their write-back: the kernel may leave that to a
/// worker thread.
const PATIENCE: Duration = Duration::from_millis(200);

/// The results of the trials.
#[derive(Debug, Clone, PartialEq)]
pub struct Trials {
    /// Whether `open(2)` accepts `O_DIRECT`.
    pub open_direct: Answer,
    /// Whether a direct read adds no pages to the cache.
    pub read_direct: Answer,
    /// Whether direct writes, of new data and over old data, add no pages to the cache, not even
    /// for a moment.
    pub write_direct: Answer,
    /// Whether a read with `RWF_DONTCACHE` leaves no pages in the cache.
    pub uncached_read: Answer,
    /// Whether a write of new data with `RWF_DONTCACHE` leaves no pages in the cache, once written
    /// back.
    pub uncached_new: Answer,
    /// Whether such a write over old data that is not in the cache leaves no pages.
    pub uncached_overwrite: Answer,
    /// Whether such a write over old data that is in the cache leaves no pages. It is no fault if
    /// pages stay, because they were there before.
    pub uncached_overwrite_cached: Answer,
    /// Whether a write with `RWF_ATOMIC` is accepted.
    pub atomic_write: Answer,
    /// Whether direct overwrites of one file run in parallel.
    pub overwrites: Overwrites,
}

impl Trials {
    /// Makes the results if no trial could be made, for this reason.
    pub(super) fn unknown(reason: &str) -> Self {
        let unknown = || Answer::Unknown(reason.to_owned());
        Self {
            open_direct: unknown(),
            read_direct: unknown(),
            write_direct: unknown(),
            uncached_read: unknown(),
            uncached_new: unknown(),
            uncached_overwrite: unknown(),
            uncached_overwrite_cached: unknown(),
            atomic_write: unknown(),
            overwrites: Overwrites::not_measured(Sharing::Unknown(reason.to_owned())),
        }
    }
}

/// The reasons why a trial failed.
enum TrialFailure {
    /// The kernel refused the operation under test.
    Refused(io::Error),
    /// The trial itself could not be carried out.
    NoTrial(String),
}

impl From<ResidencyError> for TrialFailure {
    fn from(error: ResidencyError) -> Self {
        Self::NoTrial(words(&error))
    }
}

fn no_trial(error: impl Into<io::Error>) -> TrialFailure {
    TrialFailure::NoTrial(words(&error.into()))
}

/// Converts the outcome of a trial to an answer.
fn judge(outcome: Result<CachedPages, TrialFailure>) -> Answer {
    match outcome {
        Ok(CachedPages { pages: 0, passed, of }) if passed > 0 => Answer::No(format!(
            "it goes through the cache: {passed} of {of} pages were seen there meanwhile"
        )),
        Ok(CachedPages { pages: 0, .. }) => Answer::Yes,
        Ok(CachedPages { pages, of, .. }) => {
            Answer::No(format!("{pages} of {of} pages were in the cache afterwards"))
        }
        Err(TrialFailure::Refused(error)) => Answer::No(words(&error)),
        Err(TrialFailure::NoTrial(reason)) => Answer::Unknown(reason),
    }
}

/// Counts of pages in the cache, for a range that was transferred.
struct CachedPages {
    /// Pages in the cache afterwards.
    pages: u64,
    /// Most pages that were in the cache at a time during the transfer, as far as it was watched.
    passed: u64,
    /// Number of pages transferred.
    of: u64,
}

fn left(file: &File, range: &Range<u64>) -> Result<CachedPages, TrialFailure> {
    Ok(CachedPages {
        pages: residency::resident_in(file, range.clone())?,
        passed: 0,
        of: (range.end - range.start).div_ceil(rustix::param::page_size() as u64),
    })
}

/// Performs direct I/O on `range` while another thread counts the pages in the cache. btrfs buffers
/// direct writes of checksummed data, but drops the pages before the write returns.
fn watched(
    file: &File,
    range: &Range<u64>,
    io: impl FnOnce() -> io::Result<()>,
) -> Result<CachedPages, TrialFailure> {
    let watching = Barrier::new(2);
    let done = AtomicBool::new(false);
    let (result, passed) = std::thread::scope(|scope| {
        let watch = || {
            watching.wait();
            let mut most = 0;
            while !done.load(Ordering::Relaxed) {
                // The count after the I/O would fail as well, and reports the error.
                most = most.max(residency::resident_in(file, range.clone()).unwrap_or(0));
            }
            most
        };
        let watcher =
            std::thread::Builder::new().name("dio-probe".into()).spawn_scoped(scope, watch);
        let watcher = watcher.map_err(no_trial)?;
        watching.wait();
        let result = io();
        done.store(true, Ordering::Relaxed);
        Ok::<_, TrialFailure>((
            result,
            watcher.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
        ))
    })?;
    result.map_err(TrialFailure::Refused)?;
    let left = left(file, range)?;
    Ok(CachedPages { passed, ..left })
}

/// As [`left`], after the pages are dropped or [`PATIENCE`] is over.
fn left_in_the_end(file: &File, range: &Range<u64>) -> Result<CachedPages, TrialFailure> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let left = left(file, range)?;
        if left.pages == 0 || Instant::now() > deadline {
            return Ok(left);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Runs all trials on a temporary file in `directory`.
pub(super) fn on_own_file(directory: &Path, file: &File, geometry: Option<&Geometry>) -> Trials {
    let align = geometry.map_or(4096, Geometry::mem_align);
    let mut buffer = Buffer::new(SPAN as usize, align);
    let direct = reopen(file, OFlags::RDWR | OFlags::DIRECT);
    let open_direct = match &direct {
        Ok(_) => Answer::Yes,
        Err(error) => Answer::No(words(error)),
    };
    let direct = direct.ok();
    let write_direct = with_direct(&direct, |direct| judge(write_direct(file, direct, &buffer)));
    let read_direct = with_direct(&direct, |direct| {
        let outcome = prepare_cold(file, &buffer, 0..SPAN)
            .and_then(|()| read_direct(file, direct, &mut buffer, 0..SPAN));
        refused_by_kernel(judge(outcome), geometry)
    });
    let atomic_write = with_direct(&direct, |direct| atomic_write(direct, &buffer, geometry));
    let overwrites = match &direct {
        Some(direct) if write_direct == Answer::Yes => {
            Overwrites::measure(directory, direct, &buffer, geometry)
        }
        _ => Overwrites::not_measured(Sharing::Unknown("writes are not direct here".to_owned())),
    };
    let uncached_new = judge(uncached_new(file, &buffer));
    let uncached_read = judge(
        read_flagged(file, &mut buffer, 0)
            .and_then(|()| prepare_cold(file, &buffer, 0..SPAN))
            .and_then(|()| uncached_read(file, &mut buffer, 0..SPAN)),
    );
    Trials {
        open_direct,
        read_direct,
        write_direct,
        uncached_read,
        uncached_new,
        uncached_overwrite: judge(uncached_overwrite(file, &mut buffer, false)),
        uncached_overwrite_cached: judge(uncached_overwrite(file, &mut buffer, true)),
        atomic_write,
        overwrites,
    }
}

/// Runs the trials that only read.
pub(super) fn on_existing_file(path: &Path, place: &OwnedFd) -> (Result<Geometry, String>, Trials) {
    let readable = File::open(path);
    // A device answers some queries only to a descriptor that is not `O_PATH`.
    let fd = readable.as_ref().map_or(place.as_fd(), |readable| readable.as_fd());
    let geometry = Geometry::of(fd).map_err(|error| words(&error));
    match &readable {
        Ok(file) => {
            let trials = by_reading(file, geometry.as_ref().ok());
            (geometry, trials)
        }
        Err(error) => {
            let reason = format!("it cannot be read: {}", words(error));
            (geometry.map_err(|_| reason.clone()), Trials::unknown(&reason))
        }
    }
}

/// Runs the trials that are permitted on an existing file or device: reads of a range that is not
/// in the cache.
fn by_reading(file: &File, geometry: Option<&Geometry>) -> Trials {
    let mut trials = Trials::unknown("it is not written to find out");
    let direct = reopen(file, OFlags::RDONLY | OFlags::DIRECT);
    trials.open_direct = match &direct {
        Ok(_) => Answer::Yes,
        Err(error) => Answer::No(words(error)),
    };
    let range = match cold_range(file, geometry) {
        Ok(range) => range,
        Err(failure) => {
            let answer = judge(Err(failure));
            trials.uncached_read = answer.clone();
            trials.read_direct = with_direct(&direct.ok(), |_| refused_by_kernel(answer, geometry));
            return trials;
        }
    };
    let align = geometry.map_or(4096, Geometry::mem_align);
    let mut buffer = Buffer::new((range.end - range.start) as usize, align);
    trials.read_direct = with_direct(&direct.ok(), |direct| {
        let outcome = read_direct(file, direct, &mut buffer, range.clone());
        refused_by_kernel(judge(outcome), geometry)
    });
    // The range was not in the cache before, whatever the trial did; if the eviction fails, the
    // next answer shows it.
    let _ = residency::evict(file, range.clone());
    trials.uncached_read = judge(uncached_read(file, &mut buffer, range.clone()));
    let _ = residency::evict(file, range);
    trials
}

fn with_direct(direct: &Option<File>, tried: impl FnOnce(&File) -> Answer) -> Answer {
    match direct {
        Some(direct) => tried(direct),
        None => Answer::No("it cannot be opened direct".to_owned()),
    }
}

/// If no trial was possible, the kernel's report that direct I/O is refused is sufficient.
fn refused_by_kernel(answer: Answer, geometry: Option<&Geometry>) -> Answer {
    match (answer, geometry.map(Geometry::directness)) {
        (Answer::Unknown(_), Some(Directness::Refused)) => {
            Answer::No("the kernel says that this file is always cached".to_owned())
        }
        (answer, _) => answer,
    }
}

/// Bytes that are written over a page that is held in the cache: no file system has larger blocks.
const HELD: usize = 64 << 10;

/// Writes new data at the start of the empty file, then overwrites it several times: a page that is
/// in the cache only for a moment is not noticed every time.
fn write_direct(file: &File, direct: &File, buffer: &Buffer) -> Result<CachedPages, TrialFailure> {
    let mut seen = CachedPages { pages: 0, passed: 0, of: 0 };
    for _ in 0..WATCHED_WRITES {
        seen = watched(file, &(0..SPAN), || direct.write_all_at(buffer.bytes(), 0))?;
        if seen.pages > 0 || seen.passed > 0 {
            break;
        }
        file.sync_all().map_err(no_trial)?;
    }
    if seen.pages == 0 && seen.passed == 0 {
        // A page that is held in the cache reveals what counting missed. If no page can be held,
        // nothing more can be found out.
        let block = buffer.bytes().len().min(HELD) as u64;
        let held = crate::file::held::keeps_held_page(file.as_fd(), direct.as_fd(), block);
        seen.passed = u64::from(held == Ok(Some(true)));
    }
    Ok(seen)
}

/// Reads `range`, which must not be in the cache, by direct I/O.
fn read_direct(
    file: &File,
    direct: &File,
    buffer: &mut Buffer,
    range: Range<u64>,
) -> Result<CachedPages, TrialFailure> {
    watched(file, &range, || direct.read_exact_at(buffer.bytes_mut(), range.start))
}

/// Reads `range`, which must not be in the cache, with `RWF_DONTCACHE`.
fn uncached_read(
    file: &File,
    buffer: &mut Buffer,
    range: Range<u64>,
) -> Result<CachedPages, TrialFailure> {
    read_flagged(file, buffer, range.start)?;
    left_in_the_end(file, &range)
}

/// Fills the whole buffer by reads with `RWF_DONTCACHE`, and reads no further.
fn read_flagged(file: &File, buffer: &mut Buffer, start: u64) -> Result<(), TrialFailure> {
    let reader = reopen(file, OFlags::RDONLY).map_err(no_trial)?;
    // Kernel read-ahead would add pages beyond the range.
    rustix::fs::fadvise(&reader, 0, None, Advice::Random).map_err(no_trial)?;
    let length = buffer.bytes().len();
    let mut done = 0;
    while done < length {
        let mut slices = [IoSliceMut::new(&mut buffer.bytes_mut()[done..])];
        let offset = start + done as u64;
        match uninterrupted(|| {
            rustix::io::preadv2(&reader, &mut slices, offset, dio_sys::RWF_DONTCACHE)
        }) {
            Ok(0) => return Err(TrialFailure::NoTrial("it ended early".to_owned())),
            Ok(count) => done += count,
            Err(error) => return Err(TrialFailure::Refused(error.into())),
        }
    }
    Ok(())
}

/// Writes new data after the end of the file.
fn uncached_new(file: &File, buffer: &Buffer) -> Result<CachedPages, TrialFailure> {
    let start = residency::length_of(file)?.next_multiple_of(SPAN);
    write_flagged(file, buffer, start, dio_sys::RWF_DONTCACHE)?;
    file.sync_all().map_err(no_trial)?;
    left_in_the_end(file, &(start..start + SPAN))
}

/// Overwrites the start of the file, which is read into the cache first if `cached`.
fn uncached_overwrite(
    file: &File,
    buffer: &mut Buffer,
    cached: bool,
) -> Result<CachedPages, TrialFailure> {
    // If the flag is refused, that is the answer, independently of the cache.
    write_flagged(file, buffer, 0, dio_sys::RWF_DONTCACHE)?;
    prepare_cold(file, buffer, 0..SPAN)?;
    if cached {
        file.read_exact_at(buffer.bytes_mut(), 0).map_err(no_trial)?;
    }
    write_flagged(file, buffer, 0, dio_sys::RWF_DONTCACHE)?;
    file.sync_all().map_err(no_trial)?;
    left_in_the_end(file, &(0..SPAN))
}

fn write_flagged(
    file: &File,
    buffer: &Buffer,
    start: u64,
    flags: ReadWriteFlags,
) -> Result<(), TrialFailure> {
    let mut done = 0;
    while done < buffer.bytes().len() {
        let slices = [IoSlice::new(&buffer.bytes()[done..])];
        match uninterrupted(|| rustix::io::pwritev2(file, &slices, start + done as u64, flags)) {
            Ok(count) => done += count,
            Err(error) => return Err(TrialFailure::Refused(error.into())),
        }
    }
    Ok(())
}

fn atomic_write(direct: &File, buffer: &Buffer, geometry: Option<&Geometry>) -> Answer {
    let unit = geometry.map_or(4096, |geometry| match geometry.atomic() {
        Some(atomic) => atomic.unit_min,
        None => geometry.block().max(geometry.offset_align()),
    });
    let unit = unit.min(SPAN) as usize;
    let slices = [IoSlice::new(&buffer.bytes()[..unit])];
    match rustix::io::pwritev2(direct, &slices, 0, dio_sys::RWF_ATOMIC) {
        Ok(count) if count == unit => Answer::Yes,
        Ok(count) => Answer::No(format!("{count} of {unit} bytes were written")),
        Err(error) => Answer::No(words(&io::Error::from(error))),
    }
}

/// Writes `range` to the disk, and removes its pages from the cache.
fn prepare_cold(file: &File, buffer: &Buffer, range: Range<u64>) -> Result<(), TrialFailure> {
    file.write_all_at(buffer.bytes(), range.start).map_err(no_trial)?;
    file.sync_all().map_err(no_trial)?;
    residency::evict(file, range.clone())?;
    match residency::resident_in(file, range)? {
        0 => Ok(()),
        _ => Err(TrialFailure::NoTrial("its pages cannot be evicted".to_owned())),
    }
}

/// Finds a range of up to [`SPAN`] bytes of a file that is not in the cache, aligned for direct
/// reads and to pages.
fn cold_range(file: &File, geometry: Option<&Geometry>) -> Result<Range<u64>, TrialFailure> {
    let page_size = rustix::param::page_size() as u64;
    let align = geometry.map_or(page_size, |geometry| geometry.read_offset_align().max(page_size));
    let length = align_down(residency::length_of(file)?, align);
    if length == 0 {
        return Err(TrialFailure::NoTrial("it is shorter than one block".to_owned()));
    }
    let stride = align_up(length.div_ceil(PLACES), align);
    for start in (0..length).step_by(stride as usize) {
        let range = start..(start + SPAN.max(align)).min(length);
        if residency::resident_in(file, range.clone())? == 0 {
            return Ok(range);
        }
    }
    let reason = "the places looked at are all in the cache, where reading proves nothing";
    Err(TrialFailure::NoTrial(reason.to_owned()))
}

//! The segments of a log as files that are open for reading.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dio::FileError;
use dio::block::Pool;
use rustix::io::Errno;

use crate::error::WalError;
use crate::format::{
    BLOCK_BYTES_MIN, HeaderFault, Identity, Layout, Lsn, MARK_BYTES, SEGMENT_HEADER_BYTES, SegmentHeader, segment_name,
    segment_number, segment_of_mark,
};
use crate::storage::{SegmentFile, Storage};

/// Segments kept open at once; older ones are closed first.
const MOST_OPEN: usize = 16;

/// The segments of one log.
pub(crate) struct Segments {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) layout: Layout,
    pub(crate) identity: Identity,
    /// What checksums begin with.
    pub(crate) tag: u32,
    /// Whether files are opened for writing too.
    write: bool,
    /// What the disk could not read is passed over, as zeros, and written down here: by name and offset, how many bytes.
    unreadable: Option<Mutex<BTreeMap<(String, u64), u64>>>,
    /// Headers that cannot be believed are passed over, and written down here by number: what they should say is known, and
    /// records say themselves of which log and place they are.
    headers: Option<Mutex<BTreeMap<u64, HeaderFault>>>,
    open: Mutex<BTreeMap<u64, Arc<dyn SegmentFile>>>,
}

impl Segments {
    /// The segments of the log whose segment `header` is one of.
    pub(crate) fn new(storage: Arc<dyn Storage>, header: &SegmentHeader, write: bool) -> Segments {
        Segments {
            storage,
            layout: header.layout,
            identity: header.identity,
            tag: header.identity.checksum_seed(),
            write,
            unreadable: None,
            headers: None,
            open: Mutex::default(),
        }
    }

    /// The same for reading, whatever headers say.
    pub(crate) fn lenient(storage: Arc<dyn Storage>, header: &SegmentHeader) -> Segments {
        Segments { headers: Some(Mutex::default()), ..Segments::new(storage, header, false) }
    }

    /// The same for reading what can be read, whatever headers say and the disk has lost.
    pub(crate) fn patient(storage: Arc<dyn Storage>, header: &SegmentHeader) -> Segments {
        Segments { unreadable: Some(Mutex::default()), ..Segments::lenient(storage, header) }
    }

    /// Writes down segments of a directory whose numbers no log with this layout can reach.
    pub(crate) fn pass_over_impossible(&self, listing: &Listing) {
        let Some(headers) = &self.headers else { return };
        let mut headers = headers.lock().unwrap_or_else(PoisonError::into_inner);
        for number in listing.segments.iter().filter(|number| !self.layout.is_segment_possible(**number)) {
            headers.insert(*number, HeaderFault::FirstLsn);
        }
    }

    /// Headers that were passed over so far, in order.
    pub(crate) fn bad_headers(&self) -> Vec<BadHeader> {
        let Some(headers) = &self.headers else { return Vec::new() };
        let headers = headers.lock().unwrap_or_else(PoisonError::into_inner);
        let each = headers.iter().map(|(number, fault)| BadHeader {
            segment: segment_name(*number),
            first: Lsn(number.saturating_mul(self.layout.data_bytes())),
            fault: fault.clone(),
        });
        each.collect()
    }

    /// Places that the disk could not read, in order, none touching the next.
    pub(crate) fn unreadable(&self) -> Vec<Unreadable> {
        let mut all: Vec<Unreadable> = Vec::new();
        let Some(places) = &self.unreadable else { return all };
        for ((segment, offset), length) in &*places.lock().unwrap_or_else(PoisonError::into_inner) {
            match all.last_mut().filter(|last| last.segment == *segment && last.offset + last.length >= *offset) {
                Some(last) => last.length = last.length.max(offset + length - last.offset),
                None => all.push(Unreadable { segment: segment.clone(), offset: *offset, length: *length }),
            }
        }
        all
    }

    /// Reads whole blocks of a segment; fewer than asked only at the end of the file.
    ///
    /// # Errors
    /// The storage's, but for what is passed over.
    pub(crate) fn read(&self, file: &dyn SegmentFile, number: u64, out: &mut [u8], offset: u64) -> io::Result<usize> {
        let refused = match file.read_at(out, offset) {
            Err(error) if self.unreadable.is_some() && is_lost(&error) => error,
            outcome => return outcome,
        };
        let block = self.layout.block_bytes() as usize;
        if out.len() <= block {
            if offset >= file.size()? {
                return Err(refused);
            }
            self.pass_over(number, offset);
            out.fill(0);
            return Ok(out.len());
        }
        // By halves, so that what can be read is read in few steps.
        let half = out.len() / block / 2 * block;
        let (first, second) = out.split_at_mut(half.max(block));
        let count = self.read(file, number, first, offset)?;
        if count < first.len() {
            return Ok(count);
        }
        Ok(count + self.read(file, number, second, offset + count as u64)?)
    }

    /// Writes a block down.
    fn pass_over(&self, number: u64, offset: u64) {
        if let Some(places) = &self.unreadable {
            let mut places = places.lock().unwrap_or_else(PoisonError::into_inner);
            places.insert((segment_name(number), offset), self.layout.block_bytes());
        }
    }

    /// An open segment; `None` when there is none of this number.
    ///
    /// # Errors
    /// The storage's; [`WalError::Header`] when the file is not that segment.
    pub(crate) fn get(&self, number: u64) -> Result<Option<Arc<dyn SegmentFile>>, WalError> {
        if let Some(file) = self.lock().get(&number) {
            return Ok(Some(Arc::clone(file)));
        }
        let name = segment_name(number);
        let file = match self.storage.open(&name, self.write) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(WalError::io("open", &name, None, error)),
        };
        if let Some(fault) = self.fault(&*file, number)? {
            // One that was truncated since it was opened may be another segment by now. Its name never comes back.
            match self.storage.open(&name, false) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                _ => {}
            }
            match &self.headers {
                Some(headers) => {
                    headers.lock().unwrap_or_else(PoisonError::into_inner).insert(number, fault);
                }
                None => return Err(WalError::Header { segment: name, fault }),
            }
        }
        let mut open = self.lock();
        let file = Arc::clone(open.entry(number).or_insert(file));
        while open.len() > MOST_OPEN {
            open.pop_first();
        }
        Ok(Some(file))
    }

    /// What is wrong with the header of a segment, if anything is.
    ///
    /// # Errors
    /// The storage's, but for what is passed over.
    fn fault(&self, file: &dyn SegmentFile, number: u64) -> Result<Option<HeaderFault>, WalError> {
        let header = match read_header(file, &segment_name(number)) {
            Err(WalError::Io { source, .. }) if self.unreadable.is_some() && is_lost(&source) => {
                self.pass_over(number, 0);
                return Ok(None);
            }
            Err(WalError::Header { fault, .. }) => return Ok(Some(fault)),
            header => header?,
        };
        let name = segment_name(number);
        let size = file.size().map_err(|error| WalError::io("ask the size of", &name, None, error))?;
        Ok(header.fault_as(number, size, self.identity, &self.layout))
    }

    /// Forgets open segments below `number`, whose names are about to go.
    pub(crate) fn forget_below(&self, number: u64) {
        let mut open = self.lock();
        *open = open.split_off(&number);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<dyn SegmentFile>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A part of a segment's file that the disk could not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// The name of the segment.
    pub segment: String,
    /// Where in its file, in bytes.
    pub offset: u64,
    /// How many bytes, whole blocks of the log.
    pub length: u64,
}

/// A segment whose header cannot be believed, and was passed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadHeader {
    /// The name of the segment.
    pub segment: String,
    /// The place in the log that a segment of this name begins with.
    pub first: Lsn,
    /// What is wrong.
    pub fault: HeaderFault,
}

/// Whether an error says that bytes are lost: the numbers that a medium, its protection or its checksums answer with (kernel,
/// `blk_errors`), and no other place is the worse for it.
pub(crate) fn is_lost(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error).or_else(|| Some(error.get_ref()?.downcast_ref::<FileError>()?.errno()));
    matches!(errno, Some(Errno::IO | Errno::NODATA | Errno::ILSEQ | Errno::REMOTEIO | Errno::BADMSG))
}

/// Reads the header of a segment.
///
/// # Errors
/// The storage's; [`WalError::Header`].
pub(crate) fn read_header(file: &dyn SegmentFile, name: &str) -> Result<SegmentHeader, WalError> {
    let mut bytes = [0; SEGMENT_HEADER_BYTES];
    let count = file.read_at(&mut bytes, 0).map_err(|error| WalError::io("read", name, Some(0), error))?;
    let header = SegmentHeader::decode(&bytes[..count]);
    header.map_err(|fault| WalError::Header { segment: name.to_owned(), fault })
}

/// What a directory holds.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// Numbers of the segments, in order.
    pub(crate) segments: Vec<u64>,
    /// Names of files that wait to become segments again.
    pub(crate) spares: Vec<String>,
    /// Names of segments that were not finished.
    pub(crate) unfinished: Vec<String>,
}

/// The end of a spare file's name.
const SPARE: &str = ".spare";
/// The end of the name of a segment that is being made.
const UNFINISHED: &str = ".new";

/// The name of segment `number` while it is made.
pub(crate) fn unfinished_name(number: u64) -> String {
    segment_name(number) + UNFINISHED
}

/// The name of segment `number` when it is no longer needed.
pub(crate) fn spare_name(number: u64) -> String {
    segment_name(number) + SPARE
}

impl Listing {
    /// Looks.
    ///
    /// # Errors
    /// The storage's.
    pub(crate) fn of(storage: &dyn Storage) -> Result<Listing, WalError> {
        let mut listing = Listing::default();
        for name in storage.list().map_err(|error| WalError::io("list", ".", None, error))? {
            let stem = |end| name.strip_suffix(end).and_then(segment_number);
            if let Some(number) = segment_number(&name) {
                listing.segments.push(number);
            } else if stem(SPARE).is_some() {
                listing.spares.push(name);
            } else if stem(UNFINISHED).is_some() {
                listing.unfinished.push(name);
            }
        }
        listing.segments.sort_unstable();
        listing.spares.sort_unstable();
        Ok(listing)
    }

    /// Leaves out what no log with this layout can have.
    pub(crate) fn within(mut self, layout: &Layout) -> Listing {
        self.segments.retain(|number| layout.is_segment_possible(*number));
        self
    }

    /// The first of the segments that follow each other without a gap up to the last one. What lies before a gap was
    /// truncated, and its removal got lost in a power cut; or else the segments in the gap are missing, which the marks
    /// behind it tell.
    pub(crate) fn first_of_run(&self) -> Option<u64> {
        let mut first = *self.segments.last()?;
        for number in self.segments.iter().rev().skip(1) {
            if number + 1 != first {
                break;
            }
            first = *number;
        }
        Some(first)
    }
}

/// The log that the last segment of a directory belongs to.
///
/// # Errors
/// The storage's; [`WalError::Header`].
pub(crate) fn identify(storage: &dyn Storage, last: u64) -> Result<SegmentHeader, WalError> {
    let name = segment_name(last);
    let file = storage.open(&name, false).map_err(|error| WalError::io("open", &name, None, error))?;
    let header = read_header(&*file, &name)?;
    if header.number != last {
        return Err(WalError::Header { segment: name, fault: HeaderFault::Number(header.number) });
    }
    if !header.layout.is_segment_possible(last) {
        return Err(WalError::Header { segment: name, fault: HeaderFault::FirstLsn });
    }
    Ok(header)
}

/// The log that most segments of a directory belong to by their headers; of two with as many, that of the newest. Where no
/// header can be believed, the log of the marks in the newest segment that has any.
///
/// # Errors
/// The storage's; [`io::ErrorKind::NotFound`] when there are no segments; where nothing tells, what is wrong with the newest.
pub(crate) fn identify_most(storage: &dyn Storage, listing: &Listing) -> Result<SegmentHeader, WalError> {
    let last = *listing.segments.last().ok_or_else(WalError::no_segments)?;
    // With the first of each log, which is the newest.
    let mut logs: Vec<(usize, SegmentHeader)> = Vec::new();
    for number in listing.segments.iter().rev() {
        let Some(header) = told(identify(storage, *number))? else { continue };
        let same = |(_, other): &&mut (usize, SegmentHeader)| {
            (other.identity, other.layout) == (header.identity, header.layout)
        };
        match logs.iter_mut().find(same) {
            Some((count, _)) => *count += 1,
            None => logs.push((1, header)),
        }
    }
    let most = logs.iter().map(|(count, _)| *count).max();
    if let Some((_, header)) = logs.into_iter().find(|(count, _)| Some(*count) == most) {
        return Ok(header);
    }
    for number in listing.segments.iter().rev() {
        if let Some(header) = told(identify_by_marks(storage, *number))?.flatten() {
            return Ok(header);
        }
    }
    identify(storage, last)
}

/// What can be told of a segment: nothing of one whose header is damaged or lost, or that is gone by now.
fn told<T>(found: Result<T, WalError>) -> Result<Option<T>, WalError> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(WalError::Header { .. }) => Ok(None),
        Err(WalError::Io { source, .. }) if is_lost(&source) || source.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Bytes in which [`identify_by_marks`] looks for a mark at a time.
const LOOK: u64 = 1 << 20;

/// The header that segment `number` should have, by its first sound mark: that names the log, its place in the file and its LSN
/// the block.
fn identify_by_marks(storage: &dyn Storage, number: u64) -> Result<Option<SegmentHeader>, WalError> {
    let name = segment_name(number);
    let file = storage.open(&name, false).map_err(|error| WalError::io("open", &name, None, error))?;
    let size = file.size().map_err(|error| WalError::io("ask the size of", &name, None, error))?;
    let pool = Pool::new(LOOK as usize, 1).map_err(|error| WalError::io("map memory for", ".", None, error))?;
    let mut memory = pool.try_take().expect("a new pool has its block");
    let step = u64::from(BLOCK_BYTES_MIN);
    for start in (0..size).step_by(LOOK as usize) {
        let length = LOOK.min(size - start) as usize;
        let bytes = &mut memory.bytes_mut()[..length];
        let read = file.read_at(bytes, start).map_err(|error| WalError::io("read", &name, Some(start), error))?;
        for at in (0..read as u64).step_by(step as usize).filter(|at| start + at > 0) {
            let Some(found) = bytes[at as usize..read].first_chunk::<MARK_BYTES>() else { break };
            if let Some(header) = segment_of_mark(found, number, size, start + at) {
                return Ok(Some(header));
            }
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_run_ends_with_the_last_segment() {
        let run = |segments: &[u64]| Listing { segments: segments.to_vec(), ..Listing::default() }.first_of_run();
        assert_eq!(run(&[]), None);
        assert_eq!(run(&[0]), Some(0));
        assert_eq!(run(&[0, 1, 2]), Some(0));
        assert_eq!(run(&[0, 2, 3, 4]), Some(2));
        assert_eq!(run(&[3, 9]), Some(9));
    }
}

//! The segments of a log as open files.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::damage::{BadHeader, UnreadableRange};
use crate::error::WalError;
use crate::format::{HeaderFault, Identity, Layout, Lsn, SegmentHeader, segment_name};
use crate::listing::Listing;
use crate::segment_header::{is_medium_error, read_header};
use crate::storage::{SegmentFile, Storage};

/// Segments that are kept open at a time. The oldest ones are closed first.
const OPEN_FILES_MAX: usize = 16;

/// Faults of headers by the number of the segment, and the numbers in the order in which the faults
/// were met.
#[derive(Default)]
struct BadHeaders {
    faults: BTreeMap<u64, HeaderFault>,
    met: Vec<u64>,
}

impl BadHeaders {
    fn note(&mut self, number: u64, fault: HeaderFault) {
        if self.faults.insert(number, fault).is_none() {
            self.met.push(number);
        }
    }
}

/// The segments of one log.
pub(crate) struct Segments {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) layout: Layout,
    pub(crate) identity: Identity,
    /// The value that all record checksums are continued from.
    pub(crate) checksum_seed: u32,
    /// Whether files are opened for writing too.
    write: bool,
    /// Lengths of the ranges that the disk could not read, by name and offset. With `Some`, such
    /// ranges read as zeros; with `None`, they are errors.
    unreadable: Option<Mutex<BTreeMap<(String, u64), u64>>>,
    /// Faults of headers, by the number of the segment. With `Some`, such headers are ignored; with
    /// `None`, they are errors. Ignoring them is safe, because the name of a segment says what its
    /// header must contain, and every record says itself which log and LSN it belongs to.
    bad_headers: Option<Mutex<BadHeaders>>,
    open: Mutex<BTreeMap<u64, Arc<dyn SegmentFile>>>,
}

impl Segments {
    /// The segments of the log that a segment with `header` belongs to.
    pub(crate) fn new(storage: Arc<dyn Storage>, header: &SegmentHeader, write: bool) -> Segments {
        Segments {
            storage,
            layout: header.layout,
            identity: header.identity,
            checksum_seed: header.identity.checksum_seed(),
            write,
            unreadable: None,
            bad_headers: None,
            open: Mutex::default(),
        }
    }

    /// As [`Segments::new`], for reading; wrong headers are ignored.
    pub(crate) fn ignoring_headers(storage: Arc<dyn Storage>, header: &SegmentHeader) -> Segments {
        Segments { bad_headers: Some(Mutex::default()), ..Segments::new(storage, header, false) }
    }

    /// As [`Segments::new`], for reading; wrong headers are ignored, and what the disk cannot read
    /// reads as zeros.
    pub(crate) fn ignoring_damage(storage: Arc<dyn Storage>, header: &SegmentHeader) -> Segments {
        Segments {
            unreadable: Some(Mutex::default()),
            ..Segments::ignoring_headers(storage, header)
        }
    }

    /// Records a bad header for every segment of a directory whose number is beyond what a log with
    /// this layout can reach.
    pub(crate) fn note_impossible(&self, listing: &Listing) {
        let Some(bad_headers) = &self.bad_headers else { return };
        let mut bad_headers = bad_headers.lock();
        for number in
            listing.segments.iter().filter(|number| !self.layout.is_segment_possible(**number))
        {
            bad_headers.note(*number, HeaderFault::FirstLsn);
        }
    }

    /// The headers that were ignored so far, in the order of the segments.
    pub(crate) fn bad_headers(&self) -> Vec<BadHeader> {
        let Some(bad_headers) = &self.bad_headers else { return Vec::new() };
        let bad_headers = bad_headers.lock();
        bad_headers.faults.iter().map(|(number, fault)| self.bad_header(*number, fault)).collect()
    }

    /// The headers that were ignored so far without the first `count` of them, in the order in
    /// which they were met.
    pub(crate) fn bad_headers_since(&self, count: usize) -> Vec<BadHeader> {
        let Some(bad_headers) = &self.bad_headers else { return Vec::new() };
        let bad_headers = bad_headers.lock();
        let met = bad_headers.met.get(count..).unwrap_or_default();
        met.iter().map(|number| self.bad_header(*number, &bad_headers.faults[number])).collect()
    }

    fn bad_header(&self, number: u64, fault: &HeaderFault) -> BadHeader {
        let first = Lsn(number.saturating_mul(self.layout.data_bytes()));
        BadHeader { segment: segment_name(number), first, fault: fault.clone() }
    }

    /// The ranges that the disk could not read so far, in order. Adjacent ranges are joined.
    pub(crate) fn unreadable(&self) -> Vec<UnreadableRange> {
        let mut joined: Vec<UnreadableRange> = Vec::new();
        let Some(ranges) = &self.unreadable else { return joined };
        for ((segment, offset), length) in &*ranges.lock() {
            match joined
                .last_mut()
                .filter(|last| last.segment == *segment && last.offset + last.length >= *offset)
            {
                Some(last) => last.length = last.length.max(offset + length - last.offset),
                None => joined.push(UnreadableRange {
                    segment: segment.clone(),
                    offset: *offset,
                    length: *length,
                }),
            }
        }
        joined
    }

    /// Reads whole blocks of a segment into all of `out`, or up to the end of the file.
    ///
    /// # Errors
    /// Errors of the storage, except for ranges that count as unreadable.
    pub(crate) fn read(
        &self,
        file: &dyn SegmentFile,
        number: u64,
        out: &mut [u8],
        offset: u64,
    ) -> io::Result<usize> {
        let error = match file.read_at(out, offset) {
            Err(error) if self.unreadable.is_some() && is_medium_error(&error) => error,
            outcome => return outcome,
        };
        let block = self.layout.block_bytes() as usize;
        if out.len() <= block {
            if offset >= file.size()? {
                return Err(error);
            }
            self.note_unreadable(number, offset);
            out.fill(0);
            return Ok(out.len());
        }
        // Bisection finds the bad blocks of a large range in few reads.
        let half = out.len() / block / 2 * block;
        let (first, second) = out.split_at_mut(half.max(block));
        let count = self.read(file, number, first, offset)?;
        if count < first.len() {
            return Ok(count);
        }
        Ok(count + self.read(file, number, second, offset + count as u64)?)
    }

    fn note_unreadable(&self, number: u64, offset: u64) {
        if let Some(ranges) = &self.unreadable {
            ranges.lock().insert((segment_name(number), offset), self.layout.block_bytes());
        }
    }

    /// Opens a segment, unless it is open. Returns `None` if no segment has this number.
    ///
    /// # Errors
    /// Errors of the storage; [`WalError::Header`] if the file is not that segment.
    pub(crate) fn get(&self, number: u64) -> Result<Option<Arc<dyn SegmentFile>>, WalError> {
        if let Some(file) = self.open.lock().get(&number) {
            return Ok(Some(Arc::clone(file)));
        }
        let name = segment_name(number);
        let file = match self.storage.open(&name, self.write) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(WalError::io("open", &name, None, error)),
        };
        if let Some(fault) = self.header_fault(&*file, number)? {
            // A segment that was truncated after it was opened may have been reused as another
            // segment. Its old name never returns, so a missing name shows that.
            match self.storage.open(&name, false) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                _ => {}
            }
            match &self.bad_headers {
                Some(bad_headers) => {
                    bad_headers.lock().note(number, fault);
                }
                None => return Err(WalError::Header { segment: name, fault }),
            }
        }
        let mut open = self.open.lock();
        let file = Arc::clone(open.entry(number).or_insert(file));
        while open.len() > OPEN_FILES_MAX {
            open.pop_first();
        }
        Ok(Some(file))
    }

    /// The fault of the header of segment `number`, if it has one.
    ///
    /// # Errors
    /// Errors of the storage, unless the header counts as unreadable.
    fn header_fault(
        &self,
        file: &dyn SegmentFile,
        number: u64,
    ) -> Result<Option<HeaderFault>, WalError> {
        let name = segment_name(number);
        let header = match read_header(file, &name) {
            Err(WalError::Io { source, .. })
                if self.unreadable.is_some() && is_medium_error(&source) =>
            {
                self.note_unreadable(number, 0);
                return Ok(None);
            }
            Err(WalError::Header { fault, .. }) => return Ok(Some(fault)),
            header => header?,
        };
        let size =
            file.size().map_err(|error| WalError::io("ask the size of", &name, None, error))?;
        Ok(header.fault_as(number, size, self.identity, &self.layout))
    }

    /// Closes the open segments below `number`, whose names are about to be removed.
    pub(crate) fn forget_below(&self, number: u64) {
        let mut open = self.open.lock();
        *open = open.split_off(&number);
    }
}

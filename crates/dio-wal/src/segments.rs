//! The segments of a log as files that are open for reading.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dio::FileError;
use rustix::io::Errno;

use crate::error::{HeaderFault, WalError};
use crate::format::{Identity, Layout, SEGMENT_HEADER, SegmentHeader, segment_name, segment_number};
use crate::storage::{SegmentFile, Storage};

/// Segments kept open at once; older ones are closed first.
const MOST_OPEN: usize = 16;

/// No log reaches this far: places stay below 2^62, so that sums of them never wrap.
const FARTHEST: u64 = 1 << 62;

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
    open: Mutex<BTreeMap<u64, Arc<dyn SegmentFile>>>,
}

impl Segments {
    /// The segments of the log whose segment `header` is one of.
    pub(crate) fn new(storage: Arc<dyn Storage>, header: &SegmentHeader, write: bool) -> Segments {
        Segments {
            storage,
            layout: header.layout,
            identity: header.identity,
            tag: header.identity.tag(),
            write,
            unreadable: None,
            open: Mutex::default(),
        }
    }

    /// The same for reading what can be read, whatever the disk has lost.
    pub(crate) fn patient(storage: Arc<dyn Storage>, header: &SegmentHeader) -> Segments {
        Segments { unreadable: Some(Mutex::default()), ..Segments::new(storage, header, false) }
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
        let block = self.layout.block() as usize;
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
            places.insert((segment_name(number), offset), self.layout.block());
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
        let header = match read_header(&*file, &name) {
            Err(WalError::Io { source, .. }) if self.unreadable.is_some() && is_lost(&source) => {
                self.pass_over(number, 0);
                // Its records say themselves of which log and place they are.
                SegmentHeader { layout: self.layout, identity: self.identity, number }
            }
            header => header?,
        };
        let fault = |fault| Err(WalError::Header { segment: name.clone(), fault });
        if header.identity != self.identity {
            return fault(HeaderFault::Foreign(header.identity));
        }
        if header.layout != self.layout {
            return fault(HeaderFault::Differs);
        }
        if header.number != number {
            return fault(HeaderFault::Number(header.number));
        }
        if self.write {
            // Written space is what commits rely on; no power cut leaves a segment without it.
            let size = file.size().map_err(|error| WalError::io("ask the size of", &name, None, error))?;
            if size != self.layout.segment() {
                return fault(HeaderFault::Length(size));
            }
        }
        let mut open = self.lock();
        let file = Arc::clone(open.entry(number).or_insert(file));
        while open.len() > MOST_OPEN {
            open.pop_first();
        }
        Ok(Some(file))
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
    let mut bytes = [0; SEGMENT_HEADER];
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
        self.segments.retain(|number| *number < FARTHEST / layout.data());
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
    if last >= FARTHEST / header.layout.data() {
        return Err(WalError::Header { segment: name, fault: HeaderFault::Place });
    }
    Ok(header)
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

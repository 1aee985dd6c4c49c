//! Reading a log: beside its writer, from another process, or when nobody has it open.

use std::path::Path;
use std::sync::Arc;

use crate::cursor::{Cursor, Fault, Read};
use crate::error::WalError;
use crate::format::{Identity, Layout, Lsn, Mark, RecordHeader};
use crate::log::Shared;
use crate::recovery::{REACH, begin, check_end};
use crate::salvage::{Gap, next_sound};
use crate::segments::{BadHeader, Listing, Segments, identify, identify_most};
use crate::storage::{Directory, Method, Storage};

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its place.
    pub lsn: Lsn,
    /// What was appended.
    pub data: &'a [u8],
}

/// A record or a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Its place.
    pub lsn: Lsn,
    /// Where it ends.
    pub end: Lsn,
    /// Bytes of payload.
    pub length: u32,
    /// Its checksum, which was found right.
    pub crc: u32,
    /// Checksum of the one before.
    pub previous: u32,
    /// What it says, if it is a mark.
    pub mark: Option<Mark>,
    /// The payload.
    pub payload: &'a [u8],
}

/// Reads records in order.
///
/// Reading begins at the last mark before the place asked for of which it is sure that the log goes through it, a group or
/// two before.
///
/// From [`crate::Log::reader`] it returns what is durable, and nothing that is not. From [`Reader::open`] it belongs to
/// another process than the writer, or to none, and returns what is whole: the last records may not be durable yet.
pub struct Reader {
    cursor: Cursor,
    segments: Arc<Segments>,
    /// The log beside whose writer this reads.
    live: Option<Arc<Shared>>,
    /// Records below are passed over.
    from: u64,
    /// The highest place of which a mark says that the log was durable up to it.
    known: u64,
    /// Where the last segment ends that was there when this was opened.
    listed: u64,
    /// Where the log itself could be read from on: 0, or the first mark of its first segment.
    begins: u64,
}

/// How far a log reaches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Records below were truncated, as far as the marks say that could be read.
    pub start: Lsn,
    /// Where the last record ends.
    pub end: Lsn,
    /// Up to here the log says that it was durable.
    pub known_durable: Lsn,
}

impl Reader {
    pub(crate) fn live(shared: &Arc<Shared>, from: Lsn) -> Result<Reader, WalError> {
        let durable = shared.durable();
        let (start, mark) = {
            let tail = shared.tail();
            (tail.start(), tail.mark_before(from.0))
        };
        if from.0 < start {
            return Err(WalError::Truncated { lsn: from, start: Lsn(start) });
        }
        let segments = Arc::clone(&shared.segments);
        let mut cursor = Cursor::new(&segments, mark, None, REACH)?;
        let mark = cursor.find_mark_before(from.0.min(durable), mark, durable)?.unwrap_or(mark);
        // In a log without records there is no mark at 0 yet, and the chain begins with 0.
        cursor.seek(mark, if mark == 0 { Some(0) } else { None });
        Ok(Reader {
            cursor,
            segments,
            live: Some(Arc::clone(shared)),
            from: from.0,
            known: 0,
            listed: u64::MAX,
            begins: 0,
        })
    }

    /// Opens the log in a directory for reading, whether somebody writes to it or not. Records from `from` on are returned;
    /// of truncated ones those may be there that share a segment with others.
    ///
    /// # Errors
    /// The storage's; [`std::io::ErrorKind::NotFound`] when there are no segments; [`WalError::Header`],
    /// [`WalError::Missing`].
    pub fn open(directory: impl AsRef<Path>, direct: bool, from: Lsn) -> Result<Reader, WalError> {
        let directory = directory.as_ref();
        let storage = Directory::open(directory, direct, Method::Fdatasync);
        let failed = |error| WalError::io("open", &directory.to_string_lossy(), None, error);
        Reader::open_on(Arc::new(storage.map_err(failed)?), from)
    }

    /// As [`Reader::open`], on any storage.
    ///
    /// # Errors
    /// As [`Reader::open`].
    pub fn open_on(storage: Arc<dyn Storage>, from: Lsn) -> Result<Reader, WalError> {
        let listing = Listing::of(&*storage)?;
        let header = identify(&*storage, *listing.segments.last().ok_or_else(WalError::no_segments)?)?;
        Reader::begin(Arc::new(Segments::new(storage, &header, false)), &listing, from)
    }

    /// As [`Reader::open_on`], of a log whose headers may be damaged, or of another log or place. They are passed over: the log
    /// is that of most segments, what is sound in the others is read all the same, and [`Reader::bad_headers`] names them.
    ///
    /// # Errors
    /// As [`Reader::open_on`]; [`WalError::Header`] only where no header and no mark can be believed.
    pub fn open_damaged_on(storage: Arc<dyn Storage>, from: Lsn) -> Result<Reader, WalError> {
        let listing = Listing::of(&*storage)?;
        let (segments, listing) = lenient(storage, listing)?;
        Reader::begin(segments, &listing, from)
    }

    fn begin(segments: Arc<Segments>, listing: &Listing, from: Lsn) -> Result<Reader, WalError> {
        let last = *listing.segments.last().ok_or_else(WalError::no_segments)?;
        let mut cursor = Cursor::new(&segments, 0, None, REACH)?;
        begin(&mut cursor, &segments, listing.first_of_run().ok_or_else(WalError::no_segments)?)?;
        let begins = cursor.position();
        let within = from.0.min(segments.layout.segment_start(last + 1) - 1);
        if let Some(mark) = cursor.find_mark_before(within, begins, 0)? {
            cursor.seek(mark, None);
        } else {
            begin(&mut cursor, &segments, listing.first_of_run().ok_or_else(WalError::no_segments)?)?;
        }
        let listed = segments.layout.segment_start(last + 1);
        Ok(Reader { cursor, segments, live: None, from: from.0, known: 0, listed, begins })
    }

    /// As [`Reader::open_damaged_on`], of a log whose first segment holds no mark, of which that says that one before it is
    /// missing.
    pub(crate) fn at_first_segment(storage: Arc<dyn Storage>) -> Result<Reader, WalError> {
        let listing = Listing::of(&*storage)?;
        let (segments, listing) = lenient(storage, listing)?;
        let first = segments.layout.segment_start(listing.first_of_run().ok_or_else(WalError::no_segments)?);
        let listed = segments.layout.segment_start(listing.segments.last().ok_or_else(WalError::no_segments)? + 1);
        let cursor = Cursor::new(&segments, first, None, REACH)?;
        Ok(Reader { cursor, segments, live: None, from: 0, known: 0, listed, begins: first })
    }

    /// Who the log is.
    pub fn identity(&self) -> Identity {
        self.segments.identity
    }

    /// Sizes of the log.
    pub fn layout(&self) -> Layout {
        self.segments.layout
    }

    /// Where the next record is looked for.
    pub fn position(&self) -> Lsn {
        Lsn(self.cursor.position())
    }

    /// Where the last segment ended that the log had when this reader was opened from another process than the writer's. A
    /// reader that stops there comes to an end even if the writer is faster.
    pub fn listed_end(&self) -> Lsn {
        Lsn(self.listed)
    }

    /// How far the log reaches now, of which a writer may be writing more: from the last mark on, which is near the end, to no
    /// further than the last segment that is there at first.
    ///
    /// # Errors
    /// As [`Reader::open_on`].
    pub fn bounds(&self) -> Result<Bounds, WalError> {
        let listing = Listing::of(&*self.segments.storage)?.within(&self.segments.layout);
        let mut last = Reader::begin(Arc::clone(&self.segments), &listing, Lsn(u64::MAX))?;
        let mut bounds = Bounds { end: last.position(), ..Bounds::default() };
        while let Some(read) = last.cursor.next()?.filter(|read| read.header.lsn < last.listed) {
            bounds.end = Lsn(read.header.end());
            let (start, durable) = read.mark.map_or((0, 0), |mark| (mark.start, mark.durable));
            bounds.start = bounds.start.max(Lsn(start));
            bounds.known_durable = bounds.known_durable.max(Lsn(durable));
        }
        Ok(bounds)
    }

    /// What is missing of the log before the place where it can be read from on: the marks do not say that it was truncated.
    /// It is no part of what [`Reader::check_end`] looks at.
    ///
    /// # Errors
    /// As [`Reader::bounds`].
    pub fn lost_beginning(&self) -> Result<Option<Gap>, WalError> {
        if self.begins == 0 {
            return Ok(None);
        }
        let start = self.bounds()?.start.0;
        Ok((start < self.begins).then(|| Gap::new(&self.segments.layout, start, self.begins)))
    }

    /// Up to here the marks that were read say that the log was durable. From another process than the writer's this is all
    /// that can be known: what is behind may not be there after a power cut.
    pub fn known_durable(&self) -> Lsn {
        Lsn(self.known)
    }

    /// Segments whose headers [`Reader::open_damaged_on`] has passed over so far, in order. What is read ahead is among them.
    pub fn bad_headers(&self) -> Vec<BadHeader> {
        self.segments.bad_headers()
    }

    /// The next record; `None` when there is none yet. It may be called again later.
    ///
    /// # Errors
    /// The storage's; beside the writer [`WalError::Truncated`] and [`WalError::Damaged`], which a reader of its own finds
    /// by [`Reader::check_end`].
    #[expect(clippy::should_implement_trait, reason = "it lends, and None is not the end of it")]
    pub fn next(&mut self) -> Result<Option<Record<'_>>, WalError> {
        loop {
            match self.step()? {
                Some(read) if read.mark.is_some() => {}
                Some(read) => return Ok(Some(Record { lsn: Lsn(read.header.lsn), data: self.cursor.payload() })),
                None => return Ok(None),
            }
        }
    }

    /// As [`Reader::next`], with what the log itself writes between the records.
    ///
    /// # Errors
    /// As [`Reader::next`].
    pub fn next_entry(&mut self) -> Result<Option<Entry<'_>>, WalError> {
        let read = self.step()?;
        Ok(read.map(|read| {
            let RecordHeader { crc, previous_crc: previous, lsn, payload_bytes: length, .. } = read.header;
            let end = Lsn(read.header.end());
            Entry { lsn: Lsn(lsn), end, length, crc, previous, mark: read.mark, payload: self.cursor.payload() }
        }))
    }

    /// The next record or mark that is not passed over.
    fn step(&mut self) -> Result<Option<Read>, WalError> {
        let durable = self.live.as_ref().map(|shared| shared.durable());
        self.cursor.set_limit(durable.unwrap_or(u64::MAX));
        while let Some(read) = self.cursor.next()? {
            self.known = self.known.max(read.mark.map_or(0, |mark| mark.durable));
            if read.header.lsn >= self.from {
                return Ok(Some(read));
            }
        }
        match (&self.live, durable) {
            (Some(shared), Some(durable)) if self.cursor.position() < durable => {
                let (lsn, mut start) = (Lsn(self.cursor.position()), Lsn(shared.tail().start()));
                if shared.is_closed() {
                    // Another opening may have truncated it since.
                    start = start.max(self.first()?);
                }
                Err(if lsn < start { WalError::Truncated { lsn, start } } else { self.cursor.damaged(lsn.0, durable) })
            }
            _ => Ok(None),
        }
    }

    /// Looks whether the place where [`Reader::next`] found nothing is the end of the log. It reads what the segments hold
    /// behind it.
    ///
    /// # Errors
    /// [`WalError::Damaged`]: it is not. [`WalError::Truncated`]: the reader was overtaken, and goes on only from a later place.
    pub fn check_end(&mut self) -> Result<(), WalError> {
        let (end, chain) = (self.cursor.position(), self.cursor.chain());
        let start = self.first()?;
        if end < start.0 {
            return Err(WalError::Truncated { lsn: Lsn(end), start });
        }
        let outcome = check_end(&mut self.cursor, end);
        if !matches!(outcome, Err(WalError::Damaged { .. })) {
            return outcome;
        }
        // A writer may have gone on while the rest was looked at.
        let goes_on = self.cursor.next()?.is_some();
        self.cursor.seek(end, chain);
        if goes_on { Ok(()) } else { outcome }
    }

    /// Where the first segment begins that is there.
    fn first(&self) -> Result<Lsn, WalError> {
        let listing = Listing::of(&*self.segments.storage)?.within(&self.segments.layout);
        Ok(Lsn(self.segments.layout.segment_start(listing.first_of_run().unwrap_or(0))))
    }

    /// Why [`Reader::next`] found nothing at [`Reader::position`].
    ///
    /// # Errors
    /// The storage's; a segment that is not one.
    pub fn diagnose(&mut self) -> Result<Fault, WalError> {
        let (at, chain) = (self.cursor.position(), self.cursor.chain());
        let fault = self.cursor.diagnose(at, chain);
        self.cursor.seek(at, chain);
        fault
    }

    /// Passes over damage: goes on with what is sound behind the place where [`Reader::next`] found nothing, and returns what
    /// lies between. `None` when there is nothing of which it is known that it was durable: that place is the end.
    ///
    /// # Errors
    /// The storage's.
    pub fn pass_damage(&mut self) -> Result<Option<Gap>, WalError> {
        let (at, chain) = (self.cursor.position(), self.cursor.chain());
        let listing = Listing::of(&*self.segments.storage)?.within(&self.segments.layout);
        self.cursor.set_limit(u64::MAX);
        let Some(to) = next_sound(&mut self.cursor, &self.segments, &listing, at)? else {
            self.cursor.seek(at, chain);
            return Ok(None);
        };
        self.cursor.seek(to, None);
        Ok(Some(Gap::new(&self.segments.layout, at, to)))
    }
}

/// The segments of the log that most of them belong to, whatever the headers of the others say.
fn lenient(storage: Arc<dyn Storage>, listing: Listing) -> Result<(Arc<Segments>, Listing), WalError> {
    let header = identify_most(&*storage, &listing)?;
    let segments = Segments::lenient(storage, &header);
    segments.pass_over_impossible(&listing);
    Ok((Arc::new(segments), listing.within(&header.layout)))
}

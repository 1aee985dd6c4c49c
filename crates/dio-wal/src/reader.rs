//! Reading a log beside its writer, from another process, or when no one has it open.

use std::path::Path;
use std::sync::Arc;

use crate::cursor::{Cursor, DecodedRecord};
use crate::damage::{BadHeader, Gap, RecordFault};
use crate::error::WalError;
use crate::format::{Identity, Layout, Lsn, RecordHeader};
use crate::identify::{identify, identify_by_majority};
use crate::listing::Listing;
use crate::live::LiveLog;
use crate::record::{LogEntry, Record};
use crate::scan::{SCAN_WINDOW_BYTES, check_end, find_mark_behind_damage, seek_to_beginning};
use crate::segments::Segments;
use crate::storage::{Directory, Method, Storage};

/// Reads records in order.
///
/// A reader from [`crate::Log::reader`] returns durable records only. A reader from
/// [`Reader::open`] is independent of the writer, which may run in another process or not at all.
/// It returns records that are complete; the last of them may not be durable yet.
///
/// To begin with `from`, a reader goes back to the last mark before it that certainly belongs to
/// the log, which is one or two groups earlier.
///
/// ```
/// use dio_wal::{Log, Lsn, Options, Reader};
/// # let directory = tempfile::tempdir()?;
/// let log = Log::open(directory.path(), &Options::new())?;
/// let first = log.append(b"one")?;
/// log.append(b"two")?;
/// log.close()?;
///
/// let mut reader = Reader::open(directory.path(), true, Lsn(0))?;
/// let record = reader.next()?.expect("the log has a record");
/// assert_eq!((record.lsn, record.data), (first, &b"one"[..]));
/// assert_eq!(reader.next()?.expect("the log has another record").data, b"two");
/// assert!(reader.next()?.is_none());
/// reader.check_end()?; // Nothing that was durable is missing.
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Reader {
    cursor: Cursor,
    segments: Arc<Segments>,
    /// The writer of the log, for a reader of the same process.
    live: Option<Arc<dyn LiveLog>>,
    /// Records below this LSN are read and not returned.
    from: u64,
    /// The highest LSN up to which a mark says that the log was durable.
    known_durable: u64,
    /// End of the last segment that existed when this reader was opened.
    listed_end: u64,
    /// LSN from which the run of segments that the reader began in can be read: LSN 0, or the run's
    /// first mark.
    beginning: u64,
}

/// How far a log reaches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogBounds {
    /// Records below this LSN were truncated, according to the marks that could be read.
    pub start: Lsn,
    /// LSN where the last record ends.
    pub end: Lsn,
    /// LSN up to which the log says that it was durable.
    pub known_durable: Lsn,
}

impl Reader {
    /// Opens a reader of a log that is open for writing in this process.
    pub(crate) fn live(
        live: Arc<dyn LiveLog>,
        segments: Arc<Segments>,
        from: Lsn,
    ) -> Result<Reader, WalError> {
        let durable = live.durable();
        let (start, mark) = live.start_and_mark_before(from.0);
        if from.0 < start {
            return Err(WalError::Truncated { lsn: from, start: Lsn(start) });
        }
        let mut cursor = Cursor::new(&segments, mark, None, SCAN_WINDOW_BYTES)?;
        let mark = cursor.find_mark_before(from.0.min(durable), mark, durable)?.unwrap_or(mark);
        // A log without records has no mark at LSN 0 yet; its chain begins with 0.
        cursor.seek(mark, if mark == 0 { Some(0) } else { None });
        let (known_durable, listed_end, beginning) = (0, u64::MAX, 0);
        Ok(Reader {
            cursor,
            segments,
            live: Some(live),
            from: from.0,
            known_durable,
            listed_end,
            beginning,
        })
    }

    /// Opens the log in a directory for reading, whether or not it is open for writing. With
    /// `direct`, it is read past the page cache where the file system supports that.
    ///
    /// The reader returns records from `from` on. Truncated records may be among them if they share
    /// a segment with others.
    ///
    /// # Errors
    /// Errors of the storage; [`std::io::ErrorKind::NotFound`] if there are no segments;
    /// [`WalError::Header`]; [`WalError::Missing`].
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
        Listing::settled(&*storage, |listing| {
            let last = listing.segments.last().ok_or_else(WalError::no_segments)?;
            let header = identify(&*storage, *last)?;
            let segments = Segments::new(Arc::clone(&storage), &header, false);
            Reader::begin(Arc::new(segments), &listing, from)
        })
    }

    /// As [`Reader::open_on`], but ignores headers of segments that are damaged, or are those of
    /// another log or segment.
    ///
    /// The log is the one that most segments belong to. The reader returns sound records of the
    /// other segments too, and [`Reader::bad_headers_since`] lists these segments.
    ///
    /// # Errors
    /// As [`Reader::open_on`]; [`WalError::Header`] only if neither a header nor a mark names a
    /// log.
    pub fn open_damaged_on(storage: Arc<dyn Storage>, from: Lsn) -> Result<Reader, WalError> {
        Listing::settled(&*storage, |listing| {
            let (segments, listing) = segments_ignoring_headers(Arc::clone(&storage), listing)?;
            Reader::begin(segments, &listing, from)
        })
    }

    /// Makes a reader that begins at the last mark before `from` that certainly belongs to the log,
    /// or at the beginning of the run of segments that `from` lies in. A run without a mark cannot
    /// be read; the reader then begins in the run before it.
    fn begin(segments: Arc<Segments>, listing: &Listing, from: Lsn) -> Result<Reader, WalError> {
        let layout = segments.layout;
        let (last, last_run) =
            listing.segments.last().zip(listing.last_run()).ok_or_else(WalError::no_segments)?;
        let mut run = listing.run_at(layout.segment_of(from.0));
        if run < last_run {
            let start = Reader::bounds_of(&segments, listing)?.start;
            run = run.max(listing.run_at(layout.segment_of(start.0)));
        }
        let mut cursor = Cursor::new(&segments, 0, None, SCAN_WINDOW_BYTES)?;
        while let Err(error) = seek_to_beginning(&mut cursor, &segments, run) {
            let before =
                listing.run_before(run).filter(|_| matches!(error, WalError::Missing { .. }));
            run = before.ok_or(error)?;
        }
        let (beginning, chain) = (cursor.position(), cursor.chain());
        let run_end = layout.segment_start(listing.first_missing(run));
        match cursor.find_mark_before(from.0.min(run_end - 1), beginning, 0)? {
            Some(mark) => cursor.seek(mark, None),
            None => cursor.seek(beginning, chain),
        }
        let listed_end = layout.segment_start(last + 1);
        Ok(Reader {
            cursor,
            segments,
            live: None,
            from: from.0,
            known_durable: 0,
            listed_end,
            beginning,
        })
    }

    /// As [`Reader::open_damaged_on`], for a log whose first segment holds no mark and whose
    /// earlier segments are missing.
    pub(crate) fn open_without_beginning(storage: Arc<dyn Storage>) -> Result<Reader, WalError> {
        let listing = Listing::of(&*storage)?;
        let (segments, listing) = segments_ignoring_headers(storage, listing)?;
        let first = listing.last_run().ok_or_else(WalError::no_segments)?;
        let last = listing.segments.last().ok_or_else(WalError::no_segments)?;
        let beginning = segments.layout.segment_start(first);
        let listed_end = segments.layout.segment_start(last + 1);
        let cursor = Cursor::new(&segments, beginning, None, SCAN_WINDOW_BYTES)?;
        Ok(Reader {
            cursor,
            segments,
            live: None,
            from: 0,
            known_durable: 0,
            listed_end,
            beginning,
        })
    }

    /// Identity of the log.
    pub fn identity(&self) -> Identity {
        self.segments.identity
    }

    /// Sizes of the log.
    pub fn layout(&self) -> Layout {
        self.segments.layout
    }

    /// LSN where the reader looks for the next record.
    pub fn position(&self) -> Lsn {
        Lsn(self.cursor.position())
    }

    /// End of the last segment that the log had when this reader was opened by [`Reader::open`] or
    /// a function like it. A reader that stops there comes to an end even if the writer is faster.
    pub fn listed_end(&self) -> Lsn {
        Lsn(self.listed_end)
    }

    /// How far the log reaches now. The search begins at the last mark, which is near the end, and
    /// ends with the last segment that exists when it begins, even if a writer goes on.
    ///
    /// # Errors
    /// As [`Reader::open_on`].
    pub fn bounds(&self) -> Result<LogBounds, WalError> {
        Listing::settled(&*self.segments.storage, |listing| {
            Reader::bounds_of(&self.segments, &listing.within(&self.segments.layout))
        })
    }

    fn bounds_of(segments: &Arc<Segments>, listing: &Listing) -> Result<LogBounds, WalError> {
        let mut last = Reader::begin(Arc::clone(segments), listing, Lsn(u64::MAX))?;
        let mut bounds = LogBounds { end: last.position(), ..LogBounds::default() };
        while let Some(record) =
            last.cursor.next()?.filter(|record| record.header.lsn < last.listed_end)
        {
            bounds.end = Lsn(record.header.end());
            let (start, durable) = record.mark.map_or((0, 0), |mark| (mark.start, mark.durable));
            bounds.start = bounds.start.max(Lsn(start));
            bounds.known_durable = bounds.known_durable.max(Lsn(durable));
        }
        Ok(bounds)
    }

    /// The part of the log between the reader's `from` and the first LSN that the reader can read,
    /// if records are missing there although no mark says that they were truncated.
    /// [`Reader::check_end`] does not look for this.
    ///
    /// # Errors
    /// As [`Reader::bounds`].
    pub fn lost_beginning(&self) -> Result<Option<Gap>, WalError> {
        if self.beginning == 0 {
            return Ok(None);
        }
        let start = self.bounds()?.start.0.max(self.from);
        Ok((start < self.beginning).then(|| Gap::new(&self.segments.layout, start, self.beginning)))
    }

    /// LSN up to which the marks read so far say that the log was durable. A reader that is
    /// independent of the writer cannot know more: a power cut may lose the records behind this
    /// LSN.
    pub fn known_durable(&self) -> Lsn {
        Lsn(self.known_durable)
    }

    /// The headers that a reader from [`Reader::open_damaged_on`] has ignored so far, without the
    /// first `count` of them, in the order in which they were met. Those of segments that were read
    /// ahead are included.
    pub fn bad_headers_since(&self, count: usize) -> Vec<BadHeader> {
        self.segments.bad_headers_since(count)
    }

    /// Returns the next record, or `None` if there is none yet. It may be called again later.
    ///
    /// # Errors
    /// Errors of the storage. A reader beside the writer also returns [`WalError::Truncated`] and
    /// [`WalError::Damaged`]; for other readers, [`Reader::check_end`] finds these.
    #[expect(
        clippy::should_implement_trait,
        reason = "the record borrows the reader, and None is not the end of it"
    )]
    pub fn next(&mut self) -> Result<Option<Record<'_>>, WalError> {
        loop {
            match self.next_from_start()? {
                Some(record) if record.mark.is_some() => {}
                Some(record) => {
                    return Ok(Some(Record {
                        lsn: Lsn(record.header.lsn),
                        data: self.cursor.payload(),
                    }));
                }
                None => return Ok(None),
            }
        }
    }

    /// Returns the next record or mark. Marks are the records that the log writes for itself.
    ///
    /// # Errors
    /// As [`Reader::next`].
    pub fn next_entry(&mut self) -> Result<Option<LogEntry<'_>>, WalError> {
        let record = self.next_from_start()?;
        Ok(record.map(|DecodedRecord { header, mark }| {
            let RecordHeader { crc, lsn, .. } = header;
            LogEntry {
                lsn: Lsn(lsn),
                end: Lsn(header.end()),
                crc,
                mark,
                payload: self.cursor.payload(),
            }
        }))
    }

    /// The next record or mark at or behind `from`.
    fn next_from_start(&mut self) -> Result<Option<DecodedRecord>, WalError> {
        let durable = self.live.as_ref().map(|live| live.durable());
        self.cursor.set_limit(durable.unwrap_or(u64::MAX));
        while let Some(record) = self.cursor.next()? {
            self.known_durable = self.known_durable.max(record.mark.map_or(0, |mark| mark.durable));
            if record.header.lsn >= self.from {
                return Ok(Some(record));
            }
        }
        match (&self.live, durable) {
            (Some(live), Some(durable)) if self.cursor.position() < durable => {
                let (lsn, mut start) = (Lsn(self.cursor.position()), Lsn(live.start()));
                if live.is_closed() {
                    // Another opening may have truncated the log since.
                    start = start.max(self.first_segment_start()?);
                }
                Err(if lsn < start {
                    WalError::Truncated { lsn, start }
                } else {
                    WalError::damaged(&self.segments.layout, lsn.0, durable)
                })
            }
            _ => Ok(None),
        }
    }

    /// Checks that the position where [`Reader::next`] found nothing is the end of the log, by
    /// reading what the segments hold behind it.
    ///
    /// # Errors
    /// [`WalError::Damaged`] if durable records are missing there; [`WalError::Missing`] if a
    /// segment is missing there, and others follow it. [`WalError::Truncated`] if truncation has
    /// overtaken the reader, which can then continue only from a later LSN.
    pub fn check_end(&mut self) -> Result<(), WalError> {
        let (end, chain) = (self.cursor.position(), self.cursor.chain());
        let (layout, listing) = (self.segments.layout, self.listing()?);
        // Number of the first missing segment between this position and the last segment, if there
        // is one.
        let is_before_gap = end < layout.segment_start(listing.last_run().unwrap_or(0));
        let missing = is_before_gap.then(|| listing.first_missing(layout.segment_of(end)));
        if let Some(missing) = missing {
            let run = listing.run_at(layout.segment_of(self.bounds()?.start.0));
            let start = layout.segment_start(run);
            if end < start {
                return Err(WalError::Truncated { lsn: Lsn(end), start: Lsn(start) });
            }
            self.cursor.set_limit(layout.segment_start(missing));
        }
        let outcome = check_end(&mut self.cursor, &self.segments, end);
        self.cursor.set_limit(u64::MAX);
        let outcome = match (outcome, missing) {
            // A writer may have made the segment while the names were read.
            (Ok(()), Some(missing)) if self.segments.get(missing)?.is_none() => {
                Err(WalError::missing(&layout, missing))
            }
            (outcome @ Err(WalError::Damaged { .. }), _) => outcome,
            (outcome, _) => return outcome,
        };
        // A writer may have appended here while the segments were read.
        let continues = self.cursor.next()?.is_some();
        self.cursor.seek(end, chain);
        if continues { Ok(()) } else { outcome }
    }

    /// The segments that exist now.
    fn listing(&self) -> Result<Listing, WalError> {
        Ok(Listing::of(&*self.segments.storage)?.within(&self.segments.layout))
    }

    /// The first LSN of the last run of segments.
    fn first_segment_start(&self) -> Result<Lsn, WalError> {
        Ok(Lsn(self.segments.layout.segment_start(self.listing()?.last_run().unwrap_or(0))))
    }

    /// Says why [`Reader::next`] found nothing at [`Reader::position`].
    ///
    /// # Errors
    /// Errors of the storage; [`WalError::Header`].
    pub fn diagnose(&mut self) -> Result<RecordFault, WalError> {
        let (position, chain) = (self.cursor.position(), self.cursor.chain());
        let fault = self.cursor.diagnose(position, chain);
        self.cursor.seek(position, chain);
        fault
    }

    /// Skips damage at the position where [`Reader::next`] found nothing: moves to the next sound
    /// record and returns what lies between. Returns `None` if nothing behind the position is known
    /// to have been durable; then the position is the end of the log.
    ///
    /// # Errors
    /// Errors of the storage.
    pub fn skip_damage(&mut self) -> Result<Option<Gap>, WalError> {
        let (position, chain) = (self.cursor.position(), self.cursor.chain());
        let listing = self.listing()?;
        self.cursor.set_limit(u64::MAX);
        let Some(mark) =
            find_mark_behind_damage(&mut self.cursor, &self.segments, &listing, position)?
        else {
            self.cursor.seek(position, chain);
            return Ok(None);
        };
        self.cursor.seek_behind_damage(mark);
        Ok(Some(Gap::new(&self.segments.layout, position, mark)))
    }
}

/// Returns the segments of the log that most of the listed segments belong to. Wrong headers of the
/// other segments are ignored.
fn segments_ignoring_headers(
    storage: Arc<dyn Storage>,
    listing: Listing,
) -> Result<(Arc<Segments>, Listing), WalError> {
    let header = identify_by_majority(&*storage, &listing)?;
    let segments = Segments::ignoring_headers(storage, &header);
    segments.note_impossible(&listing);
    Ok((Arc::new(segments), listing.within(&header.layout)))
}

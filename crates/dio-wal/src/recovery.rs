//! Finding the end of a log that was closed, killed or cut off from power, and telling it from
//! damage.
//!
//! Recovery writes nothing, so an interrupted recovery leaves the log as it was. Records that it
//! read and that may not be durable are synced before any caller receives them, because a later
//! power cut must not take them back. Then they are read once more from the disk, because the page
//! cache may hold data that an earlier sync failed to write.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cursor::Cursor;
use crate::error::WalError;
use crate::format::{Layout, Lsn, segment_name};
use crate::listing::Listing;
use crate::log_end::LogEnd;
use crate::scan::{SCAN_WINDOW_BYTES, check_end, seek_to_beginning};
use crate::segments::Segments;

/// The outcome of the recovery of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovery {
    /// Records below this LSN were truncated.
    pub start: Lsn,
    /// LSN where the last record ends.
    pub end: Lsn,
    /// Number of records, including those below `start` that share a segment with it.
    pub records: u64,
    /// Bytes of their payloads.
    pub bytes: u64,
    /// LSN up to which the log itself says that it was durable. The records behind it were found
    /// whole; whether more records followed [`Recovery::end`] and were lost cannot be known.
    pub known_durable: Lsn,
    /// The log ends with a mark that says that everything before it was durable, as
    /// [`crate::Log::close`] writes one, or it has no records. Then nothing can be missing.
    pub ended: bool,
}

/// A log that was recovered.
pub(crate) struct RecoveredLog {
    pub(crate) recovery: Recovery,
    pub(crate) end: LogEnd,
    /// Number of the first segment of the log.
    pub(crate) first: u64,
}

/// Reads a log to its end.
///
/// # Errors
/// Errors of the storage; [`WalError::Damaged`] and [`WalError::Missing`] if durable records are
/// gone.
pub(crate) fn recover(
    segments: &Arc<Segments>,
    listing: &Listing,
) -> Result<RecoveredLog, WalError> {
    let first = listing.last_run().expect("there is a segment");
    let mut cursor = Cursor::new(segments, 0, None, SCAN_WINDOW_BYTES)?;
    seek_to_beginning(&mut cursor, segments, first)?;
    let beginning = cursor.position();
    let mut scan = RecoveryScan::new(segments.layout, &cursor);
    scan.follow(&mut cursor)?;
    scan.sync_and_reread(&mut cursor, segments, first)?;
    if first > 0 && beginning > scan.now.start {
        // Truncation always keeps the mark that reading begins with.
        let missing = listing.first_missing(segments.layout.segment_of(scan.now.start));
        return Err(WalError::missing(&segments.layout, missing.min(first - 1)));
    }
    check_end(&mut cursor, segments, scan.now.end)?;
    let recovery = scan.now.recovery();
    let ScanState { end, chain, start, ended, .. } = scan.now;
    let end =
        LogEnd { end, chain: chain.unwrap_or(0), start, ended, first_marks: scan.first_marks };
    Ok(RecoveredLog { recovery, end, first })
}

/// The state of a scan at the end of one record.
#[derive(Clone, Copy)]
struct ScanState {
    /// LSN of the end of the record.
    end: u64,
    /// Checksum of the record.
    chain: Option<u32>,
    /// The highest `start` of the marks so far.
    start: u64,
    /// The highest `durable` of the marks so far.
    durable: u64,
    records: u64,
    bytes: u64,
    /// The record is a mark that says that everything before it was durable, or there is no record
    /// yet.
    ended: bool,
}

impl ScanState {
    fn recovery(&self) -> Recovery {
        let ScanState { end, start, records, bytes, durable, ended, .. } = *self;
        Recovery {
            start: Lsn(start),
            end: Lsn(end),
            records,
            bytes,
            known_durable: Lsn(durable.min(end)),
            ended,
        }
    }
}

/// Follows the chain to where it ends.
struct RecoveryScan {
    layout: Layout,
    now: ScanState,
    /// States at marks, in the order of the log: the last mark that ends at or below `now.durable`,
    /// and all marks behind it. Rereading begins at the first of them. Later marks raise
    /// `now.durable`, and the marks that are no longer needed are then dropped.
    marks: Vec<ScanState>,
    /// For each segment with marks, the LSN of its first mark, by the segment's number.
    first_marks: BTreeMap<u64, u64>,
}

impl RecoveryScan {
    fn new(layout: Layout, cursor: &Cursor) -> RecoveryScan {
        let (end, chain) = (cursor.position(), cursor.chain());
        let now =
            ScanState { end, chain, start: 0, durable: 0, records: 0, bytes: 0, ended: end == 0 };
        RecoveryScan { layout, now, marks: vec![now], first_marks: BTreeMap::new() }
    }

    /// Reads on until no record continues the chain.
    fn follow(&mut self, cursor: &mut Cursor) -> Result<(), WalError> {
        while let Some(record) = cursor.next()? {
            let lsn = record.header.lsn;
            if let Some(mark) = record.mark {
                self.first_marks.entry(self.layout.segment_of(lsn)).or_insert(lsn);
                self.now.start = self.now.start.max(mark.start);
                self.now.durable = self.now.durable.max(mark.durable);
                self.now.ended = mark.durable >= self.now.end;
                let durable = self.marks_known_durable();
                self.marks.drain(..durable.saturating_sub(1));
                self.marks.push(ScanState {
                    end: cursor.position(),
                    chain: cursor.chain(),
                    ..self.now
                });
            } else {
                self.now.ended = false;
                self.now.records += 1;
                self.now.bytes += u64::from(record.header.payload_bytes);
            }
            (self.now.end, self.now.chain) = (cursor.position(), cursor.chain());
        }
        Ok(())
    }

    /// How many of `marks` end at or below `now.durable`.
    fn marks_known_durable(&self) -> usize {
        self.marks.partition_point(|mark| mark.end <= self.now.durable)
    }

    /// Syncs the segments from `now.durable` on, and reads the records again that may not have been
    /// durable.
    fn sync_and_reread(
        &mut self,
        cursor: &mut Cursor,
        segments: &Segments,
        first: u64,
    ) -> Result<(), WalError> {
        let layout = segments.layout;
        for number in
            layout.segment_of(self.now.durable).max(first)..=layout.segment_of(self.now.end)
        {
            if let Some(file) = segments.get(number)? {
                let synced = file.sync_and_drop_cache();
                synced.map_err(|error| WalError::io("sync", &segment_name(number), None, error))?;
            }
        }
        let durable = self.marks_known_durable();
        self.now = self.marks[durable.saturating_sub(1)];
        self.first_marks.retain(|_, mark| *mark < self.now.end);
        cursor.seek(self.now.end, self.now.chain);
        self.follow(cursor)
    }
}

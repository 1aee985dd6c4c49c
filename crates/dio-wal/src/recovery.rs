//! Finding the end of a log that was closed, killed or cut off from power, and telling it from damage.
//!
//! Nothing is written, so a recovery that is itself interrupted leaves everything as it was. What was read and may not have
//! been durable is made so before anybody is told of it, since a later power cut must not take it back; and it is read once
//! more from the disk, since the page cache may hold what an earlier sync failed to write.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cursor::Cursor;
use crate::error::WalError;
use crate::format::{Layout, Lsn, segment_name};
use crate::segments::{Listing, Segments};
use crate::tail::Ending;

/// Bytes read at once.
pub(crate) const REACH: usize = 4 << 20;

/// What recovery found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Records below it were truncated.
    pub start: Lsn,
    /// Where the last record ends.
    pub end: Lsn,
    /// Records that are there, among them those below `start` that share a segment with it.
    pub records: u64,
    /// Bytes of their payloads.
    pub bytes: u64,
    /// Up to here the log itself says that it was durable. What is behind it was found whole; whether something was lost
    /// behind [`Recovery::end`] nobody can know then.
    pub known_durable: Lsn,
    /// The log ends with a mark which says that everything before it was durable, as [`crate::Log::close`] writes one, or has
    /// no records: nothing can be missing.
    pub ended: bool,
}

/// What is needed to go on with the log.
pub(crate) struct Found {
    pub(crate) recovery: Recovery,
    pub(crate) ending: Ending,
    /// The first segment of the log.
    pub(crate) first: u64,
}

/// Where reading of a directory's log begins: at its very beginning, or at the first mark behind what was truncated.
///
/// # Errors
/// The storage's; [`WalError::Missing`] where there is no mark although the log has lost its beginning.
pub(crate) fn begin(cursor: &mut Cursor, segments: &Segments, first: u64) -> Result<(), WalError> {
    if first == 0 {
        cursor.seek(0, Some(0));
        return Ok(());
    }
    match cursor.find_mark(segments.layout.segment_start(first), |_, _| true)? {
        Some((header, _)) => cursor.seek(header.lsn, None),
        None => return Err(WalError::missing(&segments.layout, first - 1)),
    }
    Ok(())
}

/// Reads a log to its end.
///
/// # Errors
/// The storage's; [`WalError::Damaged`] and [`WalError::Missing`] when what was durable is not there.
pub(crate) fn recover(segments: &Arc<Segments>, listing: &Listing) -> Result<Found, WalError> {
    let first = listing.first_of_run().expect("there is a segment");
    let mut cursor = Cursor::new(segments, 0, None, REACH)?;
    begin(&mut cursor, segments, first)?;
    let from = cursor.position();
    let mut scan = Scan::new(segments.layout, &cursor);
    scan.follow(&mut cursor)?;
    scan.sync_and_reread(&mut cursor, segments, first)?;
    if first > 0 && from > scan.at.start {
        // The mark that reading the first record begins with is always kept.
        return Err(WalError::missing(&segments.layout, first - 1));
    }
    check_end(&mut cursor, scan.at.end)?;
    let recovery = scan.at.recovery();
    let Place { end, chain, start, ended, .. } = scan.at;
    let ending = Ending { end, chain: chain.unwrap_or(0), start, ended, marks: scan.marks };
    Ok(Found { recovery, ending, first })
}

/// A place in the log, and what is known there.
#[derive(Clone, Copy)]
struct Place {
    /// The place: the end of a record.
    end: u64,
    chain: Option<u32>,
    /// The highest start that the marks before name.
    start: u64,
    /// The highest place that they say was durable.
    durable: u64,
    records: u64,
    bytes: u64,
    /// It is the end of a mark which says that everything before was durable, or the beginning of the log.
    ended: bool,
}

impl Place {
    fn recovery(&self) -> Recovery {
        let Place { end, start, records, bytes, durable, ended, .. } = *self;
        Recovery { start: Lsn(start), end: Lsn(end), records, bytes, known_durable: Lsn(durable.min(end)), ended }
    }
}

/// Following the chain to where it ends.
struct Scan {
    layout: Layout,
    at: Place,
    /// The places of marks that may turn out to be the last below what was durable, in order.
    candidates: Vec<Place>,
    marks: BTreeMap<u64, u64>,
}

impl Scan {
    fn new(layout: Layout, cursor: &Cursor) -> Scan {
        let (end, chain) = (cursor.position(), cursor.chain());
        let at = Place { end, chain, start: 0, durable: 0, records: 0, bytes: 0, ended: end == 0 };
        Scan { layout, at, candidates: vec![at], marks: BTreeMap::new() }
    }

    fn follow(&mut self, cursor: &mut Cursor) -> Result<(), WalError> {
        while let Some(read) = cursor.next()? {
            if let Some(mark) = read.mark {
                self.marks.entry(read.header.lsn / self.layout.data_bytes()).or_insert(read.header.lsn);
                self.at.start = self.at.start.max(mark.start);
                self.at.durable = self.at.durable.max(mark.durable);
                self.at.ended = mark.durable >= self.at.end;
                let sure = self.candidates.partition_point(|place| place.end <= self.at.durable);
                self.candidates.drain(..sure.saturating_sub(1));
                self.candidates.push(Place { end: cursor.position(), chain: cursor.chain(), ..self.at });
            } else {
                self.at.ended = false;
                self.at.records += 1;
                self.at.bytes += u64::from(read.header.payload_bytes);
            }
            (self.at.end, self.at.chain) = (cursor.position(), cursor.chain());
        }
        Ok(())
    }

    /// Makes durable what was read and is not known to be, and reads it once more.
    fn sync_and_reread(&mut self, cursor: &mut Cursor, segments: &Segments, first: u64) -> Result<(), WalError> {
        let number = |position| segments.layout.locate(position).0;
        for number in number(self.at.durable).max(first)..=number(self.at.end) {
            if let Some(file) = segments.get(number)? {
                file.sync_and_drop_cache().map_err(|error| WalError::io("sync", &segment_name(number), None, error))?;
            }
        }
        let sure = self.candidates.partition_point(|place| place.end <= self.at.durable);
        self.at = self.candidates[sure.saturating_sub(1)];
        self.marks.retain(|_, mark| *mark < self.at.end);
        cursor.seek(self.at.end, self.at.chain);
        self.follow(cursor)
    }
}

/// Looks whether the place where the log cannot be read on is its end.
///
/// # Errors
/// [`WalError::Damaged`] when a mark behind it says that more was durable.
pub(crate) fn check_end(cursor: &mut Cursor, end: u64) -> Result<(), WalError> {
    let (position, chain) = (cursor.position(), cursor.chain());
    let evidence = cursor.find_mark(end, |_, mark| mark.durable > end)?;
    cursor.seek(position, chain);
    evidence.map_or(Ok(()), |(_, mark)| Err(cursor.damaged(end, mark.durable)))
}

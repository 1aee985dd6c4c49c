//! Taking what is sound out of a damaged log.

use std::sync::Arc;

use crate::cursor::Cursor;
use crate::error::WalError;
use crate::format::{Layout, Lsn, segment_name};
use crate::reader::Record;
use crate::recovery::REACH;
use crate::segments::{BadHeader, Listing, Segments, Unreadable, identify_most};
use crate::storage::Storage;

/// A part of the log that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Where it begins.
    pub from: Lsn,
    /// Where reading could go on.
    pub to: Lsn,
    /// The name of the segment where it begins.
    pub segment: String,
    /// Where in that segment's file, in bytes.
    pub offset: u64,
}

impl Gap {
    pub(crate) fn new(layout: &Layout, from: u64, to: u64) -> Gap {
        let (number, offset) = layout.locate(from);
        Gap { from: Lsn(from), to: Lsn(to), segment: segment_name(number), offset }
    }
}

/// What was taken out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Salvage {
    /// Records below it were truncated, as far as the marks say that can be read.
    pub start: Lsn,
    /// Sound records.
    pub records: u64,
    /// Bytes of their payloads.
    pub bytes: u64,
    /// Where the first begins and the last ends.
    pub from: Lsn,
    /// Where the last one ends.
    pub to: Lsn,
    /// Up to here the log says that it was durable. Whether something was lost behind `to` beyond this nobody can know.
    pub known_durable: Lsn,
    /// What is missing in between, and before, from the start on.
    pub gaps: Vec<Gap>,
    /// What cannot be read below the start. Nothing of the log is lost with it, but a log that is damaged there does not open.
    pub below_start: Vec<Gap>,
    /// What the disk could not read and was passed over. It need not have held any record, and behind the last one that was
    /// read nobody knows.
    pub unreadable: Vec<Unreadable>,
    /// Segments whose headers are damaged, or of another log or place, and were passed over: what was sound behind them was
    /// taken. The file itself may be another one, so behind the last record that was read nobody knows what it was to hold.
    pub headers: Vec<BadHeader>,
}

/// Hands every sound record of a log to `take`, damaged or not; nothing is changed. BlockSizes that the disk cannot read and headers
/// that cannot be believed are passed over. Records below `start`, of which the marks say that they were truncated, may be
/// among them. `E` is the caller's own failure.
///
/// # Errors
/// The storage's, and `take`'s; [`std::io::ErrorKind::NotFound`] when there are no segments; [`WalError::Header`] when none of them
/// tells whose it is.
pub fn salvage<E: From<WalError>>(
    storage: Arc<dyn Storage>,
    mut take: impl FnMut(Record<'_>) -> Result<(), E>,
) -> Result<Salvage, E> {
    let mut found = Salvage::default();
    let listing = Listing::of(&*storage)?;
    let header = identify_most(&*storage, &listing)?;
    let segments = Arc::new(Segments::patient(storage, &header));
    segments.pass_over_impossible(&listing);
    let listing = listing.within(&segments.layout);
    let Some(first) = listing.segments.first().copied() else { return Ok(found) };
    let limit = listing.segments.last().map_or(0, |last| segments.layout.segment_start(last + 1));
    let mut cursor = Cursor::new(&segments, 0, None, REACH)?;
    let mut at = segments.layout.segment_start(first);
    found.from = Lsn(at);
    if first == 0 {
        cursor.seek(0, Some(0));
    } else {
        cursor.seek(at, None);
    }
    'log: loop {
        while let Some(read) = cursor.next()? {
            if read.header.lsn >= limit {
                // A writer goes on meanwhile, perhaps faster than this reads.
                break 'log;
            }
            at = read.header.end();
            if let Some(mark) = read.mark {
                found.start = found.start.max(Lsn(mark.start));
                found.known_durable = found.known_durable.max(Lsn(mark.durable));
            } else {
                found.records += 1;
                found.bytes += u64::from(read.header.payload_bytes);
                take(Record { lsn: Lsn(read.header.lsn), data: cursor.payload() })?;
            }
        }
        let Some(to) = next_sound(&mut cursor, &segments, &listing, at)? else { break };
        found.gaps.push(Gap::new(&segments.layout, at, to));
        cursor.seek(to, None);
    }
    found.to = Lsn(at);
    found.unreadable = segments.unreadable();
    found.headers = segments.bad_headers();
    // What lies before missing segments was truncated, or else the gap is told.
    let run = segments.layout.segment_start(listing.first_of_run().unwrap_or(0));
    found.headers.retain(|bad| bad.first.0 >= run);
    if at < run {
        // Segments behind the missing ones hold nothing that says what was in those.
        found.gaps.push(Gap::new(&segments.layout, at, run));
    }
    // What lies before the first mark of a truncated log was given up with the segments before it.
    let start = found.start;
    if start < found.from {
        found.gaps.insert(0, Gap::new(&segments.layout, start.0, found.from.0));
    }
    // A log that was truncated begins within a record, or behind segments that are gone: that is no damage.
    let damaged = |gap: &&Gap| gap.to <= start && gap.from > found.from && gap.from.0 >= run;
    found.below_start = found.gaps.iter().filter(damaged).cloned().collect();
    found.gaps.retain(|gap| gap.to > start);
    for gap in found.gaps.iter_mut().filter(|gap| gap.from < start) {
        *gap = Gap::new(&segments.layout, start.0, gap.to.0);
    }
    Ok(found)
}

/// The next mark of what was durable, behind a place where the chain broke. What an earlier opening left behind the end of
/// the log is not taken: no mark behind it says that it was durable.
pub(crate) fn next_sound(
    cursor: &mut Cursor,
    segments: &Segments,
    listing: &Listing,
    broken: u64,
) -> Result<Option<u64>, WalError> {
    let mut known = None;
    for number in listing.segments.iter().filter(|number| segments.layout.segment_start(**number + 1) > broken) {
        let first = segments.layout.segment_start(*number).max(broken);
        // Each segment by itself: one that is missing or cannot be read does not hide those behind it.
        cursor.set_limit(segments.layout.segment_start(*number + 1));
        let durable = match cursor.find_mark(first, |_, mark| mark.durable > broken) {
            Ok(found) => found,
            Err(WalError::Header { .. }) => None,
            Err(error) => return Err(error),
        };
        if durable.is_some() {
            known = durable;
            break;
        }
    }
    cursor.set_limit(u64::MAX);
    let Some((evidence, _)) = known else { return Ok(None) };
    for number in listing.segments.iter().filter(|number| segments.layout.segment_start(**number + 1) > broken) {
        let first = segments.layout.segment_start(*number).max(broken);
        if first > evidence.lsn {
            break;
        }
        match cursor.find_mark(first, |_, _| true) {
            Ok(Some((header, _))) => return Ok(Some(header.lsn)),
            Ok(None) | Err(WalError::Header { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Some(evidence.lsn))
}

//! Taking what is sound out of a damaged log.

use std::sync::Arc;

use crate::cursor::Cursor;
use crate::error::WalError;
use crate::format::{Lsn, segment_name};
use crate::reader::Record;
use crate::recovery::REACH;
use crate::segments::{Listing, Segments, identify};
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

/// What was taken out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Salvage {
    /// Sound records.
    pub records: u64,
    /// Bytes of their payloads.
    pub bytes: u64,
    /// Where the first begins and the last ends.
    pub from: Lsn,
    /// Where the last one ends.
    pub to: Lsn,
    /// What is missing in between, and before.
    pub gaps: Vec<Gap>,
}

/// Hands every sound record of a log to `take`, damaged or not; nothing is changed. Records below `start`, of which the marks
/// say that they were truncated, may be among them. `E` is the caller's own failure.
///
/// # Errors
/// The storage's, and `take`'s.
pub fn salvage<E: From<WalError>>(
    storage: Arc<dyn Storage>,
    mut take: impl FnMut(Record<'_>) -> Result<(), E>,
) -> Result<Salvage, E> {
    let mut found = Salvage::default();
    let listing = Listing::of(&*storage)?;
    let Some(segments) = readable(&storage, &listing)? else { return Ok(found) };
    let listing = listing.within(&segments.layout);
    let Some(first) = listing.segments.first().copied() else { return Ok(found) };
    let mut cursor = Cursor::new(&segments, 0, None, REACH)?;
    let mut at = segments.layout.first(first);
    found.from = Lsn(at);
    if first == 0 {
        cursor.seek(0, Some(0));
    } else {
        cursor.seek(at, None);
    }
    loop {
        while let Some(read) = cursor.next()? {
            at = read.header.end();
            if read.mark.is_none() {
                found.records += 1;
                found.bytes += u64::from(read.header.length);
                take(Record { lsn: Lsn(read.header.lsn), data: cursor.payload() })?;
            }
        }
        let Some(to) = next_sound(&mut cursor, &segments, &listing, at)? else { break };
        let (number, offset) = segments.layout.locate(at);
        found.gaps.push(Gap { from: Lsn(at), to: Lsn(to), segment: segment_name(number), offset });
        cursor.seek(to, None);
    }
    found.to = Lsn(at);
    Ok(found)
}

/// The log of the newest segment whose header can be read.
fn readable(storage: &Arc<dyn Storage>, listing: &Listing) -> Result<Option<Arc<Segments>>, WalError> {
    for number in listing.segments.iter().rev() {
        match identify(&**storage, *number) {
            Ok(header) => return Ok(Some(Arc::new(Segments::new(Arc::clone(storage), &header, false)))),
            Err(WalError::Header { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// The next mark of what was durable, behind a place where the chain broke. What an earlier opening left behind the end of
/// the log is not taken: no mark behind it says that it was durable.
fn next_sound(
    cursor: &mut Cursor,
    segments: &Segments,
    listing: &Listing,
    broken: u64,
) -> Result<Option<u64>, WalError> {
    let mut known = None;
    for number in listing.segments.iter().filter(|number| segments.layout.first(**number + 1) > broken) {
        let first = segments.layout.first(*number).max(broken);
        // Each segment by itself: one that is missing or cannot be read does not hide those behind it.
        cursor.set_limit(segments.layout.first(*number + 1));
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
    for number in listing.segments.iter().filter(|number| segments.layout.first(**number + 1) > broken) {
        let first = segments.layout.first(*number).max(broken);
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

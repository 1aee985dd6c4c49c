//! Finding the end of a log that was closed, killed or cut off from power, and telling it from damage.
//!
//! No contents change, so a recovery that is itself interrupted leaves everything as it was. What was read and may not have
//! been durable is made so before anybody is told of it: a later power cut must not take it back.

use std::collections::BTreeMap;
use std::sync::Arc;

use dio::block::Pool;
use dio::geometry::align_down;

use crate::cursor::Cursor;
use crate::error::WalError;
use crate::format::{Lsn, segment_name};
use crate::segments::{Listing, Segments};
use crate::tail::Ending;

/// Bytes read at once.
pub(crate) const REACH: usize = 4 << 20;

/// Bytes written again at once.
const REWRITE: usize = 1 << 20;

/// What recovery found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Records below it were truncated.
    pub start: Lsn,
    /// Where the last record ends.
    pub end: Lsn,
    /// Records that are there, those below `start` not counted.
    pub records: u64,
    /// Bytes of their payloads.
    pub bytes: u64,
    /// Up to here the log itself says that it was durable; what is behind it was found whole.
    pub known_durable: Lsn,
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
    match cursor.find_mark(segments.layout.first(first), |_, _| true)? {
        Some((header, _)) => cursor.seek(header.lsn, None),
        None => return Err(WalError::Missing { segment: segment_name(first - 1) }),
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
    let found = read_all(&mut cursor, segments, first)?;
    check_end(&mut cursor, found.ending.end)?;
    make_durable(segments, &found.recovery, first)?;
    Ok(found)
}

/// Follows the chain to where it ends.
fn read_all(cursor: &mut Cursor, segments: &Segments, first: u64) -> Result<Found, WalError> {
    let mut marks = BTreeMap::new();
    let (mut start, mut durable) = (0, 0);
    // Lengths of records, to take away again those that turn out to be truncated.
    let mut records = Vec::new();
    let from = cursor.position();
    while let Some(read) = cursor.next()? {
        match read.mark {
            Some(mark) => {
                marks.entry(read.header.lsn / segments.layout.data()).or_insert(read.header.lsn);
                if mark.start > start {
                    start = mark.start;
                    records.retain(|(lsn, _)| *lsn >= start);
                }
                durable = durable.max(mark.durable);
            }
            None => records.push((read.header.lsn, read.header.length)),
        }
    }
    if first > 0 && from > start {
        // The mark that reading the first record begins with is always kept.
        return Err(WalError::Missing { segment: segment_name(first - 1) });
    }
    let end = cursor.position();
    let recovery = Recovery {
        start: Lsn(start),
        end: Lsn(end),
        records: records.len() as u64,
        bytes: records.iter().map(|(_, length)| u64::from(*length)).sum(),
        known_durable: Lsn(durable.min(end)),
    };
    let chain = cursor.chain().unwrap_or(0);
    Ok(Found { recovery, ending: Ending { end, chain, start, marks }, first })
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

/// Makes durable what was read and is not known to be. A sync alone would not do: where an earlier one failed, the kernel
/// takes pages for written that are not, and answers the next sync well. So the blocks are written once more, with the bytes
/// that they hold, which no torn write can harm.
fn make_durable(segments: &Segments, recovery: &Recovery, first: u64) -> Result<(), WalError> {
    let layout = segments.layout;
    let pool = Pool::new(REWRITE.max(layout.block() as usize), 1);
    let pool = pool.map_err(|error| WalError::io("map memory for", ".", None, error))?;
    let mut memory = pool.try_take().expect("a new pool has its block");
    let step = memory.capacity() as u64 / layout.block() * layout.block();
    // Of the segments before the first there is nothing left to make durable.
    let mut at = align_down(recovery.known_durable.0, layout.block()).max(layout.first(first));
    let end = layout.next_block(recovery.end.0);
    while at < end {
        let (number, offset) = layout.locate(at);
        let name = segment_name(number);
        let failed = |operation| move |error| WalError::io(operation, &segment_name(number), Some(offset), error);
        let Some(file) = segments.get(number)? else { return Err(WalError::Missing { segment: name }) };
        let stop = end.min(layout.segment_end(at));
        let bytes = &mut memory.bytes_mut()[..step.min(stop - at) as usize];
        let count = file.read_at(bytes, offset).map_err(failed("read"))?;
        if count < bytes.len() {
            return Err(failed("read")(std::io::ErrorKind::UnexpectedEof.into()));
        }
        file.write_at(bytes, offset, false).map_err(failed("write"))?;
        at += bytes.len() as u64;
        if at == stop {
            file.sync_all().map_err(failed("sync"))?;
        }
    }
    Ok(())
}

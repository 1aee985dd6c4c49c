//! Finds out which log the segments of a directory belong to.

use std::io;

use dio::block::Pool;

use crate::error::WalError;
use crate::format::{
    BLOCK_BYTES_MIN, HeaderFault, MARK_BYTES, SegmentHeader, segment_name, segment_of_mark,
};
use crate::listing::Listing;
use crate::segment_header::{is_medium_error, read_header};
use crate::storage::Storage;

/// Bytes that [`header_from_marks`] reads at a time.
const SEARCH_BYTES: u64 = 1 << 20;

/// Reads and checks the header of segment `number`, which names the log.
///
/// # Errors
/// Errors of the storage; [`WalError::Header`].
pub(crate) fn identify(storage: &dyn Storage, number: u64) -> Result<SegmentHeader, WalError> {
    let name = segment_name(number);
    let file =
        storage.open(&name, false).map_err(|error| WalError::io("open", &name, None, error))?;
    let header = read_header(&*file, &name)?;
    if header.number != number {
        return Err(WalError::Header { segment: name, fault: HeaderFault::Number(header.number) });
    }
    if !header.layout.is_segment_possible(number) {
        return Err(WalError::Header { segment: name, fault: HeaderFault::FirstLsn });
    }
    Ok(header)
}

/// Finds the log that most segments of a directory belong to by their headers. Of two logs with
/// equally many segments, the one with the newest segment wins. If no header is valid, the newest
/// segment with a valid mark names the log.
///
/// # Errors
/// Errors of the storage; [`io::ErrorKind::NotFound`] if there are no segments. If neither headers
/// nor marks name a log, the error is that of the newest segment's header.
pub(crate) fn identify_by_majority(
    storage: &dyn Storage,
    listing: &Listing,
) -> Result<SegmentHeader, WalError> {
    let last = *listing.segments.last().ok_or_else(WalError::no_segments)?;
    // For each log, the number of its segments and the header of its newest one.
    let mut logs: Vec<(usize, SegmentHeader)> = Vec::new();
    for number in listing.segments.iter().rev() {
        let Some(header) = unless_unusable(identify(storage, *number))? else { continue };
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
        if let Some(header) = unless_unusable(header_from_marks(storage, *number))?.flatten() {
            return Ok(header);
        }
    }
    identify(storage, last)
}

/// Turns the error of a segment whose header is damaged or unreadable, or that was removed
/// meanwhile, into `None`.
fn unless_unusable<T>(result: Result<T, WalError>) -> Result<Option<T>, WalError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(WalError::Header { .. }) => Ok(None),
        Err(WalError::Io { source, .. })
            if is_medium_error(&source) || source.kind() == io::ErrorKind::NotFound =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Finds the header that segment `number` must have, by the first valid mark in it.
fn header_from_marks(
    storage: &dyn Storage,
    number: u64,
) -> Result<Option<SegmentHeader>, WalError> {
    let name = segment_name(number);
    let file =
        storage.open(&name, false).map_err(|error| WalError::io("open", &name, None, error))?;
    let size = file.size().map_err(|error| WalError::io("ask the size of", &name, None, error))?;
    let pool = Pool::new(SEARCH_BYTES as usize, 1)
        .map_err(|error| WalError::io("map memory for", ".", None, error))?;
    let mut memory = pool.try_take().expect("a new pool has its block");
    for start in (0..size).step_by(SEARCH_BYTES as usize) {
        let length = SEARCH_BYTES.min(size - start) as usize;
        let bytes = &mut memory.bytes_mut()[..length];
        let read = file
            .read_at(bytes, start)
            .map_err(|error| WalError::io("read", &name, Some(start), error))?;
        // Marks stand at the start of blocks, and the header's block holds none.
        for at in (0..read as u64).step_by(BLOCK_BYTES_MIN as usize).filter(|at| start + at > 0) {
            let Some(found) = bytes[at as usize..read].first_chunk::<MARK_BYTES>() else { break };
            if let Some(header) = segment_of_mark(found, number, size, start + at) {
                return Ok(Some(header));
            }
        }
    }
    Ok(None)
}

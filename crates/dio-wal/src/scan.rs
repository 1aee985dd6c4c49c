//! Searches along a whole log: its beginning, its end, and what is sound behind damage.

use crate::cursor::Cursor;
use crate::error::WalError;
use crate::listing::Listing;
use crate::segments::Segments;

/// Bytes of the windows of cursors that read a whole log.
pub(crate) const SCAN_WINDOW_BYTES: usize = 4 << 20;

/// Moves to where a log can first be read. That is LSN 0 if the log still has segment 0, and the
/// first mark in segment `first` if earlier segments were truncated.
///
/// # Errors
/// Errors of the storage; [`WalError::Missing`] if earlier segments are gone and there is no mark.
pub(crate) fn seek_to_beginning(
    cursor: &mut Cursor,
    segments: &Segments,
    first: u64,
) -> Result<(), WalError> {
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

/// Checks that `end`, where the log cannot be read on, is its end. The cursor stays where it is.
///
/// # Errors
/// [`WalError::Damaged`] if a mark behind `end` says that more was durable.
pub(crate) fn check_end(
    cursor: &mut Cursor,
    segments: &Segments,
    end: u64,
) -> Result<(), WalError> {
    let (position, chain) = (cursor.position(), cursor.chain());
    let evidence = cursor.find_evidence(end, end)?;
    cursor.seek(position, chain);
    evidence.map_or(Ok(()), |(_, durable)| Err(WalError::damaged(&segments.layout, end, durable)))
}

/// Finds the first mark behind `broken`, where the chain breaks, from which the log can be read on.
///
/// Such a mark exists only if a mark behind `broken` says that more was durable. Without that
/// evidence, what stands behind `broken` was left there by an earlier opening, and `broken` is the
/// end of the log.
pub(crate) fn find_mark_behind_damage(
    cursor: &mut Cursor,
    segments: &Segments,
    listing: &Listing,
    broken: u64,
) -> Result<Option<u64>, WalError> {
    let layout = segments.layout;
    let behind =
        || listing.segments.iter().filter(|number| layout.segment_start(**number + 1) > broken);
    let mut evidence = cursor.known_evidence(broken);
    let mut unsearched = behind();
    while evidence.is_none()
        && let Some(number) = unsearched.next()
    {
        // Each segment is searched by itself: a missing or unreadable one must not hide those
        // behind it.
        cursor.set_limit(layout.segment_start(*number + 1));
        evidence = match cursor.find_evidence(layout.segment_start(*number).max(broken), broken) {
            Ok(found) => found,
            Err(WalError::Header { .. }) => None,
            Err(error) => return Err(error),
        };
    }
    cursor.set_limit(u64::MAX);
    let Some((evidence, _)) = evidence else { return Ok(None) };
    for number in behind() {
        let from = layout.segment_start(*number).max(broken);
        if from > evidence {
            break;
        }
        match cursor.find_mark(from, |_, _| true) {
            Ok(Some((header, _))) => return Ok(Some(header.lsn)),
            Ok(None) | Err(WalError::Header { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Some(evidence))
}

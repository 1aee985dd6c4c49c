//! Taking what is sound out of a damaged log.

use std::sync::Arc;

use crate::cursor::Cursor;
use crate::damage::{BadHeader, Gap, UnreadableRange};
use crate::error::WalError;
use crate::format::{Layout, Lsn};
use crate::identify::identify_by_majority;
use crate::listing::Listing;
use crate::record::Record;
use crate::scan::{SCAN_WINDOW_BYTES, find_mark_behind_damage};
use crate::segments::Segments;
use crate::storage::Storage;

/// The outcome of [`salvage()`]: what was taken, and what is lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Salvage {
    /// Records below this LSN were truncated, according to the marks that can be read.
    pub start: Lsn,
    /// Number of sound records.
    pub records: u64,
    /// Bytes of their payloads.
    pub bytes: u64,
    /// LSN where reading began: the first LSN of the first segment.
    pub from: Lsn,
    /// LSN where the last sound record ends.
    pub to: Lsn,
    /// LSN up to which the log says that it was durable. Whether more than this was lost behind
    /// `to` cannot be known.
    pub known_durable: Lsn,
    /// The parts of the log that are missing from `start` on, between sound records and before
    /// them.
    pub gaps: Vec<Gap>,
    /// The parts that cannot be read below `start`. They hold nothing of the log, but a log that is
    /// damaged there does not open.
    pub below_start: Vec<Gap>,
    /// The ranges that the disk could not read. They may have held no record. Whether a range
    /// behind the last sound record held one cannot be known.
    pub unreadable: Vec<UnreadableRange>,
    /// The segments whose headers are damaged or are those of another log or segment. Their sound
    /// records were taken. The whole file may be a wrong one, so what the right file would hold
    /// behind the last sound record cannot be known.
    pub headers: Vec<BadHeader>,
}

/// Hands every sound record of a log to `take`, whether or not the log is damaged. The log is not
/// changed.
///
/// Blocks that the disk cannot read and wrong headers of segments are passed over. Records below
/// [`Salvage::start`], which were truncated, may be among those that are handed out. `E` is the
/// error of `take`.
///
/// ```
/// use std::sync::Arc;
/// use dio_wal::storage::{Directory, Method};
/// use dio_wal::{Log, Options, WalError, salvage};
/// # let directory = tempfile::tempdir()?;
/// # let log = Log::open(directory.path(), &Options::new())?;
/// # log.append(b"a change")?;
/// # log.close()?;
/// let storage = Directory::open(directory.path(), true, Method::Fdatasync)?;
/// let mut records = Vec::new();
/// let salvaged = salvage::<WalError>(Arc::new(storage), |record| {
///     records.push(record.data.to_vec());
///     Ok(())
/// })?;
/// assert_eq!(records, [b"a change"]);
/// assert!(salvaged.gaps.is_empty(), "the log was not damaged");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Errors of the storage, and those of `take`; [`std::io::ErrorKind::NotFound`] if there are no
/// segments; [`WalError::Header`] if neither a header nor a mark names a log.
pub fn salvage<E: From<WalError>>(
    storage: Arc<dyn Storage>,
    mut take: impl FnMut(Record<'_>) -> Result<(), E>,
) -> Result<Salvage, E> {
    let mut salvaged = Salvage::default();
    let listing = Listing::of(&*storage)?;
    let header = identify_by_majority(&*storage, &listing)?;
    let segments = Arc::new(Segments::ignoring_damage(storage, &header));
    segments.note_impossible(&listing);
    let layout = segments.layout;
    let listing = listing.within(&layout);
    let Some(first) = listing.segments.first().copied() else { return Ok(salvaged) };
    let limit = listing.segments.last().map_or(0, |last| layout.segment_start(last + 1));
    let mut cursor = Cursor::new(&segments, 0, None, SCAN_WINDOW_BYTES)?;
    let mut end = layout.segment_start(first);
    salvaged.from = Lsn(end);
    cursor.seek(end, if first == 0 { Some(0) } else { None });
    'log: loop {
        while let Some(record) = cursor.next()? {
            if record.header.lsn >= limit {
                // A writer appends to the log, perhaps faster than this loop reads.
                break 'log;
            }
            end = record.header.end();
            if let Some(mark) = record.mark {
                salvaged.start = salvaged.start.max(Lsn(mark.start));
                salvaged.known_durable = salvaged.known_durable.max(Lsn(mark.durable));
            } else {
                salvaged.records += 1;
                salvaged.bytes += u64::from(record.header.payload_bytes);
                take(Record { lsn: Lsn(record.header.lsn), data: cursor.payload() })?;
            }
        }
        let Some(mark) = find_mark_behind_damage(&mut cursor, &segments, &listing, end)? else {
            break;
        };
        salvaged.gaps.push(Gap::new(&layout, end, mark));
        cursor.seek_behind_damage(mark);
    }
    salvaged.to = Lsn(end);
    salvaged.unreadable = segments.unreadable();
    salvaged.headers = segments.bad_headers();
    sort_gaps(&mut salvaged, &layout, layout.segment_start(listing.last_run().unwrap_or(0)));
    Ok(salvaged)
}

/// Decides which gaps are losses, and adds the gaps at the beginning and the end of what was read.
/// `run` is the first LSN of the last run of consecutive segments.
fn sort_gaps(salvaged: &mut Salvage, layout: &Layout, run: u64) {
    // The segments before missing ones were truncated, unless a gap says otherwise.
    salvaged.headers.retain(|bad| bad.first.0 >= run);
    if salvaged.to.0 < run {
        // The segments behind the missing ones hold no evidence of what the missing ones held.
        salvaged.gaps.push(Gap::new(layout, salvaged.to.0, run));
    }
    // Segments that held records from the start on are missing.
    let start = salvaged.start;
    if start < salvaged.from {
        salvaged.gaps.insert(0, Gap::new(layout, start.0, salvaged.from.0));
    }
    // A truncated log begins within a record, or behind segments that are gone. That is no damage.
    let damaged = |gap: &&Gap| gap.to <= start && gap.from > salvaged.from && gap.from.0 >= run;
    salvaged.below_start = salvaged.gaps.iter().filter(damaged).cloned().collect();
    salvaged.gaps.retain(|gap| gap.to > start);
    for gap in salvaged.gaps.iter_mut().filter(|gap| gap.from < start) {
        *gap = Gap::new(layout, start.0, gap.to.0);
    }
}

//! Looking at a whole log without changing it.

use std::sync::Arc;

use crate::cursor::Fault;
use crate::error::WalError;
use crate::format::{HeaderFault, Identity, Layout, Lsn, segment_name};
use crate::reader::Reader;
use crate::recovery::Recovery;
use crate::segments::{Listing, read_header};
use crate::storage::Storage;

/// A segment's file.
#[derive(Clone, Debug)]
pub struct SegmentFound {
    /// Its number, by its name.
    pub number: u64,
    /// Its size in bytes.
    pub size: u64,
    /// What is wrong with it, if anything is.
    pub fault: Option<WalError>,
    /// It lies before the log: truncated, and its removal got lost, or cut off by missing segments.
    pub before: bool,
}

/// What was found.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// Who the log is.
    pub identity: Identity,
    /// Its sizes.
    pub layout: Layout,
    /// Its segments, in order.
    pub segments: Vec<SegmentFound>,
    /// Files that wait to become segments.
    pub spares: usize,
    /// Segments that were not finished when the log was last used.
    pub unfinished: usize,
    /// The log, as far as it can be read.
    pub read: Recovery,
    /// Marks: groups that begin with one.
    pub marks: u64,
    /// Times that the log was opened and written to, as far as its segments tell.
    pub openings: u64,
    /// What stands where the log ends.
    pub at_end: Fault,
    /// Why that is not the end, if it is not, or what else is wrong.
    pub damage: Option<WalError>,
}

/// Reads a whole log, somebody may be writing to it: then up to the end of the last segment that is there at first.
///
/// # Errors
/// What keeps it from being looked at: the storage's; [`std::io::ErrorKind::NotFound`] when there are no segments;
/// [`WalError::Header`] when none of them tells whose it is. What is wrong with the log otherwise is in the [`Verdict`]: of
/// segments whose headers cannot be believed what is sound is read all the same.
pub fn verify(storage: Arc<dyn Storage>) -> Result<Verdict, WalError> {
    let listing = Listing::of(&*storage)?;
    let mut reader = match Reader::open_damaged_on(Arc::clone(&storage), Lsn(0)) {
        Err(WalError::Missing { .. }) => Reader::at_first_segment(Arc::clone(&storage))?,
        other => other?,
    };
    let all = listing.segments.last().copied();
    let listing = listing.within(&reader.layout());
    let first = listing.first_of_run().unwrap_or(0);
    let mut verdict = Verdict {
        identity: reader.identity(),
        layout: reader.layout(),
        segments: Vec::new(),
        spares: listing.spares.len(),
        unfinished: listing.unfinished.len(),
        read: Recovery::default(),
        marks: 0,
        openings: 0,
        at_end: Fault::Zeros,
        damage: None,
    };
    for number in &listing.segments {
        match look(&*storage, &verdict, *number, *number < first) {
            // A segment that its writer truncated meanwhile is none of the log's.
            Err(WalError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {}
            found => verdict.segments.push(found?),
        }
    }
    let from = reader.position();
    let followed = follow(&mut reader, &mut verdict);
    let header = verdict.segments.iter().filter(|segment| !segment.before).find_map(|segment| segment.fault.clone());
    let impossible = all
        .filter(|last| listing.segments.last() != Some(last))
        .map(|last| WalError::Header { segment: segment_name(last), fault: HeaderFault::FirstLsn });
    verdict.damage = match followed {
        Ok(()) if first > 0 && from > verdict.read.start => Some(WalError::missing(&verdict.layout, first - 1)),
        Ok(()) => header.or(impossible),
        // Why it ends there.
        Err(WalError::Damaged { segment, .. }) if header.as_ref().is_some_and(|header| is_of(header, &segment)) => {
            header
        }
        Err(error @ (WalError::Damaged { .. } | WalError::Missing { .. } | WalError::Header { .. })) => Some(error),
        Err(error) => return Err(error),
    };
    Ok(verdict)
}

fn is_of(error: &WalError, name: &str) -> bool {
    matches!(error, WalError::Header { segment, .. } if segment == name)
}

/// Reads to the end, and looks whether it is one.
fn follow(reader: &mut Reader, verdict: &mut Verdict) -> Result<(), WalError> {
    let (mut incarnation, read) = (None, &mut verdict.read);
    (read.end, read.ended) = (reader.position(), reader.position() == Lsn(0));
    let limit = reader.listed_end();
    while let Some(entry) = reader.next_entry()? {
        if entry.lsn >= limit {
            verdict.at_end = Fault::Beyond;
            return Ok(());
        }
        match entry.mark {
            Some(mark) => {
                verdict.marks += 1;
                verdict.openings += u64::from(incarnation.replace(mark.incarnation) != Some(mark.incarnation));
                read.start = read.start.max(Lsn(mark.start));
                read.known_durable = read.known_durable.max(Lsn(mark.durable));
                read.ended = Lsn(mark.durable) >= read.end;
            }
            None => {
                read.ended = false;
                read.records += 1;
                read.bytes += u64::from(entry.length);
            }
        }
        read.end = entry.end;
    }
    verdict.at_end = reader.diagnose()?;
    reader.check_end()
}

fn look(storage: &dyn Storage, verdict: &Verdict, number: u64, before: bool) -> Result<SegmentFound, WalError> {
    let name = segment_name(number);
    let file = storage.open(&name, false).map_err(|error| WalError::io("open", &name, None, error))?;
    let size = file.size().map_err(|error| WalError::io("ask the size of", &name, None, error))?;
    let wrong = |fault| Some(WalError::Header { segment: name.clone(), fault });
    let fault = match read_header(&*file, &name) {
        Err(error @ WalError::Header { .. }) => Some(error),
        Err(error) => return Err(error),
        Ok(header) => header.fault_as(number, size, verdict.identity, &verdict.layout).and_then(wrong),
    };
    Ok(SegmentFound { number, size, fault, before })
}

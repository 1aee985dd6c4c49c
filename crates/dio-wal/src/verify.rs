//! Verifying a whole log without changing it.

use std::io;
use std::sync::Arc;

use crate::damage::RecordFault;
use crate::error::WalError;
use crate::format::{HeaderFault, Identity, Layout, Lsn, segment_name};
use crate::listing::Listing;
use crate::reader::Reader;
use crate::recovery::Recovery;
use crate::segment_header::read_header;
use crate::storage::Storage;

/// The file of a segment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SegmentStatus {
    /// Number of the segment, by the file's name.
    pub number: u64,
    /// Size of the file in bytes.
    pub size: u64,
    /// The fault of the file or its header, if it has one.
    pub fault: Option<WalError>,
    /// The segment lies before the log. It was truncated, and a power cut undid its removal; or
    /// missing segments separate it from the log.
    pub before: bool,
}

/// The outcome of [`verify()`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Verification {
    /// Identity of the log.
    pub identity: Identity,
    /// Sizes of the log.
    pub layout: Layout,
    /// The files of its segments, in the order of their numbers.
    pub segments: Vec<SegmentStatus>,
    /// Number of spare segments.
    pub spares: usize,
    /// Number of segments that were being made when the log was last used.
    pub unfinished: usize,
    /// The log as far as it can be read.
    pub read: Recovery,
    /// Number of marks, hence of groups that begin with one.
    pub marks: u64,
    /// How often the log was opened and written to, as far as its segments show.
    pub openings: u64,
    /// The reason why no further record can be read where the log ends.
    pub at_end: RecordFault,
    /// Evidence that the log goes on behind that point, or any other damage; `None` if the log is
    /// sound.
    pub damage: Option<WalError>,
}

/// Reads a whole log. If a writer appends to the log meanwhile, it reads up to the end of the last
/// segment that existed when it began.
///
/// Wrong headers of segments count as damage, and sound records behind them are read all the same.
///
/// ```
/// use std::sync::Arc;
/// use dio_wal::storage::{Directory, Method};
/// use dio_wal::{Log, Options, verify};
/// # let directory = tempfile::tempdir()?;
/// # let log = Log::open(directory.path(), &Options::new())?;
/// # log.append(b"a change")?;
/// # log.close()?;
/// let storage = Directory::open(directory.path(), true, Method::Fdatasync)?;
/// let found = verify(Arc::new(storage))?;
/// assert!(found.damage.is_none());
/// assert_eq!(found.read.records, 1);
/// assert!(found.read.ended, "the log was closed, so it ends with a mark that says so");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Only what keeps the log from being read: the storage's errors; [`std::io::ErrorKind::NotFound`]
/// if there are no segments; [`WalError::Header`] if neither a header nor a mark names a log.
/// Everything else that is wrong is in [`Verification::damage`].
pub fn verify(storage: Arc<dyn Storage>) -> Result<Verification, WalError> {
    let listing = Listing::of(&*storage)?;
    let mut reader = match Reader::open_damaged_on(Arc::clone(&storage), Lsn(0)) {
        Err(WalError::Missing { .. }) => Reader::open_without_beginning(Arc::clone(&storage))?,
        other => other?,
    };
    let last_listed = listing.segments.last().copied();
    let listing = listing.within(&reader.layout());
    let beginning = reader.position();
    let first = listing.run_at(reader.layout().segment_of(beginning.0));
    let mut found = Verification {
        identity: reader.identity(),
        layout: reader.layout(),
        segments: Vec::new(),
        spares: listing.spares.len(),
        unfinished: listing.unfinished.len(),
        read: Recovery::default(),
        marks: 0,
        openings: 0,
        at_end: RecordFault::Zeros,
        damage: None,
    };
    for number in &listing.segments {
        match segment_status(&*storage, &found, *number, *number < first) {
            // The writer truncated the segment meanwhile, so it is no longer part of the log.
            Err(WalError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            status => found.segments.push(status?),
        }
    }
    let followed = follow(&mut reader, &mut found);
    let bad_header = found
        .segments
        .iter()
        .filter(|segment| !segment.before)
        .find_map(|segment| segment.fault.clone());
    let impossible_segment = last_listed
        .filter(|last| listing.segments.last() != Some(last))
        .map(|last| WalError::Header { segment: segment_name(last), fault: HeaderFault::FirstLsn });
    found.damage = match followed {
        Ok(()) if first > 0 && beginning > found.read.start => {
            Some(WalError::missing(&found.layout, first - 1))
        }
        Ok(()) => bad_header.or(impossible_segment),
        // The bad header explains why the log cannot be read on in that segment.
        Err(WalError::Damaged { segment, .. })
            if bad_header.as_ref().is_some_and(|bad| is_of(bad, &segment)) =>
        {
            bad_header
        }
        Err(
            error @ (WalError::Damaged { .. } | WalError::Missing { .. } | WalError::Header { .. }),
        ) => Some(error),
        Err(error) => return Err(error),
    };
    Ok(found)
}

/// Whether an error is about the header of the segment with this name.
fn is_of(error: &WalError, name: &str) -> bool {
    matches!(error, WalError::Header { segment, .. } if segment == name)
}

/// Reads to the end of the log and checks that it is the end.
fn follow(reader: &mut Reader, found: &mut Verification) -> Result<(), WalError> {
    let (mut incarnation, read) = (None, &mut found.read);
    (read.end, read.ended) = (reader.position(), reader.position() == Lsn(0));
    let limit = reader.listed_end();
    while let Some(entry) = reader.next_entry()? {
        if entry.lsn >= limit {
            found.at_end = RecordFault::AppendedMeanwhile;
            return Ok(());
        }
        match entry.mark {
            Some(mark) => {
                found.marks += 1;
                found.openings +=
                    u64::from(incarnation.replace(mark.incarnation) != Some(mark.incarnation));
                read.start = read.start.max(Lsn(mark.start));
                read.known_durable = read.known_durable.max(Lsn(mark.durable));
                read.ended = Lsn(mark.durable) >= read.end;
            }
            None => {
                read.ended = false;
                read.records += 1;
                read.bytes += entry.payload.len() as u64;
            }
        }
        read.end = entry.end;
    }
    found.at_end = reader.diagnose()?;
    reader.check_end()
}

fn segment_status(
    storage: &dyn Storage,
    found: &Verification,
    number: u64,
    before: bool,
) -> Result<SegmentStatus, WalError> {
    let name = segment_name(number);
    let file =
        storage.open(&name, false).map_err(|error| WalError::io("open", &name, None, error))?;
    let size = file.size().map_err(|error| WalError::io("ask the size of", &name, None, error))?;
    let bad_header = |fault| WalError::Header { segment: name.clone(), fault };
    let fault = match read_header(&*file, &name) {
        Err(error @ WalError::Header { .. }) => Some(error),
        Err(error) => return Err(error),
        Ok(header) => header.fault_as(number, size, found.identity, &found.layout).map(bad_header),
    };
    Ok(SegmentStatus { number, size, fault, before })
}

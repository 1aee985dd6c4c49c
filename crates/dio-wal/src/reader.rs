//! Reading a log: beside its writer, from another process, or when nobody has it open.

use std::path::Path;
use std::sync::Arc;

use crate::cursor::Cursor;
use crate::error::WalError;
use crate::format::{Identity, Layout, Lsn};
use crate::log::Shared;
use crate::recovery::{REACH, begin, check_end};
use crate::segments::{Listing, Segments, identify};
use crate::storage::{Directory, Method, Storage};

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its place.
    pub lsn: Lsn,
    /// What was appended.
    pub data: &'a [u8],
}

/// Reads records in order.
///
/// From [`crate::Log::reader`] it returns what is durable, and nothing that is not. From [`Reader::open`] it belongs to
/// another process than the writer, or to none, and returns what is whole: the last records may not be durable yet.
pub struct Reader {
    cursor: Cursor,
    segments: Arc<Segments>,
    /// The log beside whose writer this reads.
    live: Option<Arc<Shared>>,
    /// Records below are passed over.
    from: u64,
}

impl Reader {
    pub(crate) fn live(shared: &Arc<Shared>, from: Lsn) -> Result<Reader, WalError> {
        let (start, mark) = {
            let tail = shared.tail();
            (tail.start(), tail.mark_before(from.0))
        };
        if from.0 < start {
            return Err(WalError::Truncated { lsn: from, start: Lsn(start) });
        }
        let segments = Arc::clone(&shared.segments);
        // In a log without records there is no mark at 0 yet, and the chain begins with 0.
        let chain = if mark == 0 { Some(0) } else { None };
        let cursor = Cursor::new(&segments, mark, chain, REACH)?;
        Ok(Reader { cursor, segments, live: Some(Arc::clone(shared)), from: from.0 })
    }

    /// Opens the log in a directory for reading, whether somebody writes to it or not. Records from `from` on are returned;
    /// of truncated ones those may be there that share a segment with others.
    ///
    /// # Errors
    /// The storage's; [`std::io::ErrorKind::NotFound`] when there are no segments; [`WalError::Header`],
    /// [`WalError::Missing`].
    pub fn open(directory: impl AsRef<Path>, direct: bool, from: Lsn) -> Result<Reader, WalError> {
        let directory = directory.as_ref();
        let storage = Directory::open(directory, direct, Method::Fdatasync);
        let failed = |error| WalError::io("open", &directory.to_string_lossy(), None, error);
        Reader::open_on(Arc::new(storage.map_err(failed)?), from)
    }

    /// As [`Reader::open`], on any storage.
    ///
    /// # Errors
    /// As [`Reader::open`].
    pub fn open_on(storage: Arc<dyn Storage>, from: Lsn) -> Result<Reader, WalError> {
        let listing = Listing::of(&*storage)?;
        let none = || WalError::io("find segments in", ".", None, std::io::ErrorKind::NotFound.into());
        let last = *listing.segments.last().ok_or_else(none)?;
        let header = identify(&*storage, last)?;
        let segments = Arc::new(Segments::new(storage, &header, false));
        let mut cursor = Cursor::new(&segments, 0, None, REACH)?;
        begin(&mut cursor, &segments, listing.first_of_run().ok_or_else(none)?)?;
        Ok(Reader { cursor, segments, live: None, from: from.0 })
    }

    /// Who the log is.
    pub fn identity(&self) -> Identity {
        self.segments.identity
    }

    /// Sizes of the log.
    pub fn layout(&self) -> Layout {
        self.segments.layout
    }

    /// Where the next record is looked for.
    pub fn position(&self) -> Lsn {
        Lsn(self.cursor.position())
    }

    /// The next record; `None` when there is none yet. It may be called again later.
    ///
    /// # Errors
    /// The storage's; beside the writer [`WalError::Truncated`] and [`WalError::Damaged`], which a reader of its own finds
    /// by [`Reader::check_end`].
    #[expect(clippy::should_implement_trait, reason = "it lends, and None is not the end of it")]
    pub fn next(&mut self) -> Result<Option<Record<'_>>, WalError> {
        let durable = self.live.as_ref().map(|shared| shared.durable());
        self.cursor.set_limit(durable.unwrap_or(u64::MAX));
        loop {
            match self.cursor.next()? {
                Some(read) if read.mark.is_some() || read.header.lsn < self.from => {}
                Some(read) => return Ok(Some(Record { lsn: Lsn(read.header.lsn), data: self.cursor.payload() })),
                None => break,
            }
        }
        match (&self.live, durable) {
            (Some(shared), Some(durable)) if self.cursor.position() < durable => {
                let (lsn, start) = (Lsn(self.cursor.position()), Lsn(shared.tail().start()));
                Err(if lsn < start { WalError::Truncated { lsn, start } } else { self.cursor.damaged(lsn.0, durable) })
            }
            _ => Ok(None),
        }
    }

    /// Looks whether the place where [`Reader::next`] found nothing is the end of the log. It reads what the segments hold
    /// behind it.
    ///
    /// # Errors
    /// [`WalError::Damaged`]: it is not. [`WalError::Truncated`]: the reader was overtaken, and goes on only from a later place.
    pub fn check_end(&mut self) -> Result<(), WalError> {
        let (end, chain) = (self.cursor.position(), self.cursor.chain());
        let first = Listing::of(&*self.segments.storage)?.first_of_run().unwrap_or(0);
        if self.segments.layout.locate(end).0 < first {
            let start = Lsn(self.segments.layout.first(first));
            return Err(WalError::Truncated { lsn: Lsn(end), start });
        }
        let outcome = check_end(&mut self.cursor, end);
        if !matches!(outcome, Err(WalError::Damaged { .. })) {
            return outcome;
        }
        // A writer may have gone on while the rest was looked at.
        let goes_on = self.cursor.next()?.is_some();
        self.cursor.seek(end, chain);
        if goes_on { Ok(()) } else { outcome }
    }
}

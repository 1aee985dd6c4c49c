//! Reading records one after the other: the only reader of the format, for recovery, readers and salvage.

use std::sync::Arc;

use dio::block::{Block, Pool};
use dio::geometry::{align_down, align_up};

use crate::error::WalError;
use crate::format::{Kind, LONGEST_RECORD, Lsn, MARK, Mark, RECORD_HEADER, RecordHeader, segment_name};
use crate::segments::Segments;

/// Payloads are taken in steps of this many bytes, so that a length which nobody wrote costs no memory.
const STEP: usize = 1 << 20;

/// A place in the log from which records are read.
pub(crate) struct Cursor {
    segments: Arc<Segments>,
    /// Where the next record begins.
    position: u64,
    /// Checksum of the record before; `None` where that is not known, and the next record must be a mark.
    chain: Option<u32>,
    /// Nothing at or behind this place is read.
    limit: u64,
    /// What is read at once, in bytes.
    reach: usize,
    /// Memory of `reach` bytes. Its first `window_len` bytes are those of the stream from `window_start`, all within one
    /// segment.
    window: Block,
    window_start: u64,
    window_len: usize,
    payload: Vec<u8>,
}

/// A record that was read; its payload is in [`Cursor::payload`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Read {
    pub(crate) header: RecordHeader,
    /// The record's meaning, if it is a mark.
    pub(crate) mark: Option<Mark>,
}

impl Cursor {
    /// A cursor that reads `reach` bytes at once. With no `chain` the first record must be a mark.
    ///
    /// # Errors
    /// No memory.
    pub(crate) fn new(
        segments: &Arc<Segments>,
        position: u64,
        chain: Option<u32>,
        reach: usize,
    ) -> Result<Cursor, WalError> {
        let block = segments.layout.block();
        let reach = align_up(reach.max(1) as u64, block).min(segments.layout.data()) as usize;
        let pool = Pool::new(reach, 1).map_err(|error| WalError::io("map memory for", ".", None, error))?;
        let window = pool.try_take().expect("a new pool has its block");
        Ok(Cursor {
            segments: Arc::clone(segments),
            position,
            chain,
            limit: u64::MAX,
            reach,
            window,
            window_start: 0,
            window_len: 0,
            payload: Vec::new(),
        })
    }

    /// Where the next record would begin.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Checksum of the last record read.
    pub(crate) fn chain(&self) -> Option<u32> {
        self.chain
    }

    /// Payload of the last record read.
    pub(crate) fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// Reads nothing at or behind `limit` from now on.
    pub(crate) fn set_limit(&mut self, limit: u64) {
        self.limit = limit;
    }

    /// Goes somewhere else, and looks at the storage again there.
    pub(crate) fn seek(&mut self, position: u64, chain: Option<u32>) {
        self.window_len = 0;
        (self.position, self.chain) = (position, chain);
    }

    /// Reads the next record. `None` where no record continues the chain; the next call looks at the storage again.
    ///
    /// # Errors
    /// The storage's; a segment that is not one.
    pub(crate) fn next(&mut self) -> Result<Option<Read>, WalError> {
        let mut found = self.at_or_behind()?;
        if found.is_none() && self.window_len > 0 {
            // The block may have been gone on with since it was read.
            self.window_len = 0;
            found = self.at_or_behind()?;
            self.window_len = 0;
        }
        if let Some(read) = &found {
            (self.position, self.chain) = (read.header.end(), Some(read.header.crc));
        }
        Ok(found)
    }

    /// The next record: here, or at the start of the next block, where a mark follows a group that was cut short.
    fn at_or_behind(&mut self) -> Result<Option<Read>, WalError> {
        if let Some(found) = self.record(self.position, self.chain)? {
            return Ok(Some(found));
        }
        let next = self.segments.layout.next_block(self.position);
        if next == self.position || self.chain.is_none() {
            return Ok(None);
        }
        Ok(self.record(next, self.chain)?.filter(|read| read.mark.is_some()))
    }

    /// The record at a place, if one stands there that continues `chain`.
    fn record(&mut self, at: u64, chain: Option<u32>) -> Result<Option<Read>, WalError> {
        let mut bytes = [0; RECORD_HEADER];
        if self.fill(at, &mut bytes)? < RECORD_HEADER {
            return Ok(None);
        }
        let expected = |header: &RecordHeader| {
            let follows = chain.map_or(header.kind == Kind::Mark, |chain| header.previous == chain);
            follows && header.lsn == at && header.end() <= self.limit
        };
        let Some(header) = RecordHeader::decode(&bytes).filter(expected) else { return Ok(None) };
        if !self.read_payload(&header)? {
            return Ok(None);
        }
        let crc = crc32c::crc32c_append(self.segments.tag, &self.payload);
        if header.checksum(crc) != header.crc {
            return Ok(None);
        }
        let mark = match header.kind {
            Kind::Data => None,
            Kind::Mark => match Mark::decode(&self.payload, &self.segments.identity) {
                Some(mark) => Some(mark),
                None => return Ok(None),
            },
        };
        Ok(Some(Read { header, mark }))
    }

    /// Reads the payload of a record; `false` when the log ends before it does.
    fn read_payload(&mut self, header: &RecordHeader) -> Result<bool, WalError> {
        let length = header.length as usize;
        debug_assert!(length <= LONGEST_RECORD);
        let mut payload = std::mem::take(&mut self.payload);
        payload.clear();
        let from = header.lsn + RECORD_HEADER as u64;
        while payload.len() < length {
            let had = payload.len();
            payload.resize(length.min(had + STEP), 0);
            let wanted = payload.len() - had;
            let count = self.fill(from + had as u64, &mut payload[had..])?;
            if count < wanted {
                self.payload = payload;
                return Ok(false);
            }
        }
        self.payload = payload;
        Ok(true)
    }

    /// Copies bytes of the stream out; fewer than asked where the log's files end.
    fn fill(&mut self, from: u64, out: &mut [u8]) -> Result<usize, WalError> {
        let mut filled = 0;
        while filled < out.len() {
            let at = from + filled as u64;
            let held = self.held(at);
            if held.is_empty() {
                if !self.refill(at)? {
                    break;
                }
                continue;
            }
            let count = held.len().min(out.len() - filled);
            out[filled..filled + count].copy_from_slice(&held[..count]);
            filled += count;
        }
        Ok(filled)
    }

    /// What the window holds from a place on.
    fn held(&self, at: u64) -> &[u8] {
        let bytes = &self.window.filled()[..self.window_len];
        let skip = at.checked_sub(self.window_start).and_then(|skip| usize::try_from(skip).ok());
        skip.and_then(|skip| bytes.get(skip..)).unwrap_or(&[])
    }

    /// Reads a window that begins with the block of a place; `false` when there is nothing.
    fn refill(&mut self, at: u64) -> Result<bool, WalError> {
        let layout = self.segments.layout;
        let start = align_down(at, layout.block());
        let ahead = self.limit.min(layout.segment_end(at));
        if ahead <= at {
            return Ok(false);
        }
        let (number, offset) = layout.locate(start);
        let Some(file) = self.segments.get(number)? else { return Ok(false) };
        let wanted = (layout.next_block(ahead) - start).min(self.reach as u64) as usize;
        self.window_len = 0;
        let read = file.read_at(&mut self.window.bytes_mut()[..wanted], offset);
        self.window_len = read.map_err(|error| WalError::io("read", &segment_name(number), Some(offset), error))?;
        self.window_start = start;
        Ok(start + self.window_len as u64 > at)
    }

    /// The first mark that stands at the start of a block at or behind `from` and is `wanted`, wherever the chain is.
    ///
    /// # Errors
    /// As [`Cursor::next`].
    pub(crate) fn find_mark(
        &mut self,
        from: u64,
        mut wanted: impl FnMut(&RecordHeader, &Mark) -> bool,
    ) -> Result<Option<(RecordHeader, Mark)>, WalError> {
        let segments = Arc::clone(&self.segments);
        let mut at = segments.layout.next_block(from);
        let mut bytes = [0; MARK];
        loop {
            if self.fill(at, &mut bytes)? < MARK {
                // The segment ends here, although it should not, or is not there.
                at = segments.layout.segment_end(at);
                if segments.get(segments.layout.locate(at).0)?.is_none() {
                    return Ok(None);
                }
                continue;
            }
            let found = Mark::find(&bytes, at, &segments.identity, segments.tag);
            if let Some((header, mark)) = found.filter(|(header, mark)| wanted(header, mark)) {
                return Ok(Some((header, mark)));
            }
            at += segments.layout.block();
        }
    }

    /// The error that says that the place where the log cannot be read on is not its end.
    pub(crate) fn damaged(&self, at: u64, durable: u64) -> WalError {
        let (number, offset) = self.segments.layout.locate(at);
        WalError::Damaged { segment: segment_name(number), offset, lsn: Lsn(at), durable: Lsn(durable) }
    }
}

/// A mark never spans blocks.
const _: () = assert!(MARK <= *crate::format::BLOCKS.start() as usize);

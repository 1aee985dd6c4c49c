//! Reading records one after the other: the only reader of the format, for recovery, readers and salvage.

use std::sync::Arc;

use dio::block::{Block, Pool};
use dio::geometry::{align_down, align_up};

use crate::error::WalError;
use crate::format::{
    Lsn, MARK_BYTES, Mark, PAYLOAD_BYTES_MAX, RECORD_HEADER_BYTES, RecordHeader, RecordKind, segment_name,
};
use crate::read_ahead::{AHEAD, ReadAhead};
use crate::segments::Segments;

/// Windows of at least so many bytes are read ahead.
const READ_AHEAD: usize = 1 << 20;
/// What is read first on the way back to a mark, and where nothing was found before, in bytes; then more at a time.
const FIRST_STEP: u64 = 64 << 10;

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
    /// Nothing was found here the last time: a little is read first.
    waiting: bool,
    /// Memory of `reach` bytes. Its first `window_len` bytes are those of the stream from `window_start`, all within one
    /// segment.
    window: Block,
    window_start: u64,
    window_len: usize,
    /// Memory for reading ahead, until it is begun.
    spare: Vec<Block>,
    /// The next windows are read while this one is looked at, once windows follow each other.
    ahead: Option<ReadAhead>,
    /// The payload of the last record, if it lies within the window: where.
    inside: Option<(usize, usize)>,
    /// Otherwise, a copy.
    payload: Vec<u8>,
}

/// Why a place of the log cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The segment is missing, or shorter than this.
    Absent,
    /// Nothing was ever written there, or it was lost.
    Zeros,
    /// What stands there is not the beginning of a record.
    NoRecord,
    /// A record of another place stands there: the block was misdirected, or is that of the segment before it was recycled.
    Elsewhere(Lsn),
    /// The segments end before the record does.
    Cut {
        /// Bytes of its payload, by its header.
        length: u32,
    },
    /// The record's checksum is wrong: it was torn, or changed.
    Checksum {
        /// The one in its header.
        stored: u32,
        /// That of its bytes.
        computed: u32,
    },
    /// What fills the record up is not zeros: the block of its end was lost, and something else stands there that happens to
    /// begin with the same bytes.
    Filling,
    /// The log goes on: it is being written to.
    Beyond,
    /// The record is whole and does not follow the one before it.
    Chain {
        /// Checksum of the record before, by its header.
        stored: u32,
        /// That of the record before.
        expected: u32,
    },
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Fault::Absent => write!(f, "the segment is missing or too short"),
            Fault::Zeros => write!(f, "zeros"),
            Fault::NoRecord => write!(f, "not a record"),
            Fault::Elsewhere(lsn) => write!(f, "a record of LSN {lsn}"),
            Fault::Cut { length } => write!(f, "a record of {length} bytes, of which the end is missing"),
            Fault::Checksum { stored, computed } => {
                write!(f, "a record whose checksum is {computed:08x} and should be {stored:08x}")
            }
            Fault::Filling => write!(f, "a record that is followed by the bytes of another block"),
            Fault::Beyond => write!(f, "a record that was appended meanwhile"),
            Fault::Chain { stored, expected } => {
                write!(f, "a record that follows one of checksum {stored:08x}, and the one before has {expected:08x}")
            }
        }
    }
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
        let block = segments.layout.block_bytes();
        let reach = align_up(reach.max(1) as u64, block).min(segments.layout.data_bytes()) as usize;
        let windows = if reach >= READ_AHEAD { 1 + AHEAD } else { 1 };
        let pool = Pool::new(reach, windows).map_err(|error| WalError::io("map memory for", ".", None, error))?;
        let window = pool.try_take().expect("a new pool has its block");
        Ok(Cursor {
            segments: Arc::clone(segments),
            position,
            chain,
            limit: u64::MAX,
            reach,
            waiting: false,
            window,
            window_start: 0,
            window_len: 0,
            spare: std::iter::from_fn(|| pool.try_take()).collect(),
            ahead: None,
            inside: None,
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
        match self.inside {
            Some((from, to)) => &self.window.filled()[from..to],
            None => &self.payload,
        }
    }

    /// Reads nothing at or behind `limit` from now on.
    pub(crate) fn set_limit(&mut self, limit: u64) {
        self.limit = limit;
    }

    /// Goes somewhere else, and looks at the storage again there.
    pub(crate) fn seek(&mut self, position: u64, chain: Option<u32>) {
        self.forget();
        self.waiting = false;
        (self.position, self.chain) = (position, chain);
    }

    /// Reads the next record. `None` where no record continues the chain; the next call looks at the storage again.
    ///
    /// # Errors
    /// The storage's; a segment that is not one.
    pub(crate) fn next(&mut self) -> Result<Option<Read>, WalError> {
        let read_before = self.window_len > 0;
        let mut found = self.at_or_behind()?;
        if found.is_none() && read_before {
            // The block may have been gone on with since it was read.
            self.forget();
            found = self.at_or_behind()?;
        }
        self.waiting = found.is_none();
        if self.waiting {
            self.forget();
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
        let next = self.segments.layout.block_at_or_after(self.position);
        if next == self.position || self.chain.is_none() {
            return Ok(None);
        }
        Ok(self.record(next, self.chain)?.filter(|read| read.mark.is_some()))
    }

    /// The record at a place, if one stands there that continues `chain`.
    fn record(&mut self, at: u64, chain: Option<u32>) -> Result<Option<Read>, WalError> {
        let mut bytes = [0; RECORD_HEADER_BYTES];
        if self.fill(at, &mut bytes)? < RECORD_HEADER_BYTES {
            return Ok(None);
        }
        let expected = |header: &RecordHeader| {
            let is_mark = header.kind == RecordKind::Mark;
            let follows = chain.map_or(is_mark, |chain| header.previous_crc == chain);
            // A log begins with a mark. Readers look for the last one before the place where they begin.
            follows && (is_mark || at > 0) && header.lsn == at && header.end() <= self.limit
        };
        let Some(header) = RecordHeader::decode(&bytes).filter(expected) else { return Ok(None) };
        if !self.read_payload(&header)? {
            return Ok(None);
        }
        let crc = crc32c::crc32c_append(self.segments.tag, self.payload());
        if header.checksum(crc) != header.crc || !self.is_filled_up(&header) {
            return Ok(None);
        }
        let mark = match header.kind {
            RecordKind::Data => None,
            RecordKind::Mark => match Mark::decode(self.payload(), &self.segments.identity, at) {
                Some(mark) => Some(mark),
                None => return Ok(None),
            },
        };
        Ok(Some(Read { header, mark }))
    }

    /// Reads the payload of a record; `false` when the log ends before it does.
    fn read_payload(&mut self, header: &RecordHeader) -> Result<bool, WalError> {
        self.waiting = false;
        let length = header.payload_bytes as usize;
        debug_assert!(length <= PAYLOAD_BYTES_MAX);
        let from = header.lsn + RECORD_HEADER_BYTES as u64;
        self.payload.clear();
        self.inside = None;
        if self.held(from).len() >= length {
            let skip = (from - self.window_start) as usize;
            self.inside = Some((skip, skip + length));
            return Ok(true);
        }
        let mut payload = std::mem::take(&mut self.payload);
        let mut there = true;
        // Piece by piece, as they are read: a length which nobody wrote costs no memory.
        while there && payload.len() < length {
            let held = self.held(from + payload.len() as u64);
            if held.is_empty() {
                there = self.refill(from + payload.len() as u64)?;
            }
            let held = self.held(from + payload.len() as u64);
            payload.extend_from_slice(&held[..held.len().min(length - payload.len())]);
        }
        self.payload = payload;
        Ok(there)
    }

    /// Whether zeros follow the payload that was read, up to the end of its record. A record that ends with a byte in a block
    /// which was lost would be taken for whole, one time in 256, when another group begins in that block: its checksum does
    /// not tell. They are in the block of the last byte, hence in the window.
    fn is_filled_up(&self, header: &RecordHeader) -> bool {
        let behind = header.lsn + (RECORD_HEADER_BYTES + header.payload_bytes as usize) as u64;
        let filling = self.held(behind).get(..(header.end() - behind) as usize);
        filling.is_some_and(|bytes| bytes.iter().all(|byte| *byte == 0))
    }

    /// Forgets what was read of the storage, which may have changed.
    fn forget(&mut self) {
        (self.window_len, self.inside) = (0, None);
        if let Some(ahead) = &mut self.ahead {
            ahead.forget();
        }
    }

    /// Why no record was found at a place.
    ///
    /// # Errors
    /// As [`Cursor::next`].
    pub(crate) fn diagnose(&mut self, at: u64, chain: Option<u32>) -> Result<Fault, WalError> {
        self.forget();
        let mut bytes = [0; RECORD_HEADER_BYTES];
        if self.fill(at, &mut bytes)? < RECORD_HEADER_BYTES {
            return Ok(Fault::Absent);
        }
        if bytes == [0; RECORD_HEADER_BYTES] {
            return Ok(Fault::Zeros);
        }
        let Some(header) = RecordHeader::decode(&bytes) else { return Ok(Fault::NoRecord) };
        if header.lsn != at {
            return Ok(Fault::Elsewhere(Lsn(header.lsn)));
        }
        if !self.read_payload(&header)? {
            return Ok(Fault::Cut { length: header.payload_bytes });
        }
        let computed = header.checksum(crc32c::crc32c_append(self.segments.tag, self.payload()));
        if computed != header.crc {
            return Ok(Fault::Checksum { stored: header.crc, computed });
        }
        if !self.is_filled_up(&header) {
            return Ok(Fault::Filling);
        }
        match chain.filter(|chain| *chain != header.previous_crc) {
            Some(expected) => Ok(Fault::Chain { stored: header.previous_crc, expected }),
            None => Ok(Fault::NoRecord),
        }
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
        let start = align_down(at, layout.block_bytes());
        let ahead = self.limit.min(layout.segment_end(at));
        if ahead <= at {
            return Ok(false);
        }
        let reach = if self.waiting {
            align_up(FIRST_STEP, layout.block_bytes()).min(self.reach as u64)
        } else {
            self.reach as u64
        };
        let wanted = (layout.block_at_or_after(ahead) - start).min(reach) as usize;
        Ok(self.refill_with(start, wanted)? && start + self.window_len as u64 > at)
    }

    /// Reads a window of `wanted` bytes from the start of a block on, within a segment; `false` when there is no such segment.
    fn refill_with(&mut self, start: u64, wanted: usize) -> Result<bool, WalError> {
        let follows = self.window_len > 0 && start == self.window_start + self.window_len as u64;
        (self.window_len, self.inside) = (0, None);
        if let Some(count) = self.ahead.as_mut().and_then(|ahead| ahead.take(start, &mut self.window)) {
            (self.window_start, self.window_len) = (start, count);
            self.read_on();
            return Ok(true);
        }
        let (number, offset) = self.segments.layout.locate(start);
        let Some(file) = self.segments.get(number)? else { return Ok(false) };
        let read = self.segments.read(&*file, number, &mut self.window.bytes_mut()[..wanted], offset);
        self.window_len = read.map_err(|error| WalError::io("read", &segment_name(number), Some(offset), error))?;
        self.window_start = start;
        if follows {
            self.read_on();
        }
        Ok(true)
    }

    /// Reads the windows behind this one ahead.
    fn read_on(&mut self) {
        if !self.spare.is_empty() {
            self.ahead = ReadAhead::start(&self.segments, std::mem::take(&mut self.spare));
        }
        let (layout, mut start) = (self.segments.layout, self.window_start + self.window_len as u64);
        let Some(ahead) = self.ahead.as_mut().filter(|_| self.window_len > 0) else { return };
        while ahead.has_room() {
            start = ahead.end().unwrap_or(start);
            let end = layout.block_at_or_after(self.limit.min(layout.segment_end(start)));
            // A file that ends within a block is read no further.
            if end <= start || start % layout.block_bytes() != 0 {
                return;
            }
            ahead.want(start, (end - start).min(self.reach as u64) as usize);
        }
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
        let mut at = segments.layout.block_at_or_after(from);
        let mut bytes = [0; MARK_BYTES];
        loop {
            if self.fill(at, &mut bytes)? < MARK_BYTES {
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
            at += segments.layout.block_bytes();
        }
    }

    /// The last mark at or before `from` and not before `floor` of which it is sure that the log goes through it: everything
    /// below `known` was durable, and everything below what the marks say that are passed on the way back. A mark of which
    /// that is not known may be left over from an earlier opening, behind the end.
    ///
    /// # Errors
    /// As [`Cursor::next`].
    pub(crate) fn find_mark_before(&mut self, from: u64, floor: u64, mut known: u64) -> Result<Option<u64>, WalError> {
        let layout = self.segments.layout;
        let mut at = align_down(from, layout.block_bytes());
        let mut step = FIRST_STEP;
        while at >= floor {
            let held = self.held(at);
            let Some(bytes) = held.get(..MARK_BYTES) else {
                let least = floor.max(layout.segment_start(at / layout.data_bytes()));
                let start = align_down((at + layout.block_bytes()).saturating_sub(step), layout.block_bytes())
                    .max(least)
                    .min(at);
                step = (step * 4).min(self.reach as u64);
                if !self.refill_with(start, (at + layout.block_bytes() - start) as usize)?
                    || self.held(at).len() < MARK_BYTES
                {
                    return Ok(None);
                }
                continue;
            };
            let found = Mark::find(bytes, at, &self.segments.identity, self.segments.tag);
            match found {
                Some((header, _)) if header.end() <= known => return Ok(Some(at)),
                Some((_, mark)) => known = known.max(mark.durable),
                None => {}
            }
            match at.checked_sub(layout.block_bytes()) {
                Some(before) => at = before,
                None => break,
            }
        }
        Ok(None)
    }

    /// The error that says that the place where the log cannot be read on is not its end.
    pub(crate) fn damaged(&self, at: u64, durable: u64) -> WalError {
        WalError::damaged(&self.segments.layout, at, durable)
    }
}

//! Reading records one after the other. Recovery, readers and salvage all read through this.

use std::sync::Arc;

use dio::block::{Block, Pool};
use dio::geometry::{align_down, align_up};

use crate::damage::RecordFault;
use crate::error::WalError;
use crate::format::{
    Lsn, MARK_BYTES, Mark, PAYLOAD_BYTES_MAX, RECORD_HEADER_BYTES, RecordHeader, RecordKind,
    segment_name,
};
use crate::read_ahead::{ReadAhead, WINDOWS_AHEAD};
use crate::segments::Segments;

/// Cursors with windows of at least this many bytes read ahead.
const READ_AHEAD_WINDOW_BYTES_MIN: usize = 1 << 20;
/// Bytes of the first read of a backward search, and of the first read behind the end of the log or
/// behind damage. Each further read is four times as large, up to a whole window.
const FIRST_READ_BYTES: u64 = 64 << 10;

/// A position in the log from which records are read.
///
/// 1. `position` is where the next record begins.
/// 2. `chain` is the checksum of the record before `position`. `None` says that it is unknown; the
///    next record must then be a mark.
/// 3. The first `window_len` bytes of `window` are the bytes of the log from `window_start` on, all
///    of them within one segment.
pub(crate) struct Cursor {
    segments: Arc<Segments>,
    position: u64,
    chain: Option<u32>,
    /// No record that ends behind this LSN is returned.
    limit: u64,
    /// LSN and `durable` of the mark that [`Cursor::find_evidence`] found last.
    evidence: Option<(u64, u64)>,
    /// Size of a window in bytes, which is also the largest read.
    window_bytes: usize,
    /// Size of the next read in bytes. It begins with [`FIRST_READ_BYTES`] where no record was
    /// found, and quadruples with each window up to `window_bytes`.
    next_read_bytes: usize,
    window: Block,
    window_start: u64,
    window_len: usize,
    /// Memory for reading ahead. It moves to `read_ahead` when that is started.
    spare: Vec<Block>,
    /// Reads the next windows in a thread. The cursor starts it when it has read two consecutive
    /// windows.
    read_ahead: Option<ReadAhead>,
    /// Start and end of the last record's payload in the window, if the window holds all of it.
    payload_in_window: Option<(usize, usize)>,
    /// A copy of the last record's payload, if the window does not hold all of it.
    payload: Vec<u8>,
}

/// A record that was read and verified. Its payload is [`Cursor::payload`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct DecodedRecord {
    pub(crate) header: RecordHeader,
    /// The contents of a mark; `None` for a record that was appended.
    pub(crate) mark: Option<Mark>,
}

impl Cursor {
    /// Makes a cursor that reads about `window_bytes` at a time. Without a `chain` the first record
    /// must be a mark.
    ///
    /// # Errors
    /// No memory.
    pub(crate) fn new(
        segments: &Arc<Segments>,
        position: u64,
        chain: Option<u32>,
        window_bytes: usize,
    ) -> Result<Cursor, WalError> {
        let layout = segments.layout;
        let whole_blocks = align_up(window_bytes.max(1) as u64, layout.block_bytes());
        let window_bytes = whole_blocks.min(layout.data_bytes()) as usize;
        let windows =
            if window_bytes >= READ_AHEAD_WINDOW_BYTES_MIN { 1 + WINDOWS_AHEAD } else { 1 };
        let pool = Pool::new(window_bytes, windows)
            .map_err(|error| WalError::io("map memory for", ".", None, error))?;
        let window = pool.try_take().expect("a new pool has its block");
        Ok(Cursor {
            segments: Arc::clone(segments),
            position,
            chain,
            limit: u64::MAX,
            evidence: None,
            window_bytes,
            next_read_bytes: window_bytes,
            window,
            window_start: 0,
            window_len: 0,
            spare: std::iter::from_fn(|| pool.try_take()).collect(),
            read_ahead: None,
            payload_in_window: None,
            payload: Vec::new(),
        })
    }

    /// LSN where the next record would begin.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Checksum of the last record read.
    pub(crate) fn chain(&self) -> Option<u32> {
        self.chain
    }

    /// Payload of the last record read.
    pub(crate) fn payload(&self) -> &[u8] {
        match self.payload_in_window {
            Some((from, to)) => &self.window.filled()[from..to],
            None => &self.payload,
        }
    }

    /// From now on, returns no record that ends behind `limit`.
    pub(crate) fn set_limit(&mut self, limit: u64) {
        self.limit = limit;
    }

    /// Moves to `position` and discards what was read, so that the next call reads the storage
    /// again.
    pub(crate) fn seek(&mut self, position: u64, chain: Option<u32>) {
        self.discard_windows();
        (self.position, self.chain) = (position, chain);
    }

    /// Moves to the mark at `position`, behind damage. Keeps the window if it holds the mark. The
    /// next reads are small at first, because the log may be damaged behind the mark too.
    pub(crate) fn seek_behind_damage(&mut self, position: u64) {
        if self.in_window(position).is_empty() {
            self.discard_windows();
        }
        (self.position, self.chain) = (position, None);
        self.next_read_bytes = self.first_read_bytes();
    }

    fn first_read_bytes(&self) -> usize {
        (align_up(FIRST_READ_BYTES, self.segments.layout.block_bytes()) as usize)
            .min(self.window_bytes)
    }

    /// Reads the next record. Returns `None` if no record continues the chain; the next call then
    /// reads the storage again.
    ///
    /// # Errors
    /// Errors of the storage; [`WalError::Header`].
    pub(crate) fn next(&mut self) -> Result<Option<DecodedRecord>, WalError> {
        let read_before = self.window_len > 0;
        let mut found = self.here_or_in_next_block()?;
        if found.is_none() && read_before {
            // The writer may have continued in the block after it was read.
            self.discard_windows();
            found = self.here_or_in_next_block()?;
        }
        if found.is_none() {
            self.discard_windows();
            self.next_read_bytes = self.first_read_bytes();
        }
        if let Some(record) = &found {
            (self.position, self.chain) = (record.header.end(), Some(record.header.crc));
        }
        Ok(found)
    }

    /// Reads the record at the position, or else the mark at the start of the next block, which
    /// follows a group that ended within a block.
    fn here_or_in_next_block(&mut self) -> Result<Option<DecodedRecord>, WalError> {
        if let Some(found) = self.record_at(self.position, self.chain)? {
            return Ok(Some(found));
        }
        let next = self.segments.layout.block_at_or_after(self.position);
        if next == self.position || self.chain.is_none() {
            return Ok(None);
        }
        Ok(self.record_at(next, self.chain)?.filter(|record| record.mark.is_some()))
    }

    /// Reads the record at `lsn`, if a valid one stands there that continues `chain`.
    fn record_at(
        &mut self,
        lsn: u64,
        chain: Option<u32>,
    ) -> Result<Option<DecodedRecord>, WalError> {
        let mut bytes = [0; RECORD_HEADER_BYTES];
        if self.copy_out(lsn, &mut bytes)? < RECORD_HEADER_BYTES {
            return Ok(None);
        }
        let fits = |header: &RecordHeader| {
            let is_mark = header.kind == RecordKind::Mark;
            let follows = chain.map_or(is_mark, |chain| header.previous_crc == chain);
            // A log begins with a mark; readers rely on a mark at or before every record.
            follows && (is_mark || lsn > 0) && header.lsn == lsn && header.end() <= self.limit
        };
        let Some(header) = RecordHeader::decode(&bytes).filter(fits) else { return Ok(None) };
        if !self.read_payload(&header)? {
            return Ok(None);
        }
        let crc = crc32c::crc32c_append(self.segments.checksum_seed, self.payload());
        if header.checksum(crc) != header.crc || !self.is_padded_with_zeros(&header) {
            return Ok(None);
        }
        let mark = match header.kind {
            RecordKind::Data => None,
            RecordKind::Mark => match Mark::decode(self.payload(), &self.segments.identity, lsn) {
                Some(mark) => Some(mark),
                None => return Ok(None),
            },
        };
        Ok(Some(DecodedRecord { header, mark }))
    }

    /// Reads the payload of a record. Returns `false` if the log ends before the payload does.
    fn read_payload(&mut self, header: &RecordHeader) -> Result<bool, WalError> {
        let length = header.payload_bytes as usize;
        debug_assert!(length <= PAYLOAD_BYTES_MAX);
        let from = header.lsn + RECORD_HEADER_BYTES as u64;
        self.payload.clear();
        self.payload_in_window = None;
        if self.in_window(from).len() >= length {
            let skip = (from - self.window_start) as usize;
            self.payload_in_window = Some((skip, skip + length));
            return Ok(true);
        }
        let mut payload = std::mem::take(&mut self.payload);
        let mut complete = true;
        // The copy grows as bytes are read, so a wrong length in a damaged header costs no memory.
        while complete && payload.len() < length {
            let next = from + payload.len() as u64;
            if self.in_window(next).is_empty() {
                complete = self.read_window_at(next)?;
            }
            let bytes = self.in_window(next);
            payload.extend_from_slice(&bytes[..bytes.len().min(length - payload.len())]);
        }
        self.payload = payload;
        Ok(complete)
    }

    /// Whether zeros fill the record up behind the payload that was read.
    ///
    /// The checksum alone does not detect the following loss: the last block of the record, which
    /// holds a single byte of it, is lost, and another group begins in that block. In one case of
    /// 256, the first byte of that group equals the lost byte. The zeros lie in the block of the
    /// payload's last byte, hence in the window.
    fn is_padded_with_zeros(&self, header: &RecordHeader) -> bool {
        let payload_end = header.lsn + (RECORD_HEADER_BYTES + header.payload_bytes as usize) as u64;
        let padding = self.in_window(payload_end).get(..(header.end() - payload_end) as usize);
        padding.is_some_and(|bytes| bytes.iter().all(|byte| *byte == 0))
    }

    /// Discards all windows that were read, because the storage may have changed.
    fn discard_windows(&mut self) {
        (self.window_len, self.payload_in_window) = (0, None);
        if let Some(read_ahead) = &mut self.read_ahead {
            read_ahead.discard();
        }
    }

    /// Says why there is no record at `lsn`.
    ///
    /// # Errors
    /// As [`Cursor::next`].
    pub(crate) fn diagnose(
        &mut self,
        lsn: u64,
        chain: Option<u32>,
    ) -> Result<RecordFault, WalError> {
        self.discard_windows();
        let mut bytes = [0; RECORD_HEADER_BYTES];
        if self.copy_out(lsn, &mut bytes)? < RECORD_HEADER_BYTES {
            return Ok(RecordFault::Absent);
        }
        if bytes == [0; RECORD_HEADER_BYTES] {
            return Ok(RecordFault::Zeros);
        }
        let Some(header) = RecordHeader::decode(&bytes) else { return Ok(RecordFault::NoRecord) };
        if header.lsn != lsn {
            return Ok(RecordFault::OtherLsn(Lsn(header.lsn)));
        }
        if !self.read_payload(&header)? {
            return Ok(RecordFault::Cut { length: header.payload_bytes });
        }
        let computed =
            header.checksum(crc32c::crc32c_append(self.segments.checksum_seed, self.payload()));
        if computed != header.crc {
            return Ok(RecordFault::Checksum { stored: header.crc, computed });
        }
        if !self.is_padded_with_zeros(&header) {
            return Ok(RecordFault::Padding);
        }
        match chain.filter(|chain| *chain != header.previous_crc) {
            Some(expected) => Ok(RecordFault::Chain { stored: header.previous_crc, expected }),
            None => Ok(RecordFault::NoRecord),
        }
    }

    /// Copies bytes of the log from `lsn` on, all of `out` or up to the end of the log's files.
    /// Returns how many were copied.
    fn copy_out(&mut self, lsn: u64, out: &mut [u8]) -> Result<usize, WalError> {
        let mut copied = 0;
        while copied < out.len() {
            let next = lsn + copied as u64;
            let bytes = self.in_window(next);
            if bytes.is_empty() {
                if !self.read_window_at(next)? {
                    break;
                }
                continue;
            }
            let count = bytes.len().min(out.len() - copied);
            out[copied..copied + count].copy_from_slice(&bytes[..count]);
            copied += count;
        }
        Ok(copied)
    }

    /// The bytes of the window from `lsn` on; none if the window does not hold that LSN.
    fn in_window(&self, lsn: u64) -> &[u8] {
        let bytes = &self.window.filled()[..self.window_len];
        let skip = lsn.checked_sub(self.window_start).and_then(|skip| usize::try_from(skip).ok());
        skip.and_then(|skip| bytes.get(skip..)).unwrap_or(&[])
    }

    /// Reads the window that begins with the block of `lsn`. Returns `false` if the log's files or
    /// the limit end before `lsn`.
    fn read_window_at(&mut self, lsn: u64) -> Result<bool, WalError> {
        let layout = self.segments.layout;
        let start = align_down(lsn, layout.block_bytes());
        let end = self.limit.min(layout.segment_end(lsn));
        if end <= lsn {
            return Ok(false);
        }
        let length =
            (layout.block_at_or_after(end) - start).min(self.next_read_bytes as u64) as usize;
        self.next_read_bytes = (self.next_read_bytes * 4).min(self.window_bytes);
        Ok(self.read_window(start, length)? && start + self.window_len as u64 > lsn)
    }

    /// Reads a window of `length` bytes within a segment; `start` is the start of a block. Returns
    /// `false` if there is no such segment.
    fn read_window(&mut self, start: u64, length: usize) -> Result<bool, WalError> {
        let follows = self.window_len > 0 && start == self.window_start + self.window_len as u64;
        (self.window_len, self.payload_in_window) = (0, None);
        if let Some(count) =
            self.read_ahead.as_mut().and_then(|ahead| ahead.take(start, &mut self.window))
        {
            (self.window_start, self.window_len) = (start, count);
            self.request_windows_ahead();
            return Ok(true);
        }
        let (number, offset) = self.segments.layout.locate(start);
        let Some(file) = self.segments.get(number)? else { return Ok(false) };
        let read =
            self.segments.read(&*file, number, &mut self.window.bytes_mut()[..length], offset);
        self.window_len =
            read.map_err(|error| WalError::io("read", &segment_name(number), Some(offset), error))?;
        self.window_start = start;
        if follows {
            self.request_windows_ahead();
        }
        Ok(true)
    }

    /// Requests the windows behind this one, as many as there is memory for.
    fn request_windows_ahead(&mut self) {
        if !self.spare.is_empty() {
            self.read_ahead = ReadAhead::start(&self.segments, std::mem::take(&mut self.spare));
        }
        let (layout, mut start) =
            (self.segments.layout, self.window_start + self.window_len as u64);
        let Some(read_ahead) = self.read_ahead.as_mut().filter(|_| self.window_len > 0) else {
            return;
        };
        while read_ahead.has_room() {
            start = read_ahead.end().unwrap_or(start);
            let end = layout.block_at_or_after(self.limit.min(layout.segment_end(start)));
            // If `start` lies within a block, the file ends there.
            if end <= start || start % layout.block_bytes() != 0 {
                return;
            }
            read_ahead.request(start, (end - start).min(self.window_bytes as u64) as usize);
        }
    }

    /// Searches forward for the first mark at or behind `from` that `accept` accepts. Only the
    /// starts of blocks are searched, and the chain is not checked.
    ///
    /// # Errors
    /// As [`Cursor::next`].
    pub(crate) fn find_mark(
        &mut self,
        from: u64,
        mut accept: impl FnMut(&RecordHeader, &Mark) -> bool,
    ) -> Result<Option<(RecordHeader, Mark)>, WalError> {
        let segments = Arc::clone(&self.segments);
        let mut at = segments.layout.block_at_or_after(from);
        let mut bytes = [0; MARK_BYTES];
        loop {
            if self.copy_out(at, &mut bytes)? < MARK_BYTES {
                // The segment is missing, or its file is shorter than it must be.
                at = segments.layout.segment_end(at);
                if segments.get(segments.layout.segment_of(at))?.is_none() {
                    return Ok(None);
                }
                continue;
            }
            let found = Mark::find(&bytes, at, &segments.identity, segments.checksum_seed);
            if let Some((header, mark)) = found.filter(|(header, mark)| accept(header, mark)) {
                return Ok(Some((header, mark)));
            }
            at += segments.layout.block_bytes();
        }
    }

    /// Finds a mark at or behind `from` which says that the log was durable beyond `broken`.
    /// Returns the LSN of the mark, and the LSN up to which the mark says that the log was durable.
    ///
    /// The cursor keeps the mark that it found last. Otherwise a log with many gaps, where every
    /// block begins with a mark and only the last mark is such evidence, would be read once for
    /// each gap.
    ///
    /// # Errors
    /// As [`Cursor::next`].
    pub(crate) fn find_evidence(
        &mut self,
        from: u64,
        broken: u64,
    ) -> Result<Option<(u64, u64)>, WalError> {
        if let Some(known) =
            self.known_evidence(broken).filter(|(lsn, _)| *lsn >= from && *lsn < self.limit)
        {
            return Ok(Some(known));
        }
        let found = self.find_mark(from, |_, mark| mark.durable > broken)?;
        let Some((header, mark)) = found else { return Ok(None) };
        self.evidence = Some((header.lsn, mark.durable));
        Ok(self.evidence)
    }

    /// The mark that [`Cursor::find_evidence`] found last, if it lies at or behind `broken` and
    /// says that the log was durable beyond `broken`.
    pub(crate) fn known_evidence(&self, broken: u64) -> Option<(u64, u64)> {
        self.evidence.filter(|(lsn, durable)| *lsn >= broken && *durable > broken)
    }

    /// Searches backward, from `from` down to `floor`, for the last mark that certainly belongs to
    /// the log, and returns its LSN.
    ///
    /// A mark certainly belongs to the log if it ends at or below an LSN up to which the log was
    /// durable. The caller passes such an LSN as `known`, and each mark that the search passes may
    /// raise it. Any other mark may have been left behind the end of the log by an earlier opening.
    ///
    /// # Errors
    /// As [`Cursor::next`].
    pub(crate) fn find_mark_before(
        &mut self,
        from: u64,
        floor: u64,
        mut known: u64,
    ) -> Result<Option<u64>, WalError> {
        let layout = self.segments.layout;
        let block = layout.block_bytes();
        let mut at = align_down(from, block);
        let mut step = FIRST_READ_BYTES;
        while at >= floor {
            let Some(bytes) = self.in_window(at).get(..MARK_BYTES) else {
                let lowest = floor.max(layout.segment_start(layout.segment_of(at)));
                let start =
                    align_down((at + block).saturating_sub(step), block).max(lowest).min(at);
                step = (step * 4).min(self.window_bytes as u64);
                if !self.read_window(start, (at + block - start) as usize)?
                    || self.in_window(at).len() < MARK_BYTES
                {
                    return Ok(None);
                }
                continue;
            };
            match Mark::find(bytes, at, &self.segments.identity, self.segments.checksum_seed) {
                Some((header, _)) if header.end() <= known => return Ok(Some(at)),
                Some((_, mark)) => known = known.max(mark.durable),
                None => {}
            }
            match at.checked_sub(block) {
                Some(before) => at = before,
                None => break,
            }
        }
        Ok(None)
    }
}

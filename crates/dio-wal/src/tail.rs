//! The end of the log in memory. Records get their LSN and checksum here, and are copied once.

use std::collections::BTreeMap;

use crate::buffer::LogBuffer;
use crate::error::WalError;
use crate::format::{
    Identity, Layout, MARK_BYTES, MARK_PAYLOAD_BYTES, Mark, RECORD_ALIGN_BYTES,
    RECORD_HEADER_BYTES, RecordHeader, RecordKind, record_bytes,
};
use crate::log_end::LogEnd;
use crate::writer::Writer;

const ZEROS: [u8; 512] = [0; 512];

/// The end of a log. One thread at a time appends to it.
pub(crate) struct Tail {
    layout: Layout,
    identity: Identity,
    checksum_seed: u32,
    /// Random number of this opening.
    incarnation: u64,
    /// LSN of the next byte. Invariant: it lies in `buffer`, or is the start of a block if there is
    /// no buffer.
    next: u64,
    /// LSN where the last record ends.
    end: u64,
    /// Checksum of the last record.
    chain: u32,
    /// The next record begins a group. Invariant: `next` is the start of a block then.
    starts_group: bool,
    /// The buffer that records are copied into.
    buffer: Option<LogBuffer>,
    /// A group continues in the block where the last one ended, because that block can be rewritten
    /// atomically.
    continues_blocks: bool,
    /// With `continues_blocks`, the bytes of the block in which the last group ended, if that block
    /// is not full; empty otherwise. Invariant: they end at `end`.
    partial_block: Vec<u8>,
    /// The last record is a mark that says that everything before it is durable, or there is no
    /// record.
    ended: bool,
    /// LSN below which everything was truncated.
    start: u64,
    /// For each segment with marks that was not truncated, the LSN of its first mark, by the
    /// segment's number. Reading can begin at each of these.
    first_marks: BTreeMap<u64, u64>,
}

impl Tail {
    /// Makes the tail of a log that was found to end at `end`.
    pub(crate) fn new(
        layout: Layout,
        identity: Identity,
        incarnation: u64,
        continues_blocks: bool,
        end: LogEnd,
    ) -> Tail {
        let LogEnd { end, chain, start, ended, first_marks } = end;
        Tail {
            layout,
            identity,
            checksum_seed: identity.checksum_seed(),
            incarnation,
            next: layout.block_at_or_after(end),
            end,
            chain,
            starts_group: true,
            buffer: None,
            continues_blocks,
            partial_block: Vec::with_capacity(if continues_blocks {
                layout.block_bytes() as usize
            } else {
                0
            }),
            ended,
            start,
            first_marks,
        }
    }

    /// LSN where the last record ends.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Whether the last record is a mark that says that everything before it is durable, or there
    /// is no record.
    pub(crate) fn is_ended(&self) -> bool {
        self.ended
    }

    /// Whether groups continue in the block where the last one ended.
    pub(crate) fn continues_blocks(&self) -> bool {
        self.continues_blocks
    }

    /// LSN below which everything was truncated.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// Truncates everything below `start`. The next mark records that.
    pub(crate) fn set_start(&mut self, start: u64) {
        self.start = self.start.max(start);
    }

    /// LSN of the last recorded mark at or before `lsn`. Reading can begin there.
    pub(crate) fn mark_before(&self, lsn: u64) -> u64 {
        let before = self.first_marks.values().rev().find(|mark| **mark <= lsn);
        *before.or_else(|| self.first_marks.values().next()).unwrap_or(&0)
    }

    /// Forgets the marks of segments below `number`.
    pub(crate) fn forget_below(&mut self, number: u64) {
        self.first_marks = self.first_marks.split_off(&number);
    }

    /// The first segment that is needed to read the log from its start.
    pub(crate) fn first_needed(&self) -> u64 {
        self.layout.segment_of(self.mark_before(self.start))
    }

    /// LSN whose segment must exist before a record with `payload_bytes` is appended.
    ///
    /// One block behind the record is then still free for a mark: truncation, which makes space,
    /// must not need any. With blocks of 512 bytes and the log at LSN 1024, a record of 100 bytes
    /// follows a mark at 1024 and ends at 1024 + 64 + 128 = 1216. The next block, and with it the
    /// next mark, begins at 1536, so the segment that holds LSN 1536 must exist.
    pub(crate) fn reach_of_record(&self, payload_bytes: usize) -> u64 {
        let mark = if self.starts_group { MARK_BYTES as u64 } else { 0 };
        self.layout.block_at_or_after(self.next + mark + record_bytes(payload_bytes))
    }

    /// LSN whose segment must exist before a mark is written.
    pub(crate) fn reach_of_mark(&self) -> u64 {
        self.layout.block_at_or_after(self.next)
    }

    /// Appends a record of `payload_bytes`, whose checksum `crc` is continued from that of the
    /// identity. If the record begins a group, a mark is written before it, and `durable` is called
    /// for the LSN that this mark states as durable.
    ///
    /// # Errors
    /// The first failure of the log.
    pub(crate) fn append<'a>(
        &mut self,
        writer: &Writer,
        payload: impl Iterator<Item = &'a [u8]>,
        payload_bytes: usize,
        crc: u32,
        durable: impl FnOnce() -> u64,
    ) -> Result<u64, WalError> {
        // A record that does not fit into the partial block would need two writes, one of that
        // block and one of its successor. In a new block it needs one.
        let room = self.layout.block_at_or_after(self.end) - self.end;
        if self.starts_group
            && !self.partial_block.is_empty()
            && record_bytes(payload_bytes) <= room
        {
            self.continue_block(writer)?;
        }
        if self.starts_group {
            self.begin_group(writer, durable())?;
        }
        self.ended = false;
        self.put_record(writer, RecordKind::Data, payload, payload_bytes, crc)
    }

    /// Begins a group in the block where the last one ended.
    fn continue_block(&mut self, writer: &Writer) -> Result<(), WalError> {
        let mut buffer = writer.new_buffer(self.end - self.partial_block.len() as u64)?;
        (buffer.bytes_max, buffer.rewrite) = (self.layout.block_bytes() as usize, true);
        buffer.block.push(&self.partial_block);
        self.partial_block.clear();
        self.buffer = Some(buffer);
        (self.next, self.starts_group) = (self.end, false);
        Ok(())
    }

    /// Begins a group in a new block, with a mark. The group before must have been sealed. Returns
    /// the LSN of the mark.
    ///
    /// # Errors
    /// The first failure of the log.
    pub(crate) fn begin_group(&mut self, writer: &Writer, durable: u64) -> Result<u64, WalError> {
        debug_assert!(self.starts_group && self.next % self.layout.block_bytes() == 0);
        self.partial_block.clear();
        let Tail { identity, incarnation, start, end: end_before, .. } = *self;
        let payload = Mark { identity, incarnation, durable, start }.encode();
        let crc = crc32c::crc32c_append(self.checksum_seed, &payload);
        self.first_marks.entry(self.layout.segment_of(self.next)).or_insert(self.next);
        let lsn = self.put_record(
            writer,
            RecordKind::Mark,
            std::iter::once(&payload[..]),
            MARK_PAYLOAD_BYTES,
            crc,
        )?;
        (self.starts_group, self.ended) = (false, durable == end_before);
        Ok(lsn)
    }

    fn put_record<'a>(
        &mut self,
        writer: &Writer,
        kind: RecordKind,
        payload: impl Iterator<Item = &'a [u8]>,
        payload_bytes: usize,
        crc: u32,
    ) -> Result<u64, WalError> {
        let lsn = self.next;
        let header = RecordHeader::seal(kind, lsn, self.chain, payload_bytes as u32, crc);
        self.put_bytes(writer, &header.encode())?;
        for part in payload {
            self.put_bytes(writer, part)?;
        }
        let padding = record_bytes(payload_bytes) as usize - RECORD_HEADER_BYTES - payload_bytes;
        debug_assert!(padding < RECORD_ALIGN_BYTES as usize);
        self.put_bytes(writer, &ZEROS[..padding])?;
        debug_assert_eq!(self.next, header.end(), "the parts add up to the length in the header");
        (self.end, self.chain) = (self.next, header.crc);
        Ok(lsn)
    }

    /// Copies bytes into buffers, and passes full buffers to the writer.
    fn put_bytes(&mut self, writer: &Writer, mut bytes: &[u8]) -> Result<(), WalError> {
        while !bytes.is_empty() {
            let mut buffer = match self.buffer.take() {
                Some(buffer) => buffer,
                None => writer.new_buffer(self.next)?,
            };
            let room = buffer.bytes_max - buffer.block.filled().len();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            buffer.block.push(now);
            self.next += now.len() as u64;
            bytes = later;
            if now.len() == room {
                writer.enqueue(buffer);
            } else {
                self.buffer = Some(buffer);
            }
        }
        Ok(())
    }

    /// Ends the group: fills its last block up with zeros and passes the buffer to the writer. The
    /// next record begins a group.
    pub(crate) fn seal(&mut self, writer: &Writer) {
        if let Some(mut buffer) = self.buffer.take() {
            let block_end = self.layout.block_at_or_after(self.next);
            if self.continues_blocks {
                let bytes = buffer.block.filled();
                let last_block = bytes.len() - bytes.len() % self.layout.block_bytes() as usize;
                self.partial_block.clear();
                self.partial_block.extend_from_slice(&bytes[last_block..]);
            }
            while self.next < block_end {
                let count = (block_end - self.next).min(ZEROS.len() as u64);
                buffer.block.push(&ZEROS[..count as usize]);
                self.next += count;
            }
            writer.enqueue(buffer);
        }
        debug_assert!(self.next % self.layout.block_bytes() == 0);
        self.starts_group = true;
    }
}

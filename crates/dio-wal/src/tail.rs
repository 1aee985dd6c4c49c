//! The end of the log in memory: records get their places and checksums here, and are copied once.

use std::collections::BTreeMap;

use crate::error::WalError;
use crate::format::{
    Identity, Layout, MARK_BYTES, MARK_PAYLOAD_BYTES, Mark, RECORD_ALIGN_BYTES, RECORD_HEADER_BYTES, RecordHeader,
    RecordKind, record_bytes,
};
use crate::log_end::LogEnd;
use crate::writer::{Chunk, Writer};

const ZEROS: [u8; 512] = [0; 512];

/// The end of a log. Whoever appends has it alone.
pub(crate) struct Tail {
    layout: Layout,
    identity: Identity,
    tag: u32,
    incarnation: u64,
    /// Where the next byte goes. Invariant: inside `chunk`, or the start of a block when there is none.
    next: u64,
    /// Where the last record ends.
    end: u64,
    /// Checksum of the last record.
    chain: u32,
    /// The next record begins a group. Invariant: then `next` is the start of a block.
    fresh: bool,
    chunk: Option<Chunk>,
    /// A block that is not full is gone on with, since it can be written again without being torn.
    untorn: bool,
    /// Then the records in the block that the last group ended in, if it is not full; empty otherwise. Invariant: they end at
    /// `end`.
    rest: Vec<u8>,
    /// The last record is a mark which says that everything before it is durable, or there is none.
    ended: bool,
    /// Everything below was given up.
    start: u64,
    /// For each segment with marks that was not given up, the place of its first: where reading can begin.
    marks: BTreeMap<u64, u64>,
}

impl Tail {
    /// The tail of a log that ends so.
    pub(crate) fn new(layout: Layout, identity: Identity, incarnation: u64, untorn: bool, ending: LogEnd) -> Tail {
        let LogEnd { end, chain, start, ended, first_marks: marks } = ending;
        Tail {
            layout,
            identity,
            tag: identity.checksum_seed(),
            incarnation,
            next: layout.block_at_or_after(end),
            end,
            chain,
            fresh: true,
            chunk: None,
            untorn,
            rest: Vec::with_capacity(if untorn { layout.block_bytes() as usize } else { 0 }),
            ended,
            start,
            marks,
        }
    }

    /// Where the last record ends.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// The last record is a mark which says that everything before it is durable, or there is none.
    pub(crate) fn is_ended(&self) -> bool {
        self.ended
    }

    /// A block that is not full is gone on with.
    pub(crate) fn goes_on(&self) -> bool {
        self.untorn
    }

    /// Everything below was given up.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// Gives up everything below `start`; the next mark says so.
    pub(crate) fn set_start(&mut self, start: u64) {
        self.start = self.start.max(start);
    }

    /// The last place at or before `lsn` where reading can begin.
    pub(crate) fn mark_before(&self, lsn: u64) -> u64 {
        let before = self.marks.values().rev().find(|mark| **mark <= lsn);
        *before.or_else(|| self.marks.values().next()).unwrap_or(&0)
    }

    /// Forgets the marks of segments below `number`.
    pub(crate) fn forget_below(&mut self, number: u64) {
        self.marks = self.marks.split_off(&number);
    }

    /// The segment from which on everything is needed to read from the start.
    pub(crate) fn first_needed(&self) -> u64 {
        self.mark_before(self.start) / self.layout.data_bytes()
    }

    /// The place up to which there must be segments before a record of `length` bytes is appended. Then there is still one
    /// block left for a mark: truncation, which makes room, must not need any.
    pub(crate) fn reach(&self, length: usize) -> u64 {
        let mark = if self.fresh { MARK_BYTES as u64 } else { 0 };
        self.layout.block_at_or_after(self.next + mark + record_bytes(length))
    }

    /// The place up to which there must be segments before a mark is written.
    pub(crate) fn reach_of_mark(&self) -> u64 {
        self.layout.block_at_or_after(self.next)
    }

    /// Appends a record whose payload's checksum, begun with the identity's, is `crc`. `durable` is what a mark would say.
    ///
    /// # Errors
    /// The failure that latched.
    pub(crate) fn append<'a>(
        &mut self,
        writer: &Writer,
        payload: impl Iterator<Item = &'a [u8]>,
        length: usize,
        crc: u32,
        durable: impl FnOnce() -> u64,
    ) -> Result<u64, WalError> {
        let room = self.layout.block_at_or_after(self.end) - self.end;
        // Where it does not fit, a new block is the one write that the block and its successor would be two of.
        if self.fresh && !self.rest.is_empty() && record_bytes(length) <= room {
            self.go_on(writer)?;
        }
        if self.fresh {
            self.mark(writer, durable())?;
        }
        self.ended = false;
        self.record(writer, RecordKind::Data, payload, length, crc)
    }

    /// Begins a group in the block where the last one ended.
    fn go_on(&mut self, writer: &Writer) -> Result<(), WalError> {
        let mut chunk = writer.chunk(self.end - self.rest.len() as u64)?;
        (chunk.room, chunk.again) = (self.layout.block_bytes() as usize, true);
        chunk.block.push(&self.rest);
        self.rest.clear();
        self.chunk = Some(chunk);
        (self.next, self.fresh) = (self.end, false);
        Ok(())
    }

    /// Begins a group with a mark. A group under way must be sealed before.
    ///
    /// # Errors
    /// The failure that latched.
    pub(crate) fn mark(&mut self, writer: &Writer, durable: u64) -> Result<u64, WalError> {
        debug_assert!(self.fresh && self.next % self.layout.block_bytes() == 0);
        self.rest.clear();
        let Tail { identity, incarnation, start, end: before, .. } = *self;
        let payload = Mark { identity, incarnation, durable, start }.encode();
        let crc = crc32c::crc32c_append(self.tag, &payload);
        self.marks.entry(self.next / self.layout.data_bytes()).or_insert(self.next);
        let lsn = self.record(writer, RecordKind::Mark, std::iter::once(&payload[..]), MARK_PAYLOAD_BYTES, crc)?;
        (self.fresh, self.ended) = (false, durable == before);
        Ok(lsn)
    }

    fn record<'a>(
        &mut self,
        writer: &Writer,
        kind: RecordKind,
        payload: impl Iterator<Item = &'a [u8]>,
        length: usize,
        crc: u32,
    ) -> Result<u64, WalError> {
        let lsn = self.next;
        let header = RecordHeader::seal(kind, lsn, self.chain, length as u32, crc);
        self.put(writer, &header.encode())?;
        for part in payload {
            self.put(writer, part)?;
        }
        let padding = record_bytes(length) as usize - RECORD_HEADER_BYTES - length;
        debug_assert!(padding < RECORD_ALIGN_BYTES as usize);
        self.put(writer, &ZEROS[..padding])?;
        debug_assert_eq!(self.next, header.end(), "the payload has the length that was said");
        (self.end, self.chain) = (self.next, header.crc);
        Ok(lsn)
    }

    fn put(&mut self, writer: &Writer, mut bytes: &[u8]) -> Result<(), WalError> {
        while !bytes.is_empty() {
            let mut chunk = match self.chunk.take() {
                Some(chunk) => chunk,
                None => writer.chunk(self.next)?,
            };
            let left = chunk.room - chunk.block.filled().len();
            let (now, later) = bytes.split_at(left.min(bytes.len()));
            chunk.block.push(now);
            self.next += now.len() as u64;
            bytes = later;
            if now.len() == left {
                writer.queue(chunk);
            } else {
                self.chunk = Some(chunk);
            }
        }
        Ok(())
    }

    /// Ends the group: what is in memory is queued, filled up with zeros, and the next record begins a new block, unless the
    /// last one may be written again.
    pub(crate) fn seal(&mut self, writer: &Writer) {
        if let Some(mut chunk) = self.chunk.take() {
            let next = self.layout.block_at_or_after(self.next);
            if self.untorn {
                let bytes = chunk.block.filled();
                let last = bytes.len() - bytes.len() % self.layout.block_bytes() as usize;
                self.rest.clear();
                self.rest.extend_from_slice(&bytes[last..]);
            }
            while self.next < next {
                let count = (next - self.next).min(ZEROS.len() as u64);
                chunk.block.push(&ZEROS[..count as usize]);
                self.next += count;
            }
            writer.queue(chunk);
        }
        debug_assert!(self.next % self.layout.block_bytes() == 0);
        self.fresh = true;
    }
}

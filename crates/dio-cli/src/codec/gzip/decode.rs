//! Decodes members and their pieces in order: one thread finds them, several decompress those of
//! known size, and the calling thread writes.

use std::io::{BufRead, Write};

use dio::pipeline::Pipeline;
use libdeflater::Crc;
use zlib_rs::{Inflate, InflateFlush, Status};

use super::crc::joined_crc;
use super::feed::Feed;
use super::header::{self, Fault, Header, TRAILER_LEN};
use super::tag::{TAG_LEN, TagFields};
use super::unpack::{PLAIN_HEADER, Packed, Trailer, Unpacked, Unpacker, invalid};
use super::{Decode, LARGEST_SIZED};
use crate::codec::buffers::Buffers;
use crate::codec::{CodecTotals, Damage, DecodeError};

/// Bytes that are decompressed at a time from a member of unknown size. They fit in a cache beside
/// the other working data.
const BLOCK: usize = 256 << 10;

/// Deflate expands one byte to at most this many; a trailer with a larger length is wrong.
const MOST_FROM_ONE: u64 = 1032;

/// Decompresses the members of `input` to its end. Zero bytes after the last member are ignored, as
/// gzip does. Any other byte there is [`DecodeError::TrailingGarbage`], returned after everything
/// was written.
///
/// # Errors
/// [`DecodeError`]. [`Decode::keep_damaged`] describes what has been written then. An empty input
/// is damaged: it ends before its first member does.
pub fn decode(
    input: &mut (dyn BufRead + Send),
    output: &mut (dyn Write + Send),
    how: &Decode<'_>,
) -> Result<CodecTotals, DecodeError> {
    let (buffers, compressed) = (Buffers::new(), Buffers::new());
    let mut members = Members::new(Feed::new(input), &buffers, &compressed, how);
    let worker = || {
        let mut unpacker = Unpacker::new(&buffers, how.keep_damaged);
        let compressed = &compressed;
        move |item| match item {
            Item::Ready(ready) => Ok(ready),
            Item::Packed(packed, part) => {
                let unpacked = unpacker.unpack(&packed)?;
                let part = part.unwrap_or_else(|| DecodedPart {
                    crc: unpacked.crc,
                    end: Some((packed.trailer(), packed.end())),
                });
                let read = packed.end();
                compressed.give(packed.bytes);
                Ok(DecodedData::Part { unpacked, part, read })
            }
        }
    };
    let mut sink = Sink::new(output, &buffers);
    let never = || false;
    let pipeline = Pipeline::new(how.workers).stop(how.stop.unwrap_or(&never));
    let ended = pipeline.run(|| members.next(), worker, |ready| sink.accept(ready));
    let Sink { sound, mut moved, .. } = sink;
    (moved.name, moved.mtime) = (members.first.name.take(), members.first.mtime);
    match ended {
        Ok(report) if report.stopped => Err(DecodeError::Stopped),
        Ok(_) => Ok(moved),
        Err(Fault::Read(error)) => Err(DecodeError::Read(error)),
        Err(Fault::Write(error)) => Err(DecodeError::Write(error)),
        Err(Fault::NotInFormat) => Err(DecodeError::NotInFormat),
        Err(Fault::Garbage { offset }) => Err(DecodeError::TrailingGarbage { offset, moved }),
        Err(Fault::Damaged { offset, what }) => {
            Err(DecodeError::Damaged { offset, what, sound, moved })
        }
    }
}

/// An item that the reading thread produces.
enum Item {
    /// A piece of a member, or a whole member. For a whole member, the worker makes the
    /// [`DecodedPart`].
    Packed(Packed, Option<DecodedPart>),
    Ready(DecodedData),
}

/// A decompressed part of a member of unknown size.
struct Block {
    buffer: Vec<u8>,
    length: usize,
    /// The offset in the input behind this block.
    read: u64,
    /// The member's trailer, if this is its last block.
    end: Option<Trailer>,
}

/// The facts about a correct piece.
struct DecodedPart {
    /// The check value of the member up to the end of the piece.
    crc: u32,
    /// For the member's last piece: its trailer, and the offset in the input where the member ends.
    end: Option<(Trailer, u64)>,
}

/// Data to write.
enum DecodedData {
    Part {
        unpacked: Unpacked,
        part: DecodedPart,
        read: u64,
    },
    Block(Block),
    /// Bytes behind the last member, unchanged.
    Trailing(Block),
}

/// Writes the data, and verifies members that were decompressed in parts.
struct Sink<'a> {
    output: &'a mut (dyn Write + Send),
    buffers: &'a Buffers,
    /// The CRC of the pieces of the current member; its blocks follow them.
    crc: u32,
    blocks_crc: Crc,
    blocks_length: u64,
    /// The length of the current member so far.
    length: u64,
    /// Bytes written up to the end of the last correct piece or member.
    sound: u64,
    moved: CodecTotals,
}

impl<'a> Sink<'a> {
    fn new(output: &'a mut (dyn Write + Send), buffers: &'a Buffers) -> Sink<'a> {
        Sink {
            output,
            buffers,
            crc: 0,
            blocks_crc: Crc::new(),
            blocks_length: 0,
            length: 0,
            sound: 0,
            moved: CodecTotals::default(),
        }
    }

    fn accept(&mut self, ready: DecodedData) -> Result<(), Fault> {
        match ready {
            DecodedData::Part { unpacked, part, read } => {
                self.length += unpacked.length as u64;
                self.write(unpacked.buffer, unpacked.length)?;
                if let Some(fault) = unpacked.fault {
                    return Err(fault);
                }
                (self.crc, self.moved.read) = (part.crc, read);
                // A worker has verified this piece.
                self.sound = self.moved.written;
                let Some((end, read)) = part.end else { return Ok(()) };
                self.end_member(end, read)
            }
            DecodedData::Block(block) => {
                let Block { buffer, length, read, end } = block;
                self.blocks_crc.update(&buffer[..length]);
                self.blocks_length += length as u64;
                self.length += length as u64;
                self.write(buffer, length)?;
                self.moved.read = read;
                let Some(end) = end else { return Ok(()) };
                let (crc, length) = (
                    std::mem::take(&mut self.blocks_crc).sum(),
                    std::mem::take(&mut self.blocks_length),
                );
                self.crc = joined_crc(self.crc, crc, length);
                self.end_member(end, read)
            }
            DecodedData::Trailing(block) => {
                self.write(block.buffer, block.length)?;
                (self.sound, self.moved.read) = (self.moved.written, block.read);
                Ok(())
            }
        }
    }

    fn write(&mut self, buffer: Vec<u8>, length: usize) -> Result<(), Fault> {
        self.output.write_all(&buffer[..length]).map_err(Fault::Write)?;
        self.moved.written += length as u64;
        self.buffers.give(buffer);
        Ok(())
    }

    /// Ends the member at offset `read` of the input.
    fn end_member(&mut self, end: Trailer, read: u64) -> Result<(), Fault> {
        let (crc, length) = (std::mem::take(&mut self.crc), std::mem::take(&mut self.length));
        if let Some(what) = end.check(crc, length) {
            return Err(Fault::Damaged { offset: read - TRAILER_LEN as u64, what });
        }
        self.sound = self.moved.written;
        self.moved.read = read;
        self.moved.members += 1;
        self.moved.check = Some(crc);
        Ok(())
    }
}

/// Reads the members of an input one after the other, in parts.
struct Members<'a> {
    feed: Feed<'a>,
    buffers: &'a Buffers,
    /// Buffers for compressed members.
    compressed: &'a Buffers,
    keep_damaged: bool,
    pass_trailing: bool,
    /// Whether sizes in headers and tags are used. Cleared when one was wrong, because finding that
    /// out costs as much as reading the data.
    trusting: bool,
    /// Whether to try if a member ends where the available input does. Cleared when a try fails.
    tries_whole: bool,
    state: DecoderState,
    inflate: Inflate,
    unpacker: Unpacker<'a>,
    /// The header of the first member.
    first: Header,
}

enum DecoderState {
    /// Before the first member.
    Start,
    /// Behind a member.
    Between,
    /// Inside a member of unknown size.
    Within,
    /// In a member of pieces, before this tag, which was read without consuming it; the number is
    /// the check value of the member up to there.
    Pieces(TagFields, u32),
    /// Behind the last member, passing on the bytes that follow.
    Trailing,
    /// The error to return next.
    Failed(Fault),
}

impl<'a> Members<'a> {
    fn new(
        feed: Feed<'a>,
        buffers: &'a Buffers,
        compressed: &'a Buffers,
        how: &Decode<'_>,
    ) -> Members<'a> {
        let inflate = Inflate::new(false, 15);
        Members {
            feed,
            buffers,
            compressed,
            keep_damaged: how.keep_damaged,
            pass_trailing: how.pass_trailing,
            trusting: true,
            tries_whole: true,
            state: DecoderState::Start,
            inflate,
            unpacker: Unpacker::new(buffers, how.keep_damaged),
            first: Header::default(),
        }
    }

    fn next(&mut self) -> Result<Option<Item>, Fault> {
        let is_first = match std::mem::replace(&mut self.state, DecoderState::Within) {
            DecoderState::Within => return self.block().map(Some),
            DecoderState::Pieces(tag, crc) => return self.piece(tag, crc).map(Some),
            DecoderState::Trailing => return self.trailing(),
            DecoderState::Failed(fault) => return Err(fault),
            DecoderState::Start => true,
            DecoderState::Between => false,
        };
        if !self.at_member(is_first)? {
            if self.pass_trailing {
                return self.trailing();
            }
            self.state = DecoderState::Between;
            return Ok(None);
        }
        let mut header = header::read(&mut self.feed)?;
        let (size, length) = (header.size.take(), header.length);
        if is_first {
            self.first = header;
        }
        if let Some(packed) = self.packed(size, length)? {
            self.state = DecoderState::Between;
            return Ok(Some(Item::Packed(packed, None)));
        }
        if let Some(item) = self.whole()? {
            self.state = DecoderState::Between;
            return Ok(Some(item));
        }
        if self.trusting
            && let Some(tag) = self.tag()?
        {
            return self.piece(tag, 0).map(Some);
        }
        self.inflate.reset(false);
        self.block().map(Some)
    }

    /// Returns the tag that comes next, without consuming it. It waits for more input only while
    /// the bytes so far can begin a tag.
    fn tag(&mut self) -> Result<Option<TagFields>, Fault> {
        let mut bytes = Vec::new();
        while let Some(wanted) = TagFields::wanted(&bytes) {
            if wanted == 0 {
                return Ok(bytes.first_chunk().and_then(TagFields::parse));
            }
            let looked_at = bytes.len() + wanted;
            bytes = self.feed.peek(looked_at)?;
            if bytes.len() < looked_at {
                break;
            }
        }
        Ok(None)
    }

    /// Reads the piece behind `tag`, which comes next; `before` is the check value of the member up
    /// to the tag. If no trailer or tag follows the piece, the rest of the member is decompressed
    /// as a stream.
    fn piece(&mut self, tag: TagFields, before: u32) -> Result<Item, Fault> {
        let mut bytes = self.compressed.take_empty();
        bytes.extend_from_slice(&PLAIN_HEADER);
        self.feed.consume(TAG_LEN);
        let offset = self.feed.offset();
        let possible = tag.size.max(tag.length) <= LARGEST_SIZED
            && tag.length as u64 <= tag.size as u64 * MOST_FROM_ONE;
        if possible && self.feed.take(tag.size, &mut bytes)? == tag.size {
            let mut packed = Packed { bytes, offset, size: tag.size };
            // Removing the check value of everything before the piece leaves that of the piece
            // alone.
            let crc = joined_crc(before, 0, tag.length as u64) ^ tag.crc;
            let end = if tag.is_last {
                self.feed.peek(TRAILER_LEN)?.first_chunk().map(Trailer::parse)
            } else {
                None
            };
            let next = if tag.is_last { None } else { self.tag()? };
            if end.is_some() {
                self.feed.consume(TRAILER_LEN);
                self.state = DecoderState::Between;
            }
            if let Some(next) = next {
                self.state = DecoderState::Pieces(next, tag.crc);
            }
            if end.is_some() || next.is_some() {
                packed.complete(&tag, crc);
                let end = end.map(|end| (end, self.feed.offset()));
                return Ok(Item::Packed(packed, Some(DecodedPart { crc: tag.crc, end })));
            }
            bytes = packed.bytes;
        }
        self.trusting = false;
        self.feed.put_back(&bytes[PLAIN_HEADER.len()..]);
        self.feed.put_back(&tag.bytes());
        self.compressed.give(bytes);
        self.inflate.reset(false);
        self.block()
    }

    /// Returns whether a member comes next. If only zero bytes follow, none does. A single byte
    /// other than zero may be the first of the two that begin a member; it is an unexpected end, as
    /// for gzip.
    fn at_member(&mut self, is_first: bool) -> Result<bool, Fault> {
        let offset = self.feed.offset();
        let magic = self.feed.peek(2)?;
        match magic[..] {
            [0x1f, 0x8b] => Ok(true),
            _ if !is_first && (magic.is_empty() || self.pass_trailing) => Ok(false),
            [] | [1..=255] => {
                let offset = offset + magic.len() as u64;
                Err(Fault::Damaged { offset, what: Damage::UnexpectedEnd })
            }
            _ if is_first => Err(Fault::NotInFormat),
            _ => self
                .only_zeros_follow()
                .and_then(|only| if only { Ok(false) } else { Err(Fault::Garbage { offset }) }),
        }
    }

    /// Returns the next bytes behind the last member, unchanged.
    fn trailing(&mut self) -> Result<Option<Item>, Fault> {
        self.state = DecoderState::Trailing;
        let bytes = self.feed.fill()?;
        let length = bytes.len().min(BLOCK);
        if length == 0 {
            return Ok(None);
        }
        let mut buffer = self.buffers.take(BLOCK);
        buffer[..length].copy_from_slice(&bytes[..length]);
        self.feed.consume(length);
        Ok(Some(Item::Ready(DecodedData::Trailing(Block {
            buffer,
            length,
            read: self.feed.offset(),
            end: None,
        }))))
    }

    fn only_zeros_follow(&mut self) -> Result<bool, Fault> {
        loop {
            let bytes = self.feed.fill()?;
            if bytes.is_empty() {
                return Ok(true);
            }
            if bytes.iter().any(|&byte| byte != 0) {
                return Ok(false);
            }
            let count = bytes.len();
            self.feed.consume(count);
        }
    }

    /// Reads the rest of a member after its header of `header` bytes. Returns `None`, with nothing
    /// consumed, if its size is unknown, implausible or too large.
    fn packed(&mut self, size: Option<u64>, header: u64) -> Result<Option<Packed>, Fault> {
        let Some(rest) = size.and_then(|size| usize::try_from(size.checked_sub(header)?).ok())
        else {
            return Ok(None);
        };
        // The trailer holds the length modulo 2^32, so the real length must be below 2^32.
        let most = rest as u64 * MOST_FROM_ONE;
        if !self.trusting
            || rest <= TRAILER_LEN
            || rest > LARGEST_SIZED
            || most > u64::from(u32::MAX)
        {
            return Ok(None);
        }
        let offset = self.feed.offset();
        let mut bytes = self.compressed.take_empty();
        bytes.extend_from_slice(&PLAIN_HEADER);
        let whole = self.feed.take(rest, &mut bytes)? == rest;
        let next = self.feed.peek(4)?;
        let packed = Packed { bytes, offset, size: rest };
        let length = u64::from(packed.trailer().length);
        self.trusting = whole && (next.is_empty() || header::plausible(&next));
        if self.trusting && length <= LARGEST_SIZED as u64 && length <= most {
            return Ok(Some(packed));
        }
        self.feed.put_back(&packed.bytes[PLAIN_HEADER.len()..]);
        self.compressed.give(packed.bytes);
        Ok(None)
    }

    /// Decompresses a small member of unknown size as a whole, which takes two thirds of the time.
    /// It assumes that the member ends where the input that is available without waiting ends, as
    /// small files do. Returns `None`, with nothing consumed, if that is not so or if the member is
    /// not correct.
    fn whole(&mut self) -> Result<Option<Item>, Fault> {
        let (offset, rest) = (self.feed.offset(), self.feed.fill()?);
        let (size, length) =
            (rest.len(), rest.last_chunk().map_or(u32::MAX, |end| Trailer::parse(end).length));
        // The bytes in the middle of a member, read as a trailer, hardly ever give a length in this
        // range.
        let possible =
            length as usize <= LARGEST_SIZED && u64::from(length) <= size as u64 * MOST_FROM_ONE;
        if !self.tries_whole || !possible || size <= TRAILER_LEN || size > LARGEST_SIZED {
            return Ok(None);
        }
        let mut bytes = self.compressed.take_empty();
        bytes.extend_from_slice(&PLAIN_HEADER);
        bytes.extend_from_slice(rest);
        let packed = Packed { bytes, offset, size };
        let unpacked = self.unpacker.sound(&packed);
        let (end, read) = (packed.trailer(), packed.end());
        self.compressed.give(packed.bytes);
        // In an input of several members, every try would fail.
        self.tries_whole = unpacked.is_some();
        let Some(unpacked) = unpacked else { return Ok(None) };
        self.feed.consume(size);
        let part = DecodedPart { crc: unpacked.crc, end: Some((end, read)) };
        Ok(Some(Item::Ready(DecodedData::Part { unpacked, part, read })))
    }

    /// Returns the next part of a member of unknown size.
    fn block(&mut self) -> Result<Item, Fault> {
        let mut block = Block { buffer: self.buffers.take(BLOCK), length: 0, read: 0, end: None };
        // Decoded bytes are passed on before waiting for more input.
        while block.length == 0 || (block.length < BLOCK && !self.feed.may_wait()) {
            let input = self.feed.fill()?;
            let (ended, before) =
                (input.is_empty(), (self.inflate.total_in(), self.inflate.total_out()));
            let status = self.inflate.decompress(
                input,
                &mut block.buffer[block.length..BLOCK],
                InflateFlush::NoFlush,
            );
            let consumed = (self.inflate.total_in() - before.0) as usize;
            let made = (self.inflate.total_out() - before.1) as usize;
            self.feed.consume(consumed);
            block.length += made;
            match status {
                Ok(Status::StreamEnd) => {
                    self.end(&mut block);
                    break;
                }
                Ok(_) if consumed > 0 || made > 0 => {}
                Ok(_) if ended => return Err(self.unexpected_end()),
                Ok(_) | Err(_) => {
                    let fault =
                        Fault::Damaged { offset: self.feed.offset(), what: invalid(&self.inflate) };
                    if !self.keep_damaged || block.length == 0 {
                        return Err(fault);
                    }
                    self.state = DecoderState::Failed(fault);
                    break;
                }
            }
        }
        block.read = self.feed.offset();
        Ok(Item::Ready(DecodedData::Block(block)))
    }

    /// Reads the trailer, which follows the data of a member.
    fn end(&mut self, block: &mut Block) {
        let mut bytes = Vec::with_capacity(TRAILER_LEN);
        self.state = match self.feed.take(TRAILER_LEN, &mut bytes) {
            Err(error) => DecoderState::Failed(Fault::Read(error)),
            Ok(_) => match bytes.first_chunk() {
                Some(trailer) => {
                    block.end = Some(Trailer::parse(trailer));
                    DecoderState::Between
                }
                None => DecoderState::Failed(self.unexpected_end()),
            },
        };
    }

    fn unexpected_end(&self) -> Fault {
        Fault::Damaged { offset: self.feed.offset(), what: Damage::UnexpectedEnd }
    }
}

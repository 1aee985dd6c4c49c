//! Members in their order: one thread finds them, several decompress those of known size, the caller's writes.

use std::io::{BufRead, Write};

use dio::pipeline::Pipeline;
use libdeflater::Crc;
use zlib_rs::{Inflate, InflateFlush, Status};

use super::feed::Feed;
use super::header::{self, Fault, Header, TRAILER_LEN};
use super::unpack::{PLAIN_HEADER, Packed, Trailer, Unpacked, Unpacker, invalid};
use super::{Decode, LARGEST_SIZED};
use crate::codec::buffers::Buffers;
use crate::codec::{Damage, DecodeError, Moved};

/// Bytes that are decompressed at a time from a member of unknown size: what fits in a cache beside the rest.
const BLOCK: usize = 256 << 10;

/// Deflate makes at most so many bytes of one: a longer length in a trailer is a lie.
const MOST_FROM_ONE: u64 = 1032;

/// Decompresses the members of `input` to its end. Zero bytes after the last one are ignored, as gzip does; any other byte
/// there is [`DecodeError::TrailingGarbage`], after everything was written.
///
/// # Errors
/// [`DecodeError`]. What was written then is described at [`Decode::keep_damaged`]. An input without a byte is damaged: it
/// ends before its first member does.
pub fn decode(
    input: &mut (dyn BufRead + Send),
    output: &mut (dyn Write + Send),
    how: &Decode<'_>,
) -> Result<Moved, DecodeError> {
    let (buffers, compressed) = (Buffers::new(), Buffers::new());
    let mut members = Members::new(Feed::new(input), &buffers, &compressed, how.keep_damaged);
    let worker = || {
        let mut unpacker = Unpacker::new(&buffers, how.keep_damaged);
        let compressed = &compressed;
        move |item| match item {
            Item::Block(block) => Ok(Ready::Block(block)),
            Item::Packed(packed) => {
                let unpacked = unpacker.unpack(&packed)?;
                let (end, read) = (packed.trailer(), packed.end());
                compressed.give(packed.bytes);
                Ok(Ready::Member { unpacked, end, read })
            }
        }
    };
    let mut sink = Sink { output, buffers: &buffers, crc: Crc::new(), length: 0, sound: 0, moved: Moved::default() };
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
        Err(Fault::Damaged { offset, what }) => Err(DecodeError::Damaged { offset, what, sound, moved }),
    }
}

/// What the thread that reads finds.
enum Item {
    Packed(Packed),
    Block(Block),
}

/// A part of a member of unknown size, decompressed.
struct Block {
    buffer: Vec<u8>,
    length: usize,
    /// Where the input was after it.
    read: u64,
    /// It is the member's last.
    end: Option<Trailer>,
}

/// What is to be written.
enum Ready {
    Member { unpacked: Unpacked, end: Trailer, read: u64 },
    Block(Block),
}

/// Writes, and checks what was decompressed in parts.
struct Sink<'a> {
    output: &'a mut (dyn Write + Send),
    buffers: &'a Buffers,
    /// Of the member of unknown size that is being written.
    crc: Crc,
    length: u64,
    /// Bytes written up to the end of the last member that was right.
    sound: u64,
    moved: Moved,
}

impl Sink<'_> {
    fn accept(&mut self, ready: Ready) -> Result<(), Fault> {
        match ready {
            Ready::Member { unpacked, end, read } => {
                self.write(unpacked.buffer, unpacked.length)?;
                match unpacked.fault {
                    Some(fault) => Err(fault),
                    None => self.end_member(end, unpacked.crc, unpacked.length as u64, read),
                }
            }
            Ready::Block(block) => {
                self.crc.update(&block.buffer[..block.length]);
                self.length += block.length as u64;
                self.write(block.buffer, block.length)?;
                self.moved.read = block.read;
                let Some(end) = block.end else { return Ok(()) };
                let crc = std::mem::take(&mut self.crc).sum();
                let length = std::mem::take(&mut self.length);
                self.end_member(end, crc, length, block.read)
            }
        }
    }

    fn write(&mut self, buffer: Vec<u8>, length: usize) -> Result<(), Fault> {
        self.output.write_all(&buffer[..length]).map_err(Fault::Write)?;
        self.moved.written += length as u64;
        self.buffers.give(buffer);
        Ok(())
    }

    /// The member ends at `read` in the input.
    fn end_member(&mut self, end: Trailer, crc: u32, length: u64, read: u64) -> Result<(), Fault> {
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

/// The members of an input, one after the other, in parts.
struct Members<'a> {
    feed: Feed<'a>,
    buffers: &'a Buffers,
    /// For members as they are in the input.
    compressed: &'a Buffers,
    keep_damaged: bool,
    /// Sizes in headers are looked at: until one was not true, because to find that out costs as much as reading it.
    trusting: bool,
    state: State,
    inflate: Inflate,
    /// What the first header says.
    first: Header,
}

enum State {
    /// Before a member, which is the first.
    Start,
    /// Behind a member.
    Between,
    /// In a member of unknown size.
    Within,
    /// What is left to say.
    Failed(Fault),
}

impl<'a> Members<'a> {
    fn new(feed: Feed<'a>, buffers: &'a Buffers, compressed: &'a Buffers, keep_damaged: bool) -> Members<'a> {
        let inflate = Inflate::new(false, 15);
        Members {
            feed,
            buffers,
            compressed,
            keep_damaged,
            trusting: true,
            state: State::Start,
            inflate,
            first: Header::default(),
        }
    }

    fn next(&mut self) -> Result<Option<Item>, Fault> {
        let is_first = match std::mem::replace(&mut self.state, State::Within) {
            State::Within => return self.block().map(Some),
            State::Failed(fault) => return Err(fault),
            State::Start => true,
            State::Between => false,
        };
        if !self.at_member(is_first)? {
            self.state = State::Between;
            return Ok(None);
        }
        let mut header = header::read(&mut self.feed)?;
        let (size, length) = (header.size.take(), header.length);
        if is_first {
            self.first = header;
        }
        if let Some(packed) = self.packed(size, length)? {
            self.state = State::Between;
            return Ok(Some(Item::Packed(packed)));
        }
        self.inflate.reset(false);
        self.block().map(Some)
    }

    /// Whether a member comes next; nothing does if only zero bytes follow.
    fn at_member(&mut self, is_first: bool) -> Result<bool, Fault> {
        let offset = self.feed.offset();
        let magic = self.feed.peek(2)?;
        match magic[..] {
            [0x1f, 0x8b] => Ok(true),
            [] if !is_first => Ok(false),
            [] | [0x1f] if is_first => {
                let offset = offset + magic.len() as u64;
                Err(Fault::Damaged { offset, what: Damage::UnexpectedEnd })
            }
            _ if is_first => Err(Fault::NotInFormat),
            _ => {
                self.only_zeros_follow().and_then(|only| if only { Ok(false) } else { Err(Fault::Garbage { offset }) })
            }
        }
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

    /// The rest of a member whose header, of `header` bytes, was read; `None`, with nothing consumed, if its size is not
    /// known, not believable or too large.
    fn packed(&mut self, size: Option<u64>, header: u64) -> Result<Option<Packed>, Fault> {
        let Some(rest) = size.and_then(|size| usize::try_from(size.checked_sub(header)?).ok()) else { return Ok(None) };
        // The length in the trailer must not be able to stand for one that is 2^32 larger.
        let most = rest as u64 * MOST_FROM_ONE;
        if !self.trusting || rest <= TRAILER_LEN || rest > LARGEST_SIZED || most > u64::from(u32::MAX) {
            return Ok(None);
        }
        let offset = self.feed.offset();
        let mut bytes = self.compressed.take_empty();
        bytes.extend_from_slice(&PLAIN_HEADER);
        let whole = self.feed.take(rest, &mut bytes)? == rest;
        let next = self.feed.peek(4)?;
        let packed = Packed { bytes, offset };
        let length = u64::from(packed.trailer().length);
        self.trusting = whole && (next.is_empty() || header::plausible(&next));
        if self.trusting && length <= LARGEST_SIZED as u64 && length <= most {
            return Ok(Some(packed));
        }
        self.feed.put_back(&packed.bytes[PLAIN_HEADER.len()..]);
        self.compressed.give(packed.bytes);
        Ok(None)
    }

    /// The next part of a member of unknown size.
    fn block(&mut self) -> Result<Item, Fault> {
        let mut block = Block { buffer: self.buffers.take(BLOCK), length: 0, read: 0, end: None };
        // What there is goes on before more is waited for.
        while block.length == 0 || (block.length < BLOCK && !self.feed.may_wait()) {
            let input = self.feed.fill()?;
            let (ended, before) = (input.is_empty(), (self.inflate.total_in(), self.inflate.total_out()));
            let status = self.inflate.decompress(input, &mut block.buffer[block.length..BLOCK], InflateFlush::NoFlush);
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
                    let fault = Fault::Damaged { offset: self.feed.offset(), what: invalid(&self.inflate) };
                    if !self.keep_damaged || block.length == 0 {
                        return Err(fault);
                    }
                    self.state = State::Failed(fault);
                    break;
                }
            }
        }
        block.read = self.feed.offset();
        Ok(Item::Block(block))
    }

    /// The data of a member is complete: its trailer follows.
    fn end(&mut self, block: &mut Block) {
        let mut bytes = Vec::with_capacity(TRAILER_LEN);
        self.state = match self.feed.take(TRAILER_LEN, &mut bytes) {
            Err(error) => State::Failed(Fault::Read(error)),
            Ok(_) => match bytes.first_chunk() {
                Some(trailer) => {
                    block.end = Some(Trailer::parse(trailer));
                    State::Between
                }
                None => State::Failed(self.unexpected_end()),
            },
        };
    }

    fn unexpected_end(&self) -> Fault {
        Fault::Damaged { offset: self.feed.offset(), what: Damage::UnexpectedEnd }
    }
}

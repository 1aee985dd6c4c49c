//! Compresses pieces of the input in parallel: together into one member, or each into a member of
//! its own.

use std::io::{Read, Write};

use dio::pipeline::Pipeline;
use dio_sys::uninterrupted;
use libdeflater::{CompressionLvl, Compressor, crc32};

use super::crc::joined_crc;
use super::header::{self, TRAILER_LEN};
use super::tag::{TAG_LEN, TagFields};
use super::walk::Walker;
use super::{Encode, MAX_LEVEL};
use crate::codec::buffers::Buffers;
use crate::codec::{CodecTotals, EncodeError};

/// Bytes of input per piece. Pieces do not refer to the 32 KiB window before them; at this size
/// that costs less than 1 % of compression, and libdeflate gains more than that over zlib.
pub(super) const PIECE: usize = 2 << 20;

/// An empty stored deflate block without its first bits, which are in the byte before. It ends at a
/// byte boundary.
const EMPTY_BLOCK: [u8; 4] = [0, 0, 0xff, 0xff];

/// Room before the compressed piece, for its tag or for the trailer of the previous member.
const FRONT: usize = TAG_LEN;

/// A single piece gets a tag if it has at least this many compressed bytes. A smaller member stays
/// small and needs no tag: the decoder reads it in one call and decompresses it as a whole.
const TAGGED_MIN: usize = 512 << 10;

/// A piece of the input for a worker.
struct InputPiece {
    buffer: Vec<u8>,
    length: usize,
    first: bool,
    last: bool,
}

/// A compressed piece.
struct Packed {
    /// [`FRONT`] bytes of room, then the compressed piece or member, then unused bytes.
    buffer: Vec<u8>,
    /// Bytes of the compressed piece, or of the member.
    size: usize,
    /// Bytes of the piece before compression.
    length: usize,
    crc: u32,
    first: bool,
    last: bool,
}

/// Compresses `input` to its end into one member or, with [`Encode::members`], into one member per
/// piece. An empty input becomes an empty member.
///
/// # Errors
/// [`EncodeError`]; the output is then incomplete.
pub fn encode(
    input: &mut (dyn Read + Send),
    output: &mut (dyn Write + Send),
    how: &Encode<'_>,
) -> Result<CodecTotals, EncodeError> {
    encode_pieces(input, output, how, PIECE)
}

/// Does the work of [`encode`] with pieces of `size` bytes.
pub(super) fn encode_pieces(
    input: &mut (dyn Read + Send),
    output: &mut (dyn Write + Send),
    how: &Encode<'_>,
    size: usize,
) -> Result<CodecTotals, EncodeError> {
    let (pieces, compressed) = (Buffers::new(), Buffers::new());
    let mut first = Some(cut(input, pieces.take(size), size, true)?);
    // Starting a thread for a single piece would only add cost.
    let workers =
        if first.as_ref().is_some_and(|piece| piece.length < size) { 0 } else { how.workers };
    let mut over = false;
    let source = || {
        if over {
            return Ok(None);
        }
        let piece = match first.take() {
            Some(piece) => piece,
            None => cut(input, pieces.take(size), size, false)?,
        };
        over = piece.last;
        // A member of pieces ends with a piece that is not full; it may be empty.
        let ends = piece.length == 0 && !piece.first && how.members;
        Ok((!ends).then_some(piece))
    };
    let worker = || {
        let mut compressor = Compressor::new(internal_level(how.level));
        let mut walker = Walker::new();
        let (pieces, compressed) = (&pieces, &compressed);
        move |piece: InputPiece| {
            let packed = match how.members {
                true => member(&mut compressor, &piece, compressed, how),
                false => part(&mut compressor, &mut walker, &piece, compressed),
            };
            pieces.give(piece.buffer);
            Ok(packed)
        }
    };
    let mut sink = Sink { output, how, held: None, crc: 0, moved: CodecTotals::default() };
    let never = || false;
    let pipeline = Pipeline::new(workers).stop(how.stop.unwrap_or(&never));
    let report = pipeline.run(source, worker, |mut packed: Packed| {
        match how.members {
            true => sink.member(&mut packed)?,
            false => sink.part(&mut packed)?,
        }
        compressed.give(packed.buffer);
        Ok(())
    })?;
    if report.stopped {
        return Err(EncodeError::Stopped);
    }
    sink.finish()
}

/// Writes the compressed pieces. Only the last write ends where a member ends, so the output of a
/// process that was killed midway is not a complete stream to any gunzip.
struct Sink<'a> {
    output: &'a mut (dyn Write + Send),
    how: &'a Encode<'a>,
    /// The trailer of the last member, which is written with the next.
    held: Option<[u8; TRAILER_LEN]>,
    /// The CRC-32 of the contents of the member so far.
    crc: u32,
    moved: CodecTotals,
}

impl Sink<'_> {
    fn member(&mut self, member: &mut Packed) -> Result<(), EncodeError> {
        let end = FRONT + member.size;
        let start = match self.held {
            Some(trailer) => {
                member.buffer[FRONT - TRAILER_LEN..FRONT].copy_from_slice(&trailer);
                FRONT - TRAILER_LEN
            }
            None => FRONT,
        };
        self.held = member.buffer[..end].last_chunk().copied();
        self.write(&member.buffer[start..end - TRAILER_LEN])?;
        self.moved.read += member.length as u64;
        self.moved.members += 1;
        self.crc = member.crc;
        Ok(())
    }

    /// Writes a piece of the only member.
    fn part(&mut self, part: &mut Packed) -> Result<(), EncodeError> {
        self.crc = joined_crc(self.crc, part.crc, part.length as u64);
        self.moved.read += part.length as u64;
        if part.first {
            self.write(&header::begin(self.how.level, self.how.name, self.how.mtime))?;
        }
        let start = if part.first && part.last && part.size < TAGGED_MIN {
            FRONT
        } else {
            let tag = TagFields {
                crc: self.crc,
                size: part.size,
                length: part.length,
                is_last: part.last,
            };
            part.buffer[..FRONT].copy_from_slice(&tag.bytes());
            0
        };
        self.write(&part.buffer[start..FRONT + part.size])?;
        if part.last {
            self.moved.members = 1;
            self.held = Some(trailer(self.crc, self.moved.read));
        }
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), EncodeError> {
        self.moved.written += bytes.len() as u64;
        self.output.write_all(bytes).map_err(EncodeError::Write)
    }

    fn finish(mut self) -> Result<CodecTotals, EncodeError> {
        if let Some(trailer) = self.held.take() {
            self.write(&trailer)?;
        }
        self.moved.check = Some(self.crc);
        Ok(CodecTotals {
            name: self.how.name.map(<[u8]>::to_vec),
            mtime: self.how.mtime,
            ..self.moved
        })
    }
}

/// Maps a gzip level to a libdeflate level. From 2 on, libdeflate's levels make smaller files than
/// zlib's of the same number, in less time; its level 1 makes larger files of some data, so 2 is
/// used for 1.
fn internal_level(level: u8) -> CompressionLvl {
    let level = if level == 1 { 2 } else { level.min(MAX_LEVEL) };
    CompressionLvl::new(i32::from(level)).unwrap_or_default()
}

/// Fills a piece from the input; the piece is short only at the end.
fn cut(
    input: &mut (dyn Read + Send),
    mut buffer: Vec<u8>,
    size: usize,
    first: bool,
) -> Result<InputPiece, EncodeError> {
    let mut length = 0;
    while length < size {
        match uninterrupted(|| input.read(&mut buffer[length..size])).map_err(EncodeError::Read)? {
            0 => break,
            count => length += count,
        }
    }
    Ok(InputPiece { buffer, length, first, last: length < size })
}

fn trailer(crc: u32, length: u64) -> [u8; TRAILER_LEN] {
    let ([a, b, c, d], [e, f, g, h]) = (crc.to_le_bytes(), (length as u32).to_le_bytes());
    [a, b, c, d, e, f, g, h]
}

/// Compresses a piece into a member of its own.
fn member(
    compressor: &mut Compressor,
    piece: &InputPiece,
    buffers: &Buffers,
    how: &Encode<'_>,
) -> Packed {
    let (name, mtime) = if piece.first { (how.name, how.mtime) } else { (None, None) };
    let data = &piece.buffer[..piece.length];
    let header = header::begin_sized(how.level, name, mtime);
    let bound = compressor.deflate_compress_bound(data.len());
    let mut buffer = buffers.take(FRONT + header.len() + bound + TRAILER_LEN);
    let member = &mut buffer[FRONT..];
    let (head, room) = member.split_at_mut(header.len());
    head.copy_from_slice(&header);
    let end =
        head.len() + compressor.deflate_compress(data, room).expect("the bound is enough room");
    let crc = crc32(data);
    let size = end + TRAILER_LEN;
    member[end..size].copy_from_slice(&trailer(crc, data.len() as u64));
    header::set_size(&mut member[..size]);
    Packed { buffer, size, length: data.len(), crc, first: piece.first, last: piece.last }
}

/// Compresses a piece of the common member. Unless it is the last piece, its stream is left open
/// for the next one.
fn part(
    compressor: &mut Compressor,
    walker: &mut Walker,
    piece: &InputPiece,
    buffers: &Buffers,
) -> Packed {
    let data = &piece.buffer[..piece.length];
    let bound = compressor.deflate_compress_bound(data.len());
    let mut buffer = buffers.take(FRONT + bound + 1 + EMPTY_BLOCK.len());
    let room = &mut buffer[FRONT..];
    let mut size = compressor.deflate_compress(data, room).expect("the bound is enough room");
    if !piece.last {
        size = continued(walker, room, size);
    }
    let (crc, first, last) = (crc32(data), piece.first, piece.last);
    Packed { buffer, size, length: data.len(), crc, first, last }
}

/// Changes the complete stream of `size` bytes at the beginning of `room` so that it continues at a
/// byte boundary; returns the offset of that boundary.
fn continued(walker: &mut Walker, room: &mut [u8], size: usize) -> usize {
    let last = walker.last(&room[..size]).expect("it is a whole stream");
    room[last.start_bit / 8] &= !(1 << (last.start_bit % 8));
    // The type of the empty block is three zero bits; zero bits follow up to the next byte. The
    // unused bits of the stream's last byte are already zero.
    let start = (last.end_bit + 3).div_ceil(8);
    room[size..start].fill(0);
    let end = start + EMPTY_BLOCK.len();
    room[start..end].copy_from_slice(&EMPTY_BLOCK);
    end
}

//! Pieces of the input, each compressed into a member of its own.

use std::io::{self, Read, Write};

use dio::pipeline::Pipeline;
use libdeflater::{CompressionLvl, Compressor, crc32};

use super::header::{self, TRAILER_LEN};
use super::{Encode, MAX_LEVEL};
use crate::codec::buffers::Buffers;
use crate::codec::{EncodeError, Moved};

/// Bytes of the input in a member. What a window of 32 KiB could have found in the piece before costs less than 1 % at
/// this size, and libdeflate gains more than that over zlib.
pub(super) const PIECE: usize = 2 << 20;

/// A piece on its way to a worker.
struct Piece {
    buffer: Vec<u8>,
    length: usize,
    first: bool,
}

/// A compressed piece.
struct Member {
    /// Room for the trailer of the member before, this member, and anything.
    buffer: Vec<u8>,
    /// Of the member.
    size: usize,
    /// Of the piece.
    length: usize,
    crc: u32,
}

/// Compresses `input` to its end. An empty input becomes an empty member.
///
/// # Errors
/// [`EncodeError`]; the output is then incomplete.
pub fn encode(
    input: &mut (dyn Read + Send),
    output: &mut (dyn Write + Send),
    how: &Encode<'_>,
) -> Result<Moved, EncodeError> {
    encode_pieces(input, output, how, PIECE)
}

/// As [`encode`], with pieces of another size.
pub(super) fn encode_pieces(
    input: &mut (dyn Read + Send),
    output: &mut (dyn Write + Send),
    how: &Encode<'_>,
    size: usize,
) -> Result<Moved, EncodeError> {
    let (pieces, members) = (Buffers::new(), Buffers::new());
    let mut first = Some(cut(input, pieces.take(size), size, true)?);
    // A thread for one piece would only cost.
    let workers = if first.as_ref().is_some_and(|piece| piece.length < size) { 0 } else { how.workers };
    let mut over = false;
    let source = || {
        if over {
            return Ok(None);
        }
        let piece = match first.take() {
            Some(piece) => piece,
            None => cut(input, pieces.take(size), size, false)?,
        };
        over = piece.length < size;
        Ok((piece.first || piece.length > 0).then_some(piece))
    };
    let worker = || {
        let mut compressor = Compressor::new(internal_level(how.level));
        let (pieces, members) = (&pieces, &members);
        move |piece: Piece| {
            let member = compress(&mut compressor, &piece, members, how);
            pieces.give(piece.buffer);
            Ok(member)
        }
    };
    let mut sink = Sink { output, held: None, moved: Moved::default() };
    let never = || false;
    let pipeline = Pipeline::new(workers).stop(how.stop.unwrap_or(&never));
    let report = pipeline.run(source, worker, |mut member: Member| {
        sink.accept(&mut member)?;
        members.give(member.buffer);
        Ok(())
    })?;
    if report.stopped {
        return Err(EncodeError::Stopped);
    }
    sink.finish(how)
}

/// Writes members, each with the trailer of the one before: so no write ends where a member does but the last, and what a
/// writer leaves that was killed is no whole stream to any gunzip.
struct Sink<'a> {
    output: &'a mut (dyn Write + Send),
    held: Option<[u8; TRAILER_LEN]>,
    moved: Moved,
}

impl Sink<'_> {
    fn accept(&mut self, member: &mut Member) -> Result<(), EncodeError> {
        let end = TRAILER_LEN + member.size;
        let start = match self.held {
            Some(trailer) => {
                member.buffer[..TRAILER_LEN].copy_from_slice(&trailer);
                0
            }
            None => TRAILER_LEN,
        };
        self.held = member.buffer[..end].last_chunk().copied();
        self.write(&member.buffer[start..end - TRAILER_LEN])?;
        self.moved.read += member.length as u64;
        self.moved.members += 1;
        self.moved.check = Some(member.crc);
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), EncodeError> {
        self.moved.written += bytes.len() as u64;
        self.output.write_all(bytes).map_err(EncodeError::Write)
    }

    fn finish(mut self, how: &Encode<'_>) -> Result<Moved, EncodeError> {
        if let Some(trailer) = self.held.take() {
            self.write(&trailer)?;
        }
        Ok(Moved { name: how.name.map(<[u8]>::to_vec), mtime: how.mtime, ..self.moved })
    }
}

/// The level of libdeflate: its levels from 2 on make smaller files than zlib's of the same number, in less time; level 1
/// makes larger ones of some data.
fn internal_level(level: u8) -> CompressionLvl {
    let level = if level == 1 { 2 } else { level.min(MAX_LEVEL) };
    CompressionLvl::new(i32::from(level)).unwrap_or_default()
}

/// Fills a piece as far as the input goes.
fn cut(input: &mut (dyn Read + Send), mut buffer: Vec<u8>, size: usize, first: bool) -> Result<Piece, EncodeError> {
    let mut length = 0;
    while length < size {
        match input.read(&mut buffer[length..size]) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(EncodeError::Read(e)),
        }
    }
    Ok(Piece { buffer, length, first })
}

fn compress(compressor: &mut Compressor, piece: &Piece, members: &Buffers, how: &Encode<'_>) -> Member {
    let (name, mtime) = if piece.first { (how.name, how.mtime) } else { (None, None) };
    let data = &piece.buffer[..piece.length];
    let header = header::begin(how.level, name, mtime);
    let bound = compressor.deflate_compress_bound(data.len());
    let mut buffer = members.take(TRAILER_LEN + header.len() + bound + TRAILER_LEN);
    let member = &mut buffer[TRAILER_LEN..];
    let (head, room) = member.split_at_mut(header.len());
    head.copy_from_slice(&header);
    let end = head.len() + compressor.deflate_compress(data, room).expect("the bound is enough room");
    let crc = crc32(data);
    let size = end + TRAILER_LEN;
    member[end..end + 4].copy_from_slice(&crc.to_le_bytes());
    member[end + 4..size].copy_from_slice(&(data.len() as u32).to_le_bytes());
    header::set_size(&mut member[..size]);
    Member { buffer, size, length: data.len(), crc }
}

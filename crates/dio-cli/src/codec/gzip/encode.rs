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
pub(super) const PIECE: usize = 1 << 20;

/// A piece on its way to a worker.
struct Piece {
    buffer: Vec<u8>,
    length: usize,
    first: bool,
}

/// A compressed piece, at the start of a buffer.
struct Member {
    buffer: Vec<u8>,
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
    let (pieces, members) = (Buffers::new(), Buffers::new());
    let mut first = Some(cut(input, pieces.take(PIECE), true)?);
    // A thread for one piece would only cost.
    let workers = if first.as_ref().is_some_and(Piece::is_last) { 0 } else { how.workers };
    let mut over = false;
    let source = || {
        if over {
            return Ok(None);
        }
        let piece = match first.take() {
            Some(piece) => piece,
            None => cut(input, pieces.take(PIECE), false)?,
        };
        over = piece.is_last();
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
    let mut moved = Moved { name: how.name.map(<[u8]>::to_vec), mtime: how.mtime, ..Moved::default() };
    let never = || false;
    let report = Pipeline::new(workers).stop(how.stop.unwrap_or(&never)).run(source, worker, |member: Member| {
        output.write_all(&member.buffer[..member.size]).map_err(EncodeError::Write)?;
        moved.read += member.length as u64;
        moved.written += member.size as u64;
        moved.members += 1;
        moved.check = Some(member.crc);
        members.give(member.buffer);
        Ok(())
    })?;
    if report.stopped { Err(EncodeError::Stopped) } else { Ok(moved) }
}

/// The level of libdeflate: its levels from 2 on make smaller files than zlib's of the same number, in less time; level 1
/// makes larger ones of some data.
fn internal_level(level: u8) -> CompressionLvl {
    let level = if level == 1 { 2 } else { level.min(MAX_LEVEL) };
    CompressionLvl::new(i32::from(level)).unwrap_or_default()
}

/// Fills a piece as far as the input goes.
fn cut(input: &mut (dyn Read + Send), mut buffer: Vec<u8>, first: bool) -> Result<Piece, EncodeError> {
    let mut length = 0;
    while length < PIECE {
        match input.read(&mut buffer[length..PIECE]) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(EncodeError::Read(e)),
        }
    }
    Ok(Piece { buffer, length, first })
}

impl Piece {
    fn is_last(&self) -> bool {
        self.length < PIECE
    }
}

fn compress(compressor: &mut Compressor, piece: &Piece, members: &Buffers, how: &Encode<'_>) -> Member {
    let (name, mtime) = if piece.first { (how.name, how.mtime) } else { (None, None) };
    let data = &piece.buffer[..piece.length];
    let header = header::begin(how.level, name, mtime);
    let bound = compressor.deflate_compress_bound(data.len());
    let mut buffer = members.take(header.len() + bound + TRAILER_LEN);
    buffer[..header.len()].copy_from_slice(&header);
    let room = &mut buffer[header.len()..];
    let end = header.len() + compressor.deflate_compress(data, room).expect("the bound is enough room");
    let crc = crc32(data);
    let size = end + TRAILER_LEN;
    buffer[end..end + 4].copy_from_slice(&crc.to_le_bytes());
    buffer[end + 4..size].copy_from_slice(&(data.len() as u32).to_le_bytes());
    header::set_size(&mut buffer[..size]);
    Member { buffer, size, length: data.len(), crc }
}

mod damage;
mod mutation;
mod pieces;
mod round;

use std::io::{self, BufReader, Cursor, Write};

use dio_test::Rng;
use zlib_rs::{Deflate, DeflateFlush, Status};

use super::encode::encode_pieces;
use super::{Decode, Encode, decode};
use crate::codec::{CodecTotals, DecodeError};

/// Returns words in a random order, which compress to about a third.
fn text(length: usize, rng: &mut Rng) -> Vec<u8> {
    let words: Vec<Vec<u8>> =
        (0..200).map(|_| rng.bytes(4).iter().map(|b| b'a' + b % 26).collect()).collect();
    let mut text = Vec::with_capacity(length + 8);
    while text.len() < length {
        text.extend_from_slice(rng.pick(&words[..]).as_slice());
        text.push(if rng.bool(0.1) { b'\n' } else { b' ' });
    }
    text.truncate(length);
    text
}

/// Compresses as dio does, with pieces of this size.
fn ours(data: &[u8], piece: usize) -> Vec<u8> {
    ours_as(data, piece, &Encode::default())
}

/// Compresses as dio does with one member per piece.
fn members(data: &[u8], piece: usize) -> Vec<u8> {
    ours_as(data, piece, &Encode { members: true, ..Encode::default() })
}

fn ours_as(data: &[u8], piece: usize, how: &Encode<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    let moved = encode_pieces(&mut &*data, &mut out, how, piece).expect("encodes");
    assert_eq!((moved.read, moved.written), (data.len() as u64, out.len() as u64));
    out
}

/// Deflates as one stream with another encoder.
fn deflated(data: &[u8], level: i32) -> Vec<u8> {
    let mut out = vec![0; data.len() + data.len() / 8 + 1000];
    let mut deflate = Deflate::new(level, false, 15);
    assert_eq!(deflate.compress(data, &mut out, DeflateFlush::Finish), Ok(Status::StreamEnd));
    out.truncate(deflate.total_out() as usize);
    out
}

fn trailer(data: &[u8]) -> Vec<u8> {
    [libdeflater::crc32(data).to_le_bytes(), (data.len() as u32).to_le_bytes()].concat()
}

/// Makes a member as other encoders write it, without a size in its header.
fn foreign(data: &[u8], level: i32) -> Vec<u8> {
    [b"\x1f\x8b\x08\0\0\0\0\0\0\x03".to_vec(), deflated(data, level), trailer(data)].concat()
}

/// Makes a BGZF block.
fn bgzf(data: &[u8]) -> Vec<u8> {
    let body = [deflated(data, 6), trailer(data)].concat();
    let size = (18 + body.len() - 1) as u16;
    [b"\x1f\x8b\x08\x04\0\0\0\0\0\xff\x06\0BC\x02\0".to_vec(), size.to_le_bytes().to_vec(), body]
        .concat()
}

/// Decodes an input that returns `step` bytes at a time.
fn decoded_by(
    compressed: &[u8],
    how: &Decode<'_>,
    step: usize,
) -> (Vec<u8>, Result<CodecTotals, DecodeError>) {
    let mut out = Vec::new();
    let mut input = BufReader::with_capacity(step, Cursor::new(compressed));
    let result = decode(&mut input, &mut out, how);
    if let Ok(moved)
    | Err(DecodeError::Damaged { moved, .. } | DecodeError::TrailingGarbage { moved, .. }) =
        &result
    {
        assert_eq!(moved.written, out.len() as u64);
        assert!(moved.read <= compressed.len() as u64);
    }
    (out, result)
}

fn decoded(compressed: &[u8], how: &Decode<'_>) -> (Vec<u8>, Result<CodecTotals, DecodeError>) {
    decoded_by(compressed, how, 64 << 10)
}

/// Asserts that the input decodes to exactly `data` with every number of workers and read size.
#[track_caller]
fn decodes_to(compressed: &[u8], data: &[u8]) {
    for (workers, step) in [(0, 64 << 10), (2, 64 << 10), (2, 777), (0, 13)] {
        let (out, result) = decoded_by(compressed, &Decode { workers, ..Decode::default() }, step);
        let moved =
            result.unwrap_or_else(|e| panic!("{workers} workers, {step} bytes at a time: {e:?}"));
        assert_eq!(moved.written, data.len() as u64);
        assert!(out == data, "other bytes, {workers} workers, {step} bytes at a time");
    }
}

/// A writer that fails after this many bytes.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0 == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let count = bytes.len().min(self.0);
        self.0 -= count;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

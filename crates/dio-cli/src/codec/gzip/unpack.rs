//! Decompresses a member or a piece of known size as a whole, and verifies it.

use libdeflater::{Crc, Decompressor};
use zlib_rs::{Inflate, InflateFlush, Status};

use super::LARGEST_SIZED;
use super::header::{FIXED_LEN, Fault, MAGIC, TRAILER_LEN};
use super::tag::TagFields;
use crate::codec::Damage;
use crate::codec::buffers::Buffers;

/// An empty header for libdeflate; the real header has been read before.
pub(super) const PLAIN_HEADER: [u8; FIXED_LEN] =
    [MAGIC[0], MAGIC[1], MAGIC[2], 0, 0, 0, 0, 0, 0, 3];

/// Bytes that are decompressed at a time when the result is discarded.
const SCRATCH: usize = 64 << 10;

/// An empty final deflate block.
const LAST_BLOCK: [u8; 5] = [1, 0, 0, 0xff, 0xff];

/// A compressed member or piece.
pub(super) struct Packed {
    /// [`PLAIN_HEADER`], the compressed data, the trailer.
    pub(super) bytes: Vec<u8>,
    /// The offset of the compressed data in the input.
    pub(super) offset: u64,
    /// Bytes of the compressed data and the trailer that are in the input. For a piece, the trailer
    /// is made here instead.
    pub(super) size: usize,
}

/// The last bytes of a member: RFC 1952 section 2.3.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trailer {
    pub(super) crc: u32,
    /// The length of the contents modulo 2^32.
    pub(super) length: u32,
}

impl Trailer {
    pub(super) fn parse(bytes: &[u8; TRAILER_LEN]) -> Trailer {
        let [a, b, c, d, e, f, g, h] = *bytes;
        Trailer { crc: u32::from_le_bytes([a, b, c, d]), length: u32::from_le_bytes([e, f, g, h]) }
    }

    /// Compares the trailer with the CRC and length of the data; returns the damage if they differ.
    pub(super) fn check(self, crc: u32, length: u64) -> Option<Damage> {
        let stored = self.length.into();
        match (self.crc == crc, self.length == length as u32) {
            (true, true) => None,
            (false, true) => Some(Damage::Checksum { stored: self.crc, computed: crc }),
            (true, false) => Some(Damage::Length { stored, computed: length }),
            (false, false) => Some(Damage::ChecksumAndLength {
                stored: (self.crc, stored),
                computed: (crc, length),
            }),
        }
    }
}

/// The contents of a member.
pub(super) struct Unpacked {
    pub(super) buffer: Vec<u8>,
    pub(super) length: usize,
    pub(super) crc: u32,
    /// The damage that follows these bytes, if there is any.
    pub(super) fault: Option<Fault>,
}

impl Packed {
    /// Turns the compressed piece into a complete member by adding an end and a trailer.
    pub(super) fn complete(&mut self, tag: &TagFields, crc: u32) {
        if !tag.is_last {
            self.bytes.extend_from_slice(&LAST_BLOCK);
        }
        self.bytes.extend_from_slice(&crc.to_le_bytes());
        self.bytes.extend_from_slice(&(tag.length as u32).to_le_bytes());
    }

    fn data(&self) -> &[u8] {
        &self.bytes[FIXED_LEN..self.bytes.len() - TRAILER_LEN]
    }

    /// The compressed data and the trailer.
    fn rest(&self) -> &[u8] {
        &self.bytes[FIXED_LEN..]
    }

    /// Returns the offset in the input behind the data.
    pub(super) fn end(&self) -> u64 {
        self.offset + self.size as u64
    }

    /// Returns the last bytes, which are the trailer if the size is right.
    pub(super) fn trailer(&self) -> Trailer {
        self.bytes.last_chunk().map_or(Trailer { crc: 0, length: 0 }, Trailer::parse)
    }
}

/// Decompresses members.
pub(super) struct Unpacker<'a> {
    fast: Decompressor,
    /// Used only for members with an error: it finds the kind and the offset.
    exact: Option<Inflate>,
    buffers: &'a Buffers,
    keep_damaged: bool,
}

impl<'a> Unpacker<'a> {
    pub(super) fn new(buffers: &'a Buffers, keep_damaged: bool) -> Unpacker<'a> {
        Unpacker { fast: Decompressor::new(), exact: None, buffers, keep_damaged }
    }

    /// Decompresses a member. A damaged one is an error or, with `keep_damaged`, the decodable
    /// contents together with the error.
    pub(super) fn unpack(&mut self, packed: &Packed) -> Result<Unpacked, Fault> {
        match self.sound(packed) {
            Some(unpacked) => Ok(unpacked),
            None => {
                let buffer = self.buffers.take(packed.trailer().length as usize);
                self.examine(packed, buffer)
            }
        }
    }

    /// Returns the contents of a member that ends where it should and is correct; `None` otherwise.
    pub(super) fn sound(&mut self, packed: &Packed) -> Option<Unpacked> {
        let trailer = packed.trailer();
        let length = trailer.length as usize;
        let mut buffer = self.buffers.take(length);
        // libdeflate verifies the data against the trailer that follows it, but it does not report
        // whether that trailer is the one at the end: a shorter member with other contents may end
        // before. The lengths in both trailers are equal, so if the length occurs nowhere but at
        // the end, the trailer is the one at the end. Otherwise the check value must match it too.
        let done = self.fast.gzip_decompress(&packed.bytes, &mut buffer[..length]) == Ok(length)
            && (last_of_its_kind::<4>(packed.rest())
                || (libdeflater::crc32(&buffer[..length]) == trailer.crc
                    && last_of_its_kind::<TRAILER_LEN>(packed.rest())));
        if done {
            return Some(Unpacked { buffer, length, crc: trailer.crc, fault: None });
        }
        self.buffers.give(buffer);
        None
    }

    fn examine(&mut self, packed: &Packed, mut buffer: Vec<u8>) -> Result<Unpacked, Fault> {
        let inflate = self.exact.get_or_insert_with(|| Inflate::new(false, 15));
        inflate.reset(false);
        let (data, trailer) = (packed.data(), packed.trailer());
        let keep = buffer.len().min(LARGEST_SIZED);
        let mut scratch = [0; SCRATCH];
        let (mut crc, mut length, mut kept) = (Crc::new(), 0u64, 0);
        let (at, what) = loop {
            let consumed = inflate.total_in() as usize;
            let before = inflate.total_out();
            let status = inflate.decompress(&data[consumed..], &mut scratch, InflateFlush::NoFlush);
            let count = (inflate.total_out() - before) as usize;
            crc.update(&scratch[..count]);
            length += count as u64;
            let room = count.min(keep - kept);
            buffer[kept..kept + room].copy_from_slice(&scratch[..room]);
            kept += room;
            let at = inflate.total_in() as usize;
            match status {
                Ok(Status::StreamEnd) if at == data.len() => {
                    break (at, trailer.check(crc.sum(), length));
                }
                Ok(Status::StreamEnd) => {
                    break (at, Some(Damage::Header("the size in the header is wrong".into())));
                }
                Ok(_) if count > 0 || at > consumed => {}
                Ok(_) => {
                    break (at, Some(Damage::Data("it does not end where its header says".into())));
                }
                Err(_) => break (at, Some(invalid(inflate))),
            }
        };
        let offset = packed.offset + at.min(packed.size) as u64;
        let fault = what.map(|what| Fault::Damaged { offset, what });
        match fault {
            Some(fault) if !self.keep_damaged => {
                self.buffers.give(buffer);
                Err(fault)
            }
            fault => Ok(Unpacked { buffer, length: kept, crc: crc.sum(), fault }),
        }
    }
}

/// Returns the decoder's message for data that it rejected.
pub(super) fn invalid(inflate: &Inflate) -> Damage {
    // The decoder's fast loop does not keep its message; the next call only reports that an error
    // occurred.
    let known = inflate.error_message().filter(|text| !text.starts_with("repeated call"));
    Damage::Data(known.unwrap_or("invalid code or distance").into())
}

/// Returns whether the last `N` bytes occur nowhere earlier.
fn last_of_its_kind<const N: usize>(bytes: &[u8]) -> bool {
    match bytes.last_chunk::<N>() {
        Some(end) => memchr::memmem::find(bytes, end) == Some(bytes.len() - N),
        None => false,
    }
}

//! A member or a piece whose size is known, decompressed as a whole and checked.

use libdeflater::{Crc, Decompressor};
use zlib_rs::{Inflate, InflateFlush, Status};

use super::LARGEST_SIZED;
use super::header::{FIXED_LEN, Fault, MAGIC, TRAILER_LEN};
use super::tag::Tag;
use crate::codec::Damage;
use crate::codec::buffers::Buffers;

/// A header that says nothing, for libdeflate: the real one was read already.
pub(super) const PLAIN_HEADER: [u8; FIXED_LEN] = [MAGIC[0], MAGIC[1], MAGIC[2], 0, 0, 0, 0, 0, 0, 3];

/// Bytes that are decompressed at a time where nobody keeps them.
const SCRATCH: usize = 64 << 10;

/// A last block of deflate without contents.
const LAST_BLOCK: [u8; 5] = [1, 0, 0, 0xff, 0xff];

/// A member, or a piece of one, as it was compressed.
pub(super) struct Packed {
    /// [`PLAIN_HEADER`], the compressed data, the trailer.
    pub(super) bytes: Vec<u8>,
    /// Where the compressed data is in the input.
    pub(super) offset: u64,
    /// Bytes of the compressed data and the trailer that are in the input; of a piece the others
    /// are made here.
    pub(super) size: usize,
}

/// The last bytes of a member: RFC 1952 section 2.3.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trailer {
    pub(super) crc: u32,
    /// Modulo 2^32.
    pub(super) length: u32,
}

impl Trailer {
    pub(super) fn parse(bytes: &[u8; TRAILER_LEN]) -> Trailer {
        let [a, b, c, d, e, f, g, h] = *bytes;
        Trailer { crc: u32::from_le_bytes([a, b, c, d]), length: u32::from_le_bytes([e, f, g, h]) }
    }

    /// What is wrong with data of this check value and length, if anything.
    pub(super) fn check(self, crc: u32, length: u64) -> Option<Damage> {
        let stored = self.length.into();
        match (self.crc == crc, self.length == length as u32) {
            (true, true) => None,
            (false, true) => Some(Damage::Checksum { stored: self.crc, computed: crc }),
            (true, false) => Some(Damage::Length { stored, computed: length }),
            (false, false) => Some(Damage::ChecksumAndLength { stored: (self.crc, stored), computed: (crc, length) }),
        }
    }
}

/// What was in a member.
pub(super) struct Unpacked {
    pub(super) buffer: Vec<u8>,
    pub(super) length: usize,
    pub(super) crc: u32,
    /// What comes after these bytes: the data is damaged there.
    pub(super) fault: Option<Fault>,
}

impl Packed {
    /// Makes a member of its own of a piece, whose bytes are there so far.
    pub(super) fn complete(&mut self, tag: &Tag, crc: u32) {
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

    /// Where the input is after it.
    pub(super) fn end(&self) -> u64 {
        self.offset + self.size as u64
    }

    /// The last bytes, which are the trailer if the size is right.
    pub(super) fn trailer(&self) -> Trailer {
        self.bytes.last_chunk().map_or(Trailer { crc: 0, length: 0 }, Trailer::parse)
    }
}

/// Decompresses members.
pub(super) struct Unpacker<'a> {
    fast: Decompressor,
    /// Only for members that are not as they should be: it says what and where.
    exact: Option<Inflate>,
    buffers: &'a Buffers,
    keep_damaged: bool,
}

impl<'a> Unpacker<'a> {
    pub(super) fn new(buffers: &'a Buffers, keep_damaged: bool) -> Unpacker<'a> {
        Unpacker { fast: Decompressor::new(), exact: None, buffers, keep_damaged }
    }

    /// A damaged member is an error, or with `keep_damaged` what could be made of it and the error.
    pub(super) fn unpack(&mut self, packed: &Packed) -> Result<Unpacked, Fault> {
        match self.sound(packed) {
            Some(unpacked) => Ok(unpacked),
            None => {
                let buffer = self.buffers.take(packed.trailer().length as usize);
                self.examine(packed, buffer)
            }
        }
    }

    /// What is in a member that ends where it should and is right; `None` if anything about it is
    /// not so.
    pub(super) fn sound(&mut self, packed: &Packed) -> Option<Unpacked> {
        let trailer = packed.trailer();
        let length = trailer.length as usize;
        let mut buffer = self.buffers.take(length);
        // libdeflate checks the data against the trailer that follows it. Whether this is the one
        // at the end it does not say: another member may end there, of another content. Its length
        // is this one's, so where the length occurs nowhere but at the end, it is the trailer at
        // the end; else that has to have the check value too.
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
                Ok(Status::StreamEnd) if at == data.len() => break (at, trailer.check(crc.sum(), length)),
                Ok(Status::StreamEnd) => break (at, Some(Damage::Header("the size in the header is wrong".into()))),
                Ok(_) if count > 0 || at > consumed => {}
                Ok(_) => break (at, Some(Damage::Data("it does not end where its header says".into()))),
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

/// What the decoder says of data that it refused.
pub(super) fn invalid(inflate: &Inflate) -> Damage {
    // Its fast loop forgets what it found, and the next step only knows that something was.
    let known = inflate.error_message().filter(|text| !text.starts_with("repeated call"));
    Damage::Data(known.unwrap_or("invalid code or distance").into())
}

/// Whether the last `N` bytes occur nowhere before.
fn last_of_its_kind<const N: usize>(bytes: &[u8]) -> bool {
    match bytes.last_chunk::<N>() {
        Some(end) => memchr::memmem::find(bytes, end) == Some(bytes.len() - N),
        None => false,
    }
}

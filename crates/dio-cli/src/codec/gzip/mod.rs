//! gzip, RFC 1952: on all cores in both directions.
//!
//! # What is written
//! The input is cut into pieces of 2 MiB, and each becomes a member of its own, which any gunzip reads as one stream
//! (RFC 1952 section 2.2). So the pieces are compressed at once, each is checked before anything of it is given away
//! again, and damage stays within one. A member's header names its compressed size in an extra field, so that the
//! members are found, and decompressed at once, without looking into them: the subfield `IG` of mgzip and pgzip, four
//! bytes, little-endian, the size of the whole member. It costs 28 bytes in 2 MiB. Only the first member has a name and
//! a time.
//!
//! GNU's `gzip -l` shows the length of the last member only, and with `-v` gzip tells for each member that it ignores an
//! extra field, as with every such file; otherwise gunzip and all that read members one after the other do not mind. One
//! single member would need the place of the last block in each piece, which libdeflate does not tell and which costs a
//! decompression to find; and it would have one check value, at its end.
//!
//! # What is read
//! What gunzip reads, but for one kind of damage that it does not look at. Members whose size is in the header (`IG`, or
//! `BC` of BGZF) and that are not large are decompressed at once by all workers; all others are decompressed as a stream,
//! by one thread, while others read and write. A size that does not lead to another member or to the end is not relied on;
//! one that leads over whole members to a later one is an error.
//!
//! # Memory
//! At most `2 × workers + 2` pieces are in work: when encoding 4 MiB and a little for each, and for each worker what its
//! compressor needs (at most 10 MiB, at the levels from 10 on); when decoding at most [`LARGEST_SIZED`] twice for each.

mod decode;
mod encode;
mod feed;
mod header;
mod unpack;

#[cfg(test)]
mod tests;

use super::Stop;

pub use decode::decode;
pub use encode::encode;

/// The largest member, compressed or not, in bytes, that is decompressed as a whole.
pub const LARGEST_SIZED: usize = 4 << 20;

/// The highest level.
pub const MAX_LEVEL: u8 = 12;

/// How to encode.
#[derive(Clone, Copy)]
pub struct Encode<'a> {
    /// From 0 (stored) over 1 (fast) to 9 (as gzip's, never larger) and [`MAX_LEVEL`] (slow and small); higher is the same
    /// as the highest.
    pub level: u8,
    /// Threads that compress, beside one that reads and the caller's, which writes; with 0 the caller does all.
    pub workers: usize,
    /// The name for the header: without directories, and without a NUL byte, of which RFC 1952 allows none.
    pub name: Option<&'a [u8]>,
    /// The time for the header, in seconds since 1970.
    pub mtime: Option<u32>,
    /// Asked before each piece whether to end early.
    pub stop: Option<Stop<'a>>,
}

impl Default for Encode<'_> {
    /// Level 6, without name, time or threads.
    fn default() -> Self {
        Encode { level: 6, workers: 0, name: None, mtime: None, stop: None }
    }
}

impl std::fmt::Debug for Encode<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Encode { level, workers, name, mtime, stop: _ } = self;
        write!(f, "Encode(level {level}, {workers} workers, name {name:?}, mtime {mtime:?})")
    }
}

/// How to decode.
#[derive(Clone, Copy, Default)]
pub struct Decode<'a> {
    /// Threads that decompress members of known size, beside one that reads (and decompresses what has no known size) and
    /// the caller's, which writes; with 0 the caller does all.
    pub workers: usize,
    /// Writes also what can be made of the damaged part.
    ///
    /// Without it, nothing is written of a member of known size unless all of it is right. Of other members the bytes are
    /// written as they come, because a member may be of any size and its check value is at its end; only the block (up to
    /// 256 KiB) in which invalid data is met is not written. In either case [`Damaged`](super::DecodeError::Damaged) says
    /// how many bytes are sound for certain.
    pub keep_damaged: bool,
    /// Asked before each block whether to end early.
    pub stop: Option<Stop<'a>>,
}

impl std::fmt::Debug for Decode<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Decode({} workers, keep_damaged {})", self.workers, self.keep_damaged)
    }
}

//! gzip, RFC 1952: on all cores in both directions.
//!
//! # What is written
//! One member, which every reader of gzip takes, also one that stops after the first. The input is cut into pieces of
//! 2 MiB that do not refer to each other, so they are compressed at once. Of each but the last, the last block is made
//! one that others follow (`walk.rs` finds it, because libdeflate does not tell where it is), and an empty stored block
//! leads to the next byte, where the next piece begins.
//!
//! So that the pieces are found and decompressed at once, without looking into them, each begins with a tag (`tag.rs`): a block
//! without contents whose code lengths hold the size of the piece, the length of its contents and the check value of
//! the member so far. To other readers it is a block of deflate like all others. A tag and the empty block cost 64 bytes
//! in 2 MiB; an input of less than 2 MiB is one piece, without a tag unless it is large as compressed. With the check value, each piece is checked before
//! anything of it is given away again, and damage stays within one.
//!
//! What was tried instead: markers between the pieces, as pigz writes them with `-i` (they also occur in stored
//! blocks, whenever a compressed file is compressed, so a reader has to guess and to go back); an extra field in the
//! header (it is written before sizes are known, and `gunzip -v` tells that it ignores it); an index in a second, empty
//! member (`gzip -l` shows a length of 0).
//!
//! With [`Encode::members`], each piece becomes a member of its own, whose header names its compressed size in an extra
//! field: the subfield `IG` of mgzip and pgzip, four bytes, little-endian, the size of the whole member. Only the first
//! member has a name and a time.
//!
//! # What is read
//! What gunzip reads, but for one kind of damage that it does not look at. Pieces with tags and members whose size is in
//! the header (`IG`, or `BC` of BGZF) and that are not large are decompressed at once by all workers; all others are
//! decompressed as a stream, by one thread, while others read and write. A size that does not lead to another tag or
//! member, or to the end, is not relied on; one that leads over whole members to a later one is an error.
//!
//! # Memory
//! At most `2 × workers + 2` pieces are in work: when encoding 4 MiB and a little for each, and for each worker what its
//! compressor needs (at most 10 MiB, at the levels from 10 on); when decoding at most [`LARGEST_SIZED`] twice for each.

mod crc;
mod decode;
mod encode;
mod feed;
mod header;
mod tag;
mod unpack;
mod walk;

#[cfg(test)]
mod tests;

use super::Stop;

pub use decode::decode;
pub use encode::encode;

/// The largest member or piece, compressed or not, in bytes, that is decompressed as a whole.
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
    /// Makes each piece a member of its own instead of one member of all.
    pub members: bool,
    /// Asked before each piece whether to end early.
    pub stop: Option<Stop<'a>>,
}

impl Default for Encode<'_> {
    /// Level 6, one member, without name, time or threads.
    fn default() -> Self {
        Encode { level: 6, workers: 0, name: None, mtime: None, members: false, stop: None }
    }
}

impl std::fmt::Debug for Encode<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Encode { level, workers, name, mtime, members, stop: _ } = self;
        write!(f, "Encode(level {level}, {workers} workers, name {name:?}, mtime {mtime:?}, members {members})")
    }
}

/// How to decode.
#[derive(Clone, Copy, Default)]
pub struct Decode<'a> {
    /// Threads that decompress pieces and members of known size, beside one that reads (and decompresses what has no known size) and
    /// the caller's, which writes; with 0 the caller does all.
    pub workers: usize,
    /// Writes also what can be made of the damaged part.
    ///
    /// Without it, nothing is written of a piece or a member of known size unless all of it is right. Of other members the bytes are
    /// written as they come, because a member may be of any size and its check value is at its end; only the block (up to
    /// 256 KiB) in which invalid data is met is not written. In either case [`Damaged`](super::DecodeError::Damaged) says
    /// how many bytes are sound for certain.
    pub keep_damaged: bool,
    /// Passes on what follows the last member as it is, and does not call it garbage.
    pub pass_trailing: bool,
    /// Asked before each block whether to end early.
    pub stop: Option<Stop<'a>>,
}

impl std::fmt::Debug for Decode<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Decode { workers, keep_damaged, pass_trailing, stop: _ } = self;
        write!(f, "Decode({workers} workers, keep_damaged {keep_damaged}, pass_trailing {pass_trailing})")
    }
}

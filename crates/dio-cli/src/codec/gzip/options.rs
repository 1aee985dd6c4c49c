//! How to encode and decode.

use crate::codec::Stop;

/// The largest member or piece, compressed or not, in bytes, that is decompressed as a whole.
pub const LARGEST_SIZED: usize = 4 << 20;

/// The highest level.
pub const MAX_LEVEL: u8 = 12;

/// How to encode.
#[derive(Clone, Copy)]
pub struct Encode<'a> {
    /// From 0 (stored) over 1 (fast) to 9 (as gzip's, never larger) and [`MAX_LEVEL`] (slow and
    /// small); higher is the same as the highest.
    pub level: u8,
    /// Threads that compress, beside one that reads and the caller's, which writes; with 0 the
    /// caller does all.
    pub workers: usize,
    /// The name for the header: without directories, and without a NUL byte, of which RFC 1952
    /// allows none.
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
    /// Threads that decompress pieces and members of known size, beside one that reads (and
    /// decompresses what has no known size) and the caller's, which writes; with 0 the caller does
    /// all.
    pub workers: usize,
    /// Writes also what can be made of the damaged part.
    ///
    /// Without it, nothing is written of a piece or a member of known size unless all of it is
    /// right. Of other members the bytes are written as they come, because a member may be of any
    /// size and its check value is at its end; only the block (up to 256 KiB) in which invalid data
    /// is met is not written. In either case [`Damaged`](crate::codec::DecodeError::Damaged) says
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

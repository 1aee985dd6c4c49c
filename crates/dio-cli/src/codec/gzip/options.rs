//! Options for encoding and decoding.

use crate::codec::Stop;

/// The largest size, in bytes, compressed or not, of a member or piece that is decompressed as a
/// whole.
pub const LARGEST_SIZED: usize = 4 << 20;

/// The highest compression level.
pub const MAX_LEVEL: u8 = 12;

/// Options for encoding.
#[derive(Clone, Copy)]
pub struct Encode<'a> {
    /// The level: 0 stores, 1 is fast, 9 is comparable to gzip's 9 (and never larger),
    /// [`MAX_LEVEL`] is slow and makes the smallest output. Higher values mean [`MAX_LEVEL`].
    pub level: u8,
    /// Threads that compress, beside one that reads and the calling thread, which writes. With 0
    /// the calling thread does all.
    pub workers: usize,
    /// The name for the header, without directories and without NUL bytes, which RFC 1952 does not
    /// allow.
    pub name: Option<&'a [u8]>,
    /// The time for the header, in seconds since 1970.
    pub mtime: Option<u32>,
    /// Makes each piece a member of its own, instead of one member of all pieces.
    pub members: bool,
    /// Polled before each piece; `true` ends the work early.
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
        write!(
            f,
            "Encode(level {level}, {workers} workers, name {name:?}, mtime {mtime:?}, members \
             {members})"
        )
    }
}

/// Options for decoding.
#[derive(Clone, Copy, Default)]
pub struct Decode<'a> {
    /// Threads that decompress pieces and members of known size, beside one that reads (and
    /// decompresses members of unknown size) and the calling thread, which writes. With 0 the
    /// calling thread does all.
    pub workers: usize,
    /// Also writes what can be decoded of a damaged part.
    ///
    /// Without this, nothing of a piece or a member of known size is written unless all of it is
    /// correct. Other members are written as they are decoded, because a member may have any size
    /// and its check value is at its end. Of those, only the block (up to 256 KiB) that contains
    /// invalid data is not written. In either case [`Damaged`](crate::codec::DecodeError::Damaged)
    /// reports how many bytes are verified.
    pub keep_damaged: bool,
    /// Passes on the bytes behind the last member unchanged, instead of reporting them as garbage.
    pub pass_trailing: bool,
    /// Polled before each block; `true` ends the work early.
    pub stop: Option<Stop<'a>>,
}

impl std::fmt::Debug for Decode<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Decode { workers, keep_damaged, pass_trailing, stop: _ } = self;
        write!(
            f,
            "Decode({workers} workers, keep_damaged {keep_damaged}, pass_trailing {pass_trailing})"
        )
    }
}

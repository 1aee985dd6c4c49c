//! gzip, RFC 1952: on all cores in both directions.
//!
//! # What is written
//! One member, which every reader of gzip takes, also one that stops after the first. The input is
//! cut into pieces of 2 MiB that do not refer to each other, so they are compressed at once. Of
//! each but the last, the last block is made one that others follow (`walk.rs` finds it, because
//! libdeflate does not tell where it is), and an empty stored block leads to the next byte, where
//! the next piece begins.
//!
//! So that the pieces are found and decompressed at once, without looking into them, each begins
//! with a tag (`tag.rs`): a block without contents whose code lengths hold the size of the piece,
//! the length of its contents and the check value of the member so far. To other readers it is a
//! block of deflate like all others. A tag and the empty block cost 64 bytes in 2 MiB; an input of
//! less than 2 MiB is one piece, without a tag unless it is large as compressed. With the check
//! value, each piece is checked before anything of it is given away again, and damage stays within
//! one.
//!
//! What was tried instead: markers between the pieces, as pigz writes them with `-i` (they also
//! occur in stored blocks, whenever a compressed file is compressed, so a reader has to guess and
//! to go back); an extra field in the header (it is written before sizes are known, and `gunzip -v`
//! tells that it ignores it); an index in a second, empty member (`gzip -l` shows a length of 0).
//!
//! With [`Encode::members`], each piece becomes a member of its own, whose header names its
//! compressed size in an extra field: the subfield `IG` of mgzip and pgzip, four bytes,
//! little-endian, the size of the whole member. Only the first member has a name and a time.
//!
//! # What is read
//! What gunzip reads, but for one kind of damage that it does not look at. Pieces with tags and
//! members whose size is in the header (`IG`, or `BC` of BGZF) and that are not large are
//! decompressed at once by all workers; all others are decompressed as a stream, by one thread,
//! while others read and write. A size that does not lead to another tag or member, or to the end,
//! is not relied on; one that leads over whole members to a later one is an error.
//!
//! # Memory
//! At most `2 × workers + 2` pieces are in work: when encoding 4 MiB and a little for each, and for
//! each worker what its compressor needs (at most 10 MiB, at the levels from 10 on); when decoding
//! at most [`LARGEST_SIZED`] twice for each.

mod crc;
mod decode;
mod encode;
mod feed;
mod header;
mod options;
mod tag;
mod unpack;
mod walk;

#[cfg(test)]
mod tests;

pub use decode::decode;
pub use encode::encode;
pub use options::{Decode, Encode, LARGEST_SIZED, MAX_LEVEL};

//! gzip (RFC 1952) on all cores in both directions.
//!
//! # Format of the output
//! The output is one member, which every gzip reader accepts, including those that stop after the
//! first member. The input is cut into pieces of 2 MiB that do not refer to each other, so they are
//! compressed in parallel. In every piece but the last, the bit that marks the last deflate block
//! is cleared (`walk.rs` finds it, because libdeflate does not report where it is). An empty stored
//! block then pads to the next byte boundary, where the next piece begins.
//!
//! Each piece begins with a tag (`tag.rs`), so that a decoder finds the pieces without reading
//! their contents and decompresses them in parallel. A tag is a deflate block without contents,
//! whose code lengths hold the size of the piece, the length of its contents and the check value of
//! the member so far. Other readers skip it like any other block. A tag and the empty block cost 64
//! bytes in 2 MiB. An input of less than 2 MiB is one piece, which gets a tag only if it is large
//! when compressed. The check value lets the decoder verify each piece before any of it is written,
//! and confines damage to one piece.
//!
//! Alternatives that were tried:
//! - Markers between the pieces, as pigz writes them with `-i`. They also occur in stored blocks
//!   when a compressed file is compressed again, so a reader has to guess and go back.
//! - An extra field in the header. The header is written before sizes are known, and `gunzip -v`
//!   prints that it ignores the field.
//! - An index in a second, empty member. `gzip -l` then shows a length of 0.
//!
//! With [`Encode::members`], each piece becomes a member of its own, whose header holds its
//! compressed size in an extra field: the subfield `IG` of mgzip and pgzip, four bytes,
//! little-endian, the size of the whole member. Only the first member has a name and a time.
//!
//! # Accepted input
//! Everything that gunzip accepts, except one kind of damage that gunzip does not check. Pieces
//! with tags, and members whose size is in the header (`IG`, or `BC` of BGZF), are decompressed in
//! parallel by all workers unless they are large. All others are decompressed as a stream by one
//! thread, while other threads read and write. A size that does not lead to another tag or member,
//! or to the end, is not used. A size that leads across complete members to a later one is an
//! error.
//!
//! # Memory
//! At most `2 × workers + 2` pieces are in work. When encoding, each takes 4 MiB and a little more,
//! and each worker needs its compressor's memory (at most 10 MiB, at levels from 10 on). When
//! decoding, each takes at most twice [`LARGEST_SIZED`].

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

//! Zstandard (RFC 8878), by its authors' library.
//!
//! Compression uses as many threads as requested and produces one frame. The threads are the
//! library's; the calling thread moves the bytes. Decompression uses one thread for each frame,
//! beside the one that writes.

mod decode;
mod encode;
pub mod frame;
#[cfg(test)]
mod tests;
mod words;

pub use decode::{Decode, decode};
pub use encode::{Encode, encode};

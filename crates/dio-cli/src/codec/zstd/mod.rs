//! Zstandard (RFC 8878), by the library of its authors.
//!
//! Compression runs on as many threads as wanted and gives one frame; the threads are the
//! library's, the calling thread moves bytes. Decompression is one thread for each frame, beside
//! the one that writes.

mod decode;
mod encode;
pub mod frame;
#[cfg(test)]
mod tests;
mod words;

pub use decode::{Decode, decode};
pub use encode::{Encode, encode};

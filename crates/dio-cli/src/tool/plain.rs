//! Writes chunks into outputs unchanged.

use std::io::{self, Write};

use dio::stream::{Chunk, Output};

/// Writes a chunk to `output`, whose requests have `block` bytes.
///
/// A chunk of at least a quarter of a request is written as it is. Smaller ones, from pipes, are
/// copied together into large requests, which costs less than one request each.
pub(crate) fn write(output: &mut Output, chunk: Chunk, block: usize) -> io::Result<()> {
    if chunk.len() >= block / 4 { output.write_chunk(chunk) } else { output.write_all(&chunk) }
}

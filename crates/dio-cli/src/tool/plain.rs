//! Chunks into outputs, unchanged.

use std::io::{self, Write};

use dio::stream::{Chunk, Output};

/// Moves a chunk into `output`, whose requests have `block` bytes.
///
/// From a quarter of a request on a chunk is written as it is; smaller ones, of pipes, are gathered
/// into large requests by copying, which costs less than a request each.
pub(crate) fn write(output: &mut Output, chunk: Chunk, block: usize) -> io::Result<()> {
    if chunk.len() >= block / 4 { output.write_chunk(chunk) } else { output.write_all(&chunk) }
}

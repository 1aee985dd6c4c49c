//! Chunks into outputs, unchanged. Shared by `cat` and `tee`.

use std::io::{self, Write};

use dio::stream::{Chunk, Output};

/// A chunk from here on is written as it is; smaller ones, of pipes, are gathered into large requests by copying, which
/// costs less than a request each.
const LARGE: usize = 256 << 10;

/// Moves a chunk into `output`.
pub(crate) fn write(output: &mut Output, chunk: Chunk) -> io::Result<()> {
    if chunk.len() >= LARGE { output.write_chunk(chunk) } else { output.write_all(&chunk) }
}

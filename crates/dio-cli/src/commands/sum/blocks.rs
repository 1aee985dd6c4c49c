//! The blocks of bytes that digests are computed of: those of a whole source, or those of a piece
//! of a file and none beyond its end.

use std::io;
use std::ops::Deref;
use std::sync::Arc;

use dio::File;
use dio::block::Pool;
use dio::stream::Chunk;

use super::format::Piece;
use crate::tool::{Source, Tool};

/// Blocks that fast digests may be ahead of slow ones; a stream lends that many at any depth.
pub(super) const AHEAD: usize = 3;

/// A source of blocks of bytes, in order.
pub(crate) trait Blocks: Send {
    /// The type of a block.
    type Block: Deref<Target = [u8]> + Send + Sync;

    /// Returns the next bytes; `None` at the end.
    fn next(&mut self) -> io::Result<Option<Self::Block>>;
}

impl Blocks for Source {
    type Block = Chunk;

    fn next(&mut self) -> io::Result<Option<Chunk>> {
        self.next_chunk()
    }
}

/// The blocks of a piece of a file.
pub(super) struct PieceBlocks {
    tool: Tool,
    file: Arc<File>,
    pool: Pool,
    piece: Piece,
    /// Bytes of it that were read.
    done: u64,
}

impl PieceBlocks {
    /// Starts at the first byte of a piece; `None` if the file does not have the size that the
    /// piece is part of. At most `blocks` blocks exist at a time.
    pub(super) fn new(
        tool: &Tool,
        source: &Source,
        piece: Piece,
        blocks: usize,
    ) -> io::Result<Option<Self>> {
        let Some(file) = source.file().map(Arc::clone) else { return Ok(None) };
        if file.size()? != piece.size {
            return Ok(None);
        }
        let block = tool.stream_options().block;
        let pool = Pool::new(block, blocks)?;
        Ok(Some(Self { tool: tool.clone(), file, pool, piece, done: 0 }))
    }

    /// Returns whether everything was read, and the file still has its size.
    pub(super) fn is_whole(&self) -> bool {
        self.done == self.piece.length && self.file.size().is_ok_and(|size| size == self.piece.size)
    }
}

impl Blocks for PieceBlocks {
    type Block = Chunk;

    fn next(&mut self) -> io::Result<Option<Chunk>> {
        let left = self.piece.length - self.done;
        if left == 0 {
            return Ok(None);
        }
        let mut block = self.pool.take_many(1).pop().expect("one block was asked for");
        let want = usize::try_from(left).unwrap_or(usize::MAX).min(block.capacity());
        let at = self.piece.start + self.done;
        let count = self.file.read_at(&mut block.bytes_mut()[..want], at)?;
        self.tool.progressed(count as u64);
        self.done += count as u64;
        let mut chunk = Chunk::of(block);
        chunk.truncate(count);
        Ok((count > 0).then_some(chunk))
    }
}

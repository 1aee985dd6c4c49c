//! Gathers output lines into blocks, which are written without another copy.

use std::io::{self, Write};

use dio::block::{Block, Pool};
use dio::stream::{Chunk, Output};

/// A consumer of whole blocks.
pub(super) trait Drain {
    /// Takes the next bytes.
    ///
    /// # Errors
    /// Writing these or earlier bytes failed.
    fn drain(&mut self, chunk: Chunk) -> io::Result<()>;
}

impl Drain for Output {
    fn drain(&mut self, chunk: Chunk) -> io::Result<()> {
        self.write_chunk(chunk)
    }
}

impl Drain for std::process::ChildStdin {
    fn drain(&mut self, chunk: Chunk) -> io::Result<()> {
        self.write_all(&chunk)
    }
}

/// Gathers lines for a drain.
pub(super) struct LineGatherer<'a, D: Drain + ?Sized> {
    drain: &'a mut D,
    pool: Pool,
    /// The block being filled, and the free bytes in it.
    block: Block,
    room: usize,
    written: u64,
}

impl<'a, D: Drain + ?Sized> LineGatherer<'a, D> {
    /// Makes a gatherer of blocks of `block` bytes, for a drain that keeps up to `depth` of them.
    ///
    /// # Errors
    /// Memory cannot be allocated.
    pub(super) fn new(
        drain: &'a mut D,
        block: usize,
        depth: usize,
    ) -> io::Result<LineGatherer<'a, D>> {
        let pool = Pool::new(block, depth + 2)?;
        let block = take(&pool);
        Ok(LineGatherer { drain, room: block.capacity(), block, pool, written: 0 })
    }

    /// Adds bytes.
    ///
    /// # Errors
    /// Writing these or earlier bytes failed.
    #[inline]
    pub(super) fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.len() >= self.room {
            return self.put_slowly(bytes);
        }
        self.block.push(bytes);
        self.room -= bytes.len();
        Ok(())
    }

    #[cold]
    fn put_slowly(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let count = bytes.len().min(self.room);
            self.block.push(&bytes[..count]);
            self.room -= count;
            bytes = &bytes[count..];
            if self.room == 0 {
                self.pass_on()?;
            }
        }
        Ok(())
    }

    fn pass_on(&mut self) -> io::Result<()> {
        // The next block is taken before the full one goes to the drain. The pool has two blocks
        // more than the drain keeps, so this does not wait forever, even if the drain keeps only
        // one.
        let full = std::mem::replace(&mut self.block, take(&self.pool));
        self.room = self.block.capacity();
        self.written += full.filled().len() as u64;
        self.drain.drain(Chunk::of(full))
    }

    /// Writes the rest, and returns the total number of bytes.
    ///
    /// # Errors
    /// Writing these or earlier bytes failed.
    pub(super) fn finish(mut self) -> io::Result<u64> {
        if !self.block.filled().is_empty() {
            self.pass_on()?;
        }
        Ok(self.written)
    }
}

fn take(pool: &Pool) -> Block {
    pool.take_many(1).pop().expect("one block was asked for")
}

//! Reads a part of an archive by offsets.

use std::io::{self, BufRead, Read};
use std::sync::Arc;

use dio::File;
use dio::block::{Block, Pool};
use dio::stream::StreamOptions;

use super::super::format::Archive;

/// Reads begin and end at multiples of this, sufficient for direct I/O to every device.
const ALIGNMENT: u64 = 4096;

/// An archive, read with one request at a time from any offset.
#[derive(Debug)]
pub(super) struct Stretch {
    archive: Arc<File>,
    block: Block,
    /// The offset of the block's first byte, and how many bytes it has.
    start: u64,
    filled: usize,
    at: u64,
    /// No byte behind this is read.
    end: u64,
}

impl Stretch {
    /// Reads nothing before [`Stretch::go_to`].
    ///
    /// # Errors
    /// There is no memory.
    pub(super) fn new(archive: Arc<File>, how: &StreamOptions) -> io::Result<Stretch> {
        let block = one_block(how)?;
        Ok(Stretch { archive, block, start: 0, filled: 0, at: 0, end: 0 })
    }

    /// Continues at an offset.
    pub(super) fn go_to(&mut self, start: u64) {
        self.at = start;
    }

    /// Sets the end of what is read.
    pub(super) fn read_up_to(&mut self, end: u64) {
        // The block may lack what is behind the previous end.
        (self.end, self.filled) = (end, 0);
    }
}

/// Takes memory for one request.
///
/// # Errors
/// There is none.
pub(super) fn one_block(how: &StreamOptions) -> io::Result<Block> {
    let taken = Pool::new(how.block, 1)?.take_many(1).pop();
    taken.ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

impl BufRead for Stretch {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let within = |stretch: &Stretch| {
            (stretch.start..stretch.start + stretch.filled as u64).contains(&stretch.at)
        };
        if self.at < self.end && !within(self) {
            self.start = self.at - self.at % ALIGNMENT;
            let wanted = (self.end - self.start).next_multiple_of(ALIGNMENT);
            let memory = self.block.bytes_mut();
            let count = usize::try_from(wanted).map_or(memory.len(), |most| most.min(memory.len()));
            self.filled = 0;
            self.filled = self.archive.read_at(&mut memory[..count], self.start)?;
        }
        if self.at >= self.end || !within(self) {
            return Ok(&[]);
        }
        let end = self.filled.min((self.end - self.start) as usize);
        Ok(&self.block.bytes_mut()[(self.at - self.start) as usize..end])
    }

    fn consume(&mut self, count: usize) {
        self.at += count as u64;
    }
}

impl Read for Stretch {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.fill_buf()?;
        let count = bytes.len().min(buffer.len());
        buffer[..count].copy_from_slice(&bytes[..count]);
        self.consume(count);
        Ok(count)
    }
}

impl Archive for Stretch {}

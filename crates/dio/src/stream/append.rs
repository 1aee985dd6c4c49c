//! Appends to a file that others may append to at the same time.
//!
//! Only the kernel knows where such a file ends at the moment of a write, so no write can name its
//! offset. With `O_APPEND` on a direct descriptor ext4 finds the end itself, under its exclusive
//! lock of the file, and refuses (EINVAL) if the end is not at a multiple of a block. So nothing is
//! overwritten, and whole blocks go direct all the same. Other bytes go by exact length through the
//! page cache, which drops them: those before the first whole block, those behind the last one, and
//! those written where another's line ends within a block. Other file systems do not all keep such
//! appends apart, so there all bytes go through the page cache.
//!
//! A striped file has no such descriptor. There the write names its offset, under a lock that all
//! programs that append take ([`File::lock_end`]).

use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::Errno;

use super::pipe;
use crate::block::{Block, Pool};
use crate::file::{Class, Counters, File, Reason, errno_of};
use crate::geometry::{align_down, align_up};

/// Appends to a file.
#[derive(Debug)]
pub(super) struct Appender {
    /// The file through the page cache, opened for appending: bytes go to the end, whatever offset
    /// is named.
    file: Arc<File>,
    /// The same file with `O_DIRECT`. `None` if whole blocks cannot go direct either.
    direct: Option<OwnedFd>,
    align: u64,
    pool: Pool,
    /// The gathered bytes. Invariant: filled from `from` on.
    block: Option<Block>,
    from: usize,
    written: Counters,
    failed: Option<Errno>,
}

impl Appender {
    /// An appender with blocks of `block` bytes. `direct` must append, and demand multiples of
    /// `align` bytes.
    pub(super) fn new(
        file: File,
        direct: Option<OwnedFd>,
        align: u64,
        block: usize,
    ) -> io::Result<Appender> {
        let pool = Pool::new(align_up(block as u64, align) as usize, 1)?;
        let (written, file) = (Counters::default(), Arc::new(file));
        let mut appender =
            Appender { file, direct, align, pool, block: None, from: 0, written, failed: None };
        appender.align_start()?;
        Ok(appender)
    }

    pub(super) fn file(&self) -> &Arc<File> {
        &self.file
    }

    pub(super) fn buffer_bytes(&self) -> usize {
        self.pool.bytes()
    }

    pub(super) fn counters(&self) -> Counters {
        let mut all = self.file.counters();
        if self.written.written.total() > 0 {
            all.reasons[Reason::EndOfFile as usize] += all.written.get(Class::Uncached);
        }
        all.add(&self.written);
        all
    }

    /// Offset of the next byte, if nobody else appends.
    pub(super) fn position(&self) -> u64 {
        self.file.size().unwrap_or(0) + self.gathered().len() as u64
    }

    /// Lets gathered bytes start within their block at the offset at which the file ends within
    /// one, so that whole blocks in memory become whole blocks of the file.
    fn align_start(&mut self) -> io::Result<()> {
        self.from =
            if self.direct.is_some() { (self.file.size()? % self.align) as usize } else { 0 };
        Ok(())
    }

    fn gathered(&self) -> &[u8] {
        self.block.as_ref().map_or(&[], |block| &block.filled()[self.from..])
    }

    /// Writes the gathered bytes.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        if let Some(errno) = self.failed {
            return Err(errno.into());
        }
        let Some(block) = self.block.take() else { return Ok(()) };
        let from = self.from;
        let outcome = self.append(block, from);
        if let Err(error) = &outcome {
            self.failed = Some(errno_of(error));
        }
        outcome.and_then(|()| self.align_start())
    }

    /// Writes the gathered bytes and drops what passed through the page cache.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        Appender::flush(self)?;
        Ok(self.file.settle()?)
    }

    /// Appends the bytes of a block from `at` on.
    fn append(&mut self, mut block: Block, mut at: usize) -> io::Result<()> {
        let (end, file) = (block.filled().len(), Arc::clone(&self.file));
        while at < end {
            // For a striped file, held until the bytes are written.
            let _lock = file.lock_end()?;
            let size = self.file.size()?;
            let behind = (size % self.align) as usize;
            let is_direct = self.direct.is_some() && behind == 0 && (end - at) as u64 >= self.align;
            if !is_direct {
                // Up to the next whole block, or to the end. It is one request: the kernel would
                // write several requests in flight one behind the other in any order.
                let bytes_max = if self.direct.is_some() {
                    self.align as usize - behind
                } else {
                    self.file.io().limits().request
                };
                let count = bytes_max.min(end - at);
                if let Err(error) = self.file.write_at(&block.filled()[at..at + count], size) {
                    // Bytes that only some objects of a striped file hold must not appear behind
                    // what others append.
                    let _ = self.file.cut_off(u64::MAX);
                    return Err(error.into());
                }
                at += count;
                continue;
            }
            if at as u64 % self.align != 0 {
                // Another program has appended: the rest moves to where it can go direct.
                let rest = block.filled()[at..end].to_vec();
                block.clear();
                block.copy_in(0, &rest);
                return self.append(block, 0);
            }
            let whole_len = align_down((end - at) as u64, self.align) as usize;
            at += self.append_directly(&block.filled()[at..at + whole_len])?;
        }
        Ok(())
    }

    /// Appends whole blocks. Returns 0 when the file no longer ends with a block.
    fn append_directly(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(direct) = &self.direct else { return Ok(0) };
        self.written.write_requests += 1;
        match pipe::uninterrupted(|| rustix::io::write(direct, bytes)) {
            Ok(count) => {
                self.written.written.add(Class::Direct, count as u64);
                Ok(count)
            }
            Err(Errno::INVAL) => {
                // If the file does end with a block, it has no direct appends at all.
                if self.file.size()? % self.align == 0 {
                    self.direct = None;
                }
                Ok(0)
            }
            Err(errno) => Err(errno.into()),
        }
    }
}

impl Write for Appender {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(errno) = self.failed {
            return Err(errno.into());
        }
        let from = self.from;
        let block = match &mut self.block {
            Some(block) => block,
            None => {
                self.block.insert(self.pool.take_many(1).pop().expect("one block was asked for"))
            }
        };
        let at = block.filled().len().max(from);
        let count = bytes.len().min(block.capacity() - at);
        block.copy_in(at, &bytes[..count]);
        if at + count == block.capacity() {
            self.flush()?;
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Appender::flush(self)
    }
}

impl Drop for Appender {
    fn drop(&mut self) {
        // Nobody learns of an error here; `finish` reports it.
        let _ = Appender::flush(self);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Blocking;
    use crate::{Io, Limits, Mode, OpenOptions};

    #[test]
    fn blocks_larger_than_a_request_keep_their_order() {
        let scratch = tempfile::tempdir_in("/var/tmp").unwrap();
        let path = scratch.path().join("file");
        std::fs::write(&path, b"before ").unwrap();
        let limits = Limits { request: 4096, bounce_block: 4096, ..Limits::default() };
        let io =
            Io::with_engine(limits, "blocking", |depth| Box::new(Blocking::new(depth))).unwrap();
        let fd = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
        let file = OpenOptions::new()
            .write(true)
            .mode(Mode::Uncached)
            .io(&io)
            .adopt(fd.into(), "file")
            .unwrap();
        let mut appender = Appender::new(file, None, 1, 1 << 20).unwrap();
        let bytes: Vec<u8> = (0..4 << 18).flat_map(u32::to_ne_bytes).collect();
        appender.write_all(&bytes).unwrap();
        appender.finish().unwrap();
        assert!(std::fs::read(&path).unwrap() == [b"before ".as_slice(), &bytes].concat());
    }
}

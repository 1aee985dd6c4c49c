//! A source of bytes of any kind: a file or device, read directly and ahead, or a pipe, terminal or
//! socket, read as the bytes arrive.

use std::io::{self, BufRead, Read, Seek, SeekFrom};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;

use super::chunk::Chunk;
use super::options::{StreamOptions, duplicate, has_blocks, reopen};
use super::{Reader, pipe};
use crate::block::{Block, Pool};
use crate::file::{Class, Counters, File, Mode};
use crate::stripe::{LeaseWait, descriptor_of};

/// A source of bytes of any kind: a file, a device, a pipe, a terminal or a socket.
#[derive(Debug)]
pub struct Input {
    name: PathBuf,
    source: InputSource,
}

#[derive(Debug)]
enum InputSource {
    File {
        reader: Box<Reader>,
        /// The given descriptor, if others may share it. Its position follows what is consumed.
        given: Option<OwnedFd>,
        size: u64,
    },
    PlainSource(Box<PlainSource>),
}

/// A source that is read as its bytes arrive.
#[derive(Debug)]
struct PlainSource {
    fd: OwnedFd,
    pool: Pool,
    block: usize,
    current: Option<Block>,
    consumed: usize,
    position: u64,
    counters: Counters,
    /// The class of its bytes.
    class: Class,
}

impl Input {
    /// Opens a file or whatever else has this name.
    ///
    /// # Errors
    /// What `open(2)` answers; EISDIR for a directory; as [`Input::adopt`].
    pub fn open(path: impl AsRef<Path>, options: &StreamOptions) -> io::Result<Input> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY;
        let fd = pipe::uninterrupted(|| {
            rustix::fs::open(path.as_ref(), flags, rustix::fs::Mode::empty())
        })?;
        Input::of(fd, false, path.as_ref(), options)
    }

    /// Takes over an open descriptor, at its position. `name` is for messages. For a file,
    /// [`Input::close`] moves the position of the descriptor behind the consumed bytes, for those
    /// who share the descriptor.
    ///
    /// # Errors
    /// EISDIR for a directory; EBADF when it is not open for reading; what opening a [`File`]
    /// answers; no memory.
    pub fn adopt(
        fd: OwnedFd,
        name: impl AsRef<Path>,
        options: &StreamOptions,
    ) -> io::Result<Input> {
        Input::of(fd, true, name.as_ref(), options)
    }

    /// Takes over a descriptor that was opened for this, at the beginning of its file, and that
    /// nobody else shares: what [`Input::open`] does with the one that it opens. `name` is for
    /// messages.
    ///
    /// # Errors
    /// As [`Input::adopt`].
    pub fn own(fd: OwnedFd, name: impl AsRef<Path>, options: &StreamOptions) -> io::Result<Input> {
        Input::of(fd, false, name.as_ref(), options)
    }

    fn of(fd: OwnedFd, shared: bool, name: &Path, options: &StreamOptions) -> io::Result<Input> {
        let options = &options.clamped();
        let stat = rustix::fs::fstat(&fd)?;
        if rustix::fs::fcntl_getfl(&fd)?.intersection(OFlags::RWMODE) == OFlags::WRONLY {
            // Opened again, it could be read all the same.
            return Err(Errno::BADF.into());
        }
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => return Err(Errno::ISDIR.into()),
            // Files of the kernel (proc(5)) hold bytes but report no size.
            FileType::RegularFile if stat.st_size == 0 => {
                return Input::plain(fd, name, options, Class::Cached);
            }
            _ if !has_blocks(&stat) => return Input::plain(fd, name, options, Class::Piped),
            _ => {}
        }
        // The size of a striped file is not that of its descriptor.
        let striped = descriptor_of(&fd, &stat, name, LeaseWait::AsOpen)?.is_some();
        let small = stat.st_size as u64 <= options.small && stat.st_size > 0 && !striped;
        let mode =
            if small && options.mode == Mode::Direct { Mode::Uncached } else { options.mode };
        let mut open_options = options.open_options()?;
        open_options.read(true).mode(mode).need(options.need);
        let (position, own, given) = match shared {
            false => (0, fd, None),
            true => {
                let position = rustix::fs::tell(&fd)?;
                let own = reopen(fd.as_fd(), OFlags::RDONLY).map_or_else(|| duplicate(&fd), Ok)?;
                (position, own, Some(fd))
            }
        };
        let file = open_options.adopt(own, name)?;
        let size = file.size()?;
        let ahead = options.read_ahead(size.saturating_sub(position), file.objects().len());
        let mut reader = Reader::with_read_ahead(file, ahead)?;
        if position > 0 {
            reader.seek(SeekFrom::Start(position))?;
        }
        Ok(Input {
            name: name.to_owned(),
            source: InputSource::File { reader: Box::new(reader), given, size },
        })
    }

    fn plain(fd: OwnedFd, name: &Path, options: &StreamOptions, class: Class) -> io::Result<Input> {
        pipe::enlarge(&fd, pipe::CAPACITY_WANTED_BYTES);
        let pool = Pool::new(options.block, options.depth + 3)?;
        let (block, counters) = (options.block, Counters::default());
        let plain = PlainSource {
            fd,
            pool,
            block,
            current: None,
            consumed: 0,
            position: 0,
            counters,
            class,
        };
        let source = InputSource::PlainSource(Box::new(plain));
        Ok(Input { name: name.to_owned(), source })
    }

    /// The name by which it was opened.
    pub fn name(&self) -> &Path {
        &self.name
    }

    /// The file behind it; `None` for a source that is not a file.
    pub fn file(&self) -> Option<&Arc<File>> {
        match &self.source {
            InputSource::File { reader, .. } => Some(reader.file()),
            InputSource::PlainSource(_) => None,
        }
    }

    /// The descriptor, for questions about what is behind it.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        match &self.source {
            InputSource::File { given: Some(given), .. } => given.as_fd(),
            InputSource::File { reader, .. } => {
                reader.file().descriptor().expect("a file of the system has a descriptor")
            }
            InputSource::PlainSource(plain) => plain.fd.as_fd(),
        }
    }

    /// Size of the file in bytes when it was opened.
    pub fn len(&self) -> Option<u64> {
        match &self.source {
            InputSource::File { size, .. } => Some(*size),
            InputSource::PlainSource(_) => None,
        }
    }

    /// Whether it is known to be an empty file.
    pub fn is_empty(&self) -> bool {
        self.len() == Some(0)
    }

    /// Offset of the next byte in the file. For other sources, the number of bytes consumed.
    pub fn position(&self) -> u64 {
        match &self.source {
            InputSource::File { reader, .. } => reader.position(),
            InputSource::PlainSource(plain) => plain.position,
        }
    }

    /// The next bytes with the memory that holds them; `None` at the end. A file gives whole
    /// blocks, a pipe what is there.
    ///
    /// A few chunks may be held while reading goes on: as many as a [`super::Output`] of the same
    /// options holds. With more, the call waits until another thread drops one.
    ///
    /// # Errors
    /// What reading answers.
    pub fn next_chunk(&mut self) -> io::Result<Option<Chunk>> {
        match &mut self.source {
            InputSource::File { reader, .. } => reader.next_chunk(),
            InputSource::PlainSource(plain) => plain.next_chunk(),
        }
    }

    /// Whether something can be read now or within `timeout`: bytes, the end or an error. Always
    /// true for a file.
    ///
    /// # Errors
    /// What `poll(2)` answers.
    pub fn ready_within(&self, timeout: Duration) -> io::Result<bool> {
        match &self.source {
            InputSource::PlainSource(plain) if plain.left() == 0 => {
                pipe::wait_readable(&plain.fd, Some(timeout))
            }
            _ => Ok(true),
        }
    }

    /// Skips `bytes` bytes, by seeking if possible. Returns how many there were to skip.
    ///
    /// # Errors
    /// What reading answers.
    pub fn skip(&mut self, bytes: u64) -> io::Result<u64> {
        match &mut self.source {
            InputSource::File { reader, .. } => {
                let (from, size) = (reader.position(), reader.file().size()?);
                let count = bytes.min(size.saturating_sub(from));
                reader.seek(SeekFrom::Start(from + count))?;
                Ok(count)
            }
            InputSource::PlainSource(plain) => plain.skip(bytes),
        }
    }

    /// The bytes read, by class.
    pub fn counters(&self) -> Counters {
        match &self.source {
            InputSource::File { reader, .. } => reader.file().counters(),
            InputSource::PlainSource(plain) => plain.counters,
        }
    }

    /// Bytes of memory for buffers.
    pub fn buffer_bytes(&self) -> usize {
        match &self.source {
            InputSource::File { reader, .. } => reader.buffer_bytes(),
            InputSource::PlainSource(plain) => plain.pool.bytes(),
        }
    }

    /// Ends reading. The position of the given descriptor is then that of the consumer, and what
    /// passed through the page cache has been dropped.
    ///
    /// # Errors
    /// What dropping pages answers.
    pub fn close(self) -> io::Result<Counters> {
        match self.source {
            InputSource::File { reader, given, .. } => {
                let file = Arc::clone(reader.file());
                if let Some(given) = given {
                    // If it cannot be positioned, nobody depends on its position.
                    let _ = rustix::fs::seek(given, rustix::fs::SeekFrom::Start(reader.position()));
                }
                drop(reader);
                file.settle()?;
                Ok(file.counters())
            }
            InputSource::PlainSource(plain) => {
                if plain.class == Class::Cached && plain.left() > 0 {
                    let unread = -(plain.left() as i64);
                    let _ = rustix::fs::seek(&plain.fd, rustix::fs::SeekFrom::Current(unread));
                }
                Ok(plain.counters)
            }
        }
    }
}

impl PlainSource {
    fn left(&self) -> usize {
        self.current.as_ref().map_or(0, |block| block.filled().len() - self.consumed)
    }

    /// Reads once into a free block; false at the end.
    fn refill(&mut self) -> io::Result<bool> {
        self.current = None;
        let block = self.pool.take_many(1).pop().expect("one block was asked for");
        let mut memory = block.into_mem(0..self.block);
        let count = pipe::read_vectored(&self.fd, &mut memory.slices_mut(0))?;
        self.counters.read_requests += 1;
        self.counters.read.add(self.class, count as u64);
        self.current = memory.into_block(count).filter(|block| !block.filled().is_empty());
        self.consumed = 0;
        Ok(self.current.is_some())
    }

    fn next_chunk(&mut self) -> io::Result<Option<Chunk>> {
        if self.left() == 0 && !self.refill()? {
            return Ok(None);
        }
        let block = self.current.take().expect("it was filled just now");
        let range = self.consumed..block.filled().len();
        self.position += range.len() as u64;
        self.consumed = 0;
        Ok(Some(Chunk::new(block, range)))
    }

    fn skip(&mut self, bytes: u64) -> io::Result<u64> {
        let mut passed = 0;
        while passed < bytes && (self.left() > 0 || self.refill()?) {
            let count = (self.left() as u64).min(bytes - passed);
            self.consume(count as usize);
            passed += count;
        }
        Ok(passed)
    }

    fn consume(&mut self, count: usize) {
        self.consumed += count;
        self.position += count as u64;
    }
}

impl BufRead for Input {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        match &mut self.source {
            InputSource::File { reader, .. } => reader.fill_buf(),
            InputSource::PlainSource(plain) => {
                if plain.left() == 0 && !plain.refill()? {
                    return Ok(&[]);
                }
                Ok(plain.current.as_ref().map_or(&[], |block| &block.filled()[plain.consumed..]))
            }
        }
    }

    fn consume(&mut self, count: usize) {
        match &mut self.source {
            InputSource::File { reader, .. } => reader.consume(count),
            InputSource::PlainSource(plain) => plain.consume(count),
        }
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let InputSource::File { reader, .. } = &mut self.source {
            return reader.read(buffer);
        }
        if buffer.is_empty() {
            // Reading no bytes waits for nothing, not even for a pipe.
            return Ok(0);
        }
        let available = self.fill_buf()?;
        let count = available.len().min(buffer.len());
        buffer[..count].copy_from_slice(&available[..count]);
        self.consume(count);
        Ok(count)
    }
}

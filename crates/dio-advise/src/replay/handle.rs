//! An open file, and one request to it.

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use dio::stream::{Reader, Writer};
use dio::{Mode, OpenOptions};
use dio_sys::uninterrupted;
use parking_lot::Mutex;
use rustix::fs::{FallocateFlags, OFlags, SeekFrom as Whence};

use super::buffer::Buffer;
use super::model::ReplayMode;
use super::planned::PlannedRequest;
use crate::trace::Call;

/// A file, opened as requests of one process to it are replayed.
#[derive(Debug)]
pub(super) enum Handle {
    /// For system calls.
    System(OwnedFd),
    /// Of the library.
    Library(dio::File),
    /// The library's streams, one at a time.
    Stream(Mutex<Stream>),
}

/// A file that is read or written in order.
#[derive(Debug)]
pub(super) struct Stream {
    file: Arc<dio::File>,
    reader: Option<Reader>,
    writer: Option<Writer>,
}

impl Handle {
    /// Opens a file for the requests like this one.
    pub(super) fn open(
        path: &Path,
        mode: ReplayMode,
        as_of: &PlannedRequest,
    ) -> io::Result<Handle> {
        let library = |mode| {
            OpenOptions::new().read(true).write(true).mode(mode).open(path).map_err(io::Error::from)
        };
        Ok(match mode {
            ReplayMode::Cached => {
                let mut flags = OFlags::RDWR | OFlags::CLOEXEC;
                flags.set(OFlags::DIRECT, as_of.direct);
                flags.set(OFlags::DSYNC, as_of.synced);
                Handle::System(rustix::fs::open(path, flags, rustix::fs::Mode::empty())?)
            }
            ReplayMode::Direct => Handle::Library(library(Mode::Direct)?),
            ReplayMode::Concurrent => Handle::Library(library(Mode::Concurrent)?),
            ReplayMode::Uncached => Handle::Library(library(Mode::Uncached)?),
            ReplayMode::Streams => {
                let file = Arc::new(library(Mode::Direct)?);
                Handle::Stream(Mutex::new(Stream { file, reader: None, writer: None }))
            }
        })
    }

    /// Makes a request; returns the bytes that it moved.
    pub(super) fn run(
        &self,
        request: &PlannedRequest,
        to: Option<&Handle>,
        buffer: &mut Buffer,
    ) -> io::Result<u64> {
        if let (Handle::System(file), Some((_, place))) = (self, request.to)
            && let Some(Handle::System(to)) = to
        {
            return copy(file, to, request, place);
        }
        let bytes = buffer.bytes(request.bytes, request.done);
        if !request.call.reads() {
            return self.change(request, bytes);
        }
        let count = self.read(request, bytes)?;
        if let (Some(to), Some((_, place))) = (to, request.to) {
            to.write(&bytes[..count as usize], place)?;
        }
        Ok(count)
    }

    fn read(&self, request: &PlannedRequest, bytes: &mut [u8]) -> io::Result<u64> {
        let count = match self {
            Handle::System(file) => {
                uninterrupted(|| rustix::io::pread(file, &mut *bytes, request.offset))?
            }
            Handle::Library(file) => file.read_at(bytes, request.offset)?,
            Handle::Stream(stream) => stream.lock().read(bytes, request.offset)?,
        };
        Ok(count as u64)
    }

    fn write(&self, bytes: &[u8], offset: u64) -> io::Result<u64> {
        match self {
            Handle::System(file) => {
                return Ok(uninterrupted(|| rustix::io::pwrite(file, bytes, offset))? as u64);
            }
            Handle::Library(file) => file.write_at(bytes, offset)?,
            Handle::Stream(stream) => stream.lock().write(bytes, offset)?,
        }
        Ok(bytes.len() as u64)
    }

    /// Makes a request that does not read.
    fn change(&self, request: &PlannedRequest, bytes: &[u8]) -> io::Result<u64> {
        let (offset, length) = (request.offset, request.bytes);
        match request.call {
            call if call.writes() => return self.write(bytes, offset),
            Call::Fsync => self.sync(true)?,
            Call::Fdatasync => self.sync(false)?,
            Call::Ftruncate => match self {
                Handle::System(file) => uninterrupted(|| rustix::fs::ftruncate(file, offset))?,
                Handle::Library(file) => file.set_size(offset)?,
                Handle::Stream(stream) => stream.lock().alone()?.set_size(offset)?,
            },
            Call::Fallocate => self.allocate(request)?,
            Call::SyncFileRange => {
                if let Handle::System(file) = self {
                    dio_sys::sync_file_range_with(file.as_fd(), offset, length, request.flags)?;
                }
            }
            _ => {}
        }
        Ok(0)
    }

    fn sync(&self, is_whole: bool) -> io::Result<()> {
        let library = |file: &dio::File| {
            if is_whole { file.sync_all() } else { file.sync_data() }.map_err(io::Error::from)
        };
        match self {
            Handle::System(file) if is_whole => Ok(rustix::fs::fsync(file)?),
            Handle::System(file) => Ok(rustix::fs::fdatasync(file)?),
            Handle::Library(file) => library(file),
            Handle::Stream(stream) => library(stream.lock().alone()?),
        }
    }

    fn allocate(&self, request: &PlannedRequest) -> io::Result<()> {
        let flags = FallocateFlags::from_bits_retain(request.flags);
        let (offset, length) = (request.offset, request.bytes);
        let library = |file: &dio::File| {
            let range = offset..offset.saturating_add(length);
            if flags.contains(FallocateFlags::PUNCH_HOLE) {
                file.punch(range)
            } else {
                file.allocate(range, !flags.contains(FallocateFlags::KEEP_SIZE))
            }
        };
        match self {
            Handle::System(file) => {
                uninterrupted(|| rustix::fs::fallocate(file, flags, offset, length))?;
                Ok(())
            }
            Handle::Library(file) => Ok(library(file)?),
            Handle::Stream(stream) => Ok(library(stream.lock().alone()?)?),
        }
    }

    /// Writes what is still in memory.
    pub(super) fn finish(&self) -> io::Result<()> {
        match self {
            Handle::Stream(stream) => stream.lock().alone().map(drop),
            _ => Ok(()),
        }
    }
}

/// Copies within the kernel, by the call that was recorded.
fn copy(from: &OwnedFd, to: &OwnedFd, request: &PlannedRequest, place: u64) -> io::Result<u64> {
    let (mut at, length) = (request.offset, request.bytes as usize);
    let count = if request.call == Call::Sendfile {
        rustix::fs::seek(to, Whence::Start(place))?;
        uninterrupted(|| rustix::fs::sendfile(to, from, Some(&mut at), length))?
    } else {
        let mut to_at = place;
        uninterrupted(|| {
            rustix::fs::copy_file_range(from, Some(&mut at), to, Some(&mut to_at), length)
        })?
    };
    Ok(count as u64)
}

impl Stream {
    /// The file, with nothing of it in the memory of a stream.
    fn alone(&mut self) -> io::Result<&dio::File> {
        self.reader = None;
        if let Some(mut writer) = self.writer.take() {
            writer.finish()?;
        }
        Ok(&self.file)
    }

    fn read(&mut self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        if self.reader.is_none() {
            self.alone()?;
            self.reader = Some(Reader::new(Arc::clone(&self.file))?);
        }
        let reader = self.reader.as_mut().expect("it was made above");
        if reader.position() != offset {
            reader.seek(SeekFrom::Start(offset))?;
        }
        let mut count = 0;
        while count < bytes.len() {
            match reader.read(&mut bytes[count..])? {
                0 => break,
                more => count += more,
            }
        }
        Ok(count)
    }

    fn write(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if self.writer.as_ref().is_none_or(|writer| writer.position() != offset) {
            self.alone()?;
            // A stream writes from the start of a file.
            if offset > 0 {
                return Ok(self.file.write_at(bytes, offset)?);
            }
            self.writer = Some(Writer::new(Arc::clone(&self.file))?);
        }
        self.reader = None;
        self.writer.as_mut().expect("it was made above").write_all(bytes)
    }
}

//! One output of `tee`.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use dio::file::{Class, Counters};
use dio::names::FileId;
use dio::names::resident_pages;
use dio::stream::{Chunk, StreamOptions};
use dio_sys::uninterrupted;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;

use crate::receipt::{FileLine, Role};
use crate::tool::{Sink, Tool, plain};

/// Identity of the file that a descriptor leads to; `None` for files such as pipes and terminals,
/// on which several descriptors do not interfere.
pub(super) fn identity(fd: impl AsFd) -> Option<FileId> {
    let stat = rustix::fs::fstat(fd).ok()?;
    let kind = FileType::from_raw_mode(stat.st_mode);
    let id = match kind {
        FileType::RegularFile => FileId::of(&stat),
        // A device can have many names, so it is identified by its device number.
        FileType::BlockDevice => FileId::from_numbers(u64::MAX, stat.st_rdev),
        _ => return None,
    };
    Some(id)
}

/// Creates or opens a file as `fopen(3)` does with `w` or `a`.
pub(super) fn open(path: &Path, append: bool) -> Result<OwnedFd, Errno> {
    let how = if append { OFlags::APPEND } else { OFlags::TRUNC };
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC | how;
    let mode = rustix::fs::Mode::from_raw_mode(0o666);
    uninterrupted(|| dio::names::openat(rustix::fs::CWD, path, flags, mode))
}

/// An output that still works.
pub(super) struct Output {
    /// The name for messages.
    pub(super) name: String,
    /// Bytes of one request.
    block: usize,
    way: Method,
}

enum Method {
    Sink(Box<Sink>),
    /// Standard output that was closed when the process was started. As with GNU tee, the error
    /// comes with the first write.
    Closed,
    /// A file that is also read or written under another name. The kernel orders the bytes, write
    /// by write.
    Shared {
        file: File,
        path: PathBuf,
        pages_before: Option<u64>,
        tool: Tool,
        counters: Counters,
    },
    /// The same for a striped file, which the kernel does not support: each write is complete
    /// before the next one.
    Apart {
        file: Box<dio::File>,
        /// Offset of the next byte; `None` to append at the end.
        at: Option<u64>,
        tool: Tool,
    },
}

impl Output {
    /// Makes an output on `fd`. `shared` says that this process uses the same file through another
    /// descriptor.
    pub(super) fn new(
        tool: &Tool,
        options: &StreamOptions,
        fd: OwnedFd,
        path: &Path,
        name: String,
        shared: bool,
    ) -> io::Result<Output> {
        let way = if shared && dio::names::is_striped(&fd)? {
            let append = rustix::fs::fcntl_getfl(&fd)?.contains(OFlags::APPEND);
            let file =
                dio::OpenOptions::new().write(true).mode(dio::Mode::Uncached).adopt(fd, path)?;
            Method::Apart { file: Box::new(file), at: (!append).then_some(0), tool: tool.clone() }
        } else if shared {
            let pages_before = tool.ledger().wanted().then(|| resident_pages(&fd).ok()).flatten();
            let (file, path, tool) = (fd.into(), path.to_owned(), tool.clone());
            Method::Shared { file, path, pages_before, tool, counters: Counters::default() }
        } else {
            Method::Sink(Box::new(tool.output_with(fd, path, options)?))
        };
        Ok(Output { name, block: options.block, way })
    }

    /// Makes an output that was closed from the beginning.
    pub(super) fn closed(tool: &Tool, name: String) -> Output {
        Output { name, block: tool.stream_options().block, way: Method::Closed }
    }

    /// Returns whether written bytes may be held back for a while.
    pub(super) fn holds(&self) -> bool {
        match &self.way {
            Method::Sink(sink) => sink.file().is_some(),
            Method::Closed | Method::Shared { .. } | Method::Apart { .. } => false,
        }
    }

    /// Returns whether this is a pipe without a reader.
    pub(super) fn is_broken(&self) -> bool {
        let Method::Sink(sink) = &self.way else { return false };
        if sink.file().is_some() {
            return false;
        }
        let fd = sink.descriptor();
        let is_fifo = rustix::fs::fstat(fd)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo);
        let mut asked = [PollFd::from_borrowed_fd(fd, PollFlags::empty())];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        is_fifo
            && poll(&mut asked, Some(&now)).is_ok()
            && asked[0].revents().contains(PollFlags::ERR)
    }

    /// Writes a copy of a chunk.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.way {
            Method::Sink(sink) => sink.write_all(bytes),
            Method::Closed => Err(Errno::BADF.into()),
            Method::Shared { file, counters, .. } => {
                file.write_all(bytes)?;
                counters.write_requests += 1;
                counters.written.add(Class::Cached, bytes.len() as u64);
                Ok(())
            }
            Method::Apart { file, at, .. } => {
                let place = at.map_or_else(|| file.size(), Ok)?;
                file.write_at(bytes, place)?;
                *at = at.map(|_| place + bytes.len() as u64);
                Ok(())
            }
        }
    }

    /// Takes over a chunk and writes it.
    pub(super) fn take(&mut self, chunk: Chunk) -> io::Result<()> {
        match &mut self.way {
            Method::Sink(sink) => plain::write(sink, chunk, self.block),
            Method::Closed | Method::Shared { .. } | Method::Apart { .. } => self.write(&chunk),
        }
    }

    /// Writes the bytes that are held back.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        match &mut self.way {
            Method::Sink(sink) => sink.flush(),
            Method::Closed | Method::Shared { .. } | Method::Apart { .. } => Ok(()),
        }
    }

    /// Waits until everything is written.
    pub(super) fn close(self) -> io::Result<()> {
        match self.way {
            Method::Sink(sink) => sink.close(),
            Method::Closed => Ok(()),
            Method::Apart { file, tool, .. } => {
                file.settle()?;
                tool.ledger().count(&file.counters());
                Ok(())
            }
            Method::Shared { file, path, pages_before, tool, counters } => {
                tool.ledger().count(&counters);
                tool.ledger().list(|| FileLine {
                    path,
                    role: Role::Target,
                    mode: if counters.write_requests == 0 { "none" } else { Class::Cached.name() },
                    reason: None,
                    pages_before,
                    pages_after: resident_pages(&file).ok(),
                });
                Ok(())
            }
        }
    }
}

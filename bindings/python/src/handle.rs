//! An open file with a position: the streams below `read` and `write`, and how they keep out of
//! each other's way.

use std::io::{IoSlice, Read, Seek, SeekFrom, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use dio::file::Class;
use dio::stream::{Reader, Writer};
use dio::{File, FileError};
use parking_lot::{Mutex, MutexGuard};
use pyo3::prelude::*;
use rustix::io::Errno;

use crate::errors::Failure;
use crate::process::Process;

/// Bytes that move between two looks at the signals that have arrived: at most some 50 ms.
pub(crate) const BYTES_BETWEEN_SIGNALS: usize = 64 << 20;

/// How a handle is used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    /// Reads and writes through the position have read-ahead and write-behind.
    pub(crate) streams: bool,
    /// Each write goes to the end of the file.
    pub(crate) appends: bool,
}

/// An open file with a position.
pub(crate) struct Handle {
    /// `None` in the child of a fork, once it has been dropped there.
    file: Option<Arc<File>>,
    usage: Usage,
    process: u32,
    streams: Mutex<Streams>,
    /// Whether the writer holds bytes that may not be in the file yet.
    unwritten: AtomicBool,
    /// Whether bytes have been written past the streams, so that what was read ahead may be old.
    outdated: AtomicBool,
}

#[derive(Default)]
struct Streams {
    position: u64,
    reader: Option<Reader>,
    writer: Option<Writer>,
    /// Identifies the contents that the reader has read ahead; `None` if they may have changed
    /// without a trace.
    seen: Option<Version>,
    /// The position was set since the reader has read.
    sought: bool,
    /// The idle thread watches the handle.
    watched: bool,
    /// The writer has been used since the idle thread looked.
    used: bool,
}

/// What changes when a file does: size, and times of the last change in nanoseconds.
type Version = (i64, i128, i128);

impl Handle {
    pub(crate) fn new(file: File, usage: Usage) -> Handle {
        Handle {
            file: Some(Arc::new(file)),
            usage,
            process: dio_sys::process_id(),
            streams: Mutex::default(),
            unwritten: AtomicBool::new(false),
            outdated: AtomicBool::new(false),
        }
    }

    /// The file.
    ///
    /// # Errors
    /// EBADF in the child of a fork.
    pub(crate) fn file(&self) -> Result<&Arc<File>, FileError> {
        let file = self.file.as_ref().expect("it is there until the handle is dropped");
        if self.is_foreign() {
            return Err(FileError::new("use", file.path(), Errno::BADF)
                .with_cure("it was opened before this process was forked: open it again here"));
        }
        Ok(file)
    }

    /// Whether this process is a fork of the one that opened the file.
    pub(crate) fn is_foreign(&self) -> bool {
        self.process != dio_sys::process_id()
    }

    /// The position.
    pub(crate) fn position(&self) -> Result<u64, Failure> {
        self.file()?;
        Ok(self.streams.lock().position)
    }

    /// Reads from the position on. The count is less than asked for at the end of the file only.
    pub(crate) fn read(&self, buffer: &mut [u8]) -> Result<usize, Failure> {
        let (len, mut done) = (buffer.len(), 0);
        for part in buffer.chunks_mut(BYTES_BETWEEN_SIGNALS) {
            let count = self.read_part(part)?;
            done += count;
            if count < part.len() {
                break;
            }
            check_signals(done < len)?;
        }
        Ok(done)
    }

    fn read_part(&self, buffer: &mut [u8]) -> Result<usize, Failure> {
        let file = self.file()?;
        let mut streams = self.streams.lock();
        self.write_out(&mut streams)?;
        let count = if self.usage.streams {
            self.read_stream(file, &mut streams, buffer)?
        } else {
            file.read_at(buffer, streams.position)?
        };
        streams.position += count as u64;
        Ok(count)
    }

    fn read_stream(
        &self,
        file: &Arc<File>,
        streams: &mut Streams,
        buffer: &mut [u8],
    ) -> Result<usize, Failure> {
        let failed = Failure::stream("read", file.path());
        let outdated = self.outdated.swap(false, Ordering::AcqRel);
        if streams.reader.is_none() {
            streams.reader = Some(Reader::new(Arc::clone(file)).map_err(&failed)?);
            streams.seen = lasting_version(file);
        }
        let reader = streams.reader.as_mut().expect("it was made just now");
        if outdated {
            reader.forget();
        }
        if std::mem::take(&mut streams.sought) {
            // Whoever seeks wants what is there now, also where the position is again what it was.
            if may_have_changed(file, streams.seen) {
                reader.forget();
                streams.seen = lasting_version(file);
            }
        }
        if reader.position() != streams.position {
            reader.seek(SeekFrom::Start(streams.position)).map_err(&failed)?;
        }
        reader.read(buffer).map_err(&failed)
    }

    /// Writes all of `bytes` at the position, or at the end of a file that is appended to.
    pub(crate) fn write(self: &Arc<Self>, bytes: &[u8]) -> Result<usize, Failure> {
        let mut done = 0;
        for part in bytes.chunks(BYTES_BETWEEN_SIGNALS) {
            self.write_part(part)?;
            done += part.len();
            check_signals(done < bytes.len())?;
        }
        Ok(done)
    }

    /// Refuses a write at an offset of a file that is appended to. A striped one would take it.
    pub(crate) fn refuse_if_appending(&self, offset: u64) -> Result<(), Failure> {
        if !self.usage.appends {
            return Ok(());
        }
        let error = FileError::new("write", self.file()?.path(), Errno::PERM).at(offset);
        Err(error.with_cure("it was opened for appending only").into())
    }

    fn write_part(self: &Arc<Self>, bytes: &[u8]) -> Result<(), Failure> {
        let file = self.file()?;
        let mut streams = self.streams.lock();
        self.outdated.store(true, Ordering::Release);
        if self.usage.appends {
            append(file, bytes)?;
            streams.position = file.size()?;
            return Ok(());
        }
        if self.usage.streams {
            self.write_stream(file, &mut streams, bytes)?;
        } else {
            file.write_at(bytes, streams.position)?;
        }
        streams.position += bytes.len() as u64;
        Ok(())
    }

    fn write_stream(
        self: &Arc<Self>,
        file: &Arc<File>,
        streams: &mut Streams,
        bytes: &[u8],
    ) -> Result<(), Failure> {
        let failed = Failure::stream("write", file.path());
        if streams.position.checked_add(bytes.len() as u64).is_none_or(|end| end > i64::MAX as u64)
        {
            return Err(FileError::new("write", file.path(), Errno::FBIG)
                .at(streams.position)
                .into());
        }
        if streams.writer.is_none() {
            streams.writer = Some(Writer::new(Arc::clone(file)).map_err(&failed)?);
        }
        let writer = streams.writer.as_mut().expect("it was made just now");
        self.unwritten.store(true, Ordering::Release);
        if writer.position() != streams.position {
            writer.seek(SeekFrom::Start(streams.position)).map_err(&failed)?;
        }
        writer.write_all(bytes).map_err(&failed)?;
        streams.used = true;
        if !streams.watched {
            streams.watched = Process::current().idle.watch(self);
            if !streams.watched {
                let writer = streams.writer.as_mut().expect("it has written just now");
                writer.drain().map_err(&failed)?;
            }
        }
        Ok(())
    }

    /// Finishes the writes in flight if the handle has paused. True if it is to be watched further.
    pub(crate) fn is_in_flight(&self) -> bool {
        // A handle whose lock is held is in use.
        let Some(mut streams) = self.streams.try_lock() else { return true };
        if std::mem::take(&mut streams.used) {
            return true;
        }
        if let Some(writer) = &mut streams.writer {
            // The error stays in force: the next call returns it.
            let _ = writer.drain();
        }
        streams.watched = false;
        false
    }

    /// Moves the position. `whence` is that of `lseek(2)`: 0, 1 or 2.
    pub(crate) fn seek(&self, offset: i64, whence: i32) -> Result<u64, Failure> {
        let file = self.file()?;
        let mut streams = self.streams.lock();
        let base = match whence {
            0 => Some(0),
            1 => Some(streams.position),
            _ => {
                self.write_out(&mut streams)?;
                Some(file.size()?)
            }
        };
        let target = base.and_then(|base| base.checked_add_signed(offset));
        let target = target.filter(|target| *target <= i64::MAX as u64);
        streams.position =
            target.ok_or_else(|| FileError::new("seek in", file.path(), Errno::INVAL))?;
        streams.sought = true;
        Ok(streams.position)
    }

    /// Sets the size; `None` stands for the position.
    pub(crate) fn truncate(&self, size: Option<i64>) -> Result<u64, Failure> {
        let file = self.file()?;
        let negative = |_| FileError::new("set the size of", file.path(), Errno::INVAL);
        let size = size.map(u64::try_from).transpose().map_err(negative)?;
        let mut streams = self.streams.lock();
        self.write_out(&mut streams)?;
        let size = size.unwrap_or(streams.position);
        // The writer believes that the file ends where it last saw it.
        streams.writer = None;
        self.outdated.store(true, Ordering::Release);
        file.set_size(size)?;
        Ok(size)
    }

    /// Has everything written so far in the file.
    pub(crate) fn flush(&self) -> Result<(), Failure> {
        self.file()?;
        if self.unwritten.load(Ordering::Acquire) {
            self.write_out(&mut self.streams.lock())?;
        }
        Ok(())
    }

    /// As [`Handle::flush`], and makes it durable: the data and what is needed to read it back, or
    /// with `all` also the rest of the metadata.
    pub(crate) fn sync(&self, all: bool) -> Result<(), Failure> {
        self.flush()?;
        let file = self.file()?;
        if all {
            file.sync_all()?
        } else {
            file.sync_data()?
        }
        Ok(())
    }

    /// The file for requests at offsets of their own, with everything written so far in it.
    pub(crate) fn positioned(&self) -> Result<&Arc<File>, Failure> {
        self.flush()?;
        Ok(self.file()?)
    }

    /// Must be called after bytes were written at offsets of their own.
    pub(crate) fn mark_changed(&self) {
        self.outdated.store(true, Ordering::Release);
    }

    /// Writes what is left and drops what passed through the page cache.
    pub(crate) fn finish(&self) -> Result<(), Failure> {
        let file = self.file()?;
        let mut streams = self.streams.lock();
        let written = self.write_out(&mut streams);
        streams.writer = None;
        streams.reader = None;
        let settled = file.settle().map_err(Failure::from);
        written.and(settled)
    }

    fn write_out(&self, streams: &mut MutexGuard<'_, Streams>) -> Result<(), Failure> {
        let file = self.file()?;
        if let Some(writer) = &mut streams.writer {
            writer.flush().map_err(Failure::stream("write", file.path()))?;
        }
        self.unwritten.store(false, Ordering::Release);
        Ok(())
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if !self.is_foreign() {
            return;
        }
        // The streams would wait for requests of the parent's rings, and the file's pages are the
        // parent's to drop.
        std::mem::forget(self.file.take());
        std::mem::forget(std::mem::take(self.streams.get_mut()));
    }
}

/// Appends bytes wherever the file ends.
fn append(file: &File, bytes: &[u8]) -> Result<(), Failure> {
    match file.lock_end()? {
        Some(_end) => file.write_at(bytes, file.size()?)?,
        None => {
            file.append(&[IoSlice::new(bytes)])?;
        }
    }
    Ok(())
}

/// What identifies the contents of a file now; `None` if that is not known.
fn version(file: &File) -> Option<Version> {
    // The bytes of a striped file change without its descriptor.
    let descriptor = file.descriptor().filter(|_| file.layout().is_none())?;
    let stat = rustix::fs::fstat(descriptor).ok()?;
    let time = |seconds: i64, nanoseconds: u64| {
        i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds)
    };
    Some((
        stat.st_size,
        time(stat.st_mtime, stat.st_mtime_nsec),
        time(stat.st_ctime, stat.st_ctime_nsec),
    ))
}

/// The version of a file, unless a later change could leave it as it is: the times of a file
/// advance in steps.
fn lasting_version(file: &File) -> Option<Version> {
    const STEP: i128 = 20_000_000;
    // File systems that have no smaller parts of a second have steps of one or two.
    const WHOLE_STEP: i128 = 2_000_000_000;
    let version = version(file)?;
    let (_, modified, changed) = version;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_nanos();
    let is_whole = modified % 1_000_000_000 == 0 && changed % 1_000_000_000 == 0;
    let step = if is_whole { WHOLE_STEP } else { STEP };
    (modified.max(changed) + step < i128::try_from(now).ok()?).then_some(version)
}

/// Whether the contents of a file may be others than those that were `seen`.
fn may_have_changed(file: &File, seen: Option<Version>) -> bool {
    // A write through a mapping leaves the times of the file if its page has not been written back
    // since the last one. A direct read writes back, a read from the page cache does not.
    let (class, _) = file.read_class();
    class != Class::Direct || seen.is_none() || version(file) != seen
}

/// Runs the handlers of signals that have arrived, if the call is not over. No lock may be held: a
/// handler may use the same file.
pub(crate) fn check_signals(more: bool) -> PyResult<()> {
    if !more {
        return Ok(());
    }
    // At the end of the program there are no handlers any more.
    Python::try_attach(|py| py.check_signals()).unwrap_or(Ok(()))
}

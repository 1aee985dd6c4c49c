//! One writer: a descriptor, the offset of its next write, and the measured operation.

use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use dio::block::{Block, Pool};
use dio_sys::uninterrupted;
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::case::{Descriptor, Method, Pattern, SyncCase};
use super::error::SyncError;
use super::file::TestFile;

/// Why an operation did not succeed.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The file system or the kernel does not support it.
    Refused(SyncError),
    /// It is supported, but failed.
    Failed(SyncError),
}

impl Refusal {
    /// Classifies an error of a system call.
    pub(crate) fn of(error: SyncError) -> Refusal {
        let SyncError::System { source, .. } = &error else { return Refusal::Failed(error) };
        match Errno::from_io_error(source) {
            Some(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS) => Refusal::Refused(error),
            _ => Refusal::Failed(error),
        }
    }
}

/// The range of a file that one writer, or all writers of the file, write to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Space {
    /// First byte.
    pub(crate) start: u64,
    /// Bytes.
    pub(crate) bytes: u64,
}

/// A writer of one case.
pub(crate) struct CaseWriter<'a> {
    case: &'a SyncCase,
    file: &'a TestFile,
    fd: Option<OwnedFd>,
    block: Block,
    space: Space,
    /// Offset of the next write, relative to the start of the space.
    next: u64,
}

impl<'a> CaseWriter<'a> {
    /// Creates a writer to a prepared file.
    ///
    /// # Errors
    /// [`Refusal::Refused`] if the file cannot be opened in the case's mode.
    pub(crate) fn new(
        case: &'a SyncCase,
        file: &'a TestFile,
        space: Space,
    ) -> Result<CaseWriter<'a>, Refusal> {
        let size = usize::try_from(case.size).unwrap_or(usize::MAX);
        let memory = Pool::new(size, 1).map_err(SyncError::system("map memory for", &file.shown));
        let pool = memory.map_err(Refusal::Failed)?;
        let mut block = pool.try_take().expect("nobody else takes from this pool");
        crate::data::Random::new(space.start ^ 0x0073_796e_6374_6573)
            .fill(&mut block.bytes_mut()[..size]);
        let mut lane = CaseWriter { case, file, fd: None, block, space, next: 0 };
        lane.fd = Some(lane.open()?);
        Ok(lane)
    }

    fn open(&self) -> Result<OwnedFd, Refusal> {
        let mut flags = self.case.method.open_flags();
        flags.set(OFlags::DIRECT, self.case.direct);
        self.file
            .open(flags)
            .map_err(|errno| Refusal::of(SyncError::system("open", &self.file.shown)(errno)))
    }

    /// Makes one operation for `writers` writers at once: all their writes, and the case's method
    /// of making them durable.
    ///
    /// # Errors
    /// [`Refusal`].
    pub(crate) fn operation(&mut self, writers: u32) -> Result<(), Refusal> {
        let at =
            self.space.start + if self.case.pattern == Pattern::Overwrite { 0 } else { self.next };
        self.operation_at(writers, at)?;
        self.next += self.case.span() * u64::from(writers);
        Ok(())
    }

    /// As [`CaseWriter::operation`], at an offset that the caller chooses.
    pub(crate) fn operation_at(&mut self, writers: u32, at: u64) -> Result<(), Refusal> {
        match self.case.descriptor {
            Descriptor::Same => {
                let fd = self.fd.as_ref().expect("open as long as the lane");
                self.write(fd, writers, at)?;
                self.sync(fd, writers, at)
            }
            // Both cases open the file twice, so that they are comparable.
            Descriptor::Reopened => {
                let fd = self.open()?;
                self.write(&fd, writers, at)?;
                self.sync(&fd, writers, at)?;
                drop(fd);
                self.open().map(drop)
            }
            Descriptor::Other => {
                let fd = self.open()?;
                self.write(&fd, writers, at)?;
                drop(fd);
                let fd = self.open()?;
                self.sync(&fd, writers, at)
            }
        }
    }

    fn write(&self, fd: &OwnedFd, writers: u32, at: u64) -> Result<(), Refusal> {
        let size = self.case.size;
        let bytes = &self.block.filled()[..size as usize];
        let failed = |at| {
            move |errno: Errno| Refusal::of(SyncError::at("write to", &self.file.shown, at)(errno))
        };
        if writers == 1 {
            return (0..self.case.writes).try_for_each(|number| {
                let at = at + u64::from(number) * size;
                self.write_whole(fd, bytes, at).map_err(failed(at))
            });
        }
        // The group's blocks are one write. All blocks have the same contents, which are never
        // read.
        let blocks = writers as usize * self.case.writes as usize;
        let slices = vec![IoSlice::new(bytes); blocks];
        let whole = blocks * bytes.len();
        let write = || rustix::io::pwritev2(fd, &slices, at, self.case.method.write_flags());
        let count = uninterrupted(write).map_err(failed(at))?;
        let mut done = count;
        // After a short write, which is rare, the remaining blocks are written one by one,
        // beginning with the one that was cut.
        while done < whole {
            let block = done / bytes.len();
            let at = at + (block * bytes.len()) as u64;
            self.write_whole(fd, bytes, at).map_err(failed(at))?;
            done = (block + 1) * bytes.len();
        }
        Ok(())
    }

    fn write_whole(&self, fd: &OwnedFd, bytes: &[u8], at: u64) -> Result<(), Errno> {
        let flags = self.case.method.write_flags();
        let mut done = 0;
        while done < bytes.len() {
            let (rest, at) = (&bytes[done..], at + done as u64);
            let write = || match flags.is_empty() {
                true => rustix::io::pwrite(fd, rest, at),
                false => rustix::io::pwritev2(fd, &[IoSlice::new(rest)], at, flags),
            };
            match uninterrupted(write) {
                Ok(0) => return Err(Errno::IO),
                Ok(count) => done += count,
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    fn sync(&self, fd: &OwnedFd, writers: u32, at: u64) -> Result<(), Refusal> {
        let (operation, outcome) = match self.case.method {
            Method::Fsync => ("fsync", rustix::fs::fsync(fd)),
            Method::Fdatasync => ("fdatasync", rustix::fs::fdatasync(fd)),
            Method::SyncFileRange => {
                let end = at + self.case.span() * u64::from(writers);
                let outcome = dio_sys::sync_file_range(std::os::fd::AsFd::as_fd(fd), at..end);
                let outcome =
                    outcome.map_err(SyncError::at("sync_file_range", &self.file.shown, at));
                return outcome.map_err(Refusal::of);
            }
            _ => return Ok(()),
        };
        outcome.map_err(|errno| Refusal::of(SyncError::system(operation, &self.file.shown)(errno)))
    }

    /// Makes room for an operation of `writers` writers if the space is used up; returns the time
    /// that it took.
    ///
    /// # Errors
    /// [`Refusal::Failed`].
    pub(crate) fn make_room(&mut self, writers: u32) -> Result<Duration, Refusal> {
        let full = self.next + self.case.span() * u64::from(writers) > self.space.bytes;
        if self.case.pattern == Pattern::Overwrite || !full {
            return Ok(Duration::ZERO);
        }
        let start = Instant::now();
        renew(self.case, self.file, self.space.bytes).map_err(Refusal::of)?;
        self.next = 0;
        Ok(start.elapsed())
    }
}

/// Restores the initial state of a file whose space is used up.
///
/// # Errors
/// [`SyncError::System`].
pub(crate) fn renew(case: &SyncCase, file: &TestFile, bytes: u64) -> Result<(), SyncError> {
    match case.pattern {
        Pattern::Append | Pattern::Preallocated => file.rewind(case.pattern, bytes),
        // Space that was written can be overwritten again.
        Pattern::Overwrite | Pattern::Zeroed => Ok(()),
    }
}

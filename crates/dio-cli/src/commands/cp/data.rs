//! The data path: moves the contents of one file. The only part of `dio cp` that touches bytes.
//!
//! One [`DataPath`] serves a run; every worker has a [`Lane`] of its own, so that small files need no
//! lock and no allocation.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{FileType, OFlags, SeekFrom, fsync, ftruncate, ioctl_ficlone, seek};
use rustix::io::{Errno, read, write};

use super::args::When;
use super::error::{At, CopyError, Doing};
use super::open::Contents;
use super::options::{CpOptions, Transfer};
use super::progress::Progress;

/// Bytes read at once.
const BUFFER: usize = 256 << 10;
/// Runs of zeros of this length become holes under `--sparse=always`.
const HOLE: usize = 4096;

/// The data path of one run.
pub(crate) struct DataPath {
    transfer: Transfer,
    /// Every file is synced as it is done.
    sync_each: bool,
    /// Cloning was refused for good between these file systems: do not ask for every file.
    no_clone: AtomicBool,
    progress: Arc<Progress>,
}

/// A worker's own buffers.
pub(crate) struct Lane {
    buffer: Vec<u8>,
}

/// What was done for one file.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Copied {
    /// Bytes of contents, however they got there.
    #[allow(dead_code, reason = "for the receipt")]
    pub(crate) bytes: u64,
}

/// Called once the contents are complete and before they are synced (or renamed into place): sets
/// owner, times, mode and attributes on the open target. The flag says that the target is new.
pub(crate) type Finish<'a> = &'a mut dyn FnMut(BorrowedFd<'_>, BorrowedFd<'_>, bool);

impl DataPath {
    /// A data path for a run with `options`; `sync_each` asks that each file be durable by itself.
    pub(crate) fn new(options: &CpOptions, sync_each: bool, progress: Arc<Progress>) -> Self {
        Self { transfer: options.transfer.clone(), sync_each, no_clone: AtomicBool::new(false), progress }
    }

    /// State for one worker.
    pub(crate) fn lane(&self) -> Lane {
        Lane { buffer: Vec::new() }
    }

    /// Copies the contents of one file.
    pub(crate) fn copy(
        &self,
        lane: &mut Lane,
        contents: &Contents<'_>,
        finish: Finish<'_>,
    ) -> Result<Copied, CopyError> {
        let source = contents.open_source(OFlags::empty())?;
        let target = contents.open_target(OFlags::TRUNC)?;
        let bytes = if self.clone(contents, &source, &target.fd)? {
            contents.stat.st_size as u64
        } else {
            lane.buffer.resize(BUFFER, 0);
            Plain { contents, source: &source, target: &target.fd, progress: &self.progress }
                .run(&mut lane.buffer, self.transfer.sparse)?
        };
        finish(source.as_fd(), target.fd.as_fd(), target.fresh);
        if self.sync_each {
            fsync(&target.fd).at(Doing::Sync, || contents.target_path())?;
        }
        Ok(Copied { bytes })
    }

    /// Shares the blocks of the source, where the options and the file system allow.
    fn clone(&self, contents: &Contents<'_>, source: &OwnedFd, target: &OwnedFd) -> Result<bool, CopyError> {
        let wanted = self.transfer.reflink;
        if wanted == When::Never
            || (wanted == When::Auto && (self.no_clone.load(Ordering::Relaxed) || contents.stat.st_size == 0))
        {
            return Ok(false);
        }
        match ioctl_ficlone(target, source) {
            Ok(()) => Ok(true),
            Err(errno) if wanted == When::Always => {
                Err(CopyError::Clone { path: contents.target_path(), from: contents.source_path(), errno })
            }
            Err(errno) => {
                if matches!(errno, Errno::OPNOTSUPP | Errno::XDEV | Errno::NOTTY) {
                    self.no_clone.store(true, Ordering::Relaxed);
                }
                Ok(false)
            }
        }
    }
}

/// A plain loop of reads and writes.
struct Plain<'a> {
    contents: &'a Contents<'a>,
    source: &'a OwnedFd,
    target: &'a OwnedFd,
    progress: &'a Progress,
}

impl Plain<'_> {
    fn run(&self, buffer: &mut [u8], sparse: When) -> Result<u64, CopyError> {
        let stat = self.contents.stat;
        let regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        let holes = regular && sparse != When::Never && stat.st_blocks < stat.st_size / 512;
        if holes && let Some(size) = self.extents(buffer, sparse)? {
            return Ok(size);
        }
        let (size, end) = self.stretch(buffer, u64::MAX, sparse == When::Always)?;
        if end {
            ftruncate(self.target, size).at(Doing::Extend, || self.contents.target_path())?;
        }
        Ok(size)
    }

    /// Copies the data between holes; `None` if the file system cannot tell where they are.
    fn extents(&self, buffer: &mut [u8], sparse: When) -> Result<Option<u64>, CopyError> {
        let size = self.contents.stat.st_size as u64;
        let mut at = 0;
        loop {
            let data = match seek(self.source, SeekFrom::Data(at)) {
                Ok(data) => data,
                Err(Errno::NXIO) => break,
                Err(_) if at == 0 => return Ok(None),
                Err(errno) => return Err(errno).at(Doing::Read, || self.contents.source_path()),
            };
            let hole = seek(self.source, SeekFrom::Hole(data)).at(Doing::Read, || self.contents.source_path())?;
            seek(self.source, SeekFrom::Start(data)).at(Doing::Read, || self.contents.source_path())?;
            seek(self.target, SeekFrom::Start(data)).at(Doing::Write, || self.contents.target_path())?;
            let (copied, _) = self.stretch(buffer, hole - data, sparse == When::Always)?;
            at = data + copied;
            if copied < hole - data {
                break;
            }
        }
        let size = size.max(at);
        ftruncate(self.target, size).at(Doing::Extend, || self.contents.target_path())?;
        Ok(Some(size))
    }

    /// Copies up to `most` bytes from where both files stand; how many, and whether they end in a hole.
    fn stretch(&self, buffer: &mut [u8], most: u64, zeros_to_holes: bool) -> Result<(u64, bool), CopyError> {
        let mut copied = 0;
        let mut hole = false;
        while copied < most {
            let want = buffer.len().min(usize::try_from(most - copied).unwrap_or(usize::MAX));
            let got = match read(self.source, &mut buffer[..want]) {
                Ok(0) => break,
                Ok(got) => got,
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno).at(Doing::Read, || self.contents.source_path()),
            };
            if zeros_to_holes {
                for piece in buffer[..got].chunks(HOLE) {
                    hole = piece.iter().all(|&b| b == 0);
                    if hole {
                        seek(self.target, SeekFrom::Current(piece.len() as i64))
                            .at(Doing::Write, || self.contents.target_path())?;
                    } else {
                        self.write_all(piece)?;
                    }
                }
            } else {
                self.write_all(&buffer[..got])?;
            }
            copied += got as u64;
            self.progress.add(got as u64);
            // A regular file that gave less than it was asked for, just what its size says, is at its end.
            if got < want && copied == self.contents.stat.st_size as u64 {
                break;
            }
        }
        Ok((copied, hole))
    }

    fn write_all(&self, mut rest: &[u8]) -> Result<(), CopyError> {
        while !rest.is_empty() {
            match write(self.target, rest) {
                Ok(0) => return Err(Errno::NOSPC).at(Doing::Write, || self.contents.target_path()),
                Ok(written) => rest = &rest[written..],
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno).at(Doing::Write, || self.contents.target_path()),
            }
        }
        Ok(())
    }
}

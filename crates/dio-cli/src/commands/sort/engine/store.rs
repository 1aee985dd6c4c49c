//! Temporary files, which hold runs until they are merged.
//!
//! The files have no name, so nothing is left behind, however the process ends. If the file system
//! does not support unnamed files (`O_TMPFILE`, `open(2)`), the file's name is removed as soon as
//! it exists.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use dio::residency::{evict, write_back};
use dio::stream::{Input, Output, StreamOptions};
use dio_sys::uninterrupted;
use rustix::fs::{FallocateFlags, Mode, OFlags, SeekFrom, fallocate};
use rustix::io::Errno;

use super::failure::{SortFailure, SortResult};
use super::gather::{Drain, LineGatherer};
use super::stream::{Decompressor, Stream};
use crate::tool::Tool;

/// Creates and reopens temporary files.
#[derive(Debug)]
pub(super) struct Store<'a> {
    tool: &'a Tool,
    directories: Vec<PathBuf>,
    /// Index of the directory for the next file; it grows without bound.
    next: AtomicUsize,
    compress: Option<OsString>,
}

/// A run in a temporary file.
#[derive(Debug)]
pub(super) struct StoredRun {
    fd: OwnedFd,
    directory: PathBuf,
    /// Total bytes of its lines.
    bytes: u64,
    compressed: bool,
}

impl StoredRun {
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl<'a> Store<'a> {
    /// Makes a store in `directories`, or in `$TMPDIR` or `/tmp` if there are none.
    pub(super) fn new(
        tool: &'a Tool,
        directories: &[PathBuf],
        compress: Option<OsString>,
    ) -> Store<'a> {
        let mut directories = directories.to_vec();
        if directories.is_empty() {
            let usual = std::env::var_os("TMPDIR").filter(|value| !value.is_empty());
            directories.push(usual.unwrap_or_else(|| "/tmp".into()).into());
        }
        Store { tool, directories, next: AtomicUsize::new(0), compress }
    }

    pub(super) fn tool(&self) -> &'a Tool {
        self.tool
    }

    /// Makes a run of the lines that `produce` puts into a gatherer. `bytes` is an upper bound of
    /// their size, if known.
    ///
    /// # Errors
    /// The file cannot be made or written, or `produce` failed.
    pub(super) fn keep(
        &self,
        how: &StreamOptions,
        bytes: Option<u64>,
        produce: &mut dyn FnMut(&mut LineGatherer<'_, dyn Drain>) -> SortResult<()>,
    ) -> SortResult<StoredRun> {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        let directory = self.directories[turn % self.directories.len()].clone();
        let fd = match unnamed(&directory) {
            Ok(fd) => fd,
            Err(errno) => return Err(SortFailure::Create { directory, error: errno.into() }),
        };
        match &self.compress {
            None => self.write(how, bytes, fd, directory, produce),
            Some(program) => self.write_compressed(how, program, fd, directory, produce),
        }
    }

    fn write(
        &self,
        how: &StreamOptions,
        most: Option<u64>,
        fd: OwnedFd,
        directory: PathBuf,
        produce: &mut dyn FnMut(&mut LineGatherer<'_, dyn Drain>) -> SortResult<()>,
    ) -> SortResult<StoredRun> {
        let failed = |error: io::Error| SortFailure::Keep { directory: directory.clone(), error };
        // Space is allocated first. Writes within the file's size run in parallel, while writes
        // that extend it run one by one; and a full disk is reported before anything is written.
        let allocated = match most.filter(|most| *most > 0) {
            Some(most) => {
                match uninterrupted(|| fallocate(&fd, FallocateFlags::empty(), 0, most)) {
                    Err(errno @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) => {
                        return Err(failed(errno.into()));
                    }
                    outcome => outcome.is_ok(),
                }
            }
            None => false,
        };
        let mut output =
            Output::adopt(fd.try_clone().map_err(failed)?, &directory, how).map_err(failed)?;
        let drain: &mut dyn Drain = &mut output;
        let mut gather =
            LineGatherer::new(drain, how.block, how.depth).map_err(SortFailure::Memory)?;
        produce(&mut gather).map_err(|failure| kept(failure, &directory))?;
        let bytes = gather.finish().map_err(failed)?;
        output.finish().map_err(failed)?;
        self.tool.ledger().count(&output.counters());
        drop(output);
        if allocated && most != Some(bytes) {
            rustix::fs::ftruncate(&fd, bytes).map_err(|errno| failed(errno.into()))?;
        }
        Ok(StoredRun { fd, directory, bytes, compressed: false })
    }

    /// The program writes through the page cache; afterwards its pages are written back and
    /// evicted.
    fn write_compressed(
        &self,
        how: &StreamOptions,
        program: &OsString,
        fd: OwnedFd,
        directory: PathBuf,
        produce: &mut dyn FnMut(&mut LineGatherer<'_, dyn Drain>) -> SortResult<()>,
    ) -> SortResult<StoredRun> {
        let failed = |error: io::Error| SortFailure::Keep { directory: directory.clone(), error };
        let mut child =
            start(program, false, Stdio::piped(), fd.try_clone().map_err(failed)?.into())?;
        let mut pipe = child.child().stdin.take().expect("it was asked for");
        let _ = rustix::pipe::fcntl_setpipe_size(&pipe, PIPE);
        let drain: &mut dyn Drain = &mut pipe;
        let mut gather =
            LineGatherer::new(drain, how.block, how.depth).map_err(SortFailure::Memory)?;
        let produced =
            produce(&mut gather).and_then(|()| gather.finish().map_err(SortFailure::Write));
        drop(pipe);
        let bytes = match (produced, child.wait()) {
            (Ok(bytes), ended) => ended.map(|()| bytes)?,
            // The pipe broke because the program stopped reading. Its exit status says why.
            (Err(SortFailure::Write(error)), ended) => {
                return Err(ended.err().unwrap_or_else(|| failed(error)));
            }
            (Err(failure), _) => return Err(failure),
        };
        let size = rustix::fs::fstat(&fd).map_or(0, |stat| stat.st_size as u64);
        if size > 0 {
            write_back(&fd, 0..size).map_err(|error| failed(io::Error::other(error)))?;
            // Eviction is best effort: pages that stay in the cache do no harm to the result.
            let _ = evict(&fd, 0..size);
        }
        Ok(StoredRun { fd, directory, bytes, compressed: true })
    }

    /// Opens a run for reading from its start.
    ///
    /// # Errors
    /// The file cannot be opened again, or the program cannot be started.
    pub(super) fn fetch(&self, kept: StoredRun, how: &StreamOptions) -> SortResult<Stream> {
        let StoredRun { fd, directory, compressed, .. } = kept;
        let failed = |error: io::Error| SortFailure::Fetch { directory: directory.clone(), error };
        rustix::fs::seek(&fd, SeekFrom::Start(0)).map_err(|errno| failed(errno.into()))?;
        if !compressed {
            // Even a small run is read with direct requests: it has just been written and is read
            // only once.
            let input = Input::adopt(fd, &directory, &StreamOptions { small: 0, ..*how })
                .map_err(failed)?;
            return Ok(Stream::Run { input, directory, tool: self.tool.clone() });
        }
        let program = self.compress.as_ref().expect("a compressed run was made by a program");
        let mut child = start(program, true, fd.into(), Stdio::piped())?;
        let pipe = child.child().stdout.take().expect("it was asked for");
        let input = Input::adopt(pipe.into(), program, how).map_err(failed)?;
        Ok(Stream::Program { input, child })
    }
}

/// Requested capacity of a pipe, in bytes: the most an unprivileged user may set (`pipe(7)`).
const PIPE: usize = 1 << 20;

/// Turns a write failure while a run is made into one that names the run's directory.
fn kept(failure: SortFailure, directory: &Path) -> SortFailure {
    match failure {
        SortFailure::Write(error) => SortFailure::Keep { directory: directory.to_owned(), error },
        other => other,
    }
}

fn start(
    program: &OsString,
    decompress: bool,
    stdin: Stdio,
    stdout: Stdio,
) -> SortResult<Decompressor> {
    let mut command = Command::new(program);
    if decompress {
        command.arg("-d");
    }
    match command.stdin(stdin).stdout(stdout).spawn() {
        Ok(child) => Ok(Decompressor::new(program.clone(), decompress, child)),
        Err(error) => Err(SortFailure::Start { program: program.clone(), error }),
    }
}

/// Creates a file without a name.
fn unnamed(directory: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    match uninterrupted(|| rustix::fs::open(directory, flags | OFlags::TMPFILE, mode)) {
        // These errors mean that the file system or the kernel does not support `O_TMPFILE`.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => unlinked(directory, flags, mode),
        answer => answer,
    }
}

fn unlinked(directory: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    static MADE: AtomicUsize = AtomicUsize::new(0);
    let process = std::process::id();
    for _ in 0..1000 {
        let path =
            directory.join(format!("sort-{process}-{}", MADE.fetch_add(1, Ordering::Relaxed)));
        let flags = flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        match uninterrupted(|| rustix::fs::open(&path, flags, mode)) {
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
            Ok(fd) => return rustix::fs::unlink(&path).map(|()| fd),
        }
    }
    Err(Errno::EXIST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_no_name_with_and_without_the_flag_for_that() {
        let scratch = tempfile::tempdir_in("/var/tmp").unwrap();
        let (flags, mode) = (OFlags::RDWR | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR);
        let files =
            [unnamed(scratch.path()).unwrap(), unlinked(scratch.path(), flags, mode).unwrap()];
        for file in &files {
            let stat = rustix::fs::fstat(file).unwrap();
            assert_eq!((stat.st_nlink, stat.st_mode & 0o777), (0, 0o600));
        }
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
        assert_eq!(unnamed(Path::new("/no/such/directory")).unwrap_err(), Errno::NOENT);
    }

    #[test]
    fn directories_take_turns_and_a_run_is_as_long_as_its_lines() {
        let (first, second) =
            (tempfile::tempdir_in("/var/tmp").unwrap(), tempfile::tempdir_in("/var/tmp").unwrap());
        let directories = [first.path().to_owned(), second.path().to_owned()];
        let tool = Tool::new("sort", &crate::tool::IoArgs::default());
        let (store, how) = (Store::new(&tool, &directories, None), StreamOptions::default());
        for (turn, length) in [0usize, 1, 4096, 2_500_000].into_iter().enumerate() {
            // The expected size exceeds the real one, as when repeated lines are dropped.
            let kept = store.keep(&how, Some(length as u64 + 5000), &mut |out| {
                out.put(&vec![b'x'; length]).map_err(SortFailure::Write)
            });
            let kept = kept.unwrap();
            assert_eq!((kept.bytes(), &kept.directory), (length as u64, &directories[turn % 2]));
            // Space allocated for lines that did not come must be free again.
            let stat = rustix::fs::fstat(&kept.fd).unwrap();
            assert_eq!(stat.st_size as usize, length);
            assert!(
                stat.st_blocks as usize * 512 <= length.next_multiple_of(stat.st_blksize as usize),
                "{stat:?}"
            );
            let mut stream = store.fetch(kept, &how).unwrap();
            let mut seen = 0;
            while let Some(chunk) = stream.next_chunk().unwrap() {
                assert!(chunk.iter().all(|byte| *byte == b'x'));
                seen += chunk.len();
            }
            assert_eq!(seen, length);
        }
    }
}

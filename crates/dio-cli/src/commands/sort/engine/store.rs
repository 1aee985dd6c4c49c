//! Temporary files: runs are kept in them until they are merged.
//!
//! They have no name: nothing is left behind, however the process ends. Where the file system has
//! no files without a name (`O_TMPFILE`, `open(2)`), the name is removed as soon as the file is
//! there.

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

use super::failure::{Failure, Outcome};
use super::gather::{Drain, Gather};
use super::stream::{Decompressor, Stream};
use crate::tool::Tool;

/// Where runs are kept, and how.
#[derive(Debug)]
pub(super) struct Store<'a> {
    tool: &'a Tool,
    directories: Vec<PathBuf>,
    /// The directory for the next file.
    next: AtomicUsize,
    compress: Option<OsString>,
}

/// A run in a temporary file.
#[derive(Debug)]
pub(super) struct Kept {
    fd: OwnedFd,
    directory: PathBuf,
    /// Bytes of its lines.
    bytes: u64,
    compressed: bool,
}

impl Kept {
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl<'a> Store<'a> {
    /// A store in `directories`; if there are none, in `$TMPDIR` or `/tmp`.
    pub(super) fn new(tool: &'a Tool, directories: &[PathBuf], compress: Option<OsString>) -> Store<'a> {
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

    /// Keeps what `produce` puts into a gatherer. It will be `bytes` at most, where that is known.
    ///
    /// # Errors
    /// No file can be made or written; what `produce` answers.
    pub(super) fn keep(
        &self,
        how: &StreamOptions,
        bytes: Option<u64>,
        produce: &mut dyn FnMut(&mut Gather<'_, dyn Drain>) -> Outcome<()>,
    ) -> Outcome<Kept> {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        let directory = self.directories[turn % self.directories.len()].clone();
        let fd = match unnamed(&directory) {
            Ok(fd) => fd,
            Err(errno) => return Err(Failure::Create { directory, error: errno.into() }),
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
        produce: &mut dyn FnMut(&mut Gather<'_, dyn Drain>) -> Outcome<()>,
    ) -> Outcome<Kept> {
        let failed = |error: io::Error| Failure::Keep { directory: directory.clone(), error };
        // Space first: writes inside a file go beside each other, those that extend it one by one;
        // and a disk without the room says so before anything is written.
        let allocated = match most.filter(|most| *most > 0) {
            Some(most) => match uninterrupted(|| fallocate(&fd, FallocateFlags::empty(), 0, most)) {
                Err(errno @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) => return Err(failed(errno.into())),
                outcome => outcome.is_ok(),
            },
            None => false,
        };
        let mut output = Output::adopt(fd.try_clone().map_err(failed)?, &directory, how).map_err(failed)?;
        let drain: &mut dyn Drain = &mut output;
        let mut gather = Gather::new(drain, how.block, how.depth).map_err(Failure::Memory)?;
        produce(&mut gather).map_err(|failure| kept(failure, &directory))?;
        let bytes = gather.finish().map_err(failed)?;
        output.finish().map_err(failed)?;
        self.tool.ledger().count(&output.counters());
        drop(output);
        if allocated && most != Some(bytes) {
            rustix::fs::ftruncate(&fd, bytes).map_err(|errno| failed(errno.into()))?;
        }
        Ok(Kept { fd, directory, bytes, compressed: false })
    }

    /// The program writes through the page cache, since it is what it is; its pages leave it here.
    fn write_compressed(
        &self,
        how: &StreamOptions,
        program: &OsString,
        fd: OwnedFd,
        directory: PathBuf,
        produce: &mut dyn FnMut(&mut Gather<'_, dyn Drain>) -> Outcome<()>,
    ) -> Outcome<Kept> {
        let failed = |error: io::Error| Failure::Keep { directory: directory.clone(), error };
        let mut child = start(program, false, Stdio::piped(), fd.try_clone().map_err(failed)?.into())?;
        let mut pipe = child.child().stdin.take().expect("it was asked for");
        let _ = rustix::pipe::fcntl_setpipe_size(&pipe, PIPE);
        let drain: &mut dyn Drain = &mut pipe;
        let mut gather = Gather::new(drain, how.block, how.depth).map_err(Failure::Memory)?;
        let produced = produce(&mut gather).and_then(|()| gather.finish().map_err(Failure::Write));
        drop(pipe);
        let bytes = match (produced, child.wait()) {
            (Ok(bytes), ended) => ended.map(|()| bytes)?,
            // That it reads no more has a reason, which its end tells.
            (Err(Failure::Write(error)), ended) => return Err(ended.err().unwrap_or_else(|| failed(error))),
            (Err(failure), _) => return Err(failure),
        };
        let size = rustix::fs::fstat(&fd).map_or(0, |stat| stat.st_size as u64);
        if size > 0 {
            write_back(&fd, 0..size).map_err(|error| failed(io::Error::other(error)))?;
            // Pages that stay are only a nuisance.
            let _ = evict(&fd, 0..size);
        }
        Ok(Kept { fd, directory, bytes, compressed: true })
    }

    /// Reads a run from its start.
    ///
    /// # Errors
    /// It cannot be opened again, or the program not started.
    pub(super) fn fetch(&self, kept: Kept, how: &StreamOptions) -> Outcome<Stream> {
        let Kept { fd, directory, compressed, .. } = kept;
        let failed = |error: io::Error| Failure::Fetch { directory: directory.clone(), error };
        rustix::fs::seek(&fd, SeekFrom::Start(0)).map_err(|errno| failed(errno.into()))?;
        if !compressed {
            // Small or not, it has just been written and is read once.
            let input = Input::adopt(fd, &directory, &StreamOptions { small: 0, ..*how }).map_err(failed)?;
            return Ok(Stream::Run { input, directory, tool: self.tool.clone() });
        }
        let program = self.compress.as_ref().expect("a compressed run was made by a program");
        let mut child = start(program, true, fd.into(), Stdio::piped())?;
        let pipe = child.child().stdout.take().expect("it was asked for");
        let input = Input::adopt(pipe.into(), program, how).map_err(failed)?;
        Ok(Stream::Program { input, child })
    }
}

/// Capacity asked for a pipe, in bytes: what an ordinary user may have (`pipe(7)`).
const PIPE: usize = 1 << 20;

/// What went wrong when a run was written is a matter of its directory.
fn kept(failure: Failure, directory: &Path) -> Failure {
    match failure {
        Failure::Write(error) => Failure::Keep { directory: directory.to_owned(), error },
        other => other,
    }
}

fn start(program: &OsString, decompress: bool, stdin: Stdio, stdout: Stdio) -> Outcome<Decompressor> {
    let mut command = Command::new(program);
    if decompress {
        command.arg("-d");
    }
    match command.stdin(stdin).stdout(stdout).spawn() {
        Ok(child) => Ok(Decompressor::new(program.clone(), decompress, child)),
        Err(error) => Err(Failure::Start { program: program.clone(), error }),
    }
}

/// A new file without a name.
fn unnamed(directory: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    match uninterrupted(|| rustix::fs::open(directory, flags | OFlags::TMPFILE, mode)) {
        // What file systems and kernels answer that do not know the flag.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => unlinked(directory, flags, mode),
        answer => answer,
    }
}

fn unlinked(directory: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    static MADE: AtomicUsize = AtomicUsize::new(0);
    let process = std::process::id();
    for _ in 0..1000 {
        let path = directory.join(format!("sort-{process}-{}", MADE.fetch_add(1, Ordering::Relaxed)));
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
        let files = [unnamed(scratch.path()).unwrap(), unlinked(scratch.path(), flags, mode).unwrap()];
        for file in &files {
            let stat = rustix::fs::fstat(file).unwrap();
            assert_eq!((stat.st_nlink, stat.st_mode & 0o777), (0, 0o600));
        }
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
        assert_eq!(unnamed(Path::new("/no/such/directory")).unwrap_err(), Errno::NOENT);
    }

    #[test]
    fn directories_take_turns_and_a_run_is_as_long_as_its_lines() {
        let (first, second) = (tempfile::tempdir_in("/var/tmp").unwrap(), tempfile::tempdir_in("/var/tmp").unwrap());
        let directories = [first.path().to_owned(), second.path().to_owned()];
        let tool = Tool::new("sort", &crate::tool::IoArgs::default());
        let (store, how) = (Store::new(&tool, &directories, None), StreamOptions::default());
        for (turn, length) in [0usize, 1, 4096, 2_500_000].into_iter().enumerate() {
            // More was expected than comes: lines that are repeated are left out.
            let kept = store.keep(&how, Some(length as u64 + 5000), &mut |out| {
                out.put(&vec![b'x'; length]).map_err(Failure::Write)
            });
            let kept = kept.unwrap();
            assert_eq!((kept.bytes(), &kept.directory), (length as u64, &directories[turn % 2]));
            // What was allocated for lines that did not come is free again.
            let stat = rustix::fs::fstat(&kept.fd).unwrap();
            assert_eq!(stat.st_size as usize, length);
            assert!(stat.st_blocks as usize * 512 <= length.next_multiple_of(stat.st_blksize as usize), "{stat:?}");
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

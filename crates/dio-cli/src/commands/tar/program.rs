//! Compression by another program (`-I`, `-j`, `-J` …): a process with a pipe at each end. dio
//! itself reads and writes the archive.

use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};

use dio::stream::Input;
use rustix::io::Errno;

use super::run::{EarlyEnd, TarRun};
use crate::tool::{Sink, Source, errno_of};

/// A decompression program, with a thread that feeds it.
#[derive(Debug)]
pub(super) struct Decompressing {
    from: Source,
    child: Child,
    feeder: JoinHandle<io::Result<()>>,
}

/// Starts a program with a pipe at each end.
fn start(
    program: &[OsString],
    more: Option<&str>,
) -> Result<(Child, ChildStdin, OwnedFd), EarlyEnd> {
    let (name, arguments) = program.split_first().ok_or(EarlyEnd::Told)?;
    let mut command = Command::new(name);
    command.args(arguments).args(more).stdin(Stdio::piped()).stdout(Stdio::piped());
    let failed = |errno| {
        EarlyEnd::Fatal(format!(
            "{}: Cannot exec: {}",
            name.to_string_lossy(),
            crate::quote::words(errno)
        ))
    };
    let mut child = command.spawn().map_err(|error| failed(errno_of(&error)))?;
    match (child.stdin.take(), child.stdout.take()) {
        (Some(stdin), Some(stdout)) => Ok((child, stdin, stdout.into())),
        _ => Err(failed(Errno::PIPE)),
    }
}

impl Decompressing {
    /// Starts `program` with `-d`; its input is `head` and then all of `source`.
    ///
    /// # Errors
    /// The program cannot be started.
    pub(super) fn start(
        run: &TarRun,
        program: &[OsString],
        head: Vec<u8>,
        mut source: Source,
    ) -> Result<Decompressing, EarlyEnd> {
        let (child, mut stdin, stdout) = start(program, Some("-d"))?;
        let name = program.first().map_or(OsStr::new("-"), OsString::as_os_str);
        let failed = |error: &io::Error| EarlyEnd::on(name.as_bytes(), "read", errno_of(error));
        let input = Input::adopt(stdout, name, run.tool.stream_options())
            .map_err(|error| failed(&error))?;
        let feed = move || {
            stdin.write_all(&head)?;
            while let Some(chunk) = source.next_chunk()? {
                stdin.write_all(&chunk)?;
            }
            source.close()
        };
        let feeder = thread::Builder::new().name("decompress".into()).spawn(feed);
        let feeder = feeder
            .map_err(|error| EarlyEnd::on(name.as_bytes(), "start a thread", errno_of(&error)))?;
        Ok(Decompressing { from: run.tool.source(input), child, feeder })
    }

    /// Ends the program; see [`super::archive::Archive::close`].
    pub(super) fn close(self, run: &TarRun, complete: bool) -> Result<(), EarlyEnd> {
        let Decompressing { mut from, mut child, feeder } = self;
        if complete {
            // If the pipe were closed early, the program would be killed while it writes what
            // follows the end of the archive.
            while from.next_chunk().is_ok_and(|chunk| chunk.is_some()) {}
        }
        let _ = from.close();
        let fed = feeder.join().unwrap_or(Ok(()));
        let status = child.wait();
        match fed {
            Err(error) if errno_of(&error) != Errno::PIPE => {
                return Err(EarlyEnd::on(run.options.archive.as_bytes(), "read", errno_of(&error)));
            }
            _ => {}
        }
        if complete { ended_well(status) } else { Ok(()) }
    }
}

/// Checks the exit status, and reports a failure in GNU tar's words.
fn ended_well(status: io::Result<ExitStatus>) -> Result<(), EarlyEnd> {
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(EarlyEnd::Fatal(match (status.code(), status.signal()) {
            (Some(code), _) => format!("Child returned status {code}"),
            (None, signal) => format!("Child died with signal {}", signal.unwrap_or(0)),
        })),
        Err(error) => Err(EarlyEnd::Fatal(format!(
            "Cannot wait for the child: {}",
            crate::quote::words(errno_of(&error))
        ))),
    }
}

impl Read for Decompressing {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.from.read(buffer)
    }
}

impl BufRead for Decompressing {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.from.fill_buf()
    }

    fn consume(&mut self, count: usize) {
        self.from.consume(count);
    }
}

/// A compression program, with a thread that copies its output to the sink.
#[derive(Debug)]
pub(super) struct Compressing {
    to: ChildStdin,
    child: Child,
    drain: JoinHandle<io::Result<Sink>>,
}

impl Compressing {
    /// Starts `program`; its output goes to `sink`.
    ///
    /// # Errors
    /// The program cannot be started.
    pub(super) fn start(
        run: &TarRun,
        program: &[OsString],
        mut sink: Sink,
    ) -> Result<Compressing, EarlyEnd> {
        let (child, to, stdout) = start(program, None)?;
        let name = program.first().map_or(OsStr::new("-"), OsString::as_os_str);
        let failed = |error: &io::Error| EarlyEnd::on(name.as_bytes(), "read", errno_of(error));
        let mut input = Input::adopt(stdout, name, run.tool.stream_options())
            .map_err(|error| failed(&error))?;
        let drain = move || {
            while let Some(chunk) = input.next_chunk()? {
                sink.write_chunk(chunk)?;
            }
            Ok(sink)
        };
        let drain = thread::Builder::new().name("compress".into()).spawn(drain);
        let drain = drain
            .map_err(|error| EarlyEnd::on(name.as_bytes(), "start a thread", errno_of(&error)))?;
        Ok(Compressing { to, child, drain })
    }

    /// Waits until all output is in the sink.
    ///
    /// # Errors
    /// The program failed, or writing to the sink did.
    pub(super) fn finish(self) -> Result<io::Result<Sink>, EarlyEnd> {
        let Compressing { to, mut child, drain } = self;
        drop(to);
        let drained = drain.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()));
        let status = child.wait();
        match drained {
            Ok(sink) => ended_well(status).map(|()| Ok(sink)),
            failed => Ok(failed),
        }
    }
}

impl Write for Compressing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.to.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

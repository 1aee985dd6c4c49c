//! What the tools share: flags for how bytes move, streams that account for themselves, messages in GNU's manner, and the
//! names they can be called by.

mod args;
pub(crate) mod deep;
pub(crate) mod device;
mod dontcache;
pub(crate) mod evict;
pub(crate) mod held;
pub(crate) mod plain;
mod progress;
pub(crate) mod said;
mod streams;
pub(crate) mod synced;
pub(crate) mod target;

use std::ffi::OsStr;
use std::fmt::Display;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use dio::FileError;
use dio::stream::{Input, Output, StreamOptions};
use dio_sys::start::{pipes_were_ignored, was_closed};
use rustix::io::Errno;

pub(crate) use crate::grammar::called_as;
use crate::quote::{named, quoted, words};
use crate::receipt::{Destination, Ledger, ReceiptError};

pub use args::{IoArgs, Mode, When};
pub(crate) use args::{
    OWN, depth_flag, in_place_flag, io_flags, mode_flag, number, progress_flag, receipt_flag, strict_flag,
};
pub(crate) use dontcache::DontCache;
pub use progress::Progress;
pub use streams::{Sink, Source};

/// One run of a tool. Cheap to clone; clones are the same run.
#[derive(Clone, Debug)]
pub struct Tool {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    command: &'static str,
    name: String,
    options: StreamOptions,
    receipt: Option<PathBuf>,
    /// Where the receipt goes, once it is open.
    destination: Mutex<Option<Destination>>,
    ledger: Ledger,
    progress: Progress,
    failed: AtomicBool,
    durable: AtomicBool,
}

impl Tool {
    /// A run of `command` under the flags.
    pub fn new(command: &'static str, io: &IoArgs) -> Tool {
        Tool::with(command, io, io.stream_options())
    }

    /// The same, for a command that has many files open: where descriptors are few, and the flags leave it open, streams do
    /// without the second descriptor that direct I/O takes.
    pub(crate) fn sparing(command: &'static str, io: &IoArgs) -> Tool {
        let mut options = io.stream_options();
        if io.mode == args::Mode::Auto && !io.strict && are_descriptors_few() {
            options.mode = dio::Mode::Uncached;
        }
        Tool::with(command, io, options)
    }

    fn with(command: &'static str, io: &IoArgs, options: StreamOptions) -> Tool {
        let name = called_as(command);
        let shared = Shared {
            command,
            options,
            receipt: io.receipt.clone(),
            destination: Mutex::default(),
            ledger: Ledger::new(io.receipt.is_some()),
            progress: Progress::new(io.progress, name.clone(), "read"),
            failed: AtomicBool::new(false),
            durable: AtomicBool::new(false),
            name,
        };
        Tool { shared: Arc::new(shared) }
    }

    /// What messages start with: `dio cat`, or `cat` for a tool that was called by a link of that name.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Opens the receipt, where one is asked for, before anything is read or written; `names` are the operands.
    ///
    /// # Errors
    /// The exit status, if it cannot be written or is one of the operands: that is told, and nothing is to be done.
    pub fn begin<'n>(&self, names: impl IntoIterator<Item = &'n OsStr>) -> Result<(), ExitCode> {
        let Some(path) = &self.shared.receipt else { return Ok(()) };
        match Destination::open(path, names) {
            Ok(to) => {
                *self.shared.destination.lock().unwrap_or_else(PoisonError::into_inner) = Some(to);
                Ok(())
            }
            Err(error) => {
                let trouble = if matches!(self.shared.command, "sort" | "tar") { 2 } else { 1 };
                Err(error.of(path).tell(self.shared.command, trouble))
            }
        }
    }

    /// How streams are opened.
    pub fn stream_options(&self) -> &StreamOptions {
        &self.shared.options
    }

    /// The account of the run.
    pub fn ledger(&self) -> &Ledger {
        &self.shared.ledger
    }

    /// Opens a source; `-` is standard input.
    ///
    /// # Errors
    /// As [`Input::open`].
    pub fn open(&self, path: &Path) -> io::Result<Source> {
        if path == Path::new("-") { self.stdin() } else { Ok(self.source(Input::open(path, self.stream_options())?)) }
    }

    /// Standard input as a source.
    ///
    /// # Errors
    /// `EBADF` where the process was started without it; as [`Input::adopt`].
    pub fn stdin(&self) -> io::Result<Source> {
        if was_closed(0) {
            return Err(Errno::BADF.into());
        }
        let fd = io::stdin().as_fd().try_clone_to_owned()?;
        Ok(self.source(Input::adopt(fd, "-", self.stream_options())?))
    }

    /// Standard output as a sink.
    ///
    /// # Errors
    /// `EBADF` where the process was started without it; as [`Output::adopt`].
    pub fn stdout(&self) -> io::Result<Sink> {
        if was_closed(1) {
            return Err(Errno::BADF.into());
        }
        let fd = io::stdout().as_fd().try_clone_to_owned()?;
        self.output(fd, Path::new("-"))
    }

    /// An open descriptor as a sink; `path` is for messages and the receipt.
    ///
    /// # Errors
    /// As [`Output::adopt`].
    pub fn output(&self, fd: OwnedFd, path: &Path) -> io::Result<Sink> {
        self.output_with(fd, path, self.stream_options())
    }

    /// The same, with options of its own: one of many sinks.
    ///
    /// # Errors
    /// As [`Output::adopt`].
    pub fn output_with(&self, fd: OwnedFd, path: &Path, options: &StreamOptions) -> io::Result<Sink> {
        Ok(Sink::new(self.clone(), Output::adopt(fd, path, options)?))
    }

    /// A source that was opened otherwise.
    pub fn source(&self, input: Input) -> Source {
        Source::new(self.clone(), input)
    }

    /// `bytes` more have been dealt with.
    pub fn progressed(&self, bytes: u64) {
        self.shared.progress.add(bytes);
    }

    /// Tells an error; the exit status will be 1.
    pub fn error(&self, message: impl Display) {
        self.fail();
        self.note(message);
    }

    /// Tells something that does not change the exit status.
    pub fn note(&self, message: impl Display) {
        self.shared.progress.aside(|| said::say(format!("{}: {message}\n", self.name())));
    }

    /// Tells what went wrong with a file: as GNU's tools do, and with place and cure where the library knows them.
    pub fn file_error(&self, path: &Path, error: &io::Error) {
        match file_error(error).filter(|error| {
            [error.offset().is_some(), error.cure().is_some(), error.detail().is_some()].contains(&true)
        }) {
            Some(error) => self.error(error),
            None => self.error(format_args!("{}: {}", named(path), words(errno_of(error)))),
        }
    }

    /// Prints text on standard output at once, so that it stands where it belongs among the messages.
    ///
    /// # Errors
    /// `EBADF` where the process was started without it; what writing answers.
    pub fn print(&self, text: &[u8]) -> io::Result<()> {
        if was_closed(1) {
            return Err(Errno::BADF.into());
        }
        self.shared.progress.aside(|| {
            let mut out = io::stdout().lock();
            out.write_all(text)?;
            out.flush()
        })
    }

    /// Standard output failed. A closed pipe ends the process by SIGPIPE, as every tool that writes into one, unless
    /// whoever started it ignores that signal; the rest is told.
    pub fn write_failed(&self, error: &io::Error) {
        die_of_a_closed_pipe(errno_of(error));
        self.error(format_args!("write error: {}", words(errno_of(error))));
    }

    /// The exit status will be 1, for a reason that was told already.
    pub fn fail(&self) {
        self.shared.failed.store(true, Ordering::Relaxed);
    }

    /// Whether anything failed so far; a message that could not be written too, but for the tools
    /// whose models do not care.
    pub fn failed(&self) -> bool {
        let careless = matches!(self.shared.command, "gzip" | "zstd");
        self.shared.failed.load(Ordering::Relaxed) || (said::is_lost() && !careless)
    }

    /// Everything written was synced.
    pub fn set_durable(&self) {
        self.shared.durable.store(true, Ordering::Relaxed);
    }

    /// Ends the run: takes the progress line away and writes the receipt. All sources and sinks have been closed.
    pub fn finish(self) -> ExitCode {
        self.shared.progress.finish();
        let opened = self.shared.destination.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let (Some(path), Some(to)) = (&self.shared.receipt, opened) {
            let durable = self.shared.durable.load(Ordering::Relaxed) && !self.failed();
            self.shared.ledger.look_again();
            if let Err(error) = self.shared.ledger.print(to, self.shared.command, engine_name(), durable) {
                self.error(format_args!("cannot write the receipt {}: {}", quoted(path), receipt_words(&error)));
            }
        }
        if self.failed() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }
}

/// Says which objects of striped files were wrong, as far as messages of this run have only told the number of the error.
pub(crate) fn tell_reasons(command: &str) {
    for error in dio::names::take_details() {
        said::say(format!("{}: {error}\n", called_as(command)));
    }
}

/// Says which directories' defaults were not followed, and why; whether there were any.
pub(crate) fn tell_unfollowed(command: &str) -> bool {
    let unfollowed = dio::names::take_ignored_defaults();
    for error in &unfollowed {
        said::say(format!("{}: {error}\n", called_as(command)));
    }
    !unfollowed.is_empty()
}

/// Why a receipt could not be written.
pub(crate) fn receipt_words(error: &io::Error) -> String {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<ReceiptError>()) {
        Some(refusal) => format!("it {refusal}"),
        None => words(errno_of(error)),
    }
}

/// A closed pipe ends the process by SIGPIPE, as every tool that writes into one, unless whoever started it ignores that
/// signal; returns for everything else.
pub(crate) fn die_of_a_closed_pipe(errno: Errno) {
    if errno == Errno::PIPE && !pipes_were_ignored() {
        let _ = signal_hook::low_level::emulate_default_handler(signal_hook::consts::SIGPIPE);
    }
}

/// Raises the limit of open descriptors as far as so many need it and the hard limit lets it (`getrlimit(2)`).
pub(crate) fn allow_descriptors(needed: u64) {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < needed) {
        limit.current = Some(limit.maximum.map_or(needed, |most| most.min(needed)));
        // What is refused here is told where a file cannot be opened.
        let _ = setrlimit(Resource::Nofile, limit);
    }
}

/// With fewer free descriptors than these, a stream takes one for a file, not two.
const FEW_DESCRIPTORS: u64 = 64;

/// Whether there are so few descriptors that each counts.
pub(crate) fn are_descriptors_few() -> bool {
    free_descriptors() < FEW_DESCRIPTORS
}

/// How many more descriptors can be opened. Where that cannot be found out, the usual ones are taken to be open.
pub(crate) fn free_descriptors() -> u64 {
    use rustix::process::{Resource, getrlimit};
    const USUAL: u64 = 16;
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let open = std::fs::read_dir("/proc/self/fd").map_or(USUAL, |names| names.count() as u64);
    limit.saturating_sub(open)
}

/// The name under which a process finds its own open file (`proc_pid_fd(5)`): it leads to that very inode, whatever has
/// become of its name.
pub(crate) fn own_path(fd: impl AsFd) -> PathBuf {
    format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd()).into()
}

/// The engine behind the streams.
fn engine_name() -> &'static str {
    dio::Io::shared().map_or("none", |io| io.engine_name())
}

/// The library's error inside one of the standard library.
fn file_error(error: &io::Error) -> Option<&FileError> {
    error.get_ref()?.downcast_ref()
}

/// The error number behind an error of a stream. What the error says beyond that is told when the run ends (`tell_reasons`).
pub fn errno_of(error: &io::Error) -> Errno {
    file_error(error).map(dio::names::errno_of).or_else(|| Errno::from_io_error(error)).unwrap_or(Errno::IO)
}

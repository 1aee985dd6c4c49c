//! One run of a tool: its flags, what it accounts for, its messages and its exit status.

use std::ffi::OsStr;
use std::fmt::Display;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dio::stream::StreamOptions;
use dio_sys::start::was_closed;
use parking_lot::Mutex;
use rustix::io::Errno;

use super::args::{self, IoArgs};
use super::descriptors::are_descriptors_few;
use super::destination::{Destination, ReceiptError};
use super::errors::{die_of_a_closed_pipe, errno_of, file_error};
use super::progress::Progress;
use super::said;
use crate::grammar::called_as;
use crate::quote::{named, quoted, words};
use crate::receipt::Ledger;

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
    /// A run of `command` under the flags. Where descriptors are few, and the flags leave it open,
    /// streams do without the second descriptor that direct I/O takes.
    pub fn new(command: &'static str, io: &IoArgs) -> Tool {
        let mut options = io.stream_options();
        if io.mode == args::Mode::Auto && !io.strict && are_descriptors_few() {
            options.mode = dio::Mode::Uncached;
        }
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

    /// What messages start with: `dio cat`, or `cat` for a tool that was called by a link of that
    /// name.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Opens the receipt, where one is asked for, before anything is read or written; `names` are
    /// the operands.
    ///
    /// # Errors
    /// The exit status, if it cannot be written or is one of the operands: that is told, and
    /// nothing is to be done.
    pub fn begin<'n>(&self, names: impl IntoIterator<Item = &'n OsStr>) -> Result<(), ExitCode> {
        let Some(path) = &self.shared.receipt else { return Ok(()) };
        match Destination::open(path, names) {
            Ok(to) => {
                *self.shared.destination.lock() = Some(to);
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

    /// Tells what went wrong with a file: as GNU's tools do, and with place and cure where the
    /// library knows them.
    pub fn file_error(&self, path: &Path, error: &io::Error) {
        match file_error(error).filter(|error| {
            [error.offset().is_some(), error.cure().is_some(), error.detail().is_some()].contains(&true)
        }) {
            Some(error) => self.error(error),
            None => self.error(format_args!("{}: {}", named(path), words(errno_of(error)))),
        }
    }

    /// Prints text on standard output at once, so that it stands where it belongs among the
    /// messages.
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

    /// Standard output failed. A closed pipe ends the process by SIGPIPE, as every tool that writes
    /// into one, unless whoever started it ignores that signal; the rest is told.
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

    /// Ends the run: takes the progress line away and writes the receipt. All sources and sinks
    /// have been closed.
    pub fn finish(self) -> ExitCode {
        self.shared.progress.finish();
        let opened = self.shared.destination.lock().take();
        if let (Some(path), Some(to)) = (&self.shared.receipt, opened) {
            let durable = self.shared.durable.load(Ordering::Relaxed) && !self.failed();
            self.shared.ledger.look_again();
            if let Err(error) = to.print(&self.shared.ledger, self.shared.command, engine_name(), durable) {
                self.error(format_args!("cannot write the receipt {}: {}", quoted(path), receipt_words(&error)));
            }
        }
        if self.failed() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }
}

/// Why a receipt could not be written.
pub(crate) fn receipt_words(error: &io::Error) -> String {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<ReceiptError>()) {
        Some(refusal) => format!("it {refusal}"),
        None => words(errno_of(error)),
    }
}

/// The engine behind the streams.
fn engine_name() -> &'static str {
    dio::Io::shared().map_or("none", |io| io.engine_name())
}

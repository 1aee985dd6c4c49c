//! One run of a tool: its flags, its ledger, its messages and its exit status.

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
use super::messages;
use super::progress::Progress;
use crate::grammar::called_as;
use crate::quote::{named, quoted, words};
use crate::receipt::{JobReceipt, Ledger};

/// One run of a tool. Clones are cheap and refer to the same run.
#[derive(Clone, Debug)]
pub struct Tool {
    shared: Arc<ToolRun>,
}

#[derive(Debug)]
struct ToolRun {
    command: &'static str,
    name: String,
    options: StreamOptions,
    receipt: Option<PathBuf>,
    /// The destination of the receipt, once it is open.
    destination: Mutex<Option<Destination>>,
    ledger: Ledger,
    progress: Progress,
    failed: AtomicBool,
    durable: AtomicBool,
    /// The receipts of the other processes, if there are several.
    others: Mutex<Option<Vec<String>>>,
}

impl Tool {
    /// Creates a run of `command` with these flags. If descriptors are few and the flags permit it,
    /// streams do without the second descriptor that direct I/O takes.
    pub fn new(command: &'static str, io: &IoArgs) -> Tool {
        let mut options = io.stream_options();
        if io.mode == args::Mode::Auto && !io.strict && are_descriptors_few() {
            options.mode = dio::Mode::Uncached;
        }
        let name = called_as(command);
        let shared = ToolRun {
            command,
            options,
            receipt: io.receipt.clone(),
            destination: Mutex::default(),
            ledger: Ledger::new(io.receipt.is_some()),
            progress: Progress::new(io.progress, name.clone(), "read"),
            failed: AtomicBool::new(false),
            durable: AtomicBool::new(false),
            others: Mutex::default(),
            name,
        };
        Tool { shared: Arc::new(shared) }
    }

    /// Returns the prefix of messages: `dio cat`, or `cat` if the tool was called through a link of
    /// that name.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Opens the receipt, if one is requested, before anything is read or written; `names` are the
    /// operands.
    ///
    /// # Errors
    /// The exit status, if the receipt cannot be written or is one of the operands. The message has
    /// been printed, and the caller must do nothing else.
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

    /// Returns the options for opening streams.
    pub fn stream_options(&self) -> &StreamOptions {
        &self.shared.options
    }

    /// Returns the ledger of the run.
    pub fn ledger(&self) -> &Ledger {
        &self.shared.ledger
    }

    /// Counts `bytes` more as done.
    pub fn progressed(&self, bytes: u64) {
        self.shared.progress.add(bytes);
    }

    /// Prints an error; the exit status will be 1.
    pub fn error(&self, message: impl Display) {
        self.fail();
        self.note(message);
    }

    /// Prints a message that does not change the exit status.
    pub fn note(&self, message: impl Display) {
        self.shared.progress.aside(|| messages::say(format!("{}: {message}\n", self.name())));
    }

    /// Prints an error of a file in the style of GNU's tools, with the offset and a remedy if the
    /// library provides them.
    pub fn file_error(&self, path: &Path, error: &io::Error) {
        self.error(self.file_error_text(path, error));
    }

    /// Returns the message about an error of a file, for this process or another to print.
    pub fn file_error_text(&self, path: &Path, error: &io::Error) -> String {
        match file_error(error).filter(|error| {
            [error.offset().is_some(), error.cure().is_some(), error.detail().is_some()]
                .contains(&true)
        }) {
            Some(error) => error.to_string(),
            None => format!("{}: {}", named(path), words(errno_of(error))),
        }
    }

    /// Prints text on standard output at once, so that it keeps its position among the messages.
    ///
    /// # Errors
    /// `EBADF` if the process was started without standard output; write errors.
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

    /// Handles an error of standard output. A closed pipe ends the process by SIGPIPE, as for every
    /// tool that writes into one, unless SIGPIPE was ignored when the process started. Other errors
    /// are printed.
    pub fn write_failed(&self, error: &io::Error) {
        die_of_a_closed_pipe(errno_of(error));
        self.error(format_args!("write error: {}", words(errno_of(error))));
    }

    /// Sets the exit status to 1, for a reason that was already printed.
    pub fn fail(&self) {
        self.shared.failed.store(true, Ordering::Relaxed);
    }

    /// Returns whether anything has failed so far. A message that could not be written counts too,
    /// except for tools whose originals ignore that.
    pub fn failed(&self) -> bool {
        let careless = matches!(self.shared.command, "gzip" | "zstd");
        self.shared.failed.load(Ordering::Relaxed) || (messages::is_lost() && !careless)
    }

    /// Records that everything written was synced.
    pub fn set_durable(&self) {
        self.shared.durable.store(true, Ordering::Relaxed);
    }

    /// Returns the receipt of this process, one of several, if one is wanted.
    pub fn account(&self) -> Option<String> {
        let shared = &self.shared;
        shared.receipt.as_ref()?;
        shared.ledger.look_again();
        let (text, _) =
            shared.ledger.text(shared.command, engine_name(), self.is_durable()).ok()?;
        String::from_utf8(text).ok()
    }

    /// Has the receipt say what other processes did, too.
    pub fn add_accounts(&self, others: Vec<String>) {
        *self.shared.others.lock() = Some(others);
    }

    fn is_durable(&self) -> bool {
        self.shared.durable.load(Ordering::Relaxed) && !self.failed()
    }

    fn print_receipt(&self, to: Destination) -> io::Result<()> {
        let (shared, durable) = (&self.shared, self.is_durable());
        let Some(others) = shared.others.lock().take() else {
            shared.ledger.look_again();
            return to.print(&shared.ledger, shared.command, engine_name(), durable);
        };
        let own = self.account();
        let parts = own.iter().chain(&others).filter_map(|part| serde_json::from_str(part).ok());
        let (text, paths) = JobReceipt::of(parts, durable).text()?;
        to.write(&text, paths.iter().map(PathBuf::as_path))
    }

    /// Ends the run: removes the progress line and writes the receipt. All sources and sinks must
    /// have been closed.
    pub fn finish(self) -> ExitCode {
        self.shared.progress.finish();
        let opened = self.shared.destination.lock().take();
        if let (Some(path), Some(to)) = (&self.shared.receipt, opened)
            && let Err(error) = self.print_receipt(to)
        {
            self.error(format_args!(
                "cannot write the receipt {}: {}",
                quoted(path),
                receipt_words(&error)
            ));
        }
        if self.failed() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }
}

/// Returns the reason why a receipt could not be written.
pub(crate) fn receipt_words(error: &io::Error) -> String {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<ReceiptError>()) {
        Some(refusal) => format!("it {refusal}"),
        None => words(errno_of(error)),
    }
}

/// Returns the name of the engine behind the streams.
fn engine_name() -> &'static str {
    dio::Io::shared().map_or("none", |io| io.engine_name())
}

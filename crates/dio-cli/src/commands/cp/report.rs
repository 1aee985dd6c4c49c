//! Messages: errors go to standard error, and `-v` output to standard output, one line at a time.

use std::fmt::Display;
use std::io::{self, BufRead, BufWriter, IsTerminal, Write};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::quote::{as_shown_on, quoted};
use crate::tool::called_as;
use crate::tool::messages::{is_lost, say};

/// Records the outcome of a run and prints messages.
pub(crate) struct CopyLog {
    /// The command whose messages these are.
    command: &'static str,
    failed: AtomicBool,
    /// Something that was compared differs.
    differs: AtomicBool,
    verbose: bool,
    /// Locked for a whole line, so that lines of several workers never mix.
    out: Mutex<BufWriter<io::Stdout>>,
    flush_lines: bool,
    /// Prints for this process, if it is not the one that prints.
    elsewhere: OnceLock<Print>,
}

/// Prints a line in another process: on standard error, or with `false` on standard output.
pub(crate) type Print = Box<dyn Fn(bool, Vec<u8>) + Send + Sync>;

impl CopyLog {
    pub(crate) fn new(command: &'static str, verbose: bool) -> Self {
        let out = io::stdout();
        let flush_lines = out.is_terminal();
        Self {
            command,
            failed: AtomicBool::new(false),
            differs: AtomicBool::new(false),
            verbose,
            out: Mutex::new(BufWriter::new(out)),
            flush_lines,
            elsewhere: OnceLock::new(),
        }
    }

    /// The name that messages start with, such as `dio cp`; `cp` if the program was called by a
    /// link of that name.
    pub(crate) fn name(&self) -> String {
        called_as(self.command)
    }

    /// Has every later line printed by another process.
    pub(crate) fn print_elsewhere(&self, print: Print) {
        // A second call would be a mistake, and changes nothing.
        let _ = self.elsewhere.set(print);
    }

    /// Prints a line of another process.
    pub(crate) fn print(&self, error: bool, line: &[u8]) {
        if error {
            self.flush();
            say(line);
        } else {
            self.write(line);
        }
    }

    /// Prints an error; the exit status will be 1.
    pub(crate) fn error(&self, error: impl Display) {
        self.failed.store(true, Ordering::Relaxed);
        self.note(error);
    }

    /// Prints a message that does not change the exit status.
    pub(crate) fn note(&self, text: impl Display) {
        let line = format!("{}: {text}\n", self.name());
        match self.elsewhere.get() {
            Some(print) => print(true, line.into_bytes()),
            None => self.print(true, line.as_bytes()),
        }
    }

    /// Records a failure that was already reported.
    pub(crate) fn fail(&self) {
        self.failed.store(true, Ordering::Relaxed);
    }

    pub(crate) fn failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Prints `'source' -> 'target'` with `-v`.
    pub(crate) fn copying(
        &self,
        source: impl FnOnce() -> std::path::PathBuf,
        target: impl FnOnce() -> std::path::PathBuf,
    ) {
        if self.verbose {
            self.line(format_args!("{} -> {}", quoted(source()), quoted(target())));
        }
    }

    /// Prints a difference.
    pub(crate) fn difference(&self, line: impl Display) {
        self.differs.store(true, Ordering::Relaxed);
        self.line(line);
    }

    pub(crate) fn differs(&self) -> bool {
        self.differs.load(Ordering::Relaxed)
    }

    /// Prints with `-v` that only attributes are copied.
    pub(crate) fn adjusting(
        &self,
        source: impl FnOnce() -> std::path::PathBuf,
        target: impl FnOnce() -> std::path::PathBuf,
    ) {
        if self.verbose {
            self.line(format_args!("attributes: {} -> {}", quoted(source()), quoted(target())));
        }
    }

    /// Prints `source -> target` with `-v`, for directories that `--parents` makes.
    pub(crate) fn parent_made(&self, source: &Path, target: &Path) {
        if self.verbose {
            let line = format!("{} -> {}", source.display(), target.display());
            self.line(String::from_utf8_lossy(&as_shown_on(&std::io::stdout(), line.as_bytes())));
        }
    }

    /// Prints `removed 'target'` with `-v`.
    pub(crate) fn removed(&self, target: impl FnOnce() -> std::path::PathBuf) {
        if self.verbose {
            self.line(format_args!("removed {}", quoted(target())));
        }
    }

    fn line(&self, line: impl Display) {
        let line = format!("{line}\n").into_bytes();
        match self.elsewhere.get() {
            Some(print) => print(false, line),
            None => self.write(&line),
        }
    }

    fn write(&self, line: &[u8]) {
        let mut out = self.out.lock();
        let written =
            out.write_all(line).and_then(|()| if self.flush_lines { out.flush() } else { Ok(()) });
        drop(out);
        if written.is_err() {
            self.fail();
        }
    }

    fn flush(&self) {
        if self.out.lock().flush().is_err() {
            self.fail();
        }
    }

    /// Asks `question` on standard error. Only an answer that starts with `y` or `Y` means yes.
    pub(crate) fn ask(&self, question: impl Display) -> bool {
        self.flush();
        say(format!("{}: {question}", self.name()));
        let mut answer = Vec::new();
        match io::stdin().lock().read_until(b'\n', &mut answer) {
            Ok(_) => matches!(answer.first(), Some(b'y' | b'Y')),
            Err(_) => false,
        }
    }

    /// Writes out buffered lines; returns whether there was no failure.
    pub(crate) fn finish(&self) -> bool {
        if let Err(error) = self.out.lock().flush() {
            let errno = rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO);
            self.fail();
            say(format!("{}: write error: {}\n", self.name(), crate::quote::words(errno)));
        }
        !self.failed() && !is_lost()
    }
}

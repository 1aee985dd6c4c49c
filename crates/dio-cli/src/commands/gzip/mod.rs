//! `dio gzip`, `gunzip` and `zcat`.

mod args;
mod file;
mod list;
mod member;
mod names;
mod work;

use std::cell::Cell;
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;

use rustix::io::Errno;

use super::compress::{PendingRemovals, RetireError};
use crate::grammar::Program;
use crate::quote::{as_shown_on, words};
use crate::stop::Stop;
use crate::tool::{Sink, Tool, die_of_a_closed_pipe};

use args::GzipArgs;
#[cfg(feature = "fuzzing")]
pub(crate) use member::fuzz_header;

pub(crate) const PROGRAMS: [Program; 3] = [program("gzip"), program("gunzip"), program("zcat")];

const fn program(name: &'static str) -> Program {
    Program { name, describe: |name| args::grammar(name).describe(), run }
}

/// Runs `dio gzip`, `gunzip` (`gzip -d`) or `zcat` (`gzip -cd`).
fn run(name: &'static str, line: Vec<OsString>) -> ExitCode {
    let args = match args::read(name, line) {
        Ok(args) => args,
        Err(status) => return status,
    };
    let mut run = GzipRun::new(Tool::new("gzip", &args.io), args);
    if run.args.ascii && !run.quiet() {
        run.tool.note("option --ascii ignored on this system");
    }
    if let Err(status) = run.tool.begin(run.args.files.iter().map(|file| file.as_os_str())) {
        return status;
    }
    let ended = run.all();
    run.finish(ended)
}

/// An error, already reported, after which the run ends.
#[derive(Debug)]
struct Fatal;

/// The state of one run.
struct GzipRun {
    tool: Tool,
    args: GzipArgs,
    decompress: bool,
    to_stdout: bool,
    keep_name: bool,
    keep_time: bool,
    level: u8,
    workers: usize,
    /// Whether a warning was issued: the exit status is 2 unless there was an error.
    warned: Cell<bool>,
    /// Standard output, once something has been written there.
    out: Option<Sink>,
    retire: PendingRemovals,
    /// Checked from the first created file on.
    stop: Option<&'static Stop>,
    listed: list::Listed,
}

impl GzipRun {
    fn new(tool: Tool, args: GzipArgs) -> GzipRun {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let decompress = args.decompress || args.list || args.test;
        GzipRun {
            decompress,
            to_stdout: args.stdout || args.list || args.test,
            keep_name: !args.no_name.unwrap_or(decompress),
            keep_time: !args.no_time.unwrap_or(decompress),
            level: args.level,
            workers: args.processes.map_or(cores, |count| count as usize),
            warned: Cell::new(false),
            out: None,
            retire: PendingRemovals::new(),
            stop: None,
            listed: list::Listed::default(),
            tool,
            args,
        }
    }

    fn quiet(&self) -> bool {
        self.args.quiet
    }

    fn verbose(&self) -> bool {
        self.args.verbose > 0
    }

    fn all(&mut self) -> Result<(), Fatal> {
        let files: Vec<OsString> = std::mem::take(&mut self.args.files);
        if files.is_empty() {
            self.stdin()?;
        }
        for name in &files {
            if name == "-" {
                self.stdin()?
            } else {
                self.operand(Path::new(name))?
            }
            if self.stop.is_some_and(Stop::asked) {
                break;
            }
        }
        match self.listed.totals(&self.args, files.len()) {
            Some(line) => self.print(line.as_bytes()),
            None => Ok(()),
        }
    }

    fn print(&self, text: &[u8]) -> Result<(), Fatal> {
        self.tool.print(&as_shown_on(&io::stdout(), text)).map_err(|error| {
            self.output_failed(crate::tool::errno_of(&error));
            Fatal
        })
    }

    /// Closes everything, and returns the exit status.
    fn finish(mut self, ended: Result<(), Fatal>) -> ExitCode {
        let troubles = self.retire.flush();
        self.troubles(troubles);
        if let Some(mut out) = self.out.take() {
            let synced = if self.args.synchronous { out.sync(false) } else { Ok(()) };
            if let Err(error) = synced.and(out.close())
                && ended.is_ok()
            {
                self.output_failed(crate::tool::errno_of(&error));
            }
        }
        if ended.is_err() {
            self.tool.fail();
        }
        if self.args.synchronous && !self.args.stdout {
            self.tool.set_durable();
        }
        let warned = self.warned.get();
        let status = self.tool.finish();
        if let Some(stop) = self.stop {
            stop.die_if_asked();
        }
        if status == ExitCode::SUCCESS && warned { ExitCode::from(2) } else { status }
    }

    fn troubles(&self, troubles: Vec<RetireError>) {
        for trouble in troubles {
            match trouble {
                RetireError::Sync(path, error) => self.failed(&path, crate::tool::errno_of(&error)),
                RetireError::Remove(path, errno) => {
                    self.warn(&[path.as_os_str().as_bytes(), b": ", words(errno).as_bytes()])
                }
            }
        }
    }

    /// Prints a message unchanged.
    fn say(&self, parts: &[&[u8]]) {
        // If standard error is closed, there is nowhere to report that.
        let _ = io::stderr().lock().write_all(&as_shown_on(&io::stderr(), &parts.concat()));
    }

    /// Prints a message after the program's name.
    fn tell(&self, parts: &[&[u8]]) {
        self.say(&[self.tool.name().as_bytes(), b": ", &parts.concat(), b"\n"]);
    }

    /// Prints a warning: the exit status becomes 2.
    fn warn(&self, parts: &[&[u8]]) {
        self.warned.set(true);
        if !self.quiet() {
            self.tell(parts);
        }
    }

    /// Prints an error: the exit status becomes 1.
    fn error(&self, parts: &[&[u8]]) {
        self.tool.fail();
        self.tell(parts);
    }

    /// Prints a system error of a file.
    fn failed(&self, path: &Path, errno: Errno) {
        // An empty name gets no prefix.
        let colon: &[u8] = if path.as_os_str().is_empty() { b"" } else { b": " };
        self.error(&[path.as_os_str().as_bytes(), colon, words(errno).as_bytes()]);
    }

    /// Prints an error in the contents of a file. Like GNU gzip, it ends the line that may have
    /// been begun.
    fn contents(&self, shown: &[u8], what: &str) {
        self.tool.fail();
        self.say(&[
            b"\n",
            self.tool.name().as_bytes(),
            b": ",
            shown,
            b": ",
            what.as_bytes(),
            b"\n",
        ]);
    }

    /// Reports an error of standard output.
    fn output_failed(&self, errno: Errno) {
        die_of_a_closed_pipe(errno);
        self.contents(b"stdout", words(errno).as_str());
    }
}

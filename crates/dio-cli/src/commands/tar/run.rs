//! The state of one run of `dio tar`: its messages, its list of files and its exit status.

use std::collections::{HashMap, HashSet};
use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::ThreadId;

use parking_lot::Mutex;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

pub(super) use super::early_end::{EarlyEnd, bare};
use super::options::{Operation, TarOptions};
use super::quoting::escaped;
use super::terms::NAME;
use super::warnings::Warning;
use crate::quote::words;
use crate::stop::Stop;
use crate::tool::messages::{is_lost, say};
use crate::tool::{Tool, When};

/// Exit status: a file differs, or changed while it was read.
const DIFFERS: u8 = 1;
/// Exit status: an operation failed.
const FAILED: u8 = 2;

/// The state that all operations share.
#[derive(Debug)]
pub(super) struct TarRun {
    pub(super) tool: Tool,
    pub(super) options: TarOptions,
    status: AtomicU8,
    list: Mutex<List>,
    /// Prefixes that were removed from names and already reported: those of members, and those of
    /// hard link targets.
    prefixes: Mutex<[HashSet<Vec<u8>>; 2]>,
    /// In a process that does not lead: what each thread would have told.
    held: Option<Mutex<HashMap<ThreadId, Told>>>,
}

/// Messages, and whether one of them is an error.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Told {
    messages: Vec<String>,
    is_failed: bool,
}

impl Told {
    /// Adds messages that come later.
    pub(super) fn extend(&mut self, later: Told) {
        self.messages.extend(later.messages);
        self.is_failed |= later.is_failed;
    }

    /// Whether something has failed.
    pub(super) fn is_failed(&self) -> bool {
        self.is_failed
    }

    /// Prints the messages.
    pub(super) fn tell(&self, run: &TarRun) {
        if self.is_failed {
            run.fail();
        }
        self.messages.iter().for_each(|message| run.note(message));
    }
}

/// The destination of the list of files.
#[derive(Debug)]
enum List {
    Stdout(BufWriter<io::Stdout>),
    /// Standard output was already closed at the start.
    Closed,
    /// Writing the list failed, which was reported.
    Broken,
    /// The list goes to standard error, because standard output has the archive or the contents.
    Stderr,
    File(BufWriter<File>),
}

impl TarRun {
    /// Creates the state of a run.
    ///
    /// # Errors
    /// The index file cannot be created.
    pub(super) fn new(tool: Tool, options: TarOptions) -> Result<TarRun, EarlyEnd> {
        let list = match &options.index_file {
            Some(path) => {
                let name = std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str());
                let file = File::create(path)
                    .map_err(|error| EarlyEnd::on(name, "open", crate::tool::errno_of(&error)))?;
                List::File(BufWriter::new(file))
            }
            None if stdout_is_taken(&options) => List::Stderr,
            None if dio_sys::start::was_closed(1) => List::Closed,
            None => List::Stdout(BufWriter::new(io::stdout())),
        };
        let (status, prefixes) = (AtomicU8::new(0), Mutex::default());
        let (list, held) = (Mutex::new(list), None);
        Ok(TarRun { tool, options, status, list, prefixes, held })
    }

    /// Creates the state of a process that does not lead. It lists nothing, and holds its messages
    /// for [`TarRun::take_held`].
    pub(super) fn holding(mut options: TarOptions) -> TarRun {
        options.io.progress = When::Never;
        let tool = Tool::new(NAME, &options.io);
        let (status, prefixes) = (AtomicU8::new(0), Mutex::default());
        let (list, held) = (Mutex::new(List::Broken), Some(Mutex::default()));
        TarRun { tool, options, status, list, prefixes, held }
    }

    /// Takes what the calling thread has held.
    pub(super) fn take_held(&self) -> Told {
        let held = self.held.as_ref();
        held.and_then(|held| held.lock().remove(&std::thread::current().id())).unwrap_or_default()
    }

    /// Holds a message or a failure, if this process does not lead.
    fn hold(&self, hold: impl FnOnce(&mut Told)) -> bool {
        let Some(held) = &self.held else { return false };
        hold(held.lock().entry(std::thread::current().id()).or_default());
        true
    }

    /// Prints a message that does not change the exit status.
    pub(super) fn note(&self, message: impl Display) {
        if self.hold(|told| told.messages.push(message.to_string())) {
            return;
        }
        self.flush_list();
        self.tool.note(message);
    }

    /// Prints a message without the name of the tool before it, as GNU tar prints its totals.
    pub(super) fn note_bare(&self, message: impl Display) {
        self.flush_list();
        say(format!("{message}\n"));
    }

    /// Like [`TarRun::note`], for a warning that `--warning` can turn off.
    pub(super) fn warn(&self, kind: Warning, message: impl Display) {
        if self.options.warnings.told(kind) {
            self.note(message);
        }
    }

    /// Prints an error; the exit status will be 2.
    pub(super) fn error(&self, message: impl Display) {
        self.fail();
        self.note(message);
    }

    /// Prints an error like `name: Cannot open: No such file or directory`; the exit status will be
    /// 2.
    pub(super) fn cannot(&self, doing: &str, name: &[u8], errno: Errno) {
        self.error(format_args!("{}: Cannot {doing}: {}", escaped(name), words(errno)));
    }

    /// Makes the exit status 2.
    pub(super) fn fail(&self) {
        if self.hold(|told| told.is_failed = true) {
            return;
        }
        self.tool.fail();
        self.status.fetch_max(FAILED, Ordering::Relaxed);
    }

    /// Does something, and returns whether it has failed. No other thread uses this run meanwhile.
    pub(super) fn fails_in<T>(&self, act: impl FnOnce() -> T) -> (T, bool) {
        let before = self.status.swap(0, Ordering::Relaxed);
        let made = act();
        (made, self.status.fetch_max(before, Ordering::Relaxed) >= FAILED)
    }

    /// Makes the exit status at least 1: a file differs, or changed while it was read.
    pub(super) fn differs(&self) {
        self.status.fetch_max(DIFFERS, Ordering::Relaxed);
    }

    /// Writes a line into the list of files. A failure is reported once. Operations that do more
    /// than list files then go on, as in GNU tar.
    ///
    /// # Errors
    /// Standard output or the index file cannot be written, and the operation only lists files.
    pub(super) fn list(&self, line: &[u8]) -> Result<(), EarlyEnd> {
        let mut list = self.list.lock();
        let written = match &mut *list {
            List::Stderr => {
                drop(list);
                let text = [line, b"\n"].concat();
                say(&text);
                return Ok(());
            }
            List::Stdout(out) => {
                let whole = |out: &mut BufWriter<io::Stdout>| {
                    out.write_all(line)?;
                    out.write_all(b"\n")?;
                    if out.get_ref().is_terminal() { out.flush() } else { Ok(()) }
                };
                whole(out)
            }
            List::File(out) => out.write_all(line).and_then(|()| out.write_all(b"\n")),
            List::Closed => Err(Errno::BADF.into()),
            List::Broken => return Ok(()),
        };
        let Err(error) = written else { return Ok(()) };
        *list = List::Broken;
        drop(list);
        let failed = self.list_failed(&error);
        let only_lists = matches!(self.options.operation, Operation::List | Operation::Diff);
        if only_lists { Err(failed) } else { Ok(()) }
    }

    fn list_failed(&self, error: &io::Error) -> EarlyEnd {
        self.tool.write_failed(error);
        self.fail();
        EarlyEnd::Told
    }

    /// Asks the user whether to process a file (`-w`).
    pub(super) fn confirm(&self, action: &str, name: &[u8]) -> bool {
        self.flush_list();
        let question = format!("{action} {}?", crate::quote::marked(name));
        // A failure to print the question is ignored: without an answer, the result is false.
        let _ = match &mut *self.list.lock() {
            List::Stdout(out) => out.write_all(question.as_bytes()).and_then(|()| out.flush()),
            List::File(out) => out.write_all(question.as_bytes()).and_then(|()| out.flush()),
            List::Stderr => io::stderr().lock().write_all(question.as_bytes()),
            List::Closed | List::Broken => Ok(()),
        };
        let mut answer = String::new();
        // Standard input may be the archive, so the terminal is read instead.
        let read = match self.options.archive == "-" && !self.options.operation.stores() {
            true => File::open("/dev/tty")
                .and_then(|tty| io::BufRead::read_line(&mut io::BufReader::new(tty), &mut answer)),
            false => io::stdin().read_line(&mut answer),
        };
        read.is_ok() && answer.starts_with(['y', 'Y'])
    }

    /// Writes out the buffered list, so that it appears before a message.
    fn flush_list(&self) {
        // An error occurs again at the end of the run, where it is reported.
        let _ = self.write_list();
    }

    fn write_list(&self) -> io::Result<()> {
        match &mut *self.list.lock() {
            List::Stdout(out) => out.flush(),
            List::File(out) => out.flush(),
            List::Stderr | List::Closed | List::Broken => Ok(()),
        }
    }

    /// Returns the name without a prefix that leads out of the directory: leading slashes, or
    /// everything up to the last `..`. Each removed prefix is reported once. `link` says that the
    /// name is the target of a hard link.
    pub(super) fn safe_name<'n>(&self, name: &'n [u8], link: bool) -> &'n [u8] {
        let prefix = if self.options.absolute_names { 0 } else { unsafe_prefix(name) };
        if prefix > 0 {
            let mut prefixes = self.prefixes.lock();
            if prefixes[usize::from(link)].insert(name[..prefix].to_vec()) {
                let of = if link { "hard link targets" } else { "member names" };
                self.note(format_args!(
                    "Removing leading `{}' from {of}",
                    escaped(&name[..prefix])
                ));
            }
        }
        match &name[prefix..] {
            [] => {
                if prefix == 0 {
                    let what = if link { "hard link target" } else { "member name" };
                    self.note(format_args!("Substituting `.' for empty {what}"));
                }
                b"."
            }
            safe => safe,
        }
    }

    /// Ends the run: reports why, if it ended early, and returns the exit status.
    pub(super) fn finish(self, ended: Result<(), EarlyEnd>) -> ExitCode {
        if let Err(error) = self.write_list() {
            self.list_failed(&error);
        }
        match ended {
            Err(EarlyEnd::Signal) => {
                self.fail();
                let _ = self.tool.finish();
                Stop::on_signals().die_if_asked();
                return ExitCode::from(FAILED);
            }
            Err(EarlyEnd::Fatal(message)) => {
                self.error(message);
                self.note("Error is not recoverable: exiting now");
            }
            Err(EarlyEnd::Told) => self.fail(),
            Ok(()) if self.status.load(Ordering::Relaxed) == FAILED => {
                self.note("Exiting with failure status due to previous errors");
            }
            Ok(()) => {}
        }
        let (status, told) = (self.status.load(Ordering::Relaxed), self.tool.clone());
        let code = self.tool.finish();
        match status {
            _ if is_lost() => ExitCode::from(FAILED),
            // The receipt could not be written.
            0 if told.failed() => ExitCode::from(FAILED),
            0 => code,
            status => ExitCode::from(status),
        }
    }
}

/// Whether standard output carries data, so that the list of files cannot go there.
fn stdout_is_taken(options: &TarOptions) -> bool {
    options.to_stdout || options.operation == Operation::Create && options.archive == "-"
}

/// Length of the prefix of a name that leads out of the directory.
pub(super) fn unsafe_prefix(name: &[u8]) -> usize {
    let mut end = 0;
    let mut start = 0;
    for part in name.split(|byte| *byte == b'/') {
        if part == b".." {
            end = start + 2;
        }
        start += part.len() + 1;
    }
    end + name[end..].iter().take_while(|byte| **byte == b'/').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_within_the_directory() {
        for (name, safe) in [
            ("a/b", "a/b"),
            ("/a", "a"),
            ("//a/b", "a/b"),
            ("../a", "a"),
            ("a/../b", "b"),
            ("a/..", ""),
            ("a/..b", "a/..b"),
            ("..", ""),
            ("a/../../b/../c", "c"),
            ("/", ""),
            ("", ""),
        ] {
            assert_eq!(&name[unsafe_prefix(name.as_bytes())..], safe, "{name}");
        }
    }
}

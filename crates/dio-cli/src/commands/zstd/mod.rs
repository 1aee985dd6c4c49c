//! `dio zstd`, `unzstd` and `zstdcat`.

mod args;
mod file;
mod human;
mod list;
mod operand;
mod plan;
mod work;

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;

use rustix::io::Errno;

use super::compress::{OutputFile, PendingRemovals, RetireError};
use crate::codec::zstd::Encode;
use crate::grammar::Program;
use crate::quote::{as_shown_on, words};
use crate::stop::Stop;
use crate::tool::{Sink, Tool, die_of_a_closed_pipe, errno_of};

use args::ZstdArgs;
use human::human;
use operand::File;

pub(crate) const PROGRAMS: [Program; 3] = [program("zstd"), program("unzstd"), program("zstdcat")];

const fn program(name: &'static str) -> Program {
    Program { name, describe: |name| args::grammar(name).describe(), run }
}

/// Runs `dio zstd`, `unzstd` (`zstd -d`) or `zstdcat` (`zstd -dcf`).
fn run(name: &'static str, line: Vec<OsString>) -> ExitCode {
    let is_cat = name == "zstdcat";
    // zstdcat passes on uncompressed data with -o and --test too, where -f alone does not imply
    // that.
    let pass_through = is_cat.then_some(true);
    let args = ZstdArgs {
        decompress: name != "zstd",
        force: is_cat,
        stdout: is_cat,
        pass_through,
        ..ZstdArgs::default()
    };
    let args = match args::grammar(name).resolve_from(args, line, Ok) {
        Ok(args) if is_cat && args.verbose == 0 => ZstdArgs { quiet: args.quiet.max(1), ..args },
        Ok(args) => args,
        Err(status) => return status,
    };
    let tool = Tool::new("zstd", &args.io);
    let plan = match plan::CodecOptions::new(&tool, &args) {
        Ok(plan) => plan,
        Err(why) => {
            tool.error(why);
            return ExitCode::FAILURE;
        }
    };
    if let Err(status) = tool.begin(
        args.files.iter().map(AsRef::as_ref).chain(args.output.iter().map(|file| file.as_os_str())),
    ) {
        return status;
    }
    let mut run = ZstdRun {
        tool,
        plan,
        args,
        joined: None,
        retire: PendingRemovals::new(),
        stop: None,
        total: Total::default(),
        reads_stdin: false,
    };
    let files = run.files();
    match files {
        Some(files) if run.args.list => run.list(&files),
        Some(files) => run.all(&files),
        None => run.tool.fail(),
    }
    run.finish()
}

/// An error, already reported, after which the run ends.
#[derive(Debug)]
struct Fatal;

/// The totals of all files.
#[derive(Debug, Default)]
struct Total {
    /// The number of files on the command line and in directories.
    wanted: usize,
    done: u64,
    /// Whether a damaged file was kept up to the damage.
    salvaged: bool,
    read: u64,
    written: u64,
}

/// The state of one run.
struct ZstdRun {
    tool: Tool,
    args: ZstdArgs,
    plan: plan::CodecOptions,
    /// The common target: standard output (`None`) or the file of `-o`, with the stream to it.
    joined: Option<(Option<OutputFile>, Sink)>,
    retire: PendingRemovals,
    /// Checked from the first created file on.
    stop: Option<&'static Stop>,
    total: Total,
    /// Whether standard input is data, so that no answers can be read from it.
    reads_stdin: bool,
}

impl ZstdRun {
    /// Returns the verbosity: 2 unless `-q` or `-v` were given.
    fn level(&self) -> i32 {
        2 + i32::from(self.args.verbose) - i32::from(self.args.quiet)
    }

    fn decompress(&self) -> bool {
        self.args.decompress || self.args.test
    }

    fn stopped(&self) -> bool {
        self.stop.is_some_and(Stop::asked)
    }

    fn all(&mut self, files: &[File]) {
        self.total.wanted = files.len();
        self.reads_stdin = files.iter().any(File::is_stdin);
        if self.args.output.is_some() && files.len() > 1 && !self.args.test {
            if self.would_replace_one_of(files) {
                return;
            }
            if !self.may_join() {
                return self.tool.fail();
            }
        }
        for (at, file) in files.iter().enumerate() {
            let done = if file.is_stdin() { self.stdin() } else { self.operand(file) };
            file.leave(files.get(at + 1));
            if done.is_err() || self.stopped() {
                break;
            }
        }
        if self.total.wanted > 1 && self.total.done > 0 && !self.args.stdout && !self.stopped() {
            self.summary();
        }
    }

    /// Prints one line for all files.
    fn summary(&self) {
        let Total { done, read, written, .. } = self.total;
        let line = if self.decompress() {
            format!("{done} files decompressed : {written:6} bytes total \n")
        } else {
            let ((from, from_unit), (to, to_unit)) = (human(read), human(written));
            let part = if read == 0 { 0.0 } else { written as f64 / read as f64 * 100.0 };
            format!(
                "{done:3} files compressed :{part:6.2}% ({from:>6}{from_unit:>4} => \
                 {to:>6}{to_unit:>4})\n"
            )
        };
        self.say(2, &[line.as_bytes()]);
    }

    /// Asks whether several files are to be joined into one.
    fn may_join(&self) -> bool {
        let Some(output) = &self.args.output else { return true };
        if *output == Path::new("/dev/null") {
            return true;
        }
        let shown = output.as_os_str().as_bytes();
        self.tell(
            1,
            &[
                b"WARNING: all input files will be processed and concatenated into a single output \
                  file: ",
                shown,
            ],
        );
        if self.args.force || self.decompress() {
            return true;
        }
        self.say(
            1,
            &[b"The concatenated output CANNOT regenerate original file names nor directory \
                structure. \n"],
        );
        if self.reads_stdin {
            self.say(1, &[b"stdin is an input - not proceeding.\n"]);
            return false;
        }
        self.say(1, &[b"Proceed? (y/n): "]);
        let agreed = self.level() > 1 && super::compress::agreed(self.stop);
        if !agreed {
            self.say(1, &[b"Aborting... \n"]);
        }
        agreed
    }

    /// Closes everything, and returns the exit status.
    fn finish(mut self) -> ExitCode {
        if let Some((target, sink)) = self.joined.take() {
            self.close_joined(target, sink);
        }
        let troubles = self.retire.flush();
        self.troubles(troubles);
        if self.args.sync && !self.args.stdout {
            self.tool.set_durable();
        }
        let status = self.tool.finish();
        if let Some(stop) = self.stop {
            stop.die_if_asked();
        }
        status
    }

    fn close_joined(&self, target: Option<OutputFile>, mut sink: Sink) {
        let synced = if self.args.sync && target.is_none() { sink.sync(false) } else { Ok(()) };
        if let Err(error) = synced.and(sink.close()) {
            return self.output_failed(target.as_ref(), errno_of(&error));
        }
        // An incomplete target gets no name.
        if let Some(mut target) = target.filter(|target| {
            !target.is_regular()
                || ((self.total.done > 0 || self.total.salvaged) && !self.stopped())
        }) {
            let umask = rustix::process::umask(rustix::fs::Mode::empty());
            rustix::process::umask(umask);
            let mode = rustix::fs::Mode::from_bits_retain(0o666) - umask;
            let moded =
                if target.is_regular() { give_mode(target.descriptor(), mode) } else { Ok(()) };
            if let Err(error) =
                moded.map_err(io::Error::from).and_then(|()| target.keep_named(self.args.sync))
            {
                self.output_failed(Some(&target), errno_of(&error));
            }
        }
    }

    fn troubles(&self, troubles: Vec<RetireError>) {
        for trouble in troubles {
            let (path, errno) = match trouble {
                RetireError::Sync(path, error) => (path, errno_of(&error)),
                RetireError::Remove(path, errno) => (path, errno),
            };
            self.failed(&path, &words(errno));
        }
    }

    /// Prints a message unchanged, if the verbosity is at least `level`.
    fn say(&self, level: i32, parts: &[&[u8]]) {
        if self.level() >= level {
            // If standard error is closed, there is nowhere to report that.
            let _ = io::stderr().lock().write_all(&as_shown_on(&io::stderr(), &parts.concat()));
        }
    }

    /// Prints a message after the program's name.
    fn tell(&self, level: i32, parts: &[&[u8]]) {
        self.say(level, &[self.tool.name().as_bytes(), b": ", &parts.concat(), b" \n"]);
    }

    /// Prints an error.
    fn error(&self, parts: &[&[u8]]) {
        self.tool.fail();
        self.tell(1, parts);
    }

    /// Prints an error of a file.
    fn failed(&self, path: &Path, why: &str) {
        self.error(&[path.as_os_str().as_bytes(), b": ", why.as_bytes()]);
    }

    /// Prints a write error.
    fn output_failed(&self, target: Option<&OutputFile>, errno: Errno) {
        if target.is_none() {
            die_of_a_closed_pipe(errno);
        }
        self.failed(
            target.map_or(Path::new("/*stdout*\\"), OutputFile::path),
            &format!("write error : {}", words(errno)),
        );
    }

    fn print(&self, text: &[u8]) {
        if let Err(error) = self.tool.print(&as_shown_on(&io::stdout(), text)) {
            self.tool.write_failed(&error);
        }
    }

    /// Returns the options to compress an input of `size` bytes.
    fn encode(&self, size: Option<u64>) -> Encode {
        Encode { size, ..self.plan.encode.clone() }
    }
}

/// Calls `fchmod(2)`; the objects of a striped file get the same permissions.
fn give_mode(fd: &std::os::fd::OwnedFd, mode: rustix::fs::Mode) -> Result<(), rustix::io::Errno> {
    let before = rustix::fs::fstat(fd)?;
    rustix::fs::fchmod(fd, mode)?;
    dio::names::pass_on_attributes(fd, &before)
}

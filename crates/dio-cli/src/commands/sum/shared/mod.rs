//! Digests that several processes compute together, of files on file systems that all of them
//! mount.
//!
//! Process 0 leads (`compute`, `check`): it finds the names (`names`), gives jobs to a
//! [`Crew`] and prints what the answers say, in the order of `dio sum`. A file
//! that turns out to be large is given out again in pieces, if its digests can be joined from those
//! of pieces or if each piece has a digest of its own.

mod check;
mod compute;
mod jobs;
mod names;

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use super::args::{self, SumArgs};
use super::check::compare;
use super::format::Piece;
use super::options::SumOptions;
use super::read::{self, Failure, Helpers};
use super::tell_instructions;
use crate::grammar::Refusal;
use crate::stop::Stop;
use crate::tool::{Crew, IoArgs, Mode, Tool, When};
pub use jobs::{Answer, Job};
use jobs::{AnswerKind, FileAnswer, JOB_BYTES, JobKind, PieceAnswer, file};

/// The files of a list of digests, or the lists to check.
pub struct Command {
    options: SumOptions,
    tool: Tool,
}

/// What a process needs to do jobs.
pub struct Worker {
    options: SumOptions,
    tool: Tool,
    helpers: Helpers,
}

/// Returns the tool that reads files.
fn tool_of(options: &SumOptions, progress: When) -> Tool {
    let strict = options.io.strict && (options.check.is_none() || options.io.mode != Mode::Auto);
    Tool::new("sum", &IoArgs { strict, progress, receipt: None, ..options.io.clone() })
}

fn parse(words: Vec<OsString>) -> Result<SumOptions, ExitCode> {
    let grammar = args::grammar("sum");
    let options = grammar.resolve_from(SumArgs::default(), words, SumOptions::of)?;
    if options.io.receipt.is_some() {
        let refusal = Refusal::plain("--receipt: not for several processes");
        return Err(grammar.refuse(&refusal.with_status(2)));
    }
    Ok(options)
}

impl Command {
    /// Parses the words behind `sum`, in process 0.
    ///
    /// # Errors
    /// The exit status, if there is nothing to do; the message was printed.
    pub fn parse(words: Vec<OsString>) -> Result<Command, ExitCode> {
        let options = parse(words)?;
        if options.debug {
            tell_instructions("sum");
        }
        let tool = tool_of(&options, options.io.progress);
        Ok(Command { options, tool })
    }

    /// Does all of it with a crew. Returns the exit status, in which a stop counts as a failure.
    pub fn lead(self, crew: &dyn Crew<Job, Answer>) -> ExitCode {
        let done = match &self.options.check {
            None => compute::run(&self.tool, &self.options, crew),
            Some(how) => check::run(&self.tool, &self.options, how, crew),
        };
        if done.is_none() {
            self.tool.error("interrupted");
        }
        self.tool.finish()
    }
}

impl Worker {
    /// Parses the words that process 0 has taken, in any process of which `here` share the
    /// processors of this machine.
    ///
    /// # Errors
    /// The exit status, if the words are not those that process 0 has taken.
    pub fn parse(words: Vec<OsString>, here: usize) -> Result<Worker, ExitCode> {
        let options = parse(words)?;
        let tool = tool_of(&options, When::Never);
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let helpers = Helpers::new((cpus / here.max(1)).max(1)).ending_by(Stop::on_signals());
        Ok(Worker { options, tool, helpers })
    }

    /// How many jobs to do at a time.
    pub fn threads(&self) -> usize {
        self.helpers.files().max(1)
    }

    /// Does a job.
    pub fn work(&self, job: Job) -> Answer {
        Answer(match job.0 {
            JobKind::Files { names, bytes_max } => AnswerKind::Files(self.files(&names, bytes_max)),
            JobKind::Piece { name, piece, is_joined } => {
                let path = Path::new(&name);
                let answer = self.piece(path, piece, is_joined);
                AnswerKind::Piece(answer.map_err(|error| Failure::of(&self.tool, path, &error)))
            }
            JobKind::Lines(lines) => {
                let compared = compare(&self.tool, &lines, &self.helpers);
                AnswerKind::Lines(lines, compared)
            }
        })
    }

    fn files(&self, names: &[OsString], bytes_max: u64) -> Vec<FileAnswer> {
        let mut answers = Vec::new();
        let mut bytes = 0;
        for name in names {
            if let Some(size) = self.size(Path::new(name)).filter(|size| *size > bytes_max) {
                answers.push(FileAnswer::Large(size));
                continue;
            }
            let (answer, read) = file(&self.tool, name, &self.options.kinds, &self.helpers);
            answers.push(answer);
            bytes += read;
            if bytes >= JOB_BYTES {
                break;
            }
        }
        answers
    }

    /// The size of a regular file. A striped one counts as small, except where all longer files are
    /// to have digests of their parts.
    fn size(&self, path: &Path) -> Option<u64> {
        let found = path.metadata().ok().filter(|found| found.is_file())?;
        match self.options.parts {
            None => Some(found.len()),
            Some(_) => self.tool.open(path).ok()?.file()?.size().ok(),
        }
    }

    fn piece(&self, path: &Path, piece: Piece, is_joined: bool) -> io::Result<PieceAnswer> {
        let (tool, kinds, helpers) = (&self.tool, &self.options.kinds[..], &self.helpers);
        let answer = match is_joined {
            true => read::parts_of(tool, path, kinds, piece, helpers)?.map(PieceAnswer::Parts),
            false => read::piece(tool, path, kinds, piece, helpers)?.map(PieceAnswer::Sums),
        };
        Ok(answer.unwrap_or(PieceAnswer::Changed))
    }
}

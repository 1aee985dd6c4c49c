//! Digests that several processes compute together, of files on file systems that all of them
//! mount.
//!
//! Process 0 leads (`compute`, `check`): it finds the names (`names`), gives jobs to a
//! [`Crew`] and prints what the answers say, in the order of `dio sum`. A file
//! that turns out to be large is given out again in pieces, if its digests can be joined from those
//! of pieces or if each piece has a digest of its own. What is noted is not read again (`noted`).

mod check;
mod compute;
mod jobs;
mod names;
mod noted;

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use dio::stream::Input;
use dio_digest::{DigestKind, Sum};

use super::args::{self, SumArgs};
use super::check::compare_by;
use super::format::Piece;
use super::options::SumOptions;
use super::read::{self, Failure, Helpers};
use super::tell_instructions;
use crate::stop::Stop;
use crate::tool::{Crew, IoArgs, Mode, Notes, Tool, When};
pub use jobs::{Answer, Job};
use jobs::{AnswerKind, FileAnswer, JOB_BYTES, JobKind, PieceAnswer, file};
use noted::{Subject, noted_or};

/// The files of a list of digests, or the lists to check.
pub struct Command {
    options: SumOptions,
    tool: Tool,
}

/// A command that is done but for its receipt.
pub struct Led(Tool);

/// What a process needs to do jobs.
pub struct Worker {
    options: SumOptions,
    tool: Tool,
    helpers: Helpers,
    notes: Option<Arc<dyn Notes>>,
}

/// Returns the tool that reads files.
fn tool_of(options: &SumOptions, progress: When) -> Tool {
    let strict = options.io.strict && (options.check.is_none() || options.io.mode != Mode::Auto);
    Tool::new("sum", &IoArgs { strict, progress, ..options.io.clone() })
}

fn parse(words: Vec<OsString>) -> Result<SumOptions, ExitCode> {
    args::grammar("sum").resolve_from(SumArgs::default(), words, SumOptions::of)
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
        tool.begin(options.files.iter().map(|file| file.as_os_str()))?;
        Ok(Command { options, tool })
    }

    /// Does all of it with a crew.
    pub fn lead(self, crew: &dyn Crew<Job, Answer>) -> Led {
        let done = match &self.options.check {
            None => compute::run(&self.tool, &self.options, crew),
            Some(how) => check::run(&self.tool, &self.options, how, crew),
        };
        if done.is_none() {
            self.tool.error("interrupted");
        }
        Led(self.tool)
    }
}

impl Led {
    /// Ends the command in process 0 by the accounts of the other processes, and the reasons why
    /// something could not be noted. Returns the exit status, in which a stop counts as a failure.
    pub fn conclude(
        self,
        worker: &Worker,
        accounts: Vec<String>,
        not_noted: Vec<String>,
    ) -> ExitCode {
        not_noted.iter().for_each(|why| self.0.error(why));
        self.0.ledger().absorb(worker.tool.ledger());
        self.0.add_accounts(accounts);
        self.0.finish()
    }
}

impl Worker {
    /// Parses the words that process 0 has taken, in any process of which `here` share the
    /// processors of this machine. Digests are noted in `notes`.
    ///
    /// # Errors
    /// The exit status, if the words are not those that process 0 has taken.
    pub fn parse(
        words: Vec<OsString>,
        here: usize,
        notes: Option<Arc<dyn Notes>>,
    ) -> Result<Worker, ExitCode> {
        let options = parse(words)?;
        let tool = tool_of(&options, When::Never);
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let helpers = Helpers::new((cpus / here.max(1)).max(1)).ending_by(Stop::on_signals());
        if notes.is_some() {
            tool.ledger().count_noted(0, 0);
        }
        Ok(Worker { options, tool, helpers, notes })
    }

    /// How many jobs to do at a time.
    pub fn threads(&self) -> usize {
        self.helpers.files().max(1)
    }

    /// Returns what this process has done, if a receipt is wanted.
    pub fn account(&self) -> Option<String> {
        self.tool.account()
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
                let compared = compare_by(&self.tool, &lines, |path, kinds, piece| {
                    self.sums(path, kinds, piece)
                });
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
            let (answer, read) = self.file(name);
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
            // It is not counted here.
            Some(_) => Input::open(path, self.tool.stream_options()).ok()?.file()?.size().ok(),
        }
    }

    /// The digests of a whole file, and how many bytes of it were read.
    fn file(&self, name: &OsString) -> (FileAnswer, u64) {
        let (path, kinds) = (Path::new(name), &self.options.kinds[..]);
        noted_or(
            self.notes.as_ref(),
            Subject { path, kinds, piece: None },
            |sums, length| {
                self.tool.ledger().count_noted(length, 1);
                (FileAnswer::Sums(sums), 0)
            },
            || file(&self.tool, name, kinds, &self.helpers),
            |(answer, _)| match answer {
                FileAnswer::Sums(sums) => Some(sums),
                _ => None,
            },
        )
    }

    fn piece(&self, path: &Path, piece: Piece, is_joined: bool) -> io::Result<PieceAnswer> {
        let kinds = &self.options.kinds[..];
        if !is_joined {
            let sums = self.sums(path, kinds, Some(piece))?;
            return Ok(sums.map_or(PieceAnswer::Changed, PieceAnswer::Sums));
        }
        noted_or(
            self.notes.as_ref(),
            Subject { path, kinds, piece: Some(piece) },
            |parts, length| {
                self.tool.ledger().count_noted(length, 0);
                Ok(PieceAnswer::Parts(parts))
            },
            || {
                let parts = read::parts_of(&self.tool, path, kinds, piece, &self.helpers)?;
                Ok(parts.map_or(PieceAnswer::Changed, PieceAnswer::Parts))
            },
            |answer| match answer {
                Ok(PieceAnswer::Parts(parts)) => Some(parts),
                _ => None,
            },
        )
    }

    /// The digests of a file, or of a piece of one; `None` if the file has another size.
    fn sums(
        &self,
        path: &Path,
        kinds: &[DigestKind],
        piece: Option<Piece>,
    ) -> io::Result<Option<Vec<Sum>>> {
        noted_or(
            self.notes.as_ref(),
            Subject { path, kinds, piece },
            |sums, length| {
                self.tool.ledger().count_noted(length, u64::from(piece.is_none()));
                Ok(Some(sums))
            },
            || match piece {
                None => read::file(&self.tool, path, kinds, &self.helpers).map(Some),
                Some(piece) => read::piece(&self.tool, path, kinds, piece, &self.helpers),
            },
            |sums| sums.as_ref().ok()?.as_ref(),
        )
    }
}

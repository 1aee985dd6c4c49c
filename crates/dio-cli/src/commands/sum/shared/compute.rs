//! The leader of a crew that computes digests: keeps the files that are under way in the order of
//! their lines, and prints those that are complete.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ffi::OsString;
use std::io;
use std::path::Path;

use dio_digest::{DigestPart, Joiner, Sum};

use super::super::format::{Piece, Style};
use super::super::options::SumOptions;
use super::super::read::{CHANGED, Failure, Helpers};
use super::jobs::{
    Answer, AnswerKind, FileAnswer, Job, JobKind, PIECE_BYTES, PieceAnswer, file, is_stdin,
};
use super::names::Names;
use crate::quote::named;
use crate::tool::{Crew, Tool};

/// Maximum number of files in one job.
const FILES_MAX: u64 = 64;

/// How many files may be under way or wait to be printed, for each job that may be under way.
const FILES_PER_JOB: usize = 64;

/// A file under way. Its number is its position in the order of the output.
enum State {
    /// Another process computes its digests.
    Given,
    Pieces(Pieces),
    /// Its lines, or the message about it.
    Done(Result<Vec<u8>, Failure>),
}

/// A large file, which is given out in pieces.
struct Pieces {
    size: u64,
    length: u64,
    /// How many were given, and how many are in `lines` or `joiners`.
    given: u64,
    taken: u64,
    /// Answers that came before those of the pieces ahead of them.
    early: BTreeMap<u64, PieceAnswer>,
    lines: Vec<u8>,
    /// One for each digest, if the digests of the pieces are joined.
    joiners: Vec<Joiner>,
}

/// The purpose of a job that was given.
enum Given {
    Files(Vec<u64>),
    Piece(u64, u64),
}

struct Computing<'a> {
    tool: &'a Tool,
    options: &'a SumOptions,
    crew: &'a dyn Crew<Job, Answer>,
    names: Names,
    /// Files that are neither printed nor forgotten; `printed` have been before them.
    files: VecDeque<(OsString, State)>,
    printed: u64,
    /// Files that a process gave back.
    left: VecDeque<u64>,
    /// Files of which pieces are to be given.
    large: VecDeque<u64>,
    given: HashMap<u64, Given>,
    jobs: u64,
    files_given: u64,
}

/// Computes and prints; `None` if it was stopped.
pub(super) fn run(tool: &Tool, options: &SumOptions, crew: &dyn Crew<Job, Answer>) -> Option<()> {
    let names = Names::new(&options.files, options.format.style != Style::Raw);
    let mut computing = Computing {
        tool,
        options,
        crew,
        names,
        files: VecDeque::new(),
        printed: 0,
        left: VecDeque::new(),
        large: VecDeque::new(),
        given: HashMap::new(),
        jobs: 0,
        files_given: 0,
    };
    loop {
        while computing.given.len() < crew.jobs_max() && computing.give() {}
        if let Err(error) = computing.print() {
            tool.write_failed(&error);
            return Some(());
        }
        if computing.given.is_empty() && computing.files.is_empty() {
            return Some(());
        }
        if !computing.given.is_empty() {
            let (number, answer) = crew.answer()?;
            computing.take(number, answer);
        }
    }
}

impl Computing<'_> {
    /// Gives one job, or finds the state of one file; returns whether there was any.
    fn give(&mut self) -> bool {
        if let Some(&number) = self.large.front() {
            self.give_piece(number);
            return true;
        }
        let count = self.batch();
        let mut names = Vec::new();
        let mut numbers = Vec::new();
        while names.len() < count
            && let Some(number) = self.left.pop_front()
        {
            names.push(self.entry(number).0.clone());
            numbers.push(number);
        }
        let room = self.crew.jobs_max() * FILES_PER_JOB;
        let mut found = !names.is_empty();
        while names.len() < count && self.files.len() < room {
            let Some((name, error)) = self.names.next() else { break };
            found = true;
            let number = self.printed + self.files.len() as u64;
            let state = match error {
                Some(error) => State::Done(Err(Failure::of(self.tool, Path::new(&name), &error))),
                None if is_stdin(name.as_encoded_bytes()) => self.stdin(&name),
                None => {
                    names.push(name.clone());
                    numbers.push(number);
                    State::Given
                }
            };
            self.files.push_back((name, state));
        }
        if !names.is_empty() {
            self.files_given += names.len() as u64;
            let bytes_max = self.bytes_max();
            self.job(Given::Files(numbers), JobKind::Files { names, bytes_max });
        }
        found
    }

    /// The number of files for the next job: few at first, so that a short list is shared.
    fn batch(&self) -> usize {
        let busy = 4 * self.crew.jobs_max() as u64;
        (1 + self.files_given / busy).min(FILES_MAX) as usize
    }

    /// The size up to which one process reads a file alone.
    fn bytes_max(&self) -> u64 {
        match self.options.parts {
            Some(length) => length,
            None if self.options.kinds.iter().all(|kind| kind.in_parts()) => PIECE_BYTES,
            None => u64::MAX,
        }
    }

    /// Digests standard input, in this process.
    fn stdin(&self, name: &OsString) -> State {
        let helpers = Helpers::new(1);
        let (answer, _) = file(self.tool, name, &self.options.kinds, &helpers);
        match answer {
            FileAnswer::Sums(sums) => State::Done(Ok(self.lines(name, None, &sums))),
            FileAnswer::Failed(failure) => State::Done(Err(failure)),
            FileAnswer::Large(_) => State::Done(Ok(Vec::new())),
        }
    }

    fn lines(&self, name: &OsString, piece: Option<Piece>, sums: &[Sum]) -> Vec<u8> {
        let mut lines = Vec::new();
        self.options.lines(&mut lines, name, piece, sums);
        lines
    }

    fn give_piece(&mut self, number: u64) {
        let is_joined = self.options.parts.is_none();
        // A file that has failed meanwhile has no pieces, and may have been printed.
        let Some((name, State::Pieces(pieces))) = self.find(number) else {
            self.large.pop_front();
            return;
        };
        let name = name.clone();
        let index = pieces.given;
        let piece = Piece::number(index, pieces.size, pieces.length);
        pieces.given += 1;
        if pieces.given == pieces.count() {
            self.large.pop_front();
        }
        self.job(Given::Piece(number, index), JobKind::Piece { name, piece, is_joined });
    }

    fn job(&mut self, purpose: Given, job: JobKind) {
        self.given.insert(self.jobs, purpose);
        self.crew.give(self.jobs, Job(job));
        self.jobs += 1;
    }

    /// A file that was not printed.
    fn find(&mut self, number: u64) -> Option<&mut (OsString, State)> {
        self.files.get_mut(number.checked_sub(self.printed)? as usize)
    }

    /// A file whose digests are awaited.
    fn entry(&mut self, number: u64) -> &mut (OsString, State) {
        self.find(number).expect("it is printed when its digests are known")
    }

    fn take(&mut self, job: u64, answer: Answer) {
        match (self.given.remove(&job), answer.0) {
            (Some(Given::Files(numbers)), AnswerKind::Files(answers)) => {
                self.left.extend(numbers.iter().skip(answers.len()));
                for (number, answer) in numbers.into_iter().zip(answers) {
                    self.take_file(number, answer);
                }
            }
            (Some(Given::Piece(number, index)), AnswerKind::Piece(answer)) => {
                self.take_piece(number, index, answer);
            }
            _ => unreachable!("every job has one answer of its kind"),
        }
    }

    fn take_file(&mut self, number: u64, answer: FileAnswer) {
        let state = match answer {
            FileAnswer::Sums(sums) => {
                self.tool.progressed(sums.first().map_or(0, |sum| sum.length));
                let name = self.entry(number).0.clone();
                State::Done(Ok(self.lines(&name, None, &sums)))
            }
            FileAnswer::Failed(failure) => State::Done(Err(failure)),
            FileAnswer::Large(size) => {
                self.large.push_back(number);
                let joined = self.options.kinds.iter().filter(|_| self.options.parts.is_none());
                State::Pieces(Pieces {
                    size,
                    length: self.bytes_max(),
                    given: 0,
                    taken: 0,
                    early: BTreeMap::new(),
                    lines: Vec::new(),
                    joiners: joined.map(|kind| Joiner::new(*kind)).collect(),
                })
            }
        };
        self.entry(number).1 = state;
    }

    fn take_piece(&mut self, number: u64, index: u64, answer: Result<PieceAnswer, Failure>) {
        // A file of which another piece could not be read is done.
        let (tool, options) = (self.tool, self.options);
        let Some((name, State::Pieces(pieces))) = self.find(number) else { return };
        let state = match answer {
            Err(failure) => State::Done(Err(failure)),
            Ok(PieceAnswer::Changed) if options.parts.is_none() => {
                // By one process that reads up to the end, wherever it is then.
                let names = vec![name.clone()];
                let job = JobKind::Files { names, bytes_max: u64::MAX };
                self.job(Given::Files(vec![number]), job);
                State::Given
            }
            Ok(PieceAnswer::Changed) => {
                let text = format!("{}: {CHANGED}", named(Path::new(name)));
                State::Done(Err(Failure { text, is_missing: false }))
            }
            Ok(answer) => {
                tool.progressed(Piece::number(index, pieces.size, pieces.length).length);
                pieces.early.insert(index, answer);
                while let Some(answer) = pieces.early.remove(&pieces.taken) {
                    let piece = Piece::number(pieces.taken, pieces.size, pieces.length);
                    pieces.taken += 1;
                    match answer {
                        PieceAnswer::Sums(sums) => {
                            options.lines(&mut pieces.lines, name, Some(piece), &sums);
                        }
                        PieceAnswer::Parts(parts) => pieces.join(parts, piece.length),
                        PieceAnswer::Changed => {}
                    }
                }
                if pieces.taken < pieces.count() {
                    return;
                }
                let joiners = std::mem::take(&mut pieces.joiners);
                let mut lines = std::mem::take(&mut pieces.lines);
                let sums: Vec<Sum> = joiners.into_iter().filter_map(Joiner::finish).collect();
                options.lines(&mut lines, name, None, &sums);
                State::Done(Ok(lines))
            }
        };
        self.entry(number).1 = state;
    }

    /// Prints the files that are complete and have no other before them.
    fn print(&mut self) -> io::Result<()> {
        while let Some((_, State::Done(_))) = self.files.front() {
            let Some((_, State::Done(done))) = self.files.pop_front() else { break };
            self.printed += 1;
            match done {
                Ok(lines) => self.tool.print(&lines)?,
                Err(failure) => self.tool.error(failure.text),
            }
        }
        Ok(())
    }
}

impl Pieces {
    fn count(&self) -> u64 {
        self.size.div_ceil(self.length)
    }

    fn join(&mut self, parts: Vec<DigestPart>, length: u64) {
        for (joiner, part) in self.joiners.iter_mut().zip(parts) {
            joiner.push(part, length);
        }
    }
}

//! Archives that several processes write or extract together, on file systems that all of them
//! mount.
//!
//! Process 0 walks and makes the headers as `dio tar -c` does. What lies where in the archive is
//! known from the sizes of the files, so a [`Crew`] writes it piece by piece. For `-x`, process 0
//! reads the headers as `dio tar -x` does, and the crew extracts the files.

use std::ffi::OsString;
use std::io;
use std::process::ExitCode;
use std::sync::Arc;

use super::create::{self, PieceWriter};
use super::create::{PieceAnswer, PieceJob};
use super::extract::{self, ExtractAnswer, ExtractPart, ExtractWork};
use super::options::{Operation, TarOptions};
use super::run::{EarlyEnd, TarRun};
use super::{args, read, started};
use crate::grammar::Refusal;
use crate::tool::{Crew, Notes, Tool};
use serde::{Deserialize, Serialize};

/// A command line that process 0 has checked.
pub struct Command {
    options: TarOptions,
    notes: Option<Arc<dyn Notes>>,
}

/// A command that is done but for its receipt, or the status with which it did not begin.
pub struct Led(Result<(TarRun, Result<(), EarlyEnd>), ExitCode>);

/// What a process needs to do jobs.
pub struct Worker(Part);

enum Part {
    Create(PieceWriter),
    Extract(Box<ExtractPart>),
}

/// What a process does for the others.
#[derive(Debug, Serialize, Deserialize)]
pub enum Job {
    /// Writes a piece of an archive.
    Create(PieceJob),
    /// Extracts files of an archive.
    Extract(ExtractWork),
}

/// The answer to a [`Job`].
#[derive(Debug, Serialize, Deserialize)]
pub enum Answer {
    /// The answer to [`Job::Create`].
    Create(PieceAnswer),
    /// The answer to [`Job::Extract`].
    Extract(ExtractAnswer),
}

/// A crew that does jobs of one kind.
struct OneKind<'c, J, A> {
    crew: &'c dyn Crew<Job, Answer>,
    job: fn(J) -> Job,
    /// Returns nothing for an answer to a job of another kind, which nobody gave.
    answer: fn(Answer) -> Option<A>,
}

impl<J, A> Crew<J, A> for OneKind<'_, J, A> {
    fn jobs_max(&self) -> usize {
        self.crew.jobs_max()
    }

    fn give(&self, number: u64, job: J) {
        self.crew.give(number, (self.job)(job));
    }

    fn processes(&self) -> usize {
        self.crew.processes()
    }

    fn give_to(&self, process: usize, number: u64, job: J) {
        self.crew.give_to(process, number, (self.job)(job));
    }

    fn answer(&self) -> Option<(u64, A)> {
        let (number, answer) = self.crew.answer()?;
        Some((number, (self.answer)(answer)?))
    }
}

fn parse(words: Vec<OsString>) -> Result<TarOptions, ExitCode> {
    let options = read(words)?;
    let creates = options.operation == Operation::Create;
    let extracts = options.operation == Operation::Extract;
    let is_compressed = options.compression.is_some();
    let refused = [
        (!creates && !extracts, "several processes only create (-c) and extract (-x) archives"),
        (options.archive == "-", "several processes need a file for the archive (-f)"),
        (creates && is_compressed, "several processes do not compress"),
        (
            is_compressed,
            "several processes do not decompress: do it first, or extract by one process",
        ),
        (extracts && options.to_stdout, "-O: not for several processes"),
        (extracts && options.dereference, "-h with -x: not for several processes"),
        (
            extracts && options.one_top_level.is_some(),
            "--one-top-level: not for several processes; make the directory, and name it by -C",
        ),
        (options.remove_files, "--remove-files: not for several processes"),
        (options.interactive, "-w: nobody can be asked by several processes"),
        (options.verify, "-W: not for several processes"),
    ];
    match refused.into_iter().find(|(is_given, _)| *is_given) {
        Some((_, told)) => Err(args::grammar().refuse(&Refusal::plain(told).with_status(2))),
        None => Ok(options),
    }
}

impl Command {
    /// Parses the words behind `tar`, in process 0.
    ///
    /// # Errors
    /// The exit status, if there is nothing to do; the message was printed.
    pub fn parse(words: Vec<OsString>) -> Result<Command, ExitCode> {
        parse(words).map(|options| Command { options, notes: None })
    }

    /// Returns why this cannot go on by a journal, if it cannot.
    pub fn refusal_of_journal(&self) -> Option<&'static str> {
        let existing = &self.options.existing;
        let keeps = existing.keep_old || existing.skip_old || existing.keep_newer;
        let unlinks = existing.unlink_first || existing.recursive_unlink;
        let refused = [
            (self.options.in_place, "--journal needs the old archive, which --in-place overwrites"),
            (
                keeps || existing.no_overwrite_dir,
                "--journal: what is half done when the job is cut short would be kept",
            ),
            (unlinks, "--journal: what is done would be removed when the job goes on"),
        ];
        refused.into_iter().find(|(is_given, _)| *is_given).map(|(_, told)| told)
    }

    /// Has the command go on by the notes of earlier attempts, and note more.
    pub fn keep_notes(&mut self, notes: Arc<dyn Notes>) {
        self.notes = Some(notes);
    }

    /// Creates or extracts the archive with a crew.
    pub fn lead(self, crew: &dyn Crew<Job, Answer>) -> Led {
        let run = match started(self.options) {
            Ok(run) => run,
            Err(status) => return Led(Err(status)),
        };
        let ended = match run.options.operation {
            Operation::Extract => {
                let answer = |answer| match answer {
                    Answer::Extract(answer) => Some(answer),
                    Answer::Create(_) => None,
                };
                let crew = OneKind { crew, job: Job::Extract, answer };
                extract::run_shared(&run, &crew, self.notes.as_ref())
            }
            _ => {
                let answer = |answer| match answer {
                    Answer::Create(answer) => Some(answer),
                    Answer::Extract(_) => None,
                };
                let crew = OneKind { crew, job: Job::Create, answer };
                create::run_shared(&run, &crew, self.notes.as_ref())
            }
        };
        let ended = match ended {
            // The caller ends by the signal, when all processes have ended their parts.
            Err(EarlyEnd::Signal) => {
                run.note("interrupted");
                Err(EarlyEnd::Told)
            }
            ended => ended,
        };
        Led(Ok((run, ended)))
    }
}

impl Led {
    /// Ends the command in process 0 by the accounts of the other processes, and the reasons why
    /// something could not be noted. Returns the exit status, in which a stop is a failure.
    pub fn conclude(
        self,
        worker: &Worker,
        accounts: Vec<String>,
        not_noted: Vec<String>,
    ) -> ExitCode {
        match self.0 {
            Ok((run, ended)) => {
                not_noted.iter().for_each(|why| run.error(why));
                run.tool.ledger().absorb(worker.counted().ledger());
                run.tool.add_accounts(accounts);
                run.finish(ended)
            }
            Err(status) => status,
        }
    }
}

impl Worker {
    /// Parses the words that process 0 has taken, in any process. What it does is noted.
    ///
    /// # Errors
    /// The exit status, if the words are not those that process 0 has taken.
    pub fn parse(words: Vec<OsString>, notes: Option<Arc<dyn Notes>>) -> Result<Worker, ExitCode> {
        let options = parse(words)?;
        Ok(Worker(match options.operation {
            Operation::Extract => Part::Extract(Box::new(ExtractPart::new(options, notes))),
            _ => Part::Create(PieceWriter::new(options.io, options.archive, notes)),
        }))
    }

    /// Returns the tool with all that this process has counted.
    fn counted(&self) -> &Tool {
        match &self.0 {
            Part::Create(writer) => writer.counted(),
            Part::Extract(part) => part.counted(),
        }
    }

    /// Waits until what this process has written is on the medium.
    ///
    /// # Errors
    /// Errors of writing and syncing.
    pub fn sync(&self) -> io::Result<()> {
        match &self.0 {
            Part::Create(writer) => writer.sync(),
            Part::Extract(part) => part.sync(),
        }
    }

    /// Returns what this process has done, if a receipt is wanted.
    pub fn account(&self) -> Option<String> {
        self.counted().account()
    }

    /// Does a job.
    ///
    /// # Panics
    /// If the job is not of the command that was parsed.
    pub fn work(&self, job: Job) -> Answer {
        match (&self.0, job) {
            (Part::Create(writer), Job::Create(job)) => Answer::Create(writer.write(job)),
            (Part::Extract(part), Job::Extract(work)) => Answer::Extract(part.work(work)),
            _ => panic!("a job of another command"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::VecDeque;
    use std::fs::{self, File};
    use std::path::Path;

    use rustix::io::Errno;

    use super::*;

    /// One worker, in the same thread, before whose jobs something happens.
    struct Alone<F> {
        worker: Worker,
        before: F,
        answers: RefCell<VecDeque<(u64, Answer)>>,
    }

    impl<F: Fn(u64) -> Option<Errno>> Crew<Job, Answer> for Alone<F> {
        fn jobs_max(&self) -> usize {
            2
        }

        fn processes(&self) -> usize {
            1
        }

        fn give_to(&self, _: usize, number: u64, job: Job) {
            self.give(number, job);
        }

        fn give(&self, number: u64, job: Job) {
            let answer = match (self.before)(number) {
                Some(errno) => Answer::Create(PieceAnswer::failing(errno)),
                None => self.worker.work(job),
            };
            // The newest first: order is for the leader to make.
            self.answers.borrow_mut().push_front((number, answer));
        }

        fn answer(&self) -> Option<(u64, Answer)> {
            self.answers.borrow_mut().pop_front()
        }
    }

    /// Archives `large` and `small` in a directory, and returns the exit status.
    fn archive(dir: &Path, before: impl Fn(u64) -> Option<Errno>) -> ExitCode {
        let words = || {
            let name = |name: &str| dir.join(name).into_os_string();
            vec!["-cPf".into(), name("got.tar"), name("large"), name("small")]
        };
        let worker = Worker::parse(words(), None).unwrap();
        let crew = Alone { worker, before, answers: RefCell::default() };
        let led = Command::parse(words()).unwrap().lead(&crew);
        led.conclude(&crew.worker, Vec::new(), Vec::new())
    }

    const LARGE: usize = 70 << 20;

    fn files() -> tempfile::TempDir {
        let scratch = tempfile::tempdir().unwrap();
        fs::write(scratch.path().join("large"), vec![7; LARGE]).unwrap();
        fs::write(scratch.path().join("small"), "small").unwrap();
        scratch
    }

    #[test]
    fn a_file_that_shrinks_is_filled_with_zeros() {
        let (scratch, cut) = (files(), 40 << 20);
        let dir = scratch.path();
        let status = archive(dir, |number| {
            let large = File::options().write(true).open(dir.join("large")).unwrap();
            if number == 1 {
                large.set_len(cut).unwrap();
            }
            None
        });
        assert_eq!(status, ExitCode::from(1));
        let bytes = fs::read(dir.join("got.tar")).unwrap();
        let cut = 512 + cut as usize;
        assert!(bytes[512..cut].iter().all(|byte| *byte == 7));
        assert!(bytes[cut..512 + LARGE].iter().all(|byte| *byte == 0));
        assert_eq!(&bytes[512 + LARGE + 512..][..5], b"small");
        assert_eq!(bytes.len() % 10_240, 0);
    }

    #[test]
    fn a_file_that_grows_is_told_and_one_that_is_gone_is_an_error() {
        let scratch = files();
        let dir = scratch.path();
        let status = archive(dir, |number| {
            let large = File::options().write(true).open(dir.join("large")).unwrap();
            if number == 2 {
                large.set_len(LARGE as u64 + 1).unwrap();
            }
            None
        });
        assert_eq!(status, ExitCode::from(1));
        let scratch = files();
        let dir = scratch.path();
        let status = archive(dir, |number| {
            if number == 2 {
                fs::remove_file(dir.join("small")).unwrap();
            }
            None
        });
        assert_eq!(status, ExitCode::from(2));
        let bytes = fs::read(dir.join("got.tar")).unwrap();
        assert_eq!(bytes[512 + LARGE + 512..][..5], [0; 5]);
    }

    #[test]
    fn a_full_archive_ends_the_run_and_keeps_the_old_one() {
        let scratch = files();
        let dir = scratch.path();
        fs::write(dir.join("got.tar"), "old").unwrap();
        let status = archive(dir, |number| (number == 1).then_some(Errno::NOSPC));
        assert_eq!(status, ExitCode::from(2));
        assert_eq!(fs::read(dir.join("got.tar")).unwrap(), b"old");
        assert_eq!(fs::read_dir(dir).unwrap().count(), 3, "nothing stays beside it");
        assert_eq!(archive(dir, |_| None), ExitCode::SUCCESS);
        assert!(fs::read(dir.join("got.tar")).unwrap().len() > LARGE);
    }
}

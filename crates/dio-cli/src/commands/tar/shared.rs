//! Archives that several processes write together, on file systems that all of them mount.
//!
//! Process 0 walks and makes the headers as `dio tar -c` does. What lies where in the archive is
//! known from the sizes of the files, so a [`Crew`] writes it piece by piece.

use std::ffi::OsString;
use std::process::ExitCode;

use super::create::{self, PieceWriter};
pub use super::create::{PieceAnswer, PieceJob};
use super::options::{Operation, TarOptions};
use super::run::EarlyEnd;
use super::{args, read, started};
use crate::grammar::Refusal;
use crate::tool::Crew;

/// A command line that process 0 has checked.
pub struct Command(TarOptions);

/// What a process needs to write pieces.
pub struct Worker(PieceWriter);

fn parse(words: Vec<OsString>) -> Result<TarOptions, ExitCode> {
    let options = read(words)?;
    let refused = [
        (options.operation != Operation::Create, "several processes only create archives (-c)"),
        (options.archive == "-", "several processes need a file for the archive (-f)"),
        (options.compression.is_some(), "several processes do not compress"),
        (options.remove_files, "--remove-files: not for several processes"),
        (options.interactive, "-w: nobody can be asked by several processes"),
        (options.verify, "-W: not for several processes"),
        (options.io.receipt.is_some(), "--receipt: not for several processes"),
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
        parse(words).map(Command)
    }

    /// Creates the archive with a crew. Returns the exit status, in which a stop is a failure.
    pub fn lead(self, crew: &dyn Crew<PieceJob, PieceAnswer>) -> ExitCode {
        let run = match started(self.0) {
            Ok(run) => run,
            Err(status) => return status,
        };
        let ended = match create::run_shared(&run, crew) {
            // The caller ends by the signal, when all processes have ended their parts.
            Err(EarlyEnd::Signal) => {
                run.note("interrupted");
                Err(EarlyEnd::Told)
            }
            ended => ended,
        };
        run.finish(ended)
    }
}

impl Worker {
    /// Parses the words that process 0 has taken, in any process.
    ///
    /// # Errors
    /// The exit status, if the words are not those that process 0 has taken.
    pub fn parse(words: Vec<OsString>) -> Result<Worker, ExitCode> {
        let options = parse(words)?;
        Ok(Worker(PieceWriter::new(options.io.stream_options())))
    }

    /// Does a job.
    pub fn work(&self, job: PieceJob) -> PieceAnswer {
        self.0.write(job)
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
        answers: RefCell<VecDeque<(u64, PieceAnswer)>>,
    }

    impl<F: Fn(u64) -> Option<Errno>> Crew<PieceJob, PieceAnswer> for Alone<F> {
        fn jobs_max(&self) -> usize {
            2
        }

        fn give(&self, number: u64, job: PieceJob) {
            let answer = match (self.before)(number) {
                Some(errno) => PieceAnswer::failing(errno),
                None => self.worker.work(job),
            };
            // The newest first: order is for the leader to make.
            self.answers.borrow_mut().push_front((number, answer));
        }

        fn answer(&self) -> Option<(u64, PieceAnswer)> {
            self.answers.borrow_mut().pop_front()
        }
    }

    /// Archives `large` and `small` in a directory, and returns the exit status.
    fn archive(dir: &Path, before: impl Fn(u64) -> Option<Errno>) -> ExitCode {
        let words = || {
            let name = |name: &str| dir.join(name).into_os_string();
            vec!["-cPf".into(), name("got.tar"), name("large"), name("small")]
        };
        let worker = Worker::parse(words()).unwrap();
        let crew = Alone { worker, before, answers: RefCell::default() };
        Command::parse(words()).unwrap().lead(&crew)
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

//! `dio-mpi tar`: archives that all ranks write or extract.

use std::ffi::OsString;
use std::io;
use std::process::ExitCode;
use std::sync::Arc;

use dio_cli::commands::tar::shared::{Answer, Command, Job, Led, Worker};
use dio_cli::tool::{Crew, Notes};

use crate::crew::Shared;

/// Maximum number of pieces or batches of files that a rank writes at a time.
const PIECES_MAX: usize = 8;

/// The command, for [`crate::crew::run`].
pub(super) struct Tar;

impl Shared for Tar {
    const NAME: &'static str = "tar";
    type Command = Command;
    type Worker = Worker;
    type Led = Led;
    type Job = Job;
    type Answer = Answer;

    fn parse(words: Vec<OsString>) -> Result<Command, ExitCode> {
        Command::parse(words)
    }

    fn refusal_of_journal(command: &Command) -> Option<&'static str> {
        command.refusal_of_journal()
    }

    fn keep_notes(command: &mut Command, notes: Arc<dyn Notes>) {
        command.keep_notes(notes);
    }

    fn worker(
        words: Vec<OsString>,
        here: usize,
        notes: Option<Arc<dyn Notes>>,
    ) -> Result<(usize, Worker), ExitCode> {
        // Two for each processor, since a job reads and writes in turn.
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = (2 * processors / here.max(1)).clamp(1, PIECES_MAX);
        Worker::parse(words, notes).map(|worker| (threads, worker))
    }

    fn sync(worker: &Worker) -> io::Result<()> {
        worker.sync()
    }

    fn work(worker: &Worker, job: Job) -> Answer {
        worker.work(job)
    }

    fn lead(command: Command, crew: &dyn Crew<Job, Answer>) -> Led {
        command.lead(crew)
    }

    fn account(worker: &Worker) -> Option<String> {
        worker.account()
    }

    fn conclude(
        led: Led,
        worker: &Worker,
        accounts: Vec<String>,
        not_noted: Vec<String>,
    ) -> ExitCode {
        led.conclude(worker, accounts, not_noted)
    }
}

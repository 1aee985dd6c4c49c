//! `dio-mpi sum`: digests computed and checked by all ranks.

use std::ffi::OsString;
use std::io;
use std::process::ExitCode;
use std::sync::Arc;

use dio_cli::commands::sum::shared::{Answer, Command, Job, Led, Worker};
use dio_cli::tool::{Crew, Notes};

use crate::crew::Shared;

/// The command, for [`crate::crew::run`].
pub(super) struct Sum;

impl Shared for Sum {
    const NAME: &'static str = "sum";
    type Command = Command;
    type Worker = Worker;
    type Led = Led;
    type Job = Job;
    type Answer = Answer;

    fn parse(words: Vec<OsString>) -> Result<Command, ExitCode> {
        Command::parse(words)
    }

    fn refusal_of_journal(_: &Command) -> Option<&'static str> {
        None
    }

    /// The ranks that read files keep the notes.
    fn keep_notes(_: &mut Command, _: Arc<dyn Notes>) {}

    fn worker(
        words: Vec<OsString>,
        here: usize,
        notes: Option<Arc<dyn Notes>>,
    ) -> Result<(usize, Worker), ExitCode> {
        Worker::parse(words, here, notes).map(|worker| (worker.threads(), worker))
    }

    /// Nothing is written.
    fn sync(_: &Worker) -> io::Result<()> {
        Ok(())
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

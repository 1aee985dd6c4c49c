//! A crew: threads of all ranks that do jobs which rank 0 gives out, each to a thread that has
//! nothing to do.
//!
//! In rank 0 a thread of its own leads, which gives jobs and takes answers by the trait
//! [`Crew`](dio_cli::tool::Crew). Each rank says once how many jobs it takes at a time; after that,
//! each answer asks for another job.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

use dio_cli::commands::cp::shared::{interrupt, interrupted};
use dio_cli::tool::Notes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::journal::{self, Journal, Notebook};
use crate::messages::{next, pass_on, send};
use crate::options::{self, take_option};
use crate::transport::Ranks;

/// The longest and the shortest time that a rank does not look for messages.
const NAP_LONGEST: Duration = Duration::from_millis(1);
const NAP_SHORTEST: Duration = Duration::from_micros(20);

/// A message between ranks about jobs of the type `J` and answers of the type `A`.
#[derive(Debug, Serialize, Deserialize)]
enum Message<J, A> {
    /// The command line makes sense, or else there is nothing to do.
    Begin(bool),
    /// The sender takes so many jobs at a time.
    Takes(usize),
    Job(u64, J),
    Answer(u64, A),
    /// A signal asks for a stop.
    Interrupt(i32),
    /// Nothing more is to be done.
    Finish,
    /// The sender does nothing more.
    Ended(Ended),
}

/// What a rank other than 0 reports at its end.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Ended {
    /// What it has done, if rank 0 is to report it.
    pub account: Option<String>,
    /// Why it could not note what is complete.
    pub not_noted: Vec<String>,
}

/// An event in a thread of this rank, for the one that calls MPI.
enum Event<J, A> {
    Given(u64, J),
    /// A job for this rank only.
    GivenTo(usize, u64, J),
    Answered(u64, A),
    /// The leader is done.
    Ended,
    Panicked,
}

/// A command that rank 0 leads, and all ranks do jobs of.
pub trait Shared {
    /// The name of the command.
    const NAME: &'static str;
    /// The whole command, in rank 0.
    type Command: Send + 'static;
    /// The state that every rank needs to do jobs.
    type Worker: Send + Sync + 'static;
    /// The command when there are no more jobs.
    type Led: Send + 'static;
    /// A job.
    type Job: Serialize + DeserializeOwned + Send + 'static;
    /// The answer to a job.
    type Answer: Serialize + DeserializeOwned + Send + 'static;

    /// Parses the words of the command.
    ///
    /// # Errors
    /// The exit status, if there is nothing to do; the message was printed.
    fn parse(words: Vec<OsString>) -> Result<Self::Command, ExitCode>;

    /// Returns why the command cannot have a journal, if it cannot.
    fn refusal_of_journal(command: &Self::Command) -> Option<&'static str>;

    /// Has rank 0 go on by the notes of earlier attempts.
    fn keep_notes(command: &mut Self::Command, notes: Arc<dyn Notes>);

    /// Parses the same words in any rank, of which `here` are on this machine. Returns the number
    /// of its threads too.
    ///
    /// # Errors
    /// The exit status, if these are not the words that rank 0 has taken.
    fn worker(
        words: Vec<OsString>,
        here: usize,
        notes: Option<Arc<dyn Notes>>,
    ) -> Result<(usize, Self::Worker), ExitCode>;

    /// Makes durable what this rank has done, so that it may be noted.
    ///
    /// # Errors
    /// Errors of syncing.
    fn sync(worker: &Self::Worker) -> io::Result<()>;

    /// Does a job.
    fn work(worker: &Self::Worker, job: Self::Job) -> Self::Answer;

    /// Leads the command.
    fn lead(
        command: Self::Command,
        crew: &dyn dio_cli::tool::Crew<Self::Job, Self::Answer>,
    ) -> Self::Led;

    /// Returns what a rank other than 0 has done, if rank 0 is to report it.
    fn account(worker: &Self::Worker) -> Option<String>;

    /// Ends the command in rank 0, when all ranks are done, by the ends of the others and the
    /// reasons why something could not be noted. Returns the exit status.
    fn conclude(
        led: Self::Led,
        worker: &Self::Worker,
        accounts: Vec<String>,
        not_noted: Vec<String>,
    ) -> ExitCode;
}

/// Runs a command in this rank, by the words that all ranks were called with. Rank 0 has them
/// parsed as those of the whole command, and every rank for what its threads need to do jobs. Only
/// rank 0 returns another status than success.
pub fn run<C: Shared>(ranks: &mut Ranks, mut words: Vec<OsString>) -> ExitCode {
    let path = take_option(&mut words, options::JOURNAL).map(PathBuf::from);
    let (command, opened) = if ranks.rank() == 0 {
        let begun = prepare::<C>(words.clone(), path.as_deref());
        pass_on(ranks, &Message::<C::Job, C::Answer>::Begin(begun.is_ok()));
        match begun {
            Ok((command, opened)) => (Some(command), opened),
            Err(status) => return status,
        }
    } else if has_begun::<C::Job, C::Answer>(ranks) {
        (None, path.map(|path| Arc::new(journal::open_other(ranks, C::NAME, &path))))
    } else {
        return ExitCode::SUCCESS;
    };
    let notes = opened.clone().map(|journal| journal as Arc<dyn Notes>);
    let Ok((threads, worker)) = C::worker(words, ranks.ranks_here().1, notes) else {
        // Rank 0 has taken these words, so all ranks were not called with the same ones.
        ranks.abort(2);
    };
    let worker = Arc::new(worker);
    let notebook = opened.map(|journal| {
        let worker = Arc::clone(&worker);
        Notebook::new(journal, Arc::new(move || C::sync(&worker)))
    });
    match command {
        Some(command) => lead::<C>(ranks, threads, &worker, notebook, command),
        None => follow::<C>(ranks, threads, &worker, notebook),
    }
}

/// Checks the command line in rank 0, and opens its part of the journal at `path`.
fn prepare<C: Shared>(
    words: Vec<OsString>,
    path: Option<&Path>,
) -> Result<(C::Command, Option<Arc<Journal>>), ExitCode> {
    let identity = journal::identity_of(C::NAME, &words);
    let mut command = C::parse(words)?;
    let Some(path) = path else { return Ok((command, None)) };
    if let Some(told) = C::refusal_of_journal(&command) {
        journal::say(C::NAME, &told);
        return Err(ExitCode::from(2));
    }
    let (opened, _) = journal::open_first(C::NAME, path, &identity, false)?;
    let opened = Arc::new(opened);
    C::keep_notes(&mut command, Arc::clone(&opened) as Arc<dyn Notes>);
    Ok((command, Some(opened)))
}

/// Waits in a rank other than 0 until it is known whether there is anything to do. Nothing else is
/// sent before.
fn has_begun<J, A>(ranks: &mut Ranks) -> bool
where
    J: Serialize + DeserializeOwned,
    A: Serialize + DeserializeOwned,
{
    loop {
        match next(ranks) {
            Some((_, Message::<J, A>::Begin(has_work))) => {
                pass_on(ranks, &Message::<J, A>::Begin(has_work));
                return has_work;
            }
            Some(_) => {}
            None => std::thread::sleep(NAP_LONGEST),
        }
    }
}

/// The crew as its leader has it.
struct Led<J, A> {
    jobs_max: usize,
    ranks: usize,
    events: Sender<Event<J, A>>,
    answers: Receiver<(u64, A)>,
}

impl<J, A> dio_cli::tool::Crew<J, A> for Led<J, A> {
    fn jobs_max(&self) -> usize {
        self.jobs_max
    }

    fn give(&self, number: u64, job: J) {
        // The receiver lives as long as the command.
        let _ = self.events.send(Event::Given(number, job));
    }

    fn processes(&self) -> usize {
        self.ranks
    }

    fn give_to(&self, process: usize, number: u64, job: J) {
        let _ = self.events.send(Event::GivenTo(process, number, job));
    }

    fn answer(&self) -> Option<(u64, A)> {
        self.answers.recv().ok()
    }
}

/// Runs the leader in rank 0, with `threads` of this rank in the crew. Returns the leader's exit
/// status, or that of a signal.
fn lead<C: Shared>(
    ranks: &mut Ranks,
    threads: usize,
    worker: &C::Worker,
    notebook: Option<Notebook>,
    command: C::Command,
) -> ExitCode {
    let jobs = Jobs::default();
    let (events, received) = mpsc::channel();
    let (answers, answered) = mpsc::channel();
    let (jobs_max, count) = (ranks.ranks() * 2 * (threads + 1), ranks.ranks());
    let work = |job| C::work(worker, job);
    let (led, ends, not_noted) = std::thread::scope(|scope| {
        let crew = Led { jobs_max, ranks: count, events: events.clone(), answers: answered };
        let leader = scope.spawn(move || {
            let _guard = Guard(crew.events.clone());
            let led = C::lead(command, &crew);
            let _ = crew.events.send(Event::Ended);
            led
        });
        let workers = start(scope, threads, &jobs, &events, &work);
        let lead = Lead { idle: VecDeque::new(), given: VecDeque::new(), answers: Some(answers) };
        let mut rank = Rank::new(ranks, &jobs, received, notebook, Some(lead));
        rank.lead().idle.extend(std::iter::repeat_n(0, threads + 1));
        rank.take_part();
        pass_on(rank.ranks, &Message::<C::Job, C::Answer>::Finish);
        let not_noted = rank.end(workers);
        while rank.ends.len() < rank.ranks.ranks() - 1 {
            rank.receive_or_wait();
        }
        let Ok(led) = leader.join() else { rank.ranks.abort(1) };
        (led, rank.ends, not_noted)
    });
    let (mut accounts, mut not_noted) = (Vec::new(), not_noted);
    for end in ends.into_values() {
        accounts.extend(end.account);
        not_noted.extend(end.not_noted);
    }
    let status = C::conclude(led, worker, accounts, not_noted);
    match interrupted() {
        // As a shell reports a process that a signal ended.
        Some(signal) => ExitCode::from(128 + u8::try_from(signal).unwrap_or(0)),
        None => status,
    }
}

/// Takes part in a rank other than 0, with `threads` of this rank in the crew.
fn follow<C: Shared>(
    ranks: &mut Ranks,
    threads: usize,
    worker: &C::Worker,
    notebook: Option<Notebook>,
) -> ExitCode {
    let jobs = Jobs::default();
    let (events, received) = mpsc::channel();
    let work = |job| C::work(worker, job);
    std::thread::scope(|scope| {
        let workers = start(scope, threads, &jobs, &events, &work);
        send(ranks, 0, &Message::<C::Job, C::Answer>::Takes(threads + 1));
        let mut rank = Rank::new(ranks, &jobs, received, notebook, None);
        rank.take_part();
        let not_noted = rank.end(workers);
        let ended = Ended { account: C::account(worker), not_noted };
        send(rank.ranks, 0, &Message::<C::Job, C::Answer>::Ended(ended));
    });
    ExitCode::SUCCESS
}

/// Jobs that wait for a thread of this rank; `None` when no more come.
struct Jobs<J> {
    waiting: Mutex<Option<VecDeque<(u64, J)>>>,
    more: Condvar,
}

impl<J> Default for Jobs<J> {
    fn default() -> Self {
        Jobs { waiting: Mutex::new(Some(VecDeque::new())), more: Condvar::new() }
    }
}

impl<J> Jobs<J> {
    fn push(&self, number: u64, job: J) {
        if let Some(waiting) = &mut *self.waiting.lock().expect("no thread panics with it") {
            waiting.push_back((number, job));
        }
        self.more.notify_one();
    }

    fn close(&self) {
        *self.waiting.lock().expect("no thread panics with it") = None;
        self.more.notify_all();
    }

    fn pop(&self) -> Option<(u64, J)> {
        let mut waiting = self.waiting.lock().expect("no thread panics with it");
        loop {
            match waiting.as_mut()?.pop_front() {
                Some(job) => return Some(job),
                None => waiting = self.more.wait(waiting).expect("no thread panics with it"),
            }
        }
    }
}

/// Reports a panic of the thread that it belongs to.
struct Guard<J, A>(Sender<Event<J, A>>);

impl<J, A> Drop for Guard<J, A> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = self.0.send(Event::Panicked);
        }
    }
}

/// Starts the threads of this rank that do jobs.
fn start<'scope, J: Send, A: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    threads: usize,
    jobs: &'scope Jobs<J>,
    events: &Sender<Event<J, A>>,
    work: &'scope (impl Fn(J) -> A + Sync),
) -> Vec<ScopedJoinHandle<'scope, ()>> {
    let worker = |events: Sender<Event<J, A>>| {
        move || {
            let guard = Guard(events);
            while let Some((number, job)) = jobs.pop() {
                let _ = guard.0.send(Event::Answered(number, work(job)));
            }
        }
    };
    (0..threads).map(|_| scope.spawn(worker(events.clone()))).collect()
}

/// The part of the thread that calls MPI.
struct Rank<'a, J, A> {
    ranks: &'a mut Ranks,
    jobs: &'a Jobs<J>,
    events: Receiver<Event<J, A>>,
    notebook: Option<Notebook>,
    lead: Option<Lead<J, A>>,
    told_interrupt: bool,
    finishing: bool,
    /// In rank 0: the ends of other ranks.
    ends: BTreeMap<usize, Ended>,
}

/// What only rank 0 keeps.
struct Lead<J, A> {
    /// Ranks that take a job, each as often as it takes one.
    idle: VecDeque<usize>,
    given: VecDeque<(u64, J)>,
    /// To the leader, unless it is to stop.
    answers: Option<Sender<(u64, A)>>,
}

impl<'a, J, A> Rank<'a, J, A>
where
    J: Serialize + DeserializeOwned + Send,
    A: Serialize + DeserializeOwned + Send,
{
    fn new(
        ranks: &'a mut Ranks,
        jobs: &'a Jobs<J>,
        events: Receiver<Event<J, A>>,
        notebook: Option<Notebook>,
        lead: Option<Lead<J, A>>,
    ) -> Self {
        let (told_interrupt, finishing, ends) = (false, false, BTreeMap::new());
        Rank { ranks, jobs, events, notebook, lead, told_interrupt, finishing, ends }
    }

    fn lead(&mut self) -> &mut Lead<J, A> {
        self.lead.as_mut().expect("only rank 0 gets such messages")
    }

    /// Takes part until the leader is done.
    fn take_part(&mut self) {
        let mut nap = NAP_SHORTEST;
        while !self.finishing {
            let mut busy = self.receive();
            self.watch_signals();
            self.notebook.iter_mut().for_each(Notebook::look);
            match self.events.recv_timeout(if busy { Duration::ZERO } else { nap }) {
                Ok(event) => {
                    self.take(event);
                    busy = true;
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
            nap = if busy { NAP_SHORTEST } else { (nap * 2).min(NAP_LONGEST) };
        }
    }

    /// Handles the messages that have arrived; returns whether there was any.
    fn receive(&mut self) -> bool {
        let mut any = false;
        while let Some((from, message)) = next(self.ranks) {
            self.handle(from, message);
            any = true;
        }
        any
    }

    fn receive_or_wait(&mut self) {
        if !self.receive() {
            std::thread::sleep(NAP_LONGEST);
        }
    }

    fn handle(&mut self, from: usize, message: Message<J, A>) {
        match message {
            Message::Takes(count) => {
                self.lead().idle.extend(std::iter::repeat_n(from, count));
                self.distribute();
            }
            Message::Answer(number, answer) => self.answered(from, number, answer),
            Message::Job(number, job) => self.jobs.push(number, job),
            Message::Interrupt(signal) => {
                interrupt(signal);
                if self.lead.is_none() {
                    self.told_interrupt = true;
                    pass_on(self.ranks, &Message::<J, A>::Interrupt(signal));
                }
            }
            Message::Finish => {
                self.finishing = true;
                pass_on(self.ranks, &Message::<J, A>::Finish);
            }
            Message::Ended(ended) => {
                self.ends.insert(from, ended);
            }
            Message::Begin(_) => {}
        }
    }

    fn take(&mut self, event: Event<J, A>) {
        match event {
            // A job that comes after a signal is not done.
            Event::Given(number, job) => {
                let lead = self.lead();
                if lead.answers.is_some() {
                    lead.given.push_back((number, job));
                }
                self.distribute();
            }
            Event::GivenTo(rank, number, job) => {
                if self.lead().answers.is_some() {
                    self.send_job(rank, number, job);
                }
            }
            Event::Answered(number, answer) if self.lead.is_some() => {
                self.answered(0, number, answer);
            }
            Event::Answered(number, answer) => {
                send(self.ranks, 0, &Message::<J, A>::Answer(number, answer));
            }
            Event::Ended => {
                self.finishing = true;
                // It may have stopped early. A rank that is told to finish takes no more jobs.
                let lead = self.lead();
                lead.given.clear();
                lead.answers = None;
            }
            Event::Panicked => {
                eprintln!("dio-mpi: a thread panicked: the job ends");
                self.ranks.abort(1);
            }
        }
    }

    /// Passes an answer to the leader, and another job to the rank that gave it.
    fn answered(&mut self, from: usize, number: u64, answer: A) {
        let lead = self.lead();
        lead.idle.push_back(from);
        if let Some(answers) = &lead.answers {
            // A leader that is done waits for no answer.
            let _ = answers.send((number, answer));
        }
        self.distribute();
    }

    /// Gives jobs to ranks that take one.
    fn distribute(&mut self) {
        while let Some(lead) = &mut self.lead
            && !lead.idle.is_empty()
            && let Some((number, job)) = lead.given.pop_front()
            && let Some(rank) = lead.idle.pop_front()
        {
            self.send_job(rank, number, job);
        }
    }

    fn send_job(&mut self, rank: usize, number: u64, job: J) {
        match rank {
            0 => self.jobs.push(number, job),
            _ => send(self.ranks, rank, &Message::<J, A>::Job(number, job)),
        }
    }

    /// Makes a signal that this rank caught known to all, and has the leader stop.
    fn watch_signals(&mut self) {
        let Some(signal) = interrupted().filter(|_| !self.told_interrupt) else { return };
        self.told_interrupt = true;
        match &mut self.lead {
            Some(lead) => {
                lead.answers = None;
                lead.given.clear();
                pass_on(self.ranks, &Message::<J, A>::Interrupt(signal));
            }
            None => send(self.ranks, 0, &Message::<J, A>::Interrupt(signal)),
        }
    }

    /// Waits for the threads of this rank, and notes what they have done. Jobs that have not begun
    /// are forgotten. Returns why something could not be noted.
    fn end(&mut self, workers: Vec<ScopedJoinHandle<'_, ()>>) -> Vec<String> {
        self.jobs.close();
        if workers.into_iter().any(|worker| worker.join().is_err()) {
            eprintln!("dio-mpi: a thread panicked: the job ends");
            self.ranks.abort(1);
        }
        self.notebook.take().map(Notebook::finish).unwrap_or_default()
    }
}

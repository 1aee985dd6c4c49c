//! `dio-mpi cp`, `sync` and `cmp`: the messages of the ranks of one copy or comparison.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use dio_cli::commands::cp::shared::{
    Load, Parcel, Part, Peers, Returned, Summary, THREADS_MAX, Terms, Tool, interrupt, interrupted,
    threads_at_first,
};
use dio_cli::tool::Notes;
use serde::{Deserialize, Serialize};

use super::line::{check_threads, number_of_threads, prepare, say};
use crate::journal::{self, Journal, Noting};
use crate::messages::{next, pass_on};
use crate::options::{self, take_option};
use crate::steal::{Outgoing, Pool, Steal, Stealer};
use crate::transport::Ranks;
use crate::tuning::{Tuner, share_of};
use crate::{messages, tree};

/// The longest time that a rank does not look for messages. MPI has no call that waits for a
/// message or for a thread of this process, whichever comes first.
const NAP_LONGEST: Duration = Duration::from_millis(1);
const NAP_SHORTEST: Duration = Duration::from_micros(20);

/// How often counts travel towards rank 0, which shows bytes and tunes the number of threads.
const COUNTS_EVERY: Duration = Duration::from_millis(100);

/// A message between ranks.
#[derive(Debug, Serialize, Deserialize)]
enum Message {
    /// The copy begins, on these terms; or it does not.
    Begin(Option<Terms>),
    Steal(Steal<Parcel>),
    /// Work that only the receiver can do.
    Assign(Box<Parcel>),
    Returned(Returned),
    /// A line for standard error, or else for standard output.
    Print(bool, Vec<u8>),
    /// Changes in the ranks below and in this one since the last count.
    Count(Load),
    /// The number of threads for each machine from now on.
    Threads(usize),
    /// A signal asks for a stop.
    Interrupt(i32),
    /// All is copied: the receiver makes its part durable, and says so.
    Settle,
    /// Whether the sender's part was copied whole and is durable.
    Settled(bool),
    /// All is done.
    Finish,
    /// The end of a rank's part, and the bytes that it has copied.
    Summary(Summary, u64),
    /// All ranks have ended their parts.
    End,
}

/// The other ranks, for the threads that copy: what they send goes through the thread of MPI.
struct Outbox {
    rank: usize,
    ranks: usize,
    to: Sender<(usize, Message)>,
}

impl Outbox {
    fn send(&self, rank: usize, message: Message) {
        // The receiver lives as long as the copy.
        let _ = self.to.send((rank, message));
    }
}

impl Peers for Outbox {
    fn rank(&self) -> usize {
        self.rank
    }

    fn ranks(&self) -> usize {
        self.ranks
    }

    fn assign(&self, rank: usize, parcel: Parcel) {
        self.send(rank, Message::Assign(Box::new(parcel)));
    }

    fn give_back(&self, rank: usize, returned: Returned) {
        self.send(rank, Message::Returned(returned));
    }

    fn print(&self, error: bool, line: Vec<u8>) {
        self.send(0, Message::Print(error, line));
    }
}

/// The work of this rank, as the distribution of work sees it.
struct Work<'a>(&'a Part);

impl Pool for Work<'_> {
    type Work = Parcel;

    fn is_hungry(&self) -> bool {
        self.0.is_hungry()
    }

    fn can_lend(&self) -> bool {
        self.0.can_lend()
    }

    fn lend(&mut self) -> Vec<Parcel> {
        self.0.lend()
    }

    fn accept(&mut self, _: usize, work: Vec<Parcel>) {
        work.into_iter().for_each(|parcel| self.0.accept(parcel));
    }
}

/// Runs the copy in this rank. Only rank 0 returns another status than success.
pub(super) fn run(ranks: &mut Ranks, tool: Tool, mut words: Vec<OsString>) -> ExitCode {
    let (to, outbox) = mpsc::channel();
    let peers = Arc::new(Outbox { rank: ranks.rank(), ranks: ranks.ranks(), to });
    let (index_here, here) = ranks.ranks_here();
    let path = take_option(&mut words, options::JOURNAL).map(PathBuf::from);
    let threads = take_option(&mut words, options::THREADS);
    let mut early = Vec::new();
    let journal: Option<Arc<Journal>>;
    let part = if ranks.rank() == 0 {
        let begun = check_threads(tool, threads.as_deref())
            .and_then(|()| prepare(tool, words, path.as_deref()));
        let terms = begun.as_ref().ok().map(|(command, _)| command.terms().clone());
        pass_on(ranks, &Message::Begin(terms));
        match begun {
            Ok((command, opened)) => {
                journal = opened.map(Arc::new);
                command.start(peers, here, journal.clone().map(|journal| journal as Arc<dyn Notes>))
            }
            Err(status) => return status,
        }
    } else {
        let (terms, messages) = begin(ranks);
        early = messages;
        let Some(terms) = terms else { return ExitCode::SUCCESS };
        let opened = path.map(|path| journal::open_other(ranks, tool.name(), &path));
        journal = opened.map(Arc::new);
        let notes = journal.clone().map(|journal| journal as Arc<dyn Notes>);
        match Part::join((tool, words), &terms, peers, here, notes) {
            Ok(part) => part,
            // Rank 0 has taken these words, so all ranks were not called with the same ones.
            Err(_) => ranks.abort(2),
        }
    };
    let stealer = Stealer::new(ranks.rank(), ranks.ranks(), u64::from(std::process::id()));
    let summaries = (0..ranks.ranks()).map(|_| None).collect();
    let mut copy = Copy {
        ranks,
        tool,
        part,
        outbox,
        stealer,
        started: Instant::now(),
        finishing: false,
        ended: false,
        told_interrupt: false,
        counts: Counts { below: Load::default(), told: Load::default(), at: Instant::now() },
        here: (index_here, here),
        tuner: None,
        noting: journal.map(Noting::new),
        summaries,
        settled: Settled::default(),
        bytes_elsewhere: 0,
    };
    copy.begin_threads(threads.as_deref().and_then(number_of_threads));
    early.into_iter().for_each(|(from, message)| copy.handle(from, message));
    copy.work();
    copy.finish()
}

/// Waits for the terms, and passes them on. Other ranks may have begun, so their messages are kept.
fn begin(ranks: &mut Ranks) -> (Option<Terms>, Vec<(usize, Message)>) {
    let mut early = Vec::new();
    loop {
        match next(ranks) {
            Some((_, Message::Begin(terms))) => {
                pass_on(ranks, &Message::Begin(terms.clone()));
                return (terms, early);
            }
            Some(other) => early.push(other),
            None => std::thread::sleep(NAP_LONGEST),
        }
    }
}

/// One copy, as a rank takes part in it.
struct Copy<'a> {
    ranks: &'a mut Ranks,
    tool: Tool,
    part: Part,
    outbox: Receiver<(usize, Message)>,
    stealer: Stealer,
    started: Instant,
    finishing: bool,
    /// All ranks have ended their parts.
    ended: bool,
    told_interrupt: bool,
    counts: Counts,
    /// The number of this rank among those of the machine, and how many they are.
    here: (usize, usize),
    /// In rank 0, unless the number of threads is fixed.
    tuner: Option<Tuner>,
    noting: Option<Noting>,
    /// In rank 0: the other ranks' ends.
    summaries: Vec<Option<Summary>>,
    settled: Settled,
    /// In rank 0: what the other ranks have copied.
    bytes_elsewhere: u64,
}

/// In rank 0: how many ranks have made their parts durable, before anything is removed.
#[derive(Default)]
struct Settled {
    ranks: usize,
    /// One of them has failed.
    failed: bool,
}

/// What was done, on its way to rank 0.
struct Counts {
    /// Changes in ranks below this one that were not passed on.
    below: Load,
    /// What was passed on of this rank; in rank 0, what other ranks have told.
    told: Load,
    at: Instant,
}

impl Copy<'_> {
    /// Takes part until all is copied.
    fn work(&mut self) {
        let mut nap = NAP_SHORTEST;
        while !self.finishing {
            let mut busy = false;
            while let Some((from, message)) = next(self.ranks) {
                self.handle(from, message);
                busy = true;
            }
            busy |= self.look();
            self.count();
            if let Some(noting) = &mut self.noting
                && let Some(told) = noting.look(self.part.syncer())
            {
                self.part.tell(true, told);
            }
            self.watch_signals();
            if self.part.is_broken() {
                say(self.tool, &"a thread panicked: the job ends");
                self.ranks.abort(1);
            }
            if self.ranks.rank() == 0 && self.part.is_complete() {
                self.complete();
            }
            nap = if busy { NAP_SHORTEST } else { (nap * 2).min(NAP_LONGEST) };
            match self.outbox.recv_timeout(nap) {
                Ok((to, message)) => {
                    self.send(to, message);
                    nap = NAP_SHORTEST;
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
            self.flush();
        }
    }

    /// In rank 0, goes on when all work is done: has all ranks make durable what they copied, if
    /// something is to be removed then, or ends the job.
    fn complete(&mut self) {
        if !self.part.is_to_delete() {
            self.finishing = true;
            pass_on(self.ranks, &Message::Finish);
            return;
        }
        pass_on(self.ranks, &Message::Settle);
        self.settle();
        self.receive_until(|copy| copy.settled.ranks == copy.ranks.ranks());
        self.part.delete(!self.settled.failed);
    }

    /// Notes what is left to note.
    fn finish_notes(&mut self) {
        if let Some(noting) = &mut self.noting {
            let failed = noting.finish(self.part.syncer());
            failed.into_iter().for_each(|told| self.part.tell(true, told));
        }
    }

    /// Makes durable what this rank has copied, and tells rank 0.
    fn settle(&mut self) {
        self.finish_notes();
        let is_durable = self.part.is_durable();
        self.send(0, Message::Settled(is_durable));
    }

    /// Lets the distribution of work look; returns whether it sent anything.
    fn look(&mut self) -> bool {
        let mut out = Outgoing::new();
        self.stealer.look(self.started.elapsed(), &mut Work(&self.part), &mut out);
        let any = !out.is_empty();
        out.into_iter().for_each(|(to, steal)| self.send(to, Message::Steal(steal)));
        any
    }

    fn handle(&mut self, from: usize, message: Message) {
        match message {
            Message::Steal(steal) => {
                let (mut out, now) = (Outgoing::new(), self.started.elapsed());
                self.stealer.receive(now, (from, steal), &mut Work(&self.part), &mut out);
                out.into_iter().for_each(|(to, steal)| self.send(to, Message::Steal(steal)));
            }
            Message::Assign(parcel) => self.part.accept(*parcel),
            Message::Returned(returned) => self.part.returned(returned),
            Message::Print(error, line) => self.part.print(error, &line),
            Message::Count(change) => self.counts.below = self.counts.below.plus(change),
            Message::Threads(threads) => self.use_threads(threads),
            Message::Interrupt(signal) => {
                interrupt(signal);
                if self.ranks.rank() != 0 {
                    self.told_interrupt = true;
                    pass_on(self.ranks, &Message::Interrupt(signal));
                }
            }
            Message::Settle => {
                pass_on(self.ranks, &Message::Settle);
                self.settle();
            }
            Message::Settled(is_durable) => {
                self.settled.ranks += 1;
                self.settled.failed |= !is_durable;
            }
            Message::Finish => {
                self.finishing = true;
                pass_on(self.ranks, &Message::Finish);
            }
            Message::Summary(summary, bytes) => {
                if let Some(slot) = self.summaries.get_mut(from) {
                    *slot = Some(summary);
                }
                self.bytes_elsewhere += bytes;
            }
            Message::End => self.ended = true,
            Message::Begin(_) => {}
        }
    }

    /// Passes counts on, now and then.
    fn count(&mut self) {
        if self.counts.at.elapsed() < COUNTS_EVERY {
            return;
        }
        self.counts.at = Instant::now();
        let below = std::mem::take(&mut self.counts.below);
        let own = self.part.load();
        match tree::parent(self.ranks.rank()) {
            None => {
                self.part.add_bytes(below.bytes);
                self.counts.told = self.counts.told.plus(below);
                let told = Load { bytes: below.bytes, ..self.counts.told };
                // The bytes of others are among those of this rank when they are shown.
                self.tune(own.plus(told));
            }
            Some(parent) => {
                let told = std::mem::replace(&mut self.counts.told, own);
                let change = below.plus(own).minus(told);
                if change != Load::default() {
                    self.send(parent, Message::Count(change));
                }
            }
        }
    }

    /// Begins with the threads that an option demands, or with the usual number, which may change.
    fn begin_threads(&mut self, fixed: Option<usize>) {
        let first = threads_at_first().max(self.here.1);
        self.part.set_threads(share_of(fixed.unwrap_or(first), self.here));
        if self.ranks.rank() == 0 && fixed.is_none() && !self.part.is_limited() {
            // Counts go up the tree, each level at its own time.
            let levels = self.ranks.ranks().ilog2() + 2;
            let most = THREADS_MAX.max(first);
            self.tuner = Some(Tuner::new(first, most, COUNTS_EVERY * levels));
        }
    }

    fn tune(&mut self, load: Load) {
        let machines = self.ranks.ranks().div_ceil(self.here.1) as f64;
        let running = load.running as f64 / machines;
        let Some(tuner) = &mut self.tuner else { return };
        if let Some(threads) = tuner.look(self.started.elapsed(), &load, running) {
            self.use_threads(threads);
        }
    }

    /// Has this rank and those below it use so many threads on each machine.
    fn use_threads(&mut self, threads: usize) {
        pass_on(self.ranks, &Message::Threads(threads));
        self.part.set_threads(share_of(threads, self.here));
    }

    /// Makes a signal that this rank caught known to all.
    fn watch_signals(&mut self) {
        let Some(signal) = interrupted().filter(|_| !self.told_interrupt) else { return };
        self.told_interrupt = true;
        if self.ranks.rank() == 0 {
            pass_on(self.ranks, &Message::Interrupt(signal));
        } else {
            self.send(0, Message::Interrupt(signal));
        }
    }

    /// Handles messages until `is_enough`.
    fn receive_until(&mut self, is_enough: impl Fn(&Self) -> bool) {
        while !is_enough(self) {
            match next(self.ranks) {
                Some((from, message)) => self.handle(from, message),
                None => std::thread::sleep(NAP_LONGEST),
            }
        }
    }

    fn send(&mut self, to: usize, message: Message) {
        if to == self.ranks.rank() {
            self.handle(to, message);
        } else {
            messages::send(self.ranks, to, &message);
        }
    }

    /// Sends what the threads that copy have left.
    fn flush(&mut self) {
        while let Ok((to, message)) = self.outbox.try_recv() {
            self.send(to, message);
        }
    }

    /// Waits for the medium, and in rank 0 for all ranks.
    fn finish(mut self) -> ExitCode {
        self.finish_notes();
        if let Some(tuner) = self.tuner.take() {
            let (threads, first) = (tuner.threads(), threads_at_first().max(self.here.1));
            if threads != first {
                let told = format_args!("{threads} threads on each machine, {first} at first");
                self.part.explain(told);
            }
        }
        let summary = self.part.finish();
        self.flush();
        if self.ranks.rank() != 0 {
            let bytes = self.part.load().bytes;
            self.send(0, Message::Summary(summary, bytes));
            // Messages to this rank may still be on their way.
            self.receive_until(|copy| copy.ended);
            pass_on(self.ranks, &Message::End);
            return ExitCode::SUCCESS;
        }
        self.summaries[0] = Some(summary);
        self.receive_until(|copy| copy.summaries.iter().all(Option::is_some));
        pass_on(self.ranks, &Message::End);
        let summaries: Vec<Summary> = self.summaries.into_iter().flatten().collect();
        self.part.add_bytes(self.bytes_elsewhere.saturating_sub(self.counts.told.bytes));
        let status = self.part.conclude(&summaries);
        match interrupted() {
            // As a shell reports a process that a signal ended.
            Some(signal) => ExitCode::from(128 + u8::try_from(signal).unwrap_or(0)),
            None => ExitCode::from(status),
        }
    }
}

//! `dio-mpi cp`, `sync` and `cmp`: the messages of the ranks of one copy or comparison.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use dio_cli::commands::cp::shared::{
    Command, Notes, Parcel, Part, Peers, Returned, Summary, Terms, Tool, interrupt, interrupted,
};
use serde::{Deserialize, Serialize};

use crate::journal::{self, Journal, JournalError};
use crate::messages::{next, pass_on};
use crate::steal::{Outgoing, Pool, Steal, Stealer};
use crate::transport::Ranks;
use crate::{messages, tree};

/// The longest time that a rank does not look for messages. MPI has no call that waits for a
/// message or for a thread of this process, whichever comes first.
const NAP_LONGEST: Duration = Duration::from_millis(1);
const NAP_SHORTEST: Duration = Duration::from_micros(20);

/// How often counts of bytes travel towards rank 0, which shows them.
const COUNTS_EVERY: Duration = Duration::from_millis(500);

/// The shortest time between two notes in the journal.
const NOTE_EVERY: Duration = Duration::from_secs(1);

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
    /// Bytes copied below this rank in the tree since the last count.
    Bytes(u64),
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

    fn accept(&mut self, from: usize, work: Vec<Parcel>) {
        work.into_iter().for_each(|parcel| self.0.accept(from, parcel));
    }
}

/// Runs the copy in this rank. Only rank 0 returns another status than success.
pub(super) fn run(ranks: &mut Ranks, tool: Tool, mut words: Vec<OsString>) -> ExitCode {
    let (to, outbox) = mpsc::channel();
    let peers = Arc::new(Outbox { rank: ranks.rank(), ranks: ranks.ranks(), to });
    let here = ranks.ranks_here();
    let path = take_journal(&mut words);
    let (mut early, mut journal) = (Vec::new(), None);
    let part = if ranks.rank() == 0 {
        let begun = prepare(tool, words, path.as_deref());
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
        if let Some(path) = path {
            match Journal::open(&path, ranks.rank(), None) {
                Ok((opened, _)) => journal = Some(Arc::new(opened)),
                Err(error) => {
                    say(tool, &error);
                    ranks.abort(2);
                }
            }
        }
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
        counts: Counts { below: 0, told: 0, at: Instant::now() },
        noting: journal.map(Noting::new),
        summaries,
        settled: Settled::default(),
        bytes_elsewhere: 0,
    };
    early.into_iter().for_each(|(from, message)| copy.handle(from, message));
    copy.work();
    copy.finish()
}

/// Takes `--journal` and its value out of a command line. Its value is not looked for.
fn take_journal(words: &mut Vec<OsString>) -> Option<PathBuf> {
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let at = words[..end].iter().position(|word| {
        word == "--journal" || word.as_encoded_bytes().starts_with(b"--journal=")
    })?;
    let word = words.remove(at);
    match word.as_bytes().strip_prefix(b"--journal=") {
        Some(value) => Some(OsStr::from_bytes(value).into()),
        None if at < words.len() => Some(words.remove(at).into()),
        // The grammar has no such option, and says so.
        None => {
            words.push(word);
            None
        }
    }
}

/// Checks the command line in rank 0, and opens its part of the journal at `path`.
fn prepare(
    tool: Tool,
    words: Vec<OsString>,
    path: Option<&Path>,
) -> Result<(Command, Option<Journal>), ExitCode> {
    let identity = identity_of(tool, &words);
    let mut command = Command::parse(tool, words)?;
    let Some(path) = path else { return Ok((command, None)) };
    if !command.is_synced() {
        say(tool, &"--journal needs what --no-sync leaves out");
        return Err(ExitCode::from(2));
    }
    if command.leaves_existing() {
        say(tool, &"--journal with -n or -u would leave files that were cut short as they are");
        return Err(ExitCode::from(2));
    }
    let opened = journal::claim(path, &identity, command.is_into()).and_then(|(job, was_into)| {
        if !was_into {
            command.go_on_at();
        }
        Journal::open(path, 0, Some(job))
    });
    match opened {
        Ok((journal, told)) => {
            told.iter().for_each(|told| say(tool, told));
            Ok((command, Some(journal)))
        }
        Err(error) => {
            say(tool, &error);
            Err(ExitCode::from(2))
        }
    }
}

/// Tells command lines apart, with the directory that they are called in.
fn identity_of(tool: Tool, words: &[OsString]) -> String {
    let mut hasher = blake3::Hasher::new();
    let directory = std::env::current_dir().unwrap_or_default();
    let words = std::iter::once(directory.as_os_str()).chain(words.iter().map(AsRef::as_ref));
    // The journals of cp are older than other commands.
    let command = (tool != Tool::Cp).then(|| OsStr::new(tool.name()));
    for word in words.chain(command) {
        hasher.update(&(word.len() as u64).to_le_bytes()).update(word.as_bytes());
    }
    hasher.finalize().to_hex().to_string()
}

/// Prints a message before the copy begins.
fn say(tool: Tool, told: &dyn std::fmt::Display) {
    eprintln!("dio-mpi {}: {told}", tool.name());
}

/// Notes what is durable, again and again in a thread of its own, since a sync takes long.
struct Noting {
    journal: Arc<Journal>,
    thread: Option<JoinHandle<Result<(), JournalError>>>,
    begun: Instant,
    pause: Duration,
}

impl Noting {
    fn new(journal: Arc<Journal>) -> Noting {
        Noting { journal, thread: None, begun: Instant::now(), pause: NOTE_EVERY }
    }

    /// Starts a note if it is time, and reports the end of one.
    fn look(&mut self, part: &Part) {
        if self.thread.as_ref().is_some_and(JoinHandle::is_finished) {
            self.end(part);
            // Syncs take a tenth of the time at most.
            self.pause = NOTE_EVERY.max(self.begun.elapsed() * 10);
            self.begun = Instant::now();
        }
        if self.thread.is_none() && self.begun.elapsed() >= self.pause && self.journal.waiting() > 0
        {
            self.start(part);
        }
    }

    fn start(&mut self, part: &Part) {
        let (journal, sync) = (Arc::clone(&self.journal), part.syncer());
        self.begun = Instant::now();
        let thread = std::thread::Builder::new().name("dio-journal".into());
        match thread.spawn(move || journal.note(sync)) {
            Ok(thread) => self.thread = Some(thread),
            Err(error) => part.tell(true, format_args!("cannot start a thread: {error}")),
        }
    }

    fn end(&mut self, part: &Part) {
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(Err(error))) => part.tell(true, error),
            Some(Err(_)) => part.tell(true, "the thread of the journal stopped"),
            Some(Ok(Ok(()))) | None => {}
        }
    }

    /// Notes what is left.
    fn finish(&mut self, part: &Part) {
        self.end(part);
        if let Err(error) = self.journal.note(part.syncer()) {
            part.tell(true, error);
        }
    }
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

/// Bytes copied, on their way to rank 0.
struct Counts {
    /// Bytes of ranks below this one that were not passed on.
    below: u64,
    /// Bytes of this rank that were passed on; in rank 0, those of other ranks that are shown.
    told: u64,
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
            if let Some(noting) = &mut self.noting {
                noting.look(&self.part);
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

    /// Makes durable what this rank has copied, and tells rank 0.
    fn settle(&mut self) {
        if let Some(noting) = &mut self.noting {
            noting.finish(&self.part);
        }
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
            Message::Assign(parcel) => self.part.accept(from, *parcel),
            Message::Returned(returned) => self.part.returned(returned),
            Message::Print(error, line) => self.part.print(error, &line),
            Message::Bytes(bytes) => self.counts.below += bytes,
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

    /// Passes counts of bytes on, now and then.
    fn count(&mut self) {
        if self.counts.at.elapsed() < COUNTS_EVERY {
            return;
        }
        self.counts.at = Instant::now();
        let below = std::mem::take(&mut self.counts.below);
        match tree::parent(self.ranks.rank()) {
            None => {
                self.part.add_bytes(below);
                self.counts.told += below;
            }
            Some(parent) => {
                let own = self.part.bytes();
                let bytes = below + own - std::mem::replace(&mut self.counts.told, own);
                if bytes > 0 {
                    self.send(parent, Message::Bytes(bytes));
                }
            }
        }
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
        if let Some(noting) = &mut self.noting {
            noting.finish(&self.part);
        }
        let summary = self.part.finish();
        self.flush();
        if self.ranks.rank() != 0 {
            let bytes = self.part.bytes();
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
        self.part.add_bytes(self.bytes_elsewhere.saturating_sub(self.counts.told));
        let status = self.part.conclude(&summaries);
        match interrupted() {
            // As a shell reports a process that a signal ended.
            Some(signal) => ExitCode::from(128 + u8::try_from(signal).unwrap_or(0)),
            None => ExitCode::from(status),
        }
    }
}

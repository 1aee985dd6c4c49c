//! A job in virtual time: the distribution of work of [`crate::steal`], unchanged, with any number
//! of ranks, over a tree of which only the shape exists and over storage that only takes time.
//!
//! A rank has one worker, which takes its newest job; a queue that is full keeps no more, and the
//! worker goes on by itself, as in `dio cp`. Work that was lent is answered when everything below
//! it is done, so that rank 0 learns of the end as it does in a real job. All ranks are on one
//! machine, whose threads [`crate::tuning`] counts: those of ranks at rest.

use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::time::Duration;

use dio_cli::commands::cp::shared::{Load, Rest};

use crate::steal::{Outgoing, Pool, Steal, Stealer};
use crate::tuning::Tuner;

/// Entries that a worker takes at once, and jobs that a queue keeps, as in `dio cp`.
const ENTRIES_PER_JOB: u64 = 128;
const JOBS_WAITING_MAX: usize = 1024;

/// Jobs given away at once.
const PARCELS_MAX: usize = 64;

/// How often ranks count what they have done, and a rank at rest looks whether it still is.
const COUNT_EVERY: Duration = Duration::from_millis(100);
const REST_POLL: Duration = Duration::from_millis(5);

/// The shape of a tree. Directories have numbers; the first is 0.
pub trait Tree {
    /// The directories in a directory.
    fn directories(&self, directory: u64) -> Vec<u64>;
    /// How many small files it has.
    fn files(&self, directory: u64) -> u64;
    /// The sizes of its large files.
    fn large(&self, directory: u64) -> Vec<u64>;
}

/// How long things take.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    /// From the sending of a message to its handling.
    pub message: Duration,
    /// To make and list a directory.
    pub directory: Duration,
    /// To copy a small file.
    pub file: Duration,
    /// Bytes per second of one rank, of a large file.
    pub rate: f64,
    /// Storage that all ranks share.
    pub storage: Option<Storage>,
}

/// Storage whose speed all ranks share. It does one thing after the other.
#[derive(Clone, Copy, Debug)]
pub struct Storage {
    /// Bytes per second, of large files.
    pub rate: f64,
    /// Small files per second.
    pub files: f64,
    /// The most ranks at work with which it is as fast as that.
    pub best: usize,
    /// The part of its speed that it loses for each further one.
    pub loss: f64,
}

impl Storage {
    /// How long it takes for so many bytes and files, while so many ranks are at work.
    fn time(&self, bytes: u64, files: u64, active: usize) -> Duration {
        let lost = self.loss * active.saturating_sub(self.best) as f64;
        let seconds = bytes as f64 / self.rate + files as f64 / self.files;
        Duration::from_secs_f64(seconds * (1.0 + lost))
    }
}

/// The result of a simulated job.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// From the start until rank 0 knows the end.
    pub took: Duration,
    /// Time that workers had nothing to do, all together.
    pub idle: Duration,
    /// Small files that were copied.
    pub files: u64,
    /// Directories that were copied.
    pub directories: u64,
    /// Ranges of large files: directory, number of the file, start, end.
    pub ranges: Vec<(u64, usize, u64, u64)>,
    /// Bytes in these ranges.
    pub bytes: u64,
    /// Messages that each rank sent and received.
    pub messages: Vec<u64>,
    /// The most jobs, open directories and loans that any rank had at a time.
    pub items_max: usize,
    /// The number of ranks that were not at rest at the end.
    pub at_work: usize,
    /// The seed of the random numbers.
    pub seed: u64,
}

/// A directory that is not complete.
#[derive(Debug)]
struct Open {
    pending: u64,
    /// The directory above it in this rank, or the rank that lent its entries and the number there.
    above: Above,
}

#[derive(Clone, Copy, Debug)]
enum Above {
    Nothing,
    Here(u64),
    Lender(usize, u64),
}

/// Work that has not begun. Each belongs to an open directory of its rank.
#[derive(Clone, Debug)]
enum Kind {
    Directory(u64),
    Files(u64),
    Ranges { directory: u64, file: usize, rest: Rest },
}

#[derive(Clone, Debug)]
struct Job {
    open: u64,
    kind: Kind,
}

/// A job on its way to another rank, and the open directory at the lender.
type Parcel = (u64, Kind);

enum Event {
    Message(usize, usize, Message),
    Done(usize),
    Retry(usize),
    /// A rank that was at rest looks again.
    Rest(usize),
    Count,
}

enum Message {
    Steal(Steal<Parcel>),
    Returned(u64),
}

/// The present task of a worker.
enum Doing {
    Nothing,
    /// Copies entries; then takes the rest of the listing, which the queue had no room for.
    Files {
        count: u64,
        open: u64,
    },
    Directory {
        directory: u64,
        open: u64,
    },
    Piece {
        file: (u64, usize),
        rest: Rest,
        open: u64,
    },
}

struct Rank {
    stealer: Stealer,
    pool: Jobs,
    retry: Option<Duration>,
    idle_since: Option<Duration>,
}

/// The work of a rank.
struct Jobs {
    queue: VecDeque<Job>,
    doing: Doing,
    /// Entries that the queue has no room for.
    unlisted: Vec<(u64, u64)>,
    open: HashMap<u64, Open>,
    next: u64,
    /// The rank asks for no work.
    is_at_rest: bool,
}

impl Pool for Jobs {
    type Work = Parcel;

    fn is_hungry(&self) -> bool {
        !self.is_at_rest
            && self.queue.is_empty()
            && self.unlisted.is_empty()
            && matches!(self.doing, Doing::Nothing)
    }

    fn can_lend(&self) -> bool {
        self.spare() > 0 || matches!(&self.doing, Doing::Piece { rest, .. } if rest.can_lend())
    }

    fn lend(&mut self) -> Vec<Parcel> {
        let count = self.queue.len().div_ceil(2).min(self.spare()).min(PARCELS_MAX);
        let mut work: Vec<Parcel> =
            self.queue.drain(..count).map(|job| (job.open, job.kind)).collect();
        if let Doing::Piece { file: (directory, file), rest, open } = &mut self.doing {
            let ranges = rest.lend();
            if !ranges.is_empty() {
                let mut rest = Rest::default();
                rest.give(ranges);
                let (open, directory, file) = (*open, *directory, *file);
                self.enter(open);
                work.push((open, Kind::Ranges { directory, file, rest }));
            }
        }
        work
    }

    fn accept(&mut self, from: usize, work: Vec<Parcel>) {
        for (lent, kind) in work {
            let open = self.begin(Above::Lender(from, lent));
            self.queue.push_back(Job { open, kind });
        }
    }
}

impl Jobs {
    /// Whether others could do what this rank does, while it is at rest.
    fn leaves_it(&self) -> bool {
        self.is_at_rest && matches!(&self.doing, Doing::Piece { rest, .. } if rest.can_lend())
    }

    /// Waiting jobs that the worker does not take at once.
    fn spare(&self) -> usize {
        self.queue.len()
            - usize::from(matches!(self.doing, Doing::Nothing) && !self.queue.is_empty())
    }

    fn begin(&mut self, above: Above) -> u64 {
        self.next += 1;
        self.open.insert(self.next, Open { pending: 1, above });
        self.next
    }

    fn enter(&mut self, open: u64) {
        self.open.get_mut(&open).expect("it is open").pending += 1;
    }

    /// Counts something as done; returns the ranks to tell, and whether the job is.
    fn leave(&mut self, open: u64) -> (Vec<(usize, u64)>, bool) {
        let (mut next, mut tell) = (open, Vec::new());
        loop {
            let here = self.open.get_mut(&next).expect("it is open");
            here.pending -= 1;
            if here.pending > 0 {
                return (tell, false);
            }
            match self.open.remove(&next).expect("it is open").above {
                Above::Here(above) => next = above,
                Above::Nothing => return (tell, true),
                Above::Lender(rank, lent) => {
                    tell.push((rank, lent));
                    return (tell, false);
                }
            }
        }
    }

    fn items(&self) -> usize {
        self.queue.len() + self.open.len() + self.unlisted.len()
    }

    /// Puts entries that had no room into the queue.
    fn refill(&mut self) {
        while self.queue.len() < JOBS_WAITING_MAX
            && let Some((open, count)) = self.unlisted.last_mut()
        {
            let (open, some) = (*open, (*count).min(ENTRIES_PER_JOB));
            *count -= some;
            if *count == 0 {
                self.unlisted.pop();
            }
            self.enter(open);
            self.queue.push_back(Job { open, kind: Kind::Files(some) });
            if self.unlisted.last().is_none_or(|(last, _)| *last != open) {
                // The listing itself is done.
                let left = self.leave(open);
                debug_assert!(!left.1 && left.0.is_empty(), "its entries wait");
            }
        }
    }
}

/// A job in virtual time.
pub struct Simulation<'a, T> {
    tree: &'a T,
    costs: Costs,
    now: Duration,
    events: BinaryHeap<Timed>,
    sequence: u64,
    ranks: Vec<Rank>,
    outcome: Outcome,
    ended: bool,
    tuner: Option<Tuner>,
    /// The time at which the storage has done all that was asked of it.
    storage_free: Duration,
}

struct Timed(Duration, u64, Event);

impl PartialEq for Timed {
    fn eq(&self, other: &Timed) -> bool {
        (self.0, self.1) == (other.0, other.1)
    }
}

impl Eq for Timed {}

impl PartialOrd for Timed {
    fn partial_cmp(&self, other: &Timed) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timed {
    /// The earliest is the greatest, for the heap.
    fn cmp(&self, other: &Timed) -> std::cmp::Ordering {
        (other.0, other.1).cmp(&(self.0, self.1))
    }
}

impl<'a, T: Tree> Simulation<'a, T> {
    /// Makes a job of `ranks` ranks, of which rank 0 has the whole tree to begin with.
    pub fn new(tree: &'a T, costs: Costs, ranks: usize, seed: u64) -> Self {
        let rank = |number| Rank {
            stealer: Stealer::new(number, ranks, seed),
            pool: Jobs {
                queue: VecDeque::new(),
                doing: Doing::Nothing,
                unlisted: Vec::new(),
                open: HashMap::new(),
                next: 0,
                is_at_rest: false,
            },
            retry: None,
            idle_since: Some(Duration::ZERO),
        };
        let outcome = Outcome { messages: vec![0; ranks], seed, ..Outcome::default() };
        let mut simulation = Self {
            tree,
            costs,
            now: Duration::ZERO,
            events: BinaryHeap::new(),
            sequence: 0,
            ranks: (0..ranks).map(rank).collect(),
            outcome,
            ended: false,
            tuner: None,
            storage_free: Duration::ZERO,
        };
        let pool = &mut simulation.ranks[0].pool;
        let open = pool.begin(Above::Nothing);
        pool.queue.push_back(Job { open, kind: Kind::Directory(0) });
        simulation
    }

    /// Has the number of ranks at work tune itself.
    #[must_use]
    pub fn tuned(mut self) -> Self {
        let ranks = self.ranks.len();
        self.tuner = Some(Tuner::new(ranks, ranks, COUNT_EVERY));
        self.at(COUNT_EVERY, Event::Count);
        self
    }

    /// Runs the job to its end.
    ///
    /// # Panics
    /// If nothing more happens before the end: the distribution of work would hang.
    #[must_use]
    pub fn run(mut self) -> Outcome {
        for rank in 0..self.ranks.len() {
            self.work_on(rank);
        }
        while !self.ended {
            let Timed(at, _, event) =
                self.events.pop().unwrap_or_else(|| panic!("it hangs; seed {}", self.outcome.seed));
            self.now = at;
            match event {
                Event::Message(from, to, message) => self.receive(from, to, message),
                Event::Done(rank) => self.done(rank),
                Event::Retry(rank) => {
                    self.ranks[rank].retry = None;
                    self.work_on(rank);
                }
                Event::Rest(rank) => self.begin(rank),
                Event::Count => self.count(),
            }
        }
        self.outcome.at_work = self.ranks.iter().filter(|rank| !rank.pool.is_at_rest).count();
        for rank in &self.ranks {
            self.outcome.idle += rank.idle_since.map_or(Duration::ZERO, |since| self.now - since);
        }
        self.outcome.took = self.now;
        self.outcome
    }

    /// Counts what was done, and has some ranks rest if that is faster.
    fn count(&mut self) {
        assert!(!self.events.is_empty(), "it hangs; seed {}", self.outcome.seed);
        let bytes = self.outcome.bytes;
        let load = Load { bytes, entries: self.outcome.files, running: 0 };
        let (active, now) = (self.active(), self.now);
        let threads = self.tuner.as_mut().and_then(|one| one.look(now, &load, active as f64));
        if let Some(threads) = threads {
            for number in 0..self.ranks.len() {
                self.ranks[number].pool.is_at_rest = number >= threads;
                self.work_on(number);
            }
        }
        self.at(COUNT_EVERY, Event::Count);
    }

    /// The number of ranks whose workers have something to do, and do not leave it to others.
    fn active(&self) -> usize {
        self.ranks.iter().filter(|rank| !matches!(rank.pool.doing, Doing::Nothing)).count()
            - self.ranks.iter().filter(|rank| rank.pool.leaves_it()).count()
    }

    fn at(&mut self, after: Duration, event: Event) {
        self.sequence += 1;
        self.events.push(Timed(self.now + after, self.sequence, event));
    }

    fn send(&mut self, from: usize, to: usize, message: Message) {
        self.outcome.messages[from] += 1;
        self.outcome.messages[to] += 1;
        self.at(self.costs.message, Event::Message(from, to, message));
    }

    fn receive(&mut self, from: usize, to: usize, message: Message) {
        match message {
            Message::Steal(steal) => {
                let (mut out, rank) = (Outgoing::new(), &mut self.ranks[to]);
                rank.stealer.receive(self.now, (from, steal), &mut rank.pool, &mut out);
                for (other, steal) in out {
                    self.send(to, other, Message::Steal(steal));
                }
            }
            Message::Returned(open) => self.leave(to, open),
        }
        self.work_on(to);
    }

    fn leave(&mut self, rank: usize, open: u64) {
        let (tell, ended) = self.ranks[rank].pool.leave(open);
        self.ended |= ended;
        for (lender, lent) in tell {
            self.send(rank, lender, Message::Returned(lent));
        }
    }

    /// Gives the worker of a rank something to do, and lets the distribution of work look.
    fn work_on(&mut self, number: usize) {
        let rank = &mut self.ranks[number];
        if matches!(rank.pool.doing, Doing::Nothing) {
            rank.pool.refill();
            if let Some(Job { open, kind }) = rank.pool.queue.pop_back() {
                rank.pool.doing = match kind {
                    Kind::Directory(directory) => Doing::Directory { directory, open },
                    Kind::Files(count) => Doing::Files { count, open },
                    Kind::Ranges { directory, file, rest } => {
                        Doing::Piece { file: (directory, file), rest, open }
                    }
                };
                if let Some(since) = rank.idle_since.take() {
                    self.outcome.idle += self.now - since;
                }
                self.begin(number);
            }
        }
        let rank = &mut self.ranks[number];
        if matches!(rank.pool.doing, Doing::Nothing) {
            rank.idle_since.get_or_insert(self.now);
        }
        let mut out = Outgoing::new();
        rank.stealer.look(self.now, &mut rank.pool, &mut out);
        self.outcome.items_max = self.outcome.items_max.max(rank.pool.items());
        let retry = rank.stealer.retry().filter(|_| rank.retry.is_none());
        if let Some(retry) = retry {
            rank.retry = Some(retry);
            self.at(retry.saturating_sub(self.now), Event::Retry(number));
        }
        for (other, steal) in out {
            self.send(number, other, Message::Steal(steal));
        }
    }

    /// Starts what the worker has taken, or its next piece.
    fn begin(&mut self, number: usize) {
        let costs = self.costs;
        if self.ranks[number].pool.leaves_it() {
            return self.at(REST_POLL, Event::Rest(number));
        }
        let active = if costs.storage.is_some() { self.active() } else { 0 };
        let (now, free) = (self.now, &mut self.storage_free);
        // The time of the rank, or that of the storage if this is later.
        let mut lasts = |of_rank: Duration, bytes: u64, files: u64| match costs.storage {
            Some(storage) => {
                *free = now.max(*free) + storage.time(bytes, files, active);
                of_rank.max(*free - now)
            }
            None => of_rank,
        };
        let took = match &mut self.ranks[number].pool.doing {
            Doing::Nothing => return,
            Doing::Files { count, .. } => lasts(costs.file * *count as u32, 0, *count),
            Doing::Directory { .. } => costs.directory,
            Doing::Piece { file, rest, .. } => {
                let piece = rest.take_piece();
                let bytes: u64 = piece.iter().map(|range| range.end - range.start).sum();
                let took = lasts(Duration::from_secs_f64(bytes as f64 / costs.rate), bytes, 0);
                rest.took(bytes, took);
                self.outcome.bytes += bytes;
                let (directory, file) = *file;
                let pieces = piece.into_iter();
                self.outcome
                    .ranges
                    .extend(pieces.map(|range| (directory, file, range.start, range.end)));
                took
            }
        };
        self.at(took, Event::Done(number));
    }

    fn done(&mut self, number: usize) {
        let pool = &mut self.ranks[number].pool;
        match std::mem::replace(&mut pool.doing, Doing::Nothing) {
            Doing::Nothing => {}
            Doing::Files { count, open } => {
                self.outcome.files += count;
                self.leave(number, open);
            }
            Doing::Directory { directory, open } => {
                self.outcome.directories += 1;
                let below = pool.begin(Above::Here(open));
                let large = self.tree.large(directory).into_iter().enumerate();
                let ranges = large.map(|(file, size)| {
                    let mut rest = Rest::default();
                    rest.give(std::iter::once(0..size));
                    Kind::Ranges { directory, file, rest }
                });
                let directories = self.tree.directories(directory).into_iter().map(Kind::Directory);
                for kind in directories.chain(ranges) {
                    pool.enter(below);
                    pool.queue.push_back(Job { open: below, kind });
                }
                match self.tree.files(directory) {
                    0 => self.leave(number, below),
                    files => pool.unlisted.push((below, files)),
                }
            }
            Doing::Piece { file, rest, open } if rest.bytes() > 0 => {
                pool.doing = Doing::Piece { file, rest, open };
                self.begin(number);
            }
            Doing::Piece { open, .. } => self.leave(number, open),
        }
        self.work_on(number);
    }
}

//! Which rank asks which for work, and who gets it.
//!
//! A rank that has nothing to do asks a few others, chosen at random. If none of them has anything
//! to spare, it leaves word at a few fixed ranks (its *lifelines*: those whose numbers differ in
//! one bit), which give when they have something, and falls silent; now and then it asks one more
//! at random. So idle ranks send few messages, work reaches all ranks in as many steps as a rank
//! number has bits, and no rank has a special part.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Number of ranks that are asked at random before a rank waits.
const RANDOM_ASKS: u32 = 2;

/// The first and the longest time between two questions of a waiting rank.
const RETRY_FIRST: Duration = Duration::from_millis(10);
const RETRY_LONGEST: Duration = Duration::from_millis(640);

/// A message between two ranks about work of the type `W`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Steal<W> {
    /// The sender has nothing to do. Without `patient` it wants an answer at once; else work as
    /// soon as there is any.
    Ask {
        /// Whether the sender waits.
        patient: bool,
    },
    /// There is nothing to spare now.
    Nothing,
    /// Work, which is the receiver's now.
    Give(Vec<W>),
}

/// The work of one rank.
pub trait Pool {
    /// A piece of work that another rank may do.
    type Work;
    /// Whether this rank could do more than it has.
    fn is_hungry(&self) -> bool;
    /// Whether there is something to spare: more than this rank begins at once, or the last piece
    /// of work would go round among idle ranks for ever.
    fn can_lend(&self) -> bool;
    /// Takes out about half of the work that has not begun; may be nothing.
    fn lend(&mut self) -> Vec<Self::Work>;
    /// Adds work of another rank.
    fn accept(&mut self, from: usize, work: Vec<Self::Work>);
}

/// Messages to send, with their receivers.
pub type Outgoing<W> = VecDeque<(usize, Steal<W>)>;

/// How far a rank without work has got in asking others for some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hunger {
    /// It has asked nobody.
    None,
    /// It waits for an answer, and will ask `left` more.
    Asking { left: u32 },
    /// Its lifelines know. It asks at random again at `retry`, and then after twice `pause`.
    Waiting { retry: Duration, pause: Duration },
}

/// The part of one rank in the distribution of work.
#[derive(Clone, Debug)]
pub struct Stealer {
    rank: usize,
    ranks: usize,
    random: u64,
    hunger: Hunger,
    /// Ranks that wait for work of this one, in the order in which they came.
    waiting: VecDeque<usize>,
    /// Lifelines at which this rank waits.
    registered: BTreeSet<usize>,
}

impl Stealer {
    /// Makes the part of `rank` among `ranks`.
    #[must_use]
    pub fn new(rank: usize, ranks: usize, seed: u64) -> Stealer {
        let random = seed ^ (rank as u64 + 1).wrapping_mul(0xD1B5_4A32_D192_ED03);
        let (waiting, registered) = (VecDeque::new(), BTreeSet::new());
        Stealer { rank, ranks, random, hunger: Hunger::None, waiting, registered }
    }

    /// Looks at the pool: gives to those who wait, and asks if there is too little. Called whenever
    /// something may have changed; `now` is the time since any fixed moment.
    pub fn look<P: Pool>(&mut self, now: Duration, pool: &mut P, out: &mut Outgoing<P::Work>) {
        self.feed_waiting(pool, out);
        if self.ranks == 1 {
            return;
        }
        match self.hunger {
            _ if !pool.is_hungry() => {
                if !matches!(self.hunger, Hunger::Asking { .. }) {
                    self.hunger = Hunger::None;
                }
            }
            Hunger::None => self.ask(RANDOM_ASKS - 1, out),
            Hunger::Waiting { retry, pause } if now >= retry => {
                let pause = (pause * 2).min(RETRY_LONGEST);
                self.hunger = Hunger::Waiting { retry: now + pause, pause };
                out.push_back((self.other(), Steal::Ask { patient: false }));
            }
            Hunger::Asking { .. } | Hunger::Waiting { .. } => {}
        }
    }

    /// The time at which [`Stealer::look`] has something to do although nothing changed.
    #[must_use]
    pub fn retry(&self) -> Option<Duration> {
        match self.hunger {
            Hunger::Waiting { retry, .. } => Some(retry),
            _ => None,
        }
    }

    /// Takes a message of the rank `from`.
    pub fn receive<P: Pool>(
        &mut self,
        now: Duration,
        (from, message): (usize, Steal<P::Work>),
        pool: &mut P,
        out: &mut Outgoing<P::Work>,
    ) {
        match message {
            Steal::Ask { patient } => {
                let work = if pool.can_lend() { pool.lend() } else { Vec::new() };
                if !work.is_empty() {
                    out.push_back((from, Steal::Give(work)));
                } else if !patient {
                    out.push_back((from, Steal::Nothing));
                } else if !self.waiting.contains(&from) {
                    self.waiting.push_back(from);
                }
            }
            Steal::Nothing => match self.hunger {
                Hunger::Asking { left: 0 } => self.wait(now, out),
                Hunger::Asking { left } => self.ask(left - 1, out),
                Hunger::None | Hunger::Waiting { .. } => {}
            },
            Steal::Give(work) => {
                self.registered.remove(&from);
                self.hunger = Hunger::None;
                pool.accept(from, work);
            }
        }
        self.look(now, pool, out);
    }

    fn feed_waiting<P: Pool>(&mut self, pool: &mut P, out: &mut Outgoing<P::Work>) {
        while !self.waiting.is_empty() && pool.can_lend() {
            let work = pool.lend();
            if work.is_empty() {
                return;
            }
            if let Some(to) = self.waiting.pop_front() {
                out.push_back((to, Steal::Give(work)));
            }
        }
    }

    fn ask<W>(&mut self, left: u32, out: &mut Outgoing<W>) {
        self.hunger = Hunger::Asking { left };
        out.push_back((self.other(), Steal::Ask { patient: false }));
    }

    /// Leaves word at all lifelines.
    fn wait<W>(&mut self, now: Duration, out: &mut Outgoing<W>) {
        for bit in 0..usize::BITS {
            let lifeline = self.rank ^ (1 << bit);
            if 1 << bit >= self.ranks {
                break;
            }
            if lifeline < self.ranks && self.registered.insert(lifeline) {
                out.push_back((lifeline, Steal::Ask { patient: true }));
            }
        }
        self.hunger = Hunger::Waiting { retry: now + RETRY_FIRST, pause: RETRY_FIRST };
    }

    /// Another rank, at random.
    fn other(&mut self) -> usize {
        let rank = (self.next() % (self.ranks as u64 - 1)) as usize;
        rank + usize::from(rank >= self.rank)
    }

    /// The next number of SplitMix64.
    fn next(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

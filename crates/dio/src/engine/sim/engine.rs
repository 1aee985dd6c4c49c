//! The simulated engine: operations in virtual time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::medium::Ticket;
use super::{SimClock, SimDisk, SimMedium, SplitMix64};
use crate::engine::{Done, Engine, Op};

/// Runs operations on simulated disks in one thread, by a seed. An operation takes effect when it completes, and those
/// of different disks complete in the order of virtual time. Each disk has one queue here, so one engine at a time
/// should use it: two would not see each other's channels.
///
/// Operations on media that are not simulated run when they are started and take no time.
pub struct SimEngine {
    clock: SimClock,
    seed: u64,
    random: SplitMix64,
    depth: usize,
    lanes: Vec<Lane>,
    /// By the number that `start` gave them.
    flights: BTreeMap<u64, Flight>,
    next: u64,
    /// Completions to come: when, and which; ties in the order of being served.
    events: BinaryHeap<Reverse<(Duration, u64, u64)>>,
    served: u64,
    /// Complete, not yet given back.
    ready: Vec<Done>,
}

/// The queue of one disk.
struct Lane {
    disk: SimDisk,
    waiting: VecDeque<u64>,
    /// Invariant: at most as many as the disk has channels.
    serving: usize,
}

struct Flight {
    op: Op,
    medium: SimMedium,
    lane: usize,
    ticket: Ticket,
    start: Duration,
}

impl std::fmt::Debug for SimEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SimEngine(seed {}, {} of {} in flight)", self.seed, self.in_flight(), self.depth)
    }
}

impl SimEngine {
    /// An engine that takes `depth` operations at a time. The seed decides where a disk's model lets it reorder.
    ///
    /// # Panics
    /// When `depth` is zero.
    pub fn new(clock: &SimClock, depth: usize, seed: u64) -> SimEngine {
        assert!(depth > 0, "an engine takes at least one operation");
        SimEngine {
            clock: clock.clone(),
            seed,
            random: SplitMix64::new(seed),
            depth,
            lanes: Vec::new(),
            flights: BTreeMap::new(),
            next: 0,
            events: BinaryHeap::new(),
            served: 0,
            ready: Vec::new(),
        }
    }

    /// The virtual time.
    pub fn now(&self) -> Duration {
        self.clock.now()
    }

    fn lane_of(&mut self, disk: &SimDisk) -> usize {
        let known = self.lanes.iter().position(|lane| Arc::ptr_eq(&lane.disk.shared, &disk.shared));
        known.unwrap_or_else(|| {
            self.lanes.push(Lane { disk: disk.clone(), waiting: VecDeque::new(), serving: 0 });
            self.lanes.len() - 1
        })
    }

    /// Lets a disk begin what it has a channel for.
    fn dispatch(&mut self, lane: usize, at: Duration) {
        let lane = &mut self.lanes[lane];
        let model = lane.disk.model();
        while lane.serving < model.channels && !lane.waiting.is_empty() {
            let which = if model.reorder { self.random.below(lane.waiting.len() as u64) as usize } else { 0 };
            let Some(flight) = lane.waiting.remove(which) else { return };
            lane.serving += 1;
            let in_flight = self.flights.get_mut(&flight).expect("what waits is in flight");
            let (service, on_link) = in_flight.medium.cost(&in_flight.ticket);
            in_flight.start = at;
            let end = lane.disk.schedule(at, service, on_link);
            self.events.push(Reverse((end, self.served, flight)));
            self.served += 1;
        }
    }

    /// Completes everything that ends until `time`. What that lets begin begins at its own time, not at `time`.
    fn catch_up(&mut self, time: Duration) {
        while self.events.peek().is_some_and(|Reverse((end, ..))| *end <= time) {
            self.complete_next();
        }
    }

    fn complete_next(&mut self) -> Option<Duration> {
        let Reverse((end, _, flight)) = self.events.pop()?;
        let Flight { mut op, medium, lane, ticket, start } =
            self.flights.remove(&flight).expect("what completes is in flight");
        self.clock.advance_to(end);
        let result = medium.complete(&mut op, ticket, start, end);
        self.ready.push(Done { op, result });
        self.lanes[lane].serving -= 1;
        self.dispatch(lane, end);
        Some(end)
    }
}

impl Engine for SimEngine {
    fn name(&self) -> &'static str {
        "sim"
    }

    fn depth(&self) -> usize {
        self.depth
    }

    fn in_flight(&self) -> usize {
        self.flights.len() + self.ready.len()
    }

    fn start(&mut self, mut op: Op) -> Result<(), Op> {
        if self.in_flight() >= self.depth {
            return Err(op);
        }
        let now = self.clock.now();
        self.catch_up(now);
        let Some(medium) = SimMedium::of(&*op.medium) else {
            let other = Arc::clone(&op.medium);
            let result = other.transfer(&mut op);
            self.ready.push(Done { op, result });
            return Ok(());
        };
        let ticket = medium.begin(&op);
        let lane = self.lane_of(medium.disk());
        self.flights.insert(self.next, Flight { op, medium, lane, ticket, start: now });
        self.lanes[lane].waiting.push_back(self.next);
        self.next += 1;
        self.dispatch(lane, now);
        Ok(())
    }

    fn finish(&mut self, min: usize, done: &mut Vec<Done>) -> io::Result<()> {
        let min = min.min(self.in_flight());
        self.catch_up(self.clock.now());
        while self.ready.len() < min && self.complete_next().is_some() {}
        self.catch_up(self.clock.now());
        done.append(&mut self.ready);
        Ok(())
    }
}

impl Drop for SimEngine {
    /// As with the other engines, what was started happens.
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("simulated engine: seed {}, at {:?}", self.seed, self.now());
            return;
        }
        while self.complete_next().is_some() {}
    }
}

//! The simulated engine, which runs operations in virtual time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::medium::PendingOp;
use super::{SimClock, SimDisk, SimMedium, SplitMix64};
use crate::engine::{Done, Engine, Op};

/// Runs operations on simulated disks in one thread, by a seed. An operation takes effect when it
/// completes, and operations of different disks complete in the order of virtual time. The engine
/// has one queue for each disk, so only one engine at a time should use a disk: two would not know
/// each other's channels.
///
/// Operations on media that are not simulated run when they are started and take no time.
pub struct SimEngine {
    clock: SimClock,
    seed: u64,
    random: SplitMix64,
    depth: usize,
    disk_queues: Vec<DiskQueue>,
    /// Operations in flight, by the number that `start` gave them.
    in_flight_ops: BTreeMap<u64, InFlightOp>,
    next: u64,
    /// Completions to come: the time, the order of being served (which breaks ties), and the number
    /// of the operation.
    due: BinaryHeap<Reverse<(Duration, u64, u64)>>,
    served: u64,
    /// Operations completed and not yet given back.
    ready: Vec<Done>,
}

/// The operations of one disk.
struct DiskQueue {
    disk: SimDisk,
    waiting: VecDeque<u64>,
    /// Operations being served. Invariant: at most as many as the disk has channels.
    serving: usize,
}

struct InFlightOp {
    op: Op,
    medium: SimMedium,
    disk_queue: usize,
    pending: PendingOp,
    start: Duration,
}

impl std::fmt::Debug for SimEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SimEngine(seed {}, {} of {} in flight)", self.seed, self.in_flight(), self.depth)
    }
}

impl SimEngine {
    /// An engine that takes `depth` operations at a time. The seed decides the order where a disk's
    /// model allows reordering.
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
            disk_queues: Vec::new(),
            in_flight_ops: BTreeMap::new(),
            next: 0,
            due: BinaryHeap::new(),
            served: 0,
            ready: Vec::new(),
        }
    }

    /// The virtual time.
    pub fn now(&self) -> Duration {
        self.clock.now()
    }

    fn queue_of(&mut self, disk: &SimDisk) -> usize {
        let known = self
            .disk_queues
            .iter()
            .position(|disk_queue| Arc::ptr_eq(&disk_queue.disk.shared, &disk.shared));
        known.unwrap_or_else(|| {
            self.disk_queues.push(DiskQueue {
                disk: disk.clone(),
                waiting: VecDeque::new(),
                serving: 0,
            });
            self.disk_queues.len() - 1
        })
    }

    /// Lets a disk begin as many operations as it has free channels.
    fn dispatch(&mut self, disk_queue: usize, at: Duration) {
        let disk_queue = &mut self.disk_queues[disk_queue];
        let model = disk_queue.disk.model();
        while disk_queue.serving < model.channels && !disk_queue.waiting.is_empty() {
            let which = if model.reorder {
                self.random.below(disk_queue.waiting.len() as u64) as usize
            } else {
                0
            };
            let Some(number) = disk_queue.waiting.remove(which) else { return };
            disk_queue.serving += 1;
            let in_flight = self.in_flight_ops.get_mut(&number).expect("what waits is in flight");
            let (service, on_link) = in_flight.medium.cost(&in_flight.pending);
            in_flight.start = at;
            let end = disk_queue.disk.schedule(at, service, on_link);
            self.due.push(Reverse((end, self.served, number)));
            self.served += 1;
        }
    }

    /// Completes every operation that ends until `time`. An operation that may begin then begins at
    /// its own time, not at `time`.
    fn catch_up(&mut self, time: Duration) {
        while self.due.peek().is_some_and(|Reverse((end, ..))| *end <= time) {
            self.complete_next();
        }
    }

    fn complete_next(&mut self) -> Option<Duration> {
        let Reverse((end, _, number)) = self.due.pop()?;
        let InFlightOp { mut op, medium, disk_queue, pending, start } =
            self.in_flight_ops.remove(&number).expect("what completes is in flight");
        self.clock.advance_to(end);
        let result = medium.complete(&mut op, pending, start, end);
        self.ready.push(Done { op, result });
        self.disk_queues[disk_queue].serving -= 1;
        self.dispatch(disk_queue, end);
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
        self.in_flight_ops.len() + self.ready.len()
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
        let pending = medium.begin(&op);
        let disk_queue = self.queue_of(medium.disk());
        self.in_flight_ops
            .insert(self.next, InFlightOp { op, medium, disk_queue, pending, start: now });
        self.disk_queues[disk_queue].waiting.push_back(self.next);
        self.next += 1;
        self.dispatch(disk_queue, now);
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
    /// Started operations happen even if the engine is dropped, as with the other engines.
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("simulated engine: seed {}, at {:?}", self.seed, self.now());
            return;
        }
        while self.complete_next().is_some() {}
    }
}

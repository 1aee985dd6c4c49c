//! Runs the requests of a trace in simulated time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use crate::replay::planned::{Plan, PlannedRequest};

/// Says how long requests take.
pub(super) trait Timing {
    /// The time at which a request ends that a thread makes at `now`, in nanoseconds.
    fn end(&mut self, thread: u32, index: u32, request: &PlannedRequest, now: u64) -> u64;
}

/// What came of a simulation, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Simulated {
    /// From the beginning to the end of the command.
    pub(super) time: u64,
    /// The time that threads spent in requests, by file.
    pub(super) by_file: Vec<u64>,
}

/// Runs all threads: each makes its requests one after the other, with its pauses, and waits for
/// those of others as it did when it was recorded.
pub(super) fn simulate(plan: &Plan, timing: &mut impl Timing) -> Simulated {
    let mut run = Run {
        plan,
        ready: BinaryHeap::new(),
        next: vec![0; plan.threads.len()],
        ended: vec![0; plan.threads.len()],
        awaited: HashMap::new(),
        waiting: HashMap::new(),
        simulated: Simulated { time: 0, by_file: vec![0; plan.files.len()] },
    };
    (0..plan.threads.len() as u32).for_each(|thread| run.prepare(thread));
    while let Some(Reverse((now, thread))) = run.ready.pop() {
        run.request(thread, now, timing);
    }
    run.simulated.time = run.simulated.time.saturating_add(plan.tail);
    run.simulated
}

struct Run<'a> {
    plan: &'a Plan,
    /// Threads by the time of their next request.
    ready: BinaryHeap<Reverse<(u64, u32)>>,
    /// The number of the next request of each thread.
    next: Vec<u32>,
    /// When the last request of each thread ended.
    ended: Vec<u64>,
    /// When requests ended that others wait for.
    awaited: HashMap<(u32, u32), u64>,
    /// Threads that wait for a request.
    waiting: HashMap<(u32, u32), Vec<u32>>,
    simulated: Simulated,
}

impl Run<'_> {
    /// Has the next request of a thread made at its time, or when what it waits for has ended.
    fn prepare(&mut self, thread: u32) {
        let requests = &self.plan.threads[thread as usize].requests;
        let Some(request) = requests.get(self.next[thread as usize] as usize) else { return };
        let mut from = self.ended[thread as usize];
        if let Some(after) = request.after {
            match self.awaited.get(&after) {
                Some(ended) => from = from.max(*ended),
                None => return self.waiting.entry(after).or_default().push(thread),
            }
        }
        self.ready.push(Reverse((from.saturating_add(request.pause), thread)));
    }

    fn request(&mut self, thread: u32, now: u64, timing: &mut impl Timing) {
        let index = self.next[thread as usize];
        let request = &self.plan.threads[thread as usize].requests[index as usize];
        let end = timing.end(thread, index, request, now).max(now);
        let spent = &mut self.simulated.by_file[request.file as usize];
        *spent = spent.saturating_add(end - now);
        self.simulated.time = self.simulated.time.max(end);
        self.ended[thread as usize] = end;
        self.next[thread as usize] += 1;
        if request.is_awaited {
            self.awaited.insert((thread, index), end);
            for waiting in self.waiting.remove(&(thread, index)).unwrap_or_default() {
                self.prepare(waiting);
            }
        }
        self.prepare(thread);
    }
}

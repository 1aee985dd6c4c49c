//! Threads that stand for the requests which one thread had in flight at once.

use std::collections::BTreeSet;

use super::planned::{PlannedRequest, PlannedThread};

/// The requests that calls only began, each in a lane without others at its time.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    threads: Vec<PlannedThread>,
    /// The owner of each lane, when its last request ended, and its number.
    ends: BTreeSet<(u32, u64, usize)>,
}

impl Lanes {
    /// Adds a request of a thread of a process. Of the lanes that are free at its start, it goes to
    /// the one that became free last.
    pub(super) fn add(&mut self, process: u32, owner: u32, request: PlannedRequest) {
        let (start, end) = (request.start, request.end);
        let free = self.ends.range((owner, 0, 0)..=(owner, start, usize::MAX)).next_back().copied();
        let lane = match free {
            Some(free) => {
                self.ends.remove(&free);
                free.2
            }
            None => {
                self.threads.push(PlannedThread { process, owner, requests: Vec::new() });
                self.threads.len() - 1
            }
        };
        self.threads[lane].requests.push(request);
        self.ends.insert((owner, end, lane));
    }

    pub(super) fn into_threads(self) -> Vec<PlannedThread> {
        self.threads
    }
}

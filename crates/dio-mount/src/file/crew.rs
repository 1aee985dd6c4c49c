//! Threads for background work: read-ahead, write-behind, and clean-up of idle state.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use dio_fuse::leave_processor;
use parking_lot::{Condvar, Mutex, MutexGuard};

type FileJob = Box<dyn FnOnce() + Send>;

/// Most threads for transfers. Each does one transfer at a time, so this is also the most transfers
/// that the background has in flight.
pub(super) const TRANSFERS: usize = 8;

/// A thread that has found nothing to do for this long ends.
const IDLE: Duration = Duration::from_secs(5);

/// A few threads, started when there is something to do.
///
/// Jobs may wait for locks of files, which are held for no longer than a transfer, and for a write
/// that has begun, but never for a job that has not.
#[derive(Debug)]
pub(super) struct FileCrew {
    shared: Arc<CrewThreads>,
}

#[derive(Debug)]
struct CrewThreads {
    most: usize,
    state: Mutex<FileCrewState>,
    wake: Condvar,
}

#[derive(Default)]
struct FileCrewState {
    /// Jobs that programs will wait for. They run before `jobs`, which programs may wait for.
    urgent: VecDeque<FileJob>,
    jobs: VecDeque<FileJob>,
    /// Threads waiting for a job.
    idle: usize,
    threads: usize,
    handles: Vec<JoinHandle<()>>,
    over: bool,
}

impl std::fmt::Debug for FileCrewState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} jobs, {} threads", self.urgent.len() + self.jobs.len(), self.threads)
    }
}

impl FileCrew {
    /// Creates a crew of at most `most` threads.
    pub(super) fn new(most: usize) -> FileCrew {
        FileCrew {
            shared: Arc::new(CrewThreads { most, state: Mutex::default(), wake: Condvar::new() }),
        }
    }

    /// Runs `job` soon, and before other jobs if it is `urgent`. Returns false if no thread can run
    /// it, now or later.
    pub(super) fn run(&self, urgent: bool, job: impl FnOnce() + Send + 'static) -> bool {
        let mut state = self.shared.state();
        if state.over {
            return false;
        }
        let waiting = state.urgent.len() + state.jobs.len();
        if state.idle <= waiting && state.threads < self.shared.most {
            let shared = Arc::clone(&self.shared);
            match thread::Builder::new().name("dio-background".into()).spawn(move || {
                leave_processor();
                shared.work();
            }) {
                Ok(handle) => {
                    state.threads += 1;
                    state.handles.retain(|handle| !handle.is_finished());
                    state.handles.push(handle);
                }
                Err(_) if state.threads == 0 => return false,
                Err(_) => {}
            }
        }
        if urgent {
            state.urgent.push_back(Box::new(job))
        } else {
            state.jobs.push_back(Box::new(job))
        }
        drop(state);
        self.shared.wake.notify_one();
        true
    }
}

impl Drop for FileCrew {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.over = true;
        let handles = std::mem::take(&mut state.handles);
        drop(state);
        self.shared.wake.notify_all();
        for handle in handles {
            // The last reference to a mount may be dropped in one of its own threads.
            if handle.thread().id() != thread::current().id() {
                let _ = handle.join();
            }
        }
    }
}

impl CrewThreads {
    fn state(&self) -> MutexGuard<'_, FileCrewState> {
        self.state.lock()
    }

    fn work(&self) {
        let mut state = self.state();
        loop {
            if let Some(job) = state.urgent.pop_front().or_else(|| state.jobs.pop_front()) {
                drop(state);
                // The panic was reported already, and the other jobs must still run.
                let _ = catch_unwind(AssertUnwindSafe(job));
                state = self.state();
                continue;
            }
            if state.over {
                break;
            }
            state.idle += 1;
            let wait = self.wake.wait_for(&mut state, IDLE);
            state.idle -= 1;
            if wait.timed_out() && state.urgent.is_empty() && state.jobs.is_empty() {
                break;
            }
        }
        state.threads -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn every_job_is_run_and_urgent_ones_first() {
        let crew = FileCrew::new(TRANSFERS);
        let (send, receive) = mpsc::channel();
        let (open, gate) = mpsc::channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        // All threads are blocked, so that the order of the other jobs can be observed.
        let (held, all_held) = mpsc::channel();
        for _ in 0..TRANSFERS {
            let (gate, held) = (Arc::clone(&gate), held.clone());
            assert!(crew.run(false, move || {
                held.send(()).unwrap();
                gate.lock().recv().unwrap()
            }));
        }
        (0..TRANSFERS).for_each(|_| all_held.recv().unwrap());
        for number in 0..20 {
            let send = send.clone();
            crew.run(number >= 10, move || send.send(number).unwrap());
        }
        open.send(()).unwrap();
        let order: Vec<i32> = (0..20).map(|_| receive.recv().unwrap()).collect();
        assert_eq!(order, (10..20).chain(0..10).collect::<Vec<_>>());
        (1..TRANSFERS).for_each(|_| open.send(()).unwrap());
    }

    #[test]
    fn what_is_queued_is_run_before_the_end() {
        let crew = FileCrew::new(TRANSFERS);
        let count = Arc::new(Mutex::new(0));
        for _ in 0..100 {
            let count = Arc::clone(&count);
            crew.run(false, move || *count.lock() += 1);
        }
        drop(crew);
        assert_eq!(*count.lock(), 100);
    }
}

//! The blocking engine: a bounded pool of threads, each of which runs one system call at a time, as
//! the asynchronous I/O servers of the classic systems did. It serves kernels and containers that
//! refuse io_uring.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex, MutexGuard};
use rustix::io::Errno;

use super::{Done, Engine, Op};

/// Runs operations on threads. A thread starts when it is first needed and ends with the engine.
#[derive(Debug)]
pub struct Blocking {
    shared: Arc<OpQueue>,
    threads: Vec<JoinHandle<()>>,
    depth: usize,
    in_flight: usize,
}

#[derive(Debug, Default)]
struct OpQueue {
    state: Mutex<OpQueueState>,
    op_started: Condvar,
    op_completed: Condvar,
}

#[derive(Debug, Default)]
struct OpQueueState {
    /// Operations started and not yet taken by a thread.
    started: VecDeque<Op>,
    /// Operations completed and not yet given back.
    completed: Vec<Done>,
    idle: usize,
    closing: bool,
}

impl OpQueue {
    fn lock(&self) -> MutexGuard<'_, OpQueueState> {
        self.state.lock()
    }

    fn run_ops(&self) {
        let mut state = self.lock();
        loop {
            if let Some(mut op) = state.started.pop_front() {
                drop(state);
                let medium = Arc::clone(&op.medium);
                // A medium that panics fails its operation. Otherwise the caller would wait for
                // ever.
                let attempt = catch_unwind(AssertUnwindSafe(|| medium.transfer(&mut op)));
                let result = attempt.unwrap_or(Err(Errno::IO));
                state = self.lock();
                state.completed.push(Done { op, result });
                self.op_completed.notify_one();
            } else if state.closing {
                return;
            } else {
                state.idle += 1;
                self.op_started.wait(&mut state);
                state.idle -= 1;
            }
        }
    }
}

impl Blocking {
    /// An engine of at most `depth` threads, which run as many operations at a time.
    pub fn new(depth: usize) -> Blocking {
        assert!(depth > 0, "an engine takes at least one operation");
        Blocking { shared: Arc::default(), threads: Vec::new(), depth, in_flight: 0 }
    }

    /// Starts one more thread. If the system refuses (EAGAIN, `pthread_create(3)`), the existing
    /// threads do the work.
    fn add_thread(&mut self) {
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new().name("dio-aio".into()).stack_size(128 << 10);
        match thread.spawn(move || shared.run_ops()) {
            Ok(thread) => self.threads.push(thread),
            Err(_) => self.depth = self.threads.len().max(1),
        }
    }

    /// Runs an operation in the calling thread, when no thread could be started.
    fn run_one_here(&self) {
        let Some(mut op) = self.shared.lock().started.pop_front() else { return };
        let medium = Arc::clone(&op.medium);
        let result = medium.transfer(&mut op);
        self.shared.lock().completed.push(Done { op, result });
    }
}

impl Engine for Blocking {
    fn name(&self) -> &'static str {
        "blocking"
    }

    fn depth(&self) -> usize {
        self.depth
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn start(&mut self, op: Op) -> Result<(), Op> {
        if self.in_flight >= self.depth {
            return Err(op);
        }
        let mut state = self.shared.lock();
        state.started.push_back(op);
        let short_of_threads = state.idle < state.started.len();
        drop(state);
        self.in_flight += 1;
        if short_of_threads && self.threads.len() < self.depth {
            self.add_thread();
        }
        if self.threads.is_empty() {
            self.run_one_here();
        }
        self.shared.op_started.notify_one();
        Ok(())
    }

    fn finish(&mut self, min: usize, done: &mut Vec<Done>) -> io::Result<()> {
        let min = min.min(self.in_flight);
        let mut state = self.shared.lock();
        while state.completed.len() < min {
            self.shared.op_completed.wait(&mut state);
        }
        self.in_flight -= state.completed.len();
        done.append(&mut state.completed);
        Ok(())
    }
}

impl Drop for Blocking {
    fn drop(&mut self) {
        self.shared.lock().closing = true;
        self.shared.op_started.notify_all();
        for thread in self.threads.drain(..) {
            // A thread cannot panic outside a medium. If one did, there is nothing left to wait
            // for.
            let _ = thread.join();
        }
    }
}

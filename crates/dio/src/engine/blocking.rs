//! The blocking engine: a bounded pool of threads, each running one system call at a time, as the asynchronous I/O
//! servers of the classic systems did. For kernels and containers that refuse io_uring.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rustix::io::Errno;

use super::{Done, Engine, Op};

/// Runs operations on threads, which are started as they are first needed and end with the engine.
#[derive(Debug)]
pub struct Blocking {
    shared: Arc<Shared>,
    servers: Vec<JoinHandle<()>>,
    depth: usize,
    in_flight: usize,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    work: Condvar,
    completed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Started, not yet picked up.
    queue: VecDeque<Op>,
    /// Complete, not yet given back.
    done: Vec<Done>,
    idle: usize,
    closing: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self) {
        let mut state = self.lock();
        loop {
            if let Some(mut op) = state.queue.pop_front() {
                drop(state);
                let medium = Arc::clone(&op.medium);
                // A medium that panics fails its operation; who waits for it must not wait for ever.
                let attempt = catch_unwind(AssertUnwindSafe(|| medium.transfer(&mut op)));
                let result = attempt.unwrap_or(Err(Errno::IO));
                state = self.lock();
                state.done.push(Done { op, result });
                self.completed.notify_one();
            } else if state.closing {
                return;
            } else {
                state.idle += 1;
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
            }
        }
    }
}

impl Blocking {
    /// An engine of at most `depth` threads, hence as many operations at a time.
    pub fn new(depth: usize) -> Blocking {
        assert!(depth > 0, "an engine takes at least one operation");
        Blocking { shared: Arc::default(), servers: Vec::new(), depth, in_flight: 0 }
    }

    /// Starts one more server thread; where the system refuses (EAGAIN, `pthread_create(3)`), those there are do.
    fn add_server(&mut self) {
        let shared = Arc::clone(&self.shared);
        let server = std::thread::Builder::new().name("dio-aio".into()).stack_size(128 << 10);
        match server.spawn(move || shared.serve()) {
            Ok(server) => self.servers.push(server),
            Err(_) => self.depth = self.servers.len().max(1),
        }
    }

    /// Without a single server the caller's own thread serves.
    fn serve_here(&self) {
        let Some(mut op) = self.shared.lock().queue.pop_front() else { return };
        let medium = Arc::clone(&op.medium);
        let result = medium.transfer(&mut op);
        self.shared.lock().done.push(Done { op, result });
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
        state.queue.push_back(op);
        let short_of_servers = state.idle < state.queue.len();
        drop(state);
        self.in_flight += 1;
        if short_of_servers && self.servers.len() < self.depth {
            self.add_server();
        }
        if self.servers.is_empty() {
            self.serve_here();
        }
        self.shared.work.notify_one();
        Ok(())
    }

    fn finish(&mut self, min: usize, done: &mut Vec<Done>) -> io::Result<()> {
        let min = min.min(self.in_flight);
        let mut state = self.shared.lock();
        while state.done.len() < min {
            state = self.shared.completed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        self.in_flight -= state.done.len();
        done.append(&mut state.done);
        Ok(())
    }
}

impl Drop for Blocking {
    fn drop(&mut self) {
        self.shared.lock().closing = true;
        self.shared.work.notify_all();
        for server in self.servers.drain(..) {
            // A server cannot panic outside a medium; if one did, there is nothing left to wait for.
            let _ = server.join();
        }
    }
}

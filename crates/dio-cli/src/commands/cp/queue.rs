//! The bounded queue of jobs, and the workers that process it.
//!
//! A thread that finds the queue full does the job itself, depth first. This bounds memory, and no
//! thread waits for anything but the queue. Without workers, a copy runs in GNU cp's order.
//!
//! Several processes may share a copy (see `shared`): then jobs also leave the queue for another
//! process, and count as outstanding until that has done them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

/// Waiting jobs, newest first: a tree is walked depth first, which bounds the number of open
/// directories.
pub(crate) struct JobQueue<J> {
    state: Mutex<QueueState<J>>,
    changed: Condvar,
    /// Maximum number of waiting jobs.
    limit: usize,
    /// Maximum number of threads, whatever [`JobQueue::set_workers`] allows; with 0, the caller
    /// runs everything.
    workers: usize,
}

struct QueueState<J> {
    jobs: Vec<J>,
    /// Number of jobs that are waiting or running.
    outstanding: usize,
    /// Number of threads that wait for jobs, and how many of them are no workers, but callers of
    /// [`JobQueue::drain`].
    idle: usize,
    idle_callers: usize,
    /// Number of threads that wait for other processes, each of which a further thread replaces.
    away: usize,
    threads: Vec<JoinHandle<()>>,
    /// Number of workers that may run jobs at a time besides those that are away, and that do, away
    /// or not.
    allowed: usize,
    taken: usize,
    closed: bool,
    panicked: bool,
    busy: Busy,
}

impl<J> QueueState<J> {
    /// Whether one more worker may run a job.
    fn may_take(&self) -> bool {
        self.taken < self.allowed + self.away
    }
}

/// Measures the time in which at least one job was running.
#[derive(Default)]
struct Busy {
    running: usize,
    since: Option<Instant>,
    total: Duration,
}

impl Busy {
    fn begin(&mut self, now: Instant) {
        self.running += 1;
        self.since.get_or_insert(now);
    }

    fn end(&mut self, now: Instant) {
        self.running -= 1;
        if self.running == 0 {
            let since = self.since.take();
            self.total += since.map_or(Duration::ZERO, |since| now.duration_since(since));
        }
    }
}

/// The context of the workers: it runs their jobs.
pub(crate) trait RunJobs<J>: Send + Sync + 'static {
    /// A worker's own state, made in its thread.
    type Lane;
    fn queue(&self) -> &JobQueue<J>;
    fn lane(&self) -> Self::Lane;
    fn run(self: &Arc<Self>, lane: &mut Self::Lane, job: J);
}

impl<J: Send + 'static> JobQueue<J> {
    pub(crate) fn new(workers: usize, limit: usize) -> Self {
        let state = QueueState {
            jobs: Vec::new(),
            outstanding: 0,
            idle: 0,
            idle_callers: 0,
            away: 0,
            threads: Vec::new(),
            allowed: workers,
            taken: 0,
            closed: false,
            panicked: false,
            busy: Busy::default(),
        };
        Self { state: Mutex::new(state), changed: Condvar::new(), limit, workers }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState<J>> {
        self.state.lock()
    }

    /// Returns whether there are workers at all.
    pub(crate) fn parallel(&self) -> bool {
        self.workers > 0
    }

    /// Gives `job` to a worker, or returns it if enough jobs are waiting.
    pub(crate) fn offer<W: RunJobs<J>>(&self, work: &Arc<W>, job: J) -> Option<J> {
        if self.workers == 0 {
            return Some(job);
        }
        let mut state = self.lock();
        if state.jobs.len() >= self.limit {
            return Some(job);
        }
        // Without any thread the job would never run.
        if !self.start_worker(&mut state, work) {
            return Some(job);
        }
        state.jobs.push(job);
        state.outstanding += 1;
        self.wake_for_job(state);
        None
    }

    /// Wakes a thread that may take a new job.
    fn wake_for_job(&self, state: MutexGuard<'_, QueueState<J>>) {
        // More workers than may run now: one that is woken may have to leave the job to others.
        let some_may_not = state.threads.len() > state.allowed + state.away;
        drop(state);
        if some_may_not {
            self.changed.notify_all();
        } else {
            self.changed.notify_one();
        }
    }

    /// Starts a worker if no thread is idle and more are allowed. Returns whether a thread will
    /// take the next job: a worker, or the caller of [`JobQueue::drain`], which may be alone.
    fn start_worker<W: RunJobs<J>>(&self, state: &mut QueueState<J>, work: &Arc<W>) -> bool {
        if state.idle == 0 {
            self.add_worker(state, work);
        }
        state.idle > 0 || !state.threads.is_empty()
    }

    /// Starts a worker if more are allowed.
    fn add_worker<W: RunJobs<J>>(&self, state: &mut QueueState<J>, work: &Arc<W>) {
        if state.threads.len() < state.allowed + state.away {
            let worker = Arc::clone(work);
            let started = std::thread::Builder::new().name("dio-cp".into()).spawn(move || {
                let mut lane = worker.lane();
                worker.queue().serve(&worker, &mut lane, true);
            });
            state.threads.extend(started);
        }
    }

    /// Adds a job of another process; it is refused if no thread can be started.
    pub(crate) fn accept<W: RunJobs<J>>(&self, work: &Arc<W>, job: J) -> Result<(), J> {
        let mut state = self.lock();
        if !self.start_worker(&mut state, work) {
            return Err(job);
        }
        state.jobs.push(job);
        state.outstanding += 1;
        self.wake_for_job(state);
        Ok(())
    }

    /// Takes half of the waiting jobs that `may_leave` allows, the oldest first, at most `most`:
    /// these lead to most work. Enough stay for workers that have nothing to do. Those taken are
    /// outstanding until [`JobQueue::take_back`].
    pub(crate) fn take_oldest(&self, most: usize, may_leave: impl Fn(&J) -> bool) -> Vec<J> {
        let mut state = self.lock();
        let allowed = state.jobs.iter().filter(|job| may_leave(job)).count();
        let spare = state.jobs.len().saturating_sub(free(&state));
        let mut wanted = allowed.div_ceil(2).min(spare).min(most);
        let mut taken = Vec::with_capacity(wanted);
        let waiting = std::mem::take(&mut state.jobs);
        for job in waiting {
            if wanted > 0 && may_leave(&job) {
                wanted -= 1;
                taken.push(job);
            } else {
                state.jobs.push(job);
            }
        }
        taken
    }

    /// Counts a job that another process does from its start.
    pub(crate) fn lend(&self) {
        self.lock().outstanding += 1;
    }

    /// Takes `job` back from another process, in place of the one that it took. That one is
    /// outstanding, so a thread drains the queue or will: even without a worker the job is done.
    pub(crate) fn take_back<W: RunJobs<J>>(&self, work: &Arc<W>, job: J) {
        let mut state = self.lock();
        self.start_worker(&mut state, work);
        state.jobs.push(job);
        self.wake_for_job(state);
    }

    /// Another process has a job that was taken out, and nobody takes it back.
    pub(crate) fn forget(&self) {
        let mut state = self.lock();
        state.outstanding -= 1;
        if state.outstanding == 0 {
            self.changed.notify_all();
        }
    }

    /// Has up to `workers` workers run jobs at a time from now on, at least one. What runs goes on.
    pub(crate) fn set_workers<W: RunJobs<J>>(&self, work: &Arc<W>, workers: usize) {
        let mut state = self.lock();
        state.allowed = workers.max(1).min(self.workers);
        // Idle threads take as many jobs as there are of them.
        for _ in state.idle..state.jobs.len().min(free(&state)) {
            self.add_worker(&mut state, work);
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Number of threads that run jobs, and do not wait for another process.
    pub(crate) fn running(&self) -> usize {
        self.lock().busy.running
    }

    /// How long at least one job was running that did not wait for another process. What runs now
    /// does not count yet.
    pub(crate) fn busy(&self) -> Duration {
        self.lock().busy.total
    }

    /// Returns whether a job has panicked, so that what it was to do will never be done.
    pub(crate) fn has_panicked(&self) -> bool {
        self.lock().panicked
    }

    /// Returns whether there are fewer waiting jobs than workers that could do them.
    pub(crate) fn is_hungry(&self) -> bool {
        let state = self.lock();
        state.jobs.len() < free(&state)
    }

    /// Returns whether there are more waiting jobs than workers that could begin them now. The last
    /// jobs stay, because two processes could otherwise send them to each other for ever.
    pub(crate) fn has_spare(&self) -> bool {
        let state = self.lock();
        state.jobs.len() > free(&state)
    }

    /// Calls `wait`, which waits for another process. Another thread takes jobs meanwhile.
    pub(crate) fn aside<W: RunJobs<J>, T>(&self, work: &Arc<W>, wait: impl FnOnce() -> T) -> T {
        let mut state = self.lock();
        state.away += 1;
        state.busy.end(Instant::now());
        if !state.jobs.is_empty() {
            self.start_worker(&mut state, work);
            // An idle one may not have been allowed to take a job before.
            self.changed.notify_all();
        }
        drop(state);
        let outcome = wait();
        let mut state = self.lock();
        state.away -= 1;
        state.busy.begin(Instant::now());
        outcome
    }

    /// Calls `work`, which the caller does besides its jobs, and counts its time as busy.
    pub(crate) fn working<T>(&self, work: impl FnOnce() -> T) -> T {
        self.lock().busy.begin(Instant::now());
        let outcome = work();
        self.lock().busy.end(Instant::now());
        outcome
    }

    /// Runs jobs in the caller until none is waiting or running.
    pub(crate) fn drain<W: RunJobs<J>>(&self, work: &Arc<W>, lane: &mut W::Lane) {
        self.serve(work, lane, false);
    }

    /// Runs the remaining jobs and ends the workers; returns false if one of them panicked.
    pub(crate) fn close<W: RunJobs<J>>(&self, work: &Arc<W>, lane: &mut W::Lane) -> bool {
        self.drain(work, lane);
        let threads = {
            let mut state = self.lock();
            state.closed = true;
            std::mem::take(&mut state.threads)
        };
        self.changed.notify_all();
        let joined =
            threads.into_iter().map(JoinHandle::join).fold(true, |all, one| all & one.is_ok());
        joined && !self.lock().panicked
    }

    /// Processes jobs. With `stay`, a worker continues until the queue is closed; else the call
    /// returns when no job is waiting or running.
    fn serve<W: RunJobs<J>>(&self, work: &Arc<W>, lane: &mut W::Lane, stay: bool) {
        let mut state = self.lock();
        loop {
            let may_take = !stay || state.may_take();
            if may_take && let Some(job) = state.jobs.pop() {
                state.busy.begin(Instant::now());
                state.taken += usize::from(stay);
                drop(state);
                let done = catch_unwind(AssertUnwindSafe(|| work.run(lane, job)));
                state = self.lock();
                state.busy.end(Instant::now());
                state.taken -= usize::from(stay);
                state.panicked |= done.is_err();
                state.outstanding -= 1;
                if state.outstanding == 0 {
                    self.changed.notify_all();
                }
            } else if state.closed || (!stay && state.outstanding == 0) {
                return;
            } else {
                state.idle += 1;
                state.idle_callers += usize::from(!stay);
                self.changed.wait(&mut state);
                state.idle -= 1;
                state.idle_callers -= usize::from(!stay);
            }
        }
    }
}

/// Number of workers that have nothing to do or could be started, and of callers that wait.
fn free<J>(state: &QueueState<J>) -> usize {
    state.idle_callers + (state.allowed + state.away).saturating_sub(state.taken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A job `n` makes `n` jobs `n - 1`.
    struct Tree {
        queue: JobQueue<u32>,
        ran: AtomicUsize,
        most: AtomicUsize,
    }

    impl RunJobs<u32> for Tree {
        type Lane = ();
        fn queue(&self) -> &JobQueue<u32> {
            &self.queue
        }
        fn lane(&self) {}
        fn run(self: &Arc<Self>, (): &mut (), job: u32) {
            self.ran.fetch_add(1, Ordering::Relaxed);
            for _ in 0..job {
                if let Some(back) = self.queue.offer(self, job - 1) {
                    self.run(&mut (), back);
                }
                self.most.fetch_max(self.queue.lock().jobs.len(), Ordering::Relaxed);
            }
        }
    }

    #[test]
    fn every_job_runs_once_within_the_limit() {
        for (workers, limit) in [(0, 0), (1, 1), (4, 3), (8, 1000)] {
            let tree = Arc::new(Tree {
                queue: JobQueue::new(workers, limit),
                ran: AtomicUsize::new(0),
                most: AtomicUsize::new(0),
            });
            tree.run(&mut (), 6);
            tree.queue.drain(&tree, &mut ());
            // 1 + 6 + 6·5 + … + 6!
            assert_eq!(tree.ran.load(Ordering::Relaxed), 1957);
            assert!(tree.queue.close(&tree, &mut ()));
            assert!(tree.most.load(Ordering::Relaxed) <= limit);
        }
    }

    /// Other processes give back and lend while the only thread is the one that drains.
    #[test]
    fn the_thread_that_drains_does_what_other_processes_send() {
        for workers in [0, 2] {
            let tree = Arc::new(Tree {
                queue: JobQueue::new(workers, 10),
                ran: AtomicUsize::new(0),
                most: AtomicUsize::new(0),
            });
            tree.queue.lend();
            tree.queue.lend();
            let draining = {
                let tree = Arc::clone(&tree);
                std::thread::spawn(move || tree.queue.drain(&tree, &mut ()))
            };
            while tree.queue.lock().idle == 0 {
                std::thread::yield_now();
            }
            assert_eq!(tree.queue.accept(&tree, 2), Ok(()));
            tree.queue.take_back(&tree, 0);
            tree.queue.take_back(&tree, 0);
            draining.join().unwrap();
            assert_eq!(tree.ran.load(Ordering::Relaxed), 1 + 2 + 2 + 2);
            assert!(tree.queue.close(&tree, &mut ()));
        }
    }

    /// A job comes back before anything drains the queue, and no thread can be started.
    #[test]
    fn a_job_that_comes_back_waits_for_the_thread_that_drains() {
        let tree = Arc::new(Tree {
            queue: JobQueue::new(0, 10),
            ran: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
        });
        tree.queue.lend();
        tree.queue.take_back(&tree, 1);
        assert_eq!(tree.queue.accept(&tree, 1), Err(1));
        assert!(tree.queue.close(&tree, &mut ()));
        assert_eq!(tree.ran.load(Ordering::Relaxed), 2);
    }

    /// A job runs until it is told to end, and counts those that run beside it.
    #[test]
    fn as_many_workers_run_as_are_allowed_now() {
        struct Waiting {
            queue: JobQueue<()>,
            running: AtomicUsize,
            go: AtomicUsize,
        }
        impl RunJobs<()> for Waiting {
            type Lane = ();
            fn queue(&self) -> &JobQueue<()> {
                &self.queue
            }
            fn lane(&self) {}
            fn run(self: &Arc<Self>, (): &mut (), (): ()) {
                self.running.fetch_add(1, Ordering::SeqCst);
                while self
                    .go
                    .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1))
                    .is_err()
                {
                    std::thread::sleep(Duration::from_millis(1));
                }
                self.running.fetch_sub(1, Ordering::SeqCst);
            }
        }
        let work = Arc::new(Waiting {
            queue: JobQueue::new(8, 100),
            running: AtomicUsize::new(0),
            go: AtomicUsize::new(0),
        });
        // Waits until so many run, and then a moment longer, in which no other may begin.
        let settles_at = |wanted: usize| {
            for pause in [1; 2000] {
                if work.running.load(Ordering::SeqCst) == wanted {
                    break;
                }
                std::thread::sleep(Duration::from_millis(pause));
            }
            std::thread::sleep(Duration::from_millis(20));
            assert_eq!(work.running.load(Ordering::SeqCst), wanted);
        };
        let queue = &work.queue;
        queue.set_workers(&work, 2);
        for _ in 0..30 {
            assert_eq!(queue.offer(&work, ()), None);
        }
        settles_at(2);
        assert!(queue.has_spare() && !queue.is_hungry());
        queue.set_workers(&work, 6);
        settles_at(6);
        queue.set_workers(&work, 0);
        work.go.store(5, Ordering::SeqCst);
        settles_at(1);
        work.go.store(1, Ordering::SeqCst);
        settles_at(1);
        // The one that is away is replaced, and the threads of before are enough.
        let threads = queue.lock().threads.len();
        queue.aside(&work, || settles_at(2));
        assert_eq!(queue.lock().threads.len(), threads);
        queue.set_workers(&work, 100);
        settles_at(8);
        work.go.store(30, Ordering::SeqCst);
        assert!(queue.close(&work, &mut ()));
    }

    #[test]
    fn time_is_busy_while_anything_runs() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut busy = Busy::default();
        busy.begin(at(1));
        busy.begin(at(2));
        busy.end(at(3));
        busy.end(at(5));
        busy.begin(at(8));
        busy.end(at(9));
        assert_eq!((busy.total, busy.running), (Duration::from_secs(5), 0));
    }

    #[test]
    fn a_panic_does_not_hang_the_rest() {
        struct Bad(JobQueue<u32>);
        impl RunJobs<u32> for Bad {
            type Lane = ();
            fn queue(&self) -> &JobQueue<u32> {
                &self.0
            }
            fn lane(&self) {}
            fn run(self: &Arc<Self>, (): &mut (), job: u32) {
                assert!(job != 3, "the panic this test wants");
            }
        }
        let bad = Arc::new(Bad(JobQueue::new(2, 10)));
        for job in 0..10 {
            assert!(bad.0.offer(&bad, job).is_none_or(|job| job == 3 || job < 10));
        }
        assert!(!bad.0.close(&bad, &mut ()));
    }
}

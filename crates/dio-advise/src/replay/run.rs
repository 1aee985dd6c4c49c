//! The threads of a replay.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::buffer::Buffer;
use super::handle::Handle;
use super::model::{ReplayError, ReplayOptions, Speed};
use super::planned::{Plan, PlannedRequest};
use super::scratch::Scratch;
use crate::trace::Call;

/// The rest of a pause is spent running, because a thread that sleeps wakes up late.
const LATE: Duration = Duration::from_micros(100);

/// How often a waiting thread looks whether the replay ends.
const LOOK: Duration = Duration::from_millis(50);

/// How far a thread has come.
#[derive(Debug, Default)]
struct Progress {
    done: AtomicU32,
    lock: Mutex<()>,
    changed: Condvar,
}

/// What all threads share.
struct Run<'a> {
    plan: &'a Plan,
    scratch: &'a Scratch,
    options: ReplayOptions,
    is_stopped: &'a (dyn Fn() -> bool + Sync),
    progress: Vec<Progress>,
    /// The threads whose first request waits for a request of another one.
    children: HashMap<(u32, u32), Vec<u32>>,
    /// By process, file, and the flags of the file.
    handles: Mutex<HashMap<HandleKey, Arc<Handle>>>,
    /// Counts what changes in the table of handles.
    generation: AtomicU64,
    ends: AtomicBool,
    /// The first error.
    error: Mutex<Option<ReplayError>>,
    bytes: AtomicU64,
    differing: AtomicU64,
}

type HandleKey = (u32, u32, bool, bool);

/// What a replay did.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done {
    pub(super) time: Duration,
    pub(super) bytes: u64,
    pub(super) differing: u64,
}

/// Replays a plan on its files.
pub(super) fn run(
    plan: &Plan,
    scratch: &Scratch,
    options: ReplayOptions,
    is_stopped: &(dyn Fn() -> bool + Sync),
) -> Result<Done, ReplayError> {
    let mut children: HashMap<(u32, u32), Vec<u32>> = HashMap::new();
    let mut first = Vec::new();
    for (number, thread) in plan.threads.iter().enumerate() {
        match thread.requests.first().map(|request| request.after) {
            Some(Some(after)) => children.entry(after).or_default().push(number as u32),
            Some(None) => first.push(number as u32),
            None => {}
        }
    }
    let run = Run {
        plan,
        scratch,
        options,
        is_stopped,
        progress: plan.threads.iter().map(|_| Progress::default()).collect(),
        children,
        handles: Mutex::default(),
        generation: AtomicU64::new(0),
        ends: AtomicBool::new(false),
        error: Mutex::default(),
        bytes: AtomicU64::new(0),
        differing: AtomicU64::new(0),
    };
    let began = Instant::now();
    thread::scope(|scope| first.into_iter().for_each(|number| run.start(scope, number, began)));
    if options.speed == Speed::AsRecorded && run.error.lock().is_none() {
        run.sleep_until(Instant::now() + Duration::from_nanos(plan.tail));
    }
    let time = began.elapsed();
    match run.error.into_inner() {
        Some(error) => Err(error),
        None => {
            Ok(Done { time, bytes: run.bytes.into_inner(), differing: run.differing.into_inner() })
        }
    }
}

/// What a thread keeps to itself.
#[derive(Default)]
struct Own {
    buffer: Buffer,
    /// The handle that was used last, and the generation of the table then.
    last: Option<(HandleKey, u64, Arc<Handle>)>,
    bytes: u64,
    differing: u64,
}

impl Run<'_> {
    fn start<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, thread: u32, from: Instant) {
        let name = format!("replay-{thread}");
        let started = thread::Builder::new()
            .name(name)
            .spawn_scoped(scope, move || self.thread(scope, thread, from));
        if let Err(error) = started {
            self.fail(ReplayError::Io { what: "cannot make a thread".into(), error });
        }
    }

    fn fail(&self, error: ReplayError) {
        self.error.lock().get_or_insert(error);
        self.ends.store(true, Ordering::Relaxed);
        for progress in &self.progress {
            let _lock = progress.lock.lock();
            progress.changed.notify_all();
        }
    }

    /// Makes the requests of a thread, the first one a pause after `from`.
    ///
    /// What the replay itself does between two requests counts as a part of the pause. Where a
    /// pause is shorter than that, later ones make up for it: `clock` is the time that it would be.
    fn thread<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, number: u32, from: Instant) {
        let (mut own, mut clock) = (Own::default(), from);
        let thread = &self.plan.threads[number as usize];
        for (index, request) in thread.requests.iter().enumerate() {
            // The first request of a thread waits by the thread's being started late.
            if let (Some(after), true) = (request.after, index > 0) {
                self.wait_for(after);
                clock = Instant::now();
            }
            if self.options.speed == Speed::AsRecorded {
                clock += Duration::from_nanos(request.pause);
                if request.waited { self.sleep_until(clock) } else { self.compute_until(clock) }
            }
            if self.has_ended() {
                break;
            }
            let began = Instant::now();
            if let Err(error) = self.request(thread.process, request, &mut own) {
                self.fail(error);
                break;
            }
            let ended = Instant::now();
            // A thread that lost the processor does not make up for that.
            clock = clock.max(began.checked_sub(LATE).unwrap_or(began)) + (ended - began);
            self.progress[number as usize].done.store(index as u32 + 1, Ordering::Release);
            if request.is_awaited {
                self.tell(scope, (number, index as u32), ended);
            }
        }
        self.bytes.fetch_add(own.bytes, Ordering::Relaxed);
        self.differing.fetch_add(own.differing, Ordering::Relaxed);
    }

    /// Tells those who wait for a request that it is done.
    fn tell<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, done: (u32, u32), at: Instant) {
        for child in self.children.get(&done).into_iter().flatten() {
            self.start(scope, *child, at);
        }
        let progress = &self.progress[done.0 as usize];
        let _lock = progress.lock.lock();
        progress.changed.notify_all();
    }

    fn has_ended(&self) -> bool {
        if (self.is_stopped)() && !self.ends.load(Ordering::Relaxed) {
            self.fail(ReplayError::Stopped);
        }
        self.ends.load(Ordering::Relaxed)
    }

    /// Waits until another thread has made a request.
    fn wait_for(&self, (thread, index): (u32, u32)) {
        let progress = &self.progress[thread as usize];
        let mut lock = progress.lock.lock();
        while progress.done.load(Ordering::Acquire) <= index && !self.ends.load(Ordering::Relaxed) {
            let timed_out = progress.changed.wait_for(&mut lock, LOOK).timed_out();
            if timed_out && (self.is_stopped)() {
                return;
            }
        }
    }

    fn sleep_until(&self, time: Instant) {
        loop {
            let left = time.saturating_duration_since(Instant::now());
            if left < LATE || (left > LOOK && self.has_ended()) {
                return self.compute_until(time);
            }
            thread::sleep((left - LATE).min(LOOK));
        }
    }

    /// Uses the processor until then, as the command did.
    fn compute_until(&self, time: Instant) {
        let mut look = Instant::now() + LOOK;
        loop {
            let now = Instant::now();
            if now >= time || (now >= look && self.has_ended()) {
                return;
            }
            if now >= look {
                look = now + LOOK;
            }
            std::hint::spin_loop();
        }
    }

    fn request(
        &self,
        process: u32,
        request: &PlannedRequest,
        own: &mut Own,
    ) -> Result<(), ReplayError> {
        let key = (process, request.file, request.direct, request.synced);
        let failed = |error| {
            let (call, offset) = (request.call.name(), request.offset);
            let file = self.scratch.path(request.file);
            let file = dio::quote::named(&file);
            ReplayError::Io { what: format!("{call} of {file} at {offset}"), error }
        };
        let handle = self.handle(key, request, own).map_err(failed)?;
        let to = request.to.map(|(to, _)| self.find((process, to, false, request.synced), request));
        let to = to.transpose().map_err(failed)?;
        let count = match request.call {
            Call::Open => request.done,
            _ => handle.run(request, to.as_deref(), &mut own.buffer).map_err(failed)?,
        };
        let moves = request.call.reads() || request.call.writes();
        if moves {
            own.bytes += count;
            own.differing += u64::from(count != request.done);
        }
        if request.is_last {
            own.last = None;
            self.close(process, request.file).map_err(failed)?;
        }
        Ok(())
    }

    /// Closes a file of a process.
    fn close(&self, process: u32, file: u32) -> io::Result<()> {
        let flags = [(false, false), (false, true), (true, false), (true, true)];
        for (direct, synced) in flags {
            let closed = self.handles.lock().remove(&(process, file, direct, synced));
            closed.map_or(Ok(()), |handle| handle.finish())?;
        }
        self.generation.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// The handle for a request: a new one for a call that opens the file.
    fn handle(
        &self,
        key: HandleKey,
        request: &PlannedRequest,
        own: &mut Own,
    ) -> io::Result<Arc<Handle>> {
        let generation = self.generation.load(Ordering::Acquire);
        if request.call == Call::Open {
            let old = self.handles.lock().remove(&key);
            old.map_or(Ok(()), |handle| handle.finish())?;
            self.generation.fetch_add(1, Ordering::Release);
        } else if let Some((last, at, handle)) = &own.last
            && (*last, *at) == (key, generation)
        {
            return Ok(Arc::clone(handle));
        }
        let handle = self.find(key, request)?;
        own.last = Some((key, self.generation.load(Ordering::Acquire), Arc::clone(&handle)));
        Ok(handle)
    }

    fn find(&self, key: HandleKey, request: &PlannedRequest) -> io::Result<Arc<Handle>> {
        let mut handles = self.handles.lock();
        if let Some(handle) = handles.get(&key) {
            return Ok(Arc::clone(handle));
        }
        let path = self.scratch.path(key.1);
        let handle = Arc::new(Handle::open(&path, self.options.mode, request)?);
        handles.insert(key, Arc::clone(&handle));
        Ok(handle)
    }
}

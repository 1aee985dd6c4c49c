//! Runs a command and records it by `ptrace(2)`.
//!
//! One thread traces: it starts the command, stops it at each call, and makes the trace of what it
//! sees. When that thread ends, the kernel lets go whatever is left of the command, at once and
//! without a gap; the same happens if dio is killed. Meanwhile the calling thread asks for signals
//! and has the trace written from time to time.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::sync::OnceLock;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use dio_sys::ask_for_slices;
use dio_sys::ptrace::hold;
use parking_lot::Mutex;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::collector::Collector;
use super::cost::start_tracing;
use super::error::{FLUSH, RecordError};
use super::outcome::Recorded;
use crate::trace::EventSink;
use crate::watch::{Record, Step, Tracer, WatchError, Watched, monotonic};

/// How often the calling thread asks for a signal.
const ASK: Duration = Duration::from_millis(10);

/// What the tracing thread and the calling one share.
struct Shared<S> {
    collector: Mutex<Option<Collector<S>>>,
    /// The command.
    process: OnceLock<OwnedFd>,
}

/// Runs and records a command; see [`super::record`]. `begun` is called when it is certain that it
/// can be traced.
pub(super) fn record_traced<S: EventSink + Send>(
    command: &mut Command,
    words: Vec<String>,
    sink: S,
    signal: &dyn Fn() -> Option<i32>,
    begun: &(dyn Fn() + Sync),
) -> Result<Recorded, RecordError> {
    let shared = Shared { collector: Mutex::new(None), process: OnceLock::new() };
    let (ended, end) = channel();
    let result = thread::scope(|scope| {
        let tracing = scope.spawn(|| {
            let ended: Sender<()> = ended;
            let result = trace(command, words, sink, &shared, begun);
            // The other thread is there until this one has ended.
            let _ = ended.send(());
            result
        });
        let mut is_signalled = false;
        let mut since_flush = Duration::ZERO;
        while end.recv_timeout(ASK) == Err(RecvTimeoutError::Timeout) {
            if let (Some(signal), Some(process), false) =
                (signal(), shared.process.get(), is_signalled)
            {
                is_signalled = true;
                send(process, signal);
            }
            since_flush += ASK;
            if since_flush >= FLUSH {
                since_flush = Duration::ZERO;
                shared.collector.lock().iter_mut().for_each(Collector::flush);
            }
        }
        tracing.join()
    });
    let (status, lost, without_rights) = match result {
        Ok(traced) => traced?,
        Err(panic) => std::panic::resume_unwind(panic),
    };
    let collector = shared.collector.into_inner().expect("it was made for the command");
    let recorded = collector.end(status, lost).map_err(RecordError::Trace)?;
    Ok(Recorded { without_rights, ..recorded })
}

type Traced = (ExitStatus, u64, Option<std::path::PathBuf>);

/// Traces the command to its end.
fn trace<S: EventSink + Send>(
    command: &mut Command,
    words: Vec<String>,
    sink: S,
    shared: &Shared<S>,
    begun: &(dyn Fn() + Sync),
) -> Result<Traced, RecordError> {
    let (mut tracer, watching) = start_tracing()?;
    begun();
    let mut collector = Collector::new(words, watching, sink).map_err(RecordError::Trace)?;
    let process = start(command, &mut tracer)?;
    collector.flush();
    *shared.collector.lock() = Some(collector);
    let made = Record::child(std::process::id(), process, monotonic());
    take(shared, &made);
    if let Some(descriptor) = descriptor_of(process) {
        let _ = shared.process.set(descriptor);
    }
    let status = loop {
        let step = tracer.step(&mut |record| take(shared, record)).map_err(RecordError::Trace)?;
        match step {
            Step::Ended(ended, status) if ended == process => break status,
            _ => {}
        }
    };
    let without_rights = tracer.without_rights().cloned();
    Ok((ExitStatus::from_raw(status), tracer.lost(), without_rights))
}

fn take<S: EventSink>(shared: &Shared<S>, record: &Record<'_>) {
    if let Some(collector) = &mut *shared.collector.lock() {
        collector.take(record);
    }
}

/// Starts the command, which waits until it is traced before it executes its program; returns its
/// number.
fn start(command: &mut Command, tracer: &mut Tracer) -> Result<u32, RecordError> {
    let program = command.get_program().to_owned();
    let refused = |error| WatchError::Refused { what: "start a process", error };
    let mut held = hold(command).map_err(refused)?;
    let no_child = held.no_child().map_err(refused)?;
    // The start returns when the program is executed.
    let (traced, started) = thread::scope(|scope| {
        let starting = scope.spawn(|| {
            // The command gets slices as any other, not those of the tracing thread.
            let _ = ask_for_slices(0);
            let started = command.spawn();
            no_child();
            started
        });
        let traced = held.child().and_then(|child| {
            let Some(child) = child else { return Ok(()) };
            let traced = tracer.seize(child);
            held.let_go(&traced)?;
            traced
        });
        (traced, starting.join())
    });
    let started = match started {
        Ok(started) => started,
        Err(panic) => std::panic::resume_unwind(panic),
    };
    traced.map_err(|error| WatchError::Refused { what: "trace a process", error })?;
    // Its end is what the tracer waits for.
    started.map(|child| child.id()).map_err(|error| RecordError::not_started(&program, error))
}

fn descriptor_of(process: u32) -> Option<OwnedFd> {
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw)?;
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

fn send(process: &OwnedFd, signal: i32) {
    if let Some(signal) = Signal::from_named_raw(signal) {
        // The command may have ended meanwhile.
        let _: Result<(), io::Error> = pidfd_send_signal(process, signal).map_err(Into::into);
    }
}

impl Record<'_> {
    /// Tells that a process made another one.
    fn child(process: u32, child: u32, time: u64) -> Record<'static> {
        let mut record = Record::empty(Watched::Fork, (process, process), time);
        record.result = child.into();
        record
    }
}

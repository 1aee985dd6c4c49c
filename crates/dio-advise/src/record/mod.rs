//! Runs a command and records its I/O.

mod collector;
mod cost;
mod directories;
mod error;
mod facts;
mod in_flight;
mod mappings;
mod outcome;
mod running;
mod traced;
mod users;

use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, Signal, kill_process};

use crate::trace::EventSink;
use crate::watch::{WatchError, Watcher};

use collector::Collector;
use cost::Watching;
use error::FLUSH;
pub use error::RecordError;
pub use outcome::{Recorded, shell_status};
use running::Running;
use users::DirectoryUsers;

/// How long the recorder sleeps when there was nothing to record.
const PAUSE: Duration = Duration::from_millis(1);

/// Whether [`WatchBy::Ptrace`] sees on this system what is in the page cache (`cachestat(2)`, Linux
/// 6.5). It sees that of files which the user owns or may write, on file systems that keep their
/// pages themselves.
pub fn sees_cache() -> bool {
    let file = memfd_create("dio", MemfdFlags::CLOEXEC);
    file.is_ok_and(|file| dio_sys::cachestat(file.as_fd(), 0, 0).is_ok())
}

/// A way to watch a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchBy {
    /// By programs in the kernel. It costs little and sees the most, and needs privileges.
    Bpf,
    /// By stopping the command at each call (`ptrace(2)`).
    Ptrace,
}

/// Runs a command to its end and passes its requests to `sink`, and those of its descendants until
/// then. What a descendant does afterwards is not recorded. The sink is not flushed before
/// the command has started. It is watched in the given way, or without one in the first that works;
/// `begun` is called with that before the command starts. `signal` is asked from
/// time to time for a signal to send to the command; it is sent once.
///
/// # Errors
/// See [`RecordError`]. A command that fails is not an error.
pub fn record(
    mut command: Command,
    by: Option<WatchBy>,
    sink: impl EventSink + Send,
    signal: &dyn Fn() -> Option<i32>,
    begun: &(dyn Fn(WatchBy) + Sync),
) -> Result<Recorded, RecordError> {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    let ptrace = || begun(WatchBy::Ptrace);
    let refused = match by {
        Some(WatchBy::Ptrace) => None,
        _ => match cost::start_watching() {
            Ok(watching) => {
                begun(WatchBy::Bpf);
                return record_watched(&mut command, words, watching, sink, signal);
            }
            Err(error) if by.is_some() => return Err(error.into()),
            Err(error) => Some(error),
        },
    };
    let recorded = traced::record_traced(&mut command, words, sink, signal, &ptrace);
    recorded.map_err(|error| match (error, refused) {
        (RecordError::Watch(ptrace), Some(bpf)) => {
            let (bpf, ptrace) = (Box::new(bpf), Box::new(ptrace));
            RecordError::Watch(WatchError::Neither { bpf, ptrace })
        }
        (error, _) => error,
    })
}

/// Runs and records a command that is watched within the kernel.
fn record_watched(
    command: &mut Command,
    words: Vec<String>,
    (watcher, watching): (Watcher, Watching),
    sink: impl EventSink,
    signal: &dyn Fn() -> Option<i32>,
) -> Result<Recorded, RecordError> {
    let collector = Collector::new(words, watching, sink).map_err(RecordError::Trace)?;
    let mut child = start(command, &watcher)?;
    let mut is_signalled = false;
    collect(watcher, collector, |_, _| {
        if let (Some(signal), false) = (signal(), is_signalled) {
            is_signalled = true;
            send(&child, signal);
        }
        child.try_wait()
    })
}

/// What runs already and is recorded.
#[derive(Clone, Copy, Debug)]
pub enum Subject<'a> {
    /// Processes, by their numbers.
    Processes(&'a [u32]),
    /// The files below a directory, whoever uses them.
    Directory(&'a Path),
}

/// Records what runs already: until all processes of it have ended, for some time, or until
/// `is_stopped` says so. Threads and processes that they make are recorded too; processes that they
/// have made before are not.
///
/// Of a directory, only requests to files below it are recorded. A process that opens its first
/// file there is found a moment later, so what it does at once may be missing.
///
/// # Errors
/// See [`RecordError`].
pub fn attach(
    subject: Subject<'_>,
    time: Option<Duration>,
    sink: impl EventSink,
    is_stopped: &dyn Fn() -> bool,
) -> Result<Recorded, RecordError> {
    match subject {
        Subject::Processes(pids) => attach_to(pids, time, sink, is_stopped),
        Subject::Directory(directory) => attach_to_users(directory, time, sink, is_stopped),
    }
}

fn attach_to_users(
    directory: &Path,
    time: Option<Duration>,
    sink: impl EventSink,
    is_stopped: &dyn Fn() -> bool,
) -> Result<Recorded, RecordError> {
    let failed = |error| RecordError::Directory { path: directory.to_owned(), error };
    let mut users = DirectoryUsers::of(directory).map_err(failed)?;
    let (watcher, watching) = cost::start_watching()?;
    users.watch_present(&watcher).map_err(failed)?;
    let words = vec![format!("users of {}", users.directory().display())];
    let within = Some(users.directory());
    let collector =
        Collector::attached(words, watching, sink, within).map_err(RecordError::Trace)?;
    let began = Instant::now();
    collect(watcher, collector, |watcher, collector| {
        users.watch_new(watcher, |inode, path| collector.learn(inode, path));
        let is_over = is_stopped() || time.is_some_and(|time| began.elapsed() >= time);
        Ok(is_over.then(ExitStatus::default))
    })
}

fn attach_to(
    pids: &[u32],
    time: Option<Duration>,
    sink: impl EventSink,
    is_stopped: &dyn Fn() -> bool,
) -> Result<Recorded, RecordError> {
    let (watcher, watching) = cost::start_watching()?;
    let mut processes = Vec::new();
    for pid in pids {
        let failed = |error| RecordError::Process { pid: *pid, error };
        processes.push(Running::watch(&watcher, *pid).map_err(failed)?);
    }
    let words = processes.iter().map(Running::name).collect();
    let collector = Collector::attached(words, watching, sink, None).map_err(RecordError::Trace)?;
    let began = Instant::now();
    collect(watcher, collector, |_, _| {
        let is_over = is_stopped()
            || time.is_some_and(|time| began.elapsed() >= time)
            || processes.iter().all(Running::has_ended);
        Ok(is_over.then(ExitStatus::default))
    })
}

/// Takes records until `ended` returns a status.
fn collect<S: EventSink>(
    mut watcher: Watcher,
    mut collector: Collector<S>,
    mut ended: impl FnMut(&Watcher, &mut Collector<S>) -> io::Result<Option<ExitStatus>>,
) -> Result<Recorded, RecordError> {
    collector.flush();
    let mut flushed = Instant::now();
    let status = loop {
        // Asked before the ring is read: then the ring has all that the command did.
        let ended = ended(&watcher, &mut collector).map_err(RecordError::Trace)?;
        let count = watcher.drain(|record| collector.take(record));
        if let Some(status) = ended {
            break status;
        }
        if flushed.elapsed() > FLUSH {
            collector.flush();
            flushed = Instant::now();
        }
        if count == 0 {
            thread::sleep(PAUSE);
        }
    };
    watcher.end(|record| collector.take(record)).map_err(RecordError::Trace)?;
    let lost = watcher.lost().map_err(RecordError::Trace)?;
    collector.end(status, lost).map_err(RecordError::Trace)
}

/// Starts the command, watched from its first call on: this thread is watched while it makes the
/// child, and only then.
fn start(command: &mut Command, watcher: &Watcher) -> Result<Child, RecordError> {
    let refused = |error| WatchError::Refused { what: "watch a thread", error };
    let watch = |on| watcher.watch_this_thread(on).map_err(refused);
    watch(true)?;
    let child = command.spawn();
    watch(false)?;
    child.map_err(|error| RecordError::not_started(command.get_program(), error))
}

fn send(child: &Child, signal: i32) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if let (Some(pid), Some(signal)) = (pid, Signal::from_named_raw(signal)) {
        // The command may have ended meanwhile.
        let _ = kill_process(pid, signal);
    }
}

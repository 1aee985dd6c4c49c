//! Watches the calls of a command and its descendants: from within the kernel, as described here,
//! or where that is refused by stopping at each call (`tracer/mod.rs`).
//!
//! Two programs run at the entry and the exit of all system calls.
//! They return at once for calls and processes that are not watched. For the others they pass one
//! record to a ring: the call, its result, its times, and the file behind its descriptor, as the
//! kernel's own structures have it. A third program makes children of watched processes watched.
//!
//! Requests of io_uring and of asynchronous I/O are watched at their own submission and completion,
//! on kernels that allow it. What this cannot see is counted where a call begins it: bytes moved by
//! mapped memory, and such requests on other kernels.

mod assembler;
mod btf;
mod calls;
mod programs;
mod record;
mod tracer;

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::thread::gettid;

use dio_sys::bpf::{LoadError, Map, MapKind, Program, Ring};

pub(crate) use calls::Watched;
pub(crate) use record::{Record, SeenFile};
pub(crate) use tracer::{Step, Tracer, monotonic};

/// Bytes of the ring. At four million calls a second it lasts for 50 ms.
const RING_BYTES: u32 = 32 << 20;

/// Why nothing can be watched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WatchError {
    /// The program runs on a processor that the programs were not written for.
    #[error("watching system calls is only possible on x86-64")]
    Processor,
    /// The kernel does not describe its structures.
    #[error("the kernel does not describe its structures ({0}): it needs CONFIG_DEBUG_INFO_BTF")]
    NoBtf(String),
    /// The kernel's verifier refuses a program.
    #[error("this kernel refuses to watch system calls in dio's way: {0}")]
    Verifier(String),
    /// What runs already cannot be watched in this way.
    #[error("what runs already is watched by BPF, not by ptrace")]
    Running,
    /// Neither way of watching a command works.
    #[error("{bpf}, and {ptrace}")]
    Neither {
        /// Why BPF does not.
        bpf: Box<WatchError>,
        /// Why ptrace does not.
        ptrace: Box<WatchError>,
    },
    /// The kernel refuses, for want of privileges or of a feature.
    #[error("the kernel does not allow to {what}: {error}")]
    Refused {
        /// What it does not allow.
        what: &'static str,
        /// Its error.
        #[source]
        error: io::Error,
    },
}

impl WatchError {
    /// What helps, where that is known.
    pub fn cure(&self) -> Option<&'static str> {
        match self {
            WatchError::Refused { error, .. }
                if error.kind() == io::ErrorKind::PermissionDenied =>
            {
                Some("watching needs root, or the capabilities CAP_BPF and CAP_PERFMON")
            }
            WatchError::Neither { bpf, .. } => bpf.cure(),
            _ => None,
        }
    }
}

/// Why a program was not loaded: the verifier says something about programs that it refuses only.
fn not_loaded(LoadError { error, log }: LoadError) -> WatchError {
    let last = log.lines().rfind(|line| !line.is_empty() && !line.starts_with("processed"));
    match last {
        Some(line) => WatchError::Verifier(line.to_owned()),
        None => WatchError::Refused { what: "load a BPF program", error },
    }
}

/// A descriptor of a thread.
fn descriptor_of(id: Pid) -> io::Result<OwnedFd> {
    // `PIDFD_THREAD`, since Linux 6.9; before it, there are descriptors of main threads only.
    let thread = PidfdFlags::from_bits_retain(OFlags::EXCL.bits());
    match pidfd_open(id, thread) {
        Err(Errno::INVAL) => Ok(pidfd_open(id, PidfdFlags::empty())?),
        opened => Ok(opened?),
    }
}

fn set_watched(watched: &Map, thread: Pid, on: bool) -> io::Result<()> {
    let thread = descriptor_of(thread)?;
    let key = thread.as_raw_fd().to_ne_bytes();
    if on { watched.insert(&key, &[0; programs::TASK_BYTES]) } else { watched.remove(&key) }
}

fn counter(counters: &Map, number: u32) -> io::Result<u64> {
    let value = counters.get(&number.to_ne_bytes())?.unwrap_or_default();
    Ok(value.try_into().map_or(0, u64::from_ne_bytes))
}

/// In how many namespaces of processes this process's own is, which only the kernel can say.
fn own_level(
    watched: &Map,
    counters: &Map,
    maps: &programs::Maps,
    layout: &btf::Layout,
) -> Result<u32, WatchError> {
    let refused = |what| move |error| WatchError::Refused { what, error };
    let program =
        Program::load(&programs::level(maps, layout), layout.enter).map_err(not_loaded)?;
    set_watched(watched, gettid(), true).map_err(refused("watch a thread"))?;
    let link = program.attach().map_err(refused("trace system calls"))?;
    // A call, which the program sees.
    let level = counter(counters, programs::LEVEL).map_err(refused("read a BPF map"));
    drop(link);
    set_watched(watched, gettid(), false).map_err(refused("watch a thread"))?;
    Ok(level? as u32)
}

/// Watches until it is dropped.
#[derive(Debug)]
pub(crate) struct Watcher {
    ring: Ring,
    watched: Map,
    counters: Map,
    /// Calls that were lost and told before.
    told_lost: u64,
    sees: Sees,
    _maps: [Map; 4],
    _running: Vec<Running>,
    _aio: Option<[Program; 2]>,
}

/// The requests that are seen besides those of system calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sees {
    /// Those of io_uring.
    pub(crate) io_uring: bool,
    /// Those of `io_submit(2)`.
    pub(crate) aio: bool,
    /// The first touches of mapped memory.
    pub(crate) faults: bool,
}

/// A program, and what makes it run.
type Running = (Program, OwnedFd);

/// Loads programs for tracepoints and runs them.
fn run(programs: impl IntoIterator<Item = (u32, Vec<u64>)>) -> Result<Vec<Running>, WatchError> {
    let one = |(tracepoint, code): (u32, Vec<u64>)| {
        let program = Program::load(&code, tracepoint).map_err(not_loaded)?;
        let refused = |error| WatchError::Refused { what: "trace system calls", error };
        let link = program.attach().map_err(refused)?;
        Ok((program, link))
    };
    programs.into_iter().map(one).collect()
}

/// Has programs go on in another one, if the kernel takes it.
fn go_on_in(programs: &Map, code: &[u64], tracepoint: u32) -> Option<Program> {
    let program = Program::load(code, tracepoint).ok()?;
    programs.insert(&0_u32.to_ne_bytes(), &program.raw().to_ne_bytes()).ok()?;
    Some(program)
}

impl Watcher {
    /// Begins to watch. No process is watched yet.
    pub(crate) fn start() -> Result<Watcher, WatchError> {
        if !cfg!(target_arch = "x86_64") {
            return Err(WatchError::Processor);
        }
        let refused = |what| move |error| WatchError::Refused { what, error };
        let map = |kind, key, value, entries| {
            Map::new(kind, key, value, entries).map_err(refused("make a BPF map"))
        };
        let ring = map(MapKind::Ring, 0, 0, RING_BYTES)?;
        let watched = map(MapKind::TaskStorage, 4, programs::TASK_BYTES, 0)?;
        let kinds = map(MapKind::Array, 4, 4, calls::NUMBERS)?;
        let in_flight = map(MapKind::Hash, 8, programs::ENTRY_BYTES, programs::ENTRIES)?;
        let at_submission = map(MapKind::Programs, 4, 4, 1)?;
        let at_completion = map(MapKind::Programs, 4, 4, 1)?;
        let counters = map(MapKind::Array, 4, 8, programs::COUNTERS)?;
        for (number, kind) in calls::kinds() {
            kinds
                .insert(&number.to_ne_bytes(), &kind.to_ne_bytes())
                .map_err(refused("fill a BPF map"))?;
        }
        let layout = btf::Layout::of_kernel().map_err(WatchError::NoBtf)?;
        let mut maps = programs::Maps {
            ring: ring.raw(),
            watched: watched.raw(),
            kinds: kinds.raw(),
            in_flight: in_flight.raw(),
            at_submission: at_submission.raw(),
            at_completion: at_completion.raw(),
            counters: counters.raw(),
            level: 0,
        };
        maps.level = own_level(&watched, &counters, &maps, &layout)?;
        let uring = layout.uring.and_then(|uring| {
            run([
                (uring.completed, programs::uring_completed(&maps, &layout, &uring)),
                (uring.submitted, programs::uring_submitted(&maps, &layout, &uring)),
            ])
            .ok()
        });
        let mut running = run([
            (layout.fork, programs::fork(&maps, &layout)),
            (layout.added, programs::added(&maps, &layout)),
            (layout.fault, programs::touched(&maps, &layout, false)),
            (layout.mapped, programs::touched(&maps, &layout, true)),
            (layout.exit, programs::exit(&maps, &layout)),
            (layout.enter, programs::enter(&maps, &layout)),
        ])?;
        let aio = layout.iterate.and_then(|iterate| {
            let submitted = programs::aio_submitted(&maps, &layout, &iterate);
            let completed = programs::aio_completed(&maps, &layout, &iterate);
            Some([
                go_on_in(&at_submission, &submitted, layout.enter)?,
                go_on_in(&at_completion, &completed, layout.exit)?,
            ])
        });
        let sees = Sees { io_uring: uring.is_some(), aio: aio.is_some(), faults: true };
        running.extend(uring.into_iter().flatten());
        let ring = Ring::new(ring, RING_BYTES as usize).map_err(refused("map a BPF ring"))?;
        Ok(Watcher {
            ring,
            watched,
            counters,
            told_lost: 0,
            sees,
            _maps: [kinds, in_flight, at_submission, at_completion],
            _running: running,
            _aio: aio,
        })
    }

    /// What is seen besides system calls.
    pub(crate) fn sees(&self) -> Sees {
        self.sees
    }

    /// Watches the calling thread, or no longer. Threads and processes that a watched thread makes
    /// are watched from their start.
    pub(crate) fn watch_this_thread(&self, on: bool) -> io::Result<()> {
        self.watch_thread(gettid(), on)
    }

    /// As [`Watcher::watch_this_thread`], for any thread.
    pub(crate) fn watch_thread(&self, thread: Pid, on: bool) -> io::Result<()> {
        set_watched(&self.watched, thread, on)
    }

    /// Passes on what was recorded since the last time; returns how many records there were.
    pub(crate) fn drain(&mut self, mut take: impl FnMut(&Record<'_>)) -> usize {
        self.ring.drain(|bytes| {
            if let Some(record) = Record::of(bytes) {
                take(&record);
            }
        })
    }

    /// The number of calls that found no room in the ring since the last time.
    pub(crate) fn lost(&mut self) -> io::Result<u64> {
        let all = counter(&self.counters, programs::LOST)?;
        Ok(all - std::mem::replace(&mut self.told_lost, all))
    }
}

//! Watches the calls of a command and its descendants: from within the kernel, as described here,
//! or where that is refused by stopping at each call (`tracer/mod.rs`).
//!
//! While most calls read and write with a high rate and little else differs between them, only the
//! exit is watched, and what differs is gathered (`programs/batches.rs`).
//!
//! Two programs run at the entry and the exit of all system calls. They return at once for calls
//! and processes that are not watched. For the others they pass one record to a ring: the call, its
//! result, its times, and the file behind its descriptor, as the kernel's own structures have it. A
//! third program makes children of watched processes watched.
//!
//! Requests of io_uring and of asynchronous I/O are watched at their own submission and completion,
//! on kernels that allow it. What this cannot see is counted where a call begins it: bytes moved by
//! mapped memory, and such requests on other kernels.

mod assembler;
mod batches;
mod btf;
mod calls;
mod programs;
mod record;
#[cfg(test)]
mod tests;
mod tracer;

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::thread::gettid;

use dio_sys::bpf::{LoadError, Map, MapKind, Program, Ring};

use batches::{Density, Starts};
pub(crate) use calls::Watched;
pub(crate) use record::{Record, SeenFile};
pub(crate) use tracer::{Step, Tracer, monotonic};

/// Bytes of the ring. At four million calls a second it lasts for 50 ms.
const RING_BYTES: u32 = 32 << 20;

/// Bytes of all batches.
const BATCHES_BYTES: usize = record::batch::BYTES as usize * record::batch::COUNT_MAX as usize;

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

/// The maps, which must be there as long as programs run.
#[derive(Debug)]
struct Kept {
    watched: Map,
    kinds: Map,
    in_flight: Map,
    at_submission: Map,
    at_completion: Map,
    counters: Map,
    dense: Map,
    batches: Map,
}

impl Kept {
    /// Makes them, and the ring.
    fn new() -> Result<(Map, Kept), WatchError> {
        let refused = |what| move |error| WatchError::Refused { what, error };
        let map = |kind, key, value, entries| {
            Map::new(kind, key, value, entries).map_err(refused("make a BPF map"))
        };
        let kept = Kept {
            watched: map(MapKind::TaskStorage, 4, programs::TASK_BYTES, 0)?,
            kinds: map(MapKind::Array, 4, 4, calls::NUMBERS)?,
            in_flight: map(MapKind::Hash, 8, programs::ENTRY_BYTES, programs::ENTRIES)?,
            at_submission: map(MapKind::Programs, 4, 4, 1)?,
            at_completion: map(MapKind::Programs, 4, 4, 1)?,
            counters: map(MapKind::Array, 4, 8, programs::COUNTERS)?,
            dense: map(MapKind::Array, 4, 8, 1)?,
            batches: map(MapKind::Array, 4, BATCHES_BYTES, 1)?,
        };
        for (number, kind) in calls::kinds() {
            kept.kinds
                .insert(&number.to_ne_bytes(), &kind.to_ne_bytes())
                .map_err(refused("fill a BPF map"))?;
        }
        Ok((map(MapKind::Ring, 0, 0, RING_BYTES)?, kept))
    }

    /// As programs name them, for the outermost namespace of processes.
    fn named(&self, ring: &Map) -> programs::Maps {
        programs::Maps {
            ring: ring.raw(),
            watched: self.watched.raw(),
            kinds: self.kinds.raw(),
            in_flight: self.in_flight.raw(),
            at_submission: self.at_submission.raw(),
            at_completion: self.at_completion.raw(),
            dense: self.dense.raw(),
            batches: self.batches.raw(),
            counters: self.counters.raw(),
            level: 0,
        }
    }
}

/// Watches until it is dropped.
#[derive(Debug)]
pub(crate) struct Watcher {
    ring: Ring,
    kept: Kept,
    /// Calls that were lost and told before.
    told_lost: u64,
    /// Requests that were not seen because no program ran at the entry of their call.
    missed: u64,
    sees: Sees,
    density: Density,
    starts: Starts,
    /// The program at the entry of calls, and what makes it run, unless calls are dense.
    entry: (Program, Option<OwnedFd>),
    running: Vec<Running>,
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
        let (ring, kept) = Kept::new()?;
        let layout = btf::Layout::of_kernel().map_err(WatchError::NoBtf)?;
        let mut maps = kept.named(&ring);
        maps.level = own_level(&kept.watched, &kept.counters, &maps, &layout)?;
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
            (layout.dirtied, programs::dirtied(&maps, &layout)),
            (layout.fault, programs::touched(&maps, &layout, false)),
            (layout.mapped, programs::touched(&maps, &layout, true)),
            (layout.ended, programs::ended(&maps, &layout)),
            (layout.exit, programs::exit(&maps, &layout)),
            (layout.enter, programs::enter(&maps, &layout)),
        ])?;
        let (entry, link) = running.pop().expect("the last one");
        let aio = layout.iterate.and_then(|iterate| {
            let submitted = programs::aio_submitted(&maps, &layout, &iterate);
            let completed = programs::aio_completed(&maps, &layout, &iterate);
            Some([
                go_on_in(&kept.at_submission, &submitted, layout.enter)?,
                go_on_in(&kept.at_completion, &completed, layout.exit)?,
            ])
        });
        let sees = Sees { io_uring: uring.is_some(), aio: aio.is_some(), faults: true };
        running.extend(uring.into_iter().flatten());
        let ring = Ring::new(ring, RING_BYTES as usize).map_err(refused("map a BPF ring"))?;
        Ok(Watcher {
            ring,
            kept,
            told_lost: 0,
            missed: 0,
            sees,
            density: Density::default(),
            starts: Starts::default(),
            entry: (entry, Some(link)),
            running,
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
        set_watched(&self.kept.watched, thread, on)
    }

    /// Passes on what was recorded since the last time; returns how many records there were.
    pub(crate) fn drain(&mut self, mut take: impl FnMut(&Record<'_>)) -> usize {
        let (density, starts) = (&mut self.density, &mut self.starts);
        let mut take = |record: &Record<'_>| {
            density.count(record);
            take(&starts.complete(record));
        };
        let count = self.ring.drain(|bytes| {
            if batches::batch_of(bytes) {
                batches::expand(bytes, &mut take);
            } else if let Some(record) = Record::of(bytes) {
                take(&record);
            }
        });
        self.missed += self.density.missed();
        if self.density.changes() {
            // What cannot be changed now stays as it is.
            let _ = self.set_dense(self.density.is_dense);
        }
        count
    }

    /// Records calls in batches from now on, or no longer.
    fn set_dense(&mut self, on: bool) -> io::Result<()> {
        let (program, link) = &mut self.entry;
        if !on && link.is_none() {
            *link = Some(program.attach()?);
        }
        let state = u64::from(if on { programs::DENSE } else { programs::WAS_DENSE });
        self.kept.dense.insert(&0_u32.to_ne_bytes(), &state.to_ne_bytes())?;
        if on {
            *link = None;
        }
        Ok(())
    }

    /// Records calls in batches while `run` runs, whatever calls there are.
    pub(crate) fn with_batches<T>(&mut self, run: impl FnOnce() -> T) -> io::Result<T> {
        self.set_dense(true)?;
        let result = run();
        self.set_dense(false)?;
        self.ring.drain(|_| ());
        self.kept.batches.insert(&0_u32.to_ne_bytes(), &vec![0; BATCHES_BYTES])?;
        Ok(result)
    }

    /// Watches no longer, and passes on what is left.
    pub(crate) fn end(&mut self, mut take: impl FnMut(&Record<'_>)) -> io::Result<()> {
        self.running.clear();
        self.entry.1 = None;
        self.drain(&mut take);
        let all = self.kept.batches.get(&0_u32.to_ne_bytes())?.unwrap_or_default();
        for bytes in all.chunks_exact(record::batch::BYTES as usize) {
            if batches::batch_of(bytes) {
                let starts = &mut self.starts;
                batches::expand(bytes, |record| take(&starts.complete(record)));
            }
        }
        Ok(())
    }

    /// The number of calls that found no room in the ring since the last time.
    pub(crate) fn lost(&mut self) -> io::Result<u64> {
        let all = counter(&self.kept.counters, programs::LOST)?;
        let missed = std::mem::take(&mut self.missed);
        Ok(all - std::mem::replace(&mut self.told_lost, all) + missed)
    }
}

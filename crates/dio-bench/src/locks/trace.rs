//! Records every block on a lock of the kernel, by the kernel's own tracepoints.
//!
//! `lock:contention_begin` (Linux 5.19) reports that a thread starts to wait for a lock, and in
//! which mode; `lock:contention_end` reports that the wait is over. Each processor has two ring
//! buffers of records, which one thread of this process empties. A wait may begin on one processor
//! and end on another, so records are sorted by time first.

use std::collections::HashMap;
use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use dio_sys::fd_path;
use perf_event::data::Record as Raw;
use perf_event::events::Tracepoint;
use perf_event::{Builder, Clock, SampleFlag, Sampler};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use rustix::time::{ClockId, clock_gettime};

use super::class::{WaitMode, of_stack};
use super::kernel::{Count, Kernel, Method, Sums};
use super::symbols::Symbols;

/// How often the rings are emptied.
const EVERY: Duration = Duration::from_millis(10);

/// Bytes of a ring for begin records, and of a ring for end records, which have no stack. The
/// second pair is tried if the first needs more memory than this process may lock
/// (`RLIMIT_MEMLOCK`).
const RINGS: [(usize, usize); 2] = [(1 << 20, 256 << 10), (32 << 10, 16 << 10)];

/// Frames of a stack: enough for the lock's own functions and for their callers, which show the
/// purpose of the lock.
const FRAMES: u16 = 20;

/// Values from here on are no addresses: they mark the context of the addresses that follow
/// (`PERF_CONTEXT_MAX`).
const MARKS: u64 = -4095i64 as u64;

/// Excludes locks that spin, since a spinning thread does not block.
const FILTER: &CStr = c"!(flags & 1)";

/// The processes whose blocks are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    /// The commands that the calling thread starts from now on, and their descendants, from their
    /// `execve(2)` on.
    Commands,
    /// All processes, from now on.
    System,
}

/// One tracepoint: its id, and the offsets of its fields.
#[derive(Debug)]
struct Point {
    id: u64,
    lock: usize,
    flags: Option<usize>,
}

impl Point {
    fn find(name: &str) -> io::Result<Point> {
        // If tracefs is not mounted, this process mounts it for itself until this function returns.
        let mut own = None;
        let path_of = |mount: OwnedFd| fd_path(own.insert(mount));
        let places =
            ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"].map(PathBuf::from).into_iter();
        let places = places.chain(std::iter::once_with(mounted).flatten().map(path_of));
        let directory = |place: PathBuf| place.join("events/lock").join(name);
        let mut outcome = Err(io::ErrorKind::NotFound.into());
        for directory in places.map(directory) {
            match fs::read_to_string(directory.join("id")).and_then(|id| {
                let format = fs::read_to_string(directory.join("format"))?;
                Ok((id, format))
            }) {
                Ok((id, format)) => {
                    let unknown = || {
                        io::Error::new(
                            io::ErrorKind::InvalidData,
                            "the tracepoint has an unknown form",
                        )
                    };
                    let id = id.trim().parse().map_err(|_| unknown())?;
                    let lock = offset_of(&format, "lock_addr").ok_or_else(unknown)?;
                    return Ok(Point { id, lock, flags: offset_of(&format, "flags") });
                }
                // An error other than ENOENT is more informative than a path that does not exist.
                Err(error) if error.kind() == io::ErrorKind::NotFound && outcome.is_err() => {}
                Err(error) => outcome = Err(error),
            }
        }
        outcome
    }
}

/// A mount of tracefs that is attached to no path (`fsmount(2)`); `None` if this process has no
/// right to mount.
fn mounted() -> Option<OwnedFd> {
    let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC).ok()?;
    fsconfig_create(context.as_fd()).ok()?;
    fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty()).ok()
}

/// The offset of a field in a record, parsed from lines such as
/// `field:void * lock_addr; offset:8; size:8; signed:0;`.
fn offset_of(format: &str, field: &str) -> Option<usize> {
    let line = format.lines().find(|line| {
        let declared = line.trim().strip_prefix("field:").and_then(|rest| rest.split(';').next());
        declared.and_then(|declared| declared.split_whitespace().next_back()) == Some(field)
    })?;
    line.split("offset:").nth(1)?.split(';').next()?.trim().parse().ok()
}

/// The kind of a record.
#[derive(Debug)]
enum TraceRecordKind {
    Begin { pid: u32, side: WaitMode, stack: u32 },
    End,
}

/// A record of a tracepoint.
#[derive(Debug)]
struct Record {
    time: u64,
    tid: u32,
    lock: u64,
    what: TraceRecordKind,
}

/// Process id of a block, its side, and the number of its stack.
type BlockKey = (u32, WaitMode, u32);

/// Sums over the records so far.
#[derive(Debug, Default)]
struct Ledger {
    stacks: HashMap<Box<[u64]>, u32>,
    waiting: HashMap<(u32, u64), (u64, BlockKey)>,
    counts: HashMap<BlockKey, Count>,
    lost: u64,
}

impl Ledger {
    /// Adds a record. Records must come in the order of time.
    fn enter(&mut self, record: &Record) {
        let place = (record.tid, record.lock);
        match record.what {
            TraceRecordKind::Begin { pid, side, stack } => {
                let key = (pid, side, stack);
                self.counts.entry(key).or_default().blocks += 1;
                self.waiting.insert(place, (record.time, key));
            }
            TraceRecordKind::End => {
                if let Some((begin, key)) = self.waiting.remove(&place) {
                    self.counts.entry(key).or_default().nanos += record.time.saturating_sub(begin);
                }
            }
        }
    }

    fn stack(&mut self, addresses: &[u64]) -> u32 {
        if let Some(number) = self.stacks.get(addresses) {
            return *number;
        }
        let number = self.stacks.len() as u32;
        self.stacks.insert(addresses.into(), number);
        number
    }
}

/// The two ring buffers of a processor.
struct Rings {
    begins: Sampler,
    ends: Sampler,
}

/// The state of the thread that empties the rings.
struct RingReader {
    rings: Vec<Rings>,
    begin: Point,
    end: Point,
    ledger: Ledger,
    /// Records that are held back, since earlier records of other processors may still be in the
    /// rings.
    recent: Vec<Record>,
}

impl RingReader {
    fn open(watch: Watch) -> io::Result<RingReader> {
        let (begin, end) = (Point::find("contention_begin")?, Point::find("contention_end")?);
        let mut outcome = Err(io::ErrorKind::NotFound.into());
        for (begins, ends) in RINGS {
            let open = |cpu| -> io::Result<Rings> {
                let mut with_stack = builder(&begin, watch, cpu);
                with_stack
                    .sample(SampleFlag::CALLCHAIN)
                    .exclude_callchain_user(true)
                    .sample_max_stack(FRAMES);
                let first = with_stack.build()?;
                // If the kernel refuses the filter, spinning locks are dropped later.
                let _ = dio_sys::perf::set_filter(&first, FILTER);
                let second = builder(&end, watch, cpu).build()?;
                Ok(Rings { begins: first.sampled(begins)?, ends: second.sampled(ends)? })
            };
            let rings: io::Result<Vec<Rings>> = processors()?.into_iter().map(open).collect();
            outcome = rings;
            if outcome.is_ok() {
                break;
            }
        }
        Ok(RingReader {
            rings: outcome?,
            begin,
            end,
            ledger: Ledger::default(),
            recent: Vec::new(),
        })
    }

    /// Reads all records from the rings, and adds those that are older than `until` to the ledger.
    fn empty(&mut self, until: u64) {
        for rings in &mut self.rings {
            take(&mut rings.begins, &self.begin, &mut self.ledger, &mut self.recent);
            take(&mut rings.ends, &self.end, &mut self.ledger, &mut self.recent);
        }
        self.recent.sort_by_key(|record| record.time);
        let old = self.recent.partition_point(|record| record.time < until);
        for record in self.recent.drain(..old) {
            self.ledger.enter(&record);
        }
    }

    fn run(mut self, stop: &AtomicBool) -> Ledger {
        let mut before = now();
        while !stop.load(Ordering::Acquire) {
            thread::sleep(EVERY);
            let this = now();
            // Records from before the beginning of the last round are in the rings of all
            // processors by now.
            self.empty(before);
            before = this;
        }
        self.empty(u64::MAX);
        self.ledger
    }
}

/// A builder of an event on one processor.
fn builder(point: &Point, watch: Watch, cpu: usize) -> Builder<'static> {
    let mut builder = Builder::new(Tracepoint::with_id(point.id));
    builder.include_kernel().include_hv().one_cpu(cpu).sample_period(1).clockid(Clock::MONOTONIC);
    builder.sample(SampleFlag::TID | SampleFlag::TIME | SampleFlag::RAW);
    match watch {
        Watch::Commands => builder.observe_self().inherit(true).enable_on_exec(true),
        Watch::System => builder.any_pid().enabled(true),
    };
    builder
}

/// The processors that are online (`/sys/devices/system/cpu/online`): ranges such as `0-3,6`.
fn processors() -> io::Result<Vec<usize>> {
    let text = fs::read_to_string("/sys/devices/system/cpu/online")?;
    let unknown =
        || io::Error::new(io::ErrorKind::InvalidData, "the list of processors has an unknown form");
    listed(text.trim()).ok_or_else(unknown)
}

fn listed(text: &str) -> Option<Vec<usize>> {
    let mut all = Vec::new();
    for range in text.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        all.extend(first.parse::<usize>().ok()?..=last.parse().ok()?);
    }
    Some(all)
}

/// Reads all records of one ring.
fn take(ring: &mut Sampler, point: &Point, ledger: &mut Ledger, records: &mut Vec<Record>) {
    while let Some(raw) = ring.next_record() {
        match raw.parse_record() {
            Ok(Raw::Sample(sample)) => {
                let Some(bytes) = sample.raw() else { continue };
                let Some(lock) = field(bytes, point.lock).map(u64::from_ne_bytes) else { continue };
                let what = match point.flags {
                    None => TraceRecordKind::End,
                    Some(at) => {
                        let flags = field(bytes, at).map_or(0, u32::from_ne_bytes);
                        let Some(side) = WaitMode::of(flags) else { continue };
                        let stack = ledger.stack(sample.callchain().unwrap_or_default());
                        TraceRecordKind::Begin { pid: sample.pid().unwrap_or(0), side, stack }
                    }
                };
                records.push(Record {
                    time: sample.time().unwrap_or(0),
                    tid: sample.tid().unwrap_or(0),
                    lock,
                    what,
                });
            }
            // A lost end record loses only a time, so only lost begin records are counted.
            Ok(Raw::Lost(lost)) if point.flags.is_some() => ledger.lost += lost.lost,
            Ok(_) => {}
            Err(_) => ledger.lost += 1,
        }
    }
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

/// The current time by the clock of the records, in nanoseconds.
fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A tracer that is counting blocks.
#[derive(Debug)]
pub struct Tracer {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Ledger>,
    since: Instant,
}

impl Tracer {
    /// Starts to count.
    ///
    /// # Errors
    /// `EACCES` or `EPERM` without `CAP_PERFMON` and the right to read tracefs, `ENOENT` if the
    /// kernel has no such tracepoints.
    pub fn start(watch: Watch) -> io::Result<Tracer> {
        let reader = RingReader::open(watch)?;
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let thread =
            thread::Builder::new().name("locks".to_owned()).spawn(move || reader.run(&seen))?;
        Ok(Tracer { stop, thread, since: Instant::now() })
    }

    /// Stops, and returns the blocks of these processes, or of all that were watched. Rates are per
    /// second of `seconds`, or of the time since the start if that is `None`.
    pub fn finish(self, processes: Option<&[u32]>, seconds: Option<f64>) -> Kernel {
        let seconds = seconds.unwrap_or_else(|| self.since.elapsed().as_secs_f64());
        self.stop.store(true, Ordering::Release);
        let ledger = self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let mut notes = Vec::new();
        let symbols = Symbols::read().unwrap_or_else(|error| {
            notes.push(format!("functions have no names here: {error}"));
            Symbols::default()
        });
        if ledger.lost > 0 {
            notes.push(format!("{} records were lost, and are not in the figures", ledger.lost));
        }
        let mut stacks = vec![&[][..]; ledger.stacks.len()];
        for (stack, number) in &ledger.stacks {
            stacks[*number as usize] = stack;
        }
        let mut sums = Sums::default();
        for ((pid, side, stack), count) in &ledger.counts {
            if processes.is_none_or(|processes| processes.contains(pid)) {
                let named = names(&symbols, stacks[*stack as usize]);
                let (class, function) = of_stack(&named);
                sums.add(class, *side, function, *count);
            }
        }
        Kernel { method: Method::Tracepoint, notes, rows: sums.rows(seconds) }
    }
}

/// The names of the functions of a stack, the innermost first.
fn names<'a>(symbols: &'a Symbols, stack: &[u64]) -> Vec<&'a str> {
    let frames = stack.iter().filter(|address| **address < MARKS).enumerate();
    // All addresses but the innermost are return addresses, which may lie just behind the end of
    // the calling function.
    let name = |(depth, address): (usize, &u64)| symbols.name(address - u64::from(depth > 0));
    frames.filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_matched_by_thread_and_lock() {
        let mut ledger = Ledger::default();
        let begin = |time, tid, lock| Record {
            time,
            tid,
            lock,
            what: TraceRecordKind::Begin { pid: 1, side: WaitMode::Write, stack: 0 },
        };
        let end = |time, tid, lock| Record { time, tid, lock, what: TraceRecordKind::End };
        for record in [
            begin(10, 1, 7),
            begin(12, 2, 7),
            end(15, 3, 7),
            end(20, 1, 7),
            end(30, 2, 7),
            end(40, 2, 7),
            begin(50, 1, 7),
        ] {
            ledger.enter(&record);
        }
        let count = ledger.counts[&(1, WaitMode::Write, 0)];
        assert_eq!((count.blocks, count.nanos), (3, 10 + 18));
    }

    #[test]
    fn formats_and_lists_are_understood() {
        let format = "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\tfield:void * \
                      lock_addr;\toffset:8;\tsize:8;\tsigned:0;\n\tfield:unsigned int \
                      flags;\toffset:16;\tsize:4;";
        assert_eq!(
            (offset_of(format, "lock_addr"), offset_of(format, "flags")),
            (Some(8), Some(16))
        );
        assert_eq!(offset_of(format, "lock"), None);
        assert_eq!(listed("0-2,5"), Some(vec![0, 1, 2, 5]));
        assert_eq!(listed("x"), None);
    }
}

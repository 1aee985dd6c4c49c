//! Requests by io_uring: threads that each have a ring, stay on one processor and get what programs ask there.
//!
//! Answering a request and waiting for the next is one system call, and a program and the thread that serves it take turns on
//! one processor instead of waking each other across two. The device goes on to bring interrupts and what is forgotten.

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::thread::{self, JoinHandle};

use dio::block::{Block, Pool};
use dio_sys::fuse_ring;
use rustix::process::{Resource, getrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use zerocopy::{FromBytes, IntoBytes};

use crate::abi::{InHeader, OutHeader};
use crate::channel::LEAST;
use crate::dispatch::Desk;
use crate::filesystem::Filesystem;
use crate::outbox::{Outbox, START};

type FuseRing = fuse_ring::FuseRing<Block>;
type Arrived = fuse_ring::Arrived<Block>;

/// Bytes before the payload of a request, at most: its header, and the first part of its body.
const HEAD: usize = size_of::<InHeader>() + 128;

/// Threads of each queue, at least: requests of one processor may have to wait for the disk together.
const LEAST_THREADS: usize = 8;

/// Threads of all queues, at most.
const MOST_THREADS: usize = 1024;

/// Rings that a thread makes one after the other because of errors.
const MOST_RINGS: usize = 8;

/// Whether this process can make the rings for about `threads` threads, without which
/// [`FUSE_OVER_IO_URING`](crate::InitFlags::FUSE_OVER_IO_URING) must not be agreed on: the kernel would wait for them.
pub fn rings_are_possible(threads: usize) -> bool {
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    // Each ring is a descriptor; at least as many are left to files.
    let fit = |shape: Shape| shape.threads() as u64 <= descriptors / 2 && can_begin(shape.threads());
    Shape::new(threads).is_ok_and(fit)
}

/// Whether so many threads can have a ring each, by trying it: limits are many (`ulimit -u`, `pids.max`, memory), and when the
/// kernel has been told that rings will come it is too late.
fn can_begin(count: usize) -> bool {
    let ((tell, told), gate) = (mpsc::channel(), Mutex::new(()));
    thread::scope(|scope| {
        let closed = gate.lock();
        let begin = || {
            let trial = fuse_ring::trial();
            let _ = tell.send(trial.is_ok());
            // All are there at a time.
            drop(gate.lock());
        };
        let begun = (0..count).take_while(|_| thread::Builder::new().spawn_scoped(scope, begin).is_ok()).count();
        let good = (0..begun).filter(|_| told.recv() == Ok(true)).count();
        drop(closed);
        good == count
    })
}

/// The processors on which this process may run when nothing of it is bound to one.
static HOME: OnceLock<CpuSet> = OnceLock::new();

/// For a thread that was started by one that serves requests, and so begins on its processor: it may run on all again.
pub fn leave_processor() {
    if let Some(home) = HOME.get() {
        // It runs where it can.
        let _ = sched_setaffinity(None, home);
    }
}

/// The processors of a list such as `0-3,8` (cpuset(7), "List format").
fn processors(list: &str) -> Option<BTreeSet<u16>> {
    let mut found = BTreeSet::new();
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        found.extend(first.parse::<u16>().ok()?..=last.parse().ok()?);
    }
    Some(found)
}

/// How many threads each queue has. There is a queue for each processor that there can be (`num_possible_cpus`), and none may
/// be without a thread, though from a processor that is not there nothing comes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shape(Vec<usize>);

impl Shape {
    /// For about `threads` threads.
    ///
    /// # Errors
    /// If the processors cannot be told, or there are too many for enough threads on each.
    pub(crate) fn new(threads: usize) -> io::Result<Shape> {
        let list = |name: &str| {
            let text = std::fs::read_to_string(format!("/sys/devices/system/cpu/{name}"))?;
            processors(&text).filter(|found| !found.is_empty()).ok_or(io::Error::from(io::ErrorKind::InvalidData))
        };
        Shape::of(&list("possible")?, &list("online")?, threads).ok_or(io::ErrorKind::Unsupported.into())
    }

    fn of(possible: &BTreeSet<u16>, online: &BTreeSet<u16>, threads: usize) -> Option<Shape> {
        let (queues, here) = (possible.len(), online.len().max(1));
        // The kernel numbers its queues by processors, and counts these: with holes between them it has too few.
        let holes = possible.last().is_none_or(|last| usize::from(*last) + 1 != queues);
        let most = MOST_THREADS.saturating_sub(queues) / here;
        if holes || most < LEAST_THREADS {
            return None;
        }
        let each = threads.div_ceil(here).clamp(LEAST_THREADS, most);
        Some(Shape(possible.iter().map(|queue| if online.contains(queue) { each } else { 1 }).collect()))
    }

    pub(crate) fn threads(&self) -> usize {
        self.0.iter().sum()
    }

    /// The queue of each thread, and how many others it has there.
    fn places(&self) -> impl Iterator<Item = (u16, usize)> {
        self.0.iter().enumerate().flat_map(|(queue, count)| std::iter::repeat_n((queue as u16, *count), *count))
    }
}

/// Starts the threads, of which each tells how it began. `desk` makes what one has, from its number and the way of its answers. All of them wait for requests, or
/// there is an error.
///
/// # Errors
/// What starting threads, `mmap(2)`, `io_uring_setup(2)` and the kernel's part of FUSE answer.
pub(crate) fn start<F: Filesystem>(
    shape: &Shape,
    device: &Arc<OwnedFd>,
    max_payload: u32,
    desk: impl Fn(usize, Arc<Outbox>) -> Desk<F>,
) -> io::Result<Vec<JoinHandle<io::Result<()>>>> {
    HOME.get_or_init(|| sched_getaffinity(None).unwrap_or_default());
    let busy: Vec<_> = shape.0.iter().map(|_| Arc::new(AtomicUsize::new(0))).collect();
    let room = (max_payload as usize).max(LEAST);
    let (tell, told) = mpsc::channel();
    let mut threads = Vec::with_capacity(shape.threads());
    for (number, (queue, count)) in shape.places().enumerate() {
        let outbox = Arc::new(Outbox::new(room));
        let worker = Worker {
            desk: desk(number, Arc::clone(&outbox)),
            outbox,
            busy: Arc::clone(&busy[usize::from(queue)]),
            threads: count,
            place: Place { device: Arc::clone(device), queue, room },
        };
        let tell = tell.clone();
        let serve = move || {
            worker.place.stay();
            let (ring, told) = match worker.place.begin() {
                Ok(ring) => (ring, Ok(())),
                Err(error) => (None, Err(error)),
            };
            // If nobody listens, a thread could not be started.
            let _ = tell.send(told);
            drop(tell);
            ring.map_or(Ok(()), |ring| worker.serve(ring))
        };
        threads.push(thread::Builder::new().name(format!("fuse-ring-{number}")).spawn(serve)?);
    }
    drop(tell);
    // From all of them, so that none is under way when the mount is given up for an error.
    let begun: Vec<io::Result<()>> = told.iter().collect();
    if begun.len() < threads.len() {
        return Err(io::Error::other("a thread could not begin"));
    }
    begun.into_iter().collect::<io::Result<()>>()?;
    Ok(threads)
}

/// Where a thread waits for requests.
#[derive(Debug)]
struct Place {
    device: Arc<OwnedFd>,
    queue: u16,
    /// Bytes of the largest payload.
    room: usize,
}

impl Place {
    /// Binds the calling thread to the processor of the queue, if this process may run there.
    fn stay(&self) {
        let number = usize::from(self.queue);
        if number < CpuSet::MAX_CPU && HOME.get().is_some_and(|home| home.is_set(number)) {
            let mut here = CpuSet::new();
            here.set(number);
            // Elsewhere it serves as well, if not as fast.
            let _ = sched_setaffinity(None, &here);
        }
    }

    /// Makes a ring for the calling thread and registers it; `None` if the mount is gone, as it may be before the last thread
    /// has begun.
    fn begin(&self) -> io::Result<Option<FuseRing>> {
        let payload: Range<usize> = START..START + self.room;
        let mut block = Pool::new(payload.end, 1)?.try_take().expect("the only block of a new pool is free");
        // From now on all of it can be looked at.
        let _ = block.bytes_mut();
        let mut ring = FuseRing::new(Arc::clone(&self.device), self.queue, payload)?;
        Ok(ring.register(block)?.then_some(ring))
    }
}

/// One thread that serves one queue.
#[derive(Debug)]
struct Worker<F: Filesystem> {
    desk: Desk<F>,
    outbox: Arc<Outbox>,
    /// Threads of the queue that handle a request.
    busy: Arc<AtomicUsize>,
    /// All that it has.
    threads: usize,
    place: Place,
}

impl<F: Filesystem> Worker<F> {
    /// Serves until the mount is gone. What goes wrong with a ring is counted, and a new one takes its place: without it the
    /// programs of its processor would wait for ever.
    fn serve(&self, mut ring: FuseRing) -> io::Result<()> {
        for _ in 0..MOST_RINGS {
            if self.serve_by(ring).is_ok() {
                return Ok(());
            }
            self.desk.channel.faults.was_refused();
            match self.place.begin()? {
                Some(new) => ring = new,
                None => return Ok(()),
            }
        }
        self.serve_by(ring)
    }

    fn serve_by(&self, mut ring: FuseRing) -> io::Result<()> {
        while let Some(arrived) = ring.wait()? {
            self.busy.fetch_add(1, Ordering::Relaxed);
            let (header, payload, block) = self.handle(&ring, arrived);
            let all_were_busy = self.busy.fetch_sub(1, Ordering::Relaxed) == self.threads;
            let bytes = header.as_bytes().try_into().expect("the header has this size");
            ring.answer(block, bytes, payload);
            // Until now nobody could take what has come.
            if all_were_busy && ring.has_come()? {
                self.desk.filesystem.0.queued();
            }
        }
        Ok(())
    }

    /// Puts the parts of a request together and has it answered.
    fn handle(&self, ring: &FuseRing, arrived: Arrived) -> (OutHeader, usize, Block) {
        let (header, operation) = ring.request();
        let own = size_of::<InHeader>();
        let length = InHeader::read_from_prefix(header).map_or(0, |(header, _)| header.len as usize);
        // What is malformed by this is refused where messages are taken apart.
        let head = length.saturating_sub(arrived.payload).clamp(own, HEAD);
        let mut bytes = [0; HEAD];
        bytes[..own].copy_from_slice(&header[..own]);
        bytes[own..head].copy_from_slice(&operation[..head - own]);
        let Arrived { mut block, payload } = arrived;
        let kept = if payload == 0 {
            self.outbox.lend(block);
            self.desk.handle(&bytes[..head]);
            None
        } else {
            block.bytes_mut()[START - head..START].copy_from_slice(&bytes[..head]);
            self.desk.handle(&block.filled()[START - head..START + payload]);
            Some(block)
        };
        self.outbox.take(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors_are_read() {
        let read = |text| processors(text).map(|found| found.into_iter().collect::<Vec<_>>());
        assert_eq!(read("0-1\n"), Some(vec![0, 1]));
        assert_eq!(read("0"), Some(vec![0]));
        assert_eq!(read("0-2,8,10-11"), Some(vec![0, 1, 2, 8, 10, 11]));
        assert_eq!(read(""), None);
        assert!(Shape::new(1).unwrap().0.len() >= thread::available_parallelism().unwrap().get());
    }

    #[test]
    fn every_queue_has_a_thread_and_those_of_processors_that_are_there_have_more() {
        let shape = |possible: std::ops::Range<u16>, online: std::ops::Range<u16>, threads| {
            Shape::of(&possible.collect(), &online.collect(), threads)
        };
        assert_eq!(shape(0..4, 0..2, 16), Some(Shape(vec![8, 8, 1, 1])));
        assert_eq!(shape(0..2, 0..2, 64), Some(Shape(vec![32, 32])));
        assert_eq!(
            shape(0..2, 0..2, 3).unwrap().places().map(|(queue, _)| queue).filter(|queue| *queue == 1).count(),
            8
        );
        assert_eq!(shape(0..64, 0..64, 64).unwrap().threads(), 512);
        assert_eq!(shape(0..512, 0..256, 64), None, "too many for enough threads each");
        assert_eq!(shape(1..3, 1..3, 16), None, "holes");
    }

    #[test]
    fn as_many_threads_begin_as_are_asked_for() {
        assert_eq!(can_begin(20), fuse_ring::trial().is_ok());
    }

    #[test]
    fn a_thread_can_leave_the_processor_that_it_was_started_on() {
        let home = HOME.get_or_init(|| sched_getaffinity(None).unwrap());
        let first = (0..CpuSet::MAX_CPU).find(|number| home.is_set(*number)).unwrap() as u16;
        let device = Arc::new(std::fs::File::open("/dev/null").unwrap().into());
        let place = Place { device, queue: first, room: LEAST };
        let served = thread::spawn(move || {
            place.stay();
            let bound = sched_getaffinity(None).unwrap().count();
            let started = thread::spawn(|| {
                leave_processor();
                sched_getaffinity(None).unwrap()
            });
            (bound, started.join().unwrap())
        });
        let (bound, started) = served.join().unwrap();
        assert_eq!((bound, started.count()), (1, home.count()));
    }
}

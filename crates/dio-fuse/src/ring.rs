//! Serves requests that come through io_uring. Each thread has a ring, is bound to one processor,
//! and serves the programs on that processor.
//!
//! Replying to a request and waiting for the next one is one system call. A program and the thread
//! that serves it take turns on one processor, instead of waking each other across two. Interrupts
//! and forgotten inodes still come through the device.

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread::{self, JoinHandle};

use dio::block::{Block, Pool};
use dio_sys::fuse_ring;
use parking_lot::Mutex;
use rustix::process::{Resource, getrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use zerocopy::{FromBytes, IntoBytes};

use crate::abi::{InHeader, OutHeader};
use crate::channel::PAYLOAD_ROOM_MIN;
use crate::dispatch::Dispatcher;
use crate::filesystem::Filesystem;
use crate::reply_slot::{PAYLOAD_OFFSET, ReplySlot};

type FuseRing = fuse_ring::FuseRing<Block>;
type RingRequest = fuse_ring::RingRequest<Block>;

/// Most bytes that a request has before its payload: the header, and the first part of the body.
const REQUEST_HEADER_BYTES_MAX: usize = size_of::<InHeader>() + 128;

/// Fewest threads of a queue. Several requests of one processor may wait for the disk at a time.
const QUEUE_THREADS_MIN: usize = 8;

/// Most threads of all queues.
const RING_THREADS_MAX: usize = 1024;

/// Most rings that a thread makes anew after errors.
const RING_RESTARTS_MAX: usize = 8;

/// Whether this process can make the rings for about `threads` threads. If not,
/// [`FUSE_OVER_IO_URING`](crate::InitFlags::FUSE_OVER_IO_URING) must not be negotiated, because the
/// kernel would wait for the rings.
pub fn rings_are_possible(threads: usize) -> bool {
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    // Each ring is a descriptor. At least as many descriptors are left for files.
    let fit = |queues: QueueThreads| {
        queues.threads() as u64 <= descriptors / 2 && can_begin(queues.threads())
    };
    QueueThreads::new(threads).is_ok_and(fit)
}

/// How many threads serve requests that come by io_uring, if about `threads` are asked for.
pub fn ring_threads(threads: usize) -> usize {
    QueueThreads::new(threads).map_or(threads, |queues| queues.threads())
}

/// Whether `count` threads can have a ring each. It tries, because there are many limits (the
/// user's threads, `pids.max`, memory), and after the negotiation it is too late to find out.
fn can_begin(count: usize) -> bool {
    let ((tell, told), gate) = (mpsc::channel(), Mutex::new(()));
    thread::scope(|scope| {
        let closed = gate.lock();
        let begin = || {
            let trial = fuse_ring::trial();
            let _ = tell.send(trial.is_ok());
            // Each thread keeps its ring until all threads have one.
            drop(gate.lock());
        };
        let begun = (0..count)
            .take_while(|_| thread::Builder::new().spawn_scoped(scope, begin).is_ok())
            .count();
        let good = (0..begun).filter(|_| told.recv() == Ok(true)).count();
        drop(closed);
        good == count
    })
}

/// The processors on which a thread of this process may run if it is not bound to one.
static PROCESS_PROCESSORS: OnceLock<CpuSet> = OnceLock::new();

/// Lets the calling thread run on all processors of the process again. A thread that is started by
/// a serving thread is bound to the same processor at first.
pub fn leave_processor() {
    if let Some(home) = PROCESS_PROCESSORS.get() {
        // If this fails, the thread stays on its processor, which is only slower.
        let _ = sched_setaffinity(None, home);
    }
}

/// Parses a list of processors such as `0-3,8` (cpuset(7), "List format").
fn processors(list: &str) -> Option<BTreeSet<u16>> {
    let mut found = BTreeSet::new();
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        found.extend(first.parse::<u16>().ok()?..=last.parse().ok()?);
    }
    Some(found)
}

/// The number of threads of each queue. There is a queue for each possible processor
/// (`num_possible_cpus`). Each queue needs a thread, even that of an offline processor, from which
/// no requests come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct QueueThreads(Vec<usize>);

impl QueueThreads {
    /// Distributes about `threads` threads.
    ///
    /// # Errors
    /// If the processors cannot be determined, or if there are too many for enough threads on each.
    pub(crate) fn new(threads: usize) -> io::Result<QueueThreads> {
        let list = |name: &str| {
            let text = std::fs::read_to_string(format!("/sys/devices/system/cpu/{name}"))?;
            processors(&text)
                .filter(|found| !found.is_empty())
                .ok_or(io::Error::from(io::ErrorKind::InvalidData))
        };
        QueueThreads::of(&list("possible")?, &list("online")?, threads)
            .ok_or(io::ErrorKind::Unsupported.into())
    }

    fn of(
        possible: &BTreeSet<u16>,
        online: &BTreeSet<u16>,
        threads: usize,
    ) -> Option<QueueThreads> {
        let (queues, here) = (possible.len(), online.len().max(1));
        // The kernel numbers queues as their processors, but makes only as many queues as there are
        // processors. With gaps between the numbers, it has too few.
        let holes = possible.last().is_none_or(|last| usize::from(*last) + 1 != queues);
        let most = RING_THREADS_MAX.saturating_sub(queues) / here;
        if holes || most < QUEUE_THREADS_MIN {
            return None;
        }
        let each = threads.div_ceil(here).clamp(QUEUE_THREADS_MIN, most);
        Some(QueueThreads(
            possible.iter().map(|queue| if online.contains(queue) { each } else { 1 }).collect(),
        ))
    }

    pub(crate) fn threads(&self) -> usize {
        self.0.iter().sum()
    }

    /// The queue of each thread, and the number of threads of that queue.
    fn of_threads(&self) -> impl Iterator<Item = (u16, usize)> {
        self.0
            .iter()
            .enumerate()
            .flat_map(|(queue, count)| std::iter::repeat_n((queue as u16, *count), *count))
    }
}

/// Starts the threads, and returns when all of them wait for requests or one has failed.
/// `dispatcher` makes the dispatcher of a thread, from the number of the thread and the slot for
/// its replies.
///
/// # Errors
/// Those of starting threads, `mmap(2)`, `io_uring_setup(2)` and the registration with FUSE.
pub(crate) fn start<F: Filesystem>(
    queue_threads: &QueueThreads,
    device: &Arc<OwnedFd>,
    max_payload: u32,
    dispatcher: impl Fn(usize, Arc<ReplySlot>) -> Dispatcher<F>,
) -> io::Result<Vec<JoinHandle<io::Result<()>>>> {
    PROCESS_PROCESSORS.get_or_init(|| sched_getaffinity(None).unwrap_or_default());
    let busy: Vec<_> = queue_threads.0.iter().map(|_| Arc::new(AtomicUsize::new(0))).collect();
    let room = (max_payload as usize).max(PAYLOAD_ROOM_MIN);
    let (tell, told) = mpsc::channel();
    let mut threads = Vec::with_capacity(queue_threads.threads());
    for (number, (queue, count)) in queue_threads.of_threads().enumerate() {
        let reply_slot = Arc::new(ReplySlot::new(room));
        let worker = RingWorker {
            dispatcher: dispatcher(number, Arc::clone(&reply_slot)),
            reply_slot,
            busy: Arc::clone(&busy[usize::from(queue)]),
            threads: count,
            queue: QueueBinding { device: Arc::clone(device), queue, room },
        };
        let tell = tell.clone();
        let serve = move || {
            worker.queue.bind_thread();
            let (ring, told) = match worker.queue.make_ring() {
                Ok(ring) => (ring, Ok(())),
                Err(error) => (None, Err(error)),
            };
            // Without a receiver, another thread could not be started, and `start` has returned.
            let _ = tell.send(told);
            drop(tell);
            ring.map_or(Ok(()), |ring| worker.serve(ring))
        };
        threads.push(thread::Builder::new().name(format!("fuse-ring-{number}")).spawn(serve)?);
    }
    drop(tell);
    // Waits for all of them, so that none still begins when the mount is given up after an error.
    let begun: Vec<io::Result<()>> = told.iter().collect();
    if begun.len() < threads.len() {
        return Err(io::Error::other("a thread could not begin"));
    }
    begun.into_iter().collect::<io::Result<()>>()?;
    Ok(threads)
}

/// The queue that a thread serves.
#[derive(Debug)]
struct QueueBinding {
    device: Arc<OwnedFd>,
    queue: u16,
    /// Size of the largest payload, in bytes.
    room: usize,
}

impl QueueBinding {
    /// Binds the calling thread to the processor of the queue, if this process may run there.
    fn bind_thread(&self) {
        let number = usize::from(self.queue);
        if number < CpuSet::MAX_CPU
            && PROCESS_PROCESSORS.get().is_some_and(|home| home.is_set(number))
        {
            let mut here = CpuSet::new();
            here.set(number);
            // If this fails, the thread runs on other processors, which is only slower.
            let _ = sched_setaffinity(None, &here);
        }
    }

    /// Makes a ring for the calling thread and registers it. Returns `None` if the mount is gone,
    /// which can happen before the last thread has begun.
    fn make_ring(&self) -> io::Result<Option<FuseRing>> {
        let payload: Range<usize> = PAYLOAD_OFFSET..PAYLOAD_OFFSET + self.room;
        let mut block =
            Pool::new(payload.end, 1)?.try_take().expect("the only block of a new pool is free");
        // This makes all of the block count as filled, so that all of it can be read.
        let _ = block.bytes_mut();
        let mut ring = FuseRing::new(Arc::clone(&self.device), self.queue, payload)?;
        Ok(ring.register(block)?.then_some(ring))
    }
}

/// A thread that serves one queue.
#[derive(Debug)]
struct RingWorker<F: Filesystem> {
    dispatcher: Dispatcher<F>,
    reply_slot: Arc<ReplySlot>,
    /// Threads of the queue that serve a request at the moment.
    busy: Arc<AtomicUsize>,
    /// All threads of the queue.
    threads: usize,
    queue: QueueBinding,
}

impl<F: Filesystem> RingWorker<F> {
    /// Serves until the mount is gone. An error of the ring is counted, and a new ring replaces it:
    /// without one, the programs on its processor would wait for ever.
    fn serve(&self, mut ring: FuseRing) -> io::Result<()> {
        for _ in 0..RING_RESTARTS_MAX {
            if self.serve_by(ring).is_ok() {
                return Ok(());
            }
            self.dispatcher.channel.errors.count_refused();
            match self.queue.make_ring()? {
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
            // Until now no thread could take a request that has arrived.
            if all_were_busy && ring.has_come()? {
                self.dispatcher.filesystem.0.queued();
            }
        }
        Ok(())
    }

    /// Assembles a request from its parts, serves it and waits for the reply.
    fn handle(&self, ring: &FuseRing, arrived: RingRequest) -> (OutHeader, usize, Block) {
        let (header, operation) = ring.request();
        let in_header_bytes = size_of::<InHeader>();
        let length =
            InHeader::read_from_prefix(header).map_or(0, |(header, _)| header.len as usize);
        // If these lengths are inconsistent, decoding the message fails.
        let header_bytes =
            length.saturating_sub(arrived.payload).clamp(in_header_bytes, REQUEST_HEADER_BYTES_MAX);
        let mut bytes = [0; REQUEST_HEADER_BYTES_MAX];
        bytes[..in_header_bytes].copy_from_slice(&header[..in_header_bytes]);
        bytes[in_header_bytes..header_bytes]
            .copy_from_slice(&operation[..header_bytes - in_header_bytes]);
        let RingRequest { mut block, payload } = arrived;
        let kept = if payload == 0 {
            self.reply_slot.lend(block);
            self.dispatcher.handle(&bytes[..header_bytes]);
            None
        } else {
            block.bytes_mut()[PAYLOAD_OFFSET - header_bytes..PAYLOAD_OFFSET]
                .copy_from_slice(&bytes[..header_bytes]);
            self.dispatcher
                .handle(&block.filled()[PAYLOAD_OFFSET - header_bytes..PAYLOAD_OFFSET + payload]);
            Some(block)
        };
        self.reply_slot.take(kept)
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
        assert!(
            QueueThreads::new(1).unwrap().0.len() >= thread::available_parallelism().unwrap().get()
        );
    }

    #[test]
    fn every_queue_has_a_thread_and_those_of_processors_that_are_there_have_more() {
        let shape = |possible: std::ops::Range<u16>, online: std::ops::Range<u16>, threads| {
            QueueThreads::of(&possible.collect(), &online.collect(), threads)
        };
        assert_eq!(shape(0..4, 0..2, 16), Some(QueueThreads(vec![8, 8, 1, 1])));
        assert_eq!(shape(0..2, 0..2, 64), Some(QueueThreads(vec![32, 32])));
        assert_eq!(
            shape(0..2, 0..2, 3)
                .unwrap()
                .of_threads()
                .map(|(queue, _)| queue)
                .filter(|queue| *queue == 1)
                .count(),
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
        let home = PROCESS_PROCESSORS.get_or_init(|| sched_getaffinity(None).unwrap());
        let first = (0..CpuSet::MAX_CPU).find(|number| home.is_set(*number)).unwrap() as u16;
        let device = Arc::new(std::fs::File::open("/dev/null").unwrap().into());
        let binding = QueueBinding { device, queue: first, room: PAYLOAD_ROOM_MIN };
        let served = thread::spawn(move || {
            binding.bind_thread();
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

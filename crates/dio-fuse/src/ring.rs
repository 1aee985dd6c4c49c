//! Requests by io_uring: threads that each have a ring, stay on one processor and get what programs ask there.
//!
//! Answering a request and waiting for the next is one system call, and a program and the thread that serves it take turns on
//! one processor instead of waking each other across two. The device goes on to bring interrupts and what is forgotten.

use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::{self, JoinHandle};

use dio::block::{BLOCK_ALIGN, Block, Pool};
use dio::sys::fuse_ring::{Arrived, FuseRing};
use rustix::thread::{CpuSet, sched_setaffinity};
use zerocopy::{FromBytes, IntoBytes};

use crate::abi::{InHeader, OutHeader};
use crate::channel::LEAST;
use crate::dispatch::Desk;
use crate::filesystem::Filesystem;

/// Where the payload begins: on a page, behind room for what precedes it.
const START: usize = BLOCK_ALIGN;

/// Bytes before the payload of a request, at most: its header, and the first part of its body.
const HEAD: usize = size_of::<InHeader>() + 128;

/// Threads of each queue, at least: requests of one processor may have to wait for the disk together.
const LEAST_THREADS: usize = 8;

/// Whether this process can make rings, without which [`FUSE_OVER_IO_URING`](crate::InitFlags::FUSE_OVER_IO_URING) must not be
/// agreed on.
pub fn rings_are_possible() -> bool {
    FuseRing::is_possible() && queues().is_ok()
}

/// Queues of every connection: one for each processor that there can be (`num_possible_cpus`).
///
/// # Errors
/// What reading that answers.
fn queues() -> io::Result<u16> {
    let list = std::fs::read_to_string("/sys/devices/system/cpu/possible")?;
    last_of(&list).map(|last| last + 1).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// The last number of a list such as `0-3,8` (cpuset(7), "List format").
fn last_of(list: &str) -> Option<u16> {
    list.trim().rsplit([',', '-']).next()?.parse().ok()
}

/// The answer to the one request that a thread has in hand: put there by whoever answers, taken by the thread.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    letter: Mutex<Letter>,
    put: Condvar,
}

#[derive(Debug, Default)]
struct Letter {
    /// The header, and the length of what is behind it.
    answer: Option<(OutHeader, usize)>,
    /// The memory that goes to the kernel, while nobody reads the request there.
    block: Option<Block>,
    /// What is copied there later, otherwise.
    bytes: Vec<u8>,
    /// The thread waits for the answer, which another gives.
    awaited: bool,
}

impl Outbox {
    /// Answers with `parts`, or with the negative number of an error.
    ///
    /// # Panics
    /// If the answer is larger than the kernel agreed to.
    pub(crate) fn put(&self, error: i32, unique: u64, parts: &[&[u8]]) {
        let letter = &mut *self.letter();
        let length: usize = parts.iter().map(|part| part.len()).sum();
        letter.bytes.clear();
        if let Some(block) = &mut letter.block {
            let mut at = START;
            for part in parts {
                block.bytes_mut()[at..at + part.len()].copy_from_slice(part);
                at += part.len();
            }
        } else {
            parts.iter().for_each(|part| letter.bytes.extend_from_slice(part));
        }
        let header = OutHeader { len: (size_of::<OutHeader>() + length) as u32, error, unique };
        letter.answer = Some((header, length));
        // Each notification is a system call, whether there is somebody or not.
        if letter.awaited {
            self.put.notify_one();
        }
    }

    fn lend(&self, block: Block) {
        self.letter().block = Some(block);
    }

    /// Waits for the answer, and gives it with its memory: what was lent, or else `kept`.
    fn take(&self, kept: Option<Block>) -> (OutHeader, usize, Block) {
        let mut letter = self.letter();
        while letter.answer.is_none() {
            letter.awaited = true;
            letter = self.put.wait(letter).unwrap_or_else(PoisonError::into_inner);
        }
        letter.awaited = false;
        let (header, length) = letter.answer.take().expect("waited for above");
        let block = kept.map(|mut block| {
            block.bytes_mut()[START..START + length].copy_from_slice(&letter.bytes);
            block
        });
        let block = block.or_else(|| letter.block.take()).expect("a block is lent or kept");
        (header, length, block)
    }

    fn letter(&self) -> MutexGuard<'_, Letter> {
        self.letter.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many threads there are, and for how many queues.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    queues: u16,
    each: usize,
}

impl Shape {
    /// For about `threads` threads.
    ///
    /// # Errors
    /// If the processors cannot be told.
    pub(crate) fn new(threads: usize) -> io::Result<Shape> {
        let queues = queues()?;
        Ok(Shape { queues, each: threads.div_ceil(queues.into()).max(LEAST_THREADS) })
    }

    pub(crate) fn threads(self) -> usize {
        usize::from(self.queues) * self.each
    }

    fn queue_of(self, thread: usize) -> u16 {
        (thread / self.each) as u16
    }
}

/// Starts the threads. `desk` makes what one has, from its number and the way of its answers. All of them wait for requests, or
/// there is an error.
///
/// # Errors
/// What starting threads, `mmap(2)`, `io_uring_setup(2)` and the kernel's part of FUSE answer.
pub(crate) fn start<F: Filesystem>(
    shape: Shape,
    device: &Arc<OwnedFd>,
    max_payload: u32,
    desk: impl Fn(usize, Arc<Outbox>) -> Desk<F>,
) -> io::Result<Vec<JoinHandle<io::Result<()>>>> {
    let busy: Vec<_> = (0..shape.queues).map(|_| Arc::new(AtomicUsize::new(0))).collect();
    let (tell, told) = mpsc::channel();
    let mut threads = Vec::with_capacity(shape.threads());
    for number in 0..shape.threads() {
        let queue = shape.queue_of(number);
        let outbox = Arc::<Outbox>::default();
        let worker = Worker {
            desk: desk(number, Arc::clone(&outbox)),
            outbox,
            busy: Arc::clone(&busy[usize::from(queue)]),
            threads: shape.each,
        };
        let (tell, device) = (tell.clone(), Arc::clone(device));
        let serve = move || {
            let begun = begin(device, queue, max_payload);
            let (ring, told) = begun.map_or_else(|error| (None, Err(error)), |ring| (ring, Ok(())));
            // If nobody listens, another thread could not begin.
            let _ = tell.send(told);
            drop(tell);
            ring.map_or(Ok(()), |ring| worker.serve(ring))
        };
        threads.push(thread::Builder::new().name(format!("fuse-ring-{number}")).spawn(serve)?);
    }
    drop(tell);
    told.iter().collect::<io::Result<()>>()?;
    Ok(threads)
}

/// Makes a ring for the calling thread, which goes to the processor of that queue, and registers it; `None` if the mount is
/// gone, as it may be before the last thread has begun.
fn begin(device: Arc<OwnedFd>, queue: u16, max_payload: u32) -> io::Result<Option<FuseRing>> {
    let mut here = CpuSet::new();
    here.set(queue.into());
    // Of a processor that is not there, or that this process may not use, nothing comes.
    let _ = sched_setaffinity(None, &here);
    let payload: Range<usize> = START..START + (max_payload as usize).max(LEAST);
    let mut block = Pool::new(payload.end, 1)?.try_take().expect("the only block of a new pool is free");
    // From now on all of it can be looked at.
    let _ = block.bytes_mut();
    let mut ring = FuseRing::new(device, queue, payload)?;
    Ok(ring.register(block)?.then_some(ring))
}

/// One thread that serves one queue.
#[derive(Debug)]
struct Worker<F: Filesystem> {
    desk: Desk<F>,
    outbox: Arc<Outbox>,
    /// Threads of the queue that handle a request.
    busy: Arc<AtomicUsize>,
    /// All of them.
    threads: usize,
}

impl<F: Filesystem> Worker<F> {
    /// Serves until the mount is gone.
    fn serve(&self, mut ring: FuseRing) -> io::Result<()> {
        while let Some(arrived) = ring.wait()? {
            self.busy.fetch_add(1, Ordering::Relaxed);
            let (header, payload, arrived) = self.handle(&ring, arrived);
            let all_were_busy = self.busy.fetch_sub(1, Ordering::Relaxed) == self.threads;
            let bytes = header.as_bytes().try_into().expect("the header has this size");
            ring.answer(arrived, bytes, payload);
            // Until now nobody could take what has come.
            if all_were_busy && ring.has_come()? {
                self.desk.filesystem.0.queued();
            }
        }
        Ok(())
    }

    /// Puts the parts of a request together and has it answered.
    fn handle(&self, ring: &FuseRing, arrived: Arrived) -> (OutHeader, usize, Arrived) {
        let (header, operation) = ring.request();
        let own = size_of::<InHeader>();
        let length = InHeader::read_from_prefix(header).map_or(0, |(header, _)| header.len as usize);
        // What is malformed by this is refused where messages are taken apart.
        let head = length.saturating_sub(arrived.payload).clamp(own, HEAD);
        let mut bytes = [0; HEAD];
        bytes[..own].copy_from_slice(&header[..own]);
        bytes[own..head].copy_from_slice(&operation[..head - own]);
        let Arrived { mut block, payload, commit_id } = arrived;
        let kept = if payload == 0 {
            self.outbox.lend(block);
            self.desk.handle(&bytes[..head]);
            None
        } else {
            block.bytes_mut()[START - head..START].copy_from_slice(&bytes[..head]);
            self.desk.handle(&block.filled()[START - head..START + payload]);
            Some(block)
        };
        let (header, length, block) = self.outbox.take(kept);
        (header, length, Arrived { block, payload, commit_id })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_are_counted_to_the_last_possible_processor() {
        assert_eq!(last_of("0-1\n"), Some(1));
        assert_eq!(last_of("0"), Some(0));
        assert_eq!(last_of("0-3,8-11"), Some(11));
        assert_eq!(last_of(""), None);
        assert!(usize::from(queues().unwrap()) >= thread::available_parallelism().unwrap().get());
    }

    #[test]
    fn every_queue_has_enough_threads() {
        let shape = Shape { queues: 3, each: 8 };
        assert_eq!(shape.threads(), 24);
        assert_eq!([0, 7, 8, 23].map(|thread| shape.queue_of(thread)), [0, 0, 1, 2]);
        assert!(Shape::new(1).unwrap().threads() >= LEAST_THREADS);
    }

    fn block() -> Block {
        let mut block = Pool::new(START + LEAST, 1).unwrap().try_take().unwrap();
        block.bytes_mut().fill(9);
        block
    }

    #[test]
    fn an_answer_goes_into_what_was_lent() {
        let outbox = Outbox::default();
        outbox.lend(block());
        outbox.put(0, 7, &[b"one", b"", b"two"]);
        let (header, length, block) = outbox.take(None);
        assert_eq!((header.len, header.error, header.unique, length), (22, 0, 7, 6));
        assert_eq!(&block.filled()[START - 1..START + 7], b"\x09onetwo\x09");
    }

    #[test]
    fn an_answer_waits_while_the_request_is_read() {
        let outbox = Outbox::default();
        outbox.put(-5, 8, &[]);
        let (header, length, kept) = outbox.take(Some(block()));
        assert_eq!((header.len, header.error, header.unique, length), (16, -5, 8, 0));
        assert_eq!(kept.filled()[START], 9);
        outbox.put(0, 10, &[b"abc"]);
        let (_, length, kept) = outbox.take(Some(kept));
        assert_eq!((length, &kept.filled()[START..START + 3]), (3, &b"abc"[..]));
    }

    #[test]
    fn an_answer_of_another_thread_is_waited_for() {
        let outbox = Outbox::default();
        for unique in 0..1000 {
            outbox.lend(block());
            let header = thread::scope(|scope| {
                scope.spawn(|| outbox.put(0, unique, &[b"x"]));
                outbox.take(None).0
            });
            assert_eq!(header.unique, unique);
        }
    }
}

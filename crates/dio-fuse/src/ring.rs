//! Requests by io_uring: threads that each have a ring, stay on one processor and get what programs ask there.
//!
//! Answering a request and waiting for the next is one system call, and a program and the thread that serves it take turns on
//! one processor instead of waking each other across two. The device goes on to bring interrupts and what is forgotten.

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

use dio::block::Pool;
use dio::sys::fuse_ring::{Arrived, FuseRing};
use rustix::process::{Resource, getrlimit};
use rustix::thread::{CpuSet, sched_setaffinity};
use zerocopy::{FromBytes, IntoBytes};

use crate::abi::{InHeader, OutHeader};
use crate::channel::LEAST;
use crate::dispatch::Desk;
use crate::filesystem::Filesystem;
use crate::outbox::{Outbox, START};

/// Bytes before the payload of a request, at most: its header, and the first part of its body.
const HEAD: usize = size_of::<InHeader>() + 128;

/// Threads of each queue, at least: requests of one processor may have to wait for the disk together.
const LEAST_THREADS: usize = 8;

/// Threads of all queues, at most, if that leaves one for each.
const MOST_THREADS: usize = 1024;

/// Whether this process can make the rings for about `threads` threads, without which
/// [`FUSE_OVER_IO_URING`](crate::InitFlags::FUSE_OVER_IO_URING) must not be agreed on: the kernel would wait for them.
pub fn rings_are_possible(threads: usize) -> bool {
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    // Each ring is a descriptor; at least as many are left to files.
    let fit = |shape: Shape| shape.threads() as u64 <= descriptors / 2;
    FuseRing::is_possible() && Shape::new(threads).is_ok_and(fit)
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
    /// If the processors cannot be told.
    pub(crate) fn new(threads: usize) -> io::Result<Shape> {
        let list = |name: &str| {
            let text = std::fs::read_to_string(format!("/sys/devices/system/cpu/{name}"))?;
            processors(&text).filter(|found| !found.is_empty()).ok_or(io::Error::from(io::ErrorKind::InvalidData))
        };
        Ok(Shape::of(&list("possible")?, &list("online")?, threads))
    }

    fn of(possible: &BTreeSet<u16>, online: &BTreeSet<u16>, threads: usize) -> Shape {
        let queues = possible.last().map_or(0, |last| last + 1);
        let here = online.len().max(1);
        let most = (MOST_THREADS.saturating_sub(queues.into()) / here).max(1);
        let each = threads.div_ceil(here).max(LEAST_THREADS).min(most);
        Shape((0..queues).map(|queue| if online.contains(&queue) { each } else { 1 }).collect())
    }

    pub(crate) fn threads(&self) -> usize {
        self.0.iter().sum()
    }

    /// The queue of each thread, and how many others it has there.
    fn places(&self) -> impl Iterator<Item = (u16, usize)> {
        self.0.iter().enumerate().flat_map(|(queue, count)| std::iter::repeat_n((queue as u16, *count), *count))
    }
}

/// Starts the threads. `desk` makes what one has, from its number and the way of its answers. All of them wait for requests, or
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
        };
        let (tell, device) = (tell.clone(), Arc::clone(device));
        let serve = move || {
            let begun = begin(device, queue, room);
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
fn begin(device: Arc<OwnedFd>, queue: u16, room: usize) -> io::Result<Option<FuseRing>> {
    let mut here = CpuSet::new();
    here.set(queue.into());
    // Of a processor that is not there, or that this process may not use, nothing comes.
    let _ = sched_setaffinity(None, &here);
    let payload: Range<usize> = START..START + room;
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
    /// All that it has.
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
        assert_eq!(shape(0..4, 0..2, 16), Shape(vec![8, 8, 1, 1]));
        assert_eq!(shape(0..2, 0..2, 64), Shape(vec![32, 32]));
        assert_eq!(shape(0..2, 0..2, 3).places().map(|(queue, _)| queue).filter(|queue| *queue == 1).count(), 8);
        let large = shape(0..512, 0..256, 64);
        assert!(large.threads() <= MOST_THREADS && large.0.iter().all(|count| *count > 0), "{}", large.threads());
        assert_eq!(shape(0..2000, 0..2000, 64).threads(), 2000);
    }
}

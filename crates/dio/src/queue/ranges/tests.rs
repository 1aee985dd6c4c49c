//! Random requests of a queue against the same bytes in memory.

use std::ops::Range;
use std::sync::Arc;

use dio_test::{Rng, Seed, file_systems};
use rustix::io::Errno;

use super::RangeQueue;
use crate::block::{Pool, Segment};
use crate::file::{Class, Reason};
use crate::{File, Io, Mode, OpenOptions};

/// Bytes of the file before the first request.
const SIZE: usize = 600_000;
/// Most bytes of one request: more than the bounce memory of the queue holds.
const LENGTH_MAX: usize = 200_000;
const BOUNCE_BYTES: usize = 128 << 10;
const DEPTH: usize = 8;

fn open(path: &std::path::Path, mode: Mode) -> Arc<File> {
    let mut options = OpenOptions::new();
    Arc::new(options.read(true).write(true).create(true).mode(mode).open(path).unwrap())
}

/// A range of whole blocks, or of any bytes, between `from` and `to`.
fn range(rng: &mut Rng, from: usize, to: usize) -> Range<usize> {
    let unit = if rng.range(0..2) == 0 { 4096 } else { 1 };
    let mut pick = || (from + rng.range(0..(to - from) as u64 + 1) as usize) / unit * unit;
    let (one, other) = (pick().clamp(from, to), pick().clamp(from, to));
    let (start, end) = (one.min(other), one.max(other));
    start..end.min(start + LENGTH_MAX)
}

/// Memory of `len` bytes that begins on a page, or not.
fn memory(pool: &Pool, rng: &mut Rng, len: usize) -> (Segment, usize) {
    let shift = if rng.range(0..2) == 0 { 0 } else { 1 + rng.range(0..4095) as usize };
    (pool.try_take().unwrap().into_segment(shift..shift + len), shift)
}

/// Queues some requests that do not overlap, in slices of the file, and compares what they did.
fn round(
    queue: &mut RangeQueue,
    file: &Arc<File>,
    pool: &Pool,
    rng: &mut Rng,
    model: &mut Vec<u8>,
) {
    let slice = (model.len() + 50_000) / DEPTH;
    let mut expected = Vec::new();
    for tag in 0..DEPTH {
        let part = range(rng, tag * slice, (tag + 1) * slice);
        let offset = part.start as u64;
        if rng.range(0..2) == 0 {
            let (memory, shift) = memory(pool, rng, part.len());
            queue.read(file, memory, offset, tag as u64).unwrap();
            expected.push(Some((part, shift)));
        } else {
            let mut block = pool.try_take().unwrap();
            let shift = if rng.range(0..2) == 0 { 0 } else { 513 };
            let value = rng.range(0..255) as u8 + 1;
            block.copy_in(shift, &vec![value; part.len()]);
            let memory = block.into_segment(shift..shift + part.len());
            queue.write(file, memory, offset, tag as u64).unwrap();
            if !part.is_empty() {
                let len = model.len().max(part.end);
                model.resize(len, 0);
                model[part.clone()].fill(value);
            }
            expected.push(None);
        }
    }
    let full = queue.sync(file, false, 99).unwrap_err();
    assert_eq!(full.error.errno(), Errno::AGAIN);
    queue.wait(DEPTH).unwrap();
    let mut found = 0;
    while let Some(completion) = queue.take() {
        found += 1;
        let count = completion.outcome.unwrap();
        let Some((part, shift)) = expected[completion.tag as usize].take() else { continue };
        let block = completion.memory.unwrap().into_block(shift + count).unwrap();
        // Another request of this round may have moved the end of the file, which is no overlap.
        let end = (part.start + count).min(model.len());
        let wanted = &model[part.start.min(end)..end];
        let bytes = &block.filled()[shift..];
        assert!(bytes[..wanted.len()] == *wanted, "{part:?} differs");
        assert!(bytes[wanted.len()..].iter().all(|byte| *byte == 0));
    }
    assert_eq!((found, queue.in_flight()), (DEPTH, 0));
}

#[test]
fn any_range_and_any_memory_are_those_of_the_model() {
    let seed = Seed::new();
    for fs in file_systems() {
        let dir = fs.dir();
        for mode in [Mode::Direct, Mode::Concurrent, Mode::Cached, Mode::Uncached] {
            let mut rng = seed.stream(0);
            let file = open(&dir.path().join(format!("{mode:?}")), mode);
            let mut model = vec![7; SIZE];
            file.write_at(&model, 0).unwrap();
            let pool = Pool::new(LENGTH_MAX + 4096, 2 * DEPTH).unwrap();
            let mut queue = RangeQueue::new(&Io::shared().unwrap(), DEPTH, BOUNCE_BYTES).unwrap();
            for _ in 0..12 {
                round(&mut queue, &file, &pool, &mut rng, &mut model);
            }
            queue.sync(&file, true, 0).unwrap();
            queue.wait(1).unwrap();
            assert_eq!(queue.take().unwrap().outcome.unwrap(), 0);
            let mut found = vec![0; model.len() + 1];
            assert_eq!(file.read_at(&mut found, 0).unwrap(), model.len(), "{} {mode:?}", fs.name);
            assert!(found[..model.len()] == model, "{} {mode:?}", fs.name);
        }
    }
}

#[test]
fn what_is_copied_counts_as_bounced_and_why() {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let file = open(&dir.path().join("file"), Mode::Direct);
    file.write_at(&vec![1; 16 << 10], 0).unwrap();
    if file.read_class().0 != Class::Direct {
        return dio_test::skip!("no direct I/O in /var/tmp");
    }
    let before = file.counters();
    let pool = Pool::new(16 << 10, 4).unwrap();
    let mut queue = RangeQueue::new(&Io::shared().unwrap(), 4, 64 << 10).unwrap();
    for (tag, (range, offset)) in
        [(0..4096, 4096), (1..4097, 4096), (0..100, 5000)].into_iter().enumerate()
    {
        let memory = pool.try_take().unwrap().into_segment(range);
        queue.read(&file, memory, offset, tag as u64).unwrap();
    }
    queue.wait(3).unwrap();
    let counters = file.counters();
    let read = |class| counters.read.get(class) - before.read.get(class);
    let why = |reason| counters.reason(reason) - before.reason(reason);
    assert_eq!((read(Class::Direct), read(Class::Bounced)), (4096, 4096 + 100));
    assert_eq!((why(Reason::MisalignedMemory), why(Reason::MisalignedRequest)), (4096, 100));
}

#[test]
fn what_no_file_can_hold_is_refused_and_nothing_is_lost() {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let file = open(&dir.path().join("file"), Mode::Direct);
    let pool = Pool::new(4096, 2).unwrap();
    let mut queue = RangeQueue::new(&Io::shared().unwrap(), 4, 64 << 10).unwrap();
    let memory = pool.try_take().unwrap().into_segment(0..4096);
    let refused = queue.read(&file, memory, u64::MAX - 10, 0).unwrap_err();
    assert_eq!(refused.error.errno(), Errno::OVERFLOW);
    queue.read(&file, refused.memory.unwrap(), i64::MAX as u64 - 4096, 1).unwrap();
    let empty = pool.try_take().unwrap().into_segment(0..0);
    queue.read(&file, empty, 0, 2).unwrap();
    drop(queue);
    assert_eq!(pool.free(), 2);
}

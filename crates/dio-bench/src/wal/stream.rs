//! Measures appending in large steps, compared with the disk alone, and opening the log afterwards.

use std::collections::VecDeque;
use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Instant;

use dio::block::Pool;
use dio::{File, Mode, OpenOptions};
use dio_wal::{CommitFuture, Log, Method, WalError};

use super::page_cache::{evict, resident_pages};
use super::plan::{IN_FLIGHT, WalPlan};
use super::report::Stream;
use crate::BenchError;
use crate::data::{Random, Scratch};
use crate::increments::read_all;
use crate::progress;
use crate::stats::Summary;

/// Bytes of a record of [`Stream`].
pub const LARGE: usize = 1 << 20;
/// Bytes between two commits.
pub const COMMIT: u64 = 64 << 20;

/// Each round measures the log with waiting for its commits, the log without waiting, and the disk
/// alone; then opening the log, and reading its files.
pub(super) fn measure(plan: &WalPlan) -> Result<Stream, BenchError> {
    let records = (plan.size / LARGE as u64).max(1);
    let bytes = records * LARGE as u64;
    let method = plan.methods.first().copied().unwrap_or(Method::Fdatasync);
    let direct = plan.direct.contains(&true);
    let (mut waiting, mut asynchronous, mut disk) = (Vec::new(), Vec::new(), Vec::new());
    let (mut recovery, mut disk_read, mut resident) = (Vec::new(), Vec::new(), 0);
    for _ in 0..plan.runs {
        for (pipelined, rates) in [(false, &mut waiting), (true, &mut asynchronous)] {
            progress::step("appending in large steps");
            let scratch = Scratch::new(&plan.directory)?;
            let directory = scratch.path("log");
            std::fs::create_dir(&directory).map_err(BenchError::system("create", &directory))?;
            let log = Log::open(&directory, &plan.options(method, direct))?;
            rates.push(bytes as f64 / append(&log, records, pipelined)?);
            drop(log);
            resident = resident.max(resident_pages(&directory)?);
            if pipelined {
                // Without this, a log that was written through the page cache would be read from
                // memory.
                evict(&directory)?;
                let begin = Instant::now();
                let log = Log::open(&directory, &plan.options(method, direct))?;
                recovery.push(bytes as f64 / begin.elapsed().as_secs_f64());
                drop(log);
                disk_read.push(read_alone(&directory)?);
            }
            scratch.remove_quietly();
        }
        progress::step("the disk alone");
        disk.push(bytes as f64 / write_alone(plan, records)?);
    }
    let best = waiting.iter().zip(&asynchronous).map(|(one, other)| f64::max(*one, *other));
    Ok(Stream {
        method: Some(method.name().to_owned()),
        direct: Some(direct),
        bytes,
        record_bytes: LARGE as u64,
        commit_bytes: COMMIT,
        of_disk: Summary::of(best.zip(&disk).map(|(log, disk)| log / disk)),
        waiting: Summary::of(waiting),
        asynchronous: Summary::of(asynchronous),
        disk: Summary::of(disk),
        recovery: Summary::of(recovery),
        disk_read: Summary::of(disk_read),
        resident_pages: resident,
    })
}

/// Appends the records; returns the seconds until all of them are durable.
fn append(log: &Log, records: u64, pipelined: bool) -> Result<f64, BenchError> {
    let mut record = vec![0; LARGE];
    Random::new(7).fill(&mut record);
    let begin = Instant::now();
    let (mut commits, mut gathered) = (VecDeque::new(), 0);
    for number in 0..records {
        record[..8].copy_from_slice(&number.to_le_bytes());
        let lsn = log.append(&record)?;
        gathered += LARGE as u64;
        if gathered < COMMIT && number + 1 < records {
            continue;
        }
        gathered = 0;
        if pipelined {
            commits.push_back(log.commit_async(lsn));
            if commits.len() > 1 {
                commits.pop_front().map_or(Ok(()), wait_for)?;
            }
        } else {
            log.commit(lsn)?;
        }
    }
    commits.into_iter().try_for_each(wait_for)?;
    Ok(begin.elapsed().as_secs_f64())
}

/// A minimal executor, which blocks this thread.
fn wait_for(commit: CommitFuture) -> Result<(), WalError> {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut commit = pin!(commit);
    loop {
        if let Poll::Ready(outcome) = commit.as_mut().poll(&mut Context::from_waker(&waker)) {
            return outcome;
        }
        std::thread::park();
    }
}

/// Writes the same bytes to a plain file; returns the seconds.
fn write_alone(plan: &WalPlan, records: u64) -> Result<f64, BenchError> {
    let scratch = Scratch::new(&plan.directory)?;
    let path = scratch.path("file");
    let file: File =
        OpenOptions::new().write(true).create_new(true).mode(Mode::Concurrent).open(&path)?;
    let pool = Pool::new(LARGE, IN_FLIGHT).map_err(BenchError::system("map memory for", &path))?;
    file.allocate(0..records * LARGE as u64, true)?;
    file.sync_all()?;
    let next = AtomicU64::new(0);
    let writer = || {
        let mut memory = pool.try_take().expect("there is a block for each thread");
        Random::new(7).fill(memory.bytes_mut());
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= records {
                return Ok::<_, BenchError>(());
            }
            file.write_at(memory.bytes_mut(), number * LARGE as u64)?;
        }
    };
    let begin = Instant::now();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..IN_FLIGHT).map(|_| scope.spawn(writer)).collect();
        threads.into_iter().try_for_each(|thread| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    })?;
    file.sync_data()?;
    let seconds = begin.elapsed().as_secs_f64();
    drop(file);
    scratch.remove_quietly();
    Ok(seconds)
}

/// Only reads the files of a log; returns bytes per second.
fn read_alone(directory: &Path) -> Result<f64, BenchError> {
    let mut buffer = vec![0; 4 << 20];
    let (mut bytes, begin) = (0, Instant::now());
    for entry in std::fs::read_dir(directory).map_err(BenchError::system("read", directory))? {
        let path = entry.map_err(BenchError::system("read", directory))?.path();
        let file = OpenOptions::new().read(true).mode(Mode::Direct).open(&path)?;
        let length = file.size()?;
        let mut reader =
            dio::stream::Reader::new(file).map_err(BenchError::system("read", &path))?;
        read_all(&mut reader, &path, &mut buffer, length)?;
        bytes += length;
    }
    Ok(bytes as f64 / begin.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_again_comes_from_the_disk() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let log =
            Log::open(directory.path(), dio_wal::Options::new().direct(false).segment(4 << 20))
                .unwrap();
        append(&log, 9, true).unwrap();
        drop(log);
        assert!(resident_pages(directory.path()).unwrap() > 0);
        evict(directory.path()).unwrap();
        assert_eq!(resident_pages(directory.path()).unwrap(), 0);
    }
}

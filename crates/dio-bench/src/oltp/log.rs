//! The log: one record for each commit, durable before the commit returns. Commits that meet share
//! one write.

use std::io;
use std::os::unix::fs::FileExt;

use dio::block::Pool;
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::plan::BLOCK;
use super::storage::FileRange;

/// Bytes of a commit's record.
const RECORD: usize = 512;

/// Bytes of the largest write.
const LARGEST: usize = 256 << 10;

/// A log that is written cyclically. Its space was filled with data before.
#[derive(Debug)]
pub(super) struct Log<'a> {
    place: &'a FileRange,
    bytes: u64,
    state: Mutex<LogPositions>,
    done: Condvar,
    /// The memory of the thread that writes; only one thread writes at a time.
    pool: Pool,
}

#[derive(Debug, Default)]
struct LogPositions {
    /// Number of records that were handed in, and of those that are durable.
    given: u64,
    durable: u64,
    writing: bool,
    /// Offset of the next write, below the size.
    at: u64,
    writes: u64,
    failed: Option<io::ErrorKind>,
}

impl<'a> Log<'a> {
    /// Creates a log of `bytes` bytes in a file that was opened with `O_DSYNC`.
    pub(super) fn new(place: &'a FileRange, bytes: u64) -> io::Result<Log<'a>> {
        let pool = Pool::new(LARGEST, 1)?;
        Ok(Log { place, bytes, state: Mutex::default(), done: Condvar::new(), pool })
    }

    /// Adds a record and returns when it is durable. A committer that finds no write in progress
    /// writes the records of all committers that have arrived by then.
    pub(super) fn commit(&self) -> io::Result<()> {
        let mut state = self.lock();
        state.given += 1;
        let mine = state.given;
        while state.durable < mine {
            if let Some(kind) = state.failed {
                return Err(kind.into());
            }
            if state.writing {
                self.done.wait(&mut state);
                continue;
            }
            state.writing = true;
            let most = (LARGEST / RECORD) as u64;
            let (first, last) = (state.durable, state.given.min(state.durable + most));
            let length = ((last - first) as usize * RECORD).next_multiple_of(BLOCK) as u64;
            if state.at + length > self.bytes {
                state.at = 0;
            }
            let at = state.at;
            state.at += length;
            drop(state);
            let outcome = self.write(at, first, length as usize);
            state = self.lock();
            state.writing = false;
            state.writes += 1;
            match outcome {
                Ok(()) => state.durable = last,
                Err(error) => state.failed = Some(error.kind()),
            }
            self.done.notify_all();
        }
        Ok(())
    }

    /// Number of writes so far.
    pub(super) fn writes(&self) -> u64 {
        self.lock().writes
    }

    fn write(&self, at: u64, first: u64, length: usize) -> io::Result<()> {
        let mut block = self.pool.try_take().expect("one writes at a time");
        let bytes = &mut block.bytes_mut()[..length];
        for (number, record) in bytes.chunks_mut(RECORD).enumerate() {
            record.fill(0xa5);
            record[..8].copy_from_slice(&(first + number as u64).to_le_bytes());
        }
        self.place.file.write_all_at(bytes, self.place.base + at)
    }

    fn lock(&self) -> MutexGuard<'_, LogPositions> {
        self.state.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn every_commit_is_written_and_the_log_goes_round() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4 * BLOCK as u64).unwrap();
        let place = FileRange { file: Arc::new(file), base: BLOCK as u64 };
        let log = Log::new(&place, 2 * BLOCK as u64).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..50).for_each(|_| log.commit().unwrap()));
            }
        });
        let state = log.lock();
        assert_eq!((state.given, state.durable), (400, 400));
        assert!((50..=400).contains(&state.writes), "{}", state.writes);
        let mut head = [1; BLOCK];
        place.file.read_exact_at(&mut head, 0).unwrap();
        assert_eq!(head, [0; BLOCK], "nothing before its place is written");
        let mut tail = [1; BLOCK];
        place.file.read_exact_at(&mut tail, 3 * BLOCK as u64).unwrap();
        assert_eq!(tail, [0; BLOCK], "and nothing behind it");
    }

    #[test]
    fn a_write_that_failed_fails_every_commit_from_then_on() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        std::fs::write(&path, [0; 2 * BLOCK]).unwrap();
        let place = FileRange { file: Arc::new(std::fs::File::open(path).unwrap()), base: 0 };
        let log = Log::new(&place, 2 * BLOCK as u64).unwrap();
        assert!(log.commit().is_err() && log.commit().is_err());
    }
}

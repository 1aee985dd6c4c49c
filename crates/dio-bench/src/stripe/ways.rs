//! The three ways to make one request that spans several stripes of one file.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use dio::block::{Block, Pool};
use dio::queue::Queue;
use dio::stripe::{self, Layout};
use dio::{File, Io, Mode, OpenOptions};

use super::plan::{Direction, Submission};
use crate::BenchError;
use crate::data::Random;

/// Number of requests of [`Submission::Async`] in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Depth {
    /// The actual number: as many as the engine accepts at a time.
    pub(super) had: u64,
    /// The number that would hold as many bytes as [`Submission::SubmitAll`] has in flight.
    pub(super) wanted: u64,
}

/// The memory of one benchmark: the contents of the file, and the buffer that it is read to.
#[derive(Debug)]
pub(super) struct Memory {
    written: Block,
    read: Block,
}

impl Memory {
    /// Allocates memory for files of so many bytes.
    pub(super) fn new(bytes: u64) -> Result<Memory, BenchError> {
        let failed = || BenchError::system("map memory for", Path::new("the file's bytes"));
        let bytes = usize::try_from(bytes)
            .map_err(|_| BenchError::Asked("the transfers are too large".to_owned()))?;
        let pool = Pool::new(bytes, 2).map_err(failed())?;
        let take = || pool.try_take().expect("there are two blocks");
        let (mut written, mut read) = (take(), take());
        Random::new(bytes as u64).fill(written.bytes_mut());
        // The memory is touched here, so that page faults do not count as time of the first run.
        read.bytes_mut().fill(1);
        Ok(Memory { written, read })
    }

    fn slice(&mut self, direction: Direction, range: &Range<u64>) -> Bytes<'_> {
        let range = range.start as usize..range.end as usize;
        match direction {
            Direction::Write => Bytes::Out(&self.written.bytes_mut()[range]),
            Direction::Read => Bytes::In(&mut self.read.bytes_mut()[range]),
        }
    }

    /// Whether the range was read as it was written.
    fn is_right(&mut self, range: &Range<u64>) -> bool {
        let range = range.start as usize..range.end as usize;
        self.read.bytes_mut()[range.clone()] == self.written.bytes_mut()[range]
    }
}

/// The memory of one call.
enum Bytes<'a> {
    Out(&'a [u8]),
    In(&'a mut [u8]),
}

/// A striped file, its objects, and the memory.
pub(super) struct StripedSubject<'a> {
    path: PathBuf,
    file: File,
    objects: Vec<Arc<File>>,
    layout: Layout,
    bytes: u64,
    memory: &'a mut Memory,
}

impl<'a> StripedSubject<'a> {
    /// Creates a filled file, with one object in each directory.
    pub(super) fn make(
        path: PathBuf,
        directories: &[PathBuf],
        stripe: u64,
        bytes: u64,
        memory: &'a mut Memory,
    ) -> Result<StripedSubject<'a>, BenchError> {
        let plan = stripe::StripePlan {
            stripe: Some(stripe),
            count: None,
            targets: directories.to_vec(),
            force: false,
        };
        let descriptor = stripe::create(&path, &plan)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(Mode::Concurrent);
        let file = options.open(&path)?;
        let layout = descriptor.layout;
        let mut subject = StripedSubject { path, file, objects: Vec::new(), layout, bytes, memory };
        subject.fill()?;
        for object in 0..layout.objects() {
            subject.objects.push(Arc::new(options.open(descriptor.object_path(object))?));
        }
        Ok(subject)
    }

    /// Writes the expected contents to the whole file, durably.
    pub(super) fn fill(&mut self) -> Result<(), BenchError> {
        self.call(Direction::Write, &(0..self.bytes))?;
        Ok(self.file.sync_all()?)
    }

    /// Moves `moved` bytes in requests of `transfer` bytes, starting over at the end of the file.
    /// Returns bytes per second.
    pub(super) fn run(
        &mut self,
        way: Submission,
        direction: Direction,
        transfer: u64,
        moved: u64,
    ) -> Result<f64, BenchError> {
        if way == Submission::Async {
            return self.run_async(direction, transfer, moved);
        }
        let begin = Instant::now();
        let mut last = 0..0;
        for number in 0..moved / transfer {
            let request = number * transfer % self.bytes;
            last = request..request + transfer;
            let step = if way == Submission::WaitEach {
                self.layout.stripe().min(transfer)
            } else {
                transfer
            };
            for at in (0..transfer / step).map(|part| request + part * step) {
                self.call(direction, &(at..at + step))?;
            }
        }
        let rate = moved as f64 / begin.elapsed().as_secs_f64();
        if direction == Direction::Read && !self.memory.is_right(&last) {
            let text = format!("'{}' was not read as it was written", self.path.display());
            return Err(BenchError::Asked(text));
        }
        Ok(rate)
    }

    fn call(&mut self, direction: Direction, range: &Range<u64>) -> Result<(), BenchError> {
        match self.memory.slice(direction, range) {
            Bytes::Out(bytes) => self.file.write_at(bytes, range.start)?,
            Bytes::In(bytes) => self.file.read_exact_at(bytes, range.start)?,
        }
        Ok(())
    }

    /// The number of requests of [`Submission::Async`] in flight for requests of `transfer` bytes.
    pub(super) fn depth(&self, transfer: u64) -> Result<Depth, BenchError> {
        let wanted = self.file.in_flight_of(transfer).div_ceil(self.piece(transfer)).max(1);
        // A ring has a limit, and the thread pool has a lower one.
        let engine = Io::shared()?.driver(usize::try_from(wanted).unwrap_or(usize::MAX)).depth();
        Ok(Depth { had: wanted.min(engine as u64), wanted })
    }

    /// Bytes of a request of [`Submission::Async`].
    fn piece(&self, transfer: u64) -> u64 {
        self.layout.stripe().min(transfer)
    }

    fn run_async(
        &self,
        direction: Direction,
        transfer: u64,
        moved: u64,
    ) -> Result<f64, BenchError> {
        let failed = || BenchError::system("run requests on", &self.path);
        let piece = self.piece(transfer);
        let depth = self.depth(transfer)?.had as usize;
        let mut queue = Queue::new(&Io::shared()?, piece as usize, depth).map_err(failed())?;
        let mut blocks: Vec<Block> = (0..depth).filter_map(|_| queue.block()).collect();
        // Arbitrary data may be written, since the file is filled again before it is read.
        blocks.iter_mut().for_each(|block| block.bytes_mut().fill(0x5a));
        let mut completions = Vec::with_capacity(depth);
        let begin = Instant::now();
        for number in 0..moved / piece {
            if blocks.is_empty() {
                queue.wait(1, &mut completions).map_err(failed())?;
                for over in completions.drain(..) {
                    self.check(over.outcome?, piece)?;
                    blocks.push(over.block);
                }
            }
            let block = blocks.pop().expect("a request that is over gives its block back");
            let extent = self.layout.locate(number * piece % self.bytes);
            let (object, length) = (&self.objects[extent.object], piece as usize);
            let queued = match direction {
                Direction::Read => queue.read(object, block, extent.offset, length, number),
                Direction::Write => queue.write(object, block, extent.offset, length, number),
            };
            queued.map_err(|refused| refused.error)?;
        }
        queue.wait(queue.in_flight(), &mut completions).map_err(failed())?;
        let rate = moved as f64 / begin.elapsed().as_secs_f64();
        completions.into_iter().try_for_each(|over| self.check(over.outcome?, piece))?;
        Ok(rate)
    }

    fn check(&self, count: usize, piece: u64) -> Result<(), BenchError> {
        if count as u64 == piece {
            return Ok(());
        }
        Err(BenchError::Asked(format!("an object of '{}' ends too early", self.path.display())))
    }

    /// Removes the file and its objects.
    pub(super) fn remove(self) -> Result<(), BenchError> {
        drop((self.file, self.objects));
        stripe::remove(&self.path)?;
        Ok(())
    }
}

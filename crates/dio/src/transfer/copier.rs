//! Transfers ranges from one file to another.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;

use rustix::io::Errno;

use crate::block::{Block, Pool};
use crate::drive::{Driver, Finished};
use crate::engine::OpKind;
use crate::file::{File, FileError};
use crate::geometry::align_down;
use crate::io::Io;

use super::block_ranges::BlockRanges;
use super::error::TransferError;
use super::pace::Pace;
use super::zeros::non_zero;

/// Longest sleep between two checks whether to stop.
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// Unit in which zeros are found, in bytes: the usual block of a file system. No hole can be
/// smaller.
const HOLE_UNIT_BYTES: usize = 4096;

/// Observes a transfer and can stop it. The transferring thread calls all methods.
pub trait Watch {
    /// Called with bytes as they were read, each once, in no particular order.
    fn read(&mut self, _offset: u64, _bytes: &[u8]) {}

    /// Called when the target's storage has accepted bytes.
    fn written(&mut self, _bytes: u64) {}

    /// Called before every request. True ends the transfer with [`TransferError::Stopped`].
    fn stopped(&self) -> bool {
        false
    }
}

/// Observes nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoWatch;

impl Watch for NoWatch {}

/// A transfer from one file to another.
#[derive(Debug)]
pub struct CopierJob<'a> {
    /// The file to read.
    pub source: &'a File,
    /// The file to write, at the same offsets. `None` to read only.
    pub target: Option<&'a File>,
    /// The ranges to transfer, ascending and disjoint. The end of the last may be the end of the
    /// file. All other boundaries are multiples of both files' [`File::block_align`].
    pub ranges: &'a [Range<u64>],
    /// A limit on bytes per second.
    pub pace: Option<&'a Pace>,
    /// Blocks of zeros are not written: the target reads as zeros there already.
    pub skip_zeros: bool,
}

/// Copies files, one after the other, with the same blocks and the same ring.
///
/// ```no_run
/// use dio::transfer::{Contents, Copier, NoWatch, Sparse};
/// use dio::{File, Io, OpenOptions};
///
/// let source = File::open("from")?;
/// let target = OpenOptions::new().write(true).create_new(true).open("to")?;
/// let size = source.size()?;
/// let mut copier = Copier::new(&Io::shared()?, 1 << 20, 8)?;
/// let (source, sparse) = (&source, Sparse::Auto);
/// let contents = Contents { source, target: &target, size, start: 0, sparse, pace: None };
/// copier.copy_contents(&contents, &mut NoWatch)?;
/// target.sync_all()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Copier {
    pool: Pool,
    driver: Driver,
    unregistered: Option<String>,
    complete: u64,
}

/// The state of one transfer.
struct TransferState<'a> {
    job: &'a CopierJob<'a>,
    block_ranges: BlockRanges<'a>,
    /// The part of the last block that does not fill a block of the target.
    tail: Option<(u64, Vec<u8>)>,
    /// Reads in flight, and the most there may be: the source's share of the blocks
    /// ([`reads_share`]) while there is something to write. If all blocks could be reads, a device
    /// that completes in bursts (a rate limit, interrupt coalescing) would keep both sides in
    /// lockstep: all read, then all write, and the disk never does both at once.
    reads: usize,
    reads_max: usize,
    /// The first error decides what is reported.
    error: Option<TransferError>,
    /// Offsets of the blocks that have been taken and are not written yet.
    unwritten: BTreeSet<u64>,
}

/// Number of blocks of `block` bytes with which a copier keeps all disks of source and target busy:
/// `depth`, half of them for each file, and more if a file is striped, within `bytes_max` bytes.
pub fn blocks_for(
    source: &File,
    target: Option<&File>,
    block: usize,
    depth: usize,
    bytes_max: usize,
) -> usize {
    let half = depth.div_ceil(2);
    let more = |file: &File| file.block_io().depth_for_objects(half, block, bytes_max) - half;
    let all = depth + more(source) + target.map_or(0, more);
    all.min(bytes_max / block.max(1)).max(depth)
}

/// How many of all blocks may be reads. Each file gets a share in proportion to its disks. A file
/// that is not striped counts as two disks, because it has as many requests in flight as two
/// objects ([`blocks_for`]).
fn reads_share(blocks: usize, source: &File, target: &File) -> usize {
    let [from, to] = [source, target].map(|file| file.objects().len().max(2));
    blocks.saturating_mul(from).div_ceil(from + to)
}

impl Copier {
    /// A copier with `depth` blocks of `block` bytes, which is all the memory that it uses.
    ///
    /// # Errors
    /// There is no memory.
    pub fn new(io: &Io, block: usize, depth: usize) -> Result<Copier, TransferError> {
        let pool = Pool::new(block, depth).map_err(TransferError::Engine)?;
        let mut driver = io.driver(depth);
        let unregistered = driver.attach(&pool).err().map(|error| error.to_string());
        Ok(Copier { pool, driver, unregistered, complete: 0 })
    }

    /// Bytes of memory for buffers.
    pub fn buffer_bytes(&self) -> usize {
        self.pool.bytes()
    }

    /// Number of blocks.
    pub fn blocks(&self) -> usize {
        self.pool.blocks()
    }

    /// After [`Copier::run`], whatever its outcome: the offset before which all ranges are
    /// transferred.
    pub fn complete(&self) -> u64 {
        self.complete
    }

    /// Why the buffers are not registered with the kernel; `None` if they are. Unregistered buffers
    /// only cost speed.
    pub fn unregistered(&self) -> Option<&str> {
        self.unregistered.as_deref()
    }

    /// Transfers the ranges of a job. After an error it waits for everything in flight before it
    /// returns.
    ///
    /// # Errors
    /// The first error, with its file and offset; [`TransferError::Shrunk`] when the source ends
    /// early.
    pub fn run(&mut self, job: &CopierJob<'_>, watch: &mut dyn Watch) -> Result<(), TransferError> {
        self.complete = job.ranges.first().map_or(0, |first| first.start);
        let align = job.target.map_or(1, File::block_align).max(job.source.block_align());
        let block = align_down(self.pool.block_len() as u64, align);
        if block == 0 {
            let text = format!(
                "buffers of {} bytes are smaller than a block of the file, {align}",
                self.pool.block_len()
            );
            return Err(TransferError::Engine(std::io::Error::new(
                std::io::ErrorKind::InvalidInput,
                text,
            )));
        }
        for file in [Some(job.source), job.target].into_iter().flatten() {
            file.block_io().grow_driver(&mut self.driver, self.pool.blocks(), false);
        }
        let block_ranges = BlockRanges::new(job.ranges, block);
        let all = self.pool.blocks();
        let reads_max = job.target.map_or(all, |target| reads_share(all, job.source, target));
        let mut run = TransferState {
            job,
            block_ranges,
            tail: None,
            error: None,
            unwritten: BTreeSet::new(),
            reads: 0,
            reads_max,
        };
        {
            // A thread must not lock the same table twice: a request that queues in between would
            // make it wait for ever.
            let other = job.target.filter(|target| {
                !target.block_io().lock_order() == job.source.block_io().lock_order()
            });
            // All copies take their locks in one order. Otherwise two copies in opposite
            // directions, with a resize waiting between their two locks on each file, would wait
            // for each other.
            let mut asked = vec![(job.source, OpKind::Read)];
            asked.extend(other.map(|target| (target, OpKind::Write)));
            asked.sort_by_key(|(file, _)| file.block_io().lock_order());
            let _locks: Vec<_> =
                asked.into_iter().map(|(file, kind)| file.block_io().lock(kind)).collect();
            self.pump(&mut run, watch)?;
        }
        self.complete = run.complete();
        if let Some(error) = run.error {
            return Err(error);
        }
        if let (Some((offset, bytes)), Some(target)) = (run.tail, job.target) {
            self.complete = offset;
            target.write_at(&bytes, offset).map_err(TransferError::Target)?;
            watch.written(bytes.len() as u64);
            self.complete = offset + bytes.len() as u64;
        }
        Ok(())
    }

    /// Keeps requests in flight until nothing is left to read or, after an error, everything is
    /// drained.
    fn pump(
        &mut self,
        run: &mut TransferState<'_>,
        watch: &mut dyn Watch,
    ) -> Result<(), TransferError> {
        let mut finished = Vec::new();
        loop {
            let pause = self.read_ahead(run, watch);
            if self.driver.outstanding() == 0 {
                let Some(pause) = pause else { return Ok(()) };
                std::thread::sleep(pause.min(PAUSE_MAX));
                continue;
            }
            self.driver.wait(1, &mut finished).map_err(TransferError::Engine)?;
            for finished in finished.drain(..) {
                match finished.request.kind {
                    OpKind::Read => self.block_read(run, finished, watch),
                    _ => run.block_written(finished, watch),
                }
            }
        }
    }

    /// Starts reads while blocks are free. Returns how long the pace forbids the next one.
    fn read_ahead(
        &mut self,
        run: &mut TransferState<'_>,
        watch: &mut dyn Watch,
    ) -> Option<Duration> {
        while run.error.is_none() {
            if watch.stopped() {
                run.error = Some(TransferError::Stopped);
                break;
            }
            let next = run.block_ranges.peek()?;
            if let Some(pause) = run.job.pace.and_then(Pace::pause) {
                return Some(pause);
            }
            if run.reads >= run.reads_max {
                break;
            }
            let block = self.pool.try_take()?;
            run.reads += 1;
            run.block_ranges.next();
            run.unwritten.insert(next.start);
            if let Some(pace) = run.job.pace {
                pace.spend(next.end - next.start);
            }
            let len = run.job.source.block_io().round_up(next.end - next.start);
            let mem = block.into_mem(0..len as usize);
            // The tag holds the number of bytes wanted: the last block of a file is read rounded
            // up.
            self.driver.submit(run.job.source.block_io().request(
                OpKind::Read,
                next.start,
                mem,
                next.end - next.start,
            ));
        }
        None
    }

    /// Shows a block that was read to the watcher, and writes it.
    fn block_read(
        &mut self,
        run: &mut TransferState<'_>,
        finished: Finished,
        watch: &mut dyn Watch,
    ) {
        let (offset, expected) = (finished.request.offset, finished.request.tag);
        run.reads -= 1;
        let (finished, outcome) = run.job.source.block_io().finish(finished);
        let count = match outcome {
            Ok(count) => (count as u64).min(expected),
            Err(error) => return run.fail(TransferError::Source(error)),
        };
        if count < expected {
            let path = run.job.source.path().to_owned();
            return run.fail(TransferError::Shrunk {
                path,
                expected: offset + expected,
                found: offset + count,
            });
        }
        let block = finished.request.mem.and_then(|mem| mem.into_block(count as usize));
        let block = block.expect("a read returns its block");
        watch.read(offset, block.filled());
        if run.job.target.is_none() {
            run.unwritten.remove(&offset);
        } else if run.error.is_none() {
            self.write(run, offset, block, watch);
        }
    }

    fn write(
        &mut self,
        run: &mut TransferState<'_>,
        offset: u64,
        block: Block,
        watch: &mut dyn Watch,
    ) {
        let Some(target) = run.job.target else { return };
        let count = block.filled().len();
        if run.job.skip_zeros {
            match &non_zero(block.filled(), HOLE_UNIT_BYTES)[..] {
                [all] if *all == (0..count) => {}
                runs => return run.write_runs(target, offset, &block, runs, watch),
            }
        }
        let whole_len = align_down(count as u64, target.block_align()) as usize;
        if whole_len < count {
            run.tail = Some((offset + whole_len as u64, block.filled()[whole_len..].to_vec()));
        }
        if whole_len > 0 {
            self.driver.submit(target.block_io().request(
                OpKind::Write,
                offset,
                block.into_mem(0..whole_len),
                0,
            ));
        } else {
            run.unwritten.remove(&offset);
        }
    }
}

impl TransferState<'_> {
    fn block_written(&mut self, finished: Finished, watch: &mut dyn Watch) {
        let Some(target) = self.job.target else { return };
        let (offset, len) = (finished.request.offset, finished.request.len() as u64);
        match target.block_io().finish(finished).1 {
            Ok(_) => {
                self.unwritten.remove(&offset);
                watch.written(len);
            }
            Err(error) => self.fail(TransferError::Target(error)),
        }
    }

    /// Writes the parts of a block that are not zero, at once: few blocks hold both data and holes.
    fn write_runs(
        &mut self,
        target: &File,
        offset: u64,
        block: &Block,
        runs: &[Range<usize>],
        watch: &mut dyn Watch,
    ) {
        for part in runs {
            match target.write_unlocked(&block.filled()[part.clone()], offset + part.start as u64) {
                Ok(()) => watch.written(part.len() as u64),
                Err(error) => return self.fail(TransferError::Target(error)),
            }
        }
        self.unwritten.remove(&offset);
    }

    /// The offset before which nothing is missing. The tail is written after all blocks.
    fn complete(&mut self) -> u64 {
        let end = self.job.ranges.last().map_or(0, |last| last.end);
        let next = self.block_ranges.peek().map_or(end, |chunk| chunk.start);
        let tail = self.tail.as_ref().map_or(next, |(offset, _)| *offset);
        self.unwritten.first().map_or(next, |first| (*first).min(next)).min(tail)
    }

    fn fail(&mut self, error: TransferError) {
        self.error.get_or_insert(error);
    }
}

/// The ranges of a file that hold data, by `SEEK_DATA` and `SEEK_HOLE` (`lseek(2)`). Everything
/// else is a hole. Where the file system does not support them, the whole file. Of a striped file,
/// a row of stripes counts as data if any of its stripes holds data.
///
/// # Errors
/// What `lseek(2)` answers.
pub fn data_ranges(file: &File, size: u64) -> Result<Vec<Range<u64>>, FileError> {
    let Some(layout) = file.layout() else { return data_of(file, size) };
    let mut rows = Vec::new();
    for (index, object) in file.objects().iter().enumerate() {
        let data = data_of(object, layout.object_size(index, size))?.into_iter();
        let behind_header = data.map(|range| range.start.max(layout.start())..range.end);
        rows.extend(
            behind_header.filter(|range| !range.is_empty()).map(|range| layout.rows(&range)),
        );
    }
    rows.sort_unstable_by_key(|range| range.start);
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for range in rows {
        let range = range.start..range.end.min(size);
        match ranges.last_mut() {
            Some(last) if last.end >= range.start => last.end = last.end.max(range.end),
            _ if range.is_empty() => {}
            _ => ranges.push(range),
        }
    }
    Ok(ranges)
}

/// The ranges of a file that is not striped that hold data.
fn data_of(file: &File, size: u64) -> Result<Vec<Range<u64>>, FileError> {
    use rustix::fs::{SeekFrom, seek};
    let Some(fd) = file.descriptor() else {
        return Ok(std::iter::once(0..size).filter(|all| !all.is_empty()).collect());
    };
    let mut ranges = Vec::new();
    let mut at = 0;
    while at < size {
        let start = match seek(fd, SeekFrom::Data(at)) {
            Ok(start) => start,
            // ENXIO: there is no data behind `at`.
            Err(Errno::NXIO) => break,
            Err(Errno::INVAL) if at == 0 => return Ok(std::iter::once(0..size).collect()),
            Err(errno) => return Err(FileError::new("find the data of", file.path(), errno).at(at)),
        };
        let end = match seek(fd, SeekFrom::Hole(start)) {
            Ok(end) => end.min(size),
            Err(Errno::NXIO) => break,
            Err(errno) => {
                return Err(FileError::new("find the holes of", file.path(), errno).at(start));
            }
        };
        if start >= size || end <= at {
            break;
        }
        ranges.push(start..end);
        at = end;
    }
    Ok(ranges)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Limits, OpenOptions};

    /// Stops the transfer when everything but the tail has been written.
    struct StopBeforeTheTail(u64);

    impl Watch for StopBeforeTheTail {
        fn read(&mut self, _offset: u64, bytes: &[u8]) {
            self.0 -= bytes.len() as u64;
        }

        fn stopped(&self) -> bool {
            self.0 == 0
        }
    }

    #[test]
    fn a_block_larger_than_the_buffers_is_an_error() {
        let geometry = crate::geometry::Geometry::fixed(512, 8192).unwrap();
        let medium = std::sync::Arc::new(crate::engine::NullMedium { size: 1 << 20 });
        let source = OpenOptions::new().read(true).open_medium("file", medium, geometry).unwrap();
        let ranges = [0..8192, 8192..16384];
        let job = CopierJob {
            source: &source,
            target: None,
            ranges: &ranges,
            pace: None,
            skip_zeros: false,
        };
        let mut copier = Copier::new(&Io::new(Limits::default()).unwrap(), 4096, 2).unwrap();
        assert!(matches!(copier.run(&job, &mut NoWatch), Err(TransferError::Engine(_))));
    }

    #[test]
    fn a_tail_that_was_not_written_is_not_complete() {
        let scratch = tempfile::tempdir_in("/var/tmp").unwrap();
        let (from, to) = (scratch.path().join("from"), scratch.path().join("to"));
        let size = (200 << 10) + 100;
        std::fs::write(&from, vec![7; size]).unwrap();
        let source = OpenOptions::new().read(true).open(&from).unwrap();
        let target = OpenOptions::new().write(true).create(true).open(&to).unwrap();
        target.allocate(0..size as u64, true).unwrap();
        let ranges: Vec<_> = std::iter::once(0..size as u64).collect();
        let job = CopierJob {
            source: &source,
            target: Some(&target),
            ranges: &ranges,
            pace: None,
            skip_zeros: false,
        };
        let mut copier = Copier::new(&Io::new(Limits::default()).unwrap(), 64 << 10, 2).unwrap();
        let error = copier.run(&job, &mut StopBeforeTheTail(size as u64)).unwrap_err();
        assert!(matches!(error, TransferError::Stopped), "{error}");
        let written = std::fs::read(&to).unwrap().iter().take_while(|byte| **byte == 7).count();
        assert!(
            copier.complete() <= written as u64,
            "{} complete, {written} written",
            copier.complete()
        );
        assert!(copier.complete() > 0);
    }
}

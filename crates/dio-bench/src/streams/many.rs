//! Many sequential streams in one file, read in turns.

use std::fs::File;
use std::hint::black_box;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use dio::stream::{ReadAhead, Reader};
use dio::{Mode, OpenOptions};

use super::plan::{StreamWorkload, StreamsPlan};
use super::report::Workload;
use super::run::{LibraryCounts, Runner, StreamRun, in_turns};
use crate::BenchError;
use crate::cold::make_cold;
use crate::measure::RunMeter;
use dio_common::units;

/// The limit of the disk is measured with one sequential stream and 8 requests of 1 MiB in flight.
const LIMIT: ReadAhead = ReadAhead { min: 1 << 20, max: 8 << 20, request: 1 << 20, lent: 0 };

/// Requests into which the memory of one stream is divided: the consumer holds one while the others
/// are in flight.
const REQUESTS: usize = 4;

/// The streams that share a file, each with a part of its own; all parts have the same size.
struct Streams<'a> {
    path: &'a Path,
    count: usize,
    /// Bytes of each part, a multiple of `piece`.
    part: u64,
    piece: u64,
    memory: usize,
}

/// Measures the streams of the file, the disk's limit on the same bytes, the page cache with the
/// same reads, and one stream of the library that makes the reads of all.
pub(super) fn read(plan: &StreamsPlan, source: &Path, size: u64) -> Result<Workload, BenchError> {
    let part = size / plan.streams as u64;
    let streams = Streams {
        path: source,
        count: plan.streams,
        part: part - part % plan.piece,
        piece: plan.piece,
        memory: plan.stream_memory,
    };
    let cold = || make_cold(source, plan.cold);
    let mut ways: [Runner<'_>; 4] = [
        ("streams", Box::new(|| cold().and_then(|()| streams.direct()))),
        ("limit", Box::new(|| cold().and_then(|()| streams.limit()))),
        ("page cache", Box::new(|| cold().and_then(|()| streams.cached()))),
        ("one stream", Box::new(|| cold().and_then(|()| streams.one()))),
    ];
    let runs = in_turns(plan, &mut ways)?;
    let name = format!("{} streams in turns of {}", plan.streams, units::size(plan.piece));
    Ok(Workload::new(name, StreamWorkload::Many, (plan.piece, streams.bytes()), runs))
}

impl Streams<'_> {
    fn bytes(&self) -> u64 {
        self.part * self.count as u64
    }

    /// The library's streams over one open file.
    fn direct(&self) -> Result<StreamRun, BenchError> {
        let failed = |error| BenchError::system("read", self.path)(error);
        let limits = self.limits(self.memory);
        let meter = RunMeter::start();
        let file = Arc::new(OpenOptions::new().read(true).mode(Mode::Direct).open(self.path)?);
        let open = || Reader::with_read_ahead(Arc::clone(&file), limits);
        let mut readers =
            (0..self.count).map(|_| open()).collect::<Result<Vec<_>, _>>().map_err(failed)?;
        self.in_turns(&mut readers)?;
        self.ended(meter, file, readers)
    }

    /// One stream of the library that seeks from part to part, with the memory of all streams.
    fn one(&self) -> Result<StreamRun, BenchError> {
        let failed = |error| BenchError::system("read", self.path)(error);
        let meter = RunMeter::start();
        let file = Arc::new(OpenOptions::new().read(true).mode(Mode::Direct).open(self.path)?);
        let limits = self.limits(self.memory * self.count);
        let mut reader = Reader::with_read_ahead(Arc::clone(&file), limits).map_err(failed)?;
        let mut piece = vec![0; self.piece as usize];
        for turn in 0..self.part / self.piece {
            for index in 0..self.count as u64 {
                let offset = index * self.part + turn * self.piece;
                reader
                    .seek(SeekFrom::Start(offset))
                    .and_then(|_| reader.read_exact(&mut piece))
                    .map_err(failed)?;
                black_box(&piece[..]);
            }
        }
        self.ended(meter, file, vec![reader])
    }

    /// Limits with which a stream uses `memory` bytes and no more. Requests are so large that all
    /// but one of the stream's own share can be ahead of the consumer. Since `min` equals the
    /// request size, there are no blocks of another size.
    fn limits(&self, memory: usize) -> ReadAhead {
        let request = (self.memory / REQUESTS).max(1);
        ReadAhead { min: request, max: memory - request, request, lent: 0 }
    }

    /// Ends a run: closes the streams and their file, and stops the meter.
    fn ended(
        &self,
        meter: RunMeter,
        file: Arc<dio::File>,
        readers: Vec<Reader>,
    ) -> Result<StreamRun, BenchError> {
        let buffers = readers.iter().map(Reader::buffer_bytes).sum();
        let stats: Vec<_> = readers.iter().map(Reader::stats).collect();
        drop(readers);
        let counted = LibraryCounts::of(&file, stats);
        drop(file);
        let usage = meter.stop();
        Ok(StreamRun::read(usage, self.bytes(), self.path, Some(counted))?.with_buffers(buffers))
    }

    /// Reads through the page cache with a descriptor for each stream, so that the kernel reads
    /// ahead for each stream separately.
    fn cached(&self) -> Result<StreamRun, BenchError> {
        let meter = RunMeter::start();
        let open = || File::open(self.path).map_err(BenchError::system("open", self.path));
        let mut files = (0..self.count).map(|_| open()).collect::<Result<Vec<_>, _>>()?;
        self.in_turns(&mut files)?;
        drop(files);
        let usage = meter.stop();
        StreamRun::read(usage, self.bytes(), self.path, None)
    }

    /// Reads the same bytes from front to back without copying them.
    fn limit(&self) -> Result<StreamRun, BenchError> {
        let failed = |error| BenchError::system("read", self.path)(error);
        let meter = RunMeter::start();
        let file = Arc::new(OpenOptions::new().read(true).mode(Mode::Direct).open(self.path)?);
        let mut reader = Reader::with_read_ahead(Arc::clone(&file), LIMIT).map_err(failed)?;
        let mut left = self.bytes();
        while left > 0 {
            let chunk = reader.next_chunk().map_err(failed)?;
            let chunk = chunk.ok_or_else(|| failed(std::io::ErrorKind::UnexpectedEof.into()))?;
            left = left.saturating_sub(black_box(&chunk[..]).len() as u64);
        }
        self.ended(meter, file, vec![reader])
    }

    /// Positions each stream at its part, and reads all streams to the ends of their parts, one
    /// piece of each in turn.
    fn in_turns<S: Read + Seek>(&self, streams: &mut [S]) -> Result<(), BenchError> {
        let failed = |error| BenchError::system("read", self.path)(error);
        for (index, stream) in streams.iter_mut().enumerate() {
            stream.seek(SeekFrom::Start(index as u64 * self.part)).map_err(failed)?;
        }
        let mut piece = vec![0; self.piece as usize];
        for _ in 0..self.part / self.piece {
            for stream in &mut *streams {
                stream.read_exact(&mut piece).map_err(failed)?;
                black_box(&piece[..]);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    #[test]
    fn streams_read_their_own_parts() {
        let streams = Streams { path: Path::new("x"), count: 3, part: 40, piece: 10, memory: 1 };
        let data: Vec<u8> = (0..130).collect();
        let mut cursors = [0; 3].map(|_| Cursor::new(&data));
        streams.in_turns(&mut cursors).unwrap();
        assert_eq!(cursors.map(|cursor| cursor.position()), [40, 80, 120]);
        assert_eq!(streams.bytes(), 120);
        let mut short = [0; 3].map(|_| Cursor::new(&data[..119]));
        assert!(streams.in_turns(&mut short).is_err());
    }
}

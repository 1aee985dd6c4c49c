//! Measures reading and writing a file from front to back in steps.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::Path;
use std::sync::Arc;

use dio::stream::{Reader, Writer};
use dio::{Mode, OpenOptions};

use super::plan::{StreamWorkload, StreamsPlan};
use super::report::Workload;
use super::run::{LibraryCounts, Runner, StreamRun, in_turns};
use crate::BenchError;
use crate::cold::{make_absent, make_cold, resident_pages};
use crate::data::Random;
use crate::increments::read_all;
use crate::measure::RunMeter;
use dio_common::units;

/// With steps below this size, a careful program buffers its system calls. The stream is compared
/// with both kinds of programs; the unbuffered one moves fewer bytes.
const SMALL_STEP: u64 = 4096;

/// Bytes of the buffer of such a program: the standard library's default.
const USUAL_BUFFER: usize = 8192;

/// Bytes of the pattern that is written repeatedly.
const PATTERN: u64 = 1 << 20;

/// How a program calls the page cache.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Calls {
    /// A system call for each step.
    Each,
    /// Through the standard library's buffer.
    Buffered,
}

/// The comparisons to make: the step, the kind of calls, and the number of bytes.
fn comparisons(plan: &StreamsPlan, size: u64) -> Vec<(u64, Calls, u64)> {
    let of = |step: &u64| match *step {
        step if step < SMALL_STEP => {
            vec![(step, Calls::Each, plan.small_size.min(size)), (step, Calls::Buffered, size)]
        }
        step => vec![(step, Calls::Each, size)],
    };
    plan.steps.iter().flat_map(of).collect()
}

fn name(verb: &str, step: u64, calls: Calls) -> String {
    let note = if calls == Calls::Buffered { ", buffered" } else { "" };
    format!("{verb} in steps of {}{note}", units::size(step))
}

/// Reads `size` bytes of `source` with every step size.
pub(super) fn read(
    plan: &StreamsPlan,
    source: &Path,
    size: u64,
    found: &mut Vec<Workload>,
) -> Result<(), BenchError> {
    for (step, calls, bytes) in comparisons(plan, size) {
        let cold = || make_cold(source, plan.cold);
        let stream: Runner<'_> =
            ("stream", Box::new(|| cold().and_then(|()| read_stream(source, step, bytes))));
        let cached: Runner<'_> = match calls {
            Calls::Each => (
                "read(2)",
                Box::new(|| cold().and_then(|()| read_cached(source, step, bytes, |file| file))),
            ),
            Calls::Buffered => {
                let buffer = |file| BufReader::with_capacity(USUAL_BUFFER, file);
                (
                    "BufReader",
                    Box::new(move || {
                        cold().and_then(|()| read_cached(source, step, bytes, buffer))
                    }),
                )
            }
        };
        let runs = in_turns(plan, &mut [stream, cached])?;
        found.push(Workload::new(
            name("read", step, calls),
            StreamWorkload::Read,
            (step, bytes),
            runs,
        ));
    }
    Ok(())
}

fn buffer(step: u64, bytes: u64) -> Vec<u8> {
    vec![0; usize::try_from(step.min(bytes)).unwrap_or(usize::MAX)]
}

/// The time includes opening and closing, here and in the other ways.
fn read_stream(path: &Path, step: u64, bytes: u64) -> Result<StreamRun, BenchError> {
    let mut buffer = buffer(step, bytes);
    let meter = RunMeter::start();
    let file = Arc::new(OpenOptions::new().read(true).mode(Mode::Direct).open(path)?);
    let mut reader = Reader::new(Arc::clone(&file)).map_err(BenchError::system("read", path))?;
    read_all(&mut reader, path, &mut buffer, bytes)?;
    let (buffers, stats) = (reader.buffer_bytes(), reader.stats());
    drop(reader);
    let counted = LibraryCounts::of(&file, [stats]);
    drop(file);
    let usage = meter.stop();
    Ok(StreamRun::read(usage, bytes, path, Some(counted))?.with_buffers(buffers))
}

fn read_cached<R: Read>(
    path: &Path,
    step: u64,
    bytes: u64,
    wrap: impl Fn(File) -> R,
) -> Result<StreamRun, BenchError> {
    let mut buffer = buffer(step, bytes);
    let meter = RunMeter::start();
    let mut from = wrap(File::open(path).map_err(BenchError::system("open", path))?);
    read_all(&mut from, path, &mut buffer, bytes)?;
    drop(from);
    let usage = meter.stop();
    StreamRun::read(usage, bytes, path, None)
}

/// Writes `size` bytes to a new file `target` with every step size, and removes it each time.
pub(super) fn write(
    plan: &StreamsPlan,
    target: &Path,
    size: u64,
    found: &mut Vec<Workload>,
) -> Result<(), BenchError> {
    for (step, calls, bytes) in comparisons(plan, size) {
        let source = RepeatedData::new(step, bytes);
        let absent = || make_absent(target, plan.cold);
        let stream: Runner<'_> =
            ("stream", Box::new(|| absent().and_then(|()| write_stream(target, &source))));
        let cached: Runner<'_> = match calls {
            Calls::Each => (
                "write(2)",
                Box::new(|| absent().and_then(|()| write_cached(target, &source, |file| file))),
            ),
            Calls::Buffered => {
                let (source, buffer) =
                    (&source, |file| BufWriter::with_capacity(USUAL_BUFFER, file));
                (
                    "BufWriter",
                    Box::new(move || absent().and_then(|()| write_cached(target, source, buffer))),
                )
            }
        };
        let runs = in_turns(plan, &mut [stream, cached])?;
        found.push(Workload::new(
            name("write", step, calls),
            StreamWorkload::Write,
            (step, bytes),
            runs,
        ));
    }
    make_absent(target, plan.cold)
}

/// The data to write: the same random bytes repeated, in steps.
struct RepeatedData {
    pattern: Vec<u8>,
    step: usize,
    bytes: u64,
}

impl RepeatedData {
    fn new(step: u64, bytes: u64) -> RepeatedData {
        let step = usize::try_from(step.min(bytes)).unwrap_or(usize::MAX);
        // The pattern consists of whole steps, so that no step is cut.
        let mut pattern = vec![0; step * (PATTERN as usize / step).max(1)];
        Random::new(bytes).fill(&mut pattern);
        RepeatedData { pattern, step, bytes }
    }

    fn write_all(&self, to: &mut impl Write, path: &Path) -> Result<(), BenchError> {
        let mut left = self.bytes;
        while left > 0 {
            for piece in self.pattern.chunks(self.step) {
                let count = piece.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                to.write_all(&piece[..count]).map_err(BenchError::system("write", path))?;
                left -= count as u64;
                if left == 0 {
                    break;
                }
            }
        }
        Ok(())
    }
}

fn write_stream(path: &Path, source: &RepeatedData) -> Result<StreamRun, BenchError> {
    let failed = |error| BenchError::system("write", path)(error);
    let meter = RunMeter::start();
    let file =
        Arc::new(OpenOptions::new().write(true).create_new(true).mode(Mode::Direct).open(path)?);
    let mut writer = Writer::new(Arc::clone(&file)).map_err(failed)?;
    source.write_all(&mut writer, path)?;
    writer.finish().map_err(failed)?;
    file.sync_data()?;
    let buffers = writer.buffer_bytes();
    drop((writer, file));
    Ok(written(meter, path, source.bytes)?.with_buffers(buffers))
}

fn write_cached<W: AsFile>(
    path: &Path,
    source: &RepeatedData,
    wrap: impl Fn(File) -> W,
) -> Result<StreamRun, BenchError> {
    let failed = |error| BenchError::system("write", path)(error);
    let meter = RunMeter::start();
    let file = File::create_new(path).map_err(BenchError::system("open", path))?;
    let mut to = wrap(file);
    source.write_all(&mut to, path)?;
    to.flush().map_err(failed)?;
    to.as_file().sync_data().map_err(BenchError::system("sync", path))?;
    drop(to);
    written(meter, path, source.bytes)
}

/// A writer on top of a file that can be synced.
trait AsFile: Write {
    fn as_file(&self) -> &File;
}

impl AsFile for File {
    fn as_file(&self) -> &File {
        self
    }
}

impl AsFile for BufWriter<File> {
    fn as_file(&self) -> &File {
        self.get_ref()
    }
}

/// Ends a run whose file is closed now, and checks that the file has all bytes.
fn written(meter: RunMeter, path: &Path, bytes: u64) -> Result<StreamRun, BenchError> {
    let usage = meter.stop();
    let length = std::fs::metadata(path).map_err(BenchError::system("open", path))?.len();
    if length != bytes {
        return Err(BenchError::Asked(format!(
            "'{}' has {length} bytes instead of {bytes}",
            path.display()
        )));
    }
    Ok(StreamRun {
        usage,
        in_vain_bytes: None,
        buffer_bytes: None,
        pages_after: resident_pages(path)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Scratch;

    #[test]
    fn every_way_writes_the_same_bytes() {
        let scratch = Scratch::new(&std::env::temp_dir()).unwrap();
        // The size exceeds the pattern, and is no multiple of the step.
        let source = RepeatedData::new(1000, PATTERN + 12_345);
        let mut expected = Vec::new();
        source.write_all(&mut expected, Path::new("x")).unwrap();
        assert_eq!(expected.len() as u64, PATTERN + 12_345);
        assert!(expected[..1000] == expected[source.pattern.len()..source.pattern.len() + 1000]);
        let path = |name| scratch.path(name);
        write_stream(&path("stream"), &source).unwrap();
        write_cached(&path("calls"), &source, |file| file).unwrap();
        write_cached(&path("buffered"), &source, BufWriter::new).unwrap();
        for name in ["stream", "calls", "buffered"] {
            assert!(std::fs::read(path(name)).unwrap() == expected, "{name} differs");
        }
    }

    #[test]
    fn a_file_that_misses_bytes_is_an_error() {
        let scratch = Scratch::new(&std::env::temp_dir()).unwrap();
        std::fs::write(scratch.path("target"), [7; 99]).unwrap();
        assert!(written(RunMeter::start(), &scratch.path("target"), 99).is_ok());
        assert!(written(RunMeter::start(), &scratch.path("target"), 100).is_err());
    }
}

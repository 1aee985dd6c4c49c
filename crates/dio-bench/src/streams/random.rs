//! Measures random reads through a stream, whose read-ahead must detect that reading ahead is
//! useless.

use std::hint::black_box;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use dio::block::Pool;
use dio::stream::Reader;
use dio::{File, Mode, OpenOptions};

use super::plan::{RANDOM_BYTES, StreamWorkload, StreamsPlan};
use super::report::Workload;
use super::run::{LibraryCounts, StreamRun};
use crate::BenchError;
use crate::cold::make_cold;
use crate::data::Random;
use crate::measure::{RunMeter, Usage};
use dio_common::units;

/// Reads of one way before the turn of the other. The ways differ by a few per cent, while a disk's
/// speed changes by more from one second to the next, so turns have to be short. But they are long
/// enough that the reads which a stream still has in flight at the end of its turn do not matter.
const TURN: u64 = 1000;

/// Reads whole blocks at random offsets in the first `size` bytes: through the stream, and one by
/// one without read-ahead.
pub(super) fn read(plan: &StreamsPlan, source: &Path, size: u64) -> Result<Workload, BenchError> {
    let (mut stream, mut alone) = (Vec::new(), Vec::new());
    for run in 0..plan.runs {
        make_cold(source, plan.cold)?;
        let (ours, theirs) =
            alternate(source, size / RANDOM_BYTES, plan.reads, (plan.round + run) as u64)?;
        stream.push(ours);
        alone.push(theirs);
    }
    let name = format!("random reads of {}", units::size(RANDOM_BYTES));
    let runs = vec![("stream", stream), ("read_at", alone)];
    Ok(Workload::new(name, StreamWorkload::Random, (RANDOM_BYTES, plan.reads * RANDOM_BYTES), runs))
}

/// One run of both ways: turns A B, B A, A B, … until each has made its reads. Only the reads are
/// timed. Each way has its own random offsets, so that neither finds data in the device's cache
/// that the other has fetched.
fn alternate(
    path: &Path,
    blocks: u64,
    reads: u64,
    round: u64,
) -> Result<(StreamRun, StreamRun), BenchError> {
    let failed = |error| BenchError::system("read", path)(error);
    let open = || OpenOptions::new().read(true).mode(Mode::Direct).open(path).map(Arc::new);
    let (through, alone): (Arc<File>, Arc<File>) = (open()?, open()?);
    let mut reader = Reader::new(Arc::clone(&through)).map_err(failed)?;
    // Both use the same aligned memory, so that they differ in the stream only.
    let pool =
        Pool::new(RANDOM_BYTES as usize, 1).map_err(BenchError::system("map memory for", path))?;
    let mut memory = pool.try_take().expect("nobody else takes from this pool");
    let mut places = [2 * round, 2 * round + 1].map(Random::new);
    let mut usages = [Usage { device_bytes: Some(0), ..Usage::default() }; 2];
    let (mut done, mut turn) = (0, 0);
    while done < reads {
        let count = TURN.min(reads - done);
        for way in [turn % 2, 1 - turn % 2] {
            let random = &mut places[way];
            let meter = RunMeter::start();
            for _ in 0..count {
                let offset = random.below(blocks) * RANDOM_BYTES;
                if way == 0 {
                    reader
                        .seek(SeekFrom::Start(offset))
                        .and_then(|_| reader.read_exact(memory.bytes_mut()))
                        .map_err(failed)?;
                } else {
                    alone.read_exact_at(memory.bytes_mut(), offset)?;
                }
                black_box(memory.bytes_mut());
            }
            add(&mut usages[way], meter.stop());
        }
        done += count;
        turn += 1;
    }
    let (buffers, stats) = (reader.buffer_bytes(), reader.stats());
    drop(reader);
    let [ours, theirs] = [LibraryCounts::of(&through, [stats]), LibraryCounts::of(&alone, [])];
    let ours =
        StreamRun::read(usages[0], reads * RANDOM_BYTES, path, Some(ours))?.with_buffers(buffers);
    Ok((ours, StreamRun::read(usages[1], reads * RANDOM_BYTES, path, Some(theirs))?))
}

fn add(sum: &mut Usage, more: Usage) {
    sum.wall_seconds += more.wall_seconds;
    sum.cpu_seconds += more.cpu_seconds;
    sum.device_bytes = sum.device_bytes.zip(more.device_bytes).map(|(sum, more)| sum + more);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Scratch;

    #[test]
    fn each_way_makes_all_of_its_reads() {
        let scratch = Scratch::new(&std::env::temp_dir()).unwrap();
        let path = scratch.random_file("data", 64 * RANDOM_BYTES).unwrap();
        let reads = TURN + 7;
        // Every read went to the file, and without read-ahead none read more than was requested.
        // The counter is that of the process, and other tests read at the same time; their reads
        // can only add to it, so one good run of several is enough.
        let mut runs = (0..8).map(|_| alternate(&path, 64, reads, 0).unwrap());
        let good = |(_, alone): &(StreamRun, StreamRun)| {
            alone.in_vain_bytes.unwrap() < reads * RANDOM_BYTES / 10
        };
        let (through, alone) =
            runs.find(good).expect("a run that brought no more than was asked for");
        assert!(through.usage.wall_seconds > 0.0 && alone.usage.wall_seconds > 0.0);
        assert!(through.buffer_bytes.unwrap() > 0 && alone.buffer_bytes.is_none());
    }

    #[test]
    fn a_sum_knows_the_device_only_if_all_parts_do() {
        let part = |device_bytes| Usage { wall_seconds: 1.0, cpu_seconds: 2.0, device_bytes };
        let mut sum = part(Some(1));
        add(&mut sum, part(Some(2)));
        assert_eq!((sum.wall_seconds, sum.cpu_seconds, sum.device_bytes), (2.0, 4.0, Some(3)));
        add(&mut sum, part(None));
        assert_eq!(sum.device_bytes, None);
    }
}

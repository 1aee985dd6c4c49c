//! Streams of files against plain memory: every mix of reads, seeks and chunks, on disks that fail.

mod common;

use std::io::{BufRead, Read, Seek, SeekFrom};
use std::sync::Arc;

use common::{Arena, fill, first_difference, sim_geometry};
use dio::engine::OpKind;
use dio::engine::sim::{
    Fault, Faults, SimAction, SimClock, SimDisk, SimDiskModel, SimEngine, SimMedium,
};
use dio::stream::{AccessPattern, Chunk, ReadAhead, Reader};
use dio::{Io, Limits, OpenOptions};
use dio_test::{Rng, Seed};
use rustix::io::Errno;

/// A file, a reader of it, and its expected contents.
struct World {
    /// The file, if it is simulated.
    medium: Option<SimMedium>,
    reader: Reader,
    model: Vec<u8>,
}

impl World {
    fn disk(&self) -> &SimDisk {
        self.medium.as_ref().expect("the file is simulated").disk()
    }
}

fn world(seed: u64, align: usize, len: usize, limits: ReadAhead) -> World {
    let clock = SimClock::new();
    let model = SimDiskModel {
        mem_align: align,
        offset_align: align,
        channels: 4,
        reorder: true,
        scribble: true,
        ..SimDiskModel::default()
    };
    let disk = SimDisk::new(&clock, model, seed);
    let mut model = vec![0; len];
    fill(&mut model, 7, 0);
    let medium = disk.file(&model);
    let io = Io::with_engine(Limits::default(), "sim", move |depth| {
        Box::new(SimEngine::new(&clock, depth, seed))
    });
    let mut options = OpenOptions::new();
    options.read(true).write(true).io(&io.unwrap());
    let file =
        options.open_medium("disk/file", Arc::new(medium.clone()), sim_geometry(align)).unwrap();
    let reader = Reader::with_read_ahead(file, limits).unwrap();
    World { medium: Some(medium), reader, model }
}

fn any_limits(rng: &mut Rng) -> ReadAhead {
    let request = *rng.pick(&[4096, 16 << 10, 64 << 10]);
    let min = *rng.pick(&[512, 4096, 16 << 10]);
    ReadAhead { min, max: request * rng.range_usize(1..9), request, lent: rng.range_usize(0..3) }
}

impl World {
    /// Expected bytes at a position.
    fn expected(&self, at: u64, len: usize) -> &[u8] {
        let start = (at as usize).min(self.model.len());
        &self.model[start..(start + len).min(self.model.len())]
    }

    /// Runs one random step. Chunks that are kept are added and dropped. If an error is returned,
    /// the position must not have moved.
    fn step(
        &mut self,
        rng: &mut Rng,
        kept: &mut Vec<(u64, Chunk)>,
        lent: usize,
    ) -> std::io::Result<()> {
        let at = self.reader.position();
        match rng.range(0..10) {
            0 => {
                let to = match rng.range(0..3) {
                    0 => SeekFrom::Start(rng.range(0..self.model.len() as u64 + 5000)),
                    1 => SeekFrom::Current(rng.range(0..40_000) as i64 - (at.min(20_000)) as i64),
                    _ => SeekFrom::End(-(rng.range(0..self.model.len() as u64 + 1) as i64)),
                };
                self.reader.seek(to)?;
            }
            1 => {
                let available = self.reader.fill_buf()?.to_vec();
                let end = available.is_empty();
                assert_eq!(end, self.expected(at, 1).is_empty(), "end of file at {at}");
                assert!(available == self.expected(at, available.len()), "fill_buf at {at}");
                self.reader.consume(rng.range_usize(0..available.len() + 1));
            }
            2 => {
                let chunk = self.reader.next_chunk()?;
                assert_eq!(chunk.is_none(), self.expected(at, 1).is_empty(), "end of file at {at}");
                if let Some(chunk) = chunk {
                    assert!(*chunk == *self.expected(at, chunk.len()), "chunk at {at}");
                    assert_eq!(self.reader.position(), at + chunk.len() as u64);
                    kept.push((at, chunk));
                }
                while kept.len() > lent {
                    let (at, chunk) = kept.remove(rng.range_usize(0..kept.len()));
                    assert!(
                        *chunk == *self.expected(at, chunk.len()),
                        "a kept chunk of {at} has changed"
                    );
                }
            }
            3 if rng.bool(0.1) => self.reader.forget(),
            // Backward, and with a stride.
            4 => drop(self.reader.seek(SeekFrom::Start(at.saturating_sub(8192)))?),
            5 => drop(self.reader.seek(SeekFrom::Start(at + 24 * 1024))?),
            _ => {
                let len = *rng.pick(&[1, 100, 4096, 4096, 10_000, 70_000, 400_000]);
                // Aligned memory can be read into directly.
                let mut arena = Arena::new(len);
                let buffer = arena.slice(*rng.pick(&[0, 0, 512, 3]), len);
                let count = self.reader.read(buffer)?;
                let expected = self.expected(at, len);
                assert!(
                    count <= expected.len() && (count > 0 || expected.is_empty()),
                    "{count} bytes at {at}"
                );
                assert_eq!(
                    first_difference(&buffer[..count], &expected[..count]),
                    None,
                    "read of {len} at {at}"
                );
                assert_eq!(self.reader.position(), at + count as u64);
            }
        }
        Ok(())
    }
}

#[test]
fn any_mix_reads_what_is_there() {
    let seed = Seed::new();
    for round in 0..60 {
        let mut rng = seed.stream(round);
        let limits = any_limits(&mut rng);
        let len = rng.range_usize(0..1 << 20);
        let mut world = world(seed.value() ^ round, *rng.pick(&[512, 4096]), len, limits);
        let mut kept = Vec::new();
        for _ in 0..200 {
            world.step(&mut rng, &mut kept, limits.lent).unwrap();
        }
        drop(kept);
        let stats = world.reader.stats();
        assert!(stats.unused <= stats.read, "{stats:?}");
    }
}

#[test]
fn any_mix_reads_what_is_there_on_every_engine() {
    let seed = Seed::new();
    let mut model = vec![0; 6 * MIB + 77];
    fill(&mut model, 7, 0);
    for fs in dio_test::file_systems() {
        let directory = fs.dir();
        let path = directory.path().join("file");
        std::fs::write(&path, &model).unwrap();
        for (number, engine) in common::engines().into_iter().enumerate() {
            for round in 0..6 {
                let mut rng = seed.stream(round * 2 + number as u64);
                let limits = any_limits(&mut rng);
                let io = common::io_of(engine, Limits::default());
                let mode = *rng.pick(&common::MODES);
                let file = OpenOptions::new().read(true).mode(mode).io(&io).open(&path).unwrap();
                let reader = Reader::with_read_ahead(file, limits).unwrap();
                let mut world = World { medium: None, reader, model: model.clone() };
                let mut kept = Vec::new();
                (0..300).for_each(|_| world.step(&mut rng, &mut kept, limits.lent).unwrap());
            }
        }
    }
}

/// Transient faults must have no effect. Other faults are reported at their offset, and later reads
/// continue.
#[test]
fn trouble_shows_where_it_is_or_not_at_all() {
    let seed = Seed::new();
    let transient = [Fault::ShortAligned, Fault::ShortUnaligned, Fault::Again, Fault::Interrupted];
    for round in 0..60 {
        let mut rng = seed.stream(round);
        let limits = any_limits(&mut rng);
        let mut world = world(seed.value() ^ round, 512, 700_000, limits);
        let hard = round % 2 == 1;
        let mut faults =
            transient.into_iter().fold(Faults::none(), |faults, fault| faults.chance(fault, 80));
        if hard {
            faults = faults.chance(Fault::Io, 100);
        }
        world.disk().set_faults(faults);
        let (mut kept, mut errors) = (Vec::new(), 0);
        for _ in 0..200 {
            if let Err(error) = world.step(&mut rng, &mut kept, limits.lent) {
                assert!(hard, "a transient fault showed: {error}");
                errors += 1;
            }
        }
        // When the disk works again, everything can be read.
        world.disk().set_faults(Faults::none());
        world.reader.seek(SeekFrom::Start(0)).unwrap();
        let mut all = Vec::new();
        world.reader.read_to_end(&mut all).unwrap();
        assert!(all == world.model, "after {errors} errors");
    }
}

/// A range that cannot be read: everything before it is returned, then an error with the offset,
/// repeatedly.
#[test]
fn a_bad_place_is_reported_there() {
    for align in [512u64, 4096] {
        let len = 600_000;
        let bad = align * (300_000 / align)..align * (300_000 / align) + align;
        let clock = SimClock::new();
        let model = SimDiskModel {
            mem_align: 512,
            offset_align: align as usize,
            ..SimDiskModel::default()
        };
        let disk = SimDisk::new(&clock, model, 1);
        let mut contents = vec![0; len];
        fill(&mut contents, 7, 0);
        let hole = bad.clone();
        let medium = common::Hooked::new(disk.file(&contents)).before(move |op| {
            let reads = op.position()..op.position() + op.remaining() as u64;
            let hit = op.kind == OpKind::Read && reads.start < hole.end && hole.start < reads.end;
            hit.then_some(Err(rustix::io::Errno::IO))
        });
        let io = Io::with_engine(Limits::default(), "blocking", |_| {
            Box::new(dio::engine::Blocking::new(4))
        })
        .unwrap();
        let mut options = OpenOptions::new();
        let file = options
            .read(true)
            .io(&io)
            .open_medium("bad", medium.shared(), sim_geometry(align as usize))
            .unwrap();
        let limits = ReadAhead { min: 16 << 10, max: 256 << 10, request: 64 << 10, lent: 0 };
        let mut reader = Reader::with_read_ahead(file, limits).unwrap();
        let mut before = vec![0; bad.start as usize];
        reader.read_exact(&mut before).unwrap();
        assert!(before == contents[..bad.start as usize]);
        for _ in 0..3 {
            let error = reader.read(&mut [0; 100]).unwrap_err();
            assert!(error.to_string().contains(&bad.start.to_string()), "{error}");
            assert_eq!(reader.position(), bad.start);
        }
        reader.seek(SeekFrom::Start(bad.end)).unwrap();
        let mut after = Vec::new();
        reader.read_to_end(&mut after).unwrap();
        assert!(after == contents[bad.end as usize..]);
        // A request that reaches into the range returns the bytes before it.
        reader.forget();
        reader.seek(SeekFrom::Start(bad.start - 10)).unwrap();
        assert_eq!(reader.read(&mut [0; 100]).unwrap(), 10);
        reader.read(&mut [0; 100]).unwrap_err();
    }
}

#[test]
fn a_file_that_is_cut_off_ends_and_one_that_grows_goes_on() {
    let seed = Seed::new();
    for round in 0..40 {
        let mut rng = seed.stream(round);
        let limits = any_limits(&mut rng);
        let mut world = world(seed.value() ^ round, 512, 500_000, limits);
        let mut found = vec![0; rng.range_usize(0..400_000)];
        world.reader.read_exact(&mut found).unwrap();
        let cut = rng.range(found.len() as u64..500_000);
        world.reader.file().set_size(cut).unwrap();
        world.reader.read_to_end(&mut found).unwrap();
        // Bytes that were read before the truncation may still be returned.
        assert!(found.len() as u64 >= cut && found.len() <= 500_000, "{} of {cut}", found.len());
        assert!(found[..cut as usize] == world.model[..cut as usize]);
        let more = vec![9; 30_000];
        let size = world.reader.file().size().unwrap();
        world.reader.file().write_at(&more, size).unwrap();
        world.reader.seek(SeekFrom::Start(size)).unwrap();
        world.reader.forget();
        let mut grown = Vec::new();
        world.reader.read_to_end(&mut grown).unwrap();
        assert!(grown == more, "{} bytes of what was added", grown.len());
        // The same without a seek.
        world.reader.file().write_at(&[8; 700], size + 30_000).unwrap();
        world.reader.read_to_end(&mut grown).unwrap();
        assert!(grown.len() == 30_700 && grown[30_000..] == [8; 700]);
    }
}

const MIB: usize = 1 << 20;

/// Offset and length of all reads of the file so far.
fn requests(world: &World) -> Vec<(u64, u64)> {
    let trace = world.disk().trace();
    let reads =
        trace.entries.iter().filter(|entry| entry.action == SimAction::Transfer(OpKind::Read));
    reads.map(|entry| (entry.offset, entry.len)).collect()
}

#[test]
fn random_reads_ask_for_what_is_wanted() {
    let seed = Seed::new();
    let mut rng = seed.rng();
    let mut world = world(seed.value(), 512, 64 * MIB, ReadAhead::default());
    let mut arena = Arena::new(4096);
    for turn in 0..2000 {
        let buffer = arena.slice(turn % 2, 4096);
        let at = rng.range(0..(64 * MIB as u64 - 4096) / 512) * 512;
        world.reader.seek(SeekFrom::Start(at)).unwrap();
        world.reader.read_exact(buffer).unwrap();
        assert!(buffer == world.expected(at, 4096));
    }
    let stats = world.reader.stats();
    let useful = stats.read - stats.unused - stats.ahead;
    assert!(stats.unused + stats.ahead <= useful / 50 + (64 << 10), "{stats:?}");
    let long = requests(&world).into_iter().filter(|(_, len)| *len > 8192).count();
    assert!(long <= 20, "{long} requests of more than was wanted");
    // The reader does not wait for requests that an earlier stream had in flight.
    world.reader.seek(SeekFrom::Start(0)).unwrap();
    let mut stream = vec![0; 8 * MIB];
    world.reader.read_exact(&mut stream).unwrap();
    assert_eq!(world.reader.pattern(), AccessPattern::Forward);
}

/// Reads 4 KiB at each of these offsets and checks the bytes. Returns the share of the reads that
/// had to wait for data which was not requested before.
fn misses(world: &mut World, places: impl Iterator<Item = u64>) -> f64 {
    let (mut buffer, mut count) = ([0; 4096], 0);
    let before = world.reader.stats().misses;
    for at in places {
        world.reader.seek(SeekFrom::Start(at)).unwrap();
        world.reader.read_exact(&mut buffer).unwrap();
        assert!(buffer == world.expected(at, 4096), "at {at}");
        count += 1;
    }
    (world.reader.stats().misses - before) as f64 / f64::from(count)
}

#[test]
fn backward_strided_and_many_streams_are_read_ahead() {
    let len = 64 * MIB as u64;
    let fresh = |limits| world(3, 512, len as usize, limits);
    let mut backward = fresh(ReadAhead::default());
    let share = misses(&mut backward, (1..=8192).map(|step| len - step * 4096));
    assert!(share < 0.001, "backward: {share}");
    // Where the window becomes larger, a few blocks may be read twice.
    assert!(backward.reader.stats().unused < 16 << 10, "{:?}", backward.reader.stats());
    let mut strided = fresh(ReadAhead::default());
    let share = misses(&mut strided, (0..1000).map(|step| step * (64 << 10)));
    assert!(share < 0.01, "strided: {share}");
    let stats = strided.reader.stats();
    assert!(stats.read < 1000 * 4096 + (1 << 20), "{stats:?}");
    let mut many = fresh(ReadAhead::default());
    let hops =
        (0..256).flat_map(|round| (0..64).map(move |stream| stream * (len / 64) + round * 4096));
    let share = misses(&mut many, hops);
    assert!(share < 0.06, "64 streams: {share}");
    let stats = many.reader.stats();
    assert!(stats.unused < len / 50, "{stats:?}");
}

#[test]
fn memory_is_what_was_promised_and_nothing_before_it_is_needed() {
    let limits = ReadAhead { min: 16 << 10, max: 256 << 10, request: 64 << 10, lent: 1 };
    let world = world(1, 512, MIB, limits);
    // 32 small blocks and 4 large ones; of each size one more for the consumer and one lent; and
    // one spare small block.
    assert_eq!(world.reader.buffer_bytes(), (32 + 2 + 1) * (16 << 10) + (4 + 1 + 1) * (64 << 10));
    assert_eq!(requests(&world).len(), 0);
}

#[test]
fn limits_without_sense_are_survived() {
    for number in [0, 1, 4097, usize::MAX] {
        let limits = ReadAhead { min: number, max: number, request: number.min(1 << 20), lent: 0 };
        let mut world = world(1, 512, 700_000, limits);
        assert!(world.reader.buffer_bytes() > 0);
        let mut all = Vec::new();
        // Memory for all of it may not be available.
        if world.reader.read_to_end(&mut all).is_ok() {
            assert!(all == world.model, "{number}");
        } else {
            assert_eq!(number, usize::MAX);
        }
    }
}

#[test]
fn a_small_file_costs_no_engine() {
    for (len, engines) in [(0, 0), (41, 0), (65_536, 0), (200_000, 0), (4 * MIB, 1)] {
        let made = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let counter = Arc::clone(&made);
        let io = Io::with_engine(Limits::default(), "blocking", move |depth| {
            counter.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            Box::new(dio::engine::Blocking::new(depth))
        });
        let disk = common::sim_disk(512, 1);
        let mut options = OpenOptions::new();
        options.read(true).io(io.as_ref().unwrap());
        let file = options
            .open_medium("file", Arc::new(disk.file(&vec![3; len])), sim_geometry(512))
            .unwrap();
        let mut reader = Reader::new(file).unwrap();
        let mut all = Vec::new();
        reader.read_to_end(&mut all).unwrap();
        assert!(all == vec![3; len]);
        assert_eq!(
            made.load(std::sync::atomic::Ordering::SeqCst),
            engines,
            "engines for {len} bytes"
        );
        let stats = reader.stats();
        assert!(stats.read == len as u64 && stats.unused == 0, "{len} bytes: {stats:?}");
    }
}

/// Chunks that other threads hold are waited for, and are not reused while they are held.
#[test]
fn chunks_may_be_held_by_other_threads() {
    let mut world =
        world(5, 512, 4 * MIB, ReadAhead { min: 4096, max: 32 << 10, request: 16 << 10, lent: 1 });
    let (give, take) = std::sync::mpsc::sync_channel::<(u64, Chunk)>(64);
    let model = world.model.clone();
    let checker = std::thread::spawn(move || {
        let mut bytes = 0;
        let mut held = std::collections::VecDeque::new();
        while let Ok((at, chunk)) = take.recv() {
            held.push_back((at, chunk));
            if held.len() > 1 {
                let (at, chunk): (u64, Chunk) = held.pop_front().unwrap();
                assert!(*chunk == model[at as usize..at as usize + chunk.len()]);
                bytes += chunk.len();
            }
        }
        bytes + held.iter().map(|(_, chunk)| chunk.len()).sum::<usize>()
    });
    loop {
        let at = world.reader.position();
        let Some(chunk) = world.reader.next_chunk().unwrap() else { break };
        give.send((at, chunk)).unwrap();
    }
    drop(give);
    assert_eq!(checker.join().unwrap(), 4 * MIB);
}

#[test]
fn the_far_end_of_a_file_is_not_passed_over_in_silence() {
    let file = tempfile::tempfile_in("/dev/shm").unwrap();
    if let Err(error) = file.set_len(i64::MAX as u64) {
        dio_test::skip!("no file of 8 EiB: {error}");
        return;
    }
    let last = i64::MAX as u64 - 4095;
    std::os::unix::fs::FileExt::write_all_at(&file, b"the end", last - 7).unwrap();
    let mut reader =
        Reader::new(OpenOptions::new().read(true).adopt(file.into(), "far").unwrap()).unwrap();
    for back in [7, 100_000, 3_000_000] {
        reader.seek(SeekFrom::Start(last - back)).unwrap();
        let mut all = vec![1; back as usize];
        reader.read_exact(&mut all).unwrap();
        assert!(all.ends_with(b"the end"));
        assert_eq!(
            reader.read(&mut all).unwrap_err().raw_os_error(),
            Some(Errno::OVERFLOW.raw_os_error())
        );
        reader.seek(SeekFrom::End(0)).unwrap();
        assert_eq!(reader.read(&mut all).unwrap(), 0);
    }
}

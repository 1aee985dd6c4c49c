//! The writer on simulated disks that fail: transient faults have no effect, other faults are
//! reported and latched, and a file that was being extended never has a gap.

mod common;

use std::io::{Cursor, Seek, SeekFrom, Write};
use std::sync::Arc;

use common::fill;
use dio::engine::sim::{Fault, Faults, SimClock, SimDisk, SimDiskModel, SimEngine, SimMedium};
use dio::geometry::Geometry;
use dio::stream::{WriteBehind, Writer};
use dio::{Io, Limits, Mode, OpenOptions};
use dio_test::Seed;

const BLOCK: usize = 4096;

fn writer(seed: u64, align: (usize, usize), mode: Mode, faults: Faults) -> (SimMedium, Writer) {
    writer_over(&[0xEE; 5000], seed, align, mode, faults)
}

/// A writer of a file with existing contents.
fn writer_over(
    old: &[u8],
    seed: u64,
    (memory, align): (usize, usize),
    mode: Mode,
    faults: Faults,
) -> (SimMedium, Writer) {
    let clock = SimClock::new();
    let model = SimDiskModel {
        mem_align: memory,
        offset_align: align,
        // One request at a time, so that waiting requests are served in any order.
        channels: 1,
        reorder: true,
        scribble: true,
        dontcache: seed.is_multiple_of(2),
        ..SimDiskModel::default()
    };
    let disk = SimDisk::new(&clock, model, seed);
    let medium = disk.file(old);
    disk.set_faults(faults);
    let limits =
        Limits { depth: 3, request: 4096, bounce_block: 4096, bounce_blocks: 4, idle_engines: 1 };
    let io =
        Io::with_engine(limits, "sim", move |depth| Box::new(SimEngine::new(&clock, depth, seed)))
            .unwrap();
    let geometry = Geometry::fixed(memory as u64, align as u64).unwrap();
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(mode).io(&io);
    let file = options.open_medium("disk/file", Arc::new(medium.clone()), geometry).unwrap();
    let writer = Writer::with_write_behind(
        file,
        WriteBehind { block: BLOCK, depth: 4, striped_bytes_max: 0 },
    )
    .unwrap();
    (medium, writer)
}

/// All transient faults, at random.
fn transient() -> Faults {
    [Fault::ShortAligned, Fault::ShortUnaligned, Fault::Again, Fault::Interrupted]
        .into_iter()
        .fold(Faults::none(), |faults, fault| faults.chance(fault, 150))
}

#[test]
fn what_is_transient_does_not_show() {
    compare_with_memory(&[(512, 512), (4096, 4096)], &transient());
}

#[test]
fn memory_may_have_to_be_aligned_more_than_the_file() {
    compare_with_memory(&[(4096, 512)], &Faults::none());
}

/// Compares any mix of calls on disks that require these alignments of memory and of the file.
fn compare_with_memory(alignments: &[(usize, usize)], faults: &Faults) {
    let seed = Seed::new();
    for round in 0..200 {
        let mut random = seed.stream(round);
        let align = *random.pick(alignments);
        let mode = *random.pick(&[Mode::Direct, Mode::Concurrent, Mode::Uncached]);
        let (medium, mut writer) = writer(seed.value() ^ round, align, mode, faults.clone());
        let mut model = Cursor::new(vec![0xEE; 5000]);
        for step in 0..random.range(1..20) {
            match random.range(0..6) {
                0 => {
                    let to = SeekFrom::Start(random.range(0..40_000));
                    assert_eq!(writer.seek(to).unwrap(), model.seek(to).unwrap());
                }
                1 => writer.flush().unwrap(),
                _ => {
                    let mut bytes = vec![0; random.range_usize(0..20_000)];
                    fill(&mut bytes, step, writer.position());
                    writer.write_all(&bytes).unwrap();
                    // Writing nothing extends a cursor behind its end, but not a file (write(2)).
                    if !bytes.is_empty() {
                        model.write_all(&bytes).unwrap();
                    }
                }
            }
        }
        writer.finish().unwrap();
        drop(writer);
        assert!(
            medium.contents() == model.into_inner(),
            "round {round}, {mode:?} at {align:?}: {seed:?}"
        );
    }
}

#[test]
fn the_first_lasting_error_stays_and_the_file_has_no_gap() {
    let seed = Seed::new();
    let mut met = 0;
    for round in 0..200 {
        let mut random = seed.stream(round);
        let fault = *random.pick(&[Fault::Io, Fault::NoSpace, Fault::Torn]);
        // Not the first operation, because a writer begins with a query of the size.
        let number = random.range(1..40);
        let (medium, mut writer) = writer(
            seed.value() ^ round,
            (512, 512),
            Mode::Direct,
            Faults::none().from(number, fault),
        );
        writer.seek(SeekFrom::Start(5000)).unwrap();
        let mut bytes = vec![0; 100_000];
        fill(&mut bytes, round, 5000);
        let outcome = bytes
            .chunks(777)
            .try_for_each(|piece| writer.write_all(piece))
            .and_then(|()| writer.finish());
        let live = medium.contents();
        match outcome {
            Ok(()) => assert!(live[5000..] == bytes),
            Err(first) => {
                met += 1;
                for again in [
                    writer.write(&[1]).unwrap_err(),
                    writer.flush().unwrap_err(),
                    writer.finish().unwrap_err(),
                ] {
                    assert_eq!(again.to_string(), first.to_string());
                }
                let written = &live[5000..];
                // The last request may have been written in part. Everything before its end is
                // correct and in order.
                let torn = if fault == Fault::Torn { 2 * BLOCK } else { 0 };
                let sure = written.len().saturating_sub(torn);
                assert!(
                    written[..sure] == bytes[..sure],
                    "round {round}, {fault:?} from {number}: {seed:?}"
                );
            }
        }
        assert!(live[..5000] == [0xEE; 5000], "bytes before the stream: {seed:?}");
    }
    assert!(met > 50, "only {met} rounds met their fault");
}

#[test]
fn a_sync_after_the_end_makes_everything_durable() {
    let seed = Seed::new();
    for round in 0..50 {
        let (medium, mut writer) =
            writer(seed.value() ^ round, (512, 512), Mode::Direct, transient());
        let mut bytes = vec![0; 30_000 + round as usize];
        fill(&mut bytes, round, 0);
        writer.write_all(&bytes).unwrap();
        writer.finish().unwrap();
        writer.file().sync_data().unwrap();
        assert!(medium.power_cut_with(round).contents() == bytes, "round {round}: {seed:?}");
    }
}

/// Blocks inside a file are in flight together, and the last of them may fail first.
#[test]
fn what_is_before_a_failure_is_in_the_file() {
    let seed = Seed::new();
    let mut met = 0;
    for round in 0..200 {
        let mut random = seed.stream(round);
        let first = random.range(1..20);
        let faults =
            (first..first + 3).fold(Faults::none(), |faults, number| faults.at(number, Fault::Io));
        let mut bytes = vec![0; 100_000];
        let (medium, mut writer) = writer_over(
            &vec![0xEE; bytes.len()],
            seed.value() ^ round,
            (512, 512),
            Mode::Direct,
            faults,
        );
        fill(&mut bytes, round, 0);
        let outcome = bytes
            .chunks(777)
            .try_for_each(|piece| writer.write_all(piece))
            .and_then(|()| writer.finish());
        let Err(error) = outcome else { continue };
        met += 1;
        let place = error
            .get_ref()
            .and_then(|error| error.downcast_ref::<dio::FileError>())
            .and_then(|at| at.offset());
        let place = place.expect("a failed write has a place") as usize;
        assert!(
            medium.contents()[..place] == bytes[..place],
            "round {round}, error at {place}: {seed:?}"
        );
    }
    assert!(met > 50, "only {met} rounds met their fault");
}

//! Tests of the simulator itself: what it claims about storage is what it does.

use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;

use super::{Action, Fault, Faults, SimClock, SimDisk, SimDiskModel, SimEngine, SimMedium, SplitMix64, Trace};
use crate::block::{Mem, Pool};
use crate::engine::{Blocking, Done, Engine, Flags, Kind, Medium, Op, Route};

const MIB: usize = 1 << 20;

fn memory(bytes: &[u8]) -> Mem {
    let pool = Pool::new(bytes.len().max(1), 1).unwrap();
    let mut block = pool.take_many(1).remove(0);
    block.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
    block.into_mem(0..bytes.len())
}

fn op(kind: Kind, medium: &SimMedium, offset: u64, mem: Option<Mem>) -> Op {
    let (route, flags) = (Route::Direct, Flags::default());
    Op { kind, route, flags, medium: Arc::new(medium.clone()), offset, done: 0, mem, align: 1, stalled: 0, tag: 0 }
}

/// One write at once, through the medium alone.
fn write(medium: &SimMedium, offset: u64, bytes: &[u8]) -> Result<usize, Errno> {
    medium.transfer(&mut op(Kind::Write, medium, offset, Some(memory(bytes))))
}

fn sync(medium: &SimMedium) -> Result<usize, Errno> {
    medium.transfer(&mut op(Kind::SyncData, medium, 0, None))
}

fn read_op(medium: &SimMedium, offset: u64, len: usize) -> Op {
    op(Kind::Read, medium, offset, Some(memory(&vec![0xee; len])))
}

fn bytes_of(op: &mut Op) -> Vec<u8> {
    op.mem.as_mut().unwrap().slices_mut(0).iter().flat_map(|slice| slice.to_vec()).collect()
}

fn disk(model: SimDiskModel, seed: u64) -> SimDisk {
    SimDisk::new(&SimClock::new(), model, seed)
}

fn plain(seed: u64) -> SimDisk {
    disk(SimDiskModel::default(), seed)
}

fn run_all(engine: &mut SimEngine, ops: impl IntoIterator<Item = Op>) -> Vec<Done> {
    let mut done = Vec::new();
    for mut op in ops {
        while let Err(back) = engine.start(op) {
            engine.finish(1, &mut done).unwrap();
            op = back;
        }
    }
    engine.finish(engine.in_flight(), &mut done).unwrap();
    done
}

/// A run with every kind of fault and reordering.
fn eventful(seed: u64) -> (Trace, Vec<u8>, Vec<u8>) {
    let clock = SimClock::new();
    let model = SimDiskModel { channels: 4, reorder: true, ..SimDiskModel::default() };
    let disk = SimDisk::new(&clock, model, seed);
    disk.set_faults(Fault::ALL.into_iter().fold(Faults::none(), |faults, fault| faults.chance(fault, 40)));
    let file = disk.file(&[7; 64 << 10]);
    let mut engine = SimEngine::new(&clock, 8, seed);
    let mut random = SplitMix64::new(seed);
    let ops = (0..400).map(|number| {
        let offset = random.below(200) * 512;
        match number % 10 {
            9 => op(Kind::SyncAll, &file, 0, None),
            0..4 => read_op(&file, offset, 2048),
            _ => op(Kind::Write, &file, offset, Some(memory(&[number as u8; 1536]))),
        }
    });
    run_all(&mut engine, ops.collect::<Vec<_>>());
    (disk.trace(), file.contents(), file.power_cut().contents())
}

#[test]
fn equal_seeds_give_equal_runs_and_others_do_not() {
    assert_eq!(eventful(11), eventful(11));
    assert_ne!(eventful(11).0, eventful(12).0);
}

#[test]
fn every_fault_occurs_by_chance_with_its_result() {
    let (trace, ..) = eventful(5);
    for fault in Fault::ALL {
        let entries = trace.only(|entry| entry.fault == Some(fault)).entries;
        assert!(!entries.is_empty(), "{fault:?} never came");
        for entry in entries {
            match (fault.errno(), entry.result) {
                (Some(errno), result) => assert_eq!(result, Err(errno), "{entry:?}"),
                (None, Ok(count)) => assert!((count as u64) < entry.len, "{entry:?}"),
                (None, Err(_)) => panic!("{entry:?}"),
            }
        }
    }
    let reordered = trace.entries.windows(2).any(|pair| pair[1].number < pair[0].number);
    assert!(reordered, "nothing was reordered");
}

#[test]
fn exact_faults_hit_the_operation_they_name_and_no_other() {
    for fault in Fault::ALL {
        let disk = plain(3);
        let file = disk.file(&[1; 8192]);
        disk.set_faults(Faults::none().at(1, fault));
        let dsync = Flags { dsync: true, ..Flags::default() };
        let results: Vec<_> = (0..3)
            .map(|value| {
                let mem = Some(memory(&[value + 2; 4096]));
                file.transfer(&mut Op { flags: dsync, ..op(Kind::Write, &file, 0, mem) })
            })
            .collect();
        assert_eq!((results[0], results[2]), (Ok(4096), Ok(4096)), "{fault:?}");
        match fault {
            Fault::ShortAligned => {
                let count = results[1].unwrap();
                assert!(count > 0 && count < 4096 && count % 512 == 0, "{count}");
            }
            Fault::ShortUnaligned => {
                let count = results[1].unwrap();
                assert!(count > 0 && count < 4096 && count % 512 != 0, "{count}");
            }
            _ => assert_eq!(results[1].err(), fault.errno(), "{fault:?}"),
        }
        assert_eq!(disk.operations(), 3);
    }
}

#[test]
fn a_fault_that_cannot_happen_does_not() {
    let disk = plain(3);
    let file = disk.file(&[1; 512]);
    disk.set_faults(Faults::none().at(0, Fault::Torn).at(1, Fault::ShortAligned).at(2, Fault::Again));
    assert_eq!(file.transfer(&mut read_op(&file, 0, 512)), Ok(512));
    assert_eq!(file.transfer(&mut read_op(&file, 0, 512)), Ok(512), "one block cannot be shortened to blocks");
    assert_eq!(sync(&file), Ok(0));
    assert!(disk.trace().entries.iter().all(|entry| entry.fault.is_none()));
}

#[test]
fn a_dead_disk_stays_dead() {
    let disk = plain(3);
    let file = disk.file(&[1; 512]);
    disk.set_faults(Faults::none().from(1, Fault::Io));
    assert!(file.size().is_ok());
    assert!(file.size().is_err());
    assert_eq!(file.transfer(&mut read_op(&file, 0, 512)), Err(Errno::IO));
    assert!(file.set_size(0).is_err() && file.allocate(0..4096, true).is_err() && file.punch(0..4096).is_err());
    assert_eq!(file.contents(), [1; 512]);
}

#[test]
fn direct_io_demands_alignment_of_everything_and_buffered_of_nothing() {
    let disk = disk(SimDiskModel { mem_align: 64, ..SimDiskModel::default() }, 1);
    let file = disk.file(&[9; 8192]);
    let pool = Pool::new(8192, 4).unwrap();
    let of = |range| pool.try_take().unwrap().into_mem(range);
    let read = |route, offset, mem| file.transfer(&mut Op { route, ..op(Kind::Read, &file, offset, Some(mem)) });
    assert_eq!(read(Route::Direct, 512, of(64..576)), Ok(512));
    assert_eq!(read(Route::Direct, 511, of(0..512)), Err(Errno::INVAL), "offset");
    assert_eq!(read(Route::Direct, 512, of(0..511)), Err(Errno::INVAL), "length");
    assert_eq!(read(Route::Direct, 512, of(32..544)), Err(Errno::INVAL), "address");
    let mut pieces = of(0..512);
    pieces.push(pool.try_take().unwrap().into_segment(64..1088));
    assert_eq!(read(Route::Direct, 512, pieces), Ok(1536));
    let mut pieces = of(0..500);
    pieces.push(pool.try_take().unwrap().into_segment(0..524));
    assert_eq!(read(Route::Direct, 512, pieces), Err(Errno::INVAL), "a piece's length");
    assert_eq!(read(Route::Buffered, 13, of(5..106)), Ok(101));
    let mut resumed = Op { done: 512, ..op(Kind::Read, &file, 0, Some(of(0..1024))) };
    assert_eq!(file.transfer(&mut resumed), Ok(512));
    resumed.done = 100;
    assert_eq!(file.transfer(&mut resumed), Err(Errno::INVAL), "resumed between blocks");
    assert_eq!(file.transfer(&mut op(Kind::Read, &file, 0, None)), Err(Errno::INVAL), "no memory");
}

#[test]
fn reads_end_at_the_end_of_file() {
    for scribble in [false, true] {
        let disk = disk(SimDiskModel { scribble, ..SimDiskModel::default() }, 1);
        let file = disk.file(&[9; 700]);
        let mut read = read_op(&file, 0, 2048);
        assert_eq!(file.transfer(&mut read), Ok(700));
        let bytes = bytes_of(&mut read);
        assert_eq!(bytes[..700], [9; 700]);
        assert_eq!(bytes[1024..], [0xee; 1024]);
        assert_eq!(bytes[700..1024] == [0xee; 324], !scribble);
        assert_eq!(file.transfer(&mut read_op(&file, 1024, 512)), Ok(0));
    }
}

#[test]
fn memory_behind_a_short_or_failed_read_is_scribbled_on_if_so_asked() {
    for scribble in [false, true] {
        let disk = disk(SimDiskModel { scribble, ..SimDiskModel::default() }, 1);
        let file = disk.file(&[9; 4096]);
        disk.set_faults(Faults::none().at(0, Fault::ShortUnaligned).at(1, Fault::Io).at(2, Fault::Again));
        let mut short = read_op(&file, 0, 4096);
        let count = file.transfer(&mut short).unwrap();
        let bytes = bytes_of(&mut short);
        assert!(bytes[..count].iter().all(|byte| *byte == 9));
        assert_eq!(bytes[count..].iter().all(|byte| *byte == 0xee), !scribble);
        let mut failed = read_op(&file, 0, 4096);
        assert_eq!(file.transfer(&mut failed), Err(Errno::IO));
        assert_eq!(bytes_of(&mut failed) == [0xee; 4096], !scribble);
        let mut refused = read_op(&file, 0, 4096);
        assert_eq!(file.transfer(&mut refused), Err(Errno::AGAIN));
        assert_eq!(bytes_of(&mut refused), [0xee; 4096]);
    }
}

#[test]
fn dontcache_is_refused_where_the_file_system_has_none() {
    let disk = disk(SimDiskModel { dontcache: false, ..SimDiskModel::default() }, 1);
    let file = disk.file(&[9; 700]);
    let flags = Flags { dontcache: true, ..Flags::default() };
    assert_eq!(file.transfer(&mut Op { flags, ..read_op(&file, 0, 512) }), Err(Errno::OPNOTSUPP));
}

#[test]
fn what_is_not_synced_is_live_and_at_the_mercy_of_a_cut() {
    let disk = plain(8);
    let file = disk.file(&[1; 16384]);
    write(&file, 0, &[2; 32768]).unwrap();
    assert_eq!(file.contents(), [2; 32768]);
    assert_eq!(file.durable_contents(), [1; 16384]);
    let (mut lost, mut kept, mut torn, mut short, mut stale) = (0, 0, 0, 0, 0);
    for seed in 0..200 {
        let contents = file.power_cut_with(seed).contents();
        assert!([16384, 32768].contains(&contents.len()), "seed {seed}: size {}", contents.len());
        for sector in contents[..16384].chunks(512) {
            assert!(sector == [1; 512] || sector == [2; 512], "seed {seed}: a sector is atomic");
        }
        let is_new = |sector: &&[u8]| **sector == [2; 512];
        match contents[..16384].chunks(512).filter(is_new).count() {
            0 => lost += 1,
            32 => kept += 1,
            _ => torn += 1,
        }
        short += u32::from(contents.len() == 16384);
        let strange = |sector: &[u8]| sector != [2; 512] && sector != [0; 512];
        stale += u32::from(contents.len() > 16384 && contents[16384..].chunks(512).any(strange));
    }
    assert!(lost > 5 && kept > 5 && torn > 5 && short > 5 && stale > 5, "{lost} {kept} {torn} {short} {stale}");
    assert_eq!(file.contents(), [2; 32768], "a cut is a copy");
}

#[test]
fn what_is_synced_survives_every_cut() {
    let disk = plain(8);
    let file = disk.file(&[1; 1000]);
    write(&file, 0, &[2; 4096]).unwrap();
    file.set_size(3000).unwrap();
    assert_eq!(sync(&file), Ok(0));
    file.set_size(3000).unwrap();
    assert!((0..100).all(|seed| file.power_cut_with(seed).contents() == [2; 3000]));
    assert_eq!(file.durable_contents(), [2; 3000]);
}

#[test]
fn dsync_makes_its_own_bytes_durable_and_no_others() {
    let disk = plain(8);
    let file = disk.file(&[1; 4096]);
    write(&file, 0, &[2; 512]).unwrap();
    let flags = Flags { dsync: true, ..Flags::default() };
    let mut own = Op { flags, ..op(Kind::Write, &file, 4096, Some(memory(&[3; 512]))) };
    assert_eq!(file.transfer(&mut own), Ok(512));
    let survived: Vec<_> = (0..100).map(|seed| file.power_cut_with(seed).contents()).collect();
    assert!(survived.iter().all(|contents| contents.len() == 4608 && contents[4096..] == [3; 512]));
    assert!(survived.iter().any(|contents| contents[0] == 1) && survived.iter().any(|contents| contents[0] == 2));
}

#[test]
fn a_sync_covers_what_was_complete_when_it_began() {
    let clock = SimClock::new();
    let disk = SimDisk::new(&clock, SimDiskModel { channels: 2, ..SimDiskModel::default() }, 1);
    let file = disk.file(&[]);
    let mut engine = SimEngine::new(&clock, 4, 1);
    let mut done = Vec::new();
    engine.start(op(Kind::Write, &file, 0, Some(memory(&[1; 512])))).unwrap();
    engine.finish(1, &mut done).unwrap();
    engine.start(op(Kind::Write, &file, 512, Some(memory(&[2; 512])))).unwrap();
    engine.start(op(Kind::SyncAll, &file, 0, None)).unwrap();
    engine.finish(2, &mut done).unwrap();
    assert_eq!(done.last().unwrap().op.kind, Kind::SyncAll, "the write was complete before the sync was");
    assert_eq!(file.contents().len(), 1024);
    assert_eq!(file.durable_contents(), [1; 512]);
}

#[test]
fn after_a_failed_sync_another_succeeds_and_saves_nothing() {
    let (mut lost, mut saved) = (0, 0);
    for seed in 0..40 {
        let disk = plain(seed);
        let file = disk.file(&[1; 4096]);
        write(&file, 0, &[2; 4096]).unwrap();
        disk.set_faults(Faults::none().at(1, Fault::SyncFails));
        assert_eq!(sync(&file), Err(Errno::IO));
        assert_eq!(sync(&file), Ok(0));
        let after = file.power_cut().contents();
        assert!(after == [1; 4096] || after == [2; 4096], "seed {seed}: the page is settled, one way or the other");
        assert_eq!(after, file.durable_contents());
        assert_eq!(file.contents(), [2; 4096]);
        if after[0] == 1 {
            lost += 1
        } else {
            saved += 1
        }
        write(&file, 0, &[3; 4096]).unwrap();
        sync(&file).unwrap();
        assert_eq!(file.power_cut().contents(), [3; 4096], "a new write is synced as ever");
    }
    assert!(lost > 5 && saved > 5, "{lost} {saved}");
}

#[test]
fn a_torn_write_leaves_a_beginning_of_sectors() {
    let mut lengths = std::collections::BTreeSet::new();
    for seed in 0..40 {
        let disk = plain(seed);
        let file = disk.file(&[1; 2048]);
        disk.set_faults(Faults::none().at(0, Fault::Torn));
        assert_eq!(write(&file, 0, &[2; 2048]), Err(Errno::IO));
        let contents = file.contents();
        let new = contents.iter().take_while(|byte| **byte == 2).count();
        assert!(new % 512 == 0 && contents[new..].iter().all(|byte| *byte == 1), "seed {seed}");
        lengths.insert(new);
    }
    assert_eq!(lengths.into_iter().collect::<Vec<_>>(), [0, 512, 1024, 1536]);
}

#[test]
fn holes_allocation_and_capacity() {
    let disk = disk(SimDiskModel { capacity: Some(16384), ..SimDiskModel::default() }, 1);
    let (file, other) = (disk.file(&[]), disk.file(&[5; 4096]));
    file.set_size(1 << 40).unwrap();
    assert_eq!(disk.used(), 4096, "a hole takes no space");
    file.set_size(0).unwrap();
    assert_eq!(write(&file, 0, &[1; 16384]), Ok(12288), "as much as fits");
    assert_eq!(write(&file, 12288, &[1; 4096]), Err(Errno::NOSPC));
    assert_eq!(write(&file, 4096, &[2; 4096]), Ok(4096), "overwriting needs no space");
    file.punch(0..4096).unwrap();
    assert_eq!(file.contents()[..4097], [[0; 4096].as_slice(), &[2]].concat());
    let full = other.allocate(4096..16384, false).unwrap_err();
    assert_eq!(full.raw_os_error(), Some(Errno::NOSPC.raw_os_error()));
    other.allocate(4096..8192, false).unwrap();
    assert_eq!((other.size().unwrap(), disk.used()), (4096, 16384));
    assert_eq!(write(&other, 4096, &[6; 4096]), Ok(4096), "allocated space is there when it is needed");
    other.set_size(100).unwrap();
    other.set_size(200).unwrap();
    assert_eq!(other.contents(), [[5; 100], [0; 100]].concat(), "what was cut off does not come back");
}

#[test]
fn a_lost_write_to_allocated_space_reads_as_zeros() {
    let disk = plain(4);
    let file = disk.file(&[]);
    file.allocate(0..65536, true).unwrap();
    sync(&file).unwrap();
    write(&file, 0, &[7; 65536]).unwrap();
    for seed in 0..60 {
        let contents = file.power_cut_with(seed).contents();
        assert!(contents.len() == 65536 && contents.iter().all(|byte| [0, 7].contains(byte)), "seed {seed}");
    }
}

#[test]
fn a_lost_cut_off_brings_everything_back() {
    let disk = plain(4);
    let file = disk.pattern_file(20000, 4);
    let before = file.contents();
    file.set_size(5000).unwrap();
    file.set_size(20000).unwrap();
    let mut after = before.clone();
    after[5000..].fill(0);
    assert_eq!(file.contents(), after);
    for seed in 0..60 {
        let contents = file.power_cut_with(seed).contents();
        let cut = contents.len() == 5000 && contents == before[..5000];
        assert!(cut || contents == before || contents == after, "seed {seed}");
    }
}

#[test]
fn a_device_has_a_fixed_size_and_garbage_in_it() {
    let disk = plain(4);
    let device = disk.device(8192);
    assert!(device.contents().chunks(512).all(|sector| sector != [0; 512]));
    assert!(device.set_size(0).is_err());
    assert_eq!(write(&device, 4096, &[1; 8192]), Ok(4096));
    assert_eq!(write(&device, 8192, &[1; 512]), Err(Errno::NOSPC));
}

#[test]
fn virtual_time_adds_up() {
    let clock = SimClock::new();
    let disk = SimDisk::new(&clock, SimDiskModel::default(), 1);
    let file = disk.pattern_file(1000 * MIB as u64, 1);
    let mut engine = SimEngine::new(&clock, 4, 1);
    let pool = Pool::new(MIB, 5).unwrap();
    let mut done = Vec::new();
    for number in 0..1000 {
        if engine.in_flight() == 4 {
            engine.finish(1, &mut done).unwrap();
            assert!(done.drain(..).all(|done| done.result == Ok(MIB)));
        }
        let mem = pool.try_take().unwrap().into_mem(0..MIB);
        engine.start(op(Kind::Read, &file, number * MIB as u64, Some(mem))).unwrap();
    }
    engine.finish(4, &mut done).unwrap();
    let expected = 1000.0 / 1024.0 + 1000.0 * 100e-6;
    assert!((engine.now().as_secs_f64() - expected).abs() < 1e-4, "{:?}, not {expected} s", engine.now());
    assert_eq!(disk.busy(), engine.now(), "always busy");
    assert_eq!(disk.trace().bytes(), 1000 * MIB as u64);
}

#[test]
fn channels_hide_the_service_time() {
    let time = |channels, depth| {
        let clock = SimClock::new();
        let disk = SimDisk::new(&clock, SimDiskModel { channels, ..SimDiskModel::default() }, 1);
        let file = disk.pattern_file(400 * 4096, 1);
        let mut engine = SimEngine::new(&clock, depth, 1);
        run_all(&mut engine, (0..400).map(|number| read_op(&file, number * 4096, 4096)));
        engine.now()
    };
    let (serial, one_by_one, parallel) = (time(1, 8), time(8, 1), time(8, 8));
    assert_eq!(serial, one_by_one);
    assert!(parallel < serial / 7 && parallel > serial / 9, "{serial:?} {parallel:?}");
}

#[test]
fn two_disks_work_side_by_side() {
    let clock = SimClock::new();
    let slow = SimDiskModel { write_bandwidth: 512 << 20, ..SimDiskModel::default() };
    let (source, target) = (SimDisk::new(&clock, SimDiskModel::default(), 1), SimDisk::new(&clock, slow, 2));
    let (from, to) = (source.pattern_file(64 * MIB as u64, 1), target.file(&[]));
    let mut engine = SimEngine::new(&clock, 8, 1);
    let mut ops = Vec::new();
    for number in 0..16 {
        ops.push(read_op(&from, number * MIB as u64, MIB));
        ops.push(op(Kind::Write, &to, number * MIB as u64, Some(memory(&vec![number as u8; MIB]))));
    }
    let done = run_all(&mut engine, ops);
    let (reads, writes) = (source.trace(), target.trace());
    assert_eq!(engine.now(), target.busy(), "the slower disk is never idle");
    assert_eq!(reads.overlap(&writes), source.busy(), "the other one works meanwhile");
    assert!(source.busy() < target.busy());
    let first_kinds: Vec<_> = done.iter().take(3).map(|done| done.op.kind).collect();
    assert_eq!(first_kinds, [Kind::Read, Kind::Write, Kind::Read], "in the order of time");
}

#[test]
fn an_idle_disk_is_not_busy() {
    let clock = SimClock::new();
    let disk = SimDisk::new(&clock, SimDiskModel::default(), 1);
    let file = disk.pattern_file(8192, 1);
    let mut engine = SimEngine::new(&clock, 1, 1);
    run_all(&mut engine, [read_op(&file, 0, 512)]);
    let busy = engine.now();
    clock.advance_to(Duration::from_secs(1));
    run_all(&mut engine, [read_op(&file, 0, 512)]);
    assert_eq!(disk.busy(), busy * 2);
    assert_eq!(disk.trace().span(), Some((Duration::ZERO, Duration::from_secs(1) + busy)));
}

#[test]
fn a_full_engine_hands_the_operation_back() {
    let disk = plain(1);
    let file = disk.file(&[1; 512]);
    let mut engine = SimEngine::new(&SimClock::new(), 1, 1);
    engine.start(read_op(&file, 0, 512)).unwrap();
    let back = engine.start(Op { tag: 77, ..read_op(&file, 0, 512) }).unwrap_err();
    assert_eq!((back.tag, engine.in_flight(), disk.operations()), (77, 1, 1));
    let mut done = Vec::new();
    engine.finish(0, &mut done).unwrap();
    assert!(done.is_empty(), "nothing is complete before time has passed");
    engine.finish(9, &mut done).unwrap();
    assert_eq!((done.len(), engine.in_flight()), (1, 0));
}

#[test]
fn the_blocking_engine_runs_on_simulated_files_too() {
    let disk = plain(1);
    let file = disk.file(&[]);
    let mut engine = Blocking::new(2);
    engine.start(op(Kind::Write, &file, 0, Some(memory(&[4; 1024])))).unwrap();
    let mut done = Vec::new();
    engine.finish(1, &mut done).unwrap();
    assert_eq!(done[0].result, Ok(1024));
    assert_eq!(file.contents(), [4; 1024]);
    assert_eq!(disk.trace().entries[0].action, Action::Transfer(Kind::Write));
}

#[test]
fn an_engine_that_goes_away_has_done_what_it_took() {
    let clock = SimClock::new();
    let file = SimDisk::new(&clock, SimDiskModel::default(), 1).file(&[]);
    let mut engine = SimEngine::new(&clock, 2, 1);
    engine.start(op(Kind::Write, &file, 0, Some(memory(&[4; 1024])))).unwrap();
    drop(engine);
    assert_eq!(file.contents(), [4; 1024]);
}

#[test]
#[should_panic(expected = "changed in flight (disk seed 42)")]
fn memory_that_changes_in_flight_is_noticed() {
    let file = plain(42).file(&[]);
    let mut op = op(Kind::Write, &file, 0, Some(memory(&[4; 1024])));
    let ticket = file.begin(&op);
    op.mem.as_mut().unwrap().slices_mut(0)[0][1000] = 5;
    let _ = file.complete(&mut op, ticket, Duration::ZERO, Duration::ZERO);
}

#[test]
fn a_cut_finds_any_part_of_a_write_in_flight() {
    let clock = SimClock::new();
    let file = SimDisk::new(&clock, SimDiskModel::default(), 1).file(&[1; 2048]);
    let mut engine = SimEngine::new(&clock, 2, 1);
    engine.start(op(Kind::Write, &file, 0, Some(memory(&[2; 2048])))).unwrap();
    assert_eq!(file.contents(), [1; 2048]);
    let news: std::collections::BTreeSet<_> =
        (0..200).map(|seed| file.power_cut_with(seed).contents().iter().filter(|byte| **byte == 2).count()).collect();
    assert_eq!(news.into_iter().collect::<Vec<_>>(), [0, 512, 1024, 1536, 2048]);
}

/// Any mix of changes: what is live is what a plain vector says, and every cut leaves, sector by sector, a state since
/// the last sync.
#[test]
fn live_and_durable_agree_with_a_model_under_any_changes() {
    for seed in 0..150 {
        let mut random = SplitMix64::new(seed);
        let disk = disk(SimDiskModel { stale_after_cut: false, ..SimDiskModel::default() }, seed);
        let mut live = vec![0; random.below(30_000) as usize];
        super::pattern(seed, 0, &mut live);
        let file = if seed % 2 == 0 { disk.pattern_file(live.len() as u64, seed) } else { disk.file(&live) };
        let mut states = vec![live.clone()];
        for step in 0..30 {
            change(&file, &mut live, &mut states, step, &mut random);
            assert_eq!(file.contents(), live, "seed {seed} step {step}");
            let after = file.power_cut_with(random.next_u64()).contents();
            assert!(states.iter().any(|state| state.len() == after.len()), "seed {seed} step {step}: {}", after.len());
            for (number, sector) in after.chunks(512).enumerate() {
                // A cut-off zeroes the end of whatever state of its sector there is.
                let ends = states.iter().map(|state| state.len().saturating_sub(number * 512).min(512));
                let mut of_state = states.iter().map(|state| state.get(number * 512..).unwrap_or_default());
                let known = of_state.any(|state| ends.clone().any(|end| is_cut(sector, state, end)));
                assert!(known, "seed {seed} step {step}: sector {number} is of no state since the last sync");
            }
        }
    }
}

/// True if `sector` is `state` up to `end`, and zeros behind that or behind the state's own end.
fn is_cut(sector: &[u8], state: &[u8], end: usize) -> bool {
    let end = end.min(state.len()).min(sector.len());
    sector[..end] == state[..end] && sector[end..].iter().all(|byte| *byte == 0)
}

/// One random change of a file and of its model. `states` are those since the last sync.
fn change(file: &SimMedium, live: &mut Vec<u8>, states: &mut Vec<Vec<u8>>, step: u8, random: &mut SplitMix64) {
    let (offset, len) = (random.below(40_000), 1 + random.below(9_000));
    let range = offset as usize..(offset + len) as usize;
    match random.below(8) {
        0 => file.set_size(offset).unwrap(),
        1 => file.punch(offset..offset + len).unwrap(),
        2 => file.allocate(offset..offset + len, len % 2 == 0).unwrap(),
        3 => {
            sync(file).unwrap();
            states.clear();
        }
        _ => {
            let write = op(Kind::Write, file, offset, Some(memory(&vec![step + 1; len as usize])));
            assert_eq!(file.transfer(&mut Op { route: Route::Buffered, ..write }), Ok(len as usize));
        }
    }
    match file.disk().trace().entries.last().unwrap().action {
        Action::SetSize => live.resize(offset as usize, 0),
        Action::Punch => {
            let end = live.len();
            live[range.start.min(end)..range.end.min(end)].fill(0);
        }
        Action::Allocate if len % 2 == 0 => live.resize(live.len().max(range.end), 0),
        Action::Transfer(Kind::Write) => {
            live.resize(live.len().max(range.end), 0);
            live[range].fill(step + 1);
        }
        _ => {}
    }
    states.push(live.clone());
}

/// Copies with `depth` operations in flight; at one, reads and writes alternate.
fn copy(depth: usize) -> (Duration, Duration, Duration) {
    let clock = SimClock::new();
    let (source, target) =
        (SimDisk::new(&clock, SimDiskModel::default(), 1), SimDisk::new(&clock, SimDiskModel::default(), 2));
    let (from, to) = (source.pattern_file(100 * MIB as u64, 9), target.file(&[]));
    let mut engine = SimEngine::new(&clock, depth, 1);
    let pool = Pool::new(MIB, depth).unwrap();
    let (mut next, mut done) = (0, Vec::new());
    loop {
        while next < 100 && engine.in_flight() < depth {
            let mem = pool.try_take().unwrap().into_mem(0..MIB);
            engine.start(op(Kind::Read, &from, next * MIB as u64, Some(mem))).unwrap();
            next += 1;
        }
        if engine.finish(1, &mut done).is_ok() && done.is_empty() {
            break;
        }
        for Done { op: finished, result } in done.drain(..) {
            assert_eq!(result, Ok(MIB));
            if finished.kind == Kind::Read {
                engine.start(op(Kind::Write, &to, finished.offset, finished.mem)).unwrap();
            }
        }
    }
    assert_eq!(to.contents(), from.contents());
    (engine.now(), source.busy(), target.busy())
}

#[test]
fn a_copy_with_many_in_flight_keeps_both_disks_busy() {
    let (alternating, read, written) = copy(1);
    assert_eq!(alternating, read + written);
    let (overlapped, read, written) = copy(8);
    assert!(alternating.as_secs_f64() > 1.9 * overlapped.as_secs_f64(), "{alternating:?} {overlapped:?}");
    assert!(read.min(written).as_secs_f64() > 0.95 * overlapped.as_secs_f64());
}

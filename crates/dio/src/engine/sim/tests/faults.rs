//! Tests what a simulated disk refuses and how it fails.

use std::time::Duration;

use rustix::io::Errno;

use super::{bytes_of, disk, memory, op, plain, read_op, run_all, sync, write};
use crate::block::Pool;
use crate::engine::sim::{
    Fault, Faults, SimClock, SimDisk, SimDiskModel, SimEngine, SplitMix64, Trace,
};
use crate::engine::{Medium, Op, OpFlags, OpKind, Route};

/// A run with every kind of fault and reordering.
fn eventful(seed: u64) -> (Trace, Vec<u8>, Vec<u8>) {
    let clock = SimClock::new();
    let model = SimDiskModel { channels: 4, reorder: true, ..SimDiskModel::default() };
    let disk = SimDisk::new(&clock, model, seed);
    disk.set_faults(
        Fault::ALL.into_iter().fold(Faults::none(), |faults, fault| faults.chance(fault, 40)),
    );
    let file = disk.file(&[7; 64 << 10]);
    let mut engine = SimEngine::new(&clock, 8, seed);
    let mut random = SplitMix64::new(seed);
    let ops = (0..400).map(|number| {
        let offset = random.below(200) * 512;
        match number % 10 {
            9 => op(OpKind::SyncAll, &file, 0, None),
            0..4 => read_op(&file, offset, 2048),
            _ => op(OpKind::Write, &file, offset, Some(memory(&[number as u8; 1536]))),
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
        let dsync = OpFlags { dsync: true, ..OpFlags::default() };
        let results: Vec<_> = (0..3)
            .map(|value| {
                let mem = Some(memory(&[value + 2; 4096]));
                file.transfer(&mut Op { flags: dsync, ..op(OpKind::Write, &file, 0, mem) })
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
    disk.set_faults(
        Faults::none().at(0, Fault::Torn).at(1, Fault::ShortAligned).at(2, Fault::Again),
    );
    assert_eq!(file.transfer(&mut read_op(&file, 0, 512)), Ok(512));
    assert_eq!(
        file.transfer(&mut read_op(&file, 0, 512)),
        Ok(512),
        "one block cannot be shortened to blocks"
    );
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
    assert!(
        file.set_size(0).is_err()
            && file.allocate(0..4096, true).is_err()
            && file.punch(0..4096).is_err()
    );
    assert_eq!(file.contents(), [1; 512]);
}

#[test]
fn direct_io_demands_alignment_of_everything_and_buffered_of_nothing() {
    let disk = disk(SimDiskModel { mem_align: 64, ..SimDiskModel::default() }, 1);
    let file = disk.file(&[9; 8192]);
    let pool = Pool::new(8192, 4).unwrap();
    let of = |range| pool.try_take().unwrap().into_mem(range);
    let read = |route, offset, mem| {
        file.transfer(&mut Op { route, ..op(OpKind::Read, &file, offset, Some(mem)) })
    };
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
    let mut resumed = Op { skip: 512, ..op(OpKind::Read, &file, 0, Some(of(0..1024))) };
    assert_eq!(file.transfer(&mut resumed), Ok(512));
    resumed.skip = 100;
    assert_eq!(file.transfer(&mut resumed), Err(Errno::INVAL), "resumed between blocks");
    assert_eq!(
        file.transfer(&mut op(OpKind::Read, &file, 0, None)),
        Err(Errno::INVAL),
        "no memory"
    );
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
        disk.set_faults(
            Faults::none().at(0, Fault::ShortUnaligned).at(1, Fault::Io).at(2, Fault::Again),
        );
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
    let flags = OpFlags { dontcache: true, ..OpFlags::default() };
    assert_eq!(file.transfer(&mut Op { flags, ..read_op(&file, 0, 512) }), Err(Errno::OPNOTSUPP));
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
    assert_eq!(
        write(&other, 4096, &[6; 4096]),
        Ok(4096),
        "allocated space is there when it is needed"
    );
    other.set_size(100).unwrap();
    other.set_size(200).unwrap();
    assert_eq!(
        other.contents(),
        [[5; 100], [0; 100]].concat(),
        "what was cut off does not come back"
    );
    let computed = plain(1).pattern_file(20000, 1);
    assert_eq!(computed.disk().used(), 20480);
    computed.punch(4096..8192).unwrap();
    computed.set_size(4097).unwrap();
    assert_eq!(computed.disk().used(), 4096);
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
#[should_panic(expected = "changed in flight (disk seed 42)")]
fn memory_that_changes_in_flight_is_noticed() {
    let file = plain(42).file(&[]);
    let mut op = op(OpKind::Write, &file, 0, Some(memory(&[4; 1024])));
    let ticket = file.begin(&op);
    op.mem.as_mut().unwrap().slices_mut(0)[0][1000] = 5;
    let _ = file.complete(&mut op, ticket, Duration::ZERO, Duration::ZERO);
}

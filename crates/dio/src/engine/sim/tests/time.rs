//! Tests of virtual time and of the engine.

use std::time::Duration;

use super::{MIB, memory, op, plain, read_op, run_all};
use crate::block::Pool;
use crate::engine::sim::{SimAction, SimClock, SimDisk, SimDiskModel, SimEngine};
use crate::engine::{Blocking, Done, Engine, Medium, Op, OpKind};

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
        engine.start(op(OpKind::Read, &file, number * MIB as u64, Some(mem))).unwrap();
    }
    engine.finish(4, &mut done).unwrap();
    let expected = 1000.0 / 1024.0 + 1000.0 * 100e-6;
    assert!(
        (engine.now().as_secs_f64() - expected).abs() < 1e-4,
        "{:?}, not {expected} s",
        engine.now()
    );
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
    let (source, target) =
        (SimDisk::new(&clock, SimDiskModel::default(), 1), SimDisk::new(&clock, slow, 2));
    let (from, to) = (source.pattern_file(64 * MIB as u64, 1), target.file(&[]));
    let mut engine = SimEngine::new(&clock, 8, 1);
    let mut ops = Vec::new();
    for number in 0..16 {
        ops.push(read_op(&from, number * MIB as u64, MIB));
        ops.push(op(
            OpKind::Write,
            &to,
            number * MIB as u64,
            Some(memory(&vec![number as u8; MIB])),
        ));
    }
    let done = run_all(&mut engine, ops);
    let (reads, writes) = (source.trace(), target.trace());
    assert_eq!(engine.now(), target.busy(), "the slower disk is never idle");
    assert_eq!(reads.overlap(&writes), source.busy(), "the other one works meanwhile");
    assert!(source.busy() < target.busy());
    let first_kinds: Vec<_> = done.iter().take(3).map(|done| done.op.kind).collect();
    assert_eq!(first_kinds, [OpKind::Read, OpKind::Write, OpKind::Read], "in the order of time");
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
fn a_queue_goes_on_while_nobody_looks() {
    let clock = SimClock::new();
    let disk = SimDisk::new(&clock, SimDiskModel::default(), 1);
    let file = disk.pattern_file(8192, 1);
    let mut engine = SimEngine::new(&clock, 3, 1);
    for _ in 0..3 {
        engine.start(read_op(&file, 0, 512)).unwrap();
    }
    clock.advance_to(Duration::from_secs(1));
    let mut done = Vec::new();
    engine.finish(0, &mut done).unwrap();
    assert_eq!(done.len(), 3);
    assert!(disk.trace().span().unwrap().1 < Duration::from_millis(1));
    assert_eq!(clock.now(), Duration::from_secs(1));
}

#[test]
fn an_operation_without_an_engine_takes_its_time_too() {
    let disk = plain(1);
    let file = disk.pattern_file(MIB as u64, 1);
    assert_eq!(file.transfer(&mut read_op(&file, 0, MIB)), Ok(MIB));
    let expected = Duration::from_micros(100) + Duration::from_nanos(976_562);
    assert_eq!(disk.trace().entries[0].end, expected);
    file.set_size(3).unwrap();
    assert_eq!(disk.trace().span(), Some((Duration::ZERO, expected + Duration::from_micros(100))));
}

#[test]
fn a_full_engine_hands_the_operation_back() {
    let disk = plain(1);
    let file = disk.file(&[1; 512]);
    let mut engine = SimEngine::new(&SimClock::new(), 1, 1);
    engine.start(read_op(&file, 0, 512)).unwrap();
    let back = engine.start(Op { ticket: 77, ..read_op(&file, 0, 512) }).unwrap_err();
    assert_eq!((back.ticket, engine.in_flight(), disk.operations()), (77, 1, 1));
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
    engine.start(op(OpKind::Write, &file, 0, Some(memory(&[4; 1024])))).unwrap();
    let mut done = Vec::new();
    engine.finish(1, &mut done).unwrap();
    assert_eq!(done[0].result, Ok(1024));
    assert_eq!(file.contents(), [4; 1024]);
    assert_eq!(disk.trace().entries[0].action, SimAction::Transfer(OpKind::Write));
}

#[test]
fn an_engine_that_goes_away_has_done_what_it_took() {
    let clock = SimClock::new();
    let file = SimDisk::new(&clock, SimDiskModel::default(), 1).file(&[]);
    let mut engine = SimEngine::new(&clock, 2, 1);
    engine.start(op(OpKind::Write, &file, 0, Some(memory(&[4; 1024])))).unwrap();
    drop(engine);
    assert_eq!(file.contents(), [4; 1024]);
}

/// Copies with `depth` operations in flight. With one, reads and writes alternate.
fn copy(depth: usize) -> (Duration, Duration, Duration) {
    let clock = SimClock::new();
    let (source, target) = (
        SimDisk::new(&clock, SimDiskModel::default(), 1),
        SimDisk::new(&clock, SimDiskModel::default(), 2),
    );
    let (from, to) = (source.pattern_file(100 * MIB as u64, 9), target.file(&[]));
    let mut engine = SimEngine::new(&clock, depth, 1);
    let pool = Pool::new(MIB, depth).unwrap();
    let (mut next, mut done) = (0, Vec::new());
    loop {
        while next < 100 && engine.in_flight() < depth {
            let mem = pool.try_take().unwrap().into_mem(0..MIB);
            engine.start(op(OpKind::Read, &from, next * MIB as u64, Some(mem))).unwrap();
            next += 1;
        }
        if engine.finish(1, &mut done).is_ok() && done.is_empty() {
            break;
        }
        for Done { op: finished, result } in done.drain(..) {
            assert_eq!(result, Ok(MIB));
            if finished.kind == OpKind::Read {
                engine.start(op(OpKind::Write, &to, finished.offset, finished.mem)).unwrap();
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
    assert!(
        alternating.as_secs_f64() > 1.9 * overlapped.as_secs_f64(),
        "{alternating:?} {overlapped:?}"
    );
    assert!(read.min(written).as_secs_f64() > 0.95 * overlapped.as_secs_f64());
}

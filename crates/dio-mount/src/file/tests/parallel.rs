//! Many threads, modes and handles at once.

use std::sync::atomic::{AtomicBool, Ordering};

use dio_test::{Rng, Seed, file_systems};

use super::*;
use crate::stats::{RequestKind, Wait};

const RECORD: u64 = 4096;
const RECORDS: u64 = 256;

/// Returns a record: its number, followed by bytes that all equal `round`.
fn record(number: u64, round: u8) -> Vec<u8> {
    let mut bytes = vec![round; RECORD as usize];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes
}

fn check(bytes: &[u8], number: u64) {
    assert_eq!(bytes[..8], number.to_le_bytes());
    assert!(bytes[8..].iter().all(|byte| *byte == bytes[8]), "a torn record");
}

/// In direct mode overlapping requests exclude each other. So no record is ever torn, whatever
/// other handles are open and whether the bytes come from read-ahead.
#[test]
fn records_are_never_torn() {
    let seed = Seed::new();
    for policy in [LockPolicy::Range, LockPolicy::WholeFile] {
        let directory = file_systems()[0].dir();
        let bench = Bench::new(directory.path(), settings(), policy, false);
        let all: Vec<u8> = (0..RECORDS).flat_map(|number| record(number, 0)).collect();
        std::fs::write(bench.path(1), &all).unwrap();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for writer in 0..2 {
                let (bench, over, mut rng) = (&bench, &over, seed.stream(writer));
                scope.spawn(move || write_records(bench, over, &mut rng));
            }
            let readers = (0..2).map(|reader| {
                let (bench, mut rng) = (&bench, seed.stream(100 + reader));
                scope.spawn(move || read_records(bench, &mut rng, reader == 0))
            });
            let readers: Vec<_> = readers.collect();
            readers.into_iter().for_each(|reader| reader.join().unwrap());
            over.store(true, Ordering::Relaxed);
        });
    }
}

fn write_records(bench: &Bench, over: &AtomicBool, rng: &mut Rng) {
    let handle = bench.open(1, OFlags::RDWR, Mode::Direct).unwrap();
    let mut round = 1;
    while !over.load(Ordering::Relaxed) {
        let number = rng.range(0..RECORDS);
        bench.write(handle, 1, number * RECORD, &record(number, round), PLAIN).unwrap();
        round = round.wrapping_add(1);
        if rng.bool(0.01) {
            bench.files.sync(handle, true).unwrap();
        }
    }
    bench.files.flush(handle).unwrap();
    bench.files.release(handle);
}

fn read_records(bench: &Bench, rng: &mut Rng, in_order: bool) {
    for _ in 0..4 {
        let handle = bench.open(1, OFlags::RDONLY, Mode::Direct).unwrap();
        for step in 0..RECORDS {
            let number = if in_order { step } else { rng.range(0..RECORDS) };
            check(&bench.read(handle, 1, number * RECORD, RECORD as u32).unwrap(), number);
        }
        bench.files.release(handle);
    }
}

/// Writers of one file that is locked as a whole write one after the other, and the writers that
/// wait are counted. With range locks no writer waits.
#[test]
fn who_waits_for_the_file_is_counted() {
    const WRITERS: u64 = 6;
    let counted = |policy| {
        let directory = file_systems()[0].dir();
        let bench = Bench::new(directory.path(), settings(), policy, false);
        let file = std::fs::File::create(bench.path(1)).unwrap();
        file.write_all_at(&vec![0; (WRITERS * RECORD) as usize], 0).unwrap();
        file.sync_all().unwrap();
        let gate = std::sync::Barrier::new(WRITERS as usize);
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let (bench, gate) = (&bench, &gate);
                scope.spawn(move || {
                    let handle =
                        bench.open(1, OFlags::RDWR | OFlags::DIRECT, Mode::Direct).unwrap();
                    gate.wait();
                    for round in 0..100 {
                        bench
                            .write(handle, 1, writer * RECORD, &record(writer, round), PLAIN)
                            .unwrap();
                    }
                    bench.files.release(handle);
                });
            }
        });
        let all = std::fs::read(bench.path(1)).unwrap();
        let records = all.chunks(RECORD as usize).zip(0..);
        records.for_each(|(bytes, number)| assert_eq!(bytes, record(number, 99)));
        bench.stats.snapshot().total
    };
    let whole = counted(LockPolicy::WholeFile);
    let (waits, requests) = (whole.waits.get(Wait::File), whole.requests.get(RequestKind::Write));
    assert_eq!(requests, WRITERS * 100);
    assert!(waits > requests / 4 && waits <= requests, "{whole:?}");
    assert!(
        whole.waited.get(Wait::File) <= whole.nanos.get(RequestKind::Write),
        "the time of a request has that in it: {whole:?}"
    );
    let ranges = counted(LockPolicy::Range);
    assert_eq!((ranges.waits.get(Wait::File), ranges.waits.get(Wait::Range)), (0, 0), "{ranges:?}");
}

/// A request that a program waits for until the device has done it is counted once as blocked on
/// the device. A request that is acknowledged before, or whose bytes are in memory already, is not
/// counted.
#[test]
fn who_waits_for_the_device_is_counted() {
    let directory = file_systems()[0].dir();
    let bench = Bench::new(directory.path(), settings(), LockPolicy::Range, false);
    std::fs::write(bench.path(1), vec![1; 1 << 20]).unwrap();
    let waits = || bench.stats.snapshot().total.waits.get(Wait::Device);
    let direct = bench.open(1, OFlags::RDWR | OFlags::DIRECT, Mode::Direct).unwrap();
    for step in 0..5 {
        bench.read(direct, 1, step * 8192, 4096).unwrap();
        bench.write(direct, 1, step * 8192, &[2; 4096], PLAIN).unwrap();
    }
    bench.files.sync(direct, true).unwrap();
    assert_eq!(waits(), 11);
    bench.files.release(direct);
    std::fs::write(bench.path(2), b"").unwrap();
    let behind = bench.open(2, OFlags::RDWR, Mode::Direct).unwrap();
    (0..16).for_each(|step| {
        assert_eq!(bench.write(behind, 2, step * 4096, &[3; 4096], PLAIN), Ok(4096))
    });
    assert_eq!(waits(), 11, "they were acknowledged before they were written");
    bench.files.sync(behind, true).unwrap();
    assert_eq!(waits(), 12);
    let ahead = bench.open(1, OFlags::RDONLY, Mode::Direct).unwrap();
    (0..256).for_each(|step| drop(bench.read(ahead, 1, step * 4096, 4096).unwrap()));
    assert!((13..100).contains(&waits()), "most were read ahead: {}", waits());
    let total = bench.stats.snapshot().total;
    let taken: u64 = RequestKind::ALL.into_iter().map(|kind| total.nanos.get(kind)).sum();
    assert!(
        total.waited.get(Wait::Device) > 0 && total.waited.get(Wait::Device) <= taken,
        "{total:?}"
    );
}

/// Several files are written in order, while cached handles are opened and closed and acknowledged
/// bytes are read.
#[test]
fn what_was_acknowledged_can_be_read_at_once() {
    let seed = Seed::new();
    let directory = file_systems()[0].dir();
    let bench = Bench::new(directory.path(), settings(), LockPolicy::Range, true);
    std::thread::scope(|scope| {
        for ino in 1..4 {
            std::fs::write(bench.path(ino), b"").unwrap();
            let (bench, mut rng) = (&bench, seed.stream(ino));
            scope.spawn(move || {
                let writer = bench.open(ino, OFlags::WRONLY, *rng.pick(&Mode::ALL)).unwrap();
                let reader = bench.open(ino, OFlags::RDONLY, *rng.pick(&Mode::ALL)).unwrap();
                for number in 0..500 {
                    bench
                        .write(writer, ino, number * RECORD, &record(number, ino as u8), PLAIN)
                        .unwrap();
                    if rng.bool(0.1) {
                        let back = rng.range(0..number + 1);
                        check(
                            &bench.read(reader, ino, back * RECORD, RECORD as u32).unwrap(),
                            back,
                        );
                    }
                    if rng.bool(0.05) {
                        let cached = bench.open(ino, OFlags::RDONLY, Mode::Cached).unwrap();
                        check(
                            &bench.read(cached, ino, number * RECORD, RECORD as u32).unwrap(),
                            number,
                        );
                        bench.files.release(cached);
                    }
                }
                bench.files.flush(writer).unwrap();
                bench.files.release(writer);
                bench.files.release(reader);
                let all = std::fs::read(bench.path(ino)).unwrap();
                all.chunks(RECORD as usize)
                    .zip(0..500)
                    .for_each(|(bytes, number)| check(bytes, number));
            });
        }
    });
}

/// Small writes anywhere in a file are acknowledged before they are written. They can be read at
/// once, and are in the source when the file is synced.
#[test]
fn scattered_writes_are_there_at_once_and_written_by_the_next_sync() {
    let seed = Seed::new();
    for fs in file_systems() {
        let directory = fs.dir();
        let bench = Bench::new(directory.path(), settings(), LockPolicy::Range, false);
        std::fs::write(bench.path(1), vec![0; (RECORDS * RECORD) as usize]).unwrap();
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let (bench, name, mut rng) = (&bench, &fs.name, seed.stream(writer));
                scope.spawn(move || {
                    let handle = bench.open(1, OFlags::RDWR, Mode::Concurrent).unwrap();
                    for round in 1..100 {
                        // Each writer has records of its own.
                        let number = rng.range(0..RECORDS / 4) * 4 + writer;
                        bench
                            .write(handle, 1, number * RECORD, &record(number, round), PLAIN)
                            .unwrap();
                        let found = bench.read(handle, 1, number * RECORD, RECORD as u32).unwrap();
                        assert_eq!(found, record(number, round), "{name}");
                    }
                    bench.files.sync(handle, true).unwrap();
                });
            }
        });
        let scattered = bench.events(Event::WriteBehind);
        assert!(
            scattered > 300,
            "{}: only {scattered} of 396 writes were acknowledged early",
            fs.name
        );
        assert_eq!(scattered, bench.events(Event::WriteBehindWritten));
        let found = std::fs::read(bench.path(1)).unwrap();
        for (number, bytes) in
            found.chunks(RECORD as usize).enumerate().filter(|(_, bytes)| bytes[8] != 0)
        {
            check(bytes, number as u64);
        }
    }
}

/// With file locks a write excludes other I/O until it is written, so no write is acknowledged
/// early.
#[test]
fn file_locks_scatter_nothing() {
    let directory = file_systems()[0].dir();
    let bench = Bench::new(directory.path(), settings(), LockPolicy::WholeFile, false);
    std::fs::write(bench.path(1), vec![0; (RECORDS * RECORD) as usize]).unwrap();
    let handle = bench.open(1, OFlags::RDWR, Mode::Direct).unwrap();
    for number in [7, 3, 200] {
        bench.write(handle, 1, number * RECORD, &record(number, 1), PLAIN).unwrap();
    }
    assert_eq!(bench.events(Event::WriteBehind), 0);
}

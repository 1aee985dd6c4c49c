//! The log on real files: records that were appended are read, and are found again, with every
//! method, direct and cached.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use dio_test::{Rng, Seed};
use dio_wal::storage::Directory;
use dio_wal::{Log, Lsn, Method, Options, Reader, TornWrites, WalError};

fn small(method: Method, direct: bool) -> Options {
    let mut options = Options::new();
    options.method(method).direct(direct).segment(256 << 10).buffer(32 << 10).write_behind(2);
    options
}

fn read_all(path: &Path, direct: bool) -> Vec<(Lsn, Vec<u8>)> {
    let mut reader = Reader::open(path, direct, Lsn(0)).unwrap();
    let mut records = Vec::new();
    while let Some(record) = reader.next().unwrap() {
        records.push((record.lsn, record.data.to_vec()));
    }
    reader.check_end().unwrap();
    records
}

fn random_record(rng: &mut Rng) -> Vec<u8> {
    let longest = *rng.pick(&[1, 100, 5000, 100_000, 600_000]);
    let length = rng.range_usize(0..longest);
    rng.bytes(length)
}

#[test]
fn what_was_appended_is_there_under_every_method() {
    let seed = Seed::new();
    for fs in dio_test::file_systems() {
        for (method, direct) in
            Method::ALL.into_iter().flat_map(|method| [(method, true), (method, false)])
        {
            let dir = fs.dir();
            let mut rng = seed.rng();
            let mut records = Vec::new();
            for opening in 0..3 {
                let log = Log::open(dir.path(), &small(method, direct)).unwrap();
                assert_eq!(
                    log.recovery().records,
                    records.len() as u64,
                    "{method:?} {direct} opening {opening}"
                );
                for number in 0..40 {
                    let record = random_record(&mut rng);
                    let lsn = log.append(&record).unwrap();
                    records.push((lsn, record));
                    if number % 7 == 0 {
                        log.commit(lsn).unwrap();
                        assert!(log.flushed() > lsn);
                    }
                }
                let mut reader = log.reader(Lsn(0)).unwrap();
                let mut seen = 0;
                while let Some(record) = reader.next().unwrap() {
                    assert_eq!((record.lsn, record.data), (records[seen].0, &records[seen].1[..]));
                    seen += 1;
                }
                assert!(seen >= records.len() - 7);
                log.close().unwrap();
            }
            assert_eq!(read_all(dir.path(), direct), records, "{}: {method:?} {direct}", fs.name);
        }
    }
}

#[test]
fn the_longest_record_spans_many_segments() {
    let dir = dio_test::file_systems()[0].dir();
    let log =
        Log::open(dir.path(), &small(Method::Fdatasync, true).segment(1 << 20).clone()).unwrap();
    let longest = Seed::fixed(5).rng().bytes(64 << 20);
    let empty = log.append(b"").unwrap();
    let lsn = log.append(&longest).unwrap();
    assert!(matches!(log.append(&vec![0; (64 << 20) + 1]), Err(WalError::TooLong(_))));
    log.commit(lsn).unwrap();
    drop(log);
    let records = read_all(dir.path(), true);
    assert_eq!(records[0], (empty, Vec::new()));
    assert!(records[1] == (lsn, longest));
    assert_eq!(records.len(), 2);
}

#[test]
fn direct_segments_leave_no_pages_behind() {
    let mut judged = 0;
    for fs in dio_test::file_systems() {
        let dir = fs.dir();
        let log = Log::open(dir.path(), &small(Method::Fdatasync, true)).unwrap();
        for _ in 0..20 {
            let lsn = log.append(&[7; 40_000]).unwrap();
            log.commit(lsn).unwrap();
        }
        let mut reader = log.reader(Lsn(0)).unwrap();
        while reader.next().unwrap().is_some() {}
        log.close().unwrap();
        let probe = dio::File::open(dir.path().join("0000000000000000.wal")).unwrap();
        if probe.read_class().0 != dio::Class::Direct {
            continue;
        }
        judged += 1;
        let resident = || -> u64 {
            let names = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
            names.map(|path| dio_test::resident_pages(&path)).sum()
        };
        // If the kernel does not report what is direct, pages that went through the cache are
        // dropped at the next sync or close.
        if probe.geometry().directness() == dio::geometry::Directness::Reported {
            assert_eq!(resident(), 0, "{}", fs.name);
        }
        drop(reader);
        assert_eq!(resident(), 0, "{}", fs.name);
    }
    if judged == 0 {
        dio_test::skip!("no file system here has direct I/O");
    }
}

#[test]
fn truncated_segments_are_used_again() {
    let dir = dio_test::file_systems()[0].dir();
    let log = Log::open(dir.path(), small(Method::Fdatasync, true).spares(2)).unwrap();
    let mut kept = Vec::new();
    for round in 0..60u8 {
        let lsn = log.append(&vec![round; 50_000]).unwrap();
        log.commit(lsn).unwrap();
        kept.push((lsn, vec![round; 50_000]));
        if kept.len() > 6 {
            log.truncate_before(kept[3].0).unwrap();
            kept.drain(..3);
            assert_eq!(log.start(), kept[0].0);
            assert!(matches!(log.reader(Lsn(0)), Err(WalError::Truncated { .. })));
        }
        let segments = std::fs::read_dir(dir.path()).unwrap().count();
        assert!(segments <= 7, "{segments} files for some 350 kB in segments of 256 KiB");
    }
    log.close().unwrap();
    let log = Log::open(dir.path(), &small(Method::Fdatasync, true)).unwrap();
    assert!(log.recovery().records >= kept.len() as u64);
    let mut reader = log.reader(log.start()).unwrap();
    for (lsn, data) in &kept {
        let record = reader.next().unwrap().unwrap();
        assert_eq!((record.lsn, record.data), (*lsn, &data[..]));
    }
    assert!(reader.next().unwrap().is_none());
}

#[test]
fn many_threads_commit_together() {
    let dir = dio_test::file_systems()[0].dir();
    let log = Arc::new(Log::open(dir.path(), small(Method::Fdatasync, true).block(512)).unwrap());
    let threads: Vec<_> = (0..16u64)
        .map(|thread| {
            let log = Arc::clone(&log);
            std::thread::spawn(move || {
                for number in 0..50u64 {
                    let lsn = log
                        .append_vectored(&[&thread.to_le_bytes(), b"-", &number.to_le_bytes()])
                        .unwrap();
                    log.commit(lsn).unwrap();
                    assert!(log.flushed() > lsn);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    Arc::into_inner(log).unwrap().close().unwrap();
    let mut next = [0u64; 16];
    for (_, record) in read_all(dir.path(), true) {
        let thread = u64::from_le_bytes(record[..8].try_into().unwrap()) as usize;
        assert_eq!(record[9..], next[thread].to_le_bytes(), "of one thread in its order");
        next[thread] += 1;
    }
    assert_eq!(next, [50; 16]);
}

#[test]
fn a_callback_may_drop_the_log() {
    let dir = dio_test::file_systems()[0].dir();
    let options = small(Method::Fdatasync, true);
    let log = Arc::new(Log::open(dir.path(), &options).unwrap());
    let (dropped, was_dropped) = std::sync::mpsc::channel();
    let (go, may_go) = std::sync::mpsc::channel();
    let own = Arc::clone(&log);
    let callback = move |outcome: Result<(), WalError>| {
        may_go.recv().unwrap();
        drop(own);
        dropped.send(outcome.is_ok()).unwrap();
        // The storage is still in use.
        std::thread::sleep(std::time::Duration::from_millis(100));
    };
    log.commit_later(log.append(b"record").unwrap(), callback).unwrap();
    drop(log);
    go.send(()).unwrap();
    assert!(was_dropped.recv().unwrap());
    assert!(matches!(Log::open(dir.path(), &options), Err(WalError::InUse)));
    let opened = std::iter::repeat_with(|| Log::open(dir.path(), &options));
    let log = opened.take(10_000).find_map(|log| {
        std::thread::sleep(std::time::Duration::from_millis(1));
        log.ok()
    });
    assert_eq!(log.unwrap().recovery().records, 1);
}

#[test]
fn commits_may_be_told_later() {
    let dir = dio_test::file_systems()[0].dir();
    let log = Log::open(dir.path(), &small(Method::OpenDatasync, true)).unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    let mut last = Lsn(0);
    for number in 0..100 {
        let tell = tell.clone();
        last = log.append(&[number; 300]).unwrap();
        log.commit_later(last, move |outcome| tell.send((number, outcome)).unwrap()).unwrap();
    }
    let mut numbers: Vec<u8> = (0..100)
        .map(|_| told.recv().unwrap())
        .map(|(n, outcome)| (outcome.unwrap(), n).1)
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..100).collect::<Vec<u8>>());
    assert!(log.flushed() > last);
    assert!(matches!(log.commit(Lsn(1 << 40)), Err(WalError::NotAppended { .. })));
}

#[test]
fn one_writer_at_a_time() {
    let dir = dio_test::file_systems()[0].dir();
    let log = Log::open(dir.path(), &small(Method::Fsync, true)).unwrap();
    assert!(matches!(Log::open(dir.path(), &Options::new()), Err(WalError::InUse)));
    drop(log);
    Log::open(dir.path(), &Options::new()).unwrap();
}

/// Damage in durable records is an error that names the file and offset, and the sound records
/// around it can be salvaged.
#[test]
fn damage_is_not_taken_for_the_end() {
    use std::os::unix::fs::FileExt;
    let dir = dio_test::file_systems()[0].dir();
    let log = Log::open(dir.path(), &small(Method::Fdatasync, true)).unwrap();
    let lsns: Vec<Lsn> = (0..20u8)
        .map(|number| {
            let lsn = log.append(&vec![number; 30_000]).unwrap();
            log.commit(lsn).unwrap();
            lsn
        })
        .collect();
    let (segment, offset) = log.layout().locate(lsns[9].0 + 20_000);
    log.close().unwrap();
    let path = dir.path().join(dio_wal::format::segment_name(segment));
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(b"damage", offset).unwrap();
    drop(file);

    let Err(WalError::Damaged { segment: named, offset: at, lsn, .. }) =
        Log::open(dir.path(), &Options::new())
    else {
        panic!("not noticed");
    };
    let (place, place_offset) = (dio_wal::format::segment_name(segment), offset - 20_000);
    assert_eq!((named, lsn), (place, lsns[9]));
    assert_eq!(at, place_offset);

    let mut numbers = Vec::new();
    let storage = Arc::new(Directory::open(dir.path(), false, Method::Fdatasync).unwrap());
    let found = dio_wal::salvage::<WalError>(storage.clone(), |record| {
        numbers.push(record.data[0]);
        Ok(())
    })
    .unwrap();
    assert_eq!(numbers, (0..20).filter(|number| *number != 9).collect::<Vec<u8>>());
    assert_eq!(found.gaps.len(), 1);

    // Damage to the last commit is detected too, because the log was closed.
    file_with(&path, offset, &[9; 6]);
    let layout = Reader::open(dir.path(), false, Lsn(0)).unwrap().layout();
    let (segment, offset) = layout.locate(lsns[19].0 + 40);
    file_with(&dir.path().join(dio_wal::format::segment_name(segment)), offset, b"damage");
    assert!(matches!(Log::open(dir.path(), &Options::new()), Err(WalError::Damaged { lsn, .. })
            if lsn == lsns[19]));

    // The error names a missing segment.
    std::fs::remove_file(dir.path().join(dio_wal::format::segment_name(1))).unwrap();
    let Err(error @ WalError::Missing { .. }) = Log::open(dir.path(), &Options::new()) else {
        panic!("not noticed")
    };
    let (name, block) = (dio_wal::format::segment_name(1), layout.block_bytes());
    let first = layout.segment_start(1);
    let words = format!(
        "segment '{name}' is missing, and with it the log from its byte {block} (LSN {first}) on"
    );
    assert!(
        error.to_string().starts_with(&words) && error.to_string().contains("dio wal salvage"),
        "{error}"
    );
    let found = dio_wal::salvage::<WalError>(storage, |_| Ok(())).unwrap();
    assert!(found.records > 5 && found.records < 20, "{found:?}");
}

fn file_with(path: &Path, offset: u64, bytes: &[u8]) {
    use std::os::unix::fs::FileExt;
    std::fs::OpenOptions::new()
        .write(true)
        .open(path)
        .unwrap()
        .write_all_at(bytes, offset)
        .unwrap();
}

/// If the file system writes blocks wholly or not at all, small commits share them.
#[test]
fn blocks_are_gone_on_with_where_writes_are_not_torn() {
    let mut judged = 0;
    for fs in dio_test::file_systems() {
        let dir = fs.dir();
        let mut options = small(Method::RwfDsync, true);
        let log = Log::open(dir.path(), options.torn_writes(TornWrites::Atomic)).unwrap();
        if log.torn_writes() != TornWrites::Atomic {
            continue;
        }
        judged += 1;
        let mut reader = log.reader(Lsn(0)).unwrap();
        for number in 0..200u8 {
            let lsn = log.append(&[number; 80]).unwrap();
            log.commit(lsn).unwrap();
            assert_eq!(reader.next().unwrap().unwrap().data, [number; 80]);
        }
        let blocks = log.end().0.div_ceil(log.layout().block_bytes());
        assert!(blocks * log.layout().block_bytes() < 200 * 200, "{}: {blocks} blocks", fs.name);
        drop(log);
        assert_eq!(read_all(dir.path(), true).len(), 200);
    }
    if judged == 0 {
        dio_test::skip!("no file system here writes blocks whole or not at all");
    }
}

/// A reader that outlives its log does not prevent another opening, and continues to read as long
/// as its segments exist.
#[test]
fn a_reader_keeps_no_lock() {
    for close in [true, false] {
        let dir = dio_test::file_systems()[0].dir();
        let options = small(Method::Fdatasync, true);
        let log = Log::open(dir.path(), &options).unwrap();
        let lsns: Vec<Lsn> = (0..20u8)
            .map(|number| {
                let lsn = log.append(&vec![number; 30_000]).unwrap();
                log.commit(lsn).unwrap();
                lsn
            })
            .collect();
        let mut reader = log.reader(Lsn(0)).unwrap();
        assert_eq!(reader.next().unwrap().unwrap().lsn, lsns[0]);
        assert!(matches!(Log::open(dir.path(), &options), Err(WalError::InUse)));
        if close {
            log.close().unwrap();
        } else {
            drop(log);
        }
        let log = Log::open(dir.path(), &options).unwrap();
        assert_eq!(reader.next().unwrap().unwrap().lsn, lsns[1]);
        // Segments of the reader's log are reused.
        for number in 0..40 {
            let lsn = log.append(&vec![number; 30_000]).unwrap();
            log.truncate_before(lsn).unwrap();
        }
        // Records that were read ahead may still be returned.
        let error = loop {
            match reader.next() {
                Ok(record) => assert!(record.is_some()),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, WalError::Truncated { .. }), "{error}");
    }
}

/// A failed opening releases the lock, although its storage still exists.
#[test]
fn a_failed_opening_keeps_no_lock() {
    let dir = dio_test::file_systems()[0].dir();
    let storage = Arc::new(Directory::open(dir.path(), true, Method::Fdatasync).unwrap());
    let wrong = Log::open_on(storage.clone(), Options::new().segment(1000)).map(|_| ());
    assert!(matches!(wrong, Err(WalError::Options(_))), "{wrong:?}");
    Log::open(dir.path(), &Options::new()).unwrap().close().unwrap();
    drop(storage);
}

/// A reader in another process that truncation overtakes gets an error that says so, and not that
/// the log is damaged.
#[test]
fn a_reader_that_was_overtaken_is_told() {
    let dir = dio_test::file_systems()[0].dir();
    let log = Log::open(dir.path(), &small(Method::Fdatasync, true)).unwrap();
    let append = |number: u8| {
        let lsn = log.append(&vec![number; 60_000]).unwrap();
        log.commit(lsn).unwrap();
        lsn
    };
    append(0);
    let mut reader = Reader::open(dir.path(), false, Lsn(0)).unwrap();
    assert_eq!(reader.next().unwrap().unwrap().data[0], 0);
    assert!(reader.next().unwrap().is_none());
    reader.check_end().unwrap();
    append(1);
    reader.check_end().unwrap();
    for number in 2..40 {
        let lsn = append(number);
        log.truncate_before(lsn).unwrap();
    }
    // Records of the open segment may still be read.
    let outcome = loop {
        match reader.next() {
            Ok(Some(_)) => {}
            Ok(None) => break reader.check_end(),
            Err(error) => break Err(error),
        }
    };
    assert!(matches!(outcome, Err(WalError::Truncated { .. })), "{outcome:?}");
}

/// The windows of this log are large enough to be read ahead.
#[test]
fn a_long_log_is_read_ahead_and_nothing_stale_is_taken() {
    let seed = Seed::new();
    let mut rng = seed.rng();
    let dir = dio_test::file_systems()[0].dir();
    let mut options = Options::new();
    options.segment(3 << 20).buffer(256 << 10).idle_mark(None);
    let log = Log::open(dir.path(), &options).unwrap();
    let mut records = Vec::new();
    // One reader follows the writer closely, within windows that it has already read; another one
    // belongs to another opening.
    let (mut follower, mut outsider) = (log.reader(Lsn(0)).unwrap(), None);
    let (mut followed, mut seen) = (0, 0);
    while log.end().0 < 24 << 20 {
        for _ in 0..rng.range_usize(1..30) {
            let record = random_record(&mut rng);
            records.push((log.append(&record).unwrap(), record));
        }
        log.commit(records[records.len() - 1].0).unwrap();
        if rng.range_usize(0..3) == 0 {
            while let Some(record) = follower.next().unwrap() {
                assert_eq!(
                    (record.lsn, record.data),
                    (records[followed].0, &records[followed].1[..])
                );
                followed += 1;
            }
            assert_eq!(followed, records.len());
            let outsider =
                outsider.get_or_insert_with(|| Reader::open(dir.path(), true, Lsn(0)).unwrap());
            while let Some(record) = outsider.next().unwrap() {
                assert_eq!((record.lsn, record.data), (records[seen].0, &records[seen].1[..]));
                seen += 1;
            }
            assert_eq!(seen, records.len());
        }
    }
    drop((follower, outsider));
    drop(log);
    for direct in [true, false] {
        assert!(read_all(dir.path(), direct) == records, "{direct}");
        assert_eq!(
            Log::open(dir.path(), &options).unwrap().recovery().records,
            records.len() as u64
        );
    }
    // Changes a byte of a record in a window that is read ahead.
    let victim =
        records.iter().rev().find(|(lsn, record)| lsn.0 < 12 << 20 && record.len() > 100).unwrap();
    let layout = Log::open(dir.path(), &options).unwrap().layout();
    let (number, offset) = layout.locate(victim.0.0 + 64);
    let name = dir.path().join(dio_wal::format::segment_name(number));
    let mut bytes = std::fs::read(&name).unwrap();
    bytes[offset as usize] ^= 1;
    std::fs::write(&name, bytes).unwrap();
    let outcome = Log::open(dir.path(), &options).map(|_| ());
    assert!(
        matches!(&outcome, Err(WalError::Damaged { lsn, .. }) if *lsn == victim.0),
        "{outcome:?} at {}",
        victim.0
    );
}

#[test]
fn a_log_that_is_truncated_meanwhile_is_opened_without_a_fault() {
    let dir = dio_test::file_systems()[0].dir();
    let mut options = Options::new();
    options.segment(64 << 10).buffer(16 << 10).block(512).idle_mark(None).spares(2);
    let log = Log::open(dir.path(), &options).unwrap();
    log.commit(log.append(b"first").unwrap()).unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Relaxed) {
                let mut last = log.append(&[1; 3000]).unwrap();
                for _ in 0..100 {
                    last = log.append(&[2; 3000]).unwrap();
                }
                log.commit(last).unwrap();
                log.truncate_before(Lsn(last.0 - (10 << 10))).unwrap();
            }
        });
        for opening in 0..300 {
            let outcome = Reader::open(dir.path(), false, log.flushed())
                .and_then(|reader| reader.bounds().map(drop));
            if let Err(error) = outcome {
                over.store(true, Relaxed);
                panic!("opening {opening}: {error}");
            }
        }
        over.store(true, Relaxed);
    });
}

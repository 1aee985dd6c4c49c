//! Space on the disk: how often data is written, what happens when there is no space, and how much
//! is read to begin in the middle.

use dio_wal::{Log, Lsn, Method, Options, Preallocate, Reader, WalError};

use crate::disk::{Disk, Event, Faults, Image};

const BLOCK: u64 = 512;

fn disk() -> Disk {
    let mut disk = Disk::new(Image::default(), Method::Fdatasync, BLOCK, false, 1);
    disk.sets_aside = true;
    disk
}

fn options() -> Options {
    let mut options = Options::new();
    options
        .segment(128 * BLOCK)
        .buffer(16 * BLOCK as usize)
        .write_behind(0)
        .prepare_in_background(false)
        .idle_mark(None);
    options
}

fn written(disk: &Disk) -> u64 {
    let lengths = disk.events().into_iter().map(|event| match event {
        Event::Write { bytes, .. } => bytes.len() as u64,
        _ => 0,
    });
    lengths.sum()
}

/// Large groups are written once. Small groups go into space that was filled with zeros before:
/// this costs as many bytes again, but few flushes have to change metadata.
#[test]
fn large_groups_are_written_once() {
    for (records, commit_every, most) in [(2000u64, 100, 1.05), (600, 1, 2.2)] {
        let disk = disk();
        let log = Log::open_on(disk.storage(), &options()).unwrap();
        let record = [7; 400];
        for number in 1..=records {
            let lsn = log.append(&record).unwrap();
            if number % commit_every == 0 {
                log.commit(lsn).unwrap();
            }
        }
        let (bytes, needed) = (written(&disk), log.end().0);
        assert!(
            bytes as f64 <= most * needed as f64,
            "{bytes} bytes were written for {needed} of log"
        );
        let whole = |event: &Event| {
            matches!(event, Event::Write { bytes, .. }
            if bytes.len() as u64 == 16 * BLOCK)
        };
        let large = disk.events().iter().filter(|event| whole(event)).count() as u64;
        if commit_every == 1 {
            // One commit in so many goes into unwritten space.
            assert!(
                large <= needed / (16 * BLOCK) + 10,
                "{large} of {records} commits wrote zeros too"
            );
        }
    }
}

/// If segments are filled with zeros when they are made, each is filled once, and a commit writes
/// only its own blocks: into filled segments, and into those that truncation gave back, which are
/// not filled again.
#[test]
fn segments_are_filled_when_they_are_made() {
    let disk = disk();
    let mut options = options();
    let log =
        Log::open_on(disk.storage(), options.preallocate(Preallocate::Zeros).spares(2)).unwrap();
    let writes = |from: usize| {
        let length = |event: Event| match event {
            Event::Write { bytes, .. } => Some(bytes.len() as u64),
            _ => None,
        };
        disk.events().into_iter().skip(from).filter_map(length).collect::<Vec<u64>>()
    };
    assert_eq!(
        writes(0).iter().sum::<u64>(),
        128 * BLOCK + BLOCK,
        "zeros, and the header over them"
    );
    let (mut made, mut last) = (1, Lsn(0));
    for round in 0..4 {
        for _ in 0..127 {
            let before = disk.happened();
            last = log.append(&[7; 400]).unwrap();
            log.commit(last).unwrap();
            match writes(before)[..] {
                [BLOCK] => {}
                // A segment that was given back.
                [BLOCK, BLOCK] => assert!(round > 1),
                _ => {
                    assert_eq!(writes(before).iter().sum::<u64>(), 130 * BLOCK);
                    made += 1;
                }
            }
        }
        if round > 0 {
            log.truncate_before(last).unwrap();
        }
    }
    assert!((2..=3).contains(&made), "{made} segments were filled");
}

/// Zeros in the background stay behind the appended records, whatever the threads do.
#[test]
fn zeros_in_the_background_harm_nothing() {
    let seed = dio_test::Seed::new();
    for round in 0..20 {
        let disk = disk();
        disk.set_faults(Faults { slow: true, ..Faults::default() });
        let mut options = options();
        let log = Log::open_on(
            disk.storage(),
            options.prepare_in_background(true).write_behind(2).buffer(4 * BLOCK as usize),
        )
        .unwrap();
        let mut random = seed.stream(round);
        let mut records = Vec::new();
        for _ in 0..60 {
            let longest = *random.pick(&[10, 300, 300, 300, 6000]);
            let length = random.range_usize(0..longest);
            let data = random.bytes(length);
            let lsn = log.append(&data).unwrap();
            records.push((lsn.0, data));
            if random.bool(0.7) {
                log.commit(lsn).unwrap();
            }
        }
        log.commit(Lsn(records[59].0)).unwrap();
        assert_eq!(crate::read(&log).unwrap().1, records);
        drop(log);
        let log = Log::open_on(disk.storage(), &options).unwrap();
        assert_eq!(crate::read(&log).unwrap().1, records);
    }
}

/// Without space an append fails with the reason, appended records can be committed, and truncation
/// makes space.
#[test]
fn a_full_disk_is_survived() {
    for spares in [0, 1] {
        let disk = disk();
        let mut options = options();
        let log = Log::open_on(disk.storage(), options.segment(8 * BLOCK).spares(spares)).unwrap();
        disk.set_faults(Faults { full: (4, 1000), ..Faults::default() });
        let mut appended = Vec::new();
        let error = loop {
            match log.append(&[appended.len() as u8; 700]) {
                Ok(lsn) => appended.push(lsn),
                Err(error) => break error,
            }
            if appended.len() % 4 == 0 {
                log.commit(appended[appended.len() - 1]).unwrap();
            }
        };
        assert_eq!(
            error.to_string(),
            "cannot allocate space for '0000000000000004.wal.new': No space left on device (os \
             error 28)"
        );
        assert!(matches!(log.append(&[1; 700]), Err(WalError::Io { .. })), "still none");
        assert!(
            !disk.live().names.keys().any(|name| name.ends_with(".new")),
            "what was begun holds no room"
        );
        let last = appended[appended.len() - 1];
        log.commit(last).unwrap();
        // All appended records are still there.
        assert_eq!(crate::read(&log).unwrap().1.len(), appended.len());
        log.truncate_before(last).unwrap();
        if spares == 0 {
            assert!(log.append(&[1; 700]).is_err());
            disk.set_faults(Faults::default());
        }
        let lsn = log.append(&[99; 1500]).unwrap();
        log.commit(lsn).unwrap();
        log.close().unwrap();
        let log = Log::open_on(disk.storage(), &options).unwrap();
        let found = crate::read(&log).unwrap().1;
        assert_eq!(found.iter().map(|(lsn, _)| *lsn).collect::<Vec<_>>(), [last.0, lsn.0]);
    }
}

/// A failed sync of the directory is different: a name may be lost, and nothing is acknowledged any
/// more.
#[test]
fn a_segment_whose_name_may_be_lost_is_not_used() {
    let disk = disk();
    let log = Log::open_on(disk.storage(), options().segment(8 * BLOCK)).unwrap();
    let lsn = log.append(&[1; 700]).unwrap();
    log.commit(lsn).unwrap();
    disk.set_faults(Faults { names: true, ..Faults::default() });
    let error = loop {
        if let Err(error) = log.append(&[2; 700]) {
            break error;
        }
    };
    assert!(matches!(&error, WalError::Failed { durable, .. } if *durable > lsn), "{error}");
    disk.set_faults(Faults::default());
    if let Ok(lsn) = log.append(&[3; 10]) {
        assert!(matches!(log.commit(lsn), Err(WalError::Failed { .. })));
    }
}

/// If a truncation could remove only some of its segments, the next one continues it. Segments that
/// another process has removed count as removed.
#[test]
fn a_truncation_that_failed_half_way_is_gone_on_with() {
    for spares in [0, 2, 8] {
        for fails in 0..5 {
            let disk = disk();
            let mut options = options();
            let log =
                Log::open_on(disk.storage(), options.segment(8 * BLOCK).spares(spares)).unwrap();
            let mut last = Lsn(0);
            while log.end().0 < 45 * BLOCK {
                last = log.append(&[1; 700]).unwrap();
                log.commit(last).unwrap();
            }
            let segments = || {
                disk.live()
                    .names
                    .into_keys()
                    .filter(|name| name.ends_with(".wal"))
                    .collect::<Vec<_>>()
            };
            let before = segments();
            assert!(before.len() > 6, "{before:?}");
            disk.set_faults(Faults { moves: (fails, fails + 1), ..Faults::default() });
            let error = log.truncate_before(last).unwrap_err();
            assert!(matches!(error, WalError::Io { .. }), "{error}");
            assert_eq!((log.start(), segments()), (last, before[fails as usize..].to_vec()));
            // Another process removes one of the remaining segments.
            disk.storage().delete(&before[4]).unwrap();
            for _ in 0..2 {
                log.truncate_before(last).unwrap();
                assert!(
                    segments().iter().all(|name| *name > before[4]),
                    "{spares} {fails}: {:?}",
                    segments()
                );
            }
            let kept =
                disk.live().names.into_keys().filter(|name| name.ends_with(".spare")).count();
            assert!(kept <= spares, "{kept}");
            for number in 0..40 {
                last = log.append(&[number; 700]).unwrap();
                log.commit(last).unwrap();
                log.truncate_before(last).unwrap();
            }
            drop(log);
            let log = Log::open_on(disk.storage(), &options).unwrap();
            assert_eq!(crate::read(&log).unwrap().1, [(last.0, vec![39; 700])]);
        }
    }
}

/// A reader that begins in the middle of a segment reads little more than what it returns.
#[test]
fn reading_begins_where_it_is_asked_to() {
    let disk = disk();
    let log = Log::open_on(disk.storage(), options().segment(1024 * BLOCK)).unwrap();
    let lsns: Vec<Lsn> = (0..900u32)
        .map(|number| {
            let lsn = log.append(&number.to_le_bytes()).unwrap();
            log.commit(lsn).unwrap();
            lsn
        })
        .collect();
    let check = |mut reader: Reader, number: usize| {
        let (before, first) = (disk.read(), reader.next().unwrap().unwrap());
        assert_eq!((first.lsn, first.data), (lsns[number], &(number as u32).to_le_bytes()[..]));
        let mut next = number + 1;
        while let Some(record) = reader.next().unwrap() {
            assert_eq!(record.lsn, lsns[next]);
            next += 1;
        }
        assert_eq!(next, 900);
        before
    };
    for number in [899, 898, 700, 1, 0] {
        let before = disk.read();
        check(log.reader(lsns[number]).unwrap(), number);
        let reader = Reader::open_on(disk.storage(), lsns[number]).unwrap();
        let (opened, behind) = (check(reader, number) - before, 900 - number as u64);
        // 64 KiB of the backward search, the rest of the way, and one more read at the end, where
        // nothing was found.
        assert!(
            opened < (behind + 20) * 2 * BLOCK + (200 << 10),
            "{opened} bytes for {behind} blocks"
        );
    }
    let mut reader = Reader::open_on(disk.storage(), Lsn(u64::MAX)).unwrap();
    assert!(reader.next().unwrap().is_none());
    // A reader that tries repeatedly reads little each time, and gets everything new.
    let before = disk.read();
    assert!((0..10).all(|_| reader.next().unwrap().is_none()));
    assert!(
        disk.read() - before <= 10 * (64 << 10),
        "{} bytes for looking ten times",
        disk.read() - before
    );
    let lsn = log.append(&[9; 100_000]).unwrap();
    log.commit(lsn).unwrap();
    let mut reader = Reader::open_on(disk.storage(), lsn).unwrap();
    assert_eq!(reader.next().unwrap().unwrap().data, [9; 100_000]);
}

/// A reader does not begin in data that an earlier opening left behind the end of the log, even if
/// it is asked for an LSN there.
#[test]
fn a_reader_does_not_begin_in_what_was_cut_off() {
    let disk = disk();
    let log = Log::open_on(disk.storage(), &options()).unwrap();
    let lsns: Vec<Lsn> = (0..12u8)
        .map(|number| {
            let lsn = log.append(&[number; 100]).unwrap();
            log.commit(lsn).unwrap();
            lsn
        })
        .collect();
    drop(log);
    // The power cut lost the sixth block, but not the blocks behind it, which were in flight at the
    // same time.
    let mut image = disk.live();
    let file = image.names["0000000000000000.wal"];
    for block in 6..13 {
        let mark = &mut image.files[file][(block * BLOCK) as usize..];
        // Makes the marks say that nothing was known to be durable.
        mark[24 + 24..24 + 32].fill(0);
        let crc = crc32c::crc32c_append(log_tag(&mark[24..40]), &mark[24..64]);
        let crc = crc32c::crc32c_append(crc, &mark[4..24]);
        mark[..4].copy_from_slice(&crc.to_le_bytes());
    }
    let disk = Disk::new(image, Method::Fdatasync, BLOCK, false, 2);
    let reader = Reader::open_on(disk.storage(), Lsn(0));
    let mut reader = reader.unwrap();
    let mut end = Lsn(0);
    while let Some(record) = reader.next().unwrap() {
        end = record.lsn;
    }
    assert!(end < lsns[7], "the chain ends at the changed marks");
    for from in &lsns[7..] {
        let mut reader = Reader::open_on(disk.storage(), *from).unwrap();
        assert_eq!(reader.next().unwrap(), None, "from {from}");
    }
}

fn log_tag(identity: &[u8]) -> u32 {
    dio_wal::Identity(identity.try_into().unwrap()).checksum_seed()
}

/// A log that was not closed, but was idle for a moment, also has a mark at its end.
#[test]
fn damage_behind_an_idle_mark_is_told_from_the_end() {
    for (idle, noticed) in [(Some(std::time::Duration::from_millis(20)), true), (None, false)] {
        let disk = disk();
        let mut options = options();
        let log = Log::open_on(disk.storage(), options.idle_mark(idle)).unwrap();
        log.commit(log.append(&[1; 100]).unwrap()).unwrap();
        let last = log.append(&[2; 100]).unwrap();
        log.commit(last).unwrap();
        let end = log.end();
        if noticed {
            let began = std::time::Instant::now();
            while log.flushed() == end {
                assert!(began.elapsed().as_secs() < 60, "no mark");
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            let marked = log.end();
            std::thread::sleep(std::time::Duration::from_millis(100));
            assert_eq!(log.end(), marked, "one is enough");
        }
        let mut image = disk.live();
        drop(log);
        let (_, offset) = dio_wal::Layout::new(512, 128 * BLOCK).unwrap().locate(last.0);
        let file = image.names["0000000000000000.wal"];
        image.files[file][offset as usize + 30] ^= 1;
        let damaged = Disk::new(image, Method::Fdatasync, BLOCK, false, 3);
        let opened = Log::open_on(damaged.storage(), &options);
        assert_eq!(matches!(opened, Err(WalError::Damaged { lsn, .. }) if lsn == last), noticed);
    }
}

//! Power cuts, by the thousand: random histories of appends, commits, truncations, segment changes
//! and failing syncs are recorded on a simulated disk, the power is cut after some of the events
//! with some of the volatile data lost, and recovery must find everything that was acknowledged and
//! nothing that was not appended. The check itself was verified by breaking the log on purpose in
//! some fifteen ways.
//!
//! `DIO_WAL_HISTORIES` sets the number of histories, `DIO_SEED` repeats a run, `DIO_WAL_ONLY`
//! repeats one history of it.

mod disk;
mod fuzz;
mod history;
mod panics;
mod power;
mod space;

use std::time::Instant;

use dio_test::{Rng, Seed};
use dio_wal::{Log, TornWrites, WalError};

use disk::{Event, Faults, Image};
use history::{Found, History, Promise, Setting, random_faults, read};
use power::Cut;

const HISTORIES: u64 = 240;
const STEPS: usize = 22;

#[derive(Default)]
struct Tally {
    states: u64,
    again: u64,
}

/// Opens the log that a power cut left, and checks it.
fn recover(
    setting: &Setting,
    image: Image,
    history: &History,
    promise: &Promise,
    seed: u64,
) -> Result<(disk::Disk, History), String> {
    let disk = setting.disk(image, seed);
    let log = Log::open_on(disk.storage(), &setting.options())
        .map_err(|error| format!("cannot open: {error}"))?;
    let (start, found) = read(&log).map_err(|error| format!("cannot read: {error}"))?;
    let found_start = log.recovery().start.0;
    if log.recovery().records < found.len() as u64 || found_start != start {
        return Err(format!(
            "recovery says {:?}, and {} records are read",
            log.recovery(),
            found.len()
        ));
    }
    Ok((disk, history.judge(promise, start, &found)?))
}

/// Cuts the power during and after a recovery: a second recovery must have the same result.
fn cut_recovery(
    setting: &Setting,
    image: &Image,
    recovered: &History,
    events: &[Event],
    random: &mut Rng,
    tally: &mut Tally,
) {
    let mut cut = Cut::new(image.clone());
    for (number, event) in events.iter().enumerate() {
        cut.apply(number, event);
        if random.bool(0.5) {
            cut.images(random, 2, |image| {
                let (_, again) = recover(setting, image, recovered, &recovered.now, number as u64)
                    .unwrap_or_else(|error| {
                        panic!("a second recovery after event {number}: {error}")
                    });
                assert_eq!(
                    again.records, recovered.records,
                    "a second recovery after event {number}"
                );
                tally.again += 1;
            });
        }
    }
}

/// A history and its disk.
struct Story<'a> {
    setting: &'a Setting,
    /// The first state of the disk.
    base: &'a Image,
    disk: &'a disk::Disk,
    history: &'a History,
    /// The power is cut behind the first of these events, up to the last.
    events: std::ops::Range<usize>,
}

/// Cuts the power at some of the events of a history, in some of the possible ways, and sometimes
/// continues the history from there.
fn cut_history(story: &Story<'_>, random: &mut Rng, depth: u32, tally: &mut Tally) {
    let Story { setting, base, disk, history, events: range } = story;
    let events = disk.events();
    let mut cut = Cut::new((*base).clone());
    for number in 0..=range.end {
        if number > 0 {
            cut.apply(number - 1, &events[number - 1]);
        }
        let chosen = random.bool(if depth == 0 { 0.4 } else { 0.06 }) || number == range.end;
        if number < range.start || !chosen {
            continue;
        }
        let promise = history.promised(number);
        let most = if depth == 0 { 6 } else { 3 };
        let mut images = Vec::new();
        cut.images(random, most, |image| images.push(image));
        for image in images {
            tally.states += 1;
            let seed = random.next_u64();
            let (opened, recovered) = recover(setting, image.clone(), history, &promise, seed)
                .unwrap_or_else(|error| {
                    let what = show(&events[..number]);
                    panic!(
                        "after event {number}: {error}\n{setting:?}\n{:?}\n{promise:?}\n{what}",
                        image.names
                    )
                });
            if random.bool(0.05) {
                cut_recovery(setting, &image, &recovered, &opened.events(), random, tally);
            }
            if depth < 2 && random.bool(0.08) {
                let mut next = recovered.clone();
                let disk = setting.disk(image.clone(), random.next_u64());
                tell(setting, &image, &disk, &mut next, STEPS / 2, random, depth + 1, tally);
            }
        }
    }
}

/// Runs a history on a disk and cuts the power in it. The process may also die with the power on,
/// and another one continue.
#[expect(clippy::too_many_arguments, reason = "all of a test")]
fn tell(
    setting: &Setting,
    base: &Image,
    disk: &disk::Disk,
    history: &mut History,
    steps: usize,
    random: &mut Rng,
    depth: u32,
    tally: &mut Tally,
) {
    disk.set_faults(random_faults(random));
    history.run(disk, setting, random, steps);
    let died = disk.happened();
    if random.bool(0.6) {
        cut_history(&Story { setting, base, disk, history, events: 0..died }, random, depth, tally);
        return;
    }
    disk.set_faults(Faults::default());
    let (start, found, opened) = {
        let log = Log::open_on(disk.storage(), &setting.options())
            .expect("a log that nothing happened to");
        let (start, found) = read(&log).expect("what was recovered");
        (start, found, disk.happened())
    };
    cut_history(&Story { setting, base, disk, history, events: 0..opened }, random, depth, tally);
    let judged = history.judge(&history.promised(died), start, &found);
    let mut next =
        judged.unwrap_or_else(|error| panic!("after a process died: {error}\n{setting:?}"));
    next.run(disk, setting, random, steps / 2);
    let events = opened..disk.happened();
    cut_history(&Story { setting, base, disk, history: &next, events }, random, depth, tally);
}

fn histories() -> u64 {
    std::env::var("DIO_WAL_HISTORIES")
        .map_or(HISTORIES, |text| text.parse().expect("DIO_WAL_HISTORIES is a number"))
}

#[test]
fn no_power_cut_loses_what_was_acknowledged_or_makes_up_anything() {
    let seed = Seed::new();
    let only = std::env::var("DIO_WAL_ONLY")
        .ok()
        .map(|text| text.parse::<u64>().expect("DIO_WAL_ONLY is a number"));
    let (mut tally, began) = (Tally::default(), Instant::now());
    let numbers = only.map_or(0..histories(), |only| only..only + 1);
    for number in numbers {
        let mut random = seed.stream(number);
        let setting = Setting::number(number, &mut random);
        let disk = setting.disk(Image::default(), random.next_u64());
        let _told = Told(number);
        tell(
            &setting,
            &Image::default(),
            &disk,
            &mut History::new(),
            STEPS,
            &mut random,
            0,
            &mut tally,
        );
    }
    let seconds = began.elapsed().as_secs_f64();
    let Tally { states, again } = tally;
    println!(
        "{states} states after power cuts, {again} during recoveries, {:.0} a second",
        states as f64 / seconds
    );
    assert!(
        only.is_some() || histories() < HISTORIES || states >= 10_000,
        "{states} states are few"
    );
}

fn show(events: &[Event]) -> String {
    events
        .iter()
        .enumerate()
        .map(|(number, event)| match event {
            Event::Write { file, offset, bytes, .. } => {
                format!("{number} write {} bytes at {offset} of file {file}\n", bytes.len())
            }
            other => format!("{number} {other:?}\n"),
        })
        .collect()
}

/// Prints the number of the history when a test panics.
struct Told(u64);

impl Drop for Told {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("history {0}; repeat it alone with DIO_WAL_ONLY={0} and the seed", self.0);
        }
    }
}

/// A block whose predecessor was lost, and that was never acknowledged, does not come back when the
/// same records are appended before it again: a mark says which opening wrote it.
#[test]
fn what_was_cut_off_does_not_come_back() {
    let mut random = Seed::fixed(1).rng();
    let setting = Setting {
        method: dio_wal::Method::Fdatasync,
        block: 512,
        blocks_in_segment: 8,
        blocks_in_chunk: 1,
        ..Setting::number(0, &mut random)
    };
    let disk = setting.disk(Image::default(), 1);
    // Together with the mark the record fills a block, so that the next record begins in the next
    // block and needs no mark.
    let record = [7; 512 - 64 - 24];
    let log = Log::open_on(disk.storage(), &setting.options()).unwrap();
    let before = disk.happened();
    log.append(&record).unwrap();
    let lsn = log.append(&record).unwrap();
    log.commit(lsn).unwrap();
    let events = disk.events();
    let writes: Vec<usize> = (before..events.len())
        .filter(|number| matches!(events[*number], Event::Write { .. }))
        .collect();
    assert_eq!(writes.len(), 2);
    let mut cut = Cut::new(Image::default());
    events[..=writes[1]].iter().enumerate().for_each(|(number, event)| cut.apply(number, event));
    assert_eq!(cut.undecided(), 2);
    let disk = setting.disk(cut.image(|number| number == 1), 2);

    let log = Log::open_on(disk.storage(), &setting.options()).unwrap();
    assert_eq!(log.recovery().records, 0);
    let lsn = log.append(&record).unwrap();
    log.commit(lsn).unwrap();
    drop(log);
    let log = Log::open_on(disk.storage(), &setting.options()).unwrap();
    assert_eq!(log.recovery().records, 1, "a record of the first opening came back");
}

/// A record whose last byte lies in the next block does not come back when that block was lost,
/// even if the data written there later begins with the same byte: the padding zeros of the record
/// are missing there.
#[test]
fn a_record_whose_last_byte_was_lost_does_not_come_back() {
    let first_byte = after_a_lost_byte(1);
    assert_ne!(first_byte, 1, "by chance it is the same; choose another");
    assert_ne!(first_byte, 0, "zeros are what the block held before");
    after_a_lost_byte(first_byte);
}

/// Loses the block with the last byte of a record, writes another block there, and returns the
/// first byte of that block.
fn after_a_lost_byte(last: u8) -> u8 {
    const BLOCK: usize = 512;
    let mut random = Seed::fixed(1).rng();
    let method = dio_wal::Method::Fdatasync;
    let setting = Setting {
        method,
        block: BLOCK as u64,
        blocks_in_segment: 8,
        blocks_in_chunk: 1,
        ..Setting::number(0, &mut random)
    };
    let disk = setting.disk(Image::default(), 1);
    let log = Log::open_on(disk.storage(), &setting.options()).unwrap();
    let lsn = log.append(b"before").unwrap();
    log.commit(lsn).unwrap();
    let mut record = vec![7; BLOCK - 64 - 24 + 1];
    record[BLOCK - 64 - 24] = last;
    let lsn = log.append(&record).unwrap();
    assert_eq!(lsn.0 as usize, BLOCK + 64);
    log.commit(lsn).unwrap();
    // The first block of the segment is its header.
    let place = 3 * BLOCK;
    let mut cut = Cut::new(Image::default());
    let lost = |event: &Event| matches!(event, Event::Write { offset, .. } if *offset == place);
    disk.events()
        .iter()
        .take_while(|event| !lost(event))
        .enumerate()
        .for_each(|(at, event)| cut.apply(at, event));
    let disk = setting.disk(cut.image(|_| true), 2);

    let log = Log::open_on(disk.storage(), &setting.options()).unwrap();
    assert_eq!(log.recovery().records, 1);
    let lsn = log.append(b"behind").unwrap();
    log.commit(lsn).unwrap();
    drop(log);
    let file = disk.live().names["0000000000000000.wal"];
    let log = Log::open_on(disk.storage(), &setting.options()).unwrap();
    let records: Vec<Vec<u8>> = read(&log).unwrap().1.into_iter().map(|(_, data)| data).collect();
    assert_eq!(records, [b"before", b"behind"]);
    disk.live().files[file][place]
}

/// If groups continue in blocks, small commits share a block, and a reader beside the writer gets
/// each record as it becomes durable.
#[test]
fn small_commits_share_a_block_that_is_written_untorn() {
    let mut random = Seed::fixed(2).rng();
    let mut lengths = Vec::new();
    for (untorn, wanted) in
        [(true, TornWrites::Auto), (true, TornWrites::NewBlock), (false, TornWrites::Atomic)]
    {
        let setting = Setting {
            untorn,
            block: 4096,
            blocks_in_segment: 20,
            ..Setting::number(1, &mut random)
        };
        let disk = setting.disk(Image::default(), 1);
        let log = Log::open_on(disk.storage(), setting.options().torn_writes(wanted)).unwrap();
        let goes_on = untorn && wanted == TornWrites::Auto;
        assert_eq!(log.torn_writes() == TornWrites::Atomic, goes_on);
        let mut reader = log.reader(dio_wal::Lsn(0)).unwrap();
        for number in 0..100u8 {
            let lsn = log.append(&[number; 76]).unwrap();
            assert!(reader.next().unwrap().is_none());
            log.commit(lsn).unwrap();
            let record = reader.next().unwrap().expect("it is durable");
            assert_eq!((record.lsn, record.data), (lsn, &[number; 76][..]));
        }
        lengths.push(log.end().0 / 4096);
    }
    assert_eq!(lengths, [2, 99, 99]);
}

/// The check works: on a disk whose syncs do nothing, it detects that acknowledged data was lost.
#[test]
fn a_disk_that_lies_is_found_out() {
    let seed = Seed::fixed(11);
    let mut caught = 0;
    for number in 0..20 {
        let mut random = seed.stream(number);
        let setting = Setting::number(number, &mut random);
        let disk = setting.disk(Image::default(), random.next_u64());
        let mut history = History::new();
        history.run(&disk, &setting, &mut random, 0);
        let base = disk.live();
        let disk = setting.disk(base.clone(), random.next_u64());
        disk.set_faults(Faults { lies: true, ..Faults::default() });
        history.run(&disk, &setting, &mut random, STEPS);
        let events = disk.events();
        let mut cut = Cut::new(base);
        events.iter().enumerate().for_each(|(number, event)| cut.apply(number, event));
        let promise = history.promised(events.len());
        cut.images(&mut random, 8, |image| {
            caught += u32::from(recover(&setting, image, &history, &promise, 1).is_err());
        });
    }
    assert!(caught > 40, "only {caught} of 160 were noticed");
}

/// Contents that differ from what was written: a lost write, a write to a wrong offset, a block of
/// another log, a changed bit.
#[test]
fn whatever_happens_to_a_closed_log_is_noticed() {
    let seed = Seed::new();
    let (mut noticed, mut harmless) = (0, 0);
    for number in 0..120 {
        let _told = Told(number);
        let mut random = seed.stream(number);
        let setting = Setting::number(number, &mut random);
        let [one, other] = [1, 2].map(|log| closed_log(&setting, &mut seed.stream(number), log));
        let (image, records, _) = &one;
        for _ in 0..20 {
            let mut damaged = image.clone();
            damage(&mut damaged, &other.0, setting.block as usize, &mut random);
            let disk = setting.disk(damaged, 1);
            match Log::open_on(disk.storage(), &setting.options()) {
                Err(
                    WalError::Damaged { .. } | WalError::Missing { .. } | WalError::Header { .. },
                ) => noticed += 1,
                Err(error) => panic!("{error}"),
                Ok(log) => {
                    assert_eq!(read(&log).unwrap(), *records, "damage went unnoticed");
                    harmless += 1;
                }
            }
        }
    }
    println!("{noticed} were noticed, {harmless} did not touch records");
    assert!(noticed > 500, "{noticed} of 2400");
}

/// A log that was closed, with its records, and all records that were ever appended. The operations
/// are the same for every `identity`.
fn closed_log(setting: &Setting, random: &mut Rng, identity: u64) -> (Image, (u64, Found), Found) {
    let disk = setting.disk(Image::default(), identity);
    let log = Log::open_on(disk.storage(), &setting.options()).unwrap();
    let mut appended = Vec::new();
    for _ in 0..25 {
        let length = random.range_usize(0..3 * setting.block as usize);
        let data = random.bytes(length);
        let lsn = log.append(&data).unwrap();
        appended.push((lsn.0, data));
        if random.bool(0.4) {
            log.commit(lsn).unwrap();
        }
        if random.bool(0.05) {
            log.truncate_before(lsn).unwrap();
        }
    }
    log.commit(dio_wal::Lsn(log.end().0 - 1)).unwrap();
    let records = read(&log).unwrap();
    log.close().unwrap();
    (disk.live(), records, appended)
}

fn damage(image: &mut Image, other: &Image, block: usize, random: &mut Rng) {
    let files: Vec<usize> = image
        .names
        .iter()
        .filter(|(name, _)| name.ends_with(".wal"))
        .map(|(_, file)| *file)
        .collect();
    let file = *random.pick(&files);
    let blocks = image.files[file].len() / block;
    let at = random.range_usize(0..blocks) * block;
    let from = random.range_usize(0..blocks) * block;
    match random.range(0..5) {
        0 => image.files[file][at..at + block].fill(0),
        1 => {
            let bytes = image.files[file][from..from + block].to_vec();
            image.files[file][at..at + block].copy_from_slice(&bytes);
        }
        2 => {
            if let Some(bytes) = other.files.get(file).and_then(|bytes| bytes.get(at..at + block)) {
                let bytes = bytes.to_vec();
                image.files[file][at..at + block].copy_from_slice(&bytes);
            }
        }
        3 => image.files[file][at + random.range_usize(0..block)] ^= 1 << random.range(0..8),
        _ => {
            let sector = at + random.range_usize(0..block / 512) * 512;
            random.fill(&mut image.files[file][sector..sector + 512]);
        }
    }
}

/// Several threads commit, with writes in the background, and the power of the disk fails.
#[test]
fn power_cuts_under_many_threads() {
    let seed = Seed::new();
    for number in 0..10 {
        let _told = Told(number);
        let mut random = seed.stream(1000 + number);
        let setting = Setting { untorn: number % 2 == 1, ..Setting::number(number, &mut random) };
        let disk = setting.disk(Image::default(), random.next_u64());
        disk.set_faults(Faults { slow: true, ..Faults::default() });
        let mut options = setting.options();
        options.write_behind(2).prepare_in_background(true);
        let log = Log::open_on(disk.storage(), &options).unwrap();
        let noted = parking_lot::Mutex::new((Vec::new(), Vec::new()));
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (mut random, log, noted, disk) =
                    (seed.stream(100 * number + thread), &log, &noted, &disk);
                scope.spawn(move || {
                    for _ in 0..25 {
                        let length = random.range_usize(0..1500);
                        let data = random.bytes(length);
                        let lsn = log.append(&data).unwrap();
                        noted.lock().0.push(history::Entry { lsn: Some(lsn.0), data });
                        if random.bool(0.5) {
                            log.commit(lsn).unwrap();
                            noted.lock().1.push((disk.happened(), lsn.0 + 1));
                        }
                    }
                });
            }
        });
        drop(log);
        let (mut records, commits) = noted.into_inner();
        records.sort_by_key(|entry| entry.lsn);
        let mut history = History::new();
        history.records = records;
        let events = disk.events();
        let mut cut = Cut::new(Image::default());
        for (at, event) in events.iter().enumerate() {
            cut.apply(at, event);
            if !random.bool(0.2) {
                continue;
            }
            let done =
                commits.iter().filter(|(events, _)| *events <= at + 1).map(|(_, lsn)| *lsn).max();
            let tried = history.records.len();
            let promise = Promise {
                events: at,
                tried,
                acknowledged: done.unwrap_or(0),
                start_done: 0,
                start_tried: 0,
            };
            cut.images(&mut random.clone(), 4, |image| {
                recover(&setting, image, &history, &promise, 3)
                    .unwrap_or_else(|error| panic!("event {at}: {error}"));
            });
        }
    }
}

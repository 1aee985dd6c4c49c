//! A process that appends, commits and says so is killed; what it said is there. Readers through the page cache, beside a
//! writer that goes past it, see nothing stale and nothing torn.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dio_test::{Rng, Seed};
use dio_wal::{Log, Lsn, Method, Options, Reader};

const CHILD: &str = "DIO_WAL_TEST_CHILD";

fn options(number: u64) -> Options {
    let mut options = Options::new();
    options.method(Method::ALL[(number % 5) as usize]).direct(number / 5 % 2 == 0);
    options.segment(512 << 10).chunk(64 << 10).write_behind(2).spares(2);
    options
}

/// The record with this number, which tells everything about itself.
fn record(number: u64) -> Vec<u8> {
    let mut rng = Rng::new(number);
    let length = rng.range_usize(0..*[50, 200, 5_000, 150_000].get((number % 11) as usize).unwrap_or(&300));
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.extend(rng.bytes(length));
    bytes
}

fn number_of(data: &[u8]) -> u64 {
    u64::from_le_bytes(data[..8].try_into().unwrap())
}

/// Runs in the child: appends for ever, and prints what is durable.
#[test]
fn child() {
    let Ok(job) = std::env::var(CHILD) else { return };
    let (path, rest) = job.split_once('\n').unwrap();
    let (number, next) = rest.split_once('\n').unwrap();
    let log = Log::open(path, &options(number.parse().unwrap())).unwrap();
    let mut next: u64 = next.parse().unwrap();
    let mut lsns = Vec::new();
    let mut out = std::io::stderr();
    loop {
        for _ in 0..1 + next % 5 {
            lsns.push((next, log.append(&record(next)).unwrap()));
            next += 1;
        }
        log.commit(lsns[lsns.len() - 1].1).unwrap();
        writeln!(out, "durable {}", next).unwrap();
        if lsns.len() > 60 {
            log.truncate_before(lsns[30].1).unwrap();
            writeln!(out, "start {}", lsns[30].0).unwrap();
            lsns.drain(..30);
        }
    }
}

/// Starts a child on a log, kills it after a while, and returns the end and start that it said.
fn run_and_kill(path: &Path, number: u64, next: u64, lines: usize) -> (u64, u64) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["child", "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD, format!("{}\n{number}\n{next}", path.display()))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    let (mut durable, mut start) = (next, 0);
    let mut note = |line: String| match line.split_once(' ') {
        Some(("durable", number)) => durable = number.parse().unwrap(),
        Some(("start", number)) => start = number.parse().unwrap(),
        _ => panic!("the child says: {line}"),
    };
    for line in said.by_ref().take(lines) {
        note(line.unwrap());
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // What was said before the end still counts; a last line may be cut short.
    let rest: Vec<String> = said.map_while(Result::ok).collect();
    let whole = rest.len().saturating_sub(1);
    rest.into_iter().take(whole).for_each(note);
    assert!(durable > next, "the child has done nothing");
    (durable, start)
}

#[test]
fn what_a_killed_process_acknowledged_is_there() {
    let rounds = std::env::var("DIO_WAL_ROUNDS").map_or(12, |text| text.parse().expect("DIO_WAL_ROUNDS is a number"));
    let seed = Seed::new();
    let mut rng = seed.rng();
    for fs in dio_test::file_systems() {
        let dir = fs.dir();
        let (mut next, mut started) = (0, 0);
        for round in 0..rounds {
            let lines = rng.range_usize(5..60);
            let (durable, start) = run_and_kill(dir.path(), round, next, lines);
            // It may have truncated once more than it could say: thirty records on, counted from its own first one.
            let latest = started.max(start).max(next) + 30;
            started = started.max(start);
            let log = Log::open(dir.path(), &options(round + 3)).unwrap();
            let mut reader = log.reader(log.start()).unwrap();
            let mut expected = None;
            while let Some(read) = reader.next().unwrap() {
                let number = number_of(read.data);
                assert!(expected.is_none_or(|expected| expected == number), "{number} after {expected:?}");
                assert!(read.data == record(number), "{}: round {round}: record {number}", fs.name);
                assert!(expected.is_some() || number <= latest, "the log starts at record {number}");
                expected = Some(number + 1);
            }
            let end = expected.unwrap_or(next);
            assert!(end >= durable, "{}: round {round}: {durable} records were durable, {end} are there", fs.name);
            next = end;
            if rng.bool(0.5) {
                log.close().unwrap();
            }
        }
    }
}

/// Reads a log from its beginning as far as it goes, again and again, until told to stop.
fn follow(path: &Path, stop: &AtomicBool) -> u64 {
    let mut reader = loop {
        // Its first segment may not have its name yet.
        match Reader::open(path, false, Lsn(0)) {
            Ok(reader) => break reader,
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    };
    let mut next = 0;
    loop {
        let last = stop.load(Ordering::SeqCst);
        while let Some(read) = reader.next().unwrap() {
            assert_eq!(number_of(read.data), next);
            assert!(read.data == record(next), "record {next} is not what was appended");
            next += 1;
        }
        if last {
            reader.check_end().unwrap();
            return next;
        }
    }
}

/// Copies the segments through the page cache, as an archiver does, and reads the copy.
fn copy_and_read(path: &Path, scratch: &Path) -> u64 {
    for entry in std::fs::read_dir(path).unwrap() {
        let name = entry.unwrap().file_name();
        if name.to_str().is_some_and(|name| name.ends_with(".wal")) {
            let bytes = std::fs::read(path.join(&name)).unwrap();
            std::fs::write(scratch.join(&name), bytes).unwrap();
        }
    }
    let Ok(mut reader) = Reader::open(scratch, false, Lsn(0)) else { return 0 };
    let mut next = 0;
    while let Some(read) = reader.next().unwrap() {
        assert!(read.data == record(next), "record {next} of a copy");
        next += 1;
    }
    next
}

#[test]
fn readers_through_the_page_cache_see_nothing_stale() {
    for fs in dio_test::file_systems() {
        let (dir, scratch) = (fs.dir(), fs.dir());
        let stop = Arc::new(AtomicBool::new(false));
        let follower = {
            let (path, stop) = (dir.path().to_owned(), Arc::clone(&stop));
            std::thread::spawn(move || follow(&path, &stop))
        };
        let copier = {
            let (path, scratch, stop) = (dir.path().to_owned(), scratch.path().to_owned(), Arc::clone(&stop));
            std::thread::spawn(move || {
                let mut seen = 0;
                while !stop.load(Ordering::SeqCst) {
                    let now = copy_and_read(&path, &scratch);
                    assert!(now >= seen, "a later copy has fewer records");
                    seen = now;
                }
            })
        };
        let log = Log::open(dir.path(), &options(1)).unwrap();
        for number in 0..400 {
            let lsn = log.append(&record(number)).unwrap();
            if number % 3 == 0 {
                log.commit(lsn).unwrap();
            }
        }
        log.close().unwrap();
        stop.store(true, Ordering::SeqCst);
        assert_eq!(follower.join().unwrap(), 400, "{}", fs.name);
        copier.join().unwrap();
    }
}

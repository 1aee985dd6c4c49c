//! A process that appends, commits and prints what it has committed is killed; what it printed is
//! there. Readers through the page cache, beside a writer that uses direct I/O, get no stale and no
//! torn data.

mod proof;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dio_test::Seed;
use dio_wal::{Log, Lsn, Reader};
use proof::{Running, Said, judge, number_of, options, record, rounds};

/// The test that runs in the child process.
#[test]
fn child() {
    proof::child();
}

#[test]
fn what_a_killed_process_acknowledged_is_there() {
    let rounds = rounds(12);
    let seed = Seed::new();
    let mut rng = seed.rng();
    for fs in dio_test::file_systems() {
        let dir = fs.dir();
        let mut found = Said::default();
        for round in 0..rounds {
            let mut child = Running::start(dir.path(), round, found);
            child.listen_to(rng.range_usize(5..60));
            let said = child.kill();
            assert!(said.durable > found.durable, "the child has done nothing");
            let log = Log::open(dir.path(), &options(round + 3)).unwrap();
            found = judge(&log, said, &format!("{}: round {round}", fs.name));
            if rng.bool(0.5) {
                log.close().unwrap();
            }
        }
    }
}

/// Reads a log from its beginning to its end, repeatedly, until it is told to stop.
fn follow(path: &Path, stop: &AtomicBool) -> u64 {
    let mut reader = loop {
        // The first segment may not have its name yet.
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
            let (path, scratch, stop) =
                (dir.path().to_owned(), scratch.path().to_owned(), Arc::clone(&stop));
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

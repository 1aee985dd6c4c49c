use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use dio::lock::{LockClass, LockPolicy};
use dio::{Mode, OpenOptions};
use proptest::prelude::*;

use super::*;

/// A source with one counter, that of read requests.
#[derive(Debug, Default)]
struct Fake(AtomicU64);

impl FileCounters for Fake {
    fn counters(&self) -> Counters {
        Counters { read_requests: self.0.load(Ordering::Relaxed), ..Counters::default() }
    }

    fn lock_stats(&self) -> LockStats {
        LockStats::default()
    }
}

fn book() -> Arc<FileTable> {
    FileTable::new(Instant::now(), 8)
}

#[test]
fn what_was_done_stays_after_the_close() {
    let book = book();
    let one = book.open(7, Path::new("a"));
    let two = book.open(7, Path::new("another name of it"));
    one.read(Class::Direct, 100, Duration::from_nanos(5));
    two.written(Class::Bounced, 30, Duration::from_nanos(6));
    two.error(RequestKind::Sync);
    drop(one);
    let reading = book.reading(8);
    assert_eq!((reading.open, reading.files.len(), reading.files[0].open), (1, 1, 1));
    assert_eq!((reading.files[0].path.as_str(), reading.files[0].inode), ("a", Some(7)));
    drop(two);
    let closed = book.reading(8);
    assert_eq!((closed.open, closed.files[0].open, closed.files[0].inode), (0, 0, None));
    assert_eq!(closed.total, reading.total);
    assert_eq!(closed.files[0].figures, closed.total);
    assert_eq!(
        (
            closed.total.bytes.get(RequestKind::Read),
            closed.total.write_requests.get(Class::Bounced)
        ),
        (100, 1)
    );
    assert_eq!(
        (closed.total.errors.get(RequestKind::Sync), closed.total.requests.get(RequestKind::Sync)),
        (1, 0)
    );
}

#[test]
fn opens_of_one_path_before_and_after_are_one_row() {
    let book = book();
    for inode in [3, 4] {
        book.open(inode, Path::new("log")).synced(Duration::from_secs(1));
    }
    let open = book.open(5, Path::new("log"));
    open.synced(Duration::from_secs(2));
    let reading = book.reading(8);
    assert_eq!(reading.files.len(), 1);
    assert_eq!(reading.files[0].figures.nanos.get(RequestKind::Sync), 4_000_000_000);
    assert_eq!((reading.files[0].open, reading.files[0].inode), (1, Some(5)));
}

#[test]
fn the_busiest_are_told_and_the_sums_are_of_all() {
    let book = book();
    let files: Vec<_> =
        (0..20u64).map(|inode| book.open(inode, Path::new(&inode.to_string()))).collect();
    for (inode, file) in files.iter().enumerate() {
        (0..=inode).for_each(|_| file.read(Class::Cached, 1, Duration::ZERO));
    }
    let reading = book.reading(3);
    let paths: Vec<&str> = reading.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(paths, ["19", "18", "17"]);
    assert_eq!((reading.total.requests.total(), reading.open), (210, 20));
}

#[test]
fn a_source_counts_from_where_it_stood_to_its_end() {
    let book = book();
    let file = book.open(1, Path::new("a"));
    let source = Arc::new(Fake::default());
    source.0.store(10, Ordering::Relaxed);
    let attached = file.attach(source.clone(), Wait::Range);
    source.0.store(15, Ordering::Relaxed);
    assert_eq!(book.reading(1).total.transfers.get(RequestKind::Read), 5);
    let again = file.attach(source.clone(), Wait::Range);
    source.0.store(17, Ordering::Relaxed);
    drop(attached);
    source.0.store(20, Ordering::Relaxed);
    drop(file);
    assert_eq!(book.reading(1).total.transfers.get(RequestKind::Read), 7 + 5);
    // Only the guard keeps the file open here.
    assert_eq!(book.reading(1).open, 1);
    drop(again);
    source.0.store(99, Ordering::Relaxed);
    let reading = book.reading(1);
    assert_eq!((reading.open, reading.total.transfers.get(RequestKind::Read)), (0, 12));
    assert_eq!(Arc::strong_count(&source), 1, "nobody keeps the source");
}

/// A direct and a concurrent open of one file share their lock: a wait is counted once, under the
/// lock it was for.
#[test]
fn waits_of_a_file_are_told_once() {
    let dir =
        tempfile::tempdir_in(std::env::var_os("DIO_TEST_DIR").unwrap_or_else(|| "/var/tmp".into()))
            .unwrap();
    let path = dir.path().join("data");
    let open = |mode| {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).mode(mode).lock_policy(LockPolicy::Range);
        Arc::new(options.open(&path).unwrap())
    };
    let book = book();
    let stats = book.open(1, Path::new("data"));
    let (one, two) = (open(Mode::Direct), open(Mode::Direct));
    let attached = (stats.attach(one.clone(), Wait::Range), stats.attach(two.clone(), Wait::Range));
    // This extends the file, so the whole file is locked.
    one.write_at(&vec![1; 1 << 16], 0).unwrap();
    thread::scope(|scope| {
        for file in [&one, &two] {
            scope.spawn(|| {
                (0..200).for_each(|_| file.write_at(&vec![2; 1 << 16], 0).map(drop).unwrap())
            });
        }
    });
    let figures = book.reading(1).total;
    let locks = one.lock_stats();
    for class in LockClass::ALL {
        assert_eq!(figures.locks.get(class), locks.get(class).acquisitions, "{class:?}");
        assert_eq!(figures.lock_waits.get(class), locks.get(class).waits, "{class:?}");
    }
    assert!(
        figures.locks.get(LockClass::Resize) > 0 && figures.locks.get(LockClass::Write) >= 399,
        "{figures:?}"
    );
    let of = |class| locks.get(class).waits;
    assert_eq!(figures.waits.get(Wait::Range), of(LockClass::Read) + of(LockClass::Write));
    assert_eq!(figures.waits.get(Wait::File), of(LockClass::Resize) + of(LockClass::Misaligned));
    assert_eq!(
        figures.write_bytes.total(),
        (one.counters().written.total()) + two.counters().written.total()
    );
    drop(attached);
    drop((one, two));
    assert_eq!(book.reading(1).total, figures);
}

/// Sums never decrease while many threads open, use and close files.
#[test]
fn sums_never_go_back() {
    let book = book();
    let done = AtomicU64::new(0);
    thread::scope(|scope| {
        for thread in 0..3u64 {
            let (book, done) = (&book, &done);
            scope.spawn(move || {
                for round in 0..2000u64 {
                    let file = book.open(round % 5, Path::new(if thread == 0 { "a" } else { "b" }));
                    let source = Arc::new(Fake::default());
                    let attached = file.attach(source.clone(), Wait::File);
                    source.0.fetch_add(1, Ordering::Relaxed);
                    file.read(Class::Direct, 1, Duration::from_nanos(1));
                    drop((attached, file));
                }
                done.fetch_add(1, Ordering::Relaxed);
            });
        }
        let mut before = Figures::default();
        while done.load(Ordering::Relaxed) < 3 {
            let now = book.reading(4).total;
            assert!(now.at_least(&before), "{before:?} then {now:?}");
            before = now;
        }
    });
    let end = book.reading(4);
    assert_eq!(
        (end.total.requests.total(), end.total.transfers.total(), end.open),
        (6000, 6000, 0)
    );
}

proptest! {
    /// For all sequences of opens and closes, the rows and the rest add up to the sum, and memory
    /// is bounded.
    #[test]
    fn rows_and_the_rest_make_the_sum(steps in prop::collection::vec((0..30u64, 0..3u8), 1..300)) {
        let book = book();
        let mut open = HashMap::new();
        let mut sum = 0;
        for (inode, what) in steps {
            match what {
                0 => drop(open.remove(&inode)),
                _ => {
                    let file = open.entry(inode).or_insert_with(|| book.open(
                        inode, Path::new(&inode.to_string())
                    ));
                    file.read(Class::Direct, inode, Duration::ZERO);
                    sum += inode;
                }
            }
            let reading = book.reading(4);
            prop_assert_eq!(reading.total.bytes.total(), sum);
            prop_assert_eq!(reading.open, open.len() as u64);
            prop_assert!(reading.files.len() <= 4);
            let rows: u64 = reading.files.iter().map(|file| file.figures.bytes.total()).sum();
            prop_assert!(rows <= sum);
        }
    }
}

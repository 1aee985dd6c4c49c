use std::path::Path;

use dio::Class;
use proptest::prelude::*;

use super::*;

#[test]
fn each_error_is_told_when_it_is_first_seen() {
    let stats = Stats::new();
    let told = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let list = Arc::clone(&told);
    stats.record(Operation::Read, Duration::ZERO, Some(Errno::IO));
    stats.on_first_error(move |errno| list.lock().push(errno));
    for errno in [Errno::IO, Errno::MFILE, Errno::NOENT, Errno::MFILE, Errno::NOENT] {
        stats.record(Operation::Open, Duration::ZERO, Some(errno));
    }
    assert_eq!(*told.lock(), [Errno::MFILE, Errno::NOENT]);
}

#[test]
fn a_timer_records_when_it_is_dropped() {
    let stats = Stats::new();
    let mut timer = stats.begin(Operation::Lookup);
    timer.note::<()>(&Err(Errno::NOENT));
    assert!(stats.snapshot().operations.is_empty());
    drop(timer);
    stats.begin(Operation::Lookup).note(&Ok(()));
    stats.record(Operation::Sync, Duration::from_millis(3), Some(Errno::IO));
    let snapshot = stats.snapshot();
    let lookup = &snapshot.operations["lookup"];
    assert_eq!((lookup.count, lookup.errors), (2, 1));
    assert_eq!(snapshot.operations["sync"].mean(), 3_000_000);
    assert_eq!(snapshot.errors, BTreeMap::from([(2, 1), (5, 1)]));
    assert_eq!(snapshot.operations.len(), 2);
}

#[test]
fn gauges_are_asked_each_time() {
    let stats = Stats::new();
    let inodes = Arc::new(AtomicU64::new(3));
    let asked = Arc::clone(&inodes);
    stats.gauge(Gauge::Inodes, move || asked.load(Ordering::Relaxed));
    stats.gauge(Gauge::Inodes, || 100);
    assert_eq!(stats.snapshot().gauges["inodes"], 103);
    inodes.store(5, Ordering::Relaxed);
    let timer = stats.begin(Operation::Read);
    let told = |requests| {
        BTreeMap::from([("inodes".to_owned(), 105), ("requests_in_hand".to_owned(), requests)])
    };
    assert_eq!(stats.snapshot().gauges, told(1));
    let long = stats.begin_long(Operation::Write);
    drop(timer);
    std::thread::scope(|scope| scope.spawn(|| drop(long)).join().unwrap());
    assert_eq!(stats.snapshot().gauges, told(0));
}

#[test]
fn a_snapshot_survives_json() {
    let stats = Stats::new();
    stats.describe("mountpoint", "/mnt");
    let file = stats.file(9, "dir/\"name\n");
    file.count(Event::Extend, 4096);
    file.written(Class::Direct, 4096, Duration::from_micros(80));
    stats.waited(Wait::Queue, Duration::from_micros(1));
    drop(stats.begin(Operation::Write));
    let snapshot = stats.snapshot();
    let text = serde_json::to_string(&snapshot).unwrap();
    assert!(!text.contains('\n'), "one line");
    assert_eq!(serde_json::from_str::<Snapshot>(&text).unwrap(), snapshot);
    // A snapshot of a newer version with an unknown field, and one of an older version.
    let newer = text.replacen('{', r#"{"weather":{"today":"fine"},"#, 1);
    assert_eq!(serde_json::from_str::<Snapshot>(&newer).unwrap(), snapshot);
    assert_eq!(serde_json::from_str::<Snapshot>("{}").unwrap(), Snapshot::default());
}

#[test]
fn an_interval_has_what_was_added() {
    let stats = Stats::new();
    let (busy, idle) = (stats.file(1, "busy"), stats.file(2, "idle"));
    (0..10).for_each(|_| idle.read(Class::Cached, 1, Duration::ZERO));
    busy.read(Class::Direct, 100, Duration::from_micros(10));
    stats.record(Operation::Read, Duration::from_micros(10), None);
    let first = stats.snapshot();
    busy.read(Class::Direct, 50, Duration::from_micros(30));
    stats.record(Operation::Read, Duration::from_millis(7), None);
    let new = stats.file(3, "new");
    new.written(Class::Bounced, 5, Duration::ZERO);
    let second = stats.snapshot();
    let interval = second.since(Some(&first));
    assert!(interval.seconds > 0.0 && interval.seconds < 60.0);
    let read = interval.operation(Operation::Read).unwrap();
    assert_eq!((read.count, read.mean(), read.quantile(0.5)), (1, 7_000_000, read.longest()));
    assert!(read.longest() >= 7_000_000 && read.longest() < 7_070_000);
    let paths: Vec<&str> = interval.change.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(paths, ["busy", "new"]);
    assert_eq!(interval.change.files[0].figures.bytes.get(RequestKind::Read), 50);
    assert_eq!(interval.change.total.bytes.total(), 55);
    // If the other snapshot is of another server, nothing is subtracted.
    let other = Snapshot { started: first.started + 1, ..first };
    assert_eq!(second.since(Some(&other)).change, second.since(None).change);
    assert_eq!(second.since(None).change, second);
}

/// A file that the earlier snapshot did not list is left out once, not reported with all its
/// earlier activity.
#[test]
fn what_is_not_known_is_not_told() {
    let stats = Stats::new();
    let files: Vec<_> = (0..TOLD as u64 + 1)
        .map(|inode| stats.file(inode, Path::new(&inode.to_string())))
        .collect();
    for file in &files[1..] {
        (0..3).for_each(|_| file.read(Class::Direct, 1, Duration::ZERO));
    }
    files[0].read(Class::Direct, 1, Duration::ZERO);
    let first = stats.snapshot();
    assert!(first.files.iter().all(|file| file.path != "0") && first.files.len() == TOLD);
    assert_eq!(first.others().requests.total(), 1);
    (0..9).for_each(|_| files[0].read(Class::Direct, 1, Duration::ZERO));
    let second = stats.snapshot();
    assert_eq!(second.files[0].path, "0");
    let change = second.since(Some(&first)).change;
    assert_eq!((change.files.len(), change.others().requests.total()), (0, 9));
    (0..2).for_each(|_| files[0].read(Class::Direct, 1, Duration::ZERO));
    let third = stats.snapshot().since(Some(&second)).change;
    assert_eq!((third.files.len(), third.files[0].figures.requests.total()), (1, 2));
}

/// A path that is forgotten and comes back starts anew, and no difference is negative.
#[test]
fn a_forgotten_path_begins_anew() {
    let stats = Stats::new();
    let touch = |inode: u64, path: &str, times: u64| {
        let file = stats.file(inode, path);
        (0..times).for_each(|_| file.read(Class::Direct, 1, Duration::ZERO));
    };
    touch(1, "old", 3);
    let first = stats.snapshot();
    (0..KEPT as u64).for_each(|inode| touch(100 + inode, &format!("other {inode}"), 4));
    touch(1, "old", 2);
    (0..9).for_each(|_| touch(1, "old", 9));
    let second = stats.snapshot();
    let old = second.files.iter().find(|file| file.path == "old").unwrap();
    assert_eq!(old.figures.requests.total(), 83, "since it came back");
    let change = second.since(Some(&first)).change;
    let old = change.files.iter().find(|file| file.path == "old").unwrap();
    assert_eq!(old.figures.requests.total(), 83);
}

#[derive(Debug, Clone)]
enum Step {
    Read(u8, u32),
    Extend(u8, u32),
    Wait(u8, u32),
    Close(u8),
    Operation(u8, u64, bool),
    Look,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..12u8, any::<u32>()).prop_map(|(file, bytes)| Step::Read(file, bytes)),
        1 => (0..12u8, any::<u32>()).prop_map(|(file, bytes)| Step::Extend(file, bytes)),
        1 => (0..12u8, any::<u32>()).prop_map(|(file, nanos)| Step::Wait(file, nanos)),
        2 => (0..12u8).prop_map(Step::Close),
        2 => (0..29u8, 0..LONGEST, any::<bool>())
            .prop_map(|(what, nanos, bad)| Step::Operation(what, nanos, bad)),
        2 => Just(Step::Look),
    ]
}

proptest! {
    /// For all activity, the intervals between snapshots add up to the last snapshot. So no rate
    /// was negative.
    #[test]
    fn intervals_add_up(steps in prop::collection::vec(step(), 1..200)) {
        let stats = Stats::new();
        let mut open = std::collections::HashMap::new();
        let mut last: Option<Snapshot> = None;
        let (mut sum, mut answered) = (Figures::default(), 0);
        let mut look = |stats: &Stats, last: &mut Option<Snapshot>| {
            let now = stats.snapshot();
            let interval = now.since(last.as_ref());
            sum.plus(&interval.change.total);
            for latency in interval.change.operations.values() {
                answered += latency.count;
                assert_eq!(
                    latency.buckets.iter().map(|bucket| bucket.1).sum::<u64>(), latency.count
                );
                assert!(latency.quantile(0.5) <= latency.quantile(0.99)
                    && latency.quantile(0.99) <= latency.longest());
                assert!(latency.mean() <= latency.longest());
            }
            for file in &interval.change.files {
                assert!(
                    interval.change.total.at_least(&file.figures), "{file:?} of {:?}",
                    interval.change.total
                );
            }
            *last = Some(now);
        };
        for step in steps {
            let mut file = |number: u8| {
                Arc::clone(open.entry(number).or_insert_with(|| stats.file(
                    number.into(), number.to_string()
                )))
            };
            match step {
                Step::Read(
                    number, bytes
                ) => file(number).read(Class::Direct, bytes.into(), Duration::ZERO),
                Step::Extend(number, bytes) => file(number).count(Event::Extend, bytes.into()),
                Step::Wait(
                    number, nanos
                ) => file(number).waited(Wait::Device, Duration::from_nanos(nanos.into())),
                Step::Close(number) => drop(open.remove(&number)),
                Step::Operation(what, nanos, bad) => {
                    let took = Duration::from_nanos(nanos);
                    stats.record(Operation::ALL[usize::from(what)], took, bad.then_some(Errno::IO));
                }
                Step::Look => look(&stats, &mut last),
            }
        }
        look(&stats, &mut last);
        let end = stats.snapshot();
        prop_assert_eq!(sum, end.total);
        prop_assert_eq!(
            answered, end.operations.values().map(|latency| latency.count).sum::<u64>()
        );
    }
}

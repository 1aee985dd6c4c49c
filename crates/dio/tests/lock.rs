//! Proves that the lock of a file excludes what it must while many threads use it at random, that
//! no thread starves or is overtaken, and that a refused attempt leaves nothing behind.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use dio::lock::LockClass::{Misaligned, Read, Resize, Write};
use dio::lock::{LockGuard, LockPolicy, LockTable};

/// Longer than any of these tests takes; a test that hangs fails instead.
const PATIENCE: Duration = Duration::from_secs(60);

type Take = fn(&Arc<LockTable>) -> LockGuard;

fn table() -> Arc<LockTable> {
    LockTable::new()
}

/// Waits until `waits` requests have queued since the table was made.
fn until_queued(table: &LockTable, waits: u64) {
    let since = Instant::now();
    while table.stats().total().waits < waits {
        assert!(since.elapsed() < PATIENCE, "nobody queued");
        thread::yield_now();
    }
}

/// Threads that each take a lock and send their name when they have it.
struct Line {
    table: Arc<LockTable>,
    queued: u64,
    say: mpsc::Sender<&'static str>,
    said: mpsc::Receiver<&'static str>,
}

impl Line {
    fn new(table: &Arc<LockTable>) -> Line {
        let (say, said) = mpsc::channel();
        Line { table: Arc::clone(table), queued: 0, say, said }
    }

    /// Takes a lock that must be waited for, in a thread of its own. Returns when the request is
    /// queued. The lock is held until the returned sender is dropped.
    fn queue(&mut self, name: &'static str, take: Take) -> mpsc::Sender<()> {
        let (hold, held) = mpsc::channel::<()>();
        let (table, say) = (Arc::clone(&self.table), self.say.clone());
        thread::spawn(move || {
            let _guard = take(&table);
            say.send(name).unwrap();
            // An error is the signal; nothing is ever sent.
            let _ = held.recv();
        });
        self.queued += 1;
        until_queued(&self.table, self.queued);
        hold
    }

    /// The name of the next thread that gets its lock.
    fn next(&self) -> &'static str {
        self.said.recv_timeout(PATIENCE).expect("somebody gets in")
    }

    /// Checks that no other thread gets its lock within a short time.
    fn assert_all_wait(&self) {
        let said = self.said.recv_timeout(Duration::from_millis(5));
        assert!(said.is_err(), "overtook: {said:?}");
    }
}

#[test]
fn conflicting_requests_are_served_in_order_and_others_pass() {
    let t = table();
    let mut line = Line::new(&t);
    let first = t.shared(0..100, Read);
    let writer = line.queue("writer", |t| t.exclusive(50..60, Write));
    // A reader that could share with the holder still waits behind the writer with which it
    // conflicts …
    let reader = line.queue("reader", |t| t.shared(55..56, Read));
    assert!(t.try_shared(55..56, Read).is_none(), "overtakes the writer");
    // … and requests that conflict with none do not wait at all.
    drop(t.shared(0..50, Read));
    drop(t.exclusive(100..200, Write));
    drop(t.whole_shared(Write));
    let whole = line.queue("whole", |t| t.whole(Resize));
    let late = line.queue("late", |t| t.exclusive(500..600, Write));
    let through = line.queue("through", |t| t.whole_shared(Read));
    line.assert_all_wait();

    drop(first);
    assert_eq!(line.next(), "writer");
    line.assert_all_wait();
    drop(writer);
    assert_eq!(line.next(), "reader");
    line.assert_all_wait();
    drop(reader);
    assert_eq!(line.next(), "whole");
    line.assert_all_wait();
    drop(whole);
    // These two do not conflict: both are granted, in either order.
    let mut both = [line.next(), line.next()];
    both.sort_unstable();
    assert_eq!(both, ["late", "through"]);
    drop((late, through));
}

#[test]
fn an_attempt_does_not_overtake_a_waiter_for_the_whole_file() {
    // Behind a range, behind operations that hold the file shared, and behind both.
    type TakeSome = fn(&Arc<LockTable>) -> Vec<LockGuard>;
    let holds: [TakeSome; 3] = [
        |t| vec![t.shared(0..10, Read)],
        |t| vec![t.whole_shared(Write), t.whole_shared(Read)],
        |t| vec![t.whole_shared(Write), t.exclusive(0..10, Write)],
    ];
    for hold in holds {
        let t = table();
        let mut line = Line::new(&t);
        let held = hold(&t);
        let holders = held.len() as u64;
        let whole = line.queue("whole", |t| t.whole(Misaligned));
        for _ in 0..3 {
            assert!(t.try_whole_shared(Read).is_none());
            assert!(t.try_shared(900..901, Read).is_none());
            assert!(t.try_exclusive(900..901, Write).is_none());
            assert!(t.try_whole(Resize).is_none());
        }
        for guard in held {
            line.assert_all_wait();
            drop(guard);
        }
        assert_eq!(line.next(), "whole");
        assert!(t.try_whole_shared(Read).is_none());
        drop(whole);
        // The attempts left nothing in the queue: these requests are granted.
        drop(t.whole_shared(Write));
        drop(t.whole(Resize));
        assert_eq!(t.stats().total().acquisitions, holders + 3);
    }
}

/// Four threads take and release locks so that one is held nearly always. `take` must be granted
/// fifty times in between. Readers that come later would keep a writer out forever if they could
/// pass it.
fn amid_a_stream(stream: Take, take: Take) {
    let t = table();
    let stop = AtomicBool::new(false);
    let turns = AtomicU64::new(0);
    let since = Instant::now();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) && since.elapsed() < PATIENCE {
                    let guard = stream(&t);
                    turns.fetch_add(1, Ordering::Relaxed);
                    thread::sleep(Duration::from_micros(300));
                    drop(guard);
                }
            });
        }
        for _ in 0..50 {
            let before = turns.load(Ordering::Relaxed);
            while turns.load(Ordering::Relaxed) < before + 4 && since.elapsed() < PATIENCE {
                thread::yield_now();
            }
            drop(take(&t));
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(since.elapsed() < PATIENCE, "starved: {:?}", t.stats());
}

#[test]
fn a_writer_gets_in_amid_readers() {
    amid_a_stream(|t| t.shared(0..100, Read), |t| t.exclusive(50..51, Write));
}

#[test]
fn a_reader_gets_in_amid_writers() {
    amid_a_stream(|t| t.exclusive(0..100, Write), |t| t.shared(50..51, Read));
}

#[test]
fn a_resize_gets_in_amid_ranges() {
    amid_a_stream(|t| t.shared(0..100, Read), |t| t.whole(Resize));
}

#[test]
fn a_resize_gets_in_amid_concurrent_operations() {
    amid_a_stream(|t| t.whole_shared(Write), |t| t.whole(Resize));
}

#[test]
fn concurrent_operations_get_in_amid_resizes() {
    amid_a_stream(|t| t.whole(Resize), |t| t.whole_shared(Write));
}

/// Bytes of the file in the model.
const BYTES: u64 = 24;

/// The current holders of one byte (or of the file): `n` shared holders, or one exclusive holder
/// (−1).
#[derive(Default)]
struct Shadow {
    holders: AtomicI64,
    /// Incremented by a plain load and store by exclusive holders: an increment is lost if there
    /// are two.
    changes: AtomicU64,
    /// The same number, counted atomically.
    expected: AtomicU64,
}

impl Shadow {
    fn enter_shared(&self) -> u64 {
        let before = self.holders.fetch_add(1, Ordering::Relaxed);
        assert!(before >= 0, "shared while somebody has it alone");
        self.changes.load(Ordering::Relaxed)
    }

    fn leave_shared(&self, seen: u64) {
        let now = self.changes.load(Ordering::Relaxed);
        assert_eq!(now, seen, "changed while shared");
        self.holders.fetch_sub(1, Ordering::Relaxed);
    }

    fn enter_alone(&self) -> u64 {
        let before = self.holders.swap(-1, Ordering::Relaxed);
        assert_eq!(before, 0, "not alone");
        self.changes.load(Ordering::Relaxed)
    }

    fn leave_alone(&self, seen: u64) {
        self.changes.store(seen + 1, Ordering::Relaxed);
        self.expected.fetch_add(1, Ordering::Relaxed);
        let before = self.holders.swap(0, Ordering::Relaxed);
        assert_eq!(before, -1, "somebody came in");
    }
}

/// The model of the file, with its two layers.
struct Model {
    policy: LockPolicy,
    file: Shadow,
    bytes: Vec<Shadow>,
}

/// The random number generator SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }

    /// A range of up to eight bytes, sometimes empty.
    fn range(&mut self) -> Range<u64> {
        let start = self.below(BYTES);
        start..start + self.below((BYTES - start).min(8) + 1)
    }

    /// Stays inside for a moment: nothing, a spin, or a yield to other threads.
    fn dwell(&mut self) {
        match self.below(8) {
            0 => thread::yield_now(),
            1..4 => (0..self.below(200)).for_each(|_| std::hint::spin_loop()),
            _ => {}
        }
    }
}

/// Holds the bytes exclusively for a moment.
fn alone(bytes: &[Shadow], random: &mut Random) {
    let seen: Vec<u64> = bytes.iter().map(Shadow::enter_alone).collect();
    random.dwell();
    for (byte, seen) in bytes.iter().zip(seen) {
        byte.leave_alone(seen);
    }
}

/// Shares the bytes for a moment.
fn shared(bytes: &[Shadow], random: &mut Random) {
    let seen: Vec<u64> = bytes.iter().map(Shadow::enter_shared).collect();
    random.dwell();
    for (byte, seen) in bytes.iter().zip(seen) {
        byte.leave_shared(seen);
    }
}

/// Runs one random operation, and checks it against the model while it holds its lock. Returns
/// `false` if an attempt was refused.
fn operate(table: &Arc<LockTable>, model: &Model, random: &mut Random, whole_in: u64) -> bool {
    let attempt = random.below(4) == 0;
    let range = random.range();
    let bytes = &model.bytes[range.start as usize..range.end as usize];
    let kind = match random.below(whole_in) {
        0 => 3,
        _ => random.below(3),
    };
    let range = model.policy.span(range);
    let guard = match (kind, attempt) {
        (0, false) => Some(table.shared(range, Read)),
        (0, true) => table.try_shared(range, Read),
        (1, false) => Some(table.exclusive(range, Write)),
        (1, true) => table.try_exclusive(range, Write),
        (2, false) => Some(table.whole_shared(Write)),
        (2, true) => table.try_whole_shared(Write),
        (_, false) => Some(table.whole(Resize)),
        (_, true) => table.try_whole(Misaligned),
    };
    let Some(_guard) = guard else { return false };
    if kind == 3 {
        let seen = model.file.enter_alone();
        alone(&model.bytes, random);
        model.file.leave_alone(seen);
        return true;
    }
    let seen = model.file.enter_shared();
    match kind {
        0 => shared(bytes, random),
        1 => alone(bytes, random),
        _ => random.dwell(),
    }
    model.file.leave_shared(seen);
    true
}

/// The seed of a run, printed so that a failure can be repeated with `DIO_TEST_SEED`.
fn seed() -> u64 {
    match std::env::var("DIO_TEST_SEED") {
        Ok(text) => text.parse().expect("DIO_TEST_SEED is a number"),
        Err(_) => {
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos() as u64)
        }
    }
}

/// Runs `threads` threads of `operations` random operations each; one in `whole_in` takes the whole
/// file.
fn stress(policy: LockPolicy, threads: u64, operations: u64, whole_in: u64) {
    let seed = seed();
    println!("DIO_TEST_SEED={seed} ({policy:?}, one in {whole_in} takes the whole file)");
    let table = LockTable::new();
    let model = Arc::new(Model {
        policy,
        file: Shadow::default(),
        bytes: (0..BYTES).map(|_| Shadow::default()).collect(),
    });
    let (done, finished) = mpsc::channel();
    for number in 0..threads {
        let (table, model, done) = (Arc::clone(&table), Arc::clone(&model), done.clone());
        thread::spawn(move || {
            let mut random = Random(seed.wrapping_add(number << 32));
            let granted =
                (0..operations).filter(|_| operate(&table, &model, &mut random, whole_in)).count();
            done.send(granted as u64).unwrap();
        });
    }
    drop(done);
    let mut granted = 0;
    for _ in 0..threads {
        granted += finished
            .recv_timeout(PATIENCE)
            .unwrap_or_else(|e| panic!("seed {seed}: a thread failed or hangs ({e}): {table:?}"));
    }
    for shadow in model.bytes.iter().chain([&model.file]) {
        let expected = shadow.expected.load(Ordering::Relaxed);
        let changes = shadow.changes.load(Ordering::Relaxed);
        assert_eq!(changes, expected, "seed {seed}: a change was lost");
    }
    let stats = table.stats().total();
    assert_eq!(stats.acquisitions, granted, "seed {seed}");
    assert!(stats.waits > 0, "seed {seed}: nobody waited");
    assert!(stats.waits <= granted, "seed {seed}: {stats:?}");
    let idle = table.try_whole(Resize).is_some();
    assert!(idle, "seed {seed}: left behind {table:?}");
}

#[test]
fn random_use_keeps_to_the_model() {
    stress(LockPolicy::Range, 8, 20_000, 20);
}

#[test]
fn random_use_with_many_whole_file_locks_keeps_to_the_model() {
    stress(LockPolicy::Range, 8, 20_000, 3);
}

#[test]
fn random_use_with_few_whole_file_locks_keeps_to_the_model() {
    stress(LockPolicy::Range, 4, 40_000, 500);
}

#[test]
fn random_use_of_the_inode_lock_policy_keeps_to_the_model() {
    stress(LockPolicy::WholeFile, 8, 20_000, 20);
}

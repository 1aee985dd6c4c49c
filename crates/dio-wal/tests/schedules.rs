//! The protocol of commits under every schedule: the unchanged source file of the log runs on a
//! model of threads, locks and conditions (`loom`), with a disk that is a number.

#[allow(dead_code, reason = "the log uses all of it, each model a part")]
#[path = "../src/group_commit.rs"]
mod group_commit;

#[path = "../src/sync.rs"]
mod sync;

/// The module that `sync` makes its locks of.
mod primitives {
    pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
}

use group_commit::GroupCommit;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use sync::Mutex;

/// A log that consists only of numbers.
struct Model {
    group: GroupCommit<&'static str>,
    /// End of the log.
    tail: Mutex<u64>,
    /// The durable LSN of the disk.
    durable: AtomicU64,
    /// Flushes in progress.
    flushing: AtomicU64,
    flushes: AtomicU64,
    /// The flush with this number fails.
    fails: Option<u64>,
}

impl Model {
    fn new(fails: Option<u64>) -> Model {
        Model::leading_on(fails, 1)
    }

    /// A leader leads on from `many` committers that wait on.
    fn leading_on(fails: Option<u64>, many: usize) -> Model {
        let zero = || AtomicU64::new(0);
        let (durable, flushing, flushes) = (zero(), zero(), zero());
        Model {
            group: GroupCommit::new(0, many, |_| "a panic"),
            tail: Mutex::new(0),
            durable,
            flushing,
            flushes,
            fails,
        }
    }

    fn append(&self) -> u64 {
        let mut tail = self.tail.lock();
        *tail += 1;
        *tail - 1
    }

    fn flush(&self) -> Result<u64, &'static str> {
        assert_eq!(self.flushing.fetch_add(1, Ordering::SeqCst), 0, "two lead at a time");
        let end = *self.tail.lock();
        self.group.set_flush_end(end);
        let number = self.flushes.fetch_add(1, Ordering::SeqCst);
        let outcome = if self.fails == Some(number) { Err("a failed sync") } else { Ok(end) };
        if outcome.is_ok() {
            self.durable.fetch_max(end, Ordering::SeqCst);
        }
        self.flushing.fetch_sub(1, Ordering::SeqCst);
        outcome
    }

    /// Appends and commits, and checks on the disk that a successful commit is durable.
    fn write(&self) -> Result<(), &'static str> {
        let lsn = self.append();
        let outcome = self.group.commit(lsn, || self.flush());
        if outcome.is_ok() {
            assert!(self.durable.load(Ordering::SeqCst) > lsn, "acknowledged and not durable");
            assert!(self.group.durable() > lsn);
        }
        outcome
    }
}

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    // Every schedule with up to three preemptions; waits do not count. More threads or more
    // preemptions take minutes.
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// Two threads write once, and this one `own` times; a leader leads on from `many` committers.
fn all_is_durable(many: usize, own: u64) {
    check(move || {
        let model = Arc::new(Model::leading_on(None, many));
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let model = Arc::clone(&model);
                loom::thread::spawn(move || model.write().unwrap())
            })
            .collect();
        (0..own).for_each(|_| model.write().unwrap());
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(model.group.durable(), 2 + own);
        assert!(model.flushes.load(Ordering::SeqCst) <= 2 + own, "a flush for nothing");
    });
}

#[test]
fn what_is_acknowledged_is_durable() {
    all_is_durable(1, 1);
}

/// A leader that has found many committers takes the next flush upon itself. Some of them may have
/// been woken before, and be gone when it begins; the others still wait.
#[test]
fn who_leads_on_does_not_leave_those_that_are_fewer_than_many() {
    all_is_durable(2, 2);
}

#[test]
fn nothing_is_acknowledged_after_a_failure() {
    for fails in 0..2 {
        check(move || {
            let model = Arc::new(Model::new(Some(fails)));
            let other = {
                let model = Arc::clone(&model);
                loom::thread::spawn(move || (model.write(), model.write()))
            };
            let own = model.write();
            let (first, second) = other.join().unwrap();
            assert!(
                !(first.is_err() && second.is_ok()),
                "a commit succeeded after one that failed"
            );
            let failed = [own, first, second].iter().filter(|outcome| outcome.is_err()).count();
            assert_eq!(
                model.group.failure().is_some(),
                failed > 0 || model.flushes.load(Ordering::SeqCst) > fails
            );
            assert!(model.group.durable() <= model.durable.load(Ordering::SeqCst));
        });
    }
}

#[test]
fn a_failure_elsewhere_ends_every_wait() {
    check(|| {
        let model = Arc::new(Model::new(None));
        let other = {
            let model = Arc::clone(&model);
            loom::thread::spawn(move || model.write())
        };
        model.group.fail(|_| "a failed write");
        let durable = model.group.durable();
        let outcome = other.join().unwrap();
        assert_eq!(
            outcome.is_ok(),
            durable > 0,
            "what was durable at the failure stays so, nothing else becomes it"
        );
        assert_eq!(model.group.durable(), durable);
    });
}

#[test]
fn who_does_not_wait_is_told() {
    for fails in [None, Some(0)] {
        check(move || {
            let model = Arc::new(Model::new(fails));
            let told = Arc::new(AtomicU64::new(0));
            let flusher = {
                let model = Arc::clone(&model);
                loom::thread::spawn(move || {
                    while let Some(lsn) = model.group.wait_for_callback() {
                        let _ = model.group.commit(lsn, || model.flush());
                    }
                })
            };
            let lsn = model.append();
            let (mark, seen) = (Arc::clone(&told), Arc::clone(&model));
            let callback = move |outcome: Result<(), &'static str>| {
                assert_eq!(outcome.is_ok(), seen.durable.load(Ordering::SeqCst) > lsn);
                mark.fetch_add(1, Ordering::SeqCst);
            };
            model.group.call_when_durable(lsn, Box::new(callback));
            let _ = model.write();
            model.group.close();
            flusher.join().unwrap();
            assert_eq!(told.load(Ordering::SeqCst), 1, "told once, before the log is closed");
        });
    }
}

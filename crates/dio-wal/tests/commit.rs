//! Commits as futures, run by a minimal executor.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use dio_wal::{CommitFuture, Log, Lsn, Options, WalError};
use parking_lot::{Condvar, Mutex};

fn log() -> (tempfile::TempDir, Log) {
    let dir = dio_test::file_systems()[0].dir();
    let log = Log::open(dir.path(), Options::new().segment(1 << 20).buffer(32 << 10)).unwrap();
    (dir, log)
}

/// Counts wake-ups.
#[derive(Default)]
struct Bell {
    rung: Mutex<usize>,
    changed: Condvar,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        *self.rung.lock() += 1;
        self.changed.notify_all();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let (bell, mut future) = (Arc::new(Bell::default()), pin!(future));
    let waker = Waker::from(Arc::clone(&bell));
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        let mut rung = bell.rung.lock();
        bell.changed.wait_while(&mut rung, |rung| *rung == 0);
        *rung = 0;
    }
}

/// Runs many futures on one thread until all have ended.
fn run_all(mut waiting: Vec<Pin<Box<dyn Future<Output = ()> + Send>>>) {
    let bell = Arc::new(Bell::default());
    let waker = Waker::from(Arc::clone(&bell));
    while !waiting.is_empty() {
        waiting.retain_mut(|future| {
            future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending()
        });
        if !waiting.is_empty() {
            let mut rung = bell.rung.lock();
            bell.changed.wait_while(&mut rung, |rung| *rung == 0);
            *rung = 0;
        }
    }
}

#[test]
fn thousands_wait_at_a_time() {
    let (_dir, log) = log();
    let log = Arc::new(log);
    let done = Arc::new(AtomicUsize::new(0));
    let tasks = (0..3000u32).map(|number| {
        let (log, done) = (Arc::clone(&log), Arc::clone(&done));
        Box::pin(async move {
            for _ in 0..2 {
                let lsn = log.append(&number.to_le_bytes()).unwrap();
                log.commit_async(lsn).await.unwrap();
                assert!(log.flushed() > lsn);
            }
            done.fetch_add(1, Ordering::SeqCst);
        }) as Pin<Box<dyn Future<Output = ()> + Send>>
    });
    run_all(tasks.collect());
    assert_eq!(done.load(Ordering::SeqCst), 3000);
    let log = Arc::into_inner(log).unwrap();
    let mut reader = log.reader(Lsn(0)).unwrap();
    let mut records = 0;
    while reader.next().unwrap().is_some() {
        records += 1;
    }
    assert_eq!(records, 6000);
}

/// A future that is dropped is not woken and holds nothing, and its commit still takes place.
#[test]
fn commits_may_be_given_up() {
    let (_dir, log) = log();
    let mut last = Lsn(0);
    let bells: Vec<Arc<Bell>> = (0..200u32)
        .map(|number| {
            last = log.append(&number.to_le_bytes()).unwrap();
            let mut commit = log.commit_async(last);
            let bell = Arc::new(Bell::default());
            let waker = Waker::from(Arc::clone(&bell));
            // Half of the futures were polled.
            if number % 2 == 0 {
                let _ = Pin::new(&mut commit).poll(&mut Context::from_waker(&waker));
            }
            bell
        })
        .collect();
    let kept = block_on(log.commit_async(last));
    kept.unwrap();
    assert!(log.flushed() > last);
    // Nothing holds a waker any more.
    drop(log);
    assert!(bells.iter().all(|bell| Arc::strong_count(bell) == 1));
}

/// The last waker that was passed is the one that is called.
#[test]
fn a_future_may_move_between_tasks() {
    let (_dir, log) = log();
    let lsn = log.append(b"x").unwrap();
    let mut commit = log.commit_async(lsn);
    let first = Waker::from(Arc::new(Bell::default()));
    let _ = Pin::new(&mut commit).poll(&mut Context::from_waker(&first));
    block_on(commit).unwrap();
}

#[test]
fn what_cannot_be_committed_ends_at_once() {
    let (_dir, log) = log();
    let mut commit: CommitFuture = log.commit_async(Lsn(77));
    let outcome = Pin::new(&mut commit).poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(outcome, Poll::Ready(Err(WalError::NotAppended { .. }))));
    // The future outlives the log.
    let commit = log.commit_async(log.append(b"x").unwrap());
    drop(log);
    block_on(commit).unwrap();
}

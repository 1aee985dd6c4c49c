//! Tests every conflict rule through the public interface. `tests/lock.rs` tests fairness under
//! stress.

use super::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use LockClass::{Misaligned, Read, Resize, Write};

fn table() -> Arc<LockTable> {
    LockTable::new()
}

/// Nothing is held, queued or counted in the gate: the whole file can be locked at once and
/// released.
fn assert_idle(table: &Arc<LockTable>) {
    assert!(table.try_whole(Resize).is_some(), "something is still held");
    let state = table.state();
    assert_eq!((state.whole_requests, state.crowd), (0, None));
    assert!(!state.queue.must_wait(&Want::Whole));
}

#[test]
fn readers_share_a_range() {
    let t = table();
    let a = t.shared(0..100, Read);
    let b = t.shared(50..150, Read);
    let c = t.try_shared(0..100, Read);
    assert!(c.is_some());
    drop((a, b, c));
    assert_idle(&t);
}

#[test]
fn a_reader_excludes_overlapping_writers_only() {
    let t = table();
    let held = t.shared(100..200, Read);
    for overlapping in [0..101, 199..300, 150..151, 0..300, 100..200] {
        assert!(t.try_exclusive(overlapping, Write).is_none());
    }
    for disjoint in [0..100, 200..300] {
        assert!(t.try_exclusive(disjoint, Write).is_some());
    }
    drop(held);
    assert!(t.try_exclusive(100..200, Write).is_some());
    assert_idle(&t);
}

#[test]
fn a_writer_excludes_overlapping_readers_and_writers_only() {
    let t = table();
    let held = t.exclusive(100..200, Write);
    for overlapping in [0..101, 199..300, 150..151, 0..300, 100..200] {
        assert!(t.try_exclusive(overlapping.clone(), Write).is_none());
        assert!(t.try_shared(overlapping, Read).is_none());
    }
    // Disjoint ranges are held together with it and with each other. The blocking calls take them.
    let others =
        (t.exclusive(0..100, Write), t.shared(200..300, Read), t.exclusive(300..u64::MAX, Write));
    drop((held, others));
    assert_idle(&t);
}

#[test]
fn the_whole_file_excludes_everything_both_ways() {
    let t = table();
    let held = t.whole(Resize);
    assert!(t.try_shared(0..1, Read).is_none());
    assert!(t.try_exclusive(u64::MAX - 1..u64::MAX, Write).is_none());
    assert!(t.try_whole_shared(Write).is_none());
    assert!(t.try_whole(Misaligned).is_none());
    drop(held);
    for take in [
        |t: &Arc<LockTable>| t.shared(5..6, Read),
        |t: &Arc<LockTable>| t.exclusive(5..6, Write),
        |t: &Arc<LockTable>| t.whole_shared(Write),
        |t: &Arc<LockTable>| t.exclusive(5..5, Write),
    ] {
        let held = take(&t);
        assert!(t.try_whole(Resize).is_none());
        drop(held);
        assert_idle(&t);
    }
}

#[test]
fn concurrent_operations_exclude_neither_each_other_nor_ranges() {
    let t = table();
    let all = (
        t.whole_shared(Write),
        t.exclusive(0..10, Write),
        t.whole_shared(Read),
        t.exclusive(10..20, Write),
        t.shared(20..30, Read),
    );
    assert!(t.try_whole(Resize).is_none());
    drop(all);
    assert_idle(&t);
}

#[test]
fn an_empty_range_locks_only_the_layer_of_the_whole_file() {
    for policy in [LockPolicy::Range, LockPolicy::WholeFile] {
        let t = table();
        let writer = t.exclusive(0..10, Write);
        let empty = (t.exclusive(policy.span(5..5), Write), t.shared(policy.span(5..5), Read));
        drop(writer);
        assert!(t.try_exclusive(0..10, Write).is_some());
        assert!(t.try_whole(Resize).is_none());
        drop(empty);
        assert_idle(&t);
    }
}

#[test]
fn a_reversed_range_is_refused() {
    let t = table();
    #[expect(clippy::reversed_empty_ranges, reason = "that is what is tested")]
    let refused = catch_unwind(AssertUnwindSafe(|| t.exclusive(6..5, Write)));
    assert!(refused.is_err());
    assert_idle(&t);
}

#[test]
fn the_policy_of_the_inode_lock_covers_the_file() {
    let t = table();
    let whole = |range| LockPolicy::WholeFile.span(range);
    assert_eq!(LockPolicy::Range.span(3..7), 3..7);
    let reader = t.shared(whole(0..1), Read);
    assert!(t.try_shared(100..101, Read).is_some());
    assert!(t.try_exclusive(100..101, Write).is_none());
    drop(reader);
    let writer = t.exclusive(whole(0..1), Write);
    assert!(t.try_shared(100..101, Read).is_none());
    assert!(t.try_exclusive(100..101, Write).is_none());
    assert!(t.try_whole_shared(Write).is_some());
    assert!(t.try_whole(Resize).is_none());
    drop(writer);
    assert_idle(&t);
}

#[test]
fn guards_are_released_in_any_thread_and_by_a_panic() {
    let t = table();
    let guards = (t.exclusive(0..10, Write), t.whole_shared(Write));
    assert!(Arc::ptr_eq(guards.0.table(), &t));
    thread::spawn(move || drop(guards)).join().unwrap();
    assert_idle(&t);

    for take in [
        |t: &Arc<LockTable>| t.exclusive(0..10, Write),
        |t: &Arc<LockTable>| t.whole_shared(Write),
        |t: &Arc<LockTable>| t.whole(Resize),
    ] {
        let held = take(&t);
        let panicked = thread::spawn(move || {
            let _held = held;
            panic!("a holder that panics, as the test intends");
        });
        assert!(panicked.join().is_err());
        assert_idle(&t);
    }
}

#[test]
fn what_is_granted_at_once_counts_no_wait() {
    let t = table();
    drop(t.shared(0..10, Read));
    drop((t.exclusive(0..10, Write), t.whole_shared(Write)));
    drop(t.whole(Resize));
    let held = t.whole(Misaligned);
    assert!(t.try_shared(0..10, Read).is_none());
    drop(held);
    let stats = t.stats();
    let acquisitions = LockClass::ALL.map(|class| stats.get(class).acquisitions);
    assert_eq!(acquisitions, [1, 2, 1, 1]);
    assert_eq!(stats.total().acquisitions, 5);
    assert_eq!((stats.total().waits, stats.total().wait_nanos), (0, 0));
}

#[test]
fn waits_are_counted_under_the_class_of_the_waiter() {
    type Take = fn(&Arc<LockTable>) -> LockGuard;
    let takes: [(LockClass, Take); 5] = [
        (Read, |t| t.shared(0..10, Read)),
        (Write, |t| t.exclusive(5..6, Write)),
        (Write, |t| t.whole_shared(Write)),
        (Resize, |t| t.whole(Resize)),
        (Misaligned, |t| t.whole(Misaligned)),
    ];
    for (class, take) in takes {
        let t = table();
        // The holder is counted under another class than the waiter.
        let other = if class == Resize { Misaligned } else { Resize };
        let held = t.whole(other);
        thread::scope(|scope| {
            let waiter = scope.spawn(|| drop(take(&t)));
            while t.stats().get(class).waits == 0 {
                thread::yield_now();
            }
            // The waiter's clock starts just after it is counted.
            thread::sleep(Duration::from_millis(200));
            assert_eq!(t.stats().get(class).acquisitions, 0, "still waiting");
            drop(held);
            waiter.join().unwrap();
        });
        let stats = t.stats();
        let counted = stats.get(class);
        assert_eq!((counted.acquisitions, counted.waits), (1, 1));
        assert!(counted.waited() >= Duration::from_millis(15), "{counted:?}");
        assert_eq!(counted.waited().as_nanos(), u128::from(counted.wait_nanos));
        assert_eq!((stats.total().acquisitions, stats.total().waits), (2, 1));
        assert_eq!(stats.get(other).wait_nanos, 0);
        assert_idle(&t);
    }
}

#[test]
fn class_names_are_distinct() {
    let names: std::collections::BTreeSet<_> = LockClass::ALL.map(LockClass::name).into();
    assert_eq!(names.len(), LockClass::ALL.len());
}

//! The queue of one file's lock: the holders, and the waiters with what they wait for.
//!
//! It is a plain data structure without threads, so that its rules can be tested against a model.
//! Holders and waiters stand in one list, in the order in which they arrived.
//!
//! Invariants:
//! 1. `entries` is sorted by `id`, which is the order of arrival.
//! 2. `entry.blockers` is the number of entries *before* it that conflict with it. The entry holds
//!    its lock exactly when that number is 0. Conflict depends only on what two entries want, so
//!    the number changes only when an earlier entry leaves. It never grows, and a departure wakes
//!    exactly those entries whose last blocker it was.
//!
//! Strict first-in, first-out order among conflicting requests follows from 2: a later conflicting
//! entry counts every earlier one, granted or not. So does progress: the first entry never has a
//! blocker.

use std::ops::Range;

/// What a request wants to lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Want {
    /// Only that nobody holds the whole file. Conflicts neither with a range nor with another
    /// request of this kind.
    Through,
    /// The range, together with other readers.
    Shared(Range<u64>),
    /// The range, alone.
    Exclusive(Range<u64>),
    /// Everything, alone.
    Whole,
}

impl Want {
    /// Whether the two must not be held at the same time. Symmetric.
    fn conflicts(&self, other: &Want) -> bool {
        use Want::{Exclusive, Shared, Through, Whole};
        match (self, other) {
            (Whole, _) | (_, Whole) => true,
            (Through, _) | (_, Through) => false,
            (Shared(_), Shared(_)) => false,
            (Shared(a) | Exclusive(a), Shared(b) | Exclusive(b)) => {
                a.start < b.end && b.start < a.end
            }
        }
    }
}

/// A request that holds its lock or waits for it.
#[derive(Debug)]
struct LockEntry<W> {
    id: u64,
    want: Want,
    blockers: usize,
    /// What to wake when `blockers` falls to 0. `None` for an entry that never had to wait or has
    /// been woken.
    waiter: Option<W>,
}

/// The answer to a request.
#[derive(Debug)]
pub(super) struct Admission<W> {
    /// Identifies the request until it is released.
    pub(super) id: u64,
    /// What the caller has to wait for. `None` if the request was granted at once.
    pub(super) waiter: Option<W>,
}

/// Holders and waiters of one file, in order of arrival.
#[derive(Debug)]
pub(super) struct LockQueue<W> {
    entries: Vec<LockEntry<W>>,
    next_id: u64,
}

impl<W: Clone> LockQueue<W> {
    pub(super) fn new() -> LockQueue<W> {
        LockQueue { entries: Vec::new(), next_id: 0 }
    }

    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether a request would have to wait for a holder or for an earlier waiter.
    pub(super) fn must_wait(&self, want: &Want) -> bool {
        self.entries.iter().any(|e| e.want.conflicts(want))
    }

    /// Puts a request at the end of the queue. Calls `waiter` only if the request has to wait.
    pub(super) fn admit(&mut self, want: Want, waiter: impl FnOnce() -> W) -> Admission<W> {
        let id = self.next_id;
        self.next_id += 1;
        let blockers = self.entries.iter().filter(|e| e.want.conflicts(&want)).count();
        let waiter = (blockers > 0).then(waiter);
        self.entries.push(LockEntry { id, want, blockers, waiter: waiter.clone() });
        Admission { id, waiter }
    }

    /// Removes a holder and returns what it held. Appends the waiters that may hold their locks now
    /// to `woken`.
    ///
    /// # Panics
    /// If `id` is not in the queue or does not hold its lock.
    pub(super) fn release(&mut self, id: u64, woken: &mut Vec<W>) -> Want {
        let at = self
            .entries
            .binary_search_by_key(&id, |e| e.id)
            .expect("a guard's entry is in the queue until the guard is dropped");
        let released = self.entries.remove(at);
        assert_eq!(released.blockers, 0, "only a holder can release");
        for later in &mut self.entries[at..] {
            if later.want.conflicts(&released.want) {
                later.blockers -= 1;
                if later.blockers == 0 {
                    woken.extend(later.waiter.take());
                }
            }
        }
        released.want
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_pair_of_wants_conflicts_as_documented() {
        use Want::{Exclusive, Shared, Through, Whole};
        let table = [
            (Through, Through, false),
            (Through, Shared(0..10), false),
            (Through, Exclusive(0..10), false),
            (Through, Whole, true),
            (Shared(0..10), Shared(0..10), false),
            (Shared(0..10), Exclusive(9..20), true),
            (Shared(0..10), Exclusive(10..20), false),
            (Shared(0..10), Whole, true),
            (Exclusive(0..10), Exclusive(9..20), true),
            (Exclusive(0..10), Exclusive(10..20), false),
            (Exclusive(0..100), Exclusive(40..50), true),
            (Exclusive(5..6), Exclusive(5..6), true),
            (Exclusive(0..10), Whole, true),
            (Whole, Whole, true),
        ];
        for (a, b, conflict) in table {
            assert_eq!(a.conflicts(&b), conflict, "{a:?} with {b:?}");
            assert_eq!(b.conflicts(&a), conflict, "{b:?} with {a:?}");
        }
    }

    #[test]
    fn a_release_wakes_only_those_it_was_the_last_obstacle_of() {
        let mut queue = LockQueue::new();
        let left = queue.admit(Want::Exclusive(0..10), || "left");
        let right = queue.admit(Want::Exclusive(10..20), || "right");
        let both = queue.admit(Want::Exclusive(5..15), || "both");
        let behind = queue.admit(Want::Shared(14..15), || "behind");
        assert!(left.waiter.is_none() && right.waiter.is_none());
        assert!(both.waiter.is_some() && behind.waiter.is_some());
        let mut woken = Vec::new();
        queue.release(right.id, &mut woken);
        assert!(woken.is_empty(), "`behind` still stands behind `both`");
        queue.release(left.id, &mut woken);
        assert_eq!(woken, ["both"]);
        queue.release(both.id, &mut woken);
        assert_eq!(woken, ["both", "behind"]);
        queue.release(behind.id, &mut woken);
        assert!(queue.is_empty());
    }

    #[test]
    #[should_panic(expected = "only a holder can release")]
    fn a_waiter_cannot_release() {
        let mut queue = LockQueue::new();
        queue.admit(Want::Whole, || ());
        let waiting = queue.admit(Want::Through, || ());
        queue.release(waiting.id, &mut Vec::new());
    }

    fn any_want() -> impl Strategy<Value = Want> {
        let range = (0u64..32, 1u64..12).prop_map(|(at, len)| at..at + len);
        prop_oneof![
            2 => Just(Want::Through),
            4 => range.clone().prop_map(Want::Shared),
            4 => range.prop_map(Want::Exclusive),
            1 => Just(Want::Whole),
        ]
    }

    /// The conflict rule of the model, over sets of bytes instead of ends of ranges.
    fn model_conflict(a: &Want, b: &Want) -> bool {
        let bytes = |w: &Want| match w {
            Want::Shared(r) | Want::Exclusive(r) => r.clone().collect::<Vec<_>>(),
            Want::Through | Want::Whole => Vec::new(),
        };
        let overlap = bytes(a).iter().any(|x| bytes(b).contains(x));
        let alone = |w: &Want| matches!(w, Want::Exclusive(_));
        *a == Want::Whole || *b == Want::Whole || (overlap && (alone(a) || alone(b)))
    }

    proptest! {
        /// After any sequence of requests and releases, exactly those entries hold their lock that
        /// conflict with no entry before them.
        #[test]
        fn holders_match_the_model(steps in prop::collection::vec(
            (any_want(), any::<prop::sample::Index>(), 0u8..5), 1..80
        )) {
            let mut queue = LockQueue::new();
            let mut model: Vec<(u64, Want)> = Vec::new();
            let mut granted = std::collections::BTreeSet::new();
            for (number, (want, pick, kind)) in (0u64..).zip(steps) {
                if kind < 3 || granted.is_empty() {
                    let must_wait = queue.must_wait(&want);
                    let admission = queue.admit(want.clone(), || number);
                    prop_assert_eq!(must_wait, admission.waiter.is_some());
                    // The waiter of an entry is the step's number; remember it by the entry's id.
                    model.push((admission.id, want));
                    if admission.waiter.is_none() {
                        granted.insert(admission.id);
                    }
                } else {
                    let id = *pick.get(&granted.iter().copied().collect::<Vec<_>>());
                    let mut woken = Vec::new();
                    queue.release(id, &mut woken);
                    granted.remove(&id);
                    model.retain(|(other, _)| *other != id);
                    let newly = queue.entries.iter().filter(|e| e.blockers == 0
                        && !granted.contains(&e.id));
                    let newly: Vec<u64> = newly.map(|e| e.id).collect();
                    prop_assert_eq!(newly.len(), woken.len(), "each of them is woken once");
                    granted.extend(newly);
                }
                let expected: std::collections::BTreeSet<u64> = model.iter().enumerate()
                    .filter(|(
                        at, (_, want)
                    )| !model[..*at].iter().any(|(_, before)| model_conflict(before, want)))
                    .map(|(_, (id, _))| *id)
                    .collect();
                prop_assert_eq!(&expected, &granted);
            }
        }
    }
}

//! The gate through which concurrent operations pass without taking the table's mutex.

use std::sync::atomic::{AtomicU64, Ordering};

/// Set while a request for the whole file is queued or held.
const CLOSED: u64 = 1 << 63;

/// A count of those inside and a bit that keeps others out, in one word.
///
/// Invariants:
/// 1. While `CLOSED` is set the count only falls, because `enter` refuses.
/// 2. Therefore, once closed with a crowd inside, exactly one `leave` sees itself as the last one out.
/// 3. `close`, `try_close` and `open` are called under the table's mutex only, in turn; and not `open` before the crowd
///    has left. So 2 holds for each closing separately.
///
/// Memory order: `leave` releases and `close`, `try_close` or the last `leave` acquires, so what the crowd did happens
/// before what the holder of the whole file does; `open` releases and `enter` acquires, for the way back.
#[derive(Debug, Default)]
pub(super) struct Gate(AtomicU64);

impl Gate {
    /// Joins the crowd; `false` if the gate is closed.
    pub(super) fn enter(&self) -> bool {
        let mut seen = self.0.load(Ordering::Relaxed);
        while seen & CLOSED == 0 {
            match self.0.compare_exchange_weak(seen, seen + 1, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    /// Leaves the crowd; `true` if this was the last one out of a closed gate, who must say so to the table.
    pub(super) fn leave(&self) -> bool {
        let before = self.0.fetch_sub(1, Ordering::AcqRel);
        debug_assert_ne!(before & !CLOSED, 0, "left a gate that nobody had entered");
        before == CLOSED | 1
    }

    /// Closes an open gate; `true` if a crowd is still inside.
    pub(super) fn close(&self) -> bool {
        let before = self.0.fetch_or(CLOSED, Ordering::AcqRel);
        debug_assert_eq!(before & CLOSED, 0, "closed twice");
        before != 0
    }

    /// Closes an open gate only if nobody is inside; `false` if somebody is.
    pub(super) fn try_close(&self) -> bool {
        self.0.compare_exchange(0, CLOSED, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Opens a closed, empty gate.
    pub(super) fn open(&self) {
        let before = self.0.swap(0, Ordering::Release);
        debug_assert_eq!(before, CLOSED, "opened while a crowd was inside");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_gate_lets_nobody_in_and_names_the_last_one_out() {
        let gate = Gate::default();
        assert!(gate.enter() && gate.enter());
        assert!(!gate.try_close(), "two are inside");
        assert!(gate.close());
        assert!(!gate.enter());
        assert!(!gate.leave());
        assert!(gate.leave());
        gate.open();
        assert!(gate.enter());
        assert!(!gate.leave(), "an open gate needs no report");
        assert!(gate.try_close());
        assert!(!gate.enter());
        gate.open();
        assert!(!gate.close(), "nobody was inside");
    }
}

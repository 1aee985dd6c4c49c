//! The gate that lets concurrent operations pass without the table's mutex.

use std::sync::atomic::{AtomicU64, Ordering};

/// Set while a request for the whole file is queued or held.
const CLOSED: u64 = 1 << 63;

/// The number of operations inside, and a bit that keeps others out, in one word.
///
/// Invariants:
/// 1. While `CLOSED` is set, the count only falls, because `enter` refuses.
/// 2. So when a gate is closed with operations inside, exactly one `leave` finds that it was the
///    last.
/// 3. `close`, `try_close` and `open` are called under the table's mutex only, in turn, and `open`
///    only after the last operation has left. So 2 holds for each closing separately.
///
/// Memory order: `leave` releases, and `close`, `try_close` or the last `leave` acquires. So what
/// the operations inside did happens before what the holder of the whole file does. In the other
/// direction `open` releases and `enter` acquires.
#[derive(Debug, Default)]
pub(super) struct Gate(AtomicU64);

impl Gate {
    /// Enters; `false` if the gate is closed.
    pub(super) fn enter(&self) -> bool {
        let mut word = self.0.load(Ordering::Relaxed);
        while word & CLOSED == 0 {
            match self.0.compare_exchange_weak(word, word + 1, Ordering::Acquire, Ordering::Relaxed)
            {
                Ok(_) => return true,
                Err(current) => word = current,
            }
        }
        false
    }

    /// Leaves; `true` if this was the last operation inside a closed gate. The caller must then
    /// report to the table.
    pub(super) fn leave(&self) -> bool {
        let before = self.0.fetch_sub(1, Ordering::AcqRel);
        debug_assert_ne!(before & !CLOSED, 0, "left a gate that nobody had entered");
        before == CLOSED | 1
    }

    /// Closes an open gate; `true` if operations are still inside.
    pub(super) fn close(&self) -> bool {
        let before = self.0.fetch_or(CLOSED, Ordering::AcqRel);
        debug_assert_eq!(before & CLOSED, 0, "closed twice");
        before != 0
    }

    /// Closes an open gate only if no operation is inside; `false` if one is.
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

//! Detects handles whose writes are each made durable before the next one, like those of a log.

use std::sync::atomic::{AtomicU32, Ordering};

/// Number of syncs in a row, each after at most [`FEW`] writes, after which a handle counts as that
/// of a log.
const ROW: u32 = 8;

/// Most writes before each of these syncs.
const FEW: u32 = 2;

/// How a handle is written and synced. Nothing is written behind for the handle of a log: if a
/// write were acknowledged early, the sync would wait for it at once, and two more threads would
/// have to be woken for that.
#[derive(Debug, Default)]
pub(super) struct LogWrites {
    writes: AtomicU32,
    row: AtomicU32,
}

impl LogWrites {
    /// Notes a write. Returns true if a sync will soon follow, as far as can be predicted.
    pub(super) fn wrote(&self) -> bool {
        // More than [`FEW`] writes before a sync are not those of a log, however long the handle
        // was one.
        let before = self.writes.fetch_add(1, Ordering::Relaxed);
        before < FEW && self.row.load(Ordering::Relaxed) >= ROW
    }

    /// Notes a sync.
    pub(super) fn synced(&self) {
        match self.writes.swap(0, Ordering::Relaxed) {
            0 => {}
            1..=FEW => {
                // Two threads at once may lose one increment. Then it takes one sync more.
                let row = self.row.load(Ordering::Relaxed);
                self.row.store(ROW.min(row + 1), Ordering::Relaxed);
            }
            _ => self.row.store(0, Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_known_by_its_syncs_until_it_writes_more() {
        let commits = LogWrites::default();
        for _ in 0..ROW {
            assert!(!commits.wrote());
            commits.synced();
            commits.synced();
        }
        assert!(commits.wrote());
        assert!(commits.wrote());
        commits.synced();
        assert!((0..FEW).all(|_| commits.wrote()));
        assert!(!commits.wrote(), "nobody syncs any more");
        commits.synced();
        assert!(!commits.wrote());
    }
}

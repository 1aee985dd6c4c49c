//! Writes that are each made durable before the next one, as those of a log are.

use std::sync::atomic::{AtomicU32, Ordering};

/// Syncs after at most [`FEW`] writes each, in a row, that make a handle that of a log.
const ROW: u32 = 8;

/// Writes before a sync.
const FEW: u32 = 2;

/// How a handle is written and synced. For that of a log nothing is written behind: acknowledged
/// early, a write would be waited for by the sync at once, for which two more threads had to be
/// woken.
#[derive(Debug, Default)]
pub(super) struct Commits {
    writes: AtomicU32,
    row: AtomicU32,
}

impl Commits {
    /// Notes a write; true if a sync will follow soon, as far as one can tell.
    pub(super) fn wrote(&self) -> bool {
        // More of them before a sync are none of a log, however long it was one.
        let before = self.writes.fetch_add(1, Ordering::Relaxed);
        before < FEW && self.row.load(Ordering::Relaxed) >= ROW
    }

    /// Notes a sync.
    pub(super) fn synced(&self) {
        match self.writes.swap(0, Ordering::Relaxed) {
            0 => {}
            1..=FEW => {
                // Two threads at once may lose one: then it takes one sync more.
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
        let commits = Commits::default();
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

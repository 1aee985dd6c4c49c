//! How much memory the server's own cache gets, by the number of clients.

use serde::{Deserialize, Serialize};

/// Numbers of clients for which memory is planned.
const CLIENTS: [u64; 5] = [10, 50, 100, 400, 1000];

/// The system keeps this part of the memory, and at least and at most so many bytes, but never more
/// than a quarter.
const SYSTEM_PART: u64 = 16;
const SYSTEM_MIN: u64 = 512 << 20;
const SYSTEM_MAX: u64 = 8 << 30;

/// A row of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryRow {
    /// So many clients at once.
    pub clients: u64,
    /// Bytes for the server's own cache; 0 if the clients leave none.
    pub own_cache: u64,
    /// Bytes for the sessions of all clients.
    pub sessions: u64,
    /// Bytes for the page cache: of the files that stay cached, or of all.
    pub page_cache: u64,
    /// Bytes for the system and everything else.
    pub system: u64,
}

/// How memory is divided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryPlan {
    /// Bytes of all memory.
    pub total: u64,
    /// Bytes of a session.
    pub session: u64,
    /// Whether that was measured, or comes from the settings.
    pub is_measured: bool,
    /// For each number of clients.
    pub rows: Vec<MemoryRow>,
}

impl MemoryPlan {
    /// Divides `total` bytes. `own_part` of a hundred parts of what the system and the sessions
    /// leave go to the server's own cache, the others to the page cache; no more than `needed`
    /// bytes, which all data would fill.
    pub(super) fn new(
        total: u64,
        (session, is_measured): (u64, bool),
        own_part: u64,
        needed: u64,
    ) -> MemoryPlan {
        let system = (total / SYSTEM_PART).clamp(SYSTEM_MIN, SYSTEM_MAX).min(total / 4);
        let row = |clients: u64| {
            let sessions = clients.saturating_mul(session);
            let left = total.saturating_sub(system).saturating_sub(sessions);
            let own_cache = rounded((left / 100 * own_part).min(needed));
            let page_cache = left - own_cache;
            MemoryRow { clients, own_cache, sessions: total - system - left, page_cache, system }
        };
        MemoryPlan { total, session, is_measured, rows: CLIENTS.map(row).to_vec() }
    }

    /// The row for a number of clients: the next larger one that is planned.
    pub(super) fn row(&self, clients: u64) -> MemoryRow {
        let found = self.rows.iter().find(|row| row.clients >= clients).or(self.rows.last());
        *found.expect("a plan has rows")
    }
}

/// Rounded down to a number that people would choose: 5 bits that count.
fn rounded(bytes: u64) -> u64 {
    let unit = 1_u64 << (63 - bytes.max(1).leading_zeros()).saturating_sub(4);
    bytes / unit * unit
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn all_memory_is_divided_and_clients_take_theirs_first() {
        let plan = MemoryPlan::new(16 * GIB, (10 << 20, true), 80, u64::MAX);
        for row in &plan.rows {
            assert_eq!(row.own_cache + row.sessions + row.page_cache + row.system, plan.total);
        }
        let caches: Vec<u64> = plan.rows.iter().map(|row| row.own_cache).collect();
        assert!(caches.is_sorted_by(|one, next| one >= next), "{caches:?}");
        assert_eq!(plan.row(10).own_cache, 11 * GIB + GIB / 2);
        assert_eq!(plan.row(60).clients, 100);
        assert_eq!(plan.row(5000).clients, 1000);
    }

    #[test]
    fn small_machines_and_small_databases_are_no_exception() {
        let plan = MemoryPlan::new(GIB, (10 << 20, false), 80, u64::MAX);
        assert_eq!(plan.rows[4].own_cache, 0, "the sessions need all");
        assert_eq!(plan.rows[0].system, GIB / 4);
        let plan = MemoryPlan::new(16 * GIB, (10 << 20, true), 80, GIB);
        assert_eq!(plan.rows[0].own_cache, GIB);
        assert_eq!(rounded(0), 0);
    }
}

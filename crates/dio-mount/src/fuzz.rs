//! What others write to a mount, for the fuzzer, which is in a crate of its own (`fuzz/`).

use std::path::Path;
use std::sync::{Arc, LazyLock};

use crate::control::Commands;
use crate::control::protocol;
use crate::session::table;
use crate::stats::{Snapshot, Stats};

static STATS: LazyLock<Arc<Stats>> = LazyLock::new(Stats::new);

/// Has a line of the control socket answered, where `set` judges a change of settings; returns the
/// answer.
pub fn answer(line: &str, set: fn(&str) -> Result<(), String>) -> String {
    let commands = Commands { settings: Box::new(|| "dio".to_owned()), set: Box::new(set) };
    protocol::answer(line, &STATS, &commands)
}

/// Reads the answer of a server to whoever asked for its counters; `None` where it is none.
pub fn snapshot(answer: &str) -> Option<Snapshot> {
    protocol::read_answer(answer).ok()?.ok()
}

/// Reads a table of mounts, of which names and sources are whatever those who mounted them wrote,
/// and looks for the mounts that hold each of them.
///
/// # Panics
/// When a mount is not on a path that its own place lies on.
pub fn mount_table(table: &[u8]) {
    let mounts: Vec<table::Entry> = table.split(|byte| *byte == b'\n').filter_map(table::entry).collect();
    for mount in mounts.iter().take(8).filter(|mount| mount.at.is_absolute()) {
        let _ = mount.is_read_only();
        if let Some(holding) = table::holding(mounts.clone(), &mount.at) {
            assert!(mount.at.starts_with(&holding.at), "{holding:?} does not hold {mount:?}");
        }
        let _ = table::holding(mounts.clone(), Path::new("/"));
    }
}

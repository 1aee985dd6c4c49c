//! Entry points for the fuzzer (a crate of its own, `fuzz/`): parsers of data that other processes
//! write.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use crate::control::Commands;
use crate::control::protocol;
use crate::session::table;
use crate::stats::{Snapshot, Stats};

static STATS: LazyLock<Arc<Stats>> = LazyLock::new(Stats::new);

/// Answers one line as the control socket does; `set` decides about a change of settings.
pub fn answer(line: &str, set: fn(&str) -> Result<(), String>) -> String {
    let commands = Commands { settings: Box::new(|| "dio".to_owned()), set: Box::new(set) };
    protocol::answer(line, &STATS, &commands)
}

/// Parses a server's answer to a request for its counters; `None` if it is not such an answer.
pub fn snapshot(answer: &str) -> Option<Snapshot> {
    protocol::read_answer(answer).ok()?.ok()
}

/// Parses a table of mounts, in which names and sources are arbitrary bytes, and looks up the mount
/// that contains each mount point.
///
/// # Panics
/// If the path of the mount that was found is not a prefix of the mount point.
pub fn mount_table(table: &[u8]) {
    let mounts: Vec<table::MountRecord> =
        table.split(|byte| *byte == b'\n').filter_map(table::entry).collect();
    for mount in mounts.iter().take(8).filter(|mount| mount.at.is_absolute()) {
        let _ = mount.is_read_only();
        if let Some(holding) = table::holding(mounts.clone(), &mount.at) {
            assert!(mount.at.starts_with(&holding.at), "{holding:?} does not hold {mount:?}");
        }
        let _ = table::holding(mounts.clone(), Path::new("/"));
    }
}

//! The rules for MariaDB with InnoDB.
//!
//! The settings are described in its manual, "InnoDB System Variables".

use dio_common::units::size;

use super::facts::DatabaseFacts;
use super::files::FileClass;
use super::memory::MemoryPlan;
use super::model::Setting;
use super::rules::{Rules, Settings, log_line};
use crate::predict::{Advised, Confidence};

/// Buffers that a session may have at once.
const SESSION_BUFFERS: [&str; 7] = [
    "thread_stack",
    "sort_buffer_size",
    "join_buffer_size",
    "read_buffer_size",
    "read_rnd_buffer_size",
    "binlog_cache_size",
    "net_buffer_length",
];

/// Parts of a hundred of the free memory that go to the buffer pool: with direct I/O it is the only
/// cache of InnoDB's tables. Less, where tables of other engines need the page cache.
const OWN_PART: u64 = 85;
const OWN_PART_BESIDE_OTHERS: u64 = 60;

/// A pool that is smaller than this part of what is advised has to grow in the same step.
const SMALL_POOL: u64 = 4;

/// The rules; `measured` is the way that was measured to be the best.
pub(super) fn rules(facts: &DatabaseFacts, clients: u64, measured: Option<Advised>) -> Rules {
    let memory = memory(facts);
    let (way, confidence, mut why) = way(facts, &memory, clients);
    let way = measured.unwrap_or(way);
    why.extend(log_line(facts));
    Rules {
        way,
        confidence,
        why,
        settings: settings(facts, way, &memory, clients),
        stay_cached: stay_cached(facts),
        memory,
    }
}

fn memory(facts: &DatabaseFacts) -> MemoryPlan {
    let buffers = SESSION_BUFFERS.iter().filter_map(|name| facts.number(name));
    let session = buffers.fold(0_u64, u64::saturating_add).max(1 << 20);
    let others = facts.bytes(FileClass::PageCacheTables);
    let part = if others > facts.memory / 20 { OWN_PART_BESIDE_OTHERS } else { OWN_PART };
    let needed = (facts.bytes(FileClass::Data) / 10 * 11).max(128 << 20);
    MemoryPlan::new(facts.memory, (session, false), part, needed)
}

/// Whether InnoDB's tables go past the page cache now.
fn is_direct(facts: &DatabaseFacts) -> bool {
    match facts.setting("innodb_data_file_buffering") {
        Some(_) => !facts.is_on("innodb_data_file_buffering"),
        None => facts.setting("innodb_flush_method").unwrap_or_default().contains("O_DIRECT"),
    }
}

fn way(
    facts: &DatabaseFacts,
    memory: &MemoryPlan,
    clients: u64,
) -> (Advised, Confidence, Vec<String>) {
    if !facts.data_disk.takes_direct {
        let line = format!("{} takes no direct I/O", facts.data_disk.name);
        return (Advised::Cached, Confidence::High, vec![line]);
    }
    let (data, others) = (facts.bytes(FileClass::Data), facts.bytes(FileClass::PageCacheTables));
    if others > data {
        let line = format!(
            "{} are in tables of MyISAM or Aria, which only the page cache holds; InnoDB has {}",
            size(others),
            size(data)
        );
        return (Advised::Cached, Confidence::High, vec![line]);
    }
    let mut why = vec![
        "InnoDB has a cache and a read-ahead of its own: the page cache would hold the same again"
            .to_owned(),
    ];
    let (now, advised) = (facts.own_cache(), memory.row(clients).own_cache);
    let is_small = now.saturating_mul(SMALL_POOL) < advised;
    if is_small {
        why.push(format!(
            "its buffer pool of {} is small: with direct I/O the tables have no other cache, so \
             the pool grows in the same step, or they stay cached",
            size(now)
        ));
    }
    if let Some(hits) = facts.own_hits {
        why.push(format!("the buffer pool had {:.1} % of what was read", hits * 100.0));
    }
    let load = facts.load.as_ref().map(|load| load.of(FileClass::Data)).unwrap_or_default();
    if let Some(part) = load.cached_part().filter(|_| load.direct == 0 && load.reads > 100) {
        why.push(format!(
            "the page cache had {:.0} % of the {} that it read",
            part * 100.0,
            size(load.read_bytes)
        ));
    }
    // Memory that is too small for the data, and a pool that does not grow, are the exceptions.
    let is_safe = is_direct(facts) || (!is_small && advised >= data / 4);
    (Advised::Direct, if is_safe { Confidence::High } else { Confidence::Medium }, why)
}

fn settings(
    facts: &DatabaseFacts,
    way: Advised,
    memory: &MemoryPlan,
    clients: u64,
) -> Vec<Setting> {
    let row = memory.row(clients);
    let mut settings = Settings::of(facts);
    settings.add_bytes(
        "innodb_buffer_pool_size",
        1,
        row.own_cache,
        format!(
            "what the system and {} clients leave of {}, as far as the data need it",
            row.clients,
            size(memory.total)
        ),
    );
    let has_switches = facts.setting("innodb_data_file_buffering").is_some();
    match (way, has_switches) {
        (Advised::Direct, true) => {
            settings.add("innodb_data_file_buffering", "OFF", "tables past the page cache");
        }
        (Advised::Direct, false) => {
            settings.add("innodb_flush_method", "O_DIRECT", "tables past the page cache");
        }
        (_, true) => settings.add("innodb_data_file_buffering", "ON", "tables stay cached"),
        (_, false) => settings.add("innodb_flush_method", "fsync", "tables stay cached"),
    }
    let of_log = ["innodb_log_file_buffering", "innodb_log_file_write_through"];
    settings.add_sync(|name| of_log.contains(&name));
    settings.add(
        "innodb_flush_log_at_trx_commit",
        "1",
        "a commit is durable when it is acknowledged",
    );
    if facts.is_on("log_bin") {
        settings.add("sync_binlog", "1", "replicas get nothing that a power cut takes back");
    }
    let block = facts.log_disk.physical_block.clamp(512, 4096);
    // A server may have found the blocks of the disk by itself.
    let log = facts.load.as_ref().map(|load| load.of(FileClass::Log)).unwrap_or_default();
    if log.writes == 0 || log.misaligned_writes > 0 {
        settings.add(
            "innodb_log_write_ahead_size",
            block.to_string(),
            "whole blocks of the disk: a part of one is read, patched and written",
        );
    }
    settings.add("innodb_doublewrite", "ON", "a power cut may leave half a page");
    if facts.data_disk.rotational == Some(false) {
        settings.add("innodb_flush_neighbors", "0", "the disk does not turn");
    }
    let threads = facts.processors.clamp(4, 16).to_string();
    for name in ["innodb_read_io_threads", "innodb_write_io_threads"] {
        settings.add(name, &*threads, "one for each processor, from 4 to 16");
    }
    settings.add("innodb_use_native_aio", "ON", "writes wait in the kernel, not in threads");
    redo(facts, &mut settings);
    settings.all
}

/// The size of the redo log.
fn redo(facts: &DatabaseFacts, settings: &mut Settings<'_>) {
    let Some(load) = facts.load.as_ref().filter(|load| load.seconds > 0.0) else { return };
    let hour = (load.of(FileClass::Log).written_bytes as f64 / load.seconds * 3600.0) as u64;
    let now = facts.number("innodb_log_file_size").unwrap_or(u64::MAX);
    let needed = hour.min(facts.memory / 4);
    if needed > now {
        settings.add_bytes(
            "innodb_log_file_size",
            1,
            needed.div_ceil(1 << 20) << 20,
            format!("an hour of its load writes {} to the log", size(hour)),
        );
    }
}

fn stay_cached(facts: &DatabaseFacts) -> Vec<(String, String)> {
    let mut all = vec![
        ("ib_buffer_pool aria_log_control".to_owned(), "small, and rewritten whole".to_owned()),
        ("*.frm *.opt *.cnf".to_owned(), "definitions and settings".to_owned()),
    ];
    if facts.bytes(FileClass::PageCacheTables) > 0 {
        let why = "tables of MyISAM and Aria, whose rows only the page cache holds";
        all.push(("*.MYD *.MAD *.MYI *.MAI".to_owned(), why.to_owned()));
    }
    if facts.is_on("log_bin") {
        let why = "replicas read binary logs soon after they were written";
        all.push(("*-bin.*".to_owned(), why.to_owned()));
    }
    all
}

//! The rules for PostgreSQL.
//!
//! The settings are described in its manual, chapter "Server Configuration".

use dio_common::units::size;

use super::facts::DatabaseFacts;
use super::files::FileClass;
use super::memory::MemoryPlan;
use super::model::Setting;
use super::rules::{Rules, Settings, log_line};
use crate::predict::{Advised, Confidence};

/// Bytes that a session is taken to have for itself where none could be looked at, without the
/// memory for sorts.
const SESSION_BYTES: u64 = 10 << 20;

/// Parts of a hundred of the free memory that go to `shared_buffers` while the page cache has the
/// tables too: the manual names a quarter as a start.
const OWN_PART: u64 = 25;

/// The page cache has so little of what is read that reads could as well go past it.
const MISSES: f64 = 0.1;
/// It has so much of it that direct I/O would be slower.
const HITS: f64 = 0.5;

pub(super) fn rules(facts: &DatabaseFacts, clients: u64) -> Rules {
    let memory = memory(facts);
    let (way, confidence, mut why) = way(facts);
    why.extend(log_line(facts));
    Rules {
        way,
        confidence,
        why,
        settings: settings(facts, &memory, clients),
        stay_cached: stay_cached(facts),
        memory,
    }
}

fn memory(facts: &DatabaseFacts) -> MemoryPlan {
    let own = facts.session_bytes.unwrap_or(SESSION_BYTES);
    let sort = facts.number("work_mem").unwrap_or(4096).saturating_mul(1024);
    let needed = (facts.bytes(FileClass::Data) / 10 * 11).max(128 << 20);
    let session = (own.saturating_add(sort), facts.session_bytes.is_some());
    MemoryPlan::new(facts.memory, session, OWN_PART, needed)
}

fn way(facts: &DatabaseFacts) -> (Advised, Confidence, Vec<String>) {
    let why = |line: String| vec![line];
    if !facts.data_disk.takes_direct {
        let line = format!("{} takes no direct I/O", facts.data_disk.name);
        return (Advised::Cached, Confidence::High, why(line));
    }
    let own = match facts.version.0 {
        0..=15 => "it has no direct I/O for tables, and relies on the kernel's read-ahead",
        16 | 17 => "its direct I/O (debug_io_direct) is for developers, and has no read-ahead",
        _ => "its direct I/O (debug_io_direct) is for developers",
    };
    let data = facts.load.as_ref().map(|load| load.of(FileClass::Data)).unwrap_or_default();
    let mut lines = why(format!("PostgreSQL {}: {own}", facts.version.0));
    match data.cached_part() {
        Some(part) if part >= HITS => {
            lines.push(format!(
                "the page cache had {:.0} % of the {} that it read: direct I/O would fetch all \
                 from the disk",
                part * 100.0,
                size(data.read_bytes)
            ));
            (Advised::Cached, Confidence::High, lines)
        }
        Some(part) if part < MISSES && data.reads > 1000 => {
            lines.push(format!(
                "the page cache had only {:.0} % of the {} that it read: a mount (`dio mount -o \
                 concurrent`) with larger shared_buffers may be faster; --prove finds out",
                part * 100.0,
                size(data.read_bytes)
            ));
            (Advised::CannotTell, Confidence::Low, lines)
        }
        _ => (Advised::Cached, Confidence::Medium, lines),
    }
}

fn settings(facts: &DatabaseFacts, memory: &MemoryPlan, clients: u64) -> Vec<Setting> {
    let row = memory.row(clients);
    let block = facts.number("block_size").unwrap_or(8192);
    let mut settings = Settings::of(facts);
    settings.add_bytes(
        "shared_buffers",
        block,
        row.own_cache,
        format!(
            "a quarter of what the system and {} clients leave of {}, as far as the data need it",
            row.clients,
            size(memory.total)
        ),
    );
    settings.add_bytes(
        "effective_cache_size",
        block,
        row.own_cache + row.page_cache,
        "shared_buffers and the page cache, which hold the data together",
    );
    settings.add_sync(|name| facts.setting(name).is_some());
    wal(facts, &mut settings);
    if facts.data_disk.rotational == Some(false) {
        settings.add("random_page_cost", "1.1", "the disk does not turn");
        if (13..18).contains(&facts.version.0) {
            let why = "the disk does not turn, and serves many reads at once";
            settings.add("effective_io_concurrency", "200", why);
        }
    }
    if facts.version.0 >= 18 {
        let workers = (facts.processors / 4).max(3).to_string();
        settings.add("io_workers", workers, "a quarter of the processors reads ahead");
    }
    settings.add("fsync", "on", "without it, a power cut destroys the database");
    let is_torn = !facts.data_disk.copies_on_write;
    if is_torn {
        let why = "a power cut may leave half a page, and the disk promises no other";
        settings.add("full_page_writes", "on", why);
    }
    settings.add("debug_io_direct", "", "it is for developers");
    settings.all
}

/// The settings of the log.
fn wal(facts: &DatabaseFacts, settings: &mut Settings<'_>) {
    if facts.log_disk.copies_on_write {
        let why = "the file system writes elsewhere each time: old segments save nothing";
        settings.add("wal_recycle", "off", why);
        settings.add("wal_init_zero", "off", why);
    }
    let Some(load) = facts.load.as_ref().filter(|load| load.seconds > 0.0) else { return };
    let log = load.of(FileClass::Log);
    let (Some(timeout), Some(now)) = (
        facts.number("checkpoint_timeout"),
        facts.number("max_wal_size").map(|mebibytes| mebibytes.saturating_mul(1 << 20)),
    ) else {
        return;
    };
    // The log since the last checkpoint but one is kept.
    let between = log.written_bytes as f64 / load.seconds * timeout as f64;
    let needed = (between * 2.0) as u64;
    if needed > now {
        let gibibytes = needed.div_ceil(1 << 30);
        settings.add_bytes(
            "max_wal_size",
            1 << 20,
            gibibytes << 30,
            format!(
                "{} a second are {} between two checkpoints {timeout} s apart: so they come by \
                 time, not by size",
                size((log.written_bytes as f64 / load.seconds) as u64),
                size(between as u64)
            ),
        );
    }
}

fn stay_cached(facts: &DatabaseFacts) -> Vec<(String, String)> {
    let mut all = vec![
        ("global/pg_control".to_owned(), "rewritten at each checkpoint, read by tools".to_owned()),
        (
            "pg_xact/* pg_multixact/** pg_subtrans/*".to_owned(),
            "small, and read by all sessions".to_owned(),
        ),
        ("*.conf".to_owned(), "settings".to_owned()),
    ];
    let is_read_again = facts.is_on("archive_mode")
        || facts.setting("archive_mode") == Some("always")
        || facts.number("max_wal_senders").unwrap_or(0) > 0;
    if is_read_again {
        let why = "the archiver and replicas read segments soon after they were written";
        all.push(("pg_wal/*".to_owned(), why.to_owned()));
    }
    all
}

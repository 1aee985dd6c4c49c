//! Advice for databases that are made up.

use std::collections::BTreeMap;
use std::path::Path;

use super::*;
use crate::predict::{Advised, Confidence};
use crate::trace::{Call, Event, EventSink, FileInfo, FileKind, Heading, Request, WatchCost};

const GIB: u64 = 1 << 30;

fn disk() -> DiskFacts {
    DiskFacts {
        name: "nvme0n1, ext4".into(),
        logical_block: 512,
        physical_block: 4096,
        rotational: Some(false),
        takes_direct: true,
        copies_on_write: false,
    }
}

fn facts(system: DatabaseSystem, version: (u32, u32), settings: &[(&str, &str)]) -> DatabaseFacts {
    let text = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    DatabaseFacts {
        system,
        version,
        directory: "/srv/db".into(),
        log_directory: "/srv/db".into(),
        settings: settings.iter().map(text).collect(),
        files: BTreeMap::from([(FileClass::Data, 100 * GIB)]),
        data_disk: disk(),
        log_disk: disk(),
        memory: 64 * GIB,
        processors: 8,
        session_bytes: None,
        load: None,
        own_hits: None,
        sync: None,
        missing: Vec::new(),
    }
}

fn postgresql(version: u32) -> DatabaseFacts {
    let settings = [
        ("block_size", "8192"),
        ("shared_buffers", "16384"),
        ("effective_cache_size", "524288"),
        ("work_mem", "4096"),
        ("max_wal_size", "1024"),
        ("checkpoint_timeout", "300"),
        ("wal_sync_method", "fdatasync"),
        ("wal_recycle", "on"),
        ("wal_init_zero", "on"),
        ("fsync", "on"),
        ("full_page_writes", "on"),
        ("random_page_cost", "4"),
        ("effective_io_concurrency", "1"),
        ("max_wal_senders", "10"),
        ("archive_mode", "off"),
    ];
    facts(DatabaseSystem::Postgresql, (version, 4), &settings)
}

fn mariadb(method: &str) -> DatabaseFacts {
    let settings = [
        ("innodb_buffer_pool_size", "134217728"),
        ("innodb_flush_method", method),
        ("innodb_flush_log_at_trx_commit", "1"),
        ("innodb_log_write_ahead_size", "512"),
        ("innodb_log_file_size", "100663296"),
        ("innodb_doublewrite", "TRUE"),
        ("innodb_flush_neighbors", "1"),
        ("innodb_read_io_threads", "4"),
        ("innodb_log_file_buffering", "FALSE"),
        ("sort_buffer_size", "2097152"),
        ("join_buffer_size", "262144"),
        ("log_bin", "ON"),
        ("sync_binlog", "0"),
    ];
    facts(DatabaseSystem::Mariadb, (10, 11), &settings)
}

/// A load that reads `read` bytes of data, of which `new` were new to the page cache.
fn load(read: u64, new: u64) -> DatabaseLoad {
    let data = ClassLoad {
        reads: read / 8192,
        read_bytes: read,
        new_to_cache: new,
        ..ClassLoad::default()
    };
    let log =
        ClassLoad { writes: 1000, written_bytes: 1000 << 20, syncs: 1000, ..ClassLoad::default() };
    let classes = BTreeMap::from([(FileClass::Data, data), (FileClass::Log, log)]);
    DatabaseLoad { seconds: 60.0, classes, unseen: 0, lost: 0 }
}

fn advised(advice: &DatabaseAdvice, name: &str) -> String {
    assert!(!advice.to_string().is_empty());
    let found = advice.settings.iter().find(|setting| setting.name == name);
    found.map(|setting| setting.advised.clone()).unwrap_or_default()
}

#[test]
fn postgresql_relies_on_the_page_cache_and_gets_a_quarter_itself() {
    let advice = postgresql(15).advise(100);
    assert_eq!(
        (advice.verdict.way, advice.verdict.confidence),
        (Advised::Cached, Confidence::Medium)
    );
    assert!(advice.verdict.why[0].contains("no direct I/O"), "{advice}");
    assert_eq!(advised(&advice, "shared_buffers"), "14848MB");
    assert_eq!(advised(&advice, "random_page_cost"), "1.1");
    assert_eq!(advised(&advice, "wal_sync_method"), "", "it was not measured");
    let lines = &advice.verdict.apply;
    assert_eq!(lines[0], "# postgresql.conf, 100 clients");
    assert!(lines.contains(&"shared_buffers = 14848MB".to_owned()), "{lines:?}");
    assert!(advice.missing[0].contains("dio synctest"));
    // Sixteen and later have debug_io_direct, and eighteen has workers.
    assert!(postgresql(17).advise(10).verdict.why[0].contains("read-ahead"));
    assert_eq!(postgresql(18).advise(10).verdict.way, Advised::Cached);
}

#[test]
fn what_the_page_cache_has_decides_for_postgresql() {
    let mut facts = postgresql(16);
    facts.load = Some(load(10 * GIB, GIB));
    let advice = facts.advise(100);
    assert_eq!(
        (advice.verdict.way, advice.verdict.confidence),
        (Advised::Cached, Confidence::High)
    );
    // 1000 MiB a minute are 5000 MiB between checkpoints.
    assert_eq!(advised(&advice, "max_wal_size"), "10GB");
    assert!(advice.to_string().contains("90 % in the page cache"), "{advice}");
    facts.load = Some(load(10 * GIB, 10 * GIB));
    let advice = facts.advise(100);
    assert_eq!(advice.verdict.way, Advised::CannotTell);
    assert!(advice.verdict.why.iter().any(|line| line.contains("--prove")), "{advice}");
}

#[test]
fn file_systems_decide_too() {
    let mut facts = postgresql(15);
    facts.log_disk.copies_on_write = true;
    let advice = facts.advise(100);
    assert_eq!(advised(&advice, "wal_recycle"), "off");
    facts.data_disk.takes_direct = false;
    assert_eq!(facts.advise(100).verdict.confidence, Confidence::High);
    let mut facts = mariadb("O_DIRECT");
    facts.data_disk.takes_direct = false;
    let advice = facts.advise(100);
    assert_eq!(advice.verdict.way, Advised::Cached);
    assert_eq!(advised(&advice, "innodb_flush_method"), "fsync");
}

#[test]
fn sessions_are_taken_before_the_own_cache() {
    let mut facts = postgresql(15);
    facts.session_bytes = Some(60 << 20);
    let advice = facts.advise(1000);
    assert!(advice.memory.is_measured);
    assert_eq!(advice.memory.rows[4].own_cache, 0, "1000 × 64 MiB are all there is");
    assert!(advice.to_string().contains("pooler"), "{advice}");
    // Nothing is advised that would be nothing.
    assert_eq!(advised(&advice, "shared_buffers"), "128MB");
}

#[test]
fn innodb_goes_direct_and_its_small_pool_grows_in_the_same_step() {
    let mut facts = mariadb("fsync");
    facts.load = Some(load(GIB, GIB / 2));
    let advice = facts.advise(100);
    assert_eq!(
        (advice.verdict.way, advice.verdict.confidence),
        (Advised::Direct, Confidence::Medium)
    );
    assert!(advice.verdict.why.iter().any(|line| line.contains("in the same step")), "{advice}");
    for (name, value) in [
        ("innodb_flush_method", "O_DIRECT"),
        ("innodb_doublewrite", "TRUE"),
        ("innodb_flush_neighbors", "0"),
        ("innodb_read_io_threads", "8"),
        ("sync_binlog", "1"),
        ("innodb_buffer_pool_size", "50G"),
        ("innodb_log_file_size", "16G"),
    ] {
        assert_eq!(advised(&advice, name), value, "{name}");
    }
    // The log is written in whole blocks already.
    assert_eq!(advised(&advice, "innodb_log_write_ahead_size"), "");
    facts.load = None;
    assert_eq!(advised(&facts.advise(100), "innodb_log_write_ahead_size"), "4096");
    assert!(advice.verdict.apply.contains(&"[mariadbd]".to_owned()));
    assert!(advice.stay_cached.iter().any(|(files, _)| files.contains("-bin")));
    assert!(advice.to_string().contains("the log is written in whole blocks of 512 bytes"));
}

#[test]
fn tables_of_other_engines_need_the_page_cache() {
    let mut facts = mariadb("O_DIRECT");
    facts.files.insert(FileClass::PageCacheTables, 200 * GIB);
    let advice = facts.advise(100);
    assert_eq!(
        (advice.verdict.way, advice.verdict.confidence),
        (Advised::Cached, Confidence::High)
    );
    assert!(advice.stay_cached.iter().any(|(files, _)| files.contains("MYD")));
}

#[test]
fn the_method_of_syncing_is_that_of_the_disk() {
    let sync = |settings: &[&str]| SyncFacts {
        settings: settings.iter().map(|line| (*line).to_owned()).collect(),
        why: vec!["one write of 8 KiB: fsync 900/s".to_owned()],
    };
    let mut facts = postgresql(15);
    facts.sync = Some(sync(&["wal_sync_method = open_datasync"]));
    let advice = facts.advise(100);
    assert_eq!(advised(&advice, "wal_sync_method"), "open_datasync");
    assert!(!advice.missing.iter().any(|line| line.contains("synctest")));
    let mut facts = mariadb("O_DIRECT");
    facts.sync = Some(sync(&["innodb_log_file_buffering = ON  (from 10.8.4)"]));
    assert_eq!(advised(&facts.advise(100), "innodb_log_file_buffering"), "ON");
}

#[test]
fn a_proof_decides() {
    let facts = mariadb("fsync");
    let advice = facts.advise(100);
    let proof = facts.proof(&advice, 100, 500 << 20, (64 << 20, 16 << 20));
    assert_eq!(proof.own_caches.len(), 2);
    assert!(proof.data >= 64 << 20 && proof.own_caches[0] >= 16 << 20, "{proof:?}");
    let reached = [
        (Advised::Cached, 16 << 20, 1000.0),
        (Advised::Direct, 16 << 20, 500.0),
        (Advised::Cached, 380 << 20, 2000.0),
        (Advised::Direct, 380 << 20, 1700.0),
    ];
    let proved = facts.prove(100, &reached, 16);
    assert_eq!(
        (proved.verdict.way, proved.verdict.confidence),
        (Advised::Cached, Confidence::High)
    );
    assert_eq!(advised(&proved, "innodb_flush_method"), "fsync");
    assert_eq!(proved.ways[0].measured_seconds, Some(0.016));
    assert!(proved.to_string().contains("2000/s"), "{proved}");
    let faster = [(Advised::Cached, 1 << 24, 1000.0), (Advised::Concurrent, 1 << 24, 1500.0)];
    assert_eq!(postgresql(15).prove(100, &faster, 16).verdict.way, Advised::Concurrent);
}

#[test]
fn requests_are_counted_by_class() {
    let mut sink = LoadSink::new(DatabaseSystem::Postgresql, Path::new("/srv/db"), 4096);
    let mut heading = Heading::new(Vec::new(), "5.4".into(), 0, WatchCost::default());
    heading.sees_aio = true;
    sink.add(&Event::Heading(heading)).unwrap();
    let mut file = |path: &str, kind| {
        let path = path.as_bytes().to_vec();
        sink.add(&Event::File(FileInfo { device: 1, inode: 2, kind, size: 0, path })).unwrap();
    };
    file("/srv/db/base/5/1259", FileKind::Regular);
    file("/elsewhere/000000010000000000000001", FileKind::Regular);
    file("socket", FileKind::Other);
    let request = |file, call, offset, done, cached| Request {
        done,
        cached,
        ..Request::at(0, call, 0, (file, offset), done as u64)
    };
    for request in [
        request(0, Call::Pread, 8192, 8192, 4096),
        request(0, Call::Pread, 0, -5, 0),
        request(1, Call::Pwrite, 0, 8192, 0),
        request(1, Call::Pwrite, 8192, 512, 0),
        request(1, Call::Fdatasync, 0, 0, 0),
        request(2, Call::Write, 0, 100, 0),
        request(9, Call::Write, 0, 100, 0),
        request(2, Call::IoUringEnter, 0, 1, 0),
        request(2, Call::IoSubmit, 0, 1, 0),
        request(1, Call::AioFsync, 0, 0, 0),
    ] {
        sink.add(&Event::Request(request)).unwrap();
    }
    sink.add(&Event::Ended { status: 0, after: 2_000_000_000 }).unwrap();
    let load = sink.load();
    assert_eq!((load.seconds, load.unseen, load.classes.len()), (2.0, 1, 2));
    let (data, log) = (load.of(FileClass::Data), load.of(FileClass::Log));
    assert_eq!(data.cached_part(), Some(0.5));
    assert_eq!((data.reads, data.writes), (1, 0));
    assert_eq!((log.writes, log.misaligned_writes, log.syncs), (2, 1, 2));
}

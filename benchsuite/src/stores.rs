//! Stores that commit, and the plain flush that they are compared with: the load of `wal`, in a
//! separate process for each run.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;

use serde_json::json;

use crate::Result;
use dio_bench::histogram::Histogram;

/// A store whose commits are durable when they return.
trait Store: Sync {
    /// Adds a record under a unique key, durably.
    fn commit(&self, key: u64, record: &[u8]) -> Result<()>;
}

/// Bytes that [`Flush`] overwrites, and the alignment of memory and offset that direct I/O accepts
/// on every file system.
const BLOCK: usize = 4096;

/// The plain flush, which is no store: it overwrites one block with direct I/O, and then calls
/// `fdatasync(2)`. It shows only how fast the disk can flush.
struct Flush {
    file: File,
    /// Two blocks long, so that it contains an aligned one.
    memory: Mutex<Vec<u8>>,
}

impl Flush {
    fn open(place: &Path) -> Result<Flush> {
        let path = place.join("block");
        std::fs::write(&path, [0; BLOCK])?;
        let direct = OFlags::DIRECT.bits().cast_signed();
        let file = OpenOptions::new().write(true).custom_flags(direct).open(&path)?;
        file.sync_all()?;
        Ok(Flush { file, memory: Mutex::new(vec![0; 2 * BLOCK]) })
    }
}

impl Store for Flush {
    fn commit(&self, key: u64, record: &[u8]) -> Result<()> {
        let mut memory = self.memory.lock().map_err(|_| "a client panicked")?;
        let at = memory.as_ptr().align_offset(BLOCK);
        let block = &mut memory[at..at + BLOCK];
        let length = record.len().min(BLOCK);
        block[..length].copy_from_slice(&record[..length]);
        // The contents differ in each write, since a disk may skip data that it has already.
        block[BLOCK - 8..].copy_from_slice(&(key + 1).to_le_bytes());
        self.file.write_all_at(block, 0)?;
        Ok(self.file.sync_data()?)
    }
}

/// `commits STORE DIR CLIENTS BYTES`: each client commits one record after the other. Prints
/// commits per second and response times.
pub(crate) fn run(
    store: &str,
    place: &Path,
    clients: usize,
    record: usize,
    seconds: u64,
) -> Result<()> {
    std::fs::create_dir_all(place)?;
    let opened = if store == "flush" { Box::new(Flush::open(place)?) } else { open(store, place)? };
    let (barrier, time) = (Barrier::new(clients), Duration::from_secs(seconds));
    let client = |number: usize| -> std::result::Result<(Vec<u64>, f64), String> {
        let record: Vec<u8> =
            (0..record).map(|at| (at as u8).wrapping_mul(31).wrapping_add(number as u8)).collect();
        let mut times = Vec::new();
        barrier.wait();
        let begin = Instant::now();
        let mut now = begin;
        while now - begin < time {
            let before = now;
            let key = times.len() as u64 * clients as u64 + number as u64;
            opened.commit(key, &record).map_err(|error| error.to_string())?;
            now = Instant::now();
            times.push((now - before).as_nanos() as u64);
        }
        Ok((times, (now - begin).as_secs_f64()))
    };
    let client = &client;
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..clients).map(|number| scope.spawn(move || client(number))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err("a client panicked".to_string())))
            .collect()
    });
    let (mut histogram, mut rate) = (Histogram::default(), 0.0);
    for outcome in outcomes {
        let (times, seconds) = outcome?;
        rate += times.len() as f64 / seconds;
        times.into_iter().for_each(|time| histogram.add(time));
    }
    let (p50, p99) = (histogram.quantile(0.5), histogram.quantile(0.99));
    println!(
        "{}",
        json!({"commits_per_second": rate, "p50_nanoseconds": p50, "p99_nanoseconds": p99})
    );
    Ok(())
}

#[cfg(not(feature = "stores"))]
fn open(store: &str, _place: &Path) -> Result<Box<dyn Store>> {
    Err(format!("{store} is not built in: build with --features stores").into())
}

#[cfg(feature = "stores")]
fn open(store: &str, place: &Path) -> Result<Box<dyn Store>> {
    match store {
        "sqlite" => Ok(Box::new(built::Sqlite::open(place)?)),
        #[cfg(feature = "rocksdb")]
        "rocksdb" => Ok(Box::new(built::Rocks::open(place)?)),
        "redb" => Ok(Box::new(built::Redb::open(place)?)),
        other => Err(format!("{other} is not built in").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::{BLOCK, Flush, Store, open};

    #[test]
    fn a_flush_overwrites_one_block_with_new_bytes() {
        let place = tempfile::tempdir_in("/var/tmp").expect("a directory");
        let flush = Flush::open(place.path()).expect("direct I/O");
        let read = || std::fs::read(place.path().join("block")).expect("the block");
        flush.commit(0, b"record").expect("flushed");
        let first = read();
        flush.commit(1, b"record").expect("flushed");
        assert!(
            first.len() == BLOCK
                && first.starts_with(b"record")
                && first != read()
                && read().len() == BLOCK
        );
    }

    #[test]
    fn every_store_that_is_built_in_keeps_what_it_commits_and_others_are_named() {
        let mut built = Vec::new();
        for store in ["sqlite", "rocksdb", "redb"] {
            let place = tempfile::tempdir_in("/var/tmp").expect("a directory");
            let Ok(opened) = open(store, place.path()) else { continue };
            (0..3).for_each(|key| opened.commit(key, &[7; 100]).expect("committed"));
            // SQLite refuses the same key again, which shows that the earlier records were kept.
            assert!(store != "sqlite" || opened.commit(2, &[7; 100]).is_err());
            built.push(store);
        }
        let expected =
            [cfg!(feature = "stores"), cfg!(feature = "rocksdb"), cfg!(feature = "stores")];
        assert_eq!(built.len(), expected.iter().filter(|built| **built).count(), "{built:?}");
        let error =
            open("abacus", std::path::Path::new(".")).err().expect("no such store").to_string();
        assert!(error.contains("not built in"), "{error}");
    }
}

#[cfg(feature = "stores")]
mod built {
    use std::path::Path;
    use std::sync::Mutex;

    use super::Store;
    use crate::Result;

    /// WAL mode, `synchronous=FULL`: a sync for each commit. The clients share one connection in
    /// turns: several connections would wait for each other by sleeping, which costs more.
    pub(super) struct Sqlite(Mutex<rusqlite::Connection>);

    impl Sqlite {
        pub(super) fn open(place: &Path) -> Result<Sqlite> {
            let connection = rusqlite::Connection::open(place.join("db"))?;
            connection.pragma_update(None, "journal_mode", "WAL")?;
            connection.pragma_update(None, "synchronous", "FULL")?;
            connection.execute("CREATE TABLE t (k INTEGER PRIMARY KEY, v BLOB)", [])?;
            Ok(Sqlite(Mutex::new(connection)))
        }
    }

    impl Store for Sqlite {
        fn commit(&self, key: u64, record: &[u8]) -> Result<()> {
            let connection = self.0.lock().map_err(|_| "a client panicked")?;
            let mut statement = connection.prepare_cached("INSERT INTO t VALUES (?, ?)")?;
            statement.execute((key as i64, record))?;
            Ok(())
        }
    }

    #[cfg(feature = "rocksdb")]
    /// `WriteOptions::sync`: RocksDB groups writers by itself.
    pub(super) struct Rocks(rocksdb::DB);

    #[cfg(feature = "rocksdb")]
    impl Rocks {
        pub(super) fn open(place: &Path) -> Result<Rocks> {
            let mut options = rocksdb::Options::default();
            options.create_if_missing(true);
            Ok(Rocks(rocksdb::DB::open(&options, place.join("db"))?))
        }
    }

    #[cfg(feature = "rocksdb")]
    impl Store for Rocks {
        fn commit(&self, key: u64, record: &[u8]) -> Result<()> {
            let mut options = rocksdb::WriteOptions::default();
            options.set_sync(true);
            Ok(self.0.put_opt(key.to_be_bytes(), record, &options)?)
        }
    }

    /// A transaction for each record, durable when its commit returns.
    pub(super) struct Redb(redb::Database);

    const TABLE: redb::TableDefinition<'_, u64, &[u8]> = redb::TableDefinition::new("t");

    impl Redb {
        pub(super) fn open(place: &Path) -> Result<Redb> {
            Ok(Redb(redb::Database::create(place.join("db"))?))
        }
    }

    impl Store for Redb {
        fn commit(&self, key: u64, record: &[u8]) -> Result<()> {
            let mut write = self.0.begin_write()?;
            write.set_durability(redb::Durability::Immediate);
            write.open_table(TABLE)?.insert(key, record)?;
            Ok(write.commit()?)
        }
    }
}

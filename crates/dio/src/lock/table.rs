//! The lock tables of the files that a process has open, so that several opens of one file exclude
//! each other.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Weak};

use parking_lot::Mutex;
use rustix::fs::{FileType, Stat};

use super::LockTable;

/// Identifies a file of the system.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum FileKey {
    /// Device and inode.
    Inode(u64, u64),
    /// A block device, by its number: it may have several nodes.
    Device(u64),
}

static TABLES: LazyLock<Mutex<HashMap<FileKey, Weak<LockTable>>>> = LazyLock::new(Mutex::default);

impl LockTable {
    /// The table of an open file, whatever path or descriptor it was opened through. Makes a new
    /// table if the process has none in use for the file.
    pub(crate) fn of_file(stat: &Stat) -> Arc<LockTable> {
        let key = match FileType::from_raw_mode(stat.st_mode) {
            FileType::BlockDevice => FileKey::Device(stat.st_rdev),
            _ => FileKey::Inode(stat.st_dev, stat.st_ino),
        };
        let mut tables = TABLES.lock();
        if let Some(table) = tables.get(&key).and_then(Weak::upgrade) {
            return table;
        }
        // Tables of closed files are removed when the map is full, so they are never more than
        // those in use by much.
        if tables.len() == tables.capacity() {
            tables.retain(|_, table| table.strong_count() > 0);
        }
        let table = LockTable::new();
        tables.insert(key, Arc::downgrade(&table));
        table
    }
}

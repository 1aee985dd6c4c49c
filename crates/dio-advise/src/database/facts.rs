//! The facts from which advice for a database is made.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::disk::DiskFacts;
use super::files::FileClass;
use super::load::DatabaseLoad;
use super::system::DatabaseSystem;

/// The method of syncing that suits the disk, as `dio synctest` found it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncFacts {
    /// Settings in the server's own syntax, `name = value`.
    pub settings: Vec<String>,
    /// Why.
    pub why: Vec<String>,
}

/// The facts of a database.
#[derive(Clone, Debug)]
pub struct DatabaseFacts {
    /// Which database.
    pub system: DatabaseSystem,
    /// The version of its server, as numbers: 15.4 is `(15, 4)`, 10.11.6 is `(10, 11)`.
    pub version: (u32, u32),
    /// The directory of its data.
    pub directory: PathBuf,
    /// The directory of its log.
    pub log_directory: PathBuf,
    /// The settings that its server has, or would have if it ran, each in the server's unit.
    pub settings: BTreeMap<String, String>,
    /// Bytes of the files of each class.
    pub files: BTreeMap<FileClass, u64>,
    /// The disk of the tables.
    pub data_disk: DiskFacts,
    /// The disk of the log (WAL, redo).
    pub log_disk: DiskFacts,
    /// Bytes of memory that the server may use: the machine's, or the limit of a control group.
    pub memory: u64,
    /// Processors.
    pub processors: u32,
    /// Bytes that a session has for itself, as it was measured; `None` if none could be looked at.
    pub session_bytes: Option<u64>,
    /// The load of a while.
    pub load: Option<DatabaseLoad>,
    /// The part of the reads that the server's own cache had, if the server told.
    pub own_hits: Option<f64>,
    /// The method of syncing; `None` if it was not measured.
    pub sync: Option<SyncFacts>,
    /// Facts that could not be learned.
    pub missing: Vec<String>,
}

impl DatabaseFacts {
    /// A setting; `None` if this version has none of this name.
    pub(super) fn setting(&self, name: &str) -> Option<&str> {
        self.settings.get(name).map(String::as_str)
    }

    /// A setting that is a number, in the server's unit.
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.setting(name)?.parse().ok()
    }

    /// Whether a setting that is on or off is on.
    pub(super) fn is_on(&self, name: &str) -> bool {
        self.setting(name).and_then(switch) == Some(true)
    }

    /// Bytes of the files of a class.
    pub(super) fn bytes(&self, class: FileClass) -> u64 {
        self.files.get(&class).copied().unwrap_or(0)
    }

    /// Bytes of the server's own cache.
    pub(super) fn own_cache(&self) -> u64 {
        match self.system {
            // In blocks of its own size.
            DatabaseSystem::Postgresql => {
                let block = self.number("block_size").unwrap_or(8192);
                self.number("shared_buffers").unwrap_or(0).saturating_mul(block)
            }
            DatabaseSystem::Mariadb => self.number("innodb_buffer_pool_size").unwrap_or(0),
        }
    }
}

/// Whether a value turns a setting on or off; `None` if it is another kind of value.
pub(super) fn switch(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "on" | "true" | "1" | "yes" => Some(true),
        "off" | "false" | "0" | "no" => Some(false),
        _ => None,
    }
}

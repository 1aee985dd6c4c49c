//! Advice for a database, as it is reported.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::load::DatabaseLoad;
use super::memory::MemoryPlan;
use super::system::DatabaseSystem;
use crate::predict::{Advised, Verdict};

/// Advice for a setting of the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// Its name.
    pub name: String,
    /// Its value now, in the words of the server's file of settings.
    pub now: String,
    /// The value that is advised; the same if it is right.
    pub advised: String,
    /// Why.
    pub why: String,
}

impl Setting {
    /// Whether anything is to be changed.
    pub fn is_change(&self) -> bool {
        self.now != self.advised
    }
}

/// A way of the database's I/O, with a size of its own cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DatabaseWay {
    /// The way.
    pub way: Advised,
    /// Bytes of the server's own cache, of the database that was measured.
    pub own_cache: u64,
    /// The time of a transaction; it is not predicted for databases.
    pub predicted_seconds: Option<f64>,
    /// The least time that is expected.
    pub low: Option<f64>,
    /// The greatest time that is expected.
    pub high: Option<f64>,
    /// The mean time of a transaction, in seconds of one client; `None` if nothing was proved.
    pub measured_seconds: Option<f64>,
    /// Transactions a second of all clients.
    pub measured_tps: Option<f64>,
    /// Bytes of the page cache that it would use.
    pub cache_bytes: Option<u64>,
    /// Seconds of processor time of a transaction.
    pub cpu_seconds: Option<f64>,
}

/// Advice for a database.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DatabaseAdvice {
    /// Which database.
    pub system: DatabaseSystem,
    /// Its version.
    pub version: String,
    /// The directory of its data.
    pub directory: PathBuf,
    /// The way that is advised, and the fragment of settings by which it is applied.
    pub verdict: Verdict,
    /// The ways that were measured.
    pub ways: Vec<DatabaseWay>,
    /// The settings.
    pub settings: Vec<Setting>,
    /// Files to leave to the page cache: a pattern, and why.
    pub stay_cached: Vec<(String, String)>,
    /// How memory is divided.
    pub memory: MemoryPlan,
    /// The load that was seen.
    pub load: Option<DatabaseLoad>,
    /// Facts that could not be learned.
    pub missing: Vec<String>,
}

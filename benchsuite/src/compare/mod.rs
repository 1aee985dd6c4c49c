//! The comparisons, one module each.

pub(crate) mod advise;
pub(crate) mod backups;
pub(crate) mod clients;
pub(crate) mod cluster;
pub(crate) mod cluster_peers;
mod cluster_storage;
pub(crate) mod copy;
pub(crate) mod evictions;
pub(crate) mod fio;
pub(crate) mod gzip;
pub(crate) mod hotset;
pub(crate) mod increments;
pub(crate) mod looped;
pub(crate) mod mount;
mod mounted;
pub(crate) mod names;
pub(crate) mod neighbours;
pub(crate) mod python;
pub(crate) mod random;
pub(crate) mod reader;
pub(crate) mod sort;
pub(crate) mod sqlite_vfs;
pub(crate) mod streams;
pub(crate) mod tar;
pub(crate) mod threshold;
pub(crate) mod tools;
pub(crate) mod tree;
pub(crate) mod uniq;
pub(crate) mod wal;

/// Quantities that are compared by ratios, if both sides have them.
const COSTS: &[&str] = &["wall_seconds", "cpu_seconds", "machine_cpu_seconds"];

//! The names of storages on the command line.

use crate::quote::quoted;
use std::path::Path;

use dio_bench::BenchError;
use dio_bench::study::Contender;

/// Storages.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(super) enum StorageArg {
    /// A block device
    Raw,
    /// Files opened with O_DIRECT
    Bare,
    /// Files through the page cache
    Buffered,
    /// A mount in direct mode, a write excludes all I/O to its file
    DirectFile,
    /// A mount in direct mode, a write excludes I/O to its bytes
    DirectRange,
    /// A mount in concurrent mode
    Concurrent,
}

impl StorageArg {
    /// Returns the named storages, each once.
    pub(super) fn contenders(named: &[StorageArg]) -> Vec<Contender> {
        let mut contenders = Vec::new();
        for storage in named {
            let contender = match storage {
                StorageArg::Raw => Contender::Raw,
                StorageArg::Bare => Contender::Bare,
                StorageArg::Buffered => Contender::Buffered,
                StorageArg::DirectFile => Contender::DirectFile,
                StorageArg::DirectRange => Contender::DirectRange,
                StorageArg::Concurrent => Contender::Concurrent,
            };
            if !contenders.contains(&contender) {
                contenders.push(contender);
            }
        }
        contenders
    }
}

/// Returns an error that names the action and the path that failed.
pub(super) fn wrong(verb: &str, path: &Path, error: &std::io::Error) -> BenchError {
    BenchError::Asked(format!("cannot {verb} {}: {}", quoted(path), crate::commands::words(error)))
}

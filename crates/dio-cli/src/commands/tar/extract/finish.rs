//! Ends an extraction.

use super::super::run::TarRun;
use super::storage::Storage;

/// Makes the extracted files durable, and drops their pages from the cache.
pub(super) fn finish_storage(run: &TarRun, storage: &Storage) {
    if run.tool.stream_options().mode == dio::Mode::Cached {
        return;
    }
    match storage.finish() {
        Ok(()) => run.tool.set_durable(),
        Err(errno) => run.error(format_args!("Cannot sync: {}", crate::quote::words(errno))),
    }
}

//! Counts and evicts the pages of a log in the page cache.

use std::path::Path;

use crate::BenchError;

/// Pages of a directory's files that are in the page cache.
pub(super) fn resident_pages(directory: &Path) -> Result<u64, BenchError> {
    let failed = || BenchError::system("look into the page cache for", directory);
    let mut pages = 0;
    for entry in std::fs::read_dir(directory).map_err(failed())? {
        let path = entry.map_err(failed())?.path();
        let file = std::fs::File::open(&path).map_err(BenchError::system("open", &path))?;
        let found = dio::residency::resident_pages(&file);
        pages += found.map_err(|error| BenchError::Asked(error.to_string()))?;
    }
    Ok(pages)
}

/// Drops the pages of a directory's files from the page cache.
pub(super) fn evict(directory: &Path) -> Result<(), BenchError> {
    for entry in std::fs::read_dir(directory).map_err(BenchError::system("read", directory))? {
        let path = entry.map_err(BenchError::system("read", directory))?.path();
        let file = std::fs::File::open(&path).map_err(BenchError::system("open", &path))?;
        // Only clean pages can be evicted.
        file.sync_all().map_err(BenchError::system("sync", &path))?;
        let length = file.metadata().map_err(BenchError::system("look at", &path))?.len();
        let evicted = dio::residency::evict(&file, 0..length);
        evicted.map_err(|error| BenchError::Asked(error.to_string()))?;
    }
    Ok(())
}

//! Files none of whose pages are cached.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

use dio::residency;
use serde::Serialize;

use crate::BenchError;

/// How much is made cold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cold {
    /// The caches of the whole system, metadata included, where this process may (`/proc/sys/vm/drop_caches`, for root);
    /// elsewhere as `File`.
    #[default]
    System,
    /// The pages of the file.
    File,
}

/// Writes back what is dirty, drops the file's pages, and makes sure that they are gone.
///
/// # Errors
/// [`BenchError::NotCold`] when pages stay: others map them, or the file system lives in memory.
pub fn make_cold(path: &Path, cold: Cold) -> Result<(), BenchError> {
    let file = File::open(path).map_err(BenchError::system("open", path))?;
    file.sync_all().map_err(BenchError::system("sync", path))?;
    let failed = |error: residency::ResidencyError| {
        BenchError::system("evict the pages of", path)(std::io::Error::other(error.to_string()))
    };
    let length = residency::length_of(&file).map_err(failed)?;
    residency::evict(&file, 0..length).map_err(failed)?;
    drop_caches(cold);
    match residency::resident_pages(&file).map_err(failed)? {
        0 => Ok(()),
        pages => Err(BenchError::NotCold { path: path.to_owned(), pages }),
    }
}

/// Drops the caches of the whole system where that is asked for and allowed.
fn drop_caches(cold: Cold) {
    // Refused to all but root, and in many containers to root: then the file's own pages have to do.
    if cold == Cold::System
        && let Ok(mut switch) = system_switch()
    {
        rustix::fs::sync();
        let _ = switch.write_all(b"3");
    }
}

/// Removes a file that is about to be written anew, if it is there, and lets its file system finish with that: what is
/// left to do of the removal, and of what was written before, is not to fall into the time of the next run.
///
/// # Errors
/// What `unlink(2)` or `syncfs(2)` of the directory answers.
pub fn make_absent(path: &Path, cold: Cold) -> Result<(), BenchError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(BenchError::system("remove", path)(error));
        }
        _ => {}
    }
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let open = File::open(directory).map_err(BenchError::system("open", directory))?;
    rustix::fs::syncfs(&open).map_err(BenchError::system("sync the file system of", directory))?;
    drop_caches(cold);
    Ok(())
}

fn system_switch() -> std::io::Result<File> {
    OpenOptions::new().write(true).open("/proc/sys/vm/drop_caches")
}

/// What [`make_cold`] really does here: [`Cold::File`] where the caches of the system are out of reach.
pub fn reachable(cold: Cold) -> Cold {
    match cold {
        Cold::System if system_switch().is_err() => Cold::File,
        cold => cold,
    }
}

/// Pages of a file in the page cache.
///
/// # Errors
/// Where the kernel does not tell.
pub fn resident_pages(path: &Path) -> Result<u64, BenchError> {
    let file = File::open(path).map_err(BenchError::system("open", path))?;
    residency::resident_pages(&file)
        .map_err(|error| BenchError::system("count the pages of", path)(std::io::Error::other(error.to_string())))
}

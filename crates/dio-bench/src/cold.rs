//! Files none of whose pages are cached.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use dio::residency;
use serde::{Deserialize, Serialize};

use crate::BenchError;

/// How much is made cold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cold {
    /// The caches of the whole system, metadata included, where this process may
    /// (`/proc/sys/vm/drop_caches`, for root); elsewhere as `File`.
    #[default]
    System,
    /// The pages of the file.
    File,
}

/// How long pages may stay that somebody holds for a moment.
const PATIENCE: Duration = Duration::from_secs(2);

/// Writes back what is dirty, drops the file's pages, and makes sure that they are gone.
///
/// The kernel drops no page that has another user at that moment (`mapping_evict_folio`), and the
/// page counts as cached until that user is done: one that is being moved by compaction, or whose
/// buffers the journal looks at. Pages in the lists of other processors are none of these, since
/// `posix_fadvise(2)` drains those lists itself. So it is tried again for a while.
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
    let begun = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        residency::evict(&file, 0..length).map_err(failed)?;
        drop_caches(cold);
        match residency::resident_pages(&file).map_err(failed)? {
            0 => return Ok(()),
            pages if begun.elapsed() > PATIENCE => return Err(BenchError::NotCold { path: path.to_owned(), pages }),
            _ => std::thread::sleep(pause),
        }
        pause *= 2;
        // Whoever held a page may have changed it.
        file.sync_all().map_err(BenchError::system("sync", path))?;
    }
}

/// Makes each file below a directory cold, its own pages alone.
///
/// # Errors
/// As [`make_cold`]; a directory that cannot be read.
pub(crate) fn make_tree_cold(directory: &Path) -> Result<(), BenchError> {
    for entry in std::fs::read_dir(directory).map_err(BenchError::system("read", directory))? {
        let entry = entry.map_err(BenchError::system("read", directory))?;
        let kind = entry.file_type().map_err(BenchError::system("look at", directory))?;
        match () {
            () if kind.is_dir() => make_tree_cold(&entry.path())?,
            () if kind.is_file() => make_cold(&entry.path(), Cold::File)?,
            () => {}
        }
    }
    Ok(())
}

/// Drops the caches of the whole system where that is asked for and allowed.
fn drop_caches(cold: Cold) {
    // Refused to all but root, and in many containers to root: then the file's own pages have to
    // do.
    if cold == Cold::System
        && let Ok(mut switch) = system_switch()
    {
        rustix::fs::sync();
        let _ = switch.write_all(b"3");
    }
}

/// Removes a file that is about to be written anew, if it is there, and lets its file system finish
/// with that: what is left to do of the removal, and of what was written before, is not to fall
/// into the time of the next run.
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

/// What [`make_cold`] really does here: [`Cold::File`] where the caches of the system are out of
/// reach.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A pipe that holds the first page of a file.
    fn holder(path: &Path) -> (std::os::fd::OwnedFd, std::os::fd::OwnedFd) {
        let file = File::open(path).unwrap();
        let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
        let flags = rustix::pipe::SpliceFlags::empty();
        rustix::pipe::splice(&file, Some(&mut 0), &writer, None, 1, flags).unwrap();
        (reader, writer)
    }

    #[test]
    fn a_page_that_somebody_holds_for_a_moment_is_waited_for_and_no_longer() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let path = directory.path().join("data");
        std::fs::write(&path, vec![7; 1 << 20]).unwrap();
        let file = File::open(&path).unwrap();
        if dio::geometry::FileSystem::of(std::os::fd::AsFd::as_fd(&file)).unwrap().is_memory() {
            return;
        }
        file.sync_all().unwrap();
        let held = holder(&path);
        residency::evict(&file, 0..1 << 20).unwrap();
        assert!(residency::resident_pages(&file).unwrap() > 0, "the folio that the pipe holds stays");
        let released = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            drop(held);
        });
        make_cold(&path, Cold::File).unwrap();
        released.join().unwrap();
        let _held = holder(&path);
        assert!(matches!(make_cold(&path, Cold::File), Err(BenchError::NotCold { .. })));
    }
}

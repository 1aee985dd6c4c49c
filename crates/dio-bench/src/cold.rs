//! Empties the page cache of files, so that a measurement reads from the device.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use dio::residency;
use serde::{Deserialize, Serialize};

use crate::BenchError;

/// The caches that are emptied before a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EmptiedCaches {
    /// The caches of the whole system, metadata included. They are dropped through
    /// `/proc/sys/vm/drop_caches`, which only root may write; any other process drops what `File`
    /// does.
    #[default]
    System,
    /// The pages of the file.
    File,
}

/// How long [`make_cold`] retries while pages are temporarily in use elsewhere.
const PATIENCE: Duration = Duration::from_secs(2);

/// Writes dirty pages back, drops the file's pages, and makes sure that they are gone.
///
/// The kernel does not drop a page that something else uses at that moment (`mapping_evict_folio`):
/// a page that compaction is moving, or one whose buffers the journal is looking at. Such a page
/// counts as cached until that use ends, so the eviction is retried for a while. Pages in the
/// per-CPU lists of other processors are no such case, since `posix_fadvise(2)` drains those lists
/// itself.
///
/// # Errors
/// [`BenchError::NotCold`] when pages stay, because other processes map them or the file system
/// lives in memory.
pub fn make_cold(path: &Path, cold: EmptiedCaches) -> Result<(), BenchError> {
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
            pages if begun.elapsed() > PATIENCE => {
                return Err(BenchError::NotCold { path: path.to_owned(), pages });
            }
            _ => std::thread::sleep(pause),
        }
        pause *= 2;
        // The user of a page may have modified it in the meantime.
        file.sync_all().map_err(BenchError::system("sync", path))?;
    }
}

/// Makes every file below a directory cold, but drops only the pages of these files.
///
/// # Errors
/// As for [`make_cold`]; also when a directory cannot be read.
pub(crate) fn make_tree_cold(directory: &Path) -> Result<(), BenchError> {
    for entry in std::fs::read_dir(directory).map_err(BenchError::system("read", directory))? {
        let entry = entry.map_err(BenchError::system("read", directory))?;
        let kind = entry.file_type().map_err(BenchError::system("look at", directory))?;
        match () {
            () if kind.is_dir() => make_tree_cold(&entry.path())?,
            () if kind.is_file() => make_cold(&entry.path(), EmptiedCaches::File)?,
            () => {}
        }
    }
    Ok(())
}

/// Drops the caches of the whole system, if the caller asked for that and the system allows it.
fn drop_caches(cold: EmptiedCaches) {
    // Only root may do this, and in many containers not even root. In that case the caller drops
    // only the pages of the file.
    if cold == EmptiedCaches::System
        && let Ok(mut switch) = system_switch()
    {
        rustix::fs::sync();
        let _ = switch.write_all(b"3");
    }
}

/// Removes a file that is about to be written anew, if it exists, and waits until the file system
/// has finished the removal and earlier writes. Otherwise that work would slow down the next run.
/// With [`EmptiedCaches::System`] it drops the system's caches as well.
///
/// # Errors
/// Any error of `unlink(2)`, or of `syncfs(2)` on the directory.
pub fn make_absent(path: &Path, cold: EmptiedCaches) -> Result<(), BenchError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(BenchError::system("remove", path)(error));
        }
        _ => {}
    }
    let directory =
        path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let open = File::open(directory).map_err(BenchError::system("open", directory))?;
    rustix::fs::syncfs(&open).map_err(BenchError::system("sync the file system of", directory))?;
    drop_caches(cold);
    Ok(())
}

fn system_switch() -> std::io::Result<File> {
    OpenOptions::new().write(true).open("/proc/sys/vm/drop_caches")
}

/// The extent to which [`make_cold`] works here: [`EmptiedCaches::File`] where this process may not
/// drop the system's caches, otherwise `cold`.
pub fn reachable(cold: EmptiedCaches) -> EmptiedCaches {
    match cold {
        EmptiedCaches::System if system_switch().is_err() => EmptiedCaches::File,
        cold => cold,
    }
}

/// Pages of a file in the page cache.
///
/// # Errors
/// When the kernel does not report them.
pub fn resident_pages(path: &Path) -> Result<u64, BenchError> {
    let file = File::open(path).map_err(BenchError::system("open", path))?;
    residency::resident_pages(&file).map_err(|error| {
        BenchError::system("count the pages of", path)(std::io::Error::other(error.to_string()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pipe that keeps a reference to the first page of a file.
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
        assert!(
            residency::resident_pages(&file).unwrap() > 0,
            "the folio that the pipe holds stays"
        );
        let released = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            drop(held);
        });
        make_cold(&path, EmptiedCaches::File).unwrap();
        released.join().unwrap();
        let _held = holder(&path);
        assert!(matches!(make_cold(&path, EmptiedCaches::File), Err(BenchError::NotCold { .. })));
    }
}

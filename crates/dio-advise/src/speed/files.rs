//! The files that loads read and overwrite.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Advice, fadvise};

use super::model::Operation;
use crate::noise::{fill, noise};

/// One load: what is done, with how many bytes a request, by how many threads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) operation: Operation,
    pub(super) bytes: u64,
    pub(super) threads: u32,
}

const fn load(operation: Operation, bytes: u64, threads: u32) -> Load {
    Load { operation, bytes, threads }
}

const SMALL: u64 = 4 << 10;
const MIDDLE: u64 = 64 << 10;
pub(super) const LARGE: u64 = 1 << 20;

/// How many threads make requests at once where that is measured: as many as a disk can be expected
/// to serve together.
pub(super) const MANY: u32 = 16;

/// Files that are opened by [`Operation::Open`].
pub(super) const SMALL_FILES: usize = 300;

/// All loads. A paced one comes after the same one without pauses, whose time it needs.
pub(super) const LOADS: &[Load] = &[
    load(Operation::ReadInOrder, SMALL, 1),
    load(Operation::ReadInOrderPaced, SMALL, 1),
    load(Operation::ReadInOrder, MIDDLE, 1),
    load(Operation::ReadInOrderPaced, MIDDLE, 1),
    load(Operation::ReadInOrder, LARGE, 1),
    load(Operation::ReadInOrderPaced, LARGE, 1),
    load(Operation::ReadAgain, SMALL, 1),
    load(Operation::ReadAgain, MIDDLE, 1),
    load(Operation::ReadAgain, LARGE, 1),
    load(Operation::ReadAtRandom, SMALL, 1),
    load(Operation::ReadAtRandom, MIDDLE, 1),
    load(Operation::ReadAtRandom, LARGE, 1),
    load(Operation::ReadAtRandom, SMALL, MANY),
    load(Operation::ReadAtRandom, MIDDLE, MANY),
    load(Operation::ReadAtRandom, LARGE, MANY),
    load(Operation::Open, 0, 1),
    load(Operation::Look, 0, 1),
    load(Operation::Create, 0, 1),
    load(Operation::Rename, 0, 1),
    load(Operation::Change, 0, 1),
    load(Operation::Remove, 0, 1),
    load(Operation::List, 0, 1),
    load(Operation::WriteInOrder, SMALL, 1),
    load(Operation::WriteInOrderPaced, SMALL, 1),
    load(Operation::WriteInOrder, MIDDLE, 1),
    load(Operation::WriteInOrderPaced, MIDDLE, 1),
    load(Operation::WriteInOrder, LARGE, 1),
    load(Operation::WriteInOrderPaced, LARGE, 1),
    load(Operation::Overwrite, SMALL, 1),
    load(Operation::Overwrite, MIDDLE, 1),
    load(Operation::Overwrite, LARGE, 1),
    load(Operation::Overwrite, SMALL, MANY),
    load(Operation::AppendAndSync, 256, 1),
    load(Operation::AppendAndSync, SMALL, 1),
    load(Operation::AppendAndSync, MIDDLE, 1),
    load(Operation::Copy, LARGE, 1),
    load(Operation::Sync, SMALL, 1),
    load(Operation::Sync, 16 << 20, 1),
];

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// How long a load runs, at most.
    pub limit: Duration,
    /// The files have this part of their usual bytes, such as 1 or, for a quick trial, 64.
    pub part: u64,
}

impl Load {
    /// Bytes of the file that the load reads or overwrites.
    pub(super) fn file_bytes(self, extent: Extent) -> u64 {
        let least = self.bytes * 4 * u64::from(self.threads);
        match self.operation {
            Operation::Open => SMALL,
            _ => match self.usual_bytes() {
                0 => 0,
                bytes => (bytes / extent.part).max(least.next_power_of_two()),
            },
        }
    }

    fn usual_bytes(self) -> u64 {
        match self.operation {
            Operation::Copy => 256 << 20,
            Operation::ReadInOrder if self.bytes == LARGE => 256 << 20,
            Operation::ReadInOrder => 64 << 20,
            // The places must be far apart, as they are in a database.
            Operation::ReadAtRandom => 1 << 30,
            Operation::ReadInOrderPaced | Operation::Overwrite => 32 << 20,
            Operation::ReadAgain => 16 << 20,
            _ => 0,
        }
    }

    /// Bytes that the load writes at most.
    pub(super) fn written_bytes(self, extent: Extent) -> u64 {
        let usual = match self.operation {
            Operation::WriteInOrderPaced => 32 << 20,
            _ if self.bytes == LARGE => 256 << 20,
            _ => 64 << 20,
        };
        (usual / extent.part).max(4 * self.bytes)
    }
}

/// The file of the load of a number. Loads at random places share one, and meet at a few of them.
pub(super) fn path_of(dir: &Path, number: usize) -> PathBuf {
    match LOADS[number].operation {
        Operation::ReadAtRandom => dir.join("random"),
        _ => dir.join(format!("load-{number:02}")),
    }
}

/// One of the small files.
pub(super) fn small_path(dir: &Path, number: usize) -> PathBuf {
    dir.join(format!("small-{number:03}"))
}

/// All files, with their sizes.
fn all(dir: &Path, extent: Extent) -> BTreeMap<PathBuf, u64> {
    let mut files: BTreeMap<PathBuf, u64> =
        (0..SMALL_FILES).map(|number| (small_path(dir, number), SMALL)).collect();
    for (number, load) in LOADS.iter().enumerate() {
        let bytes = load.file_bytes(extent);
        if !matches!(load.operation, Operation::Open | Operation::Look) && bytes > 0 {
            let size = files.entry(path_of(dir, number)).or_default();
            *size = bytes.max(*size);
        }
    }
    files
}

/// Makes the files of all loads in a directory; nothing of them is in the page cache afterwards.
///
/// # Errors
/// A file cannot be made, or `is_stopped`, which is asked from time to time, says so. If they do
/// not fit, none is made, and the error says how much they need.
pub fn prepare(dir: &Path, extent: Extent, is_stopped: &dyn Fn() -> bool) -> io::Result<()> {
    let written: u64 = LOADS.iter().map(|load| load.written_bytes(extent)).max().unwrap_or(0);
    let needed: u64 = all(dir, extent).values().sum::<u64>() + 2 * written;
    let stat = rustix::fs::statvfs(dir)?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    if needed > free {
        let [needed, free] = [needed, free].map(dio_common::units::size);
        return Err(io::Error::other(format!("measuring needs {needed}, and {free} are free")));
    }
    let bytes = noise(1 << 20);
    for (path, size) in all(dir, extent) {
        fill(&path, (size, false), &bytes, is_stopped)?;
    }
    Ok(())
}

/// Takes the files of all loads out of the page cache, and removes what loads wrote.
///
/// # Errors
/// Those of the system.
pub fn evict(dir: &Path, extent: Extent) -> io::Result<()> {
    for path in all(dir, extent).into_keys() {
        let file = fs::File::open(path)?;
        rustix::fs::fdatasync(&file)?;
        fadvise(file.as_fd(), 0, None, Advice::DontNeed)?;
    }
    for number in 0..LOADS.len() {
        match fs::remove_file(written_path(dir, number)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// The file that the load of a number writes.
pub(super) fn written_path(dir: &Path, number: usize) -> PathBuf {
    dir.join(format!("written-{number:02}"))
}

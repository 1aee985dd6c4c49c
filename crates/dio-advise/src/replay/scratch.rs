//! The files that requests are replayed on.

use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::statvfs;

use super::model::ReplayError;
use super::planned::Plan;
use crate::noise::{fill, noise};

/// Bytes that are written at a time.
const PIECE: usize = 8 << 20;

/// A directory of its own, which goes when this is dropped.
#[derive(Debug)]
pub(super) struct Scratch {
    dir: tempfile::TempDir,
}

impl Scratch {
    /// Makes a directory within another one, and the files of a plan in it.
    ///
    /// # Errors
    /// As [`make_files`].
    pub(super) fn new(plan: &Plan, within: &Path) -> Result<Scratch, ReplayError> {
        let dir = tempfile::Builder::new().prefix("dio-replay-").tempdir_in(within);
        let dir = dir.map_err(failed("cannot make a directory", within))?;
        make_files(plan, dir.path())?;
        Ok(Scratch { dir })
    }

    /// The file that stands for that of a number.
    pub(super) fn path(&self, number: u32) -> PathBuf {
        path_in(self.dir.path(), number as usize)
    }
}

fn path_in(dir: &Path, number: usize) -> PathBuf {
    dir.join(format!("{number:06}"))
}

fn failed(what: &str, dir: &Path) -> impl Fn(io::Error) -> ReplayError {
    let what = format!("{what} in {}", dio::quote::named(dir));
    move |error| ReplayError::Io { what: what.clone(), error }
}

/// Makes the files of a plan as they were before the first request: of their size, with bytes that
/// cannot be compressed, and in the page cache if they were there. Returns a path for each file of
/// the plan; those without requests are not made.
///
/// # Errors
/// The directory cannot be used, or has too little space; or a file exists.
pub(crate) fn make_files(plan: &Plan, dir: &Path) -> Result<Vec<PathBuf>, ReplayError> {
    let used = || plan.files.iter().filter(|file| file.is_used);
    let needed = used().fold(0_u64, |sum, file| sum.saturating_add(file.size));
    let stat = statvfs(dir).map_err(|error| failed("cannot look for space", dir)(error.into()))?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    if needed > free {
        return Err(ReplayError::Space { dir: dir.to_owned(), needed, free });
    }
    let bytes = noise(PIECE);
    let paths: Vec<PathBuf> = (0..plan.files.len()).map(|number| path_in(dir, number)).collect();
    for (path, file) in paths.iter().zip(&plan.files).filter(|(_, file)| file.is_used) {
        fill(path, file.size, file.is_warm, &bytes).map_err(failed("cannot make a file", dir))?;
    }
    Ok(paths)
}

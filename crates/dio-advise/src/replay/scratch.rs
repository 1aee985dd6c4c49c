//! The files that requests are replayed on.

use std::fmt;
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
    /// As [`NewFiles::make`].
    pub(super) fn new(
        plan: &Plan,
        within: &Path,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Scratch, ReplayError> {
        // Without this, names of files would have a "/./" where `within` is ".".
        let place = std::path::absolute(within);
        let dir = place
            .and_then(|place| tempfile::Builder::new().prefix("dio-replay-").tempdir_in(place))
            .map_err(failed("cannot make a directory", within))?;
        // They go with the directory.
        let mut files = NewFiles::within(dir.path(), is_stopped);
        files.make(plan)?;
        files.keep();
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

/// The files of a plan, made in a directory. If this is dropped before it is kept, they are
/// removed.
pub struct NewFiles<'a> {
    dir: PathBuf,
    made: Vec<PathBuf>,
    is_stopped: &'a dyn Fn() -> bool,
}

impl fmt::Debug for NewFiles<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewFiles").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl<'a> NewFiles<'a> {
    /// Files that will be made in a directory. `is_stopped` is asked from time to time, while they
    /// are made, whether to stop, which is an error.
    pub fn within(dir: &Path, is_stopped: &'a dyn Fn() -> bool) -> NewFiles<'a> {
        NewFiles { dir: dir.to_owned(), made: Vec::new(), is_stopped }
    }

    /// Leaves the files where they are.
    pub fn keep(mut self) {
        self.made.clear();
    }

    /// Makes the files of a plan as they were before the first request: of their size, with bytes
    /// that cannot be compressed, and in the page cache if they were there. Returns a path for each
    /// file of the plan; those without requests are not made.
    ///
    /// # Errors
    /// The directory cannot be used, or has too little space; or a file exists.
    pub(crate) fn make(&mut self, plan: &Plan) -> Result<Vec<PathBuf>, ReplayError> {
        let dir = self.dir.as_path();
        let used = || plan.files.iter().filter(|file| file.is_used);
        let needed = used().fold(0_u64, |sum, file| sum.saturating_add(file.size));
        let stat =
            statvfs(dir).map_err(|error| failed("cannot look for space", dir)(error.into()))?;
        let free = stat.f_bavail.saturating_mul(stat.f_frsize);
        if needed > free {
            return Err(ReplayError::Space { dir: dir.to_owned(), needed, free });
        }
        let bytes = noise(PIECE);
        let paths: Vec<_> = (0..plan.files.len()).map(|number| path_in(dir, number)).collect();
        for (path, file) in paths.iter().zip(&plan.files).filter(|(_, file)| file.is_used) {
            let filled = fill(path, (file.size, file.is_warm), &bytes, self.is_stopped);
            filled.map_err(failed("cannot make a file", dir))?;
            self.made.push(path.clone());
        }
        Ok(paths)
    }
}

impl Drop for NewFiles<'_> {
    fn drop(&mut self) {
        for path in &self.made {
            // A failure here cannot be handled.
            let _ = dio::names::unlink(path);
        }
    }
}

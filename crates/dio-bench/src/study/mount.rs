//! Mounts a contender for a run, and unmounts it afterwards.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Contender;
use crate::BenchError;
use crate::undo::Undo;

/// The program and options for mounting contenders.
#[derive(Clone, Debug)]
pub(crate) struct Mounter<'a> {
    /// The program that mounts: `dio`.
    pub(crate) program: &'a Path,
    /// Whether requests that need not wait for a turn are received by io_uring.
    pub(crate) io_uring: bool,
    /// More options of all mounts.
    pub(crate) options: &'a [String],
}

/// An active mount.
#[derive(Debug)]
pub(crate) struct StudyMount {
    at: PathBuf,
    undo: Undo,
}

impl Mounter<'_> {
    /// Mounts `source` at `at` for a contender; `None` if the contender is no mount.
    pub(crate) fn mount(
        &self,
        contender: Contender,
        source: &Path,
        at: &Path,
    ) -> Result<Option<StudyMount>, BenchError> {
        let Some(options) = contender.options() else { return Ok(None) };
        let mut options = options.to_owned();
        // Each request that waits for a turn would hold a thread of a ring: docs/mount.md.
        if self.io_uring && contender != Contender::DirectFile {
            options.push_str(",io_uring");
        }
        for more in self.options {
            options.push(',');
            options.push_str(more);
        }
        let words =
            [self.program.as_os_str(), "umount".as_ref(), at.as_os_str()].map(ToOwned::to_owned);
        let detached = [self.program.as_os_str(), "umount".as_ref(), "-l".as_ref(), at.as_os_str()]
            .map(ToOwned::to_owned);
        let mut mount = Command::new(self.program);
        mount.args(["mount", "-o", &options]).args([source, at]);
        let (_, undo) = Undo::of(&mut mount, |_| Undo::by_either(words, detached))?;
        Ok(Some(StudyMount { at: at.to_owned(), undo }))
    }
}

impl StudyMount {
    /// The mount point.
    pub(crate) fn at(&self) -> &Path {
        &self.at
    }

    /// Unmounts it, which writes all data that are still unwritten.
    pub(crate) fn leave(self) -> Result<(), BenchError> {
        self.undo.now()
    }
}

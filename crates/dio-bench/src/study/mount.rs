//! The mount of a contender: made for a run, taken down after it.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Contender;
use crate::BenchError;
use crate::undo::Undo;

/// How contenders are mounted.
#[derive(Clone, Debug)]
pub(crate) struct Mounter<'a> {
    /// The program that mounts: `dio`.
    pub(crate) program: &'a Path,
    /// Requests come by io_uring where they need not wait for a turn.
    pub(crate) io_uring: bool,
    /// More options of all mounts.
    pub(crate) options: &'a [String],
}

/// A mount that is there.
#[derive(Debug)]
pub(crate) struct Mounted {
    at: PathBuf,
    undo: Undo,
}

impl Mounter<'_> {
    /// Mounts `source` at `at` as a contender; `None` for those that are not mounts.
    pub(crate) fn mount(&self, contender: Contender, source: &Path, at: &Path) -> Result<Option<Mounted>, BenchError> {
        let Some(options) = contender.options() else { return Ok(None) };
        let mut options = options.to_owned();
        // Requests that wait for a turn would each hold a thread of a ring: docs/mount.md.
        if self.io_uring && contender != Contender::DirectFile {
            options.push_str(",io_uring");
        }
        for more in self.options {
            options.push(',');
            options.push_str(more);
        }
        let words = [self.program.as_os_str(), "umount".as_ref(), at.as_os_str()].map(ToOwned::to_owned);
        let detached =
            [self.program.as_os_str(), "umount".as_ref(), "-l".as_ref(), at.as_os_str()].map(ToOwned::to_owned);
        let mut mount = Command::new(self.program);
        mount.args(["mount", "-o", &options]).args([source, at]);
        let (_, undo) = Undo::of(&mut mount, |_| Undo::by_either(words, detached))?;
        Ok(Some(Mounted { at: at.to_owned(), undo }))
    }
}

impl Mounted {
    /// The mount point.
    pub(crate) fn at(&self) -> &Path {
        &self.at
    }

    /// Takes it down, which writes what is still to be written.
    pub(crate) fn leave(self) -> Result<(), BenchError> {
        self.undo.now()
    }
}

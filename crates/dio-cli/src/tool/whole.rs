//! A file that takes its name when it is whole.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use dio::names::FileId;
use dio::stream::{Output, StreamOptions};

use super::target::{OutputFile, TargetOptions};

/// A file that takes its name when it is whole, and leaves a file of this name as it was until
/// then. Devices, pipes and what else cannot be replaced are written directly.
pub(crate) struct WholeFile {
    target: OutputFile,
    /// There from the first byte on.
    out: Option<Output>,
}

impl WholeFile {
    /// Opens the target.
    pub(crate) fn open(path: &Path) -> io::Result<WholeFile> {
        let options = TargetOptions { hidden: true, ..TargetOptions::default() };
        Ok(WholeFile { target: OutputFile::open(path, options)?, out: None })
    }

    /// Whether this would replace `file`.
    pub(crate) fn replaces(&self, file: &File) -> io::Result<bool> {
        Ok(self.target.is_regular() && self.target.before() == Some(FileId::of_open(file)?))
    }

    fn out(&mut self) -> io::Result<&mut Output> {
        let out = match self.out.take() {
            Some(out) => out,
            None => {
                self.target.begin()?;
                let descriptor = self.target.descriptor().try_clone()?;
                Output::adopt(descriptor, self.target.path(), &StreamOptions::default())?
            }
        };
        Ok(self.out.insert(out))
    }

    /// Ends a file that is whole.
    pub(crate) fn keep(mut self) -> io::Result<()> {
        self.out()?.finish()?;
        self.target.sync()?;
        let guard = self.target.guard(true);
        guard.finally(|| self.target.keep())
    }

    /// Removes what was written of a file that is not whole.
    pub(crate) fn discard(self) {
        self.target.discard();
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out()?.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        // The bytes are written at the end at the latest.
        Ok(())
    }
}

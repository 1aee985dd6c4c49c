//! The file that `dio record` writes: a trace while it is recorded.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use dio::names::FileId;
use dio_advise::trace::MAGIC;
use rustix::fs::{Advice, fstat};

use crate::tool::target::remove_if;

/// Checks that a file may be replaced by a trace: it is absent, empty, a trace, or no regular file.
pub(super) fn check_replaceable(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(found) if found.is_file() => {
            let mut head = Vec::new();
            File::open(path)?.take(MAGIC.len() as u64).read_to_end(&mut head)?;
            match head.is_empty() || head == MAGIC {
                true => Ok(()),
                false => Err(io::Error::other("it exists, and is no trace")),
            }
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// A trace while it is recorded. A regular file keeps its old contents until the first
/// [`Write::flush`], with which the recording begins; what was written until then is in memory. If
/// there never is one, a file that was made for the trace is removed.
#[derive(Debug)]
pub(super) struct RecordedTrace {
    file: File,
    path: PathBuf,
    /// The file, if there was none before.
    made: Option<FileId>,
    /// What was written before the recording has begun; `None` from then on.
    held: Option<Vec<u8>>,
}

impl RecordedTrace {
    /// Opens the trace. A file that is there and no trace is not replaced.
    pub(super) fn open(path: &Path) -> io::Result<RecordedTrace> {
        check_replaceable(path)?;
        let path = path.to_owned();
        let (file, made) = match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(file) => {
                let made = FileId::of(&fstat(&file)?);
                (file, Some(made))
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                // The name may be that of a link that leads to no file yet.
                let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
                (file?, None)
            }
            Err(error) => return Err(error),
        };
        let held = file.metadata()?.is_file().then(Vec::new);
        Ok(RecordedTrace { file, path, made, held })
    }

    /// Has the trace on the disk, and not in the page cache.
    pub(super) fn sync(&self) -> io::Result<()> {
        let synced = match self.file.sync_all() {
            // Devices and pipes have nothing to sync.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
            synced => synced,
        };
        let _ = rustix::fs::fadvise(&self.file, 0, None, Advice::DontNeed);
        synced
    }
}

impl Write for RecordedTrace {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.held {
            Some(held) => held.write(bytes),
            None => self.file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        if let Some(held) = self.held.take() {
            dio::names::ftruncate(&self.file, 0)?;
            self.file.write_all(&held)?;
        }
        self.file.flush()
    }
}

impl Drop for RecordedTrace {
    fn drop(&mut self) {
        if let (Some(_), Some(made)) = (&self.held, self.made) {
            remove_if(&self.path, made);
        }
    }
}

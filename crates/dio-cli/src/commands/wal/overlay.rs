//! A log in which one segment is replaced by another file, so that a copy can be checked as part of
//! the log.

use std::io;
use std::sync::Arc;

use dio_wal::storage::{BlockSizes, SegmentFile, Storage};

/// A read-only log in which the file `part` of another directory takes the place of segment `name`.
pub(super) struct Overlay {
    pub(super) log: Arc<dyn Storage>,
    pub(super) copies: Arc<dyn Storage>,
    pub(super) name: String,
    pub(super) part: String,
}

fn refused<T>() -> io::Result<T> {
    Err(io::ErrorKind::ReadOnlyFilesystem.into())
}

impl Storage for Overlay {
    fn lock(&self) -> io::Result<bool> {
        refused()
    }

    fn unlock(&self) {}

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = self.log.list()?;
        // The segment may be truncated while its copy is read; the reader must not start behind it
        // because of that.
        if !names.contains(&self.name) {
            names.push(self.name.clone());
        }
        Ok(names)
    }

    fn create(&self, _name: &str) -> io::Result<Arc<dyn SegmentFile>> {
        refused()
    }

    fn open(&self, name: &str, _write: bool) -> io::Result<Arc<dyn SegmentFile>> {
        if name == self.name {
            self.copies.open(&self.part, false)
        } else {
            self.log.open(name, false)
        }
    }

    fn rename(&self, _from: &str, _to: &str) -> io::Result<()> {
        refused()
    }

    fn delete(&self, _name: &str) -> io::Result<()> {
        refused()
    }

    fn sync(&self) -> io::Result<()> {
        refused()
    }

    fn fill_random(&self, _out: &mut [u8]) -> io::Result<()> {
        refused()
    }

    fn block_sizes(&self, name: &str) -> io::Result<BlockSizes> {
        self.log.block_sizes(name)
    }
}

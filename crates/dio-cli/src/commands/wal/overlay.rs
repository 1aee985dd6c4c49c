//! A log with one segment in the place of another: how a copy is checked in its own surroundings.

use std::io;
use std::sync::Arc;

use dio_wal::storage::{BlockSizes, SegmentFile, Storage};

/// A log that is only read, with the file `part` of another directory as its segment `name`.
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
        // It may be truncated while its copy is read, which must not make the reader begin behind
        // it.
        if !names.contains(&self.name) {
            names.push(self.name.clone());
        }
        Ok(names)
    }

    fn create(&self, _name: &str) -> io::Result<Arc<dyn SegmentFile>> {
        refused()
    }

    fn open(&self, name: &str, _write: bool) -> io::Result<Arc<dyn SegmentFile>> {
        if name == self.name { self.copies.open(&self.part, false) } else { self.log.open(name, false) }
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

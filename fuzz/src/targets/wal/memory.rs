//! A directory of segments in memory.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use dio_wal::storage::{AtomicWrites, BlockSizes, Durability, SegmentFile, Storage};
use parking_lot::Mutex;

/// Largest size in bytes of a segment that is made.
const ROOM: u64 = 1 << 20;

type Files = BTreeMap<String, Arc<Segment>>;

/// Files by name.
pub(super) struct Memory {
    files: Mutex<Files>,
    locked: Mutex<bool>,
}

struct Segment(Mutex<Vec<u8>>);

impl Memory {
    pub(super) fn new(files: impl Iterator<Item = (String, Vec<u8>)>) -> Memory {
        let files = files.map(|(name, bytes)| (name, Arc::new(Segment(Mutex::new(bytes)))));
        Memory { files: Mutex::new(files.collect()), locked: Mutex::new(false) }
    }
}

impl SegmentFile for Segment {
    fn size(&self) -> io::Result<u64> {
        Ok(self.0.lock().len() as u64)
    }

    fn allocate(&self, size: u64) -> io::Result<bool> {
        if size > ROOM {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let mut bytes = self.0.lock();
        let length = bytes.len().max(size as usize);
        bytes.resize(length, 0);
        Ok(true)
    }

    fn read_at(&self, out: &mut [u8], offset: u64) -> io::Result<usize> {
        let bytes = self.0.lock();
        let there =
            usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..)).unwrap_or_default();
        let count = there.len().min(out.len());
        out[..count].copy_from_slice(&there[..count]);
        Ok(count)
    }

    fn write_at(&self, blocks: &[u8], offset: u64, _: bool) -> io::Result<Durability> {
        let end = offset.checked_add(blocks.len() as u64).filter(|end| *end <= ROOM);
        let end = end.ok_or(io::ErrorKind::StorageFull)? as usize;
        let mut bytes = self.0.lock();
        let length = bytes.len().max(end);
        bytes.resize(length, 0);
        bytes[offset as usize..end].copy_from_slice(blocks);
        Ok(Durability::Volatile)
    }

    fn atomic_writes(&self, _: u64) -> AtomicWrites {
        AtomicWrites::Unsupported
    }

    fn write_atomic(&self, _: &[u8], _: u64, _: bool) -> io::Result<Durability> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn sync_and_drop_cache(&self) -> io::Result<()> {
        Ok(())
    }

    fn sync_all(&self) -> io::Result<()> {
        Ok(())
    }
}

impl Storage for Memory {
    fn lock(&self) -> io::Result<bool> {
        Ok(!std::mem::replace(&mut *self.locked.lock(), true))
    }

    fn unlock(&self) {
        *self.locked.lock() = false;
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.files.lock().keys().cloned().collect())
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn SegmentFile>> {
        let made = Arc::new(Segment(Mutex::default()));
        self.files.lock().insert(name.to_owned(), Arc::clone(&made));
        Ok(made)
    }

    fn open(&self, name: &str, _: bool) -> io::Result<Arc<dyn SegmentFile>> {
        let found = self.files.lock().get(name).cloned();
        found.map(|file| file as _).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut files = self.files.lock();
        let file = files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        files.insert(to.to_owned(), file);
        Ok(())
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        self.files.lock().remove(name).map(|_| ()).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn fill_random(&self, out: &mut [u8]) -> io::Result<()> {
        // The same input must always have the same result.
        out.fill(0x5a);
        Ok(())
    }

    fn block_sizes(&self, _: &str) -> io::Result<BlockSizes> {
        Ok(BlockSizes { min: 512, preferred: 512 })
    }
}

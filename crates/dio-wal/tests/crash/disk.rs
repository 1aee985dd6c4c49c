//! A simulated directory whose power can be cut. All changes are recorded as a list of events; any
//! beginning of the list, with any part of what was not synced, makes a possible state after a
//! power cut.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use dio_test::Rng;
use dio_wal::Method;
use dio_wal::storage::{AtomicWrites, BlockSizes, Durability, SegmentFile, Storage};
use parking_lot::{Mutex, MutexGuard};

/// Unit that a disk writes wholly or not at all, in bytes.
pub(crate) const SECTOR: usize = 512;

/// A change of the disk.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Write {
        file: usize,
        offset: usize,
        bytes: Arc<[u8]>,
        /// The write is never torn.
        whole: bool,
    },
    /// The write with this number among the events is durable.
    WriteDurable {
        file: usize,
        write: usize,
    },
    Size {
        file: usize,
        size: usize,
    },
    Synced {
        file: usize,
    },
    /// The disk holds these bytes, and reads will return them.
    Settled {
        file: usize,
        bytes: Arc<[u8]>,
    },
    /// Volatile data may be lost from now on, even if later syncs succeed.
    SyncFailed {
        file: usize,
    },
    Named {
        name: String,
        file: usize,
    },
    Renamed {
        from: String,
        to: String,
        file: usize,
    },
    Removed {
        name: String,
    },
    NamesSynced,
}

/// Faults of the simulated disk.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    /// The sync with this number fails.
    pub(crate) sync: Option<u64>,
    /// The write with this number fails half-way.
    pub(crate) write: Option<u64>,
    /// There is no space for new segments in this range of attempts to make one.
    pub(crate) full: (u64, u64),
    /// Syncs of the directory fail.
    pub(crate) names: bool,
    /// Attempts in this range to rename or remove a file fail.
    pub(crate) moves: (u64, u64),
    /// The next operation of this kind (a write, a sync, or an attempt to make a segment) panics,
    /// and so do all later ones.
    pub(crate) panics: Option<&'static str>,
    /// Syncs do nothing and report success.
    pub(crate) lies: bool,
    /// Writes take random times, so that they overtake each other.
    pub(crate) slow: bool,
}

#[derive(Clone)]
struct Since {
    offset: usize,
    bytes: Arc<[u8]>,
    durable: bool,
    whole: bool,
}

/// The state of a file while the power is on.
#[derive(Clone, Default)]
struct Live {
    /// The bytes that reads return.
    shown: Vec<u8>,
    /// The bytes that the last successful sync made durable.
    synced: Vec<u8>,
    /// Writes since then, durable by themselves or not.
    since: Vec<Since>,
    /// After a failed sync: the bytes on the disk, which may differ from what reads return.
    truth: Option<Vec<u8>>,
}

struct World {
    events: Vec<Event>,
    files: Vec<Live>,
    names: BTreeMap<String, usize>,
    random: Rng,
    faults: Faults,
    syncs: u64,
    writes: u64,
    allocations: u64,
    /// Attempts to rename or remove files since faults were set.
    moves: u64,
    /// Bytes read so far.
    read: u64,
    /// Panics so far.
    panics: usize,
    locked: bool,
}

/// A disk with one directory.
#[derive(Clone)]
pub(crate) struct Disk {
    world: Arc<Mutex<World>>,
    method: Method,
    block: u64,
    untorn: bool,
    /// Space for a file can be reserved without writing to it.
    pub(crate) sets_aside: bool,
}

/// The files and names that a power cut left.
#[derive(Clone, Debug, Default)]
pub(crate) struct Image {
    pub(crate) files: Vec<Vec<u8>>,
    pub(crate) names: BTreeMap<String, usize>,
}

impl Live {
    fn new(bytes: Vec<u8>) -> Live {
        Live { shown: bytes.clone(), synced: bytes, ..Live::default() }
    }

    /// A sync failed: a random part of the volatile data has reached the disk.
    fn lose(&mut self, random: &mut Rng) {
        let mut truth = self.synced.clone();
        truth.resize(self.shown.len(), 0);
        for Since { offset, bytes, durable, whole } in self.since.drain(..) {
            for (at, piece) in bytes.chunks(if whole { bytes.len() } else { SECTOR }).enumerate() {
                if durable || random.bool(0.5) {
                    let at = offset + at * SECTOR;
                    truth[at..at + piece.len()].copy_from_slice(piece);
                }
            }
        }
        self.truth = Some(truth);
    }
}

impl Disk {
    pub(crate) fn new(image: Image, method: Method, block: u64, untorn: bool, seed: u64) -> Disk {
        let world = World {
            events: Vec::new(),
            files: image.files.into_iter().map(Live::new).collect(),
            names: image.names,
            random: Rng::new(seed),
            faults: Faults::default(),
            syncs: 0,
            writes: 0,
            allocations: 0,
            moves: 0,
            read: 0,
            panics: 0,
            locked: false,
        };
        Disk {
            world: Arc::new(Mutex::new(world)),
            method,
            block,
            untorn,
            sets_aside: seed % 4 != 0,
        }
    }

    pub(crate) fn set_faults(&self, faults: Faults) {
        let mut world = self.lock();
        (world.faults, world.moves) = (faults, 0);
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        self.lock().events.clone()
    }

    pub(crate) fn happened(&self) -> usize {
        self.lock().events.len()
    }

    /// Bytes that reads have requested.
    pub(crate) fn read(&self) -> u64 {
        self.lock().read
    }

    /// Number of panics that the faults have caused.
    pub(crate) fn panics(&self) -> usize {
        self.lock().panics
    }

    /// The state that reads show while the power is on.
    pub(crate) fn live(&self) -> Image {
        let world = self.lock();
        Image {
            files: world.files.iter().map(|file| file.shown.clone()).collect(),
            names: world.names.clone(),
        }
    }

    /// The storage for one opening of the log.
    pub(crate) fn storage(&self) -> Arc<dyn Storage> {
        Arc::new(Directory { disk: self.clone(), locked: Mutex::new(false) })
    }

    fn lock(&self) -> MutexGuard<'_, World> {
        self.world.lock()
    }
}

struct Directory {
    disk: Disk,
    locked: Mutex<bool>,
}

impl Drop for Directory {
    fn drop(&mut self) {
        self.unlock();
    }
}

struct File {
    disk: Disk,
    number: usize,
}

impl World {
    /// Counts an attempt to rename or remove a file, and fails if the faults say so.
    fn moves(&mut self) -> io::Result<()> {
        let number = self.moves;
        self.moves += 1;
        match (self.faults.moves.0..self.faults.moves.1).contains(&number) {
            true => Err(io::Error::from_raw_os_error(5)),
            false => Ok(()),
        }
    }
}

fn not_found() -> io::Error {
    io::ErrorKind::NotFound.into()
}

impl Storage for Directory {
    fn lock(&self) -> io::Result<bool> {
        let mut world = self.disk.lock();
        let free = !world.locked;
        world.locked = true;
        *self.locked.lock() |= free;
        Ok(free)
    }

    fn unlock(&self) {
        if std::mem::take(&mut *self.locked.lock()) {
            self.disk.lock().locked = false;
        }
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.disk.lock().names.keys().cloned().collect())
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn SegmentFile>> {
        let mut world = self.disk.lock();
        world.files.push(Live::default());
        let file = world.files.len() - 1;
        world.names.insert(name.to_owned(), file);
        world.events.push(Event::Named { name: name.to_owned(), file });
        Ok(Arc::new(File { disk: self.disk.clone(), number: file }))
    }

    fn open(&self, name: &str, _write: bool) -> io::Result<Arc<dyn SegmentFile>> {
        let number = *self.disk.lock().names.get(name).ok_or_else(not_found)?;
        Ok(Arc::new(File { disk: self.disk.clone(), number }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut world = self.disk.lock();
        world.moves()?;
        let file = world.names.remove(from).ok_or_else(not_found)?;
        world.names.insert(to.to_owned(), file);
        world.events.push(Event::Renamed { from: from.to_owned(), to: to.to_owned(), file });
        Ok(())
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        let mut world = self.disk.lock();
        world.moves()?;
        world.names.remove(name).ok_or_else(not_found)?;
        world.events.push(Event::Removed { name: name.to_owned() });
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut world = self.disk.lock();
        if world.faults.names {
            return Err(io::Error::from_raw_os_error(5));
        }
        if !world.faults.lies {
            world.events.push(Event::NamesSynced);
        }
        Ok(())
    }

    fn fill_random(&self, out: &mut [u8]) -> io::Result<()> {
        self.disk.lock().random.fill(out);
        Ok(())
    }

    fn block_sizes(&self, _name: &str) -> io::Result<BlockSizes> {
        Ok(BlockSizes { min: self.disk.block, preferred: self.disk.block })
    }
}

impl File {
    fn panic_if_asked(&self, what: &str) {
        let asked = {
            let mut world = self.disk.lock();
            let asked = world.faults.panics == Some(what);
            world.panics += usize::from(asked);
            asked
        };
        assert!(!asked, "a {what} that panics, as it was asked to");
    }

    fn sync_file(&self) -> io::Result<()> {
        self.panic_if_asked("sync");
        let mut world = self.disk.lock();
        let number = world.syncs;
        world.syncs += 1;
        if world.faults.sync == Some(number) {
            let mut random = Rng::new(world.random.next_u64());
            world.files[self.number].lose(&mut random);
            world.events.push(Event::SyncFailed { file: self.number });
            return Err(io::Error::from_raw_os_error(5));
        }
        if !world.faults.lies {
            world.events.push(Event::Synced { file: self.number });
            let file = &mut world.files[self.number];
            if file.truth.is_none() {
                file.synced = file.shown.clone();
            }
            file.since.clear();
        }
        Ok(())
    }

    fn write(
        &self,
        blocks: &[u8],
        offset: u64,
        commit: bool,
        whole: bool,
    ) -> io::Result<Durability> {
        self.panic_if_asked("write");
        let block = self.disk.block as usize;
        assert!(
            offset as usize % block == 0 && blocks.len() % block == 0,
            "{} bytes at {offset}",
            blocks.len()
        );
        assert!(blocks.as_ptr() as usize % dio::block::BLOCK_ALIGN == 0, "memory is not aligned");
        let mut world = self.disk.lock();
        if world.faults.slow {
            let time = std::time::Duration::from_micros(world.random.range(0..200));
            drop(world);
            std::thread::sleep(time);
            world = self.disk.lock();
        }
        let number = world.writes;
        world.writes += 1;
        let fails = world.faults.write == Some(number);
        let bytes =
            if fails && !whole { &blocks[..blocks.len() / block / 2 * block] } else { blocks };
        let (file, offset) = (self.number, offset as usize);
        let live = &mut world.files[file];
        assert!(offset + bytes.len() <= live.shown.len(), "a write behind the end of the segment");
        live.shown[offset..offset + bytes.len()].copy_from_slice(bytes);
        live.since.push(Since { offset, bytes: bytes.into(), durable: false, whole });
        if let Some(truth) = &mut live.truth {
            truth[offset..offset + bytes.len()].copy_from_slice(bytes);
        }
        let write = world.events.len();
        world.events.push(Event::Write { file, offset, bytes: bytes.into(), whole });
        if fails {
            return Err(io::Error::from_raw_os_error(5));
        }
        let through = match self.disk.method {
            Method::Fsync | Method::Fdatasync => false,
            Method::OpenSync | Method::OpenDatasync => true,
            Method::RwfDsync => commit,
        };
        if !through {
            return Ok(Durability::Volatile);
        }
        if !world.faults.lies {
            world.events.push(Event::WriteDurable { file, write });
            if let Some(since) = world.files[file].since.last_mut() {
                since.durable = true;
            }
        }
        Ok(Durability::Durable)
    }
}

impl SegmentFile for File {
    fn size(&self) -> io::Result<u64> {
        Ok(self.disk.lock().files[self.number].shown.len() as u64)
    }

    fn allocate(&self, size: u64) -> io::Result<bool> {
        self.panic_if_asked("segment");
        let mut world = self.disk.lock();
        let number = world.allocations;
        world.allocations += 1;
        if (world.faults.full.0..world.faults.full.1).contains(&number) {
            return Err(io::Error::from_raw_os_error(28));
        }
        world.files[self.number].shown.resize(size as usize, 0);
        world.events.push(Event::Size { file: self.number, size: size as usize });
        Ok(self.disk.sets_aside)
    }

    fn read_at(&self, out: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut world = self.disk.lock();
        world.read += out.len() as u64;
        let bytes = world.files[self.number].shown.get(offset as usize..).unwrap_or(&[]);
        let count = bytes.len().min(out.len());
        out[..count].copy_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn write_at(&self, blocks: &[u8], offset: u64, commit: bool) -> io::Result<Durability> {
        self.write(blocks, offset, commit, false)
    }

    fn atomic_writes(&self, _block: u64) -> AtomicWrites {
        if self.disk.untorn { AtomicWrites::Hardware } else { AtomicWrites::Unsupported }
    }

    fn write_atomic(&self, block: &[u8], offset: u64, commit: bool) -> io::Result<Durability> {
        assert_eq!(block.len() as u64, self.disk.block);
        self.write(block, offset, commit, true)
    }

    fn sync(&self) -> io::Result<()> {
        match self.disk.method {
            Method::OpenSync | Method::OpenDatasync => Ok(()),
            _ => self.sync_file(),
        }
    }

    fn sync_and_drop_cache(&self) -> io::Result<()> {
        self.sync_file()?;
        let mut world = self.disk.lock();
        if let Some(truth) = world.files[self.number].truth.take() {
            world.events.push(Event::Settled { file: self.number, bytes: truth.as_slice().into() });
            world.files[self.number] = Live::new(truth);
        }
        Ok(())
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync_file()
    }
}

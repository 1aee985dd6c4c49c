//! A simulated disk: its files, its speed, its faults, its trace.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::file::File;
use super::image::{Image, PAGE};
use super::{Faults, SimClock, SimMedium, SplitMix64, Trace, TraceEntry};

/// What a simulated disk is like.
///
/// The time of an operation is a service time, during which `channels` operations can be under way side by side, and
/// then that of its bytes on the one link of the disk, one operation after another. So one channel serves one request
/// at a time, and many channels hide the service time when many requests are in flight, as a solid-state disk does.
#[derive(Clone, Debug)]
pub struct SimDiskModel {
    /// Alignment of memory for direct I/O, in bytes, a power of two (`stx_dio_mem_align`).
    pub mem_align: usize,
    /// Alignment of offsets and of the lengths of memory segments for direct I/O, in bytes, a power of two
    /// (`stx_dio_offset_align`, `statx(2)`).
    pub offset_align: usize,
    /// Service time of each operation.
    pub service: Duration,
    /// Bytes a second, reading.
    pub read_bandwidth: u64,
    /// Bytes a second, writing.
    pub write_bandwidth: u64,
    /// Further service time of a sync, and of a write with `dsync`.
    pub sync: Duration,
    /// Operations that the disk serves at a time.
    pub channels: usize,
    /// The disk picks the next of the waiting operations at random (seeded), not in the order of starting.
    pub reorder: bool,
    /// Space for all files together, in bytes, a multiple of 4096; `None` for no limit.
    pub capacity: Option<u64>,
    /// The file system knows `RWF_DONTCACHE`; otherwise such operations fail with EOPNOTSUPP.
    pub dontcache: bool,
    /// A direct read fills with garbage what memory of its own it does not account for: up to the next block behind the
    /// end of file (the device reads whole blocks), behind a short count, and all of it when it fails with EIO. The
    /// kernel may do all of that. Otherwise such memory stays as it was.
    pub scribble: bool,
    /// After a power cut, data lost in what was a hole may have become garbage; otherwise it is zeros.
    pub stale_after_cut: bool,
}

impl Default for SimDiskModel {
    /// 512-byte alignment, 1 GiB/s each way, 100 µs of service, 1 ms for a sync, one channel, no limit of space.
    fn default() -> SimDiskModel {
        SimDiskModel {
            mem_align: 512,
            offset_align: 512,
            service: Duration::from_micros(100),
            read_bandwidth: 1 << 30,
            write_bandwidth: 1 << 30,
            sync: Duration::from_millis(1),
            channels: 1,
            reorder: false,
            capacity: None,
            dontcache: true,
            scribble: false,
            stale_after_cut: true,
        }
    }
}

/// A simulated disk with a file system on it. Cloning it gives another handle of the same disk.
#[derive(Clone)]
pub struct SimDisk {
    pub(super) shared: Arc<Shared>,
}

pub(super) struct Shared {
    pub(super) model: SimDiskModel,
    pub(super) seed: u64,
    pub(super) clock: SimClock,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) files: Vec<File>,
    pub(super) faults: Faults,
    /// Operations started.
    pub(super) operations: u64,
    pub(super) trace: Trace,
    /// When the link has carried all bytes promised so far.
    link_free: Duration,
}

impl std::fmt::Debug for SimDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SimDisk(seed {})", self.shared.seed)
    }
}

impl SimDisk {
    /// An empty disk.
    ///
    /// # Panics
    /// When the model makes no sense: an alignment that is no power of two, no channel, no bandwidth.
    pub fn new(clock: &SimClock, model: SimDiskModel, seed: u64) -> SimDisk {
        assert!(model.mem_align.is_power_of_two() && model.offset_align.is_power_of_two(), "alignment in {model:?}");
        assert!(model.channels > 0 && model.read_bandwidth > 0 && model.write_bandwidth > 0, "no speed in {model:?}");
        assert!(model.capacity.is_none_or(|bytes| bytes % PAGE as u64 == 0), "capacity in {model:?}");
        SimDisk { shared: Arc::new(Shared { model, seed, clock: clock.clone(), state: Mutex::default() }) }
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.shared.seed
    }

    /// The model.
    pub fn model(&self) -> &SimDiskModel {
        &self.shared.model
    }

    /// Makes a file with these contents, durable at once.
    pub fn file(&self, contents: &[u8]) -> SimMedium {
        let mut image = Image::default();
        image.store(0, contents, 0);
        image.size = contents.len() as u64;
        self.add(File::new(image, false))
    }

    /// Makes a file of `size` bytes of [`pattern`](super::pattern) data, which are computed and take no memory.
    pub fn pattern_file(&self, size: u64, seed: u64) -> SimMedium {
        self.add(File::new(Image::of_pattern(size, seed), false))
    }

    /// Makes a block device of `size` bytes. Its size is fixed, it has no holes, and what was never written is garbage.
    pub fn device(&self, size: u64) -> SimMedium {
        let seed = SplitMix64::for_use(self.seed(), size).next_u64();
        self.add(File::new(Image::of_pattern(size, seed), true))
    }

    fn add(&self, file: File) -> SimMedium {
        let mut state = self.lock();
        state.files.push(file);
        SimMedium::new(self.clone(), state.files.len() - 1)
    }

    /// The file with this number, in the order of making.
    ///
    /// # Panics
    /// When there are not so many.
    pub fn medium(&self, number: usize) -> SimMedium {
        assert!(number < self.lock().files.len(), "{self:?} has no file {number}");
        SimMedium::new(self.clone(), number)
    }

    /// Sets the plan of faults for operations that start from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.lock().faults = faults;
    }

    /// Operations started so far. A test that makes each of them fail in turn runs once without faults to learn how
    /// many there are.
    pub fn operations(&self) -> u64 {
        self.lock().operations
    }

    /// The operations completed so far.
    pub fn trace(&self) -> Trace {
        self.lock().trace.clone()
    }

    /// Time during which the disk was serving at least one operation, of those completed.
    pub fn busy(&self) -> Duration {
        self.lock().trace.busy()
    }

    /// Space taken by all files, in bytes.
    pub fn used(&self) -> u64 {
        self.lock().used()
    }

    /// A disk with what a power cut at this moment would leave, by `seed`; this one stays as it is, so a test can cut
    /// at every moment of one run. Its files have the same numbers; its faults, trace and count of operations start
    /// anew. Of writes in flight any part may be there.
    #[must_use]
    pub fn power_cut(&self, seed: u64) -> SimDisk {
        let after = SimDisk::new(&self.shared.clock, self.shared.model.clone(), seed);
        let mut random = SplitMix64::for_use(self.seed(), seed);
        let stale = self.shared.model.stale_after_cut;
        after.lock().files = self.lock().files.iter().map(|file| file.after_power_cut(&mut random, stale)).collect();
        after
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to serve an operation at `at`: when it will be complete.
    pub(super) fn schedule(&self, at: Duration, service: Duration, on_link: Duration) -> Duration {
        if on_link.is_zero() {
            return at + service;
        }
        let mut state = self.lock();
        let end = (at + service).max(state.link_free) + on_link;
        state.link_free = end;
        end
    }
}

impl State {
    pub(super) fn used(&self) -> u64 {
        self.files.iter().map(|file| file.live.used()).sum::<u64>() * PAGE as u64
    }
}

/// Operations shown when a test fails.
const SHOWN: usize = 8;

impl Drop for Shared {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        eprintln!("simulated disk: seed {}, {} operations started; the last completed:", self.seed, state.operations);
        let entries = &state.trace.entries;
        for entry in &entries[entries.len().saturating_sub(SHOWN)..] {
            eprintln!("  {}", line(entry));
        }
    }
}

fn line(entry: &TraceEntry) -> String {
    let TraceEntry { number, file, action, route, offset, len, result, fault, .. } = entry;
    let (start, end) = (entry.start, entry.end);
    format!("{number}: file {file} {action:?} {route:?} {len} at {offset}: {result:?} {fault:?} {start:?}..{end:?}")
}

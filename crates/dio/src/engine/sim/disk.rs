//! A simulated disk: its files, its speed, its faults and its trace.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use super::file::SimFile;
use super::image::PAGE_BYTES;
use super::{Faults, SimClock, SplitMix64, Trace, TraceEntry};

/// The properties of a simulated disk.
///
/// An operation first takes a service time, during which the disk serves up to `channels`
/// operations side by side. Then its bytes take their time on the one link of the disk, one
/// operation after another. So one channel serves one request at a time, and many channels hide the
/// service time while many requests are in flight, as a solid-state disk does.
#[derive(Clone, Debug)]
pub struct SimDiskModel {
    /// Alignment of memory for direct I/O, in bytes, a power of two (`stx_dio_mem_align`).
    pub mem_align: usize,
    /// Alignment of offsets and of the lengths of memory segments for direct I/O, in bytes, a power
    /// of two (`stx_dio_offset_align`, `statx(2)`).
    pub offset_align: usize,
    /// Service time of each operation.
    pub service: Duration,
    /// Bytes a second, reading.
    pub read_bandwidth: u64,
    /// Bytes a second, writing.
    pub write_bandwidth: u64,
    /// Additional service time of a sync, and of a write with `dsync`.
    pub sync: Duration,
    /// Operations that the disk serves at a time.
    pub channels: usize,
    /// The disk picks the next waiting operation at random, by its seed, instead of the oldest.
    pub reorder: bool,
    /// Space for all files together, in bytes, a multiple of 4096. `None` means no limit.
    pub capacity: Option<u64>,
    /// The file system supports `RWF_DONTCACHE`. Otherwise such operations fail with EOPNOTSUPP.
    pub dontcache: bool,
    /// A direct read overwrites memory that it does not report as read with garbage: up to the next
    /// block behind the end of the file (the device reads whole blocks), behind a short count, and
    /// all of it when it fails with EIO. The kernel may do all of that. Otherwise such memory stays
    /// as it was.
    pub scribble: bool,
    /// After a power cut, lost data in a former hole may have become garbage. Otherwise it is
    /// zeros.
    pub stale_after_cut: bool,
}

impl Default for SimDiskModel {
    /// 512-byte alignment, 1 GiB/s each way, 100 µs of service, 1 ms for a sync, one channel, no
    /// limit of space.
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
    pub(super) shared: Arc<DiskShared>,
}

pub(super) struct DiskShared {
    pub(super) model: SimDiskModel,
    pub(super) seed: u64,
    pub(super) clock: SimClock,
    state: Mutex<DiskState>,
}

#[derive(Debug, Default)]
pub(super) struct DiskState {
    pub(super) files: Vec<SimFile>,
    pub(super) faults: Faults,
    /// Operations started.
    pub(super) operations: u64,
    pub(super) trace: Trace,
    /// When the link will have carried all bytes scheduled so far.
    link_free_at: Duration,
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
    /// When the model makes no sense: an alignment that is no power of two, no channel, no
    /// bandwidth.
    pub fn new(clock: &SimClock, model: SimDiskModel, seed: u64) -> SimDisk {
        assert!(
            model.mem_align.is_power_of_two() && model.offset_align.is_power_of_two(),
            "alignment in {model:?}"
        );
        assert!(
            model.channels > 0 && model.read_bandwidth > 0 && model.write_bandwidth > 0,
            "no speed in {model:?}"
        );
        assert!(
            model.capacity.is_none_or(|bytes| bytes % PAGE_BYTES as u64 == 0),
            "capacity in {model:?}"
        );
        SimDisk {
            shared: Arc::new(DiskShared {
                model,
                seed,
                clock: clock.clone(),
                state: Mutex::default(),
            }),
        }
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.shared.seed
    }

    /// The model.
    pub fn model(&self) -> &SimDiskModel {
        &self.shared.model
    }

    /// Sets the planned faults of operations that start from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.lock().faults = faults;
    }

    /// Operations started so far. A test that lets each of them fail in turn runs once without
    /// faults to find their number.
    pub fn operations(&self) -> u64 {
        self.lock().operations
    }

    /// The operations completed so far.
    pub fn trace(&self) -> Trace {
        self.lock().trace.clone()
    }

    /// Time during which the disk served at least one of the completed operations.
    pub fn busy(&self) -> Duration {
        self.lock().trace.busy()
    }

    /// Space taken by all files, in bytes.
    pub fn used(&self) -> u64 {
        self.lock().used()
    }

    /// A disk with what a power cut at this moment would leave, by `seed`. This disk stays as it
    /// is, so a test can cut at every moment of one run. The files have the same numbers; faults,
    /// trace and count of operations start anew. Any part of the writes in flight may be there.
    #[must_use]
    pub fn power_cut(&self, seed: u64) -> SimDisk {
        let after = SimDisk::new(&self.shared.clock, self.shared.model.clone(), seed);
        let mut random = SplitMix64::for_use(self.seed(), seed);
        let stale = self.shared.model.stale_after_cut;
        after.lock().files =
            self.lock().files.iter().map(|file| file.after_power_cut(&mut random, stale)).collect();
        after
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, DiskState> {
        self.shared.state.lock()
    }

    /// Begins to serve an operation at `at`. Returns when it will be complete.
    pub(super) fn schedule(&self, at: Duration, service: Duration, on_link: Duration) -> Duration {
        if on_link.is_zero() {
            return at + service;
        }
        let mut state = self.lock();
        let end = (at + service).max(state.link_free_at) + on_link;
        state.link_free_at = end;
        end
    }
}

impl DiskState {
    pub(super) fn used(&self) -> u64 {
        self.files.iter().map(|file| file.live.used()).sum::<u64>() * PAGE_BYTES as u64
    }
}

/// Operations printed when a test fails.
const OPS_SHOWN: usize = 8;

impl Drop for DiskShared {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let state = self.state.get_mut();
        eprintln!(
            "simulated disk: seed {}, {} operations started; the last completed:",
            self.seed, state.operations
        );
        let entries = &state.trace.entries;
        for entry in &entries[entries.len().saturating_sub(OPS_SHOWN)..] {
            eprintln!("  {}", line(entry));
        }
    }
}

fn line(entry: &TraceEntry) -> String {
    let TraceEntry { number, file, action, route, offset, len, result, fault, .. } = entry;
    let (start, end) = (entry.start, entry.end);
    format!(
        "{number}: file {file} {action:?} {route:?} {len} at {offset}: {result:?} {fault:?} \
         {start:?}..{end:?}"
    )
}

//! The copy loop in the simulator: both disks are kept busy, faults are reported or have no effect,
//! and no wrong bytes are written.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use dio::engine::OpKind;
use dio::engine::sim::{Fault, Faults, SimClock, SimDisk, SimDiskModel, SimEngine, SimMedium};
use dio::geometry::Geometry;
use dio::transfer::{Contents, Copier, CopierJob, NoWatch, Sparse, TransferError, Watch};
use dio::{File, Io, Limits, OpenOptions};

const MIB: u64 = 1 << 20;

struct World {
    clock: SimClock,
    source: SimMedium,
    target: SimMedium,
    source_disk: SimDisk,
    target_disk: SimDisk,
    io: Io,
}

/// Two disks of 100 µs and 1 GiB/s each, with a source of `size` bytes on one of them.
fn world(size: u64, seed: u64) -> World {
    let clock = SimClock::new();
    let model = SimDiskModel {
        service: Duration::from_micros(100),
        read_bandwidth: 1 << 30,
        write_bandwidth: 1 << 30,
        ..SimDiskModel::default()
    };
    let source_disk = SimDisk::new(&clock, model.clone(), seed);
    let target_disk = SimDisk::new(&clock, model, seed + 1);
    let (source, target) = (source_disk.pattern_file(size, seed), target_disk.file(b""));
    let engines = clock.clone();
    let io = Io::with_engine(Limits::default(), "sim", move |depth| {
        Box::new(SimEngine::new(&engines, depth, seed))
    });
    World { clock, source, target, source_disk, target_disk, io: io.unwrap() }
}

impl World {
    fn files(&self) -> (File, File) {
        let geometry = Geometry::fixed(512, 512).unwrap();
        let open = |write: bool, name: &str, medium: &SimMedium| {
            let mut options = OpenOptions::new();
            options.read(true).write(write).io(&self.io);
            options.open_medium(name, Arc::new(medium.clone()), geometry).unwrap()
        };
        (open(false, "source", &self.source), open(true, "target", &self.target))
    }

    fn copy(&self, block: usize, depth: usize) -> Result<(), TransferError> {
        let (source, target) = self.files();
        let size = source.size().unwrap();
        target.allocate(0..size, true).unwrap();
        let ranges: Vec<_> = std::iter::once(0..size).collect();
        let job = CopierJob {
            source: &source,
            target: Some(&target),
            ranges: &ranges,
            pace: None,
            skip_zeros: false,
        };
        Copier::new(&self.io, block, depth).unwrap().run(&job, &mut NoWatch)
    }
}

#[test]
fn two_disks_are_both_busy_and_work_at_the_same_time() {
    let size = 256 * MIB;
    let alternating = world(size, 1);
    alternating.copy(1 << 20, 1).unwrap();
    let together = world(size, 1);
    together.copy(1 << 20, 16).unwrap();
    assert!(together.target.contents() == together.source.contents());

    let (took, baseline) =
        (together.clock.now().as_secs_f64(), alternating.clock.now().as_secs_f64());
    for disk in [&together.source_disk, &together.target_disk] {
        let busy = disk.busy().as_secs_f64() / took;
        assert!(busy >= 0.95, "a disk was busy for {busy:.3} of the copy");
    }
    assert!(baseline / took >= 1.9, "alternating took {baseline:.3} s, together {took:.3} s");
    let reads = together.source_disk.trace().kind(OpKind::Read);
    let writes = together.target_disk.trace().kind(OpKind::Write);
    assert!(reads.overlap(&writes).as_secs_f64() >= 0.9 * took);
}

#[test]
fn odd_sizes_arrive_exactly() {
    for size in [1, 41, 511, 512, 513, 4096, MIB - 1, MIB, MIB + 1, 5 * MIB + 12_345] {
        let world = world(size, size);
        world.copy(1 << 20, 4).unwrap();
        assert!(world.target.contents() == world.source.contents(), "size {size}");
    }
}

#[test]
fn passing_troubles_at_any_operation_are_invisible() {
    for fault in [Fault::ShortAligned, Fault::ShortUnaligned, Fault::Again, Fault::Interrupted] {
        for number in 0..8 {
            let world = world(4 * MIB + 100, 7);
            world.source_disk.set_faults(Faults::none().at(number, fault));
            world.target_disk.set_faults(Faults::none().at(number, fault));
            let (source, target) = (world.source.contents(), &world.target);
            world.copy(1 << 20, 3).unwrap_or_else(|error| panic!("{fault:?} at {number}: {error}"));
            assert!(target.contents() == source, "{fault:?} at {number}");
        }
    }
}

#[test]
fn lasting_troubles_are_reported_with_their_side_and_drained() {
    for number in 0..8 {
        let world = world(8 * MIB, 9);
        // Operation 0 queries the size.
        world.source_disk.set_faults(Faults::none().at(number + 1, Fault::Io));
        let error = world.copy(1 << 20, 3).unwrap_err();
        let TransferError::Source(error) = error else { panic!("{error}") };
        assert_eq!(error.offset(), Some(number * MIB), "{error}");
    }
    for number in 1..8 {
        // Operation 0 allocates.
        let world = world(8 * MIB, 9);
        world.target_disk.set_faults(Faults::none().at(number, Fault::NoSpace));
        let error = world.copy(1 << 20, 3).unwrap_err();
        assert!(matches!(error, TransferError::Target(_)), "{error}");
        assert!(error.to_string().contains("No space left on device"), "{error}");
    }
}

/// After a failed write, the target has the complete part, and not the space that was reserved for
/// the rest.
#[test]
fn a_copy_that_fails_is_cut_to_what_is_complete() {
    let size = 8 * MIB + 77;
    for number in 1..9 {
        let world = world(size, 9);
        let (source, target) = world.files();
        let contents = Contents {
            source: &source,
            target: &target,
            size,
            start: 0,
            sparse: Sparse::Never,
            pace: None,
        };
        let mut copier = Copier::new(&world.io, MIB as usize, 3).unwrap();
        world.target_disk.set_faults(Faults::none().from(number + 2, Fault::NoSpace));
        copier.copy_contents(&contents, &mut NoWatch).unwrap_err();
        let (found, expected) = (world.target.contents(), world.source.contents());
        assert_eq!(found.len() as u64, copier.complete(), "at {number}");
        assert!(
            found.len() < expected.len() && found[..] == expected[..found.len()],
            "at {number}"
        );
        assert!(
            target.sync_data().is_err() && target.set_size(0).is_err(),
            "the error stays in force"
        );
    }
}

#[test]
fn a_source_that_shrinks_ends_the_copy() {
    let world = world(4 * MIB, 3);
    let (source, target) = world.files();
    let ranges: Vec<_> = std::iter::once(0..5 * MIB).collect();
    let job = CopierJob {
        source: &source,
        target: Some(&target),
        ranges: &ranges,
        pace: None,
        skip_zeros: false,
    };
    let error = Copier::new(&world.io, 1 << 20, 4).unwrap().run(&job, &mut NoWatch).unwrap_err();
    assert!(matches!(error, TransferError::Shrunk { found, .. } if found == 4 * MIB), "{error}");
}

/// Requests a stop once this number of bytes has been read.
struct StopAfter(u64, Cell<u64>);

impl Watch for StopAfter {
    fn read(&mut self, _offset: u64, bytes: &[u8]) {
        self.1.set(self.1.get() + bytes.len() as u64);
    }

    fn stopped(&self) -> bool {
        self.1.get() >= self.0
    }
}

#[test]
fn what_a_stopped_transfer_calls_complete_is_there() {
    let size = 5 * MIB + 10;
    for stop_at in (0..=size).step_by(MIB as usize / 2).chain([size]) {
        let world = world(size, 9);
        let (source, target) = world.files();
        target.allocate(0..size, true).unwrap();
        let ranges: Vec<_> = std::iter::once(0..size).collect();
        let job = CopierJob {
            source: &source,
            target: Some(&target),
            ranges: &ranges,
            pace: None,
            skip_zeros: false,
        };
        let mut copier = Copier::new(&world.io, MIB as usize / 4, 3).unwrap();
        let outcome = copier.run(&job, &mut StopAfter(stop_at, Cell::new(0)));
        let complete = copier.complete() as usize;
        assert!(
            outcome.is_ok() == (complete == size as usize),
            "stopped at {stop_at}, {complete} complete: {outcome:?}"
        );
        assert!(
            world.target.contents()[..complete] == world.source.contents()[..complete],
            "stopped at {stop_at}"
        );
    }
}

//! Files on simulated disks that fail: every operation of a script fails in every way, one at a
//! time.
//!
//! Transient faults must have no effect. Other faults must be reported with their offset and error
//! number, and after a failed write or sync nothing may report success. A power cut at any moment
//! loses nothing that a sync acknowledged.

mod common;

use std::io::IoSlice;
use std::ops::Range;
use std::sync::Arc;

use common::{Arena, fill, first_difference, sim_geometry};
use dio::engine::OpKind;
use dio::engine::sim::{
    Fault, Faults, SimAction, SimClock, SimDisk, SimDiskModel, SimEngine, SimMedium,
};
use dio::{File, FileError, Io, Limits, Mode, OpenOptions};
use dio_test::Seed;

#[derive(Clone, Debug)]
enum Step {
    /// Offset, lengths of the buffers, and the distance of the first buffer from alignment in
    /// memory.
    Write(u64, &'static [usize], usize),
    Read(u64, usize, usize),
    Resize(u64),
    Allocate(Range<u64>, bool),
    Punch(Range<u64>),
    SyncData,
    SyncAll,
}

const START: usize = 5000;

fn script() -> Vec<Step> {
    use Step::{Allocate, Punch, Read, Resize, SyncAll, SyncData, Write};
    vec![
        Write(0, &[8192], 0),
        SyncData,
        Write(100, &[8900], 3),
        Read(0, 12_000, 0),
        Write(20_000, &[100], 1),
        SyncAll,
        // Inside the file, in whole blocks, from aligned and from unaligned memory.
        Write(4096, &[12_288], 0),
        Write(0, &[8192], 8),
        Write(8192, &[512, 3584, 100, 412, 512], 0),
        SyncData,
        Resize(15_000),
        Read(50, 20_000, 5),
        Punch(4096..9000),
        Allocate(0..30_000, true),
        SyncData,
        Write(29_990, &[1000, 1, 2000], 7),
        Read(28_672, 8192, 0),
        Resize(30_001),
        Write(30_001, &[511], 0),
        SyncAll,
        Write(700, &[30], 0),
    ]
}

/// A file on a disk of its own, and its expected contents.
struct World {
    medium: SimMedium,
    file: File,
    arena: Arena,
    /// The bytes that a reader must get.
    model: Vec<u8>,
    /// Bytes that a failed write may have changed or not.
    unsure: Vec<bool>,
    /// The bytes that the last acknowledged sync made durable, and which of them have not been
    /// changed since.
    durable: Vec<u8>,
    settled: Vec<bool>,
    /// The error that the file has latched.
    failed: Option<FileError>,
    /// A request behind the end of the file failed, after the read had ended before it.
    failed_behind_end: bool,
}

impl World {
    fn new(seed: u64, align: usize, mode: Mode, faults: Faults) -> World {
        let clock = SimClock::new();
        let model = SimDiskModel {
            mem_align: align,
            offset_align: align,
            channels: 3,
            reorder: true,
            scribble: true,
            dontcache: seed.is_multiple_of(2),
            ..SimDiskModel::default()
        };
        let disk = SimDisk::new(&clock, model, seed);
        let mut start = vec![0; START];
        fill(&mut start, 99, 0);
        let medium = disk.file(&start);
        disk.set_faults(faults);
        let limits = Limits {
            depth: 3,
            request: 4096,
            bounce_block: 4096,
            bounce_blocks: 4,
            idle_engines: 1,
        };
        let io = Io::with_engine(limits, "sim", move |depth| {
            Box::new(SimEngine::new(&clock, depth, seed))
        })
        .unwrap();
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(mode).io(&io);
        let file = options
            .open_medium("disk/file", Arc::new(medium.clone()), sim_geometry(align))
            .unwrap();
        let (unsure, settled) = (vec![false; START], vec![true; START]);
        let (arena, durable, failed) = (Arena::new(1 << 16), start.clone(), None);
        let failed_behind_end = false;
        World {
            medium,
            file,
            arena,
            model: start,
            unsure,
            durable,
            settled,
            failed,
            failed_behind_end,
        }
    }

    fn disturb(&mut self, range: Range<usize>) {
        let end = range.end.min(self.settled.len());
        self.settled[range.start.min(end)..end].fill(false);
    }

    /// Runs one step. Returns its error, and checks what every error must contain.
    fn step(&mut self, number: u64, step: &Step) -> Option<FileError> {
        let outcome = match *step {
            Step::Write(offset, lens, shift) => self.write(number, offset, lens, shift),
            Step::Read(offset, len, shift) => self.read(offset, len, shift),
            Step::Resize(size) => self.file.set_size(size).map(|()| self.resized(size as usize)),
            Step::Allocate(ref range, extend) => {
                self.file.allocate(range.clone(), extend).map(|()| {
                    if extend && range.end as usize > self.model.len() {
                        self.resized(range.end as usize);
                    }
                })
            }
            Step::Punch(ref range) => self.file.punch(range.clone()).map(|()| {
                let range = range.start as usize..(range.end as usize).min(self.model.len());
                self.model[range.clone()].fill(0);
                self.disturb(range);
            }),
            Step::SyncData => self.file.sync_data().map(|()| self.synced()),
            Step::SyncAll => self.file.sync_all().map(|()| self.synced()),
        };
        let changes = !matches!(step, Step::Read(..));
        if let Some(failed) = self.failed.as_ref().filter(|_| changes) {
            let again = outcome.expect_err("nothing succeeds after a failed write or sync");
            assert_eq!(
                (again.errno(), again.offset()),
                (failed.errno(), failed.offset()),
                "the first error stays"
            );
            return Some(again);
        }
        let error = outcome.err()?;
        assert_eq!(error.path(), "disk/file");
        let asked = error.operation().contains("size");
        match *step {
            Step::Read(offset, len, _) if !asked => assert_place(&error, offset, len),
            Step::Write(offset, lens, _) => {
                let len: usize = lens.iter().sum();
                if !asked {
                    assert_place(&error, offset, len);
                }
                let latches = error.operation() == "write";
                self.failed = latches.then(|| error.clone());
                self.may_have_written(number, offset, len);
            }
            Step::SyncData | Step::SyncAll => self.failed = Some(error.clone()),
            _ => {}
        }
        Some(error)
    }

    fn resized(&mut self, size: usize) {
        self.disturb(size.min(self.model.len())..usize::MAX);
        self.model.resize(size, 0);
        self.unsure.resize(size, false);
    }

    fn write(
        &mut self,
        number: u64,
        offset: u64,
        lens: &[usize],
        shift: usize,
    ) -> Result<(), FileError> {
        let len = lens.iter().sum::<usize>();
        self.disturb(offset as usize..offset as usize + len);
        let bytes = self.arena.slice(shift, len);
        fill(bytes, number, offset);
        let mut rest: &[u8] = bytes;
        let mut slices = Vec::new();
        for len in lens {
            let (slice, after) = rest.split_at(*len);
            rest = after;
            slices.push(IoSlice::new(slice));
        }
        match slices[..] {
            [ref one] => self.file.write_at(one, offset)?,
            _ => self.file.write_vectored_at(&slices, offset)?,
        }
        let end = offset as usize + len;
        self.model.resize(self.model.len().max(end), 0);
        self.unsure.resize(self.model.len(), false);
        fill(&mut self.model[offset as usize..end], number, offset);
        self.unsure[offset as usize..end].fill(false);
        Ok(())
    }

    /// Checks the size and the bytes that a failed write leaves: all bytes outside of its range are
    /// unchanged.
    fn may_have_written(&mut self, number: u64, offset: u64, len: usize) {
        let live = self.medium.contents();
        let (start, end) = (offset as usize, offset as usize + len);
        assert!(
            live.len() >= self.model.len() && live.len() <= self.model.len().max(end),
            "size after a failed write"
        );
        self.model.resize(live.len(), 0);
        self.unsure.resize(live.len(), false);
        let mut new = vec![0; len];
        fill(&mut new, number, offset);
        for at in start..end.min(live.len()) {
            assert!(
                [self.model[at], new[at - start]].contains(&live[at]),
                "byte {at} is neither the old nor the new"
            );
            self.model[at] = live[at];
            self.unsure[at] = true;
        }
    }

    fn read(&mut self, offset: u64, len: usize, shift: usize) -> Result<(), FileError> {
        let before = self.medium.disk().trace().entries.len();
        let buffer = self.arena.slice(shift, len);
        buffer.fill(0xee);
        let count = self.file.read_at(buffer, offset)?;
        let start = (offset as usize).min(self.model.len());
        let expected = &self.model[start..(start + len).min(self.model.len())];
        assert_eq!(count, expected.len(), "bytes read");
        assert_eq!(first_difference(&buffer[..count], expected), None, "a wrong byte");
        assert!(
            buffer[count..].iter().all(|byte| [0, 0xee].contains(byte)),
            "a byte from behind the end"
        );
        let trace = self.medium.disk().trace();
        let mut reads = trace.entries[before..]
            .iter()
            .filter(|entry| entry.action == SimAction::Transfer(OpKind::Read));
        if let Some(entry) = reads.find(|entry| entry.fault == Some(Fault::Io)) {
            assert!(
                entry.offset >= self.model.len() as u64,
                "a request inside the file failed and was not reported"
            );
            self.failed_behind_end = true;
        }
        Ok(())
    }

    fn synced(&mut self) {
        self.durable = self.model.clone();
        self.settled = vec![true; self.model.len()];
    }

    /// Checks the contents after a power cut at this moment: all bytes that were durable and have
    /// not been changed since are there.
    fn check_power_cut(&self, seed: u64) {
        let after = self.medium.power_cut_with(seed).contents();
        for (at, byte) in self.durable.iter().enumerate().filter(|(at, _)| self.settled[*at]) {
            assert_eq!(
                after.get(at),
                Some(byte),
                "byte {at}, synced and not written since, after power cut {seed}"
            );
        }
    }

    fn check_contents(&self) {
        let live = self.medium.contents();
        assert_eq!(live.len(), self.model.len(), "size");
        assert_eq!(first_difference(&live, &self.model), None, "a wrong byte");
    }
}

fn assert_place(error: &FileError, offset: u64, len: usize) {
    let place = error.offset().unwrap_or_else(|| panic!("no place in `{error}`"));
    // Whole blocks are transferred.
    let reach = offset & !4095..(offset + len as u64).next_multiple_of(4096);
    assert!(reach.contains(&place), "{place} is not in {reach:?}: {error}");
}

fn transient(fault: Fault) -> bool {
    matches!(fault, Fault::ShortAligned | Fault::ShortUnaligned | Fault::Again | Fault::Interrupted)
}

/// Runs the script. Returns the number of operations of the disk, and the fault that occurred.
fn run(
    seed: u64,
    align: usize,
    mode: Mode,
    faults: Faults,
    cuts: bool,
) -> (u64, Option<(Fault, SimAction)>) {
    let mut world = World::new(seed, align, mode, faults);
    let mut errors = Vec::new();
    for (number, step) in script().iter().enumerate() {
        let context = OnPanic(|| {
            eprintln!("step {number}, {step:?}, align {align}, {mode:?}, seed {seed:#x}")
        });
        errors.extend(world.step(number as u64, step));
        if cuts {
            (0..3).for_each(|cut| world.check_power_cut(seed ^ (number as u64 * 8 + cut)));
        }
        std::mem::forget(context);
    }
    world.check_contents();
    let trace = world.medium.disk().trace();
    let hit = trace.entries.iter().find_map(|entry| entry.fault.map(|fault| (fault, entry.action)));
    match hit {
        Some((fault, action)) if !transient(fault) => {
            // Two kinds of failures may stay unreported: a query of the size that decides nothing
            // (the end of a read is then found by reading), and a request behind the end that was
            // found.
            let unseen = action == SimAction::Size || world.failed_behind_end;
            assert!(!errors.is_empty() || unseen, "{fault:?} of {action:?} was not reported");
            if let Some(first) = errors.first() {
                assert_eq!(Some(first.errno()), fault.errno(), "{first}");
            }
            let acknowledges = matches!(
                action,
                SimAction::Transfer(OpKind::Write | OpKind::SyncData | OpKind::SyncAll)
            );
            assert_eq!(world.failed.is_some(), acknowledges, "{fault:?} of {action:?}: latched?");
        }
        other => assert!(errors.is_empty(), "{other:?} showed: {}", errors[0]),
    }
    (world.medium.disk().operations(), hit)
}

struct OnPanic<F: Fn()>(F);

impl<F: Fn()> Drop for OnPanic<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

const MODES: [Mode; 3] = [Mode::Direct, Mode::Concurrent, Mode::Uncached];

#[test]
fn every_operation_may_go_wrong_in_every_way() {
    let seed = Seed::new();
    let mut happened = std::collections::BTreeSet::new();
    for (align, mode) in [512, 4096].into_iter().flat_map(|align| MODES.map(|mode| (align, mode))) {
        let (operations, none) = run(seed.value(), align, mode, Faults::none(), true);
        assert_eq!(none, None);
        assert!(operations > 30, "{operations} operations are hardly a test");
        for (number, fault) in
            (0..operations).flat_map(|number| Fault::ALL.map(|fault| (number, fault)))
        {
            let context = OnPanic(|| eprintln!("{fault:?} at operation {number}"));
            let (_, hit) = run(seed.value(), align, mode, Faults::none().at(number, fault), true);
            happened.extend(hit.map(|(fault, _)| fault));
            std::mem::forget(context);
        }
    }
    assert_eq!(happened.len(), Fault::ALL.len(), "only {happened:?} happened");
}

/// A disk on which every kind of transient fault occurs often, all the time.
#[test]
fn constant_transient_trouble_does_not_show() {
    let seed = Seed::new();
    for round in 0..60 {
        for mode in MODES {
            let faults =
                [Fault::ShortAligned, Fault::ShortUnaligned, Fault::Again, Fault::Interrupted]
                    .into_iter()
                    .fold(Faults::none(), |faults, fault| faults.chance(fault, 150));
            run(seed.value().wrapping_add(round), 512, mode, faults, false);
        }
    }
}

/// A disk that dies: from some operation on everything fails, and nothing is acknowledged after the
/// first failure.
#[test]
fn a_disk_that_dies_acknowledges_nothing_more() {
    let seed = Seed::new();
    for mode in MODES {
        let (operations, _) = run(seed.value(), 512, mode, Faults::none(), false);
        for first in 0..operations {
            let mut world =
                World::new(seed.value(), 512, mode, Faults::none().from(first, Fault::Io));
            let mut failed = false;
            for (number, step) in script().iter().enumerate() {
                let error = world.step(number as u64, step);
                assert!(!failed || error.is_some(), "step {number} succeeded on a dead disk");
                failed |= error.is_some();
                world.check_power_cut(seed.value() ^ number as u64);
            }
            assert!(failed);
        }
    }
}

/// A full disk: the write that finds no space fails with a message that includes the cure, and
/// everything that was written before stays.
#[test]
fn a_full_disk_is_reported_with_its_cure() {
    let clock = SimClock::new();
    let disk = SimDisk::new(
        &clock,
        SimDiskModel { capacity: Some(64 << 10), ..SimDiskModel::default() },
        1,
    );
    let medium = disk.file(&[]);
    let io = Io::with_engine(Limits::default(), "sim", move |depth| {
        Box::new(SimEngine::new(&clock, depth, 1))
    })
    .unwrap();
    let mut options = OpenOptions::new();
    options.read(true).write(true).io(&io);
    let file = options.open_medium("full", Arc::new(medium.clone()), sim_geometry(512)).unwrap();
    file.write_at(&[1; 60_000], 0).unwrap();
    let error = file.write_at(&[2; 60_000], 60_000).unwrap_err();
    assert_eq!(error.errno(), rustix::io::Errno::NOSPC);
    assert!(error.to_string().contains("cannot write 'full' at byte 6"), "{error}");
    assert!(error.cure().is_some_and(|cure| cure.contains("space")), "{error}");
    assert_eq!(medium.contents()[..60_000], [1; 60_000]);
    assert!(file.sync_data().is_err());
}

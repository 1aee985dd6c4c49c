//! Files, plain and striped, are compared with a plain vector: any mix of reads, writes, vectored
//! I/O, truncations, allocations, holes and syncs, through two handles in any two modes, with any
//! limits, memory alignments and engines, on every file system.

mod common;

use std::io::{IoSlice, IoSliceMut};
use std::path::Path;

use common::{Arena, MODES, MOST_ALIGNED, engines, fill, first_difference, io_of};
use dio::file::{ReadRange, WriteRange, read_ranges, write_ranges};
use dio::lock::LockPolicy;
use dio::stripe::{ObjectReport, StripePlan, create, inspect};
use dio::{Class, Counters, File, Io, Limits, Mode, OpenOptions, SyncMethod};
use dio_test::{LoopDevice, TestFs, file_systems};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use rustix::io::Errno;

/// Largest file.
const END: u64 = 3 << 20;

#[derive(Clone, Debug)]
enum Step {
    Read {
        handle: usize,
        offset: u64,
        buffers: Vec<Buffer>,
    },
    Write {
        handle: usize,
        offset: u64,
        buffers: Vec<Buffer>,
    },
    /// Several reads in flight together: handle, offset and memory of each.
    ReadRanges {
        ranges: Vec<(usize, u64, Buffer)>,
        depth: usize,
    },
    WriteRanges {
        ranges: Vec<(usize, u64, Buffer)>,
        depth: usize,
    },
    Resize {
        handle: usize,
        size: u64,
    },
    Allocate {
        handle: usize,
        offset: u64,
        len: u64,
        extend: bool,
    },
    Punch {
        handle: usize,
        offset: u64,
        len: u64,
    },
    SyncData {
        handle: usize,
    },
    SyncAll {
        handle: usize,
    },
    Reopen {
        handle: usize,
    },
}

/// One buffer of a request: its length, and its distance from a multiple of 1 MiB in memory.
#[derive(Clone, Debug)]
struct Buffer {
    len: usize,
    shift: usize,
}

#[derive(Clone, Debug)]
struct Setup {
    engine: &'static str,
    limits: Limits,
    modes: [Mode; 2],
    sync: SyncMethod,
    policy: LockPolicy,
    /// Requests smaller than this go through the page cache.
    direct_from: [u64; 2],
    /// Size and number of stripes, if the file is striped.
    stripes: Option<(u64, usize)>,
    /// Every other object is on a device, beginning with the first.
    on_devices: bool,
}

/// A random offset in a file: anywhere, or at or next to a multiple of any power of two up to 1
/// MiB.
fn place() -> impl Strategy<Value = u64> {
    let beside = (0u32..21, 0u64..8, -2i64..3)
        .prop_map(|(shift, times, by)| (times << shift).saturating_add_signed(by));
    prop_oneof![1 => 0..END, 2 => (0..END / 512).prop_map(|block| block * 512), 3 => beside]
        .prop_map(|offset| offset.min(END))
}

fn len() -> impl Strategy<Value = usize> {
    prop_oneof![3 => 0usize..6000, 2 => (0usize..64)
        .prop_map(|blocks| blocks * 512), 1 => 0usize..400_000,
                1 => (0usize..9).prop_map(|times| times << 16)]
}

fn shift() -> impl Strategy<Value = usize> {
    prop_oneof![2 => Just(0usize), 2 => (0u32..20)
        .prop_map(|bits| 1usize << bits), 1 => 0..MOST_ALIGNED]
}

fn buffers() -> impl Strategy<Value = Vec<Buffer>> {
    let buffer = || (len(), shift()).prop_map(|(len, shift)| Buffer { len, shift });
    // Many small buffers, with aligned or unaligned boundaries, or a few buffers of any kind.
    let small = (0usize..1500, shift()).prop_map(|(len, shift)| Buffer { len, shift });
    let blocks = (0usize..4).prop_map(|blocks| Buffer { len: blocks * 512, shift: 0 });
    prop_oneof![
        5 => buffer().prop_map(|one| vec![one]),
        2 => prop::collection::vec(buffer(), 0..4),
        1 => prop::collection::vec(small, 2..20),
        1 => prop::collection::vec(blocks, 2..20),
    ]
}

fn ranges() -> impl Strategy<Value = Vec<(usize, u64, Buffer)>> {
    let buffer = (len(), shift()).prop_map(|(len, shift)| Buffer { len, shift });
    let blocks = (0usize..9).prop_map(|blocks| Buffer { len: blocks * 512, shift: 0 });
    prop::collection::vec((0usize..2, place(), prop_oneof![buffer, blocks]), 0..12)
}

fn step() -> impl Strategy<Value = Step> {
    let handle = || 0usize..2;
    prop_oneof![
        3 => (ranges(), 1usize..20)
            .prop_map(|(ranges, depth)| Step::ReadRanges { ranges, depth }),
        3 => (ranges(), 1usize..20)
            .prop_map(|(ranges, depth)| Step::WriteRanges { ranges, depth }),
        6 => (handle(), place(), buffers())
            .prop_map(|(handle, offset, buffers)| Step::Read { handle, offset, buffers }),
        7 => (handle(), place(), buffers())
            .prop_map(|(handle, offset, buffers)| Step::Write { handle, offset, buffers }),
        2 => (handle(), place()).prop_map(|(handle, size)| Step::Resize { handle, size }),
        1 => (handle(), place(), 1..600_000u64, any::<bool>())
            .prop_map(|(
                handle, offset, len, extend
            )| Step::Allocate { handle, offset, len, extend }),
        1 => (handle(), place(), 1..600_000u64)
            .prop_map(|(handle, offset, len)| Step::Punch { handle, offset, len }),
        1 => handle().prop_map(|handle| Step::SyncData { handle }),
        1 => handle().prop_map(|handle| Step::SyncAll { handle }),
        1 => handle().prop_map(|handle| Step::Reopen { handle }),
    ]
}

fn setup(engine: &'static str) -> impl Strategy<Value = Setup> {
    use prop::sample::select;
    let request = select(vec![4096usize, 8192, 12_288, 65_536, 1 << 20]);
    let bounce_block = select(vec![4096usize, 8192, 65_536]);
    let limits =
        (
            select(vec![1usize, 2, 3, 8]),
            request,
            bounce_block,
            select(vec![1usize, 2, 3, 16]),
            0usize..3,
        )
            .prop_map(|(depth, request, bounce_block, bounce_blocks, idle_engines)| {
                Limits { depth, request, bounce_block, bounce_blocks, idle_engines }
            });
    let modes = [select(MODES.to_vec()), select(MODES.to_vec())];
    let sync = select(vec![
        SyncMethod::Explicit,
        SyncMethod::Explicit,
        SyncMethod::Dsync,
        SyncMethod::Sync,
    ]);
    let policy = select(vec![LockPolicy::Range, LockPolicy::Range, LockPolicy::WholeFile]);
    let threshold = || {
        prop_oneof![2 => Just(0u64), 1 => (0u32..21, 0u64..3)
        .prop_map(|(shift, by)| (1 << shift) + by)]
    };
    let thresholds = [threshold(), threshold()];
    (limits, modes, sync, policy, thresholds).prop_map(
        move |(limits, modes, sync, policy, direct_from)| Setup {
            engine,
            limits,
            modes,
            sync,
            policy,
            direct_from,
            stripes: None,
            on_devices: false,
        },
    )
}

/// The same for striped files.
fn striped(engine: &'static str) -> impl Strategy<Value = Setup> {
    let stripe = prop::sample::select(vec![4096u64, 4096, 8192, 12_288, 65_536, 1 << 20]);
    (setup(engine), stripe, 1usize..6)
        .prop_map(|(setup, stripe, count)| Setup { stripes: Some((stripe, count)), ..setup })
}

/// Two handles of one file, the vector that it must equal, and the bytes that each handle moved.
struct Case<'a> {
    setup: &'a Setup,
    path: &'a Path,
    io: Io,
    files: [File; 2],
    moved: [(u64, u64); 2],
    /// The bytes of these in requests below the threshold.
    small: [u64; 2],
    model: Vec<u8>,
    arenas: Vec<Arena>,
    tag: u64,
}

impl Case<'_> {
    fn open(setup: &Setup, path: &Path, io: &Io, handle: usize) -> File {
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(true)
            .create(true)
            .mode(setup.modes[handle])
            .sync_method(setup.sync);
        options.lock_policy(setup.policy).direct_from(setup.direct_from[handle]);
        options.io(io).open(path).unwrap()
    }

    fn new<'a>(setup: &'a Setup, path: &'a Path) -> Case<'a> {
        let io = io_of(setup.engine, setup.limits);
        let files = [0, 1].map(|handle| Case::open(setup, path, &io, handle));
        let (model, arenas) = (Vec::new(), Vec::new());
        Case { setup, path, io, files, moved: [(0, 0); 2], small: [0; 2], model, arenas, tag: 0 }
    }

    /// Poisoned memory for the buffers of one request.
    fn memory(&mut self, buffers: &[Buffer]) {
        while self.arenas.len() < buffers.len() {
            self.arenas.push(Arena::new(0));
        }
        for (arena, buffer) in self.arenas.iter_mut().zip(buffers) {
            if arena.room() < buffer.shift + buffer.len {
                *arena = Arena::new(buffer.shift + buffer.len);
            }
            arena.slice(buffer.shift, buffer.len).fill(POISON);
        }
    }

    fn read(&mut self, handle: usize, offset: u64, buffers: &[Buffer]) {
        self.memory(buffers);
        let file = &self.files[handle];
        let mut slices: Vec<&mut [u8]> = self
            .arenas
            .iter_mut()
            .zip(buffers)
            .map(|(arena, b)| arena.slice(b.shift, b.len))
            .collect();
        let count = match &mut slices[..] {
            [one] => file.read_at(one, offset).unwrap(),
            several => {
                let mut several: Vec<_> =
                    several.iter_mut().map(|slice| IoSliceMut::new(slice)).collect();
                file.read_vectored_at(&mut several, offset).unwrap()
            }
        };
        let got = slices.concat();
        let start = (offset as usize).min(self.model.len());
        let expected = &self.model[start..(start + got.len()).min(self.model.len())];
        assert_eq!(count, expected.len(), "bytes read");
        assert_eq!(first_difference(&got[..count], expected), None, "place of a wrong byte");
        let foreign = got[count..].iter().position(|byte| ![POISON, 0].contains(byte));
        assert_eq!(foreign, None, "a byte from behind the end of the file");
        let asked = buffers.iter().map(|buffer| buffer.len as u64).sum();
        self.count_small(handle, asked, count as u64);
        self.moved[handle].0 += count as u64;
    }

    fn write(&mut self, handle: usize, offset: u64, buffers: &[Buffer]) {
        self.memory(buffers);
        self.tag += 1;
        let mut at = offset;
        for (arena, buffer) in self.arenas.iter_mut().zip(buffers) {
            fill(arena.slice(buffer.shift, buffer.len), self.tag, at);
            at += buffer.len as u64;
        }
        let slices: Vec<&[u8]> = self
            .arenas
            .iter_mut()
            .zip(buffers)
            .map(|(arena, b)| &*arena.slice(b.shift, b.len))
            .collect();
        match slices[..] {
            [one] => self.files[handle].write_at(one, offset).unwrap(),
            _ => {
                let several: Vec<_> = slices.iter().map(|slice| IoSlice::new(slice)).collect();
                self.files[handle].write_vectored_at(&several, offset).unwrap();
            }
        }
        let bytes = slices.concat();
        if !bytes.is_empty() {
            self.model.resize(self.model.len().max(at as usize), 0);
            self.model[offset as usize..at as usize].copy_from_slice(&bytes);
            self.count_small(handle, bytes.len() as u64, bytes.len() as u64);
            self.moved[handle].1 += bytes.len() as u64;
        }
    }

    fn read_ranges(&mut self, ranges: &[(usize, u64, Buffer)], depth: usize) {
        self.memory(&ranges.iter().map(|(_, _, buffer)| buffer.clone()).collect::<Vec<_>>());
        let mut asked: Vec<ReadRange<'_>> = self
            .arenas
            .iter_mut()
            .zip(ranges)
            .map(|(arena, (handle, offset, b))| ReadRange {
                file: &self.files[*handle],
                offset: *offset,
                buffer: arena.slice(b.shift, b.len),
            })
            .collect();
        let counts = read_ranges(&mut asked, depth, &mut || false).unwrap();
        for ((range, count), (handle, ..)) in asked.iter().zip(&counts).zip(ranges) {
            let start = (range.offset as usize).min(self.model.len());
            let end = (start + range.buffer.len()).min(self.model.len());
            assert_eq!(*count, end - start, "bytes read");
            let wrong = first_difference(&range.buffer[..*count], &self.model[start..end]);
            assert_eq!(wrong, None, "place of a wrong byte");
            let behind = &range.buffer[*count..];
            let foreign = behind.iter().position(|byte| ![POISON, 0].contains(byte));
            assert_eq!(foreign, None, "a byte from behind the end of the file");
            self.moved[*handle].0 += *count as u64;
        }
        for (count, (handle, _, buffer)) in counts.into_iter().zip(ranges) {
            self.count_small(*handle, buffer.len as u64, count as u64);
        }
    }

    fn write_ranges(&mut self, ranges: &[(usize, u64, Buffer)], depth: usize) {
        let mut apart: Vec<(usize, u64, Buffer)> = Vec::new();
        for (handle, offset, buffer) in ranges {
            let end = |offset: u64, buffer: &Buffer| offset + buffer.len as u64;
            let overlaps = apart.iter().any(|(_, other, known)| {
                *offset < end(*other, known) && *other < end(*offset, buffer)
            });
            if !overlaps {
                apart.push((*handle, *offset, buffer.clone()));
            }
        }
        self.memory(&apart.iter().map(|(_, _, buffer)| buffer.clone()).collect::<Vec<_>>());
        self.tag += 1;
        let mut given = Vec::new();
        for (arena, (handle, offset, b)) in self.arenas.iter_mut().zip(&apart) {
            let bytes = arena.slice(b.shift, b.len);
            fill(bytes, self.tag, *offset);
            given.push(WriteRange { file: &self.files[*handle], offset: *offset, bytes });
            let end = *offset as usize + bytes.len();
            if !bytes.is_empty() {
                self.model.resize(self.model.len().max(end), 0);
                self.model[*offset as usize..end].copy_from_slice(bytes);
            }
        }
        write_ranges(&given, depth, &mut || false).unwrap();
        for (handle, _, buffer) in apart {
            self.count_small(handle, buffer.len as u64, buffer.len as u64);
            self.moved[handle].1 += buffer.len as u64;
        }
    }

    fn count_small(&mut self, handle: usize, asked: u64, moved: u64) {
        if self.setup.modes[handle] == Mode::Direct && asked < self.setup.direct_from[handle] {
            self.small[handle] += moved;
        }
    }

    fn run(&mut self, step: &Step) {
        match *step {
            Step::Read { handle, offset, ref buffers } => self.read(handle, offset, buffers),
            Step::Write { handle, offset, ref buffers } => self.write(handle, offset, buffers),
            Step::ReadRanges { ref ranges, depth } => self.read_ranges(ranges, depth),
            Step::WriteRanges { ref ranges, depth } => self.write_ranges(ranges, depth),
            Step::Resize { handle, size } => {
                self.files[handle].set_size(size).unwrap();
                self.model.resize(size as usize, 0);
            }
            Step::Allocate { handle, offset, len, extend } => {
                let end = offset + len;
                if supported(self.files[handle].allocate(offset..end, extend)) && extend {
                    self.model.resize(self.model.len().max(end as usize), 0);
                }
            }
            Step::Punch { handle, offset, len } => {
                if supported(self.files[handle].punch(offset..offset + len)) {
                    let size = self.model.len();
                    self.model[(offset as usize).min(size)..((offset + len) as usize).min(size)]
                        .fill(0);
                }
            }
            Step::SyncData { handle } => self.files[handle].sync_data().unwrap(),
            Step::SyncAll { handle } => self.files[handle].sync_all().unwrap(),
            Step::Reopen { handle } => {
                self.check_counters(handle);
                (self.moved[handle], self.small[handle]) = ((0, 0), 0);
                self.files[handle] = Case::open(self.setup, self.path, &self.io, handle);
            }
        }
        for file in &self.files {
            assert_eq!(file.size().unwrap(), self.model.len() as u64, "size");
        }
    }

    fn check_counters(&self, handle: usize) {
        let counters: Counters = self.files[handle].counters();
        assert_eq!(
            (counters.read.total(), counters.written.total()),
            self.moved[handle],
            "bytes counted"
        );
        let cached = counters.read.get(Class::Cached) + counters.written.get(Class::Cached);
        let total = counters.read.total() + counters.written.total();
        let expected =
            if self.setup.modes[handle] == Mode::Cached { total } else { self.small[handle] };
        assert_eq!(cached, expected, "bytes counted as cached");
        let indirect: u64 = [Class::Bounced, Class::Uncached]
            .iter()
            .map(|c| counters.read.get(*c) + counters.written.get(*c))
            .sum();
        if self.setup.modes[handle].wants_direct() {
            assert_eq!(
                counters.reason(dio::file::Reason::Small),
                self.small[handle],
                "bytes of small requests"
            );
            assert_eq!(
                counters.reasons.iter().sum::<u64>(),
                indirect + cached,
                "bytes with a reason"
            );
        }
    }
}

const POISON: u8 = 0xee;

fn supported(outcome: Result<(), dio::FileError>) -> bool {
    match outcome {
        Ok(()) => true,
        Err(error) if error.errno() == Errno::OPNOTSUPP => false,
        Err(error) => panic!("{error}"),
    }
}

fn run(fs: &TestFs, devices: &[LoopDevice], setup: &Setup, steps: &[Step]) {
    let dir = fs.dir();
    let path = dir.path().join("file");
    if let Some((stripe, count)) = setup.stripes {
        let mut targets = ["a", "b", "c"].map(|name| dir.path().join(name)).to_vec();
        targets.iter().for_each(|target| std::fs::create_dir(target).unwrap());
        if setup.on_devices {
            devices.iter().for_each(|device| device.fill(LoopDevice::GARBAGE));
            let pairs = devices.iter().zip(targets);
            targets = pairs
                .flat_map(|(device, directory)| [device.path().to_owned(), directory])
                .collect();
        }
        create(
            &path,
            &StripePlan { stripe: Some(stripe), count: Some(count), targets, force: true },
        )
        .unwrap();
    }
    let mut case = Case::new(setup, &path);
    for (number, step) in steps.iter().enumerate() {
        let before = case.model.len();
        let context =
            OnPanic(|| eprintln!("{}: step {number}, {step:?}, file of {before} bytes", fs.name));
        case.run(step);
        std::mem::forget(context);
    }
    (0..2).for_each(|handle| case.check_counters(handle));
    let model = std::mem::take(&mut case.model);
    drop(case);
    let contents =
        if setup.stripes.is_some() { put_together(&path) } else { std::fs::read(&path).unwrap() };
    assert_eq!(contents.len(), model.len(), "size in the end");
    assert_eq!(first_difference(&contents, &model), None, "place of a wrong byte in the end");
}

/// The contents of a striped file, assembled from its objects alone, stripe by stripe.
fn put_together(path: &Path) -> Vec<u8> {
    let report = inspect(path).unwrap().unwrap();
    let layout = report.descriptor.layout;
    let (stripe, start) = (layout.stripe() as usize, layout.start() as usize);
    let bytes = |object: &ObjectReport| {
        let mut bytes = std::fs::read(&object.path).unwrap();
        bytes.truncate(object.size as usize);
        bytes.split_off(start)
    };
    let objects: Vec<Vec<u8>> = report.objects.iter().map(bytes).collect();
    let mut contents = Vec::new();
    for row in 0.. {
        let before = contents.len();
        for object in &objects {
            let held = object.len();
            contents.extend_from_slice(
                &object[(row * stripe).min(held)..((row + 1) * stripe).min(held)],
            );
        }
        if contents.len() == before {
            break;
        }
    }
    contents
}

/// Prints the context when a panic passes.
struct OnPanic<F: Fn()>(F);

impl<F: Fn()> Drop for OnPanic<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Number of cases for each file system and engine. `DIO_TEST_CASES` sets another number.
fn cases() -> u32 {
    std::env::var("DIO_TEST_CASES")
        .ok()
        .map_or(15, |text| text.parse().expect("DIO_TEST_CASES is a number"))
}

fn run_all<S: Strategy<Value = Setup>>(cases: u32, setup: impl Fn(&'static str) -> S) {
    run_on(&file_systems(), &[], cases, setup);
}

fn run_on<S: Strategy<Value = Setup>>(
    places: &[TestFs],
    devices: &[LoopDevice],
    cases: u32,
    setup: impl Fn(&'static str) -> S,
) {
    for fs in places {
        for engine in engines() {
            let config = Config {
                cases,
                max_shrink_iters: 300,
                failure_persistence: None,
                ..Config::default()
            };
            let steps = prop::collection::vec(step(), 1..30);
            let outcome = TestRunner::new(config).run(&(setup(engine), steps), |(setup, steps)| {
                run(fs, devices, &setup, &steps);
                Ok(())
            });
            outcome.unwrap_or_else(|failure| panic!("{} {engine}: {failure}", fs.name));
        }
    }
}

#[test]
fn any_mix_matches_a_vector() {
    run_all(cases(), setup);
}

#[test]
fn any_mix_on_a_striped_file_matches_a_vector() {
    run_all(cases(), striped);
}

/// The devices are full of other bytes, none of which may become visible.
#[test]
fn any_mix_on_devices_matches_a_vector() {
    for block in [512, 4096] {
        let (places, scratch) = (file_systems(), file_systems()[0].dir());
        let device = |name| LoopDevice::new(&scratch.path().join(name), 6 << 20, block);
        let devices: Vec<LoopDevice> = ["0", "1", "2"].into_iter().map_while(device).collect();
        if devices.len() == 3 {
            let setup =
                |engine| striped(engine).prop_map(|setup| Setup { on_devices: true, ..setup });
            run_on(&places[..1], &devices, 3 * cases(), setup);
        }
    }
}

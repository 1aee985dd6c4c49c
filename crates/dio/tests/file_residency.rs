//! The page cache after I/O on files: no page is left that was not there before, and no page that
//! other processes have loaded is dropped.

mod common;

use std::os::unix::fs::FileExt;
use std::path::Path;

use common::{Arena, MOST_ALIGNED, any_shift, engines, io_of, small_limits};
use dio::residency::{evict, resident_pages};
use dio::{File, Io, Mode, Need, OpenOptions};
use dio_test::{Rng, Seed, TestFs, file_systems};

const SIZE: u64 = 1 << 20;

fn open(path: &Path, io: &Io, mode: Mode) -> File {
    OpenOptions::new().read(true).write(true).create(true).mode(mode).io(io).open(path).unwrap()
}

/// Whether pages can be evicted on this file system. They cannot if the cache is the storage.
fn with_a_cache(fs: &TestFs) -> bool {
    let dir = fs.dir();
    let path = dir.path().join("file");
    std::fs::write(&path, vec![1u8; 65_536]).unwrap();
    let file = std::fs::File::open(&path).unwrap();
    file.sync_all().unwrap();
    evict(&file, 0..65_536).unwrap();
    let goes = resident_pages(&file).unwrap() == 0;
    if !goes {
        eprintln!("{}: its pages are its storage, so residency is not tested", fs.name);
    }
    goes
}

/// Makes a file of `size` bytes that is on the disk and not in the cache.
fn cold_file(path: &Path, size: u64, seed: u64) -> Vec<u8> {
    let bytes = Rng::new(seed).bytes(size as usize);
    let file = std::fs::File::create(path).unwrap();
    file.write_all_at(&bytes, 0).unwrap();
    file.sync_all().unwrap();
    evict(&file, 0..size).unwrap();
    assert_eq!(pages(path), 0, "the file is cold");
    bytes
}

/// Resident pages of a file, counted by code that is independent of the library.
fn pages(path: &Path) -> u64 {
    dio_test::resident_pages(path)
}

fn for_each_setting(mut work: impl FnMut(&TestFs, &Io, Mode, &mut Rng)) {
    for fs in file_systems().iter().filter(|fs| with_a_cache(fs)) {
        for engine in engines() {
            for mode in [Mode::Direct, Mode::Concurrent, Mode::Uncached] {
                let seed = Seed::new();
                eprintln!("{} {engine} {mode:?}: seed {:#x}", fs.name, seed.value());
                let mut rng = seed.rng();
                let io = io_of(engine, small_limits(&mut rng));
                work(fs, &io, mode, &mut rng);
            }
        }
    }
}

/// Runs a check that pages stay. Repeats it if something else on the machine has emptied the whole
/// cache meanwhile, which shows in the page of a file that no test touches.
fn unless_dropped_by_others(fs: &TestFs, mut check: impl FnMut() -> Result<(), String>) {
    for _ in 0..10 {
        let dir = fs.dir();
        let canary = dir.path().join("canary");
        cold_file(&canary, 4096, 9);
        std::fs::read(&canary).unwrap();
        match check() {
            Ok(()) => return,
            Err(error) if pages(&canary) == 1 => panic!("{}: {error}", fs.name),
            Err(error) => eprintln!("{}: the whole cache was dropped, again: {error}", fs.name),
        }
    }
    panic!("{}: the cache is dropped all the time", fs.name);
}

fn equal<T: PartialEq + std::fmt::Debug>(seen: T, expected: T, what: &str) -> Result<(), String> {
    if seen == expected { Ok(()) } else { Err(format!("{what}: {seen:?}, not {expected:?}")) }
}

fn any_range(rng: &mut Rng, size: u64) -> std::ops::Range<u64> {
    let unit = *rng.pick(&[1, 512, 4096]);
    let start = rng.range(0..size / unit) * unit;
    let len = *rng.pick(&[100, 4096, 70_000]);
    start..start + rng.range(0..len) / unit * unit
}

#[test]
fn reads_leave_no_page() {
    for_each_setting(|fs, io, mode, rng| {
        let dir = fs.dir();
        let path = dir.path().join("file");
        cold_file(&path, SIZE + 777, 1);
        let file = open(&path, io, mode);
        let mut arena = Arena::new(MOST_ALIGNED + 200_000);
        for _ in 0..20 {
            let range = any_range(rng, SIZE);
            file.read_at(
                arena.slice(any_shift(rng), (range.end - range.start) as usize),
                range.start,
            )
            .unwrap();
        }
        file.read_at(arena.slice(1, 5000), SIZE).unwrap();
        file.sync_data().unwrap();
        assert_eq!(pages(&path), 0, "{} {mode:?}: after a sync", fs.name);
        for offset in [0, 100, 4096, 5000, 8192, SIZE / 2] {
            // In sequence from the beginning, which triggers the kernel's read-ahead.
            file.read_at(arena.slice(0, 100), offset).unwrap();
        }
        drop(file);
        assert_eq!(pages(&path), 0, "{} {mode:?}: after closing", fs.name);
    });
}

#[test]
fn writes_and_resizes_leave_no_page() {
    for_each_setting(|fs, io, mode, rng| {
        let dir = fs.dir();
        let path = dir.path().join("file");
        cold_file(&path, SIZE + 777, 2);
        let file = open(&path, io, mode);
        let mut arena = Arena::new(MOST_ALIGNED + 200_000);
        for step in 0..40 {
            let range = any_range(rng, SIZE + SIZE / 2);
            match rng.range(0..6) {
                0 => file.set_size(range.end).unwrap(),
                1 => drop(file.punch(range.start..range.end + 1)),
                2 => drop(file.allocate(range.start..range.end + 1, rng.bool(0.5))),
                _ => file
                    .write_at(
                        arena.slice(any_shift(rng), (range.end - range.start) as usize),
                        range.start,
                    )
                    .unwrap(),
            }
            if rng.bool(0.2) {
                file.sync_data().unwrap();
                assert_eq!(pages(&path), 0, "{} {mode:?}: after step {step} and a sync", fs.name);
            }
        }
        drop(file);
        assert_eq!(pages(&path), 0, "{} {mode:?}: after closing", fs.name);
    });
}

#[test]
fn pages_of_others_stay() {
    for_each_setting(|fs, io, mode, rng| {
        unless_dropped_by_others(fs, || {
            let dir = fs.dir();
            let path = dir.path().join("file");
            cold_file(&path, SIZE, 3);
            // Another reader has its working set in the cache.
            let other = std::fs::File::open(&path).unwrap();
            rustix::fs::fadvise(&other, 0, None, rustix::fs::Advice::Random).unwrap();
            let set = [0u64, 1, 17, 18, 19, 100, 255];
            let look = || {
                let runs = dio::residency::resident_runs(&other, SIZE).unwrap();
                set.iter().filter(|page| runs.iter().any(|run| run.contains(page))).count()
            };
            set.iter().for_each(|page| other.read_exact_at(&mut [0; 10], page * 4096).unwrap());
            equal(look(), set.len(), "pages of the other reader before")?;
            let before = pages(&path);
            let file = open(&path, io, mode);
            let mut arena = Arena::new(MOST_ALIGNED + 200_000);
            for _ in 0..20 {
                let range = any_range(rng, SIZE);
                file.read_at(
                    arena.slice(any_shift(rng), (range.end - range.start) as usize),
                    range.start,
                )
                .unwrap();
            }
            drop(file);
            equal(look(), set.len(), &format!("{mode:?}: pages of the other reader"))?;
            equal(pages(&path), before, &format!("{mode:?}: pages in all"))
        });
    });
}

/// Pages that another reader loads while a file is open, at an offset that the file does not
/// access, stay too.
#[test]
fn pages_that_others_load_elsewhere_meanwhile_stay() {
    for_each_setting(|fs, io, mode, _| {
        unless_dropped_by_others(fs, || {
            let dir = fs.dir();
            let path = dir.path().join("file");
            cold_file(&path, SIZE, 4);
            let file = open(&path, io, mode);
            let mut buffer = vec![0; 100];
            file.read_at(&mut buffer, 5).unwrap();
            let other = std::fs::File::open(&path).unwrap();
            rustix::fs::fadvise(&other, 0, None, rustix::fs::Advice::Random).unwrap();
            other.read_exact_at(&mut [0; 10], SIZE / 2).unwrap();
            file.read_at(&mut buffer, SIZE - 100).unwrap();
            file.sync_data().unwrap();
            drop(file);
            equal(pages(&path), 1, &format!("{mode:?}: pages in all"))
        });
    });
}

/// If a mode is required and not possible, it is refused every time, not only once.
#[test]
fn required_directness_is_kept_or_refused() {
    for fs in file_systems() {
        let dir = fs.dir();
        let path = dir.path().join("file");
        std::fs::write(&path, vec![1; 65_536]).unwrap();
        let mut options = OpenOptions::new();
        let opened =
            options.read(true).write(true).need(Need::Required).mode(Mode::Direct).open(&path);
        let file = match opened {
            Ok(file) => file,
            Err(error) => {
                assert_eq!(error.errno(), rustix::io::Errno::OPNOTSUPP);
                assert!(error.cure().is_some() && error.to_string().contains("direct"), "{error}");
                eprintln!("{}: refused: {error}", fs.name);
                continue;
            }
        };
        let mut arena = Arena::new(MOST_ALIGNED);
        let outcomes =
            [(); 3].map(|()| file.write_at(arena.slice(0, 4096), 0).map_err(|error| error.errno()));
        eprintln!("{}: writes {outcomes:?}", fs.name);
        let first_refused = outcomes.iter().position(Result::is_err).unwrap_or(outcomes.len());
        assert!(outcomes[first_refused..].iter().all(Result::is_err), "{}: {outcomes:?}", fs.name);
    }
}

/// Transfers that run at the same time.
const TRANSFERS: usize = 64;

#[test]
fn many_transfers_at_once_drop_their_own_pages_and_no_others() {
    let fs = &file_systems()[0];
    for mode in [Mode::Direct, Mode::Uncached] {
        let io = io_of(engines()[0], dio::Limits::default());
        unless_dropped_by_others(fs, || {
            let dir = fs.dir();
            let warm = dir.path().join("warm");
            cold_file(&warm, SIZE, 1);
            std::fs::read(&warm).unwrap();
            let cold = |number| dir.path().join(format!("cold{number}"));
            (0..TRANSFERS).for_each(|number| drop(cold_file(&cold(number), SIZE, 2)));
            let transfer = |number| {
                let (from, own) = (open(&warm, &io, mode), open(&cold(number), &io, mode));
                let mut bytes = vec![0; SIZE as usize];
                // Beginning and end are misaligned, so that direct I/O uses the page cache too.
                assert_eq!(from.read_at(&mut bytes[1..], 1).unwrap(), SIZE as usize - 1);
                own.write_at(&bytes[3..], 3).unwrap();
                own.read_at(&mut bytes, 0).unwrap();
                own.sync_data().unwrap();
            };
            std::thread::scope(|scope| {
                (0..TRANSFERS).for_each(|number| drop(scope.spawn(move || transfer(number))));
            });
            let left = (0..TRANSFERS).map(|number| pages(&cold(number))).sum::<u64>();
            equal(left, 0, "pages of the files that were transferred")?;
            equal(pages(&warm), SIZE / 4096, "pages that were there before")
        });
    }
}

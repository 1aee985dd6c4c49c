//! Files used by many threads at once.
//!
//! Direct mode: each write fills its range with one tag, so a read that overlaps a write sees all
//! of its own part of it or nothing. Concurrent mode: threads write ranges of their own while the
//! size changes. Each run is compared with a model that gives every byte an owner.

mod common;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::{
    Arena, MOST_ALIGNED, any_shift, engines, fill, first_difference, io_of, small_limits,
};
use dio::{File, Io, Mode, OpenOptions};
use dio_test::{Rng, Seed, TestFs, file_systems};
use parking_lot::Mutex;

const THREADS: u64 = 4;
/// Tags are words of four bytes, so a mix of two writes shows wherever it is.
const WORD: u64 = 4;

fn open(path: &Path, io: &Io, mode: Mode) -> File {
    OpenOptions::new().read(true).write(true).create(true).mode(mode).io(io).open(path).unwrap()
}

fn for_each_setting(mut work: impl FnMut(&TestFs, &'static str, &Seed)) {
    for fs in file_systems() {
        for engine in engines() {
            let seed = Seed::new();
            eprintln!("{} {engine}: seed {:#x}", fs.name, seed.value());
            work(&fs, engine, &seed);
        }
    }
}

/// The ranges that were written, by tag. Tags are unique and never zero.
#[derive(Default)]
struct Writes {
    ranges: Mutex<BTreeMap<u32, Range<u64>>>,
}

impl Writes {
    /// Whether there were too few writes for a meaningful test: a busy machine needs longer.
    fn are_few(&self) -> bool {
        self.ranges.lock().len() <= 10
    }

    fn announce(&self, tag: u32, range: Range<u64>) {
        self.ranges.lock().insert(tag, range);
    }

    /// Checks that `words` (of the file from `offset`) are the result of the writes in some order,
    /// one after the other: two visible writes must not each cover a part of the other.
    fn check(&self, offset: u64, words: &[u32]) {
        let ranges = self.ranges.lock();
        let seen = Range { start: offset, end: offset + words.len() as u64 * WORD };
        let shown: BTreeMap<u32, Range<u64>> = words
            .iter()
            .filter(|tag| **tag != 0)
            .map(|tag| {
                let range =
                    ranges.get(tag).unwrap_or_else(|| panic!("{tag:#x} was never written")).clone();
                (*tag, range.start.max(seen.start)..range.end.min(seen.end))
            })
            .collect();
        // `after` holds (a, b) if a word in b's range shows a: then a came after b, and the
        // opposite pair must not exist.
        let mut after: Vec<(u32, u32)> = Vec::new();
        for (at, tag) in (offset..).step_by(WORD as usize).zip(words) {
            if *tag != 0 {
                assert!(shown[tag].contains(&at), "{tag:#x} at {at}, outside what it wrote");
            }
            for (other, range) in &shown {
                if other != tag && range.contains(&at) && after.last() != Some(&(*tag, *other)) {
                    after.push((*tag, *other));
                }
            }
        }
        after.sort_unstable();
        after.dedup();
        for (later, earlier) in &after {
            assert_ne!(
                *later, 0,
                "{earlier:#x} was written in part: zeros show in its range {:?}",
                shown[earlier]
            );
            let both = after.binary_search(&(*earlier, *later)).is_ok();
            assert!(!both, "a mix of {later:#x} and {earlier:#x} in {seen:?}");
        }
    }
}

/// A random range of words, aligned to blocks or not.
fn words_in(rng: &mut Rng, file: u64) -> Range<u64> {
    let unit = *rng.pick(&[WORD, WORD, 512, 4096]);
    let start = rng.range(0..file / unit) * unit;
    let longest = (file - start).min(*rng.pick(&[2048, 40_000, 200_000])) / unit;
    start..start + unit * rng.range(1..longest.max(1) + 1)
}

/// One thread of [`direct_operations_are_atomic_to_each_other`].
fn write_and_look(
    file: &File,
    writes: &Writes,
    rng: &mut Rng,
    thread: u64,
    until: Instant,
    size: u64,
) {
    let mut arena = Arena::new(MOST_ALIGNED + size as usize);
    let mut count = 0u32;
    while Instant::now() < until || writes.are_few() {
        let range = words_in(rng, size);
        let buffer = arena.slice(any_shift(rng) & !3, (range.end - range.start) as usize);
        if rng.bool(0.5) {
            count += 1;
            let tag = (thread as u32 + 1) << 24 | count;
            buffer.chunks_mut(4).for_each(|word| word.copy_from_slice(&tag.to_ne_bytes()));
            writes.announce(tag, range.clone());
            file.write_at(buffer, range.start).unwrap();
        } else {
            let count = file.read_at(buffer, range.start).unwrap();
            let words: Vec<u32> = buffer[..count]
                .chunks_exact(4)
                .map(|word| u32::from_ne_bytes(word.try_into().unwrap()))
                .collect();
            writes.check(range.start, &words);
        }
    }
}

#[test]
fn direct_operations_are_atomic_to_each_other() {
    for_each_setting(|fs, engine, seed| {
        let dir = fs.dir();
        let path = dir.path().join("file");
        let io = io_of(engine, small_limits(&mut seed.stream(100)));
        // Half of the file exists; the writes behind it extend it.
        let size = 512 << 10;
        std::fs::write(&path, vec![0u8; size as usize / 2]).unwrap();
        let writes = Writes::default();
        let until = Instant::now() + Duration::from_millis(400);
        std::thread::scope(|threads| {
            for thread in 0..THREADS {
                let (io, path, writes) = (&io, &path, &writes);
                let mut rng = seed.stream(thread);
                threads.spawn(move || {
                    let file = open(path, io, Mode::Direct);
                    write_and_look(&file, writes, &mut rng, thread, until, size);
                });
            }
        });
        let file = open(&path, &io, Mode::Direct);
        let mut all = vec![0u8; size as usize];
        let count = file.read_at(&mut all, 0).unwrap();
        let words: Vec<u32> = all[..count]
            .chunks_exact(4)
            .map(|word| u32::from_ne_bytes(word.try_into().unwrap()))
            .collect();
        writes.check(0, &words);
    });
}

/// Bytes that thread `owner` of [`owners_keep_their_bytes`] may touch within each period.
const STRIPE: u64 = 1300;
const PERIOD: u64 = STRIPE * THREADS;

/// The expected bytes of one owner.
type Owned = BTreeMap<u64, (u64, u64)>;

/// Writes stripes of one owner and reads them back. Returns the expected final contents.
fn write_own(files: &[File; 2], rng: &mut Rng, owner: u64, rounds: usize) -> Owned {
    let mut arena = Arena::new(MOST_ALIGNED + STRIPE as usize);
    let mut owned = Owned::new();
    for round in 0..rounds as u64 {
        let file = rng.pick(&files[..]);
        let start = rng.range(0..100) * PERIOD + owner * STRIPE;
        let tag = owner << 32 | round;
        let buffer = arena.slice(any_shift(rng), STRIPE as usize);
        fill(buffer, tag, start);
        file.write_at(buffer, start).unwrap();
        owned.insert(start, (tag, STRIPE));
        let (at, (tag, len)) =
            owned.iter().nth(rng.range_usize(0..owned.len())).map(|(at, w)| (*at, *w)).unwrap();
        let (mut expected, buffer) =
            (vec![0; len as usize], arena.slice(any_shift(rng), len as usize));
        fill(&mut expected, tag, at);
        assert_eq!(file.read_at(buffer, at).unwrap() as u64, len, "owner {owner} at {at}");
        assert_eq!(
            first_difference(buffer, &expected),
            None,
            "owner {owner} at {at}: a byte of its own was changed"
        );
        if rng.bool(0.02) {
            file.sync_data().unwrap();
        }
    }
    owned
}

/// Many threads write disjoint bytes of one file through handles of two modes. The bytes share
/// blocks, and extend the file.
fn owners_keep_their_bytes(modes: [Mode; 2]) {
    for_each_setting(|fs, engine, seed| {
        let dir = fs.dir();
        let path = dir.path().join("file");
        let io = io_of(engine, small_limits(&mut seed.stream(100)));
        let files = modes.map(|mode| open(&path, &io, mode));
        let (highest, done) = (AtomicU64::new(0), AtomicU64::new(0));
        let owned: Vec<Owned> = std::thread::scope(|threads| {
            let owners: Vec<_> = (0..THREADS)
                .map(|owner| {
                    let (files, done) = (&files, &done);
                    let mut rng = seed.stream(owner);
                    threads.spawn(move || {
                        let owned = write_own(files, &mut rng, owner, 60);
                        done.fetch_add(1, Ordering::Relaxed);
                        owned
                    })
                })
                .collect();
            // The size must never be one that no write or resize made, and must never fall.
            threads.spawn(|| {
                while done.load(Ordering::Relaxed) < THREADS {
                    let size = std::fs::metadata(&path).unwrap().len();
                    let before = highest.fetch_max(size, Ordering::Relaxed);
                    assert!(size >= before, "the size fell from {before} to {size}");
                    assert!(size <= 100 * PERIOD, "the size {size} is behind everything written");
                    std::thread::yield_now();
                }
            });
            let joined: Vec<_> = owners.into_iter().map(|owner| owner.join()).collect();
            done.store(THREADS, Ordering::Relaxed);
            joined.into_iter().map(Result::unwrap).collect()
        });
        drop(files);
        let contents = std::fs::read(&path).unwrap();
        let end = owned
            .iter()
            .filter_map(|owned| owned.last_key_value())
            .map(|(at, (_, len))| at + len)
            .max();
        let mut model = vec![0; end.unwrap() as usize];
        for (start, (tag, len)) in owned.into_iter().flatten() {
            fill(&mut model[start as usize..(start + len) as usize], tag, start);
        }
        assert_eq!(contents.len(), model.len());
        assert_eq!(first_difference(&contents, &model), None);
    });
}

#[test]
fn owners_keep_their_bytes_in_direct_mode() {
    owners_keep_their_bytes([Mode::Direct, Mode::Direct]);
}

#[test]
fn owners_keep_their_bytes_in_concurrent_mode() {
    owners_keep_their_bytes([Mode::Concurrent, Mode::Concurrent]);
}

#[test]
fn owners_keep_their_bytes_across_modes() {
    owners_keep_their_bytes([Mode::Direct, Mode::Concurrent]);
    owners_keep_their_bytes([Mode::Direct, Mode::Uncached]);
    owners_keep_their_bytes([Mode::Concurrent, Mode::Cached]);
}

/// Threads write whole blocks below a limit, while another thread extends, truncates and punches
/// above it.
#[test]
fn resizing_behind_a_line_leaves_what_is_before_it() {
    const LINE: u64 = 256 << 10;
    for_each_setting(|fs, engine, seed| {
        for mode in [Mode::Direct, Mode::Concurrent] {
            let dir = fs.dir();
            let io = io_of(engine, small_limits(&mut seed.stream(100)));
            let file = open(&dir.path().join("file"), &io, mode);
            file.set_size(LINE).unwrap();
            let until = Instant::now() + Duration::from_millis(150);
            let blocks = LINE / 4096;
            std::thread::scope(|threads| {
                for thread in 0..2 {
                    let (file, mut rng) = (&file, seed.stream(thread));
                    threads.spawn(move || {
                        let mut arena = Arena::new(4096);
                        let mut written = BTreeMap::new();
                        while Instant::now() < until {
                            // Even blocks for one thread, odd ones for the other.
                            let block = rng.range(0..blocks / 2) * 2 + thread;
                            let tag = rng.next_u64();
                            let buffer = arena.slice(0, 4096);
                            fill(buffer, tag, block * 4096);
                            file.write_at(buffer, block * 4096).unwrap();
                            written.insert(block, tag);
                        }
                        for (block, tag) in written {
                            let (mut expected, buffer) = (vec![0; 4096], arena.slice(0, 4096));
                            fill(&mut expected, tag, block * 4096);
                            assert_eq!(file.read_at(buffer, block * 4096).unwrap(), 4096);
                            assert_eq!(
                                first_difference(buffer, &expected),
                                None,
                                "{mode:?}, block {block}"
                            );
                        }
                    });
                }
                let mut rng = seed.stream(9);
                while Instant::now() < until {
                    let size = LINE + rng.range(0..100_000);
                    match rng.range(0..3) {
                        0 => file.set_size(size).unwrap(),
                        1 => file.write_at(&[1; 333], size).unwrap(),
                        _ => drop(file.punch(LINE..LINE + 5000)),
                    }
                }
            });
        }
    });
}

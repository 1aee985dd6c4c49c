//! The end of a file: bytes behind it are never read, left in the file or visible to another
//! process.

mod common;

use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::{
    Arena, MOST_ALIGNED, any_shift, engines, fill, first_difference, io_of, small_limits,
};
use dio::{File, Io, Mode, OpenOptions};
use dio_test::{Seed, file_systems};

const MODES: [Mode; 3] = [Mode::Direct, Mode::Concurrent, Mode::Uncached];

fn open(path: &std::path::Path, io: &Io, mode: Mode) -> File {
    OpenOptions::new().read(true).write(true).create(true).mode(mode).io(io).open(path).unwrap()
}

/// Appends of any length, one after the other. Another process that queries the size all the time
/// sees it grow only within the bytes that have been passed to `write_at`: the size is never
/// rounded up to a block for a while and cut back later. Acknowledged bytes are read as they were
/// written, also while more is appended to the same block or page.
///
/// Bytes that are not acknowledged yet may read as zeros: the kernel shows the new size of a direct
/// write a moment before it drops a page with the old end that a reader has cached (seen on ext4;
/// open(2), NOTES).
#[test]
fn others_never_see_a_size_that_was_rounded_up() {
    for fs in file_systems() {
        for (engine, mode) in
            engines().into_iter().flat_map(|engine| MODES.map(|mode| (engine, mode)))
        {
            let seed = Seed::new();
            let mut rng = seed.rng();
            let dir = fs.dir();
            let path = dir.path().join("file");
            let io = io_of(engine, small_limits(&mut rng));
            let file = open(&path, &io, mode);
            let (handed_over, acknowledged) = (AtomicU64::new(0), AtomicU64::new(0));
            let done = AtomicBool::new(false);
            std::thread::scope(|threads| {
                threads.spawn(|| {
                    let other = std::fs::File::open(&path).unwrap();
                    let mut last = 0;
                    while !done.load(Ordering::Relaxed) {
                        let safe = acknowledged.load(Ordering::SeqCst);
                        let size = other.metadata().unwrap().len();
                        let limit = handed_over.load(Ordering::SeqCst);
                        assert!(
                            size <= limit,
                            "{} {mode:?}: size {size}, handed over {limit}",
                            fs.name
                        );
                        assert!(
                            size >= last,
                            "{} {mode:?}: the size fell from {last} to {size}",
                            fs.name
                        );
                        last = size;
                        assert!(
                            size >= safe,
                            "{} {mode:?}: size {size}, acknowledged {safe}",
                            fs.name
                        );
                        let start = safe.saturating_sub(700);
                        let (mut got, mut expected) =
                            (vec![0; (safe - start) as usize], vec![0; (safe - start) as usize]);
                        other.read_exact_at(&mut got, start).unwrap();
                        fill(&mut expected, 1, start);
                        let wrong = first_difference(&got, &expected);
                        assert_eq!(wrong, None, "{} {mode:?}: from {start} of {safe}", fs.name);
                    }
                });
                // Ends the watcher, also if an assertion here fails.
                let _end = OnDrop(|| done.store(true, Ordering::Relaxed));
                let mut arena = Arena::new(MOST_ALIGNED + 20_000);
                let (mut size, until) = (0, Instant::now() + Duration::from_millis(100));
                while Instant::now() < until {
                    let len = *rng.pick(&[1, 100, 511, 512, 513, 4000, 4096, 10_000, 16_384]);
                    let buffer = arena.slice(any_shift(&mut rng), len);
                    fill(buffer, 1, size);
                    handed_over.store(size + len as u64, Ordering::SeqCst);
                    file.write_at(buffer, size).unwrap();
                    size += len as u64;
                    acknowledged.store(size, Ordering::SeqCst);
                    assert_eq!(
                        std::fs::metadata(&path).unwrap().len(),
                        size,
                        "exact after each append"
                    );
                }
            });
            let size = file.size().unwrap();
            drop(file);
            let contents = std::fs::read(&path).unwrap();
            let mut expected = vec![0; size as usize];
            fill(&mut expected, 1, 0);
            assert_eq!(contents.len() as u64, size);
            assert_eq!(first_difference(&contents, &expected), None);
        }
    }
}

struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// After any history of extensions and truncations, a hole behind an old end reads as zeros, from
/// the cache and from the disk: neither padding nor truncated bytes come back.
#[test]
fn what_was_cut_off_never_comes_back() {
    for fs in file_systems() {
        for (engine, mode) in
            engines().into_iter().flat_map(|engine| MODES.map(|mode| (engine, mode)))
        {
            let seed = Seed::new();
            let mut rng = seed.rng();
            let dir = fs.dir();
            let path = dir.path().join("file");
            let io = io_of(engine, small_limits(&mut rng));
            let mut file = open(&path, &io, mode);
            let mut arena = Arena::new(MOST_ALIGNED + 40_000);
            for _ in 0..10 {
                let (full, cut) = (rng.range(1..40_000), rng.range(0..20_000));
                let buffer = arena.slice(any_shift(&mut rng), full as usize);
                fill(buffer, 1, 0);
                file.write_at(buffer, 0).unwrap();
                if rng.bool(0.5) {
                    file.sync_all().unwrap();
                }
                file.set_size(cut).unwrap();
                let (gap, behind) = (rng.range(1..6000), rng.range(1..6000));
                let tail = arena.slice(any_shift(&mut rng), behind as usize);
                fill(tail, 2, cut + gap);
                file.write_at(tail, cut + gap).unwrap();
                if rng.bool(0.5) {
                    drop(file);
                    file = open(&path, &io, mode);
                }
                let end = cut + gap + behind;
                let mut expected = vec![0; end as usize];
                fill(&mut expected[..cut.min(full) as usize], 1, 0);
                fill(&mut expected[(cut + gap) as usize..], 2, cut + gap);
                let mut got = vec![0xee; end as usize + 5000];
                assert_eq!(file.read_at(&mut got, 0).unwrap() as u64, end, "{} {mode:?}", fs.name);
                assert_eq!(
                    first_difference(&got, &expected),
                    None,
                    "{} {mode:?} {full} {cut} {gap}",
                    fs.name
                );
                assert!(got[end as usize..].iter().all(|byte| [0, 0xee].contains(byte)));
                assert_eq!(
                    std::fs::read(&path).unwrap(),
                    expected,
                    "{} {mode:?}: as others see it",
                    fs.name
                );
                file.set_size(0).unwrap();
            }
        }
    }
}

//! Other programs write to the source beside the mount. Bytes that they have synced stay, and so do
//! bytes that were acknowledged here.

use std::io::Write as _;
use std::time::{Duration, Instant};

use dio_test::{Rng, Soak, file_systems};
use rustix::io::Errno;

use super::*;

const APPEND: WriteProperties = WriteProperties { flags: OFlags::APPEND, ..PLAIN };

fn bench(directory: &std::path::Path, mode: Mode) -> (Bench, u64) {
    let bench = Bench::new(directory, settings(), LockPolicy::Range, false);
    std::fs::write(bench.path(1), b"").unwrap();
    let handle = bench.open(1, OFlags::RDWR, mode).unwrap();
    (bench, handle)
}

/// Appends to the source beside the mount, and syncs.
fn beside(bench: &Bench, bytes: &[u8]) {
    let mut file = std::fs::File::options().append(true).open(bench.path(1)).unwrap();
    file.write_all(bytes).unwrap();
    file.sync_all().unwrap();
}

fn source(bench: &Bench) -> Vec<u8> {
    std::fs::read(bench.path(1)).unwrap()
}

#[test]
fn an_append_goes_behind_what_others_have_appended_since() {
    for fs in file_systems() {
        for mode in Mode::ALL {
            for len in [1000, 4096, 1 << 20] {
                let directory = fs.dir();
                let (bench, handle) = bench(directory.path(), mode);
                let (ours, theirs) = (vec![b'A'; len], vec![b'B'; len]);
                // The kernel does not know of bytes that others append: it sends the end that it
                // has cached.
                bench.write(handle, 1, 0, &ours, APPEND).unwrap();
                beside(&bench, &theirs);
                bench.write(handle, 1, len as u64, &ours, APPEND).unwrap();
                bench.files.sync(handle, true).unwrap();
                let found = source(&bench);
                let count = |byte| found.iter().filter(|found| **found == byte).count();
                assert_eq!(
                    (count(b'A'), count(b'B'), found.len()),
                    (2 * len, len, 3 * len),
                    "{} {mode:?}",
                    fs.name
                );
            }
        }
    }
}

#[test]
fn what_is_appended_and_pending_is_read_where_it_comes_to_lie() {
    let directory = file_systems()[0].dir();
    let (bench, handle) = bench(directory.path(), Mode::Direct);
    bench.write(handle, 1, 0, b"one", APPEND).unwrap();
    assert_eq!((source(&bench).len(), bench.files.size_of(1)), (0, Some(3)), "it is held back");
    beside(&bench, b"two");
    assert_eq!(bench.files.size_of(1), Some(6));
    assert_eq!(bench.read(handle, 1, 0, 100).unwrap(), b"twoone");
    bench.write(handle, 1, 3, b"three", APPEND).unwrap();
    // A write with an offset is done after the appends before it.
    bench.write(handle, 1, 11, b"four", PLAIN).unwrap();
    bench.write(handle, 1, 3, b"five", APPEND).unwrap();
    assert_eq!(bench.read(handle, 1, 3, 100).unwrap(), b"onethreefourfive");
    bench.files.set_size(1, Some(handle), 5, &bench.opener(1)).unwrap();
    bench.write(handle, 1, 5, b"six", APPEND).unwrap();
    bench.files.release(handle);
    assert_eq!(source(&bench), b"twoonsix");
}

/// The kernel writes its own page cache back after half a minute, however often a file is written
/// to.
#[test]
fn what_a_slow_writer_goes_on_to_write_is_not_held_back_for_long() {
    let directory = file_systems()[0].dir();
    for how in [PLAIN, APPEND] {
        let (bench, handle) = bench(directory.path(), Mode::Direct);
        let began = Instant::now();
        let mut written = 0;
        while source(&bench).is_empty() {
            assert!(began.elapsed() < Duration::from_secs(30), "{written} bytes are held back");
            bench.write(handle, 1, written, b"line\n", how).unwrap();
            written += 5;
            std::thread::sleep(Duration::from_millis(50));
        }
        bench.files.release(handle);
        assert_eq!(source(&bench), b"line\n".repeat(written as usize / 5));
    }
}

#[test]
fn requests_of_others_never_come_between_the_bytes_of_one() {
    let directory = file_systems()[0].dir();
    let (bench, handle) = bench(directory.path(), Mode::Concurrent);
    let other = Bench::new(directory.path(), settings(), LockPolicy::Range, false);
    let second = other.open(1, OFlags::WRONLY, Mode::Direct).unwrap();
    std::thread::scope(|threads| {
        threads.spawn(|| (0..300).for_each(|_| beside(&bench, &[b'C'; 700])));
        threads.spawn(|| {
            (0..3000)
                .for_each(|_| assert_eq!(other.write(second, 1, 0, &[b'B'; 999], APPEND), Ok(999)));
        });
        (0..3000)
            .for_each(|_| assert_eq!(bench.write(handle, 1, 0, &[b'A'; 1001], APPEND), Ok(1001)));
    });
    bench.files.sync(handle, true).unwrap();
    other.files.sync(second, true).unwrap();
    let (found, mut counts) = (source(&bench), [0, 0, 0]);
    let mut rest = found.as_slice();
    while let Some(&byte) = rest.first() {
        let which = usize::from(byte - b'A');
        let len = [1001, 999, 700][which];
        assert!(
            rest.len() >= len && rest[..len].iter().all(|found| *found == byte),
            "torn at {}",
            found.len() - rest.len()
        );
        counts[which] += 1;
        rest = &rest[len..];
    }
    assert_eq!(counts, [3000, 3000, 300]);
}

#[test]
fn what_others_put_at_the_end_meanwhile_is_not_overwritten_and_the_writer_is_told() {
    for fs in file_systems() {
        let directory = fs.dir();
        let (bench, handle) = bench(directory.path(), Mode::Direct);
        bench.write(handle, 1, 0, &[b'A'; 10_000], PLAIN).unwrap();
        beside(&bench, &[b'B'; 1000]);
        assert_eq!(bench.files.sync(handle, true), Err(Errno::IO), "{}", fs.name);
        let found = source(&bench);
        assert!(
            found.len() == 10_000 && found[..1000] == [b'B'; 1000] && found[1000..] == [b'A'; 9000]
        );
        // A hole belongs to no writer: two programs may fill different parts of a file.
        bench.write(handle, 1, 10_000, &[b'C'; 1000], PLAIN).unwrap();
        let file = std::fs::File::options().write(true).open(bench.path(1)).unwrap();
        file.write_all_at(&[b'D'; 100], 1 << 20).unwrap();
        bench.files.sync(handle, true).unwrap();
        assert_eq!(source(&bench)[10_000..11_000], [b'C'; 1000], "{}", fs.name);
    }
}

/// A writer that appends records, through a server or beside it.
struct Appender<'a> {
    bench: Option<(&'a Bench, u64)>,
    source: PathBuf,
    number: u8,
    rng: Rng,
}

/// A record: its writer, its number, its length, then bytes that follow from these.
fn record(writer: u8, number: u32, len: usize) -> Vec<u8> {
    let mut bytes = vec![writer];
    bytes.extend(number.to_le_bytes());
    bytes.extend((len as u32).to_le_bytes());
    bytes.extend((bytes.len()..len).map(|at| (at as u32 ^ number ^ u32::from(writer)) as u8));
    bytes
}

impl Appender<'_> {
    /// Appends some records; returns how many.
    fn run(mut self) -> u32 {
        let count = self.rng.range(1..60) as u32;
        for number in 0..count {
            let len = match self.rng.range(0..8) {
                0..4 => self.rng.range_usize(9..300),
                4 => 4096,
                5 => self.rng.range_usize(9..20_000),
                6 => 512 * self.rng.range_usize(1..64),
                _ => self.rng.range_usize(9..1 << 18),
            };
            let bytes = record(self.number, number, len);
            let sync = self.rng.bool(0.15);
            if let Some((bench, handle)) = self.bench {
                bench.write(handle, 1, self.rng.range(0..10_000), &bytes, APPEND).unwrap();
                if sync {
                    bench.files.sync(handle, true).unwrap();
                }
            } else {
                let mut file = std::fs::File::options().append(true).open(&self.source).unwrap();
                file.write_all(&bytes).unwrap();
                if sync {
                    file.sync_all().unwrap();
                }
            }
        }
        if let Some((bench, handle)) = self.bench {
            bench.files.flush(handle).unwrap();
        }
        count
    }
}

#[test]
fn soak_every_record_is_there_once_whoever_appends_beside_whom() {
    for seed in Soak::of(6) {
        let mut rng = seed.rng();
        let systems = file_systems();
        let directory = rng.pick(&systems).dir();
        let benches: Vec<Bench> = (0..2)
            .map(|_| Bench::new(directory.path(), settings(), LockPolicy::Range, false))
            .collect();
        let start = rng.range_usize(0..3) * 777;
        std::fs::write(benches[0].path(1), vec![0xff; start]).unwrap();
        let source = benches[0].path(1);
        let counts: Vec<u32> = std::thread::scope(|threads| {
            let writers: Vec<_> = (0..4u8)
                .map(|number| {
                    let through = (number < 3).then(|| &benches[usize::from(number % 2)]);
                    let mode = *rng.pick(&Mode::ALL);
                    let more = *rng.pick(&[OFlags::empty(), OFlags::empty(), OFlags::DIRECT]);
                    let bench = through
                        .map(|bench| (bench, bench.open(1, OFlags::RDWR | more, mode).unwrap()));
                    let rng = seed.stream(u64::from(number) + 1);
                    threads.spawn({
                        let source = source.clone();
                        move || Appender { bench, source, number, rng }.run()
                    })
                })
                .collect();
            writers.into_iter().map(|writer| writer.join().unwrap()).collect()
        });
        let found = std::fs::read(&source).unwrap();
        let (mut rest, mut next) = (&found[start..], [0u32; 4]);
        while !rest.is_empty() {
            let at = found.len() - rest.len();
            let number = u32::from_le_bytes(rest[1..5].try_into().unwrap());
            let len = u32::from_le_bytes(rest[5..9].try_into().unwrap()) as usize;
            assert_eq!(number, next[usize::from(rest[0])], "at {at}");
            assert!(
                rest.len() >= len && rest[..len] == record(rest[0], number, len),
                "torn at {at}"
            );
            next[usize::from(rest[0])] += 1;
            rest = &rest[len..];
        }
        assert_eq!(next.as_slice(), counts);
    }
}

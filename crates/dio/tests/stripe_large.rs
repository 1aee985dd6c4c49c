//! Striped files beyond 32-bit sizes, and sparse ones larger than a single object could be: writes
//! at boundaries, holes, truncations, and sizes that are too large.

mod common;

use std::fs;
use std::ops::Range;
use std::path::PathBuf;

use common::{MODES, fill, first_difference};
use dio::stripe::{StripePlan, create, inspect};
use dio::transfer::data_ranges;
use dio::{File, Mode, OpenOptions};
use dio_test::{TestFs, file_systems};
use rustix::io::Errno;

const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

/// Bytes of a piece, a multiple of nothing.
const PIECE: usize = 300_001;

/// An empty striped file over objects in one directory.
struct Striped {
    _scratch: Box<dyn std::any::Any>,
    path: PathBuf,
    stripe: u64,
    objects: u64,
}

impl Striped {
    fn on(fs: &TestFs, stripe: u64, objects: u64) -> Striped {
        let scratch = fs.dir();
        let (target, path) = (scratch.path().join("target"), scratch.path().join("file"));
        fs::create_dir(&target).unwrap();
        let plan = StripePlan {
            stripe: Some(stripe),
            count: Some(objects as usize),
            targets: vec![target],
            force: false,
        };
        create(&path, &plan).unwrap();
        Striped { _scratch: Box::new(scratch), path, stripe, objects }
    }

    fn open(&self, mode: Mode) -> File {
        OpenOptions::new().read(true).write(true).mode(mode).open(&self.path).unwrap()
    }

    fn row(&self) -> u64 {
        self.stripe * self.objects
    }

    /// Bytes that are allocated on the disks.
    fn allocated(&self) -> u64 {
        inspect(&self.path).unwrap().unwrap().allocated()
    }
}

fn piece(tag: u64) -> Vec<u8> {
    let mut bytes = vec![0; PIECE];
    fill(&mut bytes, tag, 0);
    bytes
}

#[track_caller]
fn expect(file: &File, at: u64, bytes: &[u8], context: &str) {
    let mut found = vec![0xee; bytes.len()];
    file.read_exact_at(&mut found, at)
        .unwrap_or_else(|error| panic!("{context}: at {at}: {error}"));
    assert_eq!(first_difference(&found, bytes), None, "{context}: at {at}");
}

/// Boundaries at which an offset in the file, or in an object, needs one more bit. Each is in the
/// middle of a piece.
fn borders(striped: &Striped) -> Vec<u64> {
    let of_objects =
        [2 * GIB, 4 * GIB, 2 * TIB, 4 * TIB].map(|offset| offset / striped.stripe * striped.row());
    [2 * GIB, 4 * GIB, 8 * TIB]
        .into_iter()
        .chain(of_objects)
        .map(|border| border - PIECE as u64 / 2)
        .collect()
}

#[test]
fn pieces_over_every_border_of_offsets_are_where_they_were_written() {
    for fs in file_systems() {
        for mode in MODES {
            let striped = Striped::on(&fs, 64 << 10, 3);
            let (file, context) = (striped.open(mode), format!("{} {mode:?}", fs.name));
            let borders = borders(&striped);
            for (tag, at) in borders.iter().enumerate() {
                file.write_at(&piece(tag as u64), *at).unwrap();
            }
            let end = *borders.iter().max().unwrap() + PIECE as u64;
            assert_eq!(file.size().unwrap(), end, "{context}");
            for (tag, at) in borders.iter().enumerate() {
                expect(&file, *at, &piece(tag as u64), &context);
                expect(&file, at - 8192, &[0; 8192], &context);
            }
            // The same through a new, read-only handle.
            drop(file);
            let file = File::open(&striped.path).unwrap();
            borders
                .iter()
                .enumerate()
                .for_each(|(tag, at)| expect(&file, *at, &piece(tag as u64), &context));
            assert_eq!(file.read_at(&mut [0; 4096], end).unwrap(), 0);
            assert!(striped.allocated() < 64 << 20, "{context}: {} bytes", striped.allocated());
        }
    }
}

/// The data of a file is reported in whole rows of stripes, and the space between is a hole.
#[test]
fn holes_of_a_huge_file_are_known() {
    for fs in file_systems() {
        let striped = Striped::on(&fs, 64 << 10, 4);
        let (file, row) = (striped.open(Mode::Direct), striped.row());
        let size = 16 * TIB + 12_345;
        file.set_size(size).unwrap();
        assert_eq!(data_ranges(&file, size).unwrap(), Vec::<Range<u64>>::new(), "{}", fs.name);
        let places = [0, 4 * GIB, 16 * TIB - PIECE as u64];
        for (tag, at) in places.iter().enumerate() {
            file.write_at(&piece(tag as u64), *at).unwrap();
        }
        // Data that is only in memory need not be reported as data yet.
        file.sync_all().unwrap();
        let ranges = data_ranges(&file, size).unwrap();
        let within = |at: u64| at / row * row..(at + PIECE as u64).next_multiple_of(row).min(size);
        for at in places {
            let held = |range: &Range<u64>| range.start <= at && at + PIECE as u64 <= range.end;
            assert!(ranges.iter().any(held), "{}: nothing at {at} in {ranges:?}", fs.name);
        }
        for range in &ranges {
            // File systems may report more around a piece as data, up to some hundred KiB.
            let near = |at: &u64| {
                range.start + 8 * row >= within(*at).start && range.end <= within(*at).end + 8 * row
            };
            assert!(places.iter().any(near), "{}: {range:?} holds no data", fs.name);
        }
        file.punch(places[1]..places[1] + row).unwrap();
        let gone = data_ranges(&file, size).unwrap();
        assert!(
            gone.iter().all(|range| range.end <= places[1] || range.start >= places[1] + row),
            "{gone:?}"
        );
        expect(&file, places[1], &vec![0; row as usize], &fs.name);
        expect(&file, places[1] + row, &piece(1)[row as usize..], &fs.name);
    }
}

/// After a truncation at a boundary and an extension, the new part reads as zeros.
#[test]
fn a_huge_file_is_cut_off_to_the_byte() {
    for fs in file_systems() {
        let striped = Striped::on(&fs, 4096, 5);
        let file = striped.open(Mode::Direct);
        let at = 4 * GIB - PIECE as u64 / 2;
        for size in [4 * GIB + 1, 4 * GIB, 4 * GIB - 1, 4 * GIB - 4096] {
            file.write_at(&piece(7), at).unwrap();
            file.set_size(16 * TIB).unwrap();
            file.set_size(size).unwrap();
            assert_eq!(file.size().unwrap(), size, "{}", fs.name);
            assert!(!inspect(&striped.path).unwrap().unwrap().has_surplus());
            let kept = (size - at) as usize;
            expect(&file, at, &piece(7)[..kept], &fs.name);
            file.set_size(16 * TIB).unwrap();
            assert_eq!(file.size().unwrap(), 16 * TIB);
            expect(&file, at, &piece(7)[..kept], &fs.name);
            expect(&file, size, &vec![0; PIECE], &fs.name);
            expect(&file, 16 * TIB - 4096, &[0; 4096], &fs.name);
            file.set_size(0).unwrap();
        }
        assert!(striped.allocated() < 8 << 20, "{}: {} bytes", fs.name, striped.allocated());
    }
}

/// The whole file may be larger than any object, up to the file system's limit for each object.
/// Beyond that, the error names the object, and the file is unchanged.
#[test]
fn a_file_may_be_larger_than_an_object() {
    for fs in file_systems() {
        let striped = Striped::on(&fs, 1 << 20, 4);
        let file = striped.open(Mode::Direct);
        // ext4 allows 16 TiB less a block for each object.
        let size = 4 * 15 * TIB;
        file.set_size(size).unwrap();
        file.write_at(&piece(1), size - PIECE as u64).unwrap();
        file.write_at(&piece(2), size - GIB - 7).unwrap();
        expect(&file, size - PIECE as u64, &piece(1), &fs.name);
        expect(&file, size - GIB - 7, &piece(2), &fs.name);
        for beyond in [4 * 17 * TIB, i64::MAX as u64] {
            match file.set_size(beyond) {
                Ok(()) => assert_eq!(file.size().unwrap(), beyond),
                Err(error) => {
                    assert!(
                        matches!(error.errno(), Errno::FBIG | Errno::INVAL),
                        "{}: {error}",
                        fs.name
                    );
                    assert!(error.to_string().contains(".dio-"), "{}: {error}", fs.name);
                    assert_eq!(file.size().unwrap(), size, "{}", fs.name);
                }
            }
            expect(&file, size - PIECE as u64, &piece(1), &fs.name);
            file.set_size(size).unwrap();
        }
        match file.write_at(&piece(3), 4 * 16 * TIB) {
            Ok(()) => expect(&file, 4 * 16 * TIB, &piece(3), &fs.name),
            Err(error) => {
                assert_eq!(error.errno(), Errno::FBIG, "{}: {error}", fs.name);
                assert!(error.to_string().contains(".dio-"), "{}: {error}", fs.name);
                assert_eq!(file.size().unwrap(), size, "{}", fs.name);
                // The request was refused before it was tried, so the file remains usable.
                file.write_at(&piece(4), size - PIECE as u64).unwrap();
            }
        }
    }
}

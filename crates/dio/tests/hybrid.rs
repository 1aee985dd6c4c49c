//! Requests below a threshold go through the page cache and larger ones past it, on one file.

use std::path::Path;

use dio::file::{Class, Reason};
use dio::residency::resident_pages;
use dio::stripe::{StripePlan, create};
use dio::{File, Mode, OpenOptions};
use dio_test::file_systems;

const THRESHOLD: u64 = 16 << 10;
const SIZE: usize = 1 << 20;

fn options(threshold: u64) -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).mode(Mode::Direct).direct_from(threshold);
    options
}

/// A plain file, and one striped over two directories, of `SIZE` bytes, with nothing cached.
fn files(directory: &Path, threshold: u64) -> [File; 2] {
    let targets = ["a", "b"].map(|name| directory.join(name));
    targets.iter().for_each(|target| std::fs::create_dir(target).unwrap());
    let striped = directory.join("striped");
    create(
        &striped,
        &StripePlan {
            stripe: Some(64 << 10),
            count: None,
            targets: targets.to_vec(),
            force: false,
        },
    )
    .unwrap();
    [directory.join("plain"), striped].map(|path| {
        let file = options(0).open(&path).unwrap();
        file.write_at(&vec![1; SIZE], 0).unwrap();
        file.sync_all().unwrap();
        drop(file);
        options(threshold).open(&path).unwrap()
    })
}

#[test]
fn small_requests_stay_in_the_page_cache_and_are_counted() {
    let fs = &file_systems()[0];
    let dir = fs.dir();
    for file in files(dir.path(), THRESHOLD) {
        let mut small = vec![0; THRESHOLD as usize - 1];
        let mut large = vec![0; THRESHOLD as usize];
        assert_eq!(file.read_at(&mut small, 5).unwrap(), small.len());
        assert_eq!(file.read_at(&mut large, 128 << 10).unwrap(), large.len());
        file.write_at(&small, 333).unwrap();
        file.write_at(&large, 256 << 10).unwrap();
        file.sync_data().unwrap();
        let (counters, len) = (file.counters(), small.len() as u64);
        assert_eq!(
            (counters.read.get(Class::Cached), counters.written.get(Class::Cached)),
            (len, len)
        );
        assert_eq!(counters.reason(Reason::Small), 2 * len);
        let direct = |class: Class| counters.read.get(class) + counters.written.get(class);
        assert_eq!(direct(Class::Direct) + direct(Class::Bounced), 2 * THRESHOLD);
        assert!(small.iter().chain(&large).all(|byte| *byte == 1));
        if file.layout().is_none() && resident_pages(file.descriptor().unwrap()).is_ok() {
            let pages = resident_pages(file.descriptor().unwrap()).unwrap();
            // Only the pages of the small requests; read-ahead is off.
            assert!((1..=5).contains(&pages), "{pages} pages");
        }
    }
}

#[test]
fn a_cached_and_a_direct_write_to_one_page_do_not_lose_each_other() {
    let fs = &file_systems()[0];
    let dir = fs.dir();
    for file in files(dir.path(), 600) {
        let align = file.geometry().offset_align();
        if align > 1024 {
            continue;
        }
        // On each page at the same time, two threads write some bytes through the page cache, and
        // two write 1 KiB each directly.
        let pages = SIZE as u64 / 4096;
        std::thread::scope(|scope| {
            for which in 0..4u64 {
                let file = &file;
                scope.spawn(move || {
                    for page in (0..3).flat_map(|_| 0..pages) {
                        match which % 2 {
                            0 => file
                                .write_at(&[2 + which as u8; 200], page * 4096 + 100 + which * 500)
                                .unwrap(),
                            _ => file
                                .write_at(
                                    &[2 + which as u8; 1024],
                                    page * 4096 + 1536 + which * 512,
                                )
                                .unwrap(),
                        }
                    }
                });
            }
        });
        file.sync_all().unwrap();
        let mut bytes = vec![0; SIZE];
        assert_eq!(file.read_at(&mut bytes, 0).unwrap(), SIZE);
        for (number, page) in bytes.chunks(4096).enumerate() {
            for (at, len, value) in
                [(100, 200, 2), (1100, 200, 4), (2048, 1024, 3), (3072, 1024, 5)]
            {
                assert!(
                    page[at..at + len].iter().all(|byte| *byte == value),
                    "page {number} at {at}"
                );
            }
        }
    }
}

#[test]
fn in_concurrent_mode_there_is_no_threshold() {
    let dir = file_systems()[0].dir();
    let path = dir.path().join("file");
    let file = options(THRESHOLD).mode(Mode::Concurrent).open(path).unwrap();
    file.write_at(&[1; 4096], 0).unwrap();
    assert_eq!(file.counters().written.get(Class::Cached), 0);
}

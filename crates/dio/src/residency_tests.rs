//! Tests residency on real files: a disk file system under /var/tmp, tmpfs under /dev/shm.
// Expected lists of runs may well have one element.
#![allow(clippy::single_range_in_vec_init)]

use super::*;
use std::fs::File;
use std::os::unix::fs::FileExt;

const PAGES: u64 = 256;

fn page_size() -> u64 {
    rustix::param::page_size() as u64
}

/// A clean file of [`PAGES`] pages, all resident.
fn clean_file(directory: &str) -> File {
    let file = tempfile::tempfile_in(directory).unwrap();
    file.write_all_at(&vec![0x5a; (PAGES * page_size()) as usize], 0).unwrap();
    file.sync_all().unwrap();
    file
}

/// A file on a disk file system without resident pages. `None` if pages cannot be evicted, which is
/// printed.
fn cold_file() -> Option<File> {
    let file = clean_file("/var/tmp");
    evict(&file, 0..PAGES * page_size()).unwrap();
    if resident_pages(&file).unwrap() == 0 {
        return Some(file);
    }
    println!("skipped: pages of files under /var/tmp cannot be evicted");
    None
}

/// Loads exactly these pages, without read-ahead, through another descriptor.
fn load_as_someone_else(file: &File, pages: Range<u64>) {
    let other = reopen(file.as_fd(), OFlags::RDONLY).unwrap();
    rustix::fs::fadvise(&other, 0, None, Advice::Random).unwrap();
    let mut page = vec![0; page_size() as usize];
    for number in pages {
        rustix::io::pread(&other, &mut page[..], number * page_size()).unwrap();
    }
}

fn read_all(file: &File) {
    let mut all = vec![0; (PAGES * page_size()) as usize];
    file.read_exact_at(&mut all, 0).unwrap();
}

#[test]
fn a_written_file_is_resident_until_evicted() {
    let file = clean_file("/var/tmp");
    assert_eq!(resident_pages(&file).unwrap(), PAGES);
    assert_eq!(ResidencySnapshot::take(&file, PAGES * page_size()).unwrap().runs(), [0..PAGES]);
    let Some(cold) = cold_file() else { return };
    let snapshot = ResidencySnapshot::take(&cold, PAGES * page_size()).unwrap();
    assert_eq!(snapshot, ResidencySnapshot::empty());
}

#[test]
fn pages_that_someone_else_had_resident_stay() {
    let Some(file) = cold_file() else { return };
    load_as_someone_else(&file, 10..20);
    load_as_someone_else(&file, 77..78);
    let snapshot = ResidencySnapshot::take(&file, PAGES * page_size()).unwrap();
    assert_eq!(snapshot.runs(), [10..20, 77..78]);
    assert_eq!(snapshot.pages(), 11);
    read_all(&file);
    assert_eq!(resident_pages(&file).unwrap(), PAGES);
    let dropped = snapshot.drop_new(&file, 0..PAGES * page_size()).unwrap();
    assert_eq!(dropped, PAGES - 11);
    let left = resident_runs(&file, PAGES * page_size()).unwrap();
    assert_eq!(left, [10..20, 77..78]);
}

#[test]
fn only_the_given_range_is_dropped() {
    let Some(file) = cold_file() else { return };
    // The pages are loaded one by one, so that no folio reaches over the ends of the range.
    load_as_someone_else(&file, 0..PAGES);
    // Bytes inside pages 3 and 5: rounded out to pages 3, 4 and 5.
    let dropped = evict(&file, 3 * page_size() + 17..5 * page_size() + 1).unwrap();
    assert_eq!(dropped, 3);
    let left = resident_runs(&file, PAGES * page_size()).unwrap();
    assert_eq!(left, [0..3, 6..PAGES]);
}

#[test]
fn dirty_pages_can_be_dropped_once_written_back() {
    let Some(file) = cold_file() else { return };
    file.write_all_at(&vec![1; 8 * page_size() as usize], 0).unwrap();
    if let Some(dirty) = dirty_pages(&file).unwrap() {
        assert_eq!(dirty, 8);
    }
    write_back(&file, 0..8 * page_size()).unwrap();
    if let Ok(stat) = dio_sys::cachestat(file.as_fd(), 0, 0) {
        assert_eq!((stat.dirty, stat.writeback), (0, 0));
    }
    assert_eq!(evict(&file, 0..8 * page_size()).unwrap(), 8);
    let mut first = [0];
    file.read_exact_at(&mut first, 0).unwrap();
    assert_eq!(first, [1]);
}

#[test]
fn a_file_open_for_writing_only_has_a_picture_too() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let path = directory.path().join("file");
    let file = File::create(&path).unwrap();
    file.write_all_at(&vec![1; 4 * page_size() as usize], 0).unwrap();
    assert_eq!(resident_pages(&file).unwrap(), 4);
    let snapshot = ResidencySnapshot::take(&file, 4 * page_size()).unwrap();
    assert_eq!(snapshot.runs(), [0..4]);
}

#[test]
fn tmpfs_keeps_everything() {
    let shm = File::open("/dev/shm");
    let is_tmpfs =
        shm.is_ok_and(|shm| FileSystem::of(shm.as_fd()).is_ok_and(FileSystem::is_memory));
    if !is_tmpfs {
        println!("skipped: /dev/shm is not a tmpfs");
        return;
    }
    let file = clean_file("/dev/shm");
    assert_eq!(resident_pages(&file).unwrap(), PAGES);
    write_back(&file, 0..PAGES * page_size()).unwrap();
    assert_eq!(evict(&file, 0..PAGES * page_size()).unwrap(), 0);
    assert_eq!(resident_pages(&file).unwrap(), PAGES);
}

#[test]
fn both_ways_of_counting_agree() {
    let Some(file) = cold_file() else { return };
    load_as_someone_else(&file, 5..9);
    assert_eq!(count_by_mincore(file.as_fd(), 0..PAGES).unwrap(), 4);
    assert_eq!(count(file.as_fd(), 0..PAGES).unwrap(), 4);
    assert_eq!(count(file.as_fd(), 6..1 << 40).unwrap(), 3);
    assert_eq!(resident_in(&file, 8 * page_size() + 1..u64::MAX).unwrap(), 1);
    assert_eq!(resident_in(&file, 5 * page_size()..5 * page_size()).unwrap(), 0);
}

#[test]
fn a_file_of_which_all_is_resident_is_one_run() {
    let file = clean_file("/var/tmp");
    assert_eq!(ResidencySnapshot::take(&file, PAGES * page_size()).unwrap().runs(), [0..PAGES]);
    let mut met = Vec::new();
    visit_by_mincore(file.as_fd(), 0..PAGES, |run| met.push(run)).unwrap();
    assert_eq!(met, [0..PAGES]);
    evict(&file, 7 * page_size()..8 * page_size()).unwrap();
    let snapshot = ResidencySnapshot::take(&file, PAGES * page_size()).unwrap();
    assert_eq!(snapshot.pages(), resident_pages(&file).unwrap());
}

#[test]
fn an_empty_file_and_an_empty_range_are_nothing() {
    let file = tempfile::tempfile().unwrap();
    assert_eq!(resident_pages(&file).unwrap(), 0);
    assert_eq!(ResidencySnapshot::take(&file, 0).unwrap(), ResidencySnapshot::empty());
    assert_eq!(ResidencySnapshot::empty().drop_new(&file, 0..0).unwrap(), 0);
    assert_eq!(ResidencySnapshot::empty().drop_new(&file, 0..u64::MAX).unwrap(), 0);
    write_back(&file, 7..7).unwrap();
}

#[test]
fn gaps_are_the_complement_of_the_runs() {
    let snapshot = ResidencySnapshot { runs: vec![2..4, 6..7, 20..30] };
    assert_eq!(snapshot.gaps(0..40), [0..2, 4..6, 7..20, 30..40]);
    assert_eq!(snapshot.gaps(3..7), [4..6]);
    assert_eq!(snapshot.gaps(22..28), []);
    assert_eq!(snapshot.gaps(8..8), []);
    assert_eq!(snapshot.gaps(29..31), [30..31]);
}

#[test]
fn closing_gaps_never_loses_a_resident_page() {
    let mut runs = Vec::new();
    for run in [0..1, 2..3, 10..11] {
        append(&mut runs, run, 1);
    }
    assert_eq!(runs, [0..3, 10..11]);
}

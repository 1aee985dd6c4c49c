//! `dio mount -o cio,native`: the kernel itself does the I/O of programs that use `O_DIRECT`, past
//! the page cache, and all other users of the file see the same bytes.

use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use crate::mount_support::{Scene, dio};
use dio::block::Pool;
use dio_test::{resident_pages, skip, until};
use rustix::fs::OFlags;
use serde_json::Value;

const BLOCK: usize = 8192;
const BLOCKS: u64 = 64;

fn open(path: &Path, flags: OFlags) -> File {
    File::options()
        .read(true)
        .write(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)
        .unwrap()
}

/// Numbers of read and write requests that the server has answered.
fn requests(at: &Path) -> (u64, u64) {
    let output = dio("stat", "--json").arg(at).output().unwrap();
    let stat: Value = serde_json::from_slice(&output.stdout).expect("standard output is JSON");
    let operations = &stat["operations"];
    let count = |name: &str| operations[name]["count"].as_u64().unwrap_or(0);
    (count("read"), count("write"))
}

/// A mount with a file of zeros whose I/O is direct. Returns `None` if direct I/O is not possible
/// here.
fn scene(options: &str) -> Option<Scene> {
    let scene = Scene::new()?;
    let path = scene.source.join("data");
    std::fs::write(&path, vec![0; BLOCK * BLOCKS as usize]).unwrap();
    let file = File::open(&path).unwrap();
    file.sync_all().unwrap();
    dio::residency::evict(&file, 0..u64::MAX >> 1).unwrap();
    let report = dio::geometry::Geometry::of(std::os::fd::AsFd::as_fd(&file)).unwrap();
    if report.directness() != dio::geometry::Directness::Reported {
        skip!("the file system does not say how direct I/O is to be aligned");
        return None;
    }
    assert!(scene.mount(options).status().unwrap().success());
    Some(scene)
}

#[test]
fn direct_io_is_the_kernels_and_leaves_no_pages() {
    let Some(scene) = scene("-o cio,native") else { return };
    let (file, source) = (scene.at.join("data"), scene.source.join("data"));
    let native = open(&file, OFlags::DIRECT);
    let pool = Pool::new(BLOCK, 1).unwrap();
    let mut block = pool.try_take().unwrap();
    let before = requests(&scene.at);
    for number in 0..BLOCKS {
        block.bytes_mut()[..BLOCK].fill(number as u8 + 1);
        native.write_all_at(&block.bytes_mut()[..BLOCK], number * BLOCK as u64).unwrap();
    }
    native.sync_all().unwrap();
    for number in (0..BLOCKS).rev() {
        native.read_exact_at(&mut block.bytes_mut()[..BLOCK], number * BLOCK as u64).unwrap();
        assert!(block.bytes_mut()[..BLOCK].iter().all(|byte| *byte == number as u8 + 1));
    }
    assert_eq!(requests(&scene.at), before, "the server has seen none of it");
    assert_eq!((resident_pages(&source), resident_pages(&file)), (0, 0));
    // The size grows as with any file.
    native.write_all_at(&block.bytes_mut()[..BLOCK], BLOCKS * BLOCK as u64).unwrap();
    assert_eq!(std::fs::metadata(&file).unwrap().len(), (BLOCKS + 1) * BLOCK as u64);
    native.set_len(BLOCK as u64).unwrap();
    assert_eq!(std::fs::metadata(&source).unwrap().len(), BLOCK as u64);
}

#[test]
fn others_that_have_the_file_open_see_every_write_at_once() {
    let Some(scene) = scene("-o cio,native") else { return };
    let file = scene.at.join("data");
    let native = open(&file, OFlags::DIRECT);
    let plain = open(&file, OFlags::empty());
    let pool = Pool::new(BLOCK, 1).unwrap();
    let mut block = pool.try_take().unwrap();
    let mut seen = vec![0; BLOCK];
    for turn in 0..100u64 {
        let at = turn % BLOCKS * BLOCK as u64;
        block.bytes_mut()[..BLOCK].fill(turn as u8 | 1);
        native.write_all_at(&block.bytes_mut()[..BLOCK], at).unwrap();
        plain.read_exact_at(&mut seen, at).unwrap();
        assert!(seen.iter().all(|byte| *byte == turn as u8 | 1), "turn {turn}");
        // Writes in the middle of a block, in order, as do programs for which the server reads
        // ahead and holds bytes back.
        plain.write_all_at(&[turn as u8; 100], at + 1000).unwrap();
        native.read_exact_at(&mut block.bytes_mut()[..BLOCK], at).unwrap();
        assert!(
            block.bytes_mut()[1000..1100].iter().all(|byte| *byte == turn as u8),
            "turn {turn}"
        );
    }
    drop((native, plain));
    // The kernel tells the server of it later, and does not wait.
    until("its pages are dropped", || resident_pages(scene.source.join("data")) == 0);
}

#[test]
fn a_file_that_was_open_before_stays_with_the_server() {
    let Some(scene) = scene("-o cio,native") else { return };
    let file = scene.at.join("data");
    let plain = open(&file, OFlags::empty());
    let direct = open(&file, OFlags::DIRECT);
    let before = requests(&scene.at);
    let mut byte = [1];
    // Requests of any alignment.
    direct.write_all_at(&[9], 77).unwrap();
    plain.read_exact_at(&mut byte, 77).unwrap();
    assert_eq!(byte, [9]);
    let after = requests(&scene.at);
    assert!(after.0 > before.0 && after.1 > before.1, "{before:?} {after:?}");
}

#[test]
fn only_who_asks_for_it_in_a_mount_that_was_told_so() {
    for options in ["-o cio", "-o dio,native"] {
        let Some(scene) = scene(options) else { return };
        let direct = open(&scene.at.join("data"), OFlags::DIRECT);
        direct.write_all_at(&[9; 3], 77).unwrap();
        let mut bytes = [0; 5];
        direct.read_exact_at(&mut bytes, 76).unwrap();
        assert_eq!(bytes, [0, 9, 9, 9, 0]);
    }
}

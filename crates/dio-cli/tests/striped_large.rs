//! Commands on sparse striped files of many tebibytes: the time of copies, migrations and
//! truncations depends on their data, not on their size.

use std::fs;
use std::path::Path;
use std::process::Command;

use dio::transfer::data_ranges;
use dio::{File, OpenOptions};
use dio_test::{Output, Rng, file_systems};

const SIZE: u64 = (16 << 40) + 4097;

#[track_caller]
fn dio(dir: &Path, line: &str) -> Output {
    let output = dio_test::run(
        Command::new(env!("CARGO_BIN_EXE_dio")).args(line.split(' ')).current_dir(dir),
    );
    assert!(output.status.success(), "{line}: {output:?}");
    output
}

/// Small ranges of data, far apart, in a sparse file.
fn islands() -> [(u64, Vec<u8>); 4] {
    let places = [0, (4 << 30) - 100_000, 9 << 40, SIZE - 200_001];
    places.map(|at| (at, Rng::new(at + 1).bytes(200_001)))
}

#[track_caller]
fn same(path: &Path, size: u64, context: &str) {
    let file = File::open(path).unwrap();
    assert_eq!(file.size().unwrap(), size, "{context}");
    for (at, bytes) in islands().into_iter().filter(|(at, _)| *at < size) {
        let mut found = vec![0; bytes.len().min((size - at) as usize)];
        file.read_exact_at(&mut found, at).unwrap();
        assert!(found[..] == bytes[..found.len()], "{context}: at {at}");
    }
    let held: u64 =
        data_ranges(&file, size).unwrap().iter().map(|range| range.end - range.start).sum();
    assert!(held < 64 << 20, "{context}: {held} bytes of data");
}

#[test]
fn a_sparse_file_of_sixteen_tebibytes_is_copied_moved_and_cut_off() {
    for fs in file_systems() {
        let scratch = fs.dir();
        let dir = scratch.path();
        ["a", "b"].iter().for_each(|name| fs::create_dir(dir.join(name)).unwrap());
        // ext4 allows no file of this size, so the target of the copy is striped too.
        dio(dir, "stripe set -S 64K -c 4 -t a,b file auto always");
        let file = OpenOptions::new().write(true).open(dir.join("file")).unwrap();
        file.set_size(SIZE).unwrap();
        islands().iter().for_each(|(at, bytes)| file.write_at(bytes, *at).unwrap());
        file.sync_all().unwrap();
        drop(file);
        same(&dir.join("file"), SIZE, &fs.name);
        dio(dir, "cp file auto");
        same(&dir.join("auto"), SIZE, &format!("{}: cp", fs.name));
        dio(dir, "cp --sparse=always file always");
        same(&dir.join("always"), SIZE, &format!("{}: cp --sparse=always", fs.name));
        dio(dir, "stripe migrate -S 1M -c 3 -t b,a file");
        same(&dir.join("file"), SIZE, &format!("{}: migrate", fs.name));
        // Sizes just above and just below 2^32 bytes, in the middle of a block.
        for size in [(4_u64 << 30) + 1, (4 << 30) - 1] {
            dio(dir, &format!("dd if=/dev/null of=auto bs=1 seek={size} count=0 status=none"));
            same(&dir.join("auto"), size, &format!("{}: cut off to {size}", fs.name));
        }
        dio(dir, "stripe rm file auto always");
        assert_eq!(["a", "b"].map(|name| fs::read_dir(dir.join(name)).unwrap().count()), [0, 0]);
    }
}

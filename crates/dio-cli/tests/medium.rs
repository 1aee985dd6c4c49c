//! Reading from the medium: a block that has changed below the page cache is found, although the
//! cached page is still right.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use dio_test::{resident_pages, run};

use crate::own::{Mounted, Running, source, until_moved};

const MIB: u64 = 1 << 20;
const DIO: &str = env!("CARGO_BIN_EXE_dio");

/// Changes, in the image below a mounted file system, the block that holds these bytes. The device
/// reads its image through the page cache of the file system that the image is on.
fn change_below(image: &Path, bytes: &[u8]) {
    let image = File::options().read(true).write(true).open(image).unwrap();
    let mut piece = vec![0; MIB as usize];
    let mut offset = 0;
    loop {
        let read = image.read_at(&mut piece, offset).unwrap();
        assert!(read >= bytes.len(), "the image does not hold the bytes");
        // Blocks are aligned, so none lies across two pieces.
        if let Some(at) = piece[..read].chunks(512).position(|block| block.starts_with(bytes)) {
            image.write_all_at(b"changed", offset + 512 * at as u64).unwrap();
            return;
        }
        offset += read as u64;
    }
}

/// A file system with a file `data`, which the page cache holds and whose bytes at 1 MiB have then
/// changed on the medium.
fn changed() -> Option<Mounted> {
    let mounted = Mounted::new(&["mkfs.ext4", "-q"], 64 * MIB)?;
    let data = source(&mounted.path, "data", 3 * MIB + 77);
    run(Command::new(DIO).args(["tar", "-cf", "data.tar", "data"]).current_dir(&mounted.path));
    let sums =
        run(Command::new(DIO).args(["sum", "-a", "sha256", "data"]).current_dir(&mounted.path));
    fs::write(mounted.path.join("SUMS"), sums.stdout).unwrap();
    let synced = run(Command::new("sync").arg("-f").arg(&mounted.path));
    assert!(synced.status.success(), "{synced:?}");
    let bytes = fs::read(&data).unwrap();
    assert!(resident_pages(&data) > 0);
    change_below(&mounted.image, &bytes[MIB as usize..MIB as usize + 64]);
    assert!(fs::read(&data).unwrap() == bytes, "the page cache has what was written");
    Some(mounted)
}

#[test]
fn a_block_that_changed_below_the_cache_is_found() {
    let Some(mounted) = changed() else { return };
    let dio = |words: &str| {
        run(Command::new(DIO).args(words.split(' ')).current_dir(&mounted.path).env("LC_ALL", "C"))
    };
    let cached = dio("sha256sum -c --mode cached SUMS");
    assert!(cached.status.success(), "the cached page is right: {cached:?}");
    for words in ["sum -c --medium SUMS", "sha256sum -c --medium SUMS"] {
        let found = dio(words);
        assert_eq!(found.status.code(), Some(1), "{words}: {found:?}");
        assert!(found.stdout.contains("data: FAILED"), "{words}: {found:?}");
    }
    let cached = dio("tar -d --mode cached -f data.tar");
    assert!(cached.status.success(), "{cached:?}");
    let found = dio("tar -d --medium -f data.tar");
    assert_eq!(found.status.code(), Some(1), "{found:?}");
    assert!(found.stdout.contains("data: Contents differ"), "{found:?}");
}

#[test]
fn where_the_medium_cannot_be_read_a_check_fails() {
    // A file system in memory has no medium.
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    fs::write(dir.path().join("data"), vec![7; 100_000]).unwrap();
    let dio = |words: &str| {
        run(Command::new(DIO).args(words.split(' ')).current_dir(dir.path()).env("LC_ALL", "C"))
    };
    fs::write(dir.path().join("SUMS"), dio("sha256sum data").stdout).unwrap();
    assert!(dio("sha256sum -c SUMS").status.success());
    let refused = dio("sha256sum --medium data");
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(refused.stderr.contains("data"), "{refused:?}");
}

#[test]
fn a_copy_is_verified_on_the_medium() {
    let Some(mounted) = Mounted::new(&["mkfs.ext4", "-q"], 64 * MIB) else { return };
    let beside = tempfile::tempdir_in("/var/tmp").unwrap();
    let from = source(beside.path(), "from", 8 * MIB);
    let to = mounted.path.join("to");
    let running = Running::start("--verify --limit 2M", &[&from, &to]);
    until_moved(&running, 3 * MIB);
    let bytes = fs::read(&from).unwrap();
    // The page cache gets the first bytes as they were written.
    assert!(File::open(&to).unwrap().read_exact_at(&mut [0; 4096], 0).is_ok());
    change_below(&mounted.image, &bytes[..64]);
    let output = running.end();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(output.stderr.contains("differs from its source at byte 0"), "{output:?}");
}

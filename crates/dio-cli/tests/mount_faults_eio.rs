//! Proves that errors for which no program was waiting are reported: the device below refuses
//! writes for a while (an image on a full tmpfs), and no sync that succeeds afterwards covers lost
//! bytes. Each handle gets the error once, and the file remains usable.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::fault_support::{Scene, content, errno, good};
use crate::own::{MIB, Mounted as Volume, is_root};
use dio_test::{MODES, file_systems, skip};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use tempfile::TempDir;

/// Errors of the kernel: a loop device turns the lack of space below it into one of these.
const REFUSED: [Option<Errno>; 2] = [Some(Errno::IO), Some(Errno::NOSPC)];

/// A tmpfs with little space.
struct Pool {
    at: PathBuf,
    _directory: TempDir,
}

impl Pool {
    fn new() -> Option<Pool> {
        if !is_root() {
            skip!("mounting needs root");
            return None;
        }
        let directory = file_systems()[0].dir();
        good(
            Command::new("mount")
                .args(["-t", "tmpfs", "-o", "size=48M", "dio-test"])
                .arg(directory.path()),
        );
        Some(Pool { at: directory.path().to_owned(), _directory: directory })
    }

    /// An ext4 on a sparse image in the tmpfs. It has no journal, so that a failed write affects
    /// nothing else. It has no extents, because ext4 itself, without any mount of dio, does not
    /// mark an extent as written if the first attempt to write it failed and the second succeeded
    /// (seen on Linux 6.18).
    fn scene(&self, mode: &str) -> Option<Scene> {
        let format = [
            "mkfs.ext4",
            "-q",
            "-F",
            "-O",
            "^has_journal,^extent,^64bit",
            "-e",
            "continue",
            "-N",
            "128",
            "-E",
            "nodiscard",
        ];
        let place = tempfile::tempdir_in(&self.at).unwrap();
        Some(Scene::new(Volume::within(place, &format, 700 * MIB)?, mode))
    }

    /// Makes the device refuse to write blocks that were not written before.
    fn fill(&self, scene: &Scene) {
        good(Command::new("sync").arg("--file-system").arg(&scene.volume.path));
        let other = File::create(self.at.join("other")).unwrap();
        let mut taken = 0;
        for unit in [MIB, 4096] {
            while rustix::fs::fallocate(&other, FallocateFlags::empty(), taken, unit).is_ok() {
                taken += unit;
            }
        }
    }

    fn make_room(&self) {
        fs::remove_file(self.at.join("other")).unwrap();
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let _ = dio_test::run(Command::new("umount").arg("--lazy").arg(&self.at));
    }
}

/// Runs `fault` in each mode. It returns, for each file, the result of a sync and the bytes that
/// the sync covered. If the sync succeeded, the file must hold these bytes after the file system is
/// mounted anew.
fn each_mode(fault: impl Fn(&Pool, &Scene, &Path) -> Vec<(&'static str, io::Result<()>, Vec<u8>)>) {
    for mode in MODES {
        let Some(pool) = Pool::new() else { return };
        let Some(scene) = pool.scene(mode) else { return };
        let mounted = scene.mount();
        let synced = fault(&pool, &scene, mounted.path());
        mounted.unmount();
        scene.volume.come_back();
        for (name, outcome, expected) in synced {
            let file = dio::File::open(scene.source().join(name)).unwrap();
            let mut found = vec![0; file.size().unwrap() as usize];
            file.read_exact_at(&mut found, 0).unwrap();
            let wrong =
                (0..expected.len().max(found.len())).find(|at| expected.get(*at) != found.get(*at));
            let about =
                format!("{}: {name} ({} of {} bytes)", scene.name, found.len(), expected.len());
            assert!(
                outcome.is_err() || wrong.is_none(),
                "{about}: synced, and wrong from {wrong:?} on"
            );
        }
    }
}

#[test]
fn an_error_that_passes_is_told_to_each_writer_once() {
    each_mode(|pool, scene, at| {
        fs::write(scene.source().join("file"), "").unwrap();
        let writing = || File::options().read(true).write(true).open(at.join("file")).unwrap();
        let (mut one, two, idle) = (writing(), writing(), writing());
        pool.fill(scene);
        one.write_all(&content(1, 0..300_000)).unwrap();
        two.write_all_at(&content(1, 300_000..305_000), 300_000).unwrap();
        let told = |file: &File, who: &str| {
            let told = errno(file.sync_all());
            assert!(REFUSED.contains(&told), "{}: {who}: {told:?}", scene.name);
        };
        told(&one, "one");
        pool.make_room();
        told(&two, "every writer");
        told(&idle, "who had it open");
        for (file, name) in [(&one, "one"), (&two, "two"), (&idle, "idle"), (&writing(), "late")] {
            assert!(file.sync_all().is_ok(), "{}: {name}: once", scene.name);
        }
        one.write_all_at(&content(1, 0..305_000), 0).unwrap();
        vec![("file", one.sync_all(), content(1, 0..305_000))]
    });
}

/// As a database does whose checkpoints sync what other processes have written.
#[test]
fn who_opens_a_file_to_sync_it_learns_of_what_nobody_was_told() {
    each_mode(|pool, scene, at| {
        let names = ["open", "closed", "scattered", "small"];
        for name in names {
            fs::write(scene.source().join(name), "").unwrap();
        }
        File::options()
            .write(true)
            .open(scene.source().join("scattered"))
            .unwrap()
            .set_len(300_000)
            .unwrap();
        pool.fill(scene);
        let write = |name: &str, number: u64| {
            let mut file = File::options().read(true).write(true).open(at.join(name)).unwrap();
            content(number, 0..300_000).chunks(30_000).for_each(|part| {
                // A program that ignores these errors has to check the error of the sync.
                let _ = file.write_all(part);
            });
            file
        };
        let _open = write("open", 0);
        drop(write("closed", 1));
        // For these bytes no caller waits for the device.
        let _ = fs::write(at.join("small"), content(3, 0..20_000));
        let scattered = File::options().read(true).write(true).open(at.join("scattered")).unwrap();
        for (place, part) in (0..)
            .step_by(8192)
            .zip(content(2, 0..300_000).chunks(8192))
            .collect::<Vec<_>>()
            .iter()
            .rev()
        {
            let _ = scattered.write_all_at(part, *place);
        }
        // Pending bytes are written by then.
        std::thread::sleep(Duration::from_millis(1200));
        pool.make_room();
        let sync = |name| File::open(at.join(name)).and_then(|file| file.sync_all());
        let length = |name| if name == "small" { 20_000 } else { 300_000 };
        (0..)
            .zip(names)
            .map(|(number, name)| (name, sync(name), content(number, 0..length(name))))
            .collect()
    });
}

/// An unaligned end is in the page cache of the source when a direct write fails.
#[test]
fn a_write_that_fails_hides_no_loss_of_one_before() {
    each_mode(|pool, scene, at| {
        fs::write(scene.source().join("file"), "").unwrap();
        let file = File::options().read(true).write(true).open(at.join("file")).unwrap();
        pool.fill(scene);
        let bytes = content(1, 0..MIB + 8192);
        // The writes are not in order, so that nothing is held back.
        file.write_all_at(&bytes[1000..5100], 1000).unwrap();
        let failed = file.write_all_at(&bytes[MIB as usize..], MIB);
        std::thread::sleep(Duration::from_millis(500));
        pool.make_room();
        if failed.is_err() {
            file.write_all_at(&bytes[MIB as usize..], MIB).unwrap();
        }
        let mut expected = vec![0; bytes.len()];
        expected[1000..5100].copy_from_slice(&bytes[1000..5100]);
        expected[MIB as usize..].copy_from_slice(&bytes[MIB as usize..]);
        vec![("file", file.sync_all(), expected)]
    });
}

/// The lost bytes of a striped file were in the page cache of one of its objects, and a refused
/// operation in between closes the objects.
#[test]
fn what_is_refused_hides_no_loss_in_an_object() {
    each_mode(|pool, scene, at| {
        ["a", "b"].iter().for_each(|name| fs::create_dir(scene.source().join(name)).unwrap());
        let mut set = Command::new(env!("CARGO_BIN_EXE_dio"));
        // The command prints a note that both targets are on one disk.
        let made = set
            .args(["stripe", "set", "-S", "64K", "-t", "a,b", "file"])
            .current_dir(scene.source())
            .status();
        assert!(made.unwrap().success());
        let file = File::options().read(true).write(true).open(at.join("file")).unwrap();
        pool.fill(scene);
        let bytes = content(1, 0..5100);
        // The write does not begin at the start, so that nothing is held back.
        file.write_all_at(&bytes[1000..], 1000).unwrap();
        let refused = rustix::fs::fallocate(&file, FallocateFlags::KEEP_SIZE, 0, 1 << 40);
        assert!(refused.is_err(), "{}: there is no such room", scene.name);
        pool.make_room();
        vec![("file", file.sync_all(), [&[0; 1000][..], &bytes[1000..]].concat())]
    });
}

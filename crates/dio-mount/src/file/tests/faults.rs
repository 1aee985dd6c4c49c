//! Errors are reported once to each handle that they concern, and the file can be used afterwards.

use std::process::Command;

use dio_test::{run, skip};
use rustix::io::Errno;

use super::*;

/// A small file system that is unmounted when dropped.
struct Small {
    directory: tempfile::TempDir,
}

impl Small {
    /// Creates an ext4 file system of `mib` MiB, if this process may mount one.
    fn new(mib: u64) -> Option<Small> {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let image = directory.path().join("image");
        std::fs::File::create(&image).unwrap().set_len(mib << 20).unwrap();
        let at = directory.path().join("at");
        std::fs::create_dir(&at).unwrap();
        let made = run(Command::new("mkfs.ext4")
            .args(["-q", "-F", "-m", "0", "-O", "^has_journal"])
            .arg(&image));
        let mounted = made.status.success()
            && run(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&at))
                .status
                .success();
        mounted.then_some(Small { directory })
    }

    fn at(&self) -> PathBuf {
        self.directory.path().join("at")
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = run(Command::new("umount").arg(self.at()));
    }
}

fn small(mib: u64) -> Option<Small> {
    let found = rustix::process::geteuid().is_root().then(|| Small::new(mib)).flatten();
    if found.is_none() {
        skip!("no file system can be mounted here");
    }
    found
}

#[test]
fn a_full_file_system_is_told_and_writing_goes_on_when_there_is_room() {
    let Some(small) = small(16) else { return };
    let bench = Bench::new(&small.at(), settings(), LockPolicy::Range, false);
    std::fs::write(bench.path(1), b"").unwrap();
    for mode in [Mode::Direct, Mode::Concurrent, Mode::Auto] {
        let handle = bench.open(1, OFlags::RDWR, mode).unwrap();
        let mut written = 0;
        let full = loop {
            match bench.write(handle, 1, written, &[7; 65536], PLAIN) {
                Ok(count) => written += u64::from(count),
                Err(errno) => break errno,
            }
            assert!(written < 32 << 20);
        };
        assert_eq!(full, Errno::NOSPC, "{mode:?}");
        // With so little room no write is acknowledged before it is written.
        assert!(bench.files.size_of(1).is_none());
        assert_eq!(bench.files.flush(handle), Ok(()), "told once");
        assert_eq!(bench.files.sync(handle, false), Ok(()));
        assert_eq!(bench.read(handle, 1, written - 65536, 65536).unwrap(), [7; 65536]);
        bench.files.set_size(1, Some(handle), 0, &bench.opener(1)).unwrap();
        assert_eq!(bench.write(handle, 1, 0, &[8; 65536], PLAIN), Ok(65536), "{mode:?}");
        bench.files.flush(handle).unwrap();
        bench.files.set_size(1, Some(handle), 0, &bench.opener(1)).unwrap();
        bench.files.release(handle);
    }
}

/// There was space when the bytes were acknowledged, but it is gone when they are written.
#[test]
fn space_that_is_taken_by_others_meanwhile_is_told_once() {
    let Some(small) = small(192) else { return };
    let bench = Bench::new(&small.at(), settings(), LockPolicy::Range, false);
    std::fs::write(bench.path(1), b"").unwrap();
    let handle = bench.open(1, OFlags::WRONLY, Mode::Direct).unwrap();
    bench.write(handle, 1, 0, &[1; 100_000], PLAIN).unwrap();
    assert_eq!(bench.files.size_of(1), Some(100_000), "there is room");
    let other = std::fs::File::create(small.at().join("other")).unwrap();
    let mut taken = 0;
    for unit in [8 << 20, 64 << 10, 4096] {
        let flags = rustix::fs::FallocateFlags::empty();
        while rustix::fs::fallocate(&other, flags, taken, unit).is_ok() {
            taken += unit;
        }
    }
    assert_eq!(bench.files.flush(handle), Err(Errno::NOSPC));
    assert_eq!(bench.files.sync(handle, false), Err(Errno::NOSPC));
    assert_eq!(bench.files.flush(handle), Ok(()));
    assert_eq!(bench.files.sync(handle, false), Ok(()));
    other.set_len(0).unwrap();
    bench.write(handle, 1, 0, &[2; 100_000], PLAIN).unwrap();
    assert_eq!(bench.files.sync(handle, false), Ok(()));
    bench.files.release(handle);
    assert!(std::fs::read(bench.path(1)).unwrap().iter().all(|byte| *byte == 2));
}

#[test]
fn a_write_behind_that_fails_is_told_once_to_each_writer() {
    let directory = dio_test::file_systems()[0].dir();
    let bench = Bench::new(directory.path(), settings(), LockPolicy::Range, false);
    std::fs::write(bench.path(1), b"").unwrap();
    let one = bench.open(1, OFlags::WRONLY, Mode::Direct).unwrap();
    let two = bench.open(1, OFlags::WRONLY, Mode::Direct).unwrap();
    let reader = bench.open(1, OFlags::RDONLY, Mode::Direct).unwrap();
    bench.write(one, 1, 0, &[1; 10_000], PLAIN).unwrap();
    assert_eq!(bench.files.size_of(1), Some(10_000));
    // Stands for an error of a background write.
    bench.files.0.find(1).unwrap().errors.record(Errno::IO);
    assert_eq!(bench.files.flush(reader), Ok(()), "readers have lost nothing");
    assert_eq!(bench.files.flush(one), Err(Errno::IO));
    assert_eq!(bench.files.sync(one, true), Err(Errno::IO), "what a child closes tells the child");
    assert_eq!(bench.files.flush(one), Ok(()));
    assert_eq!(bench.files.flush(two), Ok(()), "it has not written anything");
    assert_eq!(bench.write(two, 1, 20_000, &[1; 10], PLAIN), Ok(10));
    assert_eq!(bench.files.sync(two, true), Err(Errno::IO));
    assert_eq!(bench.files.sync(two, true), Ok(()));
    bench.files.0.find(1).unwrap().errors.record(Errno::NOSPC);
    assert_eq!(bench.write(two, 1, 20_000, &[1; 10], PLAIN), Err(Errno::NOSPC));
    assert_eq!(bench.write(two, 1, 20_000, &[1; 10], PLAIN), Ok(10));
    let late = bench.open(1, OFlags::RDWR, Mode::Direct).unwrap();
    assert_eq!(bench.files.sync(late, false), Err(Errno::NOSPC), "no sync has told anybody");
    assert_eq!(bench.files.sync(late, false), Ok(()));
    let later = bench.open(1, OFlags::RDWR, Mode::Direct).unwrap();
    assert_eq!(bench.files.sync(later, false), Ok(()));
    bench.files.release(later);
    [one, two, reader, late].into_iter().for_each(|handle| bench.files.release(handle));
}

#[test]
fn what_is_not_open_for_it_is_refused() {
    let directory = dio_test::file_systems()[0].dir();
    let bench = Bench::new(directory.path(), settings(), LockPolicy::Range, false);
    std::fs::write(bench.path(1), b"abc").unwrap();
    let reader = bench.open(1, OFlags::RDONLY, Mode::Direct).unwrap();
    assert_eq!(bench.write(reader, 1, 0, b"x", PLAIN), Err(Errno::BADF));
    assert_eq!(bench.files.allocate(reader, 0, 0, 100), Err(Errno::BADF));
    assert_eq!(bench.files.seek(reader, 0, 0), Err(Errno::INVAL));
    assert_eq!(bench.files.flush(99), Err(Errno::BADF));
    assert_eq!(bench.read(reader, 1, u64::MAX - 5, 100).unwrap(), b"");
    bench.files.release(reader);
    assert_eq!(bench.files.sync(reader, true), Err(Errno::BADF));
}

#[test]
fn set_id_bits_are_cleared_when_asked_for() {
    use std::os::unix::fs::PermissionsExt;
    let directory = dio_test::file_systems()[0].dir();
    let bench = Bench::new(directory.path(), settings(), LockPolicy::Range, false);
    std::fs::write(bench.path(1), b"abc").unwrap();
    let handle = bench.open(1, OFlags::RDWR, Mode::Direct).unwrap();
    let mode = || std::fs::metadata(bench.path(1)).unwrap().permissions().mode() & 0o7777;
    let set =
        |mode| std::fs::set_permissions(bench.path(1), PermissionsExt::from_mode(mode)).unwrap();
    for (before, after) in [(0o6755, 0o755), (0o2745, 0o2745), (0o4600, 0o600), (0o644, 0o644)] {
        set(before);
        bench
            .write(handle, 1, 0, b"x", WriteProperties { kill_privileges: true, ..PLAIN })
            .unwrap();
        assert_eq!(mode(), after, "{before:o}");
    }
    bench.files.release(handle);
}

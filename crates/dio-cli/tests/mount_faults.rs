//! Proves how a mount behaves when something fails below it or in it: errors reach the programs,
//! data that was acknowledged as durable is there after recovery, nothing hangs, and the mount can
//! be removed. A full file system is tested in `crates/dio-mount/src/file/tests/faults.rs`,
//! temporary errors in `mount_faults_eio.rs`, and PostgreSQL over a killed server in
//! `mount_faults_postgres.rs`.

use std::fs::{self, File};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::fault_support::{Load, Scene, content, dio, errno, good, options, pending};
use crate::own::{MIB, Mounted as Volume, is_root, until};
use dio_test::{MODES, file_systems, judge_fully, skip};
use rustix::io::Errno;

/// Errors that a program may get when its file system is gone, from the kernel's FUSE code or from
/// the file system below.
const GONE: [Errno; 4] = [Errno::NOTCONN, Errno::CONNABORTED, Errno::CANCELED, Errno::IO];

pub(crate) fn ext4() -> Option<Volume> {
    // Larger than the space that must be free before bytes are held back.
    Volume::new(&["mkfs.ext4", "-q", "-F", "-e", "remount-ro"], 700 * MIB)
}

pub(crate) fn xfs() -> Option<Volume> {
    Volume::new(&["mkfs.xfs", "-q", "-f"], 700 * MIB)
}

/// Tests each mode on one of the two file systems, or on both when everything is to be judged.
fn volumes(fault: impl Fn(&Scene)) {
    for (number, mode) in MODES.into_iter().enumerate() {
        for (turn, volume) in [ext4, xfs].into_iter().enumerate() {
            if (judge_fully() || turn == number % 2)
                && let Some(volume) = volume()
            {
                fault(&Scene::new(volume, mode));
            }
        }
    }
}

#[test]
fn after_a_forced_shutdown_everything_synced_is_there_and_every_writer_has_been_told() {
    volumes(|scene| {
        let mounted = scene.mount();
        let load = Load::start(&mounted.path().join("load"), &scene.name);
        load.run_for_a_while();
        load.shut_down(&scene.volume);
        let written = load.end(&[Errno::IO, Errno::ROFS]);
        mounted.unmount();
        scene.volume.come_back();
        written.verify(&scene.source().join("load"));
        let mounted = scene.mount();
        written.verify(&mounted.path().join("load"));
        mounted.unmount();
    });
}

/// `sync(2)` does not reach the server. It syncs the file system of the source, where everything
/// gets to by itself.
#[test]
fn what_was_written_a_moment_before_sync_of_the_whole_system_survives_a_power_cut() {
    volumes(|scene| {
        fs::write(scene.source().join("old"), content(9, 0..MIB)).unwrap();
        let mounted = scene.mount();
        let name = |name: &str| mounted.path().join(name);
        let ordered = pending(&name("ordered"), 1);
        let mut appended =
            File::options().append(true).create(true).open(name("appended")).unwrap();
        appended.write_all(&content(2, 0..100_001)).unwrap();
        let inside = File::options().write(true).open(name("old")).unwrap();
        let mut old = content(9, 0..MIB);
        for block in (0..64).map(|block| block * 12_288..block * 12_288 + 4096) {
            let bytes = content(3, block.clone());
            inside.write_all_at(&bytes, block.start).unwrap();
            old[block.start as usize..block.end as usize].copy_from_slice(&bytes);
        }
        let expected = [
            ("ordered", content(1, 0..300_000)),
            ("appended", content(2, 0..100_001)),
            ("old", old),
        ];
        let is_there = |(name, bytes): &(&str, Vec<u8>)| {
            fs::read(scene.source().join(name)).is_ok_and(|found| found == *bytes)
        };
        until("everything is in the source", || expected.iter().all(is_there));
        rustix::fs::sync();
        scene.volume.shut_down();
        drop((ordered, appended, inside));
        mounted.unmount();
        scene.volume.come_back();
        for file in &expected {
            assert!(is_there(file), "{}: {}", scene.name, file.0);
        }
    });
}

#[test]
fn a_shutdown_is_told_to_those_who_wait_for_nothing() {
    volumes(|scene| {
        fs::write(scene.source().join("old"), content(9, 0..8 * MIB)).unwrap();
        good(Command::new("sync").arg("--file-system").arg(&scene.volume.path));
        let mounted = scene.mount();
        let name = |name: &str| mounted.path().join(name);
        let reader = File::open(name("old")).unwrap();
        let (mut writer, mut other) = (pending(&name("writer"), 1), pending(&name("other"), 2));
        let mut closing = Closing::start(&name("closing"));
        scene.volume.shut_down();

        // Bytes may still be acknowledged before they are written. After an error, neither bytes
        // nor a sync are acknowledged.
        let told =
            |file: &mut File| file.write_all(&content(1, 0..5000)).and_then(|()| file.sync_all());
        for file in [&mut writer, &mut other] {
            assert_eq!(errno(told(file)), Some(Errno::IO), "{}", scene.name);
            assert_eq!(errno(told(file)), Some(Errno::IO), "{}: it fails for good", scene.name);
        }
        closing.end(scene);
        let mut bytes = [0; 4096];
        assert_eq!(
            errno(reader.read_exact_at(&mut bytes, 5 * MIB)),
            Some(Errno::IO),
            "{}",
            scene.name
        );
        assert_eq!(errno(File::create(name("new"))), Some(Errno::IO), "{}", scene.name);
        drop((reader, writer, other));
        mounted.unmount();
        scene.volume.come_back();
        assert_eq!(fs::read(scene.source().join("old")).unwrap(), content(9, 0..8 * MIB));
    });
}

/// A program that writes and then only closes.
struct Closing(std::process::Child);

impl Closing {
    fn start(path: &Path) -> Closing {
        let mut child = Command::new("dd")
            .env("LC_ALL", "C")
            .args(["bs=10000", "iflag=fullblock", "status=none"])
            .arg(format!("of={}", path.display()))
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.as_mut().unwrap().write_all(&content(3, 0..300_000)).unwrap();
        until("dd has written", || fs::metadata(path).is_ok_and(|meta| meta.len() == 300_000));
        Closing(child)
    }

    fn end(&mut self, scene: &Scene) {
        drop(self.0.stdin.take());
        let mut said = String::new();
        self.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        let status = self.0.wait().unwrap();
        // Bytes in the page cache of the source are written after the close, as without dio. The
        // bytes of a hybrid writer are in that cache too.
        if !["cached", "auto"].contains(&scene.mode.as_str()) {
            assert!(
                !status.success() && said.contains("Input/output error"),
                "{}: {status}: {said}",
                scene.name
            );
        }
    }
}

/// ext4 does this when it detects damage: nothing more is written, even to files that are open.
#[test]
fn a_file_system_that_turns_read_only_refuses_writers_and_serves_readers() {
    for mode in MODES {
        let Some(volume) = ext4() else { return };
        let scene = Scene::new(volume, mode);
        let mounted = scene.mount();
        let name = |name: &str| mounted.path().join(name);
        let mut synced =
            File::options().read(true).write(true).create_new(true).open(name("synced")).unwrap();
        synced.write_all(&content(5, 0..3 * MIB + 77)).unwrap();
        synced.sync_all().unwrap();
        let reader = File::open(name("synced")).unwrap();
        // Dirty pages of other programs: a direct read would write them back first, which ext4 then
        // refuses.
        let beside = File::options().write(true).open(scene.source().join("synced")).unwrap();
        beside.write_all_at(&content(5, 0..10_000), 0).unwrap();
        let (mut one, two) = (pending(&name("one"), 1), pending(&name("two"), 2));
        let device = scene.device();
        let trigger = Path::new("/sys/fs/ext4")
            .join(device.strip_prefix("/dev").unwrap())
            .join("trigger_fs_error");
        fs::write(trigger, "a test").unwrap();

        let same = |file: &File, what: &str| {
            let mut bytes = vec![0; 3 * MIB as usize + 77];
            let outcome = file.read_exact_at(&mut bytes, 0);
            assert!(
                outcome.is_ok() && bytes == content(5, 0..3 * MIB + 77),
                "{}: {what}: {outcome:?}",
                scene.name
            );
        };
        same(&reader, "a reader, at once");
        let refused = [Some(Errno::ROFS), Some(Errno::IO)];
        let told = one.write_all(&content(1, 0..5000)).and_then(|()| one.sync_all());
        assert!(refused.contains(&errno(told)), "{}", scene.name);
        assert!(refused.contains(&errno(two.sync_all())), "{}", scene.name);
        let told = synced.write_all(b"more").and_then(|()| synced.sync_all());
        assert!(refused.contains(&errno(told)), "{}", scene.name);
        same(&reader, "a reader");
        same(&synced, "a writer that reads");
        same(&File::open(name("synced")).unwrap(), "a new reader");
        assert_eq!(
            errno(File::options().write(true).open(name("synced"))),
            Some(Errno::ROFS),
            "{}",
            scene.name
        );
        assert_eq!(errno(File::create(name("new"))), Some(Errno::ROFS), "{}", scene.name);
        drop((reader, synced, one, two, beside));
        mounted.unmount();

        scene.volume.come_back();
        assert_eq!(
            fs::read(scene.source().join("synced")).unwrap(),
            content(5, 0..3 * MIB + 77),
            "{}",
            scene.name
        );
        let mounted = scene.mount();
        fs::write(mounted.path().join("new"), "written").unwrap();
        mounted.unmount();
    }
}

#[test]
fn a_read_only_remount_waits_for_writers_and_can_be_undone() {
    volumes(|scene| {
        let mounted = scene.mount();
        let name = |name: &str| mounted.path().join(name);
        let writer = pending(&name("file"), 1);
        let remount = |how: &str| {
            let options = format!("remount,{how}");
            dio_test::run(Command::new("mount").args(["-o", &options]).arg(&scene.volume.path))
        };
        assert!(
            remount("ro").stderr.contains("busy"),
            "{}: a file is open for writing",
            scene.name
        );
        writer.sync_all().unwrap();
        drop(writer);
        until("the server has closed it", || remount("ro").status.success());

        let refused = Some(Errno::ROFS);
        let whole = fs::read(name("file")).unwrap();
        assert!(whole == content(1, 0..300_000), "{}", scene.name);
        let reader = File::open(name("file")).unwrap();
        assert_eq!(
            errno(File::options().append(true).open(name("file"))),
            refused,
            "{}",
            scene.name
        );
        assert_eq!(errno(File::create(name("new"))), refused, "{}", scene.name);
        assert_eq!(errno(fs::create_dir(name("directory"))), refused, "{}", scene.name);
        assert_eq!(errno(fs::remove_file(name("file"))), refused, "{}", scene.name);
        assert_eq!(errno(fs::rename(name("file"), name("other"))), refused, "{}", scene.name);
        assert!(remount("rw").status.success());

        let mut writer = File::options().append(true).open(name("file")).unwrap();
        writer.write_all(&content(1, 300_000..400_001)).unwrap();
        writer.sync_all().unwrap();
        let mut bytes = vec![0; 400_001];
        reader.read_exact_at(&mut bytes, 0).unwrap();
        assert!(bytes == content(1, 0..400_001), "{}", scene.name);
        fs::write(name("new"), "written").unwrap();
        drop((writer, reader));
        mounted.unmount();
        assert!(
            fs::read(scene.source().join("file")).unwrap() == content(1, 0..400_001),
            "{}",
            scene.name
        );
    });
}

#[test]
fn files_that_are_open_outlive_their_source() {
    if !is_root() {
        skip!("mounting needs root");
        return;
    }
    for mode in MODES {
        let directory = file_systems()[0].dir();
        let source = directory.path().join("source");
        fs::create_dir_all(source.join("deep")).unwrap();
        fs::write(source.join("deep/file"), content(4, 0..MIB)).unwrap();
        let mounted = dio_test::Mounted::new(crate::fault_support::DIO, &source, &options(mode));
        let name = |name: &str| mounted.path().join(name);
        let reader = File::open(name("deep/file")).unwrap();
        let mut writer = pending(&name("writer"), 1);
        let listing = fs::read_dir(name("deep")).unwrap();
        fs::remove_dir_all(&source).unwrap();

        writer.write_all(&content(1, 300_000..310_000)).unwrap();
        writer.sync_all().unwrap();
        let mut bytes = vec![0; 310_000];
        writer.read_exact_at(&mut bytes, 0).unwrap();
        assert!(bytes == content(1, 0..310_000), "{mode}");
        assert_eq!(
            (writer.metadata().unwrap().len(), writer.metadata().unwrap().nlink()),
            (310_000, 0),
            "{mode}"
        );
        let mut bytes = vec![0; MIB as usize];
        reader.read_exact_at(&mut bytes, 0).unwrap();
        assert!(bytes == content(4, 0..MIB), "{mode}");
        writer.set_len(10).unwrap();
        assert_eq!(writer.metadata().unwrap().len(), 10, "{mode}");
        // A listing that was opened before returns the entries that the kernel had read by then.
        listing.for_each(drop);

        let gone = [Some(Errno::NOENT), Some(Errno::STALE)];
        // The kernel may cache a name for a second.
        until("names are gone", || gone.contains(&errno(File::open(name("writer")))));
        until("names are gone", || gone.contains(&errno(File::open(name("deep/file")))));
        assert!(gone.contains(&errno(File::create(name("new")))), "{mode}");
        assert!(gone.contains(&errno(fs::create_dir(name("new")))), "{mode}");
        assert!(gone.contains(&errno(fs::rename(name("writer"), name("new")))), "{mode}");
        match fs::read_dir(mounted.path()) {
            Ok(entries) => assert_eq!(entries.count(), 0, "{mode}"),
            Err(error) => assert!(matches!(
                error.kind(),
                ErrorKind::NotFound | ErrorKind::StaleNetworkFileHandle
            )),
        }
        drop((reader, writer));
        mounted.unmount();
    }
}

#[test]
fn a_source_that_is_unmounted_lazily_is_served_until_the_mount_goes() {
    volumes(|scene| {
        let mounted = scene.mount();
        let name = |name: &str| mounted.path().join(name);
        let mut writer = pending(&name("writer"), 1);
        let device = scene.device();
        good(Command::new("umount").arg("--lazy").arg(&scene.volume.path));

        writer.write_all(&content(1, 300_000..400_000)).unwrap();
        writer.sync_all().unwrap();
        fs::write(name("new"), content(2, 0..100_001)).unwrap();
        assert!(fs::read(name("new")).unwrap() == content(2, 0..100_001), "{}", scene.name);
        assert!(fs::read(name("writer")).unwrap() == content(1, 0..400_000), "{}", scene.name);
        fs::create_dir(name("directory")).unwrap();
        fs::rename(name("new"), name("directory/new")).unwrap();
        drop(writer);
        mounted.unmount();
        let attached = || dio_test::run(Command::new("losetup").arg(&device)).stdout;
        let image = scene.volume.image.to_str().unwrap().to_owned();
        until("nothing holds the file system", || !attached().contains(&image));
        scene.volume.mount_again();
        assert!(
            fs::read(scene.source().join("writer")).unwrap() == content(1, 0..400_000),
            "{}",
            scene.name
        );
        assert!(
            fs::read(scene.source().join("directory/new")).unwrap() == content(2, 0..100_001),
            "{}",
            scene.name
        );
    });
}

#[test]
fn a_server_that_is_killed_loses_nothing_that_was_synced_and_its_mount_can_be_replaced() {
    volumes(|scene| {
        let mut mounted = scene.mount();
        let load = Load::start(&mounted.path().join("load"), &scene.name);
        load.run_for_a_while();
        mounted.kill();
        let written = load.end_of_server(&GONE, &scene.mode);
        assert!(
            fs::metadata(mounted.path())
                .is_err_and(|error| GONE.map(Some).contains(&errno::<()>(Err(error))))
        );
        good(dio("umount").arg(mounted.path()));
        assert_eq!(dio_test::mount_type(mounted.path()), None, "{}", scene.name);
        written.verify(&scene.source().join("load"));
        let mounted = scene.mount();
        written.verify(&mounted.path().join("load"));
        fs::write(mounted.path().join("new"), "written").unwrap();
        mounted.unmount();
    });
}

#[test]
fn a_dead_mount_that_is_in_use_is_busy_until_it_is_detached() {
    let Some(volume) = xfs() else { return };
    let scene = Scene::new(volume, "dio");
    let mut mounted = scene.mount();
    let mut writer = pending(&mounted.path().join("writer"), 1);
    mounted.kill();
    assert!(
        GONE.map(Some).contains(&errno(writer.write_all(b"more").and_then(|()| writer.sync_all())))
    );
    let busy = dio_test::run(dio("umount").arg(mounted.path()));
    assert!(busy.status.code() == Some(32) && busy.stderr.contains("dio umount -l"), "{busy:?}");
    good(dio("umount").arg("-l").arg(mounted.path()));
    assert_eq!(dio_test::mount_type(mounted.path()), None);
    assert!(GONE.map(Some).contains(&errno(writer.sync_all())));
}

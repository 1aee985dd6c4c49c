//! Proves what flags of inodes, positions and ranges do through the mount: as in the source.

use crate::PAGE;
use crate::support::{Asynchronous, Scene};
use dio_test::run;
use rustix::fs::{FallocateFlags, OFlags, fallocate, fcntl_setfl};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt, chown};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

fn flags_of(path: &Path) -> String {
    let output = run(Command::new("lsattr").arg("-d").arg(path));
    assert!(output.status.success(), "{output:?}");
    output.stdout.split_whitespace().next().unwrap().to_owned()
}

fn as_nobody(program: &str, args: &[&str], path: &Path) -> bool {
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups", program])
        .args(args)
        .arg(path);
    run(&mut command).status.success()
}

#[test]
fn flags_of_inodes_are_those_of_the_source() {
    let Some(scene) = Scene::new() else { return };
    let probe = scene.source.join("probe");
    fs::write(&probe, "").unwrap();
    if !run(Command::new("chattr").arg("+d").arg(&probe)).status.success() {
        dio_test::skip!("the file system has no flags, or chattr is not installed");
        return;
    }
    let mounted = scene.mount("concurrent");
    let (at, below) = (mounted.path().join("file"), scene.source.join("file"));
    fs::write(&at, "bytes").unwrap();
    let change =
        |how: &str, path: &Path| run(Command::new("chattr").arg(how).arg(path)).status.success();
    for flags in ["+A", "+d", "-A", "+i"] {
        assert!(change(flags, &at), "{flags}");
        assert_eq!(flags_of(&at), flags_of(&below), "{flags}");
    }
    assert!(flags_of(&below).contains(['i']));
    assert_eq!(fs::write(&at, "other").unwrap_err().kind(), std::io::ErrorKind::PermissionDenied);
    assert_eq!(fs::remove_file(&at).unwrap_err().kind(), std::io::ErrorKind::PermissionDenied);
    assert!(change("-i", &below));
    fs::write(&at, "other").unwrap();
    assert!(
        change("+d", mounted.path()) && flags_of(&scene.source).contains('d'),
        "of a directory"
    );

    let extended =
        |path: &Path| dio_sys::extended_flags(File::open(path).unwrap().as_fd()).unwrap();
    assert_eq!(extended(&at), extended(&below));

    assert!(!as_nobody("chattr", &["+A"], &at), "it is somebody else's");
    chown(&at, Some(65534), Some(65534)).unwrap();
    assert!(as_nobody("chattr", &["+A"], &at) && flags_of(&below).contains('A'));
    for flags in ["+i", "+a"] {
        assert!(!as_nobody("chattr", &[flags], &at), "{flags} takes CAP_LINUX_IMMUTABLE");
    }
    assert!(!flags_of(&below).contains(['i', 'a']));
    mounted.unmount();
}

/// An append-only file can be appended to as without the mount, and cannot be changed otherwise.
#[test]
fn an_append_only_file_can_be_appended_to_in_every_mode() {
    let Some(scene) = Scene::new() else { return };
    let chattr =
        |how: &str, path: &Path| run(Command::new("chattr").arg(how).arg(path)).status.success();
    let refused = |result: std::io::Result<()>, what: &str| {
        assert_eq!(
            result.map_err(|error| error.kind()),
            Err(ErrorKind::PermissionDenied),
            "{what}"
        );
    };
    for options in ["direct", "concurrent", "auto", "cached", "direct,nogather"] {
        let (mounted, source) = (scene.mount(options), scene.source.join(options));
        let at = mounted.path().join(options);
        fs::write(&source, "one\n").unwrap();
        if !chattr("+a", &source) {
            dio_test::skip!("the file system has no flags, or chattr is not installed");
            return;
        }
        let shell =
            run(Command::new("sh").args(["-c", "echo two >> $0; echo three | tee -a $0"]).arg(&at));
        assert!(shell.status.success(), "{options}: {shell:?}");
        for flags in [OFlags::empty(), OFlags::DSYNC, OFlags::DIRECT] {
            let mut file = File::options()
                .read(true)
                .append(true)
                .custom_flags(flags.bits().cast_signed())
                .open(&at)
                .unwrap();
            file.write_all(b"more\n").unwrap();
            file.write_all(&[b'm'; 9000]).unwrap();
            file.sync_all().unwrap();
        }
        let expected = [
            b"one\ntwo\nthree\n".to_vec(),
            [b"more\n".to_vec(), vec![b'm'; 9000]].concat().repeat(3),
        ];
        let expected = expected.concat();
        assert!(
            fs::read(&source).unwrap() == expected && fs::read(&at).unwrap() == expected,
            "{options}"
        );
        refused(File::options().write(true).open(&at).map(drop), "to write anywhere");
        refused(
            File::options().append(true).open(&at).and_then(|file| file.set_len(1)),
            "to cut off",
        );
        refused(fs::remove_file(&at), "to remove");
        let mut held = File::options().append(true).open(&at).unwrap();
        if options != "cached" && options != "auto" {
            fcntl_setfl(&held, OFlags::empty()).unwrap();
            refused(held.write_all_at(b"over", 0), "to take O_APPEND back and write anywhere");
            fcntl_setfl(&held, OFlags::APPEND).unwrap();
        }
        // Once the attribute is removed, others may write anywhere, even while the file is still
        // open.
        assert!(chattr("-a", &source));
        held.write_all(b"last").unwrap();
        File::options().write(true).open(&at).unwrap().write_all_at(b"ONE", 0).unwrap();
        held.write_all(b"!").unwrap();
        drop(held);
        let found = fs::read(&source).unwrap();
        assert!(found.starts_with(b"ONE\ntwo") && found.ends_with(b"mmlast!"), "{options}");
        assert_eq!(found.len(), expected.len() + 5, "{options}");
        mounted.unmount();
    }
}

/// First bytes of the pages of a file.
fn pages_of(path: &Path) -> String {
    fs::read(path).unwrap().chunks(PAGE as usize).map(|page| char::from(page[0])).collect()
}

/// Tests io_uring requests at the file position: writes into an empty file, reads back, and writes
/// over the beginning. Returns the first bytes of the pages for each.
fn at_the_position(
    asynchronous: &mut Asynchronous,
    path: &Path,
    source: &Path,
    flags: OFlags,
) -> [String; 3] {
    let _ = fs::remove_file(source);
    let _ = fs::remove_file(path);
    fs::write(source, "").unwrap();
    // So that the kernel no longer uses cached attributes of the previous file.
    thread::sleep(Duration::from_millis(1100));
    asynchronous.open(path, flags | OFlags::RDWR);
    b"abc".iter().for_each(|byte| asynchronous.write(*byte, -1));
    asynchronous.open(Path::new("/dev/null"), OFlags::RDWR);
    let written = pages_of(source);
    fs::write(source, [b'a', b'b', b'c'].map(|byte| [byte; PAGE as usize]).concat()).unwrap();
    thread::sleep(Duration::from_millis(1100));
    asynchronous.open(path, flags - OFlags::APPEND);
    let read = (0..4).map(|_| asynchronous.read("ring", -1).map_or('.', char::from)).collect();
    asynchronous.open(path, flags | OFlags::RDWR);
    b"xyz".iter().for_each(|byte| asynchronous.write(*byte, -1));
    asynchronous.open(Path::new("/dev/null"), OFlags::RDWR);
    [written, read, pages_of(source)]
}

/// The kernel's FUSE does not advance the position for asynchronous requests, and sends the server
/// the same offset again. If this test fails although the bare file is as expected, the kernel does
/// advance it, and the documents must say so.
#[test]
fn requests_at_the_position_by_io_uring_are_as_documented() {
    let Some(scene) = Scene::new() else { return };
    let Some(mut asynchronous) = Asynchronous::new() else { return };
    let source = scene.source.join("file");
    let mut bare = |flags| at_the_position(&mut asynchronous, &source, &source, flags);
    let (plain, appended) = (bare(OFlags::empty()), bare(OFlags::APPEND));
    assert_eq!(plain, ["abc", "abc.", "xyz"]);
    assert_eq!(appended, ["abc", "abc.", "abcxyz"]);
    for options in ["direct", "concurrent,nogather", "auto", "cached"] {
        let mounted = scene.mount(options);
        let at = mounted.path().join("file");
        let mut found = |flags| at_the_position(&mut asynchronous, &at, &source, flags);
        let [written, read, over] = found(OFlags::empty());
        let moves = options == "cached";
        assert_eq!([written, over], if moves { ["abc", "xyz"] } else { ["c", "zbc"] }, "{options}");
        assert_eq!(read, if options.contains("nogather") { "aaaa" } else { "abc." }, "{options}");
        let [written, _, over] = found(OFlags::APPEND);
        assert_eq!([written, over], ["abc", "abcxyz"], "{options}, by O_APPEND");
        mounted.unmount();
    }
}

/// The kernel refuses these requests. If this test fails, it no longer does, and the documents must
/// say so.
#[test]
fn ranges_are_neither_collapsed_nor_inserted() {
    let Some(scene) = Scene::new() else { return };
    let mounted = scene.mount("direct");
    let path = mounted.path().join("file");
    fs::write(&path, vec![1; 1 << 16]).unwrap();
    let file = File::options().read(true).write(true).open(&path).unwrap();
    for flags in [FallocateFlags::COLLAPSE_RANGE, FallocateFlags::INSERT_RANGE] {
        assert_eq!(fallocate(&file, flags, 0, 1 << 14), Err(Errno::OPNOTSUPP));
    }
    drop(file);
    mounted.unmount();
}

//! Proves that a file loses its set-id bits and capabilities when a user changes it who could not
//! set them, through a mount as on the file system below, and that no user can run a program with
//! bits that it has lost.

use std::fs::{File, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::judge_support::{DIO, Stage, succeeds};
use dio_test::{as_user, file_systems, is_root, judge_fully, skip};
use rustix::fs::{FallocateFlags, Gid, Uid, XattrFlags};
use rustix::io::{Errno, Result};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

/// ID of the user `nobody`, who has no privileges.
const NOBODY: u32 = 65_534;

const CAPABILITY: &str = "security.capability";

/// `struct vfs_ns_cap_data` of `include/uapi/linux/capability.h`, revision 2: effective;
/// `CAP_NET_RAW` permitted.
const NET_RAW: [u8; 20] = [1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// A named operation that changes a file.
type Change = (&'static str, fn(&Path) -> Result<()>);

/// Changes that any user with write permission can make.
const CHANGES: [Change; 7] = [
    ("write", |path| {
        opened(File::options().write(true), path, |file| file.write_all_at(b"new", 1))?;
        Ok(())
    }),
    ("append", |path| {
        opened(File::options().append(true), path, |mut file| file.write_all(b"more"))
    }),
    ("read and write", |path| {
        opened(File::options().read(true).write(true), path, |file| {
            file.write_all_at(&[7; 9000], 3)
        })
    }),
    ("truncate", |path| opened(File::options().write(true), path, |file| file.set_len(2))),
    ("open with O_TRUNC", |path| {
        opened(File::options().write(true).truncate(true), path, |_| Ok(()))
    }),
    ("fallocate", |path| {
        opened(File::options().write(true), path, |file| {
            Ok(rustix::fs::fallocate(file, FallocateFlags::empty(), 0, 10_000)?)
        })
    }),
    ("copy_file_range", |path| {
        let other = File::open(path.with_file_name("other")).map_err(errno)?;
        opened(File::options().write(true), path, |file| {
            assert_eq!(rustix::fs::copy_file_range(&other, None, file, None, 4)?, 4);
            Ok(())
        })
    }),
];

fn errno(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).expect("an error of the system")
}

fn opened(
    how: &std::fs::OpenOptions,
    path: &Path,
    change: impl FnOnce(&File) -> std::io::Result<()>,
) -> Result<()> {
    how.open(path).and_then(|file| change(&file)).map_err(errno)
}

/// Runs `work` as nobody, in a thread of its own.
fn as_nobody<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let work = || {
        let (uid, gid) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
        set_thread_groups(&[]).unwrap();
        set_thread_res_gid(gid, gid, gid).unwrap();
        set_thread_res_uid(uid, uid, uid).unwrap();
        work()
    };
    std::thread::scope(|scope| scope.spawn(work).join().unwrap())
}

/// Waits until the server has counted no open files: the kernel sends the release of a file only
/// after `close` has returned. Until then, the server may ascribe a change without a known user to
/// the user who had the file open.
fn all_closed(stage: &Stage) {
    let begun = Instant::now();
    let told = || {
        dio_test::run(Command::new(DIO).args(["stat", "--json"]).arg(stage.mounted.path())).stdout
    };
    while !told().contains("\"open_files\":0,") {
        assert!(begun.elapsed() < Duration::from_secs(20), "{}: something stays open", stage.name);
    }
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Makes a file of `owner` with set-id bits in `mode` and a capability, and reads its attributes
/// through the mount.
fn file(path: &Path, owner: u32, mode: u32) {
    std::fs::write(path, vec![b'x'; 5000]).unwrap();
    std::os::unix::fs::chown(path, Some(owner), Some(owner)).unwrap();
    rustix::fs::setxattr(path, CAPABILITY, &NET_RAW, XattrFlags::empty()).unwrap();
    set_mode(path, mode);
    assert_eq!(state(path), (mode, true), "{}", path.display());
}

/// The mode, and whether the file has capabilities.
fn state(path: &Path) -> (u32, bool) {
    let has = match rustix::fs::getxattr(path, CAPABILITY, &mut [0; 64]) {
        Ok(_) => true,
        Err(errno) => {
            assert_eq!(errno, Errno::NODATA);
            false
        }
    };
    (path.metadata().unwrap().mode() & 0o7777, has)
}

/// Stages in these modes on file systems with capabilities. If the test may not mount, there are
/// none, and this prints that the test is skipped.
fn stages(modes: &'static [&'static str]) -> impl Iterator<Item = (Stage, PathBuf)> {
    let root = is_root();
    if !root {
        skip!("mounting needs root");
    }
    let all = file_systems().into_iter().filter(|fs| fs.name != "tmpfs").take(if judge_fully() {
        9
    } else {
        1
    });
    let each =
        all.flat_map(|fs| modes.iter().map(move |mode| (fs.clone(), mode))).filter(move |_| root);
    each.map(|(fs, mode)| {
        let stage = Stage::new(&fs, mode);
        let bare = stage.beside("bare");
        for directory in [&bare, &stage.below("")] {
            set_mode(directory, 0o755);
            std::fs::write(directory.join("other"), "abcdef").unwrap();
        }
        (stage, bare)
    })
}

/// Makes the same change to a file through the mount and to one on the file system below, and
/// checks that the result and the state of both are the same.
#[track_caller]
fn same_as_below(
    stage: &Stage,
    bare: &Path,
    what: &str,
    owner: u32,
    mode: u32,
    change: impl Fn(&Path) -> Result<()>,
) {
    let (bare, through, below) = (bare.join("file"), stage.at("file"), stage.below("file"));
    file(&bare, owner, mode);
    file(&through, owner, mode);
    let outcome = change(&bare);
    let expected = (outcome, state(&bare));
    let found = (change(&through), state(&through));
    assert_eq!(found, expected, "{}: {what} of {mode:o} of {owner}", stage.name);
    assert_eq!(state(&below), expected.1, "{}: {what} of {mode:o} of {owner}, below", stage.name);
    for path in [&bare, &through] {
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn who_may_write_takes_bits_and_capabilities_away() {
    for (stage, bare) in stages(&["cio", "cached", "dio", "auto"]) {
        for (what, change) in CHANGES {
            for mode in [0o6777, 0o4666, 0o2777, 0o777] {
                same_as_below(&stage, &bare, what, 0, mode, |path| as_nobody(|| change(path)));
            }
            // The bits are removed, and were not already gone.
            file(&stage.at("gone"), 0, 0o6777);
            as_nobody(|| change(&stage.at("gone"))).unwrap();
            assert_eq!(state(&stage.below("gone")), (0o777, false), "{}: {what}", stage.name);
        }
        stage.unmount();
    }
}

#[test]
fn bits_that_were_set_beside_the_mount_go_too() {
    for (stage, _) in stages(&["cio", "cached"]) {
        let (through, below) = (stage.at("file"), stage.below("file"));
        for (what, change) in CHANGES.iter().filter(|(what, _)| !what.contains("TRUNC")) {
            file(&through, 0, 0o777);
            // The kernel caches the attributes of the inode for a second.
            as_nobody(|| {
                through.metadata().unwrap();
                let open = File::options().append(true).open(&through).unwrap();
                rustix::io::write(&open, b"none").unwrap();
            });
            set_mode(&below, 0o6777);
            as_nobody(|| change(&through)).unwrap();
            assert_eq!(state(&below), (0o777, false), "{}: {what}", stage.name);
            std::fs::remove_file(&through).unwrap();
        }
        stage.unmount();
    }
}

#[test]
fn a_new_owner_gets_no_bits() {
    let to = |uid: Option<u32>| {
        move |path: &Path| std::os::unix::fs::chown(path, uid, uid).map_err(errno)
    };
    for (stage, bare) in stages(&["cio", "cached"]) {
        for mode in [0o6777, 0o4644, 0o2755, 0o755] {
            let same = |what, owner, change: &(dyn Fn(&Path) -> Result<()> + Sync)| {
                same_as_below(&stage, &bare, what, owner, mode, change);
            };
            same("chown by root", 0, &to(Some(NOBODY)));
            same("chown by root to nobody else", 0, &to(None));
            same("chown by the owner", NOBODY, &|path| as_nobody(|| to(Some(NOBODY))(path)));
            same("chown by the owner to nobody else", NOBODY, &|path| as_nobody(|| to(None)(path)));
            same("chown by a stranger", 0, &|path| as_nobody(|| to(Some(NOBODY))(path)));
        }
        // A `chown` by another user that changes nothing removes neither: file systems other than
        // FUSE refuse it first.
        for mode in [0o4755, 0o2755, 0o6755] {
            file(&stage.at("file"), 0, mode);
            all_closed(&stage);
            assert_eq!(
                as_nobody(|| to(None)(&stage.at("file"))),
                Err(Errno::PERM),
                "{}",
                stage.name
            );
            assert_eq!(state(&stage.below("file")), (mode, true), "{}", stage.name);
            std::fs::remove_file(stage.at("file")).unwrap();
        }
        stage.unmount();
    }
}

#[test]
fn root_keeps_them_where_the_server_writes() {
    for (stage, bare) in stages(&["cio", "dio"]) {
        for (what, change) in CHANGES {
            same_as_below(&stage, &bare, what, 0, 0o777, change);
            // When the kernel asks to remove capabilities, it does not say that the bits may stay.
            let incapable = |path: &Path| {
                rustix::fs::removexattr(path, CAPABILITY)?;
                change(path)
            };
            same_as_below(&stage, &bare, what, 0, 0o6777, incapable);
        }
        stage.unmount();
    }
    // Writes that are passed through are treated as those of a user who could not set the bits.
    for (stage, _) in stages(&["cached"]) {
        file(&stage.at("file"), 0, 0o6777);
        (CHANGES[0].1)(&stage.at("file")).unwrap();
        assert_eq!(state(&stage.at("file")), (0o777, false));
        stage.unmount();
    }
}

#[test]
fn a_program_that_was_written_to_runs_without_its_bits() {
    // The program runs as soon as possible: the writer itself becomes the program.
    let script = r#"
        exec 3<> "$0"; echo opened; read go
        printf '\177' >&3; exec 3>&-; exec "$0" -u
    "#;
    for (stage, _) in stages(&["cached,suid", "cio,suid"]) {
        let program = stage.at("id");
        for _ in 0..20 {
            // A separate process makes the copy, because a child that is started meanwhile must not
            // have the program open for writing.
            succeeds(Command::new("cp").arg("/usr/bin/id").arg(&program), &stage.name);
            set_mode(&program, 0o4777);
            let whose = succeeds(as_user("nobody", &program).arg("-u"), &stage.name);
            assert_eq!(whose, "0\n", "{}: the bit works here", stage.name);

            set_mode(&program, 0o777);
            let mut writer = as_user("nobody", "sh");
            writer.args(["-ec", script]).arg(&program).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut writer = writer.spawn().unwrap();
            let (mut go, mut said) =
                (writer.stdin.take().unwrap(), BufReader::new(writer.stdout.take().unwrap()));
            let mut line = String::new();
            said.read_line(&mut line).unwrap();
            assert_eq!(line, "opened\n");
            set_mode(&program, 0o4777);
            assert_eq!(program.metadata().unwrap().mode() & 0o7777, 0o4777);
            go.write_all(b"go\n").unwrap();
            line.clear();
            said.read_line(&mut line).unwrap();
            assert_eq!(line, format!("{NOBODY}\n"), "{}", stage.name);
            assert!(writer.wait().unwrap().success());
            std::fs::remove_file(&program).unwrap();
        }
        stage.unmount();
    }
}

#[test]
fn writes_do_not_ask_for_capabilities() {
    for (stage, _) in stages(&["cached"]) {
        let path = stage.at("file");
        std::fs::write(&path, "").unwrap();
        set_mode(&path, 0o666);
        let write = || {
            let file = File::options().write(true).open(&path).unwrap();
            (0..5000).for_each(|block| file.write_all_at(&[1; 4096], block * 4096).unwrap());
        };
        write();
        as_nobody(write);
        let json = succeeds(
            Command::new(DIO).args(["stat", "--json"]).arg(stage.mounted.path()),
            &stage.name,
        );
        let stat: serde_json::Value = serde_json::from_str(&json).unwrap();
        let asked = stat["operations"]["getxattr"]["count"].as_u64().unwrap_or(0);
        let written = stat["operations"]["write"]["count"].as_u64().unwrap_or(0);
        assert!(
            asked < 100 && written < 100,
            "{asked} attributes asked for, {written} writes passed to the server"
        );
        stage.unmount();
    }
}

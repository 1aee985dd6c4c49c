//! `dio tar -x` and `-d` beside GNU tar: the same archives, options and trees, compared entry for
//! entry.

use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::archive::Builder;
use crate::support::{Scratch, is_root, snapshot};
use dio_test::resident_pages;
use rustix::process::{Pid, Signal, kill_process};

/// A tree with every kind of file. All its times are old.
const TREE: &str = "mkdir -p d/e/f 'sp ace' ro; echo f > d/f; echo g > g; ln -s g l; ln -s ../g \
                    d/up; ln -s /etc abs; ln g h; mkfifo p; head -c 5000000 /dev/urandom > big; \
                    head -c 204800 /dev/urandom > mid; truncate -s 10M sparse; printf data | dd \
                    of=sparse bs=1 seek=5000000 conv=notrunc status=none; truncate -s 30M sp2; \
                    head -c 3000000 /dev/urandom | dd of=sp2 bs=1M seek=13 conv=notrunc \
                    status=none; chmod 4755 g; chmod 2775 d; chmod 1777 d/e; echo x > ro/x; chmod \
                    500 ro; touch 'x:y' \"$(printf 'nl\\nx')\" empty; mkdir -p $(seq -f many/%g \
                    8); for n in $(seq 60); do seq $n > many/$((n % 8 + 1))/$n; done";

const ROOT: &str = "mknod n c 1 3; mknod b b 7 200; chown 1234:5678 mid; chown 65534:65534 d/f; \
    setfattr -n user.a -v b mid; setfattr -n user.d -v e d; setfattr -h -n trusted.l -v m l; \
    setfacl -m u:65534:rwx d/f; setfacl -d -m g:1:r ro; true";

const OLD: &str = "find . -depth -exec touch -h -d '2001-02-03 04:05:06.789012345' {} +";

fn shell(dir: &Path, script: &str) {
    let made = Command::new("sh").args(["-ec", script]).current_dir(dir).output().unwrap();
    assert!(made.status.success(), "{script}: {}", String::from_utf8_lossy(&made.stderr));
}

fn gnu(dir: &Path, args: &[&str]) -> Output {
    Command::new("tar").args(args).current_dir(dir).env("LC_ALL", "C").output().unwrap()
}

fn dio(dir: &Path, args: &[&str]) -> Output {
    dio_command(dir, args).output().unwrap()
}

fn dio_command(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dio"));
    command
        .arg("tar")
        .args(args)
        .current_dir(dir)
        .env("LC_ALL", "C")
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null());
    command
}

/// Status and sorted lines of output: several threads write files, so the order of messages varies.
fn said(output: &Output) -> (Option<i32>, Vec<String>, Vec<String>) {
    let lines = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes).replace("dio tar: ", "tar: ");
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    (output.status.code(), lines(&output.stdout), lines(&output.stderr))
}

/// A directory with a tree, and archives of the tree.
struct Source {
    scratch: Scratch,
}

impl Source {
    fn new() -> Source {
        let scratch = Scratch::new();
        let tree = scratch.path().join("tree");
        std::fs::create_dir(&tree).unwrap();
        shell(&tree, TREE);
        if is_root() {
            shell(&tree, ROOT);
        }
        shell(&tree, OLD);
        Source { scratch }
    }

    fn archive(&self, args: &[&str]) -> PathBuf {
        let name = self
            .scratch
            .path()
            .join(format!("{}.tar", args.concat().replace(|c: char| !c.is_alphanumeric(), "")));
        let all = [&["-cf", name.to_str().unwrap(), "-C", "tree"], args, &["."]].concat();
        let made = gnu(self.scratch.path(), &all);
        assert!(made.status.success(), "{made:?}");
        name
    }

    /// Extracts with both programs into directories made by `setup`, and compares the outcomes.
    #[track_caller]
    fn same(&self, archive: &Path, setup: &str, options: &[&str]) -> PathBuf {
        // Cached writes are enough here, and do not wait for a busy disk.
        compare(&self.scratch, archive, setup, options, "--mode=cached")
    }
}

#[track_caller]
fn compare(
    scratch: &Scratch,
    archive: &Path,
    setup: &str,
    options: &[&str],
    mode: &str,
) -> PathBuf {
    let [theirs, ours] = ["theirs", "ours"].map(|name| {
        let dir = scratch.path().join(name);
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir(&dir).unwrap();
        shell(&dir, setup);
        dir
    });
    let args = [&["-xf", archive.to_str().unwrap()], options].concat();
    let (model, output) = (gnu(&theirs, &args), dio(&ours, &[&[mode], &args[..]].concat()));
    assert_eq!(said(&model), said(&output), "{args:?} after {setup}");
    let (model, found) = (snapshot(&theirs), snapshot(&ours));
    // GNU tar sets the time of some directories before it has put the last file there.
    let same = |name: &String, what: &String| {
        let theirs = model
            .get(name)
            .is_some_and(|model| !model.contains(" mtime ") && model.starts_with("dir "));
        model.get(name) == Some(what)
            || theirs && what.split(" mtime ").next() == model.get(name).map(String::as_str)
    };
    let different: Vec<_> = model
        .iter()
        .filter(|(name, _)| !found.get(*name).is_some_and(|what| same(name, what)))
        .collect();
    let other: Vec<_> = found.iter().filter(|(name, what)| !same(name, what)).collect();
    assert!(
        different.is_empty() && other.is_empty(),
        "{args:?} after {setup}: {different:#?} but {other:#?}"
    );
    ours
}

/// Number of blocks of all files in a directory.
fn blocks(dir: &Path) -> u64 {
    let files = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path().symlink_metadata().unwrap());
    files.filter(|meta| meta.is_file()).map(|meta| meta.blocks()).sum()
}

#[test]
fn trees_of_all_formats_are_as_with_gnu() {
    let source = Source::new();
    for format in
        [&["-H", "gnu", "-S"][..], &["-H", "pax", "-S"], &["-H", "oldgnu"], &["-H", "pax"]]
    {
        let archive = source.archive(format);
        let ours = compare(&source.scratch, &archive, ":", &[], "--mode=direct");
        let theirs = source.scratch.path().join("theirs");
        assert!(
            blocks(&ours) <= blocks(&theirs) + 64,
            "{format:?}: {} blocks, not {}",
            blocks(&ours),
            blocks(&theirs)
        );
    }
    for format in ["ustar", "v7"] {
        let archive =
            source.archive(&["-H", format, "--exclude=./n", "--exclude=./b", "--exclude=./p"]);
        source.same(&archive, ":", &[]);
    }
}

#[test]
fn attributes_are_as_with_gnu() {
    let source = Source::new();
    let archive = source.archive(&["--xattrs", "--acls", "--xattrs-include=*"]);
    for options in [
        &["-p", "--xattrs", "--acls"][..],
        &["--xattrs", "--xattrs-include=*"],
        &["--xattrs-exclude=user.a"],
        &["--acls"],
        &["--numeric-owner", "--no-same-permissions"],
        &["--no-same-owner", "--no-same-permissions"],
        &["-m"],
    ] {
        source.same(&archive, ":", options);
    }
}

#[test]
fn members_are_chosen_and_renamed_as_with_gnu() {
    let source = Source::new();
    let archive = source.archive(&["-H", "pax", "-S"]);
    for options in [
        &["./d", "./g"][..],
        &["./none", "./mid"],
        &["--wildcards", "./many/*/1*"],
        &["--exclude=many", "--exclude=*p*"],
        &["--strip-components=1"],
        &["--strip-components=2"],
        &["-v", "./many/3"],
        &["-O", "./g", "./sparse", "./mid"],
        &["-C", "in", "./g"],
        &["./g", "-C", "in", "./mid"],
    ] {
        source.same(&archive, "mkdir in; touch -d 2001-01-01 in", options);
    }
}

const EXISTING: &str = "mkdir -p d/e ro; echo old > d/f; echo old > g; echo old > h; ln g hl; ln \
                        -s hl l; touch p; mkdir empty; chmod 750 d ro; mkdir mid; touch -d \
                        2030-01-01 d/f big; touch -d 1990-01-01 g h ro; touch -h -d 1990-01-01 l; \
                        touch -d 1990-01-01 d d/e p empty";

const CROSSED: &str = "mkdir other; ln -s other d; mkdir -p g/x l/y h; ln -s . ro; echo > other/f; \
    touch -d 1990-01-01 other/f g/x l/y h g l; touch -h -d 1990-01-01 d ro";

#[test]
fn existing_files_are_treated_as_with_gnu() {
    let source = Source::new();
    // An extraction sets the times of the archive's directories last. If a directory keeps its own
    // time, that time is the current one and is not compared.
    let archive = source.archive(&["-H", "pax", "-S", "--exclude=many"]);
    for setup in [EXISTING, CROSSED] {
        for options in [
            &[][..],
            &["-k"],
            &["--skip-old-files"],
            &["--skip-old-files", "-v"],
            &["--keep-newer-files"],
            &["--overwrite"],
            &["-U"],
            &["--no-overwrite-dir"],
            &["--keep-directory-symlink"],
        ] {
            source.same(&archive, setup, options);
        }
    }
}

/// Without a member that is the target directory itself: GNU tar then removes everything in that
/// directory.
#[test]
fn trees_are_removed_where_that_is_asked_for() {
    let scratch = Scratch::new();
    let archive = scratch.path().join("archive.tar");
    let build = Builder::new()
        .dir("d", 0o755)
        .file("d/f", "x")
        .file("g", "x")
        .symlink("l", "g")
        .hard_link("h", "g");
    std::fs::write(&archive, build.end()).unwrap();
    for setup in [EXISTING, CROSSED, "mkdir -p d/x/y g/x/y l/x h/x; ln -s / g/x/root; echo > g/x/f"]
    {
        for options in [&["--recursive-unlink"][..], &["-U"], &["-U", "--recursive-unlink", "-p"]] {
            compare(&scratch, &archive, setup, options, "--mode=cached");
        }
    }
}

/// Duplicates are written in their order, even with several writes in flight.
#[test]
fn the_last_of_the_same_name_counts() {
    let scratch = Scratch::new();
    let mut build = Builder::new().dir("d", 0o755).symlink("alias", "d");
    for round in 0..150 {
        let content = "x".repeat(round * 7 % 3000);
        build = build
            .file("d/same", &content)
            .file(&format!("d/{round}"), &content)
            .file("alias/same", &format!("{round}"));
        build = build
            .hard_link(&format!("d/h{round}"), "d/same")
            .file(&format!("new{round}/a/b"), &content);
        build = match round % 10 {
            3 => build.file("d/t", &content).symlink("d/t", "same"),
            5 => build.dir("d/u", 0o755).file("d/u/x", &content),
            7 => build.hard_link("d/t", &format!("d/{round}")).dir("d/", 0o750),
            _ => build.file("d/t", &content),
        };
    }
    let archive = scratch.path().join("archive.tar");
    std::fs::write(&archive, build.end()).unwrap();
    compare(&scratch, &archive, ":", &[], "--mode=auto");
    compare(
        &scratch,
        &archive,
        "mkdir d; echo old > d/same",
        &["--keep-newer-files"],
        "--mode=cached",
    );
    compare(&scratch, &archive, "mkdir d; echo old > d/same", &["--overwrite"], "--mode=cached");
}

#[test]
fn ordinary_users_get_what_gnu_gives_them() {
    if !is_root() {
        return dio_test::skip!("another user can only be had by root");
    }
    let source = Source::new();
    let archive = source.archive(&["-H", "pax", "--xattrs", "--acls"]);
    let program = source.scratch.dio();
    for (umask, options) in [
        ("022", &[][..]),
        ("027", &["-p"]),
        ("077", &["--xattrs", "--acls"]),
        ("002", &["--same-owner"]),
    ] {
        let [theirs, ours] = [PathBuf::from("tar"), program.clone()].map(|program| {
            let dir = source.scratch.path().join("of nobody");
            let _ = std::fs::remove_dir_all(&dir);
            std::fs::create_dir(&dir).unwrap();
            std::fs::set_permissions(&dir, PermissionsExt::from_mode(0o777)).unwrap();
            let mut command = Command::new("sh");
            command.args([
                "-c",
                &format!("umask {umask}; exec \"$@\""),
                "sh",
                "setpriv",
                "--reuid=65534",
            ]);
            command.args(["--regid=65534", "--clear-groups"]).arg(&program);
            command.args(if program.ends_with("dio") { &["tar"][..] } else { &[] });
            let output = command
                .arg("-xf")
                .arg(&archive)
                .args(options)
                .current_dir(&dir)
                .env("LC_ALL", "C")
                .output();
            (said(&output.unwrap()), snapshot(&dir))
        });
        assert_eq!(theirs, ours, "umask {umask} {options:?}");
    }
}

#[test]
fn no_page_stays_in_the_cache() {
    let source = Source::new();
    let archive = source.archive(&["-H", "pax"]);
    let target = source.scratch.path().join("target");
    std::fs::create_dir(&target).unwrap();
    rustix::fs::fadvise(
        std::fs::File::open(&archive).unwrap(),
        0,
        None,
        rustix::fs::Advice::DontNeed,
    )
    .unwrap();
    std::fs::File::open(&archive).unwrap().sync_all().unwrap();
    rustix::fs::fadvise(
        std::fs::File::open(&archive).unwrap(),
        0,
        None,
        rustix::fs::Advice::DontNeed,
    )
    .unwrap();
    let output = dio(&target, &["-xf", archive.to_str().unwrap(), "--receipt=receipt.json"]);
    assert!(output.status.success(), "{output:?}");
    if rustix::fs::statfs(&target).unwrap().f_type as u64 == 0x0102_1994 {
        return dio_test::skip!("the page cache is the storage here");
    }
    for file in ["big", "mid", "sp2", "g", "d/f", "many/3/10"] {
        assert_eq!(resident_pages(target.join(file)), 0, "{file}");
    }
    assert_eq!(resident_pages(&archive), 0);
    let receipt = std::fs::read_to_string(target.join("receipt.json")).unwrap();
    assert!(
        receipt.contains("\"durable\": true") || receipt.contains("\"durable\":true"),
        "{receipt}"
    );
}

#[test]
fn what_is_left_of_a_truncated_archive_is_kept_and_told() {
    let scratch = Scratch::new();
    for content in ["little", &"x".repeat(100_000), &"y".repeat(5_000_000)] {
        let mut whole = Builder::new().file("first", "1").file("cut", content).end();
        whole.truncate(1536 + content.len() / 2);
        let archive = scratch.path().join("archive.tar");
        std::fs::write(&archive, whole).unwrap();
        let target = scratch.path().join("target");
        let _ = std::fs::remove_dir_all(&target);
        std::fs::create_dir(&target).unwrap();
        let output = dio(&target, &["-xf", archive.to_str().unwrap()]);
        let (status, _, told) = said(&output);
        assert_eq!(status, Some(2));
        assert_eq!(
            told,
            ["tar: Error is not recoverable: exiting now", "tar: Unexpected EOF in archive"]
        );
        let left = std::fs::read_to_string(target.join("cut")).unwrap();
        assert_eq!(left.len(), content.len() / 2);
        assert!(content.starts_with(&left));
        assert_eq!(std::fs::read_to_string(target.join("first")).unwrap(), "1");
    }
}

#[test]
fn failures_have_the_words_and_status_of_gnu() {
    let source = Source::new();
    let archive = source.archive(&["-H", "gnu", "-S"]);
    let archive = archive.to_str().unwrap();
    let dir = source.scratch.path();
    for args in [
        &["-xf", "/nonexistent"][..],
        &["-xf", archive, "-C", "/nonexistent"],
        &["-xf", "tree/mid", "-C", "tree/ro"],
    ] {
        assert_eq!(said(&gnu(dir, args)), said(&dio(dir, args)), "{args:?}");
    }
    let script = format!("exec {} tar -xOf \"$1\" ./big > /dev/full", env!("CARGO_BIN_EXE_dio"));
    let output =
        Command::new("sh").args(["-c", &script, "sh", archive]).current_dir(dir).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("No space left"), "{output:?}");
    let mut pipe =
        dio_command(dir, &["-xOf", archive, "./big"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(pipe.stdout.take());
    assert_eq!(pipe.wait().unwrap().signal(), Some(13));
}

/// When the disk is full, only the files that do not fit are missing; the files that they would
/// have replaced stay.
#[test]
fn full_disks_are_told() {
    if !is_root() {
        return dio_test::skip!("a small disk can only be mounted by root");
    }
    let scratch = Scratch::new();
    let target = scratch.path().join("target");
    std::fs::create_dir(&target).unwrap();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"])
        .arg(&target)
        .status()
        .unwrap();
    if !mounted.success() {
        return dio_test::skip!("no tmpfs can be mounted here");
    }
    let archive = scratch.path().join("archive.tar");
    let (middle, large) = ("m".repeat(1_500_000), "l".repeat(6_000_000));
    let build = Builder::new().file("a", "fits").file("large", &large).file("middle", &middle);
    std::fs::write(&archive, build.end()).unwrap();
    std::fs::write(target.join("large"), "old").unwrap();
    std::fs::write(target.join("middle"), "old").unwrap();
    let output = dio(&target, &["-xf", archive.to_str().unwrap()]);
    let seen =
        ["a", "large", "middle"].map(|name| std::fs::read_to_string(target.join(name)).unwrap());
    let names = std::fs::read_dir(&target).unwrap().count();
    assert!(Command::new("umount").arg(&target).status().unwrap().success());
    let (status, _, told) = said(&output);
    assert_eq!(status, Some(2));
    assert_eq!(seen, ["fits", "old", "old"], "{told:?}");
    assert_eq!(names, 3, "something temporary was left");
    for file in ["large", "middle"] {
        assert!(
            told.contains(&format!("tar: {file}: Cannot write: No space left on device")),
            "{told:?}"
        );
    }
}

/// Starts an extraction from a pipe that has delivered a part of a large file, and waits until that
/// part was read.
fn half_done(target: &Path) -> (Child, std::process::ChildStdin) {
    let mut child = dio_command(target, &["-xf", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    let begun = Builder::new().file("first", "1").header(b'0', b"large", b"", 0o644, 64 << 20);
    pipe.write_all(&begun.bytes).unwrap();
    for _ in 0..8 {
        pipe.write_all(&vec![b'x'; 1 << 20]).unwrap();
    }
    let limit = Instant::now() + Duration::from_secs(60);
    while !target.join("first").exists() {
        assert!(Instant::now() < limit, "nothing was extracted");
        std::thread::sleep(Duration::from_millis(5));
    }
    (child, pipe)
}

#[test]
fn signals_leave_no_part_of_a_file() {
    for (signal, number) in [(Signal::INT, 2), (Signal::TERM, 15), (Signal::KILL, 9)] {
        let scratch = Scratch::new();
        std::fs::write(scratch.path().join("large"), "old").unwrap();
        let (mut child, mut pipe) = half_done(scratch.path());
        kill_process(Pid::from_child(&child), signal).unwrap();
        // The process may be waiting for bytes. Then it ends with the pipe.
        let _ = pipe.write_all(&vec![b'x'; 1 << 20]);
        drop(pipe);
        let status = child.wait().unwrap();
        assert_eq!(status.signal(), Some(number), "{status:?}");
        let mut names: Vec<_> = std::fs::read_dir(scratch.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        assert_eq!(names, ["first", "large"]);
        assert_eq!(std::fs::read_to_string(scratch.path().join("large")).unwrap(), "old");
    }
}

const CHANGES: &[&str] = &[
    ":",
    "chmod 600 d/f; echo more >> g; rm l; ln -s h l; rm h; cp g h",
    "rm d/f; rm -r many/1",
    "printf X | dd of=mid bs=1 seek=100000 conv=notrunc status=none; touch -d '2001-02-03 \
     04:05:06.789012345' mid",
    "rm -rf ro; echo > ro; rm l; echo > l; touch -d 2001-01-01 g; rm h",
    "rm p; echo > p; rm -r d; ln -s / d; truncate -s 1 big",
    "printf zz | dd of=sp2 bs=1 seek=9000000 conv=notrunc status=none",
    "printf zz | dd of=sp2 bs=1 seek=14000000 conv=notrunc status=none",
];

#[test]
fn differences_are_told_as_by_gnu() {
    let source = Source::new();
    let archives = [source.archive(&["-H", "gnu", "-S"]), source.archive(&["-H", "pax"])];
    for change in CHANGES {
        for archive in &archives {
            let dir = source.scratch.path().join("compared");
            let _ = std::fs::remove_dir_all(&dir);
            std::fs::create_dir(&dir).unwrap();
            assert!(gnu(&dir, &["-xpf", archive.to_str().unwrap()]).status.success());
            shell(&dir, change);
            for args in [&["-df"][..], &["--diff", "-vf"]] {
                let args = [args, &[archive.to_str().unwrap()]].concat();
                assert_eq!(
                    said(&gnu(&dir, &args)),
                    said(&dio(&dir, &args)),
                    "{args:?} after {change}"
                );
            }
        }
    }
}

//! `dio tar -x`, `-t` and `-d` with members that conflict with each other, under limits, and with
//! hostile headers and streams.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use crate::archive::Builder;
use crate::support::{Scratch, is_root, snapshot};
use dio_test::MemoryGroup;

/// Runs a shell script in `dir`, in which `@` is replaced by tar: dio's if `ours`, else GNU's.
fn run(dir: &Path, script: &str, ours: bool) -> Output {
    let tar = if ours { format!("{} tar", env!("CARGO_BIN_EXE_dio")) } else { "tar".to_owned() };
    let mut command = Command::new("bash");
    command
        .args(["-c", &script.replace('@', &tar)])
        .current_dir(dir)
        .env("LC_ALL", "C")
        .env("TZ", "UTC");
    command.env("RUST_BACKTRACE", "0").output().unwrap()
}

/// Status, output, and sorted messages: several threads write files, so the order of messages
/// varies.
fn seen(output: &Output) -> (Option<i32>, String, Vec<String>) {
    let told = String::from_utf8_lossy(&output.stderr).replace("dio tar: ", "tar: ");
    let mut told: Vec<String> = told.lines().map(str::to_owned).collect();
    told.sort();
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned(), told)
}

/// Runs a script with both programs, each in its own directory `j` beside the archive, and compares
/// the observable state of that directory and of `out`.
#[track_caller]
fn same(archive: &[u8], script: &str) {
    let [gnu, dio] = [false, true].map(|ours| {
        let scratch = Scratch::new();
        for dir in ["j", "out"] {
            std::fs::create_dir(scratch.path().join(dir)).unwrap();
        }
        std::fs::write(scratch.path().join("a.tar"), archive).unwrap();
        let output = run(&scratch.path().join("j"), script, ours);
        let trees = ["j", "out"].map(|dir| without_times(&scratch.path().join(dir)));
        (seen(&output), trees)
    });
    assert_eq!(dio, gnu, "{script}");
}

/// A tree, without the times of directories, which GNU tar sets too early.
fn without_times(dir: &Path) -> Vec<(String, String)> {
    let plain = |what: String| {
        if what.starts_with("dir") { what.split(" mtime").next().unwrap().to_owned() } else { what }
    };
    snapshot(dir).into_iter().map(|(name, what)| (name, plain(what))).collect()
}

/// If a later member replaces a directory, the directory's attributes are not set any more.
#[test]
fn directories_may_make_way() {
    let archive = Builder::new()
        .dir("d", 0o700)
        .file("d", "file")
        .dir("e", 0o711)
        .symlink("e", "d")
        .dir("f", 0o755);
    let archive = archive.dir("f/g", 0o700).file("f/g", "x").dir("f/h", 0o700).end();
    for options in
        ["", "-U", "--recursive-unlink", "--keep-newer-files", "--no-overwrite-dir", "--overwrite"]
    {
        same(&archive, &format!("@ -xf ../a.tar {options}"));
    }
}

/// A directory is not empty for a removal while files are being written into it by another path.
/// Files deep in it are removed with it.
#[test]
fn what_is_being_written_is_there_already() {
    let (mut aliased, mut deep) = (Builder::new(), Builder::new());
    for n in 0..100 {
        aliased = aliased.dir(&format!("d{n}"), 0o755).symlink(&format!("s{n}"), &format!("d{n}"));
        aliased =
            aliased.file(&format!("s{n}/x"), &"x".repeat(30_000)).file(&format!("d{n}"), "over it");
        aliased = aliased
            .file(&format!("s{n}/f"), &"f".repeat(30_000))
            .file(&format!("d{n}/f/y"), "in a file");
        deep = deep.dir(&format!("d{n}"), 0o755).file(&format!("d{n}/e/x"), &"x".repeat(30_000));
        deep = deep.dir(&format!("d{n}"), 0o755).file(&format!("d{n}/e/y"), "y");
    }
    same(&aliased.end(), "@ -xf ../a.tar");
    same(&deep.end(), "@ -xf ../a.tar --recursive-unlink");
}

/// Only regular files have content, whatever size the headers of other members state.
#[test]
fn only_files_have_content() {
    for kind in [b'1', b'2', b'3', b'5', b'6'] {
        if kind == b'3' && !is_root() {
            continue;
        }
        let archive = Builder::new().file("there", "x").header(kind, b"odd", b"there", 0o755, 512);
        same(&archive.file("next", "y").file("last", "z").end(), "@ -xf ../a.tar");
    }
}

#[test]
fn the_top_directory_may_be_anywhere() {
    let archive = Builder::new().file("a/b", "x").file("c", "y").dir("out", 0o750);
    for top in ["../out/z/deep", "$PWD/../out/z", "q/r", "l", "l/"] {
        same(
            &archive.clone().end(),
            &format!("ln -s ../out l; @ -xf ../a.tar --one-top-level={top}"),
        );
    }
    // GNU tar looks for the other name outside of the directory.
    let scratch = Scratch::new();
    std::fs::write(scratch.path().join("a.tar"), archive.hard_link("h", "a/b").end()).unwrap();
    let output =
        run(scratch.path(), "@ -xf a.tar --one-top-level=$PWD/z && test z/h -ef z/a/b", true);
    assert_eq!(seen(&output), (Some(0), String::new(), vec![]));
}

#[test]
fn two_ways_to_treat_existing_files_are_refused() {
    let ways =
        "-k --skip-old-files --keep-newer-files --overwrite -U --no-overwrite-dir --overwrite-dir";
    let ways: Vec<&str> = ways.split(' ').collect();
    let scratch = Scratch::new();
    std::fs::write(scratch.path().join("a"), Builder::new().file("f", "x").end()).unwrap();
    for one in &ways {
        for two in &ways {
            let script = format!("@ -xf a {one} {two}; s=$?; rm -f f; exit $s");
            let [gnu, dio] = [false, true].map(|ours| run(scratch.path(), &script, ours));
            let first = |output: &Output| {
                let (status, _, _) = seen(output);
                let told = String::from_utf8_lossy(&output.stderr).replace("dio tar: ", "tar: ");
                (status, told.lines().next().unwrap_or_default().to_owned())
            };
            assert_eq!(first(&dio), first(&gnu), "{script}");
        }
    }
}

/// If the list cannot be written, an error is printed, and the rest of the work is done.
#[test]
fn lists_that_cannot_be_written_are_told() {
    let scratch = Scratch::new();
    let archive = Builder::new().file("f", "x").file("g", "y").end();
    std::fs::write(scratch.path().join("a.tar"), archive).unwrap();
    for to in ["/dev/full", "&-"] {
        for (operation, made) in [
            ("-tf a.tar", ""),
            ("-tvf a.tar", ""),
            ("-xvf a.tar", "f g"),
            ("-cvf b.tar a.tar", "b.tar"),
        ] {
            let output = run(scratch.path(), &format!("@ {operation} >{to}"), true);
            let (status, _, told) = seen(&output);
            let words = if to == "&-" { "Bad file descriptor" } else { "No space left on device" };
            assert_eq!(status, Some(2), "{operation} >{to}: {told:?}");
            assert_eq!(
                told.iter().filter(|line| line.contains("write error")).count(),
                1,
                "{operation} >{to}: {told:?}"
            );
            assert!(
                told.contains(&format!("tar: write error: {words}")),
                "{operation} >{to}: {told:?}"
            );
            for name in made.split_whitespace() {
                std::fs::remove_file(scratch.path().join(name)).unwrap();
            }
        }
        // Nothing is listed, so there is no error.
        let quiet = run(scratch.path(), &format!("@ -xf a.tar >{to} && @ -df a.tar >{to}"), true);
        assert_eq!(seen(&quiet), (Some(0), String::new(), vec![]));
    }
}

/// Text from an archive must not reach a terminal as a control sequence.
#[test]
fn lists_do_not_steer_the_terminal() {
    let evil = "e\x1b[31m\u{9b}2J\x07";
    let records: &[(&str, &[u8])] = &[
        ("uname", evil.as_bytes()),
        ("gname", b"DOMAIN\\group \x9b1m"),
        ("path", evil.as_bytes()),
        ("linkpath", evil.as_bytes()),
        ("SCHILY.acl.access", b"user::rwx,\x1b[1m"),
        ("SCHILY.xattr.user.\x1b[1m", b"x"),
        (evil, b"x"),
        ("mtime", evil.as_bytes()),
    ];
    let mut archive = Builder::new();
    for kind in [b'0', b'1', b'2', b'\x1b'] {
        archive = archive.pax(records).header(kind, b"x", b"y", 0o644, 0);
    }
    let scratch = Scratch::new();
    std::fs::write(scratch.path().join("a.tar"), archive.end()).unwrap();
    for operation in ["-tf", "-tvf", "-tvvf", "-xvvvf", "-df"] {
        let output = run(
            scratch.path(),
            &format!("@ --xattrs --acls --xattrs-include='*' {operation} a.tar"),
            true,
        );
        let all = [output.stdout, output.stderr].concat();
        assert!(
            !all.iter().any(|&byte| byte < b' ' && byte != b'\n' || byte == 0x9b),
            "{}",
            String::from_utf8_lossy(&all)
        );
        if operation == "-tvf" {
            assert!(
                String::from_utf8_lossy(&all).contains("DOMAIN\\group \\2331m"),
                "{}",
                String::from_utf8_lossy(&all)
            );
        }
    }
}

/// Headers with very many records are read in time proportional to their number, not to its square,
/// or are refused.
#[test]
fn very_many_records_are_no_burden() {
    let numbered = |prefix: &str, count: usize| -> Vec<(String, Vec<u8>)> {
        (0..count).map(|n| (format!("{prefix}{n}"), b"AA".to_vec())).collect()
    };
    let mut records = numbered("SCHILY.xattr.user.", 200_000);
    records.extend(numbered("LIBARCHIVE.xattr.user.other", 200_000));
    let borrowed: Vec<(&str, &[u8])> =
        records.iter().map(|(key, value)| (key.as_str(), &value[..])).collect();
    let scratch = Scratch::new();
    let attributes = Builder::new().pax(&borrowed).file("f", "x").end();
    std::fs::write(scratch.path().join("attributes.tar"), attributes).unwrap();
    let output = run(scratch.path(), "timeout 60 @ --xattrs -tvvf attributes.tar | wc -l", true);
    assert_eq!(seen(&output), (Some(0), "400001\n".to_owned(), vec![]));
    // A global header costs time for each entry.
    let records = numbered("comment", 2000);
    let borrowed: Vec<(&str, &[u8])> =
        records.iter().map(|(key, value)| (key.as_str(), &value[..])).collect();
    let mut global = Builder::new().pax(&borrowed).file("f", "x").end();
    global[156] = b'g';
    crate::archive::sign(&mut global[..512]);
    std::fs::write(scratch.path().join("global.tar"), global).unwrap();
    let (status, _, told) = seen(&run(scratch.path(), "@ -tf global.tar", true));
    assert_eq!(status, Some(2));
    assert!(told.iter().any(|line| line.contains("more than 1024 records")), "{told:?}");
}

/// dio needs little memory to read archives that it has made, whatever they hold.
#[test]
fn memory_is_bounded() {
    let Some(group) = MemoryGroup::new(160 << 20) else { return };
    let scratch = Scratch::new();
    let script = format!(
        "mkdir t j k; for n in $(seq 60); do head -c 1500000 /dev/urandom > t/$n; done; \
         head -c 260000000 /dev/urandom > t/large; truncate -s 3G t/holes; echo end >> t/holes; \
         (echo $BASHPID > {} && @ -Scf a.tar t && @ -xf a.tar -C j && @ -df a.tar && \
          @ -czf packed t/1 t/holes -S && @ -xf packed -C k); s=$?; \
         cmp t/large j/t/large && cmp t/7 j/t/7 && tail -c 4 k/t/holes && exit $s",
        group.procs().display()
    );
    let output = run(scratch.path(), &script, true);
    assert_eq!(seen(&output), (Some(0), "end\n".to_owned(), vec![]));
}

/// If nothing can be made, an error is printed for each member, and nothing else happens.
#[test]
fn targets_that_cannot_be_written_are_told() {
    if !is_root() {
        return dio_test::skip!("file systems are mounted by root");
    }
    let archive = Builder::new()
        .dir("d", 0o755)
        .file("d/f", "x")
        .file("large", &"l".repeat(3_000_000))
        .symlink("s", "d");
    let archive = archive.hard_link("h", "s").named(b'6', "p", "", 0o644, "").end();
    let scratch = Scratch::new();
    let dio = scratch.dio();
    std::fs::write(scratch.path().join("a.tar"), archive).unwrap();
    std::fs::create_dir(scratch.path().join("j")).unwrap();
    symlink(&dio, scratch.path().join("tar")).unwrap();
    let nobody = "setpriv --reuid=65534 --regid=65534 --clear-groups";
    for (script, words) in [
        (
            "unshare -m sh -c 'mount -t tmpfs -o ro tmpfs j && ./tar -xf a.tar -C j'".to_owned(),
            "Read-only file system",
        ),
        (format!("chmod 755 j; {nobody} ./tar -xf a.tar -C j"), "Permission denied"),
    ] {
        let output = run(scratch.path(), &script, true);
        let (status, out, told) = seen(&output);
        if told.iter().any(|line| line.contains("unshare") || line.contains("mount:")) {
            dio_test::skip!("nothing can be mounted here");
            continue;
        }
        assert_eq!((status, out.as_str()), (Some(2), ""), "{told:?}");
        let doing = [
            "d: Cannot mkdir",
            "d/f: Cannot open",
            "large: Cannot open",
            "s: Cannot create symlink to 'd'",
            "p: Cannot mkfifo",
        ];
        for doing in doing {
            assert!(told.contains(&format!("tar: {doing}: {words}")), "{doing}: {told:?}");
        }
        assert_eq!(told.len(), doing.len() + 2, "{told:?}");
        assert_eq!(std::fs::read_dir(scratch.path().join("j")).unwrap().count(), 0);
    }
}

//! Edge cases of `dio cp` in which data must not be lost and false claims must not be made.

use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::own::{
    MIB, Mounted, Running, file_systems, good, is_root, json, names, number, run, same_bytes,
    source,
};
use rustix::process::Signal;
use tempfile::TempDir;

/// Slow enough to be interrupted in the middle.
const SLOW: &str = "--reflink=never --limit 4M";

/// ID of a user that owns no files.
const NOBODY: u32 = 65534;

/// Returns a directory that every user may enter, and the path of the program in it. Returns `None`
/// if the test cannot run as another user.
fn for_everyone() -> Option<(TempDir, PathBuf)> {
    if !is_root() {
        crate::own::skip!("running as another user needs root");
        return None;
    }
    let dir = file_systems()[0].dir();
    mode(dir.path(), 0o755);
    let program = dir.path().join("dio");
    dio_test::copy_program(env!("CARGO_BIN_EXE_dio"), &program);
    mode(&program, 0o755);
    Some((dir, program))
}

fn mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

fn own_by(path: &Path, user: u32) {
    std::os::unix::fs::chown(path, Some(user), Some(user)).unwrap();
}

/// Runs `dio cp` as a user that owns no files.
fn as_nobody(program: &Path, flags: &str, operands: &[&Path]) -> crate::own::Output {
    let mut command = Command::new(program);
    command
        .arg("cp")
        .args(flags.split_whitespace())
        .args(operands)
        .env("LC_ALL", "C.UTF-8")
        .env_remove("DIO_ENGINE");
    dio_test::run(command.uid(NOBODY).gid(NOBODY))
}

#[test]
fn an_atomic_copy_keeps_a_target_that_gnu_cp_would_remove_first() {
    let dir = file_systems()[0].dir();
    let from = source(dir.path(), "from", 16 * MIB);
    for flags in ["-a", "--remove-destination"] {
        let (to, other) = (dir.path().join("to"), dir.path().join("other"));
        std::fs::write(&to, "old").unwrap();
        std::fs::hard_link(&to, &other).unwrap();
        let running = Running::start(&format!("{flags} --atomic {SLOW}"), &[&from, &to]);
        crate::own::until_moved(&running, 2 * crate::own::MIB);
        assert_eq!(std::fs::read(&to).unwrap(), b"old", "{flags}");
        running.signal(Signal::KILL);
        assert_eq!(crate::own::signal_of(&running.end()), Some(9), "{flags}: it was under way");
        assert_eq!(std::fs::read(&to).unwrap(), b"old", "{flags}");
        good(&format!("{flags} --atomic"), &[&from, &to]);
        same_bytes(&from, &to);
        assert_eq!(
            std::fs::read(&other).unwrap(),
            b"old",
            "{flags}: the other name keeps its file"
        );
        assert_eq!(names(dir.path()), ["from", "other", "to"], "{flags}");
        std::fs::remove_file(&other).unwrap();
        std::fs::remove_file(&to).unwrap();
    }
}

#[test]
fn a_forced_atomic_copy_replaces_an_unwritable_target_only_at_the_end() {
    let Some((dir, program)) = for_everyone() else { return };
    let from = source(dir.path(), "from", MIB);
    let ours = dir.path().join("ours");
    std::fs::create_dir(&ours).unwrap();
    own_by(&ours, NOBODY);
    let to = ours.join("to");
    std::fs::write(&to, "old").unwrap();
    mode(&to, 0o444);
    let refused = as_nobody(&program, "--atomic", &[&from, &to]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert_eq!(std::fs::read(&to).unwrap(), b"old");
    let inode = to.metadata().unwrap().ino();
    // A limit on the size of files makes the copy fail in the middle.
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' XFSZ; ulimit -f 512; exec \"$0\" cp -f --atomic \"$1\" \"$2\""]);
    let failed = dio_test::run(command.arg(&program).args([&from, &to]).uid(NOBODY).gid(NOBODY));
    assert_eq!(failed.status.code(), Some(1), "{failed:?}");
    assert_eq!(to.metadata().unwrap().ino(), inode, "an error leaves the target as it was");
    assert_eq!(std::fs::read(&to).unwrap(), b"old");
    let done = as_nobody(&program, "-f --atomic", &[&from, &to]);
    assert!(done.status.success(), "{done:?}");
    same_bytes(&from, &to);
    assert_eq!(to.metadata().unwrap().uid(), NOBODY);
    assert_eq!(names(&ours), ["to"]);
}

#[test]
fn a_file_that_becomes_ours_lends_nothing() {
    let Some((dir, program)) = for_everyone() else { return };
    let from = source(dir.path(), "from", 5);
    let ours = dir.path().join("ours");
    std::fs::create_dir(&ours).unwrap();
    own_by(&ours, NOBODY);
    let to = ours.join("to");
    std::fs::write(&to, "old").unwrap();
    mode(&to, 0o6777);
    let done = as_nobody(&program, "--atomic", &[&from, &to]);
    assert!(done.status.success(), "{done:?}");
    let meta = to.metadata().unwrap();
    assert_eq!((meta.uid(), meta.mode() & 0o7777), (NOBODY, 0o777));
}

#[test]
fn a_tree_into_a_directory_that_may_not_be_read_is_synced() {
    let Some((dir, program)) = for_everyone() else { return };
    let tree = dir.path().join("tree");
    std::fs::create_dir(&tree).unwrap();
    for name in ["a", "b"] {
        source(&tree, name, 100);
    }
    mode(&tree, 0o755);
    let drop = dir.path().join("drop");
    std::fs::create_dir(&drop).unwrap();
    mode(&drop, 0o733);
    for (flags, operands) in [("-r", vec![&*tree, &*drop]), ("", vec![&*program, &*drop])] {
        let done = as_nobody(&program, &format!("--receipt - {flags}"), &operands);
        assert!(done.status.success(), "{done:?}");
        let receipt = json(&done.stdout);
        assert_eq!(receipt["durable"], true, "{receipt:#}");
        // The file system is synced once, in addition to each file that is synced by itself.
        assert_eq!(
            number(&receipt, "requests.sync"),
            1 + u64::from(flags.is_empty()),
            "{receipt:#}"
        );
    }
    // No directory above it may be read either, so the sync of the file system goes through the
    // files that were written.
    let locked = dir.path().join("locked");
    let inner = locked.join("inner");
    std::fs::create_dir_all(&inner).unwrap();
    mode(&inner, 0o733);
    mode(&locked, 0o711);
    mode(dir.path(), 0o711);
    let done = as_nobody(&program, "--receipt - -r", &[&tree, &inner]);
    assert!(done.status.success(), "{done:?}");
    assert!(number(&json(&done.stdout), "requests.sync") > 0, "{done:?}");
}

#[test]
fn what_a_link_leads_to_is_synced_where_it_is() {
    let Some(elsewhere) = Mounted::new(&["mkfs.ext4", "-q"], 64 << 20) else { return };
    let dir = file_systems()[0].dir();
    let (tree, to) = (dir.path().join("tree"), dir.path().join("to"));
    std::fs::create_dir(&tree).unwrap();
    std::fs::create_dir(&to).unwrap();
    let from = source(&tree, "file", 300_000);
    let real = elsewhere.path.join("real");
    std::fs::write(&real, "old").unwrap();
    symlink(&real, to.join("file")).unwrap();
    let done = run("-rT --receipt -", &[&tree, &to]);
    assert!(done.status.success(), "{done:?}");
    assert_eq!(
        number(&json(&done.stdout), "requests.sync"),
        2,
        "each of two file systems: {done:?}"
    );
    elsewhere.cut_power();
    same_bytes(&from, &real);
}

#[test]
fn a_wait_for_a_pipe_ends_at_the_first_signal() {
    let dir = file_systems()[0].dir();
    let to = dir.path().join("to");
    let mut command = crate::own::cp();
    command.args(["/dev/stdin".as_ref(), to.as_os_str()]);
    // The pipe stays open and empty.
    let (reader, _writer) = std::io::pipe().unwrap();
    let mut child =
        command.stdin(reader).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    crate::own::until_caught(pid, Signal::INT);
    crate::own::until_asleep(pid);
    rustix::process::kill_process(pid, Signal::INT).unwrap();
    crate::own::until("it stops", || child.try_wait().unwrap().is_some());
    assert_eq!(child.wait().unwrap().signal(), Some(2));
}

#[test]
fn verification_tells_where_it_read_the_cache() {
    for fs in file_systems() {
        let dir = fs.dir();
        let (from, to) = (source(dir.path(), "from", MIB + 7), dir.path().join("to"));
        let output = run("--verify", &[&from, &to]);
        assert!(output.status.success(), "{}: {output:?}", fs.name);
        let told = output.stderr.contains("verified through the page cache");
        if crate::own::in_memory(&fs) {
            assert!(told, "{}: {output:?}", fs.name);
        } else if crate::own::is_direct(&fs) {
            assert!(!told, "{}: {output:?}", fs.name);
        }
    }
}

#[test]
fn small_files_that_hold_less_than_they_say_are_copied() {
    let (from, dir) =
        (Path::new("/sys/kernel/mm/transparent_hugepage/enabled"), file_systems()[0].dir());
    let Ok(text) = std::fs::read(from) else { return crate::own::skip!("no {}", from.display()) };
    let to = dir.path().join("to");
    good("", &[from, &to]);
    assert_eq!(std::fs::read(&to).unwrap(), text);
}

#[test]
fn parents_leave_alone_what_a_link_leads_to() {
    let dir = file_systems()[0].dir();
    let path = |name: &str| dir.path().join(name);
    for name in ["a/b", "private/old", "to"] {
        std::fs::create_dir_all(path(name)).unwrap();
    }
    std::fs::write(path("a/b/f"), "x").unwrap();
    mode(&path("a"), 0o777);
    mode(&path("private"), 0o700);
    symlink("../private", path("to/a")).unwrap();
    let command = |args: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dio"));
        command.arg("cp").args(args.split(' ')).current_dir(dir.path());
        dio_test::run(&mut command)
    };
    if is_root() {
        own_by(&path("a"), NOBODY);
    }
    let output = command("-a --parents a/b/f to");
    assert!(output.status.success(), "{output:?}");
    let after = path("private").metadata().unwrap();
    assert_eq!(after.mode() & 0o7777, 0o700);
    assert_eq!(after.uid(), path("to").metadata().unwrap().uid());
    assert_eq!(
        std::fs::read(path("private/b/f")).unwrap(),
        b"x",
        "the link is followed, as by GNU cp"
    );
}

#[test]
fn a_directory_of_somebody_else_hands_down_no_acl() {
    if !is_root() || Command::new("setfacl").arg("--version").output().is_err() {
        crate::own::skip!("a default ACL of another user's needs root and setfacl");
        return;
    }
    let dir = file_systems()[0].dir();
    let path = |name: &str| dir.path().join(name);
    std::fs::create_dir_all(path("from/d")).unwrap();
    std::fs::create_dir(path("to")).unwrap();
    for name in ["from/f", "from/d/f"] {
        std::fs::write(path(name), "x").unwrap();
        mode(&path(name), 0o640);
    }
    own_by(&path("to"), NOBODY);
    let set =
        Command::new("setfacl").args(["-m", "d:u:nobody:rwx"]).arg(path("to")).status().unwrap();
    if !set.success() {
        return crate::own::skip!("no ACLs here");
    }
    good("-a", &[&path("from"), &path("to")]);
    for name in ["to/from", "to/from/d", "to/from/f", "to/from/d/f"] {
        let listed = Command::new("getfacl").arg("-cp").arg(path(name)).output().unwrap();
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        assert!(!listed.contains("nobody") && !listed.contains("65534"), "{name}: {listed}");
    }
}

/// The hard link must be made to the file that `cp` examined. A question makes `cp` wait in
/// between, and meanwhile the source is exchanged.
#[test]
fn a_hard_link_is_made_to_what_was_looked_at() {
    // Flags, the source, the file that replaces it, and whether `cp` notices that.
    let cases: [(&str, &str, &str, bool); 7] = [
        ("-li", "file", "other", true),
        ("-liL", "link", "stray", true),
        ("-liP", "link", "stray", true),
        ("-liH", "link", "stray", true),
        ("-liP", "link", "other", true),
        ("-liL", "link", "link2", false),
        ("-liP", "file", "stray", true),
    ];
    for (flags, name, exchanged, refused) in cases {
        let dir = file_systems()[0].dir();
        let path = |name: &str| dir.path().join(name);
        for name in ["file", "other", "to"] {
            std::fs::write(path(name), name).unwrap();
        }
        for (name, leads_to) in [("link", "file"), ("link2", "file"), ("stray", "other")] {
            symlink(leads_to, path(name)).unwrap();
        }
        let inode = |name: &str| path(name).symlink_metadata().map(|meta| meta.ino()).ok();
        let (old, file) = (inode("to"), inode("file"));
        let mut command = crate::own::cp();
        command.args([flags.as_ref(), path(name).as_os_str(), path("to").as_os_str()]);
        let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut asked = [0; 32];
        let count = child.stderr.as_mut().unwrap().read(&mut asked).unwrap();
        assert!(count > 0, "{flags} {name}: it asks");
        let (here, exchange) = (rustix::fs::CWD, rustix::fs::RenameFlags::EXCHANGE);
        rustix::fs::renameat_with(here, path(name), here, path(exchanged), exchange).unwrap();
        child.stdin.take().unwrap().write_all(b"y\n").unwrap();
        let output = child.wait_with_output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.success(), !refused, "{flags} {name} for {exchanged}: {told}");
        // For a symbolic link, cp removes the old target first.
        let removed = refused && inode("to").is_none() && name == "link";
        let as_it_should_be = removed || inode("to") == if refused { old } else { file };
        assert!(as_it_should_be, "{flags} {name} for {exchanged}: {told}");
        assert_eq!(
            told.contains("as it was replaced"),
            refused,
            "{flags} {name} for {exchanged}: {told}"
        );
    }
}

/// Further hard links are made to the inode that was written, even if the target existed before.
#[test]
fn further_links_are_made_to_what_was_written() {
    if !Command::new("strace")
        .args(["-o", "/dev/null", "true"])
        .status()
        .is_ok_and(|status| status.success())
    {
        return crate::own::skip!("strace is not there, or may not trace");
    }
    let dir = file_systems()[0].dir();
    let path = |name: &str| dir.path().join(name);
    std::fs::create_dir(path("to")).unwrap();
    for (name, text) in [("1", "new"), ("to/1", "old"), ("other", "other")] {
        std::fs::write(path(name), text).unwrap();
    }
    std::fs::hard_link(path("1"), path("2")).unwrap();
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync,fdatasync"]);
    strace.args([
        "--inject=fsync,fdatasync:delay_exit=1000000",
        env!("CARGO_BIN_EXE_dio"),
        "cp",
        "-d",
    ]);
    strace
        .args([path("1"), path("2"), path("to")])
        .env("DIO_ENGINE", "blocking")
        .env("LC_ALL", "C.UTF-8");
    let running = Running::spawn(&mut strace);
    crate::own::until("it is written", || std::fs::read(path("to/1")).unwrap() == b"new");
    let (here, exchange) = (rustix::fs::CWD, rustix::fs::RenameFlags::EXCHANGE);
    rustix::fs::renameat_with(here, path("to/1"), here, path("other"), exchange).unwrap();
    let output = running.end();
    assert!(
        !path("to/2").exists() && output.stderr.contains("cannot create hard link"),
        "{output:?}"
    );
}

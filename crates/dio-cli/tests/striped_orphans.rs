//! `dio stripe orphans`: finds and removes what is left of striped files, and nothing else.

use std::fs;
use std::process::Command;

use crate::striped_support::{Pair, dio, good, lines};
use dio_test::file_systems;

/// Objects whose file is gone are found and removed. Objects of existing files, moved or not, are
/// not listed.
#[test]
fn objects_without_a_file_are_found() {
    let pair = Pair::on(&file_systems()[0], &lines(100_000));
    let dir = &pair.dir;
    good(dir, &["stripe", "set", "-t", "a,b", "gone", "moved", "renamed"]);
    good(dir, &["cp", "contents", "gone"]);
    fs::create_dir_all(dir.join("far/away")).unwrap();
    fs::rename(dir.join("moved"), dir.join("far/away/moved")).unwrap();
    fs::rename(dir.join("renamed"), dir.join("another")).unwrap();
    assert!(dio(dir, &["stripe", "orphans", "--heads", "far", "a", "b", "c"]).status.success());
    fs::remove_file(dir.join("gone")).unwrap();
    let found = dio(dir, &["stripe", "orphans", "--heads", "far", "a", "b", "c"]);
    assert!(found.status.code() == Some(1) && found.stdout.lines().count() == 3, "{found:?}");
    assert!(found.stdout.contains("/gone'") && found.stdout.contains("/b/.dio-"), "{found:?}");
    // The question gets no answer.
    let mut asked = Command::new(env!("CARGO_BIN_EXE_dio"));
    asked.args(["stripe", "orphans", "--heads", "far", "--rm", "a", "b"]).current_dir(dir);
    let refused = dio_test::run(asked.stdin(std::process::Stdio::null()));
    assert!(
        refused.status.code() == Some(1) && refused.stderr.contains("really gone"),
        "{refused:?}"
    );
    good(dir, &["stripe", "orphans", "--heads", "far", "--rm", "--yes", "a", "b", "c"]);
    assert_eq!(
        ["a", "b", "c"].map(|name| fs::read_dir(dir.join(name)).unwrap().count()),
        [3, 3, 1]
    );
    good(dir, &["stripe", "check", "far/away/moved", "another", "striped/file"]);
}

/// The remains of a crash at the beginning of a creation are found and removed, but neither a file
/// that may still be in creation, nor anything that holds bytes or belongs to a file.
#[test]
fn beginnings_of_files_are_found_when_nobody_makes_them() {
    let pair = Pair::on(&file_systems()[0], b"");
    let dir = &pair.dir;
    let [one, two, three] = [1, 2, 3].map(|number| format!(".dio-{number:032x}"));
    let at =
        |directory: &str, name: &str, end: &str| dir.join(directory).join(format!("{name}{end}"));
    // The creation was cut off before the first object, between objects, or after the last one.
    fs::write(at("plain", &one, ".0.new"), "").unwrap();
    fs::write(at("a", &two, ".0"), "").unwrap();
    fs::write(at("b", &three, ".1"), "bytes").unwrap();
    good(dir, &["stripe", "set", "-t", "a,b", "late"]);
    let object = dio::stripe::inspect(dir.join("late")).unwrap().unwrap().objects[0].path.clone();
    let new = dir.join(object.file_name().unwrap()).with_extension("0.new");
    fs::rename(dir.join("late"), &new).unwrap();
    // An object of an existing file is not listed, even if it was emptied.
    good(dir, &["stripe", "set", "-t", "a,b", "whole"]);
    let emptied = dio::stripe::inspect(dir.join("whole")).unwrap().unwrap().objects[1].path.clone();
    fs::write(&emptied, "").unwrap();

    assert_eq!(
        good(dir, &["stripe", "orphans", "--heads", ".", "a", "b", "c"]).stdout,
        "",
        "all of it is young"
    );
    let list = ["stripe", "orphans", "--age", "0", "a", "b", "c"];
    let made = fs::File::open(at("a", &two, ".0")).unwrap();
    rustix::fs::flock(&made, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let found = dio(dir, &list);
    let expected = [
        ("late', ", true),
        (".0.new", true),
        (&two[..], false),
        (&three[..], false),
        (&one[..], false),
    ];
    for (part, there) in expected {
        assert_eq!(found.stdout.contains(part), there, "{part}: {found:?}");
    }
    assert!(found.status.code() == Some(1) && found.stdout.lines().count() == 4, "{found:?}");
    drop(made);
    let found = dio(dir, &[&list[..], &["--heads", "."]].concat());
    assert!(
        found.stdout.contains("was never ready") && found.stdout.contains(&format!("{one}.0.new")),
        "{found:?}"
    );
    assert!(
        found.stdout.contains(&format!("{two}.0"))
            && !found.stdout.contains(emptied.to_str().unwrap()),
        "{found:?}"
    );
    good(dir, &[&list[..], &["--heads", ".", "--rm", "--yes"]].concat());
    assert!(
        !new.exists()
            && !object.exists()
            && !at("plain", &one, ".0.new").exists()
            && emptied.exists()
    );
    assert_eq!(
        ["a", "b", "c"].map(|name| fs::read_dir(dir.join(name)).unwrap().count()),
        [2, 3, 1]
    );
    assert_eq!(fs::read(at("b", &three, ".1")).unwrap(), b"bytes");
}

/// Objects are left if it is not certain that their file is gone: the file was moved and is open
/// for writing, its descriptor is damaged, its directory does not exist, or the target was given
/// under another name.
#[test]
fn objects_whose_file_may_be_there_are_left() {
    let pair = Pair::on(&file_systems()[0], &lines(100_000));
    let dir = &pair.dir;
    let objects = || ["a", "b"].map(|name| fs::read_dir(dir.join(name)).unwrap().count());
    let remove =
        |more: &[&str]| dio(dir, &[&["stripe", "orphans", "--rm", "--yes"][..], more].concat());
    ["x", "y", "far"].iter().for_each(|name| fs::create_dir(dir.join(name)).unwrap());
    good(dir, &["stripe", "rm", "striped/file"]);
    good(dir, &["stripe", "set", "-S", "4K", "-t", "a,b", "x/file"]);
    good(dir, &["cp", "contents", "x/file"]);
    // The file was moved, and a writer has it open.
    fs::rename(dir.join("x/file"), dir.join("far/file")).unwrap();
    let writer = dio::OpenOptions::new().write(true).open(dir.join("far/file")).unwrap();
    for places in [&["a", "b"][..], &["b"]] {
        assert_eq!(remove(places).status.code(), Some(1));
        assert_eq!(objects(), [1, 1], "{places:?}");
    }
    drop(writer);
    // Without the first object it is unknown whether a writer has the file open.
    let left = remove(&["b"]);
    assert!(left.stderr.contains("first object") && objects() == [1, 1], "{left:?}");
    // The directory in which the file was made no longer exists.
    fs::remove_dir(dir.join("x")).unwrap();
    let left = remove(&["a", "b"]);
    assert!(left.stderr.contains("is not there") && objects() == [1, 1], "{left:?}");
    fs::create_dir(dir.join("x")).unwrap();
    // The descriptor is damaged: changed, or longer than it should be.
    let sound = fs::read(dir.join("far/file")).unwrap();
    for (place, damage) in [("x/file", 0), ("x/file", 9), ("x/other", 0), ("x/other", 9)] {
        let mut damaged = sound.clone();
        damaged[300] ^= 1;
        damaged.extend(std::iter::repeat_n(b'x', damage));
        fs::write(dir.join(place), damaged).unwrap();
        let left = remove(&["a", "b"]);
        assert!(
            left.stderr.contains("a descriptor, but it is damaged") && objects() == [1, 1],
            "{left:?}"
        );
        fs::remove_file(dir.join(place)).unwrap();
    }
    // A whole file was appended to the descriptor itself: at its original path, beside that, and
    // elsewhere.
    for place in ["x/file", "x/other", "far/file"] {
        if place != "far/file" {
            fs::rename(dir.join("far/file"), dir.join(place)).unwrap();
        }
        let mut file = fs::OpenOptions::new().append(true).open(dir.join(place)).unwrap();
        std::io::Write::write_all(&mut file, &[b'x'; 100_000]).unwrap();
        let left = remove(&["--heads", "far", "a", "b"]);
        assert!(
            left.stderr.contains("something was written behind it") && objects() == [1, 1],
            "{place}: {left:?}"
        );
        file.set_len(sound.len() as u64).unwrap();
        if place != "far/file" {
            fs::rename(dir.join(place), dir.join("far/file")).unwrap();
        }
    }
    // The targets are given by another path.
    let bind = |what: &[&str]| {
        Command::new("mount").args(what).current_dir(dir).status().is_ok_and(|it| it.success())
    };
    if bind(&["--bind", "a", "y"]) {
        let known = dio(dir, &["stripe", "orphans", "--heads", "far", "y", "b"]);
        assert!(Command::new("umount").arg(dir.join("y")).status().unwrap().success());
        assert!(
            known.status.success() && known.stdout.is_empty() && known.stderr.is_empty(),
            "{known:?}"
        );
    }
    good(dir, &["stripe", "check", "far/file"]);
    fs::remove_file(dir.join("far/file")).unwrap();
    assert!(remove(&["a", "b"]).status.success());
    assert_eq!(objects(), [0, 0]);
}

/// An object names the file that it belongs to. The creator of the object can have put any name
/// there.
#[test]
fn an_object_does_not_lead_to_files_that_are_no_descriptors() {
    let pair = Pair::on(&file_systems()[0], &lines(1000));
    let dir = &pair.dir;
    fs::create_dir(dir.join("x")).unwrap();
    let place = |name: &str| {
        let file = dir.join("x/file");
        good(dir, &["stripe", "set", "-t", "a", "x/file"]);
        let object = dio::stripe::inspect(&file).unwrap().unwrap().objects[0].path.clone();
        fs::remove_file(file).unwrap();
        fs::remove_dir_all(dir.join("x")).unwrap();
        std::os::unix::fs::symlink(name, dir.join("x")).unwrap();
        object
    };
    // The command opens nothing on a file system of the kernel, and the object stays.
    let object = place("/proc/self");
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-e", "trace=openat,open,openat2", "-o"]).arg(dir.join("trace"));
    command
        .arg(env!("CARGO_BIN_EXE_dio"))
        .args(["stripe", "orphans", "--rm", "--yes", "a"])
        .current_dir(dir);
    let left = dio_test::run(&mut command);
    assert!(
        left.status.code() == Some(1) && left.stderr.contains("of the kernel's own"),
        "{left:?}"
    );
    let trace = fs::read_to_string(dir.join("trace")).unwrap();
    let opened: Vec<_> =
        trace.lines().filter(|line| line.contains("/x/") && !line.contains("O_PATH")).collect();
    assert!(object.exists() && opened.is_empty(), "{opened:?}");
    // Such a file system is also refused as an operand, and below one.
    for args in [&["/proc/self"][..], &["--heads", "/proc/self", "a"]] {
        let refused = dio(dir, &[&["stripe", "orphans"][..], args].concat());
        assert!(
            refused.status.code() == Some(1) && refused.stderr.contains("of the kernel's own"),
            "{refused:?}"
        );
    }
    // If a pipe has the name of the file, it is not opened. Pipes, and files of other lengths,
    // beside it are not opened either.
    fs::remove_file(dir.join("x")).unwrap();
    fs::create_dir(dir.join("x")).unwrap();
    for name in ["file", "other"] {
        rustix::fs::mkfifoat(rustix::fs::CWD, dir.join("x").join(name), 0o644.into()).unwrap();
    }
    fs::write(dir.join("x/large"), vec![b'x'; 100_000]).unwrap();
    fs::write(dir.join("x/like"), vec![b'x'; 8192]).unwrap();
    let found = dio_test::run(&mut command);
    assert!(found.status.success() && !object.exists(), "{found:?}");
    let trace = fs::read_to_string(dir.join("trace")).unwrap();
    assert!(!trace.contains("/x/large\", O_RDONLY|O_NONBLOCK"), "{trace}");
}

/// The default of a directory is read without waiting, and only if it is a regular file.
#[test]
fn a_default_that_is_no_regular_file_is_not_waited_for() {
    let pair = Pair::on(&file_systems()[0], &lines(10));
    let dir = &pair.dir;
    fs::create_dir(dir.join("x")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, dir.join("x/.dio-stripe"), 0o644.into()).unwrap();
    let shown = dio(dir, &["stripe", "show", "x"]);
    assert!(
        shown.status.code() == Some(1) && shown.stderr.contains("no regular file"),
        "{shown:?}"
    );
    // Another process holds a lease on the default and does not give it back.
    fs::remove_file(dir.join("x/.dio-stripe")).unwrap();
    good(dir, &["stripe", "set", "-t", "a", "x"]);
    let file = fs::OpenOptions::new().write(true).open(dir.join("x/.dio-stripe")).unwrap();
    let take = || dio_sys::take_lease(std::os::fd::AsFd::as_fd(&file), dio_sys::Lease::Everybody);
    if let Err(error) = dio_test::while_busy(take) {
        dio_test::skip!("no leases here: {error}");
        return;
    }
    let begun = std::time::Instant::now();
    let shown = dio(dir, &["stripe", "show", "x"]);
    assert!(shown.status.code() == Some(1) && begun.elapsed().as_secs() < 20, "{shown:?}");
}

/// The time must not grow with the third power of the depth of directories: a depth of 1000 took 26
/// seconds, and 2000 took four minutes.
#[test]
fn directories_that_lie_deep_are_looked_through_in_time() {
    let pair = Pair::on(&file_systems()[0], b"");
    let dir = &pair.dir;
    fs::create_dir_all(dir.join("deep")).unwrap();
    let mut at = fs::File::open(dir.join("deep")).unwrap();
    for _ in 0..1500 {
        rustix::fs::mkdirat(&at, "d", 0o700.into()).unwrap();
        at = rustix::fs::openat(&at, "d", rustix::fs::OFlags::DIRECTORY, rustix::fs::Mode::empty())
            .unwrap()
            .into();
    }
    let left = format!(".dio-{:032x}.0.new", 1);
    rustix::fs::openat(&at, left, rustix::fs::OFlags::CREATE, 0o600.into()).unwrap();
    std::os::unix::fs::symlink("deep", dir.join("link")).unwrap();
    let start = std::time::Instant::now();
    let found =
        dio(dir, &["stripe", "orphans", "--age", "0", "--heads", "deep", "--heads", "link", "a"]);
    let needed = start.elapsed();
    assert!(found.status.code() == Some(1) && found.stdout.lines().count() == 2, "{found:?}");
    assert!(needed < std::time::Duration::from_secs(20), "{needed:?}");
}

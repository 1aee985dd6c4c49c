//! `--atomic`: at every instant the target has its old or its new content, whatever ends the copy.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use crate::own::{
    MIB, Mounted, Running, bad, file_systems, good, is_root, names, same_bytes, signal_of, source,
};
use rustix::fs::XattrFlags;
use rustix::process::Signal;

/// Slow enough that the test can examine a copy of 32 MiB while it runs.
const SLOW: &str = "--atomic --reflink=never --limit 6M";

#[test]
fn the_old_content_is_there_until_the_new_is_complete() {
    let watch = |fs: &crate::own::TestFs| {
        let dir = fs.dir();
        let (from, to) = (source(dir.path(), "from", 8 * MIB + 5), dir.path().join("to"));
        std::fs::write(&to, "old").unwrap();
        let mut running = Running::start("--atomic --reflink=never --limit 2M", &[&from, &to]);
        crate::own::until_moved(&running, 2 * MIB);
        let (mut old, mut new) = (0, 0);
        while !running.is_over() || new == 0 {
            match std::fs::metadata(&to).unwrap().len() {
                3 => old += 1,
                len => {
                    assert_eq!(len, 8 * MIB + 5, "{}", fs.name);
                    same_bytes(&from, &to);
                    new += 1;
                }
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        assert!(running.end().status.success());
        assert!(old > 0, "{}: the old content was never seen beside a part of the new", fs.name);
        assert_eq!(names(dir.path()), ["from", "to"], "{}", fs.name);
    };
    let all = file_systems();
    std::thread::scope(|scope| all.iter().for_each(|fs| drop(scope.spawn(|| watch(fs)))));
}

#[test]
fn what_the_target_had_besides_contents_stays() {
    for fs in file_systems() {
        let dir = fs.dir();
        let (from, to, link) =
            (source(dir.path(), "from", MIB), dir.path().join("to"), dir.path().join("link"));
        std::fs::write(&to, "old").unwrap();
        std::fs::set_permissions(&to, PermissionsExt::from_mode(0o640)).unwrap();
        if is_root() {
            std::os::unix::fs::chown(&to, Some(1234), Some(4321)).unwrap();
        }
        let attribute = rustix::fs::setxattr(&to, "user.kept", b"yes", XattrFlags::empty()).is_ok();
        symlink("to", &link).unwrap();
        let before = to.metadata().unwrap();
        good("--atomic --reflink=never", &[&from, &link]);
        same_bytes(&from, &to);
        let after = to.symlink_metadata().unwrap();
        let owner = |meta: &std::fs::Metadata| (meta.mode(), meta.uid(), meta.gid());
        assert_eq!(owner(&after), owner(&before), "{}", fs.name);
        assert!(link.symlink_metadata().unwrap().is_symlink(), "{}", fs.name);
        if attribute {
            let mut value = [0; 8];
            let length = rustix::fs::getxattr(&to, "user.kept", &mut value[..]);
            assert_eq!(
                length.map(|length| value[..length].to_vec()),
                Ok(b"yes".to_vec()),
                "{}",
                fs.name
            );
        }
        assert_eq!(names(dir.path()), ["from", "link", "to"], "{}", fs.name);
    }
}

#[test]
fn new_files_trees_and_attributes_are_as_without_it() {
    for fs in file_systems() {
        let dir = fs.dir();
        let tree = dir.path().join("tree");
        std::fs::create_dir_all(tree.join("sub")).unwrap();
        let (a, b) = (source(&tree, "a", 41), source(&tree.join("sub"), "b", MIB + 1));
        std::fs::set_permissions(&a, PermissionsExt::from_mode(0o751)).unwrap();
        let to = dir.path().join("to");
        good("-a --atomic", &[&tree, &to]);
        for (from, to) in [(&a, to.join("a")), (&b, to.join("sub/b"))] {
            same_bytes(from, &to);
            let (from, to) = (from.metadata().unwrap(), to.metadata().unwrap());
            assert_eq!(
                (from.mode(), from.mtime_nsec()),
                (to.mode(), to.mtime_nsec()),
                "{}",
                fs.name
            );
        }
        assert_eq!(names(&to), ["a", "sub"]);
    }
}

#[test]
fn killed_or_interrupted_it_leaves_the_old_target_and_nothing_else() {
    for fs in file_systems() {
        let dir = fs.dir();
        let (from, to) = (source(dir.path(), "from", 32 * MIB), dir.path().join("to"));
        std::fs::write(&to, "old").unwrap();
        let before = to.metadata().unwrap();
        for (signal, number) in [(Signal::KILL, 9), (Signal::INT, 2), (Signal::TERM, 15)] {
            let running = Running::start(SLOW, &[&from, &to]);
            crate::own::until_moved(&running, 2 * MIB);
            running.signal(signal);
            let output = running.end();
            assert_eq!(signal_of(&output), Some(number), "{}: {output:?}", fs.name);
            assert_eq!(std::fs::read(&to).unwrap(), b"old", "{}", fs.name);
            let after = to.metadata().unwrap();
            assert_eq!(
                (after.ino(), after.mtime_nsec()),
                (before.ino(), before.mtime_nsec()),
                "{}",
                fs.name
            );
            assert_eq!(names(dir.path()), ["from", "to"], "{} after {signal:?}", fs.name);
        }
    }
}

#[test]
fn without_space_the_old_target_stays() {
    for format in
        [&["mkfs.ext4", "-q", "-F"][..], &["mkfs.xfs", "-q", "-f"], &["mkfs.btrfs", "-q", "-f"]]
    {
        let Some(small) = Mounted::new(format, 320 * MIB) else { continue };
        let elsewhere = file_systems()[0].dir();
        let from = elsewhere.path().join("from");
        std::fs::File::create(&from).unwrap().set_len(400 * MIB).unwrap();
        let to = small.path.join("to");
        crate::own::random_file(&to, 3 * MIB, 1);
        let before = to.metadata().unwrap();
        bad("--atomic --sparse=never", &[&from, &to], "space");
        let after = to.metadata().unwrap();
        assert_eq!(
            (after.ino(), after.len(), after.mtime_nsec()),
            (before.ino(), 3 * MIB, before.mtime_nsec())
        );
        let expected = elsewhere.path().join("expected");
        crate::own::random_file(&expected, 3 * MIB, 1);
        same_bytes(&expected, &to);
        assert!(
            names(&small.path).iter().all(|name| name == "to" || name == "lost+found"),
            "{format:?}"
        );
    }
}

/// Cuts the power while an overwrite is under way and after one has returned.
fn power(format: &[&str], more: &str) {
    let Some(disk) = Mounted::new(format, 512 * MIB) else { return };
    let elsewhere = file_systems()[0].dir();
    let new = source(elsewhere.path(), "new", 24 * MIB + 7);
    let old = source(elsewhere.path(), "old", 5 * MIB + 3);
    let to = disk.path.join("to");
    good(more, &[&old, &to]);
    disk.cut_power();
    same_bytes(&old, &to);
    // The power is cut in the middle of a copy.
    let running = Running::start(&format!("{more} --atomic --limit 4M"), &[&new, &to]);
    crate::own::until_moved(&running, 2 * MIB);
    disk.shut_down();
    let output = running.end();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(output.stderr.contains("'") && output.stderr.contains("error"), "{output:?}");
    disk.come_back();
    same_bytes(&old, &to);
    assert!(
        names(&disk.path).iter().all(|name| name == "to" || name == "lost+found"),
        "{:?}",
        names(&disk.path)
    );
    // Acknowledged copies: over the old file, to a new name, and of a tree.
    good(&format!("{more} --atomic"), &[&new, &to]);
    disk.cut_power();
    same_bytes(&new, &to);
    good(&format!("{more} --atomic"), &[&old, &disk.path.join("fresh")]);
    disk.cut_power();
    same_bytes(&old, disk.path.join("fresh"));
    let tree = elsewhere.path().join("tree");
    std::fs::create_dir_all(tree.join("sub/deep")).unwrap();
    for number in 0..60 {
        source(&tree.join("sub/deep"), &format!("f{number}"), number * 1111);
    }
    for (flags, name) in [("-a", "tree"), ("-a --atomic", "atomic")] {
        let copy = disk.path.join(name);
        good(&format!("{more} {flags}"), &[&tree, &copy]);
        disk.cut_power();
        for number in 0..60 {
            let name = format!("sub/deep/f{number}");
            same_bytes(tree.join(&name), copy.join(&name));
        }
    }
    // Through a link into another directory: the entry in that directory changes.
    let other = disk.path.join("other");
    std::fs::create_dir(&other).unwrap();
    good(more, &[&old, &other.join("real")]);
    symlink("other/real", disk.path.join("link")).unwrap();
    good(&format!("{more} --atomic"), &[&new, &disk.path.join("link")]);
    disk.cut_power();
    same_bytes(&new, other.join("real"));
}

#[test]
fn what_was_acknowledged_survives_a_power_cut_on_ext4() {
    power(&["mkfs.ext4", "-q", "-F"], "--reflink=never");
}

#[test]
fn what_was_acknowledged_survives_a_power_cut_on_xfs() {
    power(&["mkfs.xfs", "-q", "-f"], "--reflink=never");
}

#[test]
fn clones_that_were_acknowledged_survive_a_power_cut() {
    let Some(disk) = Mounted::new(&["mkfs.xfs", "-q", "-f", "-m", "reflink=1"], 320 * MIB) else {
        return;
    };
    let elsewhere = file_systems()[0].dir();
    let old = source(elsewhere.path(), "old", 5 * MIB + 3);
    let (from, to) = (disk.path.join("from"), disk.path.join("to"));
    good("", &[&old, &from]);
    good("--reflink=always", &[&from, &to]);
    disk.cut_power();
    same_bytes(&old, &to);
    std::fs::write(&to, "other").unwrap();
    good("--reflink=always --atomic", &[&from, &to]);
    disk.cut_power();
    same_bytes(&old, Path::new(&to));
}

#[test]
fn a_link_that_leads_nowhere_is_kept_and_a_name_with_a_slash_is_a_directory() {
    for fs in file_systems() {
        let dir = fs.dir();
        let (from, link) = (source(dir.path(), "from", 5000), dir.path().join("link"));
        symlink("nowhere", &link).unwrap();
        for flags in ["", "--atomic"] {
            bad(flags, &[&from, &link], "not writing through dangling symlink");
            bad(flags, &[&from, &dir.path().join("new/")], "Not a directory");
            assert_eq!(std::fs::read_link(&link).unwrap(), Path::new("nowhere"), "{}", fs.name);
            assert_eq!(names(dir.path()), ["from", "link"], "{}", fs.name);
        }
    }
}

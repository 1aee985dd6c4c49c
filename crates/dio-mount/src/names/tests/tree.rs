//! Operations on the tree take effect in the source.

use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::time::{Duration, UNIX_EPOCH};

use rustix::fs::{RenameFlags, XattrFlags};

use super::*;

#[test]
fn names_are_created_found_and_removed() {
    everywhere(|place, source, names| {
        let directory = new_directory(names, ROOT, "directory");
        let file = new_file(names, directory, "file");
        assert_eq!(names.lookup(directory, name("file")).unwrap().inode, file, "{place}");
        assert_eq!(names.lookup(ROOT, name("directory")).unwrap().inode, directory, "{place}");
        assert_eq!(
            names.stat(file).unwrap().st_ino,
            source.join("directory/file").metadata().unwrap().ino()
        );
        let pipe = names.make_node(me(), ROOT, name("pipe"), 0o010_600, 0o077, 0).unwrap();
        assert!(source.join("pipe").metadata().unwrap().file_type().is_fifo(), "{place}");
        assert_eq!(names.open(pipe.inode, OFlags::RDONLY).unwrap_err(), Errno::INVAL);
        assert_eq!(
            names.remove_directory(me(), ROOT, name("directory")).unwrap_err(),
            Errno::NOTEMPTY,
            "{place}"
        );
        names.unlink(me(), directory, name("file")).unwrap();
        names.remove_directory(me(), ROOT, name("directory")).unwrap();
        assert_eq!(names.lookup(ROOT, name("directory")).unwrap_err(), Errno::NOENT, "{place}");
        assert_eq!(list(names, ROOT), ["pipe"], "{place}");
    });
}

#[test]
fn a_name_is_one_name() {
    everywhere(|place, _, names| {
        for bad in ["", ".", "..", "a/b", "/", "../x", "a\0b"] {
            if bad != "." && bad != ".." {
                assert_eq!(
                    names.lookup(ROOT, name(bad)).unwrap_err(),
                    Errno::INVAL,
                    "{place}: {bad:?}"
                );
            }
            assert_eq!(
                names.unlink(me(), ROOT, name(bad)).unwrap_err(),
                Errno::INVAL,
                "{place}: {bad:?}"
            );
            let made = names.make_directory(me(), ROOT, name(bad), 0o755, 0);
            assert_eq!(made.unwrap_err(), Errno::INVAL, "{place}: {bad:?}");
        }
        let directory = new_directory(names, ROOT, "directory");
        let file = new_file(names, directory, "file");
        assert_eq!(names.lookup(file, name(".")).unwrap().inode, file, "{place}");
        assert_eq!(names.lookup(file, name("..")).unwrap().inode, directory, "{place}");
        assert_eq!(names.lookup(directory, name("..")).unwrap().inode, ROOT, "{place}");
        assert_eq!(names.lookup(ROOT, name("..")).unwrap_err(), Errno::NOENT, "{place}");
        names.forget(file, 1);
        assert_eq!(
            names.path(file).unwrap(),
            Path::new("directory/file"),
            "{place}: looked up twice"
        );
        assert_eq!(names.stat(77).unwrap_err(), Errno::STALE, "{place}");
        assert_eq!(names.stat(0).unwrap_err(), Errno::STALE, "{place}");
    });
}

#[test]
fn hard_links_are_one_inode_until_all_is_forgotten() {
    everywhere(|place, _, names| {
        let file = new_file(names, ROOT, "one");
        let directory = new_directory(names, ROOT, "directory");
        let linked = names.link(me(), file, directory, name("two")).unwrap();
        assert_eq!((linked.inode, linked.stat.st_nlink), (file, 2), "{place}");
        assert_eq!(names.path(file).unwrap(), Path::new("directory/two"), "{place}");
        names.unlink(me(), directory, name("two")).unwrap();
        assert_eq!(names.stat(file).unwrap().st_nlink, 1, "{place}: found by its other name");
        assert_eq!(names.lookup(ROOT, name("one")).unwrap().inode, file, "{place}");
        let before = names.held().0;
        names.forget(file, 2);
        assert_eq!(names.held().0, before, "{place}: looked up three times");
        names.forget(file, 1);
        assert_eq!(names.held().0, before - 1, "{place}");
        assert_ne!(
            names.lookup(ROOT, name("one")).unwrap().inode,
            file,
            "{place}: a number is given once"
        );
    });
}

#[test]
fn a_symbolic_link_is_itself_and_can_be_linked_to() {
    everywhere(|place, source, names| {
        std::fs::write(source.join("target"), b"content").unwrap();
        let link = names.symlink(me(), ROOT, name("link"), Path::new("target")).unwrap().inode;
        assert_eq!(names.read_link(link).unwrap(), b"target", "{place}");
        let second = names.link(me(), link, ROOT, name("second")).unwrap();
        assert_eq!(second.inode, link, "{place}");
        assert_eq!(names.open(link, OFlags::RDONLY).unwrap_err(), Errno::INVAL, "{place}");
        let times = Changes {
            modified: Some(Time::At(UNIX_EPOCH + Duration::new(5, 6))),
            ..Changes::default()
        };
        names.change(me(), link, &times).unwrap();
        let stat = source.join("link").symlink_metadata().unwrap();
        assert_eq!((stat.mtime(), stat.mtime_nsec()), (5, 6), "{place}");
        assert!(
            source.join("target").metadata().unwrap().mtime() > 5,
            "{place}: what it leads to is left alone"
        );
        let long = "x".repeat(1000);
        let link = names.symlink(me(), ROOT, name("long"), Path::new(&long)).unwrap().inode;
        assert_eq!(names.read_link(link).unwrap(), long.as_bytes(), "{place}");
        assert_eq!(names.read_link(ROOT).unwrap_err(), Errno::INVAL, "{place}");
    });
}

#[test]
fn attributes_change_on_files_and_special_files() {
    everywhere(|place, source, names| {
        let file = new_file(names, ROOT, "file");
        let pipe = names.make_node(me(), ROOT, name("pipe"), 0o010_600, 0, 0).unwrap().inode;
        for (inode, text) in [(file, "file"), (pipe, "pipe")] {
            let accessed = Some(Time::At(UNIX_EPOCH - Duration::new(1, 500)));
            let changes = Changes {
                mode: Some(0o2751),
                accessed,
                modified: Some(Time::Now),
                ..Changes::default()
            };
            names.change(me(), inode, &changes).unwrap();
            let stat = source.join(text).symlink_metadata().unwrap();
            assert_eq!(stat.mode() & 0o7777, 0o2751, "{place}: {text}");
            assert_eq!((stat.atime(), stat.atime_nsec()), (-2, 999_999_500), "{place}: {text}");
            assert!(
                stat.modified().unwrap().elapsed().unwrap_or_default() < Duration::from_secs(60),
                "{place}"
            );
        }
        if is_root() {
            let owner = Changes { uid: Some(1234), gid: Some(2345), ..Changes::default() };
            names.change(me(), pipe, &owner).unwrap();
            let stat = source.join("pipe").symlink_metadata().unwrap();
            assert_eq!((stat.uid(), stat.gid()), (1234, 2345), "{place}");
            let nobody = Changes { uid: Some(u32::MAX), ..Changes::default() };
            assert_eq!(names.change(me(), pipe, &nobody).unwrap_err(), Errno::INVAL);
        }
    });
}

#[test]
fn an_unlinked_inode_goes_on_until_it_is_forgotten() {
    everywhere(|place, _, names| {
        let (entry, file) = names.create(me(), ROOT, name("file"), 0o600, 0, OFlags::RDWR).unwrap();
        let directory = new_directory(names, ROOT, "directory");
        let other = new_file(names, ROOT, "other");
        names.unlink(me(), ROOT, name("file")).unwrap();
        names.remove_directory(me(), ROOT, name("directory")).unwrap();
        names.rename(me(), ROOT, name("other"), ROOT, name("third"), RenameFlags::empty()).unwrap();
        // New files push the cached descriptors out.
        for n in 0..10 {
            new_file(names, ROOT, &n.to_string());
        }
        File::from(file).write_all(b"content").unwrap();
        for inode in [entry.inode, directory] {
            names
                .change(me(), inode, &Changes { mode: Some(0o711), ..Changes::default() })
                .unwrap();
            assert_eq!(names.stat(inode).unwrap().st_mode & 0o777, 0o711, "{place}");
        }
        assert_eq!(names.stat(entry.inode).unwrap().st_nlink, 0, "{place}");
        let mut text = String::new();
        File::from(names.open(entry.inode, OFlags::RDONLY).unwrap())
            .read_to_string(&mut text)
            .unwrap();
        assert_eq!(text, "content", "{place}");
        match names.set_xattr(me(), entry.inode, name("user.x"), b"1", XattrFlags::empty()) {
            Err(Errno::OPNOTSUPP) => dio_test::skip!("{place}: no user attributes"),
            done => {
                done.unwrap();
                assert_eq!(names.get_xattr(entry.inode, name("user.x")).unwrap(), b"1", "{place}");
            }
        }
        assert_eq!(
            names.link(me(), entry.inode, ROOT, name("again")).unwrap_err(),
            Errno::NOENT,
            "{place}"
        );
        names.forget(entry.inode, 1);
        assert_eq!(names.stat(entry.inode).unwrap_err(), Errno::STALE, "{place}");
        assert_eq!(names.path(other).unwrap(), Path::new("third"), "{place}");
    });
}

#[test]
fn paths_follow_renames_of_what_is_above() {
    everywhere(|place, _, names| {
        let a = new_directory(names, ROOT, "a");
        let b = new_directory(names, a, "b");
        let file = new_file(names, b, "file");
        let other = new_directory(names, ROOT, "other");
        assert_eq!(names.path(ROOT).unwrap(), Path::new(""), "{place}");
        names.rename(me(), ROOT, name("a"), other, name("c"), RenameFlags::empty()).unwrap();
        assert_eq!(names.path(file).unwrap(), Path::new("other/c/b/file"), "{place}");
        assert_eq!(names.stat(file).unwrap().st_nlink, 1, "{place}");
        match names.rename(me(), other, name("c"), ROOT, name("other"), RenameFlags::EXCHANGE) {
            Err(Errno::INVAL) => {}
            exchanged => panic!("{place}: {exchanged:?}"),
        }
        let plain = new_file(names, ROOT, "plain");
        names.rename(me(), ROOT, name("plain"), b, name("file"), RenameFlags::EXCHANGE).unwrap();
        assert_eq!(names.path(plain).unwrap(), Path::new("other/c/b/file"), "{place}");
        assert_eq!(names.path(file).unwrap(), Path::new("plain"), "{place}");
        let kept = names.rename(me(), ROOT, name("plain"), b, name("file"), RenameFlags::NOREPLACE);
        assert_eq!(kept.unwrap_err(), Errno::EXIST, "{place}");
        names.rename(me(), ROOT, name("plain"), b, name("file"), RenameFlags::empty()).unwrap();
        assert_eq!(names.stat(plain).unwrap().st_nlink, 0, "{place}: replaced, yet known");
        assert_eq!(names.path(file).unwrap(), Path::new("other/c/b/file"), "{place}");
    });
}

/// When inodes are found by name, all lookups here use names that change.
#[test]
fn what_is_below_a_directory_is_found_while_it_is_renamed() {
    everywhere(|place, _, names| {
        let [a, b] = ["a", "b"].map(|text| new_directory(names, ROOT, text));
        let moved = new_directory(names, a, "moved");
        let inner = new_directory(names, moved, "inner");
        let files: Vec<_> = (0..4).map(|n| new_file(names, inner, &n.to_string())).collect();
        std::thread::scope(|threads| {
            let mover = threads.spawn(|| {
                for round in 0..500 {
                    let (from, to) = if round % 2 == 0 { (a, b) } else { (b, a) };
                    names
                        .rename(me(), from, name("moved"), to, name("moved"), RenameFlags::empty())
                        .unwrap();
                }
            });
            while !mover.is_finished() {
                for file in &files {
                    assert!(names.stat(*file).is_ok(), "{place}: {:?}", names.path(*file));
                }
            }
        });
    });
}

#[test]
fn a_new_file_with_the_number_of_an_old_one_is_another_inode() {
    everywhere(|place, source, names| {
        let path = source.join("file");
        std::fs::write(&path, b"1").unwrap();
        let first = names.lookup(ROOT, name("file")).unwrap();
        // Closes the descriptor, which would keep the inode number from being reused.
        let unused = names.shared.lock().descriptors.halve();
        drop(unused);
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, b"22").unwrap();
        let second = names.lookup(ROOT, name("file")).unwrap();
        if second.stat.st_ino != first.stat.st_ino {
            return;
        }
        assert_ne!(second.inode, first.inode, "{place}");
        assert_eq!(names.stat(first.inode).unwrap_err(), Errno::STALE, "{place}");
        assert_eq!(names.stat(second.inode).unwrap().st_size, 2, "{place}");
    });
}

#[test]
fn an_inode_that_others_renamed_is_found_by_its_handle() {
    everywhere(|place, source, names| {
        let directory = new_directory(names, ROOT, "directory");
        let file = new_file(names, directory, "file");
        let handles = names.shared.lock().mounts.opens_handles(0);
        let unused = names.shared.lock().descriptors.halve();
        drop(unused);
        std::fs::rename(source.join("directory"), source.join("renamed")).unwrap();
        match names.stat(file) {
            Ok(_) => {}
            Err(errno) => assert!(errno == Errno::STALE && !handles, "{place}: {errno}"),
        }
        assert_eq!(names.lookup(ROOT, name("renamed")).unwrap().inode, directory, "{place}");
        assert_eq!(names.stat(file).unwrap().st_nlink, 1, "{place}: the kernel has looked again");
    });
}

#[test]
fn extended_attributes_of_every_size() {
    everywhere(|place, source, names| {
        let file = new_file(names, ROOT, "file");
        let link = names.symlink(me(), ROOT, name("link"), Path::new("nowhere")).unwrap().inode;
        let set = |inode, text: &str, value: &[u8], flags| {
            names.set_xattr(me(), inode, name(text), value, flags)
        };
        match set(file, "user.empty", b"", XattrFlags::CREATE) {
            Err(Errno::OPNOTSUPP) => return dio_test::skip!("{place}: no user attributes"),
            done => done.unwrap(),
        }
        assert_eq!(names.get_xattr(file, name("user.empty")).unwrap(), b"", "{place}");
        assert_eq!(
            set(file, "user.empty", b"", XattrFlags::CREATE).unwrap_err(),
            Errno::EXIST,
            "{place}"
        );
        assert_eq!(
            set(file, "user.none", b"", XattrFlags::REPLACE).unwrap_err(),
            Errno::NODATA,
            "{place}"
        );
        let long = vec![7; 1500];
        set(file, "user.long", &long, XattrFlags::empty()).unwrap();
        assert_eq!(names.get_xattr(file, name("user.long")).unwrap(), long, "{place}");
        assert_eq!(xattr_of(&source.join("file"), "user.long"), Some(long), "{place}");
        (0..40)
            .for_each(|n| set(file, &format!("user.{n:020}"), b"", XattrFlags::empty()).unwrap());
        let all = names.list_xattr(me(), file).unwrap();
        assert_eq!(
            all.split(|byte| *byte == 0).filter(|name| name.starts_with(b"user.")).count(),
            42,
            "{place}"
        );
        names.remove_xattr(me(), file, name("user.empty"), false).unwrap();
        assert_eq!(
            names.get_xattr(file, name("user.empty")).unwrap_err(),
            Errno::NODATA,
            "{place}"
        );
        assert_eq!(
            set(link, "user.x", b"", XattrFlags::empty()).unwrap_err(),
            Errno::PERM,
            "{place}"
        );
        if is_root() && set(link, "trusted.x", b"of the link", XattrFlags::empty()).is_ok() {
            assert_eq!(
                names.get_xattr(link, name("trusted.x")).unwrap(),
                b"of the link",
                "{place}"
            );
            assert_eq!(names.list_xattr(me(), link).unwrap(), b"trusted.x\0", "{place}");
            assert_eq!(names.list_xattr(Caller { uid: 1, ..me() }, link).unwrap(), b"", "{place}");
        }
    });
}

pub(super) fn xattr_of(path: &Path, text: &str) -> Option<Vec<u8>> {
    let mut value = Vec::with_capacity(1 << 16);
    rustix::fs::getxattr(path, text, rustix::buffer::spare_capacity(&mut value)).ok()?;
    Some(value)
}

#[test]
fn a_file_is_created_whatever_its_mode_allows_and_never_an_old_one_opened() {
    everywhere(|place, source, names| {
        let (_, file) =
            names.create(me(), ROOT, name("closed"), 0, 0, OFlags::RDWR | OFlags::EXCL).unwrap();
        File::from(file).write_all(b"content").unwrap();
        let mode = source.join("closed").metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0, "{place}");
        let again = |flags| names.create(me(), ROOT, name("closed"), 0o644, 0, flags).unwrap_err();
        assert_eq!(again(OFlags::RDWR), Errno::STALE, "{place}");
        assert_eq!(again(OFlags::RDWR | OFlags::EXCL), Errno::EXIST, "{place}");
        std::os::unix::fs::symlink("elsewhere", source.join("link")).unwrap();
        let through = names.create(me(), ROOT, name("link"), 0o644, 0, OFlags::RDWR);
        assert_eq!(through.unwrap_err(), Errno::STALE, "{place}");
        assert!(!source.join("elsewhere").exists(), "{place}");
    });
}

#[test]
fn the_mask_holds_whatever_that_of_the_process_is() {
    everywhere(|place, source, names| {
        for (mode, mask) in [(0o666, 0), (0o666, 0o022), (0o777, 0o077), (0o640, 0o777)] {
            let text = format!("{mode:o}-{mask:o}");
            let (_, _file) =
                names.create(me(), ROOT, name(&text), mode, mask, OFlags::WRONLY).unwrap();
            names.make_directory(me(), ROOT, name(&format!("d{text}")), mode, mask).unwrap();
            for path in [text.clone(), format!("d{text}")] {
                let found = source.join(path).metadata().unwrap().mode() & 0o7777;
                assert_eq!(found, mode & !mask, "{place}: {text}");
            }
        }
    });
}

#[test]
fn the_file_system_below_is_that_of_the_source() {
    everywhere(|place, source, names| {
        let file = new_file(names, ROOT, "file");
        let (below, here) = (rustix::fs::statvfs(source).unwrap(), names.statfs(file).unwrap());
        assert_eq!((below.f_blocks, below.f_bsize), (here.f_blocks, here.f_bsize), "{place}");
        names.access(me(), file, rustix::fs::Access::READ_OK).unwrap();
    });
}

/// The objects of a striped file stay until the removal of its last name is durable: a crash may
/// bring the name back.
#[test]
fn objects_go_when_the_last_name_has_gone_for_good() {
    on_every_file_system(|place, source, names| {
        let target = source.join("target");
        std::fs::create_dir(&target).unwrap();
        let plan = dio::stripe::StripePlan {
            targets: vec![target.clone()],
            ..dio::stripe::StripePlan::default()
        };
        let objects = || std::fs::read_dir(&target).unwrap().count();
        let lose = |refused: bool| {
            dio::stripe::create(source.join("file"), &plan).unwrap();
            names.lookup(ROOT, name("file")).unwrap();
            std::thread::scope(|scope| {
                let losing = scope.spawn(|| {
                    if refused {
                        dio_sys::refuse_system_call(libc::SYS_fsync, Errno::IO).unwrap();
                    }
                    names.unlink(me(), ROOT, name("file")).unwrap();
                });
                losing.join().unwrap();
            });
            assert!(!source.join("file").exists(), "{place}");
        };
        lose(false);
        assert_eq!(objects(), 0, "{place}");
        lose(true);
        assert_eq!(objects(), 1, "{place}");
    });
}

//! No lookup leads out of the source, even while the source changes.

use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::*;

const FOR: Duration = Duration::from_millis(300);

/// A name alternates between a directory and a link to the outside: a lookup never leads outside.
#[test]
fn a_link_that_takes_the_place_of_a_directory_is_not_followed() {
    for fs in dio_test::file_systems() {
        for (way, limits) in WAYS {
            let scratch = fs.dir();
            let (source, outside) = (scratch.path().join("source"), scratch.path().join("outside"));
            std::fs::create_dir_all(source.join("inside")).unwrap();
            std::fs::create_dir(&outside).unwrap();
            std::fs::write(source.join("inside/file"), b"inside").unwrap();
            std::fs::write(outside.join("file"), b"outside").unwrap();
            symlink("../outside", source.join("link")).unwrap();
            let names = tree_of(&source, limits);
            let done = AtomicBool::new(false);
            std::thread::scope(|threads| {
                threads.spawn(|| swap(&source, &done));
                look(&names, &format!("{}, {way}", fs.name));
                done.store(true, Ordering::Relaxed);
            });
            let here: Vec<_> = std::fs::read_dir(&outside)
                .unwrap()
                .map(|entry| entry.unwrap().file_name())
                .collect();
            assert_eq!(here, ["file"], "{}, {way}: nothing was made outside", fs.name);
        }
    }
}

fn swap(source: &Path, done: &AtomicBool) {
    let (a, b) = (source.join("inside"), source.join("link"));
    while !done.load(Ordering::Relaxed) {
        renameat_with(CWD, &a, CWD, &b, RenameFlags::EXCHANGE).unwrap();
    }
}

fn look(names: &Names, place: &str) {
    let (mut directories, mut links) = (0, 0);
    let end = Instant::now() + FOR;
    for round in 0.. {
        if Instant::now() > end && directories > 0 && links > 0 {
            return;
        }
        assert!(
            Instant::now() < end + 20 * FOR,
            "{place}: {directories} directories, {links} links"
        );
        let Ok(found) = names.lookup(ROOT, name("inside")) else { continue };
        let kind = FileType::from_raw_mode(found.stat.st_mode);
        if kind == FileType::Symlink {
            links += 1;
            assert_eq!(
                names.lookup(found.inode, name("file")).unwrap_err(),
                Errno::NOTDIR,
                "{place}"
            );
        } else {
            directories += 1;
            if let Ok(file) = names.lookup(found.inode, name("file")) {
                let opened = names.open(file.inode, OFlags::RDONLY);
                let text = opened.map(|fd| std::io::read_to_string(File::from(fd)).unwrap());
                assert!(
                    matches!(text.as_deref(), Ok("inside") | Err(&Errno::STALE)),
                    "{place}: {text:?}"
                );
                names.forget(file.inode, 1);
            }
            let made = format!("made{round}");
            match names.create(me(), found.inode, name(&made), 0o600, 0, OFlags::RDWR) {
                Ok((entry, _)) => {
                    names.forget(entry.inode, 1);
                    let _ = names.unlink(me(), found.inode, name(&made));
                }
                Err(errno) => assert_eq!(errno, Errno::STALE, "{place}"),
            }
        }
        names.forget(found.inode, 1);
    }
}

/// When inodes are found by name, a name that leads to another inode is detected.
#[test]
fn a_known_inode_is_not_another_of_its_name() {
    everywhere(|place, source, names| {
        let directory = new_directory(names, ROOT, "directory");
        let file = new_file(names, directory, "file");
        let unused = names.shared.lock().descriptors.halve();
        drop(unused);
        std::fs::rename(source.join("directory"), source.join("old")).unwrap();
        symlink("/etc", source.join("directory")).unwrap();
        std::fs::write(source.join("other"), b"other").unwrap();
        std::fs::rename(source.join("old/file"), source.join("old/moved")).unwrap();
        std::fs::rename(source.join("other"), source.join("old/file")).unwrap();
        for inode in [directory, file] {
            match names.stat(inode) {
                // The inode was opened by its handle, so it is the right one.
                Ok(stat) => assert_ne!(stat.st_size, 5, "{place}"),
                Err(errno) => assert_eq!(errno, Errno::STALE, "{place}"),
            }
        }
    });
}

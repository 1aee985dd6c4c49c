//! Memory limits with many inodes.

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::*;

#[test]
fn thousands_of_inodes_need_few_descriptors() {
    everywhere(|place, source, names| {
        let directories: Vec<_> =
            (0..20).map(|n| new_directory(names, ROOT, &n.to_string())).collect();
        let mut files = Vec::new();
        for (n, directory) in directories.iter().enumerate() {
            (0..100).for_each(|m| drop(File::create(source.join(format!("{n}/{m}"))).unwrap()));
            files.extend((0..100).map(|m| names.lookup(*directory, name(&m.to_string())).unwrap()));
        }
        for entry in &files {
            assert_eq!(names.stat(entry.inode).unwrap().st_ino, entry.stat.st_ino, "{place}");
        }
        let (count, bytes) = names.held();
        assert_eq!(count, 1 + 20 + 2000, "{place}");
        assert!(bytes / 2021 < 250, "{place}: {} bytes each", bytes / 2021);
        files.iter().for_each(|entry| names.forget(entry.inode, 1));
        assert_eq!(names.held().0, 21, "{place}");
        assert!(names.shared.lock().descriptors.get(files[0].inode).is_none(), "{place}");
    });
}

#[test]
fn the_kernel_is_asked_to_forget_when_there_are_too_many() {
    let scratch = dio_test::file_systems()[0].dir();
    let limit = 64 << 10;
    let source = File::open(scratch.path()).unwrap();
    let names =
        Arc::new(Names::new(source.into(), how(false, limit * MEMORY_SHARE_DIVISOR)).unwrap());
    let (asked, answers) = channel();
    let asked = Mutex::new(asked);
    names.forget_through(move |leaf| drop(asked.lock().send(leaf.clone())));
    let count = 1500;
    for n in 0..count {
        File::create(scratch.path().join(n.to_string())).unwrap();
        names.lookup(ROOT, name(&n.to_string())).unwrap();
    }
    assert!(names.held().1 > limit, "the test is too small");
    let end = Instant::now() + Duration::from_secs(20);
    let mut first = None;
    while names.held().1 > limit / 8 * 7 {
        assert!(Instant::now() < end, "{} records are left", names.held().0);
        // The kernel's reaction when it is asked to forget.
        let Ok(leaf) = answers.recv_timeout(Duration::from_secs(1)) else { continue };
        assert_eq!(leaf.parent, ROOT);
        first.get_or_insert(leaf.name.clone());
        names.forget(leaf.inode, 1);
    }
    assert!(names.held().0 > 100, "only as many as it takes");
    assert!(
        first.unwrap().into_string().unwrap().parse::<usize>().unwrap() < count / 2,
        "old ones first"
    );
    assert!(names.lookup(ROOT, name("7")).is_ok());
}

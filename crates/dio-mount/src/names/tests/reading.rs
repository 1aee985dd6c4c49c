//! Reading directories in parts while they change.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};

use super::*;

/// Reads up to `most` names from `offset`, as a request with a small buffer would. Returns the
/// names and the offset to continue at.
fn part(names: &Names, handle: u64, offset: u64, most: usize) -> (Vec<(String, u64)>, u64) {
    let (mut found, mut next) = (Vec::new(), offset);
    let give = |name: Name| {
        if found.len() == most {
            return true;
        }
        next = name.next;
        found.push((name.name.into_string().unwrap(), name.next));
        false
    };
    names.read_directory(handle, offset, give).unwrap();
    (found, next)
}

fn all_in_parts(names: &Names, handle: u64, most: usize) -> Vec<String> {
    let (mut all, mut offset) = (Vec::new(), 0);
    loop {
        let (found, next) = part(names, handle, offset, most);
        if found.is_empty() {
            return all;
        }
        all.extend(found.into_iter().map(|(name, _)| name));
        offset = next;
    }
}

#[test]
fn every_name_comes_once_however_small_the_parts_are() {
    on_every_file_system(|place, source, names| {
        let expected: BTreeSet<String> =
            (0..1500).map(|n| format!("a name of some length, number {n}")).collect();
        expected.iter().for_each(|name| drop(File::create(source.join(name)).unwrap()));
        let handle = names.open_directory(0, ROOT).unwrap();
        for most in [1, 7, 400, 10_000] {
            let found = all_in_parts(names, handle, most);
            let unique: BTreeSet<String> =
                found.iter().filter(|name| !name.starts_with('.')).cloned().collect();
            assert_eq!(found.len(), unique.len() + 2, "{place}: parts of {most}");
            assert_eq!(unique, expected, "{place}: parts of {most}");
        }
        names.close_directory(handle);
        assert_eq!(names.read_directory(handle, 0, |_| false).unwrap_err(), Errno::BADF, "{place}");
    });
}

#[test]
fn an_offset_leads_to_the_same_name_again_while_others_come_and_go() {
    on_every_file_system(|place, source, names| {
        let path = |n: usize| source.join(format!("file{n:04}"));
        (0..1000).for_each(|n| drop(File::create(path(n)).unwrap()));
        let handle = names.open_directory(0, ROOT).unwrap();
        let (all, _) = part(names, handle, 0, usize::MAX);
        // Half of the files are removed and new ones are created. The files that stay must still be
        // found after every offset that was before them.
        let kept: BTreeSet<String> = (0..1000).step_by(2).map(|n| format!("file{n:04}")).collect();
        (1..1000).step_by(2).for_each(|n| std::fs::remove_file(path(n)).unwrap());
        (1000..1300).for_each(|n| drop(File::create(path(n)).unwrap()));
        for at in [0, 1, 333, 500, 871, all.len() - 2] {
            let expected: BTreeSet<_> =
                all[at + 1..].iter().map(|(name, _)| name).filter(|n| kept.contains(*n)).collect();
            let (found, _) = part(names, handle, all[at].1, usize::MAX);
            let found: BTreeSet<_> =
                found.iter().map(|(name, _)| name).filter(|name| kept.contains(*name)).collect();
            assert_eq!(found, expected, "{place}: behind name {at}");
        }
        let (fresh, _) = part(names, handle, 0, usize::MAX);
        assert_eq!(fresh.len(), 500 + 300 + 2, "{place}: the beginning is read anew");
        names.sync_directory(handle, false).unwrap();
        names.close_directory(handle);
    });
}

#[test]
fn the_root_has_nothing_above_it() {
    on_every_file_system(|place, source, names| {
        let handle = names.open_directory(0, ROOT).unwrap();
        let mut numbers = Vec::new();
        let keep = |name: Name| {
            if name.name == ".." {
                numbers.push(name.number);
            }
            false
        };
        names.read_directory(handle, 0, keep).unwrap();
        let own = std::os::unix::fs::MetadataExt::ino(&source.metadata().unwrap());
        assert_eq!(numbers, [own], "{place}");
        let file = new_file(names, ROOT, "file");
        assert_eq!(names.open_directory(0, file).unwrap_err(), Errno::NOTDIR, "{place}");
    });
}

/// Longer than the time for which a changed directory is always read anew.
const OLD: Duration = Duration::from_millis(2200);

#[test]
fn the_kernel_keeps_names_until_they_change_and_no_longer_than_it_may() {
    let scratch = dio_test::file_systems()[0].dir();
    let (source, names) = (scratch.path(), tree_of(scratch.path(), Limits::default()));
    let copied = |remember| {
        let handle = names.open_directory(0, ROOT).unwrap();
        let copied = names.copied(handle, remember);
        names.close_directory(handle);
        copied
    };
    let long = Duration::from_secs(60);
    File::create(source.join("file")).unwrap();
    assert_eq!(copied(long), NameCache::Never, "it could change once more at the same time");
    std::thread::sleep(OLD);
    assert_eq!(copied(Duration::ZERO), NameCache::Never);
    assert_eq!([copied(long), copied(long)], [NameCache::Anew, NameCache::Still]);
    let short = Duration::from_millis(50);
    std::thread::sleep(short);
    assert_eq!([copied(short), copied(long)], [NameCache::Anew, NameCache::Still]);
    let time = Timespec { tv_sec: 5, tv_nsec: 0 };
    let times = Timestamps { last_access: time, last_modification: time };
    utimensat(CWD, source, &times, AtFlags::empty()).unwrap();
    assert_eq!(copied(long), NameCache::Never, "a time that was set back");
    std::thread::sleep(OLD);
    assert_eq!([copied(long), copied(long)], [NameCache::Anew, NameCache::Still]);
    std::fs::remove_file(source.join("file")).unwrap();
    assert_eq!(copied(long), NameCache::Never);
}

#[test]
fn times_of_file_systems_of_other_kinds_tell_nothing() {
    // `act_as_callers` is off: `/proc` is not served to other users.
    let source = File::open("/proc/sys").unwrap();
    let names = Names::with(source.into(), how(false, 64 << 20), Limits::default()).unwrap();
    std::thread::sleep(OLD);
    let handle = names.open_directory(0, ROOT).unwrap();
    assert_eq!(names.copied(handle, Duration::from_secs(60)), NameCache::Never);
}

#[test]
fn what_was_read_ahead_is_read_anew_when_the_directory_has_changed() {
    on_every_file_system(|place, source, names| {
        (0..100).for_each(|n| drop(File::create(source.join(format!("file{n:03}"))).unwrap()));
        let handle = names.open_directory(0, ROOT).unwrap();
        let (first, next) = part(names, handle, 0, 10);
        let seen: BTreeSet<&String> = first.iter().map(|(name, _)| name).collect();
        // On a file system with coarse timestamps, an immediate change would get the same time.
        std::thread::sleep(Duration::from_millis(20));
        let gone: Vec<String> =
            (0..100).map(|n| format!("file{n:03}")).filter(|name| !seen.contains(name)).collect();
        gone.iter().for_each(|name| std::fs::remove_file(source.join(name)).unwrap());
        let (rest, _) = part(names, handle, next, usize::MAX);
        assert!(rest.iter().all(|(name, _)| !seen.contains(name)), "{place}: told twice: {rest:?}");
        if !place.starts_with("tmpfs") {
            assert!(rest.iter().all(|(name, _)| name.starts_with('.')), "{place}: {rest:?}");
        }
        names.close_directory(handle);
    });
}

#[test]
fn it_is_known_what_the_kernel_was_told_and_for_how_long() {
    everywhere(|place, source, names| {
        let hour = Duration::from_secs(3600);
        std::fs::create_dir(source.join("directory")).unwrap();
        ["one", "two"].iter().for_each(|name| drop(File::create(source.join(name)).unwrap()));
        let told = |time| {
            let handle = names.open_directory(0, ROOT).unwrap();
            let mut told = BTreeSet::new();
            let note = |name: Name| {
                if names.was_told(ROOT, &name, time) {
                    told.insert(name.name.into_string().unwrap());
                }
                false
            };
            names.read_directory(handle, 0, note).unwrap();
            names.close_directory(handle);
            told.into_iter().collect::<Vec<_>>()
        };
        assert_eq!(told(hour), [""; 0], "{place}");
        let one = names.lookup(ROOT, name("one")).unwrap().inode;
        names.lookup(ROOT, name("directory")).unwrap();
        assert_eq!(told(hour), ["directory", "one"], "{place}");
        std::fs::hard_link(source.join("one"), source.join("also")).unwrap();
        assert_eq!(told(hour), ["directory", "one"], "{place}: another name of the same");
        names.forget(one, 1);
        assert_eq!(told(hour), ["directory"], "{place}");
        let since = Instant::now();
        names.lookup(ROOT, name("two")).unwrap();
        std::thread::sleep(Duration::from_millis(30));
        assert_eq!(told(Duration::from_millis(20)), [""; 0], "{place}");
        assert!(
            told(since.elapsed() + Duration::from_millis(50)).contains(&"two".to_owned()),
            "{place}"
        );
    });
}

#[test]
fn names_are_kept_for_few_directories_and_none_is_missing() {
    on_every_file_system(|place, source, names| {
        for number in 0..300 {
            std::fs::write(source.join(format!("file {number:03}")), b"").unwrap();
        }
        let handles: Vec<_> = (0..200).map(|_| names.open_directory(0, ROOT).unwrap()).collect();
        let mut seen = vec![(0, 0); handles.len()];
        // Reads a few names from each handle in turn: most of the names read ahead are dropped in
        // between.
        for _ in 0..40 {
            for (handle, (offset, count)) in handles.iter().zip(&mut seen) {
                let (mut room, from) = (8, *offset);
                let give = |name: crate::names::Name| {
                    if room == 0 {
                        return true;
                    }
                    room -= 1;
                    (*offset, *count) = (name.next, *count + 1);
                    false
                };
                names.read_directory(*handle, from, give).unwrap();
            }
        }
        assert!(seen.iter().all(|(_, count)| *count == 302), "{place}: {seen:?}");
        assert!(names.directories.with_names() <= 64, "{place}");
        handles.into_iter().for_each(|handle| names.close_directory(handle));
    });
}

#[test]
fn a_user_has_a_share_of_open_directories() {
    on_every_file_system(|place, _, names| {
        let user = rustix::process::geteuid().as_raw() + 1;
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let most = limit.unwrap_or(u64::MAX) / 4 * 3;
        let others = names.users.take_descriptors(0, most - 8).unwrap();
        let open: Vec<_> = (0..4).map(|_| names.open_directory(user, ROOT).unwrap()).collect();
        assert_eq!(names.open_directory(user, ROOT).unwrap_err(), Errno::NFILE, "{place}");
        names.close_directory(open[0]);
        names.open_directory(user, ROOT).unwrap();
        drop(others);
    });
}

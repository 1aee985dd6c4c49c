//! Reading directories in parts while they change.

use std::collections::BTreeSet;

use super::*;

/// Reads up to `most` names from `offset`, as a request with a small buffer would. Returns them and where to go on.
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
        let expected: BTreeSet<String> = (0..1500).map(|n| format!("a name of some length, number {n}")).collect();
        expected.iter().for_each(|name| drop(File::create(source.join(name)).unwrap()));
        let handle = names.open_directory(ROOT).unwrap();
        for most in [1, 7, 400, 10_000] {
            let found = all_in_parts(names, handle, most);
            let unique: BTreeSet<String> = found.iter().filter(|name| !name.starts_with('.')).cloned().collect();
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
        let handle = names.open_directory(ROOT).unwrap();
        let (all, _) = part(names, handle, 0, usize::MAX);
        // Half of them go, and others come; what is neither is found behind every offset where it was.
        let kept: BTreeSet<String> = (0..1000).step_by(2).map(|n| format!("file{n:04}")).collect();
        (1..1000).step_by(2).for_each(|n| std::fs::remove_file(path(n)).unwrap());
        (1000..1300).for_each(|n| drop(File::create(path(n)).unwrap()));
        for at in [0, 1, 333, 500, 871, all.len() - 2] {
            let expected: BTreeSet<_> =
                all[at + 1..].iter().map(|(name, _)| name).filter(|n| kept.contains(*n)).collect();
            let (found, _) = part(names, handle, all[at].1, usize::MAX);
            let found: BTreeSet<_> = found.iter().map(|(name, _)| name).filter(|name| kept.contains(*name)).collect();
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
        let handle = names.open_directory(ROOT).unwrap();
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
        assert_eq!(names.open_directory(file).unwrap_err(), Errno::NOTDIR, "{place}");
    });
}

//! Damage that other programs and disks do to one of several files that belong together.

use std::fs;
use std::path::Path;

use crate::Rng;

/// Number of kinds of damage that [`damage`] can do.
pub const DAMAGES: u64 = 7;

/// Damages `file` in the way with this number, below [`DAMAGES`], and returns a description.
/// `other` is a file that belongs to `file`; `old` is an earlier content of `file`.
///
/// # Panics
/// When a file cannot be read or written, or `file` holds less than 1024 bytes.
pub fn damage(way: u64, rng: &mut Rng, file: &Path, other: &Path, old: &[u8]) -> &'static str {
    let read = |path: &Path| fs::read(path).expect("a file to damage can be read");
    let mut now = read(file);
    let write = |path: &Path, bytes: &[u8]| {
        fs::write(path, bytes).expect("a file to damage can be written to")
    };
    match way {
        0 => {
            write(file, &now[..rng.range_usize(0..now.len())]);
            "cut off"
        }
        1 => {
            let more = rng.range_usize(1..100_000);
            write(file, &[now, rng.bytes(more)].concat());
            "made longer"
        }
        2 => {
            write(file, old);
            "restored"
        }
        3 => {
            fs::remove_file(file).expect("a file to damage can be removed");
            "removed"
        }
        4 => {
            now[rng.range_usize(0..1024)] ^= 1 << rng.range(0..8);
            write(file, &now);
            "garbled"
        }
        5 => {
            write(file, &read(other));
            write(other, &now);
            "swapped"
        }
        6 => {
            write(file, &read(other));
            "doubled"
        }
        _ => panic!("there are {DAMAGES} ways, and {way} is none"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Seed;

    #[test]
    fn every_way_is_another_and_changes_something() {
        let dir = tempfile::tempdir().unwrap();
        let (file, other) = (dir.path().join("file"), dir.path().join("other"));
        let mut names = Vec::new();
        for way in 0..DAMAGES {
            fs::write(&file, [1; 2000]).unwrap();
            fs::write(&other, [2; 2000]).unwrap();
            names.push(damage(way, &mut Seed::fixed(way).rng(), &file, &other, &[3; 2000]));
            assert!(fs::read(&file).ok() != Some(vec![1; 2000]), "{names:?}");
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len() as u64, DAMAGES);
    }
}

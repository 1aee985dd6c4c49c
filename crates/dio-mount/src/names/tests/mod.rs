//! Tests of the tree on every file system, with each method of finding inodes again.

mod callers;
mod escape;
mod memory;
mod mounts;
mod reading;
mod table;
mod tree;

use std::ffi::OsStr;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use tempfile::TempDir;

use super::*;
use crate::options::{Live, Mode, Rules, Settings};

/// This process, as the caller of a request.
pub(super) fn me() -> Caller {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    Caller { uid, gid, pid: std::process::id() }
}

pub(super) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

pub(super) fn how(act_as_callers: bool, limit: u64) -> NamesConfig {
    let rules = Rules { rules: Vec::new(), default: Mode::Direct };
    let settings = Settings {
        rules,
        read_ahead: (0, 0),
        write_behind: 0,
        direct_from: 0,
        limit,
        gather: false,
        native: false,
        throttle: Default::default(),
    };
    NamesConfig { act_as_callers, settings: Live::new(settings), descriptors: Arc::default() }
}

pub(super) fn tree_of(source: &Path, limits: Limits) -> Names {
    let source = File::open(source).unwrap();
    Names::with(source.into(), how(is_root(), 64 << 20), limits).unwrap()
}

/// The methods of finding inodes again: as this process may, without handles, and mostly by name.
pub(super) const WAYS: [(&str, Limits); 3] = [
    ("as it may", Limits { descriptors: None, no_handles: false }),
    ("by descriptor", Limits { descriptors: None, no_handles: true }),
    ("by name", Limits { descriptors: Some(1), no_handles: true }),
];

/// Runs a test in a scratch directory of every file system, with each method.
pub(super) fn everywhere(test: impl Fn(&str, &Path, &Names)) {
    in_ways(&WAYS, test);
}

/// Runs a test on every file system, for tests that do not depend on how inodes are found again.
pub(super) fn on_every_file_system(test: impl Fn(&str, &Path, &Names)) {
    in_ways(&WAYS[..1], test);
}

fn in_ways(ways: &[(&str, Limits)], test: impl Fn(&str, &Path, &Names)) {
    for fs in dio_test::file_systems() {
        for (way, limits) in ways.iter().copied() {
            let scratch: TempDir = fs.dir();
            let names = tree_of(scratch.path(), limits);
            test(&format!("{}, {way}", fs.name), scratch.path(), &names);
        }
    }
}

pub(super) fn name(text: &str) -> &OsStr {
    OsStr::new(text)
}

/// Creates a file with mode rw-r--r--.
pub(super) fn new_file(names: &Names, parent: InodeId, text: &str) -> InodeId {
    let (entry, _file) = names.create(me(), parent, name(text), 0o644, 0, OFlags::RDWR).unwrap();
    entry.inode
}

pub(super) fn new_directory(names: &Names, parent: InodeId, text: &str) -> InodeId {
    names.make_directory(me(), parent, name(text), 0o755, 0).unwrap().inode
}

/// Returns all names of a directory except `.` and `..`, sorted.
pub(super) fn list(names: &Names, inode: InodeId) -> Vec<String> {
    let handle = names.open_directory(0, inode).unwrap();
    let mut found = Vec::new();
    let keep = |name: Name| {
        found.push(name.name.into_string().unwrap());
        false
    };
    names.read_directory(handle, 0, keep).unwrap();
    names.close_directory(handle);
    found.retain(|name| name != "." && name != "..");
    found.sort();
    found
}

#[test]
fn names_are_shared_by_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Names>();
    shared::<Arc<Names>>();
}

//! The process's open descriptors, and their limit.

use std::path::PathBuf;

/// Raises the limit of open descriptors to `needed`, as far as the hard limit allows
/// (`getrlimit(2)`).
pub(crate) fn allow_descriptors(needed: u64) {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < needed) {
        limit.current = Some(limit.maximum.map_or(needed, |most| most.min(needed)));
        // If this fails, the error is reported when a file cannot be opened.
        let _ = setrlimit(Resource::Nofile, limit);
    }
}

/// With fewer free descriptors than this, a stream takes one for a file, not two.
const FEW_DESCRIPTORS: u64 = 64;

/// Returns whether descriptors are so few that streams have to save them.
pub(crate) fn are_descriptors_few() -> bool {
    free_descriptors() < FEW_DESCRIPTORS
}

/// Returns how many more descriptors can be opened. If the open ones cannot be counted, it assumes
/// the usual number.
pub(crate) fn free_descriptors() -> u64 {
    use rustix::process::{Resource, getrlimit};
    const USUAL: u64 = 16;
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let open = std::fs::read_dir("/proc/self/fd").map_or(USUAL, |names| names.count() as u64);
    limit.saturating_sub(open)
}

/// Returns the open descriptors: the number of each, and a path by which its file can be examined.
/// There are none if they cannot be listed.
pub(crate) fn open_descriptors() -> impl Iterator<Item = (i32, PathBuf)> {
    let names = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    names.filter_map(|name| Some((name.file_name().to_str()?.parse().ok()?, name.path())))
}

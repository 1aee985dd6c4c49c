//! How many files can be open.

/// Raises the limit of open descriptors as far as so many need it and the hard limit lets it
/// (`getrlimit(2)`).
pub(crate) fn allow_descriptors(needed: u64) {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < needed) {
        limit.current = Some(limit.maximum.map_or(needed, |most| most.min(needed)));
        // What is refused here is told where a file cannot be opened.
        let _ = setrlimit(Resource::Nofile, limit);
    }
}

/// With fewer free descriptors than these, a stream takes one for a file, not two.
const FEW_DESCRIPTORS: u64 = 64;

/// Whether there are so few descriptors that each counts.
pub(crate) fn are_descriptors_few() -> bool {
    free_descriptors() < FEW_DESCRIPTORS
}

/// How many more descriptors can be opened. Where that cannot be found out, the usual ones are
/// taken to be open.
pub(crate) fn free_descriptors() -> u64 {
    use rustix::process::{Resource, getrlimit};
    const USUAL: u64 = 16;
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let open = std::fs::read_dir("/proc/self/fd").map_or(USUAL, |names| names.count() as u64);
    limit.saturating_sub(open)
}

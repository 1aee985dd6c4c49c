//! Limits for the memory that a sort uses.

use dio_common::memory;
use rustix::process::{Resource, getrlimit};

/// Memory of the machine, or the limit of the process's control group if that is lower, in bytes.
pub(crate) fn physical() -> u64 {
    memory::usable(1 << 30)
}

/// Default limit in bytes: half of the memory, or less if less is available (but at least an
/// eighth, as in GNU sort), and at most half of the process limits `RLIMIT_AS` and `RLIMIT_DATA`.
pub(super) fn usual() -> u64 {
    let (physical, free) = (physical(), memory::of_machine("MemAvailable").unwrap_or(u64::MAX));
    let bound = (physical / 2).min(free.max(physical / 8));
    let limits = [Resource::As, Resource::Data]
        .map(|resource| getrlimit(resource).current.unwrap_or(u64::MAX) / 2);
    limits.into_iter().fold(bound, u64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_bound_is_a_part_of_the_memory() {
        let (usual, physical) = (usual(), physical());
        assert!(usual > 1 << 20 && usual <= physical / 2, "{usual} of {physical}");
    }
}

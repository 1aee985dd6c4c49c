//! How much memory a sort may have.

use std::fs;

use rustix::process::{Resource, getrlimit};

/// Memory of the machine, in bytes, or what a control group lets the process have of it, if that is less.
pub(crate) fn physical() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = kibibytes(&text, "MemTotal:").unwrap_or(1 << 30);
    total.min(dio_bench::environment::memory_limit().unwrap_or(u64::MAX))
}

/// The bound where none was asked for: half of the memory, less where less is free (but not less than an eighth, as GNU's
/// sort has it), and at most half of what the process may have (`RLIMIT_AS`, `RLIMIT_DATA`).
pub(super) fn usual() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let (physical, free) = (physical(), kibibytes(&text, "MemAvailable:").unwrap_or(u64::MAX));
    let bound = (physical / 2).min(free.max(physical / 8));
    let limits = [Resource::As, Resource::Data].map(|resource| getrlimit(resource).current.unwrap_or(u64::MAX) / 2);
    limits.into_iter().fold(bound, u64::min)
}

fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_bound_is_a_part_of_the_memory() {
        let (usual, physical) = (usual(), physical());
        assert!(usual > 1 << 20 && usual <= physical / 2, "{usual} of {physical}");
        assert_eq!(kibibytes("MemTotal:  12 kB\nMemAvailable: 7 kB\n", "MemAvailable:"), Some(7 << 10));
    }
}

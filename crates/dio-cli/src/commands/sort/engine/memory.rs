//! How much memory a sort may have.

use std::fs;
use std::path::Path;

use rustix::process::{Resource, getrlimit};

/// Memory of the machine, in bytes, or what a control group lets the process have of it, if that is less.
pub(crate) fn physical() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = kibibytes(&text, "MemTotal:").unwrap_or(1 << 30);
    limits().into_iter().fold(total, u64::min)
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

/// The limits of the process's control groups, of both versions, up to the root (cgroups(7)).
fn limits() -> Vec<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mut found = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            list if list.split(',').any(|name| name == "memory") => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            _ => continue,
        };
        // In a container the path may be one of the host, of which only the last part is to be seen: the root stands for it.
        for group in Path::new(path).ancestors() {
            let file = Path::new(root).join(group.strip_prefix("/").unwrap_or(group)).join(file);
            let limit = fs::read_to_string(file).ok().and_then(|text| text.trim().parse::<u64>().ok());
            found.extend(limit);
        }
    }
    found
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

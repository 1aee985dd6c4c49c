//! The descendants of a process (`/proc/PID/task/TID/children`, `proc_pid_task(5)`).

use std::collections::HashSet;
use std::fs;

/// A process and its current descendants. A process whose parent has ended does not count as a
/// descendant any more.
pub(crate) fn family(root: u32) -> Vec<u32> {
    let mut found = vec![root];
    let mut known = HashSet::from([root]);
    let mut next = 0;
    while let Some(process) = found.get(next).copied() {
        next += 1;
        for thread in threads(process) {
            let children = fs::read_to_string(format!("/proc/{process}/task/{thread}/children"))
                .unwrap_or_default();
            let children = children.split_whitespace().filter_map(|child| child.parse().ok());
            found.extend(children.filter(|child| known.insert(*child)));
        }
    }
    found
}

/// The threads of a process; none if it has ended.
pub(crate) fn threads(process: u32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(format!("/proc/{process}/task")) else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_family_has_children_and_their_children() {
        let mut shell = Command::new("sh")
            .args(["-c", "(read line; true) & read line; wait"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let start = std::time::Instant::now();
        while family(shell.id()).len() < 2 {
            assert!(start.elapsed().as_secs() < 30, "{:?}", family(shell.id()));
        }
        assert!(family(std::process::id()).len() >= 3);
        assert!(!threads(shell.id()).is_empty());
        drop(shell.stdin.take());
        shell.wait().unwrap();
        assert!(threads(shell.id()).is_empty());
    }
}

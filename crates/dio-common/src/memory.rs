//! The machine's memory, and the limits that control groups set for this process.

use std::fs;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// Returns the value of a line of `/proc/meminfo` (`proc_meminfo(5)`), such as `MemTotal`, in
/// bytes. `None` if there is no such line.
#[must_use]
pub fn of_machine(name: &str) -> Option<u64> {
    bytes_in(&fs::read_to_string("/proc/meminfo").ok()?, name)
}

/// As [`of_machine`], from the text of that file.
fn bytes_in(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? << 10)
}

/// Returns the least memory limit, in bytes, among the control groups of this process, of either
/// version, up to the root (`cgroups(7)`); `None` if they set no limit.
#[must_use]
pub fn limit() -> Option<u64> {
    limit_of(
        &fs::read_to_string("/proc/self/cgroup").unwrap_or_default(),
        Path::new("/sys/fs/cgroup"),
    )
}

/// Returns the memory that this process may use, in bytes: that of the machine, or `otherwise` if
/// it is not known, or the [`limit`] if that is lower.
#[must_use]
pub fn usable(otherwise: u64) -> u64 {
    of_machine("MemTotal").unwrap_or(otherwise).min(limit().unwrap_or(u64::MAX))
}

/// Bytes of free memory that [`use_once`] leaves to everything else.
const LEFT: u64 = 1 << 30;

/// Bytes that [`use_once`] touches at a time.
const PIECE: usize = 64 << 20;

/// Uses `most` bytes of free memory, or as many as there are to be used, and frees them again;
/// returns how many.
///
/// A host gives a virtual machine a page of memory when it is first touched, and some machines give
/// free memory back. Filling the page cache with memory that is new in this way took four times as
/// long as with memory that had been used. What is timed before and after this function was called
/// differs by that. Where a control group limits the memory, nothing is touched: pages beyond the
/// limit would be taken from others in the group, which use the same memory again and again.
///
/// The memory is used by the page cache, for a file that consists of a hole. The kernel takes pages
/// for files and for programs from different lists: after a program had used up to 3 GiB, reading
/// 512 MiB into the page cache took as much new memory as before.
pub fn use_once(most: u64) -> u64 {
    if limit().is_some() {
        return 0;
    }
    let free = of_machine("MemFree").unwrap_or(0).saturating_sub(LEFT);
    let pieces = most.div_ceil(PIECE as u64).min(free / PIECE as u64);
    let done = ["/var/tmp", "."].iter().find_map(|dir| use_for_file(dir, pieces));
    if done.is_none() {
        // The value is not zero, since an allocator may get zeroed pages from the kernel without
        // touching them.
        let all: Vec<Vec<u8>> = (0..pieces).map(|_| vec![1; PIECE]).collect();
        std::hint::black_box(&all);
    }
    pieces * PIECE as u64
}

/// Reads that many pieces of a hole, in a file without a name in `dir`. `None` if there can be no
/// such file, or if reading it takes no pages, as on tmpfs.
fn use_for_file(dir: &str, pieces: u64) -> Option<()> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = rustix::fs::open(dir, flags, Mode::RUSR | Mode::WUSR).ok()?;
    let end = pieces * PIECE as u64;
    rustix::fs::ftruncate(&file, end).ok()?;
    let mut buffer = vec![0; 1 << 20];
    let mut done = 0;
    while done < end {
        done += rustix::io::pread(&file, &mut buffer, done).ok().filter(|count| *count > 0)? as u64;
        if done == buffer.len() as u64 && dio::residency::resident_pages(&file).ok()? == 0 {
            return None;
        }
    }
    Some(())
}

/// As [`limit`], for the contents of `/proc/PID/cgroup`, with the controllers mounted at `root`.
fn limit_of(groups: &str, root: &Path) -> Option<u64> {
    let mut least = None;
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let (root, file) = match controllers {
            "" => (root.to_owned(), "memory.max"),
            list if list.split(',').any(|name| name == "memory") => {
                (root.join("memory"), "memory.limit_in_bytes")
            }
            _ => continue,
        };
        // In a container, the path may be the host's, of which only the last part is visible: then
        // the root is that group.
        for group in Path::new(path).ancestors() {
            let file = root.join(group.strip_prefix("/").unwrap_or(group)).join(file);
            let limit =
                fs::read_to_string(file).ok().and_then(|text| text.trim().parse::<u64>().ok());
            // Version 1 expresses "no limit" by a number of pages that no machine has.
            least = least.into_iter().chain(limit.filter(|limit| *limit < 1 << 60)).min();
        }
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_by_their_whole_name() {
        let text = "MemTotal:  12 kB\nMemAvailable: 7 kB\n";
        assert_eq!(bytes_in(text, "MemAvailable"), Some(7 << 10));
        assert_eq!(bytes_in(text, "Mem"), None);
        assert!(of_machine("MemTotal").is_some_and(|bytes| bytes > 1 << 20));
    }

    #[test]
    fn no_more_memory_is_used_than_was_asked_for() {
        assert_eq!(use_once(0), 0);
        let used = use_once(1);
        assert!(used == 0 || used == PIECE as u64, "{used}");
    }

    #[test]
    fn memory_is_used_for_a_file_where_files_have_pages() {
        assert_eq!(use_for_file("/proc", 1), None, "there is no such file");
        assert_eq!(use_for_file("/dev/shm", 1), None, "a hole has no pages");
        assert_eq!(use_for_file("/var/tmp", 1), Some(()));
    }

    #[test]
    fn the_least_limit_of_all_groups_counts() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let limit = |groups: &str| limit_of(groups, root.path());
        assert_eq!(limit("0::/a/b\n"), None);
        write("a/b/memory.max", "max\n");
        write("a/memory.max", "3000000\n");
        assert_eq!(limit("0::/a/b\n"), Some(3_000_000), "that of the group above");
        write("memory/c/memory.limit_in_bytes", "2000000\n");
        write("memory/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(limit("9:cpu:/\n4:memory:/c\n"), Some(2_000_000));
        assert_eq!(
            limit("4:memory:/\n1:name=systemd:/a\n"),
            None,
            "that is how version 1 says it has none"
        );
        assert_eq!(limit("4:memory:/c\n0::/a/b"), Some(2_000_000));
    }
}

//! Distinguishes pages that a program drops from pages that the kernel reclaims.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// Number of attempts, if the kernel reclaims pages during each.
const ATTEMPTS: u32 = 5;

/// How long to wait for a count that others request too.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs a test of the pages that stay in the page cache. Repeats it if it fails while the kernel
/// reclaimed pages of files by itself, which happens if memory is short or a proactive reclaimer
/// runs (`Documentation/admin-guide/mm/damon/`).
///
/// # Panics
/// With the message of an attempt that failed without any reclaim, or of the last attempt.
#[track_caller]
pub fn undisturbed(mut attempt: impl FnMut() -> Result<(), String>) {
    for left in (0..ATTEMPTS).rev() {
        let before = reclaimed();
        let Err(message) = attempt() else { return };
        assert!(left > 0 && reclaimed() != before, "{message}");
        eprintln!("once more, since the kernel takes pages away: {message}");
    }
}

/// A number that grows whenever the kernel reclaims pages of files: reclaimed pages of files
/// (`/proc/vmstat`), and bytes that proactive reclaimers have paged out, which are not counted
/// there. Pages that a program drops are not included. 0 if the number is unknown, so that no
/// failure is excused.
fn reclaimed() -> u64 {
    let text = std::fs::read_to_string("/proc/vmstat").unwrap_or_default();
    let count = text.lines().find_map(|line| line.strip_prefix("pgsteal_file "));
    count.and_then(|count| count.parse::<u64>().ok()).unwrap_or(0) + paged_out()
}

/// Bytes to which the schemes of DAMON were applied
/// (`Documentation/admin-guide/mm/damon/usage.rst`).
fn paged_out() -> u64 {
    let each = |dir: &Path| -> Vec<PathBuf> {
        let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_dir()).collect()
    };
    let monitors = each(Path::new("/sys/kernel/mm/damon/admin/kdamonds"));
    // The files below contain the values of the last update that was requested.
    monitors.iter().for_each(|monitor| update(&monitor.join("state")));
    let contexts = monitors.iter().flat_map(|monitor| each(&monitor.join("contexts")));
    let schemes = contexts.flat_map(|context| each(&context.join("schemes")));
    let applied =
        schemes.filter_map(|scheme| std::fs::read_to_string(scheme.join("stats/sz_applied")).ok());
    applied.filter_map(|bytes| bytes.trim().parse::<u64>().ok()).sum()
}

/// Requests the current values. The kernel refuses that while it serves another request, of a test
/// that runs at the same time, for example; each takes up to half a second.
fn update(state: &Path) {
    let give_up = Instant::now() + PATIENCE;
    while let Err(error) = std::fs::write(state, "update_schemes_stats") {
        if error.kind() != ErrorKind::ResourceBusy || Instant::now() > give_up {
            return;
        }
        thread::sleep(Duration::from_millis(7));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_succeeds_runs_once() {
        let mut runs = 0;
        undisturbed(|| {
            runs += 1;
            Ok(())
        });
        assert_eq!(runs, 1);
    }

    #[test]
    #[should_panic(expected = "all wrong")]
    fn what_always_fails_fails() {
        undisturbed(|| Err("all wrong".to_owned()));
    }

    #[test]
    fn dropping_pages_is_not_reclaiming_them() {
        let file = tempfile::NamedTempFile::new_in("/var/tmp").unwrap();
        undisturbed(|| {
            std::fs::write(file.path(), vec![1; 1 << 20]).unwrap();
            file.as_file().sync_all().unwrap();
            let before = reclaimed();
            rustix::fs::fadvise(file.as_file(), 0, None, rustix::fs::Advice::DontNeed).unwrap();
            let taken = reclaimed() - before;
            if taken == 0 { Ok(()) } else { Err(format!("{taken} pages")) }
        });
    }
}

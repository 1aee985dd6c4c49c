//! What the tests of whole jobs share.

use std::path::Path;
use std::process::Command;

use dio_test::run;

/// Has rsync look for differences of any kind.
pub(crate) fn assert_same(dir: &Path, source: &str, target: &str) {
    let judged = run(Command::new("rsync")
        .args(["-aHAXc", "--dry-run", "--delete", "--itemize-changes"])
        .args([source, target].map(|name| match dir.join(name).is_dir() {
            true => format!("{name}/"),
            false => name.to_owned(),
        }))
        .current_dir(dir));
    assert!(judged.status.success() && judged.stdout.is_empty(), "{judged:?}");
}

/// The number of bytes that a receipt says were written.
pub(crate) fn written(receipt: &str) -> u64 {
    let line = receipt.lines().find_map(|line| line.trim().strip_prefix("\"bytes_written\": "));
    line.unwrap().trim_end_matches(',').parse().unwrap()
}

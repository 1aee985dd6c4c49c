//! What the tools read that others wrote, for the fuzzer, which is in a crate of its own (`fuzz/`).

use dio_mount::stats::Snapshot;

use crate::commands;

/// A note of `cp --resume` as it is written again; `None` where it is none.
pub fn resume_note(text: &[u8]) -> Option<Vec<u8>> {
    commands::cp::fuzz_note(text)
}

/// What the header of a gzip member says without being decompressed: its length, and its name.
pub fn gzip_header(bytes: &[u8]) -> Option<(u64, Option<Vec<u8>>)> {
    commands::gzip::fuzz_header(bytes)
}

/// Reads a list of digests in all ways in which the tools do; returns how many lines make sense.
pub fn digest_list(text: &[u8]) -> usize {
    commands::sum::fuzz_list(text)
}

/// Reads what `stripe check --record` wrote, and returns it as it is written.
pub fn recorded_digests(text: &str) -> Option<String> {
    commands::stripe::fuzz_digests(text)
}

/// Shows the counters of a server in all forms; returns how long these are together.
pub fn show(now: &Snapshot, earlier: Option<&Snapshot>) -> usize {
    commands::stat::fuzz_show(now, earlier)
}

//! Entry points for the fuzzer, which is in a crate of its own (`fuzz/`): parsers of data that
//! other programs wrote.

use dio_mount::stats::Snapshot;

use crate::commands;

/// Parses a note of `cp --resume` and writes it again; `None` if it is not a note.
pub fn resume_note(text: &[u8]) -> Option<Vec<u8>> {
    commands::cp::fuzz_note(text)
}

/// Returns the length of a gzip member's header and the name in it, without decompressing.
pub fn gzip_header(bytes: &[u8]) -> Option<(u64, Option<Vec<u8>>)> {
    commands::gzip::fuzz_header(bytes)
}

/// Parses a list of digests in all the formats that the tools accept; returns the number of valid
/// lines.
pub fn digest_list(text: &[u8]) -> usize {
    commands::sum::fuzz_list(text)
}

/// Parses the output of `stripe check --record`, and writes it again.
pub fn recorded_digests(text: &str) -> Option<String> {
    commands::stripe::fuzz_digests(text)
}

/// Formats the counters of a server in all forms; returns the total length.
pub fn show(now: &Snapshot, earlier: Option<&Snapshot>) -> usize {
    commands::stat::fuzz_show(now, earlier)
}

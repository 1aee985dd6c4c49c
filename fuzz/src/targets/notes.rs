//! Small files that a tool wrote earlier and now believes.

/// A note of `cp --resume` comes back from what is written of it.
pub(super) fn resume(input: &[u8]) {
    dio_cli::fuzz::resume_note(input);
}

/// Lists of digests: what is read of a line has the length of its digest, and what `stripe check
/// --record` wrote comes back.
pub(super) fn digests(input: &[u8]) {
    dio_cli::fuzz::digest_list(input);
    if let Ok(text) = std::str::from_utf8(input) {
        dio_cli::fuzz::recorded_digests(text);
    }
}

//! Small files that a tool wrote earlier and reads again.

/// A note of `cp --resume` is the same when it is read from its own text.
pub(super) fn resume(input: &[u8]) {
    dio_cli::fuzz::resume_note(input);
}

/// Lists of digests: the digest of a line has the length of its kind, and the output of
/// `stripe check --record` is read back unchanged.
pub(super) fn digests(input: &[u8]) {
    dio_cli::fuzz::digest_list(input);
    if let Ok(text) = std::str::from_utf8(input) {
        dio_cli::fuzz::recorded_digests(text);
    }
}

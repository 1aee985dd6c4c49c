//! How a recorded command ended.

use std::path::PathBuf;
use std::process::ExitStatus;

/// What was recorded.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Recorded {
    /// How the command ended.
    pub status: ExitStatus,
    /// Requests in the trace.
    pub requests: u64,
    /// Calls that are missing in it, because they came faster than they were written.
    pub lost: u64,
    /// The first program that ran without the rights which it has by its set-user-ID or
    /// set-group-ID bit, because it was traced.
    pub without_rights: Option<PathBuf>,
}

/// The status as a shell shows it.
pub fn shell_status(status: ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt;
    let code = status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    u8::try_from(code).unwrap_or(1)
}

//! The reasons for which a run ends early, and a helper for names in messages.

use rustix::io::Errno;

use super::quoting::escaped;
use crate::quote::words;

/// The reason for which a run ends early.
#[derive(Debug)]
pub(super) enum EarlyEnd {
    /// An error that GNU tar calls not recoverable, with its message: status 2.
    Fatal(String),
    /// An error that was already reported or needs no message: status 2.
    Told,
    /// A signal was caught.
    Signal,
}

impl EarlyEnd {
    /// `name: Cannot open: No such file or directory`.
    pub(super) fn on(name: impl AsRef<[u8]>, doing: &str, errno: Errno) -> EarlyEnd {
        EarlyEnd::Fatal(format!("{}: Cannot {doing}: {}", escaped(name.as_ref()), words(errno)))
    }
}

/// Returns the name without slashes at its end.
pub(super) fn bare(path: &[u8]) -> &[u8] {
    let end =
        path.iter().rposition(|&byte| byte != b'/').map_or(path.len().min(1), |last| last + 1);
    &path[..end]
}

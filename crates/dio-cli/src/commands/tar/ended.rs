//! Why a run ends before its end, and the names it says so with.

use rustix::io::Errno;

use super::quoting::escaped;
use crate::quote::words;

/// Why a run ends early.
#[derive(Debug)]
pub(super) enum Ended {
    /// What cannot be mended, told with GNU's words about that: status 2.
    Fatal(String),
    /// What was told already, or needs no words: status 2.
    Told,
    /// A signal was caught.
    Signal,
}

impl Ended {
    /// `name: Cannot open: No such file or directory`.
    pub(super) fn on(name: impl AsRef<[u8]>, doing: &str, errno: Errno) -> Ended {
        Ended::Fatal(format!("{}: Cannot {doing}: {}", escaped(name.as_ref()), words(errno)))
    }
}

/// A name without slashes at its end.
pub(super) fn bare(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|&byte| byte != b'/').map_or(path.len().min(1), |last| last + 1);
    &path[..end]
}

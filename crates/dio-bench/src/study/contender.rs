//! The kinds of storage that a study compares.

use serde::{Deserialize, Serialize};

/// A kind of storage for the same data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Contender {
    /// A block device without a file system.
    Raw,
    /// Files, opened with `O_DIRECT`.
    Bare,
    /// Files, through the page cache.
    #[serde(alias = "cached")]
    Buffered,
    /// A mount in direct mode whose writes exclude all other I/O to the file.
    #[serde(alias = "direct")]
    DirectFile,
    /// A mount in direct mode whose writes exclude I/O to their bytes.
    DirectRange,
    /// A mount in concurrent mode.
    Concurrent,
}

impl Contender {
    /// All of them, in the order of reports.
    pub const ALL: [Contender; 6] = [
        Contender::Raw,
        Contender::Bare,
        Contender::Buffered,
        Contender::DirectFile,
        Contender::DirectRange,
        Contender::Concurrent,
    ];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Contender::Raw => "raw",
            Contender::Bare => "bare",
            Contender::Buffered => "buffered",
            Contender::DirectFile => "direct-file",
            Contender::DirectRange => "direct-range",
            Contender::Concurrent => "concurrent",
        }
    }

    /// Options of its mount; `None` if it is no mount.
    pub(crate) fn options(self) -> Option<&'static str> {
        match self {
            Contender::Raw | Contender::Bare | Contender::Buffered => None,
            Contender::DirectFile => Some("dio,lock=file"),
            Contender::DirectRange => Some("dio,lock=range"),
            Contender::Concurrent => Some("cio"),
        }
    }

    /// Whether it is a mount.
    pub fn is_mount(self) -> bool {
        self.options().is_some()
    }
}

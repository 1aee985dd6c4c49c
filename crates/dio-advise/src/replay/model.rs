//! How a trace is replayed, and what came of it.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use serde::Serialize;

use crate::trace::TraceError;

/// How requests reach the files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplayMode {
    /// By the recorded system calls: through the page cache, but for files that were open for
    /// direct I/O.
    #[default]
    Cached,
    /// By the library, in its mode of this name.
    Direct,
    /// By the library, in its mode of this name.
    Concurrent,
    /// By the library, in its mode of this name.
    Uncached,
    /// By the library's streams, which read ahead and write behind past the page cache.
    Streams,
}

/// How fast threads go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Speed {
    /// With the recorded pauses between the requests of a thread, in which the command computed.
    #[default]
    AsRecorded,
    /// Without pauses.
    AsFastAsPossible,
}

/// How a trace is replayed.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReplayOptions {
    /// How requests reach the files.
    pub mode: ReplayMode,
    /// How fast threads go on.
    pub speed: Speed,
}

/// What came of a replay.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Replayed {
    /// How requests reached the files.
    pub mode: ReplayMode,
    /// How fast threads went on.
    pub speed: Speed,
    /// Threads that made requests.
    pub threads: u64,
    /// Files that were made for them.
    pub files: u64,
    /// Requests that were made.
    pub requests: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// Requests that moved another number of bytes than the recorded ones.
    pub differing: u64,
    /// Recorded requests that were not made, by reason.
    pub left_out: BTreeMap<&'static str, u64>,
    /// The trace ends before the command did.
    pub is_cut: bool,
    /// The trace is damaged, and was replayed up to there.
    pub damage: Option<String>,
    /// How long it took, from the start of the first thread to the end of the last one.
    pub seconds: f64,
    /// How long the command took when it was recorded.
    pub recorded_seconds: f64,
}

/// Why a trace was not replayed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The trace cannot be read.
    #[error("{0}")]
    Trace(#[from] TraceError),
    /// Its files do not fit into the directory.
    #[error(
        "the files of the trace need {needed} bytes, and {} has {free} free",
        dio::quote::named(dir)
    )]
    Space {
        /// The directory.
        dir: PathBuf,
        /// Bytes that the files have.
        needed: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// A system call failed.
    #[error("{what}: {error}")]
    Io {
        /// What failed.
        what: String,
        /// Its error.
        #[source]
        error: io::Error,
    },
    /// It was stopped.
    #[error("stopped")]
    Stopped,
}

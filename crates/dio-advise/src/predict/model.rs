//! A prediction, as it is reported.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::course::{SizeCount, TimelineSlot};
use crate::speed::Way;
use crate::trace::TraceError;

/// What is advised for a command or a group of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Advised {
    /// Leave it as it is.
    Cached,
    /// Leave it as it is: its requests are direct already.
    AlreadyDirect,
    /// `dio run -o direct`.
    Direct,
    /// `dio run -o concurrent`.
    Concurrent,
    /// `dio run -o auto`.
    Auto,
    /// The tool of dio in place of the program.
    Tool,
    /// Some files by one way, some by another.
    Mixed,
    /// The evidence does not suffice.
    CannotTell,
}

impl From<Way> for Advised {
    fn from(way: Way) -> Advised {
        match way {
            Way::Cached => Advised::Cached,
            Way::Direct => Advised::Direct,
            Way::Concurrent => Advised::Concurrent,
            Way::Auto => Advised::Auto,
            Way::Tool => Advised::Tool,
        }
    }
}

/// How sure a verdict is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// The model is far from what was recorded.
    Low,
    /// The model is within 30 % of what was recorded.
    Medium,
    /// The model is within 15 % of what was recorded.
    High,
}

/// The verdict.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Verdict {
    /// What is advised.
    pub way: Advised,
    /// How sure it is.
    pub confidence: Confidence,
    /// How to apply it: commands, or lines of fstab. Empty if nothing is to be changed.
    pub apply: Vec<String>,
    /// Why.
    pub why: Vec<String>,
}

/// What a command takes by one way.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WayEstimate {
    /// The way.
    pub way: Advised,
    /// The time of the command that is expected, in seconds.
    pub predicted_seconds: f64,
    /// The least time that is to be expected.
    pub low: f64,
    /// The greatest time that is to be expected.
    pub high: f64,
    /// The time that it took: when it was recorded, or, if it was run again by this way, the median
    /// of the runs.
    pub measured_seconds: Option<f64>,
    /// Bytes of the page cache that it uses.
    pub cache_bytes: u64,
    /// Seconds of processor time, that of the kernel and of the mount's server among them.
    pub cpu_seconds: f64,
    /// The command line that goes this way.
    pub line: Vec<String>,
    /// How to apply it: commands, or lines of fstab. Empty for the way as it is.
    #[serde(default)]
    pub apply: Vec<String>,
}

/// A file as a command found it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundFile {
    /// Its name.
    pub path: PathBuf,
    /// How it was found.
    pub found: Found,
    /// Its inode.
    pub inode: u64,
    /// Whether it was written to, or could have been: it was opened for that.
    pub is_written: bool,
    /// Whether it had bytes before, of which some may have been written over and others not.
    pub is_changed: bool,
    /// The bytes that it had when the command first used it.
    pub size: u64,
    /// The part of these up to which something was read.
    pub read_to: u64,
}

/// Names in a directory that a command has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedNames {
    /// The directory.
    pub directory: PathBuf,
    /// The system call: `rename`, `link`, `unlink`, `mkdir`, `rmdir` or `truncate`.
    pub call: &'static str,
    /// How often it succeeded.
    pub count: u64,
}

/// How a command found a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Most of what it read was in the page cache.
    Warm,
    /// Most of what it read was not.
    Cold,
    /// There was none, and the command made it.
    Absent,
}

/// Advice for a group of files.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GroupAdvice {
    /// The files: a path, a pattern, or a directory with a slash at its end.
    pub files: String,
    /// How many.
    pub count: u64,
    /// What is advised.
    pub way: Advised,
    /// Whether the group matters; a small one is left as it is.
    pub is_large: bool,
    /// What their requests are like.
    pub evidence: Vec<String>,
}

/// A point of the curve that tells how much of what is read a page cache of some size has.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CachePoint {
    /// The size of the cache in bytes.
    pub memory_bytes: u64,
    /// The part of the bytes that are read which are not in it.
    pub miss_ratio: f64,
}

/// A prediction for a command.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Prediction {
    /// The command and its arguments.
    pub command: Vec<String>,
    /// How long it took when it was recorded, in seconds, without what watching added.
    pub recorded_seconds: f64,
    /// What is advised.
    pub verdict: Verdict,
    /// What was advised before the ways were measured; `None` if they were not.
    #[serde(default)]
    pub expected: Option<Verdict>,
    /// The ways: as it is first.
    pub ways: Vec<WayEstimate>,
    /// The groups of files.
    pub groups: Vec<GroupAdvice>,
    /// What a page cache would hold.
    pub miss_ratios: Vec<CachePoint>,
    /// The sizes of requests.
    #[serde(default)]
    pub sizes: Vec<SizeCount>,
    /// Reads, writes and misses of the page cache over the recorded time.
    #[serde(default)]
    pub timeline: Vec<TimelineSlot>,
    /// The disk that the costs were measured on, and when, in seconds since 1970.
    pub profile: (String, u64),
    /// The time that the model expects for the command as it was recorded, to that which it took.
    pub model_ratio: f64,
    /// What the prediction does not know.
    pub missing: Vec<String>,
    /// The files whose way is chosen, as the command found them.
    #[serde(skip)]
    pub files: Vec<FoundFile>,
    /// The names that the command has changed.
    #[serde(skip)]
    pub changed_names: Vec<ChangedNames>,
    /// The memory of the machine, in bytes.
    #[serde(skip)]
    pub(super) memory: u64,
}

/// Why there is no prediction.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PredictError {
    /// The trace cannot be read.
    #[error("{0}")]
    Trace(#[from] TraceError),
    /// It has no requests to files.
    #[error("it has no requests to files")]
    Empty,
}

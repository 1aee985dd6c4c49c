//! A profile: what requests cost on one disk of one machine.

use std::collections::BTreeMap;

use crate::machine_id;
use serde::{Deserialize, Serialize};

/// The version of the profiles that this program writes and reads.
pub const PROFILE_VERSION: u32 = 2;

/// How requests reach the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Way {
    /// Through the page cache, by plain system calls.
    Cached,
    /// Below a `dio run -o direct`.
    Direct,
    /// Below a `dio run -o concurrent`.
    Concurrent,
    /// Below a `dio run -o auto`.
    Auto,
    /// By the streams of the library, as the tools of dio do it.
    Tool,
}

impl Way {
    /// All ways.
    pub const ALL: [Way; 5] = [Way::Cached, Way::Direct, Way::Concurrent, Way::Auto, Way::Tool];

    /// The option of `dio run` by which a command goes this way; `None` if it takes none.
    pub fn mount_option(self) -> Option<&'static str> {
        match self {
            Way::Direct => Some("direct"),
            Way::Concurrent => Some("concurrent"),
            Way::Auto => Some("auto"),
            Way::Cached | Way::Tool => None,
        }
    }
}

/// What is done again and again while its cost is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Operation {
    /// One request after the other reads a file in order that is not in the page cache.
    ReadInOrder,
    /// The same by a program that computes between its requests, for longer than the disk needs.
    ReadInOrderPaced,
    /// Requests read in order what was read just before.
    ReadAgain,
    /// Requests read at random places that are not in the page cache.
    ReadAtRandom,
    /// Requests write a new file in order; closing it is a part of the time.
    WriteInOrder,
    /// The same by a program that computes between its requests.
    WriteInOrderPaced,
    /// Requests write at random places of a file that exists.
    Overwrite,
    /// A request appends to a file, and the file is synced (`fdatasync(2)`).
    AppendAndSync,
    /// A file is synced after so many bytes were written to it, in requests of 1 MiB.
    Sync,
    /// A file is opened, looked at (`fstat(2)`), and closed; of the tools of dio, a small one is
    /// read, too.
    Open,
    /// A name that does not exist is looked at (`lstat(2)`).
    Look,
    /// A new file is made and closed.
    Create,
    /// A file gets another name.
    Rename,
    /// A file is removed.
    Remove,
    /// The permissions of a file are changed (`chmod(2)`).
    Change,
    /// A directory of some hundred files is listed: a call of those that this takes.
    List,
    /// A file is copied to a new one within the kernel (`copy_file_range(2)`), or by the tools of
    /// dio, which also sync it.
    Copy,
    /// A command that does nothing is started below a mount.
    Start,
    /// A tool of dio reads a file and computes, such as a digest.
    Work,
}

/// The cost of one request of an operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// The operation.
    pub operation: Operation,
    /// Of `Work`, the name of the tool.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tool: String,
    /// Bytes of a request; of `Sync`, the bytes that were written before.
    pub bytes: u64,
    /// Threads that made such requests at the same time.
    pub threads: u32,
    /// Seconds of a request: of all threads together, that is, the time divided by the requests.
    /// The median of the rounds.
    pub seconds: f64,
    /// The fastest round.
    pub low: f64,
    /// The slowest round.
    pub high: f64,
    /// Seconds of processor time of a request, with that of the mount's server.
    pub cpu_seconds: f64,
}

/// What requests cost on one disk of one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Profile {
    /// The version of the profile's format.
    pub version: u32,
    /// When it was measured, in seconds since 1970.
    pub measured: u64,
    /// The version of the kernel.
    pub kernel: String,
    /// The number of processors.
    pub processors: u32,
    /// The memory of the machine in bytes.
    pub memory: u64,
    /// The disk, and the kind of the file system on it, as `dio probe` shows them.
    pub disk: String,
    /// The kernel's number of the file system that was measured.
    pub device: u64,
    /// The machine, as [`machine_id`](crate::machine_id) has it.
    #[serde(default)]
    pub machine: String,
    /// The costs by way.
    pub ways: BTreeMap<Way, Vec<Cost>>,
}

/// Why a profile cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// It is none.
    #[error("it is no profile of `dio probe --speed`: {0}")]
    Text(#[from] serde_json::Error),
    /// It has another version.
    #[error("its version is {0}, and this dio reads version {PROFILE_VERSION}: measure again")]
    Version(u32),
    /// A cost is missing, or no time.
    #[error("it has no usable cost of {0}")]
    Cost(String),
}

impl Profile {
    /// Makes a profile: when it was measured, by which kernel, with how many processors and bytes
    /// of memory, on which disk, on the file system of which number, and what requests cost. It is
    /// of this machine.
    pub fn new(
        measured: u64,
        kernel: String,
        (processors, memory): (u32, u64),
        disk: String,
        device: u64,
        ways: BTreeMap<Way, Vec<Cost>>,
    ) -> Profile {
        let version = PROFILE_VERSION;
        let machine = machine_id();
        Profile { version, measured, kernel, processors, memory, disk, device, machine, ways }
    }

    /// Reads a profile.
    ///
    /// # Errors
    /// See [`ProfileError`].
    pub fn read(text: &[u8]) -> Result<Profile, ProfileError> {
        let profile: Profile = serde_json::from_slice(text)?;
        if profile.version != PROFILE_VERSION {
            return Err(ProfileError::Version(profile.version));
        }
        for (way, costs) in &profile.ways {
            if costs.is_empty() {
                return Err(ProfileError::Cost(format!("anything by way {way:?}")));
            }
            let times = |cost: &Cost| [cost.seconds, cost.low, cost.high, cost.cpu_seconds];
            let is_time = |time: &f64| time.is_finite() && (0.0..1e6).contains(time);
            for cost in costs {
                if !times(cost).iter().all(is_time) || cost.seconds <= 0.0 {
                    return Err(ProfileError::Cost(format!("{:?} by way {way:?}", cost.operation)));
                }
            }
        }
        if !profile.ways.contains_key(&Way::Cached) {
            return Err(ProfileError::Cost("the way through the page cache".into()));
        }
        Ok(profile)
    }
}

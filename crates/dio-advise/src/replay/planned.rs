//! A trace as it is replayed: files, threads and requests.

use std::collections::BTreeMap;
use std::path::PathBuf;

use rustix::fs::OFlags;

use crate::trace::Call;

/// A trace as it is replayed.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// The command and its arguments.
    pub(crate) command: Vec<String>,
    /// The machine; empty if that is not known.
    pub(crate) machine: String,
    /// The memory that the command may use, in bytes; 0 if that is not known.
    pub(crate) memory: u64,
    /// What is recorded ran already, and `command` only describes it.
    pub(crate) attached: bool,
    pub(crate) files: Vec<PlannedFile>,
    pub(crate) threads: Vec<PlannedThread>,
    /// Files were mapped so often whose first touches are not in the trace.
    pub(crate) unseen_mappings: u64,
    /// Requests that are not replayed, by reason.
    pub(crate) left_out: BTreeMap<&'static str, u64>,
    /// How often names in a directory were changed, by the directory's number and the call.
    pub(crate) changed_names: BTreeMap<(u32, &'static str), u64>,
    /// How long the command ran, in nanoseconds; if the trace does not say, until its last request.
    pub(crate) recorded: u64,
    /// How long it ran after its last request.
    pub(crate) tail: u64,
}

impl Plan {
    /// The requests of all threads, one thread after the other.
    pub(crate) fn requests(&self) -> impl Iterator<Item = &PlannedRequest> {
        self.threads.iter().flat_map(|thread| &thread.requests)
    }

    /// Seconds in which threads computed between their requests.
    pub(crate) fn computed_seconds(&self) -> f64 {
        let computed = self.requests().filter(|request| !request.waited);
        computed.map(|request| request.pause as f64).sum::<f64>() / 1e9
    }
}

/// A file as it was before the first request.
#[derive(Clone, Debug, Default)]
pub(crate) struct PlannedFile {
    /// Its recorded name.
    pub(crate) path: PathBuf,
    /// Bytes that it had.
    pub(crate) size: u64,
    /// Most of what was read of it was in the page cache.
    pub(crate) is_warm: bool,
    /// Whether it was in the page cache is not known; then it does not count as warm.
    pub(crate) is_cache_unseen: bool,
    /// A request is made to it.
    pub(crate) is_used: bool,
    /// The command made it.
    pub(crate) is_made: bool,
    /// The kernel's number of its file system, and its own there.
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

impl PlannedRequest {
    /// Whether it opens a file to write it anew.
    pub(crate) fn empties(&self) -> bool {
        self.call == Call::Open && OFlags::from_bits_retain(self.flags).contains(OFlags::TRUNC)
    }

    /// The file that the request writes to, truncates, or opens for one of both.
    pub(crate) fn written_file(&self) -> Option<u32> {
        let opens = OFlags::from_bits_retain(self.flags);
        let may_write = opens.intersects(OFlags::WRONLY | OFlags::RDWR | OFlags::TRUNC);
        match self.call {
            call if call.copies() => self.to.map(|(file, _)| file),
            Call::Open => may_write.then_some(self.file),
            Call::Truncate | Call::Ftruncate => Some(self.file),
            call => call.writes().then_some(self.file),
        }
    }
}

/// One thread, or one of several that stand for the requests which a thread had in flight at once.
#[derive(Clone, Debug, Default)]
pub(crate) struct PlannedThread {
    pub(crate) process: u32,
    /// The number of the thread whose requests these are.
    pub(crate) owner: u32,
    pub(crate) requests: Vec<PlannedRequest>,
}

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct PlannedRequest {
    pub(crate) call: Call,
    pub(crate) file: u32,
    /// The file that bytes are copied to, and where.
    pub(crate) to: Option<(u32, u64)>,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    pub(crate) flags: u32,
    pub(crate) direct: bool,
    pub(crate) synced: bool,
    /// It looks at a name that the kernel does not remember, or opens one that it does remember.
    pub(crate) is_of_unknown: bool,
    pub(crate) is_of_known: bool,
    /// What the recorded call returned.
    pub(crate) done: u64,
    /// When the recorded call began and ended.
    pub(crate) start: u64,
    pub(super) end: u64,
    /// How long it took, without what watching added.
    pub(crate) took: u64,
    /// The bytes of pages that were new to the page cache during the call.
    pub(crate) new_to_cache: u64,
    /// The thread waited before it, and did not compute.
    pub(crate) waited: bool,
    /// The request of another thread that it waits for: the number of the thread, and that of the
    /// request in the thread.
    pub(crate) after: Option<(u32, u32)>,
    /// Nanoseconds between the end of the thread's last request, or of the one that it waits for,
    /// and the start of this one.
    pub(crate) pause: u64,
    /// The part of the pause that watching added.
    pub(super) added: u64,
    /// A request of another thread waits for this one.
    pub(crate) is_awaited: bool,
    /// It is the last one of its process to its file.
    pub(crate) is_last: bool,
}

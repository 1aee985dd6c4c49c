//! What is open: one shared state for each inode with open handles, reads and writes by its mode.

use std::sync::Arc;

use fuser::{BackingId, FopenFlags};

/// What an open gives to the kernel.
#[derive(Debug)]
pub struct Opened {
    /// Names the handle in later requests.
    pub handle: u64,
    /// How the kernel is to treat it.
    pub flags: FopenFlags,
    /// The file that the kernel itself reads, writes and maps, where it may.
    pub backing: Option<Arc<BackingId>>,
}

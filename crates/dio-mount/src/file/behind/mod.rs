//! Writing behind: what is acknowledged and not yet written.
//!
//! | module | what it is |
//! |---|---|
//! | `appended` | what is appended, which has no offset before it is in the source |
//! | `ordered` | what a program writes in order, gathered into large blocks, and small files |
//! | `queue` | what both have in common: taking in, and writing in order |
//! | `scatter` | small writes anywhere in a file, many in flight at a time |

mod appended;
mod ordered;
mod queue;
mod scatter;

use std::ops::Range;
use std::sync::Arc;

use dio::{File, Mode};
use rustix::fs::OFlags;
use rustix::io::{Errno, Result};

use super::descriptors::Descriptors;
use super::shared::{Shared, file_of};

pub(super) use appended::Appended;
pub(super) use ordered::{Ordered, SMALL};
pub(super) use scatter::{Scattered, Writer};

/// Where the source has less room than this many bytes besides what is pending everywhere, nothing
/// is acknowledged before it is written: a lack of space is then told by the very write that meets
/// it.
const ROOM: u64 = 64 << 20;

/// Where bytes go that are written in order: the file is opened when there is more than a small one
/// has.
#[derive(Clone, Debug)]
pub(super) struct Aim {
    pub(super) mode: Mode,
    pub(super) descriptors: Arc<Descriptors>,
}

impl Aim {
    /// The file through which to write now.
    ///
    /// # Errors
    /// Those of `open(2)`.
    pub(super) fn file(&self) -> Result<Arc<File>> {
        file_of(&self.descriptors, self.mode, OFlags::empty())
    }

    fn is(&self, other: &Aim) -> bool {
        self.mode == other.mode && Arc::ptr_eq(&self.descriptors, &other.descriptors)
    }
}

/// Where pending bytes go.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) file: Arc<File>,
    pub(super) descriptors: Arc<Descriptors>,
}

impl Target {
    /// The file through which to write now: one that has failed fails for good, and with it what
    /// others have acknowledged.
    pub(super) fn current(&self) -> Arc<File> {
        file_of(&self.descriptors, self.file.mode(), OFlags::empty()).unwrap_or_else(|_| Arc::clone(&self.file))
    }
}

impl Shared {
    /// Waits until everything that has been taken in by now is written. An error is kept for the
    /// writers.
    pub(super) fn settle(&self) {
        self.settle_ordered();
        self.settle_appended();
        self.scattered.settle();
    }

    /// Waits until nothing of the range is pending.
    pub(super) fn make_way(&self, range: &Range<u64>) {
        if self.ordered.overlaps(range) {
            self.settle_ordered();
        }
        if self.appended.reaches_below(range.end) {
            self.settle_appended();
        }
        self.scattered.wait_for(range);
    }

    /// Whether a write that is acknowledged now will find room on the file system of the source
    /// later.
    pub(super) fn has_room(&self, descriptors: &Descriptors) -> bool {
        let pending = self.common.live.get().limit;
        let room = rustix::fs::fstatvfs(descriptors.base());
        room.is_ok_and(|room| room.f_bavail.saturating_mul(room.f_frsize) >= ROOM + pending)
    }
}

/// The error of a write that was acknowledged: that may not be refused for how it was asked for.
pub(super) fn told_later(errno: Errno) -> Errno {
    if errno == Errno::INVAL { Errno::IO } else { errno }
}

//! The state that the threads of a tree share, and the thread that limits its memory.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use rustix::io::{Errno, Result};

use super::descriptors::{Descriptors, PathFd};
use super::inodes::{InodeId, Leaf, Table};
use super::mounts::Mounts;
use crate::options::Live;
use crate::users::Share;

/// Divisor: records of inodes take up to this fraction, a quarter, of [`crate::Settings::limit`].
pub const MEMORY_SHARE_DIVISOR: u64 = 4;

/// Descriptors that were unused for one to two of these intervals are closed if handles can be
/// opened instead: an open descriptor keeps a deleted file alive, and keeps a mount from being
/// unmounted.
const IDLE_INTERVAL: Duration = Duration::from_secs(5);

/// Names that the kernel is asked to forget in one batch.
const BATCH: usize = 256;

/// Time for the kernel to forget a batch.
const FORGET_WAIT: Duration = Duration::from_millis(5);

/// Pause when the kernel was asked to forget everything and still holds it.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Asks the kernel to forget a name.
type ForgetName = Box<dyn Fn(&Leaf) + Send + Sync>;

/// The state that requests change.
#[derive(Debug)]
pub(super) struct TreeState {
    pub(super) table: Table,
    pub(super) descriptors: Descriptors,
    pub(super) mounts: Mounts,
    /// Inodes whose last known name was removed, each with a user's share of the descriptors. Such
    /// an inode is pinned, since it could not be found again. Without a share it is not pinned, and
    /// is found only while it is open.
    nameless: HashMap<InodeId, Option<Share>>,
    ended: bool,
}

/// The state, and a condition variable to wake the forgetting thread.
pub(super) struct SharedTree {
    state: Mutex<TreeState>,
    /// Notified when the records may exceed the budget, and when the tree ends.
    changed: Condvar,
    settings: Live,
    ask: OnceLock<ForgetName>,
}

impl std::fmt::Debug for SharedTree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("records", &self.lock().table.len()).finish_non_exhaustive()
    }
}

impl TreeState {
    /// Removes and returns the descriptors of removed records. The caller closes them after it has
    /// released the lock.
    #[must_use]
    pub(super) fn release_gone(&mut self) -> Vec<PathFd> {
        let gone = self.table.take_gone();
        gone.into_iter()
            .flat_map(|inode| {
                self.nameless.remove(&inode);
                self.descriptors.drop_all(inode)
            })
            .flatten()
            .collect()
    }

    /// Whether the times of a directory change at every change of its contents.
    pub(super) fn tells_changes(&self, inode: InodeId) -> bool {
        self.table.get(inode).is_ok_and(|record| self.mounts.tells_changes(record.identity.mount))
    }

    /// Records that the last known name of an inode is gone.
    pub(super) fn is_nameless(&mut self, inode: InodeId, place: &PathFd, share: Option<Share>) {
        if self.table.get(inode).is_ok() && !self.nameless.contains_key(&inode) {
            if share.is_some() {
                self.descriptors.pin(inode, place);
            }
            self.nameless.insert(inode, share);
        }
    }

    /// Whether a request removed the last known name of an inode, or the inode never had one.
    pub(super) fn has_lost_its_name(&self, inode: InodeId) -> bool {
        self.nameless.contains_key(&inode)
    }

    /// Records that the inode was found by a name.
    pub(super) fn named_again(&mut self, inode: InodeId) {
        if let Some(Some(_)) = self.nameless.remove(&inode) {
            // Another descriptor of the inode is open, so closing this one is fast.
            drop(self.descriptors.unpin(inode));
        }
    }
}

impl SharedTree {
    pub(super) fn new(
        table: Table,
        descriptors: usize,
        mounts: Mounts,
        settings: Live,
    ) -> Arc<SharedTree> {
        let descriptors = Descriptors::new(descriptors);
        let state =
            TreeState { table, descriptors, mounts, nameless: HashMap::new(), ended: false };
        Arc::new(SharedTree {
            state: Mutex::new(state),
            changed: Condvar::new(),
            settings,
            ask: OnceLock::new(),
        })
    }

    /// Locks the state. A lock can be taken after a panic: every change is complete when its lock
    /// is released.
    pub(super) fn lock(&self) -> MutexGuard<'_, TreeState> {
        self.state.lock()
    }

    /// Bytes that records may take.
    fn budget(&self) -> u64 {
        self.settings.get().limit / MEMORY_SHARE_DIVISOR
    }

    /// Wakes the thread if the records, which take `bytes` now, exceed the budget.
    pub(super) fn grew_to(&self, bytes: u64) {
        if self.ask.get().is_some() && bytes > self.budget() {
            self.wake();
        }
    }

    pub(super) fn set_ask(&self, ask: ForgetName) {
        // The first callback that was set stays.
        let _ = self.ask.set(ask);
        self.wake();
    }

    fn wake(&self) {
        self.changed.notify_all();
    }

    pub(super) fn end(&self) {
        self.lock().ended = true;
        self.wake();
    }

    /// Waits for `time`, or until the tree ends.
    fn pause(&self, time: Duration) {
        self.changed.wait_while_for(&mut self.lock(), |state| !state.ended, time);
    }

    /// Runs until the end: closes idle descriptors, and asks the kernel to forget names.
    fn work(&self) {
        let mut full = false;
        loop {
            let mut state = self.lock();
            if state.ended {
                return;
            }
            let (bytes, budget) = (state.table.bytes(), self.budget());
            // Once over the budget, names are forgotten until 7/8 of it is reached, so that memory
            // does not stay at the limit.
            full = self.ask.get().is_some() && bytes > if full { budget / 8 * 7 } else { budget };
            if !full {
                drop(self.rest(state));
                continue;
            }
            // A directory may be a process's working directory, which would lose its path.
            let directories = bytes > budget.saturating_mul(2);
            let leaves = state.table.oldest_leaves(BATCH, directories);
            if leaves.is_empty() {
                state.table.ask_again();
            }
            drop(state);
            if leaves.is_empty() {
                self.pause(RETRY_PAUSE);
                continue;
            }
            if let Some(ask) = self.ask.get() {
                leaves.iter().for_each(ask);
            }
            self.pause(FORGET_WAIT);
        }
    }

    /// Waits until it is woken. After a whole interval without a wake-up, removes and returns the
    /// idle descriptors.
    fn rest(&self, mut state: MutexGuard<'_, TreeState>) -> (Vec<PathFd>, Vec<Arc<OwnedFd>>) {
        let outcome = self.changed.wait_for(&mut state, IDLE_INTERVAL);
        if !outcome.timed_out() || !state.mounts.opens_handles(0) {
            return Default::default();
        }
        (state.descriptors.age(), state.mounts.rest())
    }
}

/// Starts the forgetting thread; it ends after [`SharedTree::end`].
pub(super) fn start(shared: &Arc<SharedTree>) -> Result<()> {
    let shared = Arc::clone(shared);
    let work = move || shared.work();
    let thread = std::thread::Builder::new().name("forget".into()).spawn(work);
    thread.map(drop).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::AGAIN))
}

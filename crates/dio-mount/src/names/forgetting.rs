//! What the threads of a tree share, and the thread that keeps it small.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use rustix::io::{Errno, Result};

use super::descriptors::{Descriptors, Place};
use super::inodes::{InodeId, Leaf, Table};
use super::mounts::Mounts;
use crate::options::Live;
use crate::users::Share;

/// Inodes take up to this part of [`crate::Settings::limit`].
pub const SHARE: u64 = 4;

/// Places that were not used for one to two of these are closed where handles do as well: they
/// would keep deleted files and unused mounts.
const IDLE: Duration = Duration::from_secs(5);

/// Names that the kernel is asked to forget before what it gave back is looked at.
const BATCH: usize = 256;

/// What the kernel is given to answer a batch.
const ANSWER: Duration = Duration::from_millis(5);

/// How long it rests when everything was asked for and the kernel holds on to it.
const IN_VAIN: Duration = Duration::from_secs(1);

/// Called with what the kernel may forget.
type Ask = Box<dyn Fn(&Leaf) + Send + Sync>;

/// Everything that a request may change.
#[derive(Debug)]
pub(super) struct State {
    pub(super) table: Table,
    pub(super) descriptors: Descriptors,
    pub(super) mounts: Mounts,
    /// Inodes whose last known name is gone: pinned, since they could not be found again, with
    /// whose share of the descriptors. One that nobody had a share for is found as long as it is
    /// open.
    nameless: HashMap<InodeId, Option<Share>>,
    ended: bool,
}

/// The state and who waits for it.
pub(super) struct Shared {
    state: Mutex<State>,
    /// There are too many records, or the tree is at its end.
    changed: Condvar,
    settings: Live,
    ask: OnceLock<Ask>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("records", &self.lock().table.len()).finish_non_exhaustive()
    }
}

impl State {
    /// Takes the places of records that were removed, to be closed without the lock.
    #[must_use]
    pub(super) fn release_gone(&mut self) -> Vec<Place> {
        let gone = self.table.take_gone();
        gone.into_iter()
            .flat_map(|inode| {
                self.nameless.remove(&inode);
                self.descriptors.drop_all(inode)
            })
            .flatten()
            .collect()
    }

    /// Whether the times of a directory tell of every change in it.
    pub(super) fn tells_changes(&self, inode: InodeId) -> bool {
        self.table.get(inode).is_ok_and(|record| self.mounts.tells_changes(record.identity.mount))
    }

    /// The last known name of an inode is gone.
    pub(super) fn is_nameless(&mut self, inode: InodeId, place: &Place, share: Option<Share>) {
        if self.table.get(inode).is_ok() && !self.nameless.contains_key(&inode) {
            if share.is_some() {
                self.descriptors.pin(inode, place);
            }
            self.nameless.insert(inode, share);
        }
    }

    /// Whether the last known name of an inode went, or never was, by a request.
    pub(super) fn has_lost_its_name(&self, inode: InodeId) -> bool {
        self.nameless.contains_key(&inode)
    }

    /// The inode was found by a name.
    pub(super) fn named_again(&mut self, inode: InodeId) {
        if let Some(Some(_)) = self.nameless.remove(&inode) {
            // Another place of it is open, so closing this one takes no time.
            drop(self.descriptors.unpin(inode));
        }
    }
}

impl Shared {
    pub(super) fn new(table: Table, descriptors: usize, mounts: Mounts, settings: Live) -> Arc<Shared> {
        let descriptors = Descriptors::new(descriptors);
        let state = State { table, descriptors, mounts, nameless: HashMap::new(), ended: false };
        Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new(), settings, ask: OnceLock::new() })
    }

    /// Every change of the state is complete when its lock is given up, by panic too.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Bytes that records may take.
    fn budget(&self) -> u64 {
        self.settings.get().limit / SHARE
    }

    /// There are records for `bytes` now.
    pub(super) fn grew_to(&self, bytes: u64) {
        if self.ask.get().is_some() && bytes > self.budget() {
            self.wake();
        }
    }

    pub(super) fn set_ask(&self, ask: Ask) {
        // Who is told first goes on to be told.
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

    /// Waits unless the end comes.
    fn pause(&self, time: Duration) {
        self.changed.wait_while_for(&mut self.lock(), |state| !state.ended, time);
    }

    /// Until the end: closes idle places, and has the kernel asked to forget.
    fn work(&self) {
        let mut full = false;
        loop {
            let mut state = self.lock();
            if state.ended {
                return;
            }
            let (bytes, budget) = (state.table.bytes(), self.budget());
            // Once over the budget, down to 7/8 of it, so that it does not stay at the edge.
            full = self.ask.get().is_some() && bytes > if full { budget / 8 * 7 } else { budget };
            if !full {
                drop(self.rest(state));
                continue;
            }
            // A directory may be somebody's working directory, which would lose its path.
            let directories = bytes > budget.saturating_mul(2);
            let leaves = state.table.oldest_leaves(BATCH, directories);
            if leaves.is_empty() {
                state.table.ask_again();
            }
            drop(state);
            if leaves.is_empty() {
                self.pause(IN_VAIN);
                continue;
            }
            if let Some(ask) = self.ask.get() {
                leaves.iter().for_each(ask);
            }
            self.pause(ANSWER);
        }
    }

    /// Waits until there is something to do, or else long enough to find out what is idle, and
    /// takes that.
    fn rest(&self, mut state: MutexGuard<'_, State>) -> (Vec<Place>, Vec<Arc<OwnedFd>>) {
        let outcome = self.changed.wait_for(&mut state, IDLE);
        if !outcome.timed_out() || !state.mounts.opens_handles(0) {
            return Default::default();
        }
        (state.descriptors.age(), state.mounts.rest())
    }
}

/// Starts the thread; it ends by itself after [`Shared::end`].
pub(super) fn start(shared: &Arc<Shared>) -> Result<()> {
    let shared = Arc::clone(shared);
    let work = move || shared.work();
    let thread = std::thread::Builder::new().name("forget".into()).spawn(work);
    thread.map(drop).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::AGAIN))
}

//! Descriptors of inodes: recently used ones up to a limit, and pinned ones, without which an inode
//! could not be opened again.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::inodes::InodeId;

/// A descriptor opened with `O_PATH`.
pub(super) type PathFd = Arc<OwnedFd>;

/// Raises the soft limit on descriptors to the hard limit, and returns it.
pub(super) fn raise_descriptor_limit() -> usize {
    let limit = getrlimit(Resource::Nofile);
    if limit.current < limit.maximum {
        // If this is refused, the old limit stays.
        let _ =
            setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    }
    getrlimit(Resource::Nofile).current.map_or(usize::MAX, |limit| limit as usize)
}

#[derive(Debug)]
struct HeldDescriptor {
    inode: InodeId,
    place: PathFd,
    /// Whether it was used since the clock hand or the last [`Descriptors::age`] cleared this.
    used: bool,
}

/// A cache of at most `limit` recently used descriptors (second chance), and the pinned
/// descriptors.
#[derive(Debug)]
pub(super) struct Descriptors {
    limit: usize,
    ring: Vec<HeldDescriptor>,
    hand: usize,
    /// Invariant: maps an inode to the index of its element in `ring`.
    by_inode: HashMap<InodeId, usize>,
    /// The pinned descriptors, each with its number of pins.
    pinned: HashMap<InodeId, (PathFd, u32)>,
}

impl Descriptors {
    pub(super) fn new(limit: usize) -> Descriptors {
        let limit = limit.max(1);
        Descriptors {
            limit,
            ring: Vec::new(),
            hand: 0,
            by_inode: HashMap::new(),
            pinned: HashMap::new(),
        }
    }

    /// Returns the descriptor of an inode, if there is one.
    pub(super) fn get(&mut self, inode: InodeId) -> Option<PathFd> {
        if let Some(at) = self.by_inode.get(&inode) {
            self.ring[*at].used = true;
            return Some(Arc::clone(&self.ring[*at].place));
        }
        self.pinned.get(&inode).map(|(place, _)| Arc::clone(place))
    }

    /// Whether [`Descriptors::get`] would return one.
    pub(super) fn has(&self, inode: InodeId) -> bool {
        self.by_inode.contains_key(&inode) || self.pinned.contains_key(&inode)
    }

    /// Adds the descriptor of an inode to the cache. Returns the descriptor that was evicted, or
    /// `place` if the inode has one already. The caller closes it after it has released the lock.
    #[must_use]
    pub(super) fn keep(&mut self, inode: InodeId, place: PathFd) -> Option<PathFd> {
        if self.has(inode) {
            return Some(place);
        }
        let held = HeldDescriptor { inode, place, used: false };
        if self.ring.len() < self.limit {
            self.by_inode.insert(inode, self.ring.len());
            self.ring.push(held);
            return None;
        }
        while std::mem::take(&mut self.ring[self.hand].used) {
            self.hand = (self.hand + 1) % self.ring.len();
        }
        let old = std::mem::replace(&mut self.ring[self.hand], held);
        self.by_inode.remove(&old.inode);
        self.by_inode.insert(inode, self.hand);
        self.hand = (self.hand + 1) % self.ring.len();
        Some(old.place)
    }

    /// Pins the descriptor of an inode; it stays until it is unpinned as many times.
    pub(super) fn pin(&mut self, inode: InodeId, place: &PathFd) {
        let entry = self.pinned.entry(inode).or_insert_with(|| (Arc::clone(place), 0));
        entry.1 += 1;
    }

    /// Removes one pin; returns the descriptor if that was the last one.
    #[must_use]
    pub(super) fn unpin(&mut self, inode: InodeId) -> Option<PathFd> {
        let (_, count) = self.pinned.get_mut(&inode)?;
        *count -= 1;
        if *count > 0 {
            return None;
        }
        self.pinned.remove(&inode).map(|(place, _)| place)
    }

    /// Removes all descriptors of an inode.
    #[must_use]
    pub(super) fn drop_all(&mut self, inode: InodeId) -> [Option<PathFd>; 2] {
        let pinned = self.pinned.remove(&inode).map(|(place, _)| place);
        let held = self.by_inode.get(&inode).copied().map(|at| self.take(at));
        [pinned, held]
    }

    /// Removes the cached descriptors that were not used since the last call.
    #[must_use]
    pub(super) fn age(&mut self) -> Vec<PathFd> {
        let mut old = Vec::new();
        for at in (0..self.ring.len()).rev() {
            if !std::mem::take(&mut self.ring[at].used) {
                old.push(self.take(at));
            }
        }
        old
    }

    /// Removes half of the cached descriptors, because the process has no free descriptors left.
    #[must_use]
    pub(super) fn halve(&mut self) -> Vec<PathFd> {
        let half = self.ring.len().div_ceil(2);
        (0..half).map(|_| self.take(self.ring.len() - 1)).collect()
    }

    fn take(&mut self, at: usize) -> PathFd {
        let held = self.ring.swap_remove(at);
        self.by_inode.remove(&held.inode);
        if let Some(moved) = self.ring.get(at) {
            self.by_inode.insert(moved.inode, at);
        }
        if self.hand >= self.ring.len() {
            self.hand = 0;
        }
        held.place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> PathFd {
        Arc::new(std::fs::File::open("/dev/null").unwrap().into())
    }

    #[test]
    fn the_least_used_goes_first_and_pinned_ones_stay() {
        let mut all = Descriptors::new(3);
        let pinned = place();
        all.pin(9, &pinned);
        all.pin(9, &pinned);
        for inode in 1..=3 {
            assert!(all.keep(inode, place()).is_none());
        }
        assert!(all.get(1).is_some() && all.get(3).is_some());
        assert!(all.keep(4, place()).is_some());
        assert!(all.has(1) && !all.has(2) && all.has(3) && all.has(4));
        assert!(all.unpin(9).is_none() && all.has(9));
        assert!(all.unpin(9).is_some() && !all.has(9));
    }

    #[test]
    fn ageing_takes_what_was_not_used_twice_in_a_row() {
        let mut all = Descriptors::new(8);
        for inode in 1..=5 {
            assert!(all.keep(inode, place()).is_none());
        }
        assert!(all.get(2).is_some() && all.get(5).is_some());
        assert_eq!(all.age().len(), 3);
        assert!(all.has(2) && all.has(5) && !all.has(1));
        assert_eq!(all.age().len(), 2);
        assert!(all.ring.is_empty());
    }

    #[test]
    fn giving_up_one_leaves_the_others_where_they_are_found() {
        let mut all = Descriptors::new(8);
        for inode in 1..=6 {
            assert!(all.keep(inode, place()).is_none());
        }
        assert!(all.drop_all(1)[1].is_some());
        assert!(all.drop_all(1)[1].is_none());
        assert!((2..=6).all(|inode| all.get(inode).is_some()));
        assert_eq!(all.halve().len(), 3);
        assert_eq!((2..=6).filter(|inode| all.has(*inode)).count(), 2);
    }
}

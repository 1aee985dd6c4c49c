//! Detects changes of the source beside the mount: by programs that use the source directly, or
//! through another mount of it.
//!
//! The kernel caches pages of the mount for readers that gather and for mappings. It drops them
//! once when attributes show another size or time of modification, and then fills them
//! again from this server. Three rules keep its pages, and the bytes that the server has read
//! ahead, from staying stale:
//!
//! 1. Once attributes that show a change have been returned, no bytes that were read before are
//!    returned any more. The first attributes are compared with those at the open, before which
//!    nothing is read.
//! 2. While the kernel may have pages of an inode, its attributes are compared every [`LOOK`], and
//!    pages from before a change are dropped. Mappings need that: the kernel requests no attributes
//!    on their behalf. If there are more than [`WATCHED_MAX`] such inodes, those that were not read
//!    lately lose their pages, so that a server with many idle files is idle too.
//! 3. A write sets the time of modification before its bytes are in the file. A reader in between
//!    gets the new time and the old bytes. So pages are dropped again one second after a change was
//!    found, then after two, four and so on. The bytes that a call writes last become visible at
//!    most as much later as the call took.
//!
//! Writes through this mount change the attributes too. They keep the caches right by themselves.
//! So a change that they explain drops pages only every [`MIXED`], in case another program has
//! written between them.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use dio::names::stat_of_contents;
use parking_lot::{Mutex, MutexGuard};
use rustix::fs::{Stat, fstat};
use rustix::io::Result;

/// How often the attributes of an inode are compared while the kernel may have pages of it.
pub(super) const LOOK: Duration = Duration::from_millis(500);

/// Most inodes that are compared this often, at a microsecond or two each. In tests it is low,
/// since tests have few descriptors.
pub(super) const WATCHED_MAX: usize = if cfg!(test) { 50 } else { 1000 };

/// How long after a change was found the bytes of all usual writes are in the file.
const SETTLED: Duration = Duration::from_secs(1);

/// How often that time doubles: up to about a year.
const DOUBLED_MAX: u32 = 25;

/// How often pages are dropped while writes through this mount could hide those of other programs.
const MIXED: Duration = Duration::from_secs(9);

/// The attributes that show a change of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Signature {
    size: i64,
    modified: (i64, u64),
    changed: (i64, u64),
}

impl Signature {
    pub(super) fn of(stat: &Stat) -> Signature {
        Signature {
            size: stat.st_size,
            modified: (stat.st_mtime, stat.st_mtime_nsec),
            changed: (stat.st_ctime, stat.st_ctime_nsec),
        }
    }

    /// Reads the signature of an open file of the source. For a striped file it has the size and
    /// times of its parts.
    ///
    /// # Errors
    /// Those of `fstat(2)`.
    pub(super) fn now(fd: impl std::os::fd::AsFd) -> Result<Signature> {
        let stat = fstat(&fd)?;
        Ok(Signature::of(&stat_of_contents(&fd, stat).map_or(stat, |(stat, _)| stat)))
    }

    /// Whether the kernel, which compares fewer attributes, drops its pages by itself when `self`
    /// follows `before`.
    fn shows_after(&self, before: &Signature) -> bool {
        (self.size, self.modified) != (before.size, before.modified)
    }

    /// How long ago the file was changed, by the clock; zero for a time in the future.
    fn age(&self) -> Duration {
        let (seconds, nanoseconds) = self.changed;
        let changed = Duration::new(
            u64::try_from(seconds).unwrap_or(0),
            u32::try_from(nanoseconds).unwrap_or(0),
        );
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        now.saturating_sub(changed)
    }
}

/// The result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FoundChange {
    Same,
    /// The file has changed. `shown` states that the kernel drops its pages by itself when it
    /// receives these attributes.
    Changed {
        shown: bool,
    },
    /// The file has changed, and writes through this mount explain it.
    Explained,
}

/// The last attributes of an inode, and the doubts about its pages.
#[derive(Debug, Default)]
pub(super) struct Freshness(Mutex<LastComparison>);

#[derive(Debug)]
struct LastComparison {
    seen: Option<Signature>,
    /// When the last change was found. `settled` counts how often pages have been dropped since,
    /// for bytes that may have arrived later.
    since: Instant,
    settled: u32,
    /// Number of changes through this mount at the last comparison.
    own: u64,
    /// Since when writes through this mount may hide those of other programs.
    mixed: Option<Instant>,
    looked: Instant,
}

impl Default for LastComparison {
    fn default() -> LastComparison {
        let now = Instant::now();
        LastComparison { seen: None, since: now, settled: 0, own: 0, mixed: None, looked: now }
    }
}

impl Freshness {
    /// Creates the state of an inode that is being opened. `opened` holds its attributes from
    /// before anything of it was read.
    pub(super) fn of(opened: Option<Signature>) -> Freshness {
        let freshness = Freshness::default();
        if let Some(opened) = opened {
            freshness.compare(opened, 0);
        }
        freshness
    }

    fn state(&self) -> MutexGuard<'_, LastComparison> {
        self.0.lock()
    }

    /// Compares the attributes with the previous ones. `own` counts the changes through this mount.
    pub(super) fn compare(&self, now: Signature, own: u64) -> FoundChange {
        let mut state = self.state();
        let explained = std::mem::replace(&mut state.own, own) != own;
        match state.seen.replace(now) {
            Some(before) if before == now => FoundChange::Same,
            Some(_) if explained => {
                state.mixed.get_or_insert_with(Instant::now);
                FoundChange::Explained
            }
            Some(before) => {
                (state.since, state.settled) = (Instant::now(), 0);
                FoundChange::Changed { shown: now.shows_after(&before) }
            }
            None => {
                // A recent change may not be complete yet.
                state.since = Instant::now();
                state.settled =
                    now.age().as_secs().checked_ilog2().map_or(0, |doubled| doubled + 1);
                FoundChange::Same
            }
        }
    }

    /// Whether the next comparison is due. If so, the interval begins again.
    pub(super) fn is_due(&self) -> bool {
        let mut state = self.state();
        // A comparison is due a little early, so that a janitor with the same interval does not
        // skip every second one.
        let due = state.looked.elapsed() >= LOOK / 2;
        if due {
            state.looked = Instant::now();
        }
        due
    }

    /// Whether the bytes of the last change are surely in the file, except those of single writes
    /// that take long.
    pub(super) fn is_settled(&self) -> bool {
        self.state().settled > 0
    }

    /// Whether pages must be dropped although nothing has changed since the last comparison. Each
    /// reason counts once.
    pub(super) fn is_doubtful(&self) -> bool {
        let mut state = self.state();
        let settled =
            state.settled <= DOUBLED_MAX && state.since.elapsed() >= SETTLED * (1 << state.settled);
        state.settled += u32::from(settled);
        let mixed = state.mixed.is_some_and(|since| since.elapsed() >= MIXED);
        if mixed {
            state.mixed = None;
        }
        settled || mixed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signature(size: i64, modified: i64, changed: i64) -> Signature {
        Signature { size, modified: (modified, 0), changed: (changed, 0) }
    }

    #[test]
    fn what_others_change_is_told_from_what_we_change() {
        let freshness = Freshness::default();
        assert_eq!(freshness.compare(signature(1, 1, 1), 0), FoundChange::Same);
        assert_eq!(freshness.compare(signature(1, 1, 1), 0), FoundChange::Same);
        assert_eq!(freshness.compare(signature(1, 2, 2), 0), FoundChange::Changed { shown: true });
        assert_eq!(freshness.compare(signature(1, 2, 3), 0), FoundChange::Changed { shown: false });
        assert_eq!(freshness.compare(signature(1, 4, 4), 2), FoundChange::Explained);
        assert_eq!(freshness.compare(signature(1, 4, 4), 4), FoundChange::Same);
        assert_eq!(freshness.compare(signature(2, 4, 4), 4), FoundChange::Changed { shown: true });
    }

    #[test]
    fn a_change_is_doubtful_until_its_bytes_are_surely_there() {
        let freshness = Freshness::default();
        freshness.compare(signature(1, 1, 1), 0);
        assert!(!freshness.is_doubtful(), "it is old");
        freshness.compare(signature(1, 2, 2), 0);
        assert!(!freshness.is_doubtful());
        for time in [1, 2, 4, 8, 16, 32, 64] {
            let long_ago =
                Instant::now().checked_sub(SETTLED * time).expect("the machine has run for longer");
            freshness.state().since = long_ago;
            assert!(freshness.is_doubtful());
            assert!(!freshness.is_doubtful(), "once for each time");
        }
        freshness.compare(signature(1, 3, 3), 1);
        assert!(!freshness.is_doubtful());
        freshness.state().mixed = Instant::now().checked_sub(MIXED);
        assert!(freshness.is_doubtful() && !freshness.is_doubtful());
    }

    #[test]
    fn an_inode_that_was_just_changed_is_not_settled() {
        let file = tempfile::tempfile().unwrap();
        let now = Signature::now(&file).unwrap();
        let freshness = Freshness::default();
        freshness.compare(now, 0);
        assert!(!freshness.is_settled());
        let freshness = Freshness::default();
        freshness.compare(signature(0, 0, 1), 0);
        assert!(freshness.is_settled());
    }
}

//! Notes of which copies are durable, so that a copy that was cut short goes on.

use std::ops::Range;

use rustix::fs::Stat;

use super::facts::FileFacts;

/// Identifies a copy of a regular file in the state that both files have: another file under either
/// name, or a change of either, has another mark. Machines number devices differently, so only
/// inodes count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CopyMark(pub [u8; 16]);

impl CopyMark {
    /// The mark of these two files. A file with several names changes when it gets one more, so of
    /// the target of `linked` files the time of change does not count.
    pub(crate) fn of(source: &Stat, target: &Stat, linked: bool) -> CopyMark {
        let mut hasher = blake3::Hasher::new();
        for (stat, changes) in [(source, true), (target, !linked)] {
            let changed = if changes { (stat.st_ctime, stat.st_ctime_nsec as i64) } else { (0, 0) };
            let times = [stat.st_mtime, stat.st_mtime_nsec as i64, changed.0, changed.1];
            hasher.update(&stat.st_ino.to_le_bytes()).update(&stat.st_size.to_le_bytes());
            times.iter().for_each(|time| {
                hasher.update(&time.to_le_bytes());
            });
        }
        CopyMark::from_hash(&hasher)
    }

    /// The mark of a range of a large file, as it is after it was copied.
    pub(crate) fn of_piece(facts: &FileFacts, range: &Range<u64>) -> CopyMark {
        CopyMark::of_facts(b"piece", facts, range)
    }

    /// The mark of a large file that is complete. Its pieces are not believed any more: somebody
    /// may change it, which only the mark of the whole file would tell.
    pub(crate) fn of_complete(facts: &FileFacts) -> CopyMark {
        CopyMark::of_facts(b"whole", facts, &(0..facts.size))
    }

    fn of_facts(what: &[u8; 5], facts: &FileFacts, range: &Range<u64>) -> CopyMark {
        let mut hasher = blake3::Hasher::new();
        let (modified, changed) = (facts.modified, facts.changed);
        let born = facts.target_born.unwrap_or_default();
        let times = [modified.0, modified.1, changed.0, changed.1, born.0, born.1.into()];
        let numbers = [facts.source_inode, facts.size, facts.target_inode, range.start, range.end];
        hasher.update(what);
        numbers.iter().for_each(|number| {
            hasher.update(&number.to_le_bytes());
        });
        times.iter().for_each(|time| {
            hasher.update(&time.to_le_bytes());
        });
        CopyMark::from_hash(&hasher)
    }

    fn from_hash(hasher: &blake3::Hasher) -> CopyMark {
        let mut mark = [0; 16];
        hasher.finalize_xof().fill(&mut mark);
        CopyMark(mark)
    }
}

/// Keeps the notes.
pub trait Notes: Send + Sync {
    /// Returns whether an earlier attempt noted that this copy is durable.
    fn is_durable(&self, mark: &CopyMark) -> bool;
    /// A copy is complete. It is durable after the next sync.
    fn completed(&self, mark: CopyMark);
}

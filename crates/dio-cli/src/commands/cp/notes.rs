//! The marks of copies that are durable, so that a copy that was cut short goes on.

use std::ops::Range;

use rustix::fs::Stat;

use super::facts::FileFacts;
use crate::tool::{FileState, Mark};

impl Mark {
    /// The mark of a copy of a regular file in the state that both files have. A file with several
    /// names changes when it gets one more, so of the target of `linked` files the time of change
    /// does not count.
    pub(crate) fn of(source: &Stat, target: &Stat, linked: bool) -> Mark {
        let mut hasher = blake3::Hasher::new();
        for (stat, changes) in [(source, true), (target, !linked)] {
            let mut state = FileState::of(stat);
            if !changes {
                state.changed = (0, 0);
            }
            state.add_to(&mut hasher);
        }
        Mark::from_hash(&hasher)
    }

    /// The mark of a range of a large file, as it is after it was copied.
    pub(crate) fn of_piece(facts: &FileFacts, range: &Range<u64>) -> Mark {
        Mark::of_facts(b"piece", facts, range)
    }

    /// The mark of a large file of which a piece is noted.
    pub(crate) fn of_begun(facts: &FileFacts) -> Mark {
        Mark::of_facts(b"begun", facts, &(0..facts.size))
    }

    /// The mark of a large file that is complete. Its pieces are not believed any more: somebody
    /// may change it, which only the mark of the whole file would tell.
    pub(crate) fn of_complete(facts: &FileFacts) -> Mark {
        Mark::of_facts(b"whole", facts, &(0..facts.size))
    }

    fn of_facts(what: &[u8; 5], facts: &FileFacts, range: &Range<u64>) -> Mark {
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
        Mark::from_hash(&hasher)
    }
}

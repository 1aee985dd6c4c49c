//! Notes of what the processes of a job have done, so that a job that was cut short goes on.

use std::io;

use rustix::fs::{Stat, Statx, StatxFlags};
use serde::{Deserialize, Serialize};

/// Identifies what is noted, in the state of the files that it is about: another file under the
/// same name, or a change, has another mark.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Mark(pub [u8; 16]);

impl Mark {
    /// The mark of what was hashed.
    pub(crate) fn from_hash(hasher: &blake3::Hasher) -> Mark {
        let mut mark = [0; 16];
        hasher.finalize_xof().fill(&mut mark);
        Mark(mark)
    }
}

/// Keeps the notes.
pub trait Notes: Send + Sync {
    /// Returns whether an earlier attempt noted that what has this mark is durable.
    fn is_durable(&self, mark: &Mark) -> bool;
    /// What has this mark is complete. It is durable after the next sync.
    fn completed(&self, mark: Mark);
    /// Returns the value that an earlier attempt noted for this mark: of several the greatest, byte
    /// by byte.
    fn value(&self, mark: &Mark) -> Option<Vec<u8>>;
    /// Notes a value, of less than 64 KiB, after the next sync.
    fn note(&self, mark: Mark, value: &[u8]);
    /// Notes a value durably before it returns, without a sync of anything else.
    ///
    /// # Errors
    /// Errors of writing and syncing; then it may be noted or not.
    fn note_now(&self, mark: Mark, value: &[u8]) -> io::Result<()>;
}

/// The state of a regular file. Machines number devices differently, so only the inode counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileState {
    pub(crate) inode: u64,
    pub(crate) size: u64,
    pub(crate) modified: (i64, i64),
    pub(crate) changed: (i64, i64),
}

impl FileState {
    pub(crate) fn of(stat: &Stat) -> FileState {
        FileState {
            inode: stat.st_ino,
            size: stat.st_size as u64,
            modified: (stat.st_mtime, stat.st_mtime_nsec as i64),
            changed: (stat.st_ctime, stat.st_ctime_nsec as i64),
        }
    }

    /// Whether this may be the state of the same file, which nobody has made longer or shorter.
    /// Some file systems (SSHFS) number inodes on each machine by themselves; then the time of the
    /// last modification counts.
    pub(crate) fn is_of_same_file(&self, other: &FileState) -> bool {
        self.size == other.size && (self.inode == other.inode || self.modified == other.modified)
    }

    /// Adds the state to what a mark is made of.
    pub(crate) fn add_to(&self, hasher: &mut blake3::Hasher) {
        let times = [self.modified.0, self.modified.1, self.changed.0, self.changed.1];
        hasher.update(&self.inode.to_le_bytes()).update(&self.size.to_le_bytes());
        times.iter().for_each(|time| {
            hasher.update(&time.to_le_bytes());
        });
    }
}

/// The inode of a file, and when it was made: another file may get its inode later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Birth {
    pub(crate) inode: u64,
    /// The time, if the file system knows it.
    pub(crate) born: Option<(i64, u32)>,
}

impl Birth {
    /// What `statx(2)` has to be asked for.
    pub(crate) const WANTED: StatxFlags = StatxFlags::INO.union(StatxFlags::BTIME);

    pub(crate) fn of(found: &Statx) -> Birth {
        let is_known = found.stx_mask & StatxFlags::BTIME.bits() != 0;
        let born = is_known.then_some((found.stx_btime.tv_sec, found.stx_btime.tv_nsec));
        Birth { inode: found.stx_ino, born }
    }
}

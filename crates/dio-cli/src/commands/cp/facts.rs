//! The facts by which processes and attempts recognise a large file.

use rustix::fs::Stat;
use serde::{Deserialize, Serialize};

use crate::tool::Birth;

/// What another process must find under the names of a file to copy ranges of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileFacts {
    pub(crate) source_inode: u64,
    pub(crate) size: u64,
    pub(crate) modified: (i64, i64),
    pub(crate) changed: (i64, i64),
    pub(crate) target_inode: u64,
    /// When the target was made, if its file system knows: another file may get its inode later.
    pub(crate) target_born: Option<(i64, u32)>,
    /// The source may be a symbolic link, which is followed.
    pub(crate) follow: bool,
}

impl FileFacts {
    /// The facts of a source, and of a target.
    pub(crate) fn of(source: &Stat, target: Birth, follow: bool) -> FileFacts {
        FileFacts {
            source_inode: source.st_ino,
            size: source.st_size as u64,
            modified: (source.st_mtime, source.st_mtime_nsec as i64),
            changed: (source.st_ctime, source.st_ctime_nsec as i64),
            target_inode: target.inode,
            target_born: target.born,
            follow,
        }
    }

    /// Returns whether `found` is the target that these facts are about. Another file may have got
    /// its inode number since, but not its time of birth. A machine that does not know that of one
    /// of them compares inode numbers only.
    pub(crate) fn are_of_target(&self, found: Birth) -> bool {
        let is_known = self.target_born.is_some() && found.born.is_some();
        found.inode == self.target_inode && (!is_known || found.born == self.target_born)
    }

    /// Returns whether `source` is the file that these facts are about, unchanged.
    pub(crate) fn are_of(&self, source: &Stat) -> bool {
        source.st_ino == self.source_inode
            && source.st_size as u64 == self.size
            && (source.st_mtime, source.st_mtime_nsec as i64) == self.modified
    }
}

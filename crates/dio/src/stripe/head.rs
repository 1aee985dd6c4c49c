//! What tells the descriptor of a striped file from a copy of it.
//!
//! Each object has in its header which inode the descriptor is. Other programs move and link descriptors as they do any file,
//! and the inode stays; a copy, such as a backup, is another one. It leads to the same bytes, but they are not its own: removing
//! it must not remove them, and two descriptors through which bytes are written would keep two truths about owner and
//! permissions.

use std::os::fd::AsFd;

use rustix::fs::{AtFlags, StatxFlags, fstatvfs, statx};
use rustix::io::Errno;

/// `BTRFS_SUPER_MAGIC` (`include/uapi/linux/magic.h`).
const BTRFS: u64 = 0x9123_683e;
/// `FUSE_SUPER_MAGIC` (`fs/fuse/inode.c`).
const FUSE: u64 = 0x6573_5546;

/// Which inode a descriptor is, as far as its file system tells in a way that lasts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The number of the inode; 0 where numbers do not last, and nothing can be told.
    pub(super) inode: u64,
    /// When it was made, in nanoseconds since 1970; 0 where the file system does not tell.
    pub(super) born: i128,
    /// The volume, where inodes of several have the same number and birth: snapshots of btrfs; otherwise 0.
    pub(super) volume: u64,
}

impl Head {
    /// Of an open descriptor, or of a place.
    ///
    /// # Errors
    /// What `statx(2)` and `fstatfs(2)` answer.
    pub fn of(fd: impl AsFd) -> Result<Head, Errno> {
        let stat = statx(&fd, c"", AtFlags::EMPTY_PATH, StatxFlags::INO | StatxFlags::BTIME)?;
        let knows_birth = StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::BTIME);
        let kind = rustix::fs::fstatfs(&fd)?.f_type as u64 & 0xffff_ffff;
        if kind == FUSE && !knows_birth {
            // Some count inodes as they are looked up.
            return Ok(Head::default());
        }
        let time = i128::from(stat.stx_btime.tv_sec) * 1_000_000_000 + i128::from(stat.stx_btime.tv_nsec);
        let volume = if kind == BTRFS { fstatvfs(&fd)?.f_fsid } else { 0 };
        Ok(Head { inode: stat.stx_ino, born: if knows_birth { time } else { 0 }, volume })
    }

    /// Whether `found` can be this one: what is not known of either does not tell them apart, since a file may be seen through
    /// several file systems (a server's own, and a network's).
    pub fn may_be(&self, found: &Head) -> bool {
        let agree = |own: bool, known: bool| own || !known;
        self.inode == 0
            || found.inode == 0
            || self.inode == found.inode
                && agree(self.born == found.born, self.born != 0 && found.born != 0)
                && agree(self.volume == found.volume, self.volume != 0 && found.volume != 0)
    }

    /// Whether `found` is this one beyond doubt: all that is known of one is known of the other, and the same.
    pub fn is_surely(&self, found: &Head) -> bool {
        self.inode != 0 && self == found
    }

    pub(super) fn parse(text: &str) -> Option<Head> {
        let mut parts = text.split(' ');
        let head = Head {
            inode: parts.next()?.parse().ok()?,
            born: parts.next()?.parse().ok()?,
            volume: parts.next()?.parse().ok()?,
        };
        parts.next().is_none().then_some(head)
    }
}

impl std::fmt::Display for Head {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.inode, self.born, self.volume)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_told_from_the_file_and_its_links() {
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        let [one, copy, link] = ["one", "copy", "link"].map(|name| dir.path().join(name));
        std::fs::write(&one, "text").unwrap();
        let of = |path| Head::of(std::fs::File::open(path).unwrap()).unwrap();
        let head = of(&one);
        assert!(head.inode != 0);
        std::fs::copy(&one, &copy).unwrap();
        std::fs::hard_link(&one, &link).unwrap();
        assert!(head.may_be(&of(&link)) && !head.may_be(&of(&copy)));
        assert_eq!(Head::parse(&head.to_string()), Some(head));
    }

    #[test]
    fn what_one_does_not_know_does_not_tell() {
        let head = Head { inode: 7, born: 8, volume: 9 };
        for (inode, born, volume, same) in [
            (7, 8, 9, true),
            (7, 0, 9, true),
            (7, 8, 0, true),
            (0, 1, 1, true),
            (6, 8, 9, false),
            (7, 1, 9, false),
            (7, 8, 1, false),
        ] {
            let other = Head { inode, born, volume };
            assert_eq!((head.may_be(&other), other.may_be(&head)), (same, same), "{other}");
        }
    }
}

//! Distinguishes the descriptor of a striped file from copies of it.
//!
//! The header of each object records the inode of the descriptor. Moving or linking a descriptor
//! keeps its inode; a copy, such as a backup, has another one. A copy leads to the same bytes but
//! does not own them: removing it must not remove them, and writing through two descriptors would
//! leave two owners and two sets of permissions.

use std::os::fd::AsFd;

use rustix::fs::{AtFlags, StatxFlags, fstatvfs, statx};
use rustix::io::Errno;

/// `BTRFS_SUPER_MAGIC` (`include/uapi/linux/magic.h`).
const BTRFS: u64 = 0x9123_683e;
/// `FUSE_SUPER_MAGIC` (`fs/fuse/inode.c`).
const FUSE: u64 = 0x6573_5546;

/// The inode of a descriptor, as far as its file system identifies it lastingly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DescriptorInode {
    /// The inode number; 0 if the file system has no lasting numbers, so that nothing is known.
    pub(super) inode: u64,
    /// Time of its creation in nanoseconds since 1970; 0 if the file system does not record it.
    pub(super) born: i128,
    /// The volume, on file systems where inodes of several volumes share number and creation time
    /// (snapshots of btrfs); otherwise 0.
    pub(super) volume: u64,
}

impl DescriptorInode {
    /// The inode of an open descriptor file, which may be opened with `O_PATH`.
    ///
    /// # Errors
    /// What `statx(2)` and `fstatfs(2)` answer.
    pub fn of(fd: impl AsFd) -> Result<DescriptorInode, Errno> {
        let (inode, kind) = DescriptorInode::ask(&fd)?;
        // Some FUSE file systems number inodes as they are looked up.
        Ok(if kind == FUSE && inode.born == 0 { DescriptorInode::default() } else { inode })
    }

    /// What is known of an open file, and the kind of its file system.
    fn ask(fd: impl AsFd) -> Result<(DescriptorInode, u64), Errno> {
        let stat = statx(&fd, c"", AtFlags::EMPTY_PATH, StatxFlags::INO | StatxFlags::BTIME)?;
        let knows_birth = StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::BTIME);
        let kind = rustix::fs::fstatfs(&fd)?.f_type as u64 & 0xffff_ffff;
        let time =
            i128::from(stat.stx_btime.tv_sec) * 1_000_000_000 + i128::from(stat.stx_btime.tv_nsec);
        let volume = if kind == BTRFS { fstatvfs(&fd)?.f_fsid } else { 0 };
        Ok((
            DescriptorInode {
                inode: stat.stx_ino,
                born: if knows_birth { time } else { 0 },
                volume,
            },
            kind,
        ))
    }

    /// Whether `found` may be the same inode. Values that are unknown on either side are ignored,
    /// because a file may be accessed through several file systems (that of a server, and a network
    /// file system).
    pub fn may_be(&self, found: &DescriptorInode) -> bool {
        let agree = |own: bool, known: bool| own || !known;
        self.inode == 0
            || found.inode == 0
            || self.inode == found.inode
                && agree(self.born == found.born, self.born != 0 && found.born != 0)
                && agree(self.volume == found.volume, self.volume != 0 && found.volume != 0)
    }

    /// Whether `found` is certainly the same inode: all values are known and equal.
    pub fn is_surely(&self, found: &DescriptorInode) -> bool {
        self.inode != 0 && self == found
    }

    pub(super) fn parse(text: &str) -> Option<DescriptorInode> {
        let mut parts = text.split(' ');
        let head = DescriptorInode {
            inode: parts.next()?.parse().ok()?,
            born: parts.next()?.parse().ok()?,
            volume: parts.next()?.parse().ok()?,
        };
        parts.next().is_none().then_some(head)
    }
}

impl std::fmt::Display for DescriptorInode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.inode, self.born, self.volume)
    }
}

/// The inode of a directory that has a default, which distinguishes the directory from another one
/// that the default was copied to. The number of the device is no part of it: it may be another one
/// after each boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectoryInode(pub(super) DescriptorInode);

impl DirectoryInode {
    /// The inode of an open directory, which may be opened with `O_PATH`.
    ///
    /// # Errors
    /// What `statx(2)` and `fstatfs(2)` answer.
    pub fn of(fd: impl AsFd) -> Result<DirectoryInode, Errno> {
        DescriptorInode::ask(fd).map(|(inode, _)| DirectoryInode(inode))
    }

    /// Whether a default that was made for this directory is one of `found`. The number and, if the
    /// file system records it, the time of creation must be the same: a number alone can be
    /// foreseen by a user who wants a copy to be followed. A directory may be accessed through
    /// another file system (that of a server), so the volume counts only if both know it.
    pub(super) fn is(&self, found: &DirectoryInode) -> bool {
        let (own, found) = (self.0, found.0);
        let same_volume = own.volume == found.volume || own.volume == 0 || found.volume == 0;
        own.inode != 0
            && own.inode == found.inode
            && (found.born == 0 || own.born == found.born)
            && same_volume
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
        let of = |path| DescriptorInode::of(std::fs::File::open(path).unwrap()).unwrap();
        let head = of(&one);
        assert!(head.inode != 0);
        std::fs::copy(&one, &copy).unwrap();
        std::fs::hard_link(&one, &link).unwrap();
        assert!(head.may_be(&of(&link)) && !head.may_be(&of(&copy)));
        assert_eq!(DescriptorInode::parse(&head.to_string()), Some(head));
    }

    #[test]
    fn what_one_does_not_know_does_not_tell() {
        let head = DescriptorInode { inode: 7, born: 8, volume: 9 };
        for (inode, born, volume, same) in [
            (7, 8, 9, true),
            (7, 0, 9, true),
            (7, 8, 0, true),
            (0, 1, 1, true),
            (6, 8, 9, false),
            (7, 1, 9, false),
            (7, 8, 1, false),
        ] {
            let other = DescriptorInode { inode, born, volume };
            assert_eq!((head.may_be(&other), other.may_be(&head)), (same, same), "{other}");
        }
    }

    #[test]
    fn a_default_is_of_one_directory() {
        let directory =
            |inode, born, volume| DirectoryInode(DescriptorInode { inode, born, volume });
        for (made_for, found, is) in [
            ((7, 8, 9), (7, 8, 9), true),
            ((7, 8, 0), (7, 8, 9), true),
            // Through a file system without that time.
            ((7, 8, 9), (7, 0, 0), true),
            ((7, 0, 0), (7, 8, 0), false),
            ((7, 9, 0), (7, 8, 0), false),
            ((6, 8, 0), (7, 8, 0), false),
            ((6, 0, 0), (7, 0, 0), false),
            ((7, 8, 1), (7, 8, 9), false),
            ((0, 0, 0), (0, 0, 0), false),
        ] {
            let [made_for, found] =
                [made_for, found].map(|(inode, born, volume)| directory(inode, born, volume));
            assert_eq!(made_for.is(&found), is, "{made_for:?}, {found:?}");
        }
    }
}

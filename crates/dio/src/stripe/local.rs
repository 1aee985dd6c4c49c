//! File systems that only this machine writes to.

use std::os::fd::AsFd;

/// Their magic numbers (`statfs(2)`, `include/uapi/linux/magic.h`): ext2 to ext4, XFS, btrfs,
/// tmpfs, ramfs, F2FS, bcachefs, ZFS, overlayfs, exFAT, FAT, NTFS, JFS, NILFS, ReiserFS. Any other
/// file system may be on a network, or a FUSE file system that passes on to one.
const LOCAL: [u64; 15] = [
    0xef53,
    0x5846_5342,
    0x9123_683e,
    0x0102_1994,
    0x8584_58f6,
    0xf2f5_2010,
    0xca45_1a4e,
    0x2fc1_2fc1,
    0x794c_7630,
    0x2011_bab0,
    0x4d44,
    0x7366_746e,
    0x3153_464a,
    0x3434,
    0x5265_4973,
];

/// Whether all processes that may write to an open file see the locks of this machine (`flock(2)`).
pub fn is_local(file: impl AsFd) -> bool {
    rustix::fs::fstatfs(file)
        .is_ok_and(|system| LOCAL.contains(&(system.f_type as u64 & 0xffff_ffff)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_local_and_what_the_kernel_makes_up_is_not_known() {
        let local = |path| is_local(std::fs::File::open(path).unwrap());
        assert!(local("/var/tmp"));
        assert!(!local("/proc/self/status"));
    }
}

//! The restrictions of mounts below the source (`nosuid`, `nodev`, `noexec`) that the dio mount
//! does not have.
//!
//! The kernel checks the flags of the mount through which a file is reached, and that is the dio
//! mount. Without this module, set-user-id programs and devices on a `nosuid,nodev` disk would work
//! through it. So files are shown without the forbidden properties: regular files without set-id
//! bits, capabilities and execute bits, and devices with the number 0:0, which cannot be opened
//! (ENXIO).

use std::os::fd::AsFd;

use rustix::fs::{FileType, Stat, StatVfsMountFlags, fstatvfs};

/// `security.capability`, which gives a program privileges as set-id bits do (`capabilities(7)`).
pub(super) const CAPABILITIES: &[u8] = b"security.capability";

const SET_ID_BITS: u32 = 0o6000;

const EXECUTE_BITS: u32 = 0o111;

/// The restrictions of a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forbidden(StatVfsMountFlags);

impl Forbidden {
    /// No restriction.
    pub const NOTHING: Forbidden = Forbidden(StatVfsMountFlags::empty());

    const ALL: StatVfsMountFlags =
        StatVfsMountFlags::NOSUID.union(StatVfsMountFlags::NODEV).union(StatVfsMountFlags::NOEXEC);

    /// Returns the restrictions among the flags of a mount.
    pub fn by(flags: StatVfsMountFlags) -> Forbidden {
        Forbidden(flags.intersection(Forbidden::ALL))
    }

    /// Returns the restrictions of the mount of an open file; none if the call fails.
    pub(super) fn by_mount_of(file: impl AsFd) -> Forbidden {
        fstatvfs(file).map_or(Forbidden::NOTHING, |of| Forbidden::by(of.f_flag))
    }

    pub(super) fn is_nothing(self) -> bool {
        self == Forbidden::NOTHING
    }

    /// Returns the restrictions that `self` has and `there` does not have.
    pub(super) fn beyond(self, there: Forbidden) -> Forbidden {
        Forbidden(self.0.difference(there.0))
    }

    /// Removes forbidden properties from attributes.
    pub(super) fn hide(self, stat: &mut Stat) {
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {
                let bits = [
                    (StatVfsMountFlags::NOSUID, SET_ID_BITS),
                    (StatVfsMountFlags::NOEXEC, EXECUTE_BITS),
                ];
                let hidden =
                    bits.iter().filter(|(flag, _)| self.0.contains(*flag)).map(|(_, bits)| bits);
                stat.st_mode &= !hidden.sum::<u32>();
            }
            FileType::CharacterDevice | FileType::BlockDevice
                if self.0.contains(StatVfsMountFlags::NODEV) =>
            {
                stat.st_rdev = 0;
            }
            _ => {}
        }
    }

    /// Whether an extended attribute is hidden.
    pub(super) fn hides_xattr(self, name: &[u8]) -> bool {
        name == CAPABILITIES && self.0.contains(StatVfsMountFlags::NOSUID)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_forbidden_is_hidden() {
        let mut file = rustix::fs::stat("/proc/self/exe").unwrap();
        file.st_mode = 0o10_6755;
        let seen = |by: StatVfsMountFlags| {
            let mut seen = file;
            Forbidden::by(by).hide(&mut seen);
            seen.st_mode
        };
        assert_eq!(seen(StatVfsMountFlags::NODEV | StatVfsMountFlags::RDONLY), 0o10_6755);
        assert_eq!(seen(StatVfsMountFlags::NOSUID), 0o10_0755);
        assert_eq!(seen(StatVfsMountFlags::NOEXEC), 0o10_6644);
        assert_eq!(seen(StatVfsMountFlags::all()), 0o10_0644);
        let mut directory = rustix::fs::stat("/").unwrap();
        directory.st_mode = 0o4_2775;
        Forbidden::by(StatVfsMountFlags::all()).hide(&mut directory);
        assert_eq!(directory.st_mode, 0o4_2775, "set-group-id of a directory is no privilege");
        let mut device = rustix::fs::stat("/dev/null").unwrap();
        Forbidden::by(StatVfsMountFlags::NOSUID | StatVfsMountFlags::NOEXEC).hide(&mut device);
        assert_ne!(device.st_rdev, 0);
        Forbidden::by(StatVfsMountFlags::NODEV).hide(&mut device);
        assert_eq!(device.st_rdev, 0);
        assert!(Forbidden::by(StatVfsMountFlags::NOSUID).hides_xattr(b"security.capability"));
        assert!(!Forbidden::by(StatVfsMountFlags::NODEV).hides_xattr(b"security.capability"));
    }

    #[test]
    fn what_the_mount_forbids_itself_is_left_to_it() {
        let both = Forbidden::by(StatVfsMountFlags::NOSUID | StatVfsMountFlags::NODEV);
        assert_eq!(both.beyond(both), Forbidden::NOTHING);
        assert_eq!(
            both.beyond(Forbidden::by(StatVfsMountFlags::NODEV)),
            Forbidden::by(StatVfsMountFlags::NOSUID)
        );
    }
}

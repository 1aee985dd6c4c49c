//! The mount a file is on, from `/proc/self/mountinfo` (`proc_pid_mountinfo(5)`).

use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use rustix::fs::{AtFlags, StatxFlags};

use super::FileSystem;

/// The type of a mount of dio, as mounted.
const SERVED_BY_DIO: &str = "fuse.dio";

/// One mounted file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Type as mounted: `ext4`, `xfs`, `fuse.sshfs`.
    pub file_system: String,
    /// The directory of the file system that is mounted: `/`, unless a part of it is.
    pub root: PathBuf,
    /// Where it is mounted.
    pub point: PathBuf,
    /// What is mounted: a device, an export, or any word.
    pub source: String,
    /// Options of the mount and of the file system, separated by commas.
    pub options: String,
    /// Major and minor number of the file system.
    pub device: (u32, u32),
}

impl Mount {
    /// The mount that an open file was reached through; `None` if the kernel or `/proc` does not
    /// tell.
    pub fn of(place: impl AsFd) -> Option<Self> {
        let statx = rustix::fs::statx(place, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).ok()?;
        if statx.stx_mask & StatxFlags::MNT_ID.bits() == 0 {
            return None;
        }
        let table = std::fs::read("/proc/self/mountinfo").ok()?;
        Self::find(&table, statx.stx_mnt_id)
    }

    /// Whether an open file was reached through a mount of dio. Its server makes and reads striped
    /// files itself, and shows what is in them.
    pub(crate) fn is_of_dio(place: BorrowedFd<'_>) -> bool {
        let is_fuse = FileSystem::of(place).is_ok_and(|found| found.name() == Some("fuse"));
        is_fuse && Self::of(place).is_some_and(|mount| mount.file_system == SERVED_BY_DIO)
    }

    /// Finds a mount by its number in the text of a mountinfo file.
    fn find(table: &[u8], id: u64) -> Option<Self> {
        let line = table.split(|byte| *byte == b'\n').find(|line| {
            let first = line.split(|byte| *byte == b' ').next();
            first.and_then(|first| std::str::from_utf8(first).ok()?.parse().ok()) == Some(id)
        })?;
        let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        // Between the sixth field and the lone "-" there are any number of optional fields.
        let dash = 6 + fields.get(6..)?.iter().position(|field| *field == b"-")?;
        let [file_system, source, super_options] = fields.get(dash + 1..dash + 4)? else {
            return None;
        };
        let text = |field: &[u8]| String::from_utf8_lossy(&unescape(field)).into_owned();
        let (major, minor) = text(fields[2])
            .split_once(':')
            .map(|(major, minor)| (major.parse().unwrap_or(0), minor.parse().unwrap_or(0)))?;
        let path = |field: &[u8]| PathBuf::from(std::ffi::OsString::from_vec(unescape(field)));
        Some(Self {
            device: (major, minor),
            file_system: text(file_system),
            root: path(fields[3]),
            point: path(fields[4]),
            source: text(source),
            options: format!("{},{}", text(fields[5]), text(super_options)),
        })
    }
}

/// Undoes the octal escapes of blanks and backslashes.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((byte, after)) = rest.split_first() {
        let code = after
            .get(..3)
            .filter(|_| *byte == b'\\')
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        plain.push(code.unwrap_or(*byte));
        rest = if code.is_some() { &after[3..] } else { after };
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[u8] = b"36 35 98:0 /m /mnt/a\\040b rw,noatime master:1 shared:7 - ext4 \
                           /dev/root rw,data=journal\n37 35 0:41 / /x rw - fuse.some host:\\134 \
                           rw,user_id=0\n";

    #[test]
    fn fields_are_found_after_any_number_of_optional_ones() {
        let mount = Mount::find(TABLE, 36).unwrap();
        assert_eq!(mount.file_system, "ext4");
        assert_eq!((mount.root, mount.point), ("/m".into(), "/mnt/a b".into()));
        assert_eq!(mount.source, "/dev/root");
        assert_eq!(mount.options, "rw,noatime,rw,data=journal");
        assert_eq!(mount.device, (98, 0));
        let mount = Mount::find(TABLE, 37).unwrap();
        assert_eq!((mount.file_system.as_str(), mount.source.as_str()), ("fuse.some", "host:\\"));
    }

    #[test]
    fn a_missing_mount_and_a_torn_line_are_none() {
        assert_eq!(Mount::find(TABLE, 3), None);
        assert_eq!(Mount::find(b"5 1 0:1 / /x rw - ext4", 5), None);
        assert_eq!(Mount::find(b"5 1", 5), None);
    }

    #[test]
    fn the_root_directory_is_on_a_mount() {
        let place = rustix::fs::open("/", rustix::fs::OFlags::PATH, rustix::fs::Mode::empty());
        let mount = Mount::of(place.unwrap()).unwrap();
        assert_eq!(mount.point, PathBuf::from("/"));
    }
}

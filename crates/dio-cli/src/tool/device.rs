//! The meaning of reads and writes of character devices and sockets.

use rustix::fs::{FileType, Stat, major, minor};

/// The major number of the memory driver's devices (`Documentation/admin-guide/devices.txt`).
const MEMORY_DEVICES: u32 = 1;

/// The minor number of `/dev/kmsg`, the only one of them whose reads are records.
const KERNEL_LOG: u32 = 11;

/// Returns whether the file is a device of the kernel's memory driver, such as `/dev/zero` and
/// `/dev/urandom`. A read(2) of such a device returns all bytes requested unless it is interrupted,
/// and a write(2) has no record boundaries.
pub(crate) fn is_endless(stat: &Stat) -> bool {
    let (driver, device) = (major(stat.st_rdev), minor(stat.st_rdev));
    is(stat, FileType::CharacterDevice) && driver == MEMORY_DEVICES && device != KERNEL_LOG
}

/// Returns whether each read(2) or write(2) may be a record of its own: tapes, terminals and other
/// devices, and sockets.
pub(crate) fn has_records(stat: &Stat) -> bool {
    is(stat, FileType::Socket) || (is(stat, FileType::CharacterDevice) && !is_endless(stat))
}

fn is(stat: &Stat, kind: FileType) -> bool {
    FileType::from_raw_mode(stat.st_mode) == kind
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_told_apart_by_their_numbers() {
        let of =
            |name: &str| rustix::fs::stat(name).map(|stat| (is_endless(&stat), has_records(&stat)));
        for name in ["/dev/zero", "/dev/null", "/dev/full", "/dev/urandom", "/dev/random"] {
            assert_eq!(of(name), Ok((true, false)), "{name}");
        }
        assert_eq!(of("/dev/tty"), Ok((false, true)));
        if let Ok(log) = of("/dev/kmsg") {
            assert_eq!(log, (false, true));
        }
        assert_eq!(of("/etc"), Ok((false, false)));
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(has_records(&rustix::fs::fstat(one).unwrap()));
    }
}

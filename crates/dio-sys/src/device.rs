//! Block devices and file systems.

use std::io;
use std::os::fd::BorrowedFd;

/// Returns the size of a block device in bytes (`BLKGETSIZE64`).
///
/// # Errors
/// `ENOTTY` if `fd` is not a block device.
pub fn block_device_size(fd: BorrowedFd<'_>) -> io::Result<u64> {
    // The kernel's header says `size_t`, yet every kernel writes 64 bits (`block/ioctl.c`).
    const BLKGETSIZE64: rustix::ioctl::Opcode =
        rustix::ioctl::opcode::read::<libc::size_t>(0x12, 114);
    // SAFETY: the opcode writes one u64, which is the output type; it reads nothing.
    let size =
        unsafe { rustix::ioctl::ioctl(fd, rustix::ioctl::Getter::<BLKGETSIZE64, u64>::new()) }?;
    Ok(size)
}

/// Returns the UUID of the file system that contains a file (`FS_IOC_GETFSUUID`, Linux 6.9).
///
/// # Errors
/// `ENOTTY` where the kernel or the file system does not report it.
pub fn file_system_uuid(fd: BorrowedFd<'_>) -> io::Result<Vec<u8>> {
    /// `struct fsuuid2`.
    #[repr(C)]
    #[derive(Clone, Copy)]
    struct FsUuid {
        length: u8,
        uuid: [u8; 16],
    }
    const GET_FS_UUID: rustix::ioctl::Opcode = rustix::ioctl::opcode::read::<FsUuid>(0x15, 0);
    // SAFETY: the opcode writes one such structure, which is the output type; it reads nothing.
    let found =
        unsafe { rustix::ioctl::ioctl(fd, rustix::ioctl::Getter::<GET_FS_UUID, FsUuid>::new()) }?;
    Ok(found.uuid[..usize::from(found.length).min(16)].to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn only_block_devices_have_a_block_device_size() {
        let file = tempfile::tempfile().unwrap();
        let error = block_device_size(file.as_fd()).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOTTY));
    }
}

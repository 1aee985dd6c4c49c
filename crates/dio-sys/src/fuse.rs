//! The ioctls of the FUSE device (`include/uapi/linux/fuse.h`, "Device ioctls").

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, Setter, ioctl, opcode};

/// `FUSE_DEV_IOC_MAGIC`.
const MAGIC: u8 = 229;
/// `FUSE_DEV_IOC_CLONE`; its direction says "read", yet the kernel reads the number.
const CLONE: Opcode = opcode::read::<u32>(MAGIC, 0);
const BACKING_OPEN: Opcode = opcode::write::<BackingMap>(MAGIC, 1);
const BACKING_CLOSE: Opcode = opcode::write::<u32>(MAGIC, 2);

/// `struct fuse_backing_map`.
#[repr(C)]
struct BackingMap {
    fd: i32,
    flags: u32,
    padding: u64,
}

/// Opens the FUSE device once more, for the connection of `device`. A request must be answered
/// through the descriptor from which it was read (`FUSE_DEV_IOC_CLONE`, fuse(4)).
///
/// # Errors
/// Those of opening `/dev/fuse`; `EINVAL` if `device` is no FUSE device with a mount.
pub fn clone_device(device: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let new = open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    // SAFETY: the request reads one u32, which is the input type, and writes nothing.
    unsafe { ioctl(&new, Setter::<CLONE, u32>::new(device.as_raw_fd().cast_unsigned())) }?;
    Ok(new)
}

/// Registers a file whose data the kernel may read, write and map by itself. Returns the number of
/// the file, which stays valid until [`backing_close`], or until the connection ends
/// (`FUSE_DEV_IOC_BACKING_OPEN`, Linux 6.9).
///
/// # Errors
/// `EPERM` without `CAP_SYS_ADMIN` in the initial user namespace or if passthrough was not
/// negotiated, `ELOOP` if the file is on a file system stacked too deep, `EBADF`, `EOPNOTSUPP` for
/// a file that is not regular, `ENOTTY` before Linux 6.9.
pub fn backing_open(device: BorrowedFd<'_>, file: BorrowedFd<'_>) -> io::Result<u32> {
    let request = Backing(BackingMap { fd: file.as_raw_fd(), flags: 0, padding: 0 });
    // SAFETY: see `Backing`.
    Ok(unsafe { ioctl(device.as_fd(), request) }?)
}

/// Unregisters a file that [`backing_open`] registered; open files that use it stay usable.
///
/// # Errors
/// `ENOENT` if there is no such number; `EPERM` and `ENOTTY` as for [`backing_open`].
pub fn backing_close(device: BorrowedFd<'_>, number: u32) -> io::Result<()> {
    // SAFETY: the request reads one u32, which is the input type, and writes nothing.
    Ok(unsafe { ioctl(device, Setter::<BACKING_CLOSE, u32>::new(number)) }?)
}

struct Backing(BackingMap);

// SAFETY: the opcode reads one `struct fuse_backing_map`, to which the pointer leads for the time
// of the call, and writes nothing. The result is a positive number or an error, never a pointer.
unsafe impl Ioctl for Backing {
    type Output = u32;
    const IS_MUTATING: bool = false;

    fn opcode(&self) -> Opcode {
        BACKING_OPEN
    }

    fn as_ptr(&mut self) -> *mut std::ffi::c_void {
        (&raw mut self.0).cast()
    }

    unsafe fn output_from_ptr(
        output: IoctlOutput,
        _: *mut std::ffi::c_void,
    ) -> rustix::io::Result<u32> {
        u32::try_from(output).map_err(|_| Errno::INVAL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of `include/uapi/linux/fuse.h`, computed by hand: direction << 30 | size << 16 |
    /// 229 << 8 | number.
    #[test]
    fn the_opcodes_are_those_of_the_kernel() {
        let computed = [
            2 << 30 | 4 << 16 | 229 << 8,
            1 << 30 | 16 << 16 | 229 << 8 | 1,
            1 << 30 | 4 << 16 | 229 << 8 | 2,
        ];
        if cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
            assert_eq!([CLONE, BACKING_OPEN, BACKING_CLOSE].map(|code| code as u64), computed);
        }
    }

    #[test]
    fn other_descriptors_are_refused() {
        let file = tempfile::tempfile().unwrap();
        assert_eq!(
            backing_open(file.as_fd(), file.as_fd()).unwrap_err().raw_os_error(),
            Some(libc::ENOTTY)
        );
        assert_eq!(backing_close(file.as_fd(), 1).unwrap_err().raw_os_error(), Some(libc::ENOTTY));
        clone_device(file.as_fd()).unwrap_err();
    }
}

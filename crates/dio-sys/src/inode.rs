//! Inodes by handle, access checks on `O_PATH` descriptors, inode flags, and a thread's own file
//! creation mask.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::fs::{Access, OFlags};
use rustix::io::{Errno, Result};
use rustix::ioctl::{Getter, Opcode, Setter, ioctl, opcode};

/// Most bytes of a handle (`MAX_HANDLE_SZ` of `include/linux/exportfs.h`).
pub const LONGEST_HANDLE: usize = 128;

/// Number of the system call `faccessat2`, the same on every architecture (`scripts/syscall.tbl`,
/// 439).
const SYS_FACCESSAT2: libc::c_long = 439;

/// A file system's identifier of an inode. It leads to the inode for as long as the inode exists,
/// under any name, and never to a later inode with the same number (`name_to_handle_at(2)`).
#[derive(Debug, Clone, Copy)]
pub struct FileHandle {
    kind: i32,
    length: u32,
    bytes: [u8; LONGEST_HANDLE],
}

impl FileHandle {
    /// Makes a handle from the results of [`FileHandle::kind`] and [`FileHandle::bytes`]; `None` if
    /// it is too long.
    pub fn new(kind: i32, handle: &[u8]) -> Option<FileHandle> {
        let mut bytes = [0; LONGEST_HANDLE];
        bytes.get_mut(..handle.len())?.copy_from_slice(handle);
        Some(FileHandle { kind, length: handle.len() as u32, bytes })
    }

    /// The type of the handle, which tells the file system how to read the bytes.
    pub fn kind(&self) -> i32 {
        self.kind
    }

    /// The bytes, which only the file system can interpret.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..(self.length as usize).min(LONGEST_HANDLE)]
    }
}

impl PartialEq for FileHandle {
    fn eq(&self, other: &FileHandle) -> bool {
        self.kind == other.kind && self.bytes() == other.bytes()
    }
}

impl Eq for FileHandle {}

/// `struct file_handle` of `include/linux/fs.h`, with space for the longest handle.
#[repr(C)]
struct RawHandle {
    handle_bytes: libc::c_uint,
    handle_type: libc::c_int,
    f_handle: [u8; LONGEST_HANDLE],
}

/// Returns the handle of an open inode; an `O_PATH` descriptor suffices.
///
/// # Errors
/// `EOPNOTSUPP` from file systems without handles, `EOVERFLOW` from one whose handles are longer
/// than [`LONGEST_HANDLE`].
pub fn handle_of(fd: BorrowedFd<'_>) -> Result<FileHandle> {
    let mut raw = RawHandle {
        handle_bytes: LONGEST_HANDLE as libc::c_uint,
        handle_type: 0,
        f_handle: [0; LONGEST_HANDLE],
    };
    let mut mount: libc::c_int = 0;
    // SAFETY: the path is a C string; the handle has the layout of the kernel and states how many
    // bytes it has space for; the kernel writes only to it and `mount`, both alive during the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_name_to_handle_at,
            fd.as_raw_fd(),
            c"".as_ptr(),
            &raw mut raw,
            &raw mut mount,
            libc::AT_EMPTY_PATH,
        )
    };
    answer(result)?;
    Ok(FileHandle { kind: raw.handle_type, length: raw.handle_bytes, bytes: raw.f_handle })
}

/// Opens the inode of a handle. `mount` is any descriptor on the mounted file system that is not
/// `O_PATH`. Symbolic links can be opened with `O_PATH` only.
///
/// # Errors
/// `EPERM` without CAP_DAC_READ_SEARCH, `ESTALE` if the inode is gone, and those of `open(2)`.
pub fn open_by_handle(
    mount: BorrowedFd<'_>,
    handle: &FileHandle,
    flags: OFlags,
) -> Result<OwnedFd> {
    let mut raw =
        RawHandle { handle_bytes: handle.length, handle_type: handle.kind, f_handle: handle.bytes };
    // SAFETY: the handle has the layout of the kernel, is alive during the call and contains the
    // number of bytes that it states (`FileHandle::new` and `handle_of` guarantee that); no other
    // memory is passed.
    let result = unsafe {
        libc::syscall(
            libc::SYS_open_by_handle_at,
            mount.as_raw_fd(),
            &raw mut raw,
            (flags | OFlags::CLOEXEC).bits() as libc::c_int,
        )
    };
    let fd = answer(result)?;
    // SAFETY: the kernel has just opened this descriptor, so it has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) })
}

/// Checks whether this thread's effective credentials permit access to an open inode; an `O_PATH`
/// descriptor suffices.
///
/// # Errors
/// `EACCES` if they do not, `EROFS`, `ENOSYS` before Linux 5.8.
pub fn access_of(fd: BorrowedFd<'_>, access: Access) -> Result<()> {
    let flags = libc::AT_EMPTY_PATH | libc::AT_EACCESS;
    // SAFETY: the path is a C string; no other memory is passed.
    let result = unsafe {
        libc::syscall(
            SYS_FACCESSAT2,
            fd.as_raw_fd(),
            c"".as_ptr(),
            access.bits() as libc::c_int,
            flags,
        )
    };
    answer(result).map(drop)
}

/// Gives this thread a file creation mask of its own, and a working directory and root directory of
/// its own. Other threads then neither see nor change them (`unshare(2)` with `CLONE_FS`).
///
/// # Errors
/// `EPERM` where a system call filter refuses it.
pub fn take_own_umask() -> Result<()> {
    // SAFETY: no memory is passed, and none of the resources that are no longer shared is owned by
    // a Rust type.
    let result = unsafe { libc::unshare(libc::CLONE_FS) };
    answer(libc::c_long::from(result)).map(drop)
}

fn answer(result: libc::c_long) -> Result<libc::c_long> {
    if result >= 0 {
        return Ok(result);
    }
    Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO))
}

/// Bytes of `struct fsxattr` (`include/uapi/linux/fs.h`): flags, extent size hints and the project
/// ID of an inode.
pub const EXTENDED_FLAGS_BYTES: usize = 28;

const GET_EXTENDED_FLAGS: Opcode = opcode::read::<[u8; EXTENDED_FLAGS_BYTES]>(b'X', 31);
const SET_EXTENDED_FLAGS: Opcode = opcode::write::<[u8; EXTENDED_FLAGS_BYTES]>(b'X', 32);

/// Returns the extended flags of an open file or directory (`FS_IOC_FSGETXATTR`), a `struct
/// fsxattr`.
///
/// # Errors
/// `ENOTTY` or `EOPNOTSUPP` from file systems without such flags.
pub fn extended_flags(fd: BorrowedFd<'_>) -> Result<[u8; EXTENDED_FLAGS_BYTES]> {
    // SAFETY: the request writes one `struct fsxattr`, which is as long as the output type and
    // valid with any bytes.
    unsafe { ioctl(fd, Getter::<GET_EXTENDED_FLAGS, [u8; EXTENDED_FLAGS_BYTES]>::new()) }
}

/// Sets flags as [`extended_flags`] returns them (`FS_IOC_FSSETXATTR`).
///
/// # Errors
/// Those of [`extended_flags`]; `EPERM` for a caller that neither owns the inode nor is privileged.
pub fn set_extended_flags(fd: BorrowedFd<'_>, flags: [u8; EXTENDED_FLAGS_BYTES]) -> Result<()> {
    // SAFETY: the request reads one `struct fsxattr`, which is as long as the input type, and
    // writes nothing.
    unsafe { ioctl(fd, Setter::<SET_EXTENDED_FLAGS, [u8; EXTENDED_FLAGS_BYTES]>::new(flags)) }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn an_inode_is_found_again_by_its_handle_whatever_its_name() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let (old, new) = (directory.path().join("old"), directory.path().join("new"));
        std::fs::write(&old, b"content").unwrap();
        let handle = match handle_of(std::fs::File::open(&old).unwrap().as_fd()) {
            Err(Errno::OPNOTSUPP) => return println!("skipped: no handles here"),
            other => other.unwrap(),
        };
        std::fs::rename(&old, &new).unwrap();
        let mount = std::fs::File::open(directory.path()).unwrap();
        match open_by_handle(mount.as_fd(), &handle, OFlags::RDONLY) {
            Ok(fd) => {
                assert_eq!(std::io::read_to_string(std::fs::File::from(fd)).unwrap(), "content")
            }
            Err(error) => assert_eq!(error, Errno::PERM),
        }
        let parts = FileHandle::new(handle.kind(), handle.bytes()).unwrap();
        assert_eq!(parts, handle);
        assert_eq!(FileHandle::new(1, &[0; LONGEST_HANDLE + 1]), None);
    }

    #[test]
    fn the_mask_of_one_thread_is_not_that_of_another() {
        use rustix::fs::Mode;
        use rustix::process::umask;
        let mine = umask(Mode::from_raw_mode(0o22));
        let seen = std::thread::spawn(|| match take_own_umask() {
            Ok(()) => umask(Mode::from_raw_mode(0o77)).bits(),
            Err(error) => {
                println!("skipped: {error}");
                0o22
            }
        });
        assert_eq!(seen.join().unwrap(), 0o22);
        assert_eq!(umask(mine).bits(), 0o22);
    }

    #[test]
    fn extended_flags_have_the_numbers_of_the_kernel_and_can_be_set_again() {
        if cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
            assert_eq!(
                [GET_EXTENDED_FLAGS, SET_EXTENDED_FLAGS].map(|code| code as u64),
                [0x801c_581f, 0x401c_5820]
            );
        }
        let file = tempfile::tempfile_in("/var/tmp").unwrap();
        match extended_flags(file.as_fd()) {
            Ok(flags) => set_extended_flags(file.as_fd(), flags).unwrap(),
            Err(errno) => assert!([Errno::NOTTY, Errno::OPNOTSUPP].contains(&errno), "{errno}"),
        }
    }
}

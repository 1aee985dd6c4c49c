//! Inodes by handle, permissions of what is open only as a place, and the file creation mask of a
//! thread.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::fs::{Access, OFlags};
use rustix::io::{Errno, Result};
use rustix::ioctl::{Getter, Opcode, Setter, ioctl, opcode};

/// The most bytes of a handle (`MAX_HANDLE_SZ` of `include/linux/exportfs.h`).
pub const LONGEST_HANDLE: usize = 128;

/// Number of the system call `faccessat2`, the same on every architecture (`scripts/syscall.tbl`,
/// 439).
const SYS_FACCESSAT2: libc::c_long = 439;

/// What a file system calls an inode: it finds it again for as long as the inode exists, whatever
/// its names are, and is never that of a later inode with the same number (`name_to_handle_at(2)`).
#[derive(Debug, Clone, Copy)]
pub struct FileHandle {
    kind: i32,
    length: u32,
    bytes: [u8; LONGEST_HANDLE],
}

impl FileHandle {
    /// A handle of parts that [`FileHandle::kind`] and [`FileHandle::bytes`] gave; `None` if it is
    /// too long for one.
    pub fn new(kind: i32, handle: &[u8]) -> Option<FileHandle> {
        let mut bytes = [0; LONGEST_HANDLE];
        bytes.get_mut(..handle.len())?.copy_from_slice(handle);
        Some(FileHandle { kind, length: handle.len() as u32, bytes })
    }

    /// How the file system reads the bytes.
    pub fn kind(&self) -> i32 {
        self.kind
    }

    /// The bytes, which nobody else can read.
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

/// `struct file_handle` of `include/linux/fs.h`, with room for the longest.
#[repr(C)]
struct RawHandle {
    handle_bytes: libc::c_uint,
    handle_type: libc::c_int,
    f_handle: [u8; LONGEST_HANDLE],
}

/// The handle of an open inode, `O_PATH` included.
///
/// # Errors
/// `EOPNOTSUPP` from file systems that have none, `EOVERFLOW` from one whose handles are longer
/// than [`LONGEST_HANDLE`].
pub fn handle_of(fd: BorrowedFd<'_>) -> Result<FileHandle> {
    let mut raw =
        RawHandle { handle_bytes: LONGEST_HANDLE as libc::c_uint, handle_type: 0, f_handle: [0; LONGEST_HANDLE] };
    let mut mount: libc::c_int = 0;
    // SAFETY: the path is a C string; the handle has the layout of the kernel and says how many
    // bytes it has room for; the kernel writes to nothing but it and `mount`, both alive during the
    // call.
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

/// Opens the inode of a handle on the mounted file system of `mount`, a descriptor of anything
/// there that is not `O_PATH`. Symbolic links can be opened with `O_PATH` only.
///
/// # Errors
/// `EPERM` without CAP_DAC_READ_SEARCH, `ESTALE` if the inode is gone, those of `open(2)`.
pub fn open_by_handle(mount: BorrowedFd<'_>, handle: &FileHandle, flags: OFlags) -> Result<OwnedFd> {
    let mut raw = RawHandle { handle_bytes: handle.length, handle_type: handle.kind, f_handle: handle.bytes };
    // SAFETY: the handle has the layout of the kernel, is alive during the call and holds the bytes
    // that it says it does (`FileHandle::new` and `handle_of` see to it); no other memory is
    // passed.
    let result = unsafe {
        libc::syscall(
            libc::SYS_open_by_handle_at,
            mount.as_raw_fd(),
            &raw mut raw,
            (flags | OFlags::CLOEXEC).bits() as libc::c_int,
        )
    };
    let fd = answer(result)?;
    // SAFETY: the kernel has just opened this descriptor for nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) })
}

/// Asks whether this thread's effective credentials may access an open inode, `O_PATH` included.
///
/// # Errors
/// `EACCES` if they may not, `EROFS`, `ENOSYS` before Linux 5.8.
pub fn access_of(fd: BorrowedFd<'_>, access: Access) -> Result<()> {
    let flags = libc::AT_EMPTY_PATH | libc::AT_EACCESS;
    // SAFETY: the path is a C string; no other memory is passed.
    let result =
        unsafe { libc::syscall(SYS_FACCESSAT2, fd.as_raw_fd(), c"".as_ptr(), access.bits() as libc::c_int, flags) };
    answer(result).map(drop)
}

/// Gives this thread a file creation mask of its own (and with it a working and a root directory),
/// which other threads neither see nor change (`unshare(2)` with `CLONE_FS`).
///
/// # Errors
/// `EPERM` where a system call filter refuses it.
pub fn take_own_umask() -> Result<()> {
    // SAFETY: no memory is passed, and what is no longer shared is no resource that Rust's types
    // stand for.
    let result = unsafe { libc::unshare(libc::CLONE_FS) };
    answer(libc::c_long::from(result)).map(drop)
}

fn answer(result: libc::c_long) -> Result<libc::c_long> {
    if result >= 0 {
        return Ok(result);
    }
    Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO))
}

/// Bytes of `struct fsxattr` (`include/uapi/linux/fs.h`): flags, hints of extent sizes and the
/// project of an inode.
pub const EXTENDED_FLAGS_BYTES: usize = 28;

const GET_EXTENDED_FLAGS: Opcode = opcode::read::<[u8; EXTENDED_FLAGS_BYTES]>(b'X', 31);
const SET_EXTENDED_FLAGS: Opcode = opcode::write::<[u8; EXTENDED_FLAGS_BYTES]>(b'X', 32);

/// What `FS_IOC_FSGETXATTR` tells of an open file or directory, a `struct fsxattr`.
///
/// # Errors
/// `ENOTTY` or `EOPNOTSUPP` from file systems that have nothing to tell.
pub fn extended_flags(fd: BorrowedFd<'_>) -> Result<[u8; EXTENDED_FLAGS_BYTES]> {
    // SAFETY: the request writes one `struct fsxattr`, which is as long as the output type and may
    // hold any bytes.
    unsafe { ioctl(fd, Getter::<GET_EXTENDED_FLAGS, [u8; EXTENDED_FLAGS_BYTES]>::new()) }
}

/// Sets what [`extended_flags`] gave (`FS_IOC_FSSETXATTR`).
///
/// # Errors
/// As there; `EPERM` for who neither owns the inode nor is privileged.
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
            Ok(fd) => assert_eq!(std::io::read_to_string(std::fs::File::from(fd)).unwrap(), "content"),
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
            assert_eq!([GET_EXTENDED_FLAGS, SET_EXTENDED_FLAGS].map(|code| code as u64), [0x801c_581f, 0x401c_5820]);
        }
        let file = tempfile::tempfile_in("/var/tmp").unwrap();
        match extended_flags(file.as_fd()) {
            Ok(flags) => set_extended_flags(file.as_fd(), flags).unwrap(),
            Err(errno) => assert!([Errno::NOTTY, Errno::OPNOTSUPP].contains(&errno), "{errno}"),
        }
    }
}

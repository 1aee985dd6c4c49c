//! Connections to the kernel: `/dev/fuse`, opened and mounted by the process that will see the
//! mounts.
//!
//! The kernel wants a connection to be opened in the user namespace that owns the mount
//! (`fuse_fill_super`, `fs/fuse/inode.c`), so it cannot be opened before that is entered, nor by
//! the server.

use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{CWD, FileType, Mode, OFlags, StatVfsMountFlags, openat};
use rustix::io::Errno;
use rustix::mount::MountFlags;
use rustix::process::{getegid, geteuid};

use super::directory::Directory;
use super::error::RunError;
use super::namespace::Owner;
use crate::Options;
use crate::session::flags;
use crate::session::table::KIND;

/// A new connection, not yet mounted.
pub(super) fn open() -> Result<OwnedFd, RunError> {
    openat(CWD, "/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| RunError::Device { errno, cure: cure(errno) })
}

fn cure(errno: Errno) -> &'static str {
    match errno {
        Errno::ACCESS | Errno::PERM => {
            "run it as root, or let users open the device (chmod 666 /dev/fuse, as most systems do)"
        }
        Errno::NOENT | Errno::NXIO | Errno::NODEV => {
            "load the module (modprobe fuse); a container needs --device /dev/fuse"
        }
        _ => "see fuse(4)",
    }
}

/// Mounts `directory` over itself, to be served through `device`. The system's mounts are open to
/// all users whom the directory lets in, as the command may become another; in a user namespace
/// there is only one.
pub(super) fn mount(device: &OwnedFd, directory: &Directory, options: &Options, owner: Owner) -> Result<(), RunError> {
    let failed = |errno| RunError::Mount { path: directory.path().to_owned(), errno };
    let options = Options { allow_other: owner == Owner::System, ..options.clone() };
    let data = format!(
        "fd={},rootmode={:o},user_id={},group_id={}{}",
        device.as_raw_fd(),
        FileType::Directory.as_raw_mode(),
        geteuid().as_raw(),
        getegid().as_raw(),
        flags::data(&options),
    );
    let data = CString::new(data).map_err(|_| failed(Errno::INVAL))?;
    let (path, flags) = (directory.path(), flags::added(flags::passed_on(directory.flags(), &KEPT), &options));
    rustix::mount::mount(path, path, KIND, flags, data.as_c_str()).map_err(failed)
}

/// What the mount below forbids stays forbidden, unless an option allows it.
const KEPT: [(StatVfsMountFlags, MountFlags); 6] = [
    (StatVfsMountFlags::RDONLY, MountFlags::RDONLY),
    (StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
    (StatVfsMountFlags::NODEV, MountFlags::NODEV),
    (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
    (StatVfsMountFlags::NOATIME, MountFlags::NOATIME),
    (StatVfsMountFlags::NODIRATIME, MountFlags::NODIRATIME),
];

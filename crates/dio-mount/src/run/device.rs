//! Connections to the kernel: `/dev/fuse`, opened and mounted by the process in whose namespace the
//! mounts are.
//!
//! The kernel requires that a connection is opened in the user namespace that owns the mount
//! (`fuse_fill_super`, `fs/fuse/inode.c`). So it can be opened neither before the process enters
//! that namespace, nor by the server.

use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{CWD, FileType, Mode, OFlags, StatVfsMountFlags, openat};
use rustix::io::Errno;
use rustix::mount::MountFlags;
use rustix::process::{getegid, geteuid};

use super::directory::Directory;
use super::error::RunError;
use super::namespace::Owner;
use crate::MountOptions;
use crate::session::flags;
use crate::session::table::KIND;

/// Opens a new connection, which is not mounted yet.
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

/// Mounts `directory` over itself, to be served through `device`. A mount that the system owns may
/// be entered by all users with permission for the directory, because the command may change its
/// user. In a user namespace there is only one user.
pub(super) fn mount(
    device: &OwnedFd,
    directory: &Directory,
    options: &MountOptions,
    owner: Owner,
) -> Result<(), RunError> {
    let failed = |errno| RunError::Mount { path: directory.path().to_owned(), errno };
    let options = MountOptions { allow_other: owner == Owner::System, ..options.clone() };
    let data = format!(
        "fd={},rootmode={:o},user_id={},group_id={}{}",
        device.as_raw_fd(),
        FileType::Directory.as_raw_mode(),
        geteuid().as_raw(),
        getegid().as_raw(),
        flags::data(&options),
    );
    let data = CString::new(data).map_err(|_| failed(Errno::INVAL))?;
    let (path, flags) =
        (directory.path(), flags::added(flags::passed_on(directory.flags(), &KEPT), &options));
    rustix::mount::mount(path, path, KIND, flags, data.as_c_str()).map_err(failed)
}

/// Restrictions of the mount below stay, unless an option lifts them.
const KEPT: [(StatVfsMountFlags, MountFlags); 6] = [
    (StatVfsMountFlags::RDONLY, MountFlags::RDONLY),
    (StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
    (StatVfsMountFlags::NODEV, MountFlags::NODEV),
    (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
    (StatVfsMountFlags::NOATIME, MountFlags::NOATIME),
    (StatVfsMountFlags::NODIRATIME, MountFlags::NODIRATIME),
];

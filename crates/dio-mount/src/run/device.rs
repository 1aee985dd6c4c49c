//! Connections to the kernel: `/dev/fuse`, opened and mounted by the process that will see the mounts.
//!
//! The kernel wants a connection to be opened in the user namespace that owns the mount (`fuse_fill_super`,
//! `fs/fuse/inode.c`), so it cannot be opened before that is entered, nor by the server.

use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{CWD, Mode, OFlags, StatVfsMountFlags, openat};
use rustix::io::Errno;
use rustix::mount::MountFlags;
use rustix::process::{getegid, geteuid};

use super::directory::Directory;
use super::namespace::Owner;
use super::{Options, RunError};

/// What the table of mounts calls it.
const TYPE: &str = "fuse.dio";

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

/// Mounts `directory` over itself, to be served through `device`.
pub(super) fn mount(device: &OwnedFd, directory: &Directory, options: &Options, owner: Owner) -> Result<(), RunError> {
    let failed = |errno| RunError::Mount { path: directory.path().to_owned(), errno };
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    let mut data = format!("fd={},rootmode=40000,user_id={user},group_id={group}", device.as_raw_fd());
    if options.default_permissions || owner == Owner::System {
        data.push_str(",default_permissions");
    }
    if owner == Owner::System {
        data.push_str(",allow_other");
    }
    let data = CString::new(data).map_err(|_| failed(Errno::INVAL))?;
    rustix::mount::mount(directory.path(), directory.path(), TYPE, flags(directory, options), data.as_c_str())
        .map_err(failed)
}

/// What the mount below forbids stays forbidden; what the user asks for is added.
fn flags(directory: &Directory, options: &Options) -> MountFlags {
    let below = directory.flags();
    let mut flags = MountFlags::empty();
    for (seen, kept) in [
        (StatVfsMountFlags::RDONLY, MountFlags::RDONLY),
        (StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
        (StatVfsMountFlags::NODEV, MountFlags::NODEV),
        (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
    ] {
        if below.contains(seen) {
            flags |= kept;
        }
    }
    if options.read_only {
        flags |= MountFlags::RDONLY;
    }
    options.flags.iter().fold(flags, |flags, word| flags | flag(word))
}

/// The kernel's flag for a word of mount(8); those that are the default, or whose effect is the server's, have none.
fn flag(word: &str) -> MountFlags {
    match word {
        "ro" => MountFlags::RDONLY,
        "nosuid" => MountFlags::NOSUID,
        "nodev" => MountFlags::NODEV,
        "noexec" => MountFlags::NOEXEC,
        "noatime" => MountFlags::NOATIME,
        "nodiratime" => MountFlags::NODIRATIME,
        "sync" => MountFlags::SYNCHRONOUS,
        "dirsync" => MountFlags::DIRSYNC,
        _ => MountFlags::empty(),
    }
}

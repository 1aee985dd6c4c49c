//! A private mount namespace (`mount_namespaces(7)`), owned by a new user namespace if this process
//! lacks the privilege to make one.

use rustix::io::Errno;
use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::process::{getegid, geteuid};

use super::error::RunError;
use crate::errno::errno_of;

/// The owner of the private mounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// The system: the process was privileged, and all users may enter.
    System,
    /// A user namespace with one user and one group.
    User,
}

/// Moves this process to a mount namespace of its own. It still sees what others mount and unmount;
/// others do not see its mounts.
pub(super) fn enter() -> Result<Owner, RunError> {
    let owner = match unshare(false) {
        Ok(()) => Owner::System,
        Err(Errno::PERM) => {
            let (user, group) = (geteuid().as_raw(), getegid().as_raw());
            unshare(true).map_err(|errno| RunError::Namespace { errno, cure: cure(errno) })?;
            map(user, group)?;
            Owner::User
        }
        Err(errno) => return Err(RunError::Namespace { errno, cure: cure(errno) }),
    };
    // Downstream (a slave), not private: otherwise a file system that is unmounted outside would
    // stay busy in this namespace.
    mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)
        .map_err(|errno| RunError::Namespace { errno, cure: cure(errno) })?;
    Ok(owner)
}

fn unshare(user: bool) -> Result<(), Errno> {
    dio_sys::unshare_mounts(user).map_err(errno_of)
}

/// Maps user and group to the same IDs outside (`user_namespaces(7)`: one line each, and setgroups
/// denied).
fn map(user: u32, group: u32) -> Result<(), RunError> {
    let write = |file: &'static str, text: String| {
        std::fs::write(file, text).map_err(|error| RunError::Map { file, errno: errno_of(error) })
    };
    write("/proc/self/setgroups", "deny".to_owned())?;
    write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    write("/proc/self/gid_map", format!("{group} {group} 1"))
}

/// Advice where namespaces are refused.
fn cure(errno: Errno) -> &'static str {
    match errno {
        Errno::NOSPC | Errno::USERS => {
            "the limit of namespaces is reached; raise user.max_user_namespaces and \
             user.max_mnt_namespaces (sysctl)"
        }
        Errno::INVAL | Errno::NOSYS => {
            "the kernel was built without user or mount namespaces; run it as root"
        }
        _ => {
            "run it as root (in a container with CAP_SYS_ADMIN), or let users have namespaces: \
             sysctl kernel.unprivileged_userns_clone=1 (Debian), \
             kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu)"
        }
    }
}

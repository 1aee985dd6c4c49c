//! Takes on the identity of a caller, so that new inodes belong to it.
//!
//! The kernel has checked permissions before a request arrives, but the file system below must know
//! the creator: for owner, group, set-group-id directories, quotas and reserved blocks. The
//! identity applies to the calling thread only (`dio::credentials`). While its user is not the
//! superuser, the thread has none of the server's privileges.

use std::cell::Cell;

use dio::credentials::Credentials;
use rustix::fs::Mode;
use rustix::io::{Errno, Result};
use rustix::process::{Gid, umask};

use super::attributes::group;
use super::{Caller, Names};

/// The bits of a set-group-id file. The file system below clears the set-group-id bit if the
/// creator is not in the group.
const SET_GROUP: u32 = 0o2010;

impl Names {
    /// Returns the server's own credentials, if the server acts as its callers and this caller is
    /// another user.
    fn credentials_beside(&self, caller: Caller) -> Option<&Credentials> {
        self.callers.as_ref().filter(|own| !own.are(caller.uid, caller.gid))
    }

    /// Runs `action` as the caller, if the server can.
    ///
    /// The caller's supplementary groups are looked up only where they can matter: when `action` is
    /// refused without them, and for files with a set-group-id bit. That is rare, and the lookup
    /// takes longer than everything else.
    pub(super) fn as_caller<T>(
        &self,
        caller: Caller,
        mode: u32,
        mut action: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        let Some(own) = self.credentials_beside(caller) else { return action() };
        if mode & SET_GROUP != SET_GROUP {
            let acting = own.take_on(caller.uid, caller.gid, &[])?;
            let outcome = action();
            drop(acting);
            if !matches!(outcome, Err(Errno::ACCESS | Errno::PERM)) {
                return outcome;
            }
        }
        self.as_caller_in_full(caller, action)
    }

    /// Runs `action` as the caller with all its groups, if the server can.
    pub(super) fn as_caller_in_full<T>(
        &self,
        caller: Caller,
        mut action: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        let Some(own) = self.credentials_beside(caller) else { return action() };
        let groups = groups_of(caller).unwrap_or_default();
        let _acting = own.take_on(caller.uid, caller.gid, &groups)?;
        action()
    }
}

/// Returns the supplementary groups of a caller that waits for an answer; `None` if they cannot be
/// determined.
fn groups_of(caller: Caller) -> Option<Vec<Gid>> {
    if caller.pid == 0 {
        return None;
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", caller.pid)).ok()?;
    groups_in(&status, caller)
}

/// Parses the groups in a `status` file (`proc_pid_status(5)`). Returns `None` if the IDs are not
/// the caller's: the caller may have ended, and another process may have its pid.
fn groups_in(status: &str, caller: Caller) -> Option<Vec<Gid>> {
    let field =
        |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    // The four IDs are real, effective, saved and file system ID.
    let for_files = |name| field(name)?.split_whitespace().nth(3)?.parse::<u32>().ok();
    if for_files("Uid")? != caller.uid || for_files("Gid")? != caller.gid {
        return None;
    }
    field("Groups")?.split_whitespace().map(|number| group(number.parse().ok()?).ok()).collect()
}

thread_local! {
    /// Whether this thread has a umask of its own; `None` if it could not get one.
    static OWN_MASK: Cell<Option<bool>> = const { Cell::new(Some(false)) };
}

/// Sets a file creation mask until this is dropped.
pub(super) struct Masked {
    before: Mode,
}

impl Masked {
    /// Sets the mask of this thread, so that the file system below applies it, or ignores it where
    /// the directory has a default ACL. Returns `None` if the thread has no mask of its own; from
    /// then on the mask of the process is empty.
    pub(super) fn with(mask: u32) -> Option<Masked> {
        let own = OWN_MASK.with(|own| {
            if own.get() == Some(false) {
                own.set(dio_sys::take_own_umask().is_ok().then_some(true));
            }
            own.get().is_some()
        });
        if !own {
            umask(Mode::empty());
            return None;
        }
        Some(Masked { before: umask(Mode::from_raw_mode(mask & 0o777)) })
    }
}

impl Drop for Masked {
    fn drop(&mut self) {
        umask(self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "Name:\tsh\nUmask:\t0022\nUid:\t1000\t1000\t1000\t1001\nGid:\t100\t100\t100\t101\nFDSize:\t64\nGroups:\t4 \
                          24 1000 \nNStgid:\t7\n";

    #[test]
    fn groups_are_those_of_the_caller_and_of_nobody_else() {
        let caller = Caller { uid: 1001, gid: 101, pid: 7 };
        let groups = groups_in(STATUS, caller).unwrap();
        assert_eq!(groups.iter().map(|gid| gid.as_raw()).collect::<Vec<_>>(), [4, 24, 1000]);
        assert!(groups_in(STATUS, Caller { uid: 1000, ..caller }).is_none());
        assert!(groups_in(STATUS, Caller { gid: 100, ..caller }).is_none());
        assert!(groups_in("", caller).is_none());
        assert!(groups_in(&STATUS.replace("4 24 1000", ""), caller).unwrap().is_empty());
    }
}

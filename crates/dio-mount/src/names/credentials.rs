//! Taking on the identity of a caller, for what is created.
//!
//! The kernel has checked permissions when a request arrives; the file system below must know for
//! whom it creates: owner, group, set-group-id directories, quotas, reserved blocks. Identities are
//! those of the thread alone (`dio::credentials`), with the privileges of the server gone while its
//! user is not the superuser.

use std::cell::Cell;

use dio::credentials::Credentials;
use rustix::fs::Mode;
use rustix::io::{Errno, Result};
use rustix::process::{Gid, umask};

use super::attributes::group;
use super::{Caller, Names};

/// A set-group-id file, which the file system below makes of a plain one if its creator is not in
/// the group.
const SET_GROUP: u32 = 0o2010;

impl Names {
    /// The server's own credentials, if it acts as its callers and this one is somebody else.
    fn credentials_beside(&self, caller: Caller) -> Option<&Credentials> {
        self.callers.as_ref().filter(|own| !own.are(caller.uid, caller.gid))
    }

    /// Does something as the caller, if the server can.
    ///
    /// Groups beyond the first are looked up only where they can matter, which is rare and takes
    /// longer than all the rest: when it is refused without them, and for files with a set-group-id
    /// bit.
    pub(super) fn as_caller<T>(&self, caller: Caller, mode: u32, mut action: impl FnMut() -> Result<T>) -> Result<T> {
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

    /// Does something as the caller with all its groups, if the server can.
    pub(super) fn as_caller_in_full<T>(&self, caller: Caller, mut action: impl FnMut() -> Result<T>) -> Result<T> {
        let Some(own) = self.credentials_beside(caller) else { return action() };
        let groups = groups_of(caller).unwrap_or_default();
        let _acting = own.take_on(caller.uid, caller.gid, &groups)?;
        action()
    }
}

/// The supplementary groups of a caller, which waits for our answer; `None` if they cannot be
/// known.
fn groups_of(caller: Caller) -> Option<Vec<Gid>> {
    if caller.pid == 0 {
        return None;
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", caller.pid)).ok()?;
    groups_in(&status, caller)
}

/// Those in a `status` file (`proc_pid_status(5)`), if it is that of the caller: somebody who died
/// may have left the number to somebody else.
fn groups_in(status: &str, caller: Caller) -> Option<Vec<Gid>> {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    // Real, effective, saved, and last that for file accesses.
    let for_files = |name| field(name)?.split_whitespace().nth(3)?.parse::<u32>().ok();
    if for_files("Uid")? != caller.uid || for_files("Gid")? != caller.gid {
        return None;
    }
    field("Groups")?.split_whitespace().map(|number| group(number.parse().ok()?).ok()).collect()
}

thread_local! {
    /// Whether this thread's file creation mask is its own; `None` if it could not be had.
    static OWN_MASK: Cell<Option<bool>> = const { Cell::new(Some(false)) };
}

/// A file creation mask, until it is dropped.
pub(super) struct Masked {
    before: Mode,
}

impl Masked {
    /// Sets the mask of this thread, so that the file system below applies it or, where the
    /// directory has a default ACL, does not. `None` if the thread has no mask of its own: then
    /// that of the process is empty from now on.
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

    const STATUS: &str = "Name:\tsh\nUmask:\t0022\nUid:\t1000\t1000\t1000\t1001\nGid:\t100\t100\t100\t101\nFDSize:\t64\n\
        Groups:\t4 24 1000 \nNStgid:\t7\n";

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

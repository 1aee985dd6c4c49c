//! The user that the kernel takes the calling thread for when it looks up, makes and removes files.
//!
//! A thread of root's takes on the identity of another user for a few system calls: user, group and
//! supplementary groups. Only this thread changes, because the system calls are made without the
//! wrappers of the C library. Without the user ID of the superuser the thread also loses its
//! capabilities (`capabilities(7)`).
//!
//! Only *effective* IDs change. `kill(2)` and `ptrace(2)` look at the other ones too, so the user
//! gets no hold of this process meanwhile; and the kernel keeps the thread out of that user's FUSE
//! mounts, whose servers could make it wait for ever.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::io::{Errno, Result};
use rustix::process::{Gid, Uid, getegid, geteuid, getgroups, getuid};
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, capabilities, capabilities_secure_bits,
    set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};

/// How long the groups of a user are remembered. For so long a user who was taken out of a group
/// may keep its rights here; a session of that user keeps them until it ends.
const GROUPS_LIFETIME: Duration = Duration::from_secs(60);

/// Most users whose groups are remembered.
const USERS_MAX: usize = 1024;

/// The group of a user that the user database does not know: nobody's (`user_namespaces(7)`).
const NOBODY: u32 = 65_534;

/// Whether this process may ever run as root: it does, or could become root.
static MAY_BE_ROOT: LazyLock<bool> = LazyLock::new(|| {
    let changes =
        || capabilities(None).is_ok_and(|sets| sets.permitted.contains(CapabilitySet::SETUID));
    geteuid().is_root() || getuid().is_root() || changes()
});

/// Whether this thread runs as root. In a process that cannot be root this takes no system call.
pub(crate) fn is_root() -> bool {
    *MAY_BE_ROOT && geteuid().is_root()
}

/// Whether the files and requests of this user are trusted: the user is root, or the effective user
/// of this thread.
pub fn is_trusted(user: u32) -> bool {
    user == 0 || user == geteuid().as_raw()
}

/// The identity of a thread.
#[derive(Debug)]
pub struct Credentials {
    uid: Uid,
    gid: Gid,
    groups: Vec<Gid>,
}

impl Credentials {
    /// The effective identity of the calling thread.
    ///
    /// # Errors
    /// What `getgroups(2)` answers.
    pub fn of_thread() -> Result<Credentials> {
        Ok(Credentials { uid: geteuid(), gid: getegid(), groups: getgroups()? })
    }

    /// Whether user and group are these.
    pub fn are(&self, uid: u32, gid: u32) -> bool {
        (uid, gid) == (self.uid.as_raw(), self.gid.as_raw())
    }

    /// Gives the calling thread, whose credentials these are, another identity. It gets its own
    /// back when the returned value is dropped.
    ///
    /// # Errors
    /// EINVAL for the user or group -1, and for those that the user namespace does not have; EPERM
    /// without CAP_SETUID or CAP_SETGID.
    pub fn take_on(&self, uid: u32, gid: u32, groups: &[Gid]) -> Result<ActingAs<'_>> {
        if uid == u32::MAX || gid == u32::MAX {
            return Err(Errno::INVAL);
        }
        let other_groups = *groups != *self.groups;
        if other_groups {
            set_thread_groups(groups)?;
        }
        let acting = ActingAs { own: self, other_groups };
        set_thread_res_gid(None, Gid::from_raw(gid), None)?;
        // Last, because it takes the privilege to do the others.
        set_thread_res_uid(None, Uid::from_raw(uid), None)?;
        Ok(acting)
    }

    /// As [`Credentials::take_on`], for the user `uid` with the groups that the user database has.
    ///
    /// # Errors
    /// As there; EPERM also if the thread would keep its capabilities.
    pub(crate) fn take_on_user(&self, uid: u32) -> Result<ActingAs<'_>> {
        if *KEEPS_CAPABILITIES {
            return Err(Errno::PERM);
        }
        let known = UserGroups::of(uid);
        self.take_on(uid, known.first, &known.all)
    }
}

/// Whether a thread keeps its capabilities when it becomes another user (`SECBIT_NO_SETUID_FIXUP`).
static KEEPS_CAPABILITIES: LazyLock<bool> = LazyLock::new(|| {
    capabilities_secure_bits()
        .is_ok_and(|bits| bits.contains(CapabilitiesSecureBits::NO_SETUID_FIXUP))
});

/// While this lives, the thread has another identity.
#[derive(Debug)]
pub struct ActingAs<'a> {
    own: &'a Credentials,
    other_groups: bool,
}

impl Drop for ActingAs<'_> {
    fn drop(&mut self) {
        let Credentials { uid, gid, groups } = self.own;
        let back = set_thread_res_uid(None, *uid, None)
            .and_then(|()| set_thread_res_gid(None, *gid, None))
            .and_then(|()| if self.other_groups { set_thread_groups(groups) } else { Ok(()) });
        if back.is_err() {
            // A thread that went on as somebody else would do the next thing with rights that are
            // not its own.
            std::process::abort();
        }
    }
}

/// The groups of a user.
#[derive(Debug)]
struct UserGroups {
    first: u32,
    all: Vec<Gid>,
}

type KnownUsers = HashMap<u32, (Instant, Arc<UserGroups>)>;

impl UserGroups {
    /// The groups of a user, not older than [`GROUPS_LIFETIME`].
    fn of(uid: u32) -> Arc<UserGroups> {
        static KNOWN: LazyLock<Mutex<KnownUsers>> = LazyLock::new(Mutex::default);
        let fresh = |asked: &Instant| asked.elapsed() < GROUPS_LIFETIME;
        if let Some((_, groups)) = KNOWN.lock().get(&uid).filter(|(asked, _)| fresh(asked)) {
            return Arc::clone(groups);
        }
        // The database may be on a network: others do not wait for this answer.
        let groups = Arc::new(UserGroups::ask(uid));
        let mut known = KNOWN.lock();
        if known.len() >= USERS_MAX {
            known.clear();
        }
        known.insert(uid, (Instant::now(), Arc::clone(&groups)));
        groups
    }

    /// Asks the user database (`getpwuid_r(3)`, `getgrouplist(3)`). A user that it does not know is
    /// in no group.
    fn ask(uid: u32) -> UserGroups {
        let Some(user) = uzers::get_user_by_uid(uid) else {
            return UserGroups { first: NOBODY, all: Vec::new() };
        };
        let first = user.primary_group_id();
        let all = uzers::get_user_groups(user.name(), first).unwrap_or_default();
        UserGroups { first, all: all.iter().map(|group| Gid::from_raw(group.gid())).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_itself_again_after_a_panic() {
        let own = Credentials::of_thread().unwrap();
        if !own.uid.is_root() {
            dio_test::skip!("only the superuser can become another");
            return;
        }
        let effective = || capabilities(None).unwrap().effective;
        let before = effective();
        let panicked = std::panic::catch_unwind(|| {
            let _acting = own.take_on(1234, 2345, &[Gid::from_raw(77)]).unwrap();
            assert_eq!((geteuid().as_raw(), getegid().as_raw()), (1234, 2345));
            assert_eq!(getgroups().unwrap(), [Gid::from_raw(77)]);
            assert!(effective().is_empty() && getuid().is_root());
            panic!("on purpose");
        });
        assert!(panicked.is_err());
        let now = Credentials::of_thread().unwrap();
        assert_eq!((now.uid, now.gid, now.groups), (own.uid, own.gid, own.groups));
        assert_eq!(effective(), before);
    }

    #[test]
    fn nobody_takes_on_the_number_that_changes_nothing() {
        let own = Credentials::of_thread().unwrap();
        for (uid, gid) in [(u32::MAX, 1), (1, u32::MAX)] {
            assert_eq!(own.take_on(uid, gid, &[]).unwrap_err(), Errno::INVAL);
        }
        assert_eq!(own.uid, geteuid());
    }

    #[test]
    fn groups_are_those_of_the_user_database() {
        let groups = UserGroups::of(0);
        assert!(groups.first == 0 && groups.all.contains(&Gid::from_raw(0)));
        let unknown = UserGroups::of(4_000_000_000);
        assert!(unknown.first == NOBODY && unknown.all.is_empty());
    }
}

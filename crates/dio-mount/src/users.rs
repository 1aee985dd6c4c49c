//! Shares of a limited resource for each user of a shared mount: no user can take all of it.

use std::collections::HashMap;
use std::sync::Arc;

use dio::credentials::is_trusted;
use parking_lot::{Mutex, MutexGuard};
use rustix::io::{Errno, Result};
use rustix::process::{Resource, getrlimit};

/// The amounts that users hold, in any unit.
#[derive(Debug, Default)]
pub(crate) struct Users {
    held: Mutex<HashMap<u32, u64>>,
}

/// The number of descriptors of this process for open files and directories, and for files without
/// a name. The last quarter is for inodes that were looked up.
fn descriptors_for_users() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX) / 4 * 3
}

/// An amount that a user holds until this is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    user: u32,
    amount: u64,
    users: Arc<Users>,
}

impl Users {
    fn held(&self) -> MutexGuard<'_, HashMap<u32, u64>> {
        self.held.lock()
    }

    /// Gives a user `count` more of this process's descriptors.
    ///
    /// # Errors
    /// `ENFILE` where that would be more than the user's share.
    pub(crate) fn take_descriptors(self: &Arc<Self>, user: u32, count: u64) -> Result<Share> {
        self.take(user, count, descriptors_for_users()).ok_or(Errno::NFILE)
    }

    /// Gives a user `amount` more of `all`. Returns `None` if the user would then have more than
    /// half of what other users have left: so a new user always finds something. The superuser and
    /// the server's own user, who could stop the server anyway, are not limited.
    pub(crate) fn take(self: &Arc<Self>, user: u32, amount: u64, all: u64) -> Option<Share> {
        let mut held = self.held();
        let own = held.get(&user).copied().unwrap_or(0);
        if !is_trusted(user) {
            let others = held.values().sum::<u64>() - own;
            if own + amount > all.saturating_sub(others) / 2 {
                return None;
            }
        }
        held.insert(user, own + amount);
        Some(Share { user, amount, users: Arc::clone(self) })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut held = self.users.held();
        if let Some(amount) = held.get_mut(&self.user) {
            *amount -= self.amount;
            if *amount == 0 {
                held.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_finds_half_of_what_the_others_leave() {
        let users = Arc::new(Users::default());
        let own = rustix::process::geteuid().as_raw();
        let first = users.take(own + 1, 50, 100).unwrap();
        assert!(users.take(own + 1, 1, 100).is_none());
        let second: Vec<_> = (0..25).map(|_| users.take(own + 2, 1, 100).unwrap()).collect();
        assert!(users.take(own + 2, 1, 100).is_none());
        let _third = users.take(own + 3, 12, 100).unwrap();
        assert!(users.take(own + 3, 1, 100).is_none());
        drop(first);
        let _more = users.take(own + 2, 1, 100).unwrap();
        drop(second);
        assert_eq!(users.held().values().sum::<u64>(), 13);
    }

    #[test]
    fn who_could_stop_the_server_is_not_limited() {
        let users = Arc::new(Users::default());
        let own = rustix::process::geteuid().as_raw();
        let _all = users.take(own, 100, 100).unwrap();
        let _more = users.take(0, 1, 100).unwrap();
        assert!(users.take(own + 1, 1, 100).is_none(), "nothing is left");
    }
}

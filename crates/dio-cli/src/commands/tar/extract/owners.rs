//! Looks up user and group IDs by name, each name once.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// A cache of the names looked up.
#[derive(Debug, Default)]
pub(in super::super) struct Owners {
    users: HashMap<Vec<u8>, Option<u32>>,
    groups: HashMap<Vec<u8>, Option<u32>>,
}

impl Owners {
    /// The ID of a user: that of the name on this system, or else the one in the archive.
    pub(in super::super) fn user(&mut self, name: &[u8], number: u32) -> u32 {
        known(&mut self.users, name, |name| uzers::get_user_by_name(name).map(|user| user.uid()))
            .unwrap_or(number)
    }

    /// The ID of a group, found in the same manner.
    pub(in super::super) fn group(&mut self, name: &[u8], number: u32) -> u32 {
        known(&mut self.groups, name, |name| {
            uzers::get_group_by_name(name).map(|group| group.gid())
        })
        .unwrap_or(number)
    }
}

fn known(
    cache: &mut HashMap<Vec<u8>, Option<u32>>,
    name: &[u8],
    look_up: impl FnOnce(&OsStr) -> Option<u32>,
) -> Option<u32> {
    if name.is_empty() {
        return None;
    }
    if let Some(found) = cache.get(name) {
        return *found;
    }
    let found = look_up(OsStr::from_bytes(name));
    cache.insert(name.to_vec(), found);
    found
}

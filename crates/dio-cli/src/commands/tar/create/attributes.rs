//! Collects the metadata of a file for the archive: its header, owner names, extended attributes
//! and access control lists.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{FileType, Stat, major, minor};
use rustix::io::Errno;

use super::super::format::{ArchiveEntry, EntryKind, Time, acl_of_mode, acl_to_text};
use super::super::masks::Masks;
use super::super::options::{ArchiveFormat, TarOptions};
use super::super::owner::Owner;

/// Names of users and groups, each looked up once.
#[derive(Debug, Default)]
pub(super) struct Owners {
    users: HashMap<u32, Vec<u8>>,
    groups: HashMap<u32, Vec<u8>>,
}

impl Owners {
    fn user(&mut self, id: u32) -> Vec<u8> {
        let ask = || {
            uzers::get_user_by_uid(id)
                .map(|user| user.name().as_bytes().to_vec())
                .unwrap_or_default()
        };
        self.users.entry(id).or_insert_with(ask).clone()
    }

    fn group(&mut self, id: u32) -> Vec<u8> {
        let ask = || {
            uzers::get_group_by_gid(id)
                .map(|group| group.name().as_bytes().to_vec())
                .unwrap_or_default()
        };
        self.groups.entry(id).or_insert_with(ask).clone()
    }

    /// The entry of a file, without its name, link target and contents.
    pub(super) fn entry(
        &mut self,
        options: &TarOptions,
        stat: &Stat,
        kind: EntryKind,
    ) -> ArchiveEntry {
        let pax = options.format == Some(ArchiveFormat::Pax);
        let mut entry = ArchiveEntry {
            kind,
            mode: stat.st_mode & 0o7777,
            uid: stat.st_uid,
            gid: stat.st_gid,
            mtime: mtime_of(options, stat),
            atime: pax.then(|| time(stat.st_atime, stat.st_atime_nsec)),
            ctime: pax.then(|| time(stat.st_ctime, stat.st_ctime_nsec)),
            device: (major(stat.st_rdev), minor(stat.st_rdev)),
            ..ArchiveEntry::default()
        };
        let forced = |owner: &Option<Owner>, id: u32| match owner {
            Some(Owner { name, id: number }) => (number.unwrap_or(id), name.clone()),
            None => (id, None),
        };
        let (uid, uname) = forced(&options.owner, entry.uid);
        let (gid, gname) = forced(&options.group, entry.gid);
        (entry.uid, entry.gid) = (uid, gid);
        // The V7 format stores no owner names.
        if !options.numeric_owner && options.format != Some(ArchiveFormat::V7) {
            entry.uname = uname.unwrap_or_else(|| self.user(uid));
            entry.gname = gname.unwrap_or_else(|| self.group(gid));
        }
        entry
    }
}

fn time(seconds: i64, nanos: u64) -> Time {
    Time { seconds, nanos: nanos as u32 }
}

/// The modification time of a file.
pub(super) fn own_mtime(stat: &Stat) -> Time {
    time(stat.st_mtime, stat.st_mtime_nsec)
}

fn mtime_of(options: &TarOptions, stat: &Stat) -> Time {
    let own = own_mtime(stat);
    match options.mtime.map(|moment| Time { seconds: moment.seconds, nanos: moment.nanoseconds }) {
        Some(forced) if !options.clamp_mtime || own > forced => forced,
        _ => own,
    }
}

/// The kind of entry for a file of this type; `None` if it cannot be archived.
pub(super) fn kind_of(stat: &Stat) -> Option<EntryKind> {
    Some(match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => EntryKind::Regular,
        FileType::Directory => EntryKind::Directory,
        FileType::Symlink => EntryKind::Symlink,
        FileType::CharacterDevice => EntryKind::Character,
        FileType::BlockDevice => EntryKind::Block,
        FileType::Fifo => EntryKind::Fifo,
        _ => return None,
    })
}

/// Metadata of a file that its header does not hold.
#[derive(Debug, Default)]
pub(super) struct Attributes {
    xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    acl_access: Option<Vec<u8>>,
    acl_default: Option<Vec<u8>>,
}

impl Attributes {
    /// Moves the attributes into the entry.
    pub(super) fn put(self, entry: &mut ArchiveEntry) {
        entry.xattrs = self.xattrs;
        (entry.acl_access, entry.acl_default) = (self.acl_access, self.acl_default);
    }
}

/// The attributes that are to be archived.
#[derive(Debug)]
pub(super) struct WantedAttributes {
    xattrs: bool,
    acls: bool,
    masks: Masks,
}

const ACL_ACCESS: &str = "system.posix_acl_access";
const ACL_DEFAULT: &str = "system.posix_acl_default";

impl WantedAttributes {
    /// The attributes that the command line requests.
    pub(super) fn of(options: &TarOptions) -> WantedAttributes {
        WantedAttributes { xattrs: options.xattrs, acls: options.acls, masks: Masks::new(options) }
    }

    /// Whether any attributes are requested.
    pub(super) fn any(&self) -> bool {
        self.xattrs || self.acls
    }

    /// Reads the attributes of the file at `path`; a symbolic link at its end is not followed. On a
    /// file system that does not support attributes the result is empty.
    ///
    /// # Errors
    /// Errors of `listxattr(2)` and `getxattr(2)`.
    pub(super) fn ask(&self, path: &std::path::Path, stat: &Stat) -> Result<Attributes, Errno> {
        let mut found = Attributes::default();
        let list = match none_if_unsupported(xattr::list(path))? {
            Some(list) => list.collect::<Vec<_>>(),
            None => return Ok(found),
        };
        for name in &list {
            let is_acl = name == ACL_ACCESS || name == ACL_DEFAULT;
            let wanted = self.xattrs && self.masks.archives(name.as_bytes());
            if !(wanted || is_acl && self.acls) {
                continue;
            }
            let Some(value) = none_if_unsupported(xattr::get(path, name))?.flatten() else {
                continue;
            };
            if is_acl && self.acls {
                let text = acl_to_text(&value);
                if name == ACL_ACCESS { found.acl_access = text } else { found.acl_default = text }
            }
            if wanted {
                found.xattrs.push((name.as_bytes().to_vec(), value));
            }
        }
        if found.acl_default.is_some() && found.acl_access.is_none() {
            // Like GNU tar, writes the ACL that the permissions are equivalent to.
            found.acl_access = Some(acl_of_mode(stat.st_mode));
        }
        Ok(found)
    }
}

fn none_if_unsupported<T>(answer: std::io::Result<T>) -> Result<Option<T>, Errno> {
    match answer.map_err(|error| crate::tool::errno_of(&error)) {
        Ok(value) => Ok(Some(value)),
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(None),
        Err(errno) => Err(errno),
    }
}

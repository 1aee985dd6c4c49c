//! Which defaults and descriptors this process follows.
//!
//! The default of a directory and the descriptor of a striped file say where bytes are. A process
//! follows them with its own rights: one written by another user could make it open, overwrite or
//! remove files that only this process may. So:
//!
//! - A **default** is followed only by its owner, or by everybody if it belongs to root
//!   ([`check_default_trusted`]). It is a regular file of a fixed length that nobody else may
//!   write, found without following a link. It names the inode of the directory for which it was
//!   set: a copy in another directory is not followed, whoever made it
//!   ([`DirectoryInode`](super::DirectoryInode)).
//! - A **descriptor** refers only to objects of its own owner, whoever follows it. If other users
//!   may write it, it refers only to objects whose header names this very inode as their descriptor
//!   ([`may_refer_to`]). So a user who may write into somebody's file can break its descriptor, but
//!   not make it refer to another file of that owner.
//! - A process of root's follows the **names** in a descriptor of another user with the rights of
//!   that user: it looks up, makes and removes objects as the owner of the descriptor file
//!   ([`as_owner`]). What is found under such a name belongs to that user, who could change its
//!   mode, so it is then opened whatever its mode says: root backs up files that nobody may read.
//!   The name of a device is looked up so too; the device itself belongs to the file by its header.
//!
//! What is not followed is reported, with the reason.

use parking_lot::Mutex;
use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

use super::head::DescriptorInode;
use crate::credentials::{self, Credentials};
use crate::file::FileError;

/// Permission bits by which others than the owner may write. The group bits are the mask of an
/// access control list, if there is one (`acl(5)`).
const OTHERS_WRITE: u32 = 0o022;

/// Permission bits by which others than the owner may read.
const OTHERS_READ: u32 = 0o044;
const GROUP_READS: u32 = 0o040;

/// Most ignored defaults that are kept for the report.
const IGNORED_MAX: usize = 16;

static IGNORED_DEFAULTS: Mutex<Vec<FileError>> = Mutex::new(Vec::new());

/// Whether others than its owner may write to a file.
pub(crate) fn others_may_write(file: &Stat) -> bool {
    file.st_mode & OTHERS_WRITE != 0
}

/// Checks that a default may be followed by the user of this thread. The error is the reason in
/// words.
pub(super) fn check_default_trusted(stat: &Stat) -> Result<(), String> {
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err("it is no regular file".to_owned());
    }
    if !credentials::is_trusted(stat.st_uid) {
        return Err(format!(
            "it belongs to user {}; only one's own and root's is followed",
            stat.st_uid
        ));
    }
    if others_may_write(stat) {
        return Err("others than its owner may write to it".to_owned());
    }
    Ok(())
}

/// Whether a descriptor file may refer to an object. It may if the object names this very inode as
/// its descriptor. Otherwise, or if inodes are not comparable, the file may be a copy of the
/// descriptor. A copy may refer to the object unless others than its owner may write it, or more
/// users may read it than the object.
pub(super) fn may_refer_to(
    file: &Stat,
    own: &DescriptorInode,
    object: &Stat,
    head: &DescriptorInode,
) -> bool {
    let more = file.st_mode & OTHERS_READ & !object.st_mode != 0;
    let same_group = file.st_gid == object.st_gid || file.st_mode & GROUP_READS == 0;
    // The permissions of a device are independent of those of the file.
    own.is_surely(head) || !others_may_write(file) && (is_device(object) || !more && same_group)
}

/// Whether this thread follows a descriptor of the user `owner` with the rights of that user.
fn acts_as(owner: u32) -> bool {
    owner != 0 && credentials::is_root()
}

/// Does something with names that a descriptor of the user `owner` contains: as that user, if this
/// thread is root's. It is only for system calls on names. What starts a thread or a ring in `work`
/// would leave these the rights of that user for ever.
///
/// # Errors
/// What `work` answers; EACCES if this thread cannot take on the rights of that user.
pub fn as_owner<T, E: From<Errno>>(
    owner: u32,
    work: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    if !acts_as(owner) {
        return work();
    }
    let own = Credentials::of_thread()?;
    let _acting = own.take_on_user(owner).map_err(|_| Errno::ACCESS)?;
    work()
}

/// What is wrong with a name that [`as_owner`] answered an error for, in words; empty if the error
/// says it all.
pub fn refused_to_owner(owner: u32, errno: Errno) -> &'static str {
    if errno == Errno::ACCESS && acts_as(owner) { OUT_OF_REACH } else { "" }
}

/// The fault of an object that root may reach, and the owner of the file may not.
const OUT_OF_REACH: &str = "is out of reach for the owner of the file";

const CURE_OUT_OF_REACH: &str = "root follows the descriptor of another user with that user's \
                                 rights: let the user enter, and to make or remove objects write, \
                                 the object's directory";

/// Says in an error of [`as_owner`] that root may do what the owner of the file may not.
pub(super) fn explained(error: FileError, owner: u32) -> FileError {
    match refused_to_owner(owner, error.errno()) {
        "" => error,
        what => error.with_detail(what).with_cure(CURE_OUT_OF_REACH),
    }
}

/// The cure of a fault that [`refused_to_owner`] names.
pub(super) fn cure_of(fault: &str) -> Option<&'static str> {
    (fault == OUT_OF_REACH).then_some(CURE_OUT_OF_REACH)
}

fn is_device(object: &Stat) -> bool {
    FileType::from_raw_mode(object.st_mode) == FileType::BlockDevice
}

/// Keeps the reason for [`take_ignored_defaults`].
pub(super) fn record_ignored_default(why: FileError) {
    let mut kept = IGNORED_DEFAULTS.lock();
    if kept.len() < IGNORED_MAX && !kept.iter().any(|known| known.path() == why.path()) {
        kept.push(why);
    }
}

/// Removes and returns the defaults that this process has not followed, in order, each once.
pub fn take_ignored_defaults() -> Vec<FileError> {
    std::mem::take(&mut *IGNORED_DEFAULTS.lock())
}

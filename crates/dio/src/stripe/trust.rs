//! Whom this process lets steer it.
//!
//! A directory's default and the descriptor of a striped file say where bytes go and come from. They are instructions, and who
//! meets one follows it with its own rights: one that somebody else wrote could have it open, overwrite or remove what only it may.
//! So:
//!
//! - A **default** is followed only by its owner, and by everybody if it is root's ([`may_steer`]). It is a regular file that nobody
//!   else may write, of a fixed length, found without following a link.
//! - A **descriptor** leads to objects of its own owner alone, whoever follows it, and a descriptor that others may write only to
//!   objects that say that this very file is their descriptor ([`may_lead_to`]). So whoever writes into somebody's file can make it lead
//!   nowhere, but not to another file of that owner.
//!
//! What is not followed is told, with the reason.

use std::sync::{Mutex, PoisonError};

use rustix::fs::{FileType, Stat};

use super::head::Head;
use crate::file::FileError;

/// Permissions by which others than the owner may write. Those of the group are the mask of an access control list, if there is
/// one (`acl(5)`).
const OTHERS_WRITE: u32 = 0o022;

/// Permissions by which others than the owner may read.
const OTHERS_READ: u32 = 0o044;
const GROUP_READS: u32 = 0o040;

/// Most instructions of one process that are told of.
const TOLD_MAX: usize = 16;

static UNFOLLOWED: Mutex<Vec<FileError>> = Mutex::new(Vec::new());

/// Whether somebody beside its owner may write to a file, by what `fstat(2)` said of it.
pub(crate) fn others_may_write(file: &Stat) -> bool {
    file.st_mode & OTHERS_WRITE != 0
}

/// Whether a default may say where files of this thread's user go, by what `fstat(2)` said of it; in words why not.
pub(super) fn may_steer(stat: &Stat) -> Result<(), String> {
    let user = rustix::process::geteuid().as_raw();
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err("it is no regular file".to_owned());
    }
    if stat.st_uid != 0 && stat.st_uid != user {
        return Err(format!("it belongs to user {}; only one's own and root's is followed", stat.st_uid));
    }
    if others_may_write(stat) {
        return Err("others than its owner may write to it".to_owned());
    }
    Ok(())
}

/// Whether a file may lead to an object, by what `fstat(2)` said of both: the object says that this very inode is its descriptor.
/// Where it says that another one is, or where inodes cannot be told apart, the file may be a copy of that one, if it is not open to
/// more users than the object: nobody else may have written it, nor read by it what he cannot read there.
pub(super) fn may_lead_to(file: &Stat, own: &Head, object: &Stat, head: &Head) -> bool {
    let more = file.st_mode & OTHERS_READ & !object.st_mode != 0;
    let same_group = file.st_gid == object.st_gid || file.st_mode & GROUP_READS == 0;
    // What a device lets do is not up to the file.
    own.is_surely(head) || !others_may_write(file) && (is_device(object) || !more && same_group)
}

fn is_device(object: &Stat) -> bool {
    FileType::from_raw_mode(object.st_mode) == FileType::BlockDevice
}

/// Keeps what was not followed for [`take_ignored_defaults`].
pub(super) fn not_followed(why: FileError) {
    let mut kept = UNFOLLOWED.lock().unwrap_or_else(PoisonError::into_inner);
    if kept.len() < TOLD_MAX && !kept.iter().any(|known| known.path() == why.path()) {
        kept.push(why);
    }
}

/// The defaults that this process has met and not followed, in order, each once; they are forgotten.
pub fn take_ignored_defaults() -> Vec<FileError> {
    std::mem::take(&mut *UNFOLLOWED.lock().unwrap_or_else(PoisonError::into_inner))
}

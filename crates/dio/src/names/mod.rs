//! Files by name and by file descriptor. Calls on a striped file concern its contents, not the
//! descriptor file that has its name. On every other file each function is the system call of the
//! same name.
//!
//! Every program that names files uses these functions, so that none has to check whether a file is
//! striped:
//!
//! | instead of | use |
//! |---|---|
//! | `open(2)`, for bytes | [`File::open`](crate::File::open), [`OpenOptions::open`](crate::OpenOptions::open) |
//! | `openat(2)`, for a descriptor | [`openat`] |
//! | `stat(2)`, `fstat(2)`, `fstatat(2)`, for sizes and times | [`stat`], [`fstat`], [`statat`] |
//! | `unlink(2)`, `renameat(2)` | [`unlink`], [`unlinkat`], [`renameat`] |
//! | `ftruncate(2)`, `fsync(2)` | [`ftruncate`], [`fsync`] |
//! | nothing, after `fchown(2)`, `fchmod(2)`, `futimens(2)` | [`pass_on_attributes`] |
//!
//! Functions return error numbers, as the system calls do. [`take_details`] returns what is wrong,
//! and with which object.

mod attributes;
mod contents;
mod details;
mod kernel;
mod open;
mod path;
mod removal;
mod striped;
mod unfinished;

pub use crate::identity::FileId;
pub use crate::stripe::{
    DEFAULT_NAME, has_default, is_own_default, path_has_acl, take_ignored_defaults,
};
pub use attributes::{fstat, fstat_striped, pass_on_attributes, stat, stat_of_contents, statat};
pub use contents::{Object, fsync, ftruncate, objects, resident_pages, striped_like};
pub use details::{details_were_printed, errno_of, take_details};
pub use kernel::is_of_the_kernel;
pub use open::{openat, striped_by_default};
pub use path::path_in;
pub use removal::{rename_new, renameat, unlink, unlinkat};
pub use striped::{end_of_object, is_striped};
pub use unfinished::{UnfinishedFile, temporary_name};

//! Files by name and by descriptor, as programs mean them: of a striped file, calls concern its contents and not the
//! descriptor that has its name. On every other file they are the system call of that name.
//!
//! Whoever names files goes through here, so that nobody forgets that a file may be striped:
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
//! Functions answer with error numbers, as the system does. What is wrong with which object is in [`take_details`].

mod attributes;
mod contents;
mod details;
mod id;
mod open;
mod removal;
mod striped;

pub use crate::stripe::{DEFAULT_NAME, has_default, take_ignored_defaults};
pub use attributes::{fstat, look, pass_on_attributes, stat, stat_of_contents, statat};
pub use contents::{Object, fsync, ftruncate, objects, resident_pages, striped_like};
pub use details::{details_were_printed, errno_of, take_details};
pub use id::FileId;
pub use open::{openat, path_in, striped_by_default};
pub use removal::{renameat, unlink, unlinkat};
pub use striped::{end_of_object, is_striped};

//! Striped files: one file whose bytes are in several files or devices, the *objects*, on any
//! mounted file systems. It is read and written at the sum of their speeds.
//!
//! # The seam
//!
//! A striped file enters the library in three places, and nowhere else:
//!
//! 1. **Opening** (`names/open.rs`). The name of a striped file belongs to its *descriptor*: a
//!    small regular file of a fixed, unusual length, [`DESCRIPTOR_LEN`]. Every opening makes an
//!    `fstat` anyway, so plain files pay one comparison; the few that have this length by chance
//!    pay one small read. If the file is a descriptor, the objects are opened in the mode asked
//!    for, and their headers are compared with the descriptor.
//! 2. **The backing of a file** (`file/backing.rs`). A [`File`](crate::File) lies on one medium or
//!    on `StripedObjects`, which this module implements. The file layer asks for the differences
//!    once, as `BackingTraits`: over how many objects a request may be split, whether growth has to
//!    be ordered, and whether growing writes zeros.
//! 3. **Driving** (`drive/split.rs`). Everything that moves bytes submits requests to a driver. The
//!    driver splits a request to a striped file into one vectored request per object, and submits
//!    all of them before it waits for any. It joins their outcomes when the last has finished:
//!    bytes count up to the first that failed or was missing, and the error names the object.
//!    Engines only get plain operations on plain files.
//!
//! Alignments are those of the strictest object ([`Geometry`](crate::geometry::Geometry)). So the
//! arithmetic of requests, partial blocks and the last block of the file are handled as for plain
//! files; so are modes, locks (one table for all opens of one file, that of its first object),
//! latched errors and counters. Each object is a [`File`](crate::File) of its own and handles its
//! own part of the page cache.
//!
//! # Size
//!
//! The size of the file is not recorded: it follows from the sizes of the objects
//! ([`Layout::size`]). A write that extends the file counts when the last of its parts has arrived.
//! After a crash the file ends where the first byte is missing. The surplus bytes behind that are
//! cut off by the first process that opens the file for writing while no other does (`flock(2)` on
//! the first object). Network file systems and FUSE may hide such a lock from other machines: there
//! only `dio_stripe::repair` cuts. Truncating first cuts the object that holds the first byte to
//! go, durably, and then the others: after a crash the size is the old one or the new.
//!
//! An object on a block device (`device.rs`) has no size of its own. It keeps a record of its
//! length on the device, and is a [`Medium`](crate::engine::Medium) that reports that length. What
//! the engines do not handle is done where parts begin and end: a read is cut off where the object
//! ended when it began, a write counts when everything before it has arrived, and a sync also
//! writes the record. Files striped over directories alone have none of these costs.
//!
//! # Identity
//!
//! A file has an identity of 128 random bits. Each object begins with a header that holds this
//! identity, the number of the object and the layout, under a checksum ([`Header`]). An object that
//! is missing, damaged, of another file or with another number is an error that names it. The
//! header also records the inode of the descriptor ([`DescriptorInode`]), which distinguishes the
//! descriptor from a copy. A copy can be read through, and removed without the bytes, until
//! `dio_stripe::adopt` makes it the descriptor. If root opens a descriptor, the objects must belong
//! to its owner, and are looked for with the rights of that user (`trust.rs`): a descriptor, which
//! anyone can write, must not lead to files that only others may read.
//!
//! The stamp (`stamp.rs`) detects an object restored from an old copy, or of another length. It
//! holds a generation, which each writing session raises in all objects before it changes anything,
//! and the length of the object when the session ended. Writers update the stamps (`session.rs`).
//! Opening a file only compares them, and fails if the objects do not fit together.
//!
//! # Defaults
//!
//! A directory may have a default (`dio_stripe::set_default`). Empty files created in it through
//! [`OpenOptions`](crate::OpenOptions), [`names::openat`](crate::names::openat), a tool of dio or a
//! mount are then striped before the first byte. Files created by other programs are not. A default
//! records the inode of its directory ([`DirectoryInode`]): a copy in another directory is not
//! followed.
//!
//! # Other programs
//!
//! Other programs get the descriptor, a short text that explains itself. `mv` within a file system,
//! and hard and symbolic links to the descriptor, keep it working. `cp` makes a second name for the
//! *same* bytes. `rm` leaves the objects behind; [`remove`] does not. Writing into the descriptor
//! damages it, which is detected. Through `dio mount` other programs get ordinary files.

mod claim;
mod create;
mod cures;
mod defaults;
mod device;
pub(crate) mod directory;
mod error;
mod format;
#[cfg(feature = "fuzzing")]
pub mod fuzz;
mod head;
mod hold;
mod inspect;
mod local;
mod medium;
pub mod object;
mod open;
mod plan;
mod redirect;
mod remove;
mod session;
mod stamp;
mod stamp_io;
pub(crate) mod trust;

pub use crate::layout::{Layout, OBJECTS_MAX, STRIPE_BYTES_MAX, STRIPE_BYTES_MIN};
pub use create::{create, create_like, create_to_be_renamed, has_acl, path_has_acl};
pub use defaults::{
    DEFAULT_NAME, apply_default, default_may_apply, default_of, has_default, is_created_file,
    is_own_default,
};
pub use format::{DESCRIPTOR_LEN, Descriptor, FormatError, HEADER_LEN, Header, Id, StripeTarget};
pub use head::{DescriptorInode, DirectoryInode};
pub use hold::{ReplaceGuard, leads_to};
pub use inspect::{ObjectReport, ObjectState, StripeReport, inspect, inspect_open};
pub use open::{LeaseWait, descriptor_in, descriptor_of, may_be_striped};
pub use plan::StripePlan;
pub use redirect::{PathRedirect, RequestMark, begin_request, redirect_paths};
pub use remove::{
    RemoveOutcome, check_removable, remove, remove_forced, remove_objects,
    remove_objects_if_unlinked,
};
pub use trust::take_ignored_defaults;

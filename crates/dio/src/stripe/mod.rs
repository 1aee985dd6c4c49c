//! Striped files: one file whose bytes are in several, the *objects*, on any mounted file systems, read and written at the
//! sum of their speeds.
//!
//! # The seam
//!
//! A striped file enters the library in three places, and nowhere else:
//!
//! 1. **Opening** (`names/open.rs`). The name of a striped file is that of its *descriptor*: a small regular file of a
//!    fixed, unusual length, [`DESCRIPTOR_LEN`]. The length comes with the `fstat` that every opening makes anyway, so plain
//!    files pay a comparison; the few that have this length by chance pay one small read. Where it is a descriptor, the
//!    objects are opened as the whole was to be, and their headers are compared with it.
//! 2. **The body of a file** (`file/body.rs`). A [`File`](crate::File) lies on one medium or on `Objects`, which this module
//!    implements. What the file layer needs to know of the difference is asked once, as the *shape* of the body: over how
//!    many objects a request may be split, whether growth has to be ordered, and whether growing writes zeros.
//! 3. **Driving** (`drive/joint.rs`). Whatever moves bytes gives requests to a driver. One to a striped file is split there
//!    into requests to its objects, what follows in one object becoming one vectored request; all of them are submitted
//!    before any is waited for. Their outcomes are put together when the last is over: bytes are good up to the first that
//!    failed or was not there, and the error names the object that holds it. Engines see plain operations on plain files.
//!
//! Alignments are those of the strictest object ([`Geometry`](crate::geometry::Geometry)), so the arithmetic of requests, the
//! treatment of partial blocks and the rule for the block at the end of the file are the same; so are modes, locks (one
//! table for all opens of one file, that of its first object), latched errors and counters. What concerns the page cache is
//! kept by each object, which is a [`File`](crate::File) of its own.
//!
//! # Size
//!
//! No record is kept of the size of the file: it is what all objects reach ([`Layout::size`]). An extending write counts when the last of
//! its parts has arrived; after a crash the file ends where the first byte is missing, and what some objects hold behind is
//! cut off by the first who opens the file for writing while nobody else does (`flock(2)` on the first object says so). On network
//! file systems and those of FUSE such a lock may not be seen on other machines: there only [`repair`] cuts.
//! Truncating cuts the object that holds the first byte to go, durably, and then the others: the size is the old one or the
//! new.
//!
//! An object that is a block device (`device.rs`) has no size of its own. It keeps a record of its length, and is a
//! [`Medium`](crate::engine::Medium) that answers with that where files answer with their size. What engines do not know of it is
//! done where parts begin and end: a read is cut off where the object ended when it began, a write counts when all before it has
//! arrived, a sync is followed by the record. Files that are striped over directories alone pay for none of it.
//!
//! # Identity
//!
//! A file has an identity of 128 random bits. Each object begins with a header that has it, the object's number and the
//! layout, under a checksum ([`Header`]). An object that is missing, of another file, of another place or damaged is an error
//! that names it. The header also says which inode the descriptor is ([`Head`]), so that a copy of one is known for what it is: it can
//! be read by, and removed without the bytes, until it is made the descriptor itself ([`adopt`]). Where the super-user opens a descriptor, the objects must belong to its owner: a descriptor that anyone
//! can write must not lead to what only others may read.
//!
//! An object of another time, restored from a copy, or of another length is known by its stamp (`stamp.rs`): a generation that each
//! session of writing raises in all objects before it changes anything, and the length of the object when the session ended. A
//! writer keeps stamps in step (`session.rs`); who opens a file only compares them, and opens nothing that does not fit together.
//!
//! # Defaults
//!
//! A directory may have a default ([`set_default`]): empty files that are made in it, by name, through
//! [`OpenOptions`](crate::OpenOptions), [`names::openat`](crate::names::openat), a tool of dio or a mount, become striped before the first byte. What other
//! programs make does not.
//!
//! # Other programs
//!
//! They see the descriptor, a short text that says what it is. `mv` within a file system, and hard and symbolic links
//! of the descriptor keep it working. `cp` makes a second way to read the *same* bytes. `rm` leaves the objects behind;
//! [`remove`] does not. Writing into the descriptor damages it, which is noticed. Through `dio mount` they see ordinary files.

mod claim;
mod create;
mod defaults;
mod device;
pub(crate) mod directory;
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
mod reach;
mod remove;
mod session;
mod stamp;
pub(crate) mod trust;

pub use crate::layout::{Layout, OBJECTS_MAX, STRIPE_BYTES_MAX, STRIPE_BYTES_MIN};
pub use create::{Plan, create, create_called, create_like, has_acl};
pub use defaults::{DEFAULT_NAME, default_of, has_default, is_what_was_made, may_apply, stripe_by_default};
pub use format::{DESCRIPTOR_LEN, Descriptor, FormatError, HEADER_LEN, Header, Id, Target};
pub use head::Head;
pub use hold::{Hold, leads_to};
pub use inspect::{ObjectReport, ObjectState, Report, inspect, inspect_open};
pub use open::{descriptor_of, may_be_striped};
pub use reach::{Answering, Way, answer, reach_through};
pub use remove::{Removed, check_removable, remove, remove_nameless, remove_objects, remove_what_is_there};
pub use trust::take_ignored_defaults;

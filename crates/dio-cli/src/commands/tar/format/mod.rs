//! The tar formats: V7, ustar, the old GNU format and PAX, with the extensions that GNU tar, star
//! and libarchive put into them.
//!
//! This module accesses neither files nor options: [`Entries`] reads entries from an [`Archive`],
//! and [`Encoder`] creates the header blocks of an entry. Sources: POSIX.1-2017 `pax` (ustar and
//! PAX interchange formats), the manual of GNU tar (chapter "Tar Internals"), `tar(5)` of
//! libarchive.

mod acl;
mod archive;
mod block;
mod encode;
mod entry;
mod error;
mod header;
mod number;
mod pax;
mod pax_write;
mod reader;
mod sparse;
mod text;

pub use acl::{acl_from_text, acl_of_mode, acl_to_text};
pub use archive::Archive;
pub use block::{Encoder, FormatLimit, padding};
pub use encode::{block_extents, encode, end_of_archive};
pub use entry::{
    ArchiveEntry, BLOCK, BLOCKING, EntryKind, Format, MAX_EXTENSIONS, MAX_EXTENTS, MAX_GLOBALS,
    MAX_RECORDS, Time,
};
pub use error::{FormatError, Notice, NoticeSubject};
pub use reader::Entries;
pub use text::escaped;

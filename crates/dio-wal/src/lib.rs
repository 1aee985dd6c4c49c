//! A write-ahead log for storage engines: direct I/O, every sync method, group commit, and a
//! recovery that tells the end of the log from damage.
//!
//! ```
//! use dio_wal::{Log, Options};
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path();
//! let log = Log::open(path, &Options::new())?;
//! let lsn = log.append(b"a change")?;
//! log.commit(lsn)?; // The record is durable from here on.
//!
//! let mut reader = log.reader(log.start())?;
//! while let Some(record) = reader.next()? {
//!     println!("{} {:?}", record.lsn, record.data);
//! }
//! log.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | to | use |
//! |---|---|
//! | append and commit records, truncate the log | [`Log`], [`Options`] |
//! | commit without waiting | [`Log::commit_later`], [`CommitFuture`] |
//! | read records, also beside the writer or from another process | [`Reader`] |
//! | check a log, and take what is sound out of a damaged one | [`verify()`], [`salvage()`] |
//! | know the bytes on disk | [`mod@format`] |
//! | put something else in the place of a directory | [`storage`] |
//!
//! # Torn writes
//!
//! What a commit made durable must survive a power cut during the next commit. A log that continues
//! in the block where it stopped writes that block again. A disk may tear that write, or leave in a
//! sector neither the old bytes nor the new ones. So the log applies the first of these rules that
//! is possible:
//!
//! 1. The disk writes a block atomically. `statx(2)` must say so (`STATX_WRITE_ATOMIC`), and a
//!    write with `RWF_ATOMIC` is tried when the log is opened. Then the log continues in a block
//!    that is not full, as long as a record fits into it.
//! 2. Every flush begins a new block, and no write ever touches a block that holds acknowledged
//!    records.
//!
//! "Block" is the log's block. Both rules hold only if it is no smaller than the disk's physical
//! block, the unit that the disk writes at once. If the physical block is larger, the disk also
//! rewrites the data beside the log's block. The default, the file system's block, is large enough
//! on all common disks. [`Options::block`] says when 512 bytes are.
//!
//! The second rule costs no write and no time, only space: half a block for each flush on average.
//! A single client that commits records of 100 bytes one by one spends a block on each. With 64
//! clients one flush takes some 8 KiB, and the waste is a few per cent with blocks of 512 bytes and
//! a third with blocks of 4096.
//!
//! File systems that offer atomic writes in software (xfs on any disk) write elsewhere and record
//! where, which is slower than a new block. [`TornWrites::Atomic`] asks for it all the same. Two
//! other methods were rejected, because both cost what a new block does not: writing the old block
//! to a second place first, and writing the tail to two places in turn.
//!
//! # Space
//!
//! A segment exists before any record gets an LSN in it. At first its space is only allocated. The
//! first sync after a write into such space also makes durable that the space is written, as
//! `fdatasync(2)` must, so a commit into it is as durable as any other. But the file system needs a
//! record of its own for this. So where groups are small, zeros are written ahead of them in the
//! background, and the sync of a commit changes no metadata. Large groups are not preceded by
//! zeros. With [`Preallocate::Zeros`], all of a segment is filled when it is made. Segments that
//! truncation gave back are reused as they are, because all of their space is written.
//!
//! # Failures
//!
//! If the segment that a record needs cannot be made, mostly for want of space, that append fails
//! and nothing else does. A block is reserved for truncation, which makes space.
//!
//! The first write or sync that fails ends the life of an opening: every later commit fails with
//! [`WalError::Failed`], which says what is durable. Opening the log again reads what the disk
//! holds, not what the page cache holds.

mod allocator;
mod buffer;
mod commit;
mod cursor;
mod damage;
mod error;
pub mod format;
mod group_commit;
mod identify;
mod inner;
mod listing;
mod live;
mod log;
mod log_end;
mod open;
mod options;
mod primitives;
mod read_ahead;
mod reader;
mod record;
mod recovery;
mod salvage;
mod scan;
mod segment_header;
mod segments;
pub mod storage;
mod sync;
mod tail;
mod verify;
mod writer;

pub use commit::CommitFuture;
pub use damage::{BadHeader, Gap, RecordFault, UnreadableRange};
pub use error::WalError;
pub use format::{HeaderFault, Identity, Layout, Lsn};
pub use log::Log;
pub use options::{Options, Preallocate, TornWrites};
pub use reader::{LogBounds, Reader};
pub use record::{LogEntry, Record};
pub use recovery::Recovery;
pub use salvage::{Salvage, salvage};
pub use storage::Method;
pub use verify::{SegmentStatus, Verification, verify};

/// Compiles the example in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

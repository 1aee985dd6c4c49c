//! A durable log for storage engines: direct I/O, every sync method, group commit, and a recovery that tells the end of the
//! log from damage.
//!
//! ```no_run
//! use dio_wal::{Log, Options};
//! # fn main() -> Result<(), dio_wal::WalError> {
//! let log = Log::open("wal", &Options::new())?;
//! let lsn = log.append(b"a change")?;
//! log.commit(lsn)?; // durable from here on
//! let mut reader = log.reader(log.start())?;
//! while let Some(record) = reader.next()? {
//!     println!("{} {:?}", record.lsn, record.data);
//! }
//! log.close()
//! # }
//! ```
//!
//! | module | what it is |
//! |---|---|
//! | `log` | the log: append, commit, truncate, close |
//! | `group` | the protocol of commits, without I/O |
//! | `tail` | the end of the log in memory: places, checksums, copying |
//! | `writer`, `supply` | buffers on their way to segments; making and recycling segments |
//! | `commit` | commits as futures |
//! | [`reader`](Reader), `recovery`, [`verify`](verify()), [`salvage`](salvage()), `cursor` | reading, by one cursor |
//! | `read_ahead` | the cursor's next windows, read while it looks at one |
//! | [`format`](mod@format) | the bytes on the disk |
//! | [`storage`] | the seam: a directory, or a simulated one |
//!
//! # Torn writes
//!
//! What a commit made durable must survive the power failing during the next one. A log that goes on in the block where it
//! stopped writes that block again, and a disk may tear that write, or leave in a sector neither what it held nor what it was
//! to hold. So, the first that applies:
//!
//! 1. The disk writes a block whole or not at all. `statx(2)` says so (`STATX_WRITE_ATOMIC`) and a write with `RWF_ATOMIC` is
//!    tried when the log is opened. Then a block that is not full is gone on with, as long as a record fits into it.
//! 2. Every flush begins a new block, and no write ever touches a block that holds what was acknowledged.
//!
//! "Block" is the log's, and both hold only if it is no smaller than what the disk writes at once, its physical block: of a larger one
//! the disk would write again what stands beside the log's block. The default, the file system's block, is large enough on all
//! common disks; [`Options::block`] says when 512 is.
//!
//! The second costs no write and no time, only space: half a block for each flush on average. A single client that commits records
//! of 100 bytes one by one spends a block on each; with 64 clients one flush takes some 8 KiB, and the waste is a few per
//! cent with blocks of 512 bytes and a third with 4096. File systems that do the first in software (xfs on any disk) write
//! elsewhere and record where, which is slower than a new block: [`TornWrites::Atomic`] asks for it all the same. Writing the old
//! block to a second place first, or the tail to two places by turns, would cost what a new block does not.
//!
//! # Space
//!
//! A segment exists before a record is given a place in it. It is only allocated at first; a sync makes durable that its
//! space is written, as `fdatasync(2)` must, so a commit into it is as durable as any. It costs the file system a record of
//! its own, though, so where groups are small, zeros are written ahead of them in the background, and the sync of a commit
//! then changes no metadata. Large groups are written once. With [`Preallocate::Zeros`] all of a segment is written when it is
//! made instead. Segments that truncation gave back are used again as they are: written all over.
//!
//! # Failures
//!
//! Where the segment that a record needs cannot be made, for want of room above all, that append fails and nothing else
//! does. A block is kept for truncation, which makes room.
//!
//! The first write or sync that fails ends the life of an opening: every later commit fails with [`WalError::Failed`], which says
//! what is durable. Opening the log again reads what the disk holds, not what the page cache believes.

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

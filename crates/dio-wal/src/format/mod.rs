//! The bytes of a log on disk.
//!
//! A log is a directory of segments: files of one size, named by their number in hexadecimal
//! (`0000000000000007.wal`). The first block of a segment is its header; all blocks behind it are
//! data. The data of all segments, without the headers, form one stream of bytes, which begins at 0
//! in segment 0. An offset in that stream is a *log sequence number* (LSN). Segment and offset in
//! the file follow from an LSN by division ([`Layout::locate`]), and no LSN is used twice. All
//! numbers on disk are little-endian.
//!
//! ```text
//! segment header, at the start of the segment; the rest of its block is zero
//!    0   8  magic "dio-wal\n"
//!    8   4  version, 1
//!   12   4  block size in bytes; every write covers whole blocks
//!   16   8  segment size in bytes, the header's block included
//!   24  16  identity of the log, random
//!   40   8  number of this segment
//!   48   8  LSN of its first byte of data
//!   56   4  zero
//!   60   4  CRC32C of bytes 0 to 60
//!
//! record, at an LSN that is a multiple of 8; it may span blocks and segments
//!    0   4  CRC32C of payload and bytes 4 to 24, continued from the CRC32C of the identity
//!    4   4  the CRC32C field of the record before it; 0 for the first record of a log
//!    8   8  LSN of this record
//!   16   4  length of the payload, 0 to 64 MiB
//!   20   1  kind: 1 data, 2 mark
//!   21   3  zero
//!   24      payload, and zeros up to a multiple of 8; without these zeros it is no record
//!
//! payload of a mark
//!    0  16  identity of the log
//!   16   8  incarnation: a random number, drawn each time the log is opened for writing
//!   24   8  durable: end of the last record that was known to be durable when the mark was written
//!   32   8  start: records below this LSN were given up by truncation
//! ```
//!
//! Neither `durable` nor `start` lies behind the LSN of the mark itself.
//!
//! # LSNs and segments, with numbers
//!
//! With blocks of 4096 bytes and segments of 1 MiB, each segment holds 1,048,576 − 4096 = 1,044,480
//! bytes of data:
//!
//! | LSN | segment | offset in its file |
//! |---|---|---|
//! | 0 | 0 | 4096: the first byte behind the header's block |
//! | 1,044,479 | 0 | 1,048,575: the last byte of the file |
//! | 1,044,480 | 1 | 4096 |
//! | 2,000,000 | 1 | 4096 + (2,000,000 − 1,044,480) = 959,616 |
//!
//! # Groups and torn writes
//!
//! All records that one flush makes durable form a *group*. A group begins with a mark at the start
//! of a block. The rest of the group's last block is zero, and the next group begins in the next
//! block. So the log never writes a block twice with different contents, and a torn write cannot
//! harm what an earlier commit made durable.
//!
//! Two commits of a new log with blocks of 512 bytes, each of one record with 3 bytes of payload:
//!
//! ```text
//! LSN    0  mark, 24 + 40 = 64 bytes       previous CRC 0, durable 0          ┐ first flush
//! LSN   64  "abc", 24 + 3 = 27, padded 32  previous CRC that of the mark      │ writes block 0
//! LSN   96  zeros up to 512                                                   ┘
//! LSN  512  mark                           previous CRC that of "abc",        ┐ second flush
//!                                          durable 96                         │ writes block 1
//! LSN  576  "def"                          previous CRC that of the mark      │
//! LSN  608  zeros up to 1024                                                  ┘
//! ```
//!
//! Where the disk writes single blocks atomically, the second group may continue in block 0 without
//! a mark: "def" then stands at LSN 96, and block 0 is written again with that record in place of
//! zeros. A reader sees no difference.
//!
//! # Reading
//!
//! A reader goes from record to record. The LSN in each header must be the LSN where the header
//! stands, and the second field must be the checksum of the record before. Where no such record
//! follows, the reader looks at the start of the next block for a mark that continues the chain: a
//! group that ended within a block, or that a power cut tore, is followed by the next group. Where
//! it finds no such mark either, the log ends there or is damaged.
//!
//! # What a reader recognises
//!
//! - A block of zeros, a torn write or a lost write: by the checksum, and by the zeros behind the
//!   payload. The checksum alone does not do, because the last block of a record may hold a single
//!   byte of it.
//! - A block of a recycled segment, or a write that went elsewhere on the disk: by the LSN.
//! - A block of another log: by the checksum, which is continued from the identity, and by the
//!   mark.
//! - What an earlier opening wrote behind what turned out to be the end: by the chain, because
//!   marks carry the incarnation.
//!
//! # End or damage
//!
//! A mark says how far the log was durable when the mark was written. If the log cannot be read
//! past some LSN, and a mark of this log anywhere behind it says that more than this was durable,
//! then durable records are gone: the log is damaged. In the example, a log whose block 0 was lost
//! cannot be read past LSN 0, but the mark at LSN 512 says that it was durable up to LSN 96.
//!
//! If there is no such mark, nothing acknowledged is missing there except, at most, the last group
//! itself, behind which nothing was ever written. [`crate::Log::close`] writes a last mark, and so
//! does a log that was idle for a second; behind such a mark even the loss of the last group shows.
//!
//! # What cannot be known
//!
//! Until something durable is written behind it, a group that was acknowledged and then lost looks
//! like a group that never existed: the log ends before both. No log can do better without a second
//! flush for each commit, because whatever proves that the group existed must itself become durable
//! after the group. So two losses are taken for the end of the log:
//!
//! - the last group of a log, if the log was cut off within a second of that group's commit;
//! - any group together with everything behind it, for example when a segment's file was cut short
//!   or restored from an older copy along with all files that follow. The evidence is lost together
//!   with the records.
//!
//! [`crate::Recovery::known_durable`] and [`crate::Recovery::ended`] say how far the log itself
//! vouches for what was found. Bits that change at random in a record change its checksum; for
//! changes that CRC32C does not always detect, the checksum stays the same with a probability of
//! 2^-32.

mod bytes;
mod fault;
mod identity;
mod layout;
mod record;
mod segment;

pub use fault::HeaderFault;
pub use identity::Identity;
pub(crate) use layout::BLOCK_BYTES_MIN;
pub use layout::{Layout, Lsn, segment_name, segment_number};
pub(crate) use record::{MARK_BYTES, segment_of_mark};
pub use record::{
    MARK_PAYLOAD_BYTES, Mark, PAYLOAD_BYTES_MAX, RECORD_ALIGN_BYTES, RECORD_HEADER_BYTES,
    RecordHeader, RecordKind, record_bytes,
};
pub use segment::{SEGMENT_HEADER_BYTES, SegmentHeader};

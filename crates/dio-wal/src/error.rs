//! What can go wrong.

use std::io;
use std::sync::Arc;

use crate::format::{Identity, Layout, Lsn, segment_name};

/// What is wrong with a segment's header.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderFault {
    /// The file is shorter than a header.
    #[error("the file is shorter than a segment header")]
    Short,
    /// It begins with something else.
    #[error("it does not begin as a segment does")]
    Magic,
    /// The checksum differs.
    #[error("the checksum of its header is wrong")]
    Checksum,
    /// Written by another version of the format.
    #[error("its format is version {0}, which this program does not know")]
    Version(u32),
    /// Sizes that no log has.
    #[error("blocks of {block} bytes do not make up segments of {segment} bytes")]
    Sizes {
        /// Block size in bytes.
        block: u32,
        /// Segment size in bytes.
        segment: u64,
    },
    /// Its first LSN does not belong to its number.
    #[error("its first LSN does not belong to its number")]
    Place,
    /// It is another segment than its name says.
    #[error("it is segment {0} by its header")]
    Number(u64),
    /// It belongs to another log.
    #[error("it belongs to the log {0}")]
    Foreign(Identity),
    /// Its file has not the size of a segment.
    #[error("it is {0} bytes long, which is not the size of a segment")]
    Length(u64),
    /// Its sizes are not those of the other segments.
    #[error("its block or segment size differs from that of the other segments")]
    Differs,
}

impl HeaderFault {
    /// Where in the segment's file what is wrong stands, in bytes.
    pub fn offset(&self) -> u64 {
        match self {
            HeaderFault::Short | HeaderFault::Magic => 0,
            HeaderFault::Version(_) => 8,
            HeaderFault::Sizes { .. } | HeaderFault::Differs => 12,
            HeaderFault::Foreign(_) => 24,
            HeaderFault::Number(_) => 40,
            HeaderFault::Place => 48,
            HeaderFault::Checksum => 60,
            HeaderFault::Length(bytes) => *bytes,
        }
    }
}

/// Why an operation on a log failed. Of a log that is damaged [`crate::salvage()`], and `dio wal salvage`, take what is sound.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WalError {
    /// The storage refused.
    #[error("cannot {operation} '{name}'{}: {source}", place(*.offset))]
    Io {
        /// What was tried.
        operation: &'static str,
        /// The file's name in the log's directory.
        name: String,
        /// Where in the file, in bytes.
        offset: Option<u64>,
        /// The answer.
        source: Arc<io::Error>,
    },
    /// A record that was durable cannot be read.
    #[error("the log is damaged in '{segment}' at byte {offset} (LSN {lsn}): {}", lost(*.durable))]
    Damaged {
        /// The name of the segment's file.
        segment: String,
        /// Offset in that file, in bytes: the first place that cannot be read.
        offset: u64,
        /// The same place in the log.
        lsn: Lsn,
        /// The log is known to have been durable up to here.
        durable: Lsn,
    },
    /// A segment between others is not there.
    #[error("segment '{segment}' is missing, and with it the log from its byte {offset} (LSN {lsn}) on ({})", CURE)]
    Missing {
        /// The name of the file.
        segment: String,
        /// Where in it records begin, in bytes.
        offset: u64,
        /// The same place in the log.
        lsn: Lsn,
    },
    /// A segment's header cannot be believed.
    #[error("'{segment}' is not a segment of this log: {fault} (at byte {}; {})", .fault.offset(), CURE)]
    Header {
        /// The name of the file.
        segment: String,
        /// What is wrong, and where: [`HeaderFault::offset`].
        fault: HeaderFault,
    },
    /// A write or sync failed, now or earlier: nothing more can be made durable through this opening of the log.
    #[error("the log failed and is durable up to LSN {durable} only: {cause}")]
    Failed {
        /// Everything below is durable.
        durable: Lsn,
        /// The first failure.
        cause: Arc<WalError>,
    },
    /// Longer than 64 MiB.
    #[error("a record of {0} bytes is longer than 64 MiB")]
    TooLong(usize),
    /// A commit of what was not appended.
    #[error("LSN {lsn} was not appended yet: the log ends at LSN {end}")]
    NotAppended {
        /// What was asked for.
        lsn: Lsn,
        /// End of the log.
        end: Lsn,
    },
    /// Given up by truncation.
    #[error("LSN {lsn} was truncated: the log starts at LSN {start}")]
    Truncated {
        /// What was asked for.
        lsn: Lsn,
        /// Start of the log.
        start: Lsn,
    },
    /// Somebody has it open for writing.
    #[error("the log is in use by another process or another opening")]
    InUse,
    /// Options that cannot be had.
    #[error("{0}")]
    Options(String),
}

/// What to do about damage.
const CURE: &str = "'dio wal salvage' takes what is sound";

impl WalError {
    /// The failure of a log one of whose threads has panicked amidst I/O, and has printed why.
    pub(crate) fn panicked(durable: u64) -> WalError {
        let cause = WalError::io("finish what was begun in", ".", None, io::Error::other("a thread panicked"));
        WalError::Failed { durable: Lsn(durable), cause: Arc::new(cause) }
    }

    pub(crate) fn missing(layout: &Layout, number: u64) -> WalError {
        let first = layout.first(number);
        WalError::Missing { segment: segment_name(number), offset: layout.locate(first).1, lsn: Lsn(first) }
    }

    pub(crate) fn io(operation: &'static str, name: &str, offset: Option<u64>, source: io::Error) -> WalError {
        WalError::Io { operation, name: name.to_owned(), offset, source: Arc::new(source) }
    }
}

fn place(offset: Option<u64>) -> String {
    offset.map_or_else(String::new, |offset| format!(" at byte {offset}"))
}

fn lost(durable: Lsn) -> String {
    format!("records up to LSN {durable} were durable and cannot be read ({CURE})")
}

impl From<WalError> for io::Error {
    fn from(error: WalError) -> io::Error {
        let kind = match &error {
            WalError::Io { source, .. } => source.kind(),
            WalError::Damaged { .. } | WalError::Missing { .. } | WalError::Header { .. } => io::ErrorKind::InvalidData,
            WalError::TooLong(_) | WalError::NotAppended { .. } | WalError::Options(_) => io::ErrorKind::InvalidInput,
            WalError::InUse => io::ErrorKind::ResourceBusy,
            WalError::Failed { .. } | WalError::Truncated { .. } => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}

//! Why an operation on a log failed.

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;

use crate::format::{HeaderFault, Layout, Lsn, segment_name};

/// Why an operation on a log failed.
///
/// [`crate::salvage()`] and the command `dio wal salvage` take the sound records out of a damaged
/// log. The message of an error contains that of its [`source`](Error::source).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum WalError {
    /// The storage refused an operation.
    Io {
        /// The operation.
        operation: &'static str,
        /// The name of the file in the log's directory.
        name: String,
        /// Offset in the file, in bytes.
        offset: Option<u64>,
        /// The storage's error.
        source: Arc<io::Error>,
    },
    /// A record that was durable cannot be read.
    Damaged {
        /// The name of the segment's file.
        segment: String,
        /// Offset in that file, in bytes, of the first record that cannot be read.
        offset: u64,
        /// LSN of that record.
        lsn: Lsn,
        /// LSN up to which the log is known to have been durable.
        durable: Lsn,
    },
    /// A segment is missing although others before or behind it exist.
    Missing {
        /// The name of the segment's file.
        segment: String,
        /// Offset in that file, in bytes, where its records begin.
        offset: u64,
        /// LSN of that offset.
        lsn: Lsn,
    },
    /// The header of a segment is damaged, or is not that of this segment of this log.
    Header {
        /// The name of the segment's file.
        segment: String,
        /// The fault of the header. [`HeaderFault::offset`] returns its offset.
        fault: HeaderFault,
    },
    /// A write or sync failed, now or earlier. This opening of the log can make nothing durable any
    /// more.
    Failed {
        /// Everything below this LSN is durable.
        durable: Lsn,
        /// The first failure.
        cause: Arc<WalError>,
    },
    /// The record, of this many bytes, is longer than 64 MiB.
    TooLong(usize),
    /// The LSN lies behind the last record.
    NotAppended {
        /// The LSN that was asked for.
        lsn: Lsn,
        /// End of the log.
        end: Lsn,
    },
    /// The LSN lies before the first record that truncation has left.
    Truncated {
        /// The LSN that was asked for.
        lsn: Lsn,
        /// Start of the log.
        start: Lsn,
    },
    /// Another process, or another opening in this one, has the log open for writing.
    InUse,
    /// The log cannot have these options.
    Options(String),
}

/// The advice that errors about damage end with.
const ADVICE: &str = "'dio wal salvage' takes what is sound";

impl fmt::Display for WalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WalError::Io { operation, name, offset: Some(offset), source } => {
                write!(f, "cannot {operation} '{name}' at byte {offset}: {source}")
            }
            WalError::Io { operation, name, offset: None, source } => {
                write!(f, "cannot {operation} '{name}': {source}")
            }
            WalError::Damaged { segment, offset, lsn, durable } => {
                write!(f, "the log is damaged in '{segment}' at byte {offset} (LSN {lsn}): ")?;
                write!(f, "records up to LSN {durable} were durable and cannot be read ({ADVICE})")
            }
            WalError::Missing { segment, offset, lsn } => {
                write!(
                    f,
                    "segment '{segment}' is missing, and with it the log from its byte {offset} \
                     (LSN {lsn}) on "
                )?;
                write!(f, "({ADVICE})")
            }
            WalError::Header { segment, fault } => {
                let offset = fault.offset();
                write!(
                    f,
                    "'{segment}' is not a segment of this log: {fault} (at byte {offset}; {ADVICE})"
                )
            }
            WalError::Failed { durable, cause } => {
                write!(f, "the log failed and is durable up to LSN {durable} only: {cause}")
            }
            WalError::TooLong(bytes) => {
                write!(f, "a record of {bytes} bytes is longer than 64 MiB")
            }
            WalError::NotAppended { lsn, end } => {
                write!(f, "LSN {lsn} was not appended yet: the log ends at LSN {end}")
            }
            WalError::Truncated { lsn, start } => {
                write!(f, "LSN {lsn} was truncated: the log starts at LSN {start}")
            }
            WalError::InUse => write!(f, "the log is in use by another process or another opening"),
            WalError::Options(text) => write!(f, "{text}"),
        }
    }
}

// Not derived: a derived `source` would return the `Arc`, which cannot be downcast to the error in
// it.
impl Error for WalError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            WalError::Io { source, .. } => Some(&**source),
            WalError::Header { fault, .. } => Some(fault),
            WalError::Failed { cause, .. } => Some(&**cause),
            WalError::Damaged { .. }
            | WalError::Missing { .. }
            | WalError::TooLong(_)
            | WalError::NotAppended { .. }
            | WalError::Truncated { .. }
            | WalError::InUse
            | WalError::Options(_) => None,
        }
    }
}

impl WalError {
    /// The failure of a log after one of its threads panicked in the middle of I/O. The panic has
    /// printed its own message.
    pub(crate) fn panicked(durable: u64) -> WalError {
        let cause = WalError::io(
            "finish what was begun in",
            ".",
            None,
            io::Error::other("a thread panicked"),
        );
        WalError::Failed { durable: Lsn(durable), cause: Arc::new(cause) }
    }

    pub(crate) fn missing(layout: &Layout, number: u64) -> WalError {
        let first = layout.segment_start(number);
        WalError::Missing {
            segment: segment_name(number),
            offset: layout.locate(first).1,
            lsn: Lsn(first),
        }
    }

    /// The error of a log that was durable up to `durable` and cannot be read past `lsn`.
    pub(crate) fn damaged(layout: &Layout, lsn: u64, durable: u64) -> WalError {
        let (number, offset) = layout.locate(lsn);
        WalError::Damaged {
            segment: segment_name(number),
            offset,
            lsn: Lsn(lsn),
            durable: Lsn(durable),
        }
    }

    /// The error of a directory without segments, hence without a log.
    pub(crate) fn no_segments() -> WalError {
        WalError::io("find segments in", ".", None, io::ErrorKind::NotFound.into())
    }

    pub(crate) fn io(
        operation: &'static str,
        name: &str,
        offset: Option<u64>,
        source: io::Error,
    ) -> WalError {
        WalError::Io { operation, name: name.to_owned(), offset, source: Arc::new(source) }
    }
}

impl From<WalError> for io::Error {
    fn from(error: WalError) -> io::Error {
        let kind = match &error {
            WalError::Io { source, .. } => source.kind(),
            WalError::Damaged { .. } | WalError::Missing { .. } | WalError::Header { .. } => {
                io::ErrorKind::InvalidData
            }
            WalError::TooLong(_) | WalError::NotAppended { .. } | WalError::Options(_) => {
                io::ErrorKind::InvalidInput
            }
            WalError::InUse => io::ErrorKind::ResourceBusy,
            WalError::Failed { .. } | WalError::Truncated { .. } => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Programs print the messages, so they are fixed.
    #[test]
    fn messages_name_place_and_advice() {
        let io = |offset| WalError::io("read", "x.wal", offset, io::Error::other("no"));
        assert_eq!(io(None).to_string(), "cannot read 'x.wal': no");
        assert_eq!(io(Some(7)).to_string(), "cannot read 'x.wal' at byte 7: no");
        let layout = Layout::new(512, 4096).unwrap();
        assert_eq!(
            WalError::damaged(&layout, 3584, 4000).to_string(),
            "the log is damaged in '0000000000000001.wal' at byte 512 (LSN 3584): records up to \
             LSN 4000 were durable and cannot be read ('dio wal salvage' takes what is sound)"
        );
        assert_eq!(
            WalError::missing(&layout, 1).to_string(),
            "segment '0000000000000001.wal' is missing, and with it the log from its byte 512 (LSN \
             3584) on ('dio wal salvage' takes what is sound)"
        );
        assert_eq!(
            WalError::Header { segment: "x.wal".to_owned(), fault: HeaderFault::Number(2) }
                .to_string(),
            "'x.wal' is not a segment of this log: it is segment 2 by its header (at byte 40; 'dio \
             wal salvage' takes what is sound)"
        );
        assert_eq!(
            WalError::Failed { durable: Lsn(3), cause: Arc::new(io(None)) }.to_string(),
            "the log failed and is durable up to LSN 3 only: cannot read 'x.wal': no"
        );
        assert_eq!(WalError::TooLong(9).to_string(), "a record of 9 bytes is longer than 64 MiB");
        assert_eq!(
            WalError::NotAppended { lsn: Lsn(9), end: Lsn(8) }.to_string(),
            "LSN 9 was not appended yet: the log ends at LSN 8"
        );
        assert_eq!(
            WalError::Truncated { lsn: Lsn(1), start: Lsn(2) }.to_string(),
            "LSN 1 was truncated: the log starts at LSN 2"
        );
        assert_eq!(
            WalError::InUse.to_string(),
            "the log is in use by another process or another opening"
        );
        assert_eq!(WalError::Options("text".to_owned()).to_string(), "text");
    }

    #[test]
    fn sources_can_be_downcast() {
        let io = WalError::io("read", "x.wal", None, io::Error::from_raw_os_error(5));
        let failed = WalError::Failed { durable: Lsn(0), cause: Arc::new(io) };
        let cause = failed.source().and_then(|source| source.downcast_ref::<WalError>()).unwrap();
        let source = cause.source().and_then(|source| source.downcast_ref::<io::Error>()).unwrap();
        assert_eq!(source.raw_os_error(), Some(5));
        let header = WalError::Header { segment: "x.wal".to_owned(), fault: HeaderFault::Magic };
        assert!(header.source().is_some_and(|source| source.is::<HeaderFault>()));
        assert!(WalError::InUse.source().is_none());
    }
}

//! Records as readers return them.

use crate::format::{Lsn, Mark};

/// A record that was appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// LSN of the record.
    pub lsn: Lsn,
    /// The bytes that were appended.
    pub data: &'a [u8],
}

/// A record or a mark, with what the log stores about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogEntry<'a> {
    /// LSN of the entry.
    pub lsn: Lsn,
    /// LSN where the entry ends.
    pub end: Lsn,
    /// The entry's checksum, which was verified.
    pub crc: u32,
    /// The contents of a mark; `None` for a record that was appended.
    pub mark: Option<Mark>,
    /// The payload.
    pub payload: &'a [u8],
}

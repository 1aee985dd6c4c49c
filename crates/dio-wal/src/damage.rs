//! Descriptions of what is wrong with a log.

use std::fmt;

use crate::format::{HeaderFault, Layout, Lsn, segment_name};

/// Why no record can be read at an LSN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordFault {
    /// The segment is missing or ends before the LSN.
    Absent,
    /// Zeros stand there: nothing was ever written, or a write was lost.
    Zeros,
    /// The bytes there are not the header of a record.
    NoRecord,
    /// A record with this other LSN stands there. Either a write went to the wrong place on the
    /// disk, or the segment was recycled and this is what it held before.
    OtherLsn(Lsn),
    /// The segments end before the record does.
    Cut {
        /// Bytes of payload, according to the record's header.
        length: u32,
    },
    /// The record's checksum is wrong: the record was torn or changed.
    Checksum {
        /// The checksum in the record's header.
        stored: u32,
        /// The checksum of the record's bytes.
        computed: u32,
    },
    /// The bytes between the payload and the next multiple of 8 are not zero. The block in which
    /// the record ends was lost, and what stands there happens to begin with the same bytes.
    Padding,
    /// A record follows that was appended while the log was read.
    AppendedMeanwhile,
    /// The record is valid but does not follow the record before it.
    Chain {
        /// Checksum of the record before, according to the record's header.
        stored: u32,
        /// Checksum of the record before.
        expected: u32,
    },
}

impl fmt::Display for RecordFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordFault::Absent => write!(f, "the segment is missing or too short"),
            RecordFault::Zeros => write!(f, "zeros"),
            RecordFault::NoRecord => write!(f, "not a record"),
            RecordFault::OtherLsn(lsn) => write!(f, "a record of LSN {lsn}"),
            RecordFault::Cut { length } => {
                write!(f, "a record of {length} bytes, of which the end is missing")
            }
            RecordFault::Checksum { stored, computed } => {
                write!(f, "a record whose checksum is {computed:08x} and should be {stored:08x}")
            }
            RecordFault::Padding => {
                write!(f, "a record that is followed by the bytes of another block")
            }
            RecordFault::AppendedMeanwhile => write!(f, "a record that was appended meanwhile"),
            RecordFault::Chain { stored, expected } => {
                write!(
                    f,
                    "a record that follows one of checksum {stored:08x}, and the one before has \
                     {expected:08x}"
                )
            }
        }
    }
}

/// A part of the log that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// LSN where the gap begins.
    pub from: Lsn,
    /// LSN where the next readable record begins.
    pub to: Lsn,
    /// The name of the segment in which the gap begins.
    pub segment: String,
    /// Offset in that segment's file, in bytes, where the gap begins.
    pub offset: u64,
}

impl Gap {
    pub(crate) fn new(layout: &Layout, from: u64, to: u64) -> Gap {
        let (number, offset) = layout.locate(from);
        Gap { from: Lsn(from), to: Lsn(to), segment: segment_name(number), offset }
    }
}

/// A part of a segment's file that the disk could not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableRange {
    /// The name of the segment.
    pub segment: String,
    /// Offset in its file, in bytes.
    pub offset: u64,
    /// Length in bytes, whole blocks of the log.
    pub length: u64,
}

/// A segment whose header was wrong and was ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadHeader {
    /// The name of the segment.
    pub segment: String,
    /// The first LSN of the segment that has this name.
    pub first: Lsn,
    /// The fault of the header.
    pub fault: HeaderFault,
}

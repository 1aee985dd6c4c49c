//! Reading the header of a segment.

use std::io;

use dio::FileError;
use rustix::io::Errno;

use crate::error::WalError;
use crate::format::{SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::storage::SegmentFile;

/// Reads the header of the segment whose file is called `name`.
///
/// # Errors
/// Errors of the storage; [`WalError::Header`].
pub(crate) fn read_header(file: &dyn SegmentFile, name: &str) -> Result<SegmentHeader, WalError> {
    let mut bytes = [0; SEGMENT_HEADER_BYTES];
    let count =
        file.read_at(&mut bytes, 0).map_err(|error| WalError::io("read", name, Some(0), error))?;
    let header = SegmentHeader::decode(&bytes[..count]);
    header.map_err(|fault| WalError::Header { segment: name.to_owned(), fault })
}

/// Whether an error says that the bytes are lost and that nothing but these bytes is affected.
/// These are the numbers that the kernel returns for faults of the medium, its protection
/// information and its checksums (kernel, `blk_errors`).
pub(crate) fn is_medium_error(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error)
        .or_else(|| Some(error.get_ref()?.downcast_ref::<FileError>()?.errno()));
    matches!(
        errno,
        Some(Errno::IO | Errno::NODATA | Errno::ILSEQ | Errno::REMOTEIO | Errno::BADMSG)
    )
}

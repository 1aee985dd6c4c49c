//! Errors of striped files and of their objects, with the cures that are known.

use std::path::Path;

use rustix::io::Errno;

use super::cures::CURE_DAMAGED;
use super::format::FormatError;
use super::stamp::ObjectFault;
use super::trust::cure_of;
use crate::file::FileError;
use crate::quote::quoted;

const LEASED: &str = "its owner holds a lease on it";

const CURE_LONGER: &str =
    "'truncate -s 8171' takes that off; the bytes of the file are in its objects";
/// The error of opening a file, with the reason in words if a lease was waited for in vain.
pub(crate) fn open_error(operation: &'static str, name: &Path, errno: Errno) -> FileError {
    let failed = FileError::new(operation, name, errno);
    if errno == Errno::AGAIN { failed.with_detail(LEASED) } else { failed }
}

/// Turns an error of the format of a descriptor or a header into an error of a file.
pub fn format_error(operation: &'static str, path: &Path, error: &FormatError) -> FileError {
    let errno = match error {
        FormatError::Version(_) => Errno::PROTONOSUPPORT,
        FormatError::Foreign => Errno::STALE,
        FormatError::TooLong => Errno::NAMETOOLONG,
        FormatError::Damaged | FormatError::Longer | FormatError::Senseless(_) => Errno::BADMSG,
    };
    let failed = FileError::new(operation, path, errno).with_detail(error.to_string());
    if matches!(error, FormatError::Longer) { failed.with_cure(CURE_LONGER) } else { failed }
}

/// The error of an operation on a striped file `name` that concerns one of its objects.
pub fn object_error(
    operation: &'static str,
    name: &Path,
    index: usize,
    path: &Path,
    errno: Errno,
    what: &str,
) -> FileError {
    let comma = if what.is_empty() { "" } else { " " };
    let failed = FileError::new(operation, name, errno);
    let failed = failed.with_detail(format!("object {index}, {}{comma}{what}", quoted(path)));
    if let Some(cure) = cure_of(what) { failed.with_cure(cure) } else { failed }
}

/// The error of opening a file with a faulty object.
pub fn damaged_object_error(name: &Path, fault: &ObjectFault, path: &Path) -> FileError {
    object_error("open", name, fault.index, path, fault.errno, &fault.what).with_cure(CURE_DAMAGED)
}

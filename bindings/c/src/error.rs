//! Errors as C gets them.

use std::ffi::{CString, c_char};
use std::io;

use ::dio_wal::WalError;
use dio::file::FileError;
use dio::queue::RefusedRange;
use dio::transfer::TransferError;
use rustix::io::Errno;

use crate::quiet::quiet;

/// A failure, before it becomes an object of C's.
#[derive(Debug)]
pub(crate) struct Failure {
    errno: Errno,
    text: String,
    cure: Option<String>,
    offset: Option<u64>,
}

impl Failure {
    pub(crate) fn new(errno: Errno, text: impl Into<String>) -> Failure {
        Failure { errno, text: text.into(), cure: None, offset: None }
    }

    pub(crate) fn with_cure(mut self, cure: impl Into<String>) -> Failure {
        self.cure = Some(cure.into());
        self
    }

    /// The error of an operation that the system refused.
    pub(crate) fn system(what: &str, errno: Errno) -> Failure {
        Failure::new(errno, format!("{what}: {}", dio::file::words(errno)))
    }

    /// As [`Failure::system`].
    pub(crate) fn io(what: &str, error: &io::Error) -> Failure {
        let errno = errno_of(error);
        Failure::new(errno, format!("{what}: {}", dio::file::words_of(error)))
    }

    pub(crate) fn errno(&self) -> Errno {
        self.errno
    }
}

/// The error number of the system behind an error. If there is none, the kind of error decides.
fn errno_of(error: &io::Error) -> Errno {
    if let Some(errno) = Errno::from_io_error(error) {
        return errno;
    }
    if let Some(inner) = error.get_ref().and_then(|inner| inner.downcast_ref::<FileError>()) {
        return inner.errno();
    }
    match error.kind() {
        io::ErrorKind::NotFound => Errno::NOENT,
        io::ErrorKind::OutOfMemory => Errno::NOMEM,
        io::ErrorKind::PermissionDenied => Errno::ACCESS,
        io::ErrorKind::AlreadyExists => Errno::EXIST,
        io::ErrorKind::InvalidInput => Errno::INVAL,
        io::ErrorKind::StorageFull => Errno::NOSPC,
        io::ErrorKind::Unsupported => Errno::OPNOTSUPP,
        _ => Errno::IO,
    }
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Failure {
        Failure {
            errno: error.errno(),
            text: error.to_string(),
            cure: error.cure().map(str::to_owned),
            offset: error.offset(),
        }
    }
}

impl From<Box<RefusedRange>> for Failure {
    fn from(refused: Box<RefusedRange>) -> Failure {
        refused.error.into()
    }
}

impl From<TransferError> for Failure {
    fn from(error: TransferError) -> Failure {
        match error {
            TransferError::Source(error) | TransferError::Target(error) => error.into(),
            TransferError::Stopped => Failure::new(Errno::CANCELED, "stopped"),
            TransferError::Shrunk { .. } | TransferError::Grew { .. } => {
                Failure::new(Errno::BUSY, error.to_string())
                    .with_cure("copy it when nothing writes to it")
            }
            TransferError::Engine(ref source) => Failure::new(errno_of(source), error.to_string()),
            other => Failure::new(Errno::IO, other.to_string()),
        }
    }
}

impl From<WalError> for Failure {
    fn from(error: WalError) -> Failure {
        let (errno, cure) = wal_errno(&error);
        let mut failure = Failure::new(errno, dio::file::words_of(&error));
        failure.cure = cure.map(str::to_owned);
        failure.offset = match &error {
            WalError::Io { offset, .. } => *offset,
            WalError::Damaged { offset, .. } | WalError::Missing { offset, .. } => Some(*offset),
            _ => None,
        };
        failure
    }
}

/// The error number that stands for an error of the log, and what to do about it.
fn wal_errno(error: &WalError) -> (Errno, Option<&'static str>) {
    const SALVAGE: &str = "dio_wal_salvage() takes what is sound";
    match error {
        WalError::Io { source, .. } => (errno_of(source), None),
        WalError::Damaged { .. } | WalError::Missing { .. } | WalError::Header { .. } => {
            (Errno::BADMSG, Some(SALVAGE))
        }
        WalError::Failed { cause, .. } => (wal_errno(cause).0, Some("open the log again")),
        WalError::TooLong(_) => (Errno::MSGSIZE, None),
        WalError::NotAppended { .. } | WalError::Truncated { .. } => (Errno::RANGE, None),
        WalError::InUse => (Errno::BUSY, None),
        WalError::Options(_) => (Errno::INVAL, None),
        _ => (Errno::IO, None),
    }
}

/// An error: a number, a text and, where it is known, what to do about it.
///
/// It never changes, so any thread may look at it at any time. It belongs to whoever got it, and is
/// freed by dio_error_free().
pub struct dio_error {
    errno: i32,
    text: CString,
    cure: Option<CString>,
    offset: Option<u64>,
}

impl dio_error {
    pub(crate) fn new(failure: Failure) -> dio_error {
        // A name in a text may hold any byte but zero, so this loses nothing.
        let string =
            |text: String| CString::new(text.replace('\0', "\u{fffd}")).unwrap_or_default();
        let mut text = failure.text;
        if let Some(cure) = failure.cure.as_deref().filter(|cure| !text.contains(cure)) {
            text = format!("{text} ({cure})");
        }
        dio_error {
            errno: failure.errno.raw_os_error(),
            text: string(text),
            cure: failure.cure.map(string),
            offset: failure.offset,
        }
    }
}

/// The number of the error, one of those of <errno.h>; 0 for NULL.
///
/// Beyond those of system calls: EBADMSG if a log is damaged, ECANCELED if a callback stopped a
/// copy, ENOTRECOVERABLE if libdio itself has a defect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dio_error_errno(error: *const dio_error) -> i32 {
    // SAFETY: the error is null or lives, by the header's rules.
    quiet(0, || unsafe { error.as_ref() }.map_or(0, |error| error.errno))
}

/// The error in words: operation, file, offset, cause and cure, in one line of UTF-8 without a
/// newline. It lives as long as the error. "" for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dio_error_text(error: *const dio_error) -> *const c_char {
    // SAFETY: the error is null or lives, by the header's rules.
    quiet(c"".as_ptr(), || unsafe { error.as_ref() }.map_or(c"".as_ptr(), |e| e.text.as_ptr()))
}

/// The cure of the error, which is also part of its text. NULL if none is known. It lives as long
/// as the error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dio_error_cure(error: *const dio_error) -> *const c_char {
    let null = std::ptr::null();
    quiet(null, || {
        // SAFETY: the error is null or lives, by the header's rules.
        unsafe { error.as_ref() }.and_then(|e| e.cure.as_ref()).map_or(null, |cure| cure.as_ptr())
    })
}

/// Offset in the file where the operation failed, in bytes; -1 if it has none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dio_error_offset(error: *const dio_error) -> i64 {
    quiet(-1, || {
        // SAFETY: the error is null or lives, by the header's rules.
        let offset = unsafe { error.as_ref() }.and_then(|error| error.offset);
        offset.and_then(|offset| i64::try_from(offset).ok()).unwrap_or(-1)
    })
}

/// Frees an error. NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dio_error_free(error: *mut dio_error) {
    if !error.is_null() {
        // SAFETY: the error was made by `border::store` and is not used again.
        quiet((), || drop(unsafe { Box::from_raw(error) }));
    }
}

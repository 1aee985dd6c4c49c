//! Errors as Python sees them: `OSError` with errno, file name, and the offset and the cure in the
//! text and as attributes.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use dio::FileError;
use dio::transfer::TransferError;
use pyo3::exceptions::{PyInterruptedError, PyOSError};
use pyo3::prelude::*;
use rustix::io::Errno;

/// Why a call failed. It becomes a [`PyErr`] when the thread is attached to the interpreter again.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A file operation failed.
    File(FileError),
    /// One of several ranges failed.
    Range { index: usize, error: FileError },
    /// The system refused something.
    System { errno: Errno, text: String, path: PathBuf },
    /// A signal handler raised an exception, or it is an error of another kind.
    Python(PyErr),
}

impl Failure {
    /// An error of the system that concerns a path.
    pub(crate) fn system(operation: &str, path: &Path, error: &io::Error) -> Failure {
        if let Some(inner) = file_error(error) {
            return Failure::File(inner.clone());
        }
        let errno = errno_of(error);
        let (quoted, words) = (dio::quote::quoted(path), dio::file::words_of(error));
        Failure::System {
            errno,
            text: format!("cannot {operation} {quoted}: {words}"),
            path: path.to_owned(),
        }
    }

    /// An error of a stream over `path`.
    pub(crate) fn stream(operation: &str, path: &Path) -> impl Fn(io::Error) -> Failure {
        move |error| Failure::system(operation, path, &error)
    }

    /// An error of a copy.
    pub(crate) fn transfer(path: &Path, error: TransferError) -> Failure {
        match error {
            TransferError::Source(error) | TransferError::Target(error) => Failure::File(error),
            TransferError::Engine(error) => Failure::system("copy", path, &error),
            TransferError::Stopped => Failure::Python(PyInterruptedError::new_err("stopped")),
            other => Failure::System {
                errno: Errno::IO,
                text: format!("cannot copy: {other} (copy it when nothing writes to it)"),
                path: path.to_owned(),
            },
        }
    }
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Failure {
        Failure::File(error)
    }
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Failure {
        Failure::Python(error)
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> PyErr {
        match failure {
            Failure::Python(error) => error,
            Failure::File(error) => of_file(None, &error),
            Failure::Range { index, error } => of_file(Some(index), &error),
            Failure::System { errno, text, path } => {
                PyOSError::new_err((errno.raw_os_error(), text, OsString::from(path)))
            }
        }
    }
}

/// The exception for an error of a file, or of one of several ranges.
fn of_file(index: Option<usize>, error: &FileError) -> PyErr {
    let text = match index {
        Some(index) => format!("range {index}: {error}"),
        None => error.to_string(),
    };
    let path: OsString = error.path().into();
    let raised = PyOSError::new_err((error.errno().raw_os_error(), text, path));
    Python::attach(|py| {
        let value = raised.value(py);
        // The attributes repeat what the text says. Without memory for them, the text remains.
        let _ = value.setattr("offset", error.offset());
        let _ = value.setattr("cure", error.cure());
        let _ = value.setattr("index", index);
    });
    raised
}

/// The error of a file that an error of the standard library was made of.
fn file_error(error: &io::Error) -> Option<&FileError> {
    error.get_ref().and_then(|inner| inner.downcast_ref())
}

fn errno_of(error: &io::Error) -> Errno {
    if let Some(errno) = Errno::from_io_error(error) {
        return errno;
    }
    match error.kind() {
        io::ErrorKind::PermissionDenied => Errno::PERM,
        io::ErrorKind::OutOfMemory => Errno::NOMEM,
        io::ErrorKind::InvalidInput => Errno::INVAL,
        io::ErrorKind::NotFound => Errno::NOENT,
        _ => Errno::IO,
    }
}

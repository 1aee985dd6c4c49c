//! Errors as Python sees them: `OSError` with errno, file name, and the offset and the cure in the
//! text and as attributes.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use dio::FileError;
use dio::transfer::TransferError;
use pyo3::IntoPyObjectExt;
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
            Failure::System { errno, text, path } => os_error(errno, text, path.into(), &[]),
        }
    }
}

/// The exception for an error of a file, or of one of several ranges.
fn of_file(index: Option<usize>, error: &FileError) -> PyErr {
    let text = match index {
        Some(index) => format!("range {index}: {error}"),
        None => error.to_string(),
    };
    Python::try_attach(|py| {
        let attributes = [
            ("offset", error.offset().into_py_any(py).ok()),
            ("cure", error.cure().into_py_any(py).ok()),
            ("index", index.into_py_any(py).ok()),
        ];
        os_error(error.errno(), text.clone(), error.path().into(), &attributes)
    })
    // At the end of the program the attributes, which repeat what the text says, are missing.
    .unwrap_or_else(|| os_error(error.errno(), text, error.path().into(), &[]))
}

/// An `OSError` with attributes. Without memory for these, the text remains.
pub(crate) fn os_error(
    errno: Errno,
    text: String,
    path: OsString,
    attributes: &[(&str, Option<Py<PyAny>>)],
) -> PyErr {
    let parts = (errno.raw_os_error(), text, path);
    if attributes.is_empty() {
        return PyOSError::new_err(parts);
    }
    // Asking a `PyErr` for its value attaches the thread anew, which panics at the end of the
    // program. So the value is made first.
    Python::try_attach(|py| {
        let value = match py.get_type::<PyOSError>().call1(parts) {
            Ok(value) => value,
            Err(error) => return error,
        };
        for (name, attribute) in attributes {
            let _ = value.setattr(*name, attribute);
        }
        PyErr::from_value(value)
    })
    .unwrap_or_else(|| PyOSError::new_err("the program is ending"))
}

/// The error of a file that an error of the standard library was made of.
fn file_error(error: &io::Error) -> Option<&FileError> {
    error.get_ref().and_then(|inner| inner.downcast_ref())
}

/// The number of an error, also where it is wrapped in others.
pub(crate) fn errno_of(error: &io::Error) -> Errno {
    if let Some(errno) = Errno::from_io_error(error) {
        return errno;
    }
    if let Some(inner) = file_error(error) {
        return inner.errno();
    }
    if let Some(inner) = error.get_ref().and_then(|inner| inner.downcast_ref::<io::Error>()) {
        return errno_of(inner);
    }
    match error.kind() {
        io::ErrorKind::PermissionDenied => Errno::PERM,
        io::ErrorKind::OutOfMemory => Errno::NOMEM,
        io::ErrorKind::InvalidInput => Errno::INVAL,
        io::ErrorKind::NotFound => Errno::NOENT,
        io::ErrorKind::StorageFull => Errno::NOSPC,
        io::ErrorKind::QuotaExceeded => Errno::DQUOT,
        io::ErrorKind::FileTooLarge => Errno::FBIG,
        io::ErrorKind::ReadOnlyFilesystem => Errno::ROFS,
        _ => Errno::IO,
    }
}

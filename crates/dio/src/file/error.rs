//! Errors of file operations.

use crate::quote::quoted;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// What failed: operation, path, offset, cause and, where it is known, the cure.
#[derive(Clone, Debug)]
pub struct FileError {
    operation: &'static str,
    path: PathBuf,
    offset: Option<u64>,
    errno: Errno,
    cure: Option<&'static str>,
    /// The object of a striped file that the error concerns, or what is wrong with the object.
    detail: Option<Box<str>>,
}

impl FileError {
    /// An error of an operation, as in "cannot *read* 'path'".
    pub fn new(operation: &'static str, path: &Path, errno: Errno) -> FileError {
        FileError {
            operation,
            path: path.to_owned(),
            offset: None,
            errno,
            cure: cure(errno),
            detail: None,
        }
    }

    /// Adds the offset in the file, in bytes.
    #[must_use]
    pub fn at(mut self, offset: u64) -> FileError {
        self.offset = Some(offset);
        self
    }

    /// Sets the cure.
    #[must_use]
    pub fn with_cure(mut self, cure: &'static str) -> FileError {
        self.cure = Some(cure);
        self
    }

    /// Adds a detail.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> FileError {
        self.detail = Some(detail.into().into());
        self
    }

    /// Sets the name of a file that had none so far.
    pub(crate) fn called(mut self, name: impl FnOnce() -> PathBuf) -> FileError {
        if self.path.as_os_str().is_empty() {
            self.path = name();
        }
        self
    }

    /// Adds the name of the object of a striped file.
    pub(crate) fn of(self, object: Option<&Path>) -> FileError {
        match object {
            Some(path) => self.with_detail(format!("in {}", quoted(path))),
            None => self,
        }
    }

    /// Adds the name of the object that had `error`.
    pub(crate) fn by(self, error: &FileError) -> FileError {
        let path = Some(error.path.as_path()).filter(|path| *path != self.path);
        self.of(path)
    }

    /// What was being done, as in "cannot *read*".
    pub fn operation(&self) -> &'static str {
        self.operation
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Offset in the file, in bytes, if the operation has one.
    pub fn offset(&self) -> Option<u64> {
        self.offset
    }

    /// The system's error number.
    pub fn errno(&self) -> Errno {
        self.errno
    }

    /// What to do about it, if that is known.
    pub fn cure(&self) -> Option<&'static str> {
        self.cure
    }

    /// A detail: which object of a striped file the error concerns, and what is wrong with it.
    pub fn detail(&self) -> Option<&str> {
        self.detail.as_deref()
    }

    /// The same error as one of the standard library.
    pub fn to_io_error(&self) -> io::Error {
        io::Error::new(io::Error::from(self.errno).kind(), self.clone())
    }
}

impl std::fmt::Display for FileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cannot {} {}", self.operation, quoted(&self.path))?;
        if let Some(offset) = self.offset {
            write!(f, " at byte {offset}")?;
        }
        write!(f, ": {}", words(self.errno))?;
        if let Some(detail) = &self.detail {
            write!(f, ": {detail}")?;
        }
        match self.cure {
            Some(cure) => write!(f, " ({cure})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for FileError {
    /// The system's error number.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.errno)
    }
}

impl From<FileError> for io::Error {
    fn from(error: FileError) -> io::Error {
        error.to_io_error()
    }
}

/// The number of an error of the system; EIO for any other error.
pub(crate) fn errno_of(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// The error number as text, as `strerror(3)` puts it.
pub fn words(errno: Errno) -> String {
    words_of(&io::Error::from(errno))
}

/// An error as text, without the number that the standard library appends.
pub fn words_of(error: &impl std::fmt::Display) -> String {
    let mut text = error.to_string();
    if let Some(end) = text.rfind(" (os error ") {
        text.truncate(end);
    }
    text
}

fn cure(errno: Errno) -> Option<&'static str> {
    match errno {
        Errno::NOSPC => Some("free space on the file system and run it again"),
        Errno::DQUOT => Some("free space within your quota and run it again"),
        Errno::MFILE => Some("raise the limit of open files, ulimit -n"),
        Errno::ROFS => Some("the file system is mounted read-only"),
        _ => None,
    }
}

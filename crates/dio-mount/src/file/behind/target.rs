//! The file that pending bytes are written to.

use std::sync::Arc;

use dio::{File, Mode};
use rustix::fs::OFlags;
use rustix::io::{Errno, Result};

use super::super::descriptors::{Descriptors, file_of};

/// The destination of sequential writes and appends. Its file is opened only when there are more
/// bytes than a small file has.
#[derive(Clone, Debug)]
pub(in crate::file) struct LazyTarget {
    pub(in crate::file) mode: Mode,
    pub(in crate::file) descriptors: Arc<Descriptors>,
}

impl LazyTarget {
    /// Returns the file to write through now, and opens it if necessary.
    ///
    /// # Errors
    /// Those of `open(2)`.
    pub(in crate::file) fn file(&self) -> Result<Arc<File>> {
        file_of(&self.descriptors, self.mode, OFlags::empty())
    }

    pub(super) fn is(&self, other: &LazyTarget) -> bool {
        self.mode == other.mode && Arc::ptr_eq(&self.descriptors, &other.descriptors)
    }
}

/// A file that bytes are written to or read from, open.
#[derive(Clone, Debug)]
pub(in crate::file) struct OpenTarget {
    pub(in crate::file) file: Arc<File>,
    pub(in crate::file) descriptors: Arc<Descriptors>,
}

impl OpenTarget {
    /// Returns the file to write through now. A file that has failed fails for good, and
    /// acknowledged writes of other handles would fail with it; so a new one is used then.
    pub(in crate::file) fn current(&self) -> Arc<File> {
        file_of(&self.descriptors, self.file.mode(), OFlags::empty())
            .unwrap_or_else(|_| Arc::clone(&self.file))
    }
}

/// Returns the error to report for an acknowledged write. Such a write may no longer be rejected
/// for its arguments, so EINVAL becomes EIO.
pub(super) fn as_deferred_error(errno: Errno) -> Errno {
    if errno == Errno::INVAL { Errno::IO } else { errno }
}

//! The file that pending bytes are written to.

use std::sync::Arc;

use dio::{File, Mode};
use rustix::fs::OFlags;
use rustix::io::{Errno, Result};

use super::super::descriptors::{Descriptors, file_of};

/// Where bytes go that are written in order: the file is opened when there is more than a small one
/// has.
#[derive(Clone, Debug)]
pub(in crate::file) struct Aim {
    pub(in crate::file) mode: Mode,
    pub(in crate::file) descriptors: Arc<Descriptors>,
}

impl Aim {
    /// The file through which to write now.
    ///
    /// # Errors
    /// Those of `open(2)`.
    pub(in crate::file) fn file(&self) -> Result<Arc<File>> {
        file_of(&self.descriptors, self.mode, OFlags::empty())
    }

    pub(super) fn is(&self, other: &Aim) -> bool {
        self.mode == other.mode && Arc::ptr_eq(&self.descriptors, &other.descriptors)
    }
}

/// Where pending bytes go.
#[derive(Clone, Debug)]
pub(in crate::file) struct Target {
    pub(in crate::file) file: Arc<File>,
    pub(in crate::file) descriptors: Arc<Descriptors>,
}

impl Target {
    /// The file through which to write now: one that has failed fails for good, and with it what
    /// others have acknowledged.
    pub(in crate::file) fn current(&self) -> Arc<File> {
        file_of(&self.descriptors, self.file.mode(), OFlags::empty()).unwrap_or_else(|_| Arc::clone(&self.file))
    }
}

/// The error of a write that was acknowledged: that may not be refused for how it was asked for.
pub(super) fn told_later(errno: Errno) -> Errno {
    if errno == Errno::INVAL { Errno::IO } else { errno }
}

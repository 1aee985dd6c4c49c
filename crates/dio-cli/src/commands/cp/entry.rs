//! One name to copy, and the file that has its name in the target.

use std::ffi::CStr;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::Stat;

use super::dirs::{Dir, Pair};

/// One name to copy.
#[derive(Clone, Copy)]
pub(crate) struct SourceEntry<'a> {
    pub(crate) dir: &'a Arc<Dir>,
    /// The open directories of `dir`.
    pub(crate) open: &'a Pair,
    pub(crate) source: &'a CStr,
    pub(crate) target: &'a CStr,
    /// It was named on the command line.
    pub(crate) operand: bool,
}

impl SourceEntry<'_> {
    pub(crate) fn source_path(&self) -> PathBuf {
        self.dir.source_path(self.source)
    }

    pub(crate) fn target_path(&self) -> PathBuf {
        self.dir.target_path(self.target)
    }
}

/// The state of a target, as found or after an existing one was removed.
#[derive(Clone, Copy, Debug)]
pub(super) struct TargetState {
    /// No such file exists.
    pub(super) fresh: bool,
    /// Attributes of the existing file, if they were read.
    pub(super) stat: Option<Stat>,
}

impl TargetState {
    pub(super) const FRESH: Self = Self { fresh: true, stat: None };
    /// A target that is right as it is, and about which nothing was printed.
    pub(super) const KEPT: Self = Self { fresh: false, stat: None };

    pub(super) fn is_kept(&self) -> bool {
        !self.fresh && self.stat.is_none()
    }
}

//! Files that any of several processes extracts, by their place in the archive.

use std::ffi::CString;
use std::sync::Arc;

use rustix::fs::Timespec;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::super::run::Told;
use super::file::{Body, ExtractJob};
use super::meta::Meta;
use super::names::Clean;
use super::root::Root;
use crate::tool::FileState;

/// The place of a file's data in the archive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stored {
    pub(super) start: u64,
    pub(super) length: u64,
    /// Bytes from `start` to the end of the archive, if known.
    pub(super) remaining: Option<u64>,
}

/// A directory as processes tell each other of it. The inode shows whether the path still leads to
/// the same one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Parent {
    /// The number of its root among the directories of `-C`.
    pub(super) root: usize,
    pub(super) inode: u64,
}

/// A file to extract.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StoredFile {
    shown: Vec<u8>,
    parent: Parent,
    path: Clean,
    meta: Meta,
    mtime: (i64, i64),
    size: u64,
    sparse: Option<Vec<(u64, u64)>>,
    pub(super) start: u64,
    pub(super) stored: u64,
    pub(super) remaining: Option<u64>,
}

/// A part of a large file, which has a hidden name until all parts are written.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FilePiece {
    /// The state of the archive.
    pub(super) archive: FileState,
    pub(super) shown: Vec<u8>,
    pub(super) parent: Parent,
    pub(super) directory: Vec<u8>,
    pub(super) hidden: CString,
    pub(super) inode: u64,
    /// The place of the data in the archive, and the extents of the file that it fills.
    pub(super) start: u64,
    pub(super) extents: Vec<(u64, u64)>,
}

/// A job of one process.
#[derive(Debug, Serialize, Deserialize)]
pub enum ExtractWork {
    /// To extract these files of the archive in this state.
    Files(FileState, Vec<StoredFile>),
    /// To write a part of a file.
    Piece(FilePiece),
    /// To make durable what this process has written.
    Sync,
}

/// The answer to [`ExtractWork`].
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct ExtractAnswer {
    pub(super) told: Told,
    /// The files, by their index, that are left to process 0: their directory is not found here, or
    /// a directory is in the way. The only index of a piece is 0.
    pub(super) returned: Vec<usize>,
    /// The reason for which the archive cannot be read.
    pub(super) ended: Option<String>,
    /// The reason for which a part of a file cannot be written.
    pub(super) failed: Option<i32>,
}

impl FilePiece {
    /// The number of its bytes, in the archive as in the file.
    pub(super) fn bytes(&self) -> u64 {
        self.extents.iter().map(|(_, length)| length).sum()
    }
}

impl StoredFile {
    /// Describes a file whose root has the number `root`.
    pub(super) fn new(job: ExtractJob, root: usize, stored: Stored) -> StoredFile {
        StoredFile {
            shown: job.shown,
            parent: Parent { root, inode: job.dir.id.inode() },
            path: job.path,
            meta: job.meta,
            mtime: (job.mtime.tv_sec, job.mtime.tv_nsec),
            size: job.size,
            sparse: job.sparse,
            start: stored.start,
            stored: stored.length,
            remaining: stored.remaining,
        }
    }

    /// The name for messages.
    pub(super) fn shown(&self) -> &[u8] {
        &self.shown
    }

    /// Looks up the directory of the file.
    ///
    /// # Errors
    /// Errors of [`Root::find`]; ESTALE if it is another directory.
    pub(super) fn job(self, roots: &[Arc<Root>]) -> Result<ExtractJob, Errno> {
        let root = roots.get(self.parent.root).ok_or(Errno::STALE)?;
        let (parent, name) = self.path.split().ok_or(Errno::STALE)?;
        let dir = root.find_dir(parent)?;
        if dir.id.inode() != self.parent.inode {
            return Err(Errno::STALE);
        }
        Ok(ExtractJob {
            shown: self.shown,
            root: Arc::clone(root),
            dir,
            name,
            path: self.path,
            meta: self.meta,
            mtime: Timespec { tv_sec: self.mtime.0, tv_nsec: self.mtime.1 },
            size: self.size,
            sparse: self.sparse,
            body: Body::default(),
        })
    }
}

//! The work that the processes which share an archive give each other.

use std::ffi::OsString;

use rustix::fs::Stat;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::tool::{FileState, Mark};

/// A piece to write.
#[derive(Debug, Serialize, Deserialize)]
pub struct PieceJob {
    pub(super) archive: OsString,
    /// Whether the bytes have to be on the medium before the answer.
    pub(super) is_synced: bool,
    /// The place of the piece in the archive.
    pub(super) start: u64,
    pub(super) segments: Vec<Segment>,
    /// The files in it are there already.
    pub(super) only_headers: bool,
    /// What to note of it, if there is a journal.
    pub(super) note: Option<PieceNote>,
}

/// A part of a piece.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Segment {
    Bytes(Vec<u8>),
    File { source: SourceFile, offset: u64, length: u64 },
}

/// A file that is archived, as it was when its header was made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct SourceFile {
    pub(super) path: OsString,
    /// The name for the receipt.
    pub(super) shown: Vec<u8>,
    pub(super) state: FileState,
}

impl SourceFile {
    pub(super) fn new(path: OsString, shown: &[u8], stat: &Stat) -> SourceFile {
        SourceFile { path, shown: shown.to_vec(), state: FileState::of(stat) }
    }

    /// Whether the file changed since, by GNU tar's criteria.
    pub(super) fn is_changed(&self, now: &Stat) -> bool {
        let now = FileState::of(now);
        self.state.changed != now.changed || now.size > self.state.size
    }
}

/// The answer to a [`PieceJob`].
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct PieceAnswer {
    /// The reason why the archive cannot be written.
    pub(super) failed: Option<i32>,
    pub(super) troubles: Vec<Trouble>,
}

impl PieceAnswer {
    /// The answer of a process that cannot write the archive.
    pub(in super::super) fn failing(errno: Errno) -> PieceAnswer {
        PieceAnswer { failed: Some(errno.raw_os_error()), ..PieceAnswer::default() }
    }
}

/// A file that was not read as it was expected.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Trouble {
    /// Its position among the ranges of files of the piece.
    pub(super) index: usize,
    /// The first byte that is missing, and how many are.
    pub(super) offset: u64,
    pub(super) missing: u64,
    /// The reason, unless the file just ends there.
    pub(super) errno: Option<i32>,
    pub(super) is_changed: bool,
    /// Nothing is wrong, but the state of the file does not tell of its contents: it is striped, or
    /// cannot be looked at.
    pub(super) is_uncertain: bool,
}

/// What to note of a piece when it is durable.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PieceNote {
    pub(super) mark: Mark,
    pub(super) value: Vec<u8>,
}

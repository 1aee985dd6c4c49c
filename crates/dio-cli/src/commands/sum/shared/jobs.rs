//! The work that processes give each other.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use dio_digest::{DigestKind, DigestPart, Sum};
use serde::{Deserialize, Serialize};

use super::super::check::Compared;
use super::super::format::Piece;
use super::super::list::ListLine;
use super::super::read::{self, Failure, Helpers};
use crate::tool::Tool;

/// Bytes of the pieces that large files are read in: a multiple of the chunks of BLAKE3.
pub(super) const PIECE_BYTES: u64 = 64 << 20;

/// Bytes after which a process gives the other files of a job back, for others to read.
pub(super) const JOB_BYTES: u64 = 64 << 20;

/// Work for any process.
#[derive(Debug, Serialize, Deserialize)]
pub struct Job(pub(super) JobKind);

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum JobKind {
    /// To compute the digests of files. Those that are larger are answered by their size.
    Files { names: Vec<OsString>, bytes_max: u64 },
    /// To compute the digests of a piece of a file, to be joined or each by itself.
    Piece { name: OsString, piece: Piece, is_joined: bool },
    /// To compare the digests of one file with lines of a list.
    Lines(Vec<ListLine>),
}

/// The answer to a [`Job`].
#[derive(Debug, Serialize, Deserialize)]
pub struct Answer(pub(super) AnswerKind);

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum AnswerKind {
    /// One for each file, of which the last were perhaps left.
    Files(Vec<FileAnswer>),
    Piece(Result<PieceAnswer, Failure>),
    Lines(Vec<ListLine>, Compared),
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FileAnswer {
    Sums(Vec<Sum>),
    Failed(Failure),
    /// Its size, which is more than was allowed.
    Large(u64),
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum PieceAnswer {
    Sums(Vec<Sum>),
    /// What each digest of the file is joined of.
    Parts(Vec<DigestPart>),
    /// The file has another size than before.
    Changed,
}

/// Computes the digests of a file. Returns the number of its bytes too.
pub(super) fn file(
    tool: &Tool,
    name: &OsStr,
    kinds: &[DigestKind],
    helpers: &Helpers,
) -> (FileAnswer, u64) {
    let path = Path::new(name);
    match read::file(tool, path, kinds, helpers) {
        Ok(sums) => {
            let length = sums.first().map_or(0, |sum| sum.length);
            (FileAnswer::Sums(sums), length)
        }
        Err(error) => (FileAnswer::Failed(Failure::of(tool, path, &error)), 0),
    }
}

/// Whether an operand or a line is about standard input, which only process 0 has.
pub(super) fn is_stdin(name: &[u8]) -> bool {
    OsStr::from_bytes(name) == "-"
}

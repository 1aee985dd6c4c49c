//! Types for the values of `dio tar`'s options, shared by the parsers and the rest of the tool.

use std::ffi::OsString;

use crate::grammar::Refusal;

/// The name of the command.
pub(super) const NAME: &str = "tar";

/// The operation of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// `-c`
    Create,
    /// `-t`
    List,
    /// `-x`
    Extract,
    /// `-r`
    Append,
    /// `-u`
    Update,
    /// `-A`
    Catenate,
    /// `-d`
    Diff,
}

impl Operation {
    /// Whether the operation puts files into an archive.
    pub(super) fn stores(self) -> bool {
        matches!(self, Operation::Create | Operation::Append | Operation::Update)
    }
}

/// The format of an archive that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArchiveFormat {
    /// GNU tar since 1.13.
    Gnu,
    /// GNU tar until 1.12.
    OldGnu,
    /// POSIX 1003.1-2001.
    Pax,
    /// POSIX 1003.1-1988.
    Ustar,
    /// Unix version 7.
    V7,
}

/// How an archive is compressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    /// Gzip, done by dio.
    Gzip,
    /// Zstd, done by dio.
    Zstd,
    /// Another program, with its name and arguments. Adding `-d` makes it decompress.
    Program(Vec<OsString>),
}

/// The order in which the names of a directory are archived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    /// The order of the directory itself.
    None,
    /// Sorted by the bytes of the names.
    Name,
    /// Sorted by inode number, which is often the order on the disk.
    Inode,
}

/// How holes in a file are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holes {
    /// By `SEEK_HOLE`; where the file system does not support it, by looking for blocks of zeros.
    Seek,
    /// By looking for blocks of zeros.
    Raw,
}

/// A tag file. A directory that contains it is left out in part or entirely.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TagFile {
    /// The name of the tag file.
    pub(super) name: Vec<u8>,
    /// Whether the file must be a valid `CACHEDIR.TAG`.
    pub(super) cachedir: bool,
    /// The part that is left out.
    pub(super) omit: OmittedPart,
}

/// The part of a tagged directory that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OmittedPart {
    /// The contents, except the tag file.
    Contents,
    /// The contents, including the tag file.
    Under,
    /// The directory itself and its contents.
    All,
}

/// How names are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quoting {
    /// With C escapes for bytes that cannot be printed, and for `\`.
    Escape,
    /// Unchanged.
    Literal,
}

/// How existing files are treated when extracting. At most one of `overwrite`, `unlink_first`,
/// `keep_old`, `skip_old`, `keep_newer` and `no_overwrite_dir` is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ExistingFiles {
    /// `-k`: existing files are errors.
    pub(super) keep_old: bool,
    /// `--skip-old-files`
    pub(super) skip_old: bool,
    /// `--keep-newer-files`
    pub(super) keep_newer: bool,
    /// `--overwrite`
    pub(super) overwrite: bool,
    /// `-U`
    pub(super) unlink_first: bool,
    /// `--recursive-unlink`
    pub(super) recursive_unlink: bool,
    /// `--keep-directory-symlink`
    pub(super) keep_directory_symlink: bool,
    /// `--no-overwrite-dir`
    pub(super) no_overwrite_dir: bool,
}

/// Size of a block of an archive, in bytes.
pub(super) const BLOCK: u64 = 512;

/// An error that GNU tar calls not recoverable, such as a list of names that cannot be read.
pub(super) fn fatal(message: impl Into<Vec<u8>>) -> Refusal {
    Refusal::plain(message).and("Error is not recoverable: exiting now")
}

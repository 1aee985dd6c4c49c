//! What options of `dio tar` stand for, and its errors: what the parsers of values and the rest of
//! the tool have in common.

use std::ffi::OsString;

use crate::grammar::Refusal;

/// The name of the command.
pub(super) const NAME: &str = "tar";

/// What is done.
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
    /// Whether files are put into an archive.
    pub(super) fn stores(self) -> bool {
        matches!(self, Operation::Create | Operation::Append | Operation::Update)
    }
}

/// The format of an archive that is made.
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
    /// By dio.
    Gzip,
    /// By dio.
    Zstd,
    /// By another program: its name and arguments. It decompresses when `-d` is added.
    Program(Vec<OsString>),
}

/// In which order the names of a directory are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    /// As the directory gives them.
    None,
    /// By their bytes.
    Name,
    /// By the number of the inode, which is often the order on the disk.
    Inode,
}

/// How holes of a file are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holes {
    /// The file system is asked (`SEEK_HOLE`), and blocks of zeros are looked for where it cannot
    /// say.
    Seek,
    /// Blocks of zeros are looked for.
    Raw,
}

/// What marks a directory of which something is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tag {
    /// The name of the file that marks it.
    pub(super) name: Vec<u8>,
    /// It must be a true `CACHEDIR.TAG`.
    pub(super) cachedir: bool,
    /// What is left out.
    pub(super) omit: Omit,
}

/// What is left out of a marked directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Omit {
    /// All but the directory and the file that marks it.
    Contents,
    /// All but the directory.
    Under,
    /// The directory too.
    All,
}

/// How names are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quoting {
    /// With the escapes of C for what cannot be printed, and for `\`.
    Escape,
    /// As they are.
    Literal,
}

/// What is done about existing files when extracting. At most one of `overwrite`, `unlink_first`,
/// `keep_old`, `skip_old`, `keep_newer` and `no_overwrite_dir` is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Existing {
    /// `-k`: they are errors.
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

/// Bytes in a block of an archive.
pub(super) const BLOCK: u64 = 512;

/// What cannot be had (a file of names that cannot be read), which GNU tar calls not recoverable.
pub(super) fn fatal(message: impl Into<Vec<u8>>) -> Refusal {
    Refusal::plain(message).and("Error is not recoverable: exiting now")
}

//! `--warning`: selects the warnings that are printed.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::grammar::{Choice, Refusal, meant};

/// The kinds of warnings, named as in GNU tar. Warnings that only incremental and multi-volume
/// archives can cause are accepted as keywords but never occur.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Warning {
    /// A single block of zeros ends the archive.
    AloneZeroBlock,
    /// Occurs only with incremental archives.
    BadDumpdir,
    /// A directory holds a cache.
    Cachedir,
    /// A contiguous file is extracted as a regular one.
    ContiguousCast,
    /// A file changed while it was read.
    FileChanged,
    /// A file has a type that cannot be archived.
    FileIgnored,
    /// A file was removed before it was read.
    FileRemoved,
    /// A file became shorter while it was read.
    FileShrank,
    /// A file is not newer than the given date.
    FileUnchanged,
    /// A name in a list contains a NUL.
    FilenameWithNuls,
    /// The archive itself is not archived.
    IgnoreArchive,
    /// An existing file is newer and kept.
    IgnoreNewer,
    /// Occurs only with incremental archives.
    NewDirectory,
    /// Occurs only with incremental archives.
    RenameDirectory,
    /// A symbolic link is extracted as a hard link.
    SymlinkCast,
    /// A time is in the future or implausible.
    Timestamp,
    /// A member of an unknown kind is extracted as a file.
    UnknownCast,
    /// A keyword of a PAX header is unknown.
    UnknownKeyword,
    /// A directory is in another file system.
    Xdev,
    /// Names the decompression program.
    DecompressProgram,
    /// An existing file is kept.
    ExistingFile,
    /// An extended attribute cannot be written.
    XattrWrite,
    /// Prints the size of a record.
    RecordSize,
    /// A file cannot be read, with `--ignore-failed-read`.
    FailedRead,
}

/// The keywords, each with the bits of the warnings it stands for.
const KEYWORDS: &[Choice<u32>] = &[
    ("all", u32::MAX, ""),
    ("alone-zero-block", 1 << Warning::AloneZeroBlock as u32, ""),
    ("bad-dumpdir", 1 << Warning::BadDumpdir as u32, ""),
    ("cachedir", 1 << Warning::Cachedir as u32, ""),
    ("contiguous-cast", 1 << Warning::ContiguousCast as u32, ""),
    ("file-changed", 1 << Warning::FileChanged as u32, ""),
    ("file-ignored", 1 << Warning::FileIgnored as u32, ""),
    ("file-removed", 1 << Warning::FileRemoved as u32, ""),
    ("file-shrank", 1 << Warning::FileShrank as u32, ""),
    ("file-unchanged", 1 << Warning::FileUnchanged as u32, ""),
    ("filename-with-nuls", 1 << Warning::FilenameWithNuls as u32, ""),
    ("ignore-archive", 1 << Warning::IgnoreArchive as u32, ""),
    ("ignore-newer", 1 << Warning::IgnoreNewer as u32, ""),
    ("new-directory", 1 << Warning::NewDirectory as u32, ""),
    ("rename-directory", 1 << Warning::RenameDirectory as u32, ""),
    ("symlink-cast", 1 << Warning::SymlinkCast as u32, ""),
    ("timestamp", 1 << Warning::Timestamp as u32, ""),
    ("unknown-cast", 1 << Warning::UnknownCast as u32, ""),
    ("unknown-keyword", 1 << Warning::UnknownKeyword as u32, ""),
    ("xdev", 1 << Warning::Xdev as u32, ""),
    ("decompress-program", 1 << Warning::DecompressProgram as u32, ""),
    ("existing-file", 1 << Warning::ExistingFile as u32, ""),
    ("xattr-write", 1 << Warning::XattrWrite as u32, ""),
    ("record-size", 1 << Warning::RecordSize as u32, ""),
    ("failed-read", 1 << Warning::FailedRead as u32, ""),
];

/// Warnings that GNU tar prints only with `-v` or on request.
const QUIET: [Warning; 4] =
    [Warning::DecompressProgram, Warning::ExistingFile, Warning::NewDirectory, Warning::RecordSize];

/// The set of warnings that are printed, one bit for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Warnings(u32);

impl Default for Warnings {
    fn default() -> Warnings {
        Warnings(QUIET.iter().fold(u32::MAX, |told, quiet| told & !(1 << *quiet as u32)))
    }
}

impl Warnings {
    /// Applies one argument of `--warning`.
    ///
    /// # Errors
    /// The argument is not a keyword.
    pub(super) fn set(&mut self, text: &OsStr) -> Result<(), Refusal> {
        if text == "none" {
            self.0 = 0;
            return Ok(());
        }
        let denied = text.as_bytes().strip_prefix(b"no-").map(OsStr::from_bytes);
        let bits = meant("--warning", denied.unwrap_or(text), KEYWORDS)?;
        self.0 = if denied.is_some() { self.0 & !bits } else { self.0 | bits };
        Ok(())
    }

    /// Whether warnings of this kind are printed.
    pub(super) fn told(&self, warning: Warning) -> bool {
        self.0 & (1 << warning as u32) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_are_told_or_not() {
        let mut warnings = Warnings::default();
        assert!(warnings.told(Warning::FileChanged) && !warnings.told(Warning::ExistingFile));
        warnings.set("no-file-changed".as_ref()).unwrap();
        warnings.set("existing-file".as_ref()).unwrap();
        assert!(!warnings.told(Warning::FileChanged) && warnings.told(Warning::ExistingFile));
        warnings.set("none".as_ref()).unwrap();
        assert!(!warnings.told(Warning::Xdev));
        warnings.set("all".as_ref()).unwrap();
        assert!(warnings.told(Warning::FileChanged));
        assert!(warnings.set("no-such".as_ref()).is_err());
    }
}

//! `--warning`: which warnings are told.

use std::ffi::OsStr;

use super::options::{Refusal, invalid_argument};

/// A kind of warning, as GNU tar names them. Those that only its incremental and multi-volume archives can give are
/// accepted and never arise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Warning {
    /// A single block of zeros ends the archive.
    AloneZeroBlock,
    /// Only of incremental archives.
    BadDumpdir,
    /// A directory holds a cache.
    Cachedir,
    /// A contiguous file is extracted as a regular one.
    ContiguousCast,
    /// A file changed while it was read.
    FileChanged,
    /// A file of a kind that cannot be archived.
    FileIgnored,
    /// A file was removed before it was read.
    FileRemoved,
    /// A file became shorter while it was read.
    FileShrank,
    /// A file is not newer than asked for.
    FileUnchanged,
    /// A name in a list holds NUL.
    FilenameWithNuls,
    /// The archive itself is not archived.
    IgnoreArchive,
    /// An existing file is newer and kept.
    IgnoreNewer,
    /// Only of incremental archives.
    NewDirectory,
    /// Only of incremental archives.
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
    /// A decompressing program is told.
    DecompressProgram,
    /// An existing file is kept.
    ExistingFile,
    /// An extended attribute cannot be written.
    XattrWrite,
    /// The size of a record is told.
    RecordSize,
    /// A file cannot be read, with `--ignore-failed-read`.
    FailedRead,
}

const KEYWORDS: [(&str, Warning); 24] = [
    ("alone-zero-block", Warning::AloneZeroBlock),
    ("bad-dumpdir", Warning::BadDumpdir),
    ("cachedir", Warning::Cachedir),
    ("contiguous-cast", Warning::ContiguousCast),
    ("file-changed", Warning::FileChanged),
    ("file-ignored", Warning::FileIgnored),
    ("file-removed", Warning::FileRemoved),
    ("file-shrank", Warning::FileShrank),
    ("file-unchanged", Warning::FileUnchanged),
    ("filename-with-nuls", Warning::FilenameWithNuls),
    ("ignore-archive", Warning::IgnoreArchive),
    ("ignore-newer", Warning::IgnoreNewer),
    ("new-directory", Warning::NewDirectory),
    ("rename-directory", Warning::RenameDirectory),
    ("symlink-cast", Warning::SymlinkCast),
    ("timestamp", Warning::Timestamp),
    ("unknown-cast", Warning::UnknownCast),
    ("unknown-keyword", Warning::UnknownKeyword),
    ("xdev", Warning::Xdev),
    ("decompress-program", Warning::DecompressProgram),
    ("existing-file", Warning::ExistingFile),
    ("xattr-write", Warning::XattrWrite),
    ("record-size", Warning::RecordSize),
    ("failed-read", Warning::FailedRead),
];

/// Those that GNU tar tells only with `-v` or when asked.
const QUIET: [Warning; 4] =
    [Warning::DecompressProgram, Warning::ExistingFile, Warning::NewDirectory, Warning::RecordSize];

/// Which warnings are told: a bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Warnings(u32);

impl Default for Warnings {
    fn default() -> Warnings {
        Warnings(QUIET.iter().fold(u32::MAX, |told, quiet| told & !(1 << *quiet as u32)))
    }
}

impl Warnings {
    /// Reads one argument of `--warning`.
    ///
    /// # Errors
    /// It is no keyword.
    pub(super) fn set(&mut self, text: &OsStr) -> Result<(), Refusal> {
        let given = text.to_str().unwrap_or("\0");
        match given {
            "all" => self.0 = u32::MAX,
            "none" | "no-all" => self.0 = 0,
            _ => {
                let (keyword, told) = given.strip_prefix("no-").map_or((given, true), |keyword| (keyword, false));
                let names = || std::iter::once("all").chain(KEYWORDS.iter().map(|(name, _)| *name));
                let found = KEYWORDS.iter().find(|(name, _)| *name == keyword);
                let (_, warning) = found.ok_or_else(|| invalid_argument("warning", text, names()))?;
                let bit = 1 << *warning as u32;
                self.0 = if told { self.0 | bit } else { self.0 & !bit };
            }
        }
        Ok(())
    }

    /// Whether warnings of that kind are told.
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

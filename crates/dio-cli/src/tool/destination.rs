//! The destination of a receipt. It is opened before the work, and never replaces a file that is
//! not a receipt.
//!
//! The receipt is written to a temporary file, which is renamed at the end. A file that has the
//! name before must be an earlier receipt or empty, and must not be a file that the command reads
//! or writes: in `--receipt source copy` an argument is missing, and `source` must survive.

use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use dio::credentials::is_trusted;
use dio::names::FileId;
use rustix::fs::{FileType, Stat, fstat, lstat, stat};
use rustix::io::Errno;

use super::target::naming::directory_of;
use super::target::{OutputFile, TargetOptions};
use crate::grammar::Refusal;
use crate::quote::{quoted, words};
use crate::receipt::Ledger;

/// The first key of a receipt, behind the brace and blanks.
const FIRST_KEY: &[u8] = b"\"command\"";

/// Bytes from the beginning of a file that show whether it is a receipt.
const HEAD_BYTES: u64 = 64;

/// The destination of a receipt that will be written.
#[derive(Debug)]
pub struct Destination {
    path: PathBuf,
    to: To,
    /// The earlier receipt.
    before: Option<FileId>,
}

#[derive(Debug)]
enum To {
    Stdout,
    Named(OutputFile),
    /// A file that could only be made under a temporary name, which a killed process would leave
    /// behind. It is made at the end.
    Later,
}

/// Why a receipt cannot have this destination.
#[derive(Debug)]
pub enum ReceiptError {
    /// It cannot be opened.
    Open(Errno),
    /// The file is not a receipt.
    Other,
    /// The command reads or writes the file, under this name.
    Operand(PathBuf),
    /// The file is standard input or output.
    Standard(&'static str),
    /// The name is a link or a special file that belongs to a user other than this one and root. A
    /// link could lead anywhere that user chose, and opening a FIFO could block.
    Foreign,
}

impl Destination {
    /// Opens the destination; `-` is standard output. `names` are the files that the command reads
    /// or writes.
    ///
    /// # Errors
    /// A receipt cannot go there, for example because the destination is one of `names`, or would
    /// be if that were created. Nothing was changed then.
    pub fn open<'n>(
        path: &Path,
        names: impl IntoIterator<Item = &'n OsStr>,
    ) -> Result<Destination, ReceiptError> {
        let path = path.to_owned();
        if path == Path::new("-") {
            return Ok(Destination { path, to: To::Stdout, before: None });
        }
        if is_foreign(&path) {
            return Err(ReceiptError::Foreign);
        }
        let before = match stat(&path) {
            Ok(there) if is_file(&there) => {
                judge(&path, &there)?;
                Some(FileId::of(&there))
            }
            _ => None,
        };
        let successor = open(&path).map_err(ReceiptError::Open)?;
        let to = if successor.has_temporary_name() { To::Later } else { To::Named(successor) };
        let destination = Destination { path, to, before };
        destination.keep_apart(names).map(|()| destination)
    }

    /// Rejects a destination that is one of the files that the command reads or writes.
    fn keep_apart<'n>(
        &self,
        names: impl IntoIterator<Item = &'n OsStr>,
    ) -> Result<(), ReceiptError> {
        // A device or a pipe may be written by both.
        if self.before.is_none() && matches!(&self.to, To::Named(to) if to.is_in_place()) {
            return Ok(());
        }
        let own = entry_of(&self.path);
        for name in names {
            let same = match (self.before, stat(name)) {
                (Some(before), Ok(other)) => FileId::of(&other) == before,
                (None, Err(Errno::NOENT)) => own.is_some() && own == entry_of(Path::new(name)),
                _ => false,
            };
            if same {
                return Err(ReceiptError::Operand(name.into()));
            }
        }
        Ok(())
    }

    /// Writes the receipt of a run.
    ///
    /// # Errors
    /// Write errors; the receipt would replace a file that it lists, or one that was created
    /// meanwhile.
    pub(crate) fn print(
        self,
        ledger: &Ledger,
        command: &'static str,
        engine: &'static str,
        durable: bool,
    ) -> io::Result<()> {
        let (text, paths) = ledger.text(command, engine, durable)?;
        self.write(&text, paths.iter().map(PathBuf::as_path))
    }

    /// Writes the text of the receipt. `paths` are the files that were read and written.
    ///
    /// # Errors
    /// Write errors; the receipt would replace one of these files, or another file has its name
    /// now.
    pub(crate) fn write<'p>(
        self,
        text: &[u8],
        paths: impl IntoIterator<Item = &'p Path>,
    ) -> io::Result<()> {
        if let Some(before) = self.before
            && paths
                .into_iter()
                .any(|path| stat(path).is_ok_and(|other| FileId::of(&other) == before))
        {
            return Err(io::Error::other(ReceiptError::Operand(self.path)));
        }
        let mut successor = match self.to {
            To::Stdout => return io::stdout().write_all(text),
            To::Named(successor) => successor,
            To::Later => open(&self.path)?,
        };
        if stat(&self.path).ok().filter(is_file).map(|there| FileId::of(&there)) != self.before {
            return Err(Errno::EXIST.into());
        }
        successor.begin()?;
        File::from(OwnedFd::try_clone(successor.descriptor())?).write_all(text)?;
        successor.keep()
    }
}

/// Opens the destination. Anyone who may write to the directory can put a link there at any time,
/// so a link is followed only if it was found to belong to this user or root.
fn open(path: &Path) -> Result<OutputFile, Errno> {
    let wary = lstat(path).map_or(true, |there| is_file(&there) || !is_trusted(there.st_uid));
    OutputFile::open(path, TargetOptions { hidden: true, wary, ..TargetOptions::default() })
}

fn is_foreign(path: &Path) -> bool {
    lstat(path).is_ok_and(|there| !is_file(&there) && !is_trusted(there.st_uid))
}

/// Checks that an existing file may be replaced.
fn judge(path: &Path, there: &Stat) -> Result<(), ReceiptError> {
    for (name, fd) in
        [("standard input", fstat(io::stdin())), ("standard output", fstat(io::stdout()))]
    {
        if fd.is_ok_and(|fd| FileId::of(&fd) == FileId::of(there)) {
            return Err(ReceiptError::Standard(name));
        }
    }
    if there.st_size == 0 {
        return Ok(());
    }
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(HEAD_BYTES).read_to_end(&mut head));
    let key = head.strip_prefix(b"{").map(<[u8]>::trim_ascii_start);
    match read {
        Ok(_) if key.is_some_and(|key| key.starts_with(FIRST_KEY)) => Ok(()),
        _ => Err(ReceiptError::Other),
    }
}

/// Returns the directory of a file that may not exist, and the file's name in it.
fn entry_of(path: &Path) -> Option<(FileId, std::ffi::OsString)> {
    Some((FileId::of(&stat(directory_of(path)).ok()?), path.file_name()?.to_owned()))
}

fn is_file(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

impl ReceiptError {
    /// Returns the message for a receipt of that name.
    pub(crate) fn of(&self, path: &Path) -> Refusal {
        match self {
            ReceiptError::Open(errno) => Refusal::plain(format!(
                "cannot write the receipt {}: {}",
                quoted(path),
                words(*errno)
            )),
            other => Refusal::usage(format!("the receipt {} {other}", quoted(path))),
        }
    }
}

impl fmt::Display for ReceiptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReceiptError::Open(errno) => f.write_str(&words(*errno)),
            ReceiptError::Other => f.write_str(
                "would replace a file that is no receipt: name another, or remove it first",
            ),
            ReceiptError::Operand(name) => {
                write!(f, "is read or written itself, as {}", quoted(name))
            }
            ReceiptError::Foreign => f.write_str(
                "would be written through what another user has put there: name another, or remove \
                 it first",
            ),
            ReceiptError::Standard(name) => write!(f, "is {name}; use - for standard output"),
        }
    }
}

impl std::error::Error for ReceiptError {}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{lchown, symlink};

    use super::*;

    #[test]
    fn what_another_user_has_put_there_is_not_followed_or_waited_for() {
        let scratch = tempfile::tempdir().unwrap();
        let [link, fifo, victim] = ["link", "fifo", "victim"].map(|name| scratch.path().join(name));
        symlink(&victim, &link).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::from_raw_mode(0o644))
            .unwrap();
        assert!(Destination::open(&link, []).is_ok());
        if !rustix::process::geteuid().is_root() {
            return println!("skipped: only root gives files away");
        }
        let _ = std::fs::remove_file(&victim);
        for foreign in [&link, &fifo] {
            lchown(foreign, Some(65534), None).unwrap();
            assert!(
                matches!(Destination::open(foreign, []), Err(ReceiptError::Foreign)),
                "{foreign:?}"
            );
        }
        assert!(!victim.exists());
        // A link that was put there after the check is not followed either.
        let wary = TargetOptions { hidden: true, wary: true, ..TargetOptions::default() };
        assert_eq!(OutputFile::open(&link, wary).err(), Some(Errno::LOOP));
    }
}

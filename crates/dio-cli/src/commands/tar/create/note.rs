//! Messages of the walk and the workers; the writer prints them in the order of the archive.

use rustix::io::Errno;

use super::super::options::TarOptions;
use super::super::quoting::escaped;
use super::super::run::TarRun;
use super::super::warnings::Warning;
use crate::quote::words;

/// A message to print.
#[derive(Debug)]
pub(super) enum Note {
    /// A warning that does not change the exit status.
    Warn(Warning, String),
    /// A file changed: status 1.
    Differs(Warning, String),
    /// Status 2, even if the warning is turned off.
    Fails(Warning, String),
    /// Status 2.
    Error(String),
    /// A message about an operand. The prefix that is removed from its name is reported first.
    Operand(Vec<u8>, Box<Note>),
    /// No message.
    Nothing,
}

impl Note {
    /// `name: Cannot open: …`
    pub(super) fn cannot(doing: &str, path: &[u8], errno: Errno) -> Note {
        Note::Error(format!("{}: Cannot {doing}: {}", escaped(path), words(errno)))
    }

    /// The extended attributes of a file cannot be read, which is no failure.
    pub(super) fn unasked(path: &[u8], errno: Errno) -> Note {
        let what = format!("Cannot read extended attributes: {}", words(errno));
        Note::Warn(Warning::FailedRead, format!("{}: Warning: {what}", escaped(path)))
    }

    /// A file that cannot be read: an error, or a warning with `--ignore-failed-read`.
    pub(super) fn unreadable(options: &TarOptions, doing: &str, path: &[u8], errno: Errno) -> Note {
        Note::failed_read(options, path, &format!("Cannot {doing}: {}", words(errno)))
    }

    fn failed_read(options: &TarOptions, path: &[u8], what: &str) -> Note {
        match options.ignore_failed_read {
            true => Note::Warn(Warning::FailedRead, format!("{}: Warning: {what}", escaped(path))),
            false => Note::Error(format!("{}: {what}", escaped(path))),
        }
    }

    /// Like [`Note::unreadable`], for a name found in a directory: the file may have been removed
    /// since.
    pub(super) fn gone(options: &TarOptions, doing: &str, path: &[u8], errno: Errno) -> Note {
        if errno != Errno::NOENT {
            return Note::unreadable(options, doing, path, errno);
        }
        Note::Differs(
            Warning::FileRemoved,
            format!("{}: File removed before we read it", escaped(path)),
        )
    }

    /// A file of a type that the archive cannot hold.
    pub(super) fn unknown(options: &TarOptions, path: &[u8]) -> Note {
        let message = format!("{}: Unknown file type; file ignored", escaped(path));
        match options.ignore_failed_read {
            true => Note::Warn(Warning::FileIgnored, message),
            false => Note::Fails(Warning::FileIgnored, message),
        }
    }

    /// The file changed after its header was made.
    pub(super) fn changed(path: &[u8]) -> Note {
        Note::Differs(
            Warning::FileChanged,
            format!("{}: file changed as we read it", escaped(path)),
        )
    }

    /// The file ended `missing` bytes early.
    pub(super) fn shrank(options: &TarOptions, path: &[u8], missing: u64) -> Note {
        let bytes = if missing == 1 { "byte" } else { "bytes" };
        let message =
            format!("{}: File shrank by {missing} {bytes}; padding with zeros", escaped(path));
        match options.ignore_failed_read {
            true => Note::Warn(Warning::FileShrank, message),
            false => Note::Differs(Warning::FileShrank, message),
        }
    }

    /// Reading failed in the middle of a file.
    pub(super) fn read_error(
        options: &TarOptions,
        path: &[u8],
        offset: u64,
        wanted: u64,
        errno: Errno,
    ) -> Note {
        let what = format!("Read error at byte {offset}, while reading {wanted} bytes");
        Note::failed_read(options, path, &format!("{what}: {}", words(errno)))
    }

    /// Prints the message and updates the exit status.
    pub(super) fn tell(self, run: &TarRun) {
        match self {
            Note::Warn(kind, message) => run.warn(kind, message),
            Note::Differs(kind, message) => {
                run.differs();
                run.warn(kind, message);
            }
            Note::Fails(kind, message) => {
                run.fail();
                run.warn(kind, message);
            }
            Note::Error(message) => run.error(message),
            Note::Operand(path, note) => {
                run.safe_name(&path, false);
                note.tell(run);
            }
            Note::Nothing => {}
        }
    }
}

//! Messages of the walk and the workers, which are told in the order of the archive.

use rustix::io::Errno;

use super::super::options::Options;
use super::super::quoting::escaped;
use super::super::run::Run;
use super::super::warnings::Warning;
use crate::quote::words;

/// Something to tell.
#[derive(Debug)]
pub(super) enum Note {
    /// That does not change the exit status.
    Warn(Warning, String),
    /// A file changed: status 1.
    Differs(Warning, String),
    /// Status 2, even where the warning is turned off.
    Fails(Warning, String),
    /// Status 2.
    Error(String),
    /// About an operand, of whose name it is told first what is removed from it.
    Operand(Vec<u8>, Box<Note>),
    /// Nothing at all.
    Nothing,
}

impl Note {
    /// `name: Cannot open: …`
    pub(super) fn cannot(doing: &str, path: &[u8], errno: Errno) -> Note {
        Note::Error(format!("{}: Cannot {doing}: {}", escaped(path), words(errno)))
    }

    /// The attributes of a file cannot be asked for, which is no failure.
    pub(super) fn unasked(path: &[u8], errno: Errno) -> Note {
        let what = format!("Cannot read extended attributes: {}", words(errno));
        Note::Warn(Warning::FailedRead, format!("{}: Warning: {what}", escaped(path)))
    }

    /// What cannot be read is an error, unless it was said that it is none.
    pub(super) fn unreadable(options: &Options, doing: &str, path: &[u8], errno: Errno) -> Note {
        Note::failed_read(options, path, &format!("Cannot {doing}: {}", words(errno)))
    }

    fn failed_read(options: &Options, path: &[u8], what: &str) -> Note {
        match options.ignore_failed_read {
            true => Note::Warn(Warning::FailedRead, format!("{}: Warning: {what}", escaped(path))),
            false => Note::Error(format!("{}: {what}", escaped(path))),
        }
    }

    /// The same for a name that a directory had: it may have been removed since.
    pub(super) fn gone(options: &Options, doing: &str, path: &[u8], errno: Errno) -> Note {
        if errno != Errno::NOENT {
            return Note::unreadable(options, doing, path, errno);
        }
        Note::Differs(Warning::FileRemoved, format!("{}: File removed before we read it", escaped(path)))
    }

    /// Nothing in the archive can stand for a file of this kind.
    pub(super) fn unknown(options: &Options, path: &[u8]) -> Note {
        let message = format!("{}: Unknown file type; file ignored", escaped(path));
        match options.ignore_failed_read {
            true => Note::Warn(Warning::FileIgnored, message),
            false => Note::Fails(Warning::FileIgnored, message),
        }
    }

    /// The file is not what it was when its header was made.
    pub(super) fn changed(path: &[u8]) -> Note {
        Note::Differs(Warning::FileChanged, format!("{}: file changed as we read it", escaped(path)))
    }

    /// The file ended `missing` bytes early.
    pub(super) fn shrank(options: &Options, path: &[u8], missing: u64) -> Note {
        let bytes = if missing == 1 { "byte" } else { "bytes" };
        let message = format!("{}: File shrank by {missing} {bytes}; padding with zeros", escaped(path));
        match options.ignore_failed_read {
            true => Note::Warn(Warning::FileShrank, message),
            false => Note::Differs(Warning::FileShrank, message),
        }
    }

    /// Reading failed in the middle of a file.
    pub(super) fn read_error(options: &Options, path: &[u8], offset: u64, wanted: u64, errno: Errno) -> Note {
        let what = format!("Read error at byte {offset}, while reading {wanted} bytes");
        Note::failed_read(options, path, &format!("{what}: {}", words(errno)))
    }

    /// Tells it.
    pub(super) fn tell(self, run: &Run) {
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

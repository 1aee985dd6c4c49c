//! The file of a session. It stays short however many numbers are kept, and it is read line by
//! line, so that neither a long file nor a very long line fills memory.

use std::fs::{self, File, Metadata};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;

use super::protocol::{LONGEST, WitnessRequest};
use crate::synctest::parent;

/// A file that would become longer is replaced.
const LENGTH_MAX: u64 = 64 << 10;

/// The file of a session, opened for appending.
#[derive(Debug)]
pub(super) struct SessionFile {
    file: File,
    length: u64,
}

impl SessionFile {
    /// Creates a file with these lines, durably. It is an error if the name exists, even as a link.
    pub(super) fn create(path: &Path, lines: &str) -> io::Result<SessionFile> {
        let made = SessionFile::create_unnamed(path, lines)?;
        sync_names(path)?;
        Ok(made)
    }

    /// Replaces the file of this name by one with these lines, durably. After a crash the name
    /// refers to the old file or to the new one, and both are complete.
    pub(super) fn replace(path: &Path, lines: &str) -> io::Result<SessionFile> {
        let temporary = path.with_extension("new");
        // A witness that lost power may have left such a file, or another user may have put a link
        // there.
        match fs::remove_file(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let made = SessionFile::create_unnamed(&temporary, lines)?;
        fs::rename(&temporary, path)?;
        sync_names(path)?;
        Ok(made)
    }

    /// Creates a durable file; its name need not be durable.
    fn create_unnamed(path: &Path, lines: &str) -> io::Result<SessionFile> {
        let mut file = File::options().append(true).create_new(true).open(path)?;
        file.write_all(lines.as_bytes())?;
        file.sync_all()?;
        Ok(SessionFile { file, length: lines.len() as u64 })
    }

    /// Whether the file stays within the limit after `line` is appended.
    pub(super) fn has_room(&self, line: &str) -> bool {
        self.length + line.len() as u64 <= LENGTH_MAX
    }

    /// Appends a line, durably. After an error the end of the file is undefined.
    pub(super) fn append(mut self, line: &str) -> io::Result<SessionFile> {
        // One write, so that the line is not interleaved with other data.
        self.file.write_all(line.as_bytes())?;
        self.file.sync_data()?;
        self.length += line.len() as u64;
        Ok(self)
    }
}

fn sync_names(path: &Path) -> io::Result<()> {
    File::open(parent(path))?.sync_all()
}

/// Opens a file for reading, without blocking on a FIFO; `None` if it is not a regular file.
pub(super) fn open_regular(path: &Path, flags: OFlags) -> io::Result<Option<(File, Metadata)>> {
    let flags = (flags | OFlags::NONBLOCK).bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let found = file.metadata()?;
    Ok(found.is_file().then_some((file, found)))
}

/// The lines of a session's file.
pub(super) struct SessionLines {
    reader: BufReader<File>,
    line: Vec<u8>,
}

impl SessionLines {
    pub(super) fn of(file: File) -> SessionLines {
        SessionLines { reader: BufReader::new(file), line: Vec::new() }
    }

    /// Reads the next line. `None` at the end of the file, and at an incomplete line, which means
    /// that the witness lost power.
    ///
    /// # Errors
    /// `InvalidData` for a line that is not part of the protocol or is too long.
    pub(super) fn next(&mut self) -> io::Result<Option<WitnessRequest>> {
        self.line.clear();
        self.reader.by_ref().take(LONGEST as u64).read_until(b'\n', &mut self.line)?;
        let Some(line) = self.line.strip_suffix(b"\n") else {
            return if self.line.len() < LONGEST {
                Ok(None)
            } else {
                Err(io::ErrorKind::InvalidData.into())
            };
        };
        let request = str::from_utf8(line).ok().and_then(|line| line.parse().ok());
        request.map(Some).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

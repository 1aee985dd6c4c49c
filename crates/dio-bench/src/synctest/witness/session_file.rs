//! The file of a session. It stays short however many numbers are kept, and is read line by line,
//! so that neither a long file nor an endless line fills memory.

use std::fs::{self, File, Metadata};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;

use super::protocol::{LONGEST, Request};
use crate::synctest::parent;

/// A file that would grow longer is replaced.
const LENGTH_MAX: u64 = 64 << 10;

/// The file of a session, open at its end.
#[derive(Debug)]
pub(super) struct SessionFile {
    file: File,
    length: u64,
}

impl SessionFile {
    /// Makes a file with these lines, durably. What has the name already, a link too, is an error.
    pub(super) fn create(path: &Path, lines: &str) -> io::Result<SessionFile> {
        let made = SessionFile::create_unnamed(path, lines)?;
        sync_names(path)?;
        Ok(made)
    }

    /// Puts a file with these lines in the place of what has the name, durably. After a crash the
    /// name leads to the old file or to the new one, and either is whole.
    pub(super) fn replace(path: &Path, lines: &str) -> io::Result<SessionFile> {
        let temporary = path.with_extension("new");
        // A witness that lost its power may have left one, and somebody else a link.
        match fs::remove_file(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let made = SessionFile::create_unnamed(&temporary, lines)?;
        fs::rename(&temporary, path)?;
        sync_names(path)?;
        Ok(made)
    }

    /// Makes a durable file whose name need not be durable.
    fn create_unnamed(path: &Path, lines: &str) -> io::Result<SessionFile> {
        let mut file = File::options().append(true).create_new(true).open(path)?;
        file.write_all(lines.as_bytes())?;
        file.sync_all()?;
        Ok(SessionFile { file, length: lines.len() as u64 })
    }

    /// Whether the file stays short with these bytes more.
    pub(super) fn has_room(&self, line: &str) -> bool {
        self.length + line.len() as u64 <= LENGTH_MAX
    }

    /// Appends a line, durably. After an error it is not known what the file ends with.
    pub(super) fn append(mut self, line: &str) -> io::Result<SessionFile> {
        // One write, so that a line is not mixed with anything.
        self.file.write_all(line.as_bytes())?;
        self.file.sync_data()?;
        self.length += line.len() as u64;
        Ok(self)
    }
}

fn sync_names(path: &Path) -> io::Result<()> {
    File::open(parent(path))?.sync_all()
}

/// Opens a file to read, without waiting for a FIFO; `None` if it is no regular file.
pub(super) fn open_regular(path: &Path, flags: OFlags) -> io::Result<Option<(File, Metadata)>> {
    let flags = (flags | OFlags::NONBLOCK).bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let found = file.metadata()?;
    Ok(found.is_file().then_some((file, found)))
}

/// The lines of a session's file.
pub(super) struct Lines {
    reader: BufReader<File>,
    line: Vec<u8>,
}

impl Lines {
    pub(super) fn of(file: File) -> Lines {
        Lines { reader: BufReader::new(file), line: Vec::new() }
    }

    /// Reads the next line; `None` at the end, and at a line that was not finished, because the
    /// witness lost its power.
    ///
    /// # Errors
    /// `InvalidData` for what is no line of the protocol, or longer than any.
    pub(super) fn next(&mut self) -> io::Result<Option<Request>> {
        self.line.clear();
        self.reader.by_ref().take(LONGEST as u64).read_until(b'\n', &mut self.line)?;
        let Some(line) = self.line.strip_suffix(b"\n") else {
            return if self.line.len() < LONGEST { Ok(None) } else { Err(io::ErrorKind::InvalidData.into()) };
        };
        let request = str::from_utf8(line).ok().and_then(|line| line.parse().ok());
        request.map(Some).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

//! How `dio advise` complains, and where it writes its reports.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use dio::names::FileId;
use rustix::fs::{Access, access};
use serde::Serialize;

use crate::commands::words;
use crate::quote::quoted;
use crate::tool::whole::WholeFile;

pub(super) fn complain(text: &str) {
    // Files are put back also where nobody reads this any more.
    let _ = writeln!(io::stderr(), "dio advise: {text}");
}

/// The file to which a report goes that was asked for, looked at before the command runs. It is
/// made, or replaced, at the end: the command may find, list and remove what is there.
pub(super) struct ReportFile<'a> {
    path: &'a Path,
    before: Option<State>,
}

/// The state of a file, which is another one when somebody has written it: its identity, size, and
/// time of modification.
type State = (FileId, u64, i64, i64);

fn state(path: &Path) -> Option<State> {
    let found = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    Some((FileId::of_metadata(&found), found.len(), found.mtime(), found.mtime_nsec()))
}

/// Whether a file can be written under a name, as far as that can be told without doing it.
fn check_writable(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        // To open a pipe or a device means something to others.
        Ok(found) if !found.is_file() && !found.is_dir() => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            let parent = parent.unwrap_or(Path::new("."));
            Ok(access(parent, Access::WRITE_OK | Access::EXEC_OK)?)
        }
        _ => OpenOptions::new().write(true).open(path).map(drop),
    }
}

impl ReportFile<'_> {
    /// Looks at the file for a report, if one was asked for.
    ///
    /// # Errors
    /// A text that says why it cannot be written.
    pub(super) fn open(output: Option<&PathBuf>) -> Result<Option<ReportFile<'_>>, String> {
        let Some(path) = output else { return Ok(None) };
        check_writable(path).map_err(|error| cannot_write(path, &error))?;
        Ok(Some(ReportFile { path, before: state(path) }))
    }

    fn write(self, text: &str) -> io::Result<()> {
        let now = state(self.path);
        if now.is_some() && now != self.before {
            return Err(io::Error::other("it was written meanwhile"));
        }
        let mut file = WholeFile::open(self.path)?;
        file.write_all(text.as_bytes())?;
        file.keep()
    }
}

fn cannot_write(path: &Path, error: &io::Error) -> String {
    format!("cannot write {}: {}", quoted(path), words(error))
}

/// Writes a report, as text or as JSON, to the file that was asked for, or to `otherwise`. What
/// the file does not take goes to `otherwise` too: it may have cost a long run.
///
/// # Errors
/// A text that says what cannot be written, and why.
pub(super) fn write_report(
    report: &(impl Serialize + ToString),
    json: bool,
    output: Option<ReportFile<'_>>,
    mut otherwise: impl Write,
) -> Result<(), String> {
    let text = match json {
        true => serde_json::to_string_pretty(report).map_err(|error| error.to_string())? + "\n",
        false => report.to_string(),
    };
    let refused = match output {
        None => Ok(()),
        Some(output) => {
            let path = output.path;
            match output.write(&text) {
                Ok(()) => return Ok(()),
                Err(error) => Err(cannot_write(path, &error)),
            }
        }
    };
    let written = otherwise.write_all(text.as_bytes()).and_then(|()| otherwise.flush());
    written.map_err(|error| format!("cannot write the report: {}", words(&error)))?;
    refused
}

//! The job that a journal belongs to, and who opens the journal.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::{Journal, JournalError, files_of_marks, lock, sync_directory};
use crate::options::take_option;
use crate::transport::Ranks;

/// The first line of the file `job`.
const JOB_LINE: &str = "dio-mpi job 1\n";

/// Options that change nothing of what is durable at the end: a job may go on with others.
const OF_THE_ATTEMPT: [&str; 2] = ["--limit", "--receipt"];

/// Tells command lines apart, with the directory that they are called in. Options of an attempt
/// only, such as its limit, make no difference.
#[must_use]
pub fn identity_of(command: &str, words: &[OsString]) -> String {
    let mut hasher = blake3::Hasher::new();
    let directory = std::env::current_dir().unwrap_or_default();
    let mut words = words.to_vec();
    for name in OF_THE_ATTEMPT {
        while take_option(&mut words, name).is_some() {}
    }
    let words = std::iter::once(directory.as_os_str()).chain(words.iter().map(AsRef::as_ref));
    // The journals of cp are older than other commands.
    let command = (command != "cp").then(|| OsStr::new(command));
    for word in words.chain(command) {
        hasher.update(&(word.len() as u64).to_le_bytes()).update(word.as_bytes());
    }
    hasher.finalize().to_hex().to_string()
}

/// Prints a message of a command before or beside its own.
pub fn say(command: &str, told: &dyn std::fmt::Display) {
    eprintln!("dio-mpi {command}: {told}");
}

/// Claims the journal of a job in rank 0, before the other ranks open it: makes it if there is
/// none. `identity` tells commands apart. Also returns whether the last operand was a directory to
/// copy into when the journal was made, which `is_into` says of now.
///
/// # Errors
/// Another job has it, or it belongs to another command.
pub fn claim(path: &Path, identity: &str, is_into: bool) -> Result<(File, bool), JournalError> {
    let failed = |doing, path: &Path| {
        let path = path.to_owned();
        move |error| JournalError::Io(doing, path, error)
    };
    match fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(failed("create the journal", path)(error));
        }
        _ => {}
    }
    let name = path.join("job");
    let mut job = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&name)
        .map_err(failed("open", &name))?;
    lock(&job, path)?;
    // Ranks of a job whose first rank was killed may still be at work.
    for marks in files_of_marks(path)? {
        let file = OpenOptions::new().write(true).open(&marks).map_err(failed("open", &marks))?;
        lock(&file, path)?;
    }
    let line = |is_into| format!("{JOB_LINE}{identity}\n{}\n", if is_into { "into" } else { "at" });
    let wanted = line(is_into);
    let mut found = String::new();
    job.read_to_string(&mut found).map_err(failed("read", &name))?;
    if found != wanted && wanted.starts_with(&found) {
        // A crash may leave a beginning of the first start, when nothing is noted yet.
        job.write_all_at(wanted.as_bytes(), 0)
            .and_then(|()| job.sync_all())
            .and_then(|()| sync_directory(path))
            .and_then(|()| sync_directory(&above(path)))
            .map_err(failed("write", &name))?;
        return Ok((job, is_into));
    }
    match [false, true].into_iter().find(|is_into| found == line(*is_into)) {
        Some(is_into) => Ok((job, is_into)),
        None => Err(JournalError::Other(path.to_owned())),
    }
}

/// Claims the journal of a job in rank 0, and opens its part. Also returns what [`claim`] does.
/// Messages are printed.
///
/// # Errors
/// The exit status, if it cannot be used.
pub fn open_first(
    command: &str,
    path: &Path,
    identity: &str,
    is_into: bool,
) -> Result<(Journal, bool), ExitCode> {
    let opened = claim(path, identity, is_into).and_then(|(job, was_into)| {
        let (journal, told) = Journal::open(path, 0, Some(job))?;
        told.iter().for_each(|told| say(command, told));
        Ok((journal, was_into))
    });
    opened.map_err(|error| {
        say(command, &error);
        ExitCode::from(2)
    })
}

/// Opens the part of a rank other than 0. If it cannot be used, the job ends.
pub fn open_other(ranks: &Ranks, command: &str, path: &Path) -> Journal {
    match Journal::open(path, ranks.rank(), None) {
        Ok((journal, _)) => journal,
        Err(error) => {
            say(command, &error);
            ranks.abort(2);
        }
    }
}

fn above(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

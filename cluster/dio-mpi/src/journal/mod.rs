//! The journal of a job: what of it is durable. It is a directory with the file `job`, which says
//! what the job is (`job`), and one file of marks for each rank.
//!
//! A file of marks begins with a line that says so, and goes on with records (`records`), each
//! appended and synced after what it notes was (`noting`). A record that is not whole, and what
//! follows it, is not believed: then this is done again. Marks are about files, whatever rank
//! noted them, so that a job may go on with another number of ranks.

mod job;
mod noting;
mod records;

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use dio_cli::tool::{Mark, Notes};
use rustix::fs::{FlockOperation, fcntl_lock};

pub use job::{claim, identity_of, open_first, open_other, say};
pub use noting::{Notebook, Noting};
use records::Noted;

/// The reason why a journal cannot be used.
#[derive(Debug)]
pub enum JournalError {
    /// An operation on a file of it failed.
    Io(&'static str, PathBuf, io::Error),
    /// Another job has it.
    InUse(PathBuf),
    /// It belongs to another command line, or is something else.
    Other(PathBuf),
}

impl std::fmt::Display for JournalError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Io(doing, path, error) => {
                write!(f, "cannot {doing} '{}': {error}", path.display())
            }
            Self::InUse(path) => {
                write!(f, "'{}' is in use by another job: wait for its end", path.display())
            }
            Self::Other(path) => write!(
                f,
                "'{}' is not the journal of this command in this directory: give another name, or \
                 remove it",
                path.display()
            ),
        }
    }
}

/// The part of a journal that one rank has open.
pub struct Journal {
    /// All notes that were found.
    known: Noted,
    /// Notes of what is complete.
    complete: Mutex<Noted>,
    /// A sync has failed. The kernel tells of a write that failed only once, which may have been of
    /// a file whose mark comes later, so nothing more is noted.
    has_failed: AtomicBool,
    marks: Mutex<Marks>,
    path: PathBuf,
    /// Keeps other jobs away, in rank 0.
    _job: Option<File>,
}

/// A rank's own file of marks.
struct Marks {
    file: File,
    /// The end of the records that were written and synced. What a failed write has left behind it
    /// is overwritten by the next one.
    end: u64,
}

impl Marks {
    fn append(&mut self, records: &[u8]) -> io::Result<()> {
        self.file.write_all_at(records, self.end)?;
        self.file.sync_data()?;
        self.end += records.len() as u64;
        Ok(())
    }
}

impl Notes for Journal {
    fn is_durable(&self, mark: &Mark) -> bool {
        self.known.has_mark(mark)
    }

    fn completed(&self, mark: Mark) {
        self.complete.lock().expect("no thread panics with it").add_mark(mark);
    }

    fn value(&self, mark: &Mark) -> Option<Vec<u8>> {
        self.known.value(mark).map(Vec::from)
    }

    fn note(&self, mark: Mark, value: &[u8]) {
        self.complete.lock().expect("no thread panics with it").add_value(mark, value);
    }

    fn note_now(&self, mark: Mark, value: &[u8]) -> io::Result<()> {
        let mut noted = Noted::default();
        noted.add_value(mark, value);
        self.marks.lock().expect("no thread panics with it").append(&noted.records())
    }
}

impl Journal {
    /// Opens the part of `rank`, and reads the marks of all. Returns messages about damage too.
    ///
    /// # Errors
    /// A file cannot be read or written, or another job has it.
    pub fn open(
        path: &Path,
        rank: usize,
        job: Option<File>,
    ) -> Result<(Journal, Vec<String>), JournalError> {
        let failed =
            |doing, path: PathBuf| move |error| JournalError::Io(doing, path.clone(), error);
        let (mut known, mut told, mut end) = (Noted::default(), Vec::new(), 0);
        let own = path.join(format!("marks.{rank}"));
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&own)
            .map_err(failed("open", own.clone()))?;
        lock(&file, path)?;
        for name in files_of_marks(path)? {
            let bytes = if name == own {
                // POSIX drops the lock of a file when the process closes any descriptor of it.
                read_all(&file).map_err(failed("read", name.clone()))?
            } else {
                fs::read(&name).map_err(failed("read", name.clone()))?
            };
            let (valid, damaged) = records::read(&bytes, &mut known);
            if damaged {
                told.push(format!(
                    "'{}' is damaged at byte {valid}: what is noted there is done again",
                    name.display()
                ));
            }
            if name == own {
                end = valid;
            }
        }
        known.sort();
        let end = begin(&file, end as u64).map_err(failed("write", own.clone()))?;
        sync_directory(path).map_err(failed("sync", path.to_owned()))?;
        let journal = Journal {
            known,
            complete: Mutex::default(),
            has_failed: AtomicBool::new(false),
            marks: Mutex::new(Marks { file, end }),
            path: own,
            _job: job,
        };
        Ok((journal, told))
    }

    /// Notes what is complete, after `sync` has made it durable.
    ///
    /// # Errors
    /// Errors of the sync; then nothing is noted, also by later calls, which succeed. A record that
    /// cannot be written.
    pub fn write_notes(&self, sync: impl FnOnce() -> io::Result<()>) -> Result<(), JournalError> {
        let complete =
            std::mem::take(&mut *self.complete.lock().expect("no thread panics with it"));
        if complete.is_empty() || self.has_failed.load(Ordering::Acquire) {
            return Ok(());
        }
        let failed = |doing| move |error| JournalError::Io(doing, self.path.clone(), error);
        let synced = sync();
        self.has_failed.fetch_or(synced.is_err(), Ordering::AcqRel);
        synced.map_err(failed("make durable what is to be noted in"))?;
        let mut marks = self.marks.lock().expect("no thread panics with it");
        marks.append(&complete.records()).map_err(failed("write"))
    }

    /// How many notes wait to be written.
    pub fn waiting(&self) -> usize {
        self.complete.lock().expect("no thread panics with it").len()
    }
}

/// Cuts a file of marks off behind its valid records. Returns its end.
fn begin(file: &File, end: u64) -> io::Result<u64> {
    file.set_len(end)?;
    let head = if end == 0 { &records::HEAD[..] } else { &[] };
    file.write_all_at(head, end)?;
    file.sync_all()?;
    Ok(end + head.len() as u64)
}

fn read_all(file: &File) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; file.metadata()?.len() as usize];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

fn files_of_marks(path: &Path) -> Result<Vec<PathBuf>, JournalError> {
    let failed = |error| JournalError::Io("read", path.to_owned(), error);
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.file_name().as_encoded_bytes().starts_with(b"marks.") {
            files.push(entry.path());
        }
    }
    Ok(files)
}

/// Locks a file of the journal at `path`, as long as it is open: by a lock that works between
/// machines.
fn lock(file: &File, path: &Path) -> Result<(), JournalError> {
    match fcntl_lock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::ACCESS) => {
            Err(JournalError::InUse(path.to_owned()))
        }
        Err(errno) => Err(JournalError::Io("lock", path.to_owned(), errno.into())),
    }
}

fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(numbers: std::ops::Range<u8>) -> Vec<Mark> {
        numbers.map(|number| Mark([number; 16])).collect()
    }

    #[test]
    fn marks_are_found_again_by_any_rank() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("journal");
        let (job, _) = claim(&path, "a copy", false).unwrap();
        let (journal, told) = Journal::open(&path, 0, Some(job)).unwrap();
        assert!(told.is_empty());
        marks(5..9).into_iter().for_each(|mark| journal.completed(mark));
        journal.note(marks(20..21)[0], b"after the sync");
        journal.note_now(marks(21..22)[0], b"at once").unwrap();
        journal.write_notes(|| Ok(())).unwrap();
        marks(0..3).into_iter().for_each(|mark| journal.completed(mark));
        assert!(journal.write_notes(|| Err(io::Error::other("no sync"))).is_err());
        // A file of which a write failed before that sync may be complete only now.
        marks(3..5).into_iter().for_each(|mark| journal.completed(mark));
        journal.write_notes(|| Ok(())).unwrap();
        drop(journal);
        assert!(matches!(claim(&path, "another", false), Err(JournalError::Other(_))));
        let (job, is_into) = claim(&path, "a copy", true).unwrap();
        assert!(!is_into, "as when it was made");
        let (journal, told) = Journal::open(&path, 1, Some(job)).unwrap();
        assert!(told.is_empty());
        let is_durable: Vec<bool> =
            marks(0..10).iter().map(|mark| journal.is_durable(mark)).collect();
        let expected: Vec<bool> = (0..10).map(|number| (5..9).contains(&number)).collect();
        assert_eq!(is_durable, expected, "what was not synced is not noted");
        let values = marks(20..23).iter().map(|mark| journal.value(mark)).collect::<Vec<_>>();
        let noted = [Some(&b"after the sync"[..]), Some(b"at once"), None];
        assert_eq!(values, noted.map(|value| value.map(Vec::from)));
    }

    #[test]
    fn a_record_that_a_failed_write_left_is_overwritten() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("journal");
        let (job, _) = claim(&path, "a job", false).unwrap();
        let (journal, _) = Journal::open(&path, 0, Some(job)).unwrap();
        let file = scratch.path().join("journal/marks.0");
        journal.note_now(marks(1..2)[0], b"one").unwrap();
        let end = file.metadata().unwrap().len();
        let half = File::options().write(true).open(&file).unwrap();
        half.write_all_at(&[0; 30], end).unwrap();
        journal.note_now(marks(2..3)[0], b"another").unwrap();
        drop(journal);
        let (journal, told) = Journal::open(&path, 0, None).unwrap();
        assert!(told.is_empty(), "{told:?}");
        assert_eq!(journal.value(&marks(2..3)[0]), Some(b"another".to_vec()));
    }
}

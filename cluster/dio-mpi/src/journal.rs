//! The journal of a job: which copies are durable. It is a directory with the file `job`, which
//! says what the job is, and one file of marks for each rank.
//!
//! A file of marks begins with a line that says so, and goes on with records, each appended and
//! synced after the copies that it notes were. A record that is not whole, and what follows it, is
//! not believed: then these files are copied again. Marks are about files, whatever rank copied
//! them, so that a job may go on with another number of ranks.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use dio_cli::commands::cp::shared::{CopyMark, Notes};
use rustix::fs::{FlockOperation, fcntl_lock};

/// The beginning of a file of marks.
const HEAD: &[u8; 16] = b"dio-mpi marks 1\n";

/// The first line of the file `job`.
const JOB_LINE: &str = "dio-mpi job 1\n";

/// Bytes of a mark.
const MARK: usize = 16;

/// Maximum number of marks in one record, and of those that wait: more would be a mistake of ours
/// or damage.
const RECORD_MARKS_MAX: usize = 1 << 20;

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
    /// All marks that were found, sorted.
    known: Vec<CopyMark>,
    /// Marks of copies that are complete.
    complete: Mutex<Vec<CopyMark>>,
    marks: Mutex<File>,
    path: PathBuf,
    /// Keeps other jobs away, in rank 0.
    _job: Option<File>,
}

impl Notes for Journal {
    fn is_durable(&self, mark: &CopyMark) -> bool {
        self.known.binary_search(mark).is_ok()
    }

    fn completed(&self, mark: CopyMark) {
        self.complete.lock().expect("no thread panics with it").push(mark);
    }
}

/// Opens the journal of a job in rank 0, before the other ranks do: makes it if there is none.
/// `identity` tells commands apart. Also returns whether the last operand was a directory to copy
/// into when the journal was made, which `is_into` says of now.
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
        let (mut known, mut told, mut end) = (Vec::new(), Vec::new(), 0);
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
            let (valid, damaged) = read_marks(&bytes, &mut known);
            if damaged {
                told.push(format!(
                    "'{}' is damaged at byte {valid}: what is noted there is copied again",
                    name.display()
                ));
            }
            if name == own {
                end = valid;
            }
        }
        known.sort_unstable();
        known.dedup();
        let mut file = file;
        begin(&mut file, end).map_err(failed("write", own.clone()))?;
        sync_directory(path).map_err(failed("sync", path.to_owned()))?;
        let journal = Journal {
            known,
            complete: Mutex::default(),
            marks: Mutex::new(file),
            path: own,
            _job: job,
        };
        Ok((journal, told))
    }

    /// Notes what is complete, after `sync` has made it durable.
    ///
    /// # Errors
    /// Errors of the sync; then nothing is noted. A record that cannot be written.
    pub fn note(&self, sync: impl FnOnce() -> io::Result<()>) -> Result<(), JournalError> {
        let marks = std::mem::take(&mut *self.complete.lock().expect("no thread panics with it"));
        if marks.is_empty() {
            return Ok(());
        }
        let failed = |doing| move |error| JournalError::Io(doing, self.path.clone(), error);
        sync().map_err(failed("make durable what is to be noted in"))?;
        let mut file = self.marks.lock().expect("no thread panics with it");
        for marks in marks.chunks(RECORD_MARKS_MAX) {
            file.write_all(&record(marks)).map_err(failed("write"))?;
        }
        file.sync_data().map_err(failed("sync"))
    }

    /// How many copies wait to be noted.
    pub fn waiting(&self) -> usize {
        self.complete.lock().expect("no thread panics with it").len()
    }
}

/// A record: the number of marks, the marks, and a digest of both.
fn record(marks: &[CopyMark]) -> Vec<u8> {
    let mut bytes = u32::try_from(marks.len()).expect("it is a part").to_le_bytes().to_vec();
    marks.iter().for_each(|mark| bytes.extend(mark.0));
    let digest = blake3::hash(&bytes);
    bytes.extend(&digest.as_bytes()[..MARK]);
    bytes
}

/// Reads the records of a file of marks. Returns where the valid ones end, and whether what follows
/// is more than a record that was cut short.
fn read_marks(bytes: &[u8], marks: &mut Vec<CopyMark>) -> (usize, bool) {
    if !bytes.starts_with(HEAD) {
        return (0, !HEAD.starts_with(bytes));
    }
    let mut at = HEAD.len();
    while let Some(count) = bytes.get(at..at + 4) {
        let count = u32::from_le_bytes(count.try_into().expect("four bytes")) as usize;
        let end = at + 4 + count * MARK;
        let whole = count <= RECORD_MARKS_MAX && bytes.len() >= end + MARK;
        if !whole {
            return (at, count > RECORD_MARKS_MAX);
        }
        let (record, digest) = (&bytes[at..end], &bytes[end..end + MARK]);
        if blake3::hash(record).as_bytes()[..MARK] != *digest {
            // After a crash, the last record may have its length but not its bytes.
            return (at, bytes.len() > end + MARK);
        }
        let found = record[4..].chunks_exact(MARK);
        marks.extend(found.map(|mark| CopyMark(mark.try_into().expect("a whole mark"))));
        at = end + MARK;
    }
    (at, false)
}

/// Cuts a file of marks off behind its valid records, and goes to its end.
fn begin(file: &mut File, end: usize) -> io::Result<()> {
    file.set_len(end as u64)?;
    io::Seek::seek(file, io::SeekFrom::End(0))?;
    if end == 0 {
        file.write_all(HEAD)?;
    }
    file.sync_all()
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

fn above(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(numbers: std::ops::Range<u8>) -> Vec<CopyMark> {
        numbers.map(|number| CopyMark([number; MARK])).collect()
    }

    #[test]
    fn a_journal_cut_anywhere_or_changed_anywhere_is_believed_up_to_there() {
        let mut whole = HEAD.to_vec();
        let mut ends = vec![HEAD.len()];
        for part in [0..3, 3..4, 4..9] {
            whole.extend(record(&marks(part)));
            ends.push(whole.len());
        }
        let counts = [0, 3, 4, 9];
        for cut in 0..=whole.len() {
            let mut found = Vec::new();
            let (valid, damaged) = read_marks(&whole[..cut], &mut found);
            let records = ends.iter().filter(|end| **end <= cut).count();
            let expected = if records == 0 { 0 } else { counts[records - 1] };
            assert_eq!((found, damaged), (marks(0..expected), false), "cut at {cut}");
            assert_eq!(valid, if records == 0 { 0 } else { ends[records - 1] });
        }
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            let mut found = Vec::new();
            read_marks(&changed, &mut found);
            let records = ends.iter().filter(|end| **end <= at).count();
            let expected = if records == 0 { 0 } else { counts[records - 1] };
            assert_eq!(found, marks(0..expected), "changed at {at}");
        }
    }

    #[test]
    fn marks_are_found_again_by_any_rank() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("journal");
        let (job, _) = claim(&path, "a copy", false).unwrap();
        let (journal, told) = Journal::open(&path, 0, Some(job)).unwrap();
        assert!(told.is_empty());
        marks(0..5).into_iter().for_each(|mark| journal.completed(mark));
        assert!(journal.note(|| Err(io::Error::other("no sync"))).is_err());
        marks(5..9).into_iter().for_each(|mark| journal.completed(mark));
        journal.note(|| Ok(())).unwrap();
        drop(journal);
        assert!(matches!(claim(&path, "another", false), Err(JournalError::Other(_))));
        let (job, is_into) = claim(&path, "a copy", true).unwrap();
        assert!(!is_into, "as when it was made");
        let (journal, _) = Journal::open(&path, 1, Some(job)).unwrap();
        let is_durable: Vec<bool> =
            marks(0..10).iter().map(|mark| journal.is_durable(mark)).collect();
        let expected: Vec<bool> = (0..10).map(|number| (5..9).contains(&number)).collect();
        assert_eq!(is_durable, expected, "what was not synced is not noted");
    }
}

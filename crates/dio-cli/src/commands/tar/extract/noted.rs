//! Notes of the files that several processes have extracted, so that a job that goes on does not
//! extract them again.
//!
//! A note is about the archive in the state that it is in, the place of the data in it, and the
//! file that was made of them in the state that that is in. Nothing else is believed: a file that
//! somebody has changed or replaced is extracted again, and so is every file if the archive has
//! changed. A link that the archive makes to a file changes its state, so that is noted too.
//!
//! A large file keeps its hidden name, by which the next attempt finds it, and each piece that is
//! durable has a note. The time when a file was made tells it from a later one with its inode;
//! where the file system does not know it, large files have notes only when they are complete.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Statx, StatxFlags, openat, statx};
use rustix::io::Errno;

use super::root::Dir;
use crate::tool::{Birth, FileState, Mark, Notes};
use dio::names;

/// How many links that the archive has made of a file are followed.
const LINKS_MAX: usize = 4096;

/// The notes about the files of one archive.
#[derive(Clone)]
pub(super) struct ExtractNotes {
    notes: Arc<dyn Notes>,
    archive: FileState,
}

/// A large file of which pieces are noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotedFile {
    inode: u64,
    born: (i64, u32),
}

/// The note by which the next attempt finds a large file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct HiddenNote {
    /// Grows from note to note.
    number: u64,
    /// What it is made of.
    data: Mark,
    file: NotedFile,
    hidden: CString,
}

impl std::fmt::Debug for ExtractNotes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExtractNotes").field("archive", &self.archive).finish_non_exhaustive()
    }
}

impl ExtractNotes {
    /// Begins to note what is extracted of an archive in this state.
    pub(super) fn new(notes: &Arc<dyn Notes>, archive: FileState) -> ExtractNotes {
        ExtractNotes { notes: Arc::clone(notes), archive }
    }

    /// Notes a complete file of the data at `start`, after the next sync.
    pub(super) fn extracted(&self, start: u64, file: impl AsFd) {
        if let Ok(found) = statx(file, c"", AtFlags::EMPTY_PATH, wanted()) {
            self.notes.completed(self.mark_of(start, &state_of(&found)));
        }
    }

    /// Whether a file is there as an earlier attempt has extracted and noted it.
    pub(super) fn is_extracted(&self, dir: &Dir, name: &CStr, start: u64) -> bool {
        let Some(mut state) = state_at(dir, name) else { return false };
        for _ in 0..LINKS_MAX {
            if self.notes.is_durable(&self.mark_of(start, &state)) {
                return true;
            }
            let before = self.notes.value(&self.mark_of_link(&state));
            let Some(before) = before.and_then(|state| state.try_into().ok()) else { break };
            state = before;
        }
        false
    }

    /// Makes another name of a file, and notes that nothing but this has changed it.
    pub(super) fn linking(&self, dir: &Dir, name: &CStr, link: impl FnOnce() -> bool) {
        let before = state_at(dir, name);
        if !link() {
            return;
        }
        if let (Some(before), Some(after)) = (before, state_at(dir, name)) {
            self.notes.note(self.mark_of_link(&after), &before);
        }
    }

    fn mark_of(&self, start: u64, state: &State) -> Mark {
        Mark::from_hash(self.hasher(b"file", start).update(state))
    }

    fn mark_of_link(&self, state: &State) -> Mark {
        Mark::from_hash(self.hasher(b"link", 0).update(state))
    }

    /// Opens the hidden file of `size` bytes that an earlier attempt has made for the data at
    /// `start`. If somebody has given it another size, or the archive has changed, it is removed.
    pub(super) fn hidden_file(
        &self,
        (dir, name): (&Dir, &CStr),
        start: u64,
        size: u64,
    ) -> Option<(OwnedFd, CString)> {
        let note = self.hidden_note(dir, name)?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let place = openat(dir, &*note.hidden, flags, Mode::empty()).ok()?;
        let found = statx(&place, c"", AtFlags::EMPTY_PATH, wanted()).ok()?;
        let is_it = FileType::from_raw_mode(found.stx_mode.into()) == FileType::RegularFile
            && found.stx_nlink == 1
            && NotedFile::of(&found) == Some(note.file);
        if !is_it {
            return None;
        }
        if found.stx_size != size || note.data != self.mark_of_data(start) {
            // If it stays, it only takes space.
            let _ = names::unlinkat(dir, &note.hidden);
            return None;
        }
        if dio_sys::reopen(&place, OFlags::RDWR).is_err() {
            // It has got its attributes already, but not its name.
            rustix::fs::chmod(dio_sys::fd_path(&place), Mode::RUSR | Mode::WUSR).ok()?;
        }
        Some((dio_sys::reopen(&place, OFlags::RDWR).ok()?, note.hidden))
    }

    /// Notes durably that the file that has the name `hidden`, or gets it then, is for the data at
    /// `start`, and becomes `name`. Returns `None` if the file system does not know when it was
    /// made.
    ///
    /// # Errors
    /// Errors of `statx(2)` and of the journal.
    pub(super) fn hidden_as(
        &self,
        (dir, name): (&Dir, &CStr),
        start: u64,
        fd: &OwnedFd,
        hidden: &CStr,
    ) -> Result<Option<NotedFile>, Errno> {
        let Some(file) = NotedFile::of_open(fd) else { return Ok(None) };
        let earlier = self.hidden_note(dir, name);
        let number = earlier.map_or(0, |earlier| earlier.number + 1);
        let (data, hidden) = (self.mark_of_data(start), hidden.to_owned());
        let note = HiddenNote { number, data, file, hidden };
        let noted = self.notes.note_now(mark_of_hidden(dir, name), &note.encode());
        noted.map_err(|error| crate::tool::errno_of(&error))?;
        Ok(Some(file))
    }

    fn hidden_note(&self, dir: &Dir, name: &CStr) -> Option<HiddenNote> {
        HiddenNote::decode(&self.notes.value(&mark_of_hidden(dir, name))?)
    }

    fn mark_of_data(&self, start: u64) -> Mark {
        Mark::from_hash(&self.hasher(b"data", start))
    }

    /// Notes a piece of a large file, whose data begin at `start`.
    pub(super) fn written(&self, file: NotedFile, start: u64) {
        self.notes.completed(self.mark_of_piece(file, start));
    }

    /// Whether an earlier attempt has noted this piece.
    pub(super) fn is_written(&self, file: NotedFile, start: u64) -> bool {
        self.notes.is_durable(&self.mark_of_piece(file, start))
    }

    fn mark_of_piece(&self, file: NotedFile, start: u64) -> Mark {
        let mut hasher = self.hasher(b"part", start);
        Mark::from_hash(hasher.update(&file.encode()))
    }

    fn hasher(&self, what: &[u8; 4], start: u64) -> blake3::Hasher {
        let mut hasher = blake3::Hasher::new();
        hasher.update(what).update(&start.to_le_bytes());
        self.archive.add_to(&mut hasher);
        hasher
    }
}

/// The mark of the note about the hidden file for a name. It is found whatever archive it was made
/// of.
fn mark_of_hidden(dir: &Dir, name: &CStr) -> Mark {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"hidden").update(&dir.id.inode().to_le_bytes());
    Mark::from_hash(hasher.update(name.to_bytes()))
}

/// The inode, size and times of a file.
type State = [u8; 64];

fn state_of(found: &Statx) -> State {
    let mut state = [0; 64];
    let born = Birth::of(found).born.unwrap_or_default();
    let (modified, changed) = (&found.stx_mtime, &found.stx_ctime);
    let numbers = [
        found.stx_ino as i64,
        found.stx_size as i64,
        modified.tv_sec,
        modified.tv_nsec.into(),
        changed.tv_sec,
        changed.tv_nsec.into(),
        born.0,
        born.1.into(),
    ];
    for (place, number) in state.chunks_exact_mut(8).zip(numbers) {
        place.copy_from_slice(&number.to_le_bytes());
    }
    state
}

/// The state of the regular file that has a name.
fn state_at(dir: &Dir, name: &CStr) -> Option<State> {
    let found = statx(dir, name, AtFlags::SYMLINK_NOFOLLOW, wanted()).ok()?;
    let is_file = FileType::from_raw_mode(found.stx_mode.into()) == FileType::RegularFile;
    is_file.then(|| state_of(&found))
}

/// What `statx(2)` is asked for.
fn wanted() -> StatxFlags {
    StatxFlags::BASIC_STATS | Birth::WANTED
}

impl NotedFile {
    /// A file, if the file system knows when it was made.
    pub(super) fn of(found: &Statx) -> Option<NotedFile> {
        let Birth { inode, born } = Birth::of(found);
        Some(NotedFile { inode, born: born? })
    }

    /// An open file.
    pub(super) fn of_open(fd: impl AsFd) -> Option<NotedFile> {
        NotedFile::of(&statx(fd, c"", AtFlags::EMPTY_PATH, wanted()).ok()?)
    }

    fn encode(self) -> [u8; 20] {
        let mut bytes = [0; 20];
        bytes[..8].copy_from_slice(&self.inode.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.born.0.to_be_bytes());
        bytes[16..].copy_from_slice(&self.born.1.to_be_bytes());
        bytes
    }
}

impl HiddenNote {
    fn encode(&self) -> Vec<u8> {
        let number = self.number.to_be_bytes();
        [&number[..], &self.data.0, &self.file.encode(), self.hidden.as_bytes_with_nul()].concat()
    }

    fn decode(noted: &[u8]) -> Option<HiddenNote> {
        let (number, rest) = noted.split_first_chunk()?;
        let (data, rest) = rest.split_first_chunk()?;
        let (inode, rest) = rest.split_first_chunk()?;
        let (seconds, rest) = rest.split_first_chunk()?;
        let (nanoseconds, name) = rest.split_first_chunk()?;
        let hidden = CString::from_vec_with_nul(name.to_vec()).ok()?;
        // Only a name in the directory of the file.
        let is_name = !hidden.is_empty() && !hidden.as_bytes().contains(&b'/');
        is_name.then(|| HiddenNote {
            number: u64::from_be_bytes(*number),
            data: Mark(*data),
            file: NotedFile {
                inode: u64::from_be_bytes(*inode),
                born: (i64::from_be_bytes(*seconds), u32::from_be_bytes(*nanoseconds)),
            },
            hidden,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hidden_file_is_named_in_its_directory_only() {
        let file = NotedFile { inode: 7, born: (-3, 999_999_999) };
        let note =
            HiddenNote { number: 2, data: Mark([5; 16]), file, hidden: c".dio-1".to_owned() };
        let noted = note.encode();
        assert_eq!(HiddenNote::decode(&noted), Some(note.clone()));
        assert!((0..noted.len()).all(|cut| HiddenNote::decode(&noted[..cut]).is_none()));
        for name in [c"", c"../other", c"/etc/passwd"] {
            let elsewhere = HiddenNote { hidden: name.to_owned(), ..note.clone() };
            assert_eq!(HiddenNote::decode(&elsewhere.encode()), None);
        }
        let later = HiddenNote { number: 300, ..note };
        assert!(later.encode() > noted, "the later of two notes is the greater one");
    }
}

//! Digests that are noted, so that a job that goes on does not read their files again.
//!
//! A note is about the digests of a file, or of a piece of one, in the state that the file had
//! before and after it was read. So nothing is noted of a file that changed meanwhile, and a note
//! is not found of one that has changed since.

use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use dio::names;
use dio_digest::{DigestKind, DigestPart, Sum};
use rustix::fs::{AtFlags, CWD, FileType, StatxFlags, statx};

use super::super::format::Piece;
use crate::tool::{FileState, Mark, Notes};

/// What digests are of.
#[derive(Clone, Copy)]
pub(super) struct Subject<'a> {
    pub(super) path: &'a Path,
    pub(super) kinds: &'a [DigestKind],
    pub(super) piece: Option<Piece>,
}

/// The digests of a subject, or what they are joined of.
pub(super) trait Digests: Sized {
    /// Tells the types apart.
    const NAME: &'static [u8];

    /// Returns bytes to note; `None` if these are not digests of so many bytes.
    fn encode(&self, length: u64) -> Option<Vec<u8>>;

    /// Reads what was noted of so many bytes.
    fn decode(noted: &[u8], kinds: &[DigestKind], length: u64) -> Option<Self>;
}

impl Digests for Vec<Sum> {
    const NAME: &'static [u8] = b"sums";

    fn encode(&self, length: u64) -> Option<Vec<u8>> {
        let is_whole = self.iter().all(|sum| sum.length == length);
        is_whole.then(|| self.iter().flat_map(|sum| sum.bytes.iter().copied()).collect())
    }

    fn decode(mut noted: &[u8], kinds: &[DigestKind], length: u64) -> Option<Self> {
        let mut sums = Vec::new();
        for kind in kinds {
            let (bytes, rest) = noted.split_at_checked(kind.bytes)?;
            sums.push(Sum { bytes: bytes.to_vec(), length });
            noted = rest;
        }
        noted.is_empty().then_some(sums)
    }
}

/// One part of each digest.
impl Digests for Vec<DigestPart> {
    const NAME: &'static [u8] = b"parts";

    fn encode(&self, _: u64) -> Option<Vec<u8>> {
        let mut noted = Vec::new();
        for part in self {
            let bytes = part.to_bytes();
            noted.extend(u16::try_from(bytes.len()).ok()?.to_le_bytes());
            noted.extend(bytes);
        }
        Some(noted)
    }

    fn decode(mut noted: &[u8], kinds: &[DigestKind], _: u64) -> Option<Self> {
        let mut parts = Vec::new();
        for kind in kinds {
            let (length, rest) = noted.split_at_checked(2)?;
            let length = u16::from_le_bytes(length.try_into().ok()?);
            let (bytes, rest) = rest.split_at_checked(length.into())?;
            parts.push(DigestPart::from_bytes(*kind, bytes)?);
            noted = rest;
        }
        noted.is_empty().then_some(parts)
    }
}

/// Returns the digests that are noted of a subject, and their length. Otherwise has `compute`
/// compute and return them, and notes what `digests` finds in that.
pub(super) fn noted_or<D: Digests, T>(
    notes: Option<&Arc<dyn Notes>>,
    subject: Subject<'_>,
    known: impl FnOnce(D, u64) -> T,
    compute: impl FnOnce() -> T,
    digests: impl FnOnce(&T) -> Option<&D>,
) -> T {
    let Some(notes) = notes else { return compute() };
    let Some(before) = state(subject.path) else { return compute() };
    let length = subject.piece.map_or(before.size, |piece| piece.length);
    let mark = mark(subject, D::NAME, &before);
    if let Some(noted) = notes.value(&mark)
        && let Some(found) = D::decode(&noted, subject.kinds, length)
    {
        return known(found, length);
    }
    let computed = compute();
    if let Some(found) = digests(&computed)
        && let Some(noted) = found.encode(length)
        && !is_striped(subject.path)
        && state(subject.path) == Some(before)
    {
        notes.note(mark, &noted);
    }
    computed
}

/// The state of the regular file that a path leads to, as the server of its file system has it now.
fn state(path: &Path) -> Option<FileState> {
    let found = statx(CWD, path, AtFlags::STATX_FORCE_SYNC, StatxFlags::BASIC_STATS).ok()?;
    let is_file = FileType::from_raw_mode(found.stx_mode.into()) == FileType::RegularFile;
    is_file.then(|| FileState {
        inode: found.stx_ino,
        size: found.stx_size,
        modified: (found.stx_mtime.tv_sec, found.stx_mtime.tv_nsec.into()),
        changed: (found.stx_ctime.tv_sec, found.stx_ctime.tv_nsec.into()),
    })
}

/// Whether a file is striped, so that its state does not tell of its contents. One that cannot be
/// read is treated as if it were.
fn is_striped(path: &Path) -> bool {
    File::open(path).map_or(true, |file| names::is_striped(&file).unwrap_or(true))
}

/// The mark of the digests of a subject whose file is in a state.
fn mark(subject: Subject<'_>, name: &[u8], state: &FileState) -> Mark {
    let mut hasher = blake3::Hasher::new();
    let path = subject.path.as_os_str().as_bytes();
    hasher.update(name).update(&(path.len() as u64).to_le_bytes()).update(path);
    state.add_to(&mut hasher);
    let piece = subject.piece.map_or([0; 4], |piece| [1, piece.start, piece.length, piece.size]);
    piece.iter().for_each(|number| {
        hasher.update(&number.to_le_bytes());
    });
    for kind in subject.kinds {
        hasher.update(kind.algorithm.name().as_bytes()).update(b"\0");
        hasher.update(&(kind.bytes as u64).to_le_bytes());
    }
    Mark::from_hash(&hasher)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::fs;
    use std::io;

    use dio_digest::{Algorithm, Hasher, part};
    use parking_lot::Mutex;

    use super::*;

    #[derive(Default)]
    struct Kept(Mutex<HashMap<Mark, Vec<u8>>>);

    impl Notes for Kept {
        fn is_durable(&self, _: &Mark) -> bool {
            false
        }

        fn completed(&self, _: Mark) {}

        fn value(&self, mark: &Mark) -> Option<Vec<u8>> {
            self.0.lock().get(mark).cloned()
        }

        fn note(&self, mark: Mark, value: &[u8]) {
            self.0.lock().insert(mark, value.to_vec());
        }

        fn note_now(&self, mark: Mark, value: &[u8]) -> io::Result<()> {
            self.note(mark, value);
            Ok(())
        }
    }

    const KINDS: [Algorithm; 3] = [Algorithm::Sha256, Algorithm::Crc, Algorithm::Md5];

    fn sums(bytes: &[u8]) -> Vec<Sum> {
        let of = |algorithm: Algorithm| {
            let mut hasher = Hasher::new(algorithm.into());
            hasher.update(bytes);
            hasher.finish()
        };
        KINDS.into_iter().map(of).collect()
    }

    /// The digests of a file that `read` reads, and whether it was called.
    fn digests(
        notes: &Arc<dyn Notes>,
        path: &Path,
        piece: Option<Piece>,
        read: impl FnOnce() -> Vec<u8>,
    ) -> (Vec<Sum>, bool) {
        let kinds = KINDS.map(DigestKind::from);
        noted_or(
            Some(notes),
            Subject { path, kinds: &kinds, piece },
            |sums, _| (sums, false),
            || (sums(&read()), true),
            |(sums, _)| Some(sums),
        )
    }

    #[test]
    fn a_file_is_read_again_only_after_a_change() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("file");
        fs::write(&path, "one").unwrap();
        let notes: Arc<dyn Notes> = Arc::new(Kept::default());
        let read = || fs::read(&path).unwrap();
        assert_eq!(digests(&notes, &path, None, read), (sums(b"one"), true));
        assert_eq!(digests(&notes, &path, None, read), (sums(b"one"), false));
        let piece = Piece { start: 0, length: 3, size: 3 };
        assert!(digests(&notes, &path, Some(piece), read).1, "a piece is another subject");
        assert!(!digests(&notes, &path, Some(piece), read).1);
        // One that changes while it is read is not noted.
        let changing = || {
            let bytes = read();
            fs::write(&path, "two, and more").unwrap();
            bytes
        };
        fs::write(&path, "two, ").unwrap();
        assert_eq!(digests(&notes, &path, None, changing), (sums(b"two, "), true));
        assert_eq!(digests(&notes, &path, None, read), (sums(b"two, and more"), true));
        assert!(!digests(&notes, &path, None, read).1);
        // Another file with the same contents and times is another one.
        let times = fs::metadata(&path).unwrap();
        let other = scratch.path().join("other");
        fs::write(&other, "two, and more").unwrap();
        let modified = fs::FileTimes::new().set_modified(times.modified().unwrap());
        fs::File::options().write(true).open(&other).unwrap().set_times(modified).unwrap();
        fs::rename(&other, &path).unwrap();
        assert!(digests(&notes, &path, None, read).1);
        // What could not be read whole is not noted.
        assert!(digests(&notes, &path, Some(Piece { length: 9, ..piece }), || b"8".to_vec()).1);
        assert!(digests(&notes, &path, Some(Piece { length: 9, ..piece }), || b"8".to_vec()).1);
    }

    #[test]
    fn digests_come_back_as_they_were() {
        let kinds = KINDS.map(DigestKind::from);
        let sums = sums(b"abc");
        let noted = sums.encode(3).unwrap();
        assert_eq!(noted.len(), 32 + 4 + 16);
        assert_eq!(Vec::<Sum>::decode(&noted, &kinds, 3), Some(sums.clone()));
        assert_eq!(sums.encode(4), None);
        for wrong in [&noted[1..], &[&noted[..], b"x"].concat()] {
            assert_eq!(Vec::<Sum>::decode(wrong, &kinds, 3), None);
        }
        let kinds = [Algorithm::Blake3, Algorithm::Crc32c, Algorithm::Sysv].map(DigestKind::from);
        let bytes = vec![1; 100_000];
        let parts: Vec<_> = kinds.iter().map(|kind| part(*kind, &bytes, 0).unwrap()).collect();
        let noted = parts.encode(100_000).unwrap();
        let read = Vec::<DigestPart>::decode(&noted, &kinds, 100_000).unwrap();
        assert_eq!(read.encode(100_000), Some(noted.clone()));
        assert!(Vec::<DigestPart>::decode(&noted[1..], &kinds, 100_000).is_none());
        assert!(Vec::<DigestPart>::decode(&noted, &kinds[1..], 100_000).is_none());
    }
}

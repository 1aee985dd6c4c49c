//! Notes of the pieces of an archive that are durable, so that a job that goes on does not write
//! them again.
//!
//! The journal has a note of the archive, by which the next attempt finds it, and one of each
//! piece. That of a piece has two digests: one of its layout and of the files in it, with the state
//! that each was in, and one of the bytes between them, which are headers. A piece with the same
//! digests is left as it is. If only the headers differ, only these are written: headers in the
//! format `pax` have the time of access, which reading changes.
//!
//! 1. A piece is noted when it is durable, and if each of its files was read whole and had not
//!    changed then.
//! 2. Notes of pieces name the hidden name of the archive. Before a piece is overwritten that has a
//!    note, the archive gets another hidden name. So no note is ever about other bytes, whatever
//!    was archived in the attempts between, and also if the end of the journal is lost.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::{AtFlags, Statx, fstat, statx};
use rustix::io::Errno;

use super::super::run::EarlyEnd;
use super::jobs::{PieceNote, Segment};
use crate::tool::target::naming::temporary_name;
use crate::tool::target::{HiddenName, OutputFile};
use crate::tool::{Birth, Mark, Notes, errno_of};

/// Digests of what a piece consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PieceDigests {
    files: [u8; 16],
    headers: [u8; 16],
}

/// How much of a piece an earlier attempt has noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    Nothing,
    /// Other bytes are at its place.
    Other,
    /// All but the bytes of its headers.
    Files,
    All,
}

/// An archive whose pieces are noted.
pub(super) struct NotedArchive {
    notes: Arc<dyn Notes>,
    note: ArchiveNote,
    /// The place of the hidden name in the file system.
    hidden: HiddenName,
    /// The hidden name that notes of earlier attempts are about.
    noted_under: CString,
    /// Its length when this attempt began.
    length: u64,
    /// Places of the pieces that were believed.
    believed: Vec<u64>,
}

/// The note about the archive.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ArchiveNote {
    /// Grows from note to note.
    number: u64,
    inode: u64,
    born: (i64, u32),
    /// The hidden name in the directory of the archive, and the one that it has instead if it was
    /// not renamed yet.
    name: CString,
    previous: CString,
}

impl NotedArchive {
    /// Goes on with the archive that an earlier attempt has noted, or notes a new one, which is
    /// written as `output`. Returns `None` if the file system does not know when files are made.
    ///
    /// # Errors
    /// The archive has no hidden name; it cannot be noted.
    pub(super) fn begin(
        notes: &Arc<dyn Notes>,
        output: &mut OutputFile,
    ) -> Result<Option<NotedArchive>, EarlyEnd> {
        let name = output.path().as_os_str().as_bytes().to_vec();
        let failed = |errno| EarlyEnd::on(&name, "open", errno);
        let earlier = notes.value(&mark_of_archive()).and_then(|noted| ArchiveNote::decode(&noted));
        if let Some(earlier) = &earlier {
            let is_it = |found: &Statx| earlier.is_about(found);
            let _ = output.take_over(&earlier.name, is_it).map_err(failed)?
                || output.take_over(&earlier.previous, is_it).map_err(failed)?;
        }
        output.path_for_others().map_err(failed)?;
        let hidden = output.hidden_name().ok_or_else(|| failed(Errno::OPNOTSUPP))?;
        let found = statx(output.descriptor(), c"", AtFlags::EMPTY_PATH, Birth::WANTED);
        let Birth { inode, born: Some(born) } = Birth::of(&found.map_err(failed)?) else {
            return Ok(None);
        };
        let length = fstat(output.descriptor()).map_err(failed)?.st_size as u64;
        let number = earlier.map_or(0, |earlier| earlier.number + 1);
        let name = hidden.name().to_owned();
        let (noted_under, previous) = (name.clone(), name.clone());
        let note = ArchiveNote { number, inode, born, name, previous };
        let (notes, believed) = (Arc::clone(notes), Vec::new());
        let noted = NotedArchive { notes, note, hidden, noted_under, length, believed };
        // After a crash the name has to be there if the note is.
        output.sync_name().map_err(|error| failed(errno_of(&error)))?;
        noted.write()?;
        output.leave_hidden();
        Ok(Some(noted))
    }

    /// Notes the archive.
    fn write(&self) -> Result<(), EarlyEnd> {
        let noted = self.notes.note_now(mark_of_archive(), &self.note.encode());
        noted.map_err(|error| EarlyEnd::on("the journal", "write", errno_of(&error)))
    }

    /// Says what is noted of a piece of so many bytes at `start`.
    pub(super) fn known(&self, start: u64, length: u64, digests: &PieceDigests) -> Known {
        let Some(noted) = self.notes.value(&self.mark(&self.noted_under, start)) else {
            return Known::Nothing;
        };
        let is_there = start + length <= self.length;
        match PieceDigests::decode(&noted).filter(|_| is_there) {
            Some(noted) if noted == *digests => Known::All,
            Some(noted) if noted.files == digests.files => Known::Files,
            _ => Known::Other,
        }
    }

    /// Leaves a piece as it is.
    pub(super) fn believe(&mut self, start: u64, digests: &PieceDigests) {
        match self.is_renewed() {
            true => {
                let note = self.piece_note(start, digests);
                self.notes.note(note.mark, &note.value);
            }
            false => self.believed.push(start),
        }
    }

    /// What is to be noted of a piece at `start`.
    pub(super) fn piece_note(&self, start: u64, digests: &PieceDigests) -> PieceNote {
        PieceNote { mark: self.mark(&self.note.name, start), value: digests.encode() }
    }

    /// Whether pieces may be overwritten that have a note.
    pub(super) fn is_renewed(&self) -> bool {
        self.noted_under != self.note.name
    }

    /// Gives the archive another hidden name, so that no note is about it but those of pieces that
    /// were left as they are. No piece is being written meanwhile. Returns its path.
    ///
    /// # Errors
    /// It cannot be noted or renamed.
    pub(super) fn renew(&mut self) -> Result<PathBuf, EarlyEnd> {
        let new = temporary_name();
        self.note = ArchiveNote {
            number: self.note.number + 1,
            previous: std::mem::replace(&mut self.note.name, new),
            ..self.note.clone()
        };
        self.write()?;
        let renamed = self.hidden.rename(&self.note.name);
        renamed.map_err(|errno| EarlyEnd::on("the archive", "rename", errno))?;
        for start in std::mem::take(&mut self.believed) {
            if let Some(value) = self.notes.value(&self.mark(&self.noted_under, start)) {
                self.notes.note(self.mark(&self.note.name, start), &value);
            }
        }
        Ok(self.hidden.path())
    }

    /// The hidden name that the archive has now.
    pub(super) fn hidden(&self) -> &HiddenName {
        &self.hidden
    }

    fn mark(&self, name: &CString, start: u64) -> Mark {
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"piece").update(name.as_bytes_with_nul());
        hasher.update(&self.note.inode.to_le_bytes());
        hasher.update(&self.note.born.0.to_le_bytes()).update(&self.note.born.1.to_le_bytes());
        Mark::from_hash(hasher.update(&start.to_le_bytes()))
    }
}

fn mark_of_archive() -> Mark {
    Mark::from_hash(blake3::Hasher::new().update(b"archive"))
}

impl ArchiveNote {
    /// Whether a file is this archive.
    fn is_about(&self, found: &Statx) -> bool {
        Birth::of(found) == Birth { inode: self.inode, born: Some(self.born) }
    }

    fn encode(&self) -> Vec<u8> {
        let mut noted = self.number.to_be_bytes().to_vec();
        noted.extend(self.inode.to_be_bytes());
        noted.extend(self.born.0.to_be_bytes());
        noted.extend(self.born.1.to_be_bytes());
        noted.extend(self.name.as_bytes_with_nul());
        noted.extend(self.previous.as_bytes_with_nul());
        noted
    }

    fn decode(noted: &[u8]) -> Option<ArchiveNote> {
        let (number, rest) = noted.split_first_chunk()?;
        let (inode, rest) = rest.split_first_chunk()?;
        let (seconds, rest) = rest.split_first_chunk()?;
        let (nanoseconds, names) = rest.split_first_chunk()?;
        let mut names = names.split_inclusive(|byte| *byte == 0);
        let mut name = || {
            let name = CString::from_vec_with_nul(names.next()?.to_vec()).ok()?;
            // Only a name in the directory of the archive.
            (!name.is_empty() && !name.as_bytes().contains(&b'/')).then_some(name)
        };
        Some(ArchiveNote {
            number: u64::from_be_bytes(*number),
            inode: u64::from_be_bytes(*inode),
            born: (i64::from_be_bytes(*seconds), u32::from_be_bytes(*nanoseconds)),
            name: name()?,
            previous: name()?,
        })
    }
}

impl PieceDigests {
    /// Returns the digests of these segments.
    pub(super) fn of(segments: &[Segment]) -> PieceDigests {
        let [mut files, mut headers] = [blake3::Hasher::new(), blake3::Hasher::new()];
        for segment in segments {
            match segment {
                Segment::Bytes(bytes) => {
                    files.update(b"bytes").update(&(bytes.len() as u64).to_le_bytes());
                    headers.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
                }
                Segment::File { source, offset, length } => {
                    let path = source.path.as_bytes();
                    files.update(b"file ").update(&(path.len() as u64).to_le_bytes()).update(path);
                    source.state.add_to(&mut files);
                    files.update(&offset.to_le_bytes()).update(&length.to_le_bytes());
                }
            }
        }
        let [files, headers] = [files, headers].map(|hasher| Mark::from_hash(&hasher).0);
        PieceDigests { files, headers }
    }

    fn encode(&self) -> Vec<u8> {
        [self.files, self.headers].concat()
    }

    fn decode(noted: &[u8]) -> Option<PieceDigests> {
        let (files, headers) = noted.split_first_chunk()?;
        Some(PieceDigests { files: *files, headers: headers.try_into().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::super::jobs::SourceFile;
    use super::*;
    use crate::tool::FileState;

    #[test]
    fn notes_of_archives_come_back_and_lead_nowhere_else() {
        let note = ArchiveNote {
            number: 7,
            inode: 1 << 40,
            born: (-5, 999_999_999),
            name: c".dio-2".to_owned(),
            previous: c".dio-1".to_owned(),
        };
        let noted = note.encode();
        assert_eq!(ArchiveNote::decode(&noted), Some(note.clone()));
        assert!((0..noted.len()).all(|cut| ArchiveNote::decode(&noted[..cut]).is_none()));
        for name in [c"", c"../other", c"/etc/passwd"] {
            let elsewhere = ArchiveNote { name: name.to_owned(), ..note.clone() };
            assert_eq!(ArchiveNote::decode(&elsewhere.encode()), None);
        }
        let later = ArchiveNote { number: 300, inode: 0, ..note };
        assert!(later.encode() > noted, "the later of two notes is the greater one");
    }

    #[test]
    fn digests_tell_files_and_headers_apart() {
        let state = FileState { inode: 1, size: 100, modified: (2, 3), changed: (4, 5) };
        let segments = |header: &str, path: &str, state: FileState, offset, length| {
            let source = SourceFile { path: path.into(), shown: Vec::new(), state };
            let header = Segment::Bytes(header.as_bytes().to_vec());
            PieceDigests::of(&[header, Segment::File { source, offset, length }])
        };
        let before = segments("header", "/a", state, 0, 100);
        assert_eq!(PieceDigests::decode(&before.encode()), Some(before));
        assert_eq!(PieceDigests::decode(&before.encode()[1..]), None);
        let headers = segments("HEADER", "/a", state, 0, 100);
        assert!(headers.files == before.files && headers.headers != before.headers);
        for other in [
            segments("header", "/b", state, 0, 100),
            segments("header", "/a", state, 1, 100),
            segments("header", "/a", state, 0, 99),
            segments("header", "/a", FileState { inode: 2, ..state }, 0, 100),
            segments("header", "/a", FileState { size: 101, ..state }, 0, 100),
            segments("header", "/a", FileState { modified: (2, 4), ..state }, 0, 100),
            segments("header", "/a", FileState { changed: (5, 5), ..state }, 0, 100),
            segments("longer header", "/a", state, 0, 100),
        ] {
            assert!(other.files != before.files);
        }
    }
}

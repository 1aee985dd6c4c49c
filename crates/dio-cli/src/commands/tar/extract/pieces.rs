//! Large files that several processes extract in pieces, as the process that leads has them: each
//! has a hidden name until all of its pieces are written.

use std::collections::HashMap;
use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;

use dio::names;
use rustix::fs::fstat;
use rustix::io::Errno;

use super::file::{Context, ExtractJob, Finished};
use super::new_file::{NewFile, OldFiles};
use super::noted::NotedFile;
use super::stored::{FilePiece, Parent, Stored};
use crate::tool::FileState;

/// Files with this many bytes of data are written in pieces.
const LARGE: u64 = 64 << 20;

/// Bytes of a file in a piece. Pieces begin at multiples of it, so no block of the disk is written
/// by two processes.
const PIECE_BYTES: u64 = 32 << 20;

/// A large file of which pieces are under way.
struct Large {
    job: ExtractJob,
    /// The place of its data in the archive.
    start: u64,
    /// Whether the next attempt finds it by its hidden name.
    is_noted: bool,
    place: NewFile,
    finished: Finished,
    pieces: usize,
    failed: Option<Errno>,
    /// Whether a part is missing, because the archive cannot be read.
    is_cut: bool,
}

/// The answer to the beginning of a large file.
pub(super) enum Begun {
    /// These pieces of the file with this number are to be written.
    Pieces(u64, Vec<FilePiece>),
    /// Nothing more: it is complete, or the failure was told.
    Over(Finished),
}

/// The large files that are under way.
pub(super) struct LargeFiles<'s> {
    context: &'s Context<'s>,
    archive: FileState,
    files: HashMap<u64, Large>,
    count: u64,
}

impl<'s> LargeFiles<'s> {
    /// None so far, of an archive in this state.
    pub(super) fn new(context: &'s Context<'s>, archive: FileState) -> LargeFiles<'s> {
        LargeFiles { context, archive, files: HashMap::new(), count: 0 }
    }

    /// Whether the file is written in pieces. Striped files are not, nor those whose old contents
    /// are overwritten, nor those that the archive does not have whole.
    pub(super) fn has_pieces(&self, job: &ExtractJob, stored: Stored) -> bool {
        stored.length >= LARGE
            && stored.remaining.is_some_and(|remaining| stored.length <= remaining)
            && self.context.how.old != OldFiles::Overwrite
            && !job.dir.gives_stripes()
    }

    /// Makes a file for which there is room, and says which pieces of it are to be written. `root`
    /// is the number of its root.
    pub(super) fn begin(
        &mut self,
        job: ExtractJob,
        finished: Finished,
        stored: Stored,
        root: usize,
    ) -> Begun {
        let context = self.context;
        let words = job.words(context);
        let Some(mut place) = job.place(context, &words, true) else {
            return Begun::Over(finished);
        };
        let (hidden, inode, noted) = match self.hide(&job, &mut place, stored) {
            Ok(made) => made,
            Err(errno) => {
                words.cannot("write", errno);
                return Begun::Over(finished);
            }
        };
        let whole = [(0, stored.length)];
        let pieces = pieces(job.sparse.as_deref().unwrap_or(&whole), stored.start);
        let works: Vec<_> = pieces
            .into_iter()
            .map(|(start, extents)| FilePiece {
                archive: self.archive,
                shown: job.shown.clone(),
                parent: Parent { root, inode: job.dir.id.inode() },
                directory: job.parent().to_vec(),
                hidden: hidden.clone(),
                inode,
                start,
                extents,
            })
            .filter(|piece| !self.is_written(noted, piece))
            .collect();
        let (number, count, start) = (self.count, works.len(), stored.start);
        let is_noted = noted.is_some();
        self.count += 1;
        let large = Large {
            job,
            start,
            is_noted,
            place,
            finished,
            pieces: count,
            failed: None,
            is_cut: false,
        };
        if works.is_empty() {
            return Begun::Over(self.complete(large));
        }
        self.files.insert(number, large);
        Begun::Pieces(number, works)
    }

    /// Makes a large file ready for its pieces, or goes on with that of an earlier attempt. Returns
    /// its hidden name, its inode, and how its pieces are noted.
    fn hide(
        &self,
        job: &ExtractJob,
        place: &mut NewFile,
        stored: Stored,
    ) -> Result<(CString, u64, Option<NotedFile>), Errno> {
        let noted = self.context.noted.as_ref();
        let name = (&*job.dir, &*job.name);
        if let Some((fd, hidden)) =
            noted.and_then(|it| it.hidden_file(name, stored.start, job.size))
        {
            place.take_over(fd, hidden);
        }
        job.make_room(place, stored.length, stored.remaining)?;
        names::ftruncate(&place.fd, job.size)?;
        let hidden = place.name_to_hide();
        // The note comes first, so that no file is left of which there is none.
        let noted = match noted.map(|it| it.hidden_as(name, stored.start, &place.fd, &hidden)) {
            None => None,
            Some(Ok(noted)) => noted,
            Some(Err(errno)) => {
                let told = crate::quote::words(errno);
                self.context.run.error(format_args!("The journal: Cannot write: {told}"));
                None
            }
        };
        place.hide_as(&hidden)?;
        Ok((hidden, fstat(&place.fd)?.st_ino, noted))
    }

    /// Whether an earlier attempt has noted a piece.
    fn is_written(&self, file: Option<NotedFile>, piece: &FilePiece) -> bool {
        let run = self.context.run;
        let noted = self.context.noted.as_ref().zip(file);
        let is_written = noted.is_some_and(|(noted, file)| noted.is_written(file, piece.start));
        if is_written {
            run.tool.progressed(piece.bytes());
            run.tool.ledger().count_noted(piece.bytes(), 0);
        }
        is_written
    }

    /// A descriptor of a file of which pieces are under way.
    ///
    /// # Errors
    /// Errors of `dup(2)`.
    pub(super) fn descriptor(&self, number: u64) -> io::Result<OwnedFd> {
        self.files.get(&number).ok_or(Errno::BADF)?.place.fd.try_clone()
    }

    /// Takes note of a piece, after the last one of which the file gets its name; then it is
    /// returned. `failed` is the errno of writing it; `is_cut` says that it is missing.
    pub(super) fn take(
        &mut self,
        number: u64,
        failed: Option<i32>,
        is_cut: bool,
    ) -> Option<Finished> {
        let large = self.files.get_mut(&number)?;
        large.pieces -= 1;
        large.is_cut |= is_cut;
        if let Some(errno) = failed {
            large.failed.get_or_insert(Errno::from_raw_os_error(errno));
        }
        if large.pieces > 0 {
            return None;
        }
        self.files.remove(&number).map(|large| self.complete(large))
    }

    /// Gives a large file its name, unless a part of it is missing.
    fn complete(&self, large: Large) -> Finished {
        let Large { job, start, is_noted, mut place, finished, failed, is_cut, .. } = large;
        let words = job.words(self.context);
        match failed {
            _ if is_cut || failed == Some(Errno::INTR) => {
                if is_noted {
                    place.leave();
                }
            }
            Some(errno) => words.cannot("write", errno),
            None => {
                let finish = || job.finish(self.context, &words, place, None);
                let made = self.context.run.fails_in(finish);
                self.context.note(start, made);
            }
        }
        finished
    }
}

/// Cuts the data of a file into pieces: their places in the archive, which begins with the data at
/// `start`, and their extents. Cuts are at multiples of [`PIECE_BYTES`] of the file.
fn pieces(extents: &[(u64, u64)], mut start: u64) -> Vec<(u64, Vec<(u64, u64)>)> {
    let mut pieces: Vec<(u64, Vec<(u64, u64)>)> = Vec::new();
    let (mut window, mut bytes) = (u64::MAX, 0);
    for &(mut offset, mut length) in extents {
        while length > 0 {
            let here = offset / PIECE_BYTES;
            let count = length.min((here + 1) * PIECE_BYTES - offset);
            match pieces.last_mut() {
                // Small parts of several multiples are one piece.
                Some((_, extents)) if here == window || bytes + count <= PIECE_BYTES => {
                    extents.push((offset, count));
                    bytes += count;
                }
                _ => {
                    pieces.push((start, vec![(offset, count)]));
                    bytes = count;
                }
            }
            window = here;
            (offset, length, start) = (offset + count, length - count, start + count);
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn pieces_are_cut_at_multiples_of_their_size() {
        assert_eq!(
            pieces(&[(0, 65 * MIB)], 512),
            [
                (512, vec![(0, 32 * MIB)]),
                (512 + 32 * MIB, vec![(32 * MIB, 32 * MIB)]),
                (512 + 64 * MIB, vec![(64 * MIB, MIB)]),
            ]
        );
        let sparse = [(0, 5), (MIB, 5), (40 * MIB, 5), (63 * MIB, 33 * MIB), (200 * MIB, 0)];
        assert_eq!(
            pieces(&sparse, 0),
            [
                (0, vec![(0, 5), (MIB, 5), (40 * MIB, 5), (63 * MIB, MIB)]),
                (15 + MIB, vec![(64 * MIB, 32 * MIB)]),
            ]
        );
        assert_eq!(pieces(&[], 7), []);
    }
}

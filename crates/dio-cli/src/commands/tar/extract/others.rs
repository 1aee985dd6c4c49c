//! Files that several processes extract, as the process that leads has them.
//!
//! The leader reads the headers, makes directories and links, and finds the directory of each file.
//! Small files go to a [`Crew`] in batches, large ones in pieces: a large file has a hidden name
//! until all of its pieces are written. Answers are taken in the order of the archive.

use std::collections::{HashMap, VecDeque};
use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use dio::{File, Mode};
use rustix::fs::fstat;
use rustix::io::Errno;

use super::super::list::ended;
use super::super::run::EarlyEnd;
use super::file::{Context, ExtractJob, MemberError, Outline};
use super::messages::MemberMessages;
use super::new_file::{NewFile, OldFiles};
use super::noted::NotedFile;
use super::part::{PieceError, count_archive, extract, open_archive, write_piece};
use super::root::Root;
use super::stored::{ExtractAnswer, ExtractWork, FilePiece, Parent, Stored, StoredFile};
use super::stretch::Stretch;
use crate::tool::{Crew, FileState, errno_of};
use dio::names::{self, FileId};

/// Limits of a batch: files, bytes of data, and bytes of memory.
const BATCH_FILES: usize = 128;
const BATCH_BYTES: u64 = 16 << 20;
const BATCH_MEMORY: usize = 1 << 20;

/// Files with this many bytes of data are written in pieces.
const LARGE: u64 = 64 << 20;

/// Bytes of a file in a piece. Pieces begin at multiples of it, so no block of the disk is written
/// by two processes.
const PIECE_BYTES: u64 = 32 << 20;

/// The crew of the processes that extract an archive.
pub(super) type ExtractingCrew<'c> = &'c dyn Crew<ExtractWork, ExtractAnswer>;

/// A file, identified by its directory and its name there, and the data for the lists of the crew.
pub(super) type Finished = ((FileId, std::ffi::CString), Outline);

/// A job that was given out.
enum Given {
    Files(Vec<(StoredFile, Finished)>),
    /// A piece of the large file with this number.
    Piece(u64, FilePiece),
    Sync,
}

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

/// What other processes do.
pub(super) struct Others<'s> {
    crew: ExtractingCrew<'s>,
    /// The state of the archive.
    archive: FileState,
    context: &'s Context<'s>,
    roots: &'s [Arc<Root>],
    batch: Vec<(StoredFile, Finished)>,
    batch_bytes: u64,
    batch_memory: usize,
    /// Jobs under way, in order. `taken` were before.
    given: VecDeque<(Given, Option<ExtractAnswer>)>,
    taken: u64,
    large: HashMap<u64, Large>,
    larges: u64,
    done: Vec<Finished>,
    /// The reason for which nothing more is given out.
    ended: Option<EarlyEnd>,
}

impl<'s> Others<'s> {
    pub(super) fn new(
        (crew, archive): (ExtractingCrew<'s>, FileState),
        context: &'s Context<'s>,
        roots: &'s [Arc<Root>],
    ) -> Others<'s> {
        Others {
            crew,
            archive,
            context,
            roots,
            batch: Vec::new(),
            batch_bytes: 0,
            batch_memory: 0,
            given: VecDeque::new(),
            taken: 0,
            large: HashMap::new(),
            larges: 0,
            done: Vec::new(),
            ended: None,
        }
    }

    /// Returns the files that were finished since the last call.
    pub(super) fn take_done(&mut self) -> Vec<Finished> {
        std::mem::take(&mut self.done)
    }

    /// Whether nothing more is given out.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Has a file extracted.
    pub(super) fn give(&mut self, job: ExtractJob, finished: Finished, stored: Stored) {
        let root = self.roots.iter().position(|root| Arc::ptr_eq(root, &job.root));
        let Some(root) = root.filter(|_| self.ended.is_none()) else {
            return self.done.push(finished);
        };
        if let Some(noted) = &self.context.noted
            && noted.is_extracted(&job.dir, &job.name, stored.start)
        {
            self.context.run.tool.progressed(stored.length);
            self.context.run.tool.ledger().count_noted(stored.length, 1);
            return self.done.push(finished);
        }
        if self.is_large(&job, stored) {
            return self.give_pieces(job, finished, stored, root);
        }
        let is_steered = self.context.steered.has(job.dir.id);
        let memory = job.bytes();
        let file = StoredFile::new(job, root, stored);
        if is_steered {
            // Only this process knows where the archive must not decide on stripes.
            self.extract_here(file);
            return self.done.push(finished);
        }
        self.batch_bytes += stored.length;
        self.batch_memory += memory;
        self.batch.push((file, finished));
        if self.batch.len() >= BATCH_FILES
            || self.batch_bytes >= BATCH_BYTES
            || self.batch_memory >= BATCH_MEMORY
        {
            self.give_batch();
        }
    }

    /// Whether the file is written in pieces. Striped files are not, nor those whose old contents
    /// are overwritten, nor those that the archive does not have whole.
    fn is_large(&self, job: &ExtractJob, stored: Stored) -> bool {
        stored.length >= LARGE
            && stored.remaining.is_some_and(|remaining| stored.length <= remaining)
            && self.context.how.old != OldFiles::Overwrite
            && !job.dir.gives_stripes()
    }

    fn give_batch(&mut self) {
        let files = std::mem::take(&mut self.batch);
        (self.batch_bytes, self.batch_memory) = (0, 0);
        if !files.is_empty() {
            let work = files.iter().map(|(file, _)| file.clone()).collect();
            self.hand_over(ExtractWork::Files(self.archive, work), Given::Files(files));
        }
    }

    fn give_pieces(&mut self, job: ExtractJob, finished: Finished, stored: Stored, root: usize) {
        let context = self.context;
        let words = job.words(context);
        let Some(mut place) = job.place(context, &words, true) else {
            return self.done.push(finished);
        };
        let (hidden, inode, noted) = match self.hide(&job, &mut place, stored) {
            Ok(made) => made,
            Err(errno) => {
                words.cannot("write", errno);
                return self.done.push(finished);
            }
        };
        let whole = [(0, stored.length)];
        let pieces = pieces(job.sparse.as_deref().unwrap_or(&whole), stored.start);
        let works: Vec<_> = pieces
            .into_iter()
            .filter(|(start, extents)| !self.is_written(noted, *start, extents))
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
            .collect();
        let (number, count, start) = (self.larges, works.len(), stored.start);
        let is_noted = noted.is_some();
        self.larges += 1;
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
            return self.complete(large);
        }
        self.large.insert(number, large);
        for work in works {
            self.hand_over(ExtractWork::Piece(work.clone()), Given::Piece(number, work));
        }
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
    fn is_written(&self, file: Option<NotedFile>, start: u64, extents: &[(u64, u64)]) -> bool {
        let run = self.context.run;
        let noted = self.context.noted.as_ref().zip(file);
        let is_written = noted.is_some_and(|(noted, file)| noted.is_written(file, start));
        if is_written {
            let bytes = extents.iter().map(|(_, length)| length).sum();
            run.tool.progressed(bytes);
            run.tool.ledger().count_noted(bytes, 0);
        }
        is_written
    }

    fn hand_over(&mut self, work: ExtractWork, given: Given) {
        while self.given.len() >= self.crew.jobs_max() && self.ended.is_none() {
            self.wait();
        }
        if self.ended.is_some() {
            return self.forget(given);
        }
        self.crew.give(self.taken + self.given.len() as u64, work);
        self.given.push_back((given, None));
    }

    /// Waits until all files are extracted.
    pub(super) fn settle(&mut self) {
        self.give_batch();
        while !self.given.is_empty() {
            self.wait();
        }
    }

    /// Has all processes make durable what they have written.
    ///
    /// # Errors
    /// The reason for which the extraction ended early.
    pub(super) fn finish(&mut self) -> Result<(), EarlyEnd> {
        self.settle();
        let is_stopped = matches!(self.ended, Some(EarlyEnd::Signal));
        if !is_stopped && self.context.run.tool.stream_options().mode != Mode::Cached {
            for process in 0..self.crew.processes() {
                let number = self.taken + self.given.len() as u64;
                self.crew.give_to(process, number, ExtractWork::Sync);
                self.given.push_back((Given::Sync, None));
            }
            self.settle();
        }
        self.ended.take().map_or(Ok(()), Err)
    }

    /// Waits for an answer, and takes those before which all have come.
    fn wait(&mut self) {
        let Some((number, answer)) = self.crew.answer() else {
            self.ended = Some(EarlyEnd::Signal);
            for (given, _) in std::mem::take(&mut self.given) {
                self.forget(given);
            }
            return;
        };
        self.given[(number - self.taken) as usize].1 = Some(answer);
        while let Some((_, Some(_))) = self.given.front() {
            let Some((given, Some(answer))) = self.given.pop_front() else { break };
            self.taken += 1;
            self.take(given, answer);
        }
    }

    /// Gives up what was or would have been given out.
    fn forget(&mut self, given: Given) {
        match given {
            Given::Files(files) => {
                self.done.extend(files.into_iter().map(|(_, finished)| finished));
            }
            Given::Piece(number, _) => self.take_piece(number, None, true),
            Given::Sync => {}
        }
    }

    fn take(&mut self, given: Given, answer: ExtractAnswer) {
        let run = self.context.run;
        answer.told.tell(run);
        let is_cut = answer.ended.is_some();
        match given {
            Given::Files(files) => {
                for (index, (file, finished)) in files.into_iter().enumerate() {
                    run.tool.progressed(file.stored);
                    if answer.returned.contains(&index) {
                        self.extract_here(file);
                    }
                    self.done.push(finished);
                }
            }
            Given::Piece(number, piece) => {
                run.tool.progressed(piece.bytes());
                match answer.returned.is_empty() {
                    true => self.take_piece(number, answer.failed, is_cut),
                    false => self.write_here(number, &piece),
                }
            }
            Given::Sync => {}
        }
        if let Some(message) = answer.ended {
            self.ended.get_or_insert(EarlyEnd::Fatal(message));
        }
    }

    /// Takes note of a piece, after the last one of which the file gets its name.
    fn take_piece(&mut self, number: u64, failed: Option<i32>, is_cut: bool) {
        let Some(large) = self.large.get_mut(&number) else { return };
        large.pieces -= 1;
        large.is_cut |= is_cut;
        if let Some(errno) = failed {
            large.failed.get_or_insert(Errno::from_raw_os_error(errno));
        }
        if large.pieces > 0 {
            return;
        }
        if let Some(large) = self.large.remove(&number) {
            self.complete(large);
        }
    }

    /// Gives a large file its name, unless a part of it is missing.
    fn complete(&mut self, large: Large) {
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
                self.note(start, made);
            }
        }
        self.done.push(finished);
    }

    /// Notes a complete file, which this process has given its name, if nothing has failed.
    fn note(&self, start: u64, (made, has_failed): (Option<OwnedFd>, bool)) {
        if let (Some(noted), Some(file), false) = (&self.context.noted, made, has_failed)
            && names::fsync(&file).is_ok()
        {
            noted.extracted(start, &file);
        }
    }

    /// Opens the archive, for what this process extracts itself. `None`, as the reason for the end,
    /// if that cannot be.
    fn opened<T>(
        &mut self,
        then: impl FnOnce(&Arc<File>) -> io::Result<T>,
    ) -> Option<(Arc<File>, T)> {
        let run = self.context.run;
        let opened = open_archive(run).and_then(|(archive, state)| {
            if !state.is_of_same_file(&self.archive) {
                return Err(Errno::STALE.into());
            }
            let more = then(&archive)?;
            Ok((archive, more))
        });
        let failed = |error| {
            let archive = &run.options.archive;
            let end = EarlyEnd::on(archive.as_encoded_bytes(), "open", errno_of(&error));
            self.ended.get_or_insert(end);
        };
        opened.map_err(failed).ok()
    }

    /// Writes a piece that no other process can write.
    fn write_here(&mut self, number: u64, piece: &FilePiece) {
        let Some(large) = self.large.get(&number) else { return };
        let fd = large.place.fd.try_clone();
        let Some((archive, fd)) = self.opened(|_| fd) else {
            return self.take_piece(number, None, true);
        };
        let run = self.context.run;
        let written = write_piece(run, (&archive, fd), piece, self.context.noted.as_ref());
        count_archive(run, &archive);
        match written {
            Ok(()) => self.take_piece(number, None, false),
            Err(PieceError::Target(errno)) => {
                self.take_piece(number, Some(errno.raw_os_error()), false);
            }
            Err(PieceError::Archive(error)) => {
                self.ended.get_or_insert(ended(run, error));
                self.take_piece(number, None, true);
            }
        }
    }

    /// Extracts a file in this process.
    fn extract_here(&mut self, file: StoredFile) {
        let run = self.context.run;
        let shown = file.shown().to_vec();
        let words = MemberMessages { run, name: &shown };
        let stretch =
            |archive: &Arc<_>| Stretch::new(Arc::clone(archive), run.tool.stream_options());
        let Some((archive, mut stretch)) = self.opened(stretch) else { return };
        stretch.read_up_to(file.start + file.stored);
        let start = file.start;
        let (done, has_failed) =
            run.fails_in(|| extract(file, self.context, self.roots, &mut stretch));
        match done {
            Ok(Ok(made)) => self.note(start, (made, has_failed)),
            Ok(Err(MemberError::Archive(error))) => {
                self.ended.get_or_insert(ended(run, error));
            }
            Ok(Err(MemberError::Stopped)) => {
                self.ended.get_or_insert(EarlyEnd::Signal);
            }
            Err(errno) => words.cannot("open", errno),
        }
        count_archive(run, &archive);
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

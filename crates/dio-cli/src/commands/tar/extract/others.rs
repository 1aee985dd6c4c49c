//! Files that several processes extract, as the process that leads has them.
//!
//! The leader reads the headers, makes directories and links, and finds the directory of each file.
//! Small files go to a [`Crew`] in batches, large ones in pieces. Answers are taken in the order of
//! the archive.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use dio::{File, Mode};
use rustix::io::Errno;

use super::super::list::ended;
use super::super::run::EarlyEnd;
use super::file::{Context, ExtractJob, Finished, MemberError};
use super::messages::MemberMessages;
use super::part::{PieceError, count_archive, extract, open_archive, write_piece};
use super::pieces::{Begun, LargeFiles};
use super::root::Root;
use super::stored::{ExtractAnswer, ExtractWork, FilePiece, Stored, StoredFile};
use super::stretch::Stretch;
use crate::tool::{Crew, FileState, errno_of};

/// Limits of a batch: files, bytes of data, and bytes of memory.
const BATCH_FILES: usize = 128;
const BATCH_BYTES: u64 = 16 << 20;
const BATCH_MEMORY: usize = 1 << 20;

/// The crew of the processes that extract an archive.
pub(super) type ExtractingCrew<'c> = &'c dyn Crew<ExtractWork, ExtractAnswer>;

/// A job that was given out.
enum Given {
    Files(Vec<(StoredFile, Finished)>),
    /// A piece of the large file with this number.
    Piece(u64, FilePiece),
    Sync,
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
    large: LargeFiles<'s>,
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
            large: LargeFiles::new(context, archive),
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
        if self.large.has_pieces(&job, stored) {
            match self.large.begin(job, finished, stored, root) {
                Begun::Pieces(number, pieces) => pieces.into_iter().for_each(|piece| {
                    self.hand_over(ExtractWork::Piece(piece.clone()), Given::Piece(number, piece));
                }),
                Begun::Over(finished) => self.done.push(finished),
            }
            return;
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

    fn give_batch(&mut self) {
        let files = std::mem::take(&mut self.batch);
        (self.batch_bytes, self.batch_memory) = (0, 0);
        if !files.is_empty() {
            let work = files.iter().map(|(file, _)| file.clone()).collect();
            self.hand_over(ExtractWork::Files(self.archive, work), Given::Files(files));
        }
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

    /// Takes note of a piece of a large file.
    fn take_piece(&mut self, number: u64, failed: Option<i32>, is_cut: bool) {
        self.done.extend(self.large.take(number, failed, is_cut));
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
        let fd = match self.large.descriptor(number) {
            Ok(fd) => fd,
            Err(error) => {
                return self.take_piece(number, Some(errno_of(&error).raw_os_error()), false);
            }
        };
        let Some((archive, ())) = self.opened(|_| Ok(())) else {
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
            Ok(Ok(made)) => self.context.note(start, (made, has_failed)),
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

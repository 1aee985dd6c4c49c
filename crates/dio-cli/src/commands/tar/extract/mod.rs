//! `-x`: extracts from an archive.
//!
//! `root` looks up names beneath the target directory and nowhere else; `names` normalises them.
//! `new_file` creates files and handles existing ones; `file` writes their data: small files
//! through the threads of `crew`, large ones as streams or, with few descriptors, with plain writes
//! (`plain`). `special` creates links, pipes and devices; `dirs` sets the attributes of directories
//! at the end; `meta` sets metadata; `storage` makes files durable and drops them from the page
//! cache (`finish`); `messages` contains GNU tar's messages.
//!
//! If several processes extract an archive, `others` gives them the files that are `stored` in it,
//! large ones in `pieces`, and `part` extracts these, whose data a `stretch` reads. `noted` notes
//! what is extracted.
//!
//! Without `-P` nothing outside the target directory is created, changed or removed: every system
//! call that does so takes a single component of a name, relative to a directory that was looked up
//! beneath the target directory, and follows no link.

mod crew;
mod dirs;
mod file;
mod finish;
mod messages;
mod meta;
pub(super) mod names;
mod new_file;
mod noted;
mod others;
pub(super) mod owners;
mod part;
mod pieces;
pub(super) mod placed;
mod plain;
mod root;
mod roots;
mod settings;
mod special;
mod storage;
mod stored;
mod stretch;
mod tree;

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::Instant;

use rustix::fs::{Mode, mkdirat};
use rustix::io::Errno;

use super::archive::Archive;
use super::format::{ArchiveEntry, Entries, EntryKind};
use super::line::ListingLines;
use super::list::{ended, tell};
use super::quoting::escaped;
use super::run::{EarlyEnd, TarRun, bare};
use super::select::Selection;
use super::totals;
use crate::stop::Stop;
use crate::tool::{FileState, Notes};

use crew::{CrewShared, ExtractCrew};
use file::{ContentsError, Context};
use finish::finish_storage;
use new_file::DirectorySet;
use noted::ExtractNotes;
use others::{ExtractingCrew, Others};
pub(super) use part::ExtractPart;
use part::state_of_archive;
use placed::{changed_link, in_top, placed, put_in_top, tell_member};
use root::{Dir, Root};
use roots::open_roots;
use settings::ExtractSettings;
use storage::Storage;
pub(super) use stored::{ExtractAnswer, ExtractWork};
use tree::Tree;

/// Extracts the members that the command line selects.
///
/// # Errors
/// The archive cannot be read on; the list cannot be written; a signal arrived.
pub(super) fn run(run: &TarRun) -> Result<(), EarlyEnd> {
    into(run, None)
}

/// Does the same with several processes, whose crew extracts the files. By `notes` it goes on.
///
/// # Errors
/// Errors of [`run`]; the archive is compressed or no file.
pub(super) fn run_shared(
    run: &TarRun,
    crew: ExtractingCrew<'_>,
    notes: Option<&Arc<dyn Notes>>,
) -> Result<(), EarlyEnd> {
    into(run, Some((crew, notes)))
}

/// The crew of other processes, and the notes that they keep.
type Shared<'c> = (ExtractingCrew<'c>, Option<&'c Arc<dyn Notes>>);

fn into(run: &TarRun, others: Option<Shared<'_>>) -> Result<(), EarlyEnd> {
    let began = Instant::now();
    crate::tool::allow_descriptors(2048);
    let roots = open_roots(&run.options)?;
    let how = ExtractSettings::of(&run.options);
    let before = others.map(|_| state_of_archive(run));
    let mut archive = super::archive::open(run)?;
    let length = archive.source().and_then(|source| Some(source.len()? - source.position()));
    if others.is_some() && length.is_none() {
        return Err(not_for_others(run, archive.is_compressed()));
    }
    let others = match others.zip(before) {
        Some(((crew, notes), before)) => Some((crew, unchanged(run, before)?, notes)),
        None => None,
    };
    let noted = others.and_then(|(_, state, notes)| Some(ExtractNotes::new(notes?, state)));
    noted.iter().for_each(|_| run.tool.ledger().count_noted(0, 0));
    let mut entries = Entries::new(archive).ignoring_zeros(run.options.ignore_zeros);
    let context = Context {
        run,
        how,
        storage: Arc::new(Storage::new()),
        noted,
        gone: DirectorySet::default(),
        steered: DirectorySet::default(),
    };
    let shared = CrewShared::default();
    let mut selection = Selection::new(&run.options);
    let outcome = std::thread::scope(|scope| {
        let crew = match others {
            Some((crew, state, _)) => {
                let others = Others::new((crew, state), &context, &roots);
                ExtractCrew::of_others(&shared, &context, others)
            }
            None => ExtractCrew::new(scope, &shared, &context),
        };
        let tree = Tree::new(&context, crew, roots.len() > 1);
        let tops = vec![None; roots.len()];
        let lines = ListingLines::new(&run.options);
        let mut extraction =
            Extraction { context: &context, roots: &roots, tops, length, tree, lines };
        let outcome = extraction.members(&mut entries, &mut selection);
        let finished = extraction.tree.finish();
        outcome.and(finished)
    });
    finish_storage(run, &context.storage);
    let read = entries.offset();
    let closed = entries.into_inner().close(run, outcome.is_ok() && !selection.complete());
    outcome?;
    selection.finish(run);
    if run.options.totals {
        run.note_bare(totals::line(
            "read",
            read.next_multiple_of(run.options.record),
            began.elapsed(),
        ));
    }
    closed
}

/// The state of the archive, which other processes open by its name, if that is what it was before
/// this one opened it.
fn unchanged(run: &TarRun, before: Result<FileState, Errno>) -> Result<FileState, EarlyEnd> {
    let archive = run.options.archive.as_encoded_bytes();
    let failed = |errno| EarlyEnd::on(archive, "stat", errno);
    let now = state_of_archive(run).map_err(failed)?;
    match before {
        Ok(before) if before == now => Ok(now),
        Ok(_) => {
            let archive = escaped(archive);
            Err(EarlyEnd::Fatal(format!("{archive}: Replaced while it is being extracted")))
        }
        Err(errno) => Err(failed(errno)),
    }
}

/// The reason for which several processes cannot extract an archive.
fn not_for_others(run: &TarRun, is_compressed: bool) -> EarlyEnd {
    let why = match is_compressed {
        true => "Compressed: decompress it first, or extract it by one process",
        false => "Not a regular file: extract it by one process",
    };
    EarlyEnd::Fatal(format!("{}: {why}", escaped(run.options.archive.as_bytes())))
}

/// One pass over the archive.
struct Extraction<'s> {
    context: &'s Context<'s>,
    roots: &'s [Arc<Root>],
    /// For each root, the directory of `--one-top-level` in it, once a member has been extracted
    /// into it.
    tops: Vec<Option<Arc<Root>>>,
    /// Bytes of the archive, if known.
    length: Option<u64>,
    tree: Tree<'s>,
    lines: ListingLines,
}

impl Extraction<'_> {
    fn members(
        &mut self,
        entries: &mut Entries<Archive>,
        selection: &mut Selection<'_>,
    ) -> Result<(), EarlyEnd> {
        let stop = Stop::on_signals();
        loop {
            if stop.asked() {
                return Err(EarlyEnd::Signal);
            }
            let next = entries.next_entry();
            for notice in entries.take_notices() {
                tell(self.context.run, &notice, true);
            }
            let entry = match next {
                Ok(Some(entry)) => entry,
                Err(_) if stop.asked() => return Err(EarlyEnd::Signal),
                Ok(None) => return Ok(()),
                Err(error) => return Err(ended(self.context.run, error)),
            };
            if let Some(directory) = selection.choose(&entry.path) {
                self.member(entries, entry, directory)?;
            }
            // If the extraction ended, the reason is told when the files under way are done.
            if selection.complete() || self.tree.crew.has_ended() {
                return Ok(());
            }
        }
    }

    fn member(
        &mut self,
        entries: &mut Entries<Archive>,
        mut entry: ArchiveEntry,
        directory: usize,
    ) -> Result<(), EarlyEnd> {
        let run = self.context.run;
        match entry.kind {
            EntryKind::Label => return Ok(()),
            EntryKind::Continuation => {
                let name = escaped(&entry.path);
                run.error(format_args!(
                    "{name}: Cannot extract -- file is continued from another volume"
                ));
                return Ok(());
            }
            _ => {}
        }
        let name = placed(run, bare(&entry.path));
        if !run.options.absolute_names && names::has_dot_dot(&entry.path) {
            run.error(format_args!("{}: Member name contains '..'", escaped(bare(&entry.path))));
            return Ok(());
        }
        if name.is_empty() {
            return Ok(());
        }
        if run.options.interactive && !run.confirm("extract", &name) {
            return Ok(());
        }
        entry.link = changed_link(run, &entry);
        tell_member(run, &mut self.lines, &entry, &name)?;
        if run.options.to_stdout {
            return if entry.kind == EntryKind::Regular {
                self.pour_out(entries, entry.sparse.is_some())
            } else {
                Ok(())
            };
        }
        let link = if entry.kind == EntryKind::HardLink {
            put_in_top(run, entry.link.clone())
        } else {
            Vec::new()
        };
        let member = tree::Member {
            root: self.root(directory)?,
            path: in_top(run, &name),
            shown: name,
            link_path: in_top(run, &link),
            link,
            remaining: self.length.map(|length| length.saturating_sub(entries.offset())),
            entry,
        };
        let done = self.tree.member(member, entries);
        let made = self.tree.take_made().into_iter().map(|path| put_in_top(run, path)).collect();
        self.tell_made(made)?;
        match done {
            Ok(()) => Ok(()),
            Err(file::MemberError::Stopped) => Err(EarlyEnd::Signal),
            Err(file::MemberError::Archive(error)) => Err(ended(self.context.run, error)),
        }
    }

    /// Lists directories that were created although no member described them (`-vv`).
    fn tell_made(&mut self, made: Vec<Vec<u8>>) -> Result<(), EarlyEnd> {
        let run = self.context.run;
        let mut told = made.iter().filter(|_| run.options.verbose > 1);
        let mode = self.context.how.mode_between();
        told.try_for_each(|name| run.list(&self.lines.making(mode, name)))
    }

    /// The directory that names are relative to. The user chose the directory of `--one-top-level`,
    /// so it may be anywhere.
    fn root(&mut self, directory: usize) -> Result<Arc<Root>, EarlyEnd> {
        let root = &self.roots[directory];
        let Some(top) = &self.context.run.options.one_top_level else {
            return Ok(Arc::clone(root));
        };
        if let Some(found) = &self.tops[directory] {
            return Ok(Arc::clone(found));
        }
        let mut made = Vec::new();
        let found = open_top(root.dir(), top, &self.context.how, &mut made);
        self.tell_made(made)?;
        let found = found.map_err(|errno| EarlyEnd::on(top, "mkdir", errno))?;
        Ok(Arc::clone(self.tops[directory].insert(Arc::new(found))))
    }

    /// `-O`: writes the contents to standard output.
    fn pour_out(&mut self, entries: &mut Entries<Archive>, sparse: bool) -> Result<(), EarlyEnd> {
        let run = self.context.run;
        let failed = |error: &std::io::Error| {
            run.tool.write_failed(error);
            run.fail();
            EarlyEnd::Told
        };
        let mut sink = run.tool.stdout().map_err(|error| failed(&error))?;
        match file::pour_whole(self.context, entries, &mut sink, sparse, Stop::on_signals()) {
            Ok(()) => sink.close().map_err(|error| failed(&error)),
            Err(ContentsError::Target(error)) => Err(failed(&error)),
            Err(ContentsError::Archive(error)) => Err(ended(self.context.run, error)),
            Err(ContentsError::Stopped) => Err(EarlyEnd::Signal),
        }
    }
}

/// Opens the directory of `--one-top-level`, and creates missing directories on the way to it.
fn open_top(
    from: &Dir,
    top: &[u8],
    how: &ExtractSettings,
    made: &mut Vec<Vec<u8>>,
) -> Result<Root, Errno> {
    let mode = Mode::from_bits_retain(how.mode_between());
    for end in names::ends(top) {
        match mkdirat(from, &top[..end], mode) {
            Ok(()) => made.push(top[..end].to_vec()),
            Err(Errno::EXIST) => {}
            // If this matters, opening the directory fails too and reports the error.
            Err(_) => break,
        }
    }
    Root::open(from, &CString::new(top).map_err(|_| Errno::INVAL)?, how.absolute)
}

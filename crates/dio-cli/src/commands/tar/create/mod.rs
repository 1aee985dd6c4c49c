//! `-c`: creates an archive.
//!
//! `walk` finds the names in the order of the archive, and opens and lists directories (`dir`).
//! Workers (`prepare`) open files, read their attributes (`attributes`, `sparse`) and the contents
//! of those that are not large (`small`), ahead of the writer. The writer (`store`) puts everything
//! in order into the archive, finds hard links, prints messages (`note`) and reads large files as
//! streams. Bytes are copied once, because members begin at multiples of 512 bytes, which are not
//! the boundaries of memory blocks. `target` is the archive. If several processes write it,
//! `pieces` gives them pieces, and `piece` writes one; `noted` finds those that an earlier attempt
//! has written.

mod attributes;
mod dir;
mod jobs;
mod note;
mod noted;
mod piece;
mod pieces;
mod prepare;
mod removal;
mod small;
mod sparse;
mod store;
mod target;
mod walk;

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use super::run::{EarlyEnd, TarRun};
use crate::stop::Stop;
use crate::tool::Notes;
use dio::pipeline::Pipeline;
use prepare::{Preparing, Wanted};
use store::Store;
use walk::Walk;

pub(super) use jobs::{PieceAnswer, PieceJob};
pub(super) use piece::PieceWriter;
use pieces::ArchiveCrew;
pub(super) use removal::{Removal, remove_all};
pub(super) use target::ArchiveOutput;

/// Descriptors to ask for, as far as the limit of the process allows. A deep tree needs an open
/// directory for each level.
const DESCRIPTORS: u64 = 1 << 16;

/// Descriptors that a worker may have open at a time: the file as its stream needs it, its ring,
/// and the files that wait for the writer.
const WORKERS_DESCRIPTORS: u64 = 10;

/// Descriptors kept free for the writer, the libraries and files that are opened for a short time.
const OTHER_DESCRIPTORS: u64 = 40;

/// The number of workers and of directories that may be open at a time, when so many descriptors
/// are free. On a cold disk most workers wait. With few descriptors, a single thread does
/// everything, with one open directory.
fn means(free: u64) -> (usize, usize) {
    let free = usize::try_from(free.saturating_sub(OTHER_DESCRIPTORS)).unwrap_or(usize::MAX);
    let workers = std::thread::available_parallelism().map_or(4, |n| n.get() * 4).min(16);
    let workers = workers.min(free / 2 / WORKERS_DESCRIPTORS as usize);
    (workers, (free / 2).max(1))
}

/// Creates the archive.
///
/// # Errors
/// Anything that ends the run early. After a signal, a new archive is removed, and an existing one
/// is unchanged.
pub(super) fn run(run: &TarRun) -> Result<(), EarlyEnd> {
    into(run, ArchiveOutput::create)
}

/// Does the same with several processes, whose crew writes the archive. What is durable is noted;
/// then the incomplete archive stays after a signal or an error.
///
/// # Errors
/// Errors of [`run`].
pub(super) fn run_shared(
    run: &TarRun,
    crew: ArchiveCrew<'_>,
    notes: Option<&Arc<dyn Notes>>,
) -> Result<(), EarlyEnd> {
    into(run, |run| ArchiveOutput::shared(run, crew, notes))
}

/// Creates the archive in what `open` opens.
fn into<'c>(
    run: &'c TarRun,
    open: impl FnOnce(&'c TarRun) -> Result<ArchiveOutput<'c>, EarlyEnd>,
) -> Result<(), EarlyEnd> {
    let started = Instant::now();
    let stop = Stop::on_signals();
    // Reports errors of the `-C` directories before anything is created.
    drop(directories(run)?);
    let mut target = open(run)?;
    let stored = store(run, &mut target, &|_, _| true).and_then(|removals| {
        target.end(run.options.record)?;
        Ok(removals)
    });
    if stop.asked() {
        // Any other error is ignored: a compression program got the signal too.
        target.abandon();
        return Err(EarlyEnd::Signal);
    }
    let removals = stored?;
    let closed = target.close(run.options.remove_files);
    if closed.is_err() && stop.asked() {
        target.abandon();
        return Err(EarlyEnd::Signal);
    }
    closed?;
    removal::remove_all(run, removals);
    if run.options.totals {
        run.note_bare(super::totals::line("written", target.written(), started.elapsed()));
    }
    tell_unused(run);
    Ok(())
}

/// Adds the files of the command line to an archive at its current position. A file is included
/// only if `newer` returns true for its name and status. `newer` is also called for the contents of
/// directories that it rejects. Returns the files that `--remove-files` removes when the archive is
/// durable.
///
/// # Errors
/// Anything that ends the run early.
pub(super) fn store(
    run: &TarRun,
    target: &mut ArchiveOutput,
    newer: Wanted<'_>,
) -> Result<Vec<Removal>, EarlyEnd> {
    crate::tool::allow_descriptors(DESCRIPTORS);
    let directories = directories(run)?;
    let (workers, open_max) = means(crate::tool::free_descriptors());
    let mut walk =
        Walk::new(run, directories, open_max).map_err(|errno| EarlyEnd::on(b".", "stat", errno))?;
    let is_shared = target.as_shared().is_some();
    let preparing = Preparing::new(run, target.identities(), newer, is_shared);
    let mut store = Store::new(run, target, &preparing.small);
    let stop = Stop::on_signals();
    let asked = || stop.asked();
    // With `-w`, files are processed one at a time, so that each answer belongs to the last
    // question.
    let pipeline = Pipeline::new(if run.options.interactive { 0 } else { workers }).stop(&asked);
    let report = pipeline.run(
        || Ok(walk.next()),
        || |job| Ok(preparing.prepare(job)),
        |ready| store.take(ready),
    )?;
    if report.stopped {
        return Err(EarlyEnd::Signal);
    }
    store.finish()?;
    Ok(store.remove)
}

/// Opens the directories of `-C`.
fn directories(run: &TarRun) -> Result<Vec<OwnedFd>, EarlyEnd> {
    run.options.names.open_directories()
}

/// Reports options that apply only to later names, although none follows.
pub(super) fn tell_unused(run: &TarRun) {
    let unused = &run.options.names.unused;
    if unused.is_empty() {
        return;
    }
    run.error(
        "The following options were used after any non-optional arguments in archive create or \
         update mode.  These options are positional and affect only arguments that follow them.  \
         Please, rearrange them properly.",
    );
    unused.iter().for_each(|flag| run.note(format_args!("{flag} has no effect")));
}

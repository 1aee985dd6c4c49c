//! `-c`: making an archive.
//!
//! `walk` finds the names in the order of the archive, opening and listing directories (`dir`).
//! Workers (`prepare`) open files, ask for their attributes (`attributes`, `sparse`) and read those
//! that are not large (`small`), ahead of the writer (`store`), which gives everything its place,
//! finds hard links, tells what there is to tell (`note`) and reads large files as streams. Bytes
//! are copied once: members begin where 512-byte blocks do, which is not where blocks of memory do.
//! `target` is the archive.

mod attributes;
mod dir;
mod note;
mod prepare;
mod removal;
mod small;
mod sparse;
mod store;
mod target;
mod walk;

use std::os::fd::OwnedFd;
use std::time::Instant;

use super::run::{Ended, Run};
use crate::stop::Stop;
use dio::pipeline::Pipeline;
use prepare::{Preparing, Wanted};
use store::Store;
use walk::Walk;

pub(super) use removal::{Removal, remove_all};
pub(super) use target::Target;

/// A deep tree keeps a directory open for each level: as many descriptors are asked for as the
/// system lets us have, up to this.
const DESCRIPTORS: u64 = 1 << 16;

/// Descriptors that a worker may have open at a time: a file as its stream needs it, its ring, and
/// the files that wait for the writer.
const WORKERS_DESCRIPTORS: u64 = 10;

/// Descriptors that are left for the writer, the libraries and what is opened in passing.
const OTHER_DESCRIPTORS: u64 = 40;

/// Workers, of whom most wait on a cold disk, and the directories that may be open, where so many
/// descriptors are free. With few of them everything is done by one thread in one directory.
fn means(free: u64) -> (usize, usize) {
    let free = usize::try_from(free.saturating_sub(OTHER_DESCRIPTORS)).unwrap_or(usize::MAX);
    let workers = std::thread::available_parallelism().map_or(4, |n| n.get() * 4).min(16);
    let workers = workers.min(free / 2 / WORKERS_DESCRIPTORS as usize);
    (workers, (free / 2).max(1))
}

/// Makes the archive.
///
/// # Errors
/// What ends it early. After a signal a new archive is removed, and one that was there is as it
/// was.
pub(super) fn run(run: &Run) -> Result<(), Ended> {
    let started = Instant::now();
    let stop = Stop::on_signals();
    // What can be foreseen is, before anything is made.
    drop(directories(run)?);
    let mut target = Target::create(run)?;
    let stored = store(run, &mut target, &|_, _| true).and_then(|removals| {
        target.end(run.options.record)?;
        Ok(removals)
    });
    if stop.asked() {
        // Whatever failed: a program that compresses got the signal too.
        target.abandon();
        return Err(Ended::Signal);
    }
    let removals = stored?;
    let closed = target.close(run.options.remove_files);
    if closed.is_err() && stop.asked() {
        target.abandon();
        return Err(Ended::Signal);
    }
    closed?;
    removal::remove_all(run, removals);
    if run.options.totals {
        run.note_bare(super::totals::line("written", target.written(), started.elapsed()));
    }
    tell_unused(run);
    Ok(())
}

/// Puts the files of the command line into an archive, from where it is; only those for which
/// `newer` says yes to the name and what the file is; it is asked about what is in directories that
/// it does not want too. Returns what `--remove-files` removes when the archive is durable.
///
/// # Errors
/// What ends it early.
pub(super) fn store(run: &Run, target: &mut Target, newer: Wanted<'_>) -> Result<Vec<Removal>, Ended> {
    crate::tool::allow_descriptors(DESCRIPTORS);
    let directories = directories(run)?;
    let (workers, open_max) = means(crate::tool::free_descriptors());
    let mut walk = Walk::new(run, directories, open_max).map_err(|errno| Ended::on(b".", "stat", errno))?;
    let preparing = Preparing::new(run, target.identities(), newer);
    let mut store = Store::new(run, target, &preparing.small);
    let stop = Stop::on_signals();
    let asked = || stop.asked();
    // Questions and their answers belong to one file at a time.
    let pipeline = Pipeline::new(if run.options.interactive { 0 } else { workers }).stop(&asked);
    let report = pipeline.run(|| Ok(walk.next()), || |job| Ok(preparing.prepare(job)), |ready| store.take(ready))?;
    if report.stopped {
        return Err(Ended::Signal);
    }
    store.finish()?;
    Ok(store.remove)
}

/// The directories of `-C`.
fn directories(run: &Run) -> Result<Vec<OwnedFd>, Ended> {
    run.options.names.open_directories()
}

/// Flags that concern only names after them, where there were none.
pub(super) fn tell_unused(run: &Run) {
    let unused = &run.options.names.unused;
    if unused.is_empty() {
        return;
    }
    run.error(
        "The following options were used after any non-optional arguments in archive create or update mode.  These options \
         are positional and affect only arguments that follow them.  Please, rearrange them properly.",
    );
    unused.iter().for_each(|flag| run.note(format_args!("{flag} has no effect")));
}

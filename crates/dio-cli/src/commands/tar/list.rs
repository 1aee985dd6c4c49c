//! `-t`: lists an archive.

use std::time::Instant;

use super::archive::{self, Archive};
use super::extract::placed::{changed_link, placed};
use super::format::{BLOCK, Entries, FormatError, Notice, NoticeSubject};
use super::line::ListingLines;
use super::run::{EarlyEnd, TarRun, bare};
use super::select::Selection;
use super::totals;
use super::warnings::Warning;
use crate::tool::errno_of;

/// Lists the selected members.
///
/// # Errors
/// The archive cannot be read or ends within a member; the list cannot be written.
pub(super) fn run(run: &TarRun) -> Result<(), EarlyEnd> {
    let began = Instant::now();
    let options = &run.options;
    let mut entries = Entries::new(archive::open(run)?).ignoring_zeros(options.ignore_zeros);
    let mut selection = Selection::new(options);
    let listed = list(run, &mut entries, &mut selection);
    let complete = listed?;
    let read = entries.offset();
    entries.into_inner().close(run, complete)?;
    selection.finish(run);
    if options.totals {
        run.note_bare(totals::line("read", read.next_multiple_of(options.record), began.elapsed()));
    }
    Ok(())
}

/// Lists the members. Returns whether the end of the archive was reached.
fn list(
    run: &TarRun,
    entries: &mut Entries<Archive>,
    selection: &mut Selection<'_>,
) -> Result<bool, EarlyEnd> {
    let options = &run.options;
    let mut lines = ListingLines::new(options);
    loop {
        if selection.complete() {
            return Ok(false);
        }
        let next = entries.next_entry();
        let notices = entries.take_notices();
        if matches!(next, Ok(None)) && options.block_number {
            let block = entries.end().unwrap_or(entries.offset()) / BLOCK as u64;
            let what = if entries.end_is_marked() { "Block of NULs" } else { "End of File" };
            run.list(format!("block {block}: ** {what} **").as_bytes())?;
        }
        for notice in notices {
            tell(run, &notice, false);
        }
        let Some(mut entry) = next.map_err(|error| ended(run, error))? else { return Ok(true) };
        if selection.choose(&entry.path).is_none() {
            if options.show_omitted && entry.path.ends_with(b"/") {
                let name = &entry.path[..entry.path.len() - 1];
                run.note(format_args!("{}: Omitting", super::quoting::escaped(name)));
            }
            continue;
        }
        // This also prints the messages about names that extraction would print.
        let changed = named_as_extracted(run, &entry.path);
        entry.link = changed_link(run, &entry);
        let name = if options.show_transformed { &changed } else { &entry.path };
        let mut line = if options.block_number {
            format!("block {}: ", entry.ordinal).into_bytes()
        } else {
            Vec::new()
        };
        line.extend(if options.verbose > 0 { lines.line(&entry, name) } else { lines.name(name) });
        run.list(&line)?;
        if options.verbose > 1 {
            lines.attributes(&entry).iter().try_for_each(|line| run.list(line))?;
        }
    }
}

/// The name under which a member would be extracted. For a directory, only the slash behind its
/// name may remain.
fn named_as_extracted(run: &TarRun, path: &[u8]) -> Vec<u8> {
    let mut name = placed(run, bare(path));
    if path.ends_with(b"/") && !(path.len() > 1 && name.ends_with(b"/")) {
        name.push(b'/');
    }
    name
}

/// Reports a notice of the archive reader. `extracting` says that members of unknown types are
/// extracted as regular files.
pub(super) fn tell(run: &TarRun, notice: &Notice, extracting: bool) {
    match notice.about {
        NoticeSubject::Error => run.error(notice),
        NoticeSubject::LoneZero => run.warn(Warning::AloneZeroBlock, notice),
        NoticeSubject::Keyword => run.warn(Warning::UnknownKeyword, notice),
        NoticeSubject::Type if extracting => run.warn(Warning::UnknownCast, notice),
        NoticeSubject::Type => {}
    }
}

/// Converts an error of the archive reader into the reason for which the run ends.
pub(super) fn ended(run: &TarRun, error: FormatError) -> EarlyEnd {
    use std::os::unix::ffi::OsStrExt;
    match error {
        FormatError::Read(error) => {
            EarlyEnd::on(run.options.archive.as_bytes(), "read", errno_of(&error))
        }
        error => EarlyEnd::Fatal(error.to_string()),
    }
}

//! Transforms the names of members into the names under which they are extracted.

use super::super::format::{ArchiveEntry, EntryKind};
use super::super::line::ListingLines;
use super::super::run::{EarlyEnd, TarRun, bare};
use super::super::transform::NameRole;
use super::names::{Clean, without_components};

/// The path of a name relative to the directory of `--one-top-level`, if that is set.
pub(super) fn in_top(run: &TarRun, name: &[u8]) -> Clean {
    let clean = Clean::of(name);
    match &run.options.one_top_level {
        Some(top) if is_within(&clean.0, top) => {
            Clean::of(clean.0[top.len()..].strip_prefix(b"/").unwrap_or_default())
        }
        _ => clean,
    }
}

/// Applies `--transform` and `--strip-components` to a name or the target of a hard link, and makes
/// it safe.
fn changed(run: &TarRun, path: &[u8], link: bool) -> Vec<u8> {
    let options = &run.options;
    let changed =
        options.transform.apply(path, if link { NameRole::HardLink } else { NameRole::Member });
    let safe = run.safe_name(&changed, link);
    without_components(safe, options.strip_components, options.absolute_names).to_vec()
}

/// Prefixes a name with the directory of `--one-top-level`. A name of nothing but dots and slashes
/// becomes that directory.
pub(in super::super) fn put_in_top(run: &TarRun, name: Vec<u8>) -> Vec<u8> {
    let Some(top) = &run.options.one_top_level else { return name };
    match name.iter().position(|byte| !matches!(byte, b'/' | b'.')) {
        None => top.clone(),
        Some(start) if is_within(&name[start..], top) => name,
        Some(_) => Clean::of(&[top, &name[..]].join(&b'/')).0,
    }
}

/// The name under which a member is extracted: transformed, safe, and in the top directory.
pub(in super::super) fn placed(run: &TarRun, path: &[u8]) -> Vec<u8> {
    put_in_top(run, changed(run, path, false))
}

/// The link target of a member, as it is extracted and listed.
pub(in super::super) fn changed_link(run: &TarRun, entry: &ArchiveEntry) -> Vec<u8> {
    match entry.kind {
        EntryKind::Symlink => run.options.transform.apply(&entry.link, NameRole::Symlink),
        EntryKind::HardLink => changed(run, bare(&entry.link), true),
        _ => entry.link.clone(),
    }
}

/// Lists a member that is being processed (`-v`).
pub(in super::super) fn tell_member(
    run: &TarRun,
    lines: &mut ListingLines,
    entry: &ArchiveEntry,
    name: &[u8],
) -> Result<(), EarlyEnd> {
    let options = &run.options;
    if options.verbose == 0 {
        return Ok(());
    }
    let slash: &[u8] = if entry.path.ends_with(b"/") && !name.ends_with(b"/") { b"/" } else { b"" };
    let name = if options.show_transformed { &[name, slash].concat() } else { &entry.path };
    let mut line = if options.block_number {
        format!("block {}: ", entry.ordinal).into_bytes()
    } else {
        Vec::new()
    };
    line.extend(if options.verbose > 1 { lines.line(entry, name) } else { lines.name(name) });
    run.list(&line)?;
    let more = if options.verbose > 2 { lines.attributes(entry) } else { Vec::new() };
    more.iter().try_for_each(|line| run.list(line))
}

/// Whether a name already lies in the directory of `--one-top-level`.
fn is_within(path: &[u8], top: &[u8]) -> bool {
    path.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

//! Examines a target before it is changed: whether it exists, and whether it may be replaced.

use std::ffi::CStr;
use std::os::fd::AsFd;
use std::path::Path;

use dio::names;
use dio::names::FileId;
use dio::stripe::{LeaseWait, descriptor_of, may_be_striped};
use rustix::fs::{Access, AtFlags, FileType, Mode, OFlags, Stat, accessat, openat, statat, statx};
use rustix::io::Errno;

use super::dirs::{Handle, Pair};
use super::entry::{SourceEntry, TargetState};
use super::error::{CopyError, ErrorContext, FailedOperation};
use super::facts::FileFacts;
use super::options::{CpOptions, Dereference, ExistingRule};
use super::ranges::SHARED_BYTES_MIN;
use super::session::CopyRun;
use crate::quote::quoted;
use crate::tool::{Birth, Mark};

/// The decision about an entry.
#[derive(Debug)]
pub(super) enum EntryDecision {
    Proceed(TargetState),
    /// The target stays as it is; this is no error.
    Keep,
    /// The target is newer (`-u`) and stays. Further links of the source become links to it. The
    /// field is the inode that the name led to.
    KeepAsCopy(FileId),
}

/// The result of comparing source and target.
enum Sameness {
    Different,
    Same,
    /// They are already one file, and that is what the options ask for.
    Done,
}

/// Returns whether a file is striped, so that its attributes do not tell of its contents.
pub(super) fn is_striped(dir: &impl AsFd, name: &CStr, stat: &Stat, follow: bool) -> bool {
    if !may_be_striped(stat) {
        return false;
    }
    let follow = if follow { OFlags::empty() } else { OFlags::NOFOLLOW };
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | follow;
    // One that cannot be read is treated as if it were.
    openat(dir, name, flags, Mode::empty()).and_then(names::is_striped).unwrap_or(true)
}

pub(super) fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

impl CopyRun {
    /// Decides what to do with the target of `entry`, and removes it if the options say so.
    pub(super) fn examine(
        &self,
        entry: SourceEntry<'_>,
        source: &Stat,
    ) -> Result<EntryDecision, CopyError> {
        if entry.dir.fresh {
            return Ok(EntryDecision::Proceed(TargetState::FRESH));
        }
        let options = &self.options;
        let itself = looks_at_itself(options, source);
        let flags = if itself { AtFlags::SYMLINK_NOFOLLOW } else { AtFlags::empty() };
        let verdict = match statat(&entry.open.target, entry.target, flags) {
            Ok(target) => self.examine_existing(entry, source, target)?,
            Err(Errno::NOENT) => EntryDecision::Proceed(TargetState::FRESH),
            // A loop of links cannot be opened. With -f it is removed later.
            Err(Errno::LOOP) if options.force => {
                EntryDecision::Proceed(TargetState { fresh: false, stat: None })
            }
            Err(errno) => return Err(errno).at(FailedOperation::Stat, || entry.target_path()),
        };
        if entry.operand && matches!(verdict, EntryDecision::Proceed(_)) {
            self.refuse_new_symlink(entry)?;
        }
        Ok(verdict)
    }

    fn examine_existing(
        &self,
        entry: SourceEntry<'_>,
        source: &Stat,
        target: Stat,
    ) -> Result<EntryDecision, CopyError> {
        let options = &self.options;
        let directory = kind(source) == FileType::Directory;
        let mut done = false;
        if options.existing != ExistingRule::Keep {
            match sameness(options, entry, source, &target) {
                Sameness::Different => {}
                Sameness::Same => {
                    return Err(CopyError::SameFile(entry.source_path(), entry.target_path()));
                }
                Sameness::Done => done = true,
            }
            if lead_to_the_same_bytes(entry, source, &target)? {
                return Err(CopyError::SameFile(entry.source_path(), entry.target_path()));
            }
        }
        if let Some(mirror) = options.mirror
            && let Some(decision) = self.examine_for_mirror(entry, (source, &target), mirror)?
        {
            return Ok(decision);
        }
        if options.update && !directory && !older(&target, source) {
            return Ok(EntryDecision::KeepAsCopy(FileId::of(&target)));
        }
        if !directory {
            match options.existing {
                ExistingRule::Keep => return Ok(EntryDecision::Keep),
                ExistingRule::Ask if !self.may_overwrite(entry, &target) => {
                    return Ok(EntryDecision::Keep);
                }
                _ => {}
            }
        }
        if done {
            return Ok(EntryDecision::Keep);
        }
        match (directory, kind(&target) == FileType::Directory) {
            (true, false) => {
                return Err(CopyError::DirectoryOverFile(entry.target_path(), entry.source_path()));
            }
            (false, true) => return Err(CopyError::FileOverDirectory(entry.target_path())),
            (true, true) => {
                let found = TargetState { fresh: false, stat: Some(target) };
                return Ok(EntryDecision::Proceed(found));
            }
            (false, false) => {}
        }
        if entry.operand && self.was_created(entry) {
            if !looks_at_itself(options, source) {
                self.refuse_new_symlink(entry)?;
            }
            return Err(CopyError::JustCreated(entry.target_path(), entry.source_path()));
        }
        let replace_links = options.preserve.links && target.st_nlink > 1;
        let replace_special =
            options.dereference == Dereference::Never && kind(source) != FileType::RegularFile;
        let replaces = options.remove_destination || replace_links || replace_special;
        if replaces && !self.goes_on(entry, source, &target) {
            // With --atomic the new file takes the name once it is complete. Until then the old
            // file keeps the name.
            let renamed = options.transfer.atomic
                && !options.hard_link
                && kind(source) == FileType::RegularFile;
            if !renamed {
                self.remove(entry)?;
            }
            return Ok(EntryDecision::Proceed(TargetState::FRESH));
        }
        Ok(EntryDecision::Proceed(TargetState { fresh: false, stat: Some(target) }))
    }

    /// Returns whether the target is an incomplete copy of a large file, which an earlier attempt
    /// has noted in pieces.
    fn goes_on(&self, entry: SourceEntry<'_>, source: &Stat, target: &Stat) -> bool {
        let Some(notes) = self.notes.get() else { return false };
        let regular = [source, target].iter().all(|stat| kind(stat) == FileType::RegularFile);
        let transfer = &self.options.transfer;
        if !regular
            || transfer.atomic
            || source.st_size != target.st_size
            || (source.st_size as u64) < SHARED_BYTES_MIN
            // Its other names may be somebody else's.
            || target.st_nlink != 1
        {
            return false;
        }
        let nofollow = AtFlags::SYMLINK_NOFOLLOW;
        let found = statx(&entry.open.target, entry.target, nofollow, Birth::WANTED);
        found.is_ok_and(|found| {
            let facts = FileFacts::of(source, Birth::of(&found), self.follows(entry));
            facts.target_inode == target.st_ino
                && facts.target_born.is_some()
                && notes.is_durable(&Mark::of_begun(&facts))
                && !notes.is_durable(&Mark::of_complete(&facts))
        })
    }

    pub(super) fn remove(&self, entry: SourceEntry<'_>) -> Result<(), CopyError> {
        if self.options.is_dry() {
            self.report.removed(|| entry.target_path());
            return Ok(());
        }
        match names::unlinkat(&entry.open.target, entry.target) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno).at(FailedOperation::Remove, || entry.target_path()),
        }
        self.report.removed(|| entry.target_path());
        Ok(())
    }

    /// Returns whether an earlier operand of this run created the target's name.
    fn was_created(&self, entry: SourceEntry<'_>) -> bool {
        self.created.as_ref().is_some_and(|names| names.lock().contains(&entry.target_path()))
    }

    /// Refuses to write through a link that an earlier operand created, because it may lead
    /// elsewhere.
    fn refuse_new_symlink(&self, entry: SourceEntry<'_>) -> Result<(), CopyError> {
        if !self.was_created(entry) {
            return Ok(());
        }
        match statat(&entry.open.target, entry.target, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if kind(&stat) == FileType::Symlink => {
                Err(CopyError::ThroughNewSymlink(entry.source_path(), entry.target_path()))
            }
            _ => Ok(()),
        }
    }

    /// Asks the user whether the target may be replaced.
    fn may_overwrite(&self, entry: SourceEntry<'_>, target: &Stat) -> bool {
        let name = quoted(entry.target_path());
        let writable = kind(target) == FileType::Symlink
            || self.root
            || accessat(&entry.open.target, entry.target, Access::WRITE_OK, AtFlags::EACCESS)
                .is_ok();
        if writable {
            return self.report.ask(format_args!("overwrite {name}? "));
        }
        let (bits, letters) = (target.st_mode & 0o7777, permission_letters(target.st_mode));
        if self.options.remove_destination || self.options.force {
            self.report
                .ask(format_args!("replace {name}, overriding mode {bits:04o} ({letters})? "))
        } else {
            self.report
                .ask(format_args!("unwritable {name} (mode {bits:04o}, {letters}); try anyway? "))
        }
    }
}

/// Returns whether the target's own name is examined, rather than the file that a link there leads
/// to. Only regular files are written through links, and only if the link is not to be replaced.
fn looks_at_itself(options: &CpOptions, source: &Stat) -> bool {
    let written_as_regular = match kind(source) {
        FileType::RegularFile => true,
        FileType::Directory | FileType::Symlink => false,
        _ => !options.recursive,
    };
    !written_as_regular || options.hard_link || options.remove_destination
}

/// Returns whether `target` was last modified before `source`.
fn older(target: &Stat, source: &Stat) -> bool {
    (target.st_mtime, target.st_mtime_nsec) < (source.st_mtime, source.st_mtime_nsec)
}

/// Returns whether source and target are the descriptor of a striped file and a copy of that
/// descriptor. Removing or truncating one would then destroy the bytes of the other.
///
/// # Errors
/// EAGAIN if the owner of one of them holds a lease on it, so that its type cannot be determined.
fn lead_to_the_same_bytes(
    entry: SourceEntry<'_>,
    source: &Stat,
    target: &Stat,
) -> Result<bool, CopyError> {
    if !may_be_striped(source)
        || !may_be_striped(target)
        || FileId::of(source) == FileId::of(target)
    {
        return Ok(false);
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let id = |dir: &Handle, name, stat| {
        let fd =
            match LeaseWait::Briefly.open(|more| openat(dir, name, flags | more, Mode::empty())) {
                Err(errno @ Errno::AGAIN) => return Err(errno),
                // A file that cannot be read is treated as not striped.
                other => other.ok(),
            };
        let found =
            fd.and_then(|fd| descriptor_of(&fd, stat, Path::new(""), LeaseWait::Briefly).ok()?);
        Ok(found.map(|descriptor| descriptor.id))
    };
    let source = id(&entry.open.source, entry.source, source)
        .at(FailedOperation::Stat, || entry.source_path())?;
    let target = || {
        id(&entry.open.target, entry.target, target)
            .at(FailedOperation::Stat, || entry.target_path())
    };
    Ok(source.is_some() && source == target()?)
}

/// Compares source and target: copying a file over itself would destroy it.
fn sameness(options: &CpOptions, entry: SourceEntry<'_>, source: &Stat, target: &Stat) -> Sameness {
    let one_inode = FileId::of(source) == FileId::of(target);
    if one_inode && options.hard_link {
        return Sameness::Done;
    }
    let (source_link, target_link) = if options.dereference == Dereference::Never {
        if kind(source) == FileType::Symlink && kind(target) == FileType::Symlink {
            return match (same_name(entry), one_inode) {
                (true, _) => Sameness::Same,
                (false, true) => Sameness::Done,
                (false, false) => Sameness::Different,
            };
        }
        (*source, *target)
    } else {
        if !one_inode {
            return Sameness::Different;
        }
        let nofollow = AtFlags::SYMLINK_NOFOLLOW;
        let source_link = statat(&entry.open.source, entry.source, nofollow);
        let target_link = statat(&entry.open.target, entry.target, nofollow);
        let (Ok(source_link), Ok(target_link)) = (source_link, target_link) else {
            return Sameness::Different;
        };
        (source_link, target_link)
    };
    same_through_links(options, entry, &source_link, &target_link)
}

/// The part of [`sameness`] that compares the names themselves; `source` and `target` may be links.
fn same_through_links(
    options: &CpOptions,
    entry: SourceEntry<'_>,
    source: &Stat,
    target: &Stat,
) -> Sameness {
    let (source_is_link, target_is_link) =
        (kind(source) == FileType::Symlink, kind(target) == FileType::Symlink);
    let one_inode = FileId::of(source) == FileId::of(target);
    if options.remove_destination {
        // Removing a link, or one of several names, does not affect the source's contents.
        let another_name = one_inode && target.st_nlink > 1 && !same_name(entry);
        if target_is_link && (options.dereference == Dereference::Never || !same_name(entry))
            || another_name
        {
            return Sameness::Different;
        }
    }
    if !source_is_link && !target_is_link {
        return match one_inode {
            false => Sameness::Different,
            true if options.hard_link => Sameness::Done,
            true => Sameness::Same,
        };
    }
    let end = |is_link: bool, dir: &Handle, name, stat: &Stat| {
        if is_link { statat(dir, name, AtFlags::empty()) } else { Ok(*stat) }
    };
    let source_end = end(source_is_link, &entry.open.source, entry.source, source);
    let target_end = end(target_is_link, &entry.open.target, entry.target, target);
    match (source_end, target_end) {
        (Ok(source_end), Ok(target_end)) if FileId::of(&source_end) == FileId::of(&target_end) => {
            match (options.hard_link, target_is_link) {
                (true, false) => Sameness::Done,
                (true, true) => Sameness::Different,
                (false, _) => Sameness::Same,
            }
        }
        _ => Sameness::Different,
    }
}

/// Returns whether source and target are one directory entry.
fn same_name(entry: SourceEntry<'_>) -> bool {
    fn parts(dir: &Handle, name: &std::ffi::CStr) -> Option<(FileId, Vec<u8>)> {
        let bytes = name.to_bytes();
        let end = bytes.iter().rposition(|&b| b != b'/').map_or(0, |i| i + 1);
        let (parent, last) = match bytes[..end].iter().rposition(|&b| b == b'/') {
            Some(slash) => (&bytes[..=slash], &bytes[slash + 1..end]),
            None => (&b"."[..], &bytes[..end]),
        };
        statat(dir, parent, AtFlags::empty()).ok().map(|stat| (FileId::of(&stat), last.to_vec()))
    }
    let Pair { source, target } = entry.open;
    matches!((parts(source, entry.source), parts(target, entry.target)), (Some(a), Some(b))
        if a == b)
}

/// Formats a mode as `ls -l` does, such as `rwxr-xr-x`.
fn permission_letters(mode: u32) -> String {
    let mut letters = String::with_capacity(9);
    for (shift, special, low, high) in
        [(6, 0o4000, 's', 'S'), (3, 0o2000, 's', 'S'), (0, 0o1000, 't', 'T')]
    {
        let bits = mode >> shift;
        letters.push(if bits & 4 != 0 { 'r' } else { '-' });
        letters.push(if bits & 2 != 0 { 'w' } else { '-' });
        letters.push(match (bits & 1 != 0, mode & special != 0) {
            (true, false) => 'x',
            (false, false) => '-',
            (true, true) => low,
            (false, true) => high,
        });
    }
    letters
}

#[cfg(test)]
mod tests {
    use super::permission_letters;

    #[test]
    fn letters() {
        for (mode, letters) in [
            (0o644, "rw-r--r--"),
            (0o4755, "rwsr-xr-x"),
            (0o2644, "rw-r-Sr--"),
            (0o1777, "rwxrwxrwt"),
            (0, "---------"),
        ] {
            assert_eq!(permission_letters(mode), letters);
        }
    }
}

//! Making a target like its source: what of it is as it should be, and what is in the way.

use std::ffi::CStr;
use std::os::fd::{AsFd, OwnedFd};

use dio::names;
use dio::names::FileId;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, openat, readlinkat, unlinkat};
use rustix::io::Errno;

use super::entry::{SourceEntry, TargetState};
use super::error::{CopyError, ErrorContext, FailedOperation};
use super::examine::{EntryDecision, is_striped, kind};
use super::metadata::{Attributes, Now, Object, same_extended};
use super::options::Mirror;
use super::session::CopyRun;
use crate::tool::target::naming::temporary_name;

/// Units in which file systems keep times, in nanoseconds.
const TIME_UNITS: [u64; 5] = [1, 100, 1_000, 1_000_000, 1_000_000_000];

impl CopyRun {
    /// Decides about an existing target that is to be made like its source. `None` if it has to be
    /// made again, as by any copy.
    pub(super) fn examine_for_mirror(
        &self,
        entry: SourceEntry<'_>,
        (source, target): (&Stat, &Stat),
        mirror: Mirror,
    ) -> Result<Option<EntryDecision>, CopyError> {
        let is_directory = |stat| kind(stat) == FileType::Directory;
        if names::is_own_default(&entry.open.target, entry.target) {
            // A setting of the target directory.
            return Ok(Some(EntryDecision::Keep));
        }
        match (is_directory(source), is_directory(target)) {
            // An operand of another type than the target is more likely a mistake.
            (true, false) | (false, true) if entry.operand => Ok(None),
            (true, false) => {
                self.remove(entry)?;
                Ok(Some(EntryDecision::Proceed(TargetState::FRESH)))
            }
            (false, true) => {
                self.move_directory_away(entry, mirror)?;
                Ok(Some(EntryDecision::Proceed(TargetState::FRESH)))
            }
            (true, true) => Ok(None),
            (false, false) => {
                let is_link = self.has_links(entry, source)
                    && kind(source) == kind(target)
                    && kind(source) == FileType::RegularFile
                    && self.links.is_claimed(source);
                let kept = is_link || self.is_kept(entry, (source, target), mirror)?;
                Ok(kept.then(|| EntryDecision::KeepAsCopy(FileId::of(target))))
            }
        }
    }

    /// Returns whether the target has the contents of the source, and gives it the source's
    /// attributes.
    fn is_kept(
        &self,
        entry: SourceEntry<'_>,
        (source, target): (&Stat, &Stat),
        mirror: Mirror,
    ) -> Result<bool, CopyError> {
        if kind(source) != kind(target) {
            return Ok(false);
        }
        let same = match kind(source) {
            FileType::RegularFile => self.has_same_contents(entry, (source, target), mirror)?,
            FileType::Symlink => {
                let from = readlinkat(&entry.open.source, entry.source, Vec::new())
                    .at(FailedOperation::ReadLink, || entry.source_path())?;
                readlinkat(&entry.open.target, entry.target, Vec::new()) == Ok(from)
            }
            FileType::CharacterDevice | FileType::BlockDevice => source.st_rdev == target.st_rdev,
            _ => true,
        };
        let kept = same && self.adjust(entry, (source, target))?;
        if kept
            && mirror.checksum
            && let Some(notes) = self.notes.get()
            && let Some((mark, _)) = self.mark(entry, source)
        {
            // The next attempt need not read it.
            notes.completed(mark);
        }
        Ok(kept)
    }

    fn has_same_contents(
        &self,
        entry: SourceEntry<'_>,
        (source, target): (&Stat, &Stat),
        mirror: Mirror,
    ) -> Result<bool, CopyError> {
        // The attributes of a striped file do not tell of its contents.
        let striped = is_striped(&entry.open.source, entry.source, source, self.follows(entry))
            || is_striped(&entry.open.target, entry.target, target, false);
        if !striped && source.st_size != target.st_size {
            return Ok(false);
        }
        if !striped && !mirror.checksum {
            return Ok(is_same_time(source, target));
        }
        if self.noted(entry, source).is_some() {
            return Ok(true);
        }
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let follow = if self.follows(entry) { OFlags::empty() } else { OFlags::NOFOLLOW };
        let from = openat(&entry.open.source, entry.source, flags | follow, Mode::empty())
            .at(FailedOperation::OpenSource, || entry.source_path())?;
        let nofollow = flags | OFlags::NOFOLLOW;
        let into = openat(&entry.open.target, entry.target, nofollow, Mode::empty());
        // One that cannot be read is made again.
        let Ok(into) = into else { return Ok(false) };
        let same = |fd: &OwnedFd, stat: &Stat| {
            fstat(fd).is_ok_and(|opened| FileId::of(&opened) == FileId::of(stat))
        };
        if !same(&from, source) {
            return Err(CopyError::Replaced(entry.source_path()));
        }
        Ok(same(&into, target) && self.data.is_equal(&from, &into)?)
    }

    /// Gives a target with the right contents the attributes of the source, where they differ.
    /// Returns false if it has to be made again instead, because it has names that the source does
    /// not have.
    fn adjust(
        &self,
        entry: SourceEntry<'_>,
        (source, target): (&Stat, &Stat),
    ) -> Result<bool, CopyError> {
        let preserve = &self.options.preserve;
        let symlink = kind(source) == FileType::Symlink;
        let from = self.open_source_place(entry, source)?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let into = openat(&entry.open.target, entry.target, flags, Mode::empty())
            .at(FailedOperation::Access, || entry.target_path())?;
        let opened = fstat(&into).at(FailedOperation::Stat, || entry.target_path())?;
        if FileId::of(&opened) != FileId::of(target) {
            return Err(CopyError::Replaced(entry.target_path()));
        }
        let (from, into) = (Object::Place(from.as_fd()), Object::Place(into.as_fd()));
        let owners = |stat: &Stat| (stat.st_uid, stat.st_gid);
        let same = (!preserve.timestamps || is_same_time(source, target))
            && (!preserve.ownership || owners(source) == owners(target))
            && (!preserve.mode || symlink || (source.st_mode ^ target.st_mode) & 0o7777 == 0)
            && (!(preserve.xattr || preserve.mode)
                || same_extended((&from, &into), preserve.xattr, preserve.mode && !symlink));
        if same {
            return Ok(true);
        }
        if target.st_nlink > source.st_nlink {
            return Ok(false);
        }
        self.report.adjusting(|| entry.source_path(), || entry.target_path());
        if self.options.is_dry() {
            return Ok(true);
        }
        self.durable.file_system_of(&entry.open.target, target.st_dev, || entry.target_path());
        Attributes {
            session: self,
            source: from,
            target: into,
            stat: source,
            now: Now {
                owner: owners(target),
                mode: Some(target.st_mode & 0o7777),
                fresh: false,
                acl: true,
            },
            symlink,
            directory: false,
            plain_mode: None,
            shown: &|| entry.target_path(),
        }
        .apply();
        Ok(true)
    }

    /// Makes room for a file where the target is a directory. One with entries gets another name,
    /// and is removed under that when all copies are durable.
    fn move_directory_away(&self, entry: SourceEntry<'_>, mirror: Mirror) -> Result<(), CopyError> {
        let (dir, name) = (&entry.open.target, entry.target);
        if self.options.is_dry() {
            if !mirror.delete && !is_empty(dir, name) {
                return Err(CopyError::FileOverDirectory(entry.target_path()));
            }
            self.report.removed(|| entry.target_path());
            return Ok(());
        }
        match unlinkat(dir, name, AtFlags::REMOVEDIR) {
            Err(Errno::NOTEMPTY | Errno::EXIST) if mirror.delete => {
                names::rename_new(dir, name, &temporary_name())
                    .at(FailedOperation::Remove, || entry.target_path())?;
            }
            Err(Errno::NOTEMPTY | Errno::EXIST) => {
                return Err(CopyError::FileOverDirectory(entry.target_path()));
            }
            removed => removed.at(FailedOperation::Remove, || entry.target_path())?,
        }
        self.report.removed(|| entry.target_path());
        Ok(())
    }
}

fn is_empty(dir: &impl AsFd, name: &CStr) -> bool {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(dir, name, flags, Mode::empty()).is_ok_and(|fd| super::made::is_empty(&fd) == Ok(true))
}

/// Returns whether the target has the source's time of modification, in the unit in which its file
/// system keeps times.
pub(super) fn is_same_time(source: &Stat, target: &Stat) -> bool {
    #[allow(clippy::unnecessary_cast, reason = "the type differs between architectures")]
    let (from, into) = (source.st_mtime_nsec as u64, target.st_mtime_nsec as u64);
    source.st_mtime == target.st_mtime && TIME_UNITS.iter().any(|unit| from / unit * unit == into)
}

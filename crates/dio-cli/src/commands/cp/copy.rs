//! Copies one entry of any type.

use std::cell::Cell;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use dio::names;
use dio::names::FileId;
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, Stat, fstat, mkfifoat, mknodat, openat, readlinkat, statat,
    symlinkat,
};
use rustix::io::Errno;

use super::data::WorkerBuffer;
use super::dirs::Dir;
use super::entry::{SourceEntry, TargetState};
use super::error::{CopyError, ErrorContext, FailedOperation};
use super::examine::{EntryDecision, is_striped, kind};
use super::links::{FirstCopy, LinkAction, link_open};
use super::metadata::{Attributes, Now, Object};
use super::open::{Contents, is_link};
use super::options::{Dereference, ExistingRule};
use super::ranges::Helpers;
use super::session::CopyRun;
use super::tree::Listed;
use crate::tool::Mark;
use crate::tool::made::Special;
use crate::tool::target::naming::temporary_name;

impl CopyRun {
    /// Copies the name `source` in `dir` to `target`. For an operand, whose attributes were already
    /// read, `operand` holds them. Errors are reported and recorded for the exit status.
    pub(super) fn copy(
        self: &Arc<Self>,
        lane: &mut WorkerBuffer,
        dir: &Arc<Dir>,
        (source, target): (&CStr, &CStr),
        operand: Option<Stat>,
    ) {
        let copied = dir.open().and_then(|open| {
            let entry =
                SourceEntry { dir, open: &open, source, target, operand: operand.is_some() };
            self.try_copy(lane, entry, operand)
        });
        match copied {
            // `dir` is no longer held open here while a directory in it is filled.
            Ok(listed) => listed.into_iter().for_each(|listed| self.fill(lane, listed)),
            Err(error) => self.tell(error),
        }
    }

    /// Reports an error. An interruption is not printed here, because it is printed once at the end
    /// of the run.
    fn tell(&self, error: CopyError) {
        match error {
            CopyError::Interrupted => self.report.fail(),
            other => self.report.error(other),
        }
    }

    /// Returns whether a symbolic link at `entry` is followed.
    pub(super) fn follows(&self, entry: SourceEntry<'_>) -> bool {
        match self.options.dereference {
            Dereference::Never => false,
            Dereference::Operands => entry.operand,
            Dereference::Always => true,
        }
    }

    /// Reads the attributes of the source of `entry`.
    pub(super) fn look(&self, entry: SourceEntry<'_>) -> Result<Stat, CopyError> {
        let flags = if self.follows(entry) { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
        let stat = statat(&entry.open.source, entry.source, flags)
            .at(FailedOperation::Stat, || entry.source_path())?;
        if kind(&stat) == FileType::Directory && !self.options.recursive {
            return Err(CopyError::Omitting(entry.source_path()));
        }
        Ok(stat)
    }

    fn try_copy(
        self: &Arc<Self>,
        lane: &mut WorkerBuffer,
        entry: SourceEntry<'_>,
        stat: Option<Stat>,
    ) -> Result<Option<Listed>, CopyError> {
        if self.data.stopped() {
            return Err(CopyError::Interrupted);
        }
        let stat = match stat {
            Some(stat) => stat,
            None => self.look(entry)?,
        };
        let directory = kind(&stat) == FileType::Directory;
        if !directory && self.has_links(entry, &stat) && self.is_sent_home(entry, &stat) {
            return Ok(None);
        }
        if self.options.mirror.is_none()
            && let Some(kept) = self.noted(entry, &stat)
        {
            return self.keep_as_copy(entry, &stat, kept).map(|()| None);
        }
        let found = match self.examine(entry, &stat)? {
            EntryDecision::Proceed(found) => found,
            EntryDecision::Keep => return Ok(None),
            EntryDecision::KeepAsCopy(kept) => {
                return self.keep_as_copy(entry, &stat, kept).map(|()| None);
            }
        };
        if directory {
            return self.copy_directory(entry, &stat, found).map(Some);
        }
        self.report.copying(|| entry.source_path(), || entry.target_path());
        self.pass_on_rest(lane, entry.dir, stat.st_size as u64);
        self.copy_or_link(lane, entry, &stat, found).map(|()| None)
    }

    /// Returns the inode of the target if it was noted as a durable copy of `stat`.
    pub(super) fn noted(&self, entry: SourceEntry<'_>, stat: &Stat) -> Option<FileId> {
        let notes = self.notes.get()?;
        let (mark, target) = self.mark(entry, stat)?;
        notes.is_durable(&mark).then(|| {
            self.ledger.count_noted(stat.st_size as u64, 1);
            FileId::of(&target)
        })
    }

    /// Returns the mark of a copy that is complete, and the target's attributes. Only regular files
    /// have marks.
    pub(super) fn mark(&self, entry: SourceEntry<'_>, stat: &Stat) -> Option<(Mark, Stat)> {
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        let target = statat(&entry.open.target, entry.target, flags).ok()?;
        let regular = [stat, &target].iter().all(|stat| kind(stat) == FileType::RegularFile);
        let plain = regular
            && !is_striped(&entry.open.source, entry.source, stat, self.follows(entry))
            && !is_striped(&entry.open.target, entry.target, &target, false);
        plain.then(|| (Mark::of(stat, &target, self.has_links(entry, stat)), target))
    }

    /// Returns whether the walk may meet other names of the same inode.
    pub(super) fn has_links(&self, entry: SourceEntry<'_>, stat: &Stat) -> bool {
        let options = &self.options;
        options.preserve.links
            && !options.hard_link
            && (stat.st_nlink > 1
                || options.dereference == Dereference::Always
                || (entry.operand && options.dereference == Dereference::Operands))
    }

    /// Maximum number of names of an inode that can be met: its hard links, or no limit if symbolic
    /// links are followed.
    fn names(&self, stat: &Stat) -> u64 {
        #[allow(clippy::unnecessary_cast, reason = "the type differs between architectures")]
        if self.options.dereference == Dereference::Never { stat.st_nlink as u64 } else { u64::MAX }
    }

    fn copy_or_link(
        self: &Arc<Self>,
        lane: &mut WorkerBuffer,
        entry: SourceEntry<'_>,
        stat: &Stat,
        found: TargetState,
    ) -> Result<(), CopyError> {
        if !self.has_links(entry, stat) {
            if self.options.is_dry() {
                return Ok(());
            }
            return self.place(lane, entry, stat, found).map(drop);
        }
        match self.links.claim(entry, stat, &found) {
            LinkAction::Left => Ok(()),
            LinkAction::Link(to) => self.link(entry, &to, &found),
            LinkAction::First => {
                let placed = if self.options.is_dry() {
                    Ok(FirstCopy::planned(entry))
                } else {
                    self.place(lane, entry, stat, found).and_then(|made| first_of(entry, made))
                };
                match placed {
                    Ok(first) => {
                        self.link_waiting(first, stat);
                        Ok(())
                    }
                    Err(error) => {
                        self.retry_waiting(lane, stat);
                        Err(error)
                    }
                }
            }
        }
    }

    /// Records `first` as the copy of the inode of `stat`, and links the names that waited for it.
    fn link_waiting(&self, first: FirstCopy, stat: &Stat) {
        for one in self.links.copied(stat, first.clone(), self.names(stat)) {
            let linked =
                one.dir.open().and_then(|open| self.link(one.entry(&open), &first, &one.found));
            if let Err(error) = linked {
                self.report.error(error);
            }
            self.leave(one.dir);
        }
    }

    /// After the first name of the inode of `stat` could not be copied, makes the next one the
    /// first.
    fn retry_waiting(self: &Arc<Self>, lane: &mut WorkerBuffer, stat: &Stat) {
        for one in self.links.failed(stat) {
            let copied = one
                .dir
                .open()
                .and_then(|open| self.copy_or_link(lane, one.entry(&open), &one.stat, one.found));
            if let Err(error) = copied {
                self.tell(error);
            }
            self.leave(one.dir);
        }
    }

    /// Handles a target that `-u` keeps: it counts as the copy, and other links of its source
    /// become links to it.
    fn keep_as_copy(
        &self,
        entry: SourceEntry<'_>,
        stat: &Stat,
        kept: FileId,
    ) -> Result<(), CopyError> {
        if !self.has_links(entry, stat) {
            return Ok(());
        }
        match self.links.claim(entry, stat, &TargetState::KEPT) {
            LinkAction::Left => Ok(()),
            LinkAction::Link(to) => self.link(entry, &to, &TargetState::KEPT),
            LinkAction::First => {
                let kept = (!leads_elsewhere(entry)).then_some(kept);
                self.link_waiting(first_of(entry, kept)?, stat);
                Ok(())
            }
        }
    }

    /// Makes the target a link to the first copy of its inode, unless it is one.
    fn link(
        &self,
        entry: SourceEntry<'_>,
        to: &FirstCopy,
        found: &TargetState,
    ) -> Result<(), CopyError> {
        if self.options.mirror.is_some() && found.is_kept() {
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            if let Ok(stat) = statat(&entry.open.target, entry.target, flags) {
                if FileId::of(&stat) == to.inode {
                    return Ok(());
                }
                self.report.copying(|| entry.source_path(), || entry.target_path());
                if self.options.is_dry() {
                    self.report.removed(|| entry.target_path());
                }
            }
        }
        if self.options.is_dry() {
            return Ok(());
        }
        let linked = to.open().and_then(|first| {
            self.link_replacing(entry, true, |target, name| link_open(&first, target, name))
        });
        linked.map_err(|errno| CopyError::Link { path: entry.target_path(), to: to.path(), errno })
    }

    /// Makes the target by calling `link`. If the name exists and `replace` is set, replaces it.
    fn link_replacing(
        &self,
        entry: SourceEntry<'_>,
        replace: bool,
        link: impl Fn(BorrowedFd<'_>, &CStr) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let target = entry.open.target.as_fd();
        match link(target, entry.target) {
            Err(Errno::EXIST) if replace => {}
            other => return other,
        }
        // The link is made under a temporary name and renamed over the old one, so that the
        // target's name always exists.
        let name = temporary_beside(entry.target);
        link(target, &name)?;
        let renamed = names::renameat(target, &name, entry.target);
        // `rename(2)` of one link over another link to the same file does nothing and leaves both
        // names.
        let _ = names::unlinkat(target, &name);
        renamed?;
        self.report.removed(|| entry.target_path());
        Ok(())
    }

    /// Makes a target that is not a directory. Returns its inode if the inode was read and other
    /// names may become links to it.
    fn place(
        self: &Arc<Self>,
        lane: &mut WorkerBuffer,
        entry: SourceEntry<'_>,
        stat: &Stat,
        found: TargetState,
    ) -> Result<Option<FileId>, CopyError> {
        let kind = kind(stat);
        let mut made = None;
        if self.options.hard_link {
            let replace = self.options.force || self.options.existing == ExistingRule::Ask;
            let source = self.open_source_place(entry, stat)?;
            let linked = self
                .link_replacing(entry, replace, |target, name| link_open(&source, target, name));
            linked.map_err(|errno| CopyError::Link {
                path: entry.target_path(),
                to: entry.source_path(),
                errno,
            })?;
        } else if kind == FileType::RegularFile
            || (!self.options.recursive && kind != FileType::Symlink)
        {
            made = self.place_contents(lane, entry, stat, found)?;
        } else {
            made = self.place_special(entry, stat, kind)?;
        }
        self.remember_created(entry);
        Ok(made)
    }

    /// If there are several operands, records this name, which a later operand must not overwrite.
    fn remember_created(&self, entry: SourceEntry<'_>) {
        if let Some(created) = self.created.as_ref().filter(|_| entry.operand) {
            created.lock().insert(entry.target_path());
        }
    }

    fn place_contents(
        self: &Arc<Self>,
        lane: &mut WorkerBuffer,
        entry: SourceEntry<'_>,
        stat: &Stat,
        found: TargetState,
    ) -> Result<Option<FileId>, CopyError> {
        let preserve = &self.options.preserve;
        let owned = entry.dir.creates_as.get() == Some(&(stat.st_uid, stat.st_gid));
        // Until the owner is set, only the present owner may access the file.
        let omitted = if preserve.ownership && !owned { 0o077 } else { 0 };
        let mut mode = stat.st_mode & 0o777 & !omitted;
        if !self.root {
            // The owner needs these bits to set attributes, and to open the file a second time for
            // direct I/O or to verify it. Root needs none of them.
            mode |= 0o600;
        }
        let contents = Contents {
            entry,
            stat,
            follow: self.options.dereference != Dereference::Never,
            fresh: found.fresh,
            // Other targets that exist are removed.
            goes_on: found
                .stat
                .filter(|_| self.options.remove_destination)
                .map(|stat| FileId::of(&stat)),
            into_fifo: found.stat.is_some_and(|stat| kind(&stat) == FileType::Fifo),
            mode,
            umask: self.umask,
            force: self.options.force,
            report: &self.report,
            helpers: self.share.get().map(|_| self as &dyn Helpers),
        };
        let (linked, written) = (self.has_links(entry, stat), Cell::new(None));
        let mut finish = |source: BorrowedFd<'_>, target: BorrowedFd<'_>, fresh: bool| {
            if linked && !leads_elsewhere(entry) {
                written.set(fstat(target).ok().map(|stat| FileId::of(&stat)));
            }
            self.durable.file(target, fresh, || entry.target_path());
            self.finish_contents((entry, stat), (source, target), found, fresh.then_some(mode));
        };
        self.data.copy(lane, &contents, &mut finish)?;
        if let Some(notes) = self.notes.get()
            && let Some((mark, _)) = self.mark(entry, stat)
        {
            notes.completed(mark);
        }
        Ok(written.get())
    }

    /// Sets the attributes of a file whose contents are complete. `made` is the mode it was created
    /// with, or `None` if it existed before.
    fn finish_contents(
        &self,
        (entry, stat): (SourceEntry<'_>, &Stat),
        (source, target): (BorrowedFd<'_>, BorrowedFd<'_>),
        found: TargetState,
        made: Option<u32>,
    ) {
        let preserve = &self.options.preserve;
        let as_made = made.is_none_or(|made| made == stat.st_mode & 0o777);
        let kept = preserve.mode
            || preserve.ownership
            || preserve.timestamps
            || preserve.xattr
            || preserve.default_mode;
        if as_made && !kept {
            return;
        }
        let owner_of =
            || fstat(target).map_or((u32::MAX, u32::MAX), |stat| (stat.st_uid, stat.st_gid));
        let now = match (made, found.stat) {
            (Some(mode), _) => Now {
                owner: if preserve.ownership {
                    *entry.dir.creates_as.get_or_init(owner_of)
                } else {
                    (0, 0)
                },
                mode: (!entry.dir.default_acl).then_some(mode & !self.umask),
                fresh: true,
                acl: entry.dir.default_acl,
            },
            (None, Some(stat)) => Now {
                owner: (stat.st_uid, stat.st_gid),
                mode: Some(stat.st_mode & 0o7777),
                fresh: false,
                acl: true,
            },
            (None, None) => Now { owner: owner_of(), mode: None, fresh: false, acl: true },
        };
        let plain_mode = match (made, preserve.default_mode) {
            (Some(_), true) => Some(0o666 & !self.umask),
            (Some(made), false) if made != stat.st_mode & 0o777 => {
                Some(stat.st_mode & 0o777 & !self.umask)
            }
            _ => None,
        };
        Attributes {
            session: self,
            source: Object::Open(source),
            target: Object::Open(target),
            stat,
            now,
            symlink: false,
            directory: false,
            plain_mode,
            shown: &|| entry.target_path(),
        }
        .apply();
    }

    /// Makes a symbolic link, a fifo, a socket or a device. Returns its inode if the inode was
    /// read.
    fn place_special(
        &self,
        entry: SourceEntry<'_>,
        stat: &Stat,
        kind: FileType,
    ) -> Result<Option<FileId>, CopyError> {
        let (dir, name) = (entry.open.target.as_fd(), entry.target);
        let preserve = &self.options.preserve;
        let omitted = if preserve.ownership { 0o077 } else { 0 };
        let mode = stat.st_mode & 0o7777 & !omitted;
        let creating = match kind {
            FileType::Symlink => FailedOperation::CreateSymlink,
            FileType::Fifo => FailedOperation::CreateFifo,
            FileType::CharacterDevice | FileType::BlockDevice | FileType::Socket => {
                FailedOperation::CreateSpecial
            }
            _ => return Err(CopyError::UnknownType(entry.source_path())),
        };
        let source = self.open_source_place(entry, stat)?;
        let link = match kind {
            FileType::Symlink => Some(
                readlinkat(&source, c"", Vec::new())
                    .at(FailedOperation::ReadLink, || entry.source_path())?,
            ),
            _ => None,
        };
        #[allow(clippy::unnecessary_cast, reason = "the type differs between architectures")]
        let special = Special { kind, device: stat.st_rdev as u64, link: link.as_deref() };
        let create = || match kind {
            FileType::Symlink => symlinkat(link.as_deref().unwrap_or(c""), dir, name),
            FileType::Fifo => mkfifoat(dir, name, Mode::from_bits_retain(mode)),
            _ => mknodat(dir, name, kind, Mode::from_bits_retain(mode), special.device),
        };
        let created = match create() {
            Err(Errno::EXIST) if kind == FileType::Symlink && self.options.force => {
                names::unlinkat(dir, name).and_then(|()| create())
            }
            created => created,
        };
        created.at(creating, || entry.target_path())?;
        let plain_mode = match preserve.default_mode {
            true if kind == FileType::Socket => Some(0o777 & !self.umask),
            true => Some(0o666 & !self.umask),
            false => (omitted != 0).then_some(stat.st_mode & 0o7777 & !self.umask),
        };
        let kept = preserve.mode || preserve.ownership || preserve.timestamps || preserve.xattr;
        if !kept && plain_mode.is_none() && !self.has_links(entry, stat) {
            return Ok(None);
        }
        let (target, made) = match special.open(dir, name) {
            Err(Errno::STALE) => return Err(CopyError::Replaced(entry.target_path())),
            opened => opened.at(FailedOperation::Stat, || entry.target_path())?,
        };
        let known = !entry.dir.default_acl && kind != FileType::Symlink;
        Attributes {
            session: self,
            source: Object::Place(source.as_fd()),
            target: Object::Place(target.as_fd()),
            stat,
            now: Now {
                owner: (made.st_uid, made.st_gid),
                mode: known.then_some(made.st_mode & 0o7777),
                fresh: true,
                acl: entry.dir.default_acl,
            },
            symlink: kind == FileType::Symlink,
            directory: false,
            plain_mode,
            shown: &|| entry.target_path(),
        }
        .apply();
        Ok(Some(FileId::of(&made)))
    }

    /// Opens the source with `O_PATH` and checks that it is the inode in `stat`; that may be a
    /// symbolic link.
    pub(super) fn open_source_place(
        &self,
        entry: SourceEntry<'_>,
        stat: &Stat,
    ) -> Result<OwnedFd, CopyError> {
        let mut flags = OFlags::PATH | OFlags::CLOEXEC;
        if !self.follows(entry) {
            flags |= OFlags::NOFOLLOW;
        }
        let source = openat(&entry.open.source, entry.source, flags, Mode::empty());
        let source = source.at(FailedOperation::Access, || entry.source_path())?;
        let opened = fstat(&source).at(FailedOperation::Stat, || entry.source_path())?;
        if FileId::of(&opened) != FileId::of(stat) {
            return Err(CopyError::Replaced(entry.source_path()));
        }
        Ok(source)
    }

    /// Marks an entry of `dir`, or its listing, as done. Finishes each directory that has nothing
    /// pending.
    pub(super) fn leave(&self, dir: Arc<Dir>) {
        let mut next = Some(dir);
        while let Some(dir) = next.take_if(|dir| dir.leave()) {
            self.finish_directory(&dir);
            self.give_back(&dir);
            // Names in it may still be the first ones of links. The directory is opened again for
            // them.
            dir.close();
            next = dir.parent.clone();
        }
    }
}

/// Returns whether the target's name is a symbolic link, so that the file read or written through
/// it has another name.
fn leads_elsewhere(entry: SourceEntry<'_>) -> bool {
    is_link(entry.open.target.as_fd(), entry.target)
}

/// Describes the copy of `entry` for later links to it. Its inode is `made` if known, else that of
/// the file that has the name now.
fn first_of(entry: SourceEntry<'_>, made: Option<FileId>) -> Result<FirstCopy, CopyError> {
    let inode = match made {
        Some(made) => made,
        None => {
            let stat = statat(&entry.open.target, entry.target, AtFlags::SYMLINK_NOFOLLOW);
            FileId::of(&stat.at(FailedOperation::Stat, || entry.target_path())?)
        }
    };
    Ok(FirstCopy { dir: Arc::clone(entry.dir), name: entry.target.to_owned(), inode })
}

/// Makes an unused name in the target's directory.
fn temporary_beside(target: &CStr) -> CString {
    let name = target.to_bytes();
    let end = name.iter().rposition(|&b| b == b'/').map_or(0, |slash| slash + 1);
    CString::new([&name[..end], temporary_name().to_bytes()].concat())
        .expect("both parts are C strings")
}

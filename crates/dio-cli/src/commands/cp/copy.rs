//! Copies one entry, whatever it is.

use std::cell::Cell;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use dio::names;
use dio::names::FileId;
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, Stat, fstat, mkfifoat, mknodat, openat, readlinkat, statat, symlinkat,
};
use rustix::io::Errno;

use super::data::Lane;
use super::dirs::Dir;
use super::entry::{Entry, Target};
use super::error::{At, CopyError, Doing};
use super::examine::{Verdict, kind};
use super::links::{Claim, First, link_open};
use super::metadata::{Attributes, Now, Object};
use super::open::{Contents, is_link};
use super::options::{Dereference, Existing};
use super::session::Session;
use super::tree::Listed;
use crate::tool::made::Special;
use crate::tool::target::naming::temporary_name;

impl Session {
    /// Copies the name `source` in `dir` as `target`; of an operand, which was looked at, `operand`
    /// is what it is. What goes wrong is told, and the exit status will say so.
    pub(super) fn copy(
        self: &Arc<Self>,
        lane: &mut Lane,
        dir: &Arc<Dir>,
        (source, target): (&CStr, &CStr),
        operand: Option<Stat>,
    ) {
        let copied = dir.open().and_then(|open| {
            let entry = Entry { dir, open: &open, source, target, operand: operand.is_some() };
            self.try_copy(lane, entry, operand)
        });
        match copied {
            // Nothing holds `dir` open while another directory in it is filled.
            Ok(listed) => listed.into_iter().for_each(|listed| self.fill(lane, listed)),
            Err(error) => self.tell(error),
        }
    }

    /// Tells an error. That the run was interrupted is told once, at its end.
    fn tell(&self, error: CopyError) {
        match error {
            CopyError::Interrupted => self.report.fail(),
            other => self.report.error(other),
        }
    }

    /// Whether a symbolic link at `entry` is followed.
    fn follows(&self, entry: Entry<'_>) -> bool {
        match self.options.dereference {
            Dereference::Never => false,
            Dereference::Operands => entry.operand,
            Dereference::Always => true,
        }
    }

    /// Looks at the source of `entry`.
    pub(super) fn look(&self, entry: Entry<'_>) -> Result<Stat, CopyError> {
        let flags = if self.follows(entry) { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
        let stat = statat(&entry.open.source, entry.source, flags).at(Doing::Stat, || entry.source_path())?;
        if kind(&stat) == FileType::Directory && !self.options.recursive {
            return Err(CopyError::Omitting(entry.source_path()));
        }
        Ok(stat)
    }

    fn try_copy(
        self: &Arc<Self>,
        lane: &mut Lane,
        entry: Entry<'_>,
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
        let found = match self.examine(entry, &stat)? {
            Verdict::Proceed(found) => found,
            Verdict::Keep => return Ok(None),
            Verdict::KeepAsCopy(kept) => return self.keep_as_copy(entry, &stat, kept).map(|()| None),
        };
        if directory {
            return self.copy_directory(entry, &stat, found).map(Some);
        }
        self.report.copying(|| entry.source_path(), || entry.target_path());
        self.copy_or_link(lane, entry, &stat, found).map(|()| None)
    }

    /// Whether other names of the same inode may come.
    pub(super) fn has_links(&self, entry: Entry<'_>, stat: &Stat) -> bool {
        let options = &self.options;
        options.preserve.links
            && !options.hard_link
            && (stat.st_nlink > 1
                || options.dereference == Dereference::Always
                || (entry.operand && options.dereference == Dereference::Operands))
    }

    /// How many names of an inode can be met: its links, and any number of symbolic ones if they
    /// are followed.
    fn names(&self, stat: &Stat) -> u64 {
        #[allow(clippy::unnecessary_cast, reason = "the type differs between architectures")]
        if self.options.dereference == Dereference::Never { stat.st_nlink as u64 } else { u64::MAX }
    }

    fn copy_or_link(
        self: &Arc<Self>,
        lane: &mut Lane,
        entry: Entry<'_>,
        stat: &Stat,
        found: Target,
    ) -> Result<(), CopyError> {
        if !self.has_links(entry, stat) {
            return self.place(lane, entry, stat, found).map(drop);
        }
        match self.links.claim(entry, stat, &found) {
            Claim::Left => Ok(()),
            Claim::Link(to) => self.link(entry, &to),
            Claim::First => {
                let placed = self.place(lane, entry, stat, found).and_then(|made| first_of(entry, made));
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

    /// The inode of `stat` is copied as `first`: links the names that waited for it.
    fn link_waiting(&self, first: First, stat: &Stat) {
        for one in self.links.copied(stat, first.clone(), self.names(stat)) {
            if let Err(error) = one.dir.open().and_then(|open| self.link(one.entry(&open), &first)) {
                self.report.error(error);
            }
            self.leave(one.dir);
        }
    }

    /// The first name of the inode of `stat` could not be copied: the next one becomes the first.
    fn retry_waiting(self: &Arc<Self>, lane: &mut Lane, stat: &Stat) {
        for one in self.links.failed(stat) {
            let copied =
                one.dir.open().and_then(|open| self.copy_or_link(lane, one.entry(&open), &one.stat, one.found));
            if let Err(error) = copied {
                self.tell(error);
            }
            self.leave(one.dir);
        }
    }

    /// Under `-u`, a target that stays counts as the copy that other links of its source become
    /// links to.
    fn keep_as_copy(&self, entry: Entry<'_>, stat: &Stat, kept: FileId) -> Result<(), CopyError> {
        if !self.has_links(entry, stat) {
            return Ok(());
        }
        match self.links.claim(entry, stat, &Target { fresh: false, stat: None }) {
            Claim::Left => Ok(()),
            Claim::Link(to) => self.link(entry, &to),
            Claim::First => {
                let kept = (!leads_elsewhere(entry)).then_some(kept);
                self.link_waiting(first_of(entry, kept)?, stat);
                Ok(())
            }
        }
    }

    /// Makes the target a link to what was copied first.
    fn link(&self, entry: Entry<'_>, to: &First) -> Result<(), CopyError> {
        let linked = to
            .open()
            .and_then(|first| self.link_replacing(entry, true, |target, name| link_open(&first, target, name)));
        linked.map_err(|errno| CopyError::Link { path: entry.target_path(), to: to.path(), errno })
    }

    /// Makes the target by `link`, if need be in the place of what is there.
    fn link_replacing(
        &self,
        entry: Entry<'_>,
        replace: bool,
        link: impl Fn(BorrowedFd<'_>, &CStr) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let target = entry.open.target.as_fd();
        match link(target, entry.target) {
            Err(Errno::EXIST) if replace => {}
            other => return other,
        }
        // Under another name first, then over the old one, so that the target never lacks.
        let name = temporary_beside(entry.target);
        link(target, &name)?;
        let renamed = names::renameat(target, &name, entry.target);
        // Renaming one link of a file over another does nothing and leaves both.
        let _ = names::unlinkat(target, &name);
        renamed?;
        self.report.removed(|| entry.target_path());
        Ok(())
    }

    /// Makes the target, which is not a directory; the inode that it got, if it was looked at and
    /// other names may become links to it.
    fn place(
        &self,
        lane: &mut Lane,
        entry: Entry<'_>,
        stat: &Stat,
        found: Target,
    ) -> Result<Option<FileId>, CopyError> {
        let kind = kind(stat);
        let mut made = None;
        if self.options.hard_link {
            let replace = self.options.force || self.options.existing == Existing::Ask;
            let source = self.open_source_place(entry, stat)?;
            let linked = self.link_replacing(entry, replace, |target, name| link_open(&source, target, name));
            linked.map_err(|errno| CopyError::Link { path: entry.target_path(), to: entry.source_path(), errno })?;
        } else if kind == FileType::RegularFile || (!self.options.recursive && kind != FileType::Symlink) {
            made = self.place_contents(lane, entry, stat, found)?;
        } else {
            made = self.place_special(entry, stat, kind)?;
        }
        self.remember_created(entry);
        Ok(made)
    }

    /// Several operands: the name must not be overwritten by a later one.
    fn remember_created(&self, entry: Entry<'_>) {
        if let Some(created) = self.created.as_ref().filter(|_| entry.operand) {
            created.lock().insert(entry.target_path());
        }
    }

    fn place_contents(
        &self,
        lane: &mut Lane,
        entry: Entry<'_>,
        stat: &Stat,
        found: Target,
    ) -> Result<Option<FileId>, CopyError> {
        let preserve = &self.options.preserve;
        let owned = entry.dir.creates_as.get() == Some(&(stat.st_uid, stat.st_gid));
        // While a file may still change hands, only its owner may look at it.
        let omitted = if preserve.ownership && !owned { 0o077 } else { 0 };
        let mut mode = stat.st_mode & 0o777 & !omitted;
        if !self.root {
            // Attributes cannot be set on a file that may not be written, nor can such a file be
            // opened a second time, for direct I/O or to verify it.
            mode |= 0o600;
        }
        let contents = Contents {
            entry,
            stat,
            follow: self.options.dereference != Dereference::Never,
            fresh: found.fresh,
            into_fifo: found.stat.is_some_and(|stat| kind(&stat) == FileType::Fifo),
            mode,
            umask: self.umask,
            force: self.options.force,
            report: &self.report,
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
        Ok(written.get())
    }

    /// Sets the attributes of a file whose contents are complete. `made` is the mode it was created
    /// with.
    fn finish_contents(
        &self,
        (entry, stat): (Entry<'_>, &Stat),
        (source, target): (BorrowedFd<'_>, BorrowedFd<'_>),
        found: Target,
        made: Option<u32>,
    ) {
        let preserve = &self.options.preserve;
        let as_made = made.is_none_or(|made| made == stat.st_mode & 0o777);
        let kept =
            preserve.mode || preserve.ownership || preserve.timestamps || preserve.xattr || preserve.default_mode;
        if as_made && !kept {
            return;
        }
        let owner_of = || fstat(target).map_or((u32::MAX, u32::MAX), |stat| (stat.st_uid, stat.st_gid));
        let now = match (made, found.stat) {
            (Some(mode), _) => Now {
                owner: if preserve.ownership { *entry.dir.creates_as.get_or_init(owner_of) } else { (0, 0) },
                mode: (!entry.dir.default_acl).then_some(mode & !self.umask),
                fresh: true,
                acl: entry.dir.default_acl,
            },
            (None, Some(stat)) => {
                Now { owner: (stat.st_uid, stat.st_gid), mode: Some(stat.st_mode & 0o7777), fresh: false, acl: true }
            }
            (None, None) => Now { owner: owner_of(), mode: None, fresh: false, acl: true },
        };
        let plain_mode = match (made, preserve.default_mode) {
            (Some(_), true) => Some(0o666 & !self.umask),
            (Some(made), false) if made != stat.st_mode & 0o777 => Some(stat.st_mode & 0o777 & !self.umask),
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

    /// Makes a symbolic link, a fifo, a socket or a device; the inode that it got, if it was looked
    /// at.
    fn place_special(&self, entry: Entry<'_>, stat: &Stat, kind: FileType) -> Result<Option<FileId>, CopyError> {
        let (dir, name) = (entry.open.target.as_fd(), entry.target);
        let preserve = &self.options.preserve;
        let omitted = if preserve.ownership { 0o077 } else { 0 };
        let mode = stat.st_mode & 0o7777 & !omitted;
        let creating = match kind {
            FileType::Symlink => Doing::CreateSymlink,
            FileType::Fifo => Doing::CreateFifo,
            FileType::CharacterDevice | FileType::BlockDevice | FileType::Socket => Doing::CreateSpecial,
            _ => return Err(CopyError::UnknownType(entry.source_path())),
        };
        let source = self.open_source_place(entry, stat)?;
        let link = match kind {
            FileType::Symlink => {
                Some(readlinkat(&source, c"", Vec::new()).at(Doing::ReadLink, || entry.source_path())?)
            }
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
            opened => opened.at(Doing::Stat, || entry.target_path())?,
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

    /// Opens the source as a place: what was looked at, which may be a symbolic link itself.
    fn open_source_place(&self, entry: Entry<'_>, stat: &Stat) -> Result<OwnedFd, CopyError> {
        let mut flags = OFlags::PATH | OFlags::CLOEXEC;
        if !self.follows(entry) {
            flags |= OFlags::NOFOLLOW;
        }
        let source = openat(&entry.open.source, entry.source, flags, Mode::empty());
        let source = source.at(Doing::Access, || entry.source_path())?;
        let opened = fstat(&source).at(Doing::Stat, || entry.source_path())?;
        if FileId::of(&opened) != FileId::of(stat) {
            return Err(CopyError::Replaced(entry.source_path()));
        }
        Ok(source)
    }

    /// An entry of `dir`, or its listing, is done; finishes directories that have no more to come.
    pub(super) fn leave(&self, dir: Arc<Dir>) {
        let mut next = Some(dir);
        while let Some(dir) = next.take_if(|dir| dir.leave()) {
            self.finish_directory(&dir);
            // Names in it may still be links' first ones, but they are found again.
            dir.close();
            next = dir.parent.clone();
        }
    }
}

/// Whether the target's name is a symbolic link, so that what was looked at or written through it
/// has another name.
fn leads_elsewhere(entry: Entry<'_>) -> bool {
    is_link(entry.open.target.as_fd(), entry.target)
}

/// The copy of `entry`, for links to it: `made` if its inode was looked at, else what has its name
/// now.
fn first_of(entry: Entry<'_>, made: Option<FileId>) -> Result<First, CopyError> {
    let inode = match made {
        Some(made) => made,
        None => {
            let stat = statat(&entry.open.target, entry.target, AtFlags::SYMLINK_NOFOLLOW);
            FileId::of(&stat.at(Doing::Stat, || entry.target_path())?)
        }
    };
    Ok(First { dir: Arc::clone(entry.dir), name: entry.target.to_owned(), inode })
}

/// A name in the target's directory that nothing else uses.
fn temporary_beside(target: &CStr) -> CString {
    let name = target.to_bytes();
    let end = name.iter().rposition(|&b| b == b'/').map_or(0, |slash| slash + 1);
    CString::new([&name[..end], temporary_name().to_bytes()].concat()).expect("both parts are C strings")
}

//! Extracts members into the target directory, and finds or creates the directories they belong in.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::os::fd::AsFd;
use std::sync::Arc;

use dio::names::FileId;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Timespec, fstat, mkdirat, openat, statat};
use rustix::io::Errno;

use super::super::format::{
    Archive, ArchiveEntry, Entries, EntryKind, Time, acl_from_text, acl_of_mode,
};
use super::super::masks::Masks;
use super::super::run::EarlyEnd;
use super::crew::ExtractCrew;
use super::dirs::Dirs;
use super::file::{Body, Context, ExtractJob, HELD, MemberError, tell};
use super::messages::MemberMessages;
use super::meta::Meta;
use super::names::{Clean, ends};
use super::new_file::{self, CreateConditions, ExistingOutcome, OldFiles, Refusal, kind_of};
use super::owners::Owners;
use super::root::{Dir, LONGEST, Root};
use super::stored::Stored;
use crate::stop::Stop;

/// Limit for the directories that are kept open; at most a quarter of the free descriptors are used
/// for this.
const MOST_OPEN: usize = 256;

/// A member to extract.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) root: Arc<Root>,
    pub(super) path: Clean,
    /// The name for messages.
    pub(super) shown: Vec<u8>,
    /// The target of a hard link, in the target directory.
    pub(super) link: Vec<u8>,
    pub(super) link_path: Clean,
    /// Bytes left in the archive, if known.
    pub(super) remaining: Option<u64>,
    pub(super) entry: ArchiveEntry,
}

/// The target directory while members are extracted into it.
pub(super) struct Tree<'s> {
    pub(super) context: &'s Context<'s>,
    pub(super) crew: ExtractCrew<'s>,
    dirs: Dirs,
    owners: Owners,
    masks: Masks,
    /// Recently found directories, by their root and path. The cache is cleared when a link is
    /// created or a file removed, since paths may then lead elsewhere.
    open: HashMap<(usize, Vec<u8>), Arc<Dir>>,
    /// Limit for the entries of `open`.
    open_max: usize,
    /// Whether a directory may have several paths, so that paths alone do not identify the files
    /// that the crew writes.
    aliased: bool,
    /// Paths of directories that were created although no member described them, since the last
    /// [`Tree::take_made`].
    made: Vec<Vec<u8>>,
}

impl<'s> Tree<'s> {
    /// `aliased` says that there are several target directories, one of which may lie within
    /// another.
    pub(super) fn new(context: &'s Context<'s>, crew: ExtractCrew<'s>, aliased: bool) -> Tree<'s> {
        let (dirs, owners, masks) =
            (Dirs::default(), Owners::default(), Masks::new(&context.run.options));
        let free = usize::try_from(crate::tool::free_descriptors()).unwrap_or(MOST_OPEN);
        let open_max = (free / 4).clamp(1, MOST_OPEN);
        let (open, made) = (HashMap::new(), Vec::new());
        Tree { context, crew, dirs, owners, masks, open, open_max, aliased, made }
    }

    /// Waits for the crew and then sets the attributes of directories.
    ///
    /// # Errors
    /// Another process cannot read the archive; a signal arrived.
    pub(super) fn finish(self) -> Result<(), EarlyEnd> {
        self.crew.settle();
        self.dirs.finish(self.context);
        self.crew.finish()
    }

    /// Extracts a member. Errors that concern only this member are reported.
    pub(super) fn member<A: Archive>(
        &mut self,
        member: Member,
        entries: &mut Entries<A>,
    ) -> Result<(), MemberError> {
        let words = MemberMessages { run: self.context.run, name: &member.shown };
        let doing = match member.entry.kind {
            EntryKind::Directory => "mkdir",
            EntryKind::Fifo => "mkfifo",
            EntryKind::Character | EntryKind::Block => "mknod",
            _ => "open",
        };
        let Some((parent, name)) = member.path.split() else {
            self.existing_directory(&member, &words, doing);
            return Ok(());
        };
        let dir = match self.directory(&member.root, parent) {
            Ok(dir) => dir,
            Err(errno) => {
                self.no_parent(&member, &words, doing, errno);
                return Ok(());
            }
        };
        self.wait_for_crew(&member, &dir, &name);
        let dir = match self.cleared(&member, parent, dir, &name) {
            Ok(dir) => dir,
            Err(errno) => {
                self.no_parent(&member, &words, doing, errno);
                return Ok(());
            }
        };
        // Some file systems ignore case.
        if name.to_bytes().eq_ignore_ascii_case(dio::names::DEFAULT_NAME.as_bytes()) {
            // The files in the queue must still use the previous default.
            self.crew.settle();
            self.context.steered.add(dir.id);
        }
        if member.entry.kind != EntryKind::Directory {
            // The path may be about to lead to a different file.
            self.open.remove(&key(&member.root, &member.path.0));
        }
        match member.entry.kind {
            EntryKind::Directory => self.make_directory(&member, &dir, &name, &words),
            EntryKind::Regular => return self.file(member, dir, name, entries),
            EntryKind::HardLink => self.hard_link(&member, &dir, &name, &words),
            EntryKind::Symlink => self.symlink(&member, &dir, &name, &words),
            EntryKind::Fifo | EntryKind::Character | EntryKind::Block => {
                self.node(&member, &dir, &name, &words)
            }
            EntryKind::Label | EntryKind::Continuation => {}
        }
        Ok(())
    }

    /// Waits until no file is being written that conflicts with the member.
    fn wait_for_crew(&mut self, member: &Member, dir: &Dir, name: &CStr) {
        // Either the whole directory, with any file on its way into it, is about to be removed, or
        // two names may lead to the same file.
        let all = self.context.how.old == OldFiles::UnlinkAll || self.context.how.follows;
        let replaces = self.aliased
            && member.entry.kind != EntryKind::Directory
            && kind_of(dir, name) == Some(FileType::Directory);
        if all || replaces || self.crew.meets(dir, name, &member.path.0) {
            self.crew.settle();
        }
        if all || replaces {
            self.forget_paths();
        }
    }

    /// Returns the directory for a member. If the member replaces a link through which that
    /// directory was found, the link is removed and the path looked up again.
    fn cleared(
        &mut self,
        member: &Member,
        parent: &[u8],
        dir: Arc<Dir>,
        name: &CStr,
    ) -> Result<Arc<Dir>, Errno> {
        let how = &self.context.how;
        let directory = member.entry.kind == EntryKind::Directory;
        let stays = how.follows && (directory || how.old == OldFiles::Overwrite)
            || how.keep_directory_symlink && directory;
        if stays || !self.aliased || kind_of(&dir, name) != Some(FileType::Symlink) {
            return Ok(dir);
        }
        self.crew.settle();
        // Directories found through the link cannot be looked up again later.
        self.dirs.finish_within(&member.root, &member.path, self.context);
        if !is_on_the_way(&member.root, parent, &dir, name) {
            return Ok(dir);
        }
        let wanted = self.wanted(member);
        let gone = match wanted.old {
            OldFiles::UnlinkFirst | OldFiles::UnlinkAll => {
                new_file::prepare(&dir, name, wanted).is_ok()
            }
            _ => new_file::clear(&dir, name, wanted) == ExistingOutcome::Clear,
        };
        if !gone {
            return Ok(dir);
        }
        self.forget_paths();
        self.directory(&member.root, parent)
    }

    /// Reports that a member has no parent directory and none could be created.
    fn no_parent(&self, member: &Member, words: &MemberMessages<'_>, doing: &str, errno: Errno) {
        match (self.context.how.old, member.entry.kind) {
            // With these options, removing or examining the existing file would have been the first
            // step.
            (OldFiles::UnlinkFirst | OldFiles::UnlinkAll, _) if errno != Errno::NOENT => {
                words.cannot("unlink", errno)
            }
            (OldFiles::KeepNewer, _) if !matches!(errno, Errno::NOENT | Errno::XDEV) => {
                // A file that `stat(2)` cannot reach counts as newer.
                words.unasked(errno);
                tell(Refusal::Newer, words, doing);
            }
            (_, EntryKind::HardLink) => {
                // The target of a hard link is looked up first, so its error is reported if both
                // fail.
                let target = member.root.find(&member.link_path.0, OFlags::PATH | OFlags::NOFOLLOW);
                words.cannot(hard_link_to(&member.link), target.err().unwrap_or(errno));
            }
            (_, EntryKind::Symlink) => words.cannot(self.making_symlink(&member.entry.link), errno),
            _ => words.cannot(doing, errno),
        }
    }

    pub(super) fn wanted(&self, member: &Member) -> CreateConditions<'s> {
        self.context.wanted(timespec(member.entry.mtime), false)
    }

    /// Clears the cache of directories.
    pub(super) fn forget_paths(&mut self) {
        self.open.clear();
    }

    /// Finds a directory, and creates the missing ones on the path.
    pub(super) fn directory(&mut self, root: &Arc<Root>, path: &[u8]) -> Result<Arc<Dir>, Errno> {
        if path.is_empty() {
            return Ok(Arc::clone(root.dir()));
        }
        if let Some(dir) = self.open.get(&key(root, path)) {
            return Ok(Arc::clone(dir));
        }
        if self.crew.is_under(path) {
            self.crew.settle();
        }
        let (mut found, mut through_link) = root.find_dir_and_way(path);
        if found.as_ref().is_err_and(|errno| *errno == Errno::MFILE) {
            self.forget_paths();
            (found, through_link) = root.find_dir_and_way(path);
        }
        self.aliased |= through_link;
        if self.aliased && found.as_ref().is_err_and(|errno| *errno == Errno::NOENT) {
            // A file in the queue may be a component of this path, under a different path.
            self.crew.settle();
            found = root.find_dir(path);
        }
        let dir = match found {
            Err(Errno::NOENT) => self.make_parents(root, path)?,
            other => other?,
        };
        self.remember(root, path, &dir);
        Ok(dir)
    }

    fn remember(&mut self, root: &Arc<Root>, path: &[u8], dir: &Arc<Dir>) {
        if self.open.len() >= self.open_max {
            self.open.clear();
        }
        self.open.insert(key(root, path), Arc::clone(dir));
    }

    /// Returns the directories that were created since the last call although no member described
    /// them.
    pub(super) fn take_made(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.made)
    }

    /// Creates a directory that no member describes, and those above it.
    fn make_parents(&mut self, root: &Arc<Root>, path: &[u8]) -> Result<Arc<Dir>, Errno> {
        let mode = self.context.how.mode_between();
        let (mut dir, mut fresh) = (Arc::clone(root.dir()), false);
        for end in ends(path) {
            if end >= LONGEST {
                return Err(Errno::NAMETOOLONG);
            }
            let clean = Clean::of(&path[..end]);
            // A new directory is empty, so the next component cannot exist.
            let found = if fresh { Err(Errno::NOENT) } else { root.find_dir(&clean.0) };
            dir = match (found, clean.split()) {
                (Err(Errno::NOENT), Some((_, name))) => {
                    let made = mkdirat(&*dir, &*name, Mode::from_bits_retain(mode));
                    fresh = made.is_ok();
                    match made {
                        Ok(()) => {
                            self.made.push(clean.0.clone());
                            open_made(&dir, &name)?
                        }
                        Err(Errno::EXIST) => root.find_dir(&clean.0)?,
                        Err(errno) => return Err(errno),
                    }
                }
                (found, _) => found?,
            };
        }
        Ok(dir)
    }

    /// Handles a member that is the target directory itself or leads upwards (`-P`): only its
    /// attributes are set.
    fn existing_directory(&mut self, member: &Member, words: &MemberMessages<'_>, doing: &str) {
        if member.entry.kind != EntryKind::Directory {
            return words.cannot(doing, Errno::EXIST);
        }
        match member.root.find_dir(&member.path.0) {
            Ok(dir) if matches!(self.context.how.old, OldFiles::Replace | OldFiles::Overwrite) => {
                self.delay(member, &dir, false);
            }
            Ok(_) if self.context.how.old == OldFiles::Skip => words.skipped(),
            Ok(_) => {}
            Err(errno) => words.cannot(doing, errno),
        }
    }

    fn delay(&mut self, member: &Member, dir: &Dir, follow: bool) {
        let mut meta = self.meta(&member.entry);
        if self.context.how.no_overwrite_dir {
            // As in GNU tar, the time is set even so, and attributes from an earlier member are
            // kept.
            if self.dirs.set_time(dir.id, meta.mtime) {
                return;
            }
            let Ok(stat) = fstat(dir) else { return };
            meta = Meta {
                mode: stat.st_mode & 0o7777,
                whole: true,
                mtime: meta.mtime,
                ..Meta::default()
            };
        }
        self.delay_as(dir.id, member, meta, follow);
    }

    fn delay_as(&mut self, id: FileId, member: &Member, meta: Meta, follow: bool) {
        // A new directory may have the inode of a removed one.
        self.context.gone.remove(id);
        self.dirs.delay(id, &member.root, (&member.shown, &member.path, follow), meta);
    }

    fn make_directory(
        &mut self,
        member: &Member,
        dir: &Dir,
        name: &CStr,
        words: &MemberMessages<'_>,
    ) {
        let wanted = self.wanted(member);
        if let Err(refusal) = new_file::prepare(dir, name, wanted) {
            return tell(refusal, words, "mkdir");
        }
        // The directory stays private until its contents are complete, whatever mode it gets then.
        let private = Mode::from_bits_retain(0o700);
        for _ in 0..2 {
            match mkdirat(dir, name, private) {
                Ok(()) => return self.made_directory(member, dir, name, words),
                Err(Errno::EXIST) => {}
                Err(errno) => return words.cannot("mkdir", errno),
            }
            let stat = match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                Err(errno) => return words.cannot("mkdir", errno),
            };
            let kind = FileType::from_raw_mode(stat.st_mode);
            let keeps = self.context.how.keep_directory_symlink && kind == FileType::Symlink;
            if keeps && member.root.find_dir(&member.path.0).is_ok() {
                return;
            }
            let takes = matches!(wanted.old, OldFiles::Replace | OldFiles::Overwrite);
            if takes
                && wanted.follows
                && kind == FileType::Symlink
                && let Ok(found) = member.root.find_dir(&member.path.0)
            {
                if !self.context.how.no_overwrite_dir {
                    self.delay(member, &found, true);
                }
                return;
            }
            if kind == FileType::Directory && takes {
                return match open_made(dir, name) {
                    Ok(found) => self.delay(member, &found, false),
                    Err(errno) => words.cannot("mkdir", errno),
                };
            }
            self.crew.settle();
            match new_file::clear(dir, name, wanted) {
                ExistingOutcome::Clear => self.forget_paths(),
                ExistingOutcome::Skip => return words.skipped(),
                ExistingOutcome::Blocked
                    if kind == FileType::Directory || wanted.old == OldFiles::Keep =>
                {
                    return;
                }
                ExistingOutcome::Blocked => return words.cannot("mkdir", Errno::EXIST),
            }
        }
        words.cannot("mkdir", Errno::EXIST);
    }

    fn made_directory(
        &mut self,
        member: &Member,
        dir: &Dir,
        name: &CStr,
        words: &MemberMessages<'_>,
    ) {
        let made = open_made(dir, name).or_else(|errno| match errno {
            Errno::MFILE => {
                self.forget_paths();
                open_made(dir, name)
            }
            other => Err(other),
        });
        match made {
            Ok(made) => {
                let meta = self.meta(&member.entry);
                self.delay_as(made.id, member, meta, false);
                self.remember(&member.root, &member.path.0, &made);
            }
            Err(errno) => words.cannot("mkdir", errno),
        }
    }

    /// Extracts a regular file: a small one is handed to the crew, a large one written while the
    /// archive is read.
    fn file<A: Archive>(
        &mut self,
        member: Member,
        dir: Arc<Dir>,
        name: CString,
        entries: &mut Entries<A>,
    ) -> Result<(), MemberError> {
        let meta = self.meta(&member.entry);
        let Member { root, path, shown, remaining, entry, .. } = member;
        let stored = entries.stored_left();
        let mtime = timespec(entry.mtime);
        let mut job = ExtractJob {
            shown,
            root,
            path,
            dir,
            name,
            meta,
            mtime,
            size: entry.size,
            sparse: entry.sparse,
            body: Body::default(),
        };
        if self.crew.is_shared() {
            self.crew.share(job, Stored { start: entries.offset(), length: stored, remaining });
            return Ok(());
        }
        if stored > HELD {
            return job.stream(self.context, entries, remaining, Stop::on_signals()).map(drop);
        }
        let filled = job.fill(entries);
        let read = filled.as_ref().map_or_else(|(count, _)| *count, |()| job.body.len());
        self.context.run.tool.progressed(read as u64);
        match filled {
            Ok(()) => self.crew.take(job),
            Err((count, error)) => {
                job.write_beginning(self.context, count);
                return Err(MemberError::Archive(error));
            }
        }
        Ok(())
    }

    /// The metadata that a member gets when it is complete.
    pub(super) fn meta(&mut self, entry: &ArchiveEntry) -> Meta {
        let how = &self.context.how;
        let umask = if how.same_permissions { 0 } else { how.umask };
        let owner = how.same_owner.then(|| match how.numeric_owner {
            true => (entry.uid, entry.gid),
            false => (
                self.owners.user(&entry.uname, entry.uid),
                self.owners.group(&entry.gname, entry.gid),
            ),
        });
        let acl = |text: &Option<Vec<u8>>| {
            text.as_deref().and_then(|text| acl_from_text(text, how.numeric_owner))
        };
        // As in GNU tar, a member without an ACL gets the one equivalent to its mode.
        let access = || acl(&entry.acl_access).or_else(|| acl(&Some(acl_of_mode(entry.mode))));
        Meta {
            mode: entry.mode & !umask,
            whole: how.same_permissions,
            owner,
            mtime: (!how.touch).then(|| timespec(entry.mtime)),
            xattrs: if how.xattrs { self.xattrs(entry) } else { Vec::new() },
            acls: how.acls.then(|| (access(), acl(&entry.acl_default))),
        }
    }

    /// The extended attributes that a member gets.
    fn xattrs(&self, entry: &ArchiveEntry) -> Vec<(CString, Vec<u8>)> {
        let wanted = entry.xattrs.iter().filter(|(name, _)| self.masks.sets(name));
        wanted
            .filter_map(|(name, value)| Some((CString::new(name.as_slice()).ok()?, value.clone())))
            .collect()
    }
}

/// Whether the path `parent` leads through the link `name` in `dir`.
fn is_on_the_way(root: &Root, parent: &[u8], dir: &Dir, name: &CStr) -> bool {
    ends(parent).any(|end| {
        let path = Clean(parent[..end].to_vec());
        let leads = |(above, last): (&[u8], CString)| {
            *last == *name && root.find_dir(above).is_ok_and(|above| above.id == dir.id)
        };
        path.split().is_some_and(leads)
    })
}

fn key(root: &Arc<Root>, path: &[u8]) -> (usize, Vec<u8>) {
    (Arc::as_ptr(root).addr(), path.to_vec())
}

/// Opens a directory that was just created or found; fails if it is a link.
fn open_made(dir: &Dir, name: &CStr) -> Result<Arc<Dir>, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let made = openat(dir.as_fd(), name, flags, Mode::empty())?;
    Dir::of(made)
}

fn timespec(time: Time) -> Timespec {
    Timespec { tv_sec: time.seconds, tv_nsec: time.nanos.into() }
}

/// The description of a failed hard link, in GNU tar's words.
pub(super) fn hard_link_to(link: &[u8]) -> String {
    format!("hard link to {}", crate::quote::marked(link))
}

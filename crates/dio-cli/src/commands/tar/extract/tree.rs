//! Members in the target directory: what each becomes, and the directories they are in.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::os::fd::AsFd;
use std::sync::Arc;

use dio::names::FileId;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Timespec, fstat, mkdirat, openat, statat};
use rustix::io::Errno;

use super::super::format::{Archive, Entries, Entry, Kind, Time, acl_from_text, acl_of_mode};
use super::super::masks::Masks;
use super::crew::Crew;
use super::dirs::Dirs;
use super::file::{Body, Context, HELD, Job, Trouble, tell};
use super::meta::Meta;
use super::names::{Clean, ends};
use super::owners::Owners;
use super::place::{self, OldFiles, Refusal, Wanted, Way, kind_of};
use super::root::{Dir, LONGEST, Root};
use super::words::Words;
use crate::stop::Stop;

/// Directories that are kept open, where there are descriptors for them: at most a quarter of those
/// that are free.
const MOST_OPEN: usize = 256;

/// A member that is to be extracted.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) root: Arc<Root>,
    pub(super) path: Clean,
    /// The name in messages.
    pub(super) shown: Vec<u8>,
    /// Where a hard link leads, in the target directory.
    pub(super) link: Vec<u8>,
    pub(super) link_path: Clean,
    /// Bytes that the archive has left, where that is known.
    pub(super) remaining: Option<u64>,
    pub(super) entry: Entry,
}

/// The target directory while it is filled.
pub(super) struct Tree<'s> {
    pub(super) context: &'s Context<'s>,
    pub(super) crew: Crew<'s>,
    dirs: Dirs,
    owners: Owners,
    masks: Masks,
    /// Directories found lately, by the root and the path they were found by; forgotten when a link
    /// is made or something removed, since paths may lead elsewhere then.
    open: HashMap<(usize, Vec<u8>), Arc<Dir>>,
    /// Most of them.
    open_max: usize,
    /// A directory may be found by several paths, so that paths alone do not tell what the crew is
    /// about.
    aliased: bool,
    /// Paths of directories that no member described, since somebody asked.
    made: Vec<Vec<u8>>,
}

impl<'s> Tree<'s> {
    /// `aliased`: there are several directories to extract into, and one may be in the other.
    pub(super) fn new(context: &'s Context<'s>, crew: Crew<'s>, aliased: bool) -> Tree<'s> {
        let (dirs, owners, masks) = (Dirs::default(), Owners::default(), Masks::new(&context.run.options));
        let free = usize::try_from(crate::tool::free_descriptors()).unwrap_or(MOST_OPEN);
        let open_max = (free / 4).clamp(1, MOST_OPEN);
        let (open, made) = (HashMap::new(), Vec::new());
        Tree { context, crew, dirs, owners, masks, open, open_max, aliased, made }
    }

    /// Waits for the crew and sets the attributes of directories.
    pub(super) fn finish(self) {
        self.crew.settle();
        self.dirs.finish(self.context);
    }

    /// Extracts a member. What goes wrong with it alone is told.
    pub(super) fn member<A: Archive>(&mut self, member: Member, entries: &mut Entries<A>) -> Result<(), Trouble> {
        let words = Words { run: self.context.run, name: &member.shown };
        let doing = match member.entry.kind {
            Kind::Directory => "mkdir",
            Kind::Fifo => "mkfifo",
            Kind::Character | Kind::Block => "mknod",
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
        // Some file systems do not tell upper case from lower.
        if name.to_bytes().eq_ignore_ascii_case(dio::names::DEFAULT_NAME.as_bytes()) {
            // Files that are on their way have asked for the default that was there before.
            self.crew.settle();
            self.context.steered.add(dir.id);
        }
        if member.entry.kind != Kind::Directory {
            // What is found by this path may be about to be replaced.
            self.open.remove(&key(&member.root, &member.path.0));
        }
        match member.entry.kind {
            Kind::Directory => self.make_directory(&member, &dir, &name, &words),
            Kind::Regular => return self.file(member, dir, name, entries),
            Kind::HardLink => self.hard_link(&member, &dir, &name, &words),
            Kind::Symlink => self.symlink(&member, &dir, &name, &words),
            Kind::Fifo | Kind::Character | Kind::Block => self.node(&member, &dir, &name, &words),
            Kind::Label | Kind::Continuation => {}
        }
        Ok(())
    }

    /// Waits until nothing is being written that the member has to do with.
    fn wait_for_crew(&mut self, member: &Member, dir: &Dir, name: &CStr) {
        // The whole directory, with whatever is on its way into it, is about to be removed; or two
        // names may be one file.
        let all = self.context.how.old == OldFiles::UnlinkAll || self.context.how.follows;
        let replaces =
            self.aliased && member.entry.kind != Kind::Directory && kind_of(dir, name) == Some(FileType::Directory);
        if all || replaces || self.crew.meets(dir, name, &member.path.0) {
            self.crew.settle();
        }
        if all || replaces {
            self.forget_paths();
        }
    }

    /// The directory that a member goes into. A link that has its name may be one by which the
    /// directory was found: when it has made way, the name leads elsewhere.
    fn cleared(&mut self, member: &Member, parent: &[u8], dir: Arc<Dir>, name: &CStr) -> Result<Arc<Dir>, Errno> {
        let how = &self.context.how;
        let directory = member.entry.kind == Kind::Directory;
        let stays =
            how.follows && (directory || how.old == OldFiles::Overwrite) || how.keep_directory_symlink && directory;
        if stays || !self.aliased || kind_of(&dir, name) != Some(FileType::Symlink) {
            return Ok(dir);
        }
        self.crew.settle();
        // Directories that were found through it are not found again.
        self.dirs.finish_within(&member.root, &member.path, self.context);
        if !is_on_the_way(&member.root, parent, &dir, name) {
            return Ok(dir);
        }
        let wanted = self.wanted(member);
        let gone = match wanted.old {
            OldFiles::UnlinkFirst | OldFiles::UnlinkAll => place::prepare(&dir, name, wanted).is_ok(),
            _ => place::clear(&dir, name, wanted) == Way::Clear,
        };
        if !gone {
            return Ok(dir);
        }
        self.forget_paths();
        self.directory(&member.root, parent)
    }

    /// There is no directory for a member, and none could be made.
    fn no_parent(&self, member: &Member, words: &Words<'_>, doing: &str, errno: Errno) {
        match (self.context.how.old, member.entry.kind) {
            // Those would have been the first steps.
            (OldFiles::UnlinkFirst | OldFiles::UnlinkAll, _) if errno != Errno::NOENT => words.cannot("unlink", errno),
            (OldFiles::KeepNewer, _) if !matches!(errno, Errno::NOENT | Errno::XDEV) => {
                // What nobody can ask counts as newer.
                words.unasked(errno);
                tell(Refusal::Newer, words, doing);
            }
            (_, Kind::HardLink) => {
                // What is linked is looked for first, so its error is told where both have one.
                let target = member.root.find(&member.link_path.0, OFlags::PATH | OFlags::NOFOLLOW);
                words.cannot(hard_link_to(&member.link), target.err().unwrap_or(errno));
            }
            (_, Kind::Symlink) => words.cannot(self.making_symlink(&member.entry.link), errno),
            _ => words.cannot(doing, errno),
        }
    }

    pub(super) fn wanted(&self, member: &Member) -> Wanted<'s> {
        self.context.wanted(timespec(member.entry.mtime), false)
    }

    /// Forgets which directories paths lead to.
    pub(super) fn forget_paths(&mut self) {
        self.open.clear();
    }

    /// Finds a directory, and makes those on the way that are missing.
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
            // Something that is being written may be on the way, by another path.
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

    /// The directories that were made, although no member described them, for the members since the
    /// last call.
    pub(super) fn take_made(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.made)
    }

    /// Makes a directory that no member describes, and those above it.
    fn make_parents(&mut self, root: &Arc<Root>, path: &[u8]) -> Result<Arc<Dir>, Errno> {
        let mode = self.context.how.mode_between();
        let (mut dir, mut fresh) = (Arc::clone(root.dir()), false);
        for end in ends(path) {
            if end >= LONGEST {
                return Err(Errno::NAMETOOLONG);
            }
            let clean = Clean::of(&path[..end]);
            // Nothing is in a new directory, so it need not be looked for.
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

    /// A member that is the target directory itself, or leads up (`-P`): its attributes are set.
    fn existing_directory(&mut self, member: &Member, words: &Words<'_>, doing: &str) {
        if member.entry.kind != Kind::Directory {
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
            // Its time is set all the same, as by GNU tar; and what an earlier member said of it.
            if self.dirs.set_time(dir.id, meta.mtime) {
                return;
            }
            let Ok(stat) = fstat(dir) else { return };
            meta = Meta { mode: stat.st_mode & 0o7777, whole: true, mtime: meta.mtime, ..Meta::default() };
        }
        self.delay_as(dir.id, member, meta, follow);
    }

    fn delay_as(&mut self, id: FileId, member: &Member, meta: Meta, follow: bool) {
        // A new directory may have the inode of one that is gone.
        self.context.gone.remove(id);
        self.dirs.delay(id, &member.root, (&member.shown, &member.path, follow), meta);
    }

    fn make_directory(&mut self, member: &Member, dir: &Dir, name: &CStr, words: &Words<'_>) {
        let wanted = self.wanted(member);
        if let Err(refusal) = place::prepare(dir, name, wanted) {
            return tell(refusal, words, "mkdir");
        }
        // Nobody else works in it, whatever it will allow, until all is there.
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
            match place::clear(dir, name, wanted) {
                Way::Clear => self.forget_paths(),
                Way::Skip => return words.skipped(),
                Way::Blocked if kind == FileType::Directory || wanted.old == OldFiles::Keep => return,
                Way::Blocked => return words.cannot("mkdir", Errno::EXIST),
            }
        }
        words.cannot("mkdir", Errno::EXIST);
    }

    fn made_directory(&mut self, member: &Member, dir: &Dir, name: &CStr, words: &Words<'_>) {
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

    /// A regular file: small ones are handed over, large ones written as the archive is read.
    fn file<A: Archive>(
        &mut self,
        member: Member,
        dir: Arc<Dir>,
        name: CString,
        entries: &mut Entries<A>,
    ) -> Result<(), Trouble> {
        let meta = self.meta(&member.entry);
        let Member { root, path, shown, remaining, entry, .. } = member;
        let stored = entries.stored_left();
        let large = stored > HELD;
        let mut body = Body::new(if large { 0 } else { stored as usize });
        let mut filled = 0;
        let mut broken = None;
        while !large && filled < body.len() {
            match entries.read_stored(&mut body[filled..]) {
                Ok(count) => filled += count,
                Err(error) => {
                    broken = Some(error);
                    break;
                }
            }
        }
        self.context.run.tool.progressed(filled as u64);
        let mtime = timespec(entry.mtime);
        let job = Job { shown, root, path, dir, name, meta, mtime, size: entry.size, sparse: entry.sparse, body };
        if large {
            return job.stream(self.context, entries, remaining, Stop::on_signals());
        }
        match broken {
            None => self.crew.take(job),
            Some(error) => {
                job.write_beginning(self.context, filled);
                return Err(Trouble::Archive(error));
            }
        }
        Ok(())
    }

    /// What is set on a member when it is complete.
    pub(super) fn meta(&mut self, entry: &Entry) -> Meta {
        let how = &self.context.how;
        let umask = if how.same_permissions { 0 } else { how.umask };
        let owner = how.same_owner.then(|| match how.numeric_owner {
            true => (entry.uid, entry.gid),
            false => (self.owners.user(&entry.uname, entry.uid), self.owners.group(&entry.gname, entry.gid)),
        });
        let acl = |text: &Option<Vec<u8>>| text.as_deref().and_then(|text| acl_from_text(text, how.numeric_owner));
        // A member without an ACL gets the one that says no more than its mode, as by GNU tar.
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
    fn xattrs(&self, entry: &Entry) -> Vec<(CString, Vec<u8>)> {
        let wanted = entry.xattrs.iter().filter(|(name, _)| self.masks.sets(name));
        wanted.filter_map(|(name, value)| Some((CString::new(name.as_slice()).ok()?, value.clone()))).collect()
    }
}

/// Whether the path `parent` goes through the link `name` in `dir`.
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

/// Opens a directory that was made or found just now; not through a link.
fn open_made(dir: &Dir, name: &CStr) -> Result<Arc<Dir>, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let made = openat(dir.as_fd(), name, flags, Mode::empty())?;
    Dir::of(made)
}

fn timespec(time: Time) -> Timespec {
    Timespec { tv_sec: time.seconds, tv_nsec: time.nanos.into() }
}

/// What cannot be done, in GNU's words.
pub(super) fn hard_link_to(link: &[u8]) -> String {
    format!("hard link to {}", crate::quote::marked(link))
}

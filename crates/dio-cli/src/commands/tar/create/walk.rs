//! The walk finds the names to archive, in order. It opens and lists directories, and leaves files
//! to the workers.

use std::ffi::{CStr, CString, OsStr};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use dio::names::FileId;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, Stat, fstat, openat, statat};
use rustix::io::Errno;

use super::super::names::{NameSelection, PatternCounts};
use super::super::options::{OmittedPart, Operation, Sort, TarOptions};
use super::super::quoting::{escaped, shown as shown_name};
use super::super::run::TarRun;
use super::super::warnings::Warning;
use super::dir::Dir;
use super::note::Note;

/// A job for the workers, in the order of the archive.
#[derive(Debug)]
pub(super) enum WalkJob {
    /// A name that is not a directory, or whose type is unknown.
    File(File),
    /// A directory; its contents follow.
    Enter(Arc<Dir>),
    /// All entries of a directory have been passed on.
    Leave(Arc<Dir>),
    /// A message to print.
    Tell(Note),
}

/// A name that is not a directory.
#[derive(Debug)]
pub(super) struct File {
    pub(super) dir: Arc<Dir>,
    /// The name in `dir`.
    pub(super) name: CString,
    /// The name for messages. Without a prefix that leads out of the directory, it is also the name
    /// in the archive.
    pub(super) path: Vec<u8>,
    /// Whether the name was given on the command line or in a list.
    pub(super) operand: bool,
    /// Whether the directory entry says that it is a regular file.
    pub(super) regular: bool,
}

/// A directory being listed, with the names still to come in reverse order.
#[derive(Debug)]
struct Frame {
    dir: Arc<Dir>,
    names: Vec<(CString, FileType)>,
    /// Whether the only name is a tag file, which is archived even if it is excluded.
    tag: bool,
}

/// Walks through the operands.
#[derive(Debug)]
pub(super) struct Walk<'a> {
    run: &'a TarRun,
    options: &'a TarOptions,
    /// The directories of `-C`.
    roots: Vec<Arc<Dir>>,
    next_name: usize,
    /// The exclusions that apply to the current operand.
    left_out: PatternCounts,
    /// Number of entries of [`NameSelection::wrong`] that were reported.
    told: usize,
    stack: Vec<Frame>,
    /// How many directories of the stack, the deepest ones, are kept open.
    open_max: usize,
    /// Jobs that are ready to be returned, in reverse order.
    ready: Vec<WalkJob>,
}

impl<'a> Walk<'a> {
    /// Creates a walk through the names of the command line, which are relative to `directories`.
    /// At most `open_max` other directories are open at a time.
    ///
    /// # Errors
    /// `fstat(2)` of a directory fails.
    pub(super) fn new(
        run: &'a TarRun,
        directories: Vec<OwnedFd>,
        open_max: usize,
    ) -> Result<Walk<'a>, Errno> {
        let roots = directories
            .into_iter()
            .enumerate()
            .map(|(root, fd)| Dir::root(root, fd))
            .collect::<Result<_, _>>()?;
        let left_out = PatternCounts { patterns: 0, tags: 0 };
        let (stack, ready) = (Vec::new(), Vec::new());
        Ok(Walk {
            run,
            options: &run.options,
            roots,
            next_name: 0,
            left_out,
            told: 0,
            stack,
            open_max,
            ready,
        })
    }

    /// Returns the next job.
    pub(super) fn next(&mut self) -> Option<WalkJob> {
        loop {
            if let Some(job) = self.ready.pop() {
                return Some(job);
            }
            let Some(frame) = self.stack.last_mut() else {
                let names: &NameSelection = &self.options.names;
                if let Some(message) = self.wrong() {
                    return Some(WalkJob::Tell(Note::Error(message)));
                }
                let name = names.list.get(self.next_name)?;
                self.next_name += 1;
                self.left_out = name.left_out;
                self.operand(&name.bytes, name.directory, name.matching.recursion);
                continue;
            };
            match frame.names.pop() {
                Some((name, kind)) => {
                    let (dir, tag) = (Arc::clone(&frame.dir), frame.tag);
                    self.entry(dir, name, kind, tag);
                }
                None => {
                    let frame = self.stack.pop().expect("it was looked at just now");
                    if let Some(above) = self.stack.last() {
                        above.dir.keep(true);
                    }
                    return Some(WalkJob::Leave(frame.dir));
                }
            }
        }
    }

    /// The next error in a list, if it occurred before the next name. When adding to an archive,
    /// these errors have already been reported.
    fn wrong(&mut self) -> Option<String> {
        let (before, message) = self.options.names.wrong.get(self.told)?;
        if *before > self.next_name || self.options.operation != Operation::Create {
            return None;
        }
        self.told += 1;
        Some(message.clone())
    }

    fn is_excluded(&self, path: &[u8]) -> bool {
        self.options.names.exclude.first(path, self.left_out.patterns).is_some()
    }

    fn operand(&mut self, path: &[u8], directory: usize, recursion: bool) {
        let dir = Arc::clone(&self.roots[directory]);
        // An argument of the command line contains no NUL, but a name in a list may.
        let Ok(name) = CString::new(path) else {
            self.ready.push(WalkJob::Tell(Note::cannot("stat", path, Errno::NOENT)));
            return;
        };
        if self.is_excluded(path) || !self.confirmed(path) {
            return;
        }
        match dir.open().and_then(|fd| statat(&fd, &name, self.stat_flags())) {
            Ok(stat) => self.found(
                dir,
                name,
                path.to_vec(),
                true,
                FileType::from_raw_mode(stat.st_mode),
                recursion,
            ),
            Err(errno) => {
                let note = Box::new(self.unreadable("stat", path, errno));
                self.ready.push(WalkJob::Tell(Note::Operand(path.to_vec(), note)));
            }
        }
    }

    fn entry(&mut self, dir: Arc<Dir>, name: CString, kind: FileType, tag: bool) {
        let path = dir.join(name.to_bytes());
        if !tag && self.is_excluded(&path) || !self.confirmed(&path) {
            return;
        }
        let followed = kind == FileType::Symlink && self.options.dereference;
        let kind = match kind == FileType::Unknown || followed {
            true => match dir.open().and_then(|fd| statat(&fd, &name, self.stat_flags())) {
                Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                Err(errno) => {
                    return self.ready.push(WalkJob::Tell(self.gone("stat", &path, errno)));
                }
            },
            false => kind,
        };
        self.found(dir, name, path, false, kind, true);
    }

    fn stat_flags(&self) -> AtFlags {
        if self.options.dereference { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW }
    }

    fn confirmed(&self, path: &[u8]) -> bool {
        !self.options.interactive || self.run.confirm("add", path)
    }

    /// Handles a name that is to be archived.
    fn found(
        &mut self,
        dir: Arc<Dir>,
        name: CString,
        path: Vec<u8>,
        operand: bool,
        kind: FileType,
        recursion: bool,
    ) {
        if kind == FileType::Directory {
            return self.directory(&dir, &name, path, operand, recursion);
        }
        let regular = kind == FileType::RegularFile;
        self.ready.push(WalkJob::File(File { dir, name, path, operand, regular }));
    }

    fn directory(
        &mut self,
        within: &Arc<Dir>,
        name: &CStr,
        mut path: Vec<u8>,
        operand: bool,
        recursion: bool,
    ) {
        let follow = if self.options.dereference { OFlags::empty() } else { OFlags::NOFOLLOW };
        let flags =
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NONBLOCK | follow;
        let opened = within.open().and_then(|within| openat(&within, name, flags, Mode::empty()));
        let opened = opened.and_then(|fd| Ok((fstat(&fd)?, fd)));
        let (stat, fd) = match opened {
            Ok(opened) => opened,
            Err(errno) => {
                let note = match operand {
                    true => {
                        Note::Operand(path.clone(), Box::new(self.unreadable("open", &path, errno)))
                    }
                    false => self.gone("open", &path, errno),
                };
                return self.ready.push(WalkJob::Tell(note));
            }
        };
        if self.loops(within, &stat) {
            return self.ready.push(WalkJob::Tell(Note::cannot("open", &path, Errno::LOOP)));
        }
        let elsewhere =
            !operand && self.options.one_file_system && stat.st_dev != within.stat.st_dev;
        if !path.ends_with(b"/") {
            path.push(b'/');
        }
        self.descend(Dir::inside(within, fd, path, stat), recursion, elsewhere);
    }

    /// Whether a directory contains itself. With `-h`, a link may lead to a parent directory.
    fn loops(&self, within: &Arc<Dir>, stat: &Stat) -> bool {
        let mut above = Some(within).filter(|_| self.options.dereference);
        while let Some(dir) = above {
            if dir.within.is_some() && FileId::of(&dir.stat) == FileId::of(stat) {
                return true;
            }
            above = dir.within.as_ref();
        }
        false
    }

    /// Archives a directory, and those of its contents that are included.
    fn descend(&mut self, dir: Arc<Dir>, recursion: bool, elsewhere: bool) {
        let (mut names, mut notes, mut tagged_alone) = (Vec::new(), Vec::new(), false);
        let (shown, quoting) = (escaped(&dir.path), self.options.quoting);
        let tagged = |tag: &[u8], what: &str| {
            let tag = shown_name(tag, quoting);
            let tag = String::from_utf8_lossy(&tag);
            let message = format!("{shown}: contains a cache directory tag {tag}; {what}");
            Note::Warn(Warning::Cachedir, message)
        };
        let verbose = self.options.verbose > 0;
        // A tag that excludes the directory itself counts even without recursion.
        let counts = |omit: OmittedPart| omit == OmittedPart::All || recursion && !elsewhere;
        match self.mark(&dir).filter(|(_, omit)| counts(*omit)) {
            Some((tag, OmittedPart::All)) => {
                self.ready
                    .extend(verbose.then(|| WalkJob::Tell(tagged(&tag, "directory not dumped"))));
                return;
            }
            Some((tag, omit)) => {
                notes.extend(verbose.then(|| tagged(&tag, "contents not dumped")));
                tagged_alone = omit == OmittedPart::Contents;
                names.extend(
                    CString::new(tag)
                        .ok()
                        .filter(|_| tagged_alone)
                        .map(|name| (name, FileType::Unknown)),
                );
            }
            None if elsewhere => {
                let message = format!("{shown}: file is on a different filesystem; not dumped");
                notes.extend(verbose.then_some(Note::Warn(Warning::Xdev, message)));
            }
            None if recursion => match dir.open().and_then(|fd| list(&fd, self.options.sort)) {
                Ok(found) => names = found,
                Err(errno) => notes.push(self.unreadable("read", &dir.path, errno)),
            },
            None => {}
        }
        names.reverse();
        // The order is reversed: the directory itself comes before the messages about it.
        self.ready.extend(notes.into_iter().rev().map(WalkJob::Tell));
        self.ready.push(WalkJob::Enter(Arc::clone(&dir)));
        self.stack.push(Frame { dir, names, tag: tagged_alone });
        if let Some(frame) =
            self.stack.len().checked_sub(self.open_max + 1).map(|at| &self.stack[at])
        {
            frame.dir.keep(false);
        }
    }

    /// The tag file in a directory, if any, and the part of the directory it excludes.
    fn mark(&self, dir: &Dir) -> Option<(Vec<u8>, OmittedPart)> {
        let marks = |name: &[u8], cachedir: bool| match cachedir {
            true => self.is_cachedir(dir, name),
            false => self.open_tag(dir, name).is_ok(),
        };
        // The tag given last takes precedence.
        let tags = &self.options.names.tags[..self.left_out.tags];
        let tag = tags.iter().rev().find(|tag| marks(&tag.name, tag.cachedir))?;
        Some((tag.name.clone(), tag.omit))
    }

    /// Opens a possible tag file. A file that cannot be opened, or a link that must not be
    /// followed, is no tag.
    fn open_tag(&self, dir: &Dir, name: &[u8]) -> Result<OwnedFd, Errno> {
        let follow = if self.options.dereference { OFlags::empty() } else { OFlags::NOFOLLOW };
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY | follow;
        openat(&dir.open()?, OsStr::from_bytes(name), flags, Mode::empty())
    }

    /// Whether the file has the signature of the Cache Directory Tagging Specification.
    fn is_cachedir(&self, dir: &Dir, name: &[u8]) -> bool {
        const SIGNATURE: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55";
        let Ok(fd) = self.open_tag(dir, name) else { return false };
        let mut start = [0; SIGNATURE.len()];
        rustix::io::read(&fd, &mut start).is_ok_and(|count| start[..count] == *SIGNATURE)
    }

    /// A file that cannot be read: an error, or a warning with `--ignore-failed-read`.
    fn unreadable(&self, doing: &str, path: &[u8], errno: Errno) -> Note {
        Note::unreadable(self.options, doing, path, errno)
    }

    /// Like [`Walk::unreadable`], for a name found in a directory: the file may have been removed
    /// since.
    fn gone(&self, doing: &str, path: &[u8], errno: Errno) -> Note {
        Note::gone(self.options, doing, path, errno)
    }
}

/// The names in a directory, with the types that the directory entries give.
fn list(fd: &OwnedFd, sort: Sort) -> Result<Vec<(CString, FileType)>, Errno> {
    let mut found: Vec<(CString, FileType, u64)> = Vec::new();
    let mut buffer = Vec::with_capacity(64 << 10);
    let mut listing = RawDir::new(fd, buffer.spare_capacity_mut());
    while let Some(entry) = listing.next() {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            found.push((entry.file_name().to_owned(), entry.file_type(), entry.ino()));
        }
    }
    match sort {
        Sort::None => {}
        Sort::Name => found.sort_by(|(one, ..), (other, ..)| one.cmp(other)),
        Sort::Inode => found.sort_by_key(|(.., inode)| *inode),
    }
    Ok(found.into_iter().map(|(name, kind, _)| (name, kind)).collect())
}

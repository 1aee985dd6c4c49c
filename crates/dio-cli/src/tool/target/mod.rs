//! The file that a tool writes. Where it replaces another it is written beside that one, and given
//! its name when it is whole and durable.
//!
//! An existing regular file keeps its name and its contents until the new contents are complete and
//! synced; an error, a signal or a full disk before that changes nothing. Three invariants:
//!
//! 1. The old file is only opened. It is neither truncated nor written before
//!    [`OutputFile::keep`].
//! 2. What replaces it has its owner, permissions, ACLs, extended attributes and inode flags.
//!    Where the file system refuses one of these, the file is not replaced.
//! 3. A file that must stay the same inode, because it has other names or is mounted over, or
//!    because of invariant 2, gets the new contents by a copy from a temporary file that is
//!    complete; signals wait for the end of that copy.
//!
//! Written in place, and so lost with a run that is cut short: devices, pipes and sockets; a file
//! in a directory in which nothing can be made; a file that a descriptor of the process leads to;
//! everything under `--in-place`. What did not exist before is made under its own name at once.

pub(crate) mod attributes;
mod guard;
pub(crate) mod naming;
pub(crate) mod own_file;
mod sink;

use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use dio::names;
use dio::names::FileId;
use dio_sys::{fd_path, uninterrupted};
use rustix::fs::{
    AtFlags, CWD, FallocateFlags, FileType, Mode, OFlags, Stat, StatxAttributes, StatxFlags, fstat, fsync, openat,
    readlink, statat, statx,
};
use rustix::io::Errno;

use super::synced;
pub(crate) use guard::Guard;
use guard::{Partial, remove_if};
use naming::{Naming, open_parent, split, temporary_name, unnamed, unnamed_plain};

/// A file that is being written. Dropped without [`OutputFile::keep`] it leaves the old file as it
/// was.
#[derive(Debug)]
pub(crate) struct OutputFile {
    /// What is written.
    fd: OwnedFd,
    path: PathBuf,
    how: How,
    /// The file that had the name before.
    before: Option<FileId>,
}

#[derive(Debug)]
enum How {
    /// Nothing had the name; the file has it from the start.
    New(FileId),
    /// The file gets its name at the end.
    AtEnd(Beside),
    /// It is copied into this file at the end.
    Into(OwnedFd),
    /// It is the file itself. The flag says that it has contents to cut off.
    InPlace { regular: bool },
}

/// The name that the file gets.
#[derive(Debug)]
struct Beside {
    name: CString,
    naming: Naming<Arc<OwnedFd>>,
    /// What has the name then is replaced; otherwise the name must still be free.
    replace: bool,
}

/// How a [`OutputFile`] is made.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wish {
    /// The old contents go before the new ones come (`--in-place`).
    pub(crate) in_place: bool,
    /// Where nothing has the name, it is given at the end, and only if it is still free.
    pub(crate) hidden: bool,
    /// A link is not followed (ELOOP), and a FIFO without a reader not waited for (ENXIO).
    pub(crate) wary: bool,
}

impl OutputFile {
    /// Begins the target of what `path` leads to. What is there has the bytes it had until
    /// [`OutputFile::keep`], unless it has to be written in place: then until [`OutputFile::sink`].
    ///
    /// # Errors
    /// What `open(2)` answers for writing to the file itself.
    pub(crate) fn open(path: &Path, wish: Wish) -> Result<OutputFile, Errno> {
        let wary = if wish.wary { OFlags::NOFOLLOW | OFlags::NONBLOCK } else { OFlags::empty() };
        let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOCTTY | wary;
        let mode = Mode::from_raw_mode(0o666);
        let path = path.to_owned();
        let old = match uninterrupted(|| openat(CWD, &path, flags, Mode::empty())) {
            Err(Errno::NOENT) if wish.hidden && !is_link(&path) => return OutputFile::hidden(path, mode),
            Err(Errno::NOENT) => {
                match uninterrupted(|| names::openat(CWD, &path, flags | OFlags::CREATE | OFlags::EXCL, mode)) {
                    // A link to nowhere, or another process made the file meanwhile.
                    Err(Errno::EXIST) => uninterrupted(|| names::openat(CWD, &path, flags | OFlags::CREATE, mode))?,
                    Err(errno) => return Err(errno),
                    Ok(fd) => {
                        let made = FileId::of(&fstat(&fd)?);
                        return Ok(OutputFile { fd, path, how: How::New(made), before: None });
                    }
                }
            }
            old => old?,
        };
        let stat = fstat(&old)?;
        let before = Some(FileId::of(&stat));
        let regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        let may_move = regular && !wish.in_place && !is_written_already(&old, &stat);
        let apart = if may_move { apart(&old, &stat)? } else { None };
        let (fd, how) = match apart {
            Some((fd, None)) => (fd, How::Into(old)),
            Some((fd, Some(beside))) => (fd, How::AtEnd(beside)),
            None => (old, How::InPlace { regular }),
        };
        Ok(OutputFile { fd, path, how, before })
    }

    /// Begins a file that will be called `path` itself, even if that is a link, in the directory
    /// `dir` of that path: what has the name is not changed before [`OutputFile::keep_named`].
    /// Until its attributes are given, the file is for its owner alone.
    ///
    /// # Errors
    /// EEXIST when something has the name and is not to be replaced, EISDIR when that is a
    /// directory; what `open(2)` answers.
    pub(crate) fn named(dir: Arc<OwnedFd>, path: &Path, replace: bool) -> io::Result<OutputFile> {
        let name = base_name(path.as_os_str().as_bytes()).ok_or(Errno::ISDIR)?;
        let before = match statat(&dir, &*name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => return Err(Errno::ISDIR.into()),
            Ok(_) if !replace => return Err(Errno::EXIST.into()),
            Ok(stat) => Some(FileId::of(&stat)),
            Err(Errno::NOENT) => None,
            Err(errno) => return Err(errno.into()),
        };
        let (fd, temporary) = unnamed(&dir, OFlags::RDWR | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR)?;
        let how = How::AtEnd(Beside { name, naming: Naming::new(dir, temporary), replace });
        Ok(OutputFile { fd, path: path.to_owned(), how, before })
    }

    /// Opens what has the last name of `path` in `dir`, the directory of that path, and is no
    /// regular file, to be written as it is; `None` for a regular file, or none.
    ///
    /// # Errors
    /// What `open(2)` answers.
    pub(crate) fn special(dir: &OwnedFd, path: &Path) -> io::Result<Option<OutputFile>> {
        let name = split(path).1;
        let is_special =
            |stat: &Stat| !matches!(FileType::from_raw_mode(stat.st_mode), FileType::RegularFile | FileType::Directory);
        if !statat(dir, name, AtFlags::empty()).is_ok_and(|stat| is_special(&stat)) {
            return Ok(None);
        }
        let fd = openat(dir, name, OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOCTTY, Mode::empty())?;
        if !is_special(&fstat(&fd)?) {
            // The name leads to another file since: that one is not written into.
            return Ok(None);
        }
        Ok(Some(OutputFile { fd, path: path.to_owned(), how: How::InPlace { regular: false }, before: None }))
    }

    /// A file that has no name before it is kept.
    fn hidden(path: PathBuf, mode: Mode) -> Result<OutputFile, Errno> {
        let name = base_name(path.as_os_str().as_bytes()).ok_or(Errno::ISDIR)?;
        let dir = Arc::new(open_parent(&path)?);
        let (fd, temporary) = unnamed(&dir, OFlags::RDWR | OFlags::CLOEXEC, mode)?;
        let how = How::AtEnd(Beside { name, naming: Naming::new(dir, temporary), replace: false });
        Ok(OutputFile { fd, path, how, before: None })
    }

    /// Its name, as it was given.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What is written: the new file, or the old one where that is written in place.
    pub(crate) fn descriptor(&self) -> &OwnedFd {
        &self.fd
    }

    /// The descriptor alone, of a file that is written under its own name.
    pub(crate) fn into_descriptor(self) -> OwnedFd {
        self.fd
    }

    /// Whether it is a regular file, and no device, pipe or socket.
    pub(crate) fn is_regular(&self) -> bool {
        !matches!(self.how, How::InPlace { regular: false })
    }

    /// The file that had the name before, if there was one.
    pub(crate) fn before(&self) -> Option<FileId> {
        self.before
    }

    /// Whether the old contents are whole until the new ones are.
    pub(crate) fn keeps_the_old(&self) -> bool {
        matches!(self.how, How::AtEnd(Beside { replace: true, .. }) | How::Into(_))
    }

    /// Whether the old contents go as soon as new ones come.
    pub(crate) fn is_in_place(&self) -> bool {
        matches!(self.how, How::InPlace { .. })
    }

    /// Whether a process that is killed leaves a temporary name behind.
    pub(crate) fn has_temporary_name(&self) -> bool {
        matches!(&self.how, How::AtEnd(beside) if beside.naming.is_hidden())
    }

    /// What can be done where `errno` says that there is no room for two copies.
    pub(crate) fn cure(&self, errno: Errno) -> Option<&'static str> {
        let full = matches!(errno, Errno::NOSPC | Errno::DQUOT);
        (full && self.keeps_the_old())
            .then_some("the old contents are kept beside the new ones; --in-place overwrites them")
    }

    /// Cuts the old contents off where they are overwritten.
    ///
    /// # Errors
    /// What `ftruncate(2)` answers for a regular file.
    pub(crate) fn begin(&self) -> Result<(), Errno> {
        match self.how {
            How::InPlace { regular: true } => names::ftruncate(&self.fd, 0),
            _ => Ok(()),
        }
    }

    /// Takes the file away if a signal ends the process before it is whole. A file that was not
    /// there before is removed too, if `new` says so.
    pub(crate) fn guard(&self, new: bool) -> Guard {
        Guard::of(match &self.how {
            How::New(made) if new => Some(Partial::New(self.path.clone(), *made)),
            How::AtEnd(beside) => beside.naming.hidden_path().map(Partial::Temporary),
            _ => None,
        })
    }

    /// Makes the contents durable, as far as the file can be synced.
    ///
    /// # Errors
    /// What `fsync(2)` answers.
    pub(crate) fn sync(&self) -> io::Result<()> {
        Ok(if self.is_regular() { names::fsync(&self.fd) } else { synced::fsync(&self.fd) }?)
    }

    /// The contents are complete: they become those of the file, for good before the old ones go.
    ///
    /// # Errors
    /// EEXIST where the name was free and is not any more; what syncing, linking, renaming and
    /// copying answer.
    pub(crate) fn keep(&mut self) -> io::Result<()> {
        match &mut self.how {
            How::New(_) | How::InPlace { .. } => {}
            How::AtEnd(beside) => {
                beside.give_name(&self.fd)?;
                if beside.replace {
                    beside.naming.sync(&self.fd)?;
                }
            }
            How::Into(old) => copy_into(&self.fd, old)?,
        }
        Ok(())
    }

    /// As [`OutputFile::keep`], for a file that gets its name at the end; for good, contents and
    /// name, if it is to be `durable`.
    ///
    /// # Errors
    /// As [`OutputFile::keep`].
    pub(crate) fn keep_named(&mut self, durable: bool) -> io::Result<()> {
        if durable {
            self.sync()?;
        }
        if let How::AtEnd(beside) = &mut self.how {
            beside.give_name(&self.fd)?;
        }
        if durable { self.sync_name() } else { Ok(()) }
    }

    /// Makes the name durable that it got at the end.
    ///
    /// # Errors
    /// What `fsync(2)` answers.
    pub(crate) fn sync_name(&self) -> io::Result<()> {
        match &self.how {
            How::AtEnd(beside) => Ok(beside.naming.sync(&self.fd)?),
            _ => Ok(()),
        }
    }

    /// Takes away a file that was made here and is not whole.
    pub(crate) fn discard(self) {
        if let How::New(made) = &self.how {
            remove_if(&self.path, *made);
        }
    }
}

impl Beside {
    /// Gives the complete file its name. What is replaced is so for good only when the new contents
    /// are durable.
    fn give_name(&mut self, fd: &OwnedFd) -> io::Result<()> {
        if self.replace || names::is_striped(fd)? {
            names::fsync(fd)?;
        }
        let Beside { name, naming, replace } = self;
        Ok(if *replace { naming.replace(fd, name) } else { naming.claim(fd, name) }?)
    }
}

/// A file of its own, and what it replaces by its name.
type Apart = (OwnedFd, Option<Beside>);

/// A file apart from `old`, to be renamed over it, or copied into it where the second is none; none
/// where the directory lets nothing be made.
///
/// # Errors
/// There is no room for one, or there are too many open files: the old one is not overwritten
/// because of that.
fn apart(old: &OwnedFd, stat: &Stat) -> Result<Option<Apart>, Errno> {
    match made_apart(old, stat) {
        Ok(made) => Ok(made),
        Err(
            errno
            @ (Errno::NOSPC | Errno::DQUOT | Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::IO | Errno::INTR),
        ) => Err(errno),
        Err(_) => Ok(None),
    }
}

fn made_apart(old: &OwnedFd, stat: &Stat) -> Result<Option<Apart>, Errno> {
    let real = readlink(fd_path(old), Vec::new())?;
    let Some(name) = base_name(real.to_bytes()) else { return Ok(None) };
    let dir = open_parent(Path::new(OsStr::from_bytes(real.to_bytes())))?;
    // A file that was removed, or that a mount of another name space hides, has no name to be taken
    // over.
    let there = statat(&dir, &*name, AtFlags::SYMLINK_NOFOLLOW)?;
    let named = FileId::of(&there) == FileId::of(stat);
    let striped = names::is_striped(old)?;
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    if named && stat.st_nlink == 1 && !is_mount(old) {
        let (fd, temporary) = match striped {
            true => {
                let name = temporary_name();
                (names::striped_like(old, dir.as_fd(), &name)?, Some(name))
            }
            false => unnamed_plain(&dir, flags, Mode::RUSR | Mode::WUSR)?,
        };
        let same_device = fstat(&fd).is_ok_and(|new| new.st_dev == stat.st_dev);
        if same_device && attributes::give_all(old, stat, &fd).is_ok() {
            let naming = Naming::new(Arc::new(dir), temporary);
            return Ok(Some((fd, Some(Beside { name, naming, replace: true }))));
        }
        drop(Naming::new(&dir, temporary));
    }
    if striped {
        return Ok(None);
    }
    let (fd, temporary) = unnamed_plain(&dir, flags, Mode::RUSR | Mode::WUSR)?;
    if let Some(temporary) = temporary {
        names::unlinkat(&dir, &temporary)?;
    }
    Ok(Some((fd, None)))
}

/// Whether this process was started with another descriptor that writes to the file, as for `-o
/// /dev/stdout >file`: what others write there after it must reach the same file. The descriptors
/// are looked at once, when the first file is opened.
fn is_written_already(fd: &OwnedFd, stat: &Stat) -> bool {
    const WRITES: u32 = 0o200;
    static WRITTEN: OnceLock<Vec<FileId>> = OnceLock::new();
    let own = fd_path(fd);
    let written = WRITTEN.get_or_init(|| {
        let Ok(all) = std::fs::read_dir("/proc/self/fd") else { return Vec::new() };
        let others = all.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| *path != own);
        others
            .filter(|path| rustix::fs::lstat(path).is_ok_and(|link| link.st_mode & WRITES != 0))
            .filter_map(|path| Some(FileId::of(&rustix::fs::stat(&path).ok()?)))
            .collect()
    });
    written.contains(&FileId::of(stat))
}

/// Whether something is mounted at the name by which the file was opened (`statx(2)`).
fn is_mount(fd: &OwnedFd) -> bool {
    statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS)
        .is_ok_and(|stat| stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

/// Copies a complete file into the one that has to stay. Space comes first, so that a full disk
/// changes nothing.
fn copy_into(from: &OwnedFd, to: &OwnedFd) -> io::Result<()> {
    let (size, held) = (fstat(from)?.st_size as u64, fstat(to)?.st_size as u64);
    fsync(from)?;
    if size > held {
        let allocate = || rustix::fs::fallocate(to, FallocateFlags::KEEP_SIZE, held, size - held);
        // Not every file system can.
        if let Err(errno @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) = uninterrupted(allocate) {
            return Err(errno.into());
        }
    }
    let (mut source, mut target) = (std::fs::File::from(from.try_clone()?), std::fs::File::from(to.try_clone()?));
    io::Seek::rewind(&mut source)?;
    io::Seek::rewind(&mut target)?;
    io::copy(&mut source, &mut target)?;
    target.set_len(size)?;
    fsync(to)?;
    super::evict::drop_written(to);
    Ok(())
}

fn is_link(path: &Path) -> bool {
    rustix::fs::readlinkat_raw(CWD, path, &mut [0; 1]).is_ok()
}

/// The last part of a path that does not end in a slash.
fn base_name(path: &[u8]) -> Option<CString> {
    let start = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    CString::new(&path[start..]).ok().filter(|name| !matches!(name.to_bytes(), b"" | b"." | b".."))
}

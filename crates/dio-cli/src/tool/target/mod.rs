//! The file that a tool writes. If it replaces another file, it is written beside it, and renamed
//! over it when it is complete and durable.
//!
//! An existing regular file keeps its name and its contents until the new contents are complete and
//! synced; an error, a signal or a full disk before that changes nothing. Three invariants:
//!
//! 1. The old file is only opened. It is neither truncated nor written before
//!    [`OutputFile::keep`].
//! 2. The file that replaces it has its owner, permissions, ACLs, extended attributes and inode
//!    flags. If the file system refuses one of these, the file is not replaced.
//! 3. A file that must stay the same inode, because it has other names or is mounted over, or
//!    because of invariant 2, gets the new contents by a copy from a temporary file that is
//!    complete; signals wait for the end of that copy.
//!
//! These files are written in place, so their old contents are lost if a run is cut short: devices,
//! pipes and sockets; a file in a directory in which nothing can be created; a file that a
//! descriptor of the process refers to; every file under `--in-place`. A file that did not exist
//! before is created under its own name at once.

pub(crate) mod attributes;
mod guard;
pub(crate) mod naming;
pub(crate) mod own_file;
mod sink;

use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use dio::names;
use dio::names::FileId;
use dio_sys::{fd_path, uninterrupted};
use rustix::fs::{
    AtFlags, CWD, FallocateFlags, FileType, Mode, OFlags, Stat, Statx, StatxAttributes, StatxFlags,
    fstat, fsync, openat, readlink, statat, statx,
};
use rustix::io::Errno;

use super::{open_descriptors, synced};
use guard::Partial;
pub(crate) use guard::{Guard, remove_if};
pub(crate) use naming::HiddenName;
use naming::{Naming, open_parent, split, temporary_name, unnamed, unnamed_plain};

/// A file that is being written. If it is dropped without [`OutputFile::keep`], the old file is
/// unchanged.
#[derive(Debug)]
pub(crate) struct OutputFile {
    /// The file that is written.
    fd: OwnedFd,
    path: PathBuf,
    method: WriteMethod,
    /// The identity of the file that had the name before.
    before: Option<FileId>,
}

#[derive(Debug)]
enum WriteMethod {
    /// The name did not exist; the file has it from the start.
    New(FileId),
    /// The file gets its name at the end.
    AtEnd(FinalName),
    /// The contents are copied into this file at the end.
    Into(OwnedFd),
    /// The existing file is written directly. `regular` says that it has contents to truncate.
    InPlace { regular: bool },
}

/// The name that the file gets at the end.
#[derive(Debug)]
struct FinalName {
    name: CString,
    naming: Naming<Arc<OwnedFd>>,
    /// Whether a file of that name is replaced; otherwise the name must still be free.
    replace: bool,
}

/// Options for opening an [`OutputFile`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TargetOptions {
    /// The old contents are truncated before the new ones are written (`--in-place`).
    pub(crate) in_place: bool,
    /// If the name does not exist, the file gets it at the end, and only if the name is still free.
    pub(crate) hidden: bool,
    /// A link is not followed (ELOOP), and a FIFO without a reader is not waited for (ENXIO).
    pub(crate) wary: bool,
}

impl OutputFile {
    /// Opens the target that `path` leads to. An existing file keeps its contents until
    /// [`OutputFile::keep`], or until [`OutputFile::sink`] if it has to be written in place.
    ///
    /// # Errors
    /// Errors of `open(2)` for writing to the file itself.
    pub(crate) fn open(path: &Path, options: TargetOptions) -> Result<OutputFile, Errno> {
        let wary = if options.wary { OFlags::NOFOLLOW | OFlags::NONBLOCK } else { OFlags::empty() };
        let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOCTTY | wary;
        let mode = Mode::from_raw_mode(0o666);
        let path = path.to_owned();
        let old = match uninterrupted(|| openat(CWD, &path, flags, Mode::empty())) {
            Err(Errno::NOENT) if options.hidden && !is_link(&path) => {
                return OutputFile::hidden(path, mode);
            }
            Err(Errno::NOENT) => {
                match uninterrupted(|| {
                    names::openat(CWD, &path, flags | OFlags::CREATE | OFlags::EXCL, mode)
                }) {
                    // The name is a dangling link, or another process created the file meanwhile.
                    Err(Errno::EXIST) => {
                        uninterrupted(|| names::openat(CWD, &path, flags | OFlags::CREATE, mode))?
                    }
                    Err(errno) => return Err(errno),
                    Ok(fd) => {
                        let made = FileId::of(&fstat(&fd)?);
                        return Ok(OutputFile {
                            fd,
                            path,
                            method: WriteMethod::New(made),
                            before: None,
                        });
                    }
                }
            }
            old => old?,
        };
        let stat = fstat(&old)?;
        let before = Some(FileId::of(&stat));
        let regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        let may_move = regular && !options.in_place && !is_written_already(&old, &stat);
        let separate = if may_move { separate_file(&old, &stat)? } else { None };
        let (fd, method) = match separate {
            Some((fd, None)) => (fd, WriteMethod::Into(old)),
            Some((fd, Some(final_name))) => (fd, WriteMethod::AtEnd(final_name)),
            None => (old, WriteMethod::InPlace { regular }),
        };
        Ok(OutputFile { fd, path, method, before })
    }

    /// Begins a file that will get the name `path` itself, even if that is a link, in the directory
    /// `dir` of that path. An existing file of that name is unchanged until
    /// [`OutputFile::keep_named`]. Until its attributes are set, only its owner can access the
    /// file.
    ///
    /// # Errors
    /// EEXIST if the name exists and is not to be replaced; EISDIR if it is a directory; errors of
    /// `open(2)`.
    pub(crate) fn named(dir: Arc<OwnedFd>, path: &Path, replace: bool) -> io::Result<OutputFile> {
        let name = base_name(path.as_os_str().as_bytes()).ok_or(Errno::ISDIR)?;
        let before = match statat(&dir, &*name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => {
                return Err(Errno::ISDIR.into());
            }
            Ok(_) if !replace => return Err(Errno::EXIST.into()),
            Ok(stat) => Some(FileId::of(&stat)),
            Err(Errno::NOENT) => None,
            Err(errno) => return Err(errno.into()),
        };
        let (fd, temporary) =
            unnamed(&dir, OFlags::RDWR | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR)?;
        let method =
            WriteMethod::AtEnd(FinalName { name, naming: Naming::new(dir, temporary), replace });
        Ok(OutputFile { fd, path: path.to_owned(), method, before })
    }

    /// Opens a special file for writing in place: the last name of `path` in `dir`, the directory
    /// of that path. Returns `None` for a regular file or directory, or if the name does not exist.
    ///
    /// # Errors
    /// Errors of `open(2)`.
    pub(crate) fn special(dir: &OwnedFd, path: &Path) -> io::Result<Option<OutputFile>> {
        let name = split(path).1;
        let is_special = |stat: &Stat| {
            !matches!(
                FileType::from_raw_mode(stat.st_mode),
                FileType::RegularFile | FileType::Directory
            )
        };
        if !statat(dir, name, AtFlags::empty()).is_ok_and(|stat| is_special(&stat)) {
            return Ok(None);
        }
        let fd =
            openat(dir, name, OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOCTTY, Mode::empty())?;
        if !is_special(&fstat(&fd)?) {
            // The name refers to another file by now, which must not be written to.
            return Ok(None);
        }
        Ok(Some(OutputFile {
            fd,
            path: path.to_owned(),
            method: WriteMethod::InPlace { regular: false },
            before: None,
        }))
    }

    /// Creates a file that has no name until it is kept.
    fn hidden(path: PathBuf, mode: Mode) -> Result<OutputFile, Errno> {
        let name = base_name(path.as_os_str().as_bytes()).ok_or(Errno::ISDIR)?;
        let dir = Arc::new(open_parent(&path)?);
        let (fd, temporary) = unnamed(&dir, OFlags::RDWR | OFlags::CLOEXEC, mode)?;
        let method = WriteMethod::AtEnd(FinalName {
            name,
            naming: Naming::new(dir, temporary),
            replace: false,
        });
        Ok(OutputFile { fd, path, method, before: None })
    }

    /// Returns the path as it was given.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the file that is written: the new one, or the old one if it is written in place.
    pub(crate) fn descriptor(&self) -> &OwnedFd {
        &self.fd
    }

    /// Returns only the descriptor, for a file that is written under its own name.
    pub(crate) fn into_descriptor(self) -> OwnedFd {
        self.fd
    }

    /// Returns whether it is a regular file, rather than a device, pipe or socket.
    pub(crate) fn is_regular(&self) -> bool {
        !matches!(self.method, WriteMethod::InPlace { regular: false })
    }

    /// Returns a path by which other processes, on any machine that mounts the file system there,
    /// can open the file that is written. A file without a name gets a temporary one.
    ///
    /// # Errors
    /// `EOPNOTSUPP` if it has no name of its own at any time, or is striped or no regular file;
    /// errors of `link(2)`.
    pub(crate) fn path_for_others(&mut self) -> Result<PathBuf, Errno> {
        if !self.is_regular() || names::is_striped(&self.fd)? {
            return Err(Errno::OPNOTSUPP);
        }
        match &mut self.method {
            WriteMethod::New(_) | WriteMethod::InPlace { .. } => {
                let path = readlink(fd_path(&self.fd), Vec::new())?;
                Ok(PathBuf::from(OsStr::from_bytes(path.to_bytes())))
            }
            WriteMethod::AtEnd(final_name) => {
                final_name.naming.hide(&self.fd)?;
                final_name.naming.hidden_path().ok_or(Errno::OPNOTSUPP)
            }
            WriteMethod::Into(_) => Err(Errno::OPNOTSUPP),
        }
    }

    /// Goes on with the file that another process has left under the hidden name `name`, if `is_it`
    /// recognises it and it takes the attributes of this one. One that does not take them is
    /// removed. Returns whether that file is written now; then it stays if it is not kept.
    ///
    /// # Errors
    /// Errors of `fstat(2)` and `statx(2)`.
    pub(crate) fn take_over(
        &mut self,
        name: &CStr,
        is_it: impl Fn(&Statx) -> bool,
    ) -> Result<bool, Errno> {
        let WriteMethod::AtEnd(final_name) = &mut self.method else { return Ok(false) };
        let dir = Arc::clone(final_name.naming.dir());
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let Ok(left) = openat(&dir, name, flags, Mode::empty()) else { return Ok(false) };
        let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
        let found = statx(&left, c"", AtFlags::EMPTY_PATH, wanted)?;
        let is_file = FileType::from_raw_mode(found.stx_mode.into()) == FileType::RegularFile;
        if !is_file || found.stx_nlink != 1 || !is_it(&found) || names::is_striped(&left)? {
            return Ok(false);
        }
        if attributes::give_all(&self.fd, &fstat(&self.fd)?, &left).is_err() {
            names::unlinkat(&dir, name)?;
            return Ok(false);
        }
        final_name.naming = Naming::new(dir, Some(name.to_owned()));
        final_name.naming.leave();
        self.fd = left;
        Ok(true)
    }

    /// Returns the hidden name that the file has until it is kept, if it has one.
    pub(crate) fn hidden_name(&self) -> Option<HiddenName> {
        let WriteMethod::AtEnd(FinalName { naming, .. }) = &self.method else { return None };
        HiddenName::of(naming)
    }

    /// The file has got this hidden name instead of the one before.
    pub(crate) fn was_renamed(&mut self, hidden: &HiddenName) {
        if let WriteMethod::AtEnd(FinalName { naming, .. }) = &mut self.method {
            naming.was_renamed(hidden.name());
        }
    }

    /// Leaves the file under its hidden name, for another process to go on with, if it is not kept.
    pub(crate) fn leave_hidden(&mut self) {
        if let WriteMethod::AtEnd(FinalName { naming, .. }) = &mut self.method {
            naming.leave();
        }
    }

    /// Cuts the file off behind `length` bytes.
    ///
    /// # Errors
    /// Errors of `fstat(2)` and `ftruncate(2)`.
    pub(crate) fn cut_off(&self, length: u64) -> Result<(), Errno> {
        match fstat(&self.fd)?.st_size as u64 > length {
            true => names::ftruncate(&self.fd, length),
            false => Ok(()),
        }
    }

    /// Returns the identity of the file that had the name before, if there was one.
    pub(crate) fn before(&self) -> Option<FileId> {
        self.before
    }

    /// Returns whether the old contents stay complete until the new ones are complete.
    pub(crate) fn keeps_the_old(&self) -> bool {
        matches!(
            self.method,
            WriteMethod::AtEnd(FinalName { replace: true, .. }) | WriteMethod::Into(_)
        )
    }

    /// Returns whether the old contents are overwritten as soon as new ones are written.
    pub(crate) fn is_in_place(&self) -> bool {
        matches!(self.method, WriteMethod::InPlace { .. })
    }

    /// Returns whether a process that is killed leaves a temporary name behind.
    pub(crate) fn has_temporary_name(&self) -> bool {
        matches!(&self.method, WriteMethod::AtEnd(final_name) if final_name.naming.is_hidden())
    }

    /// Returns a remedy if `errno` says that there is no room for two copies.
    pub(crate) fn cure(&self, errno: Errno) -> Option<&'static str> {
        let full = matches!(errno, Errno::NOSPC | Errno::DQUOT);
        (full && self.keeps_the_old())
            .then_some("the old contents are kept beside the new ones; --in-place overwrites them")
    }

    /// Truncates the old contents if they are overwritten.
    ///
    /// # Errors
    /// Errors of `ftruncate(2)` for a regular file.
    pub(crate) fn begin(&self) -> Result<(), Errno> {
        match self.method {
            WriteMethod::InPlace { regular: true } => names::ftruncate(&self.fd, 0),
            _ => Ok(()),
        }
    }

    /// Removes the file if a signal ends the process before it is complete. A file that did not
    /// exist before is removed too if `new` is set.
    pub(crate) fn guard(&self, new: bool) -> Guard {
        Guard::of(match &self.method {
            WriteMethod::New(made) if new => Some(Partial::New(self.path.clone(), *made)),
            WriteMethod::AtEnd(final_name) => {
                final_name.naming.hidden_path().map(Partial::Temporary)
            }
            _ => None,
        })
    }

    /// Makes the contents durable, if the file can be synced.
    ///
    /// # Errors
    /// Errors of `fsync(2)`.
    pub(crate) fn sync(&self) -> io::Result<()> {
        Ok(if self.is_regular() { names::fsync(&self.fd) } else { synced::fsync(&self.fd) }?)
    }

    /// Puts the complete contents in place. They are durable before the old ones are gone, unless
    /// they are copied over these (`WriteMethod::Into`).
    ///
    /// # Errors
    /// EEXIST if the name was free before and exists now; errors of syncing, linking, renaming and
    /// copying.
    pub(crate) fn keep(&mut self) -> io::Result<()> {
        match &mut self.method {
            WriteMethod::New(_) | WriteMethod::InPlace { .. } => {}
            WriteMethod::AtEnd(final_name) => {
                final_name.give_name(&self.fd)?;
                if final_name.replace {
                    final_name.naming.sync(&self.fd)?;
                }
            }
            WriteMethod::Into(old) => copy_into(&self.fd, old)?,
        }
        Ok(())
    }

    /// Does the same as [`OutputFile::keep`] for a file that gets its name at the end. With
    /// `durable`, contents and name are synced.
    ///
    /// # Errors
    /// Errors of [`OutputFile::keep`].
    pub(crate) fn keep_named(&mut self, durable: bool) -> io::Result<()> {
        if durable {
            self.sync()?;
        }
        if let WriteMethod::AtEnd(final_name) = &mut self.method {
            final_name.give_name(&self.fd)?;
        }
        if durable { self.sync_name() } else { Ok(()) }
    }

    /// Makes the name durable that the file got at the end.
    ///
    /// # Errors
    /// Errors of `fsync(2)`.
    pub(crate) fn sync_name(&self) -> io::Result<()> {
        match &self.method {
            WriteMethod::AtEnd(final_name) => Ok(final_name.naming.sync(&self.fd)?),
            _ => Ok(()),
        }
    }

    /// Removes an incomplete file that was created here.
    pub(crate) fn discard(self) {
        if let WriteMethod::New(made) = &self.method {
            remove_if(&self.path, *made);
        }
    }
}

impl FinalName {
    /// Gives the complete file its name. If it replaces another file or is striped, its contents
    /// are synced first.
    fn give_name(&mut self, fd: &OwnedFd) -> io::Result<()> {
        if self.replace || names::is_striped(fd)? {
            names::fsync(fd)?;
        }
        let FinalName { name, naming, replace } = self;
        Ok(if *replace { naming.replace(fd, name) } else { naming.claim(fd, name) }?)
    }
}

/// A separate file, and the name under which it replaces the old one.
type SeparateFile = (OwnedFd, Option<FinalName>);

/// Creates a file separate from `old`. It is renamed over `old` later or, if the second value is
/// `None`, copied into it. Returns `None` if nothing can be created in the directory.
///
/// # Errors
/// There is no room for the file, or there are too many open files: that is no reason to overwrite
/// the old file.
fn separate_file(old: &OwnedFd, stat: &Stat) -> Result<Option<SeparateFile>, Errno> {
    match create_separate_file(old, stat) {
        Ok(made) => Ok(made),
        Err(
            errno @ (Errno::NOSPC
            | Errno::DQUOT
            | Errno::MFILE
            | Errno::NFILE
            | Errno::NOMEM
            | Errno::IO
            | Errno::INTR),
        ) => Err(errno),
        Err(_) => Ok(None),
    }
}

fn create_separate_file(old: &OwnedFd, stat: &Stat) -> Result<Option<SeparateFile>, Errno> {
    let real = readlink(fd_path(old), Vec::new())?;
    let Some(name) = base_name(real.to_bytes()) else { return Ok(None) };
    let dir = open_parent(Path::new(OsStr::from_bytes(real.to_bytes())))?;
    // A file that was removed, or that a mount of another mount namespace hides, has no name that
    // could be taken over.
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
            return Ok(Some((fd, Some(FinalName { name, naming, replace: true }))));
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

/// Returns whether this process was started with another descriptor that writes to the file, as
/// with `-o /dev/stdout >file`: what other processes write there afterwards must reach the same
/// file. The descriptors are examined once, when the first file is opened.
fn is_written_already(fd: &OwnedFd, stat: &Stat) -> bool {
    const WRITES: u32 = 0o200;
    static WRITTEN: OnceLock<Vec<FileId>> = OnceLock::new();
    let written = WRITTEN.get_or_init(|| {
        let others = open_descriptors().filter(|(number, _)| *number != fd.as_raw_fd());
        others
            .filter(|(_, path)| {
                rustix::fs::lstat(path).is_ok_and(|link| link.st_mode & WRITES != 0)
            })
            .filter_map(|(_, path)| Some(FileId::of(&rustix::fs::stat(&path).ok()?)))
            .collect()
    });
    written.contains(&FileId::of(stat))
}

/// Returns whether something is mounted at the name by which the file was opened (`statx(2)`).
fn is_mount(fd: &OwnedFd) -> bool {
    statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS)
        .is_ok_and(|stat| stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

/// Copies a complete file into the one that has to stay. The space is allocated first, so that a
/// full disk changes nothing.
fn copy_into(from: &OwnedFd, to: &OwnedFd) -> io::Result<()> {
    let (size, held) = (fstat(from)?.st_size as u64, fstat(to)?.st_size as u64);
    fsync(from)?;
    if size > held {
        let allocate = || rustix::fs::fallocate(to, FallocateFlags::KEEP_SIZE, held, size - held);
        // Not every file system supports this.
        if let Err(errno @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) = uninterrupted(allocate) {
            return Err(errno.into());
        }
    }
    let (mut source, mut target) =
        (std::fs::File::from(from.try_clone()?), std::fs::File::from(to.try_clone()?));
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

/// Returns the last component of a path that does not end in a slash.
fn base_name(path: &[u8]) -> Option<CString> {
    let start = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    CString::new(&path[start..]).ok().filter(|name| !matches!(name.to_bytes(), b"" | b"." | b".."))
}

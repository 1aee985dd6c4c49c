//! Creates the file for a member, and handles an existing file of the same name.

use std::collections::HashSet;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dio::names;
use dio::names::FileId;
use parking_lot::{Mutex, MutexGuard};
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RawDir, Stat, Timespec, fstat, openat, statat, unlinkat,
};
use rustix::io::Errno;

use super::root::{Dir, Root};
use crate::tool::target::naming::{Naming, temporary_name, unnamed, unnamed_plain};

/// Bytes of directory entries that are read at once.
const LISTING_BYTES: usize = 32 << 10;

/// The treatment of existing files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum OldFiles {
    /// Existing files are replaced.
    #[default]
    Replace,
    /// `-k`: existing files are errors.
    Keep,
    /// `--skip-old-files`: existing files are kept.
    Skip,
    /// `--keep-newer-files`: existing files are kept unless they are older.
    KeepNewer,
    /// `--overwrite`: existing files are written into.
    Overwrite,
    /// `-U`: existing files are removed first.
    UnlinkFirst,
    /// `-U --recursive-unlink`: existing files, and directories with their contents, are removed
    /// first.
    UnlinkAll,
}

/// The result of dealing with an existing file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExistingOutcome {
    /// The name is free: try again.
    Clear,
    /// The file stays, which is no error.
    Skip,
    /// The file stays, which is an error.
    Blocked,
}

/// The reason for which a file was not created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The existing file stays, as the options demand.
    Skipped,
    /// The existing file is newer, or as old.
    Newer,
    /// The existing file could not be removed beforehand.
    Unlink(Errno),
    /// The file could not be created.
    Open(Errno),
}

/// A file being written, which may not have its final name yet.
#[derive(Debug)]
pub(super) struct NewFile {
    pub(super) fd: OwnedFd,
    name: CString,
    /// Whether the file is striped, so that its bytes are in other files.
    pub(super) striped: bool,
    /// Gives the file its name at the end; `None` if it already has it.
    naming: Option<Naming<Arc<Dir>>>,
}

/// A set of directories, by device and inode.
#[derive(Debug, Default)]
pub(super) struct DirectorySet {
    ids: Mutex<HashSet<FileId>>,
    /// In a process that must not remove directories: whether it was about to.
    refused: Option<AtomicBool>,
}

impl DirectorySet {
    /// A set for removed directories to which none can be added, so that none is removed.
    pub(super) fn closed() -> DirectorySet {
        DirectorySet { ids: Mutex::default(), refused: Some(AtomicBool::new(false)) }
    }

    /// Whether a directory would have been removed.
    pub(super) fn has_refused(&self) -> bool {
        self.refused.as_ref().is_some_and(|refused| refused.load(Ordering::Relaxed))
    }

    fn all(&self) -> MutexGuard<'_, HashSet<FileId>> {
        self.ids.lock()
    }

    /// Adds a directory. Returns true if it was not in the set.
    pub(super) fn add(&self, id: FileId) -> bool {
        self.all().insert(id)
    }

    pub(super) fn remove(&self, id: FileId) {
        self.all().remove(&id);
    }

    pub(super) fn has(&self, id: FileId) -> bool {
        self.all().contains(&id)
    }
}

/// The conditions under which a member is created.
#[derive(Clone, Copy, Debug)]
pub(super) struct CreateConditions<'a> {
    pub(super) old: OldFiles,
    pub(super) mtime: Timespec,
    /// Whether the file takes long to write, so that it gets its name only when it is complete.
    pub(super) long: bool,
    /// Directories that were removed for other members. No attributes may be set on them any more.
    pub(super) gone: &'a DirectorySet,
    /// Directories whose default for striping may come from the archive. The archive must not
    /// decide where files are stored.
    pub(super) steered: &'a DirectorySet,
    /// `-h`: the target of a link counts, not the link itself.
    pub(super) follows: bool,
}

impl CreateConditions<'_> {
    /// Whether the directory's default for striping applies. It does not if the archive brought it,
    /// or may have written into an existing one.
    fn may_stripe(&self, dir: &Dir) -> bool {
        self.old != OldFiles::Overwrite && !self.steered.has(dir.id)
    }
}

impl NewFile {
    /// Creates a file for `name` in `dir`, or opens an existing one for overwriting. `way` is the
    /// path to it, for following links.
    pub(super) fn make(
        dir: &Arc<Dir>,
        name: &CStr,
        wanted: CreateConditions<'_>,
        way: (&Root, &[u8]),
    ) -> Result<NewFile, Refusal> {
        prepare(dir, name, wanted)?;
        let flags =
            OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::NONBLOCK;
        let private = Mode::from_bits_retain(0o600);
        let there = |fd| NewFile {
            striped: names::is_striped(&fd).unwrap_or(true),
            fd,
            name: name.to_owned(),
            naming: None,
        };
        if wanted.old == OldFiles::Overwrite
            && wanted.follows
            && kind_of(dir, name) == Some(FileType::Symlink)
        {
            let (root, path) = way;
            if let Some(fd) = root.overwrite(path).map_err(Refusal::Open)? {
                return Ok(there(fd));
            }
        }
        // Opening a device may already have an effect.
        if wanted.old == OldFiles::Overwrite && !is_special(dir, name) {
            match names::openat(dir, name, flags | OFlags::TRUNC, private) {
                Ok(fd) if is_regular(&fd) => return Ok(there(fd)),
                Err(errno @ Errno::ISDIR) => return Err(Refusal::Open(errno)),
                // The contents are not written into a link, nor into a file that another process
                // put there.
                Ok(_) | Err(_) => {}
            }
        }
        if !wanted.long {
            let new = flags | OFlags::CREATE | OFlags::EXCL;
            // Most files cannot be striped, so they need no check.
            let striping = dir.gives_stripes() && wanted.may_stripe(dir);
            let made = if striping {
                names::openat(dir, name, new, private)
            } else {
                openat(dir, name, new, private)
            };
            match made {
                Ok(fd) if striping => return Ok(there(fd)),
                Ok(fd) => {
                    let name = name.to_owned();
                    return Ok(NewFile { fd, name, naming: None, striped: false });
                }
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(Refusal::Open(errno)),
            }
        }
        match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => match judge(dir, name, &stat, wanted) {
                ExistingOutcome::Clear => {}
                ExistingOutcome::Skip => return Err(Refusal::Skipped),
                ExistingOutcome::Blocked => return Err(Refusal::Open(Errno::EXIST)),
            },
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(Refusal::Open(errno)),
        }
        NewFile::make_apart(dir, name, flags.difference(OFlags::NONBLOCK), wanted.may_stripe(dir))
            .map_err(Refusal::Open)
    }

    /// Creates a file without a name, or with a temporary one.
    fn make_apart(
        dir: &Arc<Dir>,
        name: &CStr,
        flags: OFlags,
        may_stripe: bool,
    ) -> Result<NewFile, Errno> {
        let (flags, private) = (flags.difference(OFlags::NOFOLLOW), Mode::from_bits_retain(0o600));
        let made = if may_stripe {
            unnamed(dir, flags, private)
        } else {
            unnamed_plain(dir, flags, private)
        };
        let (fd, hidden) = made?;
        let striped = hidden.is_some() && names::is_striped(&fd)?;
        let (name, naming) = (name.to_owned(), Some(Naming::new(Arc::clone(dir), hidden)));
        Ok(NewFile { fd, name, naming, striped })
    }

    /// Gives the file a name by which other processes reach it until it has its own, unless it has
    /// one.
    pub(super) fn hide_as(&mut self, name: &CStr) -> Result<(), Errno> {
        self.naming.as_mut().ok_or(Errno::INVAL)?.hide_as(&self.fd, name)
    }

    /// Goes on with a file that an earlier attempt has left under this hidden name. It stays there
    /// if this is dropped.
    pub(super) fn take_over(&mut self, fd: OwnedFd, hidden: CString) {
        if let Some(naming) = &mut self.naming {
            *naming = Naming::new(Arc::clone(naming.dir()), Some(hidden));
            self.fd = fd;
        }
    }

    /// The hidden name that the file has, or one that it may get.
    pub(super) fn name_to_hide(&self) -> CString {
        let hidden = self.naming.as_ref().and_then(Naming::hidden_name);
        hidden.map_or_else(temporary_name, CStr::to_owned)
    }

    /// Leaves the hidden name if this is dropped.
    pub(super) fn leave(&mut self) {
        self.naming.iter_mut().for_each(Naming::leave);
    }

    /// Gives the complete file its name and replaces any existing file. If the file is dropped
    /// instead, it is deleted, unless it was created under its final name.
    pub(super) fn keep(self) -> Result<OwnedFd, Errno> {
        if let Some(mut naming) = self.naming {
            // A file with a temporary name is renamed, whether or not the final name is taken.
            let claimed = if naming.is_hidden() {
                Err(Errno::EXIST)
            } else {
                naming.claim(&self.fd, &self.name)
            };
            match claimed {
                Err(Errno::EXIST) => naming.replace(&self.fd, &self.name)?,
                other => other?,
            }
        }
        Ok(self.fd)
    }
}

/// The type of the file that has this name.
pub(super) fn kind_of(dir: &Dir, name: &CStr) -> Option<FileType> {
    statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
        .map(|stat| FileType::from_raw_mode(stat.st_mode))
        .ok()
}

/// Whether the name belongs to a device, pipe or socket.
fn is_special(dir: &Dir, name: &CStr) -> bool {
    let plain =
        |kind| matches!(kind, FileType::RegularFile | FileType::Directory | FileType::Symlink);
    kind_of(dir, name).is_some_and(|kind| !plain(kind))
}

fn is_regular(fd: &OwnedFd) -> bool {
    fstat(fd).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
}

/// Does what the options demand before a member is created: older files are removed (`-U`), newer
/// ones are kept (`--keep-newer-files`).
pub(super) fn prepare(dir: &Dir, name: &CStr, wanted: CreateConditions<'_>) -> Result<(), Refusal> {
    match wanted.old {
        OldFiles::UnlinkFirst => match remove(dir, name, wanted.gone) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(Refusal::Unlink(errno)),
        },
        OldFiles::UnlinkAll => match remove_all(dir, name, wanted.gone) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(Refusal::Unlink(errno)),
        },
        OldFiles::KeepNewer => {
            let follow = if wanted.follows { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
            match statat(dir, name, follow) {
                Ok(stat) if is_newer(&stat, wanted.mtime) => Err(Refusal::Newer),
                _ => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// Whether an existing file that is no directory is newer than the member or as old.
fn is_newer(stat: &Stat, mtime: Timespec) -> bool {
    FileType::from_raw_mode(stat.st_mode) != FileType::Directory
        && (stat.st_mtime, stat.st_mtime_nsec as i64) >= (mtime.tv_sec, mtime.tv_nsec)
}

/// Decides whether the existing file may be replaced. An empty directory is removed here; any other
/// file stays until it is replaced.
fn judge(dir: &Dir, name: &CStr, stat: &Stat, wanted: CreateConditions<'_>) -> ExistingOutcome {
    match wanted.old {
        OldFiles::Skip => return ExistingOutcome::Skip,
        OldFiles::Keep | OldFiles::UnlinkFirst | OldFiles::UnlinkAll => {
            return ExistingOutcome::Blocked;
        }
        OldFiles::KeepNewer => {
            let followed =
                if wanted.follows { statat(dir, name, AtFlags::empty()).ok() } else { None };
            if is_newer(&followed.unwrap_or(*stat), wanted.mtime) {
                return ExistingOutcome::Blocked;
            }
        }
        _ => {}
    }
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory if remove_directory(dir, name, wanted.gone).is_err() => {
            ExistingOutcome::Blocked
        }
        _ => ExistingOutcome::Clear,
    }
}

/// Like [`judge`], but also removes the existing file, for members that cannot be created beside
/// it.
pub(super) fn clear(dir: &Dir, name: &CStr, wanted: CreateConditions<'_>) -> ExistingOutcome {
    let Ok(stat) = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) else {
        return ExistingOutcome::Blocked;
    };
    let way = judge(dir, name, &stat, wanted);
    if way != ExistingOutcome::Clear || FileType::from_raw_mode(stat.st_mode) == FileType::Directory
    {
        return way;
    }
    if names::unlinkat(dir, name).is_ok() {
        ExistingOutcome::Clear
    } else {
        ExistingOutcome::Blocked
    }
}

/// Removes a file or an empty directory.
fn remove(dir: &Dir, name: &CStr, gone: &DirectorySet) -> Result<(), Errno> {
    match names::unlinkat(dir, name) {
        Err(Errno::ISDIR | Errno::PERM) => remove_directory(dir, name, gone),
        other => other,
    }
}

/// Removes an empty directory.
fn remove_directory(dir: impl AsFd, name: &CStr, gone: &DirectorySet) -> Result<(), Errno> {
    let stat = statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let id = FileId::of(&stat);
    if let Some(refused) = &gone.refused {
        refused.store(true, Ordering::Relaxed);
        return Err(Errno::BUSY);
    }
    // Recorded before the removal: right after it, another thread may create a directory with the
    // same inode.
    let fresh = gone.add(id);
    let removed = unlinkat(dir, name, AtFlags::REMOVEDIR);
    if removed.is_err() && fresh {
        gone.remove(id);
    }
    removed
}

/// A directory that is being emptied.
struct Level {
    name: CString,
    id: FileId,
    /// The names that are still in it.
    names: Vec<CString>,
}

/// Removes a file, or a directory with all its contents. No link is followed: each directory is
/// entered by descriptor, and left through `..`, which must be the directory it was entered from.
/// At most two directories are open at a time, however deep the tree is.
fn remove_all(dir: impl AsFd, name: &CStr, gone: &DirectorySet) -> Result<(), Errno> {
    match names::unlinkat(&dir, name) {
        Err(Errno::ISDIR | Errno::PERM) => {}
        other => return other,
    }
    let (mut here, top) = enter(dir.as_fd(), name)?;
    let mut levels = vec![top];
    while let Some(level) = levels.last_mut() {
        if let Some(name) = level.names.pop() {
            match names::unlinkat(&here, &name) {
                Err(Errno::ISDIR | Errno::PERM) => {
                    let (inside, level) = enter(here.as_fd(), &name)?;
                    levels.push(level);
                    here = inside;
                }
                removed => removed?,
            }
            continue;
        }
        let Some(empty) = levels.pop() else { break };
        let Some(above) = levels.last() else { return remove_directory(dir, &empty.name, gone) };
        let parent = openat(
            &here,
            c"..",
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        if identity(&parent)? != above.id {
            return Err(Errno::NOENT);
        }
        remove_directory(&parent, &empty.name, gone)?;
        here = parent;
    }
    Ok(())
}

/// Opens a directory and lists it.
fn enter(dir: BorrowedFd<'_>, name: &CStr) -> Result<(OwnedFd, Level), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = openat(dir, name, flags, Mode::empty())?;
    let (mut names, mut buffer) = (Vec::new(), Vec::with_capacity(LISTING_BYTES));
    let mut listing = RawDir::new(&fd, buffer.spare_capacity_mut());
    while let Some(entry) = listing.next() {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            names.push(entry.file_name().to_owned());
        }
    }
    let level = Level { name: name.to_owned(), id: identity(&fd)?, names };
    Ok((fd, level))
}

fn identity(fd: &OwnedFd) -> Result<FileId, Errno> {
    fstat(fd).map(|stat| FileId::of(&stat))
}

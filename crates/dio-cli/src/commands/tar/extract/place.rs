//! Where a file appears, and what happens to what has its name already.

use std::collections::HashSet;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use dio::stripe::calls;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, Timespec, fstat, linkat, openat, statat, unlinkat};
use rustix::io::Errno;

use super::root::Dir;
use crate::tool::own_path;
use crate::tool::unnamed::{temporary_name, unnamed};

/// What happens to existing files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum OldFiles {
    /// They are replaced.
    #[default]
    Replace,
    /// `-k`: they are errors.
    Keep,
    /// `--skip-old-files`: they stay.
    Skip,
    /// `--keep-newer-files`: they stay unless they are older.
    KeepNewer,
    /// `--overwrite`: they are written into.
    Overwrite,
    /// `-U`: they are removed first.
    UnlinkFirst,
    /// `-U --recursive-unlink`: with all they hold.
    UnlinkAll,
}

/// What stands in the way of a new file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Nothing any more: try again.
    Clear,
    /// It stays, and that is right.
    Skip,
    /// It stays, which is an error.
    Blocked,
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The old file stays, as was asked for.
    Skipped,
    /// The old file is newer, or just as old.
    Newer,
    /// It could not be removed beforehand.
    Unlink(Errno),
    /// It could not be made.
    Open(Errno),
}

/// A file that is being written, and how it gets its name.
#[derive(Debug)]
pub(super) struct Place<'a> {
    pub(super) fd: OwnedFd,
    dir: &'a Dir,
    name: &'a CStr,
    /// Its bytes are elsewhere.
    pub(super) striped: bool,
    naming: Naming,
}

#[derive(Debug)]
enum Naming {
    /// It has its name.
    There,
    /// It has none yet (`O_TMPFILE`).
    None,
    /// It has another one until it is complete.
    Temporary(CString),
}

/// Directories, by device and inode, that were removed for something else: nothing is to be set on them any more.
#[derive(Debug, Default)]
pub(super) struct Gone(Mutex<HashSet<(u64, u64)>>);

impl Gone {
    fn all(&self) -> MutexGuard<'_, HashSet<(u64, u64)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new directory may have the inode of one that is gone.
    pub(super) fn is_there(&self, id: (u64, u64)) {
        self.all().remove(&id);
    }

    pub(super) fn has(&self, id: (u64, u64)) -> bool {
        self.all().contains(&id)
    }
}

/// Size of a file, and what is to be known about the member.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    pub(super) old: OldFiles,
    pub(super) mtime: Timespec,
    /// It takes long to write, so it gets its name when it is complete.
    pub(super) long: bool,
    /// Where removed directories are noted.
    pub(super) gone: &'a Gone,
}

impl<'a> Place<'a> {
    /// Makes a file for `name` in `dir`, or opens the one that is there to be written into.
    pub(super) fn make(dir: &'a Dir, name: &'a CStr, wanted: Wanted<'_>) -> Result<Place<'a>, Refusal> {
        prepare(dir, name, wanted)?;
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::NONBLOCK;
        let private = Mode::from_bits_retain(0o600);
        let there =
            |fd| Place { striped: calls::is_striped(&fd).unwrap_or(true), fd, dir, name, naming: Naming::There };
        // To open a device may do something already.
        if wanted.old == OldFiles::Overwrite && !is_special(dir, name) {
            match calls::openat(dir, name, flags | OFlags::TRUNC, private) {
                Ok(fd) if is_regular(&fd) => return Ok(there(fd)),
                Err(errno @ Errno::ISDIR) => return Err(Refusal::Open(errno)),
                // Neither is a link, or what another process has put there, a place for the contents of a file.
                Ok(_) | Err(_) => {}
            }
        }
        if !wanted.long {
            let new = flags | OFlags::CREATE | OFlags::EXCL;
            // Of most files nobody needs to ask.
            let striping = dir.gives_stripes();
            let made = if striping { calls::openat(dir, name, new, private) } else { openat(dir, name, new, private) };
            match made {
                Ok(fd) if striping => return Ok(there(fd)),
                Ok(fd) => return Ok(Place { fd, dir, name, naming: Naming::There, striped: false }),
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(Refusal::Open(errno)),
            }
        }
        match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => match judge(dir, name, &stat, wanted) {
                Way::Clear => {}
                Way::Skip => return Err(Refusal::Skipped),
                Way::Blocked => return Err(Refusal::Open(Errno::EXIST)),
            },
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(Refusal::Open(errno)),
        }
        Place::make_apart(dir, name, flags.difference(OFlags::NONBLOCK)).map_err(Refusal::Open)
    }

    /// A file without a name, or with one that nobody looks for.
    fn make_apart(dir: &'a Dir, name: &'a CStr, flags: OFlags) -> Result<Place<'a>, Errno> {
        let private = Mode::from_bits_retain(0o600);
        let (fd, hidden) = unnamed(dir, flags.difference(OFlags::NOFOLLOW), private)?;
        let striped = hidden.is_some() && calls::is_striped(&fd)?;
        Ok(Place { fd, dir, name, naming: hidden.map_or(Naming::None, Naming::Temporary), striped })
    }

    /// The file is complete: it takes its name, and the place of what had it.
    pub(super) fn keep(self) -> Result<OwnedFd, Errno> {
        let temporary = match &self.naming {
            Naming::There => return Ok(self.fd),
            Naming::Temporary(temporary) => temporary.clone(),
            Naming::None => {
                let own = own_path(&self.fd);
                match linkat(CWD, &own, self.dir, self.name, AtFlags::SYMLINK_FOLLOW) {
                    Ok(()) => return Ok(self.fd),
                    Err(Errno::EXIST) => {}
                    Err(errno) => return Err(errno),
                }
                let temporary = temporary_name();
                linkat(CWD, &own, self.dir, &*temporary, AtFlags::SYMLINK_FOLLOW)?;
                temporary
            }
        };
        let renamed = calls::renameat(self.dir, &temporary, self.name);
        if renamed.is_err() {
            // The error that is told is that of renaming.
            let _ = calls::unlinkat(self.dir, &temporary);
        }
        renamed.map(|()| self.fd)
    }

    /// The file did not become complete: it goes, unless it was written under its name.
    pub(super) fn give_up(self) {
        match self.naming {
            Naming::There => {}
            Naming::None => {}
            Naming::Temporary(temporary) => {
                let _ = calls::unlinkat(self.dir, &temporary);
            }
        }
    }
}

/// Whether a device, pipe or socket has this name.
fn is_special(dir: &Dir, name: &CStr) -> bool {
    let kind = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).map(|stat| FileType::from_raw_mode(stat.st_mode));
    kind.is_ok_and(|kind| !matches!(kind, FileType::RegularFile | FileType::Directory | FileType::Symlink))
}

fn is_regular(fd: &OwnedFd) -> bool {
    fstat(fd).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
}

/// What is done before a member is made: older files go (`-U`), newer ones stay (`--keep-newer-files`).
pub(super) fn prepare(dir: &Dir, name: &CStr, wanted: Wanted<'_>) -> Result<(), Refusal> {
    match wanted.old {
        OldFiles::UnlinkFirst => match remove(dir, name, wanted.gone) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(Refusal::Unlink(errno)),
        },
        OldFiles::UnlinkAll => match remove_all(dir, name, wanted.gone, 0) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(Refusal::Unlink(errno)),
        },
        OldFiles::KeepNewer => match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if is_newer(&stat, wanted.mtime) => Err(Refusal::Newer),
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

/// Whether an existing file, which is no directory, is newer than the member or as old.
fn is_newer(stat: &Stat, mtime: Timespec) -> bool {
    FileType::from_raw_mode(stat.st_mode) != FileType::Directory
        && (stat.st_mtime, stat.st_mtime_nsec as i64) >= (mtime.tv_sec, mtime.tv_nsec)
}

/// Whether what exists may be replaced. An empty directory is removed; a file stays until it is replaced.
fn judge(dir: &Dir, name: &CStr, stat: &Stat, wanted: Wanted<'_>) -> Way {
    match wanted.old {
        OldFiles::Skip => return Way::Skip,
        OldFiles::Keep | OldFiles::UnlinkFirst | OldFiles::UnlinkAll => return Way::Blocked,
        OldFiles::KeepNewer if is_newer(stat, wanted.mtime) => return Way::Blocked,
        _ => {}
    }
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory if remove_directory(dir, name, wanted.gone).is_err() => Way::Blocked,
        _ => Way::Clear,
    }
}

/// The same, and the old file is removed: for what cannot be made beside it.
pub(super) fn clear(dir: &Dir, name: &CStr, wanted: Wanted<'_>) -> Way {
    let Ok(stat) = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) else { return Way::Blocked };
    let way = judge(dir, name, &stat, wanted);
    if way != Way::Clear || FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
        return way;
    }
    if calls::unlinkat(dir, name).is_ok() { Way::Clear } else { Way::Blocked }
}

/// Removes a file or an empty directory.
fn remove(dir: &Dir, name: &CStr, gone: &Gone) -> Result<(), Errno> {
    match calls::unlinkat(dir, name) {
        Err(Errno::ISDIR | Errno::PERM) => remove_directory(dir, name, gone),
        other => other,
    }
}

/// Removes an empty directory.
fn remove_directory(dir: impl AsFd, name: &CStr, gone: &Gone) -> Result<(), Errno> {
    let stat = statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let id = (stat.st_dev, stat.st_ino);
    // Noted before: as soon as it is removed, another thread may make a directory with its inode.
    let fresh = gone.all().insert(id);
    let removed = unlinkat(dir, name, AtFlags::REMOVEDIR);
    if removed.is_err() && fresh {
        gone.is_there(id);
    }
    removed
}

/// Directories inside each other that are removed; deeper ones are an error, not an overflow of the stack.
const DEEPEST: u32 = 1000;

/// Removes a file, or a directory with everything in it. No link is followed: each directory is entered by descriptor.
fn remove_all(dir: impl AsFd, name: &CStr, gone: &Gone, depth: u32) -> Result<(), Errno> {
    match calls::unlinkat(&dir, name) {
        Err(Errno::ISDIR | Errno::PERM) => {}
        other => return other,
    }
    if depth > DEEPEST {
        return Err(Errno::NAMETOOLONG);
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let inside = openat(&dir, name, flags, Mode::empty())?;
    let names: Vec<CString> = rustix::fs::Dir::read_from(&inside)?
        .filter_map(|entry| entry.ok().map(|entry| entry.file_name().to_owned()))
        .filter(|name| !matches!(name.to_bytes(), b"." | b".."))
        .collect();
    for inner in names {
        remove_all(&inside, &inner, gone, depth + 1)?;
    }
    remove_directory(dir, name, gone)
}

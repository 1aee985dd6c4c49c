//! Opens source and target of a file's contents by the rules of GNU cp. The data layer calls this
//! module, with the flags that its mode needs.

use std::ffi::{CStr, OsStr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use dio::names;
use dio::names::FileId;
use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, openat, readlinkat_raw};
use rustix::io::Errno;

use super::entry::SourceEntry;
use super::error::{CopyError, ErrorContext, FailedOperation};
use super::ranges::Helpers;
use super::report::CopyLog;
use crate::stop::Stop;
use crate::tool::fifo::open_fifo;

/// A file whose contents are copied. It holds names, not descriptors, because the data layer may
/// open either side more than once (direct and not) and under a temporary name.
pub(crate) struct Contents<'a> {
    pub(crate) entry: SourceEntry<'a>,
    /// Attributes of the source, read just before.
    pub(crate) stat: &'a Stat,
    /// A source that is a symbolic link is followed.
    pub(crate) follow: bool,
    /// No target exists yet.
    pub(crate) fresh: bool,
    /// The target is this incomplete file, in which the copy goes on.
    pub(crate) goes_on: Option<FileId>,
    /// The target is a FIFO.
    pub(crate) into_fifo: bool,
    /// The mode that a new target is created with; the umask still applies.
    pub(crate) mode: u32,
    /// The process's file mode creation mask.
    pub(crate) umask: u32,
    /// A target that cannot be opened is removed and created again.
    pub(crate) force: bool,
    pub(crate) report: &'a CopyLog,
    /// The other processes, if the copy is shared.
    pub(crate) helpers: Option<&'a dyn Helpers>,
}

/// An open target.
pub(crate) struct OpenTarget {
    pub(crate) fd: OwnedFd,
    /// The target was created by this call.
    pub(crate) fresh: bool,
}

impl Contents<'_> {
    pub(crate) fn source_dir(&self) -> (BorrowedFd<'_>, &CStr) {
        (std::os::fd::AsFd::as_fd(&self.entry.open.source), self.entry.source)
    }

    pub(crate) fn target_dir(&self) -> (BorrowedFd<'_>, &CStr) {
        (std::os::fd::AsFd::as_fd(&self.entry.open.target), self.entry.target)
    }

    pub(crate) fn source_path(&self) -> PathBuf {
        self.entry.source_path()
    }

    pub(crate) fn target_path(&self) -> PathBuf {
        self.entry.target_path()
    }

    /// Opens the source for reading, with `extra` flags, and checks that it is still the same file
    /// as in `stat`.
    pub(crate) fn open_source(&self, extra: OFlags) -> Result<OwnedFd, CopyError> {
        let mut flags = OFlags::RDONLY | OFlags::CLOEXEC | extra;
        if !self.follow {
            flags |= OFlags::NOFOLLOW;
        }
        if FileType::from_raw_mode(self.stat.st_mode) == FileType::RegularFile {
            // If a fifo has replaced it, opening must not wait for a writer.
            flags |= OFlags::NONBLOCK;
        }
        let (dir, name) = self.source_dir();
        let open = |more| openat(dir, name, flags | more, Mode::empty());
        let is_fifo = FileType::from_raw_mode(self.stat.st_mode) == FileType::Fifo;
        let fd =
            open_or_stop(is_fifo, open)?.at(FailedOperation::OpenSource, || self.source_path())?;
        let opened = fstat(&fd).at(FailedOperation::Stat, || self.source_path())?;
        if FileId::of(&opened) != FileId::of(self.stat) {
            return Err(CopyError::Replaced(self.source_path()));
        }
        Ok(fd)
    }

    /// Opens the target for writing, with `extra` flags such as TRUNC. A new one is created
    /// exclusively.
    pub(crate) fn open_target(&self, extra: OFlags) -> Result<OpenTarget, CopyError> {
        let (dir, name) = self.target_dir();
        let flags = OFlags::WRONLY | OFlags::CLOEXEC | extra;
        if !self.fresh {
            let exactly = if self.goes_on.is_some() { OFlags::NOFOLLOW } else { OFlags::empty() };
            let open = |more| openat(dir, name, flags | exactly | more, Mode::empty());
            match open_or_stop(self.into_fifo, open)? {
                Ok(fd) => {
                    let opened = fstat(&fd).at(FailedOperation::Stat, || self.target_path())?;
                    if self.goes_on.is_some_and(|file| file != FileId::of(&opened)) {
                        return Err(CopyError::Replaced(self.target_path()));
                    }
                    return Ok(OpenTarget { fd, fresh: false });
                }
                Err(Errno::NOENT) => {}
                Err(_) if self.force => match names::unlinkat(dir, name) {
                    Ok(()) => self.report.removed(|| self.target_path()),
                    Err(Errno::NOENT) => {}
                    Err(errno) => {
                        return Err(errno).at(FailedOperation::Remove, || self.target_path());
                    }
                },
                Err(errno) => return Err(errno).at(FailedOperation::Create, || self.target_path()),
            }
        }
        self.create_target(extra)
    }

    /// Returns whether the target, which was just created, may have to be striped because that is
    /// its directory's default.
    fn may_be_striped_by_default(&self) -> bool {
        let has = || self.path_of_target().parent().is_some_and(dio::names::has_default);
        // The names of operands may lead through several directories. All entries of a directory
        // share one, so it is checked once.
        if self.entry.operand {
            has()
        } else {
            !self.entry.dir.fresh && *self.entry.dir.stripes.get_or_init(has)
        }
    }

    fn path_of_target(&self) -> PathBuf {
        names::path_in(
            self.entry.open.target.as_fd(),
            OsStr::from_bytes(self.entry.target.to_bytes()),
        )
    }

    /// Creates the target, which must not exist.
    fn create_target(&self, extra: OFlags) -> Result<OpenTarget, CopyError> {
        let (dir, name) = self.target_dir();
        let flags = OFlags::WRONLY
            | OFlags::CLOEXEC
            | OFlags::CREATE
            | OFlags::EXCL
            | (extra - OFlags::TRUNC);
        match openat(dir, name, flags, Mode::from_bits_retain(self.mode)) {
            Ok(fd) if self.may_be_striped_by_default() => {
                let name = OsStr::from_bytes(name.to_bytes());
                let striped = names::striped_by_default(dir, name, fd, flags);
                let (fd, striped) = striped.at(FailedOperation::Create, || self.target_path())?;
                Ok(OpenTarget { fd, fresh: !striped })
            }
            Ok(fd) => Ok(OpenTarget { fd, fresh: true }),
            // POSIX demands that the file be created where the link leads.
            Err(Errno::EXIST)
                if is_link(dir, name) && std::env::var_os("POSIXLY_CORRECT").is_some() =>
            {
                let fd = openat(dir, name, flags - OFlags::EXCL, Mode::from_bits_retain(self.mode));
                Ok(OpenTarget {
                    fd: fd.at(FailedOperation::Create, || self.target_path())?,
                    fresh: true,
                })
            }
            // A file could be created where the link leads, but the link could change between the
            // check and the creation.
            Err(Errno::EXIST) if is_link(dir, name) => Err(CopyError::Dangling(self.target_path())),
            Err(Errno::ISDIR) if name.to_bytes().ends_with(b"/") => {
                Err(Errno::NOTDIR).at(FailedOperation::Create, || self.target_path())
            }
            Err(errno) => Err(errno).at(FailedOperation::Create, || self.target_path()),
        }
    }
}

/// Calls `open` with flags to add, and returns its result. For a FIFO, the wait for the other end
/// is interrupted when the run is asked to stop.
fn open_or_stop(
    is_fifo: bool,
    open: impl Fn(OFlags) -> Result<OwnedFd, Errno>,
) -> Result<Result<OwnedFd, Errno>, CopyError> {
    match if is_fifo { open_fifo(Stop::on_signals(), open) } else { open(OFlags::empty()) } {
        Err(Errno::CANCELED) => Err(CopyError::Interrupted),
        opened => Ok(opened),
    }
}

/// Returns whether the name is a symbolic link.
pub(super) fn is_link(dir: BorrowedFd<'_>, name: &CStr) -> bool {
    readlinkat_raw(dir, name, &mut [0; 1]).is_ok()
}

//! Opening what is read and what is written, as the flags ask for it.

use std::ffi::OsStr;
use std::fmt::Display;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use dio::names::FileId;
use dio_sys::start::was_closed;
use dio_sys::uninterrupted;
use rustix::fs::{CWD, FileType, Mode, OFlags, SeekFrom, Stat};
use rustix::io::Errno;

use super::account::Side;
use super::flags::{Set, conv, flag, open_flags};
use super::plan::Plan;
use crate::quote::{quoted, words};
use crate::tool::device;

/// An open end of the copy.
#[derive(Debug)]
pub(super) struct End {
    pub(super) fd: OwnedFd,
    /// Its name in messages.
    pub(super) name: PathBuf,
    /// Its name in the receipt: `-` for standard input and output.
    pub(super) path: PathBuf,
    pub(super) stat: Stat,
    /// Its bytes are not behind the descriptor.
    pub(super) striped: bool,
}

/// What went wrong before anything was copied, in words.
pub(super) type Failure = String;

/// `what`, and the reason.
pub(super) fn failure(what: impl Display, errno: Errno) -> Failure {
    format!("{what}: {}", words(errno))
}

impl End {
    fn new(fd: OwnedFd, name: PathBuf, path: PathBuf) -> Result<End, Failure> {
        let (stat, striped) = dio::names::fstat_striped(&fd).map_err(|errno| failure(quoted(&name), errno))?;
        Ok(End { fd, name, path, stat, striped })
    }

    /// Size of a regular file now, in bytes.
    pub(super) fn size(&self) -> Option<u64> {
        let regular = self.kind() == FileType::RegularFile;
        regular.then(|| dio::names::fstat(&self.fd).map_or(0, |stat| stat.st_size as u64))
    }

    /// Whether a regular file holds bytes beyond `at`.
    pub(super) fn reaches_beyond(&self, at: u64) -> bool {
        self.size().is_some_and(|size| size > at)
    }

    /// What it is.
    pub(super) fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.stat.st_mode)
    }

    /// As [`device::is_endless`].
    pub(super) fn is_endless(&self) -> bool {
        device::is_endless(&self.stat)
    }

    /// As [`device::has_records`].
    pub(super) fn has_records(&self) -> bool {
        device::has_records(&self.stat)
    }

    /// Whether it is the same file or device as another.
    pub(super) fn is(&self, other: &End) -> bool {
        let (a, b) = (&self.stat, &other.stat);
        let devices = self.kind() == FileType::BlockDevice && other.kind() == FileType::BlockDevice;
        FileId::of(a) == FileId::of(b) || (devices && a.st_rdev == b.st_rdev)
    }
}

/// Opens what is read.
pub(super) fn input(plan: &Plan) -> Result<End, Failure> {
    let Some(name) = &plan.input else {
        if was_closed(0) {
            return Err(failure("error reading 'standard input'", Errno::BADF));
        }
        return standard(io::stdin().as_fd().try_clone_to_owned(), "standard input", plan.iflag);
    };
    let fd = open(name, OFlags::RDONLY | open_flags(plan.iflag)).map_err(|errno| not_opened(name, errno))?;
    End::new(fd, name.into(), name.into())
}

/// Opens what is written, and cuts it to the place where writing starts; the second is what that
/// failed with.
pub(super) fn output(plan: &Plan) -> Result<(End, Option<Failure>), Failure> {
    let Some(name) = &plan.output else {
        if was_closed(1) {
            return Err(failure("error writing 'standard output'", Errno::BADF));
        }
        return Ok((standard(io::stdout().as_fd().try_clone_to_owned(), "standard output", plan.oflag)?, None));
    };
    let truncate = !plan.conv.any(conv::NOTRUNC);
    let mut flags = open_flags(plan.oflag);
    flags.set(OFlags::CREATE, !plan.conv.any(conv::NOCREAT));
    flags.set(OFlags::EXCL, plan.conv.any(conv::EXCL));
    // A seek of less than a block cuts everything off, as with GNU.
    let seeks = plan.seek.records > 0;
    flags.set(OFlags::TRUNC, truncate && !seeks);
    let length = if truncate && seeks { Some(length(plan)?) } else { None };
    let fd = match seeks {
        true => open(name, OFlags::RDWR | flags).or_else(|_| open(name, OFlags::WRONLY | flags)),
        false => open(name, OFlags::WRONLY | flags),
    };
    let end = End::new(fd.map_err(|errno| not_opened(name, errno))?, name.into(), name.into())?;
    let cut = length.and_then(|length| cut(length, &end));
    Ok((end, cut))
}

/// The length at which the output is cut off: where writing starts.
fn length(plan: &Plan) -> Result<u64, Failure> {
    plan.seek.offset(plan.obs).ok_or_else(|| {
        let (records, obs) = (plan.seek.records, plan.obs);
        format!("offset too large: cannot truncate to a length of seek={records} ({obs}-byte) blocks")
    })
}

/// Cuts the output off; gives what that failed with. Devices have no end to be moved.
fn cut(length: u64, end: &End) -> Option<Failure> {
    match dio::names::ftruncate(&end.fd, length) {
        Err(errno) if matches!(end.kind(), FileType::RegularFile | FileType::Directory) => {
            let what = format!("failed to truncate to {length} bytes in output file {}", quoted(&end.name));
            Some(failure(what, errno))
        }
        _ => None,
    }
}

fn open(name: &OsStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    uninterrupted(|| dio::names::openat(CWD, name, flags, Mode::from_raw_mode(0o666)))
}

fn not_opened(name: &OsStr, errno: Errno) -> Failure {
    failure(format_args!("failed to open {}", quoted(name)), errno)
}

/// Standard input or output, with the flags that an open descriptor can take on.
fn standard(fd: io::Result<OwnedFd>, name: &str, flags: Set) -> Result<End, Failure> {
    let setting = |errno| failure(format_args!("setting flags for {}", quoted(name)), errno);
    let fd = fd.map_err(|error| setting(Errno::from_io_error(&error).unwrap_or(Errno::BADF)))?;
    let end = End::new(fd, name.into(), "-".into())?;
    if flags.any(flag::DIRECTORY) && end.kind() != FileType::Directory {
        return Err(setting(Errno::NOTDIR));
    }
    let wanted = open_flags(flags) & (OFlags::APPEND | OFlags::NONBLOCK | OFlags::NOATIME);
    let have = rustix::fs::fcntl_getfl(&end.fd).map_err(setting)?;
    if !have.contains(wanted) {
        rustix::fs::fcntl_setfl(&end.fd, have | wanted).map_err(setting)?;
    }
    Ok(end)
}

/// Where a descriptor is; `None` for what has no places.
pub(super) fn place(end: &End) -> Option<u64> {
    rustix::fs::tell(&end.fd).ok()
}

/// Leaves the input, of which more was read ahead, behind the records that are told as read. They
/// began at `from`, and are all of `ibs` bytes: otherwise nothing is moved.
pub(super) fn leave_behind(input: &End, from: u64, read: Side, ibs: u64) {
    if input.kind() == FileType::RegularFile && read.partial == 0 {
        let end = read.full.saturating_mul(ibs).saturating_add(from);
        let _ = rustix::fs::seek(&input.fd, SeekFrom::Start(end));
    }
}

/// Moves a descriptor on by `offset` bytes, which is `None` when there is no such place.
///
/// # Errors
/// What `lseek(2)` answers; EOVERFLOW.
pub(super) fn advance(end: &End, offset: Option<u64>) -> Result<u64, Errno> {
    let offset = offset.and_then(|offset| i64::try_from(offset).ok()).ok_or(Errno::OVERFLOW)?;
    rustix::fs::seek(&end.fd, SeekFrom::Current(offset))
}

//! `--parents`: makes the directories that lead to a source in the target directory.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use dio::names::FileId;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat, fstat, mkdirat, openat, statat};
use rustix::io::Errno;

use super::dirs::join;
use super::error::{CopyError, ErrorContext, FailedOperation};
use super::made;
use super::metadata::{Attributes, Now};
use super::session::CopyRun;
use super::tree::object;

/// The directories made for one operand, outermost first.
pub(super) struct Parents {
    made: Vec<Parent>,
}

/// One such directory. It is not kept open, because there may be more of them than descriptors.
struct Parent {
    /// Path of the source, relative to the working directory.
    name: CString,
    shown: PathBuf,
    stat: Stat,
    now: Stat,
    fresh: bool,
    /// A symbolic link led there. If the directory existed before, it may belong to anybody, and
    /// its attributes are not changed.
    elsewhere: bool,
}

impl Parents {
    /// Makes the directories above `name` in `directory`, which is open and which messages call
    /// `shown`. Each gets the attributes of the one above the source; `name` is the source's own
    /// name without leading slashes. The innermost directory is returned, opened with `O_PATH`,
    /// unless it is `directory`.
    ///
    /// Each directory is made and opened relative to the one before, which stays the same even if
    /// its name changes. As with GNU cp, an existing link is followed.
    pub(super) fn make(
        session: &CopyRun,
        (directory, shown): (BorrowedFd<'_>, &Path),
        name: &CStr,
    ) -> Result<(Self, Option<OwnedFd>), CopyError> {
        let bytes = name.to_bytes();
        let ends: Vec<usize> =
            (1..bytes.len()).filter(|&i| bytes[i] == b'/' && bytes[i - 1] != b'/').collect();
        let mut made = Vec::new();
        let Some(&last) = ends.last() else { return Ok((Self { made }, None)) };
        let whole = c_string(&bytes[..last]);
        match openat(directory, &*whole, PLACE, Mode::empty()) {
            Ok(found) => return Ok((Self { made }, Some(found))),
            Err(Errno::NOTDIR) if is_there(directory, &whole) => {
                return Err(CopyError::NotDirectory(join(shown, &whole)));
            }
            Err(_) => {}
        }
        let (mut here, mut start, mut elsewhere) = (None::<OwnedFd>, 0, false);
        for end in ends {
            let above = here.as_ref().map_or(directory, AsFd::as_fd);
            let part = &bytes[start..end];
            let slashes = part.iter().take_while(|&&byte| byte == b'/').count();
            let part = c_string(&part[slashes..]);
            let name = c_string(&bytes[..end]);
            let (one, fd) =
                Self::make_one(session, (above, &part), (join(shown, &name), name), elsewhere)?;
            elsewhere = one.elsewhere;
            made.push(one);
            (here, start) = (Some(fd), end);
        }
        Ok((Self { made }, here))
    }

    /// Makes or opens `part` in `above`. `elsewhere` says that a link led to `above`.
    fn make_one(
        session: &CopyRun,
        (above, part): (BorrowedFd<'_>, &CStr),
        (shown, name): (PathBuf, CString),
        elsewhere: bool,
    ) -> Result<(Parent, OwnedFd), CopyError> {
        let source_shown =
            || PathBuf::from(std::ffi::OsString::from(OsStr::from_bytes(name.to_bytes())));
        let source = open_to_read(&*name).at(FailedOperation::ParentAttributes, source_shown)?;
        let stat = fstat(&source).at(FailedOperation::ParentAttributes, source_shown)?;
        let omitted = if session.options.preserve.ownership { 0o077 } else { 0o022 };
        let mode = (stat.st_mode & 0o1777 & !omitted) | 0o700;
        let fresh = match mkdirat(above, part, Mode::from_bits_retain(mode)) {
            Ok(()) => {
                session.report.parent_made(&source_shown(), &shown);
                true
            }
            Err(Errno::EXIST) => false,
            Err(errno) => return Err(errno).at(FailedOperation::MakeParent, || shown.clone()),
        };
        let opened = if fresh {
            made::open_directory(above, part).map(|(fd, _)| (fd, elsewhere))
        } else {
            let itself = openat(above, part, PLACE | OFlags::NOFOLLOW, Mode::empty())
                .map(|fd| (fd, elsewhere));
            itself.or_else(|_| openat(above, part, PLACE, Mode::empty()).map(|fd| (fd, true)))
        };
        let (target, elsewhere) = match opened {
            Err(Errno::NOTDIR) => return Err(CopyError::NotDirectory(shown)),
            Err(Errno::STALE) if fresh => return Err(CopyError::Replaced(shown)),
            opened => opened.at(FailedOperation::ParentAttributes, || shown.clone())?,
        };
        let now = fstat(&target).at(FailedOperation::ParentAttributes, || shown.clone())?;
        Ok((Parent { name, shown, stat, now, fresh, elsewhere }, target))
    }

    /// Gives the directories the attributes of their sources, innermost first.
    pub(super) fn finish(&self, session: &CopyRun) {
        for parent in self.made.iter().rev().filter(|parent| parent.fresh || !parent.elsewhere) {
            let (source, target) = match parent.open() {
                Ok(opened) => opened,
                Err(error) => {
                    session.report.error(error);
                    continue;
                }
            };
            let preserve = &session.options.preserve;
            let mode = parent.now.st_mode & 0o7777;
            let plain = parent.stat.st_mode & 0o777 & !session.umask;
            Attributes {
                session,
                source: object(source.as_fd()),
                target: object(target.as_fd()),
                stat: &parent.stat,
                now: Now {
                    owner: (parent.now.st_uid, parent.now.st_gid),
                    mode: Some(mode),
                    fresh: parent.fresh,
                    acl: true,
                },
                symlink: false,
                directory: true,
                plain_mode: match (parent.fresh, preserve.default_mode) {
                    (false, _) => None,
                    (true, true) => Some(0o777 & !session.umask),
                    (true, false) => Some((mode & 0o7000) | plain),
                },
                shown: &|| parent.shown.clone(),
            }
            .apply();
        }
    }
}

impl Parent {
    /// Opens source and target, and checks that they are still the same directories.
    fn open(&self) -> Result<(OwnedFd, OwnedFd), CopyError> {
        let same = |fd: OwnedFd, then: &Stat| {
            let now = fstat(&fd)?;
            if FileId::of(&now) == FileId::of(then) { Ok(fd) } else { Err(Errno::NOENT) }
        };
        let shown = || PathBuf::from(OsStr::from_bytes(self.name.to_bytes()));
        let source = open_to_read(&*self.name)
            .and_then(|fd| same(fd, &self.stat))
            .at(FailedOperation::ParentAttributes, shown)?;
        let target = open_to_read(&self.shown).and_then(|fd| same(fd, &self.now));
        Ok((source, target.at(FailedOperation::ParentAttributes, || self.shown.clone())?))
    }
}

/// Flags for opening a directory with `O_PATH`.
const PLACE: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Opens a directory, to read or set its attributes.
fn open_to_read(path: impl rustix::path::Arg + Copy) -> Result<OwnedFd, Errno> {
    let read = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(CWD, path, read, Mode::empty()).or_else(|_| openat(CWD, path, PLACE, Mode::empty()))
}

/// Returns whether a name leads to a file of any type.
fn is_there(dir: BorrowedFd<'_>, path: &CStr) -> bool {
    statat(dir, path, AtFlags::empty()).is_ok()
}

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

fn c_string(bytes: &[u8]) -> CString {
    CString::new(bytes).expect("a part of a C string holds no NUL")
}

//! `--parents`: the directories that lead to a source are made in the target directory.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use dio::names::FileId;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, fstat, mkdirat, openat, statat};
use rustix::io::Errno;

use super::dirs::join;
use super::error::{At, CopyError, Doing};
use super::examine::kind;
use super::metadata::{Attributes, Now, Object};
use super::session::Session;

/// The directories made for one operand, outermost first.
pub(super) struct Parents {
    made: Vec<Parent>,
}

/// It is not held open: there may be more of them than descriptors.
struct Parent {
    /// The source, relative to the working directory as the target is.
    name: CString,
    shown: PathBuf,
    stat: Stat,
    now: Stat,
    fresh: bool,
}

impl Parents {
    /// Makes the directories above `name` in `directory`, as they are above the source: `name` is the
    /// source's own name without leading slashes.
    pub(super) fn make(session: &Session, directory: &Path, name: &CStr) -> Result<Self, CopyError> {
        let bytes = name.to_bytes();
        let ends: Vec<usize> = (1..bytes.len()).filter(|&i| bytes[i] == b'/' && bytes[i - 1] != b'/').collect();
        let mut made = Vec::new();
        let Some(&last) = ends.last() else { return Ok(Self { made }) };
        let whole = join(directory, &c_string(&bytes[..last]));
        match statat(CWD, &whole, AtFlags::empty()) {
            Ok(stat) if kind(&stat) == FileType::Directory => return Ok(Self { made }),
            Ok(_) => return Err(CopyError::NotDirectory(whole)),
            Err(_) => {}
        }
        for end in ends {
            made.push(Self::make_one(session, directory, &c_string(&bytes[..end]))?);
        }
        Ok(Self { made })
    }

    fn make_one(session: &Session, directory: &Path, name: &CStr) -> Result<Parent, CopyError> {
        let shown = join(directory, name);
        let source_shown = || PathBuf::from(std::ffi::OsString::from(OsStr::from_bytes(name.to_bytes())));
        let source = open_to_read(name).at(Doing::ParentAttributes, source_shown)?;
        let stat = fstat(&source).at(Doing::ParentAttributes, source_shown)?;
        let omitted = if session.options.preserve.ownership { 0o077 } else { 0o022 };
        let mode = (stat.st_mode & 0o1777 & !omitted) | 0o700;
        let fresh = match mkdirat(CWD, &shown, Mode::from_bits_retain(mode)) {
            Ok(()) => {
                session.report.parent_made(&source_shown(), &shown);
                true
            }
            Err(Errno::EXIST) => false,
            Err(errno) => return Err(errno).at(Doing::MakeParent, || shown.clone()),
        };
        let target = match open_directory(&shown) {
            Err(Errno::NOTDIR) => return Err(CopyError::NotDirectory(shown)),
            opened => opened.at(Doing::ParentAttributes, || shown.clone())?,
        };
        let now = fstat(&target).at(Doing::ParentAttributes, || shown.clone())?;
        Ok(Parent { name: name.to_owned(), shown, stat, now, fresh })
    }

    /// Gives the directories the attributes of their sources, innermost first.
    pub(super) fn finish(&self, session: &Session) {
        for parent in self.made.iter().rev() {
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
                source: Object::Open(source.as_fd()),
                target: Object::Open(target.as_fd()),
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
    /// Source and target, if they are what they were.
    fn open(&self) -> Result<(OwnedFd, OwnedFd), CopyError> {
        let same = |fd: OwnedFd, then: &Stat| {
            let now = fstat(&fd)?;
            if FileId::of(&now) == FileId::of(then) { Ok(fd) } else { Err(Errno::NOENT) }
        };
        let shown = || PathBuf::from(OsStr::from_bytes(self.name.to_bytes()));
        let source = open_to_read(&self.name).and_then(|fd| same(fd, &self.stat)).at(Doing::ParentAttributes, shown)?;
        let target = open_directory(&self.shown).and_then(|fd| same(fd, &self.now));
        Ok((source, target.at(Doing::ParentAttributes, || self.shown.clone())?))
    }
}

fn open_directory(path: impl rustix::path::Arg) -> Result<OwnedFd, Errno> {
    openat(CWD, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// A directory, to read its attributes.
fn open_to_read(path: &CStr) -> Result<OwnedFd, Errno> {
    open_directory(path)
        .or_else(|_| openat(CWD, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()))
}

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

fn c_string(bytes: &[u8]) -> CString {
    CString::new(bytes).expect("a part of a C string holds no NUL")
}

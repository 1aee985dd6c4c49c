//! Pairs of directories that both exist, for walks that copy nothing.

use std::ffi::CStr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use dio::names::{DEFAULT_NAME, FileId, is_own_default};
use rustix::fs::{Mode, OFlags, Stat, fstat, openat};
use rustix::io::Errno;

use super::dirs::{Dir, Finish, Handle, Pair};
use super::error::{CopyError, ErrorContext, FailedOperation};
use super::options::Dereference;
use super::role::Role;
use super::session::CopyRun;
use super::tree::{Name, list};

impl CopyRun {
    /// Opens a directory of the source.
    pub(super) fn open_source_directory(
        &self,
        dir: &Dir,
        open: &Pair,
        name: &CStr,
    ) -> Result<(OwnedFd, Stat), CopyError> {
        let mut flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        if self.options.dereference == Dereference::Never {
            flags |= OFlags::NOFOLLOW;
        }
        let shown = || dir.source_path(name);
        let fd =
            openat(&open.source, name, flags, Mode::empty()).at(FailedOperation::Access, shown)?;
        let stat = fstat(&fd).at(FailedOperation::Stat, shown)?;
        Ok((fd, stat))
    }
}

/// Opens a directory of the target; `None` if there is none.
pub(super) fn open_target_directory(
    dir: &Dir,
    open: &Pair,
    name: &CStr,
) -> Result<Option<(OwnedFd, Stat)>, CopyError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let shown = || dir.target_path(name);
    let fd = match openat(&open.target, name, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(None),
        opened => opened.at(FailedOperation::Access, shown)?,
    };
    let stat = fstat(&fd).at(FailedOperation::Stat, shown)?;
    Ok(Some((fd, stat)))
}

/// Makes the pair of two open directories below `parent`.
pub(super) fn pair_of(
    parent: &Arc<Dir>,
    (source, target): (&CStr, &CStr),
    role: Role,
    ((from, stat), (into, found)): ((OwnedFd, Stat), (OwnedFd, Stat)),
) -> Arc<Dir> {
    let finish = Finish {
        name: target.to_owned(),
        stat,
        identity: FileId::of(&found),
        made: None,
        mode: found.st_mode & 0o7777,
        omitted: 0,
        owner: (found.st_uid, found.st_gid),
    };
    let open = Pair { source: Handle::Open(from), target: Handle::Open(into) };
    Dir::below(parent, (source, target), open, (role, false, false), finish)
}

/// Lists both directories. Stripes that one of them gives to its new files are a setting of that
/// place, and left out of both.
pub(super) fn listings(
    open: &Pair,
    shown: (&Path, &Path),
) -> Result<(Vec<Name>, Vec<Name>), CopyError> {
    let mut both = (listing(&open.source, shown.0)?, listing(&open.target, shown.1)?);
    let has_own = |names: &[Name], dir| names.iter().any(|name| is_own_default(dir, &name.name));
    if has_own(&both.0, &open.source) || has_own(&both.1, &open.target) {
        let is_other = |name: &Name| name.name.to_bytes() != DEFAULT_NAME.as_bytes();
        both.0.retain(is_other);
        both.1.retain(is_other);
    }
    Ok(both)
}

/// Lists one of the directories.
pub(super) fn listing(dir: &Handle, shown: &Path) -> Result<Vec<Name>, CopyError> {
    list(dir).at(FailedOperation::ReadDirectory, || shown.to_owned())
}

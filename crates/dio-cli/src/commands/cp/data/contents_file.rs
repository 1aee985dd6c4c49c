//! The name under which the bytes appear. Usually it is the target's name from the start. With
//! `--atomic` it is an unnamed file, which takes the target's name once it is complete and durable.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, OwnedFd};

use dio::names::{self, FileId};
use dio_sys::{fd_path, reopen};
use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, Stat, Uid, fstat, fstatvfs, openat, statat, unlinkat,
};
use rustix::io::Errno;

use super::super::durable::parent_of;
use super::super::error::{CopyError, ErrorContext, FailedOperation};
use super::super::open::{Contents, OpenTarget, is_link};
use super::path::{DataPath, Task};
use crate::tool::When;
use crate::tool::target::attributes::give_extended;
use crate::tool::target::naming::{Naming, temporary_name, unnamed};

/// The file that receives the contents.
pub(super) struct ContentsFile {
    target: OpenTarget,
    /// `Some` with `--atomic`: how the file gets its name.
    named: Option<AtomicName>,
}

struct AtomicName {
    /// The name that the file will get.
    name: CString,
    naming: Naming<OwnedFd>,
    /// The name was found through a symbolic link, so its directory is not among those that are
    /// synced at the end.
    elsewhere: bool,
}

impl DataPath {
    /// Opens or makes the file that receives the contents. An existing target is not changed yet.
    pub(super) fn place(&self, task: &Task<'_>) -> Result<ContentsFile, CopyError> {
        let contents = task.contents;
        let place = if self.transfer.atomic {
            self.place_atomically(contents)?
        } else {
            ContentsFile { target: contents.open_target(OFlags::empty())?, named: None }
        };
        task.account.opened_target(&place.target);
        Ok(place)
    }

    fn place_atomically(&self, contents: &Contents<'_>) -> Result<ContentsFile, CopyError> {
        let (mut mode, mut replaced, mut elsewhere) = (contents.mode, None, false);
        let shown = || contents.target_path();
        let (dir, name) = contents.target_dir();
        let (dir, name, fresh) = match existing(contents)? {
            ExistingTarget::Nothing => (
                open_dir(dir, name.to_bytes()).at(FailedOperation::Create, shown)?,
                base_name(name.to_bytes()),
                true,
            ),
            ExistingTarget::Special(target) => return Ok(ContentsFile { target, named: None }),
            ExistingTarget::File(fd, stat) => {
                mode = stat.st_mode & 0o7777;
                // The file that a link leads to is replaced, not the link.
                elsewhere = is_link(dir, name);
                let real;
                let (base, path) = if elsewhere {
                    real = rustix::fs::readlink(fd_path(&fd), Vec::new())
                        .at(FailedOperation::ReadLink, shown)?;
                    (CWD, real.to_bytes())
                } else {
                    (dir, name.to_bytes())
                };
                let there = open_dir(base, path).at(FailedOperation::Create, shown)?;
                let last = base_name(path);
                // A user who can rename directories on the path must not cause a file in another
                // directory to be replaced.
                let found = statat(&there, &*last, AtFlags::SYMLINK_NOFOLLOW)
                    .at(FailedOperation::Stat, shown)?;
                if FileId::of(&found) != FileId::of(&stat) {
                    return Err(CopyError::Replaced(shown()));
                }
                replaced = Some((fd, stat.st_uid, stat.st_gid));
                (there, last, false)
            }
        };
        let permissions = Mode::from_bits_retain(mode & 0o777 | 0o600);
        let (fd, hidden) = match &replaced {
            // A file that replaces a striped file gets the same stripes.
            Some((old, ..)) if names::is_striped(old).at(FailedOperation::Stat, shown)? => {
                let name = temporary_name();
                (
                    names::striped_like(old, dir.as_fd(), &name)
                        .at(FailedOperation::Create, shown)?,
                    Some(name),
                )
            }
            _ => unnamed(&dir, OFlags::RDWR | OFlags::CLOEXEC, permissions)
                .at(FailedOperation::Create, shown)?,
        };
        // From here on, `Naming` removes a hidden file if an error occurs.
        let named = Some(AtomicName { name, naming: Naming::new(dir, hidden), elsewhere });
        let before = fstat(&fd).at(FailedOperation::Stat, shown)?;
        if let Some((existing, user, group)) = replaced {
            // If the owner cannot be kept, the file becomes ours, as with every editor that
            // replaces files. It loses its set-user-ID and set-group-ID bits then, because they
            // would lend our rights to whoever runs it.
            if rustix::fs::fchown(&fd, Some(Uid::from_raw(user)), Some(Gid::from_raw(group)))
                .is_err()
            {
                mode &= 0o777;
            }
            give_extended(&existing, &fd);
            rustix::fs::fchmod(&fd, Mode::from_bits_retain(mode))
                .at(FailedOperation::SetPermissions, shown)?;
        } else {
            let umask = contents.umask;
            rustix::fs::fchmod(&fd, Mode::from_bits_retain(mode & !umask))
                .at(FailedOperation::SetPermissions, shown)?;
        }
        names::pass_on_attributes(&fd, &before).at(FailedOperation::SetPermissions, shown)?;
        Ok(ContentsFile { target: OpenTarget { fd, fresh }, named })
    }

    /// Empties an existing target just before its new contents are written; not earlier, and not if
    /// they certainly would not fit.
    pub(super) fn empty(&self, task: &Task<'_>, target: &OpenTarget) -> Result<(), CopyError> {
        if target.fresh || self.transfer.atomic {
            return Ok(());
        }
        let shown = || task.contents.target_path();
        if task.striped && names::is_striped(&target.fd).at(FailedOperation::Stat, shown)? {
            return names::ftruncate(&target.fd, 0).at(FailedOperation::Extend, shown);
        }
        let stat = fstat(&target.fd).at(FailedOperation::Stat, shown)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || stat.st_size == 0 {
            return Ok(());
        }
        let system = fstatvfs(&target.fd).at(FailedOperation::Stat, shown)?;
        let source = task.contents.stat;
        let needed = match self.transfer.sparse {
            When::Never => source.st_size as u64,
            _ => (source.st_blocks as u64 * 512).min(source.st_size as u64),
        };
        let freed = stat.st_blocks as u64 * 512;
        let free =
            if rustix::process::geteuid().is_root() { system.f_bfree } else { system.f_bavail };
        if needed > freed.saturating_add(free.saturating_mul(system.f_frsize)) {
            return Err(CopyError::NoRoom { path: shown(), needed });
        }
        rustix::fs::ftruncate(&target.fd, 0).at(FailedOperation::Extend, shown)
    }
}

impl ContentsFile {
    /// The open target.
    pub(super) fn target(&self) -> &OpenTarget {
        &self.target
    }

    /// Returns the name under which other processes find the file in the target's directory; `None`
    /// if they may not. A file without a name gets a hidden one.
    pub(super) fn name_for_others(
        &mut self,
        contents: &Contents<'_>,
    ) -> Result<Option<CString>, CopyError> {
        let (dir, name) = contents.target_dir();
        let Some(AtomicName { naming, elsewhere, .. }) = &mut self.named else {
            let stat =
                fstat(&self.target.fd).at(FailedOperation::Stat, || contents.target_path())?;
            // A device has the same name on other machines, but is another one.
            let is_regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
            return Ok((is_regular && !is_link(dir, name)).then(|| name.to_owned()));
        };
        if *elsewhere {
            return Ok(None);
        }
        naming.hide(&self.target.fd).at(FailedOperation::Create, || contents.target_path())?;
        let hidden = naming.hidden_name().map_or(&b""[..], CStr::to_bytes);
        let path = [parent_of(name.to_bytes()), b"/", hidden].concat();
        Ok(Some(CString::new(path).expect("all parts are parts of C strings")))
    }

    /// Gives the complete file its name. With `durable`, also syncs the name if no later sync
    /// covers it.
    pub(super) fn keep(self, task: &Task<'_>, durable: bool) -> Result<(), CopyError> {
        let Some(AtomicName { name, mut naming, elsewhere }) = self.named else { return Ok(()) };
        let shown = || task.contents.target_path();
        naming.replace(&self.target.fd, &name).at(FailedOperation::Create, shown)?;
        if elsewhere && durable {
            naming.sync(&self.target.fd).at(FailedOperation::Sync, shown)?;
        }
        Ok(())
    }

    /// After an error, removes a new file that has a name but no contents.
    pub(super) fn give_up(self, task: &Task<'_>) {
        if self.named.is_none()
            && self.target.fresh
            && fstat(&self.target.fd).is_ok_and(|stat| stat.st_size == 0)
        {
            let (dir, name) = task.contents.target_dir();
            if is_link(dir, name) {
                return;
            }
            // An error of this removal is not reported.
            let _ = unlinkat(dir, name, AtFlags::empty());
        }
    }
}

/// The file that a target's name leads to, if any.
enum ExistingTarget {
    /// No file, or one that `--force` replaces as if it did not exist.
    Nothing,
    /// A file that may be written, and its attributes.
    File(OwnedFd, Stat),
    /// A device or a pipe. It cannot be replaced by renaming, so it is written directly.
    Special(OpenTarget),
}

/// Examines the target of `contents` without changing it or its name.
fn existing(contents: &Contents<'_>) -> Result<ExistingTarget, CopyError> {
    let shown = || contents.target_path();
    let (dir, name) = contents.target_dir();
    if contents.fresh {
        // A dangling link stays, because it is no name for a new file. A name that ends in a slash
        // is a directory's.
        return match name.to_bytes() {
            name if name.ends_with(b"/") => Err(Errno::NOTDIR).at(FailedOperation::Create, shown),
            _ if is_link(dir, name) => Err(CopyError::Dangling(shown())),
            _ => Ok(ExistingTarget::Nothing),
        };
    }
    let found = match openat(dir, name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
        Ok(found) => found,
        Err(Errno::NOENT) if is_link(dir, name) => return Err(CopyError::Dangling(shown())),
        Err(Errno::NOENT) => return Ok(ExistingTarget::Nothing),
        Err(_) if contents.force => return Ok(ExistingTarget::Nothing),
        Err(errno) => return Err(errno).at(FailedOperation::Create, shown),
    };
    let stat = fstat(&found).at(FailedOperation::Stat, shown)?;
    match reopen(&found, OFlags::WRONLY) {
        Ok(fd) if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile => {
            Ok(ExistingTarget::File(fd, stat))
        }
        Ok(fd) => Ok(ExistingTarget::Special(OpenTarget { fd, fresh: false })),
        Err(_) if contents.force => Ok(ExistingTarget::Nothing),
        Err(errno) => Err(errno).at(FailedOperation::Create, shown),
    }
}

fn open_dir(dir: impl std::os::fd::AsFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    openat(
        dir,
        parent_of(name),
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )
}

fn base_name(name: &[u8]) -> CString {
    let start = name.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    CString::new(&name[start..]).expect("it is a part of a C string")
}

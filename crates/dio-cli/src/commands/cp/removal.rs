//! Removes what the source lacks from a target that is made like it, after everything is copied and
//! durable.
//!
//! The tree is walked once more, in the same jobs as a copy, by the entries of the target. What is
//! not in the listing of the source is looked for once more by its name, just before it is removed.
//! Nothing is removed below directories of the source that cannot be opened or listed.

use std::collections::HashSet;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use dio::names;
use dio::names::FileId;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, openat, statat, unlinkat};
use rustix::io::Errno;

use super::data::WorkerBuffer;
use super::dirs::{Dir, Handle, Operand, OperandTarget};
use super::error::{CopyError, ErrorContext, FailedOperation};
use super::examine::kind;
use super::metadata::{Object, set_times};
use super::operands::lies_within;
use super::options::Dereference;
use super::pairs::{listing, listings, open_target_directory, pair_of};
use super::role::{Role, Sides, Task};
use super::session::CopyRun;
use super::tree::Name;

impl CopyRun {
    /// Removes from the tree `target` what `source` lacks. Workers do a part of it.
    pub(super) fn remove_extras(
        self: &Arc<Self>,
        lane: &mut WorkerBuffer,
        (source, target): (&Path, &Path),
    ) {
        // Something else than a directory has nothing below it.
        let Some(copied) = self.root_copied.get() else { return };
        let operand = Operand {
            source: source.to_owned(),
            target: target.to_owned(),
            source_root: OnceLock::from(*copied),
            first_made: OnceLock::new(),
        };
        let place = OperandTarget { target: Handle::Working, shown: PathBuf::new(), again: None };
        let top = Dir::top(operand, place, (removing(Sides::Both), false));
        let [source, target] = [source, target].map(|path| {
            CString::new(path.as_os_str().to_owned().into_vec())
                .expect("operands come from the command line and hold no NUL")
        });
        let begun = self.begin_removal(&top, (&source, &target), *copied);
        match begun {
            Ok(Some(dir)) => self.remove_in(lane, dir),
            // A dry run did not make the target.
            Ok(None) => {}
            Err(error) => self.report.error(error),
        }
        self.leave(top);
    }

    fn begin_removal(
        &self,
        top: &Arc<Dir>,
        (source, target): (&CStr, &CStr),
        copied: FileId,
    ) -> Result<Option<Arc<Dir>>, CopyError> {
        let open = top.open()?;
        let from = self.open_source_directory(top, &open, source)?;
        let Some(into) = open_target_directory(top, &open, target)? else { return Ok(None) };
        // A file system that is not mounted any more leaves an empty directory.
        if FileId::of(&from.1) != copied {
            return Err(CopyError::Replaced(top.source_path(source)));
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let here = openat(&from.0, c".", flags, Mode::empty())
            .at(FailedOperation::Access, || top.source_path(source))?;
        if lies_within(here, &into.1) {
            return Err(CopyError::DeletesSource(top.source_path(source), top.target_path(target)));
        }
        Ok(Some(pair_of(top, (source, target), removing(Sides::Both), (from, into))))
    }

    /// Gives what may have to be removed in a directory to free workers, does the rest, and leaves
    /// the directory.
    fn remove_in(self: &Arc<Self>, lane: &mut WorkerBuffer, dir: Arc<Dir>) {
        dir.close_above(self.levels);
        match self.candidates(&dir) {
            Ok(names) => self.share_out(lane, &dir, names),
            Err(error) => self.report.error(error),
        }
        self.leave(dir);
    }

    /// Lists the entries of the target that may have to be removed, and the directories to look
    /// into.
    fn candidates(&self, dir: &Arc<Dir>) -> Result<Vec<Name>, CopyError> {
        let open = dir.open()?;
        let shown = dir.shown();
        if dir.role.sides != Sides::Both {
            return listing(&open.target, shown.1);
        }
        let (wanted, mut names) = listings(&open, shown)?;
        let wanted: HashSet<CString> = wanted.into_iter().map(|name| name.name).collect();
        names.retain(|name| name.may_be_directory() || !wanted.contains(&name.name));
        Ok(names)
    }

    /// Removes the entry `name` of the target of `dir` if the source has none, or looks for what to
    /// remove below it.
    pub(super) fn remove_extra(
        self: &Arc<Self>,
        lane: &mut WorkerBuffer,
        dir: &Arc<Dir>,
        name: &CStr,
    ) {
        if self.data.stopped() {
            return self.report.fail();
        }
        match self.try_remove(dir, name) {
            Ok(Some(below)) => self.remove_in(lane, below),
            Ok(None) => {}
            Err(error) => self.report.error(error),
        }
    }

    fn try_remove(&self, dir: &Arc<Dir>, name: &CStr) -> Result<Option<Arc<Dir>>, CopyError> {
        let open = dir.open()?;
        let source = match dir.role.sides {
            Sides::Target => None,
            Sides::Both | Sides::Source => {
                let follow = self.options.dereference == Dereference::Always;
                let flags = if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
                match statat(&open.source, name, flags) {
                    Ok(stat) => Some(stat),
                    Err(Errno::NOENT) if !follow => None,
                    // A link that leads nowhere is no reason to remove anything.
                    Err(Errno::NOENT) if !exists(&open.source, name) => None,
                    Err(errno) => {
                        return Err(errno).at(FailedOperation::Stat, || dir.source_path(name));
                    }
                }
            }
        };
        let target = match statat(&open.target, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(None),
            found => found.at(FailedOperation::Stat, || dir.target_path(name))?,
        };
        let is_directory = kind(&target) == FileType::Directory;
        if is_directory && dir.operand.is_mounted_at((&open.target, name), &target)? {
            let source = dir.operand.source.clone();
            return Err(CopyError::DeletesSource(source, dir.target_path(name)));
        }
        match source {
            Some(source) if !is_directory || kind(&source) != FileType::Directory => Ok(None),
            Some(source) => {
                let elsewhere = dir.identity.is_some_and(|dir| dir.device() != source.st_dev);
                if self.options.one_file_system && elsewhere {
                    return Ok(None);
                }
                let from = self.open_source_directory(dir, &open, name)?;
                let into = open_target_directory(dir, &open, name)?;
                Ok(into.map(|into| pair_of(dir, (name, name), removing(Sides::Both), (from, into))))
            }
            None if is_directory => {
                let into = open_target_directory(dir, &open, name)?;
                let from = open_target_directory(dir, &open, name)?;
                let both = from.zip(into);
                Ok(both.map(|both| pair_of(dir, (name, name), removing(Sides::Target), both)))
            }
            None => {
                self.report.removed(|| dir.target_path(name));
                if !self.options.is_dry() {
                    match names::unlinkat(&open.target, name) {
                        Err(Errno::NOENT) => {}
                        removed => removed.at(FailedOperation::Remove, || dir.target_path(name))?,
                    }
                }
                Ok(None)
            }
        }
    }

    /// Ends a directory in which everything is removed that had to be.
    pub(super) fn finish_removal(&self, dir: &Dir) {
        let (Some(finish), Some(parent)) = (&dir.finish, &dir.parent) else { return };
        if self.data.stopped() {
            return;
        }
        let ended = match dir.role.sides {
            Sides::Target => self.remove_directory(parent, &finish.name),
            Sides::Both | Sides::Source => self.restore_times(dir, &finish.stat),
        };
        if let Err(error) = ended {
            self.report.error(error);
        }
    }

    fn remove_directory(&self, parent: &Dir, name: &CStr) -> Result<(), CopyError> {
        let shown = || parent.target_path(name);
        self.report.removed(shown);
        if self.options.is_dry() {
            return Ok(());
        }
        match parent.in_target(|above| unlinkat(above, name, AtFlags::REMOVEDIR)) {
            // What stays in it was reported.
            Err(Errno::NOTEMPTY | Errno::EXIST) if self.report.failed() => Ok(()),
            removed => removed.at(FailedOperation::Remove, shown),
        }
    }

    /// Sets the times of a directory again that a removal has changed.
    fn restore_times(&self, dir: &Dir, source: &Stat) -> Result<(), CopyError> {
        let shown = || dir.shown().1.to_owned();
        let changed = |fd: BorrowedFd<'_>| {
            let now = fstat(fd)?;
            let times = |stat: &Stat| (stat.st_mtime, stat.st_mtime_nsec);
            if times(&now) == times(source) {
                return Ok(());
            }
            set_times(&Object::Open(fd), source)
        };
        if self.options.is_dry() || !self.options.preserve.timestamps {
            return Ok(());
        }
        dir.in_target(changed).at(FailedOperation::Times, shown)
    }
}

fn removing(sides: Sides) -> Role {
    Role { task: Task::Remove, sides }
}

fn exists(dir: &impl AsFd, name: &CStr) -> bool {
    !matches!(statat(dir, name, AtFlags::SYMLINK_NOFOLLOW), Err(Errno::NOENT))
}

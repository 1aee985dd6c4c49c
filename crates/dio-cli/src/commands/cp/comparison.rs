//! Compares two trees: which names are in one of both only, and which files differ and where.

use std::collections::HashSet;
use std::ffi::{CStr, CString, OsStr};
use std::fmt::Display;
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use dio::names::FileId;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, openat, readlinkat, statat, statx};
use rustix::io::Errno;

use super::data::WorkerBuffer;
use super::dirs::{Dir, Handle, Operand, OperandTarget, Pair};
use super::error::{CopyError, ErrorContext, FailedOperation};
use super::examine::kind;
use super::facts::FileFacts;
use super::metadata::{Object, same_extended};
use super::mirror::is_same_time;
use super::pairs::{listings, open_target_directory, pair_of};
use super::ranges::{Helpers, SharedFile};
use super::role::{Role, Sides, Task};
use super::session::CopyRun;
use crate::quote::quoted;
use crate::tool::Birth;

const ROLE: Role = Role { task: Task::Compare, sides: Sides::Both };

/// Two files of the same type that are compared.
#[derive(Clone, Copy)]
struct Compared<'a> {
    dir: &'a Arc<Dir>,
    open: &'a Pair,
    names: (&'a CStr, &'a CStr),
    stats: (&'a Stat, &'a Stat),
    /// Links are followed: the names are operands.
    follow: bool,
}

impl Compared<'_> {
    fn paths(&self) -> (PathBuf, PathBuf) {
        (self.dir.source_path(self.names.0), self.dir.target_path(self.names.1))
    }
}

impl CopyRun {
    /// Compares two operands, and everything below them.
    pub(super) fn compare_operands(
        self: &Arc<Self>,
        lane: &mut WorkerBuffer,
        (source, target): (&Path, &Path),
    ) {
        let operand = Operand {
            source: source.to_owned(),
            target: target.to_owned(),
            source_root: OnceLock::new(),
            first_made: OnceLock::new(),
        };
        let place = OperandTarget { target: Handle::Working, shown: PathBuf::new(), again: None };
        let top = Dir::top(operand, place, (ROLE, false));
        let [source, target] = [source, target].map(|path| {
            CString::new(path.as_os_str().to_owned().into_vec())
                .expect("operands come from the command line and hold no NUL")
        });
        self.compare(lane, &top, (&source, &target));
        self.leave(top);
    }

    /// Compares the entries of these names, and everything below them.
    pub(super) fn compare(
        self: &Arc<Self>,
        lane: &mut WorkerBuffer,
        dir: &Arc<Dir>,
        names: (&CStr, &CStr),
    ) {
        if self.data.stopped() {
            return self.report.fail();
        }
        match self.try_compare(lane, dir, names) {
            Ok(Some(below)) => self.compare_in(lane, below),
            Ok(None) => {}
            Err(CopyError::Interrupted) => self.report.fail(),
            Err(error) => self.report.error(error),
        }
    }

    fn try_compare(
        self: &Arc<Self>,
        lane: &mut WorkerBuffer,
        dir: &Arc<Dir>,
        names: (&CStr, &CStr),
    ) -> Result<Option<Arc<Dir>>, CopyError> {
        let open = dir.open()?;
        let follow = dir.parent.is_none() && dir.lender.is_none();
        let flags = if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
        let one = statat(&open.source, names.0, flags)
            .at(FailedOperation::Stat, || dir.source_path(names.0))?;
        let other = statat(&open.target, names.1, flags)
            .at(FailedOperation::Stat, || dir.target_path(names.1))?;
        let pair = Compared { dir, open: &open, names, stats: (&one, &other), follow };
        let (source, target) = pair.paths();
        if kind(&one) != kind(&other) {
            let (source, target) = (quoted(source), quoted(target));
            let (one, other) = (type_name(&one), type_name(&other));
            self.report.difference(format_args!(
                "File {source} is a {one} while file {target} is a {other}"
            ));
            return Ok(None);
        }
        if FileId::of(&one) == FileId::of(&other) {
            return Ok(None);
        }
        let (mut differences, mut below) = (Vec::new(), None);
        match kind(&one) {
            FileType::Directory => below = self.pair_to_compare(pair)?,
            FileType::RegularFile => {
                self.pass_on_rest(lane, dir, one.st_size as u64);
                differences.extend(self.differences_in(pair)?);
            }
            FileType::Symlink => differences.extend(difference_of_links(pair)?),
            FileType::CharacterDevice | FileType::BlockDevice if one.st_rdev != other.st_rdev => {
                differences.push("device".to_owned());
            }
            _ => {}
        }
        if self.options.comparison.is_some_and(|comparison| comparison.metadata) {
            differences.extend(differing_attributes(pair)?);
        }
        if !differences.is_empty() {
            self.report.difference(format_args!(
                "{} {} differ: {}",
                quoted(source),
                quoted(target),
                differences.join(", ")
            ));
        }
        Ok(below)
    }

    fn pair_to_compare(&self, pair: Compared<'_>) -> Result<Option<Arc<Dir>>, CopyError> {
        let Compared { dir, open, names, stats, .. } = pair;
        let elsewhere = dir.identity.is_some_and(|dir| dir.device() != stats.0.st_dev);
        if self.options.one_file_system && elsewhere {
            return Ok(None);
        }
        if pair.follow {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let [from, into] = [(&open.source, names.0), (&open.target, names.1)]
                .map(|(dir, name)| openat(dir, name, flags, Mode::empty()));
            let from = from.at(FailedOperation::Access, || dir.source_path(names.0))?;
            let into = into.at(FailedOperation::Access, || dir.target_path(names.1))?;
            return Ok(Some(pair_of(dir, names, ROLE, ((from, *stats.0), (into, *stats.1)))));
        }
        let from = self.open_source_directory(dir, open, names.0)?;
        let into = open_target_directory(dir, open, names.1)?
            .ok_or(Errno::NOENT)
            .at(FailedOperation::Access, || dir.target_path(names.1))?;
        Ok(Some(pair_of(dir, names, ROLE, (from, into))))
    }

    /// Prints which names are in one directory only, gives the others to free workers, compares the
    /// rest, and leaves the directory.
    fn compare_in(self: &Arc<Self>, lane: &mut WorkerBuffer, dir: Arc<Dir>) {
        dir.close_above(self.levels);
        let listed = dir.open().and_then(|open| listings(&open, dir.shown()));
        match listed {
            Ok((mut ours, theirs)) => {
                let shown = dir.shown();
                let known: HashSet<&CStr> = ours.iter().map(|name| &*name.name).collect();
                for name in theirs.iter().filter(|name| !known.contains(&*name.name)) {
                    self.only_in(shown.1, &name.name);
                }
                let known: HashSet<CString> = theirs.into_iter().map(|name| name.name).collect();
                ours.retain(|name| {
                    let both = known.contains(&name.name);
                    if !both {
                        self.only_in(shown.0, &name.name);
                    }
                    both
                });
                self.share_out(lane, &dir, ours);
            }
            Err(error) => self.report.error(error),
        }
        self.leave(dir);
    }

    fn only_in(&self, dir: &Path, name: &CStr) {
        let name = Path::new(OsStr::from_bytes(name.to_bytes()));
        self.report.difference(format_args!("Only in {}: {}", quoted(dir), quoted(name)));
    }

    /// Compares two regular files.
    fn differences_in(self: &Arc<Self>, pair: Compared<'_>) -> Result<Option<String>, CopyError> {
        let Compared { dir, open, names, stats, follow } = pair;
        let (source, target) = pair.paths();
        let follow = if follow { OFlags::empty() } else { OFlags::NOFOLLOW };
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | follow;
        let open_one = |dir: &Handle, name: &CStr, stat: &Stat, path: &Path| {
            let fd = openat(dir, name, flags, Mode::empty())
                .at(FailedOperation::OpenSource, || path.to_owned())?;
            let opened = fstat(&fd).at(FailedOperation::Stat, || path.to_owned())?;
            match FileId::of(&opened) == FileId::of(stat) {
                true => Ok(fd),
                false => Err(CopyError::Replaced(path.to_owned())),
            }
        };
        let one = open_one(&open.source, names.0, stats.0, &source)?;
        let other = open_one(&open.target, names.1, stats.1, &target)?;
        let made = statx(&other, c"", AtFlags::EMPTY_PATH, Birth::WANTED)
            .at(FailedOperation::Stat, || target.clone())?;
        let facts = FileFacts::of(stats.0, Birth::of(&made), pair.follow);
        let shared = |ranges| {
            let names = (names.0.to_owned(), names.1.to_owned());
            Arc::new(SharedFile::new(Arc::clone(dir), names, facts, ranges))
        };
        let helpers = self.share.get().map(|_| self as &dyn Helpers);
        let (byte, sizes) = self.data.compare((&one, &other), shared, helpers)?;
        Ok(byte.map(|byte| match sizes {
            [one, other] if one == other => format!("byte {}", byte + 1),
            [one, other] => format!("byte {}, sizes {one} and {other}", byte + 1),
        }))
    }
}

fn difference_of_links(pair: Compared<'_>) -> Result<Option<String>, CopyError> {
    let (source, target) = pair.paths();
    let one = readlinkat(&pair.open.source, pair.names.0, Vec::new())
        .at(FailedOperation::ReadLink, || source)?;
    let other = readlinkat(&pair.open.target, pair.names.1, Vec::new())
        .at(FailedOperation::ReadLink, || target)?;
    let text = |link: CString| quoted(Path::new(OsStr::from_bytes(link.to_bytes()))).to_string();
    Ok((one != other).then(|| format!("links to {} and {}", text(one), text(other))))
}

fn differing_attributes(pair: Compared<'_>) -> Result<Vec<String>, CopyError> {
    let (one, other) = pair.stats;
    let symlink = kind(one) == FileType::Symlink;
    let mut differences = Vec::new();
    let mut differ = |what: &str, one: &dyn Display, other: &dyn Display| {
        differences.push(format!("{what} {one} and {other}"));
    };
    let modes = [one, other].map(|stat| format!("{:04o}", stat.st_mode & 0o7777));
    if modes[0] != modes[1] && !symlink {
        differ("mode", &modes[0], &modes[1]);
    }
    let owners = [one, other].map(|stat| format!("{}:{}", stat.st_uid, stat.st_gid));
    if owners[0] != owners[1] {
        differ("owner", &owners[0], &owners[1]);
    }
    if !is_same_time(one, other) {
        let [one, other] =
            [one, other].map(|stat| format!("{}.{:09}", stat.st_mtime, stat.st_mtime_nsec));
        differ("modified", &one, &other);
    }
    let (source, target) = pair.paths();
    let follow = if pair.follow { OFlags::empty() } else { OFlags::NOFOLLOW };
    let flags = OFlags::PATH | OFlags::CLOEXEC | follow;
    let one = openat(&pair.open.source, pair.names.0, flags, Mode::empty())
        .at(FailedOperation::Access, || source)?;
    let other = openat(&pair.open.target, pair.names.1, flags, Mode::empty())
        .at(FailedOperation::Access, || target)?;
    let (one, other) = (Object::Place(one.as_fd()), Object::Place(other.as_fd()));
    if !same_extended((&one, &other), true, !symlink) {
        differences.push("attributes".to_owned());
    }
    Ok(differences)
}

/// The type of a file, in the words of diff.
fn type_name(stat: &Stat) -> &'static str {
    match kind(stat) {
        FileType::RegularFile => "regular file",
        FileType::Directory => "directory",
        FileType::Symlink => "symbolic link",
        FileType::Fifo => "fifo",
        FileType::Socket => "socket",
        FileType::CharacterDevice => "character special file",
        FileType::BlockDevice => "block special file",
        FileType::Unknown => "file of unknown type",
    }
}

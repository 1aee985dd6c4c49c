//! The operands, one after another: where each is copied to, and the checks before anything starts.

use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use dio::credentials::is_trusted;
use dio::names::FileId;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, fstat, openat, statat};

use super::data::WorkerBuffer;
use super::dirs::{Dir, Handle, Operand, OperandTarget, ReopenPath, join};
use super::durable::{open_parent, parent_of};
use super::entry::SourceEntry;
use super::error::{CopyError, ErrorContext, FailedOperation};
use super::examine::kind;
use super::metadata::{Object, has_default_acl};
use super::open::is_link;
use super::options::{CopyDestination, Mirror, Operands};
use super::parents::Parents;
use super::queue::RunJobs;
use super::role::Role;
use super::session::{CopyJob, CopyRun};
use crate::grammar::Refusal;
use crate::tool::target::naming::directory_of;

/// The path that the operands are copied to.
pub(crate) enum TargetPath {
    /// Into a directory. It can be opened with `O_PATH`.
    Into(PathBuf),
    /// To exactly this name.
    At(PathBuf),
}

/// Determines the destination from what the last operand is in the file system.
pub(crate) fn place(operands: &Operands, parents: bool) -> Result<TargetPath, Refusal> {
    let open = |path: &Path| {
        openat(CWD, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .map(|_| ())
    };
    let place = match &operands.target {
        CopyDestination::Into(path) => {
            open(path).at(FailedOperation::TargetDirectory, || path.clone())?;
            TargetPath::Into(path.clone())
        }
        CopyDestination::Exactly(path) => TargetPath::At(path.clone()),
        CopyDestination::Either(path) => match open(path) {
            Ok(()) => TargetPath::Into(path.clone()),
            Err(errno) if operands.sources.len() > 1 => {
                return Err(Err::<(), _>(errno)
                    .at(FailedOperation::Target, || path.clone())
                    .unwrap_err()
                    .into());
            }
            Err(_) => TargetPath::At(path.clone()),
        },
    };
    if parents && matches!(place, TargetPath::At(_)) {
        return Err(Refusal::usage("with --parents, the destination must be a directory"));
    }
    Ok(place)
}

/// Starts one operand at a time, because later ones depend on what earlier ones made.
pub(crate) struct Walk<'a> {
    session: &'a Arc<CopyRun>,
    place: TargetPath,
    /// The target directory, opened for the first operand.
    into: Option<Arc<OwnedFd>>,
    /// Target names given to workers. A second operand with the same name waits for the first.
    started: HashSet<PathBuf>,
    /// Operands so far, by device and inode: their sources and targets.
    seen: HashMap<FileId, Vec<(PathBuf, PathBuf)>>,
    several: bool,
    /// The target directory is noted for the sync at the end.
    synced: bool,
    /// Whether files in the target directory inherit an ACL from it.
    default_acl: OnceLock<bool>,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(session: &'a Arc<CopyRun>, place: TargetPath, several: bool) -> Self {
        Self {
            session,
            place,
            into: None,
            started: HashSet::new(),
            seen: HashMap::new(),
            several,
            synced: false,
            default_acl: OnceLock::new(),
        }
    }

    /// Copies `source`, or hands it to a worker.
    pub(crate) fn operand(&mut self, lane: &mut WorkerBuffer, source: &Path) {
        if let Err(error) = self.try_operand(lane, source) {
            self.session.report.error(error);
        }
    }

    fn try_operand(&mut self, lane: &mut WorkerBuffer, source: &Path) -> Result<(), CopyError> {
        let session = self.session;
        if session.options.parents {
            session.queue().drain(session, lane);
        }
        let (place, target, parents) = self.place_of(source)?;
        let handle = &place.target;
        let shown_target = join(&place.shown, &target);
        let source_name = c_string(source);
        let operand = Operand {
            source: source.to_owned(),
            target: shown_target.clone(),
            source_root: OnceLock::new(),
            first_made: OnceLock::new(),
        };
        let default_acl = self.default_acl(handle, &target);
        // An earlier operand may still be creating the file that this link leads to.
        let leads_on = self.several && is_link(handle.as_fd(), &target);
        if leads_on {
            session.queue().drain(session, lane);
        }
        let dir = Dir::top(operand, place, (Role::default(), default_acl));
        let open = dir.open()?;
        let entry = SourceEntry {
            dir: &dir,
            open: &open,
            source: &source_name,
            target: &target,
            operand: true,
        };
        let stat = session.look(entry)?;
        // The order of linked operands determines which one is copied and which become links to it.
        let linked = kind(&stat) != FileType::Directory && session.has_links(entry, &stat);
        if !self.is_new(source, &shown_target, &stat) {
            return Ok(());
        }
        if kind(&stat) == FileType::Directory {
            refuse_into_itself(&dir, &target, &stat)?;
            if let Some(mirror) = session.options.mirror {
                refuse_to_mirror(entry, &stat, mirror)?;
            }
        }
        if self.several && !self.started.insert(shown_target) {
            session.queue().drain(session, lane);
        }
        // Operands that go into the same directory need it synced only once.
        if !std::mem::replace(&mut self.synced, parents.is_none()) {
            session.durable.names_in(&dir, &target)?;
        }
        let job = CopyJob::Operand {
            dir: Arc::clone(&dir),
            source: source_name,
            target,
            stat: Box::new(stat),
        };
        let alone = !self.several || parents.is_some() || linked || leads_on;
        let job = if alone { Some(job) } else { session.queue().offer(session, job) };
        if let Some(job) = job {
            session.run(lane, job);
        }
        if let Some(parents) = parents {
            session.queue().drain(session, lane);
            parents.finish(session);
        }
        Ok(())
    }

    /// Determines where `source` is copied to: the directory, the name in it, and with `--parents`
    /// the directories made for it.
    fn place_of(
        &mut self,
        source: &Path,
    ) -> Result<(OperandTarget, CString, Option<Parents>), CopyError> {
        let path = match &self.place {
            TargetPath::At(path) => {
                let place =
                    OperandTarget { target: Handle::Working, shown: PathBuf::new(), again: None };
                return Ok((place, c_string(path), None));
            }
            TargetPath::Into(path) => path,
        };
        let directory = match &self.into {
            Some(directory) => Arc::clone(directory),
            None => {
                let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
                let fd = openat(CWD, path, flags, Mode::empty())
                    .at(FailedOperation::TargetDirectory, || path.clone())?;
                Arc::clone(self.into.insert(Arc::new(fd)))
            }
        };
        let parents = self.session.options.parents;
        let name = name_in_directory(source, parents);
        let shared = |directory| OperandTarget {
            target: Handle::Shared(directory),
            shown: path.clone(),
            again: None,
        };
        if !parents {
            return Ok((shared(directory), name, None));
        }
        let (made, innermost) = Parents::make(self.session, (directory.as_fd(), path), &name)?;
        let Some(innermost) = innermost else { return Ok((shared(directory), name, Some(made))) };
        let way = parent_of(name.to_bytes());
        let last =
            CString::new(&name.to_bytes()[way.len()..]).expect("a part of a C string holds no NUL");
        let way = CString::new(way).expect("a part of a C string holds no NUL");
        let shown = join(path, &way);
        let identity = fstat(&innermost)
            .map(|stat| FileId::of(&stat))
            .at(FailedOperation::Stat, || shown.clone())?;
        let again = Some(ReopenPath { directory, path: way, identity });
        Ok((OperandTarget { target: Handle::Open(innermost), shown, again }, last, Some(made)))
    }

    fn default_acl(&self, handle: &Handle, target: &CStr) -> bool {
        let preserve = &self.session.options.preserve;
        if !(preserve.mode || preserve.ownership || preserve.default_mode) {
            return false;
        }
        let ask = || {
            let parent = open_parent(handle, target);
            let stat = statat(handle, parent_of(target.to_bytes()), AtFlags::empty());
            stat.is_ok_and(|stat| !is_trusted(stat.st_uid))
                || parent.is_ok_and(|fd| has_default_acl(&Object::Open(fd.as_fd())))
        };
        if self.session.options.parents { ask() } else { *self.default_acl.get_or_init(ask) }
    }

    /// Warns of an operand that was given before; returns false if it is to be skipped.
    fn is_new(&mut self, source: &Path, target: &Path, stat: &Stat) -> bool {
        if !self.several {
            return true;
        }
        let directory = kind(stat) == FileType::Directory;
        let before = self.seen.entry(FileId::of(stat)).or_default();
        let again = before
            .iter()
            .any(|(name, made)| if directory { made == target } else { same_entry(name, source) });
        before.push((source.to_owned(), target.to_owned()));
        if again {
            let what = if directory { "directory" } else { "file" };
            let name = crate::quote::quoted(source);
            self.session
                .report
                .note(format_args!("warning: source {what} {name} specified more than once"));
        }
        !again
    }
}

/// Returns whether two names lead to the same entry of the same directory.
fn same_entry(a: &Path, b: &Path) -> bool {
    let parent = |path: &Path| {
        statat(CWD, directory_of(path), AtFlags::empty()).map(|stat| FileId::of(&stat))
    };
    a == b
        || (a.file_name() == b.file_name()
            && matches!((parent(a), parent(b)), (Ok(a), Ok(b)) if a == b))
}

/// Refuses to copy a directory into itself before anything is made: the target's directory must not
/// be the source or below it.
fn refuse_into_itself(dir: &Arc<Dir>, target: &CStr, stat: &Stat) -> Result<(), CopyError> {
    // Copying a directory onto itself gives the error "the same file" later.
    let handle = &dir.open()?.target;
    let Ok(above) = open_parent(handle, target) else { return Ok(()) };
    let onto = statat(handle, target, AtFlags::SYMLINK_NOFOLLOW);
    if onto.is_ok_and(|onto| FileId::of(&onto) == FileId::of(stat)) || !lies_within(above, stat) {
        return Ok(());
    }
    Err(CopyError::IntoItself(dir.operand.source.clone(), dir.operand.target.clone()))
}

/// Refuses to make a directory like another one of which it is a part, or which is a part of it and
/// would be removed from it, before anything is made. Either name may lead through links.
fn refuse_to_mirror(
    entry: SourceEntry<'_>,
    source: &Stat,
    mirror: Mirror,
) -> Result<(), CopyError> {
    let open = |handle: &Handle, name: &CStr, more| {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC | more;
        let fd = openat(handle, name, flags, Mode::empty()).ok()?;
        let stat = fstat(&fd).ok()?;
        Some((fd, stat))
    };
    let Some(into) = open(&entry.open.target, entry.target, OFlags::NOFOLLOW) else {
        return Ok(());
    };
    if FileId::of(&into.1) == FileId::of(source) {
        // That they are the same is an error later.
        return Ok(());
    }
    if lies_within(into.0, source) {
        return Err(CopyError::IntoItself(entry.source_path(), entry.target_path()));
    }
    let is_inside = || {
        let from = open(&entry.open.source, entry.source, OFlags::empty());
        from.is_some_and(|(from, _)| lies_within(from, &into.1))
    };
    if mirror.delete && is_inside() {
        return Err(CopyError::DeletesSource(entry.source_path(), entry.target_path()));
    }
    Ok(())
}

/// Returns whether a directory is the one in `stat`, or below it.
pub(super) fn lies_within(mut dir: OwnedFd, stat: &Stat) -> bool {
    loop {
        let Ok(here) = statat(&dir, c".", AtFlags::empty()) else { return false };
        if FileId::of(&here) == FileId::of(stat) {
            return true;
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Ok(parent) = openat(&dir, c"..", flags, Mode::empty()) else { return false };
        let Ok(next) = statat(&parent, c".", AtFlags::empty()) else { return false };
        if FileId::of(&next) == FileId::of(&here) {
            return false;
        }
        dir = parent;
    }
}

/// The name of `source` in the target directory: its last part, or all of it with `--parents`.
pub(super) fn name_in_directory(source: &Path, parents: bool) -> CString {
    let bytes = source.as_os_str().as_bytes();
    let end = bytes.iter().rposition(|&b| b != b'/').map_or(0, |i| i + 1);
    let trimmed = &bytes[..end];
    let name = if parents {
        let start = trimmed.iter().position(|&b| b != b'/').unwrap_or(0);
        &trimmed[start..]
    } else {
        let start = trimmed.iter().rposition(|&b| b == b'/').map_or(0, |i| i + 1);
        &trimmed[start..]
    };
    // `..` and the root have no name of their own, so their contents are copied into the directory
    // itself.
    let name = if name.is_empty() || (name == b".." && !parents) { b"." } else { name };
    CString::new(name).expect("operands come from the command line and hold no NUL")
}

fn c_string(path: &Path) -> CString {
    CString::new(path.as_os_str().to_owned().into_vec())
        .expect("operands come from the command line and hold no NUL")
}

/// Returns whether any of `sources` may be a directory to descend into, or there are more than
/// `few`.
pub(crate) fn is_tree(sources: &[PathBuf], recursive: bool, few: usize) -> bool {
    let directory = |path: &PathBuf| {
        statat(CWD, path, AtFlags::empty()).is_ok_and(|stat| kind(&stat) == FileType::Directory)
    };
    sources.len() > few || (recursive && sources.iter().any(directory))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_the_target_directory() {
        for (source, name, with_parents) in [
            ("a/b", "b", "a/b"),
            ("a/b//", "b", "a/b"),
            ("/a/b", "b", "a/b"),
            ("..", ".", ".."),
            (".", ".", "."),
            ("a/.", ".", "a/."),
            ("/", ".", "."),
        ] {
            assert_eq!(name_in_directory(Path::new(source), false).to_str(), Ok(name), "{source}");
            assert_eq!(
                name_in_directory(Path::new(source), true).to_str(),
                Ok(with_parents),
                "{source}"
            );
        }
    }
}

//! Directories: makes them, distributes their entries, and finishes them.

use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dio::names::FileId;
use rustix::fs::{FileType, Mode, OFlags, RawDir, Stat, fcntl_getfl, fstat, mkdirat, openat};
use rustix::io::Errno;

use super::data::WorkerBuffer;
use super::dirs::{Dir, Finish, Handle, Pair};
use super::entry::SourceEntry;
use super::entry::TargetState;
use super::error::{CopyError, ErrorContext, FailedOperation};
use super::made;
use super::metadata::{Attributes, Now, Object, has_default_acl, may_hand_down_acl};
use super::options::Dereference;
use super::queue::RunJobs;
use super::role::{Role, Sides, Task};
use super::session::{CopyJob, CopyRun, ENTRIES_PER_JOB};
use super::shared::Share;

/// Bytes of directory entries that are read at once.
const LISTING: usize = 64 << 10;

/// How long entries of a directory are copied before half of the rest may go to somebody else. 128
/// small files take less.
const LONG: Duration = Duration::from_millis(100);

/// Bytes of a file that takes long.
const LONG_BYTES: u64 = 4 << 20;

/// An open target directory.
struct OpenTargetDir {
    fd: OwnedFd,
    fresh: bool,
    default_acl: bool,
    finish: Finish,
}

impl CopyRun {
    /// Makes a directory, and lists the entries to copy into it. The caller leaves the directory
    /// when they are done.
    pub(super) fn copy_directory(
        &self,
        entry: SourceEntry<'_>,
        stat: &Stat,
        found: TargetState,
    ) -> Result<Listed, CopyError> {
        self.refuse_loop(entry, stat, found)?;
        let mut flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        if self.options.dereference == Dereference::Never {
            flags |= OFlags::NOFOLLOW;
        }
        let source = openat(&entry.open.source, entry.source, flags, Mode::empty());
        // The listed directory must be the one in `stat`, because the copy gets the owner, mode and
        // ACL from there.
        if source.as_ref().is_ok_and(|fd| !is_same(fd, stat)) {
            return Err(CopyError::Replaced(entry.source_path()));
        }
        if entry.operand && self.options.mirror.is_some() {
            self.root_copied.get_or_init(|| FileId::of(stat));
        }
        let made = self.make_directory(entry, stat, found)?;
        let (source, listed) = match source {
            Ok(fd) => {
                let elsewhere = self.options.one_file_system
                    && entry.dir.identity.is_some_and(|dir| dir.device() != stat.st_dev);
                let names = if elsewhere { Ok(Vec::new()) } else { list(&fd) };
                (fd, names.at(FailedOperation::ReadDirectory, || entry.source_path()))
            }
            Err(errno) => {
                // The directory is still made, because the rest of the tree needs it.
                let fd =
                    openat(&entry.open.source, entry.source, flags | OFlags::PATH, Mode::empty());
                let fd =
                    fd.and_then(|fd| if is_same(&fd, stat) { Ok(fd) } else { Err(Errno::STALE) });
                (
                    fd.at(FailedOperation::Access, || entry.source_path())?,
                    Err(errno).at(FailedOperation::Access, || entry.source_path()),
                )
            }
        };
        let names = (entry.source, entry.target);
        let open = Pair { source: Handle::Open(source), target: Handle::Open(made.fd) };
        let sides = if made.fresh && self.options.is_dry() { Sides::Source } else { Sides::Both };
        let traits = (Role { task: Task::Copy, sides }, made.fresh, made.default_acl);
        let dir = Dir::below(entry.dir, names, open, traits, made.finish);
        dir.close_above(self.levels);
        let names = listed.unwrap_or_else(|error| {
            self.report.error(error);
            Vec::new()
        });
        Ok(Listed { dir, names })
    }

    /// Refuses directories whose copy would never end, or would change the source.
    fn refuse_loop(
        &self,
        entry: SourceEntry<'_>,
        stat: &Stat,
        found: TargetState,
    ) -> Result<(), CopyError> {
        let identity = FileId::of(stat);
        let operand = &entry.dir.operand;
        if entry.operand {
            operand.source_root.get_or_init(|| identity);
        }
        if let Some(found) = found.stat {
            let target = (&entry.open.target, entry.target);
            let is_source = match entry.operand {
                true => operand.holds_target(target, &found)?,
                false => operand.is_mounted_at(target, &found)?,
            };
            if is_source {
                return Err(CopyError::IntoItself(operand.source.clone(), entry.target_path()));
            }
        }
        if entry.operand {
            return Ok(());
        }
        if self.roots.lock().contains_key(&identity) {
            return Err(CopyError::IntoItself(operand.source.clone(), operand.target.clone()));
        }
        if self.options.dereference != Dereference::Never && entry.dir.is_below(identity) {
            return Err(CopyError::Cyclic(entry.source_path()));
        }
        Ok(())
    }

    /// Makes the target directory, unless it exists, and opens it.
    fn make_directory(
        &self,
        entry: SourceEntry<'_>,
        stat: &Stat,
        found: TargetState,
    ) -> Result<OpenTargetDir, CopyError> {
        let preserve = &self.options.preserve;
        let shown = || entry.target_path();
        let (dir, name) = (&entry.open.target, entry.target);
        let bits = stat.st_mode & 0o7777;
        let omitted = if preserve.ownership { bits & 0o077 } else { bits & 0o022 };
        let fresh = found.fresh;
        if fresh && self.options.is_dry() {
            return self.stand_in(entry, stat);
        }
        if fresh {
            // The owner needs rwx to fill it. Bits that the source lacks are removed at the end.
            let mode = Mode::from_bits_retain((bits & 0o1777 & !omitted) | 0o700);
            mkdirat(dir, name, mode).at(FailedOperation::CreateDirectory, shown)?;
        }
        let (fd, created) = if fresh {
            match made::open_directory(dir.as_fd(), name) {
                Err(Errno::STALE) => return Err(CopyError::Replaced(shown())),
                opened => opened
                    .map(|(fd, made)| (fd, Some(made.st_mode & 0o7777)))
                    .at(FailedOperation::Stat, shown)?,
            }
        } else {
            let open = |access| {
                openat(dir, name, access | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            };
            let fd = match open(OFlags::RDONLY) {
                // Files can be created in a directory that cannot be listed.
                Err(Errno::ACCESS) => open(OFlags::PATH),
                opened => opened,
            };
            (fd.at(FailedOperation::Stat, shown)?, None)
        };
        let now = fstat(&fd).at(FailedOperation::Stat, shown)?;
        // A user who can rename files there must not redirect the copy.
        if found.stat.is_some_and(|before| !fresh && FileId::of(&before) != FileId::of(&now)) {
            return Err(CopyError::Replaced(shown()));
        }
        if fresh {
            entry.dir.operand.first_made.get_or_init(|| {
                let mut roots = self.roots.lock();
                roots.insert(FileId::of(&now), shown());
                FileId::of(&now)
            });
            self.report.copying(|| entry.source_path(), shown);
        } else {
            self.durable.file_system_of(&fd, now.st_dev, shown);
        }
        let matters = preserve.mode || preserve.ownership || preserve.default_mode;
        // The directory itself is checked, not its parent, whose ACL may have changed meanwhile.
        let hands_down =
            |dir| if fresh { has_default_acl(&dir) } else { may_hand_down_acl(&dir, &now) };
        let default_acl = matters && hands_down(object(fd.as_fd()));
        let finish = Finish {
            name: name.to_owned(),
            stat: *stat,
            identity: FileId::of(&now),
            made: created,
            mode: now.st_mode & 0o7777,
            omitted: if fresh { omitted } else { 0 },
            owner: (now.st_uid, now.st_gid),
        };
        Ok(OpenTargetDir { fd, fresh, default_acl, finish })
    }

    /// In a dry run, has the source represent a target directory that is not made.
    fn stand_in(&self, entry: SourceEntry<'_>, stat: &Stat) -> Result<OpenTargetDir, CopyError> {
        self.report.copying(|| entry.source_path(), || entry.target_path());
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = openat(&entry.open.source, entry.source, flags, Mode::empty())
            .at(FailedOperation::Access, || entry.source_path())?;
        let finish = Finish {
            name: entry.target.to_owned(),
            stat: *stat,
            identity: FileId::of(stat),
            made: None,
            mode: 0,
            omitted: 0,
            owner: (0, 0),
        };
        Ok(OpenTargetDir { fd, fresh: true, default_acl: false, finish })
    }

    /// Gives the entries of a directory to free workers, copies the rest, and leaves the directory.
    pub(super) fn fill(self: &Arc<Self>, lane: &mut WorkerBuffer, listed: Listed) {
        let Listed { dir, names } = listed;
        self.share_out(lane, &dir, names);
        self.leave(dir);
    }

    /// Gives entries of a directory to free workers, and does the rest.
    pub(super) fn share_out(
        self: &Arc<Self>,
        lane: &mut WorkerBuffer,
        dir: &Arc<Dir>,
        mut names: Vec<Name>,
    ) {
        // Inodes with near numbers are usually near each other on the disk.
        names.sort_unstable_by_key(|name| name.inode);
        if !self.queue().parallel() {
            names.iter().for_each(|name| self.process(lane, dir, &name.name));
            return;
        }
        let (directories, files): (Vec<_>, Vec<_>) =
            names.into_iter().partition(|name| name.kind == FileType::Directory);
        for Name { name, .. } in directories {
            self.hand_out(lane, dir, vec![name]);
        }
        let mut files = files.into_iter().map(|name| name.name);
        loop {
            let names: Vec<CString> = files.by_ref().take(ENTRIES_PER_JOB).collect();
            if files.len() == 0 {
                return self.copy_entries(lane, dir, names);
            }
            self.hand_out(lane, dir, names);
        }
    }

    /// Copies entries one after another. If that takes long, half of the rest goes to who has
    /// nothing to do, in this process or, since these take over what waits, in another one.
    pub(super) fn copy_entries(
        self: &Arc<Self>,
        lane: &mut WorkerBuffer,
        dir: &Arc<Dir>,
        names: Vec<CString>,
    ) {
        let outer = std::mem::replace(&mut lane.rest, names.into());
        let mut since = Instant::now();
        while let Some(name) = lane.rest.pop_front() {
            self.process(lane, dir, &name);
            let is_long = self.share.get().is_some() && since.elapsed() > LONG;
            if is_long && lane.rest.len() > 1 {
                self.pass_on_half(lane, dir);
                since = Instant::now();
            }
        }
        lane.rest = outer;
    }

    /// Before a file of `size` bytes is read, leaves the rest of the entries to who has nothing to
    /// do: files beside a large one are often as large. The first half goes last, as half of that
    /// does, so that there are jobs for several.
    pub(super) fn pass_on_rest(
        self: &Arc<Self>,
        lane: &mut WorkerBuffer,
        dir: &Arc<Dir>,
        size: u64,
    ) {
        let has_peers = self.share.get().is_some_and(Share::has_others);
        while has_peers && size >= LONG_BYTES && !lane.rest.is_empty() {
            if !self.pass_on_half(lane, dir) {
                return;
            }
        }
    }

    /// Leaves half of the entries to others, unless too many jobs are waiting.
    fn pass_on_half(self: &Arc<Self>, lane: &mut WorkerBuffer, dir: &Arc<Dir>) -> bool {
        let half = lane.rest.split_off(lane.rest.len() / 2);
        dir.enter();
        let job = CopyJob::Entries { dir: Arc::clone(dir), names: half.into() };
        match self.queue().offer(self, job) {
            Some(CopyJob::Entries { dir, names }) => {
                self.leave(dir);
                lane.rest.extend(names);
                false
            }
            _ => true,
        }
    }

    fn hand_out(self: &Arc<Self>, lane: &mut WorkerBuffer, dir: &Arc<Dir>, names: Vec<CString>) {
        dir.enter();
        if let Some(job) =
            self.queue().offer(self, CopyJob::Entries { dir: Arc::clone(dir), names })
        {
            self.run(lane, job);
        }
    }

    /// Sets the attributes that filling a directory would have changed: times, owner, mode.
    pub(super) fn finish_directory(&self, dir: &Dir) {
        let Some(finish) = &dir.finish else { return };
        match dir.role.task {
            Task::Remove => return self.finish_removal(dir),
            Task::Compare => return,
            Task::Copy if self.options.is_dry() => return,
            Task::Copy => {}
        }
        if self.share.get().is_some() && self.data.stopped() {
            // A later job goes on here. What it makes would inherit a set-group-id bit.
            return;
        }
        let open = match dir.open() {
            Ok(open) => open,
            Err(error) => return self.report.error(error),
        };
        let preserve = &self.options.preserve;
        let shown = || {
            dir.parent.as_ref().map_or_else(PathBuf::new, |parent| parent.target_path(&finish.name))
        };
        let plain_mode = finish.made.map(|made| {
            if preserve.default_mode {
                return (made & 0o7000) | (0o777 & !self.umask);
            }
            let lent = 0o700 & !finish.stat.st_mode;
            (made & !lent) | (finish.omitted & !self.umask)
        });
        let now = Now {
            owner: finish.owner,
            mode: Some(finish.mode),
            fresh: finish.made.is_some(),
            acl: dir.default_acl || finish.made.is_none(),
        };
        Attributes {
            session: self,
            source: object(open.source.as_fd()),
            target: object(open.target.as_fd()),
            stat: &finish.stat,
            now,
            symlink: false,
            directory: true,
            plain_mode,
            shown: &shown,
        }
        .apply();
        if let Err(error) = self.durable.directory(dir, shown) {
            self.report.error(error);
        }
    }
}

/// Wraps a directory, which may be open with `O_PATH` only.
pub(super) fn object(fd: BorrowedFd<'_>) -> Object<'_> {
    let place = fcntl_getfl(fd).is_ok_and(|flags| flags.contains(OFlags::PATH));
    if place { Object::Place(fd) } else { Object::Open(fd) }
}

/// Returns whether an open directory is the one in `stat`.
fn is_same(fd: &OwnedFd, stat: &Stat) -> bool {
    fstat(fd).is_ok_and(|opened| FileId::of(&opened) == FileId::of(stat))
}

/// A directory that was made, and the entries to copy into it.
pub(super) struct Listed {
    dir: Arc<Dir>,
    names: Vec<Name>,
}

/// An entry of a listing.
pub(super) struct Name {
    inode: u64,
    /// `Unknown` where the file system does not tell.
    kind: FileType,
    pub(super) name: CString,
}

impl Name {
    pub(super) fn may_be_directory(&self) -> bool {
        matches!(self.kind, FileType::Directory | FileType::Unknown)
    }
}

/// Lists a directory.
pub(super) fn list(fd: &impl AsFd) -> Result<Vec<Name>, Errno> {
    let mut buffer: Vec<u8> = Vec::with_capacity(LISTING);
    let mut entries = RawDir::new(fd, buffer.spare_capacity_mut());
    let mut names = Vec::new();
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name();
        if name != c"." && name != c".." {
            let (inode, kind) = (entry.ino(), entry.file_type());
            names.push(Name { inode, kind, name: name.to_owned() });
        }
    }
    Ok(names)
}

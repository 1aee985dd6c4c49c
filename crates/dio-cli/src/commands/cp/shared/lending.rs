//! Gives work to other processes, and does theirs.

use std::ffi::{CString, OsStr};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use dio::names::FileId;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat, fstat, openat, statat, statx};
use rustix::io::Errno;

use super::super::checks::{CheckedFile, Findings, WrittenPiece};
use super::super::data::WorkerBuffer;
use super::super::dirs::{Dir, Handle, Lender, LentPair, Operand, Pair, ReopenPath};
use super::super::durable::parent_of;
use super::super::entry::SourceEntry;
use super::super::error::CopyError;
use super::super::facts::FileFacts;
use super::super::options::Dereference;
use super::super::queue::RunJobs;
use super::super::ranges::{Helpers, SharedFile};
use super::super::role::{Sides, Task};
use super::super::session::{CopyJob, CopyRun};
use super::loans::{DirectoryAddress, Loan, LoanOutcome, Parcel, Returned, Share, Work};
use crate::tool::deep::open_in_steps;
use crate::tool::{Birth, Notes};

/// Maximum number of jobs that are given away at once.
const PARCELS_MAX: usize = 64;

impl CopyRun {
    /// Returns whether paths alone do not show that a directory is inside itself.
    fn keeps_lineage(&self) -> bool {
        self.options.dereference != Dereference::Never
    }

    /// Gives away half of the work that has not begun: ranges of large files, and entries.
    pub(super) fn lend(&self, share: &Share) -> Vec<Parcel> {
        let lineage = self.keeps_lineage();
        let may_leave = |job: &CopyJob| match job {
            CopyJob::Entries { .. } => true,
            CopyJob::Lent { parcel } => parcel.may_be_passed_on(),
            CopyJob::Kept { .. } | CopyJob::Operand { .. } => false,
        };
        let mut parcels: Vec<Parcel> = Vec::new();
        for job in self.queue().take_oldest(PARCELS_MAX, may_leave) {
            match job {
                CopyJob::Entries { dir, names } => {
                    parcels.push(share.lend(Loan::Entries(dir, names), lineage));
                }
                CopyJob::Lent { parcel } => {
                    // Its lender gets the answer of the process that does it.
                    self.queue().forget();
                    parcels.push(*parcel);
                }
                CopyJob::Kept { .. } | CopyJob::Operand { .. } => {}
            }
        }
        let files = share.files.lock().clone();
        for file in files {
            let ranges = file.lend();
            if !ranges.is_empty() {
                parcels.push(share.lend(Loan::Ranges(file, ranges), lineage));
            }
        }
        parcels
    }

    /// Takes work of another process.
    pub(super) fn accept(self: &Arc<Self>, parcel: Parcel) {
        let job = CopyJob::Lent { parcel: Box::new(parcel) };
        // Without a thread nothing can be done here; the lender does it.
        if let Err(CopyJob::Lent { parcel }) = self.queue().accept(self, job) {
            let lender = Lender { rank: parcel.lender, loan: parcel.loan };
            self.answer(lender, LoanOutcome::Unopened);
        }
    }

    /// Another process is done with a loan of this one.
    pub(super) fn returned(self: &Arc<Self>, share: &Share, Returned { loan, outcome }: Returned) {
        if matches!(outcome, LoanOutcome::Unopened) {
            share.retries.fetch_add(1, Ordering::Relaxed);
        }
        match share.find(loan) {
            None => {}
            Some(Loan::Entries(dir, names)) => self.entries_returned(dir, names, &outcome),
            Some(Loan::Link(dir, name, inode)) => {
                if !matches!(outcome, LoanOutcome::Done) {
                    share.keep(inode);
                }
                self.entries_returned(dir, vec![name], &outcome);
            }
            Some(Loan::Check(round, _, rank, piece)) => round.answered(rank, piece, outcome.into()),
            Some(Loan::Ranges(file, ranges)) => match outcome {
                LoanOutcome::Done => file.returned(Vec::new(), None),
                LoanOutcome::Written(pieces) => {
                    file.add_written(pieces);
                    file.returned(Vec::new(), None);
                }
                LoanOutcome::Differs(at) => {
                    file.differs_at(at);
                    file.returned(Vec::new(), None);
                }
                LoanOutcome::Unopened => file.returned(ranges, None),
                LoanOutcome::Failed(at, told) => {
                    let at = at.max(ranges.first().map_or(0, |range| range.start));
                    let error = told.map_or(CopyError::Interrupted, CopyError::Transfer);
                    file.returned(Vec::new(), Some((at, error)));
                }
            },
        }
    }

    /// Leaves the directory of entries that another process has done, or does them here.
    fn entries_returned(
        self: &Arc<Self>,
        dir: Arc<Dir>,
        names: Vec<CString>,
        outcome: &LoanOutcome,
    ) {
        let names = if matches!(outcome, LoanOutcome::Done) { Vec::new() } else { names };
        // A worker leaves the directory, since that may change it.
        self.queue().take_back(self, CopyJob::Kept { dir, names });
    }

    /// Gives a name of an inode with several names to the process that handles all of them. Returns
    /// false if that is this process.
    pub(crate) fn is_sent_home(&self, entry: SourceEntry<'_>, stat: &Stat) -> bool {
        let Some(share) = self.share.get() else { return false };
        let home = share.home_of(stat.st_ino);
        // Operands are all handled by the first process, and so are links if some are operands.
        // Another process finds no target that a dry run did not make.
        if home == share.peers.rank() || entry.operand || entry.dir.role.sides != Sides::Both {
            return false;
        }
        entry.dir.enter();
        self.queue().lend();
        let loan = Loan::Link(Arc::clone(entry.dir), entry.source.to_owned(), stat.st_ino);
        share.peers.assign(home, share.lend(loan, self.keeps_lineage()));
        true
    }

    /// If another process lent `dir`, which is complete, tells that process.
    pub(crate) fn give_back(&self, dir: &Dir) {
        if let Some(lender) = dir.lender {
            self.answer(lender, LoanOutcome::Done);
        }
    }

    pub(super) fn answer(&self, lender: Lender, outcome: LoanOutcome) {
        if let Some(share) = self.share.get() {
            share.peers.give_back(lender.rank, Returned { loan: lender.loan, outcome });
        }
    }

    /// Does the work of another process.
    pub(crate) fn run_lent(
        self: &Arc<Self>,
        lane: &mut WorkerBuffer,
        Parcel { lender, loan, dir, work, .. }: Parcel,
    ) {
        let lender = Lender { rank: lender, loan };
        let Some(share) = self.share.get() else { return };
        let Ok(dir) = self.open_lent(share, &dir, lender) else {
            return self.answer(lender, LoanOutcome::Unopened);
        };
        match work {
            Work::Entries(names) => self.run(lane, CopyJob::Entries { dir, names }),
            Work::Ranges { names, facts, ranges } => {
                let file = Arc::new(SharedFile::new(dir, names, facts, ranges));
                let Ok(files) = open_files(&file) else {
                    return self.answer(lender, LoanOutcome::Unopened);
                };
                let paths =
                    (file.dir.source_path(&file.names.0), file.dir.target_path(&file.names.1));
                let done = match file.dir.role.task {
                    Task::Compare => self.data.compare_ranges(files, &file, self),
                    Task::Copy | Task::Remove => {
                        self.data.copy_ranges(files, paths, &file, self).map(|()| None)
                    }
                };
                let outcome = match done {
                    Ok(None) if self.options.transfer.verify => {
                        LoanOutcome::Written(file.take_written())
                    }
                    Ok(None) => LoanOutcome::Done,
                    Ok(Some(at)) => LoanOutcome::Differs(at),
                    Err((at, CopyError::Interrupted)) => LoanOutcome::Failed(at, None),
                    // The lender copies all of it, or tells what it lacks itself.
                    Err((_, error)) if error.is_shortage() => LoanOutcome::Unopened,
                    Err((at, error)) => LoanOutcome::Failed(at, Some(error.to_string())),
                };
                self.answer(lender, outcome);
            }
            // Threads of their own do that.
            Work::Check(_) => self.answer(lender, LoanOutcome::Unopened),
        }
    }

    /// Opens the directories of another process.
    fn open_lent(
        &self,
        share: &Share,
        address: &DirectoryAddress,
        lender: Lender,
    ) -> Result<Arc<Dir>, Errno> {
        let (source, from) = open_checked(&address.source)?;
        let (target, into) = open_checked(&address.target)?;
        let identity = |inode| FileId::from_numbers(into.st_dev, inode);
        let operand = {
            let mut operands = share.operands.lock();
            let known = operands.entry(address.operand.clone());
            Arc::clone(known.or_insert_with(|| {
                Arc::new(Operand {
                    source: path(&address.operand.0),
                    target: path(&address.operand.1),
                    source_root: OnceLock::new(),
                    first_made: OnceLock::new(),
                })
            }))
        };
        if let Some(inode) = address.first_made {
            operand.first_made.get_or_init(|| {
                self.roots.lock().insert(identity(inode), operand.target.clone());
                identity(inode)
            });
        }
        self.durable.file_system_of(&target, into.st_dev, || path(&address.target.0));
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let working = Arc::new(openat(CWD, c".", flags, Mode::empty())?);
        let again = ReopenPath {
            directory: working,
            path: CString::new(&*address.target.0).map_err(|_| Errno::INVAL)?,
            identity: identity(into.st_ino),
        };
        let above = address.above.iter().map(|(dev, inode)| FileId::from_numbers(*dev, *inode));
        let open = LentPair {
            pair: Pair { source: Handle::Open(source), target: Handle::Open(target) },
            identity: FileId::of(&from),
            above: above.collect(),
            again,
            lender,
        };
        let shown = (path(&address.source.0), path(&address.target.0));
        Ok(Dir::lent(operand, shown, open, (address.role, address.fresh, address.default_acl)))
    }
}

impl Helpers for Arc<CopyRun> {
    fn share(&self, file: &Arc<SharedFile>) -> bool {
        self.share.get().is_some_and(|share| share.register(file))
    }

    fn withdraw(&self, file: &Arc<SharedFile>) {
        if let Some(share) = self.share.get() {
            share.withdraw(file);
        }
    }

    fn aside(&self, wait: &mut dyn FnMut()) {
        self.queue().aside(self, wait);
    }

    fn notes(&self) -> Option<&dyn Notes> {
        self.notes.get().map(Arc::as_ref)
    }

    fn rank(&self) -> usize {
        self.share.get().map_or(0, |share| share.peers.rank())
    }

    fn has_others(&self) -> bool {
        self.share.get().is_some_and(Share::has_others)
    }

    fn is_at_rest(&self) -> bool {
        self.share.get().is_some_and(Share::is_at_rest) && !self.data.stopped()
    }

    fn check(&self, file: CheckedFile, pieces: Vec<WrittenPiece>) -> Result<Findings, CopyError> {
        match self.share.get() {
            Some(share) => self.check_elsewhere(share, file, pieces),
            None => Ok(Findings { difference: None, unchecked: pieces }),
        }
    }
}

pub(super) fn path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

/// Opens a directory, and checks its inode.
pub(super) fn open_checked((path, inode): &(Vec<u8>, u64)) -> Result<(OwnedFd, Stat), Errno> {
    let fd = match open_in_steps(CWD, path, OFlags::RDONLY) {
        Err(Errno::ACCESS) => open_in_steps(CWD, path, OFlags::PATH)?,
        opened => opened?,
    };
    let stat = fstat(&fd)?;
    if stat.st_ino == *inode { Ok((fd, stat)) } else { Err(Errno::STALE) }
}

/// Opens source and target of a file of another process, and checks that they are the same files.
fn open_files(file: &SharedFile) -> Result<(OwnedFd, OwnedFd), Errno> {
    let pair = file.dir.open().map_err(|_| Errno::STALE)?;
    let into = statat(&pair.target, parent_of(file.names.1.to_bytes()), AtFlags::empty())?;
    let follow = if file.facts.follow { OFlags::empty() } else { OFlags::NOFOLLOW };
    let flags = OFlags::CLOEXEC | OFlags::NONBLOCK;
    let source =
        openat(&pair.source, &*file.names.0, OFlags::RDONLY | follow | flags, Mode::empty())?;
    let access = if file.dir.role.task == Task::Compare { OFlags::RDONLY } else { OFlags::WRONLY };
    let target =
        openat(&pair.target, &*file.names.1, access | OFlags::NOFOLLOW | flags, Mode::empty())?;
    let same = file.facts.are_of(&fstat(&source)?) && is_target(&target, &file.facts, &into)?;
    if same { Ok((source, target)) } else { Err(Errno::STALE) }
}

/// Returns whether an open file is the target that `facts` are about, on the file system of the
/// directory `into`.
pub(super) fn is_target(target: &OwnedFd, facts: &FileFacts, into: &Stat) -> Result<bool, Errno> {
    let found = statx(target, c"", AtFlags::EMPTY_PATH, Birth::WANTED)?;
    Ok(facts.are_of_target(Birth::of(&found)) && fstat(target)?.st_dev == into.st_dev)
}

#[cfg(test)]
mod tests {
    use rustix::fs::open;

    use super::*;

    #[test]
    fn a_file_with_the_inode_of_another_one_is_not_taken_for_it() {
        let scratch = tempfile::tempdir_in("/var/tmp").unwrap();
        let (dir, path) = (rustix::fs::stat(scratch.path()).unwrap(), scratch.path().join("f"));
        let made = || {
            std::fs::write(&path, "x").unwrap();
            let fd = open(&path, OFlags::RDONLY, Mode::empty()).unwrap();
            let found = statx(&fd, c"", AtFlags::EMPTY_PATH, Birth::WANTED).unwrap();
            let stat = fstat(&fd).unwrap();
            (fd, FileFacts::of(&stat, Birth::of(&found), false))
        };
        let (fd, facts) = made();
        assert_eq!(is_target(&fd, &facts, &dir), Ok(true));
        let (seconds, part) = facts.target_born.expect("file systems of disks know it");
        let is_known_by = |target_inode, target_born| {
            is_target(&fd, &FileFacts { target_inode, target_born, ..facts }, &dir).unwrap()
        };
        assert!(!is_known_by(facts.target_inode, Some((seconds - 1, part))));
        assert!(!is_known_by(facts.target_inode + 1, facts.target_born));
        // The other machine did not tell.
        assert!(is_known_by(facts.target_inode, None));
        drop(fd);
        for _ in 0..20 {
            std::fs::remove_file(&path).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(5));
            let (fd, _) = made();
            assert_eq!(is_target(&fd, &facts, &dir), Ok(false), "whatever inode it has");
        }
    }
}

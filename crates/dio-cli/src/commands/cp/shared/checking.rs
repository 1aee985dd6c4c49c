//! Has other processes read back what this one wrote, and reads back what they wrote.
//!
//! Who waits for a check is never one who checks: these have threads of their own, which wait for
//! no other process. So checks always come to an end, whoever waits for whom.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, openat, statat};
use rustix::io::Errno;

use super::super::checks::{CheckedFile, Findings, WrittenPiece};
use super::super::dirs::{Lender, join};
use super::super::durable::parent_of;
use super::super::error::CopyError;
use super::super::queue::{JobQueue, RunJobs};
use super::super::session::CopyRun;
use super::lending::{is_target, open_checked, path};
use super::loans::{CheckWork, DirectoryAddress, Loan, LoanOutcome, Parcel, Share, Work};
use super::rounds::{Round, RunningRound, Step};

/// The threads that read back what other processes have written.
pub(super) struct Checkers {
    run: Arc<CopyRun>,
    queue: JobQueue<Parcel>,
}

impl Checkers {
    /// Starts no more than `threads` threads, which may be none: then other processes read back.
    pub(super) fn new(run: Arc<CopyRun>, threads: usize) -> Arc<Checkers> {
        Arc::new(Checkers { run, queue: JobQueue::new(threads, usize::MAX) })
    }

    /// Takes a check of the process `rank`.
    pub(super) fn accept(self: &Arc<Self>, parcel: Parcel) {
        // Without a thread nothing can be read back here; another process does it.
        if let Err(parcel) = self.queue.accept(self, parcel) {
            let lender = Lender { rank: parcel.lender, loan: parcel.loan };
            self.run.answer(lender, LoanOutcome::Unopened);
        }
    }

    pub(super) fn has_panicked(&self) -> bool {
        self.queue.has_panicked()
    }

    /// Ends the threads; returns false if one of them panicked.
    pub(super) fn close(self: &Arc<Self>) -> bool {
        self.queue.close(self, &mut ())
    }
}

impl RunJobs<Parcel> for Checkers {
    type Lane = ();

    fn queue(&self) -> &JobQueue<Parcel> {
        &self.queue
    }

    fn lane(&self) {}

    fn run(self: &Arc<Self>, (): &mut (), parcel: Parcel) {
        let lender = Lender { rank: parcel.lender, loan: parcel.loan };
        let outcome = match &parcel.work {
            Work::Check(check) => self.run.read_back(&parcel.dir, check),
            Work::Entries(_) | Work::Ranges { .. } => LoanOutcome::Unopened,
        };
        self.run.answer(lender, outcome);
    }
}

impl CopyRun {
    /// Reads back a piece that another process has written.
    fn read_back(&self, address: &DirectoryAddress, check: &CheckWork) -> LoanOutcome {
        let Ok(target) = open_target(address, check) else { return LoanOutcome::Unopened };
        let source = || open_source(address, check);
        let shown = join(&path(&address.target.0), &check.names.1);
        let piece = (&check.piece, check.size);
        match self.data.check_for_others((&self.report, shown.as_path()), &target, &source, piece) {
            Ok(None) => LoanOutcome::Unopened,
            Ok(Some(None)) => LoanOutcome::Done,
            Ok(Some(Some(at))) => LoanOutcome::Differs(at),
            Err(CopyError::Interrupted) => LoanOutcome::Failed(0, None),
            Err(error) => LoanOutcome::Failed(0, Some(error.to_string())),
        }
    }

    /// Has other processes read back the pieces of a file.
    pub(super) fn check_elsewhere(
        self: &Arc<Self>,
        share: &Share,
        file: CheckedFile,
        pieces: Vec<WrittenPiece>,
    ) -> Result<Findings, CopyError> {
        let (rank, ranks) = (share.peers.rank(), share.peers.ranks());
        // Each file begins with another process, so that small files go to all in turn.
        let first = rank + 1 + share.next_checker.fetch_add(1, Ordering::Relaxed);
        let order = (0..ranks).map(|number| (first + number) % ranks).collect();
        let file = Arc::new(file);
        let round = Arc::new(RunningRound::new(Round::new(pieces, order)));
        loop {
            if self.data.stopped() {
                round.stop();
            }
            match round.step() {
                Step::Give(rank, piece) => {
                    let loan = Loan::Check(Arc::clone(&round), Arc::clone(&file), rank, piece);
                    share.peers.assign(rank, share.lend(loan, false));
                    continue;
                }
                Step::Done(outcome) => return outcome,
                Step::Wait => {}
            }
            // Another thread takes jobs meanwhile, unless too many do already.
            let before = share.replaced.fetch_add(1, Ordering::Relaxed);
            let is_replaced = before < share.waiting.replaced;
            if is_replaced {
                self.queue().aside(self, || round.wait())
            } else {
                round.wait()
            }
            share.replaced.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

const FLAGS: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);

/// Opens the target of another process, and checks that it is the same file.
fn open_target(address: &DirectoryAddress, check: &CheckWork) -> Result<OwnedFd, Errno> {
    let (dir, _) = open_checked(&address.target)?;
    let into = statat(&dir, parent_of(check.names.1.to_bytes()), AtFlags::empty())?;
    let target = openat(&dir, &*check.names.1, FLAGS | OFlags::NOFOLLOW, Mode::empty())?;
    if is_target(&target, &check.facts, &into)? { Ok(target) } else { Err(Errno::STALE) }
}

/// Opens the source of a file of another process, if it is a regular file and has not changed.
fn open_source(address: &DirectoryAddress, check: &CheckWork) -> Result<OwnedFd, Errno> {
    let (dir, _) = open_checked(&address.source)?;
    let follow = if check.facts.follow { OFlags::empty() } else { OFlags::NOFOLLOW };
    let source = openat(&dir, &*check.names.0, FLAGS | follow, Mode::empty())?;
    let found = fstat(&source)?;
    let is_regular = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
    if is_regular && check.facts.are_of(&found) { Ok(source) } else { Err(Errno::STALE) }
}

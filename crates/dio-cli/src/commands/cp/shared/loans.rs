//! What this process has lent to others, and how it reaches them.

use std::collections::{HashMap, HashSet};
use std::ffi::CString;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use rustix::fs::{AtFlags, CWD, statat};
use serde::{Deserialize, Serialize};

use super::super::checks::{CheckedFile, WrittenPiece};
use super::super::dirs::{Dir, Operand};
use super::super::error::CopyError;
use super::super::facts::FileFacts;
use super::super::ranges::SharedFile;
use super::super::role::{Role, Sides};
use super::rounds::{Answer, RunningRound};

/// Maximum number of large files that are shared at a time.
const SHARED_FILES_MAX: usize = 16;

/// Maximum number of threads that further threads replace while they wait for checks.
const REPLACED_MAX: usize = 16;

/// Maximum number of threads that read back for other processes.
const CHECKERS_MAX: usize = 4;

/// How many threads besides the workers may have files open, by what they do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    /// Large files that are shared: a thread waits for each, and another one replaces it.
    pub(super) files: usize,
    /// Threads that are replaced while they wait for checks.
    pub(super) replaced: usize,
    /// Threads that read back for other processes.
    pub(super) checkers: usize,
}

impl Waiting {
    /// How many there are of all of them where descriptors are plenty.
    pub(super) fn wanted(verify: bool) -> usize {
        SHARED_FILES_MAX + if verify { REPLACED_MAX + CHECKERS_MAX } else { 0 }
    }

    /// Divides so many threads in proportion. What gets none is not shared, or not read back by
    /// another process.
    pub(super) fn within(threads: usize, verify: bool) -> Waiting {
        let part = |most: usize| (most * threads / Waiting::wanted(verify)).min(most);
        let of_checks = |most| if verify { part(most) } else { 0 };
        Waiting {
            files: part(SHARED_FILES_MAX),
            replaced: of_checks(REPLACED_MAX),
            checkers: of_checks(CHECKERS_MAX),
        }
    }
}

/// Work for another process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Parcel {
    /// The process that gets the answer, and its number for the loan.
    pub(super) lender: usize,
    pub(super) loan: u64,
    /// Whether it is for one process only.
    pub(super) stays: bool,
    pub(super) dir: DirectoryAddress,
    pub(super) work: Work,
}

impl Parcel {
    /// Whether something is to be read back.
    pub(super) fn is_check(&self) -> bool {
        matches!(self.work, Work::Check(_))
    }

    /// Whether a process that has not begun it may leave it to another one.
    pub(super) fn may_be_passed_on(&self) -> bool {
        !self.stays && matches!(self.work, Work::Entries(_))
    }
}

/// The kinds of work that a process can give away.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Work {
    /// To copy entries of the directory, with everything below them.
    Entries(Vec<CString>),
    /// To copy ranges of a file.
    Ranges { names: (CString, CString), facts: FileFacts, ranges: Vec<Range<u64>> },
    /// To read back a piece of a file.
    Check(Box<CheckWork>),
}

/// A piece of a file to read back.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct CheckWork {
    pub(super) names: (CString, CString),
    pub(super) facts: FileFacts,
    /// The size that the target should have.
    pub(super) size: u64,
    pub(super) piece: WrittenPiece,
}

/// Source and target of an operand.
pub(super) type OperandNames = (Vec<u8>, Vec<u8>);

/// How another process finds a pair of directories. Paths are relative to the working directory,
/// which all processes share. Devices have other numbers on other machines, so only inodes are
/// compared.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct DirectoryAddress {
    pub(super) operand: OperandNames,
    /// Inode of the first directory that was made for the operand.
    pub(super) first_made: Option<u64>,
    pub(super) source: (Vec<u8>, u64),
    pub(super) target: (Vec<u8>, u64),
    pub(super) role: Role,
    pub(super) fresh: bool,
    pub(super) default_acl: bool,
    /// Source directories above it, where links are followed.
    pub(super) above: Vec<(u64, u64)>,
}

/// The answer to a [`Parcel`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Returned {
    pub(super) loan: u64,
    pub(super) outcome: LoanOutcome,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum LoanOutcome {
    /// It is done; errors were reported.
    Done,
    /// Ranges were copied, in these pieces, which have to be read back.
    Written(Vec<WrittenPiece>),
    /// The directories or the files could not be opened, so nothing was done.
    Unopened,
    /// Ranges were compared or read back, and this is the first byte that differs.
    Differs(u64),
    /// A range was not copied or read back: the lowest offset that is missing, and the message;
    /// none if a signal asked for a stop.
    Failed(u64, Option<String>),
}

impl From<LoanOutcome> for Answer {
    fn from(outcome: LoanOutcome) -> Answer {
        match outcome {
            LoanOutcome::Done | LoanOutcome::Written(_) => Answer::Same,
            LoanOutcome::Differs(at) => Answer::Differs(at),
            LoanOutcome::Unopened => Answer::Unopened,
            LoanOutcome::Failed(_, told) => {
                Answer::Failed(told.map_or(CopyError::Interrupted, CopyError::Transfer))
            }
        }
    }
}

/// Reaches the other processes of a copy. The calls return at once.
pub trait Peers: Send + Sync {
    /// The number of this process, from 0 on.
    fn rank(&self) -> usize;
    /// How many processes there are.
    fn ranks(&self) -> usize;
    /// Has the process `rank` do this work, whatever else it has to do.
    fn assign(&self, rank: usize, parcel: Parcel);
    /// Tells the process `rank` that work which it lent is done.
    fn give_back(&self, rank: usize, returned: Returned);
    /// Has process 0 print a line, on standard error or else on standard output.
    fn print(&self, error: bool, line: Vec<u8>);
}

/// Work that another process does.
pub(super) enum Loan {
    Entries(Arc<Dir>, Vec<CString>),
    /// A name of the inode of this number, which has several names.
    Link(Arc<Dir>, CString, u64),
    Ranges(Arc<SharedFile>, Vec<Range<u64>>),
    /// A piece of a file, which the process of this number reads back.
    Check(Arc<RunningRound>, Arc<CheckedFile>, usize, WrittenPiece),
}

/// The part of the state of a copy that concerns other processes.
pub(crate) struct Share {
    pub(super) peers: Arc<dyn Peers>,
    /// All hard links are handled by process 0, since operands may be among them.
    links_at_first: bool,
    next: AtomicU64,
    loans: Mutex<HashMap<u64, Loan>>,
    pub(super) files: Mutex<Vec<Arc<SharedFile>>>,
    pub(super) waiting: Waiting,
    /// Inodes with several names that their own process could not find, so that they stay here.
    kept: Mutex<HashSet<u64>>,
    /// Operands of which directories were lent to this process, by their names.
    pub(super) operands: Mutex<HashMap<OperandNames, Arc<Operand>>>,
    /// The process that the next file begins with when it is read back, counted from this one.
    pub(super) next_checker: AtomicUsize,
    /// Number of threads that wait for other processes to read back.
    pub(super) replaced: AtomicUsize,
    /// How often another process could not open what was lent to it.
    pub(super) retries: AtomicU64,
    /// Number of threads that work at a time; 0 while this process is at rest.
    pub(super) threads: AtomicUsize,
    /// Bytes of the largest pieces of the shared file that was done last; 0 if there was none.
    pub(super) piece_bytes: AtomicU64,
}

impl Share {
    pub(super) fn new(
        peers: Arc<dyn Peers>,
        links_at_first: bool,
        waiting: Waiting,
        threads: usize,
    ) -> Share {
        Share {
            peers,
            links_at_first,
            next: AtomicU64::new(0),
            loans: Mutex::default(),
            files: Mutex::default(),
            waiting,
            kept: Mutex::default(),
            operands: Mutex::default(),
            next_checker: AtomicUsize::new(0),
            replaced: AtomicUsize::new(0),
            retries: AtomicU64::new(0),
            threads: AtomicUsize::new(threads),
            piece_bytes: AtomicU64::new(0),
        }
    }

    /// Whether there are other processes.
    pub(crate) fn has_others(&self) -> bool {
        self.peers.ranks() > 1
    }

    /// Whether this process asks for no work, and leaves its own to others that have none.
    pub(super) fn is_at_rest(&self) -> bool {
        self.threads.load(Ordering::Relaxed) == 0
    }

    /// The process that copies an inode with several names and makes the links to it.
    pub(super) fn home_of(&self, inode: u64) -> usize {
        if self.kept.lock().contains(&inode) {
            return self.peers.rank();
        }
        if self.links_at_first {
            return 0;
        }
        // Inode numbers are often multiples of a small number; the multiplier is the golden ratio.
        let mixed = inode.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        mixed as usize % self.peers.ranks()
    }

    /// Has this process copy an inode with several names from now on.
    pub(super) fn keep(&self, inode: u64) {
        self.kept.lock().insert(inode);
    }

    /// Registers work that leaves this process.
    pub(super) fn lend(&self, loan: Loan, lineage: bool) -> Parcel {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (dir, work) = match &loan {
            Loan::Entries(dir, names) => (dir, Work::Entries(names.clone())),
            Loan::Link(dir, name, _) => (dir, Work::Entries(vec![name.clone()])),
            Loan::Ranges(file, ranges) => (
                &file.dir,
                Work::Ranges {
                    names: file.names.clone(),
                    facts: file.facts,
                    ranges: ranges.clone(),
                },
            ),
            Loan::Check(_, file, _, piece) => (
                &file.dir,
                Work::Check(Box::new(CheckWork {
                    names: file.names.clone(),
                    facts: file.facts,
                    size: file.size,
                    piece: piece.clone(),
                })),
            ),
        };
        // The names of an inode are all for one process.
        let stays = matches!(loan, Loan::Link(..));
        let (lender, dir) = (self.peers.rank(), address_of(dir, lineage));
        let parcel = Parcel { lender, loan: number, stays, dir, work };
        self.loans.lock().insert(number, loan);
        parcel
    }

    /// Finds what was lent under a number, which then is free.
    pub(super) fn find(&self, number: u64) -> Option<Loan> {
        self.loans.lock().remove(&number)
    }

    /// Registers a file of which others may take ranges.
    pub(super) fn register(&self, file: &Arc<SharedFile>) -> bool {
        let mut files = self.files.lock();
        let room = files.len() < self.waiting.files;
        if room {
            files.push(Arc::clone(file));
        }
        room
    }

    pub(super) fn withdraw(&self, file: &Arc<SharedFile>) {
        self.files.lock().retain(|one| !Arc::ptr_eq(one, file));
        self.piece_bytes.store(file.piece_bytes(), Ordering::Relaxed);
    }
}

/// Describes a directory for another process. The names of operands lead from the working
/// directory.
fn address_of(dir: &Dir, lineage: bool) -> DirectoryAddress {
    let bytes = |path: &Path| path.as_os_str().as_encoded_bytes().to_vec();
    let (source, target) = match (dir.role.sides, dir.shown()) {
        (Sides::Target, (_, target)) => (target, target),
        (_, shown) => shown,
    };
    let or_working = |path: &Path| match bytes(path) {
        none if none.is_empty() => b".".to_vec(),
        path => path,
    };
    // An inode that cannot be read is none that another process finds; it gives the work back then.
    let source_inode = match dir.identity {
        Some(identity) => identity.inode(),
        None => statat(CWD, c".", AtFlags::empty()).map_or(0, |stat| stat.st_ino),
    };
    let target_inode = match dir.target_inode() {
        0 => dir.in_target(|fd| statat(fd, c".", AtFlags::empty())).map_or(0, |stat| stat.st_ino),
        inode => inode,
    };
    DirectoryAddress {
        operand: (bytes(&dir.operand.source), bytes(&dir.operand.target)),
        first_made: dir.operand.first_made.get().map(|made| made.inode()),
        source: (or_working(source), source_inode),
        target: (or_working(target), target_inode),
        role: dir.role,
        fresh: dir.fresh,
        default_acl: dir.default_acl,
        above: match lineage {
            true => dir.lineage().iter().map(|id| (id.device(), id.inode())).collect(),
            false => Vec::new(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_divided_by_what_they_do() {
        for verify in [false, true] {
            for threads in 0..100 {
                let Waiting { files, replaced, checkers } = Waiting::within(threads, verify);
                assert!(files + replaced + checkers <= threads);
            }
            let all = Waiting::within(Waiting::wanted(verify), verify);
            let checks = if verify { (REPLACED_MAX, CHECKERS_MAX) } else { (0, 0) };
            assert_eq!((all.files, (all.replaced, all.checkers)), (SHARED_FILES_MAX, checks));
        }
        let few = Waiting { files: 4, replaced: 4, checkers: 1 };
        assert_eq!(Waiting::within(9, true), few);
    }
}

//! What callers hand to a driver, and what they get back.

use std::fmt::Debug;
use std::sync::Arc;

use rustix::io::Errno;

use crate::block::Mem;
use crate::engine::{Medium, OpFlags, OpKind, Route};
use crate::layout::Layout;

/// The file that a request is to.
#[derive(Clone, Debug)]
pub enum RequestTarget {
    /// One file, of the system or simulated.
    Medium(Arc<dyn Medium>),
    /// A striped file.
    Striped(Arc<dyn StripedMedium>),
}

/// What the file observed and decided about its page cache before a request. It is compared with
/// what is there afterwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheNote {
    /// Resident pages of the range before the request, if the file counts pages to find out whether
    /// direct I/O is direct.
    pub resident_before: Option<u64>,
    /// The pages that the request brings into the page cache stay there.
    pub keep_pages: bool,
}

/// A read, a write or a sync, from its first attempt to its last.
#[derive(Debug)]
pub struct Request {
    /// What to do.
    pub kind: OpKind,
    /// Which file descriptor to use.
    pub route: Route,
    /// Flags of each attempt.
    pub flags: OpFlags,
    /// The file.
    pub target: RequestTarget,
    /// File offset of the first byte of `mem`, in bytes.
    pub offset: u64,
    /// The memory; `None` for a sync.
    pub mem: Option<Mem>,
    /// Alignment of the offset of each attempt, in bytes; 1 on the buffered route. After a short
    /// transfer the next attempt begins at a multiple of it.
    pub align: usize,
    /// A number of the caller's.
    pub tag: u64,
    /// What the file observed about its page cache before.
    pub cache: CacheNote,
}

impl Request {
    /// Bytes of memory.
    pub fn len(&self) -> usize {
        self.mem.as_ref().map_or(0, Mem::len)
    }

    /// True for a request without bytes, such as a sync.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Asserts the alignment that every engine relies on, a second time after the code that made
    /// the request.
    pub(super) fn check(&self) {
        if self.route == Route::Direct {
            let align = self.align as u64;
            assert!(
                self.offset % align == 0,
                "direct request at {} with alignment {align}",
                self.offset
            );
            assert!(
                self.len() as u64 % align == 0,
                "direct request of {} bytes with alignment {align}",
                self.len()
            );
        }
    }
}

/// A finished request.
#[derive(Debug)]
pub struct Finished {
    /// The request with its memory.
    pub request: Request,
    /// Bytes of its memory that were transferred, whatever the outcome.
    pub done: usize,
    /// Bytes transferred, or the error that ended the request. A read transfers fewer bytes than
    /// asked for only at the end of the file.
    pub outcome: Result<usize, Errno>,
}

impl Finished {
    /// A request that was refused before its first attempt.
    pub(super) fn refused(request: Request, errno: Errno) -> Finished {
        Finished { request, done: 0, outcome: Err(errno) }
    }

    /// File offset behind the last byte transferred. After an error it is where the error happened.
    pub fn position(&self) -> u64 {
        self.request.offset + self.done as u64
    }
}

/// A file whose bytes lie in several other files, its objects. Each byte lies in one object, and
/// each object holds its bytes in the order of the striped file.
pub trait StripedMedium: Send + Sync + Debug {
    /// How the bytes are spread over the objects.
    fn layout(&self) -> &Layout;

    /// Prepares the file for a request. A driver calls it before it splits the request.
    ///
    /// # Errors
    /// The result of the request, which is then not begun.
    fn prepare(&self, kind: OpKind) -> Result<(), Errno>;

    /// Makes the part of `memory` that goes to one object. Of `memory` only the kind, the route,
    /// the flags and `cache.keep_pages` matter. The target of the part is
    /// [`RequestTarget::Medium`].
    fn part_request(
        &self,
        object: usize,
        memory: &Request,
        offset: u64,
        mem: Option<Mem>,
    ) -> Request;

    /// Counts a finished part for its object. May change the outcome.
    fn finish_part(&self, object: usize, part: Finished) -> Finished;
}

//! What users of a driver hand to it, and what they get back.

use std::fmt::Debug;
use std::sync::Arc;

use rustix::io::Errno;

use crate::block::Mem;
use crate::engine::{Flags, Kind, Medium, Route};
use crate::layout::Layout;

/// What a request concerns.
#[derive(Clone, Debug)]
pub enum Target {
    /// One file, of the system or simulated.
    One(Arc<dyn Medium>),
    /// A file made of several.
    Spread(Arc<dyn Spread>),
}

/// What the file that made a request noted before it, to be compared with what is there afterwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Noted {
    /// Pages of the range that were in the page cache, where direct I/O has to be seen to be believed.
    pub pages: Option<u64>,
    /// Pages that the request brings into the cache are to stay there.
    pub keep: bool,
}

/// A read, a write or a sync, from its first attempt to its last.
#[derive(Debug)]
pub struct Request {
    /// What to do.
    pub kind: Kind,
    /// Which descriptor to use.
    pub route: Route,
    /// Flags of each attempt.
    pub flags: Flags,
    /// The file.
    pub target: Target,
    /// Where the first byte of `mem` belongs in the file, in bytes.
    pub offset: u64,
    /// The memory; `None` for a sync.
    pub mem: Option<Mem>,
    /// What the offset of a direct attempt must be a multiple of, in bytes; 1 on the buffered route. After a short
    /// transfer the next attempt begins at such a multiple.
    pub align: usize,
    /// The user's own mark.
    pub tag: u64,
    /// What the file noted before.
    pub noted: Noted,
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

    /// Asserts what every engine relies on, a second time behind the place where the request was made.
    pub(super) fn check(&self) {
        if self.route == Route::Direct {
            let align = self.align as u64;
            assert!(self.offset % align == 0, "direct request at {} with alignment {align}", self.offset);
            assert!(self.len() as u64 % align == 0, "direct request of {} bytes with alignment {align}", self.len());
        }
    }
}

/// A request that is over.
#[derive(Debug)]
pub struct Finished {
    /// The request, memory and all.
    pub request: Request,
    /// Bytes of its memory that were transferred, whatever the outcome.
    pub done: usize,
    /// Bytes transferred (of a read, fewer than asked only at the end of the file), or why it stopped.
    pub outcome: Result<usize, Errno>,
}

impl Finished {
    /// A request of which nothing was begun.
    pub(super) fn refused(request: Request, errno: Errno) -> Finished {
        Finished { request, done: 0, outcome: Err(errno) }
    }

    /// File offset behind the last byte that was transferred: of an error, where it happened.
    pub fn position(&self) -> u64 {
        self.request.offset + self.done as u64
    }
}

/// A file whose bytes lie in several others, its objects. Each byte is in one object, and each object holds its bytes in
/// the order of the whole.
pub trait Spread: Send + Sync + Debug {
    /// Where each byte is.
    fn layout(&self) -> &Layout;

    /// Comes before each request. An error is that of the request, of which nothing is begun.
    ///
    /// # Errors
    /// Why it must not be.
    fn before(&self, kind: Kind) -> Result<(), Errno>;

    /// The request to one object that is a part of `whole`, of which only the kind, the route, the flags and `noted.keep`
    /// matter. Its target is [`Target::One`].
    fn part(&self, object: usize, whole: &Request, offset: u64, mem: Option<Mem>) -> Request;

    /// Takes a part that is over into the object's accounts, and may change the outcome.
    fn part_done(&self, object: usize, over: Finished) -> Finished;
}

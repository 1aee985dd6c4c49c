//! The memory of one operation: segments of blocks or of lent buffers.

use std::io::{IoSlice, IoSliceMut};
use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::pool::Block;

/// Contiguous bytes of memory that one operation reads or writes.
#[derive(Debug)]
pub struct Segment {
    start: NonNull<u8>,
    len: usize,
    owner: Owner,
}

#[derive(Debug)]
enum Owner {
    Block(Block),
    Lent {
        writable: bool,
        _loan: LoanCount,
    },
    /// Memory of which the maker of the segment has promised that it stays.
    Foreign {
        writable: bool,
    },
    /// Bytes of other memory, which lives until the last part of it is dropped.
    Part {
        writable: bool,
        pool: Option<usize>,
        _memory: Arc<SharedMem>,
    },
}

// SAFETY: a segment has the sole right to its bytes. They belong to a block, to a part of a memory
// that `MemDivider` hands out byte by byte once, or to a slice borrowed for longer than the segment
// can live (`scope` aborts the process otherwise), or are foreign memory, which the maker of the
// segment gave up to it. Shared lent slices (`writable: false`) are only ever read. Nobody looks at
// a divided memory while it has parts. Whoever drops the last part drops the memory, and any thread
// may do that, as with its segments.
unsafe impl Send for Segment {}

impl Segment {
    /// A part of other memory.
    ///
    /// # Safety
    /// The bytes must lie in one segment of `memory`, and no other part may have any of them.
    pub(super) unsafe fn share(
        memory: &Arc<SharedMem>,
        start: NonNull<u8>,
        len: usize,
        writable: bool,
        pool: Option<usize>,
    ) -> Segment {
        Segment { start, len, owner: Owner::Part { writable, pool, _memory: Arc::clone(memory) } }
    }

    /// Memory that is known by its address only, such as that of a caller in another language.
    ///
    /// # Safety
    /// Until the segment is dropped, the `len` bytes at `start` must stay allocated, and nothing
    /// else may write to them; if `writable` is set, nothing else may read them either.
    pub unsafe fn foreign(start: NonNull<u8>, len: usize, writable: bool) -> Segment {
        Segment { start, len, owner: Owner::Foreign { writable } }
    }

    /// Bytes in the segment.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Address of the first byte.
    pub fn address(&self) -> usize {
        self.start.addr().get()
    }

    /// True for a segment of no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The block behind the segment, with its first `filled` bytes declared as read. `None` for
    /// lent memory.
    pub(crate) fn into_block(self, filled: usize) -> Option<Block> {
        match self.owner {
            Owner::Block(mut block) => {
                block.set_filled(filled);
                Some(block)
            }
            Owner::Lent { .. } | Owner::Foreign { .. } | Owner::Part { .. } => None,
        }
    }

    /// Whether an operation may store into the segment.
    pub fn is_writable(&self) -> bool {
        match &self.owner {
            Owner::Block(_) => true,
            Owner::Lent { writable, .. }
            | Owner::Foreign { writable }
            | Owner::Part { writable, .. } => *writable,
        }
    }

    fn pool_id(&self) -> Option<usize> {
        match &self.owner {
            Owner::Block(block) => Some(block.pool_id()),
            Owner::Part { pool, .. } => *pool,
            Owner::Lent { .. } | Owner::Foreign { .. } => None,
        }
    }
}

/// The memory of one operation, in file order. It has at least one segment. Usually it has exactly
/// one, which needs no allocation.
#[derive(Debug)]
pub struct Mem {
    first: Segment,
    more: Vec<Segment>,
    len: usize,
}

impl Mem {
    /// Memory of one segment.
    pub fn one(segment: Segment) -> Mem {
        let len = segment.len;
        Mem { first: segment, more: Vec::new(), len }
    }

    /// Adds a segment behind the others.
    pub fn push(&mut self, segment: Segment) {
        self.len += segment.len;
        self.more.push(segment);
    }

    /// Bytes in all segments.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when there is nothing to transfer.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of segments.
    pub fn segments(&self) -> usize {
        1 + self.more.len()
    }

    /// Takes the segments apart again.
    pub fn into_segments(self) -> impl Iterator<Item = Segment> {
        std::iter::once(self.first).chain(self.more)
    }

    /// The block of a memory that consists of one block, with its first `filled` bytes declared as
    /// read.
    pub(crate) fn into_block(self, filled: usize) -> Option<Block> {
        self.first.into_block(filled)
    }

    /// True if an operation may store into every segment.
    pub(crate) fn writable(&self) -> bool {
        self.iter().all(Segment::is_writable)
    }

    /// The pool that the memory belongs to, if it is a single segment of a block.
    pub(crate) fn pool_id(&self) -> Option<usize> {
        if self.more.is_empty() { self.first.pool_id() } else { None }
    }

    /// Address and length of each segment behind the first `skip` bytes.
    pub(crate) fn segment_ranges(&self, skip: usize) -> impl Iterator<Item = (*mut u8, usize)> {
        let mut skip = skip;
        self.iter().filter_map(move |segment| {
            let skipped = skip.min(segment.len);
            skip -= skipped;
            // SAFETY: passed <= len, so the address is inside the segment or one past its end.
            let start = unsafe { segment.start.add(skipped) };
            (skipped < segment.len).then_some((start.as_ptr(), segment.len - skipped))
        })
    }

    /// The bytes behind the first `skip`, to store into.
    ///
    /// # Panics
    /// When part of the memory was lent for reading only.
    pub(crate) fn slices_mut(&mut self, skip: usize) -> Vec<IoSliceMut<'_>> {
        assert!(self.writable(), "memory lent for writing out cannot be read into");
        self.segment_ranges(skip)
            .map(|(start, len)| {
                // SAFETY: the segments alone own these bytes, which are initialised, and
                // `&mut self` is held as long as the slices live. Segments never overlap: blocks
                // are distinct, and lent slices come from distinct `&mut` borrows.
                IoSliceMut::new(unsafe { std::slice::from_raw_parts_mut(start, len) })
            })
            .collect()
    }

    /// The bytes behind the first `skip`.
    pub(crate) fn slices(&self, skip: usize) -> Vec<IoSlice<'_>> {
        self.segment_ranges(skip)
            // SAFETY: the bytes are initialised, and nobody writes to them while `&self` is held:
            // see `slices_mut`.
            .map(|(start, len)| IoSlice::new(unsafe { std::slice::from_raw_parts(start, len) }))
            .collect()
    }

    /// Address, length and pool of each segment.
    pub(super) fn segment_parts(
        &self,
    ) -> impl Iterator<Item = (NonNull<u8>, usize, Option<usize>)> {
        self.iter().map(|segment| (segment.start, segment.len, segment.pool_id()))
    }

    fn iter(&self) -> impl Iterator<Item = &Segment> {
        std::iter::once(&self.first).chain(&self.more)
    }
}

impl Block {
    /// Turns the block into memory for one operation on `range` of it.
    ///
    /// # Panics
    /// When the range is not inside the block.
    pub fn into_mem(self, range: Range<usize>) -> Mem {
        Mem::one(self.into_segment(range))
    }

    /// As [`Block::into_mem`], for one segment of several.
    pub fn into_segment(mut self, range: Range<usize>) -> Segment {
        self.expose(&range);
        // SAFETY: `expose` checked that the range is inside the block.
        let start = unsafe { self.start().add(range.start) };
        Segment { start, len: range.len(), owner: Owner::Block(self) }
    }
}

/// Memory that is being divided. Until it has one owner again, only addresses are taken from it.
#[derive(Debug)]
pub(super) struct SharedMem(Mem);

// SAFETY: nothing of the memory's bytes can be reached through a shared reference (there is no
// method that would), and what it owns, blocks and counts of loans, may be dropped in any thread
// (`Mem` is `Send`).
unsafe impl Sync for SharedMem {}

impl SharedMem {
    pub(super) fn new(memory: Mem) -> SharedMem {
        SharedMem(memory)
    }

    /// The memory, once nothing refers to parts of it.
    pub(super) fn into_mem(self) -> Mem {
        self.0
    }
}

/// Counts a lent segment. The count falls when the segment is dropped.
#[derive(Debug)]
struct LoanCount {
    outstanding: NonNull<AtomicUsize>,
}

impl Drop for LoanCount {
    fn drop(&mut self) {
        // SAFETY: the counter lives in the frame of `scope`. `scope` aborts instead of returning or
        // unwinding while the count is above zero, so the counter is alive here.
        unsafe { self.outstanding.as_ref() }.fetch_sub(1, Ordering::Release);
    }
}

/// Lends slices to operations; see [`scope`].
#[derive(Debug)]
pub struct Loans<'env> {
    outstanding: AtomicUsize,
    /// Invariant in `'env`: a slice that outlives the scope must not be shortened to one that does
    /// not.
    env: PhantomData<&'env mut &'env ()>,
}

impl<'env> Loans<'env> {
    /// Lends a slice to be read into.
    pub fn lend_mut(&self, bytes: &'env mut [u8]) -> Segment {
        self.segment(NonNull::from(&mut *bytes).cast(), bytes.len(), true)
    }

    /// Lends a slice to be written out.
    pub fn lend(&self, bytes: &'env [u8]) -> Segment {
        self.segment(NonNull::from(bytes).cast(), bytes.len(), false)
    }

    fn segment(&self, start: NonNull<u8>, len: usize, writable: bool) -> Segment {
        self.outstanding.fetch_add(1, Ordering::Relaxed);
        let loan = LoanCount { outstanding: NonNull::from(&self.outstanding) };
        Segment { start, len, owner: Owner::Lent { writable, _loan: loan } }
    }
}

/// Runs `work` with the right to lend slices to operations. Every lent segment must have been
/// dropped when `work` returns or unwinds. Otherwise the kernel could write into memory that is no
/// longer ours, so the process is aborted. Users drain their engine first; tests check that they
/// do.
///
/// ```
/// use dio::block::{Mem, scope};
///
/// let mut buffer = [0; 4096];
/// scope(|loans| {
///     let memory = Mem::one(loans.lend_mut(&mut buffer));
///     assert_eq!(memory.len(), 4096);
///     // An operation would own `memory` now, and must be complete before the scope ends.
/// });
/// buffer[0] = 1;
/// ```
pub fn scope<'env, R>(work: impl for<'loans> FnOnce(&'loans Loans<'env>) -> R) -> R {
    struct AbortIfLent<'env>(Loans<'env>);
    impl Drop for AbortIfLent<'_> {
        fn drop(&mut self) {
            if self.0.outstanding.load(Ordering::Acquire) != 0 {
                eprintln!("dio: a lent buffer is still in flight at the end of its scope");
                std::process::abort();
            }
        }
    }
    let loans = AbortIfLent(Loans { outstanding: AtomicUsize::new(0), env: PhantomData });
    work(&loans.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Pool;

    #[test]
    fn pieces_skip_what_is_done() {
        let pool = Pool::new(4096, 2).unwrap();
        let mut mem = pool.try_take().unwrap().into_mem(0..1000);
        mem.push(pool.try_take().unwrap().into_segment(96..4096));
        assert_eq!(mem.len(), 5000);
        let lens = |skip| mem.segment_ranges(skip).map(|(_, len)| len).collect::<Vec<_>>();
        assert_eq!(lens(0), [1000, 4000]);
        assert_eq!(lens(999), [1, 4000]);
        assert_eq!(lens(1000), [4000]);
        assert_eq!(lens(4999), [1]);
        assert!(lens(5000).is_empty());
    }

    #[test]
    fn lent_slices_are_filled_in_place_and_usable_after_the_scope() {
        let mut bytes = [0u8; 10];
        let (head, tail) = bytes.split_at_mut(4);
        scope(|loans| {
            let mut mem = Mem::one(loans.lend_mut(head));
            mem.push(loans.lend_mut(tail));
            for (value, slice) in mem.slices_mut(0).iter_mut().enumerate() {
                slice.fill(value as u8 + 1);
            }
        });
        assert_eq!(bytes, [1, 1, 1, 1, 2, 2, 2, 2, 2, 2]);
    }

    #[test]
    #[should_panic(expected = "cannot be read into")]
    fn memory_lent_for_writing_out_is_never_read_into() {
        let bytes = [0u8; 10];
        scope(|loans| {
            let mut mem = Mem::one(loans.lend(&bytes));
            mem.slices_mut(0);
        });
    }
}

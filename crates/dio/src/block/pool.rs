//! Fixed pools of blocks cut from one region of memory.

use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex, MutexGuard};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::geometry::align_up;

/// Alignment of every block in memory, in bytes. It is a page, which satisfies every
/// `dio_mem_align` seen on Linux (`statx(2)`; 4 to 4096).
pub const BLOCK_ALIGN: usize = 4096;

/// Size of a huge page on x86-64 and most arm64 kernels, in bytes. It is a hint: a region is
/// aligned to it so that the kernel can back the region with huge pages
/// (Documentation/admin-guide/mm/transhuge.rst). A request then has one memory segment. With 4 KiB
/// pages it would have hundreds and be split by the device's `max_segments`.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Anonymous, zeroed, page-aligned memory that lives until its last block is dropped.
struct Region {
    map: NonNull<u8>,
    map_len: usize,
    start: NonNull<u8>,
}

// SAFETY: a region is plain memory without thread affinity. Access to its bytes goes through
// `Block`, and each byte belongs to at most one block at a time (see `PoolState::free`).
unsafe impl Send for Region {}
// SAFETY: as above; `&Region` exposes nothing but addresses.
unsafe impl Sync for Region {}

impl Region {
    fn new(len: usize) -> io::Result<Region> {
        let huge = len >= HUGE_PAGE_BYTES;
        // If the sum wrapped around, a short mapping would stand for a long region.
        let map_len = if huge {
            len.checked_add(HUGE_PAGE_BYTES).ok_or(io::ErrorKind::OutOfMemory)?
        } else {
            len
        };
        // SAFETY: a fresh private anonymous mapping at an address of the kernel's choice aliases
        // nothing.
        let map = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                map_len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )?
        };
        let address = map as usize;
        let shift = if huge { address.next_multiple_of(HUGE_PAGE_BYTES) - address } else { 0 };
        // SAFETY: shift < HUGE_PAGE, and the mapping is HUGE_PAGE longer than `len` when shift can
        // be non-zero.
        let start = unsafe { map.cast::<u8>().add(shift) };
        if huge {
            // SAFETY: the range lies inside the mapping made above. A refusal (no THP) only costs
            // speed.
            let _ = unsafe { madvise(start.cast(), len, Advice::LinuxHugepage) };
        }
        let not_null = |pointer| NonNull::new(pointer).expect("mmap never returns a null mapping");
        Ok(Region { map: not_null(map.cast()), map_len, start: not_null(start) })
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: `new` made the mapping with this address and length, and no block refers to it
        // any more (each holds an Arc of the pool that owns this region).
        let _ = unsafe { munmap(self.map.as_ptr().cast(), self.map_len) };
    }
}

/// A fixed number of equal blocks. Taking one never allocates, and the memory in use is known when
/// the pool is made.
///
/// ```
/// use dio::block::Pool;
///
/// let pool = Pool::new(64 << 10, 4)?;
/// assert_eq!(pool.bytes(), 256 << 10);
/// let mut block = pool.try_take().expect("four blocks are free");
/// block.push(b"hello");
/// assert_eq!(block.filled(), b"hello");
/// drop(block); // It goes back to the pool.
/// assert_eq!(pool.take_many(4).len(), 4);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct Pool {
    shared: Arc<PoolShared>,
}

struct PoolShared {
    region: Region,
    block_len: usize,
    blocks: usize,
    state: Mutex<PoolState>,
    returned: Condvar,
}

struct PoolState {
    /// Slots that are not handed out. Invariant: a slot is either in here or owned by exactly one
    /// `Block`.
    free: Vec<usize>,
    /// Bytes from the start of each slot that may hold data of an earlier use.
    stale: Vec<usize>,
    /// `take_many` serves its callers in order, so that small requests do not starve a large one.
    next_ticket: u64,
    serving: u64,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pool({} blocks of {} bytes)", self.blocks(), self.block_len())
    }
}

impl Pool {
    /// Makes a pool of `blocks` blocks of at least `block_len` bytes each (rounded up to a page).
    ///
    /// # Errors
    /// What `mmap(2)` answers: ENOMEM when the address space or the overcommit limit is exhausted.
    pub fn new(block_len: usize, blocks: usize) -> io::Result<Pool> {
        assert!(block_len > 0 && blocks > 0, "a pool holds at least one byte");
        let block_len = align_up(block_len as u64, BLOCK_ALIGN as u64) as usize;
        let total = block_len.checked_mul(blocks).ok_or(io::ErrorKind::OutOfMemory)?;
        let state = PoolState {
            free: (0..blocks).rev().collect(),
            stale: vec![0; blocks],
            next_ticket: 0,
            serving: 0,
        };
        let shared = PoolShared {
            region: Region::new(total)?,
            block_len,
            blocks,
            state: Mutex::new(state),
            returned: Condvar::new(),
        };
        Ok(Pool { shared: Arc::new(shared) })
    }

    /// Bytes in one block.
    pub fn block_len(&self) -> usize {
        self.shared.block_len
    }

    /// Number of blocks, free or not.
    pub fn blocks(&self) -> usize {
        self.shared.blocks
    }

    /// Number of blocks that are free at this moment.
    pub fn free(&self) -> usize {
        self.lock().free.len()
    }

    /// Bytes of memory that the pool can occupy.
    pub fn bytes(&self) -> usize {
        self.block_len() * self.blocks()
    }

    /// Takes a block if one is free.
    pub fn try_take(&self) -> Option<Block> {
        let mut state = self.lock();
        if state.serving != state.next_ticket {
            return None;
        }
        let slot = state.free.pop()?;
        let stale = state.stale[slot];
        drop(state);
        Some(self.block(slot, stale))
    }

    /// Takes `count` blocks together. Waits in turn until as many are free. Because a caller gets
    /// all of its blocks at once, two callers never hold what the other waits for.
    ///
    /// # Panics
    /// When `count` exceeds the number of blocks: the caller would wait for ever.
    pub fn take_many(&self, count: usize) -> Vec<Block> {
        assert!(count <= self.blocks(), "{count} blocks asked of {self:?}");
        let mut state = self.lock();
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        while state.serving != ticket || state.free.len() < count {
            self.shared.returned.wait(&mut state);
        }
        let rest = state.free.len() - count;
        let slots: Vec<usize> = state.free.split_off(rest);
        let slots: Vec<(usize, usize)> =
            slots.into_iter().map(|slot| (slot, state.stale[slot])).collect();
        state.serving += 1;
        drop(state);
        self.shared.returned.notify_all();
        slots.into_iter().map(|(slot, stale)| self.block(slot, stale)).collect()
    }

    /// Address and length of the whole region, for registering it with the kernel.
    pub(crate) fn region(&self) -> (*mut u8, usize) {
        (self.shared.region.start.as_ptr(), self.bytes())
    }

    /// A number that no other live pool has.
    pub(crate) fn id(&self) -> usize {
        Arc::as_ptr(&self.shared) as usize
    }

    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.shared.state.lock()
    }

    fn block(&self, slot: usize, stale: usize) -> Block {
        // SAFETY: slot < blocks, so the address lies inside the region.
        let start = unsafe { self.shared.region.start.add(slot * self.block_len()) };
        Block { pool: self.clone(), slot, start, capacity: self.block_len(), stale, filled: 0 }
    }
}

/// One block of a pool: aligned memory with exactly one owner. It goes back to its pool when
/// dropped.
pub struct Block {
    pool: Pool,
    slot: usize,
    start: NonNull<u8>,
    capacity: usize,
    /// Bytes from the start that may hold data of an earlier use. Invariant: all bytes behind them
    /// are zero.
    stale: usize,
    /// Bytes from the start that the present user put there. Only these can be read. Invariant:
    /// `filled <= stale`.
    filled: usize,
}

// SAFETY: a block is the only owner of its bytes (PoolState::free), and memory has no thread
// affinity.
unsafe impl Send for Block {}
// SAFETY: `&Block` gives read access only.
unsafe impl Sync for Block {}

impl std::fmt::Debug for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Block({} of {} bytes filled)", self.filled, self.capacity())
    }
}

impl Block {
    /// Bytes that fit into the block.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The bytes that the present user put there. Bytes of an earlier use are never shown.
    pub fn filled(&self) -> &[u8] {
        // SAFETY: filled <= capacity, all of the region is initialised (the kernel zeroes it), and
        // `&self` keeps writers out.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.filled) }
    }

    /// The whole block, to be written to. Bytes of an earlier use are zeroed first. All of the
    /// block counts as filled afterwards.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let (filled, stale) = (self.filled, self.stale);
        let whole = self.raw_mut();
        if stale > filled {
            whole[filled..stale].fill(0);
        }
        self.filled = self.capacity();
        self.stale = self.filled;
        self.raw_mut()
    }

    /// Copies `bytes` to offset `at`. A gap before them reads as zeros.
    ///
    /// # Panics
    /// When they do not fit.
    pub fn copy_in(&mut self, at: usize, bytes: &[u8]) {
        let (filled, end) = (self.filled, at + bytes.len());
        let whole = self.raw_mut();
        if at > filled {
            whole[filled..at].fill(0);
        }
        whole[at..end].copy_from_slice(bytes);
        self.filled = filled.max(end);
        self.stale = self.stale.max(self.filled);
    }

    /// Copies `bytes` behind the filled bytes.
    ///
    /// # Panics
    /// When they do not fit.
    #[inline]
    pub fn push(&mut self, bytes: &[u8]) {
        assert!(
            bytes.len() <= self.capacity() - self.filled,
            "{} bytes do not fit {self:?}",
            bytes.len()
        );
        // SAFETY: filled <= capacity, and the bytes fit behind it. The block alone owns its memory
        // (`&mut self`), so `bytes` cannot lie in it.
        unsafe {
            let to = self.start.as_ptr().add(self.filled);
            match bytes {
                // A call that copies memory costs several times as much as storing one byte.
                [byte] => to.write(*byte),
                _ => std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()),
            }
        }
        self.filled += bytes.len();
        self.stale = self.stale.max(self.filled);
    }

    /// Forgets the contents without touching the memory.
    pub fn clear(&mut self) {
        self.filled = 0;
    }

    /// Notes that an operation may store anywhere into `range`, so all of it may be stale from here
    /// on.
    ///
    /// # Panics
    /// When the range is not inside the block.
    pub(super) fn expose(&mut self, range: &Range<usize>) {
        assert!(
            range.start <= range.end && range.end <= self.capacity(),
            "{range:?} is outside {self:?}"
        );
        self.stale = self.stale.max(range.end);
    }

    /// Declares that the first `len` bytes hold data of the present user, because an engine has
    /// read them.
    pub(crate) fn set_filled(&mut self, len: usize) {
        assert!(len <= self.stale, "{len} bytes were never written in {self:?}");
        self.filled = len;
    }

    pub(crate) fn pool_id(&self) -> usize {
        self.pool.id()
    }

    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    fn raw_mut(&mut self) -> &mut [u8] {
        // SAFETY: the block alone owns these bytes, they are initialised, and `&mut self` keeps
        // everyone else out.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.capacity()) }
    }
}

// SAFETY: the bytes lie in a mapping that the pool keeps as long as the block exists, even a
// forgotten one, and each slot of the mapping belongs to one block.
unsafe impl dio_sys::fuse_ring::StableMemory for Block {
    fn address(&self) -> usize {
        self.start.as_ptr().addr()
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        Block::bytes_mut(self)
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let mut state = self.pool.lock();
        state.stale[self.slot] = self.stale;
        state.free.push(self.slot);
        let waited_for = state.serving != state.next_ticket;
        drop(state);
        if waited_for {
            self.pool.shared.returned.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_never_shows_what_an_earlier_user_left() {
        let pool = Pool::new(4096, 1).unwrap();
        let mut block = pool.try_take().unwrap();
        block.bytes_mut().fill(7);
        drop(block);
        let mut block = pool.try_take().unwrap();
        assert!(block.filled().is_empty());
        assert!(block.bytes_mut().iter().all(|byte| *byte == 0));
    }

    #[test]
    fn blocks_are_aligned_bounded_and_come_back() {
        let pool = Pool::new(5000, 3).unwrap();
        assert_eq!(pool.block_len(), 8192);
        let blocks = pool.take_many(3);
        assert!(blocks.iter().all(|block| block.start().as_ptr() as usize % BLOCK_ALIGN == 0));
        assert!(pool.try_take().is_none());
        drop(blocks);
        assert!(pool.try_take().is_some());
    }

    #[test]
    fn more_memory_than_there_are_addresses_is_refused() {
        for len in
            [usize::MAX - BLOCK_ALIGN + 1, usize::MAX - HUGE_PAGE_BYTES + 1, isize::MAX as usize]
        {
            Pool::new(len, 1).unwrap_err();
        }
    }

    #[test]
    fn large_takers_are_served_in_turn() {
        let pool = Pool::new(4096, 4).unwrap();
        let first = pool.take_many(1);
        let waiter = std::thread::spawn({
            let pool = pool.clone();
            move || pool.take_many(4).len()
        });
        while pool.lock().next_ticket != 2 {
            std::thread::yield_now();
        }
        assert!(pool.try_take().is_none(), "a small taker must not overtake");
        drop(first);
        assert_eq!(waiter.join().unwrap(), 4);
    }
}

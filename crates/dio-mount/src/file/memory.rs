//! Memory blocks for read-ahead and write-behind, within the limit of the mount, and a buffer for
//! each thread.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use dio::block::{Block, Pool};
use parking_lot::{Mutex, MutexGuard};

use crate::options::Live;
use crate::users::{Share, Users};

/// Sizes of blocks in bytes, small and large. The large size is that of the kernel's longest
/// request.
pub(super) const SIZES: [usize; 2] = [128 << 10, 1 << 20];

/// Index of the large size.
pub(super) const LARGE: usize = 1;

/// Bytes of blocks that are allocated at a time, if the limit allows it. Such an allocation gets
/// huge pages. These spare the device most of a request's segments, and the machine most of the
/// cost of new memory.
const SLAB: usize = 4 << 20;

/// A block that has not been used for this long goes back to the system.
const PATIENCE: Duration = Duration::from_secs(2);

/// The memory of a mount for blocks.
#[derive(Debug)]
pub(super) struct Memory {
    live: Live,
    /// Bytes of all blocks, in use or idle. Invariant: bytes that were reserved here before a block
    /// was allocated are given back when the block goes back to the system, and only then.
    bytes: AtomicU64,
    idle: Mutex<[Vec<(Block, Instant)>; 2]>,
    /// Bytes of the blocks that each user has in use.
    users: Arc<Users>,
}

/// A block in use. It becomes idle when dropped.
#[derive(Debug)]
pub(super) struct Chunk {
    /// Invariant: set until the chunk is dropped.
    block: Option<Block>,
    size: usize,
    memory: Arc<Memory>,
    _share: Share,
}

/// Memory that counts against the limit but is allocated elsewhere.
#[derive(Debug)]
pub(super) struct Reserved {
    bytes: u64,
    memory: Arc<Memory>,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.memory.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Memory {
    pub(super) fn new(live: Live) -> Arc<Memory> {
        Arc::new(Memory {
            live,
            bytes: AtomicU64::new(0),
            idle: Mutex::default(),
            users: Arc::default(),
        })
    }

    fn idle(&self) -> MutexGuard<'_, [Vec<(Block, Instant)>; 2]> {
        self.idle.lock()
    }

    /// Bytes of all blocks, and those reserved for others.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns a block of at least `len` bytes for a user, or of the largest size if that is less.
    /// Returns `None` if the limit, or the share that other users leave, allows no more; the caller
    /// then does without.
    pub(super) fn take(self: &Arc<Self>, user: u32, len: usize) -> Option<Chunk> {
        let size = usize::from(len > SIZES[0]);
        let share = self.users.take(user, SIZES[size] as u64, self.most())?;
        let found = self.idle()[size].pop();
        let block = match found {
            Some((block, _)) => block,
            None => self.make(size)?,
        };
        Some(Chunk { block: Some(block), size, memory: Arc::clone(self), _share: share })
    }

    /// Allocates blocks of a size, and returns one of them.
    fn make(&self, size: usize) -> Option<Block> {
        let many = SLAB / SIZES[size];
        let count = [many, 1]
            .into_iter()
            .find(|count| self.reserve((count * SIZES[size]) as u64).is_some())?;
        let Ok(pool) = Pool::new(SIZES[size], count) else {
            self.bytes.fetch_sub((count * SIZES[size]) as u64, Ordering::Relaxed);
            return None;
        };
        let mut blocks = pool.take_many(count);
        let first = blocks.pop();
        let now = Instant::now();
        self.idle()[size].extend(blocks.into_iter().map(|block| (block, now)));
        first
    }

    /// Counts memory that the caller allocates, until the result is dropped. Returns `None` if the
    /// limit does not allow it.
    pub(super) fn reserve_for(self: &Arc<Self>, bytes: usize) -> Option<Reserved> {
        self.reserve(bytes as u64)?;
        Some(Reserved { bytes: bytes as u64, memory: Arc::clone(self) })
    }

    /// Half of the limit is for blocks; the other half is for names, inodes, and the buffers of
    /// threads.
    fn most(&self) -> u64 {
        self.live.get().limit / 2
    }

    fn reserve(&self, bytes: u64) -> Option<()> {
        let limit = self.most();
        let take = |used: u64| Some(used + bytes).filter(|sum| *sum <= limit);
        if self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
            return Some(());
        }
        // Idle blocks, also of the other size, may take up the limit.
        self.release(Duration::ZERO);
        self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok().map(|_| ())
    }

    /// Gives blocks that have not been used for a while back to the system.
    pub(super) fn trim(&self) {
        self.release(PATIENCE);
    }

    fn release(&self, patience: Duration) {
        let mut gone = Vec::new();
        let mut idle = self.idle();
        for (blocks, size) in idle.iter_mut().zip(SIZES) {
            // The most recently used blocks are at the end.
            let old = blocks.partition_point(|(_, since)| since.elapsed() >= patience);
            self.bytes.fetch_sub((old * size) as u64, Ordering::Relaxed);
            gone.extend(blocks.drain(..old));
        }
        drop(idle);
    }
}

impl Chunk {
    fn block(&self) -> &Block {
        self.block.as_ref().expect("a chunk has its block until it is dropped")
    }

    /// The bytes that were put into the block.
    pub(super) fn bytes(&self) -> &[u8] {
        self.block().filled()
    }

    /// Size of the block in bytes.
    pub(super) fn room(&self) -> usize {
        self.block().capacity()
    }

    /// The whole block, for writing.
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        self.block.as_mut().expect("a chunk has its block until it is dropped").bytes_mut()
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        if let Some(block) = self.block.take() {
            self.memory.idle()[self.size].push((block, Instant::now()));
        }
    }
}

thread_local! {
    /// Aligned memory into which a request of this thread is read.
    static BUFFER: RefCell<Option<Block>> = const { RefCell::new(None) };
}

/// Calls `work` with `len` bytes of the thread's buffer, whose contents are undefined. Calls must
/// not be nested.
///
/// # Errors
/// There is no memory for a buffer.
pub(super) fn with_buffer<R>(len: usize, work: impl FnOnce(&mut [u8]) -> R) -> io::Result<R> {
    BUFFER.with_borrow_mut(|buffer| {
        if buffer.as_ref().is_none_or(|block| block.capacity() < len) {
            *buffer = None;
            *buffer = Pool::new(len.next_power_of_two().max(SIZES[0]), 1)?.try_take();
        }
        let block = buffer.as_mut().ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(work(&mut block.bytes_mut()[..len]))
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::settings;
    use super::*;

    const ROOT: u32 = 0;

    #[test]
    fn blocks_are_made_several_at_a_time() {
        let memory = Memory::new(Live::new(settings()));
        let one = memory.take(ROOT, SIZES[1]).unwrap();
        assert_eq!(
            (memory.bytes(), memory.idle()[LARGE].len()),
            (SLAB as u64, SLAB / SIZES[1] - 1)
        );
        let rest: Vec<_> =
            (1..SLAB / SIZES[1]).map(|_| memory.take(ROOT, SIZES[1]).unwrap()).collect();
        assert_eq!(memory.bytes(), SLAB as u64);
        drop((one, rest));
        memory.release(Duration::ZERO);
        assert_eq!(memory.bytes(), 0);
    }

    #[test]
    fn the_limit_holds_and_idle_blocks_make_room() {
        let mut settings = settings();
        settings.limit = 2 * (2 * SIZES[1] + SIZES[0]) as u64;
        let memory = Memory::new(Live::new(settings));
        let large: Vec<_> = (0..2).map(|_| memory.take(ROOT, SIZES[1]).unwrap()).collect();
        assert!(memory.take(ROOT, SIZES[1]).is_none());
        let small = memory.take(ROOT, 1).unwrap();
        assert!(memory.take(ROOT, 1).is_none());
        assert_eq!(memory.bytes(), (2 * SIZES[1] + SIZES[0]) as u64);
        drop(large);
        let again: Vec<_> = (0..9).map_while(|_| memory.take(ROOT, 1)).collect();
        assert_eq!(again.len(), 9, "idle large blocks were given up for small ones");
        drop((small, again));
        memory.release(Duration::ZERO);
        assert_eq!(memory.bytes(), 0);
    }

    #[test]
    fn one_user_leaves_half_to_the_others() {
        let mut settings = settings();
        settings.limit = 2 * 16 * SIZES[0] as u64;
        let memory = Memory::new(Live::new(settings));
        let own = rustix::process::geteuid().as_raw();
        let greedy: Vec<_> = (0..99).map_while(|_| memory.take(own + 1, 1)).collect();
        assert_eq!(greedy.len(), 8);
        let other: Vec<_> = (0..99).map_while(|_| memory.take(own + 2, 1)).collect();
        assert_eq!(other.len(), 4);
        drop(greedy);
        assert!(memory.take(own + 2, 1).is_some());
    }
}

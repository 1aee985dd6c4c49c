//! The copiers of large files. They are made on demand, within a limit on memory.

use std::sync::OnceLock;

use dio::geometry::align_up;
use dio::transfer::{Copier, blocks_for};
use dio::{File, Io, IoError, Limits};
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::super::error::CopyError;
use super::super::values::{MOST_BLOCK, MOST_BUFFERS};

/// Size of one request in bytes, and number of requests in flight. Measured on the machine that the
/// README names: from 512 KiB × 32 to 8 MiB × 4 the copy runs at the disk's limit, so the
/// combination with the least memory is used.
const BLOCK: usize = 1 << 20;
const DEPTH: usize = 16;

/// The size of a block is rounded up to whole pages.
const PAGE: u64 = 4096;

/// A set of copiers that are made on demand. One worker uses a copier at a time.
#[derive(Debug)]
pub(super) struct Copiers {
    block: usize,
    depth: usize,
    /// The depth was given by an option.
    fixed: bool,
    io: OnceLock<Result<Io, IoError>>,
    state: Mutex<IdleCopiers>,
    returned: Condvar,
}

#[derive(Debug, Default)]
struct IdleCopiers {
    idle: Vec<Copier>,
    /// Bytes of the blocks of all copiers, and their maximum so far.
    bytes: usize,
    most: usize,
}

impl Copiers {
    /// Makes a set whose copiers have blocks of `block` bytes, `depth` of them, or fewer if they
    /// would exceed the limit on memory.
    pub(super) fn new(block: Option<u64>, depth: Option<u32>) -> Copiers {
        let block =
            block.map_or(BLOCK, |block| align_up(block.clamp(1, MOST_BLOCK), PAGE) as usize);
        Copiers {
            block,
            depth: depth.map_or(DEPTH, |depth| depth as usize).min(MOST_BUFFERS / block).max(1),
            fixed: depth.is_some(),
            io: OnceLock::new(),
            state: Mutex::default(),
            returned: Condvar::new(),
        }
    }

    /// The shared I/O engine. It is made when the first large file is copied, so that a copy of
    /// small files does not pay for it.
    pub(super) fn io(&self) -> Option<&Io> {
        self.try_io().ok()
    }

    pub(super) fn try_io(&self) -> Result<&Io, CopyError> {
        let made =
            self.io.get_or_init(|| Io::new(Limits { bounce_blocks: 32, ..Limits::default() }));
        made.as_ref().map_err(|error| CopyError::Engine(error.to_string()))
    }

    /// Maximum total size of all buffers so far, in bytes, bounce memory included.
    pub(super) fn bytes(&self) -> u64 {
        let bounce = self.io.get().and_then(|io| io.as_ref().ok()).map_or(0, |io| {
            let limits = io.limits();
            (limits.bounce_block * limits.bounce_blocks) as u64
        });
        self.lock().most as u64 + bounce
    }

    /// Size of one block in bytes.
    pub(super) fn block(&self) -> usize {
        self.block
    }

    fn lock(&self) -> MutexGuard<'_, IdleCopiers> {
        self.state.lock()
    }

    /// Calls `work` with a copier that suits these files. If the memory limit is reached, waits for
    /// another copier to be returned.
    pub(super) fn with<T>(
        &self,
        (source, target): (&File, Option<&File>),
        work: impl FnOnce(&mut Copier) -> Result<T, CopyError>,
    ) -> Result<T, CopyError> {
        let blocks = match self.fixed {
            true => self.depth,
            false => blocks_for(source, target, self.block, self.depth, MOST_BUFFERS),
        };
        self.lend(blocks, work)
    }

    /// Calls `work` with a copier that has at least `blocks` blocks.
    pub(super) fn lend<T>(
        &self,
        blocks: usize,
        work: impl FnOnce(&mut Copier) -> Result<T, CopyError>,
    ) -> Result<T, CopyError> {
        let wanted = self.block.saturating_mul(blocks);
        let mut state = self.lock();
        let copier = loop {
            if let Some(index) = state.idle.iter().position(|copier| copier.blocks() >= blocks) {
                let copier = state.idle.swap_remove(index);
                drop(state);
                break copier;
            }
            // All idle copiers have too few blocks, so they are freed as long as memory is short.
            while state.bytes.saturating_add(wanted) > MOST_BUFFERS
                && let Some(small) = state.idle.pop()
            {
                state.bytes -= small.blocks() * self.block;
            }
            if state.bytes == 0 || state.bytes.saturating_add(wanted) <= MOST_BUFFERS {
                state.bytes += wanted;
                state.most = state.most.max(state.bytes);
                drop(state);
                break self.make(blocks)?;
            }
            self.returned.wait(&mut state);
        };
        let mut lent = CopierInUse { copiers: self, blocks: copier.blocks(), copier: Some(copier) };
        work(lent.copier.as_mut().expect("it is lent until it is dropped"))
    }

    /// Makes a copier whose memory is already counted in `bytes`. If that fails, subtracts it
    /// again.
    fn make(&self, blocks: usize) -> Result<Copier, CopyError> {
        let copier = self.try_io().and_then(|io| {
            Copier::new(io, self.block, blocks)
                .map_err(|error| CopyError::Engine(error.to_string()))
        });
        if copier.is_err() {
            self.lock().bytes -= blocks * self.block;
            self.returned.notify_all();
        }
        copier
    }
}

/// A copier in use. It is returned when dropped, even by a panic, because others may wait for it.
struct CopierInUse<'a> {
    copiers: &'a Copiers,
    blocks: usize,
    copier: Option<Copier>,
}

impl Drop for CopierInUse<'_> {
    fn drop(&mut self) {
        let copier = self.copier.take();
        // A panic may leave the copier in an inconsistent state, so it is discarded. A new one can
        // then be made.
        let whole = copier.filter(|_| !std::thread::panicking());
        let mut state = self.copiers.lock();
        match whole {
            Some(copier) => state.idle.push(copier),
            None => state.bytes -= self.blocks * self.copiers.block,
        }
        drop(state);
        // All waiters are woken: one may need more blocks than are free, while another can go on.
        self.copiers.returned.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copier_lost_in_a_panic_is_made_anew() {
        let copiers = Copiers::new(Some(1 << 20), Some(MOST_BUFFERS as u32 >> 20));
        let most = MOST_BUFFERS >> 20;
        let lose = || copiers.lend(most, |_| -> Result<(), CopyError> { panic!("on purpose") });
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(lose)).unwrap_err();
        // The limit allows only one such copier, so the next call would wait for the lost one
        // forever.
        copiers.lend(most, |_| Ok(())).unwrap();
        copiers.lend(most, |_| Ok(())).unwrap();
        let state = copiers.lock();
        assert_eq!((state.bytes, state.idle.len()), (MOST_BUFFERS, 1));
    }

    /// Copiers of different sizes together stay within the limit, however many threads wait, and
    /// every thread gets a turn.
    #[test]
    fn copiers_of_different_sizes_share_the_memory() {
        let copiers = &Copiers::new(Some(1 << 20), None);
        let sizes = [16, 40, 16, 48, 24, 1, 32, 16];
        std::thread::scope(|scope| {
            for (turn, blocks) in sizes.into_iter().cycle().take(32).enumerate() {
                scope.spawn(move || {
                    let lent = copiers.lend(blocks, |copier| {
                        assert!(copier.blocks() >= blocks);
                        assert!(copiers.lock().bytes <= MOST_BUFFERS);
                        std::thread::sleep(std::time::Duration::from_millis(turn as u64 % 3));
                        Ok(())
                    });
                    lent.unwrap();
                });
            }
        });
        let state = copiers.lock();
        assert!(state.most <= MOST_BUFFERS, "{} bytes", state.most);
        assert_eq!(
            state.idle.iter().map(|copier| copier.blocks() << 20).sum::<usize>(),
            state.bytes
        );
    }
}

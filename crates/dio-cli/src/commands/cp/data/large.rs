//! Large files: the library's copy loop, with a bounded number of copiers shared by the workers.

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;

use dio::file::Reason;
use dio::geometry::align_up;
use dio::transfer::{Contents as Whole, Copier, Sparse, TransferError, Watch, blocks_for};
use dio::{File, Io, IoError, Limits, Need, OpenOptions};
use parking_lot::{Condvar, Mutex, MutexGuard};
use rustix::fs::FileType;
use rustix::io::{Errno, fcntl_dupfd_cloexec};

use super::super::error::CopyError;
use super::super::open::OpenTarget;
use super::super::values::{MOST_BLOCK, MOST_BUFFERS};
use super::verify::Digests;
use super::{DataPath, Lane, Task};
use crate::tool::{Mode, When};

/// Size of one request in bytes, and requests in flight. Measured on the machine the README names: from 512 KiB × 32 to
/// 8 MiB × 4 the copy runs at the disk's limit, so the smallest memory that does is taken.
const BLOCK: usize = 1 << 20;
const DEPTH: usize = 16;

/// Blocks are whole pages of memory.
const PAGE: u64 = 4096;

/// Copiers, made as they are needed, each used by one worker at a time.
#[derive(Debug)]
pub(super) struct Copiers {
    block: usize,
    depth: usize,
    /// The depth was asked for.
    fixed: bool,
    io: OnceLock<Result<Io, IoError>>,
    state: Mutex<State>,
    returned: Condvar,
}

#[derive(Debug, Default)]
struct State {
    idle: Vec<Copier>,
    /// Bytes of the blocks of all copiers, and the most that they have been.
    bytes: usize,
    most: usize,
}

impl Copiers {
    /// Copiers of so many blocks of so many bytes; fewer where they would exceed the bound on memory.
    pub(super) fn new(block: Option<u64>, depth: Option<u32>) -> Copiers {
        let block = block.map_or(BLOCK, |block| align_up(block.clamp(1, MOST_BLOCK), PAGE) as usize);
        Copiers {
            block,
            depth: depth.map_or(DEPTH, |depth| depth as usize).min(MOST_BUFFERS / block).max(1),
            fixed: depth.is_some(),
            io: OnceLock::new(),
            state: Mutex::default(),
            returned: Condvar::new(),
        }
    }

    /// The shared I/O, made when the first large file comes: a small copy does not pay for it.
    pub(super) fn io(&self) -> Option<&Io> {
        self.try_io().ok()
    }

    pub(super) fn try_io(&self) -> Result<&Io, CopyError> {
        let made = self.io.get_or_init(|| Io::new(Limits { bounce_blocks: 32, ..Limits::default() }));
        made.as_ref().map_err(|error| CopyError::Engine(error.to_string()))
    }

    /// Most bytes of all buffers so far, bounce memory included.
    pub(super) fn bytes(&self) -> u64 {
        let bounce = self.io.get().and_then(|io| io.as_ref().ok()).map_or(0, |io| {
            let limits = io.limits();
            (limits.bounce_block * limits.bounce_blocks) as u64
        });
        self.lock().most as u64 + bounce
    }

    /// Bytes of one block.
    pub(super) fn block(&self) -> usize {
        self.block
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Lends a copier that suits these files to `work`, waiting for memory if as much as is allowed is in use.
    fn with<T>(
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

    /// Lends a copier of at least so many blocks.
    fn lend<T>(&self, blocks: usize, work: impl FnOnce(&mut Copier) -> Result<T, CopyError>) -> Result<T, CopyError> {
        let wanted = self.block.saturating_mul(blocks);
        let mut state = self.lock();
        let copier = loop {
            if let Some(index) = state.idle.iter().position(|copier| copier.blocks() >= blocks) {
                let copier = state.idle.swap_remove(index);
                drop(state);
                break copier;
            }
            // Those that are idle have too few blocks.
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
        let mut lent = Lent { copiers: self, blocks: copier.blocks(), copier: Some(copier) };
        work(lent.copier.as_mut().expect("it is lent until it is dropped"))
    }

    /// A copier whose memory is accounted for already.
    fn make(&self, blocks: usize) -> Result<Copier, CopyError> {
        let copier = self
            .try_io()
            .and_then(|io| Copier::new(io, self.block, blocks).map_err(|error| CopyError::Engine(error.to_string())));
        if copier.is_err() {
            self.lock().bytes -= blocks * self.block;
            self.returned.notify_all();
        }
        copier
    }
}

/// A copier in use, which goes back however its use ends: others may wait for it.
struct Lent<'a> {
    copiers: &'a Copiers,
    blocks: usize,
    copier: Option<Copier>,
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let copier = self.copier.take();
        // What a panic left half done is not used again; another may be made in its place.
        let whole = copier.filter(|_| !std::thread::panicking());
        let mut state = self.copiers.lock();
        match whole {
            Some(copier) => state.idle.push(copier),
            None => state.bytes -= self.blocks * self.copiers.block,
        }
        drop(state);
        // One who needs more may still have to wait while another need not.
        self.copiers.returned.notify_all();
    }
}

/// Lets a scan end when the run is to stop.
struct Stoppable<'a> {
    data: &'a DataPath,
    watch: &'a mut dyn Watch,
}

impl Watch for Stoppable<'_> {
    fn read(&mut self, offset: u64, bytes: &[u8]) {
        self.watch.read(offset, bytes);
    }

    fn stopped(&self) -> bool {
        self.data.stopped()
    }
}

/// Passes on what a transfer tells.
struct Watcher<'a> {
    data: &'a DataPath,
    digests: Option<&'a mut Digests>,
}

impl Watch for Watcher<'_> {
    fn read(&mut self, offset: u64, bytes: &[u8]) {
        if let Some(digests) = &mut self.digests {
            digests.add(offset, bytes);
        }
    }

    fn written(&mut self, bytes: u64) {
        self.data.progress.add(bytes);
    }

    fn stopped(&self) -> bool {
        self.data.stopped()
    }
}

impl DataPath {
    /// How files are opened under the options.
    pub(super) fn open_options(&self) -> Result<OpenOptions, CopyError> {
        let mode = match self.transfer.mode {
            Mode::Auto | Mode::Direct => dio::Mode::Direct,
            Mode::Uncached => dio::Mode::Uncached,
            Mode::Cached => dio::Mode::Cached,
        };
        let need = if self.transfer.strict { Need::Required } else { Need::Preferred };
        let mut options = OpenOptions::new();
        options.mode(mode).need(need).io(self.copiers.try_io()?);
        Ok(options)
    }

    /// Source and target as the copy loop takes them; none where there are too few descriptors for that.
    fn open_large(&self, task: &Task<'_>, target: &OpenTarget) -> Result<Option<(File, File)>, CopyError> {
        let contents = task.contents;
        let own = |fd: &OwnedFd| fcntl_dupfd_cloexec(fd, 3);
        let (source, file) = match (own(&task.source), own(&target.fd)) {
            (Ok(source), Ok(file)) => (source, file),
            (Err(Errno::MFILE), _) | (_, Err(Errno::MFILE)) => return Ok(None),
            (Err(errno), _) | (_, Err(errno)) => return Err(CopyError::Engine(crate::quote::words(errno))),
        };
        let source = self.open_options()?.read(true).adopt(source, contents.source_path());
        let file = self.open_options()?.write(true).adopt(file, contents.target_path());
        match (source, file) {
            (Ok(source), Ok(file)) => Ok(Some((source, file))),
            (Err(error), _) | (_, Err(error)) if error.errno() == Errno::MFILE => Ok(None),
            (Err(error), _) | (_, Err(error)) => Err(error.into()),
        }
    }

    /// Copies a file through the copy loop.
    pub(super) fn copy_large(&self, lane: &mut Lane, task: &Task<'_>, target: &OpenTarget) -> Result<(), CopyError> {
        let contents = task.contents;
        if let Some(reason) = self.copiers.try_io()?.engine_reason() {
            self.tell(contents.report, &format!("io_uring is not used: {reason}; threads are"), None);
        }
        let Some((source, file)) = self.open_large(task, target)? else {
            return self.copy_with_few_descriptors(lane, task, target);
        };
        let device = FileType::from_raw_mode(contents.stat.st_mode) == FileType::BlockDevice;
        let size = if device { source.size()? } else { contents.stat.st_size as u64 };
        let whole = Whole {
            source: &source,
            target: &file,
            size,
            start: 0,
            sparse: match self.transfer.sparse {
                When::Auto => Sparse::Auto,
                When::Always => Sparse::Always,
                When::Never => Sparse::Never,
            },
            pace: self.pace.as_ref(),
        };
        let mut digests = self.transfer.verify.then(Digests::default);
        let moved = self.move_large(task, target, &whole, &mut digests);
        // What was moved before an error is accounted for and leaves no pages behind either.
        let settled = file.settle().and(source.settle());
        task.account.moved(&source.counters(), &file.counters(), moved.as_ref().map_or(0, |holes| *holes));
        moved?;
        settled?;
        if file.layout().is_some() && (self.durable || self.sync_each) {
            // Its bytes are on file systems of their own.
            file.sync_all()?;
            self.ledger.count_syncs(1);
        }
        task.digests.replace(digests);
        for (file, class) in [(&source, source.read_class()), (&file, file.write_class())] {
            if let (_, Some(reason @ (Reason::NoDirectIo | Reason::KernelBuffers))) = class {
                self.tell(contents.report, reason.text(), Some(file.path()));
            }
        }
        Ok(())
    }

    /// The part of [`DataPath::copy_large`] that moves bytes; returns the bytes of holes.
    fn move_large(
        &self,
        task: &Task<'_>,
        target: &OpenTarget,
        whole: &Whole<'_>,
        digests: &mut Option<Digests>,
    ) -> Result<u64, CopyError> {
        // Of a striped file there is no note of how far it got.
        if self.transfer.resume && !whole.target.is_device() && whole.target.layout().is_none() {
            return self.copy_resumably(task, target, whole, digests);
        }
        self.empty(task, target)?;
        let mut watcher = Watcher { data: self, digests: digests.as_mut() };
        let files = (whole.source, Some(whole.target));
        let copied = self.copiers.with(files, |copier| Ok(copier.copy_contents(whole, &mut watcher)?))?;
        if let Some(digests) = digests {
            digests.ranges = copied.ranges;
        }
        Ok(copied.holes)
    }

    /// Runs a transfer of some ranges, telling the watchers.
    pub(super) fn run_job(
        &self,
        job: &dio::transfer::Job<'_>,
        digests: Option<&mut Digests>,
    ) -> Result<u64, (CopyError, u64)> {
        let mut watcher = Watcher { data: self, digests };
        let mut complete = 0;
        let outcome = self.copiers.with((job.source, job.target), |copier| {
            let outcome = copier.run(job, &mut watcher);
            complete = copier.complete();
            Ok(outcome?)
        });
        outcome.map(|()| complete).map_err(|error| (error, complete))
    }

    /// Reads ranges of a file, showing every byte to `watch`.
    pub(super) fn scan(&self, file: &File, ranges: &[Range<u64>], watch: &mut dyn Watch) -> Result<(), CopyError> {
        let job = dio::transfer::Job { source: file, target: None, ranges, pace: None, skip_zeros: false };
        let mut watch = Stoppable { data: self, watch };
        self.copiers.with((file, None), |copier| Ok(copier.run(&job, &mut watch)?))
    }
}

impl From<TransferError> for CopyError {
    fn from(error: TransferError) -> CopyError {
        match error {
            TransferError::Stopped => CopyError::Interrupted,
            other => CopyError::Transfer(other.to_string()),
        }
    }
}

impl From<dio::FileError> for CopyError {
    fn from(error: dio::FileError) -> CopyError {
        CopyError::Transfer(error.to_string())
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
        // There may be one at most, so the next one would wait for the one that was lost.
        copiers.lend(most, |_| Ok(())).unwrap();
        copiers.lend(most, |_| Ok(())).unwrap();
        let state = copiers.lock();
        assert_eq!((state.bytes, state.idle.len()), (MOST_BUFFERS, 1));
    }

    /// Whatever they ask for, and however they wait for each other, all copiers together stay within the bound, and everybody has
    /// his turn.
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
        assert_eq!(state.idle.iter().map(|copier| copier.blocks() << 20).sum::<usize>(), state.bytes);
    }
}

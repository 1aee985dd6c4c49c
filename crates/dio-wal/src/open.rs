//! Opening a log: locking, recovery, and the parts of the log put together.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::Arc;

use dio::block::Pool;
use dio::geometry::align_up;
use parking_lot::{Condvar, Mutex};

use crate::allocator::SegmentAllocator;
use crate::error::WalError;
use crate::format::{Identity, Layout, SegmentHeader, segment_name};
use crate::group_commit::{GroupCommit, MANY};
use crate::identify::identify;
use crate::inner::LogInner;
use crate::listing::{Listing, unfinished_name};
use crate::log_end::LogEnd;
use crate::options::{Options, TornWrites};
use crate::recovery::{RecoveredLog, Recovery, recover};
use crate::segments::Segments;
use crate::storage::{AtomicWrites, Storage};
use crate::sync;
use crate::tail::Tail;
use crate::writer::{BackgroundWork, Writer};

/// Buffers of a log beyond the buffers that are written in the background: one that records are
/// copied into, one that a commit writes, and one more of each so that no thread waits for memory.
const EXTRA_BUFFERS: usize = 4;
/// Largest buffer in bytes.
const BUFFER_BYTES_MAX: usize = 1 << 30;
/// Threads that write full buffers in the background, at most.
pub(crate) const WRITE_BEHIND_THREADS_MAX: usize = 256;
/// Smallest block that is chosen for a new log, in bytes.
const BLOCK_BYTES_CHOSEN_MIN: u64 = 512;

/// A log that was opened. Its threads are not started yet.
pub(crate) struct OpenedLog {
    pub(crate) inner: LogInner,
    pub(crate) recovery: Recovery,
    pub(crate) lock: StorageLock,
}

/// The lock of a storage, which is released when this is dropped.
pub(crate) struct StorageLock(Arc<dyn Storage>);

impl StorageLock {
    fn acquire(storage: &Arc<dyn Storage>) -> Result<StorageLock, WalError> {
        match storage.lock().map_err(|error| WalError::io("lock", ".", None, error))? {
            true => Ok(StorageLock(Arc::clone(storage))),
            false => Err(WalError::InUse),
        }
    }
}

impl Drop for StorageLock {
    fn drop(&mut self) {
        self.0.unlock();
    }
}

/// Locks the storage, and recovers the log in it or makes a new one.
///
/// # Errors
/// See [`crate::Log::open`].
pub(crate) fn open(storage: &Arc<dyn Storage>, options: &Options) -> Result<OpenedLog, WalError> {
    let lock = StorageLock::acquire(storage)?;
    let listing = Listing::of(&**storage)?;
    let (segments, recovered) = match listing.segments.last() {
        Some(last) => open_existing(storage, *last, &listing)?,
        None => open_new(storage, options)?,
    };
    for name in &listing.unfinished {
        storage.delete(name).map_err(|error| WalError::io("remove", name, None, error))?;
    }
    // The names of spares may not be durable yet.
    storage.sync().map_err(|error| WalError::io("sync", ".", None, error))?;
    let next = listing.segments.last().map_or(0, |last| last + 1);
    let allocator = SegmentAllocator::new(Arc::clone(&segments), next, listing.spares, options);
    allocator.segment(recovered.first)?;
    // Truncated segments whose removal was not durable are removed again.
    allocator.retire(
        listing.segments.iter().copied().filter(|number| *number < recovered.first),
        &mut 0,
    )?;
    let recovery = recovered.recovery;
    let inner = assemble(segments, Arc::new(allocator), recovered, options)?;
    Ok(OpenedLog { inner, recovery, lock })
}

fn assemble(
    segments: Arc<Segments>,
    allocator: Arc<SegmentAllocator>,
    recovered: RecoveredLog,
    options: &Options,
) -> Result<LogInner, WalError> {
    let RecoveredLog { end, first, .. } = recovered;
    let layout = segments.layout;
    let buffer_bytes =
        align_up(options.buffer_bytes.clamp(1, BUFFER_BYTES_MAX) as u64, layout.block_bytes());
    let buffer_bytes = buffer_bytes.min(layout.data_bytes());
    let buffers = options.write_behind_buffers.min(WRITE_BEHIND_THREADS_MAX) + EXTRA_BUFFERS;
    let mut incarnation = [0; 8];
    let random = segments.storage.fill_random(&mut incarnation);
    random.map_err(|error| WalError::io("get random numbers for", ".", None, error))?;
    let incarnation = u64::from_le_bytes(incarnation);
    let group = Arc::new(GroupCommit::new(end.end, MANY, WalError::panicked));
    let background =
        BackgroundWork { prepare: options.prepare_in_background, zeros: options.zeros_ahead };
    let continues_blocks = can_rewrite_blocks(&segments, &allocator, end.end, options.torn_writes)?;
    Ok(LogInner {
        writer: Writer::new(
            layout,
            buffer_bytes,
            buffers,
            Arc::clone(&allocator),
            Arc::clone(&group),
            background,
        )?,
        tail: sync::Mutex::new(Tail::new(
            layout,
            segments.identity,
            incarnation,
            continues_blocks,
            end,
        )),
        segments,
        allocator,
        group,
        oldest: Mutex::new(first),
        commit_delay: options.commit_delay,
        closing: Mutex::default(),
        closed: Condvar::new(),
        flusher: Mutex::default(),
    })
}

/// Whether the log may rewrite a block atomically. If the storage claims that it can, an atomic
/// write is tried: it overwrites the header of the segment that holds `end` with the same bytes.
fn can_rewrite_blocks(
    segments: &Segments,
    allocator: &SegmentAllocator,
    end: u64,
    torn_writes: TornWrites,
) -> Result<bool, WalError> {
    let (number, block) = (segments.layout.segment_of(end), segments.layout.block_bytes());
    let file = allocator.segment(number)?;
    match (torn_writes, file.atomic_writes(block)) {
        (TornWrites::Auto, AtomicWrites::Hardware)
        | (TornWrites::Atomic, AtomicWrites::Hardware | AtomicWrites::Software) => {}
        _ => return Ok(false),
    }
    let pool = Pool::new(block as usize, 1)
        .map_err(|error| WalError::io("map memory for", ".", None, error))?;
    let mut memory = pool.try_take().expect("a new pool has its block");
    let header = &mut memory.bytes_mut()[..block as usize];
    let failed =
        |operation| move |error| WalError::io(operation, &segment_name(number), Some(0), error);
    file.read_at(header, 0).map_err(failed("read"))?;
    match file.write_atomic(header, 0, false) {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::InvalidInput) => {
            Ok(false)
        }
        Err(error) => Err(failed("write")(error)),
    }
}

fn open_existing(
    storage: &Arc<dyn Storage>,
    last: u64,
    listing: &Listing,
) -> Result<(Arc<Segments>, RecoveredLog), WalError> {
    let header = identify(&**storage, last)?;
    let name = segment_name(last);
    let sizes = storage.block_sizes(&name);
    let sizes = sizes.map_err(|error| WalError::io("ask for the blocks of", &name, None, error))?;
    if header.layout.block_bytes() % sizes.min != 0 {
        let (block, min) = (header.layout.block_bytes(), sizes.min);
        let text = format!(
            "the log has blocks of {block} bytes, and direct I/O needs {min} here: open it without"
        );
        return Err(WalError::Options(text));
    }
    let segments = Arc::new(Segments::new(Arc::clone(storage), &header, true));
    let recovered = recover(&segments, listing)?;
    Ok((segments, recovered))
}

/// Begins a log that does not exist yet. The allocator makes its first segment.
fn open_new(
    storage: &Arc<dyn Storage>,
    options: &Options,
) -> Result<(Arc<Segments>, RecoveredLog), WalError> {
    let name = unfinished_name(0);
    let failed = |operation| move |error| WalError::io(operation, &unfinished_name(0), None, error);
    drop(storage.create(&name).map_err(failed("create"))?);
    let sizes = storage.block_sizes(&name).map_err(failed("ask for the blocks of"))?;
    let block = options.block_bytes.map_or(sizes.preferred.max(BLOCK_BYTES_CHOSEN_MIN), u64::from);
    let layout =
        u32::try_from(block).ok().and_then(|block| Layout::new(block, options.segment_bytes).ok());
    let Some(layout) = layout.filter(|layout| layout.block_bytes() % sizes.min == 0) else {
        let (segment, min) = (options.segment_bytes, sizes.min);
        let text = format!(
            "a log cannot have blocks of {block} and segments of {segment} bytes here (direct I/O: \
             {min})"
        );
        return Err(WalError::Options(text));
    };
    let mut identity = [0; 16];
    storage.fill_random(&mut identity).map_err(failed("get random numbers for"))?;
    let header = SegmentHeader { layout, identity: Identity(identity), number: 0 };
    let segments = Arc::new(Segments::new(Arc::clone(storage), &header, true));
    let end = LogEnd { end: 0, chain: 0, start: 0, ended: true, first_marks: BTreeMap::new() };
    Ok((segments, RecoveredLog { recovery: Recovery::default(), end, first: 0 }))
}

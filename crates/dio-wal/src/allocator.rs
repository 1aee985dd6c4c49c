//! Making segments, and reusing truncated ones.
//!
//! A segment exists before any record gets an LSN in it. So where there is no space for another
//! segment, the append that needs it fails, everything appended before can still be committed, and
//! appending works again as soon as there is space.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dio::block::{Block, Pool};

use crate::error::WalError;
use crate::format::{SegmentHeader, segment_name};
use crate::listing::{spare_name, unfinished_name};
use crate::options::{Options, Preallocate};
use crate::segments::Segments;
use crate::storage::SegmentFile;
use crate::sync::{Condvar, Mutex, MutexGuard};

/// Bytes of zeros that fill a new segment with one write.
const FILL_BYTES: usize = 1 << 20;

/// Makes the segments of a log one after the other, without gaps.
pub(crate) struct SegmentAllocator {
    segments: Arc<Segments>,
    /// How many spare segments are kept.
    spares_max: usize,
    /// Whether new segments are filled with zeros even where their space can be allocated.
    fill: bool,
    /// A copy of [`AllocatorState::next`] that is read without the lock.
    next: AtomicU64,
    state: Mutex<AllocatorState>,
    changed: Condvar,
}

struct AllocatorState {
    /// Number of the next segment to make. Invariant: every segment below it that was not truncated
    /// has its file, with a durable name.
    next: u64,
    /// A thread is making segment `next`.
    making: bool,
    /// Names of spare segments. Invariant: these names are durable.
    spares: Vec<String>,
    /// Numbers of segments whose whole space has been written: the segments that were recycled or
    /// filled with zeros since this opening of the log.
    written: BTreeSet<u64>,
    /// The background thread makes the segments below this number.
    requested_end: u64,
    /// The segment that the background thread failed to make. Only an append that needs it tries
    /// again.
    refused: Option<u64>,
    /// Set when a sync of the directory has failed, because the name of a segment may then not be
    /// durable even if later syncs succeed. Also set when a thread has panicked while it made a
    /// segment. Invariant: it never changes once it is set.
    broken: Option<WalError>,
    closed: bool,
}

impl SegmentAllocator {
    /// The allocator of a log whose next segment is `next`.
    pub(crate) fn new(
        segments: Arc<Segments>,
        next: u64,
        spares: Vec<String>,
        options: &Options,
    ) -> SegmentAllocator {
        let state = AllocatorState {
            next,
            making: false,
            spares,
            written: BTreeSet::new(),
            requested_end: 0,
            refused: None,
            broken: None,
            closed: false,
        };
        SegmentAllocator {
            segments,
            spares_max: options.spares_max,
            fill: options.preallocate == Preallocate::Zeros,
            next: AtomicU64::new(next),
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    /// Opens segment `number`. Makes it first if it does not exist yet.
    ///
    /// # Errors
    /// Errors of the storage.
    pub(crate) fn segment(&self, number: u64) -> Result<Arc<dyn SegmentFile>, WalError> {
        if !self.was_made(number) {
            self.make_up_to(number)?;
        }
        let missing = || WalError::missing(&self.segments.layout, number);
        self.segments.get(number)?.ok_or_else(missing)
    }

    /// Whether segment `number` was made.
    pub(crate) fn was_made(&self, number: u64) -> bool {
        number < self.next.load(Ordering::Acquire)
    }

    /// Whether all space of a segment is known to be written, so that a commit into it changes no
    /// metadata. Returns `false` for a segment that an earlier opening of the log made, because
    /// nothing is known about its space.
    pub(crate) fn is_written(&self, number: u64) -> bool {
        self.lock().written.contains(&number)
    }

    /// The error because of which no segment can be made durably any more; `None` if there is none.
    pub(crate) fn broken(&self) -> Option<WalError> {
        self.lock().broken.clone()
    }

    /// Makes the segments up to and including `number`.
    ///
    /// # Errors
    /// Errors of the storage. Unless the allocator is [`broken`](Self::broken), nothing else is
    /// affected and the call can be repeated.
    pub(crate) fn make_up_to(&self, number: u64) -> Result<(), WalError> {
        let mut state = self.lock();
        while state.next <= number {
            if let Some(broken) = &state.broken {
                return Err(broken.clone());
            }
            if state.making {
                self.changed.wait(&mut state);
                continue;
            }
            state.making = true;
            let (next, spare) = (state.next, state.spares.pop());
            drop(state);
            let making = SegmentInProgress(self);
            let made = self.make(next, spare);
            let named = made.as_ref().ok().map(|_| {
                // A segment whose name is not durable must not be used: a power cut would lose the
                // records that were acknowledged in it.
                self.segments.storage.sync().map_err(|error| WalError::io("sync", ".", None, error))
            });
            state = making.end();
            if let Some(Err(error)) = &named {
                state.broken = Some(error.clone());
            } else if let Ok(written) = made {
                state.next += 1;
                state.refused = None;
                if written {
                    state.written.insert(next);
                }
                self.next.store(state.next, Ordering::Release);
            }
            self.changed.notify_all();
            made?;
            named.transpose()?;
        }
        Ok(())
    }

    /// Requests that the background thread makes the segment behind `number`.
    pub(crate) fn request_next(&self, number: u64) {
        // Most writes find that segment made, and need not lock.
        if self.was_made(number + 1) {
            return;
        }
        let mut state = self.lock();
        if state.requested_end < number + 2 && state.refused != Some(number + 1) {
            state.requested_end = number + 2;
            self.changed.notify_all();
        }
    }

    /// Makes requested segments until the log is closed. The background thread runs this.
    pub(crate) fn run(&self) {
        loop {
            let mut state = self.lock();
            while state.next >= state.requested_end && !state.closed {
                self.changed.wait(&mut state);
            }
            if state.closed {
                return;
            }
            let number = state.requested_end - 1;
            drop(state);
            if self.make_up_to(number).is_err() {
                let mut state = self.lock();
                state.requested_end = 0;
                state.refused = Some(state.next);
            }
        }
    }

    /// Ends [`SegmentAllocator::run`].
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// Makes one segment and names it. Its header and contents are durable before it gets its name.
    /// Returns whether all its space is written.
    ///
    /// A segment that cannot be finished is removed: on a full file system it occupies the space
    /// that was left.
    fn make(&self, number: u64, spare: Option<String>) -> Result<bool, WalError> {
        let storage = &self.segments.storage;
        let recycled = match spare {
            Some(spare) => self
                .reuse(number, &spare)
                .inspect_err(|_| drop(storage.delete(&spare)))?
                .then_some(spare),
            None => None,
        };
        let (finished, written) = match recycled {
            Some(spare) => (spare, true),
            None => {
                let name = unfinished_name(number);
                let written = self.make_new(number).inspect_err(|_| drop(storage.delete(&name)))?;
                (name, written)
            }
        };
        let named = storage.rename(&finished, &segment_name(number));
        let named = named.inspect_err(|_| drop(storage.delete(&finished)));
        named.map_err(|error| WalError::io("rename", &finished, None, error))?;
        Ok(written)
    }

    /// Turns a spare segment into segment `number`. If it has the wrong size, removes it and
    /// returns `false`.
    fn reuse(&self, number: u64, spare: &str) -> Result<bool, WalError> {
        let storage = &self.segments.storage;
        let failed = |operation| move |error| WalError::io(operation, spare, None, error);
        let file = storage.open(spare, true).map_err(failed("open"))?;
        if file.size().map_err(failed("ask the size of"))? != self.segments.layout.segment_bytes() {
            drop(file);
            storage.delete(spare).map_err(failed("remove"))?;
            return Ok(false);
        }
        let mut memory = new_block(self.segments.layout.block_bytes() as usize)?;
        self.write_header(&*file, number, &mut memory).map_err(failed("write"))?;
        file.sync_all().map_err(failed("sync"))?;
        Ok(true)
    }

    /// Makes the file of segment `number`. If the storage can allocate space and the options do not
    /// ask for zeros, writes only the header and returns `false`. Otherwise fills the file with
    /// zeros and returns `true`.
    fn make_new(&self, number: u64) -> Result<bool, WalError> {
        let failed =
            |operation| move |error| WalError::io(operation, &unfinished_name(number), None, error);
        let (block, segment) =
            (self.segments.layout.block_bytes(), self.segments.layout.segment_bytes());
        let file =
            self.segments.storage.create(&unfinished_name(number)).map_err(failed("create"))?;
        let allocated = file.allocate(segment).map_err(failed("allocate space for"))?;
        let fill = self.fill || !allocated;
        let mut memory =
            new_block(if fill { FILL_BYTES.max(block as usize) } else { block as usize })?;
        if fill {
            let step = memory.capacity() as u64 / block * block;
            let mut offset = 0;
            while offset < segment {
                let count = step.min(segment - offset);
                file.write_at(&memory.bytes_mut()[..count as usize], offset, false)
                    .map_err(failed("write"))?;
                offset += count;
            }
        }
        self.write_header(&*file, number, &mut memory).map_err(failed("write"))?;
        file.sync_all().map_err(failed("sync"))?;
        Ok(fill)
    }

    fn write_header(
        &self,
        file: &dyn SegmentFile,
        number: u64,
        memory: &mut Block,
    ) -> io::Result<()> {
        let layout = self.segments.layout;
        let header = SegmentHeader { layout, identity: self.segments.identity, number }.encode();
        memory.clear();
        let bytes = &mut memory.bytes_mut()[..layout.block_bytes() as usize];
        bytes[..header.len()].copy_from_slice(&header);
        file.write_at(bytes, 0, false).map(|_| ())
    }

    /// Removes truncated segments, oldest first, or keeps them as spares while there are fewer
    /// spares than the options allow. Their records must have been truncated durably. After each
    /// segment, `oldest` is set to the number behind it, even if the next one fails.
    ///
    /// # Errors
    /// Errors of the storage. The next truncation or opening removes what is left.
    pub(crate) fn retire(
        &self,
        numbers: impl Iterator<Item = u64>,
        oldest: &mut u64,
    ) -> Result<(), WalError> {
        let storage = &self.segments.storage;
        let mut spares = Vec::new();
        let spares_before = self.lock().spares.len();
        let mut failed = None;
        for number in numbers {
            self.segments.forget_below(number + 1);
            match self.retire_one(number, spares_before + spares.len() < self.spares_max) {
                Ok(spare) => spares.extend(spare),
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
            *oldest = number + 1;
        }
        // If this sync fails, this opening does not use the new spares: one whose new name was lost
        // in a power cut would return under its old name, with a new header.
        storage.sync().map_err(|error| WalError::io("sync", ".", None, error))?;
        let mut state = self.lock();
        state.spares.extend(spares);
        state.refused = None;
        drop(state);
        failed.map_or(Ok(()), Err)
    }

    /// If `keep` is true, renames a segment to a spare and returns its new name. Otherwise removes
    /// it. A segment that does not exist any more is not an error.
    fn retire_one(&self, number: u64, keep: bool) -> Result<Option<String>, WalError> {
        let (name, spare) = (segment_name(number), spare_name(number));
        let (operation, outcome) = match keep {
            true => ("rename", self.segments.storage.rename(&name, &spare)),
            false => ("remove", self.segments.storage.delete(&name)),
        };
        match outcome {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            outcome => {
                outcome.map_err(|error| WalError::io(operation, &name, None, error))?;
                Ok(keep.then_some(spare))
            }
        }
    }

    /// Removes the segments below `number` from the set of written segments.
    pub(crate) fn forget_below(&self, number: u64) {
        let mut state = self.lock();
        state.written = state.written.split_off(&number);
    }

    fn lock(&self) -> MutexGuard<'_, AllocatorState> {
        self.state.lock()
    }
}

fn new_block(bytes: usize) -> Result<Block, WalError> {
    let pool =
        Pool::new(bytes, 1).map_err(|error| WalError::io("map memory for", ".", None, error))?;
    Ok(pool.try_take().expect("a new pool has its block"))
}

/// A segment that a thread is making. If that thread panics, neither this segment nor any behind it
/// is made.
struct SegmentInProgress<'a>(&'a SegmentAllocator);

impl<'a> SegmentInProgress<'a> {
    fn end(self) -> MutexGuard<'a, AllocatorState> {
        let mut state = self.0.lock();
        state.making = false;
        std::mem::forget(self);
        state
    }
}

impl Drop for SegmentInProgress<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.making = false;
        let panicked =
            || WalError::io("make a segment in", ".", None, io::Error::other("a thread panicked"));
        state.broken.get_or_insert_with(panicked);
        drop(state);
        self.0.changed.notify_all();
    }
}

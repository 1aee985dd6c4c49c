//! Making segments, and taking truncated ones into use again.
//!
//! A segment exists before a record is given a place in it. So where no room is left for another one, the append that needs
//! it fails, everything appended before can still be committed, and appending goes on as soon as there is room.

use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use dio::block::{Block, Pool};

use crate::error::WalError;
use crate::format::{SegmentHeader, segment_name};
use crate::listing::{spare_name, unfinished_name};
use crate::options::{Options, Preallocate};
use crate::segments::Segments;
use crate::storage::SegmentFile;

/// Zeros that are written at once, in bytes.
const ZEROS: usize = 1 << 20;

/// Makes segments one after the other, so that of those that exist none is missing in between.
pub(crate) struct Supply {
    segments: Arc<Segments>,
    /// Most spare files kept.
    most_spares: usize,
    /// All of a new segment is written with zeros, also where its space can be set aside.
    fill: bool,
    /// A copy of `State::count`, for a look without the lock.
    count: AtomicU64,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// How many exist or were truncated: the number of the next. Invariant: the file of each segment below it that was not
    /// truncated has its name, durably.
    count: u64,
    /// Somebody is making segment `count`.
    making: bool,
    /// Durable names of files that wait to become segments.
    spares: Vec<String>,
    /// Segments of this opening all of whose space was written before.
    written: BTreeSet<u64>,
    /// Segments below this number are wanted soon.
    wanted: u64,
    /// The segment that could not be made in the background: who needs it tries again, nobody else.
    refused: Option<u64>,
    /// A name may not be durable, whatever later syncs answer. Invariant: never changes again.
    broken: Option<WalError>,
    closed: bool,
}

impl Supply {
    /// The supply of a log with `count` segments.
    pub(crate) fn new(segments: Arc<Segments>, count: u64, spares: Vec<String>, options: &Options) -> Supply {
        let state = State {
            count,
            making: false,
            spares,
            written: BTreeSet::new(),
            wanted: 0,
            refused: None,
            broken: None,
            closed: false,
        };
        let (count, changed) = (AtomicU64::new(count), Condvar::new());
        let (most_spares, fill) = (options.spares_max, options.preallocate == Preallocate::Zeros);
        Supply { segments, most_spares, fill, count, state: Mutex::new(state), changed }
    }

    /// The segment of a number, which is made if need be.
    ///
    /// # Errors
    /// The storage's.
    pub(crate) fn segment(&self, number: u64) -> Result<Arc<dyn SegmentFile>, WalError> {
        if !self.has(number) {
            self.make_up_to(number)?;
        }
        let missing = || WalError::missing(&self.segments.layout, number);
        self.segments.get(number)?.ok_or_else(missing)
    }

    /// Whether a segment was made.
    pub(crate) fn has(&self, number: u64) -> bool {
        number < self.count.load(Ordering::Acquire)
    }

    /// Whether all space of a segment was written before, so that a commit into it changes no metadata. Of those that an
    /// earlier opening made nobody knows.
    pub(crate) fn is_written(&self, number: u64) -> bool {
        self.lock().written.contains(&number)
    }

    /// Why no segment can be made durably any more, if it cannot.
    pub(crate) fn broken(&self) -> Option<WalError> {
        self.lock().broken.clone()
    }

    /// Makes the segments up to a number.
    ///
    /// # Errors
    /// The storage's. Unless [`Supply::broken`], it may be tried again, and nothing else is harmed.
    pub(crate) fn make_up_to(&self, number: u64) -> Result<(), WalError> {
        let mut state = self.lock();
        while state.count <= number {
            if let Some(broken) = &state.broken {
                return Err(broken.clone());
            }
            if state.making {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            state.making = true;
            let (next, spare) = (state.count, state.spares.pop());
            drop(state);
            let making = Making(self);
            let made = self.make(next, spare);
            let named = made.as_ref().ok().map(|_| {
                // Whose name is not durable is not used: a power cut would take what was acknowledged in it.
                self.segments.storage.sync().map_err(|error| WalError::io("sync", ".", None, error))
            });
            state = making.end();
            if let Some(Err(error)) = &named {
                state.broken = Some(error.clone());
            } else if let Ok(written) = made {
                state.count += 1;
                state.refused = None;
                if written {
                    state.written.insert(next);
                }
                self.count.store(state.count, Ordering::Release);
            }
            self.changed.notify_all();
            made?;
            named.transpose()?;
        }
        Ok(())
    }

    /// Wants the segment behind `number` made in the background.
    pub(crate) fn want_next(&self, number: u64) {
        // Nothing to want is what most writes find.
        if self.has(number + 1) {
            return;
        }
        let mut state = self.lock();
        if state.wanted < number + 2 && state.refused != Some(number + 1) {
            state.wanted = number + 2;
            self.changed.notify_all();
        }
    }

    /// Makes what is wanted until the log is closed.
    pub(crate) fn work(&self) {
        loop {
            let mut state = self.lock();
            while state.count >= state.wanted && !state.closed {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if state.closed {
                return;
            }
            let number = state.wanted - 1;
            drop(state);
            if self.make_up_to(number).is_err() {
                let mut state = self.lock();
                state.wanted = 0;
                state.refused = Some(state.count);
            }
        }
    }

    /// Ends [`Supply::work`].
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// Makes one segment and gives it its name; whether all its space was written before. Its header and contents are durable
    /// before it gets its name. What could not be finished is removed: where no room is left, it holds what there was.
    fn make(&self, number: u64, spare: Option<String>) -> Result<bool, WalError> {
        let storage = &self.segments.storage;
        let recycled = match spare {
            Some(spare) => self.reuse(number, &spare).inspect_err(|_| drop(storage.delete(&spare)))?.then_some(spare),
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

    /// Turns a spare file into segment `number`; `false`, and it is gone, if it has not the right size.
    fn reuse(&self, number: u64, spare: &str) -> Result<bool, WalError> {
        let storage = &self.segments.storage;
        let failed = |operation| move |error| WalError::io(operation, spare, None, error);
        let file = storage.open(spare, true).map_err(failed("open"))?;
        if file.size().map_err(failed("ask the size of"))? != self.segments.layout.segment_bytes() {
            drop(file);
            storage.delete(spare).map_err(failed("remove"))?;
            return Ok(false);
        }
        let mut memory = self.memory(self.segments.layout.block_bytes() as usize)?;
        self.write_header(&*file, number, &mut memory).map_err(failed("write"))?;
        file.sync_all().map_err(failed("sync"))?;
        Ok(true)
    }

    /// Makes a segment of which no space was written but the header's, where room can be set aside without and nothing else is
    /// wanted; `true` if all was.
    fn make_new(&self, number: u64) -> Result<bool, WalError> {
        let failed = |operation| move |error| WalError::io(operation, &unfinished_name(number), None, error);
        let layout = self.segments.layout;
        let file = self.segments.storage.create(&unfinished_name(number)).map_err(failed("create"))?;
        let set_aside = file.allocate(layout.segment_bytes()).map_err(failed("allocate space for"))?;
        let block = layout.block_bytes();
        let fill = self.fill || !set_aside;
        let mut memory = self.memory(if fill { ZEROS.max(block as usize) } else { block as usize })?;
        if fill {
            let step = memory.capacity() as u64 / block * block;
            let mut at = 0;
            while at < layout.segment_bytes() {
                let count = step.min(layout.segment_bytes() - at);
                file.write_at(&memory.bytes_mut()[..count as usize], at, false).map_err(failed("write"))?;
                at += count;
            }
        }
        self.write_header(&*file, number, &mut memory).map_err(failed("write"))?;
        file.sync_all().map_err(failed("sync"))?;
        Ok(fill)
    }

    fn write_header(&self, file: &dyn SegmentFile, number: u64, memory: &mut Block) -> io::Result<()> {
        let layout = self.segments.layout;
        let header = SegmentHeader { layout, identity: self.segments.identity, number }.encode();
        memory.clear();
        let bytes = &mut memory.bytes_mut()[..layout.block_bytes() as usize];
        bytes[..header.len()].copy_from_slice(&header);
        file.write_at(bytes, 0, false).map(|_| ())
    }

    fn memory(&self, len: usize) -> Result<Block, WalError> {
        let pool = Pool::new(len, 1).map_err(|error| WalError::io("map memory for", ".", None, error))?;
        Ok(pool.try_take().expect("a new pool has its block"))
    }

    /// Gives up segments, oldest first: as many as may be become spares, the others are removed. Their records must have
    /// been given up durably. `oldest` becomes the number behind each that is done, whatever happens to the next.
    ///
    /// # Errors
    /// The storage's. What was given up stays so; the next truncation or opening goes on with the rest.
    pub(crate) fn retire(&self, numbers: impl Iterator<Item = u64>, oldest: &mut u64) -> Result<(), WalError> {
        let storage = &self.segments.storage;
        let mut spares = Vec::new();
        let had = self.lock().spares.len();
        let mut failed = None;
        for number in numbers {
            self.segments.forget_below(number + 1);
            match self.retire_one(number, had + spares.len() < self.most_spares) {
                Ok(spare) => spares.extend(spare),
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
            *oldest = number + 1;
        }
        // A spare whose new name is lost would come back under its old one, with a new header: where this fails, it is none in
        // this opening.
        storage.sync().map_err(|error| WalError::io("sync", ".", None, error))?;
        let mut state = self.lock();
        state.spares.extend(spares);
        state.refused = None;
        drop(state);
        failed.map_or(Ok(()), Err)
    }

    /// Gives up one segment; its new name if it becomes a spare. One that is gone already is done.
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

    /// Forgets what is known of segments below `number`.
    pub(crate) fn forget_below(&self, number: u64) {
        let mut state = self.lock();
        state.written = state.written.split_off(&number);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A segment that is being made. One whose making ends by a panic is nobody's any more, and nor is any behind it.
struct Making<'a>(&'a Supply);

impl<'a> Making<'a> {
    fn end(self) -> MutexGuard<'a, State> {
        let mut state = self.0.lock();
        state.making = false;
        std::mem::forget(self);
        state
    }
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.making = false;
        let panicked = || WalError::io("make a segment in", ".", None, io::Error::other("a thread panicked"));
        state.broken.get_or_insert_with(panicked);
        drop(state);
        self.0.changed.notify_all();
    }
}

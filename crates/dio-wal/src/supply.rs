//! Making segments, and taking truncated ones into use again.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use dio::block::{Block, Pool};

use crate::error::WalError;
use crate::format::{SegmentHeader, segment_name};
use crate::segments::{Segments, spare_name, unfinished_name};
use crate::storage::SegmentFile;

/// Zeros that are written at once, in bytes.
const ZEROS: usize = 1 << 20;

/// Makes segments one after the other, so that of those that exist none is missing in between.
pub(crate) struct Supply {
    segments: Arc<Segments>,
    zeros: bool,
    /// Most spare files kept.
    most_spares: usize,
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
    /// Segments below this number are wanted soon.
    wanted: u64,
    closed: bool,
}

impl Supply {
    /// The supply of a log with `count` segments.
    pub(crate) fn new(
        segments: Arc<Segments>,
        count: u64,
        spares: Vec<String>,
        most_spares: usize,
        zeros: bool,
    ) -> Supply {
        let state = State { count, making: false, spares, wanted: 0, closed: false };
        Supply { segments, zeros, most_spares, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// The segment of a number, which is made if need be.
    ///
    /// # Errors
    /// The storage's.
    pub(crate) fn segment(&self, number: u64) -> Result<Arc<dyn SegmentFile>, WalError> {
        self.make_up_to(number)?;
        let missing = || WalError::Missing { segment: segment_name(number) };
        self.segments.get(number)?.ok_or_else(missing)
    }

    fn make_up_to(&self, number: u64) -> Result<(), WalError> {
        let mut state = self.lock();
        while state.count <= number {
            if state.making {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            state.making = true;
            let (next, spare) = (state.count, state.spares.pop());
            drop(state);
            let made = self.make(next, spare);
            state = self.lock();
            state.making = false;
            state.count += u64::from(made.is_ok());
            self.changed.notify_all();
            made?;
        }
        Ok(())
    }

    /// Wants the segment behind `number` made in the background.
    pub(crate) fn want_next(&self, number: u64) {
        let mut state = self.lock();
        if state.wanted < number + 2 {
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
                // Whoever needs the segment will try again and is told.
                self.lock().wanted = 0;
            }
        }
    }

    /// Ends [`Supply::work`].
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// Makes one segment. Its header and contents are durable before it gets its name, and the name before it is used.
    fn make(&self, number: u64, spare: Option<String>) -> Result<(), WalError> {
        let storage = &self.segments.storage;
        let recycled = match spare {
            Some(spare) => self.reuse(number, &spare)?.then_some(spare),
            None => None,
        };
        let finished = match recycled {
            Some(spare) => spare,
            None => self.make_new(number)?,
        };
        let name = segment_name(number);
        storage.rename(&finished, &name).map_err(|error| WalError::io("rename", &finished, None, error))?;
        storage.sync().map_err(|error| WalError::io("sync", ".", None, error))
    }

    /// Turns a spare file into segment `number`; `false`, and it is gone, if it has not the right size.
    fn reuse(&self, number: u64, spare: &str) -> Result<bool, WalError> {
        let storage = &self.segments.storage;
        let failed = |operation| move |error| WalError::io(operation, spare, None, error);
        let file = storage.open(spare, true).map_err(failed("open"))?;
        if file.size().map_err(failed("ask the size of"))? != self.segments.layout.segment() {
            drop(file);
            storage.delete(spare).map_err(failed("remove"))?;
            return Ok(false);
        }
        let mut memory = self.memory(self.segments.layout.block() as usize)?;
        self.write_header(&*file, number, &mut memory).map_err(failed("write"))?;
        file.sync_all().map_err(failed("sync"))?;
        Ok(true)
    }

    fn make_new(&self, number: u64) -> Result<String, WalError> {
        let name = unfinished_name(number);
        let failed = |operation| move |error| WalError::io(operation, &unfinished_name(number), None, error);
        let layout = self.segments.layout;
        let file = self.segments.storage.create(&name).map_err(failed("create"))?;
        file.allocate(layout.segment()).map_err(failed("allocate space for"))?;
        let block = layout.block();
        let mut memory = self.memory(ZEROS.max(block as usize))?;
        if self.zeros {
            let step = memory.capacity() as u64 / block * block;
            let mut at = 0;
            while at < layout.segment() {
                let count = step.min(layout.segment() - at);
                file.write_at(&memory.bytes_mut()[..count as usize], at, false).map_err(failed("write"))?;
                at += count;
            }
        }
        self.write_header(&*file, number, &mut memory).map_err(failed("write"))?;
        file.sync_all().map_err(failed("sync"))?;
        Ok(name)
    }

    fn write_header(&self, file: &dyn SegmentFile, number: u64, memory: &mut Block) -> io::Result<()> {
        let layout = self.segments.layout;
        let header = SegmentHeader { layout, identity: self.segments.identity, number }.encode();
        memory.clear();
        let bytes = &mut memory.bytes_mut()[..layout.block() as usize];
        bytes[..header.len()].copy_from_slice(&header);
        file.write_at(bytes, 0, false).map(|_| ())
    }

    fn memory(&self, len: usize) -> Result<Block, WalError> {
        let pool = Pool::new(len, 1).map_err(|error| WalError::io("map memory for", ".", None, error))?;
        Ok(pool.try_take().expect("a new pool has its block"))
    }

    /// Gives up segments, oldest first: as many as may be become spares, the others are removed. Their records must have
    /// been given up durably.
    ///
    /// # Errors
    /// The storage's. What was given up stays so; the next truncation or opening tries the rest again.
    pub(crate) fn retire(&self, numbers: impl Iterator<Item = u64>) -> Result<(), WalError> {
        let storage = &self.segments.storage;
        let mut spares = Vec::new();
        let had = self.lock().spares.len();
        for number in numbers {
            self.segments.forget_below(number + 1);
            let name = segment_name(number);
            if had + spares.len() < self.most_spares {
                let spare = spare_name(number);
                storage.rename(&name, &spare).map_err(|error| WalError::io("rename", &name, None, error))?;
                spares.push(spare);
            } else {
                storage.delete(&name).map_err(|error| WalError::io("remove", &name, None, error))?;
            }
        }
        // A spare whose new name is lost would come back under its old one, with a new header.
        storage.sync().map_err(|error| WalError::io("sync", ".", None, error))?;
        self.lock().spares.extend(spares);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! Reads the inputs into batches.

use std::ffi::OsString;
use std::thread::Scope;

use super::batch::{Batch, BatchOffer};
use super::crew::SortCrew;
use super::entry;
use super::failure::{SortFailure, SortResult};
use super::runs::compact;
use crate::tool::Source;

pub(super) struct Filler<'scope, 'env, 'a> {
    crew: &'scope SortCrew<'a>,
    scope: &'scope Scope<'scope, 'env>,
    /// Bytes of all inputs, if known.
    total: Option<u64>,
    batch: Option<Batch>,
    /// The number of the batch being filled, and the mean line length of the batch before it.
    number: u64,
    mean: u64,
    /// Maximum number of runs to keep.
    most_runs: usize,
}

/// Size of the first batch of an input of unknown size, in bytes. Batches grow from this size, so
/// that sorting begins early.
const FIRST: u64 = 4 << 20;

/// Minimum size of a batch, in bytes. A smaller one does not justify a thread.
const LEAST: u64 = 1 << 20;

impl<'scope, 'env, 'a> Filler<'scope, 'env, 'a> {
    pub(super) fn new(
        crew: &'scope SortCrew<'a>,
        scope: &'scope Scope<'scope, 'env>,
        total: Option<u64>,
        most_runs: usize,
    ) -> Filler<'scope, 'env, 'a> {
        Filler { crew, scope, total, batch: None, number: 0, mean: 0, most_runs }
    }

    /// Reads an input to its end, and adds a terminator if the last line has none.
    ///
    /// # Errors
    /// Reading failed, or a thread failed.
    pub(super) fn read(&mut self, mut source: Source, name: &OsString) -> SortResult<()> {
        loop {
            match source.next_chunk() {
                Ok(Some(chunk)) => self.offer(&chunk)?,
                Ok(None) => break,
                Err(error) => return Err(SortFailure::Read { name: name.clone(), error }),
            }
        }
        // An error of closing a source means no loss of bytes.
        let _ = source.close();
        let terminator = self.crew.how.terminator;
        match self.batch.as_ref().and_then(|batch| batch.rest().last()) {
            Some(last) if *last != terminator => self.offer(&[terminator]),
            _ => Ok(()),
        }
    }

    /// Returns the last batch, which is not sorted yet, and its number. All inputs have been read.
    ///
    /// # Errors
    /// A thread failed.
    pub(super) fn finish(mut self) -> SortResult<(u64, Option<Batch>)> {
        while let Some(batch) = &self.batch {
            let rest = batch.rest().to_vec();
            if rest.is_empty() {
                break;
            }
            self.next_batch()?;
            self.offer(&rest)?;
        }
        Ok((self.number, self.batch.take()))
    }

    fn offer(&mut self, bytes: &[u8]) -> SortResult<()> {
        let (terminator, order) = (self.crew.how.terminator, self.crew.how.order);
        // The unfinished line of the previous batch comes first in the next one.
        let (mut carried, mut at) = (Vec::new(), 0);
        if self.batch.is_none() {
            self.begin(bytes)?;
        }
        loop {
            let batch = self.batch.as_mut().expect("there is one from the first byte on");
            let offered = if carried.is_empty() { &bytes[at..] } else { carried.as_slice() };
            match batch.take(offered, terminator, order).map_err(SortFailure::Memory)? {
                BatchOffer::All if carried.is_empty() => return Ok(()),
                BatchOffer::All => carried.clear(),
                BatchOffer::Full(count) => {
                    let mut rest = batch.rest().to_vec();
                    if carried.is_empty() {
                        at += count;
                    } else {
                        rest.extend_from_slice(&carried[count..]);
                    }
                    carried = rest;
                    self.next_batch()?;
                }
            }
        }
    }

    /// Gets the first batch. Its mean line length is that of the first bytes.
    fn begin(&mut self, bytes: &[u8]) -> SortResult<()> {
        let lines = memchr::memchr_iter(self.crew.how.terminator, bytes).count();
        self.mean = bytes.len().checked_div(lines).unwrap_or(bytes.len()).max(1) as u64;
        self.batch = Some(self.crew.batch(self.size(), self.mean)?);
        Ok(())
    }

    fn next_batch(&mut self) -> SortResult<()> {
        if let Some(batch) = self.batch.take() {
            self.mean = batch.mean();
            self.crew.hand_over(self.scope, self.number, batch);
            self.number += 1;
        }
        if self.crew.kept() >= self.most_runs {
            let runs = compact(self.crew, self.most_runs / 2)?;
            self.crew.keep(runs);
        }
        self.batch = Some(self.crew.batch(self.size(), self.mean)?);
        Ok(())
    }

    /// Size of the next batch, in bytes.
    fn size(&self) -> u64 {
        let plan = self.crew.plan;
        let most = plan.batch;
        let wanted = match self.total {
            Some(total) => {
                let all = (u128::from(total) * u128::from(self.mean + entry::SIZE)
                    / u128::from(self.mean)) as u64;
                // Input that fits in memory is divided so that all threads get a share and can
                // begin early.
                let parts = if all > 4 * LEAST { 2 * plan.workers as u64 } else { 1 };
                if all > plan.batches { most } else { (all / parts + all / 16).max(LEAST) }
            }
            None => FIRST.checked_shl(self.number.min(20) as u32).unwrap_or(most),
        };
        wanted.min(most)
    }
}

//! Runs, and the merging that reduces their number until one merge makes the output.

use std::collections::BTreeMap;
use std::ffi::OsString;

use super::batch::Batch;
use super::crew::{self, SortCrew};
use super::failure::SortResult;
use super::gather::{Drain, LineGatherer};
use super::input::open;
use super::merge::{MergeInput, merge};
use super::piece::{Bytes, Decoder, LinePiece, LineRules};
use super::plan::MemoryPlan;
use super::store::{Store, StoredRun};
use super::stream::Stream;
use crate::tool::Tool;

/// A sorted sequence of lines.
#[derive(Debug)]
pub(super) enum SortedRun {
    /// An input that is sorted already.
    Input(OsString),
    /// In a temporary file.
    Stored(StoredRun),
    /// In memory.
    Batch(Batch),
}

/// The context of merging.
#[derive(Clone, Copy, Debug)]
pub(super) struct Merger<'a> {
    pub(super) tool: &'a Tool,
    pub(super) plan: &'a MemoryPlan,
    pub(super) store: &'a Store<'a>,
    pub(super) how: LineRules<'a>,
}

impl Merger<'_> {
    /// Maximum number of runs that are merged at a time.
    fn most(&self, resident: u64) -> usize {
        self.plan.most_runs(resident).min(self.plan.descriptors.read)
    }

    /// Merges runs into larger ones until a single merge can make the output.
    ///
    /// # Errors
    /// Reading or keeping runs failed.
    pub(super) fn reduce(&self, mut runs: Vec<SortedRun>) -> SortResult<Vec<SortedRun>> {
        self.make_room(&mut runs)?;
        loop {
            let streams = runs.iter().filter(|run| !matches!(run, SortedRun::Batch(_))).count();
            let most = self.most(resident(&runs));
            if streams <= most {
                return Ok(runs);
            }
            // Merges no more runs than needed, and the shortest neighbours. Only neighbours may be
            // merged, because runs must stay in the order of the input.
            let count = most.min(streams - most + 1);
            let from = self.first_to_merge(&runs, count);
            let merged = self.merged(runs.splice(from..from + count, []).collect())?;
            runs.insert(from, SortedRun::Stored(merged));
        }
    }

    /// Index of the first of `count` neighbours to merge next. They are the shortest ones, unless
    /// the number of kept runs is at its limit: then those with the most kept runs among them.
    fn first_to_merge(&self, runs: &[SortedRun], count: usize) -> usize {
        let kept = |runs: &[SortedRun]| {
            runs.iter().filter(|run| matches!(run, SortedRun::Stored(_))).count()
        };
        if kept(runs) < self.plan.descriptors.kept {
            return shortest(runs, count);
        }
        let windows = runs.windows(count).enumerate();
        // `max_by_key` takes the last of equal windows, that is, the runs with the highest numbers.
        // After earlier merges they are the shortest.
        windows.max_by_key(|(_, window)| kept(window)).map_or(0, |(from, _)| from)
    }

    /// Writes batches while they leave too little memory for reading the runs.
    fn make_room(&self, runs: &mut [SortedRun]) -> SortResult<()> {
        loop {
            let streams = runs.iter().filter(|run| !matches!(run, SortedRun::Batch(_))).count();
            if streams == 0 || self.plan.has_room(resident(runs), streams) {
                return Ok(());
            }
            let batches = runs.iter_mut().filter(|run| matches!(run, SortedRun::Batch(_)));
            let Some(largest) = batches.max_by_key(|run| run.memory()) else { return Ok(()) };
            if let SortedRun::Batch(batch) = &*largest {
                *largest = SortedRun::Stored(crew::write(self.store, self.plan, self.how, batch)?);
            }
        }
    }

    /// Merges runs into one kept run.
    ///
    /// # Errors
    /// As [`Merger::reduce`].
    pub(super) fn merged(&self, runs: Vec<SortedRun>) -> SortResult<StoredRun> {
        let bytes = runs.iter().map(SortedRun::bytes).sum::<Option<u64>>();
        let mut runs = Some(runs);
        self.store.keep(&self.plan.writing, bytes, &mut |out| {
            self.merge_to(self.open(runs.take().unwrap_or_default())?, out)
        })
    }

    /// Opens runs for merging.
    ///
    /// # Errors
    /// A run cannot be opened.
    pub(super) fn open(&self, runs: Vec<SortedRun>) -> SortResult<Vec<MergeInput>> {
        let streams = runs.iter().filter(|run| !matches!(run, SortedRun::Batch(_))).count();
        let (reading, lines) = self.plan.lane(resident(&runs), streams);
        let lane = |run| {
            let stream = match run {
                SortedRun::Batch(batch) => {
                    let (bytes, entries) = batch.into_parts();
                    return Ok(MergeInput::Memory(LinePiece {
                        bytes: Bytes::Batch(bytes),
                        entries,
                    }));
                }
                SortedRun::Stored(kept) => self.store.fetch(kept, &reading)?,
                SortedRun::Input(name) => {
                    let source = Box::new(open(self.tool, &name, &reading)?);
                    Stream::Source { source, name }
                }
            };
            Ok(MergeInput::Stream(Decoder::new(stream, lines)))
        };
        runs.into_iter().map(lane).collect()
    }

    /// Merges opened lanes into `out`.
    ///
    /// # Errors
    /// Reading or writing failed.
    pub(super) fn merge_to<D: Drain + ?Sized>(
        &self,
        lanes: Vec<MergeInput>,
        out: &mut LineGatherer<'_, D>,
    ) -> SortResult<()> {
        merge(lanes, self.how, out)
    }
}

impl SortedRun {
    /// Total bytes of its lines, if known.
    fn bytes(&self) -> Option<u64> {
        match self {
            SortedRun::Input(_) => None,
            SortedRun::Stored(kept) => Some(kept.bytes()),
            SortedRun::Batch(batch) => Some(batch.lines().0.len() as u64),
        }
    }

    /// Memory that the run occupies, in bytes.
    fn memory(&self) -> u64 {
        match self {
            SortedRun::Batch(batch) => batch.used(),
            _ => 0,
        }
    }
}

fn resident(runs: &[SortedRun]) -> u64 {
    runs.iter().map(SortedRun::memory).sum()
}

/// Index of the first of the `count` neighbours that have the fewest bytes in all.
fn shortest(runs: &[SortedRun], count: usize) -> usize {
    let bytes = |runs: &[SortedRun]| runs.iter().map(|run| run.bytes().unwrap_or(0)).sum::<u64>();
    let windows = runs.windows(count).enumerate();
    windows.min_by_key(|(_, window)| bytes(window)).map_or(0, |(from, _)| from)
}

/// Merges runs while inputs are still being read, until at most `most` are left.
///
/// # Errors
/// As [`Merger::reduce`]; or a thread of the crew failed.
pub(super) fn compact(crew: &SortCrew<'_>, most: usize) -> SortResult<BTreeMap<u64, StoredRun>> {
    let (mut numbers, mut runs): (Vec<u64>, Vec<SortedRun>) =
        crew.clear()?.into_iter().map(|(number, kept)| (number, SortedRun::Stored(kept))).unzip();
    let merger =
        Merger { tool: crew.store.tool(), plan: crew.plan, store: crew.store, how: crew.how };
    let at_once = merger.most(0);
    while runs.len() > most.max(1) {
        let count = at_once.min(runs.len() - most.max(1) + 1);
        let from = shortest(&runs, count);
        let merged = merger.merged(runs.splice(from..from + count, []).collect())?;
        runs.insert(from, SortedRun::Stored(merged));
        numbers.drain(from + 1..from + count);
    }
    let kept = runs
        .into_iter()
        .filter_map(|run| if let SortedRun::Stored(kept) = run { Some(kept) } else { None });
    Ok(numbers.into_iter().zip(kept).collect())
}

/// All runs in the order of the input.
pub(super) fn in_order(
    batches: BTreeMap<u64, Batch>,
    kept: BTreeMap<u64, StoredRun>,
) -> Vec<SortedRun> {
    let batches = batches.into_iter().filter(|(_, batch)| !batch.is_empty());
    let mut all: Vec<(u64, SortedRun)> =
        batches.map(|(number, batch)| (number, SortedRun::Batch(batch))).collect();
    all.extend(kept.into_iter().map(|(number, kept)| (number, SortedRun::Stored(kept))));
    all.sort_by_key(|(number, _)| *number);
    all.into_iter().map(|(_, run)| run).collect()
}

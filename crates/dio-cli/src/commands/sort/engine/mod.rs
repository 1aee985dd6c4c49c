//! The external sort. Lines are read into batches that fit in memory. Each batch is sorted, and
//! written as a run to a temporary file if more input follows. At the end the runs are merged.

mod batch;
mod crew;
mod descriptors;
mod entry;
mod exchange;
mod failure;
mod gather;
mod input;
mod key_order;
mod memory;
mod merge;
mod piece;
mod plan;
mod read;
mod runs;
mod store;
mod stream;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::thread;

use dio::stream::{Output, StreamOptions};

use super::key::Order;
use crate::tool::{Sink, Tool};
use crew::SortCrew;
use descriptors::Descriptors;
use gather::LineGatherer;
use input::{open, size_of_all};
use piece::LineRules;
use plan::MemoryPlan;
use read::Filler;
use runs::{Merger, SortedRun, in_order};
use store::Store;

pub(crate) use failure::{SortFailure, SortResult};
pub(crate) use memory::physical as physical_memory;

/// A file to read; `-` is standard input.
#[derive(Clone, Debug)]
pub(crate) struct Input {
    /// Its name on the command line.
    pub(crate) name: OsString,
    /// Set only for merging, if the output overwrites this file. Its content is copied before the
    /// output is written.
    pub(crate) is_output: bool,
}

/// Options of the engine.
#[derive(Clone, Debug)]
pub(crate) struct EngineOptions {
    /// Memory limit for lines and buffers, in bytes (`-S`); `None` for the default. A line that is
    /// longer takes what it needs.
    pub(crate) memory: Option<u64>,
    /// Directories for temporary files, used in turn (`-T`); if empty, `$TMPDIR` or `/tmp`.
    pub(crate) directories: Vec<PathBuf>,
    /// A program that compresses temporary files, and decompresses them when called with `-d`.
    pub(crate) compress: Option<OsString>,
    /// The byte that ends a line: a newline, or NUL (`-z`).
    pub(crate) terminator: u8,
    /// Only the first of several lines with equal keys is written (`-u`). The order must then have
    /// no last resort, as in GNU sort.
    pub(crate) unique: bool,
    /// The inputs are sorted already (`-m`).
    pub(crate) merge: bool,
    /// Maximum number of runs to merge at a time (`--batch-size`); `None` for as many as fit in
    /// memory.
    pub(crate) batch_size: Option<usize>,
    /// Number of sorting threads (`--parallel`); `None` for one per processor.
    pub(crate) parallel: Option<usize>,
}

/// Sorts `inputs`. Calls `output` to open (and truncate) the output when its first byte is ready;
/// that is after all inputs have been read, unless they are only merged. Closes the output.
///
/// # Errors
/// Reading, keeping or writing failed. The output may be partly written.
pub(crate) fn sort(
    tool: &Tool,
    inputs: &[Input],
    order: &Order,
    options: &EngineOptions,
    output: &mut dyn FnMut(&StreamOptions) -> io::Result<Sink>,
) -> SortResult<()> {
    sort_with(tool, inputs, order, options, Descriptors::here(), output)
}

/// Works as [`sort`], with the given limits for descriptors.
fn sort_with(
    tool: &Tool,
    inputs: &[Input],
    order: &Order,
    options: &EngineOptions,
    descriptors: Descriptors,
    output: &mut dyn FnMut(&StreamOptions) -> io::Result<Sink>,
) -> SortResult<()> {
    let memory = options.memory.unwrap_or_else(memory::usual);
    let plan = MemoryPlan::new(
        memory,
        options.parallel,
        options.batch_size,
        tool.stream_options(),
        descriptors,
    );
    let store = Store::new(tool, &options.directories, options.compress.clone());
    let how = LineRules { order, terminator: options.terminator, unique: options.unique };
    let merger = Merger { tool, plan: &plan, store: &store, how };
    let runs =
        if options.merge { sorted_inputs(&merger, inputs)? } else { read_inputs(&merger, inputs)? };
    let lanes = merger.open(merger.reduce(runs)?)?;
    let mut sink =
        output(&descriptors.streams(tool.stream_options())).map_err(SortFailure::Open)?;
    let drain: &mut Output = &mut sink;
    let mut gather = LineGatherer::new(drain, plan.writing.block, tool.stream_options().depth)
        .map_err(SortFailure::Memory)?;
    merger.merge_to(lanes, &mut gather)?;
    gather.finish().map_err(SortFailure::Write)?;
    sink.close().map_err(SortFailure::Write)
}

/// Reads all inputs and returns them as sorted runs.
fn read_inputs(merger: &Merger<'_>, inputs: &[Input]) -> SortResult<Vec<SortedRun>> {
    let crew = SortCrew::new(merger.plan, merger.store, merger.how);
    let total = size_of_all(inputs.iter().map(|input| input.name.as_os_str()));
    let (number, last) = thread::scope(|scope| {
        let _ended = crew.end_at_the_end();
        let mut filler = Filler::new(&crew, scope, total, merger.plan.descriptors.kept);
        for input in inputs {
            filler.read(open(merger.tool, &input.name, &merger.plan.reading)?, &input.name)?;
        }
        match filler.finish()? {
            (0, Some(mut only)) => {
                // The only batch is sorted in this thread.
                only.sort(merger.how.terminator, merger.how.order);
                Ok((0, Some(only)))
            }
            (number, last) => {
                last.into_iter().for_each(|batch| crew.hand_over(scope, number, batch));
                Ok((number, None))
            }
        }
    })?;
    let (mut batches, kept) = crew.into_runs()?;
    batches.extend(last.map(|batch| (number, batch)));
    Ok(in_order(batches, kept))
}

/// Returns the inputs as runs. An input that the output will overwrite is copied first.
fn sorted_inputs(merger: &Merger<'_>, inputs: &[Input]) -> SortResult<Vec<SortedRun>> {
    let run = |input: &Input| match input.is_output {
        true => merger.merged(vec![SortedRun::Input(input.name.clone())]).map(SortedRun::Stored),
        false => Ok(SortedRun::Input(input.name.clone())),
    };
    inputs.iter().map(run).collect()
}

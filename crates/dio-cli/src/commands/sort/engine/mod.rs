//! The external sort: lines are read into batches that fit in memory, each batch is sorted and
//! written as a run to a temporary file if there is more to come, and the runs are merged.

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
use crew::Crew;
use descriptors::Descriptors;
use gather::Gather;
use input::{open, size_of_all};
use piece::Lines;
use plan::Plan;
use read::Filler;
use runs::{Merger, Run, in_order};
use store::Store;

pub(crate) use failure::{Failure, Outcome};
pub(crate) use memory::physical as physical_memory;

/// A file to read; `-` is standard input.
#[derive(Clone, Debug)]
pub(crate) struct Input {
    /// What the command line calls it.
    pub(crate) name: OsString,
    /// Only for merging: it is the file that the output goes to, so it is copied before that is
    /// written.
    pub(crate) is_output: bool,
}

/// How to sort.
#[derive(Clone, Debug)]
pub(crate) struct EngineOptions {
    /// Most memory for lines and buffers, in bytes (`-S`); `None` for the default. A line that is
    /// longer takes what it needs.
    pub(crate) memory: Option<u64>,
    /// Where temporary files are made, in turn (`-T`); if empty, `$TMPDIR` or `/tmp`.
    pub(crate) directories: Vec<PathBuf>,
    /// A program that compresses temporary files, and decompresses them when called with `-d`.
    pub(crate) compress: Option<OsString>,
    /// What ends a line: a newline, or NUL (`-z`).
    pub(crate) terminator: u8,
    /// Of lines with equal keys, only the first (`-u`). The order must be without a last resort, as
    /// GNU's is then.
    pub(crate) unique: bool,
    /// The inputs are sorted already (`-m`).
    pub(crate) merge: bool,
    /// Most runs to merge at a time (`--batch-size`); `None` for as many as memory has room for.
    pub(crate) batch_size: Option<usize>,
    /// Threads that sort at a time (`--parallel`); `None` for one for each processor.
    pub(crate) parallel: Option<usize>,
}

/// Sorts `inputs`. The output is opened (and cut off) by `output` when its first byte is known,
/// which is after all inputs have been read unless they are only merged; it is closed here.
///
/// # Errors
/// What could not be read, kept or written. Bytes may have been written before.
pub(crate) fn sort(
    tool: &Tool,
    inputs: &[Input],
    order: &Order,
    options: &EngineOptions,
    output: &mut dyn FnMut(&StreamOptions) -> io::Result<Sink>,
) -> Outcome<()> {
    sort_with(tool, inputs, order, options, Descriptors::here(), output)
}

/// As [`sort`], with so many descriptors.
fn sort_with(
    tool: &Tool,
    inputs: &[Input],
    order: &Order,
    options: &EngineOptions,
    descriptors: Descriptors,
    output: &mut dyn FnMut(&StreamOptions) -> io::Result<Sink>,
) -> Outcome<()> {
    let memory = options.memory.unwrap_or_else(memory::usual);
    let plan = Plan::new(memory, options.parallel, options.batch_size, tool.stream_options(), descriptors);
    let store = Store::new(tool, &options.directories, options.compress.clone());
    let how = Lines { order, terminator: options.terminator, unique: options.unique };
    let merger = Merger { tool, plan: &plan, store: &store, how };
    let runs = if options.merge { sorted_inputs(&merger, inputs)? } else { read_inputs(&merger, inputs)? };
    let lanes = merger.open(merger.reduce(runs)?)?;
    let mut sink = output(&descriptors.streams(tool.stream_options())).map_err(Failure::Open)?;
    let drain: &mut Output = &mut sink;
    let mut gather = Gather::new(drain, plan.writing.block, tool.stream_options().depth).map_err(Failure::Memory)?;
    merger.merge_to(lanes, &mut gather)?;
    gather.finish().map_err(Failure::Write)?;
    sink.close().map_err(Failure::Write)
}

/// Reads all inputs; returns them as sorted runs.
fn read_inputs(merger: &Merger<'_>, inputs: &[Input]) -> Outcome<Vec<Run>> {
    let crew = Crew::new(merger.plan, merger.store, merger.how);
    let total = size_of_all(inputs.iter().map(|input| input.name.as_os_str()));
    let (number, last) = thread::scope(|scope| {
        let _ended = crew.end_at_the_end();
        let mut filler = Filler::new(&crew, scope, total, merger.plan.descriptors.kept);
        for input in inputs {
            filler.read(open(merger.tool, &input.name, &merger.plan.reading)?, &input.name)?;
        }
        match filler.finish()? {
            (0, Some(mut only)) => {
                // No thread is needed.
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

/// The inputs as they are; what the output will overwrite is copied.
fn sorted_inputs(merger: &Merger<'_>, inputs: &[Input]) -> Outcome<Vec<Run>> {
    let run = |input: &Input| match input.is_output {
        true => merger.merged(vec![Run::Input(input.name.clone())]).map(Run::Kept),
        false => Ok(Run::Input(input.name.clone())),
    };
    inputs.iter().map(run).collect()
}

//! Traces in the formats of other tools.

mod blkparse;
mod iolog;
mod lines;
mod model;
mod table;

use std::io::{BufRead, Read, Write};
use std::path::Path;

use crate::replay::plan::plan;
use crate::trace::{EventSink, TraceEnd};

pub use model::{ExchangeError, Exchanged, Format};

/// Writes a trace in another format.
///
/// `iolog` and `blkparse` have the requests that a replay makes, in the order in which they began.
/// With `files`, an `iolog` names files in that directory, which are made there with their recorded
/// sizes: whoever replays it then writes to these. A trace with writes cannot do without.
///
/// # Errors
/// See [`ExchangeError`].
pub fn export(
    trace: impl Read,
    format: Format,
    files: Option<&Path>,
    out: impl Write,
) -> Result<Exchanged, ExchangeError> {
    if format == Format::Csv {
        return table::export(trace, out);
    }
    let (plan, end) = plan(trace)?;
    let requests = match format {
        Format::Iolog => iolog::export(&plan, files, out)?,
        _ => blkparse::export(&plan, out)?,
    };
    let all: usize = plan.threads.iter().map(|thread| thread.requests.len()).sum();
    let left_out = plan.left_out.values().sum::<u64>() + (all as u64).saturating_sub(requests);
    Ok(Exchanged { requests, left_out, is_cut: end == TraceEnd::Cut })
}

/// Reads another format, and passes on what is in it as the events of a trace.
///
/// # Errors
/// See [`ExchangeError`].
pub fn import(
    input: impl BufRead,
    format: Format,
    sink: &mut impl EventSink,
) -> Result<Exchanged, ExchangeError> {
    let mut lines = match format {
        Format::Csv => table::import(input)?,
        Format::Iolog => iolog::import(input)?,
        Format::Blkparse => blkparse::import(input)?,
    };
    let requests = lines.requests() as u64;
    let left_out = lines.left_out;
    lines.pass_on(format, sink).map_err(ExchangeError::Write)?;
    Ok(Exchanged { requests, left_out, is_cut: false })
}

#[cfg(test)]
mod tests;

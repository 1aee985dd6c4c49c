//! Traces in the formats of other tools.

mod blkparse;
mod iolog;
mod lines;
mod model;
mod table;

use std::io::{BufRead, Read, Write};

use crate::replay::plan::plan;
use crate::trace::EventSink;

pub use crate::replay::scratch::NewFiles;
pub use model::{ExchangeError, Exchanged, Format};

/// Writes a trace in another format.
///
/// `iolog` and `blkparse` have the requests that a replay makes, in the order in which they began.
/// With `files`, an `iolog` names these, which are made with their recorded sizes: whoever replays
/// it then writes to them. A trace with writes cannot do without. A damaged trace is exported up to
/// the damage.
///
/// # Errors
/// See [`ExchangeError`].
pub fn export(
    trace: impl Read,
    format: Format,
    files: Option<&mut NewFiles<'_>>,
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
    let damage = end.damage.map(|damage| damage.to_string());
    Ok(Exchanged { requests, left_out, is_cut: end.is_cut, damage })
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
    Ok(Exchanged { requests, left_out, is_cut: false, damage: None })
}

#[cfg(test)]
mod tests;

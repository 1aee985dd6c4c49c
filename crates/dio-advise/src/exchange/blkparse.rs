//! The output of `blkparse` for a trace of `blktrace`: a line for each event of a block device,
//! with the device, the processor, a number, the time in seconds, the process, the event, the kind
//! of request, the sector, the sectors, and the program.

use std::io::{BufRead, Write};

use super::lines::Lines;
use super::model::ExchangeError;
use crate::replay::planned::Plan;
use crate::trace::{Call, FileKind, Request};

const SECTOR: u64 = 512;

/// Files begin at multiples of this on the disk.
const EXTENT: u64 = 1 << 20;

/// Writes the requests of a plan as events of kind `Q`, and returns how many there were.
pub(super) fn export(plan: &Plan, mut out: impl Write) -> Result<u64, ExchangeError> {
    let mut ends = vec![0; plan.files.len()];
    let mut requests: Vec<(u64, u32, u32, &str, u64, u64)> = Vec::new();
    for thread in &plan.threads {
        for request in &thread.requests {
            let mut add = |file: u32, kind, offset: u64, bytes: u64| {
                let end = &mut ends[file as usize];
                *end = offset.saturating_add(bytes).max(*end);
                requests.push((request.start, thread.process, file, kind, offset, bytes));
            };
            match request.call {
                Call::Fsync | Call::Fdatasync => add(request.file, "FWS", 0, 0),
                _ if request.done == 0 => continue,
                call if call.reads() => add(request.file, "R", request.offset, request.done),
                call if call.writes() => add(request.file, "W", request.offset, request.done),
                _ => continue,
            }
            if let Some((to, place)) = request.to {
                add(to, "W", place, request.done);
            }
        }
    }
    requests.sort_by_key(|request| request.0);
    let starts: Vec<u64> = ends
        .iter()
        .scan(0_u64, |next, end| {
            let start = *next;
            *next = start.saturating_add(end.div_ceil(EXTENT).saturating_mul(EXTENT));
            Some(start)
        })
        .collect();
    let mut write = || -> std::io::Result<()> {
        for (number, (time, process, file, kind, offset, bytes)) in requests.iter().enumerate() {
            let (seconds, nanos) = (time / 1_000_000_000, time % 1_000_000_000);
            let number = number + 1;
            write!(
                out,
                "  7,0    0 {number:>8} {seconds:>5}.{nanos:09} {process:>5}  Q {kind:>3} "
            )?;
            let from = starts[*file as usize].saturating_add(*offset);
            let sectors = from.saturating_add(*bytes).div_ceil(SECTOR) - from / SECTOR;
            match bytes {
                0 => writeln!(out, "[dio]")?,
                _ => writeln!(out, "{} + {sectors} [dio]", from / SECTOR)?,
            }
        }
        out.flush()
    };
    write().map_err(ExchangeError::Write)?;
    Ok(requests.len() as u64)
}

/// Reads the events of kind `Q`: requests as they come to the device.
pub(super) fn import(input: impl BufRead) -> Result<Lines, ExchangeError> {
    let mut lines = Lines::default();
    for (number, line) in input.lines().enumerate() {
        let line = line.map_err(ExchangeError::Read)?;
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        // Its summary follows the events.
        let Some([device, _, _, time, pid, "Q", kind, rest @ ..]) = words.get(..) else { continue };
        let wrong = |what: String| ExchangeError::Line { line: number as u64 + 1, what };
        let nanos = nanos(time).ok_or_else(|| wrong(format!("{time} is no time")))?;
        let pid: u32 = pid.parse().map_err(|_| wrong(format!("{pid} is no process")))?;
        let name = rest.last().map_or("", |name| name.trim_matches(['[', ']']));
        let range = match rest {
            [sector, "+", sectors, ..] => {
                let parsed = sector.parse::<u64>().ok().zip(sectors.parse::<u64>().ok());
                parsed.ok_or_else(|| wrong(format!("{sector} + {sectors} are no sectors")))?
            }
            _ => (0, 0),
        };
        let (offset, bytes) = (range.0.saturating_mul(SECTOR), range.1.saturating_mul(SECTOR));
        let call = match kind {
            kind if kind.contains('D') => Call::Fallocate,
            kind if kind.contains('R') && bytes > 0 => Call::Pread,
            kind if kind.contains('W') && bytes > 0 => Call::Pwrite,
            kind if kind.contains('F') => Call::Fsync,
            _ => {
                lines.left_out += 1;
                continue;
            }
        };
        let thread = lines.thread(pid, pid, name.as_bytes());
        let size = if call.reads() { offset.saturating_add(bytes) } else { 0 };
        let file = lines.file(device.as_bytes(), FileKind::Regular, size);
        lines.add(Request {
            flags: if call == Call::Fallocate { 3 } else { 0 },
            direct: true,
            ..Request::at(nanos, call, thread, (file, offset), bytes)
        });
    }
    if lines.requests() == 0 && lines.left_out == 0 {
        let what = "no line of it has an event of kind Q, as blkparse prints them";
        return Err(ExchangeError::Line { line: 1, what: what.into() });
    }
    Ok(lines)
}

/// Nanoseconds of a time in seconds with nine digits after the point.
fn nanos(text: &str) -> Option<u64> {
    let (seconds, rest) = text.split_once('.')?;
    let (seconds, nanos) = (seconds.parse::<u64>().ok()?, rest.parse::<u64>().ok()?);
    (rest.len() == 9).then(|| seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
}

//! Comma-separated values: all that a trace has of each call, for spreadsheets and scripts.

use std::io::{BufRead, Read, Write};

use serde::{Deserialize, Serialize};

use super::lines::Lines;
use super::model::{ExchangeError, Exchanged};
use crate::trace::{Call, Event, FileInfo, FileKind, Request, TraceEnd, TraceError, read};

/// One line.
#[derive(Debug, Serialize, Deserialize)]
struct Row {
    start_ns: u64,
    duration_ns: u64,
    pid: u32,
    tid: u32,
    program: String,
    call: String,
    path: String,
    kind: FileKind,
    size: u64,
    offset: u64,
    asked: u64,
    done: i64,
    cached: u64,
    flags: u32,
    direct: bool,
    synced: bool,
    waited: bool,
    #[serde(default)]
    to: Option<String>,
    #[serde(default)]
    to_offset: Option<u64>,
}

/// The line of headings.
const COLUMNS: [&str; 19] = [
    "start_ns",
    "duration_ns",
    "pid",
    "tid",
    "program",
    "call",
    "path",
    "kind",
    "size",
    "offset",
    "asked",
    "done",
    "cached",
    "flags",
    "direct",
    "synced",
    "waited",
    "to",
    "to_offset",
];

/// Tables of earlier versions do not have the columns after these.
const COLUMNS_MIN: usize = 17;

pub(super) fn export(trace: impl Read, out: impl Write) -> Result<Exchanged, ExchangeError> {
    let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(out);
    let unwritable = |error: csv::Error| ExchangeError::Write(error.into());
    writer.write_record(COLUMNS).map_err(unwritable)?;
    let (mut threads, mut files) = (Vec::new(), Vec::<FileInfo>::new());
    let (mut requests, mut left_out, mut failed) = (0, 0, None);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let end = read(trace, |event| match event {
        Event::Thread { tid, pid, name } => threads.push((tid, pid, text(&name))),
        Event::File(file) => files.push(file),
        Event::Lost(count) => left_out += count,
        Event::Request(request) if failed.is_none() => {
            let (tid, pid, program) = threads[request.thread as usize].clone();
            let file = &files[request.file as usize];
            requests += 1;
            let row = Row {
                start_ns: request.start,
                duration_ns: request.duration,
                pid,
                tid,
                program,
                call: request.call.name().to_owned(),
                path: text(&file.path),
                kind: file.kind,
                size: file.size,
                offset: request.offset,
                asked: request.asked,
                done: request.done,
                cached: request.cached,
                flags: request.flags,
                direct: request.direct,
                synced: request.synced,
                waited: request.waited,
                to: request.to.map(|to| text(&files[to as usize].path)),
                to_offset: request.to_offset,
            };
            failed = writer.serialize(row).err();
        }
        _ => {}
    });
    let (is_cut, damage) = match end {
        Ok(end) => (end == TraceEnd::Cut, None),
        Err(error @ TraceError::Damaged { .. }) if requests > 0 => (false, Some(error.to_string())),
        Err(error) => return Err(error.into()),
    };
    if let Some(error) = failed {
        return Err(unwritable(error));
    }
    writer.flush().map_err(ExchangeError::Write)?;
    Ok(Exchanged { requests, left_out, is_cut, damage })
}

pub(super) fn import(input: impl BufRead) -> Result<Lines, ExchangeError> {
    let mut lines = Lines::default();
    let mut reader = csv::Reader::from_reader(input);
    let no_table = || ExchangeError::Line {
        line: 1,
        what: "it has no headings of a table of `dio record export`".into(),
    };
    let headings = reader.headers().map_err(|_| no_table())?;
    if !COLUMNS[..COLUMNS_MIN].iter().all(|column| headings.iter().any(|found| found == *column)) {
        return Err(no_table());
    }
    for (number, row) in reader.deserialize::<Row>().enumerate() {
        let wrong = |what: String| ExchangeError::Line { line: number as u64 + 2, what };
        let row = row.map_err(|error| wrong(error.to_string()))?;
        let call = Call::ALL.into_iter().find(|call| call.name() == row.call);
        let call = call.ok_or_else(|| wrong(format!("there is no call {}", row.call)))?;
        let thread = lines.thread(row.pid, row.tid, row.program.as_bytes());
        let file = lines.file(row.path.as_bytes(), row.kind, row.size);
        let to = row.to.filter(|to| !to.is_empty());
        let to = to.map(|to| lines.file(to.as_bytes(), FileKind::Regular, 0));
        lines.add(Request {
            call,
            thread,
            file,
            offset: row.offset,
            asked: row.asked,
            flags: row.flags,
            done: row.done,
            cached: row.cached,
            direct: row.direct,
            synced: row.synced,
            waited: row.waited,
            start: row.start_ns,
            duration: row.duration_ns,
            to,
            to_offset: row.to_offset,
        });
    }
    Ok(lines)
}

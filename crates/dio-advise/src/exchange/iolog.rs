//! The logs that fio writes and replays (`write_iolog`, `read_iolog`; "Trace file format" of its
//! manual). A line has microseconds since the beginning, a file, an action, and for requests an
//! offset and a length.

use std::io::{BufRead, Write};
use std::path::PathBuf;

use super::lines::Lines;
use super::model::ExchangeError;
use crate::replay::planned::{Plan, PlannedFile, PlannedRequest};
use crate::replay::scratch::NewFiles;
use crate::trace::{Call, FileKind, Request};

/// Writes the requests of a plan, and returns how many there were.
pub(super) fn export(
    plan: &Plan,
    files: Option<&mut NewFiles<'_>>,
    mut out: impl Write,
) -> Result<u64, ExchangeError> {
    let is_recorded = files.is_none();
    let names = names(plan, files)?;
    let mut requests: Vec<(u64, u32, &str, u64, u64)> = Vec::new();
    for request in plan.requests() {
        let mut add = |file, action, offset, bytes| {
            requests.push((request.start / 1000, file, action, offset, bytes));
        };
        match action(request) {
            Some(action) => add(request.file, action, request.offset, request.done),
            None => continue,
        }
        if let Some((to, place)) = request.to {
            add(to, "write", place, request.done);
        }
    }
    requests.sort_by_key(|request| request.0);
    let written = requests.iter().find(|request| request.2 == "write");
    if let (true, Some((_, file, ..))) = (is_recorded, written) {
        return Err(ExchangeError::Writes(dio::quote::named(&plan.files[*file as usize].path)));
    }
    let mut write = || -> std::io::Result<()> {
        writeln!(out, "fio version 3 iolog")?;
        let used = || plan.files.iter().zip(&names).filter(|(file, _)| file.is_used);
        for action in ["add", "open"] {
            used().try_for_each(|(_, name)| writeln!(out, "0 {name} {action}"))?;
        }
        for (time, file, action, offset, bytes) in &requests {
            writeln!(out, "{time} {} {action} {offset} {bytes}", names[*file as usize])?;
        }
        let last = requests.last().map_or(0, |request| request.0);
        used().try_for_each(|(_, name)| writeln!(out, "{last} {name} close"))?;
        out.flush()
    };
    write().map_err(ExchangeError::Write)?;
    Ok(requests.len() as u64)
}

fn action(request: &PlannedRequest) -> Option<&'static str> {
    match request.call {
        Call::Fsync => Some("sync"),
        Call::Fdatasync => Some("datasync"),
        // fio makes no requests without bytes.
        _ if request.done == 0 => None,
        call if call.reads() => Some("read"),
        call if call.writes() => Some("write"),
        _ => None,
    }
}

/// The names of the files: those of `files`, which are made, or the recorded ones.
fn names(plan: &Plan, files: Option<&mut NewFiles<'_>>) -> Result<Vec<String>, ExchangeError> {
    if let Some(files) = files {
        return files.make(plan)?.into_iter().map(plain).collect();
    }
    let name = |file: &PlannedFile| match file.is_used {
        true => plain(file.path.clone()),
        false => Ok(String::new()),
    };
    plan.files.iter().map(name).collect()
}

/// A name that the format can hold.
fn plain(path: PathBuf) -> Result<String, ExchangeError> {
    let named = || ExchangeError::Name(dio::quote::named(&path));
    let name = path.to_str().ok_or_else(named)?;
    if name.is_empty() || name.contains(char::is_whitespace) {
        return Err(named());
    }
    Ok(name.to_owned())
}

/// Reads a log of version 2 or 3.
pub(super) fn import(input: impl BufRead) -> Result<Lines, ExchangeError> {
    let mut lines = Lines::default();
    let thread = lines.thread(1, 1, b"fio");
    let (mut version, mut waited) = (0, 0);
    for (number, line) in input.lines().enumerate() {
        let line = line.map_err(ExchangeError::Read)?;
        let wrong = |what: &str| ExchangeError::Line { line: number as u64 + 1, what: what.into() };
        if number == 0 {
            version = match line.trim_end() {
                "fio version 2 iolog" => 2,
                "fio version 3 iolog" => 3,
                _ => return Err(wrong("it is no iolog of version 2 or 3")),
            };
            continue;
        }
        let mut words = line.split_ascii_whitespace().peekable();
        if words.peek().is_none() {
            continue;
        }
        let count = |word: Option<&str>, what: &str| {
            let word = word.ok_or_else(|| wrong(&format!("{what} is missing")))?;
            word.parse::<u64>().map_err(|_| wrong(&format!("{what} is no number: {word}")))
        };
        let time = if version == 3 {
            count(words.next(), "the time")?.saturating_mul(1000)
        } else {
            waited
        };
        let name = words.next().ok_or_else(|| wrong("the file is missing"))?;
        let action = words.next().ok_or_else(|| wrong("the action is missing"))?;
        let (call, flags) = match action {
            "add" | "open" | "close" => continue,
            "wait" => {
                // Microseconds, in the place of the offset.
                waited =
                    waited.saturating_add(count(words.next(), "the time")?.saturating_mul(1000));
                continue;
            }
            "read" => (Call::Pread, 0),
            "write" => (Call::Pwrite, 0),
            "sync" => (Call::Fsync, 0),
            "datasync" => (Call::Fdatasync, 0),
            "trim" => (Call::Fallocate, PUNCH),
            _ => {
                lines.left_out += 1;
                continue;
            }
        };
        let (offset, bytes) =
            (count(words.next(), "the offset")?, count(words.next(), "the length")?);
        let size = if call.reads() { offset.saturating_add(bytes) } else { 0 };
        let file = lines.file(name.as_bytes(), FileKind::Regular, size);
        lines.add(Request {
            flags,
            cached: if call.reads() { bytes } else { 0 },
            ..Request::at(time, call, thread, (file, offset), bytes)
        });
    }
    if version == 0 {
        return Err(ExchangeError::Line { line: 1, what: "it is empty".into() });
    }
    Ok(lines)
}

/// `FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE`
const PUNCH: u32 = 3;

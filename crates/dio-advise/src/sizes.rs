//! Which calls a command makes to each file: how many, of which sizes, and in which order.

mod text;

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::io::{self, Read};

use serde::Serialize;

use crate::trace::{
    Call, Event, EventSink, FileInfo, FileKind, Request, TraceEnd, TraceError, WatchCost, read,
};

/// So many different sizes of a group are counted one by one.
const EXACT_SIZES: usize = 256;

/// So many sizes of a group are reported, the most frequent first.
const REPORTED_SIZES: usize = 8;

/// The size of requests that savings are computed for, in bytes.
const LARGE: u64 = 8 << 20;

/// A saving is worth a line if it is at least so many calls.
const WORTH_CALLS: u64 = 1000;

/// Calls in sequence have this part, at least, of their offsets where the last call ended.
const SEQUENTIAL: f64 = 0.9;

/// The calls of a trace, by file.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct SizesReport {
    /// The command and its arguments.
    pub command: Vec<String>,
    /// How long it ran; `None` if the trace ends before the command did.
    pub seconds: Option<f64>,
    /// Its status as a shell shows it.
    pub status: Option<u8>,
    /// Calls that are missing in the trace.
    pub lost: u64,
    /// The files, those first of which calls moved the most bytes.
    pub files: Vec<FileCalls>,
    /// What larger requests would save.
    pub savings: Vec<Saving>,
    /// Calls that begin I/O which is not recorded, or not wholly, by name: of mapped files the
    /// report has the first touches only, and some kernels do not tell of the requests of io_uring
    /// and of asynchronous I/O.
    pub unseen: BTreeMap<&'static str, u64>,
    /// Whether the first touches of mapped files are in the report.
    pub sees_faults: bool,
    /// Files of which it is not known what was new to the page cache.
    pub files_unseen: u64,
}

/// The calls to one file.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct FileCalls {
    /// Its name; empty if it is not known.
    pub path: String,
    /// Its kind.
    pub kind: FileKind,
    /// Its size at the first call, in bytes.
    pub size: u64,
    /// The calls, by program and name.
    pub calls: Vec<CallSizes>,
}

impl FileCalls {
    /// Files that calls read or wrote come before those that were only mapped, of which each
    /// program has some twenty; those with more bytes come first, and then those with more calls.
    fn weight(&self) -> Reverse<(u64, u64, u64)> {
        let sum = |of: &dyn Fn(&CallSizes) -> u64| self.calls.iter().map(of).sum();
        let called = sum(&|calls| if calls.call.is_fault() { 0 } else { calls.bytes });
        Reverse((called, sum(&|calls| calls.bytes), sum(&|calls| calls.count)))
    }
}

/// The calls of one name by one program to one file.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct CallSizes {
    /// The name of the program, at most 15 bytes.
    pub program: String,
    /// The system call.
    pub call: Call,
    /// How often it was made.
    pub count: u64,
    /// How often it failed.
    pub errors: u64,
    /// The bytes that it moved.
    pub bytes: u64,
    /// The bytes of pages that were new to the page cache during it, by read-ahead too.
    pub cached: u64,
    /// The time that threads spent in it, in seconds, without what watching added.
    pub seconds: f64,
    /// The part of the calls that began where the thread's last call to the file ended.
    pub sequential: f64,
    /// The most frequent sizes that were asked for.
    pub sizes: Vec<SizeCount>,
    /// The number of calls by size: number `n` counts those of at least 2^(n-1) and less than 2^n
    /// bytes.
    pub powers: Vec<u64>,
}

/// A size, and how often it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SizeCount {
    /// The size in bytes.
    pub bytes: u64,
    /// The number of calls.
    pub count: u64,
}

/// Calls that large requests would save.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Saving {
    /// The program.
    pub program: String,
    /// The call.
    pub call: Call,
    /// The file.
    pub path: String,
    /// The size that it asks for most often, in bytes.
    pub asks: u64,
    /// The size that would be better.
    pub better: u64,
    /// The number of calls that this saves.
    pub calls: u64,
}

/// Calls in the making of a report.
#[derive(Debug, Default)]
struct Group {
    count: u64,
    errors: u64,
    bytes: u64,
    cached: u64,
    nanos: u64,
    in_sequence: u64,
    sizes: HashMap<u64, u64>,
    powers: Vec<u64>,
}

impl Group {
    fn add(&mut self, request: &Request, duration: u64, in_sequence: bool) {
        self.cached += request.cached;
        if request.call == Call::Fault && request.done == 0 {
            return;
        }
        self.count += 1;
        self.errors += u64::from(request.done < 0);
        self.bytes += moved(request);
        self.nanos += duration;
        self.in_sequence += u64::from(in_sequence);
        if self.sizes.len() < EXACT_SIZES || self.sizes.contains_key(&request.asked) {
            *self.sizes.entry(request.asked).or_default() += 1;
        }
        let power = (u64::BITS - request.asked.leading_zeros()) as usize;
        self.powers.resize(self.powers.len().max(power + 1), 0);
        self.powers[power] += 1;
    }

    fn report(self, program: String, call: Call) -> CallSizes {
        let mut sizes: Vec<SizeCount> =
            self.sizes.into_iter().map(|(bytes, count)| SizeCount { bytes, count }).collect();
        sizes.sort_by_key(|size| (Reverse(size.count), size.bytes));
        sizes.truncate(REPORTED_SIZES);
        CallSizes {
            program,
            call,
            count: self.count,
            errors: self.errors,
            bytes: self.bytes,
            cached: self.cached,
            seconds: self.nanos as f64 / 1e9,
            sequential: self.in_sequence as f64 / self.count.max(1) as f64,
            sizes,
            powers: self.powers,
        }
    }
}

/// The bytes that a call moved. Other calls return numbers that are no bytes.
fn moved(request: &Request) -> u64 {
    if request.call.reads() || request.call.writes() { request.done.max(0) as u64 } else { 0 }
}

/// Counts the calls of a trace, or of a command while it runs. Its memory grows with the number of
/// files, not with that of the calls.
#[derive(Debug, Default)]
pub struct SizesCounter {
    heading: Vec<String>,
    cost: WatchCost,
    programs: Vec<String>,
    files: Vec<FileInfo>,
    groups: HashMap<(u32, String, Call), Group>,
    /// Where the last call of each thread to each file ended.
    ends: HashMap<(u32, u32), u64>,
    lost: u64,
    ended: Option<(u8, u64)>,
    unseen: BTreeMap<&'static str, u64>,
    /// The calls whose requests are not in the trace.
    hidden: Vec<Call>,
    sees_faults: bool,
    files_unseen: u64,
}

impl EventSink for SizesCounter {
    fn add(&mut self, event: &Event) -> io::Result<()> {
        match event {
            Event::Heading(heading) => {
                self.heading.clone_from(&heading.command);
                self.cost = heading.cost;
                self.sees_faults = heading.sees_faults;
                self.hidden = heading.hidden();
            }
            Event::Thread { name, .. } => {
                self.programs.push(String::from_utf8_lossy(name).into_owned());
            }
            Event::File(file) => self.files.push(file.clone()),
            Event::Request(request) => self.request(request),
            Event::Lost(count) => self.lost += count,
            Event::Cost(cost) => self.cost = *cost,
            Event::CacheUnseen { .. } => self.files_unseen += 1,
            Event::Unrecorded { .. } => {}
            Event::Ended { status, after } => self.ended = Some((*status, *after)),
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl SizesCounter {
    fn request(&mut self, request: &Request) {
        if request.call == Call::Mmap || self.hidden.contains(&request.call) {
            *self.unseen.entry(request.call.name()).or_default() += 1;
            return;
        }
        let place = (request.thread, request.file);
        let end = self.ends.entry(place).or_default();
        let in_sequence = *end == request.offset;
        if request.call.reads() || request.call.writes() {
            *end = request.offset.saturating_add(moved(request));
        }
        let program = self.programs.get(request.thread as usize).cloned().unwrap_or_default();
        let duration = request.duration.saturating_sub(self.cost.within);
        let mut count = |file, call| {
            let group = self.groups.entry((file, program.clone(), call)).or_default();
            group.add(request, duration, in_sequence);
        };
        count(request.file, request.call);
        if let Some(to) = request.to {
            count(to, request.call);
        }
    }

    /// The report of what was counted so far.
    pub fn report(self) -> SizesReport {
        let mut files: Vec<FileCalls> = self
            .files
            .iter()
            .map(|file| FileCalls {
                path: String::from_utf8_lossy(&file.path).into_owned(),
                kind: file.kind,
                size: file.size,
                calls: Vec::new(),
            })
            .collect();
        for ((file, program, call), group) in self.groups {
            if let Some(file) = files.get_mut(file as usize) {
                file.calls.push(group.report(program, call));
            }
        }
        for file in &mut files {
            file.calls
                .sort_by(|a, b| (b.count, &a.program, a.call).cmp(&(a.count, &b.program, b.call)));
        }
        files.retain(|file| !file.calls.is_empty());
        files.sort_by_cached_key(FileCalls::weight);
        SizesReport {
            command: self.heading,
            seconds: self.ended.map(|(_, after)| after as f64 / 1e9),
            status: self.ended.map(|(status, _)| status),
            lost: self.lost,
            savings: savings(&files),
            files,
            unseen: self.unseen,
            sees_faults: self.sees_faults,
            files_unseen: self.files_unseen,
        }
    }
}

fn savings(files: &[FileCalls]) -> Vec<Saving> {
    let mut savings = Vec::new();
    for file in files.iter().filter(|file| file.kind != FileKind::Other) {
        for calls in &file.calls {
            let moves = (calls.call.reads() || calls.call.writes())
                && !calls.call.copies()
                && !calls.call.is_fault();
            let needed = calls.bytes.div_ceil(LARGE);
            let saved = (calls.count - calls.errors).saturating_sub(needed);
            let in_sequence = calls.sequential >= SEQUENTIAL || file.kind == FileKind::Pipe;
            let asks = calls.sizes.first().map_or(0, |size| size.bytes);
            if moves && in_sequence && saved >= WORTH_CALLS && asks < LARGE {
                savings.push(Saving {
                    program: calls.program.clone(),
                    call: calls.call,
                    path: file.path.clone(),
                    asks,
                    better: LARGE,
                    calls: saved,
                });
            }
        }
    }
    savings.sort_by_key(|saving| Reverse(saving.calls));
    savings
}

/// Reads a trace and reports its calls. If the trace is damaged, the report is of the events before
/// the damage, which is returned too.
pub fn sizes(trace: impl Read) -> (SizesReport, Result<TraceEnd, TraceError>) {
    let mut counter = SizesCounter::default();
    let end = read(trace, |event| counter.add(&event).expect("counting does not fail"));
    (counter.report(), end)
}

#[cfg(test)]
mod tests;

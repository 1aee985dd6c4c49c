//! The copy itself: reads large blocks of files, or records of everything else, and passes them
//! through the conversions to the target.

use std::fmt::Display;
use std::io;
use std::sync::Arc;

use dio::geometry::align_up;
use dio::stream::{Input, StreamOptions};
use rustix::io::Errno;

use super::account::Account;
use super::convert::Converter;
use super::flags::{Level, conv};
use super::open::{self, End, failure};
use super::plan::DdPlan;
use super::signals::Signals;
use super::source::{self, ReadResult, Records};
use super::target::CopyOutput;
use crate::quote::{named, quoted, words};
use crate::receipt::{FileLine, Role, dominant_class};
use crate::tool::{Source, Tool, errno_of};

/// Number of converted bytes that are collected before they are written.
const ROOM: usize = 1 << 20;

/// The reason why a copy ended early. Failures have been reported, except those of writing.
#[derive(Debug)]
pub(super) enum CopyEnd {
    /// Reading, seeking or opening failed.
    Failed,
    /// Writing failed.
    Write(io::Error),
    /// A signal stopped the copy.
    Stopped,
    /// After a failure, syncing the output failed too. GNU dd then prints no report.
    Silent,
}

/// State of a copy.
pub(super) struct DdCopy<'run> {
    pub(super) tool: &'run Tool,
    pub(super) plan: &'run DdPlan,
    pub(super) account: &'run Arc<Account>,
    pub(super) signals: &'run Signals,
    pub(super) input: &'run End,
    pub(super) target: CopyOutput<'run>,
    pub(super) converter: Option<Converter>,
    converted: Vec<u8>,
}

/// Source of the bytes.
enum Feed {
    /// A file that is read in chunks: `left` is the maximum number of bytes to read, and `start`
    /// the offset of the first.
    Chunks {
        source: Box<Source>,
        left: u64,
        start: u64,
    },
    Records(Box<Records>),
}

impl<'run> DdCopy<'run> {
    pub(super) fn new(
        tool: &'run Tool,
        plan: &'run DdPlan,
        account: &'run Arc<Account>,
        signals: &'run Signals,
        input: &'run End,
        target: CopyOutput<'run>,
    ) -> DdCopy<'run> {
        let converter = Converter::new(plan.conv, plan.cbs);
        DdCopy { tool, plan, account, signals, input, target, converter, converted: Vec::new() }
    }

    /// Copies all input, and writes all bytes that were held back.
    pub(super) fn run(&mut self, skipping: Option<Records>, ahead: bool) -> Result<(), CopyEnd> {
        let copied = self.feed(skipping, ahead).and_then(|feed| match feed {
            Some(feed) => self.all(feed),
            None => Ok(()),
        });
        match copied {
            Err(CopyEnd::Write(error)) => Err(CopyEnd::Write(error)),
            // Also after a stop: if bytes that were read cannot be written, that error is returned.
            other => self.finish().and(other),
        }
    }

    /// Decides how to read the input; `None` if nothing is to be read. `skipping` is the reader
    /// that was used to skip, if any.
    fn feed(&self, skipping: Option<Records>, ahead: bool) -> Result<Option<Feed>, CopyEnd> {
        let (plan, input) = (self.plan, self.input);
        if plan.most_bytes() == Some(0) {
            return Ok(None);
        }
        if let Some(records) = skipping {
            return Ok(Some(Feed::Records(Box::new(records))));
        }
        let told =
            |result: io::Result<Records>| result.map_err(|error| tell(self.tool, input, &error));
        if !(ahead || input.striped) || !source::has_blocks(input) {
            return Ok(Some(Feed::Records(Box::new(told(Records::of_descriptor(input, plan))?))));
        }
        let start = open::place(input).unwrap_or(0);
        let left = plan.most_bytes().unwrap_or(u64::MAX);
        let source = self.source(start, left).map_err(|error| tell(self.tool, input, &error))?;
        match plan.conv.any(conv::NOERROR) {
            true => {
                Ok(Some(Feed::Records(Box::new(told(Records::of_source(source, input, plan))?))))
            }
            false => Ok(Some(Feed::Chunks { source: Box::new(source), left, start })),
        }
    }

    /// Opens the input as a source that reads no further ahead than needed.
    fn source(&self, start: u64, left: u64) -> io::Result<Source> {
        let how = self.tool.stream_options();
        let left = left.min(self.input.size().map_or(u64::MAX, |size| size.saturating_sub(start)));
        let block = align_up(left.min(how.block as u64), 4096).max(4096);
        // The target may keep any number of chunks, so the depth is reduced only if there is a
        // single one.
        let depth = if left <= block { 1 } else { how.depth };
        let how = StreamOptions { block: block as usize, depth, ..*how };
        let fd = self.input.fd.try_clone()?;
        Ok(self.tool.source(Input::adopt(fd, &self.input.path, &how)?))
    }

    fn all(&mut self, feed: Feed) -> Result<(), CopyEnd> {
        let copied = match feed {
            Feed::Records(records) => self.records(*records),
            Feed::Chunks { source, left, start } => self.chunks(*source, left, start),
        };
        // The bytes of an incomplete last record are written too, also after a stop or a read
        // error.
        if !matches!(copied, Err(CopyEnd::Write(_))) {
            self.end_of_input()?;
        }
        copied
    }

    /// Copies at most `left` bytes of a file from `at` on, in large blocks.
    ///
    /// A source covers the bytes that the file has when it is opened. Bytes that were appended
    /// since are read by another source.
    fn chunks(&mut self, mut source: Source, mut left: u64, mut at: u64) -> Result<(), CopyEnd> {
        loop {
            let held = left.min(source.len().map_or(u64::MAX, |size| size.saturating_sub(at)));
            let count = match self.some_chunks(&mut source, held)? {
                Some(count) => count,
                // Reads record by record from here, to find the one that cannot be read.
                None => {
                    let records = Records::of_source(source, self.input, self.plan);
                    return self
                        .records(records.map_err(|error| tell(self.tool, self.input, &error))?);
                }
            };
            let closed = source.close();
            (left, at) = (left - count, at + count);
            // The last chunk read may reach beyond the bytes that were wanted.
            let _ = rustix::fs::seek(&self.input.fd, rustix::fs::SeekFrom::Start(at));
            closed.map_err(|error| tell(self.tool, self.input, &error))?;
            if self.signals.stop() {
                return Err(CopyEnd::Stopped);
            }
            if left == 0 || count < held || !self.input.reaches_beyond(at) {
                return Ok(());
            }
            source = self.source(at, left).map_err(|error| tell(self.tool, self.input, &error))?;
        }
    }

    /// Copies chunks of one source, directly to the target if nothing is converted. Returns the
    /// number of bytes read, at most `held`, or `None` if some could not be read.
    fn some_chunks(&mut self, source: &mut Source, held: u64) -> Result<Option<u64>, CopyEnd> {
        let mut left = held;
        while left > 0 && !self.signals.stop() {
            self.account.tick();
            let mut chunk = match source.next_chunk() {
                Ok(Some(chunk)) => chunk,
                Ok(None) => break,
                Err(_) => return Ok(None),
            };
            chunk.truncate(usize::try_from(left).unwrap_or(usize::MAX));
            let count = chunk.len() as u64;
            left -= count;
            self.account.update(|counts| counts.input.stream(self.plan.ibs, count));
            match self.converter {
                // The target may keep a chunk for a while. Short chunks are copied instead, because
                // it may keep too many of them.
                None if chunk.len() < self.tool.stream_options().block => {
                    self.target.put(&chunk).map_err(CopyEnd::Write)?
                }
                None => self.target.put_chunk(chunk).map_err(CopyEnd::Write)?,
                Some(_) => self.pass_on(&chunk)?,
            }
        }
        Ok(Some(held - left))
    }

    /// Copies record by record.
    fn records(&mut self, mut records: Records) -> Result<(), CopyEnd> {
        loop {
            self.account.tick();
            let side = self.account.counts().input;
            let (signals, mut broken) = (self.signals, None);
            let got = records.next(&side, signals, &mut || broken = self.target.settle().err());
            if let Some(error) = broken {
                return Err(CopyEnd::Write(error));
            }
            match got {
                ReadResult::End => break,
                ReadResult::Stopped => return Err(CopyEnd::Stopped),
                ReadResult::Bad { error, lost } => self.bad_record(&records, error, lost)?,
                ReadResult::Bytes { count, asked, cut } => {
                    if count > 0 {
                        records.warn_of_short(self.tool, asked);
                    }
                    if cut {
                        records.note_short(count);
                    }
                    self.tool.progressed(count as u64);
                    self.account.update(|counts| counts.input.stream(self.plan.ibs, count as u64));
                    let missing = if cut { self.cut() } else { 0 };
                    self.pass_on(records.bytes(count))?;
                    if cut {
                        self.after_cut(missing)?;
                    }
                }
            }
        }
        let counters = records.end().map_err(|errno| self.fail(self.not_read(errno)))?;
        if let Some(counters) = counters {
            self.tool.ledger().count(&counters);
            let (mode, reason) = dominant_class(&counters.read, &counters);
            let (path, role) = (self.input.path.clone(), Role::Source);
            self.tool.ledger().list(|| FileLine {
                path,
                role,
                mode,
                reason,
                pages_before: None,
                pages_after: None,
            });
        }
        Ok(())
    }

    /// Skips a record that cannot be read, if `conv=noerror` is given.
    fn bad_record(&mut self, records: &Records, error: Errno, lost: u64) -> Result<(), CopyEnd> {
        if !self.plan.conv.any(conv::NOERROR) || !records.can_pass_over() {
            return Err(self.fail(self.not_read(error)));
        }
        // Skipping a record on request is no failure.
        if self.plan.level != Level::None {
            self.tool.note(self.not_read(error));
        }
        self.account.report();
        if lost == 0 {
            return Ok(());
        }
        if !self.plan.conv.any(conv::SYNC) {
            self.cut();
            return self.target.end_record().map_err(CopyEnd::Write);
        }
        // The record counts as a short one, and all its bytes are missing.
        self.account.update(|counts| {
            if !counts.input.cut() {
                counts.input.partial += 1;
            }
        });
        self.pad(lost)
    }

    fn not_read(&self, errno: Errno) -> String {
        failure(format_args!("error reading {}", quoted(&self.input.name)), errno)
    }

    /// Ends the record in progress; returns the number of bytes it lacks.
    fn cut(&mut self) -> u64 {
        let ibs = self.plan.ibs;
        self.account.update(|counts| {
            let rest = counts.input.rest();
            if counts.input.cut() { ibs - rest } else { 0 }
        })
    }

    /// Ends a short record, after its bytes have been passed on.
    fn after_cut(&mut self, missing: u64) -> Result<(), CopyEnd> {
        if self.plan.conv.any(conv::SYNC) {
            self.pad(missing)?;
        }
        self.target.end_record().map_err(CopyEnd::Write)
    }

    /// Fills a record up with `missing` bytes.
    fn pad(&mut self, mut missing: u64) -> Result<(), CopyEnd> {
        let padding = [self.plan.padding(); 4096];
        while missing > 0 {
            let count = missing.min(padding.len() as u64);
            self.pass_on(&padding[..count as usize])?;
            missing -= count;
        }
        Ok(())
    }

    /// Passes bytes through the conversions to the target.
    fn pass_on(&mut self, bytes: &[u8]) -> Result<(), CopyEnd> {
        let Some(converter) = &mut self.converter else {
            return self.target.put(bytes).map_err(CopyEnd::Write);
        };
        for portion in bytes.chunks(converter.portion(ROOM)) {
            converter.feed(portion, &mut self.converted);
            if self.converted.len() >= ROOM {
                self.target.put(&self.converted).map_err(CopyEnd::Write)?;
                self.converted.clear();
            }
        }
        let truncated = converter.truncated();
        self.account.update(|counts| counts.truncated = truncated);
        self.target.put(&self.converted).map_err(CopyEnd::Write)?;
        self.converted.clear();
        Ok(())
    }

    fn end_of_input(&mut self) -> Result<(), CopyEnd> {
        let missing = self.cut();
        self.after_cut(missing)?;
        if let Some(converter) = &mut self.converter {
            converter.finish(&mut self.converted);
            let truncated = converter.truncated();
            self.account.update(|counts| counts.truncated = truncated);
            self.target.put(&self.converted).map_err(CopyEnd::Write)?;
            self.converted.clear();
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), CopyEnd> {
        self.target.finish().map_err(CopyEnd::Write)
    }

    fn fail(&self, message: impl Display) -> CopyEnd {
        self.tool.error(message);
        CopyEnd::Failed
    }
}

/// Skips input as `skip=` demands. Input that cannot seek is read and discarded; its reader is
/// returned, because the copy must continue with it.
pub(super) fn skip(
    tool: &Tool,
    plan: &DdPlan,
    signals: &Signals,
    input: &End,
) -> Result<Option<Records>, CopyEnd> {
    let fail = |message: String| {
        tool.error(message);
        CopyEnd::Failed
    };
    if plan.skip.is_none() {
        return Ok(None);
    }
    let cannot = || {
        if plan.level != Level::None {
            tool.note(format_args!("{}: cannot skip to specified offset", named(&input.name)));
        }
    };
    let offset = plan.skip.offset(plan.ibs);
    if let Some(start) = open::place(input) {
        let to = open::advance(input, offset).map_err(|errno| {
            fail(failure(format_args!("{}: cannot skip", named(&input.name)), errno))
        })?;
        // The size is read now, because the output may be the same file and may have been
        // truncated.
        if input.size().is_some_and(|size| to > start.max(size)) {
            cannot();
        }
        return Ok(None);
    }
    let mut records =
        Records::of_descriptor(input, plan).map_err(|error| tell(tool, input, &error))?;
    match records.skip(plan, signals, tool) {
        Err(errno) => {
            Err(fail(failure(format_args!("error reading {}", quoted(&input.name)), errno)))
        }
        Ok(None) => Err(CopyEnd::Stopped),
        Ok(passed) => {
            if passed != offset {
                cannot();
            }
            Ok(Some(records))
        }
    }
}

/// Reports an error of the input. The library's message is used if there is one, as it gives the
/// offset and perhaps a cure.
fn tell(tool: &Tool, input: &End, error: &io::Error) -> CopyEnd {
    match error.get_ref().is_some_and(|error| error.is::<dio::FileError>()) {
        true => tool.error(error),
        false => tool.error(format_args!("{}: {}", named(&input.name), words(errno_of(error)))),
    }
    CopyEnd::Failed
}

//! What is written: counted in records of `obs`, in requests as large as the destination likes.

use std::io::{self, Write};
use std::sync::Arc;

use dio::stream::Chunk;

use super::account::{Account, Side};
use super::flags::{Level, conv, flag};
use super::plan::Plan;
use super::signals::Signals;
use super::source;
use crate::tool::Sink;

/// Largest record that is gathered before it is written to what is no file.
const MOST_GATHERED: u64 = 4 << 20;

/// Bytes after which a pipe that is full has room again (`fs/pipe.c`): under `status=progress`, no
/// write waits for more before progress is shown.
const PIPE_STEP: u64 = 4096;

/// Zeros at a time, to write and to compare with.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// A destination.
#[derive(Debug)]
pub(super) struct Target<'run> {
    sink: Sink,
    account: &'run Arc<Account>,
    signals: &'run Signals,
    obs: u64,
    single: bool,
    /// Most bytes of one write(2) to what is no file. Where each is a record of the destination, it
    /// is `obs` bytes long, or as short as the record that was read.
    most: usize,
    /// Bytes of a record that is not full, where records are written whole.
    gathered: Option<Vec<u8>>,
    holes: Option<Holes>,
    /// What is written will be read: nothing is left behind.
    at_once: bool,
    start: u64,
    /// Bytes that were put, whether or not they are written yet.
    given: u64,
    failed: Option<Failed>,
}

/// A write that failed before its record was put wholly.
#[derive(Debug)]
struct Failed {
    error: io::Error,
    /// Bytes to put until it is told: the end of the record that did not reach the destination.
    until: u64,
}

/// `conv=sparse`: records of zeros are sought over.
#[derive(Debug, Default)]
struct Holes {
    /// Bytes of the record under way.
    at: u64,
    /// It holds something else than zeros, and was written up to here. Invariant: until then its
    /// zeros are not written.
    dirty: bool,
    /// Bytes of whole records to seek over before the next write.
    gap: u64,
    /// The end of a device, behind which nobody can seek: a record of zeros that reaches it is
    /// written, which fails.
    end: Option<u64>,
}

impl<'run> Target<'run> {
    /// Writes to a sink from where it is. `records` says that each write(2) is a record of the
    /// destination; `at_once` writes record by record, because what is written will be read.
    pub(super) fn new(
        sink: Sink,
        plan: &Plan,
        account: &'run Arc<Account>,
        signals: &'run Signals,
        records: bool,
        at_once: bool,
    ) -> Target<'run> {
        let plain = sink.file().is_none();
        let most = match (records, plan.level) {
            (true, _) => plan.obs,
            (false, Level::Progress) => plan.obs * (PIPE_STEP / plan.obs).max(1),
            (false, _) => u64::MAX,
        };
        // What is appended goes to the end, so nothing can be sought over.
        let sparse = plan.conv.any(conv::SPARSE) && !plain && !plan.oflag.any(flag::APPEND);
        let end = sink.file().filter(|file| file.is_device()).and_then(|file| file.size().ok());
        let gathers = match records {
            true => plan.obs <= source::MOST,
            // With fullblock a record is complete before any of it is written.
            false => {
                let gathers = !plan.single || plan.iflag.any(flag::FULLBLOCK);
                (plain || at_once) && gathers && plan.obs <= MOST_GATHERED
            }
        };
        Target {
            start: sink.position(),
            given: 0,
            failed: None,
            sink,
            account,
            signals,
            obs: plan.obs,
            single: plan.single,
            most: usize::try_from(most).unwrap_or(usize::MAX),
            gathered: gathers.then(Vec::new),
            at_once,
            holes: sparse.then(|| Holes { end, ..Holes::default() }),
        }
    }

    /// The sink.
    pub(super) fn sink(&mut self) -> &mut Sink {
        &mut self.sink
    }

    /// Writes a chunk, whole blocks of a file without copying them.
    pub(super) fn put_chunk(&mut self, chunk: Chunk) -> io::Result<()> {
        if self.sink.file().is_none() || self.holes.is_some() {
            return self.put(&chunk);
        }
        let count = chunk.len() as u64;
        self.given += count;
        if self.failed.is_some() {
            return self.pass_over();
        }
        match self.sink.write_chunk(chunk) {
            Ok(()) => {
                self.count(count);
                Ok(())
            }
            Err(error) => self.fail(error),
        }
    }

    /// Writes bytes.
    pub(super) fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.given += bytes.len() as u64;
        if self.failed.is_some() {
            return self.pass_over();
        }
        self.put_bytes(bytes).or_else(|error| self.fail(error))
    }

    fn put_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Some(mut holes) = self.holes.take() {
            let put = self.put_sparsely(bytes, &mut holes);
            self.holes = Some(holes);
            return put;
        }
        let Some(mut gathered) = self.gathered.take() else { return self.write(bytes) };
        let written = self.gather(bytes, &mut gathered);
        self.gathered = Some(gathered);
        written
    }

    /// Nothing comes for a while: what was written gets into the file, where others see it and a
    /// kill cannot take it away.
    ///
    /// # Errors
    /// What writing answers.
    pub(super) fn settle(&mut self) -> io::Result<()> {
        if self.sink.file().is_none() || self.failed.is_some() {
            return Ok(());
        }
        self.sink.flush().or_else(|error| self.fail(error))
    }

    /// A write failed. GNU dd reads a record wholly before it writes any of it, and what it then
    /// tells depends on what it got: so what is left of the record is waited for, unless it is very
    /// long.
    fn fail(&mut self, error: io::Error) -> io::Result<()> {
        let until = self.end_of_failed(self.reached(&error));
        if until.saturating_sub(self.given) > source::MOST {
            return Err(error);
        }
        self.failed = Some(Failed { error, until });
        self.pass_over()
    }

    /// After a failure nothing is written; it is told when its record is complete.
    fn pass_over(&mut self) -> io::Result<()> {
        let given = self.given;
        self.failed.take_if(|failed| failed.until <= given).map_or(Ok(()), |failed| Err(failed.error))
    }

    /// The record being put is over: a failure that waited for it is told.
    fn tell(&mut self) -> io::Result<()> {
        self.failed.take().map_or(Ok(()), |failed| Err(failed.error))
    }

    /// Bytes that got to the destination before this.
    fn reached(&self, error: &io::Error) -> u64 {
        let Some(file) = self.sink.file() else { return self.account.counts().bytes };
        let place = error.get_ref().and_then(|error| error.downcast_ref::<dio::FileError>());
        let end = place.and_then(|error| error.offset()).or_else(|| file.size().ok()).unwrap_or(self.start);
        end.saturating_sub(self.start).min(self.given)
    }

    /// Where the record ends of which some bytes did not get there.
    fn end_of_failed(&self, reached: u64) -> u64 {
        (reached / self.obs + 1).saturating_mul(self.obs)
    }

    /// The record that was read last is short and over. Where records are kept, so is the one
    /// written.
    ///
    /// # Errors
    /// What writing answers.
    pub(super) fn end_record(&mut self) -> io::Result<()> {
        if !self.single {
            return Ok(());
        }
        self.tell()?;
        if let Some(mut gathered) = self.gathered.take() {
            let written = self.write(&gathered);
            gathered.clear();
            self.gathered = Some(gathered);
            written?;
        }
        if let Some(mut holes) = self.holes.take() {
            let ended = self.end_block(&mut holes);
            self.holes = Some(holes);
            ended?;
        }
        self.account.update(|counts| counts.output.cut());
        Ok(())
    }

    /// Everything was put: writes what was held back and waits for all of it.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        self.tell()?;
        if let Some(gathered) = self.gathered.take() {
            self.write(&gathered)?;
        }
        if let Some(mut holes) = self.holes.take() {
            self.end_block(&mut holes)?;
            if holes.gap > 0 {
                let end = self.sink.position() + holes.gap;
                self.sink.seek(end)?;
                self.sink.finish()?;
                let file = self.sink.file().expect("only a file has holes");
                if !file.is_device() && file.size()? < end {
                    file.set_size(end)?;
                }
            }
        }
        self.sink.finish()?;
        self.account.update(|counts| counts.output.cut());
        Ok(())
    }

    /// Writing failed: what was counted was only on its way, so what is told is what reached the
    /// destination, and what had to be read to get there. Gives GNU's word for it, which tells
    /// whole records of `obs` from others.
    pub(super) fn correct(&mut self, error: &io::Error, plan: &Plan) -> &'static str {
        let reached = self.reached(error);
        let failing = self.end_of_failed(reached);
        let (obs, ibs, single) = (plan.obs, plan.ibs, self.single);
        self.account.update(|counts| {
            counts.bytes = reached;
            counts.output = Side::default();
            counts.output.stream(obs, reached);
            // A record that went out in part counts only where records are gathered.
            if single {
                counts.output = counts.output.without_rest();
            }
            counts.output.cut();
            counts.input.cut();
            let mut needed = failing.div_ceil(ibs);
            // The last byte of an odd number is swapped with the first of the next record.
            if plan.conv.any(conv::SWAB) && needed.saturating_mul(ibs) & !1 < failing {
                needed += 1;
            }
            // The last record may have been short: it was not needed, or all were.
            let as_long = !plan.conv.any(conv::BLOCK.and(conv::UNBLOCK));
            let counted = as_long && counts.input.is_full_but_for_the_last();
            if counted && counts.input.full >= needed {
                counts.input = Side::of(needed);
            }
        });
        if failing <= self.given && !single { "writing to" } else { "error writing" }
    }

    /// Ends writing; the descriptor is behind what was written.
    pub(super) fn close(self) -> io::Result<()> {
        self.sink.close()
    }

    fn count(&self, bytes: u64) {
        self.account.update(|counts| {
            counts.output.stream(self.obs, bytes);
            counts.bytes += bytes;
        });
    }

    /// Writes at once, and counts what went out even when the rest failed.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.sink.file().is_some() {
            self.sink.write_all(bytes)?;
            if self.at_once {
                self.sink.flush()?;
            }
            self.count(bytes.len() as u64);
            return Ok(());
        }
        for mut part in bytes.chunks(self.most) {
            while !part.is_empty() {
                let sink = &mut self.sink;
                let count = self.signals.while_writing(|| sink.write(part))?;
                self.count(count as u64);
                self.account.tick();
                part = &part[count..];
            }
        }
        Ok(())
    }

    /// Writes whole records, as many at a time as there are, and keeps the rest.
    fn gather(&mut self, bytes: &[u8], gathered: &mut Vec<u8>) -> io::Result<()> {
        let obs = self.obs as usize;
        let mut rest = bytes;
        if !gathered.is_empty() {
            let (head, after) = rest.split_at(rest.len().min(obs - gathered.len()));
            gathered.extend_from_slice(head);
            rest = after;
            if gathered.len() < obs {
                return Ok(());
            }
            self.write(gathered)?;
            gathered.clear();
        }
        let (whole, after) = rest.split_at(rest.len() - rest.len() % obs);
        gathered.extend_from_slice(after);
        self.write(whole)
    }

    fn put_sparsely(&mut self, bytes: &[u8], holes: &mut Holes) -> io::Result<()> {
        // Bytes from `from` on are to be written, together with those of the records that follow.
        let (mut from, mut at) = (None, 0);
        while at < bytes.len() {
            let left = usize::try_from(self.obs - holes.at).unwrap_or(usize::MAX);
            let part = &bytes[at..at + left.min(bytes.len() - at)];
            if !holes.dirty && !is_zero(part) {
                holes.dirty = true;
                if holes.at > 0 || holes.gap > 0 {
                    self.fill(holes)?;
                }
            }
            match (holes.dirty, from) {
                (true, None) => from = Some(at),
                (false, Some(start)) => {
                    self.sink.write_all(&bytes[start..at])?;
                    from = None;
                }
                _ => {}
            }
            at += part.len();
            holes.at += part.len() as u64;
            if holes.at == self.obs {
                self.end_block(holes)?;
            }
        }
        from.map_or(Ok(()), |start| self.sink.write_all(&bytes[start..]))
    }

    /// A record turned out to hold something: seeks over those before it, and writes its zeros.
    fn fill(&mut self, holes: &mut Holes) -> io::Result<()> {
        if holes.gap > 0 {
            let to = self.sink.position() + std::mem::take(&mut holes.gap);
            self.sink.seek(to)?;
        }
        let mut zeros = holes.at;
        while zeros > 0 {
            let count = zeros.min(ZEROS.len() as u64);
            self.sink.write_all(&ZEROS[..count as usize])?;
            zeros -= count;
        }
        Ok(())
    }

    /// The record under way is over, full or not.
    fn end_block(&mut self, holes: &mut Holes) -> io::Result<()> {
        let to = self.sink.position() + holes.gap + holes.at;
        if !holes.dirty && holes.end.is_some_and(|end| to > end) {
            self.fill(holes)?;
        } else if !holes.dirty {
            holes.gap += holes.at;
        }
        self.count(holes.at);
        (holes.at, holes.dirty) = (0, false);
        Ok(())
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.chunks(ZEROS.len()).all(|part| part == &ZEROS[..part.len()])
}

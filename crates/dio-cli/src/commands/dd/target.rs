//! Writes the output: it is counted in records of `obs` bytes, and written in requests as large as
//! the destination allows.

use std::io::{self, Write};
use std::sync::Arc;

use dio::stream::Chunk;

use super::account::{Account, SideRecords};
use super::flags::{Level, conv, flag};
use super::plan::DdPlan;
use super::signals::Signals;
use super::source;
use crate::tool::Sink;

/// Maximum size of a record that is gathered before it is written to a destination that is no file.
const MOST_GATHERED: u64 = 4 << 20;

/// Number of bytes that must be free before a full pipe accepts a write again (`fs/pipe.c`). With
/// `status=progress`, no write is larger, so that progress is shown before the next wait.
const PIPE_STEP: u64 = 4096;

/// A block of zeros, to write and to compare with.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

#[derive(Debug)]
pub(super) struct CopyOutput<'run> {
    sink: Sink,
    account: &'run Arc<Account>,
    signals: &'run Signals,
    obs: u64,
    single: bool,
    /// Maximum size of one write(2) to a destination that is no file. If each write is a record of
    /// the destination, it has `obs` bytes, or is as short as the record that was read.
    most: usize,
    /// Bytes of an incomplete record, if records are written whole.
    gathered: Option<Vec<u8>>,
    holes: Option<Holes>,
    /// Written bytes will be read again, so none are held back.
    at_once: bool,
    start: u64,
    /// Number of bytes accepted, whether or not they are written yet.
    given: u64,
    failed: Option<Failed>,
}

/// A write that failed before its record was complete.
#[derive(Debug)]
struct Failed {
    error: io::Error,
    /// Value of `given` at which the error is returned: the end of the record that did not reach
    /// the destination.
    until: u64,
}

/// State of `conv=sparse`: records of zeros are skipped by seeking.
#[derive(Debug, Default)]
struct Holes {
    /// Bytes of the record in progress.
    at: u64,
    /// The record has a byte other than zero and is written up to `at`. Invariant: before that, its
    /// zeros are not written.
    dirty: bool,
    /// Bytes of whole records to seek over before the next write.
    gap: u64,
    /// The end of a device. Seeking beyond it is impossible, so a record of zeros that reaches
    /// beyond it is written, which fails.
    end: Option<u64>,
}

impl<'run> CopyOutput<'run> {
    /// Makes a target that writes to a sink from its position. `records` says that each write(2) is
    /// a record of the destination. `at_once` writes record by record, because the written bytes
    /// will be read.
    pub(super) fn new(
        sink: Sink,
        plan: &DdPlan,
        account: &'run Arc<Account>,
        signals: &'run Signals,
        records: bool,
        at_once: bool,
    ) -> CopyOutput<'run> {
        let plain = sink.file().is_none();
        let most = match (records, plan.level) {
            (true, _) => plan.obs,
            (false, Level::Progress) => plan.obs * (PIPE_STEP / plan.obs).max(1),
            (false, _) => u64::MAX,
        };
        // Appended bytes go to the end of the file, so seeking has no effect.
        let sparse = plan.conv.any(conv::SPARSE) && !plain && !plan.oflag.any(flag::APPEND);
        let end = sink.file().filter(|file| file.is_device()).and_then(|file| file.size().ok());
        let gathers = match records {
            true => plan.obs <= source::RECORD_BYTES_MAX,
            // With fullblock a record is complete before any of it is written.
            false => {
                let gathers = !plan.single || plan.iflag.any(flag::FULLBLOCK);
                (plain || at_once) && gathers && plan.obs <= MOST_GATHERED
            }
        };
        CopyOutput {
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

    pub(super) fn sink(&mut self) -> &mut Sink {
        &mut self.sink
    }

    /// Writes a chunk. Whole blocks go to a file without being copied.
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

    /// Flushes the output to the file while the input pauses, so that others can read it and a kill
    /// cannot lose it.
    ///
    /// # Errors
    /// Writing failed.
    pub(super) fn settle(&mut self) -> io::Result<()> {
        if self.sink.file().is_none() || self.failed.is_some() {
            return Ok(());
        }
        self.sink.flush().or_else(|error| self.fail(error))
    }

    /// Handles a write error. GNU dd reads a record completely before it writes any of it, and its
    /// report depends on that read. So the rest of the record is awaited, unless it is very long.
    fn fail(&mut self, error: io::Error) -> io::Result<()> {
        let until = self.end_of_failed(self.reached(&error));
        if until.saturating_sub(self.given) > source::RECORD_BYTES_MAX {
            return Err(error);
        }
        self.failed = Some(Failed { error, until });
        self.pass_over()
    }

    /// After a failure nothing is written. Returns the error when its record is complete.
    fn pass_over(&mut self) -> io::Result<()> {
        let given = self.given;
        self.failed
            .take_if(|failed| failed.until <= given)
            .map_or(Ok(()), |failed| Err(failed.error))
    }

    /// Returns a pending error, because its record ends here.
    fn tell(&mut self) -> io::Result<()> {
        self.failed.take().map_or(Ok(()), |failed| Err(failed.error))
    }

    /// Number of bytes that reached the destination before the error.
    fn reached(&self, error: &io::Error) -> u64 {
        let Some(file) = self.sink.file() else { return self.account.counts().bytes };
        let place = error.get_ref().and_then(|error| error.downcast_ref::<dio::FileError>());
        let end = place
            .and_then(|error| error.offset())
            .or_else(|| file.size().ok())
            .unwrap_or(self.start);
        end.saturating_sub(self.start).min(self.given)
    }

    /// End of the record of which some bytes did not reach the destination.
    fn end_of_failed(&self, reached: u64) -> u64 {
        (reached / self.obs + 1).saturating_mul(self.obs)
    }

    /// Ends the record that was read last, which is short. If each record read is written as one,
    /// the output record ends too.
    ///
    /// # Errors
    /// Writing failed.
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

    /// Writes all bytes that were held back, and waits for all writes.
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

    /// Corrects the counts after a write error. Bytes counted so far may still have been in flight;
    /// the report has the bytes that reached the destination, and the records that had to be read
    /// for them. Returns GNU's phrase for the error, which differs between whole records of `obs`
    /// bytes and others.
    pub(super) fn correct(&mut self, error: &io::Error, plan: &DdPlan) -> &'static str {
        let reached = self.reached(error);
        let failing = self.end_of_failed(reached);
        let (obs, ibs, single) = (plan.obs, plan.ibs, self.single);
        self.account.update(|counts| {
            counts.bytes = reached;
            counts.output = SideRecords::default();
            counts.output.stream(obs, reached);
            // A record that was written in part counts only if records are gathered.
            if single {
                counts.output = counts.output.without_rest();
            }
            counts.output.cut();
            counts.input.cut();
            let mut needed = failing.div_ceil(ibs);
            // With `swab`, the last byte of an odd number is swapped with the first byte of the
            // next record.
            if plan.conv.any(conv::SWAB) && needed.saturating_mul(ibs) & !1 < failing {
                needed += 1;
            }
            // The last record may be short: either it was not needed, or all records were.
            let as_long = !plan.conv.any(conv::BLOCK.and(conv::UNBLOCK));
            let counted = as_long && counts.input.is_full_but_for_the_last();
            if counted && counts.input.full >= needed {
                counts.input = SideRecords::of(needed);
            }
        });
        if failing <= self.given && !single { "writing to" } else { "error writing" }
    }

    /// Ends writing. The descriptor's file offset is then behind the written bytes.
    pub(super) fn close(self) -> io::Result<()> {
        self.sink.close()
    }

    fn count(&self, bytes: u64) {
        self.account.update(|counts| {
            counts.output.stream(self.obs, bytes);
            counts.bytes += bytes;
        });
    }

    /// Writes now, and counts the written bytes even if a later part fails.
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

    /// Writes whole records, as many at a time as are available, and keeps the rest.
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
        // Bytes from `from` on are to be written, together with those of the following records.
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

    /// Called when a record turns out to have a byte other than zero: seeks over the records of
    /// zeros before it, and writes its own leading zeros.
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

    /// Ends the record in progress, full or not.
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

//! What is written: counted in records of `obs`, in requests as large as the destination likes.

use std::io::{self, Write};
use std::sync::Arc;

use dio::stream::Chunk;

use super::account::{Account, Side};
use super::flags::{conv, flag};
use super::plan::Plan;
use super::signals::Signals;
use crate::tool::Sink;

/// Largest record that is gathered before it is written to what is no file.
const MOST_GATHERED: u64 = 4 << 20;

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
    /// Bytes of a record that is not full, where records are written whole.
    gathered: Option<Vec<u8>>,
    holes: Option<Holes>,
    /// What is written will be read: nothing is left behind.
    at_once: bool,
    start: u64,
    /// Bytes of the write that failed, where there is no file.
    refused: u64,
}

/// `conv=sparse`: records of zeros are sought over.
#[derive(Debug, Default)]
struct Holes {
    /// Bytes of the record under way.
    at: u64,
    /// It holds something else than zeros, and was written up to here. Invariant: until then its zeros are not written.
    dirty: bool,
    /// Bytes of whole records to seek over before the next write.
    gap: u64,
}

impl<'run> Target<'run> {
    /// Writes to a sink from where it is; `at_once` record by record, because what is written will be read.
    pub(super) fn new(
        sink: Sink,
        plan: &Plan,
        account: &'run Arc<Account>,
        signals: &'run Signals,
        at_once: bool,
    ) -> Target<'run> {
        let plain = sink.file().is_none();
        // What is appended goes to the end, so nothing can be sought over.
        let sparse = plan.conv.any(conv::SPARSE) && !plain && !plan.oflag.any(flag::APPEND);
        let gathers = (plain || at_once) && !plan.single && plan.obs <= MOST_GATHERED;
        Target {
            start: sink.position(),
            refused: 0,
            sink,
            account,
            signals,
            obs: plan.obs,
            single: plan.single,
            gathered: gathers.then(Vec::new),
            at_once,
            holes: sparse.then(Holes::default),
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
        self.sink.write_chunk(chunk)?;
        self.count(count);
        Ok(())
    }

    /// Writes bytes.
    pub(super) fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
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

    /// The record that was read last is short and over. Where records are kept, so is the one written.
    pub(super) fn end_record(&mut self) {
        if !self.single {
            return;
        }
        if let Some(mut holes) = self.holes.take() {
            self.end_block(&mut holes);
            self.holes = Some(holes);
        }
        self.account.update(|counts| counts.output.cut());
    }

    /// Everything was put: writes what was held back and waits for all of it.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        if let Some(gathered) = self.gathered.take() {
            self.write(&gathered)?;
        }
        if let Some(mut holes) = self.holes.take() {
            self.end_block(&mut holes);
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

    /// Writing failed: what was counted was only on its way, so what is told is what reached the destination, and what had
    /// to be read to get there. Gives GNU's word for it, which tells whole records of `obs` from others.
    pub(super) fn correct(&mut self, error: &io::Error, plan: &Plan) -> &'static str {
        let reached = self.sink.file().map(|file| {
            let place = error.get_ref().and_then(|error| error.downcast_ref::<dio::FileError>());
            let end = place.and_then(|error| error.offset()).or_else(|| file.size().ok()).unwrap_or(self.start);
            end.saturating_sub(self.start)
        });
        let (obs, ibs, single) = (plan.obs, plan.ibs, self.single);
        let whole = self.account.update(|counts| {
            let sent = counts.bytes + self.refused;
            counts.bytes = reached.unwrap_or(counts.bytes).min(counts.bytes);
            counts.output = Side::default();
            counts.output.stream(obs, counts.bytes);
            let failing = (counts.output.full + 1).saturating_mul(obs);
            // A record that went out in part counts only where records are gathered.
            if single {
                counts.output = counts.output.without_rest();
            }
            counts.output.cut();
            counts.input.cut();
            let needed = failing.div_ceil(ibs);
            // The last record may have been short. What came in pieces was not read that far ahead.
            let counted = !plan.conv.any(conv::CHANGING.and(conv::SYNC)) && counts.input.partial <= 1;
            if counted && counts.input.full >= needed {
                counts.input = Side::of(needed);
            }
            failing <= sent
        });
        if whole && !self.single { "writing to" } else { "error writing" }
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
        let mut rest = bytes;
        while !rest.is_empty() {
            let sink = &mut self.sink;
            self.refused = rest.len() as u64;
            let count = self.signals.while_writing(|| sink.write(rest))?;
            self.refused = 0;
            self.count(count as u64);
            rest = &rest[count..];
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
                self.end_block(holes);
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
    fn end_block(&mut self, holes: &mut Holes) {
        self.count(holes.at);
        if !holes.dirty {
            holes.gap += holes.at;
        }
        (holes.at, holes.dirty) = (0, false);
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.chunks(ZEROS.len()).all(|part| part == &ZEROS[..part.len()])
}

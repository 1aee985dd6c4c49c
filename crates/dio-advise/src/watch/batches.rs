//! What batches of calls say, and when calls are recorded in batches.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::calls::{self, Watched};
use super::record::{NAME_BYTES, Record, SeenFile, at, batch, long, word};
use crate::trace::Call;

/// Calls are dense from so many a second on, and no longer below the second number.
const DENSE: f64 = 400_000.0;
const SPARSE: f64 = 150_000.0;

/// How long calls are counted before it is decided.
const SPAN: Duration = Duration::from_millis(2);

/// How much a new duration counts in the usual one.
const WEIGHT: f64 = 1.0 / 16.0;

/// Whether bytes of the ring are a batch.
pub(super) fn batch_of(bytes: &[u8]) -> bool {
    bytes.len() >= batch::BYTES as usize && word(bytes, at::NUMBER) == calls::BATCH
}

/// Passes on a record of each call of a batch.
pub(super) fn expand(bytes: &[u8], mut take: impl FnMut(&Record<'_>)) {
    let name = &bytes[batch::NAME as usize..][..NAME_BYTES as usize];
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    let thread = (word(bytes, batch::TID), word(bytes, batch::TID + 4));
    let count = (word(bytes, batch::CALLS) as usize).min(batch::ENTRY_COUNT as usize);
    let entries = bytes[batch::ENTRIES as usize..].chunks_exact(batch::ENTRY_BYTES as usize);
    let entries: Vec<&[u8]> = entries.take(count).collect();
    let times: Vec<u64> = entries.iter().map(|entry| long(entry, batch::END)).collect();
    let lanes = bytes[batch::LANES as usize..batch::ENTRIES as usize]
        .chunks_exact(batch::LANE_BYTES as usize)
        .collect::<Vec<&[u8]>>();
    for (entry, end) in entries.iter().zip(all_times(&times)) {
        let Some(lane) = lanes.get(word(entry, batch::LANE) as usize) else { continue };
        let Some((what, _)) = calls::watched(word(lane, batch::NUMBER)) else { continue };
        let position = long(entry, batch::AT);
        let mut record = Record::empty(what, thread, end);
        record.start = 0;
        record.name = name;
        record.result = (word(entry, batch::RESULT) as i32).into();
        let [fd, asked] = [batch::DESCRIPTOR, batch::ASKED].map(|part| long(lane, part));
        record.arguments = [fd, 0, asked, position];
        record.file = Some(SeenFile {
            inode: long(lane, batch::INODE),
            device: word(lane, batch::DEVICE),
            size: long(lane, batch::SIZE),
            position,
            flags: word(lane, batch::FLAGS),
            mode: word(lane, batch::MODE),
        });
        take(&record);
    }
}

/// Fills in the times that are 0: between two others evenly, and after the last one with the same
/// distance as before it.
fn all_times(times: &[u64]) -> Vec<u64> {
    let mut all = times.to_vec();
    let mut known: Option<(usize, u64)> = None;
    let mut step = 0;
    for (number, time) in times.iter().enumerate().filter(|(_, time)| **time != 0) {
        if let Some((before, since)) = known {
            step = time.saturating_sub(since) / (number - before) as u64;
            for (between, time) in all[before..number].iter_mut().enumerate() {
                *time = since + step * between as u64;
            }
        }
        known = Some((number, *time));
    }
    if let Some((last, time)) = known {
        for (after, all) in all[last..].iter_mut().enumerate() {
            *all = time + step * after as u64;
        }
    }
    all
}

/// Finds when calls began whose entry was not watched.
///
/// Such a call is taken to have lasted as long as such calls usually do, and longer only if the
/// thread slept or pages were new to the page cache since the thread's last call: then since that.
#[derive(Debug, Default)]
pub(super) struct Starts {
    /// When the last call of a thread ended.
    ends: HashMap<u32, u64>,
    /// The usual duration by call and by the power of two of the bytes asked for.
    usual: HashMap<(Watched, u32), f64>,
}

impl Starts {
    pub(super) fn complete<'a>(&mut self, record: &Record<'a>) -> Record<'a> {
        let mut record = record.clone();
        let Watched::Call(call) = record.what else { return record };
        if call.is_asynchronous() || call.is_fault() {
            return record;
        }
        let is_usual = record.new == 0 && record.new_of_devices == 0 && !record.has_slept;
        let size = u64::BITS - record.arguments[2].leading_zeros();
        let last = self.ends.entry(record.tid).or_default();
        // A time that was inferred may be later than that of the next call.
        record.end = record.end.max(*last);
        let before = std::mem::replace(last, record.end);
        let usual = self.usual.entry((record.what, size));
        if record.start != 0 {
            record.start = record.start.max(before).min(record.end);
            let took = record.end.saturating_sub(record.start) as f64;
            if is_usual {
                let usual = usual.or_insert(took);
                *usual += (took - *usual) * WEIGHT;
            }
        } else if before != 0 {
            let usual = *usual.or_insert(0.0) as u64;
            let since = record.end - before;
            record.start = record.end - if is_usual { since.min(usual) } else { since };
            record.has_slept = false;
            record.is_dense = true;
        }
        record
    }
}

/// Counts calls, and says when they are to be recorded in batches.
#[derive(Debug)]
pub(super) struct Density {
    pub(super) is_dense: bool,
    since: Instant,
    all: u64,
    alike: u64,
    /// A call that is watched at its entry was seen.
    needs_entries: bool,
    missed: u64,
}

impl Default for Density {
    fn default() -> Density {
        Density {
            is_dense: false,
            since: Instant::now(),
            all: 0,
            alike: 0,
            needs_entries: false,
            missed: 0,
        }
    }
}

impl Density {
    pub(super) fn count(&mut self, record: &Record<'_>) {
        self.all += 1;
        self.alike += u64::from(calls::in_batches(record.what) && !record.has_slept);
        // The requests of this call are read where it is entered.
        if record.what == Watched::Call(Call::IoSubmit) {
            self.needs_entries = true;
            if record.start == 0 {
                self.missed += record.result.max(0) as u64;
            }
        }
    }

    /// Requests that could not be seen since the last time.
    pub(super) fn missed(&mut self) -> u64 {
        std::mem::take(&mut self.missed)
    }

    /// Whether that has to change now.
    pub(super) fn changes(&mut self) -> bool {
        let time = self.since.elapsed();
        if time < SPAN && !(self.needs_entries && self.is_dense) {
            return false;
        }
        let rate = self.alike as f64 / time.as_secs_f64();
        let are_most_alike = self.alike * 4 >= self.all * 3;
        (self.since, self.all, self.alike) = (Instant::now(), 0, 0);
        let is_dense = !self.needs_entries
            && are_most_alike
            && rate >= if self.is_dense { SPARSE } else { DENSE };
        let changes = is_dense != self.is_dense;
        self.is_dense = is_dense;
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_between_known_ones_are_even() {
        assert_eq!(
            all_times(&[100, 0, 0, 130, 0, 0, 0, 170, 0, 0]),
            [100, 110, 120, 130, 140, 150, 160, 170, 180, 190]
        );
        assert_eq!(all_times(&[100, 0]), [100, 100]);
        assert!(all_times(&[]).is_empty());
    }

    #[test]
    fn calls_of_unknown_start_last_as_long_as_usual() {
        let mut starts = Starts::default();
        let call = |start, end| {
            let mut record = Record::empty(Watched::Call(Call::Read), (1, 1), end);
            (record.start, record.arguments[2]) = (start, 4096);
            record
        };
        // Nothing is known before the thread's first call.
        assert_eq!(starts.complete(&call(0, 5)).start, 0);
        assert_eq!(starts.complete(&call(100, 110)), call(100, 110));
        let dense = starts.complete(&call(0, 150));
        assert_eq!((dense.start, dense.end, dense.is_dense), (140, 150, true));
        // Not since before the last one ended, and not with time that goes back.
        let close = starts.complete(&call(0, 154));
        assert_eq!((close.start, close.end), (150, 154));
        let back = starts.complete(&call(0, 152));
        assert_eq!((back.start, back.end), (154, 154));
        let mut slow = call(0, 900);
        slow.has_slept = true;
        let slow = starts.complete(&slow);
        assert_eq!((slow.start, slow.has_slept), (154, false));
        assert_eq!(starts.complete(&call(0, 950)).start, 940);
        // One whose start is known does not begin before the last one has ended.
        assert_eq!(starts.complete(&call(945, 960)).start, 950);
    }

    #[test]
    fn calls_become_dense_by_their_rate() {
        let mut density = Density::default();
        let record = |call| Record::empty(Watched::Call(call), (1, 1), 1);
        let mut after = |call, count: u64, time| {
            (0..count).for_each(|_| density.count(&record(call)));
            density.since = Instant::now().checked_sub(time).unwrap();
            (density.changes(), density.is_dense)
        };
        let span = Duration::from_millis(10);
        assert_eq!(after(Call::Read, 1_000_000, Duration::ZERO), (false, false));
        assert_eq!(after(Call::Read, 8_000_000, span), (true, true));
        assert_eq!(after(Call::Write, 3_000, span), (false, true));
        assert_eq!(after(Call::Write, 300, span), (true, false));
        assert_eq!(after(Call::Write, 3_000, span), (false, false));
        assert_eq!(after(Call::Stat, 8_000_000, span), (false, false));
        assert_eq!(after(Call::Read, 8_000_000, span), (true, true));
        assert_eq!(after(Call::IoSubmit, 1, Duration::ZERO), (true, false));
        assert_eq!(after(Call::Read, 8_000_000, span), (false, false));
    }
}

//! Random histories of a log with the promises that hold at every moment, and the check of what
//! recovery finds.

use dio_test::Rng;
use dio_wal::{Log, Lsn, Method, Options, Preallocate, WalError};

use crate::disk::{Disk, Faults, Image};

/// The options of a log and of its disk.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) method: Method,
    pub(crate) block: u64,
    pub(crate) zeros: bool,
    pub(crate) preallocate: Preallocate,
    pub(crate) blocks_in_segment: u64,
    pub(crate) blocks_in_chunk: usize,
    pub(crate) spares: usize,
    /// The disk writes blocks without tearing them, so that groups continue in blocks that are not
    /// full.
    pub(crate) untorn: bool,
    /// All records of a length are equal, as when a program repeats its work after a crash.
    pub(crate) dull: bool,
}

impl Setting {
    /// Goes through every combination of method, block size and preallocation; the rest is random.
    pub(crate) fn number(number: u64, random: &mut Rng) -> Setting {
        Setting {
            method: Method::ALL[(number % 5) as usize],
            block: [512, 512, 1024, 4096][(number / 5 % 4) as usize],
            zeros: number / 20 % 3 == 0,
            preallocate: if number / 20 % 3 == 2 { Preallocate::Zeros } else { Preallocate::Ahead },
            blocks_in_segment: random.range(2..12),
            blocks_in_chunk: random.range_usize(1..5),
            spares: random.range_usize(0..3),
            untorn: number / 60 % 3 > 0,
            dull: random.bool(0.3),
        }
    }

    pub(crate) fn options(&self) -> Options {
        let mut options = Options::new();
        options
            .segment(self.blocks_in_segment * self.block)
            .buffer(self.blocks_in_chunk * self.block as usize);
        options
            .preallocate(self.preallocate)
            .zeros_ahead(self.zeros)
            .spares(self.spares)
            .write_behind(0)
            .prepare_in_background(false)
            .idle_mark(None);
        options
    }

    pub(crate) fn disk(&self, image: Image, seed: u64) -> Disk {
        Disk::new(image, self.method, self.block, self.untorn, seed)
    }
}

/// A record that the history tried to append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// LSN of the record; `None` if the append failed.
    pub(crate) lsn: Option<u64>,
    pub(crate) data: Vec<u8>,
}

/// The promises, and the attempts, after a number of events.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Promise {
    pub(crate) events: usize,
    /// Number of records that may exist.
    pub(crate) tried: usize,
    /// Records below this LSN must exist.
    pub(crate) acknowledged: u64,
    /// The log must start at or behind `start_done`, and not behind `start_tried`.
    pub(crate) start_done: u64,
    pub(crate) start_tried: u64,
}

/// The history so far, over several openings.
#[derive(Clone, Debug)]
pub(crate) struct History {
    pub(crate) records: Vec<Entry>,
    pub(crate) now: Promise,
    pub(crate) promises: Vec<Promise>,
}

impl History {
    pub(crate) fn new() -> History {
        let now = Promise { events: 0, tried: 0, acknowledged: 0, start_done: 0, start_tried: 0 };
        History { records: Vec::new(), now, promises: Vec::new() }
    }

    fn note(&mut self, disk: &Disk) {
        self.now.events = disk.happened();
        self.now.tried = self.records.len();
        self.promises.push(self.now);
    }

    /// The promises that held after `events` events.
    pub(crate) fn promised(&self, events: usize) -> Promise {
        let known = self.promises.iter().rev().find(|promise| promise.events <= events);
        *known.unwrap_or(&Promise { events: 0, ..self.before() })
    }

    /// The promises before the first event of this opening.
    fn before(&self) -> Promise {
        self.promises.first().copied().unwrap_or(self.now)
    }

    /// Opens a log and runs `steps` random operations on it.
    pub(crate) fn run(&mut self, disk: &Disk, setting: &Setting, random: &mut Rng, steps: usize) {
        self.promises.clear();
        self.note(disk);
        let log = match Log::open_on(disk.storage(), &setting.options()) {
            Ok(log) => log,
            Err(WalError::Io { .. }) => return,
            Err(error) => panic!("cannot open: {error}"),
        };
        for _ in 0..steps {
            self.note(disk);
            let outcome = self.step(&log, setting, random);
            self.note(disk);
            if let Err(error) = outcome {
                self.after_failure(&log, &error);
                return;
            }
        }
        if random.bool(0.3) {
            let end = log.end().0;
            let closed = log.close();
            // Everything is durable, except the mark if there is no space for it.
            if closed.is_ok() || closed.is_err_and(|error| refused(&error)) {
                self.now.acknowledged = end;
                self.note(disk);
            }
        }
    }

    fn step(&mut self, log: &Log, setting: &Setting, random: &mut Rng) -> Result<(), WalError> {
        match random.range(0..10) {
            0..=5 => {
                let segment = setting.block * setting.blocks_in_segment;
                let longest =
                    *random.pick(&[1, 30, 30, 120, setting.block, 3 * setting.block, 2 * segment]);
                let length = random.range_usize(0..longest as usize + 1);
                let data = if setting.dull {
                    vec![7; length.min(30) / 10 * 10]
                } else {
                    random.bytes(length)
                };
                self.records.push(Entry { lsn: None, data });
                self.now.tried = self.records.len();
                // The attempt is recorded first, because the power may fail during it.
                if let Some(last) = self.promises.last_mut() {
                    last.tried = self.records.len();
                }
                let entry = self.records.last_mut().expect("just pushed");
                let lsn = match log.append(&entry.data) {
                    Err(error) if refused(&error) => {
                        // Nothing was appended, and the log remains usable.
                        self.records.pop();
                        self.now.tried = self.records.len();
                        return Ok(());
                    }
                    other => other?,
                };
                entry.lsn = Some(lsn.0);
            }
            6..=8 => {
                let known: Vec<u64> = self.records.iter().filter_map(|entry| entry.lsn).collect();
                let Some(last) = known.last() else { return Ok(()) };
                let lsn = if random.bool(0.8) { *last } else { *random.pick(&known) };
                log.commit(Lsn(lsn))?;
                assert!(log.flushed() > Lsn(lsn));
                self.now.acknowledged = self.now.acknowledged.max(lsn + 1);
            }
            _ => {
                let known: Vec<u64> = self.records.iter().filter_map(|entry| entry.lsn).collect();
                if known.is_empty() {
                    return Ok(());
                }
                let lsn = *random.pick(&known);
                self.now.start_tried = self.now.start_tried.max(lsn);
                if let Some(last) = self.promises.last_mut() {
                    last.start_tried = self.now.start_tried;
                }
                match log.truncate_before(Lsn(lsn)) {
                    Err(error) if refused(&error) => return Ok(()),
                    other => other?,
                }
                self.now.start_done = self.now.start_done.max(lsn);
            }
        }
        Ok(())
    }

    /// After a failure nothing more can be made durable, and the error states what is durable.
    fn after_failure(&self, log: &Log, error: &WalError) {
        let WalError::Failed { durable, .. } = error else {
            panic!("not a failure of the log: {error}")
        };
        assert!(
            durable.0 >= self.now.acknowledged,
            "{error}, but {} was acknowledged",
            self.now.acknowledged
        );
        assert_eq!(log.flushed(), *durable);
        for lsn in self.records.iter().filter_map(|entry| entry.lsn) {
            let again = log.commit(Lsn(lsn));
            assert_eq!(again.is_ok(), lsn < durable.0, "commit of {lsn} after {error}");
        }
        if let Ok(lsn) = log.append(b"more") {
            assert!(log.commit(lsn).is_err());
        }
    }

    /// Checks the records found in a log that starts at `start`. Returns the history, cut to the
    /// records that exist.
    pub(crate) fn judge(
        &self,
        promise: &Promise,
        start: u64,
        found: &[(u64, Vec<u8>)],
    ) -> Result<History, String> {
        if start < promise.start_done || start > promise.start_tried {
            return Err(format!("the log starts at {start}: {promise:?}"));
        }
        // Records that were refused for want of space are not included.
        let expected = &self.records[..promise.tried.min(self.records.len())];
        let first = expected
            .iter()
            .position(|entry| entry.lsn.is_none_or(|lsn| lsn >= start))
            .unwrap_or(expected.len());
        for (number, (lsn, data)) in found.iter().enumerate() {
            let Some(entry) = expected.get(first + number) else {
                return Err(format!("record {lsn} of {} bytes was never appended", data.len()));
            };
            if entry.data != *data || entry.lsn.is_some_and(|known| known != *lsn) {
                return Err(format!(
                    "record {lsn} of {} bytes is not the one appended at {:?}",
                    data.len(),
                    entry.lsn
                ));
            }
        }
        let lost = expected[first..]
            .iter()
            .skip(found.len())
            .find(|entry| entry.lsn.is_some_and(|lsn| lsn < promise.acknowledged && lsn >= start));
        if let Some(lost) = lost {
            return Err(format!(
                "the record at {:?} was acknowledged and is lost: {promise:?}",
                lost.lsn
            ));
        }
        let mut records = self.records[..first + found.len()].to_vec();
        for (entry, (lsn, _)) in records[first..].iter_mut().zip(found) {
            entry.lsn = Some(*lsn);
        }
        // Records that recovery has returned are durable from then on.
        let acknowledged = found.last().map_or(promise.acknowledged, |(lsn, _)| lsn + 1);
        let tried = records.len();
        let now = Promise { events: 0, tried, acknowledged, start_done: start, start_tried: start };
        Ok(History { records, now, promises: Vec::new() })
    }
}

/// Whether a segment could not be made, for want of space or another reason: the log is unchanged
/// then.
fn refused(error: &WalError) -> bool {
    matches!(error, WalError::Io { .. })
}

/// LSNs and contents of records.
pub(crate) type Found = Vec<(u64, Vec<u8>)>;

/// Returns the start of a log, and all records from there on.
pub(crate) fn read(log: &Log) -> Result<(u64, Found), WalError> {
    let start = log.start();
    let mut reader = log.reader(start)?;
    let mut found = Vec::new();
    while let Some(record) = reader.next()? {
        found.push((record.lsn.0, record.data.to_vec()));
    }
    Ok((start.0, found))
}

/// Random faults.
pub(crate) fn random_faults(random: &mut Rng) -> Faults {
    match random.range(0..8) {
        3 => {
            let from = random.range(0..8);
            Faults { moves: (from, from + random.range(1..4)), ..Faults::default() }
        }
        2 => {
            let from = random.range(0..4);
            Faults { full: (from, from + random.range(1..4)), ..Faults::default() }
        }
        0 => Faults { sync: Some(random.range(0..14)), ..Faults::default() },
        1 => Faults { write: Some(random.range(0..30)), ..Faults::default() },
        _ => Faults::default(),
    }
}

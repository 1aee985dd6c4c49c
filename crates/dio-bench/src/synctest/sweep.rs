//! Measurements that help to decide whether a disk really flushes.

use std::time::{Duration, Instant};

use dio::block::{Block, Pool};
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use super::case::Pattern;
use super::error::SyncError;
use super::facts::StorageFacts;
use super::file::{TestFile, TestLocation};
use super::work::StopCheck;
use crate::histogram::Histogram;

/// Amounts of unsynced bytes before a measured flush.
const AMOUNTS: [u64; 5] = [0, 64 << 10, 1 << 20, 8 << 20, 64 << 20];

/// Bytes of one write, for the larger amounts.
const CHUNK: u64 = 1 << 20;

/// The most repetitions of one amount.
const MOST: usize = 9;

/// The measurements. Times are in seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Measured {
    /// Synced overwrites of one block, one after the other.
    pub same_place: Option<SamePlace>,
    /// Unsynced bytes, and the median time of the `fdatasync(2)` that followed.
    pub flush_after: Vec<(u64, f64)>,
    /// Whether the unsynced bytes bypassed the page cache, so that the time is the disk's own.
    pub direct: bool,
}

/// Measurements of synced overwrites of one block.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SamePlace {
    /// Number of overwrites.
    #[serde(default)]
    pub syncs: u64,
    /// Overwrites per second.
    pub per_second: f64,
    /// The 5th percentile of their times.
    #[serde(default)]
    pub p05: f64,
    /// The median of their times.
    pub p50: f64,
    /// Flush requests that the disk completed meanwhile, for all programs; `None` if the kernel
    /// does not count them.
    pub flushes: Option<u64>,
}

/// Measures for about `time`.
///
/// # Errors
/// [`SyncError::System`] when a file cannot be made, written or synced.
pub(crate) fn measure(
    place: &TestLocation,
    facts: &StorageFacts,
    time: Duration,
    asked: StopCheck<'_>,
) -> Result<Measured, SyncError> {
    let file = TestFile::new(place, 0)?;
    let room = rustix::fs::fstatvfs(file.fd())
        .map_or(u64::MAX, |stat| stat.f_bavail.saturating_mul(stat.f_frsize) / 4);
    let most = AMOUNTS[AMOUNTS.len() - 1].min(room.max(CHUNK));
    file.prepare(Pattern::Overwrite, most, None)?;
    let (fd, direct) = match file.open(OFlags::DIRECT) {
        Ok(fd) => (fd, true),
        Err(_) => {
            (file.open(OFlags::empty()).map_err(SyncError::system("open", &file.shown))?, false)
        }
    };
    let pool =
        Pool::new(CHUNK as usize, 1).map_err(SyncError::system("map memory for", &file.shown))?;
    let mut block = pool.try_take().expect("nobody else takes from this pool");
    crate::data::Random::new(1).fill(block.bytes_mut());
    let mut test = Test { file: &file, fd, block, asked };
    let same_place = test.same_place(facts, time / 2)?;
    let amounts = AMOUNTS.into_iter().filter(|amount| *amount <= most);
    let flush_after = amounts.map(|amount| Ok((amount, test.flush_after(amount, time / 10)?)));
    let flush_after = flush_after.collect::<Result<Vec<_>, SyncError>>()?;
    let cached = dio::residency::resident_pages(file.fd()).unwrap_or(1) > 0;
    Ok(Measured { same_place: Some(same_place), flush_after, direct: direct && !cached })
}

struct Test<'a> {
    file: &'a TestFile,
    fd: std::os::fd::OwnedFd,
    block: Block,
    asked: StopCheck<'a>,
}

impl Test<'_> {
    fn same_place(&mut self, facts: &StorageFacts, time: Duration) -> Result<SamePlace, SyncError> {
        let flushes = || facts.disk.as_ref().and_then(super::facts::Disk::flushes);
        let mut histogram = Histogram::default();
        let before = flushes();
        let start = Instant::now();
        let mut last = start;
        loop {
            self.write(0, 4096)?;
            self.sync()?;
            let now = Instant::now();
            histogram.add(u64::try_from((now - last).as_nanos()).unwrap_or(u64::MAX));
            last = now;
            if now - start >= time && histogram.count() >= 8 || (self.asked)() {
                break;
            }
        }
        let seconds = |part| histogram.quantile(part) as f64 / 1e9;
        Ok(SamePlace {
            syncs: histogram.count(),
            per_second: histogram.count() as f64 / (last - start).as_secs_f64().max(1e-9),
            p05: seconds(0.05),
            p50: seconds(0.5),
            flushes: before.zip(flushes()).map(|(before, after)| after.saturating_sub(before)),
        })
    }

    /// The median time of a flush after `amount` unsynced bytes.
    fn flush_after(&mut self, amount: u64, time: Duration) -> Result<f64, SyncError> {
        let start = Instant::now();
        let mut times = Vec::new();
        while times.is_empty() || times.len() < MOST && start.elapsed() < time && !(self.asked)() {
            let mut at = 0;
            while at < amount {
                let part = (amount - at).min(CHUNK);
                self.write(at, part as usize)?;
                at += part;
            }
            let before = Instant::now();
            self.sync()?;
            times.push(before.elapsed().as_secs_f64());
        }
        Ok(crate::stats::Summary::of(times).median)
    }

    fn write(&mut self, at: u64, bytes: usize) -> Result<(), SyncError> {
        // The contents differ in each write, since a disk may skip data that it has already.
        let part = &mut self.block.bytes_mut()[..bytes];
        let number = u64::from_le_bytes(part[..8].try_into().expect("eight bytes")).wrapping_add(1);
        part.chunks_mut(512).for_each(|sector| sector[..8].copy_from_slice(&number.to_le_bytes()));
        super::file::write_all(&self.fd, part, at).map_err(SyncError::at(
            "write to",
            &self.file.shown,
            at,
        ))
    }

    fn sync(&self) -> Result<(), SyncError> {
        rustix::fs::fdatasync(&self.fd).map_err(SyncError::system("fdatasync", &self.file.shown))
    }
}

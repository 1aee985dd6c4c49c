//! Finds out whether direct overwrites of one file run in parallel or one after the other.
//!
//! No system call reports which lock a file system takes, so three rates are measured: of one
//! thread, of several threads on one file, and of as many threads with a file each. The last rate
//! is the control: the rate on one file means something only if the device gains from parallel
//! requests.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread::{Builder, ScopedJoinHandle};
use std::time::{Duration, Instant};

use parking_lot::RwLock;
use rustix::fs::OFlags;

use super::trial_file::{self, Buffer, SPAN, SPANS, reopen};
use crate::file::words_of as words;
use crate::geometry::Geometry;

/// Duration of one measurement of one rate.
const ROUND: Duration = Duration::from_millis(40);

/// Number of measurements of each rate. They are interleaved, so that a disturbance affects all
/// rates, and the medians are used.
const ROUNDS: usize = 3;

/// Least gain of the control that permits a verdict.
const LEAST_GAIN: f64 = 1.4;

/// Fewest writes in a round for a meaningful rate.
const FEWEST_WRITES: u64 = 16;

/// Whether direct overwrites of one file run in parallel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sharing {
    /// They run in parallel.
    Shared,
    /// They wait for each other.
    Exclusive,
    /// Unknown, with the reason.
    Unknown(String),
}

/// The verdict, with the rates on which it is based.
#[derive(Debug, Clone, PartialEq)]
pub struct Overwrites {
    /// The verdict.
    pub sharing: Sharing,
    /// The rates, `None` if nothing was measured.
    pub rates: Option<Rates>,
}

/// Rates of direct overwrites, in writes per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// Bytes of each write: one block.
    pub block: u64,
    /// Number of threads for the two parallel rates.
    pub threads: u64,
    /// Rate of one thread.
    pub one: f64,
    /// Rate of all threads on one file, each in its own part.
    pub together: f64,
    /// Rate of all threads, each on a file of its own.
    pub apart: f64,
}

impl Rates {
    /// The speed of all threads on one file, relative to one thread.
    pub fn gain_together(&self) -> f64 {
        self.together / self.one
    }

    /// The speed of all threads on files of their own, relative to one thread.
    pub fn gain_apart(&self) -> f64 {
        self.apart / self.one
    }

    fn judge(&self) -> Sharing {
        let (together, apart) = (self.gain_together(), self.gain_apart());
        if apart < LEAST_GAIN {
            return Sharing::Unknown(format!(
                "{} writers on files of their own are only {apart:.1} times as fast as one",
                self.threads
            ));
        }
        // The fraction of the possible gain that was reached on one file.
        match (together - 1.0) / (apart - 1.0) {
            share if share >= 0.5 => Sharing::Shared,
            share if share <= 0.2 => Sharing::Exclusive,
            _ => Sharing::Unknown(format!(
                "{} writers are {together:.1} times as fast as one on one file, {apart:.1} times \
                 apart",
                self.threads
            )),
        }
    }
}

impl Overwrites {
    pub(super) fn not_measured(sharing: Sharing) -> Self {
        Self { sharing, rates: None }
    }

    /// Measures the rates on `direct`, which is open for direct I/O and is overwritten, and on more
    /// files in `directory`.
    pub(super) fn measure(
        directory: &Path,
        direct: &File,
        buffer: &Buffer,
        geometry: Option<&Geometry>,
    ) -> Self {
        let block = geometry
            .map_or(4096, |geometry| geometry.block().max(geometry.offset_align()).min(SPAN));
        match measure(directory, direct, buffer, block) {
            Ok(Some(rates)) => Self { sharing: rates.judge(), rates: Some(rates) },
            Ok(None) => Self::not_measured(Sharing::Unknown(
                "writes are too slow to compare within the time of a probe".to_owned(),
            )),
            Err(error) => Self::not_measured(Sharing::Unknown(words(&error))),
        }
    }
}

/// A file and the part of it that one thread overwrites.
#[derive(Clone, Copy)]
struct ThreadRange<'a> {
    file: &'a File,
    start: u64,
}

fn measure(
    directory: &Path,
    direct: &File,
    buffer: &Buffer,
    block: u64,
) -> io::Result<Option<Rates>> {
    // To measure overwrites, every block must have been written and be on the disk.
    for span in 0..SPANS {
        direct.write_all_at(buffer.bytes(), span * SPAN)?;
    }
    direct.sync_all()?;
    let mut own = Vec::new();
    for _ in 0..SPANS {
        let file = trial_file::create(directory)?;
        let file = reopen(&file, OFlags::RDWR | OFlags::DIRECT)?;
        file.write_all_at(buffer.bytes(), 0)?;
        file.sync_all()?;
        own.push(file);
    }
    let apart: Vec<ThreadRange<'_>> =
        own.iter().map(|file| ThreadRange { file, start: 0 }).collect();
    let together: Vec<ThreadRange<'_>> =
        (0..SPANS).map(|span| ThreadRange { file: direct, start: span * SPAN }).collect();
    let data = &buffer.bytes()[..block as usize];
    let mut rates = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        for (kind, parts) in [&together[..1], &together, &apart].into_iter().enumerate() {
            let (writes, elapsed) = overwrite(parts, data)?;
            if writes < FEWEST_WRITES {
                return Ok(None);
            }
            rates[kind].push(writes as f64 / elapsed.as_secs_f64());
        }
    }
    let [one, together, apart] = rates.map(median);
    Ok(Some(Rates { block, threads: SPANS, one, together, apart }))
}

/// Overwrites every part for one round, each by a thread of its own; returns the number of all
/// writes and the time that they took.
fn overwrite(parts: &[ThreadRange<'_>], data: &[u8]) -> io::Result<(u64, Duration)> {
    // Locked until all threads are started; false if not all could be started.
    let ready = &RwLock::new(false);
    std::thread::scope(|scope| {
        let mut all = ready.write();
        let start = |part| {
            Builder::new()
                .name("dio-probe".into())
                .spawn_scoped(scope, move || overwrite_part(part, data, ready))
        };
        let writers: io::Result<Vec<_>> = parts.iter().copied().map(start).collect();
        *all = writers.is_ok();
        drop(all);
        let started = Instant::now();
        let join = |writer: ScopedJoinHandle<'_, io::Result<u64>>| {
            writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        let counts: Vec<u64> = writers?.into_iter().map(join).collect::<io::Result<_>>()?;
        Ok((counts.iter().sum(), started.elapsed()))
    })
}

fn overwrite_part(part: ThreadRange<'_>, data: &[u8], ready: &RwLock<bool>) -> io::Result<u64> {
    if !*ready.read() {
        return Ok(0);
    }
    let deadline = Instant::now() + ROUND;
    let blocks = SPAN / data.len() as u64;
    let mut writes = 0;
    while Instant::now() < deadline {
        let offset = part.start + writes % blocks * data.len() as u64;
        part.file.write_all_at(data, offset)?;
        writes += 1;
    }
    Ok(writes)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(one: f64, together: f64, apart: f64) -> Sharing {
        let (block, threads) = (4096, 4);
        Rates { block, threads, one, together, apart }.judge()
    }

    #[test]
    fn only_the_gain_that_is_possible_counts() {
        assert_eq!(verdict(100.0, 380.0, 390.0), Sharing::Shared);
        assert_eq!(verdict(100.0, 102.0, 390.0), Sharing::Exclusive);
        assert_eq!(verdict(100.0, 70.0, 150.0), Sharing::Exclusive);
        assert!(matches!(verdict(100.0, 180.0, 390.0), Sharing::Unknown(_)));
        assert!(matches!(verdict(100.0, 100.0, 110.0), Sharing::Unknown(_)));
        assert!(matches!(verdict(100.0, 130.0, 110.0), Sharing::Unknown(_)));
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(vec![9.0, 1.0, 4.0]), 4.0);
    }
}

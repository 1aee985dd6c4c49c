//! The measurements that a user asks for.

use std::path::PathBuf;
use std::time::Duration;

use dio_common::units;
use serde::{Deserialize, Serialize};

use crate::BenchError;
use crate::cold::EmptiedCaches;
use crate::progress::time_for;

/// Bytes of each random read.
pub(super) const RANDOM_BYTES: u64 = 4096;

/// A group of workloads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamWorkload {
    /// Reading a file from front to back in steps.
    #[default]
    Read,
    /// Writing a new file from front to back in steps, durable at the end.
    Write,
    /// Many sequential streams in one file, in turns.
    Many,
    /// Reading 4 KiB at random places.
    Random,
}

/// The measurements to make.
#[derive(Clone, Debug)]
pub struct StreamsPlan {
    /// The workloads.
    pub parts: Vec<StreamWorkload>,
    /// Bytes that each workload reads or writes, or over which random reads are spread; for an
    /// existing file, the most bytes to use.
    pub size: u64,
    /// Bytes of a workload in which every small step is a system call.
    pub small_size: u64,
    /// Bytes of each step of reading and writing.
    pub steps: Vec<u64>,
    /// Number of streams in one file.
    pub streams: usize,
    /// Bytes read from a stream before the turn of the next one.
    pub piece: u64,
    /// Bytes of memory for each of many streams, including the block that the consumer holds.
    pub stream_memory: usize,
    /// Random reads of each way and run.
    pub reads: u64,
    /// The directory in which files are made.
    pub directory: PathBuf,
    /// An existing file to read instead; files that are written are created in `directory`.
    pub file: Option<PathBuf>,
    /// Runs of each way.
    pub runs: usize,
    /// The number of the first run. It determines which way begins, and the offsets of random
    /// reads.
    pub round: usize,
    /// The caches that are emptied before each run.
    pub cold: EmptiedCaches,
}

impl StreamsPlan {
    /// The number of runs, and about how long they take on a disk that moves `pace` bytes a second.
    pub(super) fn expected(&self, size: u64, pace: f64) -> (usize, Duration) {
        let (mut ways, mut time) = (0, time_for(size, pace));
        // Steps of less than 64 bytes cost some 5 ns of CPU time each, larger ones some 200 ns.
        let stepping = |step: u64, bytes: u64| {
            let each = if step < 64 { 5e-9 } else { 2e-7 };
            time_for(bytes, pace) + Duration::from_secs_f64(bytes as f64 / step as f64 * each)
        };
        let bytes_of = |step: u64| if step == 1 { size.min(self.small_size) } else { size };
        for part in &self.parts {
            let (count, each) = match part {
                StreamWorkload::Read | StreamWorkload::Write => (
                    2 * self.steps.len(),
                    self.steps.iter().map(|step| 2 * stepping(*step, bytes_of(*step))).sum(),
                ),
                StreamWorkload::Many => (3, 3 * time_for(size, pace)),
                // The reads are made one after the other; each takes some 0.2 ms.
                StreamWorkload::Random => {
                    (2, Duration::from_secs_f64(2.0 * self.reads as f64 * 2e-4))
                }
            };
            ways += count;
            time += each * self.runs as u32;
        }
        (ways * self.runs, time)
    }
}

/// Rejects a plan that measures nothing; returns the number of bytes to work on.
pub(super) fn check(plan: &StreamsPlan) -> Result<u64, BenchError> {
    let refuse = |text: String| Err(BenchError::Asked(text));
    let counts =
        [plan.size, plan.small_size, plan.piece, plan.reads, plan.streams as u64, plan.runs as u64];
    if counts.contains(&0)
        || plan.parts.is_empty()
        || plan.steps.is_empty()
        || plan.steps.contains(&0)
    {
        return refuse("sizes, steps, streams, reads and runs must be positive".to_owned());
    }
    let size = match &plan.file {
        Some(path) => {
            plan.size.min(std::fs::metadata(path).map_err(BenchError::system("open", path))?.len())
        }
        None => plan.size,
    };
    if size == 0 {
        return refuse("there is nothing in the file to read".to_owned());
    }
    if plan.parts.contains(&StreamWorkload::Many) && size / (plan.streams as u64) < plan.piece {
        return refuse(format!("{} is too small for {} streams", units::size(size), plan.streams));
    }
    if plan.parts.contains(&StreamWorkload::Random) && size < RANDOM_BYTES {
        return refuse("random reads need a file of 4K or more".to_owned());
    }
    Ok(size)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::streams) fn plan() -> StreamsPlan {
        StreamsPlan {
            parts: vec![StreamWorkload::Read],
            size: 1 << 20,
            small_size: 1 << 10,
            steps: vec![1],
            streams: 4,
            piece: 64 << 10,
            stream_memory: 1 << 20,
            reads: 10,
            directory: std::env::temp_dir(),
            file: None,
            runs: 3,
            round: 1,
            cold: EmptiedCaches::File,
        }
    }

    #[test]
    fn what_measures_nothing_is_refused() {
        assert_eq!(check(&plan()).unwrap(), 1 << 20);
        assert!(check(&StreamsPlan { reads: 0, ..plan() }).is_err());
        assert!(check(&StreamsPlan { parts: vec![], ..plan() }).is_err());
        let many = StreamsPlan { parts: vec![StreamWorkload::Many], ..plan() };
        assert!(check(&StreamsPlan { streams: 16, ..many.clone() }).is_ok());
        assert!(check(&StreamsPlan { streams: 17, ..many }).is_err());
        assert!(
            check(&StreamsPlan { parts: vec![StreamWorkload::Random], size: 4095, ..plan() })
                .is_err()
        );
    }
}

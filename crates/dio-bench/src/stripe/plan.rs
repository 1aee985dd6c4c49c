//! The measurements that a user asks for.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::model::Timing;
use crate::BenchError;

/// The storage of the targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rig {
    /// Loop devices over images that the server in `disks` serves, each with a service time and a
    /// bandwidth. Everything but the disks' timing is real.
    Modelled,
    /// Directories on one disk.
    Real,
    /// Mounts of a network file system, served from another network namespace of this machine.
    Network,
}

impl Rig {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Rig::Modelled => "modelled",
            Rig::Real => "real",
            Rig::Network => "network",
        }
    }
}

/// The direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// To the targets.
    Write,
    /// From the targets.
    Read,
}

impl Direction {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Direction::Write => "write",
            Direction::Read => "read",
        }
    }
}

/// A way to read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Submission {
    /// One stripe after the other: a loop that waits for each stripe.
    WaitEach,
    /// One request to the striped file, which submits all its stripes at once.
    SubmitAll,
    /// Requests of one stripe each to the objects, with as many bytes in flight as
    /// [`Submission::SubmitAll`] has. Whenever one of them ends the next is sent, even if it
    /// belongs to another request of the caller.
    Async,
}

impl Submission {
    pub(super) const ALL: [Submission; 3] =
        [Submission::WaitEach, Submission::SubmitAll, Submission::Async];

    /// Its name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Submission::WaitEach => "waiting for each stripe",
            Submission::SubmitAll => "submitting all",
            Submission::Async => "asynchronous",
        }
    }
}

/// The measurements to make.
#[derive(Clone, Debug)]
pub struct StripeBenchPlan {
    /// The rigs, in order.
    pub rigs: Vec<Rig>,
    /// Rigs that are not available, and the reasons, as far as the caller knows them.
    pub refused: Vec<(Rig, String)>,
    /// Sizes of requests, in bytes.
    pub transfers: Vec<u64>,
    /// Numbers of objects of a file.
    pub counts: Vec<usize>,
    /// Bytes of a stripe, on modelled disks and over the network.
    pub stripe: u64,
    /// Stripe sizes on the real disk, in bytes. There only the greatest of `counts` is measured.
    pub real_stripes: Vec<u64>,
    /// The directions to measure.
    pub directions: Vec<Direction>,
    /// The least bytes that a run moves.
    pub moved: u64,
    /// Runs of each way, in turns.
    pub runs: usize,
    /// The performance of a modelled disk.
    pub timing: Timing,
    /// Bytes that are copied from one modelled disk to another; 0 skips the copy.
    pub copy: u64,
    /// The directory in which files are made.
    pub directory: PathBuf,
    /// The program that serves modelled disks and copies: `dio`.
    pub program: PathBuf,
}

impl StripeBenchPlan {
    /// Bytes of a striped file.
    pub(super) fn file_bytes(&self) -> u64 {
        self.transfers.iter().copied().max().unwrap_or(0)
    }

    /// Bytes of the image of a modelled disk: one file, and the space that the file system needs.
    pub(super) fn image_bytes(&self) -> u64 {
        let most = self.file_bytes().max(self.copy);
        (most + most / 4 + (64 << 20)).next_multiple_of(1 << 20)
    }

    /// Bytes that a run moves with a transfer size: whole requests.
    pub(super) fn moved(&self, transfer: u64) -> u64 {
        self.moved.max(1).next_multiple_of(transfer)
    }

    pub(super) fn most_targets(&self) -> usize {
        self.counts.iter().copied().max().unwrap_or(1)
    }

    /// The layouts that are measured on a rig: stripe size and number of objects.
    pub(super) fn layouts(&self, rig: Rig) -> Vec<(u64, usize)> {
        match rig {
            Rig::Real => {
                self.real_stripes.iter().map(|stripe| (*stripe, self.most_targets())).collect()
            }
            Rig::Modelled | Rig::Network => {
                self.counts.iter().map(|count| (self.stripe, *count)).collect()
            }
        }
    }

    /// The number of runs on these rigs, and about how long they take on a disk that moves `pace`
    /// bytes a second.
    pub(super) fn expected(&self, rigs: &[Rig], pace: f64) -> (usize, Duration) {
        let (mut steps, mut time) = (0, 0.0);
        let model =
            self.timing.read_bytes_per_second.min(self.timing.write_bytes_per_second) as f64;
        for rig in rigs {
            // The setup takes a few seconds, most of them for mkfs.
            time += if *rig == Rig::Real { 0.0 } else { 5.0 };
            for (stripe, count) in self.layouts(*rig) {
                let model_each = (stripe as f64 / model).max(self.timing.service_seconds);
                // Bytes per second when waiting for each stripe, and when all are submitted
                // together.
                let (one, all) = match rig {
                    Rig::Modelled => (stripe as f64 / model_each, model * count as f64),
                    // Waiting for a request takes some 0.1 ms more than moving its bytes.
                    Rig::Real => (stripe as f64 / (1e-4 + stripe as f64 / pace), pace),
                    Rig::Network => (pace.min(3e8), pace.min(3e8)),
                };
                let bytes: u64 = self.transfers.iter().map(|transfer| self.moved(*transfer)).sum();
                let round = bytes as f64 * (1.0 / one.max(1.0) + 2.0 / all.max(1.0));
                let fill = self.file_bytes() as f64 / all.max(1.0);
                time += self.directions.len() as f64 * (fill + round * self.runs as f64);
                steps += self.directions.len()
                    * self.transfers.len()
                    * Submission::ALL.len()
                    * self.runs;
            }
            if *rig == Rig::Modelled && self.copy > 0 {
                // dd alternates between reading and writing, dio does both at the same time.
                time += self.copy as f64 / model * (1.0 + 3.0 * self.runs as f64);
                steps += 2 * self.runs;
            }
        }
        (steps, Duration::from_secs_f64(time.min(1e6)))
    }

    pub(super) fn check(&self) -> Result<(), BenchError> {
        let refuse = |text: &str| Err(BenchError::Asked(text.to_owned()));
        let none = self.rigs.is_empty() || self.transfers.is_empty() || self.counts.is_empty();
        if none || self.directions.is_empty() || self.runs == 0 || self.counts.contains(&0) {
            return refuse("rigs, transfers, stripe counts, directions and runs must be positive");
        }
        let stripes = self.real_stripes.iter().chain([&self.stripe]);
        if !stripes.chain(&self.transfers).all(|size| *size >= 4096 && size.is_power_of_two()) {
            return refuse("transfers and stripes must be powers of two of at least 4 KiB");
        }
        if self.most_targets() > 64 {
            return refuse("at most 64 targets are set up");
        }
        Ok(())
    }
}

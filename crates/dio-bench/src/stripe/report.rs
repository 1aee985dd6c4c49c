//! The result with the reference beside it, and what rigs are called.

use dio_common::units::{seconds, size};
use serde::{Deserialize, Serialize};

use super::model::Timing;
use super::plan::{Direction, Rig};
use crate::environment::Environment;
use crate::stats::Summary;

/// Bytes of a MiB; the rates of a result are in MiB per second.
pub(super) const MIB: f64 = (1 << 20) as f64;

/// The reference (Lustre, LU-13798): MiB/s of waiting for each stripe and of submitting all,
/// writing and reading, for 64 MiB requests of 1 MiB stripes over 8 targets. Asynchronous I/O at
/// the same depth was as fast as the latter.
pub(crate) const REFERENCE: [(Direction, f64, f64); 2] =
    [(Direction::Write, 583.0, 5186.0), (Direction::Read, 641.0, 5093.0)];

/// The shape of the reference: bytes of a request, of a stripe, and targets.
const SHAPE: (u64, u64, usize) = (64 << 20, 1 << 20, 8);

pub(super) const ABOUT_NETWORK: &str = "SSHFS (each request waits for its server, no read-ahead, no encryption), a server \
    for each target in another network namespace of this machine";

pub(super) fn about_modelled(timing: &Timing, image: u64) -> String {
    let rate = |bytes: u64| format!("{}/s", size(bytes));
    format!(
        "ext4 on loop devices over images of {} in memory, behind FUSE; a model of a disk says when each request is answered: \
         {} at least, {} reading and {} writing at the same time",
        size(image),
        seconds(timing.service_seconds),
        rate(timing.read_bytes_per_second),
        rate(timing.write_bytes_per_second)
    )
}

pub(super) fn about_real(environment: &Environment) -> String {
    let device = environment.device.as_ref().map_or_else(String::new, |device| format!(" on {device}"));
    format!("directories of one file system, {}{device}", environment.file_system)
}

/// One request size on one layout, in one direction: medians of the runs.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Row {
    /// What the targets are.
    pub rig: Rig,
    /// Bytes of a stripe.
    pub stripe_bytes: u64,
    /// Bytes of a request.
    pub transfer_bytes: u64,
    /// Objects of the file.
    pub stripes: usize,
    /// Which way bytes go.
    pub direction: Direction,
    /// A loop that waits for each stripe.
    pub wait_each_mib_s: f64,
    /// The striped file: all stripes submitted, one wait for each request.
    pub submit_all_mib_s: f64,
    /// Requests of a stripe, with as many bytes in flight as submitting all has, over the ends of
    /// requests.
    pub async_mib_s: f64,
    /// How many of those are in flight.
    #[serde(default)]
    pub async_depth: u64,
    /// How many hold the bytes that submitting all has in flight; more than the engine takes at a
    /// time, where it is another number.
    #[serde(default)]
    pub async_depth_wanted: u64,
    /// The single runs of these; earlier results lack them.
    #[serde(default)]
    pub samples_mib_s: Samples,
    /// Submitting all by waiting for each, in the same round.
    pub gain: Summary,
    /// Submitting all by asynchronous, in the same round.
    pub of_async: Summary,
}

impl Row {
    /// Whether its request, stripe and targets are those of the reference.
    fn has_the_shape(&self) -> bool {
        (self.transfer_bytes, self.stripe_bytes, self.stripes) == SHAPE
    }

    /// Requests in flight of asynchronous I/O, and how many there should be if the engine takes
    /// fewer.
    pub(super) fn depth(&self) -> String {
        let (had, wanted) = (self.async_depth, self.async_depth_wanted);
        if had == wanted { had.to_string() } else { format!("{had} of {wanted}") }
    }

    /// What was published for such requests: MiB/s of waiting for each stripe and of submitting
    /// all.
    pub(crate) fn published(&self) -> Option<(f64, f64)> {
        let found = REFERENCE.iter().find(|(direction, ..)| *direction == self.direction && self.has_the_shape());
        found.map(|(_, each, all)| (*each, *all))
    }
}

/// MiB per second of each run, by way; those of one place were measured in the same round.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Samples {
    /// A loop that waits for each stripe.
    pub wait_each: Vec<f64>,
    /// The striped file.
    pub submit_all: Vec<f64>,
    /// Asynchronous.
    #[serde(rename = "async")]
    pub asynchronous: Vec<f64>,
}

/// Copying between two disks, in MiB/s: medians.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Copy {
    /// Bytes of the file.
    pub bytes: u64,
    /// `dio cp`, which ends durable.
    pub dio_cp_mib_s: f64,
    /// `dd bs=8M iflag=direct oflag=direct conv=fsync`.
    pub dd_mib_s: f64,
    /// The first by the second, in the same round.
    pub gain: Summary,
}

/// A rig that was measured.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Ground {
    /// Which.
    pub rig: Rig,
    /// What it is made of.
    pub about: String,
}

/// A rig that could not be had.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Skipped {
    /// Which.
    pub rig: Rig,
    /// Why.
    pub reason: String,
}

/// The whole result.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Report {
    /// One row for each rig, layout, request size and direction.
    pub rows: Vec<Row>,
    /// Copying between two modelled disks, if that was asked for.
    pub copy: Option<Copy>,
    /// The rigs.
    pub grounds: Vec<Ground>,
    /// What a modelled disk can do.
    pub timing: Timing,
    /// Rigs that could not be had.
    pub skipped: Vec<Skipped>,
    /// Runs of each way.
    pub runs: usize,
    /// Bytes that a run moved at least.
    pub moved_bytes: u64,
    /// Where it was measured.
    pub environment: Environment,
}

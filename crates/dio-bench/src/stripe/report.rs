//! The result with the reference beside it, and descriptions of the rigs.

use dio_common::units::{seconds, size};
use serde::{Deserialize, Serialize};

use super::model::Timing;
use super::plan::{Direction, Rig};
use crate::environment::Environment;
use crate::stats::Summary;

/// Bytes of a MiB; the rates of a result are in MiB per second.
pub(super) const MIB: f64 = (1 << 20) as f64;

/// The reference (Lustre, LU-13798) for writing and reading: MiB/s of waiting for each stripe, and
/// of submitting all, with 64 MiB requests of 1 MiB stripes over 8 targets. Asynchronous I/O at the
/// same depth was as fast as submitting all.
pub(crate) const REFERENCE: [(Direction, f64, f64); 2] =
    [(Direction::Write, 583.0, 5186.0), (Direction::Read, 641.0, 5093.0)];

/// The parameters of the reference: bytes of a request, bytes of a stripe, number of targets.
const SHAPE: (u64, u64, usize) = (64 << 20, 1 << 20, 8);

pub(super) const ABOUT_NETWORK: &str = "SSHFS (each request waits for its server, no read-ahead, \
                                        no encryption), a server for each target in another \
                                        network namespace of this machine";

pub(super) fn about_modelled(timing: &Timing, image: u64) -> String {
    let rate = |bytes: u64| format!("{}/s", size(bytes));
    format!(
        "ext4 on loop devices over images of {} in memory, behind FUSE; a model of a disk says \
         when each request is answered: {} at least, {} reading and {} writing at the same time",
        size(image),
        seconds(timing.service_seconds),
        rate(timing.read_bytes_per_second),
        rate(timing.write_bytes_per_second)
    )
}

pub(super) fn about_real(environment: &Environment) -> String {
    let device =
        environment.device.as_ref().map_or_else(String::new, |device| format!(" on {device}"));
    format!("directories of one file system, {}{device}", environment.file_system)
}

/// One request size on one layout, in one direction: medians of the runs.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct StripeRow {
    /// The storage of the targets.
    pub rig: Rig,
    /// Bytes of a stripe.
    pub stripe_bytes: u64,
    /// Bytes of a request.
    pub transfer_bytes: u64,
    /// Number of objects of the file.
    pub stripes: usize,
    /// The direction of the transfer.
    pub direction: Direction,
    /// MiB/s of a loop that waits for each stripe.
    pub wait_each_mib_s: f64,
    /// MiB/s of the striped file, which submits all stripes and waits once for each request.
    pub submit_all_mib_s: f64,
    /// MiB/s of asynchronous requests of one stripe each, with as many bytes in flight as
    /// submitting all has, also across the ends of requests.
    pub async_mib_s: f64,
    /// Number of asynchronous requests in flight.
    #[serde(default)]
    pub async_depth: u64,
    /// Number of asynchronous requests that would hold as many bytes as submitting all has in
    /// flight. It differs from `async_depth` if the engine accepts fewer at a time.
    #[serde(default)]
    pub async_depth_wanted: u64,
    /// MiB/s of the single runs; earlier results lack them.
    #[serde(default)]
    pub samples_mib_s: Samples,
    /// Throughput of submitting all divided by that of waiting for each, in the same round.
    pub gain: Summary,
    /// Throughput of submitting all divided by that of asynchronous I/O, in the same round.
    pub of_async: Summary,
}

impl StripeRow {
    /// Whether its request, stripe and number of targets are those of the reference.
    fn has_the_shape(&self) -> bool {
        (self.transfer_bytes, self.stripe_bytes, self.stripes) == SHAPE
    }

    /// Number of asynchronous requests in flight, with the wanted number if the engine accepts
    /// fewer.
    pub(super) fn depth(&self) -> String {
        let (had, wanted) = (self.async_depth, self.async_depth_wanted);
        if had == wanted { had.to_string() } else { format!("{had} of {wanted}") }
    }

    /// The published figures for such requests: MiB/s of waiting for each stripe and of submitting
    /// all.
    pub(crate) fn published(&self) -> Option<(f64, f64)> {
        let found = REFERENCE
            .iter()
            .find(|(direction, ..)| *direction == self.direction && self.has_the_shape());
        found.map(|(_, each, all)| (*each, *all))
    }
}

/// MiB per second of each run, by way. Values with the same index were measured in the same round.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Samples {
    /// A loop that waits for each stripe.
    pub wait_each: Vec<f64>,
    /// The striped file.
    pub submit_all: Vec<f64>,
    /// Asynchronous I/O.
    #[serde(rename = "async")]
    pub asynchronous: Vec<f64>,
}

/// Copying between two disks, in MiB/s: medians.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct DiskToDisk {
    /// Bytes of the file.
    pub bytes: u64,
    /// MiB/s of `dio cp`, at whose end the copy is durable.
    pub dio_cp_mib_s: f64,
    /// MiB/s of `dd bs=8M iflag=direct oflag=direct conv=fsync`.
    pub dd_mib_s: f64,
    /// The first divided by the second, in the same round.
    pub gain: Summary,
}

/// A rig that was measured.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct MeasuredRig {
    /// The rig.
    pub rig: Rig,
    /// A description of it.
    pub about: String,
}

/// A rig that was not available.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Skipped {
    /// The rig.
    pub rig: Rig,
    /// The reason.
    pub reason: String,
}

/// The whole result.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct StripeBenchReport {
    /// One row for each rig, layout, request size and direction.
    pub rows: Vec<StripeRow>,
    /// Copying between two modelled disks, if that was asked for.
    pub copy: Option<DiskToDisk>,
    /// The rigs.
    pub grounds: Vec<MeasuredRig>,
    /// The performance of a modelled disk.
    pub timing: Timing,
    /// Rigs that were not available.
    pub skipped: Vec<Skipped>,
    /// Runs of each way.
    pub runs: usize,
    /// The least bytes that a run moved.
    pub moved_bytes: u64,
    /// The machine and storage that it was measured on.
    pub environment: Environment,
}

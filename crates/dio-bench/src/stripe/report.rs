//! The reference, and what rows and rigs are called.

use super::{Direction, Row, Timing};
use crate::environment::Environment;
use dio_common::units::{seconds, size};

/// The reference (Lustre, LU-13798): MiB/s of waiting for each stripe and of submitting all, writing and reading, for 64 MiB
/// requests of 1 MiB stripes over 8 targets. Asynchronous I/O at the same depth was as fast as the latter.
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

impl Row {
    /// Whether its request, stripe and targets are those of the reference.
    fn has_the_shape(&self) -> bool {
        (self.transfer_bytes, self.stripe_bytes, self.stripes) == SHAPE
    }

    /// Requests in flight of asynchronous I/O, and how many there should be if the engine takes fewer.
    pub(super) fn depth(&self) -> String {
        let (had, wanted) = (self.async_depth, self.async_depth_wanted);
        if had == wanted { had.to_string() } else { format!("{had} of {wanted}") }
    }

    /// What was published for such requests: MiB/s of waiting for each stripe and of submitting all.
    pub(crate) fn published(&self) -> Option<(f64, f64)> {
        let found = REFERENCE.iter().find(|(direction, ..)| *direction == self.direction && self.has_the_shape());
        found.map(|(_, each, all)| (*each, *all))
    }
}

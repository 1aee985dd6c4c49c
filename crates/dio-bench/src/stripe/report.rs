//! The report for people.

use super::{Copy, Direction, Report, Rig, Row, Timing};
use crate::environment::Environment;
use crate::table::Table;
use dio_common::units::{factor, seconds, size};

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
    fn depth(&self) -> String {
        let (had, wanted) = (self.async_depth, self.async_depth_wanted);
        if had == wanted { had.to_string() } else { format!("{had} of {wanted}") }
    }

    /// What was published for such requests: MiB/s of waiting for each stripe and of submitting all.
    pub(crate) fn published(&self) -> Option<(f64, f64)> {
        let found = REFERENCE.iter().find(|(direction, ..)| *direction == self.direction && self.has_the_shape());
        found.map(|(_, each, all)| (*each, *all))
    }
}

impl Report {
    /// Tables, and what they mean.
    pub fn text(&self) -> String {
        let mut text = format!(
            "Requests over several stripes; runs: {} of at least {} each, medians shown, all ways in turns\n",
            self.runs,
            size(self.moved_bytes)
        );
        for rig in [Rig::Modelled, Rig::Real, Rig::Network] {
            if let Some(ground) = self.grounds.iter().find(|ground| ground.rig == rig) {
                text.push_str(&format!("\n{}: {}\n\n{}", rig.name(), ground.about, self.table(rig)));
                if let Some(copy) = self.copy.as_ref().filter(|_| rig == Rig::Modelled) {
                    text.push_str(&copy.text());
                }
            }
        }
        for skipped in &self.skipped {
            text.push_str(&format!("\n{}: skipped: {}\n", skipped.rig.name(), skipped.reason));
        }
        let [write, read] =
            REFERENCE.map(|(direction, each, all)| format!("{} {each} → {all} MiB/s", direction.name()));
        text.push_str(&format!(
            "\nwait each: a loop waits for each stripe. submit all: the striped file; one wait for a request.\n\
             asynchronous: requests of a stripe, depth of them in flight: the bytes that submit all has, or what the engine takes of those.\n\
             gain: submit all / wait each. of async: submit all / asynchronous.\n\
             reference: Lustre (LU-13798), 64 MiB of 1 MiB stripes on 8 targets: {write}, {read}; only ratios compare.\n\n{}",
            self.environment.text()
        ));
        text
    }

    fn table(&self, rig: Rig) -> String {
        let headings = [
            "direction",
            "stripe",
            "targets",
            "request",
            "wait each",
            "submit all",
            "asynchronous",
            "depth",
            "gain",
            "of async",
            "reference",
        ];
        let mut table = Table::new(headings);
        for row in self.rows.iter().filter(|row| row.rig == rig) {
            let rate = |value: f64| format!("{value:.0} MiB/s");
            table.row([
                row.direction.name().to_owned(),
                size(row.stripe_bytes),
                row.stripes.to_string(),
                size(row.transfer_bytes),
                rate(row.wait_each_mib_s),
                rate(row.submit_all_mib_s),
                rate(row.async_mib_s),
                row.depth(),
                factor(row.gain.median, 1.0),
                format!("{:.1} %", row.of_async.median * 100.0),
                row.published().map_or_else(|| "-".to_owned(), |(each, all)| factor(all, each)),
            ]);
        }
        table.text()
    }
}

impl Copy {
    fn text(&self) -> String {
        let spread = |value: f64| factor(value, 1.0);
        format!(
            "\nCopying {} from one of these disks to another: dio cp {:.0} MiB/s, dd bs=8M direct and durable {:.0} MiB/s: {} ({} – {})\n",
            size(self.bytes),
            self.dio_cp_mib_s,
            self.dd_mib_s,
            spread(self.gain.median),
            spread(self.gain.min),
            spread(self.gain.max)
        )
    }
}

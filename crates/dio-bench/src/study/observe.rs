//! Records the activity of the machine, the mount and the kernel's locks in the steady state of a
//! run, and slot by slot during the whole run.

use std::path::Path;
use std::time::{Duration, Instant};

use dio_mount::control::{self, Client};
use dio_mount::stats::Snapshot;

use super::meters::{Meters, Reading, Series};
use super::{Phase, Point, Used};
use crate::BenchError;
use crate::locks::kernel::Kernel;
use crate::locks::mounts;
use crate::locks::processes::family;
use crate::locks::trace::{Tracer, Watch};

/// The recorder of a run in progress.
#[derive(Debug)]
pub(crate) struct Observer {
    begin: Instant,
    meters: Meters,
    series: Series,
    client: Option<Client>,
    /// The process whose waits for the kernel's locks count, together with those of its descendants
    /// and of the mount's server.
    root: u32,
    tracer: Option<Tracer>,
    readings: Vec<Reading>,
    snapshots: Vec<Snapshot>,
    kernel: Option<Kernel>,
    failure: Option<String>,
}

/// The recorded activity of a run.
#[derive(Debug)]
pub(crate) struct Observed {
    /// The use of the machine in the steady state.
    pub(crate) used: Used,
    /// The blocks that the mount counted in the steady state.
    pub(crate) mount_blocks: Vec<mounts::MountWaitRow>,
    /// Blocks on the kernel's locks in the steady state.
    pub(crate) kernel_blocks: Option<Kernel>,
    /// The measurement that failed, and why.
    pub(crate) failure: Option<String>,
    readings: Vec<Reading>,
}

impl Observer {
    /// Starts to record: the device below `seen`, the mount if there is one, and the locks that the
    /// process `root` and its descendants wait for. A slot of the time series is `every` long.
    pub(crate) fn start(
        seen: &Path,
        mount: Option<&Path>,
        root: u32,
        every: Duration,
    ) -> Result<Observer, BenchError> {
        let client = match mount {
            Some(at) => {
                Some(control::connect(at).map_err(|error| BenchError::Asked(error.to_string()))?)
            }
            None => None,
        };
        let device = dio::probe::probe(seen).ok().and_then(|report| Some(report.device.ok()?.name));
        let begin = Instant::now();
        let meters = Meters::new(device.as_deref(), begin);
        let series =
            meters.clone().follow(every).map_err(BenchError::system("start a thread for", seen))?;
        Ok(Observer {
            begin,
            meters,
            series,
            client,
            root,
            tracer: None,
            readings: Vec::new(),
            snapshots: Vec::new(),
            kernel: None,
            failure: None,
        })
    }

    /// The time at which the run began.
    pub(crate) fn begin(&self) -> Instant {
        self.begin
    }

    /// Marks the beginning of the steady state at the first call, and its end at the second.
    pub(crate) fn steady(&mut self) {
        match self.client.as_mut().map(Client::snapshot) {
            Some(Ok(snapshot)) => self.snapshots.push(snapshot),
            Some(Err(error)) => self.failure = Some(error.to_string()),
            None => {}
        }
        self.readings.push(self.meters.read());
        if self.readings.len() == 1 {
            match Tracer::start(Watch::System) {
                Ok(tracer) => self.tracer = Some(tracer),
                Err(error) => {
                    let why = dio::file::words_of(&error);
                    self.failure =
                        Some(format!("blocks on the kernel's locks are not seen: {why}"));
                }
            }
        } else if let Some(tracer) = self.tracer.take() {
            let server = self
                .client
                .as_ref()
                .map(|client| client.server().as_raw_nonzero().get().unsigned_abs());
            let processes: Vec<u32> = family(self.root).into_iter().chain(server).collect();
            self.kernel = Some(tracer.finish(Some(&processes), None));
        }
    }

    /// Stops recording. The steady state was `steady` long.
    pub(crate) fn finish(self, steady: Duration) -> Observed {
        let readings = self.series.finish();
        let mount_blocks = match &self.snapshots[..] {
            [first, last] => mounts::rows(&last.since(Some(first)), steady.as_secs_f64()),
            _ => Vec::new(),
        };
        let used = match &self.readings[..] {
            [first, last] => last.since(first),
            _ => Used::default(),
        };
        Observed { used, mount_blocks, kernel_blocks: self.kernel, failure: self.failure, readings }
    }
}

impl Observed {
    /// The time series; `tps` returns the transactions per second of a slot. A slot is part of the
    /// steady state if it ends after `ramp_up` and not later than `steady` after that, within the
    /// accuracy of the clocks.
    pub(crate) fn points(
        &self,
        slots: usize,
        ramp_up: Duration,
        steady: Duration,
        tps: impl Fn(usize) -> f64,
    ) -> Vec<Point> {
        let steady = ramp_up.as_secs_f64()..(ramp_up + steady).as_secs_f64() + 1e-3;
        let point = |(slot, pair): (usize, &[Reading])| {
            let at = pair[1].at();
            let slack = (at - pair[0].at()) / 2.0;
            let phase = match at {
                at if at < steady.start => Phase::RampUp,
                at if at < steady.end + slack => Phase::Steady,
                _ => Phase::RampDown,
            };
            Point { seconds: at, phase, tps: tps(slot), used: pair[1].since(&pair[0]) }
        };
        self.readings.windows(2).take(slots).enumerate().map(point).collect()
    }
}

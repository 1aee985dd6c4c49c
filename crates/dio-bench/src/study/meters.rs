//! Meters of the whole machine: processors (`/proc/stat`, `proc_stat(5)`) and the device
//! (`/sys/class/block/NAME/stat`, `Documentation/block/stat.rst`), read once for each slot of the
//! time series.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// Bytes of a sector in the kernel's counts, whatever the device.
const SECTOR: u64 = 512;

/// The values of the counters at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Reading {
    at: f64,
    /// Clock ticks of all processors: user, system, waiting for I/O, idle, stolen by other virtual
    /// machines.
    cpu: [u64; 5],
    device: Option<Device>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Device {
    reads: u64,
    read_sectors: u64,
    writes: u64,
    written_sectors: u64,
    busy_millis: u64,
}

/// The use of the machine between two readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Used {
    /// Share of the processors' time, from 0 to 1, in programs.
    pub user: f64,
    /// Share in the kernel, interrupts included.
    pub system: f64,
    /// Share that was idle while a program of that processor waited for I/O.
    pub iowait: f64,
    /// Share that was otherwise idle.
    pub idle: f64,
    /// Share taken by other virtual machines.
    pub steal: f64,
    /// Reads that the device completed, per second.
    pub device_reads_per_second: Option<f64>,
    /// Writes that the device completed, per second.
    pub device_writes_per_second: Option<f64>,
    /// Bytes of reads and writes, per second.
    pub device_bytes_per_second: Option<f64>,
    /// Share of the time in which the device had at least one request.
    pub utilisation: Option<f64>,
}

impl Used {
    /// Requests per second.
    pub(crate) fn requests(&self) -> Option<f64> {
        Some(self.device_reads_per_second? + self.device_writes_per_second?)
    }
}

/// The sources of the counters.
#[derive(Clone, Debug)]
pub(crate) struct Meters {
    begin: Instant,
    device: Option<PathBuf>,
}

impl Meters {
    /// `device` is the kernel's name of a block device; readings have times relative to `begin`.
    pub(crate) fn new(device: Option<&str>, begin: Instant) -> Meters {
        Meters {
            begin,
            device: device.map(|name| PathBuf::from("/sys/class/block").join(name).join("stat")),
        }
    }

    pub(crate) fn read(&self) -> Reading {
        let cpu = fs::read_to_string("/proc/stat")
            .ok()
            .and_then(|text| processors(&text))
            .unwrap_or_default();
        let device = self.device.as_ref().and_then(|path| counts(&fs::read_to_string(path).ok()?));
        Reading { at: self.begin.elapsed().as_secs_f64(), cpu, device }
    }

    /// Starts a thread that reads the counters at every multiple of `every` until it is stopped.
    pub(crate) fn follow(self, every: Duration) -> std::io::Result<Series> {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let work = move || {
            let mut readings = vec![self.read()];
            for number in 1.. {
                let next = self.begin + every * number;
                while Instant::now() < next {
                    if seen.load(Ordering::Acquire) {
                        return readings;
                    }
                    thread::park_timeout(next.saturating_duration_since(Instant::now()));
                }
                readings.push(self.read());
            }
            readings
        };
        let thread = thread::Builder::new().name("meters".to_owned()).spawn(work)?;
        Ok(Series { stop, thread })
    }
}

/// A thread that takes readings.
#[derive(Debug)]
pub(crate) struct Series {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Reading>>,
}

impl Series {
    pub(crate) fn finish(self) -> Vec<Reading> {
        self.stop.store(true, Ordering::Release);
        self.thread.thread().unpark();
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// Parses the first line of `/proc/stat`, `cpu user nice system idle iowait irq softirq steal …`,
/// into clock ticks: programs, kernel, waiting for I/O, idle, stolen by other virtual machines.
pub(crate) fn processors(text: &str) -> Option<[u64; 5]> {
    let fields = text.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = fields.split_whitespace().map_while(|field| field.parse().ok()).collect();
    let [user, nice, system, idle, iowait, irq, softirq, steal, ..] = ticks[..] else {
        return None;
    };
    Some([user + nice, system + irq + softirq, iowait, idle, steal])
}

/// Parses `reads merged sectors ms writes merged sectors ms in-flight busy-ms …`.
fn counts(text: &str) -> Option<Device> {
    let fields: Vec<u64> = text.split_whitespace().map_while(|field| field.parse().ok()).collect();
    let [reads, _, read_sectors, _, writes, _, written_sectors, _, _, busy_millis, ..] = fields[..]
    else {
        return None;
    };
    Some(Device { reads, read_sectors, writes, written_sectors, busy_millis })
}

impl Reading {
    /// Seconds since the beginning.
    pub(crate) fn at(&self) -> f64 {
        self.at
    }

    /// The use of the machine since an earlier reading.
    pub(crate) fn since(&self, earlier: &Reading) -> Used {
        let cpu: [u64; 5] = std::array::from_fn(|n| self.cpu[n].saturating_sub(earlier.cpu[n]));
        let ticks = cpu.iter().sum::<u64>().max(1) as f64;
        let [user, system, iowait, idle, steal] = cpu.map(|count| count as f64 / ticks);
        let seconds = (self.at - earlier.at).max(1e-9);
        let device = self.device.zip(earlier.device);
        let rate = |count: fn(&Device) -> u64| {
            device.map(|(now, then)| count(&now).saturating_sub(count(&then)) as f64 / seconds)
        };
        Used {
            user,
            system,
            iowait,
            idle,
            steal,
            device_reads_per_second: rate(|device| device.reads),
            device_writes_per_second: rate(|device| device.writes),
            device_bytes_per_second: rate(|device| {
                (device.read_sectors + device.written_sectors) * SECTOR
            }),
            utilisation: rate(|device| device.busy_millis).map(|millis| (millis / 1000.0).min(1.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_become_parts_and_rates() {
        let cpu = |text: &str| processors(text).unwrap();
        let then = Reading {
            at: 1.0,
            cpu: cpu("cpu  100 10 50 800 40 1 2 3 0 0\ncpu0 1"),
            device: counts("  10 0 80 5 20 0 160 9 0 1000 14 0 0 0 0 0 0"),
        };
        let now = Reading {
            at: 3.0,
            cpu: cpu("cpu  130 10 60 840 50 3 4 9 0 0\n"),
            device: counts("  30 0 240 5 80 0 640 9 0 2500 14 0 0 0 0 0 0"),
        };
        let used = now.since(&then);
        assert_eq!(
            (used.user, used.system, used.iowait, used.idle, used.steal),
            (0.3, 0.14, 0.1, 0.4, 0.06)
        );
        assert_eq!(
            (used.device_reads_per_second, used.device_writes_per_second),
            (Some(10.0), Some(30.0))
        );
        assert_eq!(used.device_bytes_per_second, Some((160.0 + 480.0) * 512.0 / 2.0));
        assert_eq!(used.utilisation, Some(0.75));
        assert_eq!(processors("intr 1 2"), None);
        assert_eq!(counts("1 2 3"), None);
    }

    #[test]
    fn a_series_has_a_reading_for_each_slot() {
        let meters = Meters::new(None, Instant::now());
        let series = meters.follow(Duration::from_millis(20)).unwrap();
        thread::sleep(Duration::from_millis(150));
        let readings = series.finish();
        assert!((3..=8).contains(&readings.len()), "{readings:?}");
        assert!(readings.windows(2).all(|pair| pair[1].at > pair[0].at));
    }
}

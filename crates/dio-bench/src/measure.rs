//! Meters: wall time, CPU time of the process, and the bytes that storage delivered to it.

use std::path::Path;
use std::time::{Duration, Instant};

use dio_common::processes;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::BenchError;
use crate::study::meters::processors;

/// The resources that one run used.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Elapsed time in seconds.
    pub wall_seconds: f64,
    /// User and system time of all threads of the process in seconds, including the kernel's
    /// io_uring workers.
    pub cpu_seconds: f64,
    /// Bytes read from storage for this process; `None` if the kernel does not count them.
    pub device_bytes: Option<u64>,
}

/// A running measurement.
#[derive(Debug)]
pub struct RunMeter {
    wall: Instant,
    cpu: f64,
    device: Option<u64>,
}

impl RunMeter {
    /// Starts measuring.
    pub fn start() -> RunMeter {
        // The wall clock is read last here and first in `stop`, so that reading the other meters
        // takes no measured time.
        let (device, cpu) = (device_bytes_read(), cpu_seconds());
        RunMeter { wall: Instant::now(), cpu, device }
    }

    /// Returns the resources used since the start.
    pub fn stop(self) -> Usage {
        let wall_seconds = self.wall.elapsed().as_secs_f64();
        let cpu_seconds = cpu_seconds() - self.cpu;
        let device_bytes = device_bytes_read().zip(self.device).map(|(now, before)| now - before);
        Usage { wall_seconds, cpu_seconds, device_bytes }
    }
}

/// CPU time of the process so far (`CLOCK_PROCESS_CPUTIME_ID`, `clock_gettime(2)`).
pub fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// User and system time of the commands that this process has started and waited for, and of the
/// commands that those have waited for. It advances in clock ticks, mostly of 10 ms (`cutime` and
/// `cstime` of `proc_pid_stat(5)`). `None` if /proc is missing.
pub fn children_cpu_seconds() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    let fields = processes::stat_fields(&text, 16)?;
    let ticks: Vec<u64> = fields.take(2).filter_map(|text| text.parse().ok()).collect();
    let [user, system] = ticks[..] else { return None };
    Some((user + system) as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// CPU time of the whole machine since it started. It includes the kernel threads that write
/// buffered pages back, whose time is charged to no process.
#[derive(Clone, Copy, Debug)]
pub struct MachineCpu {
    /// Seconds in which programs and the kernel ran, summed over all processors.
    pub busy: f64,
    /// Seconds that other virtual machines took.
    pub steal: f64,
}

impl MachineCpu {
    /// Reads `/proc/stat` (`proc_stat(5)`).
    ///
    /// # Errors
    /// When the file cannot be read, or has no line of CPU times.
    pub fn now() -> Result<MachineCpu, BenchError> {
        let path = Path::new("/proc/stat");
        let text = std::fs::read_to_string(path).map_err(BenchError::system("read", path))?;
        let ticks = processors(&text);
        let [user, system, _, _, steal] = ticks
            .ok_or_else(|| BenchError::Asked("/proc/stat has no line of CPU times".to_owned()))?;
        let per_second = rustix::param::clock_ticks_per_second() as f64;
        Ok(MachineCpu {
            busy: (user + system) as f64 / per_second,
            steal: steal as f64 / per_second,
        })
    }
}

/// The number of busy processors, averaged over one second.
///
/// # Errors
/// As for [`MachineCpu::now`].
pub fn busy_cpus() -> Result<f64, BenchError> {
    let (before, started) = (MachineCpu::now()?, Instant::now());
    std::thread::sleep(Duration::from_secs(1));
    Ok((MachineCpu::now()?.busy - before.busy) / started.elapsed().as_secs_f64())
}

/// `read_bytes` of `/proc/self/io` (`proc_pid_io(5)`): bytes of the block requests that this
/// process sent, by read(2), read-ahead or io_uring alike, counted where they are submitted
/// (`submit_bio` of `block/blk-core.c`). The counters of the device (`/sys/dev/block/*/stat`) would
/// include the reads of all other processes.
fn device_bytes_read() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/io").ok()?;
    text.lines().find_map(|line| line.strip_prefix("read_bytes: "))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meters_only_grow() {
        let meter = RunMeter::start();
        let mut sum = 0u64;
        while cpu_seconds() - meter.cpu < 0.01 {
            sum = std::hint::black_box(sum + 1);
        }
        let usage = meter.stop();
        assert!(usage.cpu_seconds >= 0.01 && usage.wall_seconds > 0.0);
    }

    #[test]
    fn commands_count_once_they_are_waited_for() {
        let before = children_cpu_seconds().unwrap();
        let count = "i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done";
        assert!(std::process::Command::new("sh").args(["-c", count]).status().unwrap().success());
        assert!(children_cpu_seconds().unwrap() >= before + 0.05);
    }
}

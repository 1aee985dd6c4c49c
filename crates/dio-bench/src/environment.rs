//! Where a measurement was made: without it a number means nothing.

use std::path::Path;

use serde::Serialize;

use crate::BenchError;
use crate::units::size;

/// The machine, and the storage below one path.
#[derive(Clone, Debug, Serialize)]
pub struct Environment {
    /// Version of dio.
    pub version: &'static str,
    /// Kernel release, as `uname -r` prints it.
    pub kernel: String,
    /// Name of the processor.
    pub cpu: String,
    /// Processors this process may use.
    pub cpus: usize,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Type of the file system.
    pub file_system: String,
    /// Kernel name of the block device below it, if it is on one.
    pub device: Option<String>,
    /// Its I/O scheduler.
    pub scheduler: Option<String>,
    /// The I/O engine of the library.
    pub engine: &'static str,
}

impl Environment {
    /// Describes the machine and the storage of an existing file, of which up to 1 MiB may be read.
    ///
    /// # Errors
    /// When the file cannot be opened, or there is no I/O to be had.
    pub fn of(path: &Path) -> Result<Environment, BenchError> {
        let report = dio::probe::probe(path).map_err(|error| BenchError::Asked(error.to_string()))?;
        let file_system = match (&report.mount, report.file_system.and_then(|found| found.name())) {
            (Some(mount), _) => mount.file_system.clone(),
            (None, name) => name.unwrap_or("none").to_owned(),
        };
        let device = report.device.ok();
        Ok(Environment {
            version: env!("CARGO_PKG_VERSION"),
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            cpu: field("/proc/cpuinfo", "model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: memory_bytes(),
            file_system,
            scheduler: device.as_ref().and_then(|device| device.scheduler.clone()),
            device: device.map(|device| device.name),
            engine: dio::Io::shared()?.engine_name(),
        })
    }

    /// Two lines of text.
    pub fn text(&self) -> String {
        let on = match (&self.device, &self.scheduler) {
            (Some(device), Some(scheduler)) => format!(" on {device} (scheduler {scheduler})"),
            (Some(device), None) => format!(" on {device}"),
            _ => String::new(),
        };
        format!(
            "dio {}, engine {}, {}{on}\nLinux {}, {} × {}, {} memory\n",
            self.version,
            self.engine,
            self.file_system,
            self.kernel,
            self.cpus,
            self.cpu,
            size(self.memory_bytes)
        )
    }
}

/// The value of the first line `name : value` of a file of `/proc`.
fn field(path: &str, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn memory_bytes() -> u64 {
    let total = field("/proc/meminfo", "MemTotal");
    let kibibytes = total.and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok());
    kibibytes.unwrap_or(0) << 10
}

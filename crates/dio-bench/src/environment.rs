//! Where a measurement was made: without it a number means nothing.

use std::path::Path;

use dio::probe::{Device, Report};
use dio_common::memory;
use dio_common::units::size;
use serde::Serialize;

use crate::BenchError;

/// The machine, and the storage below one path. What the kernel does not tell is `None`.
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
    /// Bytes of memory that control groups leave this process, the page cache for its files included.
    pub memory_limit_bytes: Option<u64>,
    /// Type of the file system.
    pub file_system: String,
    /// Options that it is mounted with.
    pub mount_options: Option<String>,
    /// Kernel name of the block device below it, if it is on one.
    pub device: Option<String>,
    /// Its I/O scheduler.
    pub scheduler: Option<String>,
    /// Bytes that the kernel reads ahead of buffered readers.
    pub read_ahead_bytes: Option<u64>,
    /// Whether it has a volatile write cache: what was written is lost with the power unless it is flushed.
    pub volatile_write_cache: Option<bool>,
    /// Whether the kernel takes it for one that rotates.
    pub rotational: Option<bool>,
    /// Requests that its queue holds.
    pub queue_depth: Option<u64>,
    /// Smallest unit it can address, in bytes.
    pub logical_block_bytes: Option<u64>,
    /// The I/O engine of the library.
    pub engine: &'static str,
}

impl Environment {
    /// Describes the machine and the storage of an existing file, of which up to 1 MiB may be read.
    ///
    /// # Errors
    /// When the file cannot be opened, or there is no I/O to be had.
    pub fn of(path: &Path) -> Result<Environment, BenchError> {
        Environment::of_probed(&dio::probe::probe(path).map_err(|error| BenchError::Asked(error.to_string()))?)
    }

    /// The same of a path that was probed.
    pub(crate) fn of_probed(report: &Report) -> Result<Environment, BenchError> {
        let file_system = match (&report.mount, report.file_system.and_then(|found| found.name())) {
            (Some(mount), _) => mount.file_system.clone(),
            (None, name) => name.unwrap_or("none").to_owned(),
        };
        let device = report.device.as_ref().ok();
        let of = |number: fn(&Device) -> Option<u64>| device.and_then(number);
        let flag = |flag: fn(&Device) -> Option<bool>| device.and_then(flag);
        Ok(Environment {
            version: env!("CARGO_PKG_VERSION"),
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            cpu: field("/proc/cpuinfo", "model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: memory::of_machine("MemTotal").unwrap_or(0),
            memory_limit_bytes: memory::limit(),
            file_system,
            mount_options: report.mount.as_ref().map(|mount| mount.options.clone()),
            scheduler: device.and_then(|device| device.scheduler.clone()),
            read_ahead_bytes: of(|device| device.read_ahead),
            volatile_write_cache: flag(|device| device.volatile_write_cache),
            rotational: flag(|device| device.rotational),
            queue_depth: of(|device| device.queue_depth),
            logical_block_bytes: of(|device| device.logical_block),
            device: device.map(|device| device.name.clone()),
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
        let limit = self.memory_limit_bytes.map_or_else(String::new, |bytes| format!(", limited to {}", size(bytes)));
        format!(
            "dio {}, engine {}, {}{on}\nLinux {}, {} × {}, {} memory{limit}\n",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_of_a_file_names_its_storage() {
        let environment = Environment::of(Path::new("/proc/self/exe")).unwrap();
        assert!(environment.memory_bytes > 1 << 20 && environment.cpus > 0 && !environment.kernel.is_empty());
        assert!(environment.mount_options.is_some(), "{environment:?}");
        assert_eq!(environment.device.is_some(), environment.logical_block_bytes.is_some(), "{environment:?}");
    }
}

//! The machine and storage that a measurement was made on; without it a number means nothing.

use std::path::Path;

use dio::probe::{Device, Report};
use dio_common::memory;
use dio_common::units::size;
use serde::{Deserialize, Deserializer, Serialize};

use crate::BenchError;

/// The machine, and the storage below one path. A value that the kernel does not report is `None`;
/// earlier results lack some values.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Environment {
    /// Version of dio.
    pub version: String,
    /// Kernel release, as `uname -r` prints it.
    pub kernel: String,
    /// Name of the processor.
    pub cpu: String,
    /// Processors this process may use.
    pub cpus: usize,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Bytes of memory that control groups allow this process, the page cache of its files
    /// included. `None` if an earlier result does not say, `Some(None)` if there was no limit.
    #[serde(default, deserialize_with = "known", skip_serializing_if = "Option::is_none")]
    pub memory_limit_bytes: Option<Option<u64>>,
    /// Type of the file system.
    pub file_system: String,
    /// Options that the file system is mounted with.
    #[serde(default)]
    pub mount_options: Option<String>,
    /// Kernel name of the block device below the file system, if there is one.
    #[serde(default)]
    pub device: Option<String>,
    /// The I/O scheduler of the device.
    #[serde(default)]
    pub scheduler: Option<String>,
    /// Bytes that the kernel reads ahead for buffered readers.
    #[serde(default)]
    pub read_ahead_bytes: Option<u64>,
    /// Whether the device has a volatile write cache: written data are lost at a power failure
    /// unless they are flushed.
    #[serde(default)]
    pub volatile_write_cache: Option<bool>,
    /// Whether the kernel treats the device as rotational.
    #[serde(default)]
    pub rotational: Option<bool>,
    /// Requests that the device's queue holds.
    #[serde(default)]
    pub queue_depth: Option<u64>,
    /// Bytes of the device's logical block.
    #[serde(default)]
    pub logical_block_bytes: Option<u64>,
    /// Name of the library's I/O engine.
    pub engine: String,
}

impl Environment {
    /// Describes the machine and the storage of an existing file. Up to 1 MiB of the file may be
    /// read.
    ///
    /// # Errors
    /// When the file cannot be opened, or when no I/O engine is available.
    pub fn of(path: &Path) -> Result<Environment, BenchError> {
        Environment::of_probed(
            &dio::probe::probe(path).map_err(|error| BenchError::Asked(error.to_string()))?,
        )
    }

    /// As [`Environment::of`], for a path that was probed already.
    pub(crate) fn of_probed(report: &Report) -> Result<Environment, BenchError> {
        let file_system = match (&report.mount, report.file_system.and_then(|found| found.name())) {
            (Some(mount), _) => mount.file_system.clone(),
            (None, name) => name.unwrap_or("none").to_owned(),
        };
        let device = report.device.as_ref().ok();
        let of = |number: fn(&Device) -> Option<u64>| device.and_then(number);
        let flag = |flag: fn(&Device) -> Option<bool>| device.and_then(flag);
        Ok(Environment {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            cpu: field("/proc/cpuinfo", "model name")
                .unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: memory::of_machine("MemTotal").unwrap_or(0),
            memory_limit_bytes: Some(memory::limit()),
            file_system,
            mount_options: report.mount.as_ref().map(|mount| mount.options.clone()),
            scheduler: device.and_then(|device| device.scheduler.clone()),
            read_ahead_bytes: of(|device| device.read_ahead),
            volatile_write_cache: flag(|device| device.volatile_write_cache),
            rotational: flag(|device| device.rotational),
            queue_depth: of(|device| device.queue_depth),
            logical_block_bytes: of(|device| device.logical_block),
            device: device.map(|device| device.name.clone()),
            engine: dio::Io::shared()?.engine_name().to_owned(),
        })
    }

    /// Names and values, those of the storage first.
    pub(crate) fn rows(&self) -> Vec<(String, String)> {
        let limit = match self.memory_limit_bytes {
            Some(Some(bytes)) => size(bytes),
            Some(None) => "none".to_owned(),
            None => "not recorded".to_owned(),
        };
        let flag = |value: Option<bool>, yes: &str, no: &str| {
            value.map(|value| if value { yes } else { no }.to_owned())
        };
        let rows = [
            ("file system", Some(self.file_system.clone())),
            ("mount options", self.mount_options.clone()),
            ("device", self.device.clone()),
            ("I/O scheduler", self.scheduler.clone()),
            ("read-ahead of the kernel", self.read_ahead_bytes.map(size)),
            (
                "write cache of the device",
                flag(self.volatile_write_cache, "volatile", "none, or safe"),
            ),
            ("reported as", flag(self.rotational, "rotational", "not rotational")),
            ("queue depth", self.queue_depth.map(|depth| depth.to_string())),
            ("logical block", self.logical_block_bytes.map(size)),
            ("kernel", Some(format!("Linux {}", self.kernel))),
            ("processors", Some(format!("{} × {}", self.cpus, self.cpu))),
            ("memory", Some(size(self.memory_bytes))),
            ("memory limit (cgroup)", Some(limit)),
            ("I/O engine of dio", Some(self.engine.clone())),
            ("dio", Some(self.version.clone())),
        ];
        rows.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }

    /// The environment as two lines of text.
    pub fn text(&self) -> String {
        let on = match (&self.device, &self.scheduler) {
            (Some(device), Some(scheduler)) => format!(" on {device} (scheduler {scheduler})"),
            (Some(device), None) => format!(" on {device}"),
            _ => String::new(),
        };
        let limit = self
            .memory_limit_bytes
            .flatten()
            .map_or_else(String::new, |bytes| format!(", limited to {}", size(bytes)));
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

/// Distinguishes a field that is `null` from a missing one.
fn known<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<u64>>, D::Error> {
    Option::<u64>::deserialize(deserializer).map(Some)
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
        assert!(
            environment.memory_bytes > 1 << 20
                && environment.cpus > 0
                && !environment.kernel.is_empty()
        );
        assert!(environment.mount_options.is_some(), "{environment:?}");
        assert_eq!(
            environment.device.is_some(),
            environment.logical_block_bytes.is_some(),
            "{environment:?}"
        );
    }

    #[test]
    fn what_older_results_lack_is_left_out_or_said() {
        let old = r#"{"version":"0.1.0","kernel":"6.1","cpu":"c","cpus":2,"memory_bytes":1073741824,"file_system":"xfs",
                      "device":null,"scheduler":null,"engine":"io_uring"}"#;
        let environment: Environment = serde_json::from_str(old).unwrap();
        let rows = environment.rows();
        assert!(
            rows.contains(&("memory limit (cgroup)".to_owned(), "not recorded".to_owned())),
            "{rows:?}"
        );
        assert!(
            !rows.iter().any(|(name, _)| name == "device" || name == "logical block"),
            "{rows:?}"
        );
        let new = old.replace(
            "\"cpus\"",
            "\"memory_limit_bytes\":null,\"volatile_write_cache\":true,\"cpus\"",
        );
        let rows = serde_json::from_str::<Environment>(&new).unwrap().rows();
        assert!(
            rows.contains(&("memory limit (cgroup)".to_owned(), "none".to_owned())),
            "{rows:?}"
        );
        assert!(rows.iter().any(|(_, value)| value == "volatile"), "{rows:?}");
    }

    #[test]
    fn what_is_written_here_can_be_read() {
        let environment = Environment::of(Path::new("/proc/self/exe")).unwrap();
        let text = serde_json::to_string(&environment).unwrap();
        assert!(serde_json::from_str::<Environment>(&text).unwrap().rows().len() >= 8, "{text}");
    }
}

//! Where a result was measured, as its reader needs it.

use serde::Deserialize;

use dio_common::units::size;

/// The environment in the JSON of a benchmark; older results lack some of it.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Environment {
    version: String,
    kernel: String,
    cpu: String,
    cpus: u64,
    memory_bytes: u64,
    /// Absent in older results; `null` where there was no limit.
    #[serde(default, deserialize_with = "known")]
    memory_limit_bytes: Option<Option<u64>>,
    file_system: String,
    #[serde(default)]
    mount_options: Option<String>,
    #[serde(default)]
    device: Option<String>,
    #[serde(default)]
    scheduler: Option<String>,
    #[serde(default)]
    read_ahead_bytes: Option<u64>,
    #[serde(default)]
    volatile_write_cache: Option<bool>,
    #[serde(default)]
    rotational: Option<bool>,
    #[serde(default)]
    queue_depth: Option<u64>,
    #[serde(default)]
    logical_block_bytes: Option<u64>,
    engine: String,
}

/// Tells a field that is `null` from one that is not there.
fn known<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Option<u64>>, D::Error> {
    Option::<u64>::deserialize(deserializer).map(Some)
}

impl Environment {
    /// Names and values, storage first.
    pub(super) fn rows(&self) -> Vec<(String, String)> {
        let limit = match self.memory_limit_bytes {
            Some(Some(bytes)) => size(bytes),
            Some(None) => "none".to_owned(),
            None => "not recorded".to_owned(),
        };
        let flag =
            |value: Option<bool>, yes: &str, no: &str| value.map(|value| if value { yes } else { no }.to_owned());
        let rows = [
            ("file system", Some(self.file_system.clone())),
            ("mount options", self.mount_options.clone()),
            ("device", self.device.clone()),
            ("I/O scheduler", self.scheduler.clone()),
            ("read-ahead of the kernel", self.read_ahead_bytes.map(size)),
            ("write cache of the device", flag(self.volatile_write_cache, "volatile", "none, or safe")),
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_older_results_lack_is_left_out_or_said() {
        let old = r#"{"version":"0.1.0","kernel":"6.1","cpu":"c","cpus":2,"memory_bytes":1073741824,"file_system":"xfs",
                      "device":null,"scheduler":null,"engine":"io_uring"}"#;
        let environment: Environment = serde_json::from_str(old).unwrap();
        let rows = environment.rows();
        assert!(rows.contains(&("memory limit (cgroup)".to_owned(), "not recorded".to_owned())), "{rows:?}");
        assert!(!rows.iter().any(|(name, _)| name == "device" || name == "logical block"), "{rows:?}");
        let new = old.replace("\"cpus\"", "\"memory_limit_bytes\":null,\"volatile_write_cache\":true,\"cpus\"");
        let rows = serde_json::from_str::<Environment>(&new).unwrap().rows();
        assert!(rows.contains(&("memory limit (cgroup)".to_owned(), "none".to_owned())), "{rows:?}");
        assert!(rows.iter().any(|(_, value)| value == "volatile"), "{rows:?}");
    }

    #[test]
    fn what_is_written_here_can_be_read() {
        let environment = crate::environment::Environment::of(std::path::Path::new("/proc/self/exe")).unwrap();
        let text = serde_json::to_string(&environment).unwrap();
        assert!(serde_json::from_str::<Environment>(&text).unwrap().rows().len() >= 8, "{text}");
    }
}

//! The machine a comparison ran on, without its name.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::Result;
use crate::measure::busy_cpus;
use crate::tool::{output, tool};
use crate::units::GIB;

/// What a reader needs to know to judge the figures.
#[derive(Clone, Serialize)]
pub(crate) struct Host {
    pub(crate) cpu: String,
    pub(crate) cores: usize,
    pub(crate) memory_gib: f64,
    pub(crate) kernel: String,
    pub(crate) file_system: String,
    pub(crate) mount_options: String,
    pub(crate) device: String,
    pub(crate) device_gib: f64,
    pub(crate) scheduler: String,
    pub(crate) read_ahead_kib: String,
    /// CPUs that others kept busy in the second before the comparison.
    pub(crate) busy_cpus_before: f64,
}

impl Host {
    /// Describes this machine and the disk that holds `dir`.
    pub(crate) fn describe(dir: &Path) -> Result<Host> {
        let found = |column: &str| output(tool("findmnt").args(["-n", "-r", "-o", column, "-T"]).arg(dir));
        let number = found("MAJ:MIN")?.trim().to_string();
        let disk = disk_of(&number);
        let attribute = |name: &str| {
            let text = disk.as_ref().and_then(|d| fs::read_to_string(d.join(name)).ok());
            text.map_or("unknown".to_string(), |t| t.trim().to_string())
        };
        let cpuinfo = fs::read_to_string("/proc/cpuinfo")?;
        let model = cpuinfo.lines().find(|l| l.starts_with("model name")).and_then(|l| l.split_once(':'));
        let sectors: f64 = attribute("size").parse().unwrap_or(0.0);
        Ok(Host {
            cpu: model.map_or("unknown", |(_, name)| name.trim()).to_string(),
            cores: cpuinfo.lines().filter(|l| l.starts_with("processor")).count(),
            memory_gib: memory_kib()? / f64::from(1 << 20),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")?.trim().to_string(),
            file_system: found("FSTYPE")?.trim().to_string(),
            mount_options: found("OPTIONS")?.trim().to_string(),
            device: kind_of(disk.as_deref(), &attribute("queue/rotational")),
            device_gib: sectors * 512.0 / GIB as f64,
            scheduler: attribute("queue/scheduler"),
            read_ahead_kib: attribute("queue/read_ahead_kb"),
            busy_cpus_before: busy_cpus()?,
        })
    }
}

/// The directory in `/sys` of the whole disk with this `major:minor`, or of the one that its partition is on.
fn disk_of(number: &str) -> Option<PathBuf> {
    let device = fs::canonicalize(Path::new("/sys/dev/block").join(number)).ok()?;
    if device.join("partition").exists() { device.parent().map(Path::to_path_buf) } else { Some(device) }
}

/// Driver and model as far as the kernel tells, for example `virtio disk (vda, reported rotational)`.
fn kind_of(disk: Option<&Path>, rotational: &str) -> String {
    let Some(disk) = disk else { return "not a single block device".to_string() };
    let name = disk.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let model = fs::read_to_string(disk.join("device/model")).map(|m| m.trim().to_string()).ok();
    let driver = fs::canonicalize(disk.join("device/driver")).ok();
    let driver = driver.and_then(|d| d.file_name().map(|n| n.to_string_lossy().into_owned()));
    let rotational = if rotational == "1" { "reported rotational" } else { "not rotational" };
    format!("{} ({name}, {rotational})", model.or(driver).unwrap_or_else(|| "no hardware".to_string()))
}

fn memory_kib() -> Result<f64> {
    let text = fs::read_to_string("/proc/meminfo")?;
    let total = text.lines().find_map(|l| l.strip_prefix("MemTotal:")).unwrap_or_default();
    Ok(total.split_whitespace().next().ok_or("no MemTotal in /proc/meminfo")?.parse()?)
}

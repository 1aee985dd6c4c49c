//! Records of the benchsuite: comparisons with other programs. The benchsuite makes and writes
//! them, and `dio report` shows them.

mod section;

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::environment::Environment;
use crate::stats::{Summary, ratios};
use crate::synctest::StorageFacts;
use crate::{BenchError, measure};

const GIB: f64 = (1 << 30) as f64;

/// One comparison, complete.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ComparisonReport {
    /// The name of the comparison.
    pub comparison: String,
    /// The day, as `2026-11-23`.
    pub date: String,
    /// The commit that dio was built from.
    pub commit: String,
    /// The machine that it was measured on.
    pub host: Host,
    /// The settings of the comparison: sizes, rounds, the engine.
    pub settings: BTreeMap<String, Value>,
    /// Versions of the programs by their names.
    pub programs: BTreeMap<String, String>,
    /// The targets, and whether they were reached.
    pub goals: Vec<Goal>,
    /// Warnings that a reader needs to judge the result.
    pub notes: Vec<String>,
    /// The groups of programs that were compared.
    pub groups: Vec<ComparisonGroup>,
}

impl ComparisonReport {
    /// Records a setting.
    pub fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.settings.insert(name.to_owned(), value.into());
    }

    /// Adds a target, if its figure could be measured.
    pub fn goal(&mut self, goal: Option<Goal>) {
        self.goals.extend(goal);
    }

    /// Adds a note.
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }
}

/// The machine that a comparison ran on, without its name: the facts that a reader needs to judge
/// the figures.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Host {
    /// Name of the processor.
    pub cpu: String,
    /// Number of processors.
    pub cores: usize,
    /// Memory in GiB.
    pub memory_gib: f64,
    /// Kernel release.
    pub kernel: String,
    /// Type of the file system.
    pub file_system: String,
    /// Options that it is mounted with.
    pub mount_options: String,
    /// Driver or model of the disk, such as `virtio_blk (vda, reported rotational)`.
    pub device: String,
    /// Size of the disk in GiB.
    pub device_gib: f64,
    /// The disk's I/O scheduler; in earlier records all available ones, the active one in brackets.
    pub scheduler: String,
    /// KiB that the kernel reads ahead for buffered readers.
    pub read_ahead_kib: String,
    /// Number of CPUs that other programs kept busy in the second before the comparison.
    pub busy_cpus_before: f64,
}

impl Host {
    /// Describes this machine and the disk that holds a directory.
    ///
    /// # Errors
    /// When the directory cannot be opened.
    pub fn of(directory: &Path) -> Result<Host, BenchError> {
        let probed =
            dio::probe::probe(directory).map_err(|error| BenchError::Asked(error.to_string()))?;
        let environment = Environment::of_probed(&probed)?;
        let disk = StorageFacts::of(&probed).disk;
        let unknown = || "unknown".to_owned();
        let device = disk.as_ref().map(|disk| {
            let rotational = if disk.rotational == Some(true) {
                "reported rotational"
            } else {
                "not rotational"
            };
            let kind =
                disk.model.as_ref().or(disk.driver.as_ref()).map_or("no hardware", String::as_str);
            format!("{kind} ({}, {rotational})", disk.name)
        });
        Ok(Host {
            cpu: environment.cpu,
            cores: environment.cpus,
            memory_gib: environment.memory_bytes as f64 / GIB,
            kernel: environment.kernel,
            file_system: environment.file_system,
            mount_options: environment.mount_options.unwrap_or_else(unknown),
            device: device.unwrap_or_else(|| "not a single block device".to_owned()),
            device_gib: disk.and_then(|disk| disk.bytes()).unwrap_or(0) as f64 / GIB,
            scheduler: environment.scheduler.unwrap_or_else(unknown),
            read_ahead_kib: environment
                .read_ahead_bytes
                .map_or_else(unknown, |bytes| (bytes >> 10).to_string()),
            busy_cpus_before: measure::busy_cpus()?,
        })
    }
}

/// A target, with the measured figure.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Goal {
    /// The name of the figure.
    pub goal: String,
    /// The target value.
    pub limit: f64,
    /// `at most` or `at least`.
    pub bound: String,
    /// The measured value.
    pub measured: f64,
    /// Whether the target was reached.
    pub reached: bool,
}

impl Goal {
    /// A target that `measured` must not exceed; `None` if the figure could not be measured.
    pub fn at_most(goal: &str, limit: f64, measured: Option<f64>) -> Option<Goal> {
        measured.map(|measured| Goal::new(goal, limit, "at most", measured, measured <= limit))
    }

    /// A target that `measured` must not fall below; `None` if the figure could not be measured.
    pub fn at_least(goal: &str, limit: f64, measured: Option<f64>) -> Option<Goal> {
        measured.map(|measured| Goal::new(goal, limit, "at least", measured, measured >= limit))
    }

    fn new(goal: &str, limit: f64, bound: &str, measured: f64, reached: bool) -> Goal {
        Goal { goal: goal.to_owned(), limit, bound: bound.to_owned(), measured, reached }
    }
}

/// The quantities of one run, by key.
pub type Sample = BTreeMap<&'static str, f64>;

/// All measurements of one program.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Contender {
    /// Its name.
    pub name: String,
    /// The command as a reader would type it, with `$DIR` for the directory.
    pub command: String,
    /// Medians and extremes of the quantities, by key.
    #[serde(default)]
    pub summary: BTreeMap<String, Summary>,
    /// Every run.
    pub samples: Vec<BTreeMap<String, f64>>,
}

impl Contender {
    /// A contender with its runs.
    pub fn new(name: String, command: String, samples: Vec<Sample>) -> Contender {
        let owned = |sample: Sample| {
            sample.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
        };
        let samples: Vec<BTreeMap<String, f64>> = samples.into_iter().map(owned).collect();
        let mut contender = Contender { name, command, summary: BTreeMap::new(), samples };
        let keys = contender.samples.iter().flat_map(BTreeMap::keys);
        contender.summary = keys
            .filter_map(|key| Some((key.clone(), Summary::of_some(contender.column(key))?)))
            .collect();
        contender
    }

    /// The values of a quantity in all runs that have it.
    pub fn column(&self, key: &str) -> Vec<f64> {
        self.samples.iter().filter_map(|sample| sample.get(key).copied()).collect()
    }
}

/// The first contender's quantity divided by a peer's, round by round, or the inverse (see
/// [`ComparisonGroup::to_first`]).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ratio {
    /// The peer.
    pub peer: String,
    /// The key of the quantity.
    pub metric: String,
    /// The median, the least and the greatest.
    #[serde(flatten)]
    pub spread: Summary,
}

/// Programs that were compared under the same conditions.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ComparisonGroup {
    /// The title: what the programs did.
    pub title: String,
    /// The programs; the subject of the group comes first.
    pub contenders: Vec<Contender>,
    /// Ratios between the first contender and the others.
    #[serde(default)]
    pub ratios: Vec<Ratio>,
    /// Whether each ratio is the peer's value divided by the first contender's, instead of the
    /// inverse.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub to_first: bool,
    /// Peers that could not be measured, with the reason.
    #[serde(default)]
    pub skipped: BTreeMap<String, String>,
}

impl ComparisonGroup {
    /// Creates a group whose first contender is compared with each peer by the quantities
    /// `compared`.
    pub fn new(
        title: &str,
        contenders: Vec<Contender>,
        skipped: BTreeMap<String, String>,
        compared: &[&str],
    ) -> ComparisonGroup {
        let mut group = ComparisonGroup {
            title: title.to_owned(),
            contenders,
            ratios: Vec::new(),
            to_first: false,
            skipped,
        };
        group.ratios = group.ratios_by(compared);
        group
    }

    /// Replaces the ratios by those of each peer to the first contender, for groups whose first
    /// contender is the figure to reach.
    #[must_use]
    pub fn against_first(mut self, compared: &[&str]) -> ComparisonGroup {
        self.to_first = true;
        self.ratios = self.ratios_by(compared);
        self
    }

    fn ratios_by(&self, compared: &[&str]) -> Vec<Ratio> {
        let Some((first, peers)) = self.contenders.split_first() else { return Vec::new() };
        let ratio = |peer: &Contender, metric: &str| {
            let (ours, theirs) = if self.to_first { (peer, first) } else { (first, peer) };
            let spread = Summary::of_some(ratios(ours.column(metric), theirs.column(metric)))?;
            Some(Ratio { peer: peer.name.clone(), metric: metric.to_owned(), spread })
        };
        peers
            .iter()
            .flat_map(|peer| compared.iter().filter_map(move |metric| ratio(peer, metric)))
            .collect()
    }

    fn contender(&self, name: &str) -> Option<&Contender> {
        self.contenders.iter().find(|contender| contender.name == name)
    }

    /// The median of the ratios of a peer, or `None` without that peer.
    pub fn ratio(&self, peer: &str, metric: &str) -> Option<f64> {
        let found = self.ratios.iter().find(|ratio| ratio.peer == peer && ratio.metric == metric);
        found.map(|ratio| ratio.spread.median)
    }

    /// A quantity of one contender divided by a quantity of another, round by round.
    pub fn quotient(&self, (ours, of): (&str, &str), (peer, by): (&str, &str)) -> Option<Summary> {
        Summary::of_some(ratios(self.contender(ours)?.column(of), self.contender(peer)?.column(by)))
    }

    /// The median and the extremes of one quantity of one contender.
    pub fn spread(&self, name: &str, metric: &str) -> Option<Summary> {
        self.contender(name)?.summary.get(metric).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_compare_in_their_direction() {
        let reached = |goal: Option<Goal>| goal.map(|goal| goal.reached);
        assert_eq!(reached(Goal::at_most("", 1.0, Some(1.0))), Some(true));
        assert_eq!(reached(Goal::at_most("", 1.0, Some(1.01))), Some(false));
        assert_eq!(reached(Goal::at_least("", 0.97, Some(0.96))), Some(false));
        assert!(Goal::at_least("", 0.97, None).is_none());
    }
}

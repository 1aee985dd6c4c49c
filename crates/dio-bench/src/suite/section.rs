//! The section that shows a record of the benchsuite.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{ComparisonGroup, ComparisonReport, Contender, Goal, Host};
use crate::plot::{Dot, Dots, Plot, PlotKind};
use crate::quantity::Unit;
use crate::section::{Benchmark, Block, Finding, Rows, Section, Table, slug};

/// Quantities with a title of their own, in the order of the columns. The first one that a group
/// has is plotted.
const QUANTITIES: [(&str, &str); 29] = [
    ("wall_seconds", "elapsed"),
    ("read_p99_nanoseconds", "read, p99"),
    ("read_p50_nanoseconds", "read, p50"),
    ("read_max_nanoseconds", "read, longest"),
    ("create_p99_nanoseconds", "create, p99"),
    ("create_p50_nanoseconds", "create, p50"),
    ("create_max_nanoseconds", "create, longest"),
    ("turns_per_second", "turns of the honest user"),
    ("errors", "errors of the honest user"),
    ("no_progress", "runs without progress"),
    ("hostile_per_second", "requests of the hostile user"),
    ("hostile_errors_per_second", "errors of the hostile user"),
    ("iops", "requests"),
    ("reads_per_second", "reads of the hot set"),
    ("mib_per_second", "throughput"),
    ("cpu_seconds", "CPU"),
    ("cpu_seconds_per_gib", "CPU per GiB"),
    ("machine_cpu_seconds", "CPU of the machine"),
    ("machine_cpu_seconds_per_gib", "CPU of the machine per GiB"),
    ("server_cpu_seconds", "CPU of the server"),
    ("server_cpu_seconds_per_gib", "CPU of the server per GiB"),
    ("peak_rss_bytes", "most memory"),
    ("target_bytes", "size of the target"),
    ("pages_source", "pages left of the source"),
    ("pages_target", "pages left of the target"),
    ("dirty_bytes", "dirty afterwards"),
    ("device_bytes", "from the device"),
    ("in_vain_part", "read in vain"),
    ("overlap_part", "reads and writes together"),
];

/// Quantities that tables leave out, because other quantities include them or because they only
/// explain others.
const LEFT_OUT: [&str; 4] = ["user_seconds", "system_seconds", "steal_seconds", "run_seconds"];

/// The title of a quantity.
fn title(key: &str) -> String {
    if let Some((_, title)) = QUANTITIES.iter().find(|(known, _)| *known == key) {
        return (*title).to_owned();
    }
    let endings = ["_seconds", "_nanoseconds", "_bytes", "_part", "_per_second"];
    let key = endings.iter().find_map(|ending| key.strip_suffix(ending)).unwrap_or(key);
    key.replace('_', " ")
}

/// The unit of a quantity, by the ending of its key, and the factor that converts its values to
/// base units.
fn unit(key: &str) -> (Unit, f64) {
    match key {
        "iops" => (Unit::PerSecond, 1.0),
        "mib_per_second" => (Unit::BytesPerSecond, 1_048_576.0),
        key if key.ends_with("_nanoseconds") => (Unit::Seconds, 1e-9),
        key if key.contains("_seconds") => (Unit::Seconds, 1.0),
        key if key.ends_with("_bytes") => (Unit::Bytes, 1.0),
        key if key.ends_with("_part") => (Unit::Part, 1.0),
        key if key.ends_with("_per_second") => (Unit::PerSecond, 1.0),
        key if key.starts_with("pages") || ["errors", "no_progress"].contains(&key) => {
            (Unit::Count, 1.0)
        }
        _ => (Unit::Ratio, 1.0),
    }
}

/// The values of a quantity in all runs, in base units.
fn values(contender: &Contender, key: &str) -> Vec<f64> {
    let (_, factor) = unit(key);
    contender.column(key).into_iter().map(|value| value * factor).collect()
}

impl ComparisonGroup {
    /// The quantities that it has, in the order of the columns.
    fn keys(&self) -> Vec<&str> {
        let samples = self.contenders.iter().flat_map(|contender| &contender.samples);
        let mut keys: Vec<&str> = samples.flat_map(BTreeMap::keys).map(String::as_str).collect();
        let place = |key: &str| {
            QUANTITIES.iter().position(|(known, _)| *known == key).unwrap_or(QUANTITIES.len())
        };
        keys.sort_by_key(|key| (place(key), *key));
        keys.dedup();
        keys.retain(|key| !LEFT_OUT.contains(key));
        keys
    }

    /// The quantities that have ratios.
    fn compared(&self) -> Vec<&str> {
        let mut keys: Vec<&str> = Vec::new();
        for ratio in &self.ratios {
            if !keys.contains(&ratio.metric.as_str()) {
                keys.push(&ratio.metric);
            }
        }
        keys
    }

    fn plot(&self) -> Option<Plot> {
        let key = *self.keys().first()?;
        let row = |(place, contender): (usize, &Contender)| {
            // The first contender is the subject of the group, or the one that the others are
            // compared with.
            Dot::new(contender.name.clone(), if place == 0 { 4 } else { 1 }, values(contender, key))
        };
        let rows = self.contenders.iter().enumerate().map(row).collect();
        let about = match unit(key).0 {
            Unit::Seconds | Unit::Bytes => "further left is better",
            _ => "further right is better",
        };
        Some(Plot {
            name: slug(&self.title),
            title: self.title.clone(),
            about: format!("{}: each dot is a run, the bar the median; {about}.", title(key)),
            kind: PlotKind::Dots(Dots { unit: unit(key).0, label: title(key), guide: None, rows }),
        })
    }

    fn table(&self) -> Table {
        let first = self.contenders.first().map_or("", |contender| &contender.name);
        let ratio =
            if self.to_first { format!("this ÷ {first}") } else { format!("{first} ÷ this") };
        let name = format!("{}-programs", slug(&self.title));
        let rows =
            Rows::new((&name, "program"), self.title.clone(), &self.contenders, |contender| {
                contender.name.clone()
            });
        let rows = self.keys().into_iter().fold(rows, |rows, key| {
            rows.column(title(key), unit(key).0, move |contender| values(contender, key))
        });
        let rows = self.compared().into_iter().fold(rows, |rows, key| {
            let of = |contender: &Contender| {
                let same =
                    |other: &&super::Ratio| other.peer == contender.name && other.metric == key;
                self.ratios.iter().find(same).map(|ratio| ratio.spread)
            };
            rows.column(format!("{}: {ratio}", title(key)), Unit::Ratio, of)
        });
        rows.table()
    }
}

impl Benchmark for ComparisonReport {
    const NAME: &'static str = "benchsuite";
    const FIELDS: &'static [&'static str] = &["comparison", "host", "groups"];

    fn section(&self) -> Section {
        let mut blocks = Vec::new();
        if !self.goals.is_empty() {
            blocks.push(Block::Table(goals(&self.goals)));
        }
        // Plots that are to be compared stand side by side; the numbers behind them follow.
        let plots: Vec<Plot> = self.groups.iter().filter_map(ComparisonGroup::plot).collect();
        if !plots.is_empty() {
            blocks.push(Block::Plots(plots));
        }
        let mut notes = self.notes.clone();
        for group in &self.groups {
            blocks.push(Block::Table(group.table()));
            let skipped = group
                .skipped
                .iter()
                .map(|(name, why)| format!("{}: left out: {name}: {why}", group.title));
            notes.extend(skipped);
            blocks.push(Block::Commands(
                group
                    .contenders
                    .iter()
                    .map(|contender| (contender.name.clone(), contender.command.clone()))
                    .collect(),
            ));
        }
        let shown = |(name, value): (&String, &Value)| {
            (
                name.replace('_', " "),
                value.as_str().map_or_else(|| value.to_string(), str::to_owned),
            )
        };
        let mut settings: Vec<(String, String)> = self.settings.iter().map(shown).collect();
        settings
            .extend(self.programs.iter().map(|(name, version)| (name.clone(), version.clone())));
        Section {
            id: format!("benchsuite-{}", slug(&self.comparison)),
            title: format!("Comparison: {}", self.comparison),
            lead: format!(
                "Recorded by the benchsuite on {} with dio at commit {}. Programs took turns; all \
                 figures are medians, with the least and the greatest.",
                self.date, self.commit
            ),
            findings: findings(self),
            blocks,
            notes,
            settings,
            environment: self.host.rows(),
            ..Section::default()
        }
    }
}

/// The number of reached targets, and the names of those that were missed.
fn findings(report: &ComparisonReport) -> Vec<Finding> {
    let goals = &report.goals;
    if goals.is_empty() {
        let programs: Vec<&str> = report.groups.iter().map(|group| group.title.as_str()).collect();
        return vec![Finding::new(
            "compared",
            report.groups.len().to_string(),
            programs.join("; "),
        )];
    }
    let reached = goals.iter().filter(|goal| goal.reached).count();
    let mut findings = vec![Finding {
        label: "figures reached".to_owned(),
        value: format!("{reached} of {}", goals.len()),
        note: String::new(),
        reached: Some(reached == goals.len()),
    }];
    findings.extend(goals.iter().filter(|goal| !goal.reached).map(|goal| Finding {
        label: goal.goal.clone(),
        value: format!("{:.2}", goal.measured),
        note: format!("to reach: {} {:.2}", goal.bound, goal.limit),
        reached: Some(false),
    }));
    findings
}

fn goals(goals: &[Goal]) -> Table {
    Rows::new(("goals", "figure"), "Figures to reach", goals, |goal| goal.goal.clone())
        .words("to reach", |goal| format!("{} {:.2}", goal.bound, goal.limit))
        .column("measured", Unit::Ratio, |goal| goal.measured)
        .words("verdict", |goal| if goal.reached { "reached" } else { "missed" })
        .table()
}

impl Host {
    fn rows(&self) -> Vec<(String, String)> {
        let scheduler = self.scheduler.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
        let rows = [
            ("file system", self.file_system.clone()),
            ("mount options", self.mount_options.clone()),
            ("device", format!("{}, {:.0} GiB", self.device, self.device_gib)),
            (
                "I/O scheduler",
                scheduler.map_or(self.scheduler.as_str(), |(active, _)| active).to_owned(),
            ),
            ("read-ahead of the kernel", format!("{} KiB", self.read_ahead_kib)),
            ("kernel", format!("Linux {}", self.kernel)),
            ("processors", format!("{} × {}", self.cores, self.cpu)),
            ("memory", format!("{:.0} GiB", self.memory_gib)),
            ("busy with something else before", format!("{:.2} processors", self.busy_cpus_before)),
        ];
        rows.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_nobody_knows_have_their_unit_by_their_ending() {
        assert_eq!(
            (title("p99_nanoseconds"), unit("p99_nanoseconds")),
            ("p99".to_owned(), (Unit::Seconds, 1e-9))
        );
        assert_eq!(
            (title("wall_seconds"), unit("cpu_seconds_per_gib").0),
            ("elapsed".to_owned(), Unit::Seconds)
        );
        assert_eq!(
            (title("new_thing_bytes"), unit("new_thing_bytes").0),
            ("new thing".to_owned(), Unit::Bytes)
        );
        assert_eq!(unit("hit_part").0, Unit::Part);
        assert_eq!(
            ["errors", "no_progress", "hostile_errors_per_second"].map(|key| unit(key).0),
            [Unit::Count, Unit::Count, Unit::PerSecond]
        );
    }
}

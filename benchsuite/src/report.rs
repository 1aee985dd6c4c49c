//! The result of a comparison, as a table for people and as JSON for programs.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use dio_bench::stats::Summary;
use dio_bench::suite::{ComparisonGroup, ComparisonReport, Host};

use crate::Result;
use crate::tool::{commit, home, output, tool};

/// The presentation of a quantity in tables.
struct Metric {
    key: &'static str,
    title: &'static str,
    /// The factor for recorded values.
    scale: f64,
    digits: usize,
}

const fn metric(key: &'static str, title: &'static str, scale: f64, digits: usize) -> Metric {
    Metric { key, title, scale, digits }
}

const PER_MIB: f64 = 1.0 / 1_048_576.0;

/// The quantities that tables show, in their order; records hold a few more.
const METRICS: &[Metric] = &[
    metric("wall_seconds", "wall, s", 1.0, 2),
    metric("copy_seconds", "copy, s", 1.0, 2),
    metric("predicted_seconds", "predicted, s", 1.0, 2),
    metric("prediction_error", "off, %", 100.0, 0),
    metric("mib_per_second", "MiB/s", 1.0, 0),
    metric("files_per_second", "files/s", 1.0, 0),
    metric("threads", "threads at the end", 1.0, 0),
    metric("written_again_bytes", "written again, MiB", PER_MIB, 1),
    metric("iops", "requests/s", 1.0, 0),
    metric("commits_per_second", "commits/s", 1.0, 0),
    metric("flushes_per_second", "flushes/s", 1.0, 0),
    metric("cpu_busy", "CPUs busy", 1.0, 2),
    metric("turns_per_second", "turns/s", 1.0, 0),
    metric("read_p50_nanoseconds", "read p50, µs", 1e-3, 0),
    metric("read_p99_nanoseconds", "read p99, µs", 1e-3, 0),
    metric("read_max_nanoseconds", "read max, µs", 1e-3, 0),
    metric("create_p50_nanoseconds", "create p50, µs", 1e-3, 0),
    metric("create_p99_nanoseconds", "create p99, µs", 1e-3, 0),
    metric("create_max_nanoseconds", "create max, µs", 1e-3, 0),
    metric("errors", "errors", 1.0, 0),
    metric("no_progress", "without progress (0 or 1)", 1.0, 0),
    metric("hostile_per_second", "hostile requests/s", 1.0, 0),
    metric("hostile_errors_per_second", "hostile errors/s", 1.0, 0),
    metric("followed", "followed ÷ alone", 1.0, 3),
    metric("part_open_datasync", "open_datasync", 1.0, 3),
    metric("part_fdatasync", "fdatasync", 1.0, 3),
    metric("part_fsync", "fsync", 1.0, 3),
    metric("part_open_sync", "open_sync", 1.0, 3),
    metric("open_datasync", "open_datasync, /s", 1.0, 0),
    metric("fdatasync", "fdatasync, /s", 1.0, 0),
    metric("fsync", "fsync, /s", 1.0, 0),
    metric("open_sync", "open_sync, /s", 1.0, 0),
    metric("append_bytes_per_second", "append, MiB/s", PER_MIB, 0),
    metric("disk_bytes_per_second", "the disk alone, MiB/s", PER_MIB, 0),
    metric("append_of_disk", "append / disk", 1.0, 3),
    metric("recovery_bytes_per_second", "recovery, MiB/s", PER_MIB, 0),
    metric("disk_read_bytes_per_second", "the disk alone, read, MiB/s", PER_MIB, 0),
    metric("cpu_seconds", "CPU, s", 1.0, 2),
    metric("cpu_seconds_per_gib", "CPU, s/GiB", 1.0, 3),
    metric("machine_cpu_seconds", "CPU of the machine, s", 1.0, 2),
    metric("machine_cpu_seconds_per_gib", "CPU of the machine, s/GiB", 1.0, 3),
    metric("peak_rss_bytes", "peak RSS, MiB", PER_MIB, 1),
    metric("pages_source", "source's pages after", 1.0, 0),
    metric("pages_target", "target's pages after", 1.0, 0),
    metric("pages_mount", "pages after in the mount", 1.0, 0),
    metric("target_bytes", "size of the target, MiB", PER_MIB, 2),
    metric("overlap_part", "reads and writes together, % of busy time", 100.0, 0),
    metric("server_cpu_seconds", "CPU of the server, s", 1.0, 2),
    metric("server_cpu_seconds_per_gib", "CPU of the server, s/GiB", 1.0, 3),
    metric("server_rss_bytes", "memory of the server, MiB", PER_MIB, 1),
    metric("server_rss_traffic_bytes", "the same after traffic, MiB", PER_MIB, 1),
    metric("server_peak_bytes", "most memory of the server, MiB", PER_MIB, 1),
    metric("dirty_bytes", "dirty after, MiB", PER_MIB, 1),
    metric("reads_per_second", "reads/s of the hot set", 1.0, 0),
    metric("p50_nanoseconds", "p50, µs", 1e-3, 1),
    metric("p99_nanoseconds", "p99, µs", 1e-3, 1),
    metric("p999_nanoseconds", "p99.9, µs", 1e-3, 1),
    metric("max_nanoseconds", "max, µs", 1e-3, 0),
    metric("resident_part", "hot set resident after, %", 100.0, 1),
    metric("device_bytes", "read from the device, MiB", PER_MIB, 1),
    metric("in_vain_part", "read in vain, %", 100.0, 2),
    metric("buffer_bytes", "buffers, MiB", PER_MIB, 1),
];

/// A report of `comparison` without figures yet.
pub(crate) fn begin(
    comparison: &str,
    host: Host,
    programs: BTreeMap<String, String>,
) -> Result<ComparisonReport> {
    Ok(ComparisonReport {
        comparison: comparison.to_string(),
        date: output(tool("date").args(["--utc", "+%F"]))?.trim().to_string(),
        commit: commit(),
        host,
        settings: BTreeMap::new(),
        programs,
        goals: Vec::new(),
        notes: Vec::new(),
        groups: Vec::new(),
    })
}

/// Prints the report, and writes it below `runs/` when `record` is set.
pub(crate) fn publish(report: &ComparisonReport, record: bool) -> Result<()> {
    let text = markdown(report);
    println!("{text}");
    if record {
        let path = home().join("runs").join(format!("{}-{}", report.date, report.comparison));
        fs::create_dir_all(home().join("runs"))?;
        fs::write(path.with_extension("json"), serde_json::to_string_pretty(report)? + "\n")?;
        fs::write(path.with_extension("md"), text)?;
        crate::readme::update()?;
        eprintln!("benchsuite: recorded as runs/{}-{}", report.date, report.comparison);
    }
    Ok(())
}

fn markdown(report: &ComparisonReport) -> String {
    let mut text = format!("# {} · {} · dio {}\n\n", report.comparison, report.date, report.commit);
    goals_text(report, &mut text);
    for group in &report.groups {
        group_text(group, &mut text);
    }
    for note in &report.notes {
        line(&mut text, format_args!("- {note}"));
    }
    host_text(report, &mut text);
    text
}

fn goals_text(report: &ComparisonReport, text: &mut String) {
    if report.goals.is_empty() {
        return;
    }
    text.push_str("| goal | limit | measured | |\n|---|--:|--:|---|\n");
    for g in &report.goals {
        let verdict = if g.reached { "reached" } else { "**missed**" };
        let row =
            format!("| {} | {} {} | {:.3} | {verdict} |", g.goal, g.bound, g.limit, g.measured);
        line(text, format_args!("{row}"));
    }
    text.push('\n');
}

fn host_text(report: &ComparisonReport, text: &mut String) {
    let h = &report.host;
    text.push_str("\n## Where and with what\n\n");
    line(
        text,
        format_args!("- {} × {}, {:.0} GiB, Linux {}", h.cores, h.cpu, h.memory_gib, h.kernel),
    );
    line(
        text,
        format_args!(
            "- {} ({}) on {}, {:.0} GiB",
            h.file_system, h.mount_options, h.device, h.device_gib
        ),
    );
    line(text, format_args!("- scheduler {}; read-ahead {} KiB", h.scheduler, h.read_ahead_kib));
    line(
        text,
        format_args!("- {:.2} CPUs busy with something else before it began", h.busy_cpus_before),
    );
    for (key, value) in &report.settings {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_string);
        line(text, format_args!("- {}: {value}", key.replace('_', " ")));
    }
    let programs: Vec<String> =
        report.programs.iter().map(|(name, v)| format!("{name}: {v}")).collect();
    line(text, format_args!("- {}", programs.join("; ")));
}

fn group_text(group: &ComparisonGroup, text: &mut String) {
    let shown: Vec<&Metric> = METRICS
        .iter()
        .filter(|m| group.contenders.iter().any(|c| c.summary.contains_key(m.key)))
        .collect();
    line(text, format_args!("## {}: median (min…max)\n", group.title));
    let titles: Vec<&str> = shown.iter().map(|m| m.title).collect();
    line(text, format_args!("| | {} |\n|---{}|", titles.join(" | "), "|--:".repeat(titles.len())));
    for contender in &group.contenders {
        let cells: Vec<String> =
            shown.iter().map(|m| cell(contender.summary.get(m.key), m.scale, m.digits)).collect();
        line(text, format_args!("| {} | {} |", contender.name, cells.join(" | ")));
    }
    text.push('\n');
    ratios_text(group, text);
    for contender in &group.contenders {
        line(text, format_args!("- {}: `{}`", contender.name, contender.command));
    }
    for (name, reason) in &group.skipped {
        line(text, format_args!("- left out: {name}: {reason}"));
    }
    text.push('\n');
}

fn ratios_text(group: &ComparisonGroup, text: &mut String) {
    let (Some(first), Some(_)) = (group.contenders.first(), group.ratios.first()) else { return };
    let mut keys: Vec<&str> = Vec::new();
    for ratio in &group.ratios {
        if !keys.contains(&ratio.metric.as_str()) {
            keys.push(&ratio.metric);
        }
    }
    let title =
        |key: &&str| METRICS.iter().find(|m| m.key == *key).map_or(*key, |m| m.title).to_string();
    let titles: Vec<String> = keys.iter().map(title).collect();
    let head = if group.to_first {
        format!("… ÷ {}", first.name)
    } else {
        format!("{} ÷ …", first.name)
    };
    line(
        text,
        format_args!("| {head} | {} |\n|---{}|", titles.join(" | "), "|--:".repeat(keys.len())),
    );
    for peer in group.contenders.iter().skip(1) {
        let of = |key: &&str| group.ratios.iter().find(|r| r.peer == peer.name && r.metric == *key);
        let cells: Vec<String> =
            keys.iter().map(|key| cell(of(key).map(|r| &r.spread), 1.0, 3)).collect();
        line(text, format_args!("| {} | {} |", peer.name, cells.join(" | ")));
    }
    text.push('\n');
}

fn line(text: &mut String, what: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{what}");
}

/// `median (min…max)`, or the median alone if all three are equal in print.
fn cell(spread: Option<&Summary>, scale: f64, digits: usize) -> String {
    let Some(spread) = spread else { return "–".to_string() };
    let [median, min, max] =
        [spread.median, spread.min, spread.max].map(|v| format!("{:.digits$}", v * scale));
    if min == max { median } else { format!("{median} ({min}…{max})") }
}

#[cfg(test)]
mod tests {
    use super::{Summary, cell, group_text};
    use crate::rounds::{Rival, interleave};
    use dio_bench::suite::Sample;

    #[test]
    fn cells_show_a_range_only_where_there_is_one() {
        let spread = Summary { median: 2.0, min: 1.0, max: 3.0 };
        assert_eq!(cell(Some(&spread), 1.0, 1), "2.0 (1.0…3.0)");
        assert_eq!(cell(Some(&Summary { median: 2.0, min: 2.0, max: 2.0 }), 1.0, 1), "2.0");
        assert_eq!(cell(None, 1.0, 1), "–");
    }

    #[test]
    fn tables_have_a_row_for_each_and_a_column_for_what_was_measured() {
        let entry = |name: &'static str, wall: f64| {
            Rival::new(name, "cmd $DIR/x", move |_| Ok(Sample::from([("wall_seconds", wall)])))
        };
        let group =
            interleave("cold", vec![entry("dio", 1.0), entry("dd", 4.0)], 3, &["wall_seconds"])
                .expect("runs");
        let mut text = String::new();
        group_text(&group, &mut text);
        for wanted in
            ["| | wall, s |", "| dio | 1.00 |", "| dd | 4.00 |", "| dd | 0.250 |", "`cmd $DIR/x`"]
        {
            assert!(text.contains(wanted), "{wanted} not in:\n{text}");
        }
        assert!(!text.contains("p99"));
    }
}

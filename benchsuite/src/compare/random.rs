//! Random reads of 4 KiB: the library against fio.

use std::fs;

use serde_json::Value;

use super::fio;
use crate::Result;
use crate::data::source;
use crate::host::Host;
use crate::lab::Lab;
use crate::measure::measure;
use crate::report::{Goal, Report};
use crate::rounds::{Entry, Sample, interleave};
use crate::tool::must;
use crate::units::{GIB, size_text};

/// Requests in flight.
const DEPTHS: [u32; 3] = [1, 32, 128];

/// `random`: the same file, block and depths, interleaved.
pub(crate) fn compare(lab: &Lab) -> Result<Report> {
    must("fio")?;
    let source = &source(&lab.dir, lab.options.size.unwrap_or(4 * GIB))?;
    let seconds = lab.options.seconds;
    let mut report = Report::new("random", Host::describe(&lab.dir)?, lab.programs(&["fio"]))?;
    report.set("size", size_text(fs::metadata(source)?.len()));
    report.set("seconds", seconds);
    report.set("rounds", lab.options.runs);
    let file = format!("$DIR/{}", source.file_name().unwrap_or_default().to_string_lossy());
    for depth in DEPTHS {
        let ours = format!("dio bench random --file {file} --block 4K --depth {depth} --seconds {seconds} --json");
        let theirs = fio::random_script(&file, depth, seconds);
        let entries = vec![
            Entry::new("dio bench random", &ours.clone(), move |_| {
                lab.cool()?;
                dio(lab, &ours)
            }),
            Entry::new("fio io_uring", &theirs.clone(), move |_| {
                lab.cool()?;
                fio::random(lab, &theirs)
            }),
        ];
        let title = format!("depth {depth}");
        let rounds = lab.options.runs as usize;
        let group = interleave(&title, entries, rounds, &["iops", "cpu_seconds", "machine_cpu_seconds"])?;
        report.goal(Goal::at_least(&format!("{title}: reads/s ÷ fio"), 0.97, group.ratio("fio io_uring", "iops")));
        report.groups.push(group);
    }
    Ok(report)
}

fn dio(lab: &Lab, script: &str) -> Result<Sample> {
    let finished = measure(&mut lab.shell(script))?;
    let report: Value = serde_json::from_str(&finished.stdout).map_err(|e| format!("dio bench random: {e}"))?;
    let mut sample = finished.sample;
    sample.insert("iops", rate(&report).ok_or("dio bench random reports no iops")?);
    Ok(sample)
}

/// The number called `iops`, at the top or in the first row that has one.
fn rate(report: &Value) -> Option<f64> {
    match report {
        Value::Object(fields) => fields.get("iops").and_then(Value::as_f64).or_else(|| fields.values().find_map(rate)),
        Value::Array(rows) => rows.iter().find_map(rate),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::rate;

    #[test]
    fn the_rate_is_found_at_the_top_and_in_rows() {
        assert_eq!(rate(&json!({"depth": 1, "iops": 12.5})), Some(12.5));
        assert_eq!(rate(&json!({"rows": [{"depth": 32, "iops": 7}]})), Some(7.0));
        assert_eq!(rate(&json!({"rows": []})), None);
    }
}

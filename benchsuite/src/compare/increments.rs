//! Reading in steps of 1 byte, 4 KiB and 10 MiB: runs dio's own benchmark repeatedly and records
//! the results.

use serde_json::Value;

use crate::Result;
use crate::data::source;
use crate::lab::Lab;
use crate::measure::measure;
use crate::report;
use crate::rounds::{Rival, interleave};
use dio_bench::suite::Host;
use dio_bench::suite::Sample;
use dio_bench::suite::{ComparisonReport, Goal};
use dio_common::size::{GIB, exact as size_text};

/// One row of `dio bench increments --json`.
struct StepSamples {
    step: u64,
    cached: Sample,
    direct: Sample,
}

/// The comparison `increments`. One run of the benchmark gives both columns of every row; direct
/// must not lose in any.
pub(crate) fn compare(lab: &Lab) -> Result<ComparisonReport> {
    let source = source(&lab.dir, lab.options.size.unwrap_or(4 * GIB))?;
    let name = source.file_name().unwrap_or_default().to_string_lossy();
    let script =
        &format!("dio bench increments --cold system --runs 1 --size 1G --file $DIR/{name} --json");
    let mut report = report::begin("increments", Host::of(&lab.dir)?, lab.programs(&[]))?;
    let mut runs = Vec::new();
    for run in 0..lab.options.runs {
        lab.cool()?;
        let finished = measure(&mut lab.shell(script))?;
        runs.push(rows(&serde_json::from_str(&finished.stdout)?)?);
        eprintln!(
            "  increments, round {} of {}: {:.2} s",
            run + 1,
            lab.options.runs,
            finished.sample["wall_seconds"]
        );
    }
    report.set("rounds", lab.options.runs);
    for row in 0..runs[0].len() {
        let title = format!("step {}", size_text(runs[0][row].step));
        let of = |name: &str, direct: bool| {
            let runs = &runs;
            Rival::new(name, script, move |round| {
                let row = runs[round].get(row).ok_or("a run has fewer rows than the first")?;
                Ok(if direct { row.direct.clone() } else { row.cached.clone() })
            })
        };
        let entries = vec![of("direct", true), of("cached", false)];
        let group = interleave(&title, entries, runs.len(), &["wall_seconds"])?;
        let ratio = group.ratio("cached", "wall_seconds");
        report.goal(Goal::at_most(&format!("{title}: direct ÷ cached"), 1.0, ratio));
        report.groups.push(group);
    }
    Ok(report)
}

fn rows(report: &Value) -> Result<Vec<StepSamples>> {
    let rows = report["rows"].as_array().ok_or("dio bench increments reports no rows")?;
    rows.iter()
        .map(|row| {
            let number = |key: &str| {
                row[key].as_f64().ok_or_else(|| format!("dio bench increments: no {key}"))
            };
            let side = |side: &str| -> Result<Sample> {
                let mut sample =
                    Sample::from([("wall_seconds", number(&format!("{side}_seconds"))?)]);
                // The value is missing if the kernel does not count it.
                sample.extend(
                    row[format!("{side}_device_bytes")]
                        .as_f64()
                        .map(|bytes| ("device_bytes", bytes)),
                );
                Ok(sample)
            };
            Ok(StepSamples {
                step: number("step_bytes")? as u64,
                cached: side("cached")?,
                direct: side("direct")?,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::rows;

    #[test]
    fn rows_have_both_sides() {
        let mut report = json!({"rows": [{"step_bytes": 4096, "file_bytes": 1, "cached_seconds": 2.0,
            "direct_seconds": 1.0, "cached_device_bytes": 10, "direct_device_bytes": 20}]});
        let found = rows(&report).expect("complete");
        assert_eq!(
            (found[0].step, found[0].direct["wall_seconds"], found[0].cached["device_bytes"]),
            (4096, 1.0, 10.0)
        );
        report["rows"][0]["direct_seconds"] = json!(null);
        assert!(rows(&report).is_err());
    }
}

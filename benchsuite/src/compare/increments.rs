//! Reading in steps of 1 byte, 4 KiB and 10 MiB: dio's own benchmark, repeated and recorded.

use serde_json::Value;

use crate::Result;
use crate::host::Host;
use crate::lab::Lab;
use crate::report::{Goal, Report};
use crate::rounds::{Entry, Sample, interleave};
use crate::units::size_text;

/// One row of `dio bench increments --json`.
struct Row {
    step: u64,
    cached: Sample,
    direct: Sample,
}

/// `increments`: one run of the benchmark gives both columns of every row; direct must lose none.
pub(crate) fn compare(lab: &Lab) -> Result<Report> {
    let mut report = Report::new("increments", Host::describe(&lab.dir)?, lab.programs(&[]))?;
    let mut runs = Vec::new();
    for run in 0..lab.options.runs {
        lab.cool()?;
        runs.push(rows(&lab.dio_json(&["bench", "increments", "--json"])?)?);
        eprintln!("  increments, round {} of {}", run + 1, lab.options.runs);
    }
    report.set("rounds", lab.options.runs);
    for row in 0..runs[0].len() {
        let title = format!("steps of {} bytes", size_text(runs[0][row].step));
        let of = |name: &str, direct: bool| {
            let runs = &runs;
            Entry::new(name, "dio bench increments --json", move |round| {
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

fn rows(report: &Value) -> Result<Vec<Row>> {
    let rows = report["rows"].as_array().ok_or("dio bench increments reports no rows")?;
    rows.iter()
        .map(|row| {
            let number = |key: &str| row[key].as_f64().ok_or_else(|| format!("dio bench increments: no {key}"));
            let side = |side: &str| -> Result<Sample> {
                Ok(Sample::from([
                    ("wall_seconds", number(&format!("{side}_seconds"))?),
                    ("device_bytes", number(&format!("{side}_device_bytes"))?),
                ]))
            };
            Ok(Row { step: number("step_bytes")? as u64, cached: side("cached")?, direct: side("direct")? })
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

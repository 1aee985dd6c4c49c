//! Random reads of 4 KiB by the library, compared with fio.

use std::fs;

use serde_json::Value;

use super::fio;
use crate::Result;
use crate::data::source;
use crate::lab::Lab;
use crate::measure::measure;
use crate::report;
use crate::rounds::{Rival, interleave};
use crate::tool::must;
use dio_bench::suite::Host;
use dio_bench::suite::Sample;
use dio_bench::suite::{ComparisonReport, Goal};
use dio_common::size::{GIB, exact as size_text};

/// Requests in flight.
const DEPTHS: [u32; 3] = [1, 32, 128];

/// The comparison `random`: the same file, block size and depths, interleaved.
pub(crate) fn compare(lab: &Lab) -> Result<ComparisonReport> {
    must("fio")?;
    let source = &source(&lab.dir, lab.options.size.unwrap_or(4 * GIB))?;
    let seconds = lab.options.seconds.unwrap_or(5);
    let mut report = report::begin("random", Host::of(&lab.dir)?, lab.programs(&["fio"]))?;
    report.set("size", size_text(fs::metadata(source)?.len()));
    report.set("seconds", seconds);
    report.set("rounds", lab.options.runs);
    let file = format!("$DIR/{}", source.file_name().unwrap_or_default().to_string_lossy());
    // Reads spread over the whole file, as fio's do; by default dio uses the first GiB only.
    let common =
        format!("--size {} --block 4K --seconds {seconds}", size_text(fs::metadata(source)?.len()));
    for depth in DEPTHS {
        let ours = format!("dio bench random --file {file} {common} --depth {depth} --json");
        let theirs = fio::random_script(&file, depth, seconds);
        let entries = vec![
            Rival::new("dio bench random", &ours.clone(), move |_| {
                lab.cool()?;
                dio(lab, &ours)
            }),
            Rival::new("fio io_uring", &theirs.clone(), move |_| {
                lab.cool()?;
                let mut sample = fio::random(lab, &theirs)?;
                keep_costs(&mut sample);
                Ok(sample)
            }),
        ];
        let title = format!("depth {depth}");
        let rounds = lab.options.runs as usize;
        let group = interleave(&title, entries, rounds, &["iops"])?;
        report.goal(Goal::at_least(
            &format!("{title}: reads/s ÷ fio"),
            0.97,
            group.ratio("fio io_uring", "iops"),
        ));
        report.groups.push(group);
    }
    report.note("CPU is that of the whole program: fio's includes half a second of its own start.");
    Ok(report)
}

/// The option sets the time, and nothing is written, so only the costs of the reads are kept.
fn keep_costs(sample: &mut Sample) {
    sample.retain(|key, _| !["wall_seconds", "dirty_bytes"].contains(key));
}

fn dio(lab: &Lab, script: &str) -> Result<Sample> {
    let finished = measure(&mut lab.shell(script))?;
    let report: Value =
        serde_json::from_str(&finished.stdout).map_err(|e| format!("dio bench random: {e}"))?;
    let mut sample = finished.sample;
    let rate = report["rows"][0]["reads_per_second"].as_f64();
    sample.insert("iops", rate.ok_or("dio bench random reports no reads_per_second")?);
    keep_costs(&mut sample);
    Ok(sample)
}

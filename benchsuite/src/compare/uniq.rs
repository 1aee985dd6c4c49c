//! Counts repeated lines.

use std::fs;
use std::path::Path;

use super::COSTS;
use crate::Result;
use crate::data::{TextKind, remove, text};
use crate::lab::Lab;
use crate::measure::{measure, per_gib, resident_pages};
use crate::report;
use crate::rounds::{Rival, interleave};
use crate::tool::{must, output, tool};
use dio_bench::suite::Host;
use dio_bench::suite::{ComparisonGroup, Sample};
use dio_bench::suite::{ComparisonReport, Goal};
use dio_common::size::{GIB, MIB, exact as size_text};

/// A kind of text, the part of `--size` that is used, and the destination of the result.
struct UniqTrial {
    title: &'static str,
    lines: TextKind,
    /// Divisor of the size: GNU uniq takes a minute for 4 GiB of short lines.
    part: u64,
    to_file: bool,
}

const TRIALS: &[UniqTrial] = &[
    UniqTrial {
        title: "lines of 64 bytes, nearly all different",
        lines: TextKind::Unique,
        part: 1,
        to_file: false,
    },
    UniqTrial { title: "the same to a file", lines: TextKind::Unique, part: 1, to_file: true },
    UniqTrial {
        title: "lines of 64 bytes in groups",
        lines: TextKind::Repeated,
        part: 1,
        to_file: false,
    },
    UniqTrial { title: "short lines", lines: TextKind::Short, part: 4, to_file: false },
];

impl UniqTrial {
    fn script(&self, source: &Path, program: &str) -> String {
        let name = source.file_name().unwrap_or_default().to_string_lossy();
        let counted = format!("LC_ALL=C {program} -c $DIR/{name}");
        if self.to_file {
            format!("{counted} $DIR/target && sync -f $DIR/target")
        } else {
            format!("{counted} > /dev/null")
        }
    }

    fn run(&self, lab: &Lab, source: &Path, script: &str, round: usize) -> Result<Sample> {
        let target = lab.dir.join("target");
        remove(&target)?;
        lab.cool()?;
        let mut sample = measure(&mut lab.shell(&format!("env {script}")))?.sample;
        per_gib(&mut sample, fs::metadata(source)?.len());
        sample.insert("pages_source", resident_pages([source])?);
        if self.to_file {
            sample.insert("pages_target", resident_pages([&target])?);
            if round == 0 {
                let mut judge = tool("sh");
                judge
                    .arg("-c")
                    .arg("LC_ALL=C uniq -c \"$0\" | cmp - \"$1\"")
                    .arg(source)
                    .arg(&target);
                output(&mut judge).map_err(|e| format!("a wrong result: {e}"))?;
            }
        }
        Ok(sample)
    }

    fn group(&self, lab: &Lab, source: &Path) -> Result<ComparisonGroup> {
        let mut entries = Vec::new();
        for (name, program) in [("dio uniq -c", "dio uniq"), ("uniq -c", "uniq")] {
            let script = self.script(source, program);
            entries.push(Rival::new(name, &script.clone(), move |round| {
                self.run(lab, source, &script, round)
            }));
        }
        let group = interleave(self.title, entries, lab.options.runs as usize, COSTS);
        remove(&lab.dir.join("target"))?;
        group
    }
}

/// The comparison `uniq`: text of three kinds.
pub(crate) fn compare(lab: &Lab) -> Result<ComparisonReport> {
    ["fincore", "uniq", "cmp"].map(must).into_iter().collect::<Result<Vec<_>>>()?;
    let bytes = lab.options.size.unwrap_or(4 * GIB);
    let mut report = report::begin("uniq", Host::of(&lab.dir)?, lab.programs(&["uniq"]))?;
    report.set("size", size_text(bytes));
    report.set("rounds", lab.options.runs);
    for trial in TRIALS {
        let source = text(&lab.dir, trial.lines, (bytes / trial.part).max(MIB))?;
        let group = trial.group(lab, &source)?;
        let goal = format!("{}: wall ÷ uniq", trial.title);
        report.goal(Goal::at_most(&goal, 0.5, group.ratio("uniq -c", "wall_seconds")));
        for metric in ["pages_source", "pages_target"] {
            let worst = group.spread("dio uniq -c", metric).map(|spread| spread.max);
            let goal = format!("{}: {} after, worst", trial.title, metric.replace('_', " of the "));
            report.goal(Goal::at_most(&goal, 0.0, worst));
        }
        report.groups.push(group);
    }
    report.note("Of short lines there is a quarter of the size.");
    Ok(report)
}

//! Sorts text that is larger than the memory limit of the sort.

use std::cell::RefCell;
use std::fs;
use std::path::Path;

use super::COSTS;
use super::fio::{self, DiskCeiling};
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

/// An order, and the target for the time as a fraction of GNU's.
struct SortTrial {
    title: &'static str,
    flags: &'static str,
    wall: f64,
    /// Divisor of the size and of the memory for this order, since GNU sort needs minutes for the
    /// full size.
    part: u64,
}

const TRIALS: &[SortTrial] = &[
    SortTrial { title: "whole lines", flags: "", wall: 0.25, part: 1 },
    SortTrial { title: "numbers", flags: " -n", wall: 0.25, part: 8 },
    SortTrial { title: "two keys", flags: " -k2,2 -k1,1n", wall: 0.25, part: 8 },
];

/// Name of the contender that shows the time of the disk alone for the bytes that a sort moves.
const LIMIT: &str = "fio, the same bytes";

/// The size divided by this is the memory limit.
const MEMORY: u64 = 4;

impl SortTrial {
    /// The command of a program. Both programs write their temporary files beside the output, and
    /// sync the output to the disk.
    fn script(&self, source: &Path, program: &str, memory: u64) -> String {
        let (name, flags) = (source.file_name().unwrap_or_default().to_string_lossy(), self.flags);
        let memory = size_text(memory);
        let sorted =
            format!("{program} --parallel=2 -S {memory} -T $DIR{flags} -o $DIR/target $DIR/{name}");
        format!("env LC_ALL=C {sorted} && sync -f $DIR/target")
    }

    /// Makes one cold, measured run; in the first round the results of all programs must be equal.
    fn run(
        &self,
        lab: &Lab,
        source: &Path,
        script: &str,
        digest: &RefCell<Option<String>>,
    ) -> Result<Sample> {
        let target = lab.dir.join("target");
        remove(&target)?;
        lab.cool()?;
        let mut sample = measure(&mut lab.shell(script))?.sample;
        per_gib(&mut sample, fs::metadata(source)?.len());
        sample.insert("pages_source", resident_pages([source])?);
        sample.insert("pages_target", resident_pages([&target])?);
        let sum = output(tool("cksum").arg(&target))?;
        let mut digest = digest.borrow_mut();
        if *digest.get_or_insert_with(|| sum.clone()) != sum {
            return Err(format!(
                "a wrong result: {sum} is not {}",
                digest.as_deref().unwrap_or_default()
            )
            .into());
        }
        Ok(sample)
    }

    fn group(&self, lab: &Lab, source: &Path, memory: u64) -> Result<ComparisonGroup> {
        let (digest, mut entries) = (RefCell::new(None), Vec::new());
        let title = format!(
            "{}, {} within {}",
            self.title,
            size_text(source.metadata()?.len()),
            size_text(memory)
        );
        for (name, program) in [("dio sort", "dio sort"), ("sort", "sort")] {
            let (script, digest) = (self.script(source, program, memory), &digest);
            entries.push(Rival::new(name, &script.clone(), move |_| {
                self.run(lab, source, &script, digest)
            }));
        }
        if self.part == 1 {
            let (bytes, target) = (source.metadata()?.len(), lab.dir.join("target"));
            let from = format!("$DIR/{}", source.file_name().unwrap_or_default().to_string_lossy());
            let script = |shape| fio::mixed_script(&from, "$DIR/target", &size_text(bytes), shape);
            let ceiling = DiskCeiling::find(lab, bytes, script, move || {
                remove(&target).and_then(|()| lab.cool())
            })?;
            let shown = format!("twice: {}", ceiling.command());
            entries.push(Rival::new(LIMIT, &shown, move |_| {
                let mut once = ceiling.run()?;
                // Data that exceed the memory are read, written in sorted pieces, read again, and
                // written in order.
                once.entry("wall_seconds").and_modify(|wall| *wall *= 2.0);
                Ok(once)
            }));
        }
        let group = interleave(&title, entries, lab.options.runs as usize, COSTS);
        remove(&lab.dir.join("target"))?;
        group
    }
}

/// The comparison `sort`: lines of 64 bytes, compared as bytes, as numbers, and by two keys.
pub(crate) fn compare(lab: &Lab) -> Result<ComparisonReport> {
    ["fincore", "fio", "sort", "cksum"].map(must).into_iter().collect::<Result<Vec<_>>>()?;
    let bytes = lab.options.size.unwrap_or(4 * GIB);
    let mut report = report::begin("sort", Host::of(&lab.dir)?, lab.programs(&["sort"]))?;
    report.set("size", size_text(bytes));
    report.set("rounds", lab.options.runs);
    for trial in TRIALS {
        let bytes = bytes / trial.part;
        let memory = (bytes / MEMORY).max(MIB);
        let source = text(&lab.dir, TextKind::Fields, bytes)?;
        let group = trial.group(lab, &source, memory)?;
        let goal = format!("{}: wall ÷ sort", trial.title);
        report.goal(Goal::at_most(&goal, trial.wall, group.ratio("sort", "wall_seconds")));
        let limit = group.ratio(LIMIT, "wall_seconds");
        report.goal(Goal::at_most(
            &format!("{}: wall ÷ the disk's limit", trial.title),
            1.5,
            limit,
        ));
        report.goal(Goal::at_least(
            &format!("{}: the limit is one: wall ÷ it", trial.title),
            0.95,
            limit,
        ));
        let goal = format!("{}: most memory ÷ {}", trial.title, size_text(memory));
        let peak = group.spread("dio sort", "peak_rss_bytes").map(|peak| peak.max / memory as f64);
        report.goal(Goal::at_most(&goal, 1.0, peak));
        for metric in ["pages_source", "pages_target"] {
            let worst = group.spread("dio sort", metric).map(|spread| spread.max);
            let goal = format!("{}: {} after, worst", trial.title, metric.replace('_', " of the "));
            report.goal(Goal::at_most(&goal, 0.0, worst));
        }
        report.groups.push(group);
    }
    report.note(
        "fio, the same bytes: the source is read while as many bytes are written, twice, as \
         sorting within a quarter of the memory must.",
    );
    report.note(
        "Both write their temporary files into the directory of the output, which is synced.",
    );
    Ok(report)
}

//! The effect of a copy on another process, which reads a cached hot set while a file is copied.
//! Both share one memory limit.

use std::env;
use std::fs;
use std::path::Path;

use super::reader::ReaderProcess;
use crate::Result;
use crate::data::{remove, source};
use crate::lab::Lab;
use crate::measure::{measure, resident_pages};
use crate::memory::MemoryGroup;
use crate::report;
use crate::rounds::{Rival, interleave};
use crate::tool::{must, tool};
use dio_bench::suite::Host;
use dio_bench::suite::Sample;
use dio_bench::suite::{ComparisonReport, Goal};
use dio_common::size::{GIB, MIB, exact as size_text};

/// Bytes of the hot set.
const HOT: u64 = 512 * MIB;
/// Memory that reader and copy share, page cache included.
const MEMORY: u64 = GIB;

/// Quantities of the reader and its pages, not of the copy.
const HOT_SET: &[&str] = &[
    "reads_per_second",
    "p50_nanoseconds",
    "p99_nanoseconds",
    "p999_nanoseconds",
    "max_nanoseconds",
    "resident_part",
];

/// Makes one run: empties the caches, creates a new group, starts the reader, and runs `script` in
/// the same group.
fn run(lab: &Lab, hot: &Path, script: &str) -> Result<Sample> {
    remove(&lab.dir.join("target"))?;
    lab.cool()?;
    let group = MemoryGroup::new(MEMORY)?;
    let mut reader =
        ReaderProcess::start(group.member(tool(env::current_exe()?).arg("hot-reader").arg(hot)))?;
    reader.begin()?;
    let mut sample = measure(&mut group.member(&lab.shell(script)))?.sample;
    // This is counted while the reader goes on: the figure is what the copy has left in the cache,
    // not what the reader brings back afterwards.
    let page = rustix::param::page_size() as f64;
    sample.insert("resident_part", resident_pages([hot])? * page / HOT as f64);
    reader.end(&mut sample)?;
    // Most of the machine's CPU time is the reader's, so it says nothing about the copy. If nothing
    // is copied, all measurements of the copy are dropped.
    sample.remove("machine_cpu_seconds");
    if script.starts_with("sleep") {
        sample.retain(|key, _| HOT_SET.contains(key));
    }
    Ok(sample)
}

/// The comparison `hotset`: dio, cp, and the reader alone.
pub(crate) fn compare(lab: &Lab) -> Result<ComparisonReport> {
    must("fincore")?;
    let source = source(&lab.dir, lab.options.size.unwrap_or(8 * GIB))?;
    let hot = &crate::data::source(&lab.dir, HOT)?;
    let mut report = report::begin("hotset", Host::of(&lab.dir)?, lab.programs(&["cp"]))?;
    report.set("copied", size_text(fs::metadata(&source)?.len()));
    report.set("hot_set", size_text(HOT));
    report.set("memory_of_the_group", size_text(MEMORY));
    report.set("rounds", lab.options.runs);
    let name = format!("$DIR/{}", source.file_name().unwrap_or_default().to_string_lossy());
    let scripts = [
        ("dio cp", format!("dio cp {name} $DIR/target")),
        ("cp && sync", format!("cp {name} $DIR/target && sync -f $DIR/target")),
        ("no copy", format!("sleep {}", lab.options.seconds.unwrap_or(5))),
    ];
    let entry = |(name, script): &(&str, String)| {
        let script = script.clone();
        Rival::new(name, &script.clone(), move |_| run(lab, hot, &script))
    };
    let compared =
        ["wall_seconds", "cpu_seconds", "reads_per_second", "p99_nanoseconds", "p999_nanoseconds"];
    let entries = scripts.iter().map(entry).collect();
    let group =
        interleave("a hot set read during a copy", entries, lab.options.runs as usize, &compared);
    remove(&lab.dir.join("target"))?;
    let group = group?;
    let p99 = group.ratio("cp && sync", "p99_nanoseconds");
    let resident = group.spread("dio cp", "resident_part").map(|s| s.min);
    // The latency must not be worse than under cp; a twentieth is the difference of two equal runs.
    report.goal(Goal::at_most("p99 under dio cp ÷ p99 under cp", 1.05, p99));
    report.goal(Goal::at_least("hot set resident after dio cp, worst", 0.99, resident));
    report.groups.push(group);
    report.note(
        "Reader and copy share the limit; wall and CPU are the copy's, the rest the reader's.",
    );
    Ok(report)
}

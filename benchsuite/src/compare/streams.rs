//! Streams in small steps, many at a time and at random: runs dio's own benchmark repeatedly and
//! records the results.

use std::fs;
use std::path::Path;

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
use dio_bench::suite::{ComparisonGroup, Sample};
use dio_bench::suite::{ComparisonReport, Goal};
use dio_common::size::{GIB, exact as size_text};

/// Number of streams in one file: the default of `dio bench streams`.
const STREAMS: u64 = 64;

/// Name of the contender that shows the disk's limit with this many streams.
const JUDGE: &str = "fio, 64 jobs";

/// Quantities that are compared by ratios.
const COMPARED: &[&str] = &["wall_seconds", "cpu_seconds", "iops"];

/// One workload of a run of `dio bench streams --json`.
struct Workload {
    name: String,
    part: Part,
    /// The ways, of which the first is the stream.
    ways: Vec<(String, Sample)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Read,
    Write,
    Many,
    Random,
}

/// The comparison `streams`: small steps on one file, and many streams and random reads on a larger
/// file, where the bytes that streams read beyond their parts matter less.
pub(crate) fn compare(lab: &Lab) -> Result<ComparisonReport> {
    let small = source(&lab.dir, lab.options.size.unwrap_or(GIB))?;
    let large = source(&lab.dir, lab.options.size.unwrap_or(4 * GIB))?;
    let scripts = [script("read,write", &small)?, script("many,random", &large)?];
    must("fio")?;
    let name = large.file_name().unwrap_or_default().to_string_lossy();
    let part = size_text(fs::metadata(&large)?.len() / STREAMS);
    let judge = fio::streams_script(&format!("$DIR/{name}"), STREAMS, &part);
    let mut report = report::begin("streams", Host::of(&lab.dir)?, lab.programs(&["fio"]))?;
    report.set("fio", judge.as_str());
    report.set("rounds", lab.options.runs);
    report.set("size_of_steps", size_text(fs::metadata(&small)?.len()));
    report.set("size_of_many_and_random", size_text(fs::metadata(&large)?.len()));
    // The workloads of each round, with their commands.
    let mut rounds: Vec<Vec<(&str, Workload)>> = Vec::new();
    for round in 0..lab.options.runs {
        let mut found = Vec::new();
        for script in &scripts {
            lab.cool()?;
            let finished = measure(&mut lab.shell(&format!("{script} --round {round}")))?;
            let wall = finished.sample["wall_seconds"];
            eprintln!("  streams, round {} of {}: {wall:.2} s", round + 1, lab.options.runs);
            let parsed = workloads(&serde_json::from_str(&finished.stdout)?)?;
            found.extend(parsed.into_iter().map(|workload| (script.as_str(), workload)));
        }
        lab.cool()?;
        let sample = fio::streams(lab, &judge)?;
        for (_, workload) in found.iter_mut().filter(|(_, workload)| workload.part == Part::Many) {
            workload.ways.push((JUDGE.to_string(), sample.clone()));
        }
        rounds.push(found);
    }
    for index in 0..rounds[0].len() {
        let group = group(&rounds, index)?;
        goals(&mut report, rounds[0][index].1.part, &group);
        report.groups.push(group);
    }
    let left = pages(&report.groups);
    report.goal(Goal::at_most("resident pages that streams leave, worst", 0.0, left));
    report.note(
        "Each round begins with another way (`--round N`), and reads at random places of its own.",
    );
    report.note("fio: as many jobs at once, each with the requests that a stream's memory allows.");
    report.note(
        "limit: one stream over the same bytes, 8 requests of 1 MiB in flight, nothing copied.",
    );
    report.note("page cache: a descriptor for each of the streams, read(2).");
    report.note(
        "one stream: one stream of the library that seeks to each place in turn, with the memory \
         of all.",
    );
    report.note("read_at: single direct reads into aligned memory, no read-ahead.");
    Ok(report)
}

fn script(parts: &str, source: &Path) -> Result<String> {
    let name = source.file_name().unwrap_or_default().to_string_lossy();
    let size = fs::metadata(source)?.len();
    Ok(format!(
        "dio bench streams --parts {parts} --cold system --runs 1 --size {size} --small-size {} \
         --file $DIR/{name} --dir $DIR --json",
        size / 64
    ))
}

/// The group of one workload over all rounds.
fn group(rounds: &[Vec<(&str, Workload)>], index: usize) -> Result<ComparisonGroup> {
    let (script, first) = &rounds[0][index];
    let entry = |(way, (name, _)): (usize, &(String, Sample))| {
        Rival::new(name, script, move |round| {
            let found = rounds[round].get(index).and_then(|(_, workload)| workload.ways.get(way));
            Ok(found.ok_or("a run has fewer ways than the first")?.1.clone())
        })
    };
    interleave(
        &first.name,
        first.ways.iter().enumerate().map(entry).collect(),
        rounds.len(),
        COMPARED,
    )
}

/// The targets of the first contender of a group, the stream.
fn goals(report: &mut ComparisonReport, part: Part, group: &ComparisonGroup) {
    let title = &group.title;
    let [stream, peer] = [0, 1].map(|index| group.contenders[index].name.clone());
    let ratio = |metric| group.ratio(&peer, metric);
    match part {
        Part::Read | Part::Write => {
            report.goal(Goal::at_most(
                &format!("{title}: direct ÷ {peer}"),
                1.0,
                ratio("wall_seconds"),
            ));
        }
        Part::Many => {
            // Compared with the disk's limit for as many simultaneous readers, and with its limit
            // for one.
            let many = group.ratio(JUDGE, "wall_seconds");
            report.goal(Goal::at_most(&format!("{title}: wall ÷ {JUDGE}"), 1.1, many));
            let median = |name| group.spread(name, "wall_seconds").map(|wall| wall.median);
            let one = median("one stream").zip(median("limit")).map(|(ours, limit)| ours / limit);
            report.goal(Goal::at_most(&format!("{title}, by one stream: wall ÷ limit"), 1.1, one));
        }
        Part::Random => {
            report.goal(Goal::at_least(&format!("{title}: reads/s ÷ {peer}"), 0.97, ratio("iops")));
            let vain = group.spread(&stream, "in_vain_part").map(|part| part.max);
            report.goal(Goal::at_most(&format!("{title}: part read in vain, worst"), 0.02, vain));
        }
    }
}

/// The most pages that the first contender of any group left in the cache, of the files that it
/// read or wrote.
fn pages(groups: &[ComparisonGroup]) -> Option<f64> {
    let streams = groups.iter().filter_map(|group| group.contenders.first());
    let left = streams
        .flat_map(|stream| ["pages_source", "pages_target"].map(|key| stream.summary.get(key)));
    left.flatten().map(|pages| pages.max).max_by(f64::total_cmp)
}

fn workloads(report: &Value) -> Result<Vec<Workload>> {
    let list = |value: &Value, what: &str| -> Result<Vec<Value>> {
        Ok(value[what]
            .as_array()
            .ok_or_else(|| format!("dio bench streams reports no {what}"))?
            .clone())
    };
    let text = |value: &Value, what: &str| -> Result<String> {
        Ok(value[what]
            .as_str()
            .ok_or_else(|| format!("dio bench streams reports no {what}"))?
            .to_string())
    };
    let mut found = Vec::new();
    for workload in list(report, "workloads")? {
        let part = match text(&workload, "part")?.as_str() {
            "read" => Part::Read,
            "write" => Part::Write,
            "many" => Part::Many,
            "random" => Part::Random,
            other => {
                return Err(format!("dio bench streams reports an unknown part {other}").into());
            }
        };
        let ways = list(&workload, "ways")?;
        let ways = ways
            .iter()
            .map(|way| Ok((text(way, "name")?, sample(part, way)?)))
            .collect::<Result<Vec<_>>>()?;
        if ways.len() < 2 {
            return Err("dio bench streams compares a stream with nothing".into());
        }
        found.push(Workload { name: text(&workload, "name")?, part, ways });
    }
    Ok(found)
}

fn sample(part: Part, way: &Value) -> Result<Sample> {
    let number =
        |key: &str| way[key].as_f64().ok_or_else(|| format!("dio bench streams: no {key}"));
    let pages = if part == Part::Write { "pages_target" } else { "pages_source" };
    let mut sample = Sample::from([
        ("wall_seconds", number("seconds")?),
        ("cpu_seconds", number("cpu_seconds")?),
        ("mib_per_second", number("bytes_per_second")? / f64::from(1 << 20)),
        (pages, number("pages_after")?),
    ]);
    if part == Part::Random {
        sample.insert("iops", number("steps_per_second")?);
    }
    // The value is missing if nothing counts it, and for writing.
    sample.extend(way["in_vain_part"].as_f64().map(|part| ("in_vain_part", part)));
    sample.extend(way["buffer_bytes"].as_f64().map(|bytes| ("buffer_bytes", bytes)));
    Ok(sample)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Part, group, pages, workloads};

    fn way(name: &str, seconds: f64, vain: Value) -> Value {
        json!({"name": name, "seconds": seconds, "cpu_seconds": 0.5, "bytes_per_second": 1048576.0,
            "steps_per_second": 1.0 / seconds, "in_vain_part": vain, "buffer_bytes": null, "pages_after": 3})
    }

    fn report(seconds: f64) -> Value {
        let read = [way("stream", seconds, json!(0.25)), way("read(2)", 4.0, json!(null))];
        let write = [way("stream", 1.0, json!(null)), way("write(2)", 1.0, json!(null))];
        let workload =
            |part: &str, ways: &[Value]| json!({"name": part, "part": part, "ways": ways});
        json!({"workloads": [workload("random", &read), workload("write", &write)]})
    }

    #[test]
    fn every_way_is_a_contender_and_rounds_are_paired() {
        let round = |seconds: f64| {
            let found = workloads(&report(seconds)).expect("complete");
            found.into_iter().map(|workload| ("script", workload)).collect::<Vec<_>>()
        };
        let rounds = [round(1.0), round(2.0), round(3.0)];
        assert_eq!((rounds[0][0].1.part, rounds[0][1].1.part), (Part::Random, Part::Write));
        let random = group(&rounds, 0).expect("every round has every way");
        assert_eq!(random.ratio("read(2)", "wall_seconds"), Some(0.5));
        assert_eq!(random.ratio("read(2)", "iops"), Some(2.0));
        assert_eq!(random.spread("stream", "in_vain_part").map(|part| part.max), Some(0.25));
        assert!(random.spread("read(2)", "in_vain_part").is_none());
        let write = group(&rounds, 1).expect("every round has every way");
        assert!(write.spread("stream", "iops").is_none());
        assert_eq!(pages(&[write]), Some(3.0));
    }

    #[test]
    fn a_report_with_a_hole_is_an_error() {
        for (pointer, hole) in [
            ("/workloads", json!(null)),
            ("/workloads/0/part", json!("other")),
            ("/workloads/0/ways", json!([])),
            ("/workloads/1/ways/0/seconds", json!(null)),
        ] {
            let mut report = report(1.0);
            *report.pointer_mut(pointer).expect("it is there") = hole;
            assert!(workloads(&report).is_err(), "{pointer}");
        }
    }
}

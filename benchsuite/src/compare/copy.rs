//! Copies one large file, cold.

use std::fs;
use std::path::Path;

use super::fio::DiskCeiling;
use super::{COSTS, fio};
use crate::Result;
use crate::data::{remove, source};
use crate::lab::Lab;
use crate::measure::{measure, per_gib, resident_pages};
use crate::memory;
use crate::overlap::Overlap;
use crate::report;
use crate::rounds::{Rival, interleave};
use crate::tool::{must, output, tool};
use dio_bench::suite::Host;
use dio_bench::suite::{ComparisonGroup, Sample};
use dio_bench::suite::{ComparisonReport, Goal};
use dio_common::size::{GIB, MIB, exact as size_text};

/// Name of the contender that shows the disk's own limit.
const LIMIT: &str = "fio, the disk's limit";

/// Contenders: the name in the table, the program that is needed, and the command with SOURCE and
/// TARGET.
const COPIES: &[(&str, &str, &str)] = &[
    ("dio cp", "dio", "dio cp SOURCE TARGET"),
    ("cp && sync", "cp", "cp SOURCE TARGET && sync -f TARGET"),
    ("dd bs=8M direct", "dd", DD),
    ("nocache cp && sync", "nocache", "nocache cp SOURCE TARGET && sync -f TARGET"),
    ("cpz && sync", "cpz", "cpz SOURCE TARGET && sync -f TARGET"),
    ("xcp && sync", "xcp", "xcp --no-progress SOURCE TARGET && sync -f TARGET"),
];
/// dd with large direct blocks, the long-standing way to copy without the page cache.
const DD: &str = "dd if=SOURCE of=TARGET bs=8M iflag=direct oflag=direct conv=fsync status=none";

/// A copy from `source` to `target` by one program.
struct CopyProgram<'a> {
    lab: &'a Lab,
    source: &'a Path,
    target: &'a Path,
    script: String,
    bytes: u64,
}

impl CopyProgram<'_> {
    /// Makes one cold, measured copy. The size of the target is checked every time, its content in
    /// the first round.
    fn run(&self, round: usize) -> Result<Sample> {
        remove(self.target)?;
        self.lab.cool()?;
        let overlap = Overlap::watch(&self.lab.dir);
        let mut sample = measure(&mut self.lab.shell(&self.script))?.sample;
        sample.extend(overlap.and_then(Overlap::finish).map(|part| ("overlap_part", part)));
        per_gib(&mut sample, self.bytes);
        sample.insert("pages_source", resident_pages([self.source])?);
        sample.insert("pages_target", resident_pages([self.target])?);
        if fs::metadata(self.target)?.len() != self.bytes {
            return Err("the copy has another size".into());
        }
        if round == 0 {
            output(tool("cmp").arg(self.source).arg(self.target))
                .map_err(|e| format!("a wrong copy: {e}"))?;
        }
        Ok(sample)
    }
}

fn filled(script: &str, source: &Path) -> String {
    let name = source.file_name().unwrap_or_default().to_string_lossy();
    script.replace("SOURCE", &format!("$DIR/{name}")).replace("TARGET", "$DIR/target")
}

/// A group of the contenders of [`COPIES`] that need one of `programs`, and of the disk's limit if
/// `limit` is set.
fn group(
    lab: &Lab,
    title: &str,
    programs: &[&str],
    source: &Path,
    limit: bool,
) -> Result<ComparisonGroup> {
    let bytes = fs::metadata(source)?.len();
    let target = &lab.dir.join("target");
    let mut entries = Vec::new();
    for (name, _, script) in COPIES.iter().filter(|(_, program, _)| programs.contains(program)) {
        let copy = CopyProgram { lab, source, target, script: filled(script, source), bytes };
        entries.push(Rival::new(name, &copy.script.clone(), move |round| copy.run(round)));
    }
    if limit {
        let script = |shape| {
            filled(&fio::mixed_script("SOURCE", "TARGET", &size_text(bytes), shape), source)
        };
        let ceiling = DiskCeiling::find(lab, bytes, script, move || {
            remove(target).and_then(|()| lab.cool())
        })?;
        let command = ceiling.command().to_owned();
        entries.push(Rival::new(LIMIT, &command, move |_| ceiling.run()));
    }
    let group = interleave(title, entries, lab.options.runs as usize, COSTS);
    remove(target)?;
    group
}

/// Runs `dio cp` with a receipt, unmeasured, which reports the engine and the most memory of the
/// buffers. A dio without receipts is measured too; these values are then missing.
fn receipt(lab: &Lab, source: &Path, report: &mut ComparisonReport) -> Result<Option<f64>> {
    let (target, file) = (lab.dir.join("target"), lab.dir.join("receipt"));
    remove(&target)?;
    measure(&mut lab.shell(&filled("dio cp --receipt $DIR/receipt SOURCE TARGET", source)))?;
    let text = fs::read_to_string(&file);
    remove(&target)?;
    remove(&file)?;
    let Ok(text) = text else {
        eprintln!("benchsuite: dio cp wrote no receipt: engine and buffers stay unknown");
        return Ok(None);
    };
    let receipt: serde_json::Value =
        serde_json::from_str(&text).map_err(|e| format!("the receipt of dio cp: {e}"))?;
    report.set("engine", receipt["engine"].clone());
    report.set("durable", receipt["durable"].clone());
    Ok(receipt["peak_buffer_bytes"].as_f64())
}

/// The comparison `copy`: dio, five other ways to copy, and the disk's limit.
pub(crate) fn compare(lab: &Lab) -> Result<ComparisonReport> {
    ["fincore", "fio", "cmp"].map(must).into_iter().collect::<Result<Vec<_>>>()?;
    let source = &source(&lab.dir, lab.options.size.unwrap_or(4 * GIB))?;
    let peers = lab.available(&["cp", "dd", "nocache", "cpz", "xcp"]);
    let mut programs = lab.programs(&peers);
    programs.extend(lab.programs(&["fio"]));
    let used = lab.options.used_memory;
    let name = if used { "copy-used-memory" } else { "copy" };
    let mut report = report::begin(name, Host::of(&lab.dir)?, programs)?;
    match used {
        true => report.set(
            "memory",
            format!("{} MiB touched before the first round", memory::touch_all() >> 20),
        ),
        false => report.set("memory", "as it was; see the note"),
    }
    report.set("size", size_text(fs::metadata(source)?.len()));
    report.set("rounds", lab.options.runs);
    let buffers = receipt(lab, source, &mut report)?;
    let names: Vec<&str> = [&["dio"], &peers[..]].concat();
    let group = group(lab, "cold copy of one file", &names, source, true)?;
    copy_goals(&mut report, &group, buffers);
    report.groups.push(group);
    report.note(
        "The last row is no copy: fio reads the source and writes another file, both for three \
         seconds, in the better of two shapes of requests, which were the best of six; the time is \
         that of as many bytes as the copy moves, at the sum of both rates.",
    );
    report.note(
        "In a virtual machine the page cache is dear as long as its memory is new, never touched \
         since the machine started: then what goes through it takes longer than with \
         --used-memory.",
    );
    report.note("`dio cp` returns when data and name are durable; `sync -f` makes the others so.");
    lab.profile(&filled("dio cp SOURCE TARGET", source))?;
    remove(&lab.dir.join("target"))?;
    Ok(report)
}

fn copy_goals(report: &mut ComparisonReport, group: &ComparisonGroup, buffers: Option<f64>) {
    let wall = |peer| group.ratio(peer, "wall_seconds");
    let dio = |metric| group.spread("dio cp", metric);
    report.goal(Goal::at_most("wall ÷ the disk's limit", 1.02, wall(LIMIT)));
    report.goal(Goal::at_least("the limit is one: wall ÷ the disk's limit", 0.95, wall(LIMIT)));
    report.goal(Goal::at_most("wall ÷ dd bs=8M direct", 1.0, wall("dd bs=8M direct")));
    report.goal(Goal::at_most("wall ÷ cp && sync", 0.7, wall("cp && sync")));
    report.goal(Goal::at_most("CPU, s/GiB", 0.10, dio("cpu_seconds_per_gib").map(|s| s.median)));
    report.goal(Goal::at_most("CPU ÷ dd", 1.0, group.ratio("dd bs=8M direct", "cpu_seconds")));
    report.goal(Goal::at_most(
        "resident pages of the source, worst",
        0.0,
        dio("pages_source").map(|s| s.max),
    ));
    report.goal(Goal::at_most(
        "resident pages of the target, worst",
        0.0,
        dio("pages_target").map(|s| s.max),
    ));
    report.goal(Goal::at_most(
        "buffers by the receipt, MiB",
        64.0,
        buffers.map(|b| b / MIB as f64),
    ));
}

/// The inner part of `loop`: dio and dd in `lab`'s directory, which is on a disk in memory.
pub(crate) fn compare_on_memory(lab: &Lab, bytes: u64) -> Result<ComparisonReport> {
    ["fincore", "cmp"].map(must).into_iter().collect::<Result<Vec<_>>>()?;
    let source = &source(&lab.dir, bytes)?;
    let mut report = report::begin("loop", Host::of(&lab.dir)?, lab.programs(&["dd"]))?;
    report.set("size", size_text(bytes));
    report.set("rounds", lab.options.runs);
    receipt(lab, source, &mut report)?;
    let group = group(lab, "copy on a disk of memory", &["dio", "dd"], source, false)?;
    let wall = group.ratio("dd bs=8M direct", "wall_seconds");
    report.goal(Goal::at_most("wall ÷ dd bs=8M direct", 1.0, wall));
    report.groups.push(group);
    report.note(
        "The image is on tmpfs, the loop device buffered (tmpfs allows no other): the CPU is the \
         limit.",
    );
    lab.profile(&filled("dio cp SOURCE TARGET", source))?;
    Ok(report)
}

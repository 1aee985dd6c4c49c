//! The cost of dropping one's own pages when many programs do it at once, and its effect on pages
//! that others have brought in.

use std::path::{Path, PathBuf};

use super::tree::{forget_retired, retire};
use crate::Result;
use crate::data::{self, Tree};
use crate::lab::Lab;
use crate::measure::{measure, per_gib, resident_pages};
use crate::report;
use crate::rounds::{Rival, interleave};
use crate::tool::must;
use dio_bench::suite::{ComparisonReport, Goal, Host, Sample};
use dio_common::size::MIB;

/// How many copies run at once.
const AT_ONCE: &[u32] = &[1, 8, 64];

/// Contenders: name, program, the copy of one directory.
const COPIES: &[(&str, &str, &str)] = &[
    ("dio cp", "dio", "dio cp -r TREE/{} $DIR/target/"),
    ("nocache cp", "nocache", "nocache cp -r TREE/{} $DIR/target/"),
    ("cp", "cp", "cp -r TREE/{} $DIR/target/"),
];

const COMPARED: &[&str] = &["wall_seconds", "machine_cpu_seconds"];

/// Whether a file lies in a directory that somebody else has read before.
fn is_read_before(file: &Path) -> bool {
    let dir = file.parent().and_then(Path::file_name).unwrap_or_default();
    dir.as_encoded_bytes().last().is_some_and(|digit| digit % 2 == 0)
}

fn files(tree: &Tree, read_before: bool) -> impl Iterator<Item = PathBuf> {
    tree.files(&tree.root).filter(move |file| is_read_before(file) == read_before)
}

fn run(lab: &Lab, tree: &Tree, script: &str) -> Result<Sample> {
    let target = &lab.dir.join("target");
    retire(target)?;
    std::fs::create_dir(target)?;
    lab.cool()?;
    data::warm(files(tree, true))?;
    let before = resident_pages(files(tree, true))?;
    let mut sample = measure(&mut lab.shell(script))?.sample;
    per_gib(&mut sample, tree.bytes);
    sample.insert("pages_source", resident_pages(files(tree, false))?);
    sample.insert("pages_target", resident_pages(tree.files(target))?);
    sample.insert("resident_part", resident_pages(files(tree, true))? / before);
    Ok(sample)
}

/// The comparison `evictions`.
pub(crate) fn compare(lab: &Lab) -> Result<ComparisonReport> {
    ["fincore", "xargs"].map(must).into_iter().collect::<Result<Vec<_>>>()?;
    let tree = &data::tree(&lab.dir, lab.options.files)?;
    let peers = lab.available(&["nocache", "cp"]);
    let mut report = report::begin("evictions", Host::of(&lab.dir)?, lab.programs(&peers))?;
    report.set("files", tree.count);
    report.set("data", format!("{:.1} MiB in 300 directories", tree.bytes as f64 / MIB as f64));
    report.set("rounds", lab.options.runs);
    let name = tree.root.file_name().unwrap_or_default().to_string_lossy();
    let mut alone = None;
    for number in AT_ONCE {
        let mut entries = Vec::new();
        for (title, program, copy) in COPIES {
            if *program != "dio" && !peers.contains(program) {
                continue;
            }
            let script = format!("ls $DIR/{name} | xargs -P {number} -I {{}} {copy}")
                .replace("TREE", &format!("$DIR/{name}"));
            entries.push(Rival::new(title, &script.clone(), move |_| run(lab, tree, &script)));
        }
        let title = format!("{number} at once");
        let group = interleave(&title, entries, lab.options.runs as usize, COMPARED)?;
        let median = |key: &str| group.spread("dio cp", key).map(|spread| spread.median);
        let worst = group.spread("dio cp", "resident_part").map(|spread| spread.min);
        let goal = format!("{title}: pages that others had before, worst");
        report.goal(Goal::at_least(&goal, 0.999, worst));
        let left = group.spread("dio cp", "pages_target").map(|spread| spread.max);
        report.goal(Goal::at_most(&format!("{title}: pages of copies left"), 0.0, left));
        let cpu = median("machine_cpu_seconds");
        let first = *alone.get_or_insert(cpu);
        let more = cpu.zip(first).map(|(cpu, first)| cpu / first);
        report.goal(Goal::at_most(&format!("{title}: CPU ÷ one at a time"), 1.1, more));
        report.groups.push(group);
    }
    forget_retired(&lab.dir.join("target"))?;
    report.note(
        "Each directory is copied by a process of its own. Every second one was read by another \
         process before, so its pages are in the cache: \"hot set resident after\" is their part \
         that is there afterwards, \"source's pages after\" are those of the other directories. A \
         proactive reclaimer of the machine (DAMON) may take pages in any row, also in that of \
         `cp`, which drops none.",
    );
    Ok(report)
}

//! Copies many small files, cold and warm.

use std::path::Path;

use super::COSTS;
use crate::Result;
use crate::data::{self, Tree, remove};
use crate::lab::Lab;
use crate::measure::{measure, per_gib, resident_pages};
use crate::report;
use crate::rounds::{Rival, interleave};
use crate::tool::{must, output, tool};
use dio_bench::suite::Host;
use dio_bench::suite::{ComparisonGroup, Sample};
use dio_bench::suite::{ComparisonReport, Goal};
use dio_common::size::MIB;

/// Contenders: name, program, command. dio syncs by itself, but it also gets the final sync, so
/// that it has no advantage over the others.
const COPIES: &[(&str, &str, &str)] = &[
    ("dio cp -a", "dio", "dio cp -a TREE TARGET && sync -f TARGET"),
    ("cp -a && sync", "cp", "cp -a TREE TARGET && sync -f TARGET"),
    ("cpz && sync", "cpz", "cpz TREE TARGET && sync -f TARGET"),
    ("xcp -r && sync", "xcp", "xcp --no-progress -r TREE TARGET && sync -f TARGET"),
];

/// The comparison `tree`: dio and three others, each with a final sync.
pub(crate) fn compare(lab: &Lab) -> Result<ComparisonReport> {
    ["fincore", "diff"].map(must).into_iter().collect::<Result<Vec<_>>>()?;
    let tree = data::tree(&lab.dir, lab.options.files)?;
    let peers = lab.available(&["cp", "cpz", "xcp"]);
    let mut report = report::begin("tree", Host::of(&lab.dir)?, lab.programs(&peers))?;
    report.set("files", tree.count);
    report.set("data", format!("{:.1} MiB in 300 directories", tree.bytes as f64 / MIB as f64));
    report.set("rounds", lab.options.runs);
    for title in ["cold", "warm"] {
        let group = group(lab, title, &tree, &peers)?;
        for peer in group.contenders.iter().skip(1) {
            let goal = format!("{title}: wall ÷ {}", peer.name);
            report.goal(Goal::at_most(&goal, 1.0, group.ratio(&peer.name, "wall_seconds")));
        }
        report.groups.push(group);
    }
    report.note(
        "`cp -a` and `dio cp -a` keep owners, times, links and attributes; `cpz` keeps modes only, \
         `xcp` modes and times.",
    );
    lab.profile(&filled("dio cp -a TREE TARGET", &tree))?;
    forget_retired(&lab.dir.join("target"))?;
    Ok(report)
}

fn filled(script: &str, tree: &Tree) -> String {
    let name = tree.root.file_name().unwrap_or_default().to_string_lossy();
    script.replace("TREE", &format!("$DIR/{name}")).replace("TARGET", "$DIR/target")
}

fn group(lab: &Lab, title: &'static str, tree: &Tree, peers: &[&str]) -> Result<ComparisonGroup> {
    let target = &lab.dir.join("target");
    let mut entries = Vec::new();
    for (name, program, script) in COPIES {
        if *program == "dio" || peers.contains(program) {
            let script = filled(script, tree);
            entries.push(Rival::new(name, &script.clone(), move |round| {
                run(lab, tree, target, &script, title == "warm", round)
            }));
        }
    }
    let group = interleave(title, entries, lab.options.runs as usize, COSTS);
    retire(target)?;
    group
}

/// Moves the target of the previous run out of the way instead of removing it. After a removal,
/// ext4 skips the inodes of files that were deleted within the last half minute, one by one, each
/// time that it creates a file (`recently_deleted` in `fs/ext4/ialloc.c`). That made every
/// contender several times slower, at random. The retired targets are removed at the end.
pub(super) fn retire(target: &Path) -> Result<()> {
    if target.exists() {
        let retired = retired(target)?;
        std::fs::create_dir_all(&retired)?;
        let count = std::fs::read_dir(&retired)?.count();
        std::fs::rename(target, retired.join(count.to_string()))?;
    }
    Ok(())
}

/// Removes the last target and all retired ones.
pub(super) fn forget_retired(target: &Path) -> Result<()> {
    remove(target)?;
    remove(&retired(target)?)
}

fn retired(target: &Path) -> Result<std::path::PathBuf> {
    Ok(target.parent().ok_or("the target has no directory")?.join("retired"))
}

fn run(
    lab: &Lab,
    tree: &Tree,
    target: &Path,
    script: &str,
    warm: bool,
    round: usize,
) -> Result<Sample> {
    retire(target)?;
    lab.cool()?;
    if warm {
        data::warm(tree.files(&tree.root))?;
    }
    let mut sample = measure(&mut lab.shell(script))?.sample;
    per_gib(&mut sample, tree.bytes);
    sample.insert("pages_source", resident_pages(tree.files(&tree.root))?);
    sample.insert("pages_target", resident_pages(tree.files(target))?);
    if round == 0 {
        output(tool("diff").arg("-r").arg(&tree.root).arg(target))
            .map_err(|e| format!("a wrong copy: {e}"))?;
    }
    Ok(sample)
}

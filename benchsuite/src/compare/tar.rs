//! Archives of large files and of small ones: creating and extracting them.

use std::fs;
use std::path::{Path, PathBuf};

use super::COSTS;
use super::tree::{forget_retired, retire};
use crate::Result;
use crate::data::{self, large_files, remove};
use crate::lab::Lab;
use crate::measure::{measure, per_gib, resident_pages};
use crate::report;
use crate::rounds::{Rival, interleave};
use crate::tool::{must, output, tool};
use dio_bench::suite::Host;
use dio_bench::suite::{ComparisonGroup, Sample};
use dio_bench::suite::{ComparisonReport, Goal};
use dio_common::size::{GIB, MIB, exact as size_text};

/// The peer's name in the tables.
const PEER: &str = "tar && sync";

/// Number of large files that share the bytes.
const LARGE: u64 = 4;

/// Number of small files, unless `--files` is smaller.
const SMALL: u64 = 24_000;

/// A tree to archive, and an archive of it.
struct Data {
    title: &'static str,
    root: PathBuf,
    archive: PathBuf,
    bytes: u64,
    /// Whether there are so many files that targets have to be retired, see [`retire`].
    many: bool,
    /// The greatest allowed quotient of dio's time and the peer's.
    limit: f64,
}

impl Data {
    fn of(lab: &Lab, title: &'static str, root: PathBuf, many: bool, limit: f64) -> Result<Data> {
        let name = name_of(&root);
        let archive = lab.dir.join(format!("{name}.tar"));
        if !archive.exists() {
            eprintln!("benchsuite: archiving {name}");
            let part = lab.dir.join("archive.part");
            output(tool("tar").arg("-cf").arg(&part).arg("-C").arg(&lab.dir).arg(&name))?;
            rustix::fs::sync();
            fs::rename(part, &archive)?;
        }
        let bytes = files(&root)?
            .iter()
            .map(|file| fs::metadata(file).map(|m| m.len()))
            .sum::<std::io::Result<u64>>()?;
        Ok(Data { title, root, archive, bytes, many, limit })
    }

    fn filled(&self, script: &str) -> String {
        script
            .replace("TREE", &name_of(&self.root))
            .replace("ARCHIVE", &format!("$DIR/{}", name_of(&self.archive)))
            .replace("TARGET", "$DIR/target")
    }
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The files of a tree, which has at most one level of directories.
fn files(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root)? {
        let path = entry?.path();
        if path.is_dir() { found.extend(files(&path)?) } else { found.push(path) }
    }
    Ok(found)
}

/// The operation on the data. Both programs get the same flags and the same final sync.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TarOperation {
    Create,
    Extract,
}

impl TarOperation {
    fn name(self) -> &'static str {
        if self == TarOperation::Create { "create" } else { "extract" }
    }

    fn script(self, program: &str) -> String {
        match self {
            TarOperation::Create => format!("{program} -cf TARGET -C $DIR TREE && sync -f TARGET"),
            TarOperation::Extract => format!("{program} -xf ARCHIVE -C TARGET && sync -f TARGET"),
        }
    }

    /// Makes one cold, measured run; the result is compared with the tree in the first round.
    fn run(
        self,
        lab: &Lab,
        data: &Data,
        target: &Path,
        script: &str,
        round: usize,
    ) -> Result<Sample> {
        if data.many {
            retire(target)?
        } else {
            remove(target)?
        }
        if self == TarOperation::Extract {
            fs::create_dir(target)?;
        }
        lab.cool()?;
        let mut sample = measure(&mut lab.shell(script))?.sample;
        per_gib(&mut sample, data.bytes);
        let (source, target_pages) = match self {
            TarOperation::Create => {
                (resident_pages(files(&data.root)?)?, resident_pages([target])?)
            }
            TarOperation::Extract => {
                (resident_pages([&data.archive])?, resident_pages(files(target)?)?)
            }
        };
        sample.insert("pages_source", source);
        sample.insert("pages_target", target_pages);
        if round == 0 {
            let mut judge = match self {
                TarOperation::Create => tool("tar"),
                TarOperation::Extract => tool("diff"),
            };
            match self {
                TarOperation::Create => judge.arg("-df").arg(target).arg("-C").arg(&lab.dir),
                TarOperation::Extract => {
                    judge.arg("-r").arg(&data.root).arg(target.join(name_of(&data.root)))
                }
            };
            output(&mut judge).map_err(|e| format!("a wrong result: {e}"))?;
        }
        Ok(sample)
    }

    fn group(self, lab: &Lab, data: &Data) -> Result<ComparisonGroup> {
        let target = &lab.dir.join("target");
        let mut entries = Vec::new();
        for (name, program) in
            [(format!("dio tar, {}", self.name()), "dio tar"), (PEER.to_string(), "tar")]
        {
            let script = data.filled(&self.script(program));
            entries.push(Rival::new(&name, &script.clone(), move |round| {
                self.run(lab, data, target, &script, round)
            }));
        }
        let title = format!("{}, {}", self.name(), data.title);
        let group = interleave(&title, entries, lab.options.runs as usize, COSTS);
        forget_retired(target)?;
        group
    }
}

/// The comparison `tar`: archives of large files and of small ones, created and extracted.
pub(crate) fn compare(lab: &Lab) -> Result<ComparisonReport> {
    ["fincore", "tar", "diff"].map(must).into_iter().collect::<Result<Vec<_>>>()?;
    let each = lab.options.size.unwrap_or(4 * GIB) / LARGE / MIB * MIB;
    let large = large_files(&lab.dir, LARGE, each.max(MIB))?;
    let small = data::tree(&lab.dir, SMALL.min(lab.options.files))?;
    let mut report = report::begin("tar", Host::of(&lab.dir)?, lab.programs(&["tar"]))?;
    report.set("large_files", format!("{LARGE} of {}", size_text(each.max(MIB))));
    report.set(
        "small_files",
        format!("{}, {:.1} MiB in 300 directories", small.count, small.bytes as f64 / MIB as f64),
    );
    report.set("rounds", lab.options.runs);
    let large = Data::of(lab, "large files", large, false, 0.5)?;
    let small = Data::of(lab, "small files", small.root, true, 1.0)?;
    for data in [&large, &small] {
        for work in [TarOperation::Create, TarOperation::Extract] {
            let group = work.group(lab, data)?;
            let title = group.title.clone();
            report.goal(Goal::at_most(
                &format!("{title}: wall ÷ {PEER}"),
                data.limit,
                group.ratio(PEER, "wall_seconds"),
            ));
            let ours = group
                .contenders
                .first()
                .map(|contender| contender.name.clone())
                .unwrap_or_default();
            for metric in ["pages_source", "pages_target"] {
                let worst = group.spread(&ours, metric).map(|spread| spread.max);
                let goal = format!("{title}: {} after, worst", metric.replace('_', " of the "));
                report.goal(Goal::at_most(&goal, 0.0, worst));
            }
            report.groups.push(group);
        }
    }
    report.note(
        "Archives to extract were made by GNU tar. Each command ends with `sync -f` of the target, \
         dio's too.",
    );
    lab.profile(&large.filled("dio tar -cf TARGET -C $DIR TREE"))?;
    remove(&lab.dir.join("target"))?;
    Ok(report)
}

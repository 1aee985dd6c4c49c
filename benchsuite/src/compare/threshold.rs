//! Determines the size from which on direct I/O is faster for copying the files of a tree: the
//! basis for the default of `dio cp --small`.

use std::path::{Path, PathBuf};

use super::COSTS;
use super::tree::{forget_retired, retire};
use crate::Result;
use crate::data::equal_files;
use crate::lab::Lab;
use crate::measure::{measure, per_gib};
use crate::report;
use crate::rounds::{Rival, interleave};
use dio_bench::suite::ComparisonReport;
use dio_bench::suite::Host;
use dio_common::size::{KIB, MIB};

/// Sizes in bytes, around the default.
const SIZES: [u64; 5] = [16 * KIB, 32 * KIB, 64 * KIB, 128 * KIB, 256 * KIB];

/// Bytes of each tree.
const TREE: u64 = 128 * MIB;

/// The comparison `threshold`: the same tree is copied cold, once with every file treated as small,
/// and once with direct I/O for every file.
pub(crate) fn compare(lab: &Lab) -> Result<ComparisonReport> {
    let mut report = report::begin("threshold", Host::of(&lab.dir)?, lab.programs(&[]))?;
    report.set("rounds", lab.options.runs);
    report.set("data", format!("{} MiB in files of one size, 100 to a directory", TREE / MIB));
    let target = lab.dir.join("target");
    for size in SIZES {
        let root = equal_files(&lab.dir, size, TREE / size)?;
        let entries = [("small way", "1G"), ("direct", "0")]
            .map(|(name, small)| entry(lab, &root, &target, name, small));
        report.groups.push(interleave(
            &format!("files of {} KiB", size / KIB),
            entries.into(),
            lab.options.runs as usize,
            COSTS,
        )?);
    }
    forget_retired(&target)?;
    report.note("Where the small way takes less, `dio cp` takes it by default (`--small 64K`).");
    Ok(report)
}

fn entry<'a>(lab: &'a Lab, root: &Path, target: &'a Path, name: &'a str, small: &str) -> Rival<'a> {
    let tree = root.file_name().unwrap_or_default().to_string_lossy();
    let script = format!("dio cp -r --small {small} $DIR/{tree} $DIR/target");
    let root: PathBuf = root.to_path_buf();
    Rival::new(name, &script.clone(), move |_| {
        retire(target)?;
        lab.cool()?;
        let mut sample = measure(&mut lab.shell(&script))?.sample;
        per_gib(&mut sample, TREE);
        sample.insert("pages_source", crate::measure::resident_pages(files_below(&root)?)?);
        Ok(sample)
    })
}

fn files_below(root: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for directory in std::fs::read_dir(root)? {
        for file in std::fs::read_dir(directory?.path())? {
            files.push(file?.path());
        }
    }
    Ok(files)
}

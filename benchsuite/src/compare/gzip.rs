//! Compression of large cold files, in both directions: dio's gzip compared with pigz, and dio's
//! zstd with the zstd command.

use std::fs;
use std::path::{Path, PathBuf};

use super::COSTS;
use crate::Result;
use crate::corpus::{self, DataKind, KINDS};
use crate::data::remove;
use crate::lab::Lab;
use crate::measure::{measure, per_gib, resident_pages};
use crate::report;
use crate::rounds::{Rival, interleave};
use crate::tool::{must, output};
use dio_bench::suite::Host;
use dio_bench::suite::{ComparisonGroup, Sample};
use dio_bench::suite::{ComparisonReport, Goal};
use dio_common::size::{GIB, exact as size_text};

/// Two programs with the same task. SOURCE and TARGET stand for the files.
struct GzipTrial {
    title: &'static str,
    ours: &'static str,
    our_script: &'static str,
    peer: &'static str,
    peer_script: &'static str,
    /// The command that makes SOURCE from the data; `None` if SOURCE is the data.
    packed_by: Option<&'static str>,
    /// The command that turns TARGET back into the data; `None` if TARGET is the data.
    unpacked_by: Option<&'static str>,
    /// The least speed, divided by that of the peer.
    speed: f64,
}

const TRIALS: &[GzipTrial] = &[
    GzipTrial {
        title: "gzip -6",
        ours: "dio gzip",
        our_script: "dio gzip -6 -c SOURCE > TARGET && sync -f TARGET",
        peer: "pigz",
        peer_script: "pigz -6 -c SOURCE > TARGET && sync -f TARGET",
        packed_by: None,
        unpacked_by: Some("gzip -dc"),
        speed: 1.3,
    },
    GzipTrial {
        title: "gunzip of pigz's file",
        ours: "dio gzip -d",
        our_script: "dio gzip -dc SOURCE > TARGET && sync -f TARGET",
        peer: "pigz -d",
        peer_script: "pigz -dc SOURCE > TARGET && sync -f TARGET",
        packed_by: Some("pigz -6 -c"),
        unpacked_by: None,
        speed: 1.5,
    },
    GzipTrial {
        title: "gunzip of dio's file",
        ours: "dio gzip -d",
        our_script: "dio gzip -dc SOURCE > TARGET && sync -f TARGET",
        peer: "pigz -d",
        peer_script: "pigz -dc SOURCE > TARGET && sync -f TARGET",
        packed_by: Some("dio gzip -6 -c"),
        unpacked_by: None,
        speed: 1.5,
    },
    GzipTrial {
        title: "zstd",
        ours: "dio zstd",
        our_script: "dio zstd -T0 -q -c SOURCE > TARGET && sync -f TARGET",
        peer: "zstd -T0",
        peer_script: "zstd -T0 -q -c SOURCE > TARGET && sync -f TARGET",
        packed_by: None,
        unpacked_by: Some("zstd -dqc"),
        speed: 1.0,
    },
    GzipTrial {
        title: "unzstd of zstd's file",
        ours: "dio zstd -d",
        our_script: "dio zstd -dqc SOURCE > TARGET && sync -f TARGET",
        peer: "zstd -d",
        peer_script: "zstd -T0 -dqc SOURCE > TARGET && sync -f TARGET",
        packed_by: Some("zstd -T0 -q -c"),
        unpacked_by: None,
        speed: 1.0,
    },
];

/// One trial on one kind of data.
struct Bench<'a> {
    lab: &'a Lab,
    trial: &'a GzipTrial,
    /// The uncompressed data.
    data: &'a Path,
    source: PathBuf,
    target: PathBuf,
}

impl Bench<'_> {
    fn filled(&self, script: &str) -> String {
        let name = |path: &Path| {
            format!("$DIR/{}", path.file_name().unwrap_or_default().to_string_lossy())
        };
        script.replace("SOURCE", &name(&self.source)).replace("TARGET", &name(&self.target))
    }

    /// Makes one cold, measured run. In the first round the output is compared with the data.
    fn run(&self, script: &str, round: usize) -> Result<Sample> {
        remove(&self.target)?;
        self.lab.cool()?;
        let mut sample = measure(&mut self.lab.shell(script))?.sample;
        per_gib(&mut sample, fs::metadata(self.data)?.len());
        sample.insert("target_bytes", fs::metadata(&self.target)?.len() as f64);
        sample.insert("pages_source", resident_pages([&self.source])?);
        sample.insert("pages_target", resident_pages([&self.target])?);
        if round == 0 {
            let unpack = self.trial.unpacked_by.unwrap_or("cat");
            let check =
                format!("{unpack} < {} | cmp - {}", self.target.display(), self.data.display());
            output(&mut self.lab.shell(&check)).map_err(|e| format!("other data came out: {e}"))?;
        }
        Ok(sample)
    }

    fn group(&self, kind: DataKind) -> Result<ComparisonGroup> {
        let trial = self.trial;
        let mut entries = Vec::new();
        for (name, script) in [(trial.ours, trial.our_script), (trial.peer, trial.peer_script)] {
            let script = self.filled(script);
            entries.push(Rival::new(name, &script.clone(), move |round| self.run(&script, round)));
        }
        let compared = [COSTS, &["target_bytes"]].concat();
        let title = format!("{}, {}", trial.title, kind.name);
        let group = interleave(&title, entries, self.lab.options.runs as usize, &compared);
        remove(&self.target)?;
        group
    }
}

/// `gzip`: compression.
pub(crate) fn compare(lab: &Lab) -> Result<ComparisonReport> {
    ["fincore", "cmp", "gzip", "pigz", "zstd"].map(must).into_iter().collect::<Result<Vec<_>>>()?;
    let mut report =
        report::begin("gzip", Host::of(&lab.dir)?, lab.programs(&["pigz", "zstd", "gzip"]))?;
    let size = lab.options.size.unwrap_or(GIB);
    report.set("size", size_text(size));
    report.set("rounds", lab.options.runs);
    for kind in KINDS {
        let data = corpus::file(&lab.dir, kind, size)?;
        for trial in TRIALS {
            let group = one(lab, kind, trial, &data)?;
            goals(&mut report, trial, &group);
            report.groups.push(group);
        }
    }
    report.note(
        "Text is sources, headers and documentation, libraries are shared libraries, both one \
         after the other and again from the beginning where there are not enough; the database is \
         one of SQLite.",
    );
    report
        .note("All targets are synced in the measured time. Speeds are of the uncompressed data.");
    Ok(report)
}

fn one(lab: &Lab, kind: DataKind, trial: &GzipTrial, data: &Path) -> Result<ComparisonGroup> {
    let source = match trial.packed_by {
        None => data.to_path_buf(),
        Some(command) => {
            let packed = lab.dir.join("packed");
            let script = format!("{command} < {} > {}", data.display(), packed.display());
            output(&mut lab.shell(&script))?;
            packed
        }
    };
    let bench = Bench { lab, trial, data, source, target: lab.dir.join("target") };
    let group = bench.group(kind);
    if trial.packed_by.is_some() {
        remove(&bench.source)?;
    }
    group
}

fn goals(report: &mut ComparisonReport, trial: &GzipTrial, group: &ComparisonGroup) {
    let what = &group.title;
    // The ratio is that of the times, ours divided by the peer's; the ratio of speeds is its
    // inverse.
    let speed = group.ratio(trial.peer, "wall_seconds").map(|ratio| 1.0 / ratio);
    report.goal(Goal::at_least(&format!("{what}: speed ÷ {}", trial.peer), trial.speed, speed));
    if trial.unpacked_by == Some("gzip -dc") {
        let sizes = group.ratio(trial.peer, "target_bytes");
        report.goal(Goal::at_most(&format!("{what}: size ÷ {}", trial.peer), 1.0, sizes));
    }
    for metric in ["pages_source", "pages_target"] {
        let worst = group.spread(trial.ours, metric).map(|spread| spread.max);
        report.goal(Goal::at_most(
            &format!("{what}: {} after, worst", metric.replace('_', " of the ")),
            0.0,
            worst,
        ));
    }
}

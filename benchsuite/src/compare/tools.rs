//! The tools that pass bytes on, with one large cold file, each compared with its GNU counterpart.

use std::fs;
use std::path::Path;

use super::fio::DiskCeiling;
use super::{COSTS, fio};
use crate::Result;
use crate::data::{remove, source};
use crate::lab::Lab;
use crate::measure::{measure, per_gib, resident_pages};
use crate::report;
use crate::rounds::{Rival, interleave};
use crate::tool::{must, need, output, tool};
use dio_bench::suite::Host;
use dio_bench::suite::{ComparisonGroup, Sample};
use dio_bench::suite::{ComparisonReport, Goal};
use dio_common::size::{GIB, exact as size_text};

/// Name of the contender that shows the disk's own limit.
const LIMIT: &str = "fio, the disk's limit";

/// A contender: its name in the table, and its command with SOURCE and perhaps TARGET.
type Command<'a> = (&'a str, &'a str);

/// Programs that are compared under the same conditions.
struct ToolTrial<'a> {
    title: &'a str,
    commands: &'a [Command<'a>],
    /// Whether the disk's limit is measured in the same rounds.
    limit: bool,
}

/// The large file and its surroundings.
struct Bench<'a> {
    lab: &'a Lab,
    source: &'a Path,
    target: &'a Path,
    bytes: u64,
}

impl Bench<'_> {
    fn filled(&self, script: &str) -> String {
        let name = self.source.file_name().unwrap_or_default().to_string_lossy();
        script.replace("SOURCE", &format!("$DIR/{name}")).replace("TARGET", "$DIR/target")
    }

    /// Makes one cold, measured run; a target is compared with the source in the first round.
    fn run(&self, script: &str, round: usize) -> Result<Sample> {
        remove(self.target)?;
        self.lab.cool()?;
        let mut sample = measure(&mut self.lab.shell(script))?.sample;
        per_gib(&mut sample, self.bytes);
        sample.insert("pages_source", resident_pages([self.source])?);
        if self.target.exists() {
            sample.insert("pages_target", resident_pages([self.target])?);
            if round == 0 {
                output(tool("cmp").arg(self.source).arg(self.target))
                    .map_err(|e| format!("a wrong copy: {e}"))?;
            }
        }
        Ok(sample)
    }

    fn group(&self, trial: &ToolTrial<'_>) -> Result<ComparisonGroup> {
        let mut entries = Vec::new();
        for (name, script) in trial.commands {
            let script = self.filled(script);
            entries.push(Rival::new(name, &script.clone(), move |round| self.run(&script, round)));
        }
        if trial.limit {
            let writes = trial.commands.iter().any(|(_, script)| script.contains("TARGET"));
            let size = size_text(self.bytes);
            let script = |shape| {
                self.filled(&match writes {
                    true => fio::mixed_script("SOURCE", "TARGET", &size, shape),
                    false => fio::read_script("SOURCE", &size, shape),
                })
            };
            let cold = || remove(self.target).and_then(|()| self.lab.cool());
            let ceiling = DiskCeiling::find(self.lab, self.bytes, script, cold)?;
            let command = ceiling.command().to_owned();
            entries.push(Rival::new(LIMIT, &command, move |_| ceiling.run()));
        }
        let group = interleave(trial.title, entries, self.lab.options.runs as usize, COSTS);
        remove(self.target)?;
        group
    }
}

/// The reading tools: each with its counterpart and the disk's limit.
const READING: &[ToolTrial<'_>] = &[
    ToolTrial {
        title: "cat to /dev/null",
        commands: &[("dio cat", "dio cat SOURCE > /dev/null"), ("cat", "cat SOURCE > /dev/null")],
        limit: true,
    },
    ToolTrial {
        title: "dd to /dev/null",
        commands: &[
            ("dio dd", "dio dd if=SOURCE of=/dev/null bs=1M status=none"),
            ("dd", "dd if=SOURCE of=/dev/null bs=1M status=none"),
        ],
        limit: true,
    },
    ToolTrial {
        title: "a fast digest, crc",
        commands: &[("dio cksum", "dio cksum SOURCE"), ("cksum", "cksum SOURCE")],
        limit: true,
    },
];

/// A copy through a stream.
const CAT_TO_FILE: ToolTrial<'_> = ToolTrial {
    title: "cat to a file",
    commands: &[
        ("dio cat >", "dio cat SOURCE > TARGET"),
        ("cat > && sync", "cat SOURCE > TARGET && sync -f TARGET"),
    ],
    limit: true,
};

/// Programs that are told to use small blocks, but make large requests.
const SMALL_BLOCKS: &[ToolTrial<'_>] = &[
    ToolTrial {
        title: "dd, small and large blocks, to /dev/null",
        commands: &[
            ("dio dd bs=512", "dio dd if=SOURCE of=/dev/null bs=512 status=none"),
            ("dio dd bs=8M", "dio dd if=SOURCE of=/dev/null bs=8M status=none"),
        ],
        limit: false,
    },
    ToolTrial {
        title: "dd, small and large blocks, to a file",
        commands: &[
            ("dio dd bs=512", "dio dd if=SOURCE of=TARGET bs=512 conv=fsync status=none"),
            ("dio dd bs=8M", "dio dd if=SOURCE of=TARGET bs=8M conv=fsync status=none"),
        ],
        limit: false,
    },
];

fn prepare(
    lab: &Lab,
    name: &'static str,
    peers: &[&str],
) -> Result<(ComparisonReport, std::path::PathBuf)> {
    ["fincore", "fio", "cmp"].map(must).into_iter().collect::<Result<Vec<_>>>()?;
    let source = source(&lab.dir, lab.options.size.unwrap_or(4 * GIB))?;
    let mut report = report::begin(name, Host::of(&lab.dir)?, lab.programs(peers))?;
    report.set("size", size_text(fs::metadata(&source)?.len()));
    report.set("rounds", lab.options.runs);
    Ok((report, source))
}

/// The comparison `tools`: cat, dd and cksum.
pub(crate) fn compare(lab: &Lab) -> Result<ComparisonReport> {
    let (mut report, source) = prepare(lab, "tools", &["cat", "dd", "cksum", "fio"])?;
    let target = lab.dir.join("target");
    let bench =
        Bench { lab, source: &source, target: &target, bytes: fs::metadata(&source)?.len() };
    for trial in READING {
        let group = bench.group(trial)?;
        let (ours, peer) = (trial.commands[0].0, trial.commands[1].0);
        let wall = group.ratio(LIMIT, "wall_seconds");
        report.goal(Goal::at_most(&format!("{ours}: wall ÷ the disk's limit"), 1.02, wall));
        report.goal(Goal::at_least(&format!("{ours}: the limit is one: wall ÷ it"), 0.95, wall));
        report.goal(Goal::at_most(
            &format!("{ours}: CPU ÷ {peer}"),
            0.5,
            group.ratio(peer, "cpu_seconds"),
        ));
        pages_goal(&mut report, &group, ours);
        report.groups.push(group);
    }
    let group = bench.group(&CAT_TO_FILE)?;
    let ratio = group.ratio("cat > && sync", "wall_seconds");
    report.goal(Goal::at_most("dio cat to a file: wall ÷ cat && sync", 1.0, ratio));
    pages_goal(&mut report, &group, "dio cat >");
    report.groups.push(group);
    for trial in SMALL_BLOCKS {
        let group = bench.group(trial)?;
        // The ratio is that of the times, ours divided by the peer's; the ratio of speeds is its
        // inverse.
        let speed = group.ratio("dio dd bs=8M", "wall_seconds").map(|ratio| 1.0 / ratio);
        report.goal(Goal::at_least(
            &format!("{}: speed of bs=512 ÷ bs=8M", trial.title),
            0.9,
            speed,
        ));
        report.groups.push(group);
    }
    report.note(
        "The disk's limit is fio's own run time, without its start; the tools' times are of the \
         process.",
    );
    Ok(report)
}

fn pages_goal(report: &mut ComparisonReport, group: &ComparisonGroup, ours: &str) {
    for metric in ["pages_source", "pages_target"] {
        let worst = group.spread(ours, metric).map(|spread| spread.max);
        report.goal(Goal::at_most(
            &format!("{ours}: {} after, worst", metric.replace('_', " of the ")),
            0.0,
            worst,
        ));
    }
}

/// Digests, each with the programs that are usually used for it.
const DIGESTS: &[ToolTrial<'_>] = &[
    ToolTrial {
        title: "sha256",
        commands: &[
            ("dio sha256sum", "dio sha256sum SOURCE"),
            ("openssl dgst", "openssl dgst -sha256 SOURCE"),
            ("sha256sum", "sha256sum SOURCE"),
        ],
        limit: false,
    },
    ToolTrial {
        title: "md5",
        commands: &[("dio md5sum", "dio md5sum SOURCE"), ("md5sum", "md5sum SOURCE")],
        limit: false,
    },
    ToolTrial {
        title: "blake3",
        commands: &[("dio b3sum", "dio b3sum SOURCE"), ("b3sum", "b3sum SOURCE")],
        limit: true,
    },
    ToolTrial {
        title: "two digests",
        commands: &[
            ("dio sum -a md5,sha256", "dio sum -a md5,sha256 SOURCE"),
            ("one after the other", "dio md5sum SOURCE && dio sha256sum SOURCE"),
        ],
        limit: false,
    },
];

/// The comparison `sums`: digests.
pub(crate) fn sums(lab: &Lab) -> Result<ComparisonReport> {
    need("openssl");
    need("b3sum");
    let (mut report, source) = prepare(lab, "sums", &["sha256sum", "md5sum", "openssl", "b3sum"])?;
    let target = lab.dir.join("target");
    let bench =
        Bench { lab, source: &source, target: &target, bytes: fs::metadata(&source)?.len() };
    for trial in DIGESTS {
        let group = bench.group(trial)?;
        let (ours, peer) = (trial.commands[0].0, trial.commands[1].0);
        report.goal(Goal::at_most(
            &format!("{ours}: wall ÷ {peer}"),
            1.0,
            group.ratio(peer, "wall_seconds"),
        ));
        if peer == "openssl dgst" {
            report.goal(Goal::at_most(
                &format!("{ours}: CPU ÷ {peer}"),
                1.0,
                group.ratio(peer, "cpu_seconds"),
            ));
        }
        pages_goal(&mut report, &group, ours);
        report.groups.push(group);
    }
    Ok(report)
}

//! Other ways to share a copy among four processes, each with a modelled network card, beside
//! `dio-mpi cp`: `fpart`, `xargs`, `parallel` and `rclone`.

use std::fs;
use std::path::Path;

use super::cluster::{CARD, build, compared, size_of};
use super::cluster_storage::{Data, mpirun, name_of};
use crate::Result;
use crate::data::{equal_files, large_files, remove, source};
use crate::lab::Lab;
use crate::report;
use crate::tool::{must, need, output, tool};
use dio_bench::suite::{ComparisonReport, Goal, Host};
use dio_common::size::{KIB, MIB, exact as size_text};

/// Processes, and modelled machines, that share a copy.
const SHARING: u64 = 4;

/// Bytes of a small file.
const SMALL: u64 = 64 * KIB;

/// Batches of files that each process of `xargs` and `parallel` gets on average.
const BATCHES: u64 = 8;

/// The peers: a name, the program that is needed, and the command. CARD stands for the words in
/// front of a program that has a network card of its own, SOURCE for the tree, COUNT for the number
/// of files in a batch.
const PEERS: &[(&str, &str, &str)] = &[
    (
        "fpart, 4 rsync",
        "fpart",
        "mkdir $DIR/target && rm -rf $DIR/parts && mkdir $DIR/parts && cd SOURCE && \
         fpart -n 4 -o $DIR/parts/p . >/dev/null && ls $DIR/parts/p.* | \
         xargs -P 4 -I LIST CARD rsync -a --files-from=LIST SOURCE/ $DIR/target/ && \
         sync -f $DIR/target",
    ),
    (
        "xargs -P 4 rsync",
        "rsync",
        "mkdir $DIR/target && cd SOURCE && find . -type f -print0 | xargs -0 -P 4 -n COUNT CARD \
         sh -c 'cd SOURCE && rsync -aR \"$@\" $DIR/target/' copy && sync -f $DIR/target",
    ),
    (
        "xargs -P 4 cp",
        "cp",
        "mkdir $DIR/target && cd SOURCE && find . -type f -print0 | xargs -0 -P 4 -n COUNT CARD \
         sh -c 'cd SOURCE && cp -a --parents -t $DIR/target \"$@\"' copy && sync -f $DIR/target",
    ),
    (
        "parallel -j 4 dio cp",
        "parallel",
        "mkdir $DIR/target && cd SOURCE && find . -type f -print0 | \
         parallel --will-cite -0 -j 4 -n COUNT CARD \
         sh -c \"'cd SOURCE && dio cp -a --parents -t $DIR/target \\\"\\$@\\\"'\" copy",
    ),
    (
        "rclone --transfers 4",
        "rclone",
        "CARDS rclone copy --transfers 4 SOURCE $DIR/target && sync -f $DIR/target",
    ),
];

/// The words in front of a program whose reads below the data's directory are limited.
fn limited(bytes_per_second: u64) -> String {
    format!("dio run -o rate={}K --dir $DIR/cluster --", bytes_per_second / KIB)
}

/// The commands for one tree. A peer whose program is not there is left out.
fn commands(name: &str, files: u64) -> Vec<(String, String)> {
    let source = format!("$DIR/{name}");
    let count = files.div_ceil(SHARING * BATCHES).to_string();
    let fill = |command: &str| {
        let command = command.replace("CARDS", &limited(CARD * SHARING));
        command.replace("CARD", &limited(CARD)).replace("SOURCE", &source).replace("COUNT", &count)
    };
    let ours = format!("{} CARD dio-mpi cp -a SOURCE $DIR/target", mpirun(SHARING as u32));
    let peers = PEERS.iter().filter(|(_, program, _)| need(program).is_some());
    std::iter::once(("dio-mpi, 4 ranks".to_owned(), fill(&ours)))
        .chain(peers.map(|(name, _, command)| ((*name).to_owned(), fill(command))))
        .collect()
}

/// A directory with a file of nine tenths of the bytes, and small ones.
fn mixed(dir: &Path, bytes: u64) -> Result<std::path::PathBuf> {
    let root = dir.join(format!("mixed-{}", size_text(bytes)));
    if !root.exists() {
        let part = dir.join("mixed.part");
        remove(&part)?;
        let few = equal_files(dir, SMALL, (bytes / 10 / SMALL).max(1))?;
        output(tool("cp").arg("-a").arg(few).arg(&part))?;
        let large = source(&part, bytes / 10 * 9 / MIB * MIB)?;
        fs::rename(large, part.join("large"))?;
        fs::rename(part, &root)?;
    }
    Ok(root)
}

/// The comparison `cluster-peers`.
pub(crate) fn compare(lab: &Lab) -> Result<ComparisonReport> {
    ["mpirun", "rsync", "find"].map(must).into_iter().collect::<Result<Vec<_>>>()?;
    build()?;
    let bytes = lab.options.size.unwrap_or(768 * MIB);
    let dir = lab.dir.join("cluster");
    fs::create_dir_all(&dir)?;
    let programs = ["mpirun", "fpart", "rsync", "xargs", "parallel", "rclone"];
    let mut report = report::begin("cluster-peers", Host::of(&lab.dir)?, lab.programs(&programs))?;
    report.set("bytes", size_text(bytes));
    report.set("modelled_card", format!("{} MiB/s", CARD / MIB));
    report.set("rounds", lab.options.runs);
    for (title, root) in [
        ("12 equal files", large_files(&dir, 12, (bytes / 12 / MIB).max(1) * MIB)?),
        ("files of 64 KiB", equal_files(&dir, SMALL, (bytes / SMALL).max(1))?),
        ("a file of nine tenths of the bytes, and small ones", mixed(&dir, bytes)?),
    ] {
        let name = format!("cluster/{}", name_of(&root));
        let (files, bytes) = size_of(&root)?;
        let data = Data { name: &name, bytes, files };
        let group = compared(lab, title, &commands(&name, files), data)?;
        for peer in group.contenders.iter().skip(1) {
            let ratio = group.ratio(&peer.name, "wall_seconds");
            report.goal(Goal::at_most(&format!("{title}: wall ÷ {}", peer.name), 1.0, ratio));
        }
        report.groups.push(group);
    }
    remove(&lab.dir.join("parts"))?;
    let missing = PEERS.iter().filter(|(_, program, _)| need(program).is_none());
    for (name, program, _) in missing {
        report.note(format!("{name}: {program} is not installed, and cannot be."));
    }
    report.note(
        "Each process has a modelled network card: a mount that limits what it reads. rclone is one \
         process, with a card as fast as four. Times are those of the whole commands, with the \
         start of MPI, and all data is on the medium at the end.",
    );
    Ok(report)
}

//! Operations on many names below a mount, compared with the file system itself and with other
//! servers.

use std::fs::{self, File};
use std::path::PathBuf;

use rustix::process::{Resource, getrlimit};

use super::mounted::{ComparedMount, Server, mount_point};
use super::tree::{forget_retired, retire};
use crate::Result;
use crate::data::{self, remove};
use crate::lab::Lab;
use crate::measure::measure;
use crate::report;
use crate::rounds::{Rival, interleave};
use crate::tool::{must, output};
use dio_bench::suite::ComparisonReport;
use dio_bench::suite::Host;
use dio_bench::suite::{ComparisonGroup, Sample};

/// The places to work in; the others are compared with the first.
const PLACES: &[(&str, Option<Server>)] = &[
    ("bare", None),
    ("dio mount -o cio,io_uring", Some(Server::Dio("cio,io_uring"))),
    ("dio mount -o cio,no_io_uring", Some(Server::Dio("cio,no_io_uring"))),
    ("bindfs", Some(Server::Bindfs)),
    ("passthrough_ll", Some(Server::PassthroughLl)),
];

/// A workload of many names, in the directory AT.
struct NamesWorkload {
    title: &'static str,
    script: &'static str,
    /// A command that runs before, not measured.
    before: &'static str,
    warm: bool,
}

/// git would update its index, which could save the next contender work or cost it some. Therefore
/// it must not write while it is measured, and each contender refreshes the index in its own mount
/// before.
const STATUS: &str = "test -z \"$(git --no-optional-locks -C AT/repo status --porcelain 2>&1)\"";
const REFRESH: &str = "git -C AT/repo status --porcelain > /dev/null";

const WORKS: &[NamesWorkload] = &[
    NamesWorkload { title: "git status, cold", script: STATUS, before: REFRESH, warm: false },
    NamesWorkload { title: "git status, warm", script: STATUS, before: REFRESH, warm: true },
    NamesWorkload {
        title: "tar x of small files, cold",
        script: "tar -xf $DIR/names.tar -C AT/out && sync -f $DIR/out",
        before: "",
        warm: false,
    },
];

/// Number of empty files for measuring the memory of a server; fewer if `--files` is below its
/// default.
const MANY: u64 = 1_000_000;
const TO_A_DIRECTORY: u64 = 1000;

/// The comparison `mount-names`.
pub(crate) fn compare(lab: &Lab) -> Result<ComparisonReport> {
    ["git", "tar", "find", "fio"].map(must).into_iter().collect::<Result<Vec<_>>>()?;
    let here = lab.available(&["bindfs", "passthrough_ll"]);
    let tree = data::tree(&lab.dir, lab.options.files)?;
    let mut programs = lab.programs(&["git", "tar", "bindfs"]);
    for name in here.iter().filter(|name| **name == "passthrough_ll") {
        programs.insert(
            name.to_string(),
            "libfuse's example from Debian's libfuse3-dev, built with cc -O2".to_string(),
        );
    }
    let mut report = report::begin("mount-names", Host::of(&lab.dir)?, programs)?;
    report.set("files", tree.count);
    report.set("rounds", lab.options.runs);
    let done = measured(lab, &tree, &mut report);
    for path in ["repo", "names.tar", "out", "traffic"] {
        remove(&lab.dir.join(path))?;
    }
    done?;
    let _ = fs::remove_dir(mount_point(lab));
    NOTES.iter().for_each(|note| report.note(*note));
    Ok(report)
}

const NOTES: [&str; 4] = [
    "Cold: nothing in the caches of the kernel, and a server that has seen each name once. `tar` \
     makes all its names.",
    "libfuse's `passthrough_ll` keeps a descriptor open for each inode that the kernel knows, and \
     is left out where `ulimit -Hn` does not allow that.",
    "Memory: each empty file of the directory is looked up and asked for its size by `find`, once; \
     then a file of 1 GiB is written and read in sequence and at random. `VmRSS` and `VmHWM` of \
     the server; limits as they are by default.",
    "A sync of a FUSE mount does not reach the file system below, so that one is synced, for all \
     alike. git must find nothing changed.",
];

fn measured(lab: &Lab, tree: &data::Tree, report: &mut ComparisonReport) -> Result<()> {
    let name = tree.root.file_name().unwrap_or_default().to_string_lossy().into_owned();
    remove(&lab.dir.join("repo"))?;
    output(&mut lab.shell(&format!(
        "cp -a $DIR/{name} $DIR/repo && cd $DIR/repo && git init -q && git add -A && git -c \
         user.name=b -c user.email=b@localhost -c gc.auto=0 commit -q -m all && tar -cf \
         $DIR/names.tar -C $DIR {name}"
    )))?;
    for work in WORKS {
        report.groups.push(group(lab, work)?);
    }
    // With the default of `--files`, a million.
    let many = MANY.min(lab.options.files.saturating_mul(MANY / 30_000 + 1));
    report.set("empty_files", many);
    let group = memory(lab, &many_files(lab, many)?)?;
    report.groups.push(group);
    Ok(())
}

/// The directory of a place, as it appears in commands.
fn dir_of(server: Option<Server>) -> &'static str {
    if server.is_some() { "$DIR-mnt" } else { "$DIR" }
}

fn group(lab: &Lab, work: &NamesWorkload) -> Result<ComparisonGroup> {
    let mut entries = Vec::new();
    for (name, server) in PLACES {
        let script = work.script.replace("AT/", &format!("{}/", dir_of(*server)));
        let shown = match server {
            Some(server) => format!("{}; {script}", server.shown()),
            None => script.clone(),
        };
        entries.push(Rival::new(name, &shown, move |_| run(lab, work, *server, &script)));
    }
    let group = interleave(work.title, entries, lab.options.runs as usize, &[]);
    forget_retired(&lab.dir.join("out"))?;
    Ok(group?.against_first(super::COSTS))
}

fn run(lab: &Lab, work: &NamesWorkload, server: Option<Server>, script: &str) -> Result<Sample> {
    if let Some(Server::PassthroughLl) = server {
        let most = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
        if most < lab.options.files + lab.options.files / 10 {
            return Err(format!("it keeps a descriptor for each file, and may have {most}").into());
        }
    }
    retire(&lab.dir.join("out"))?;
    fs::create_dir_all(lab.dir.join("out"))?;
    let mounted = server.map(|server| ComparedMount::new(lab, server)).transpose()?;
    if !work.before.is_empty() {
        let before = work.before.replace("AT/", &format!("{}/", dir_of(server)));
        measure(&mut lab.shell(&before))?;
    }
    if !work.warm {
        lab.cool()?;
    }
    let before = mounted.as_ref().map(ComparedMount::cpu).transpose()?;
    let mut sample = measure(&mut lab.shell(script))?.sample;
    sample.remove("peak_rss_bytes");
    sample.remove("dirty_bytes");
    if let (Some(mounted), Some(before)) = (&mounted, before) {
        sample.insert("server_cpu_seconds", mounted.cpu()? - before);
        sample.insert("server_rss_bytes", mounted.memory()?);
    }
    Ok(sample)
}

/// `count` empty files, which are created once and kept.
fn many_files(lab: &Lab, count: u64) -> Result<String> {
    let name = format!("empty-{count}");
    let root = lab.dir.join(&name);
    if !root.exists() {
        eprintln!("benchsuite: making {count} empty files");
        let part = lab.dir.join("empty.part");
        remove(&part)?;
        let mut directory = PathBuf::new();
        for n in 0..count {
            if n % TO_A_DIRECTORY == 0 {
                directory = part.join(format!("d{:04}", n / TO_A_DIRECTORY));
                fs::create_dir_all(&directory)?;
            }
            File::create(directory.join(format!("f{:03}", n % TO_A_DIRECTORY)))?;
        }
        rustix::fs::sync();
        fs::rename(part, &root)?;
    }
    Ok(name)
}

/// Workloads that read and write through a server, sequentially and at random.
const TRAFFIC: &[&str] = &[
    "--rw=write --bs=1M --size=1G --end_fsync=1 --fallocate=none",
    "--rw=read --bs=64k --size=1G",
    "--rw=randrw --bs=8k --size=1G --io_size=32M --numjobs=8 --thread --end_fsync=1",
];

/// The memory of each server. One round is enough, since it hardly varies.
fn memory(lab: &Lab, name: &str) -> Result<ComparisonGroup> {
    let mut entries = Vec::new();
    for (place, server) in PLACES {
        // One server that works by inode and one that works by path: the others would show nothing
        // new, and would take minutes.
        let Some(server @ (Server::Dio("cio,io_uring") | Server::Bindfs)) = *server else {
            continue;
        };
        let script = format!("find $DIR-mnt/{name} -type f -size +0");
        entries.push(Rival::new(place, &format!("{}; {script}", server.shown()), move |_| {
            remove(&lab.dir.join("traffic"))?;
            let mounted = ComparedMount::new(lab, server)?;
            measure(&mut lab.shell(&script))?;
            let mut sample = Sample::from([("server_rss_bytes", mounted.memory()?)]);
            for job in TRAFFIC {
                let script = format!(
                    "fio --output-format=json --name=traffic --ioengine=psync {job} \
                     --filename=$DIR-mnt/traffic"
                );
                measure(&mut lab.shell(&script))?;
            }
            sample.insert("server_rss_traffic_bytes", mounted.memory()?);
            sample.insert("server_peak_bytes", mounted.peak()?);
            Ok(sample)
        }));
    }
    interleave("memory of the server after each of many empty files was looked at", entries, 1, &[])
}

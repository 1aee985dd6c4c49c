//! Programs below a mount beside the same programs on the file system itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::fio;
use crate::Result;
use crate::data::{self, remove, source};
use crate::host::Host;
use crate::lab::Lab;
use crate::measure::measure;
use crate::report::{Goal, Report};
use crate::rounds::{Entry, Group, Sample, interleave};
use crate::tool::{must, need, output, tool};
use crate::units::{GIB, MIB, size_text};

/// The file system itself, always first in the table: ratios are of a mount to it.
const BARE: &str = "bare";

/// Where a contender works.
#[derive(Clone, Copy)]
struct Place {
    name: &'static str,
    /// Options of the mount; none is the file system itself.
    options: Option<&'static str>,
    /// Whether the program itself asks for direct I/O, as one on the bare file system must.
    asks: bool,
}

const fn bare(asks: bool) -> Place {
    Place { name: BARE, options: None, asks }
}

const fn mounted(name: &'static str, options: &'static str) -> Place {
    Place { name, options: Some(options), asks: false }
}

/// A workload of fio, with FILE and DIRECT to be filled in.
struct Work {
    title: &'static str,
    job: &'static str,
    /// What fio counts and the ratio is taken of.
    metric: &'static str,
    writes: bool,
    /// With the least ratio to the bare file system; `Err` is the most.
    places: &'static [(Place, Option<Limit>)],
}

#[derive(Clone, Copy)]
enum Limit {
    AtLeast(f64),
    AtMost(f64),
}

use Limit::{AtLeast, AtMost};

const THREADS: &str = "--ioengine=psync --numjobs=8 --thread --group_reporting --time_based --runtime=SECONDS";

const WORKS: &[Work] = &[
    Work {
        title: "8 threads, random writes of 8 KiB to one file",
        job: "--rw=randwrite --bs=8k THREADS",
        metric: "iops",
        writes: true,
        places: &[
            (bare(true), None),
            (mounted("concurrent", "cio"), Some(AtLeast(0.97))),
            (mounted("direct, range locks", "dio,lock=range"), Some(AtLeast(0.95))),
            (mounted("direct, file lock", "dio,lock=file"), Some(AtMost(0.5))),
        ],
    },
    Work {
        title: "8 threads, random reads of 4 KiB of one file",
        job: "--rw=randread --bs=4k THREADS",
        metric: "iops",
        writes: false,
        places: &[
            (bare(true), None),
            (mounted("concurrent", "cio"), Some(AtLeast(0.8))),
            (mounted("direct, range locks", "dio,lock=range"), Some(AtLeast(0.8))),
        ],
    },
    Work {
        title: "sequential read, 1 MiB at a time",
        job: "--rw=read --bs=1M --ioengine=psync",
        metric: "mib_per_second",
        writes: false,
        places: SEQUENTIAL,
    },
    Work {
        title: "sequential read, 4 KiB at a time",
        job: "--rw=read --bs=4k --ioengine=psync",
        metric: "mib_per_second",
        writes: false,
        places: SEQUENTIAL,
    },
    Work {
        title: "sequential write, 1 MiB at a time",
        job: "--rw=write --bs=1M --ioengine=psync --end_fsync=1",
        metric: "mib_per_second",
        writes: true,
        places: SEQUENTIAL,
    },
    Work {
        title: "sequential write, 4 KiB at a time",
        job: "--rw=write --bs=4k --ioengine=psync --end_fsync=1",
        metric: "mib_per_second",
        writes: true,
        places: SEQUENTIAL,
    },
];

/// The disk, with many large requests in flight, is what a stream through the mount is compared with.
const SEQUENTIAL: &[(Place, Option<Limit>)] = &[
    (bare(true), None),
    (mounted("concurrent", "cio"), Some(AtLeast(0.9))),
    (mounted("direct", "dio"), Some(AtLeast(0.9))),
    (mounted("auto", "auto"), Some(AtLeast(0.9))),
];

/// Reads of what is cached, and writes to it.
const CACHED: &[Work] = &[
    Work {
        title: "cached: random reads of 4 KiB",
        job: "--rw=randread --bs=4k --ioengine=psync --time_based --runtime=SECONDS",
        metric: "iops",
        writes: false,
        places: &[(bare(false), None), (mounted("cached", "cached"), Some(AtLeast(0.95)))],
    },
    Work {
        title: "cached: random writes of 4 KiB",
        job: "--rw=randwrite --bs=4k --ioengine=psync --time_based --runtime=SECONDS",
        metric: "iops",
        writes: true,
        places: &[(bare(false), None), (mounted("cached", "cached"), Some(AtLeast(0.95)))],
    },
];

/// Beside the directory, not below it.
fn mount_point(lab: &Lab) -> PathBuf {
    PathBuf::from(format!("{}-mnt", lab.dir.display()))
}

/// A mount that lasts as long as this.
struct Mounted {
    server: Child,
    at: PathBuf,
}

impl Mounted {
    fn new(lab: &Lab, options: &str) -> Result<Mounted> {
        let at = mount_point(lab);
        fs::create_dir_all(&at)?;
        let mut command = tool(&lab.dio);
        command.args(["mount", "-f", "-o", options]).arg(&lab.dir).arg(&at).stdout(Stdio::null());
        let mounted = Mounted { server: command.spawn()?, at };
        let (begun, below) = (Instant::now(), fs::metadata(&lab.dir)?);
        use std::os::unix::fs::MetadataExt;
        while fs::metadata(&mounted.at)?.dev() == below.dev() {
            if begun.elapsed() > Duration::from_secs(20) {
                return Err("the mount did not come".into());
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(mounted)
    }

    /// CPU time of the server so far, in seconds (proc_pid_stat(5): utime and stime).
    fn cpu(&self) -> Result<f64> {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.server.id()))?;
        let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
        Ok((ticks(11) + ticks(12)) / rustix::param::clock_ticks_per_second() as f64)
    }

    /// Resident memory of the server, in bytes.
    fn memory(&self) -> Result<f64> {
        let text = fs::read_to_string(format!("/proc/{}/statm", self.server.id()))?;
        let pages = text.split_whitespace().nth(1).and_then(|pages| pages.parse::<f64>().ok());
        Ok(pages.ok_or("no memory in /proc")? * rustix::param::page_size() as f64)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = tool("umount").arg(&self.at).status();
        let _ = self.server.wait();
    }
}

struct Bench<'a> {
    lab: &'a Lab,
    file: &'a Path,
    size: u64,
}

impl Bench<'_> {
    fn script(&self, work: &Work, place: Place) -> String {
        let name = self.file.file_name().unwrap_or_default().to_string_lossy();
        let dir = if place.options.is_some() { "$DIR-mnt" } else { "$DIR" };
        let job = work.job.replace("THREADS", THREADS).replace("SECONDS", &self.lab.options.seconds.to_string());
        // On the bare file system a stream gets the large requests and the depth that the disk needs.
        let job = match (place.options, job.contains("psync") && !job.contains("numjobs")) {
            (None, true) if place.asks => {
                let kind = job.split_whitespace().filter(|word| !word.contains("bs=") && !word.contains("ioengine"));
                format!("{} --bs=1M --ioengine=io_uring --iodepth=16", kind.collect::<Vec<_>>().join(" "))
            }
            _ => job,
        };
        let direct = u8::from(place.asks);
        let size = size_text(self.size);
        format!("fio --output-format=json --name=work --direct={direct} --size={size} {job} --filename={dir}/{name}")
    }

    fn run(&self, work: &Work, place: Place, script: &str, warm: bool) -> Result<Sample> {
        let mounted = place.options.map(|options| Mounted::new(self.lab, options)).transpose()?;
        self.lab.cool()?;
        if warm {
            data::warm([self.file.to_path_buf()])?;
        }
        let before = mounted.as_ref().map(Mounted::cpu).transpose()?;
        let finished = measure(&mut self.lab.shell(script))?;
        let report = fio::json_of(&finished.stdout)?;
        let part = &report["jobs"][0][if work.writes { "write" } else { "read" }];
        let mut sample = finished.sample;
        let mut take = |key: &'static str, value: &Value, scale: f64| {
            sample.insert(key, value.as_f64().unwrap_or(0.0) * scale);
        };
        match work.metric {
            "iops" => take("iops", &part["iops"], 1.0),
            _ => {
                // With the sync at the end, which fio counts in the job's run time only.
                let seconds = report["jobs"][0]["job_runtime"].as_f64().ok_or("fio's report has no run time")? / 1e3;
                sample.insert("mib_per_second", part["io_bytes"].as_f64().unwrap_or(0.0) / MIB as f64 / seconds);
            }
        }
        let gib = part["io_bytes"].as_f64().filter(|bytes| *bytes > 0.0).ok_or("fio moved nothing")? / GIB as f64;
        if let (Some(mounted), Some(before)) = (&mounted, before) {
            sample.insert("server_cpu_seconds_per_gib", (mounted.cpu()? - before) / gib);
            sample.insert("server_rss_bytes", mounted.memory()?);
        }
        sample.insert("machine_cpu_seconds_per_gib", sample["machine_cpu_seconds"] / gib);
        sample.retain(|key, _| !["wall_seconds", "dirty_bytes", "cpu_seconds", "machine_cpu_seconds"].contains(key));
        Ok(sample)
    }

    fn group(&self, work: &'static Work, warm: bool, report: &mut Report) -> Result<()> {
        let mut entries = Vec::new();
        for (place, _) in work.places {
            let script = self.script(work, *place);
            let shown = match place.options {
                Some(options) => format!("dio mount -o {options} $DIR $DIR-mnt; {script}"),
                None => script.clone(),
            };
            entries.push(Entry::new(place.name, &shown, move |_| self.run(work, *place, &script, warm)));
        }
        let group = interleave(work.title, entries, self.lab.options.runs as usize, &[work.metric])?;
        for (place, limit) in work.places {
            // The group divides the first by the others; a mount is to be divided by the bare file system.
            let ratio = group.ratio(place.name, work.metric).map(|ratio| 1.0 / ratio);
            let goal = format!("{}: {} ÷ bare", work.title, place.name);
            match limit {
                Some(AtLeast(limit)) => report.goal(Goal::at_least(&goal, *limit, ratio)),
                Some(AtMost(limit)) => report.goal(Goal::at_most(&goal, *limit, ratio)),
                None => {}
            }
        }
        report.groups.push(group);
        Ok(())
    }
}

/// `mount`: data.
pub(crate) fn compare(lab: &Lab) -> Result<Report> {
    must("fio")?;
    let source = source(&lab.dir, lab.options.size.unwrap_or(2 * GIB))?;
    let size = fs::metadata(&source)?.len();
    let mut report = Report::new("mount", Host::describe(&lab.dir)?, lab.programs(&["fio"]))?;
    report.set("size", size_text(size));
    report.set("seconds", lab.options.seconds);
    report.set("rounds", lab.options.runs);
    // A copy: what is written at random must not be what other comparisons read.
    let file = lab.dir.join("mount-data");
    remove(&file)?;
    output(tool(&lab.dio).arg("cp").arg(&source).arg(&file))?;
    let bench = Bench { lab, file: &file, size };
    for work in WORKS {
        bench.group(work, false, &mut report)?;
    }
    let small = Bench { lab, file: &file, size: size.min(GIB / 2) };
    for work in CACHED {
        small.group(work, true, &mut report)?;
    }
    remove(&file)?;
    report.notes.push("The bare file system reads and writes streams with 16 direct requests of 1 MiB in flight: the disk's limit.");
    report.notes.push("Below a mount the programs ask for nothing: their calls are as small as the title says, one at a time in each thread.");
    Ok(report)
}

/// What programs do with many names, below a directory AT.
const NAMES: &[(&str, &str)] = &[
    ("git status", "cd AT/repo && git status --porcelain > /dev/null"),
    ("tar x of small files", "tar -xf $DIR/names.tar -C AT/out && sync -f AT/out"),
    ("find with stat", "find AT/TREE -newermt 2001-01-01 -size +1 > /dev/null"),
];

/// `mount-names`: metadata, beside the file system itself and bindfs.
pub(crate) fn names(lab: &Lab) -> Result<Report> {
    ["git", "tar", "find"].map(must).into_iter().collect::<Result<Vec<_>>>()?;
    need("bindfs");
    let tree = data::tree(&lab.dir, lab.options.files)?;
    let name = tree.root.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let repo = lab.dir.join("repo");
    remove(&repo)?;
    output(&mut lab.shell(&format!(
        "cp -a $DIR/{name} $DIR/repo && cd $DIR/repo && git init -q && git add -A && \
         git -c user.name=b -c user.email=b@localhost commit -q -m all && tar -cf $DIR/names.tar -C $DIR {name}"
    )))?;
    let mut report = Report::new("mount-names", Host::describe(&lab.dir)?, lab.programs(&["git", "tar", "bindfs"]))?;
    report.set("files", tree.count);
    report.set("rounds", lab.options.runs);
    for (title, script) in NAMES {
        let group = names_group(lab, title, &script.replace("TREE", &name))?;
        report.groups.push(group);
    }
    for path in ["repo", "names.tar", "out"] {
        remove(&lab.dir.join(path))?;
    }
    Ok(report)
}

fn names_group(lab: &Lab, title: &str, script: &str) -> Result<Group> {
    let mut entries = Vec::new();
    for place in ["dio mount -o cio", "bare", "bindfs"] {
        let dir = if place == "bare" { "$DIR" } else { "$DIR-mnt" };
        let script = script.replace("AT/", &format!("{dir}/"));
        entries.push(Entry::new(place, &script.clone(), move |_| {
            super::tree::retire(&lab.dir.join("out"))?;
            fs::create_dir_all(lab.dir.join("out"))?;
            let mounted = match place {
                "dio mount -o cio" => Some(Mounted::new(lab, "cio")?),
                _ => None,
            };
            let bound = (place == "bindfs").then(|| Bound::new(lab)).transpose()?;
            lab.cool()?;
            let before = mounted.as_ref().map(Mounted::cpu).transpose()?;
            let mut sample = measure(&mut lab.shell(&script))?.sample;
            if let (Some(mounted), Some(before)) = (&mounted, before) {
                sample.insert("server_cpu_seconds", mounted.cpu()? - before);
                sample.insert("server_rss_bytes", mounted.memory()?);
            }
            drop(bound);
            Ok(sample)
        }));
    }
    let group = interleave(title, entries, lab.options.runs as usize, super::COSTS);
    super::tree::forget_retired(&lab.dir.join("out"))?;
    group
}

/// bindfs over the same directory.
struct Bound(PathBuf);

impl Bound {
    fn new(lab: &Lab) -> Result<Bound> {
        let at = mount_point(lab);
        fs::create_dir_all(&at)?;
        output(tool("bindfs").arg("--multithreaded").arg(&lab.dir).arg(&at))?;
        Ok(Bound(at))
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        let _ = tool("umount").arg(&self.0).status();
    }
}

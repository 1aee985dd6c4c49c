//! Programs below a mount, compared with the same programs on the file system itself.

use std::fs::{self, File};
use std::io::Read;
use std::path::PathBuf;

use serde_json::Value;

use super::fio;
use super::mounted::{ComparedMount, Server, mount_point};
use crate::Result;
use crate::data::{remove, source};
use crate::lab::Lab;
use crate::measure::{measure, resident_pages};
use crate::report;
use crate::rounds::{Rival, interleave};
use crate::tool::{must, output, tool};
use dio_bench::suite::Host;
use dio_bench::suite::Sample;
use dio_bench::suite::{ComparisonReport, Goal};
use dio_common::size::{GIB, MIB, exact as size_text};

/// One way of doing a workload.
struct Variant {
    name: &'static str,
    /// Options of the mount; `None` for the file system itself.
    mount: Option<&'static str>,
    /// fio's options for opening and for its calls.
    calls: &'static str,
    /// The target for the rate divided by that of the first way.
    goal: Option<Limit>,
}

#[derive(Clone, Copy)]
enum Limit {
    AtLeast(f64),
    AtMost(f64),
}

use Limit::{AtLeast, AtMost};

const fn bare(name: &'static str, calls: &'static str) -> Variant {
    Variant { name, mount: None, calls, goal: None }
}

const fn mounted(
    name: &'static str,
    mount: &'static str,
    calls: &'static str,
    goal: Limit,
) -> Variant {
    Variant { name, mount: Some(mount), calls, goal: Some(goal) }
}

/// A workload of fio, which is run in several ways.
pub(super) struct FioWorkload {
    title: &'static str,
    job: &'static str,
    /// The compared quantity: `iops` or `mib_per_second`.
    metric: &'static str,
    file: FileKind,
    amount: Amount,
    workers: Workers,
    ways: &'static [Variant],
}

/// How the work is divided.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Workers {
    /// So many threads, which all work on the whole file.
    Threads(u64),
    /// So many processes, each of which works on its own part of the file.
    Processes(u64),
}

use Workers::{Processes, Threads};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FileKind {
    /// A file full of data, none of it cached.
    Cold,
    /// A file full of data, all of it in the page cache.
    Warm,
    /// A file that does not exist before.
    New,
}

use FileKind::{Cold, New, Warm};

/// The amount of work in a run.
#[derive(Clone, Copy)]
enum Amount {
    /// As much as possible in the seconds of `--seconds`. A sync at the end, if the way has one,
    /// counts too.
    Seconds,
    /// The whole file, this many times.
    Times(u64),
}

use Amount::{Seconds, Times};

/// Opened without `O_DIRECT`, as by programs that cannot be changed; all acknowledged data are on
/// the disk before the time ends.
const PLAIN_SYNCED: &str = "--ioengine=psync --direct=0 --end_fsync=1";
const PLAIN: &str = "--ioengine=psync --direct=0";
const DIRECT: &str = "--ioengine=psync --direct=1";
const DIRECT_SYNCED: &str = "--ioengine=psync --direct=1 --end_fsync=1";
const DIRECT_1M: &str = "--bs=1M --ioengine=psync --direct=1";
const PLAIN_4K: &str = "--bs=4k --ioengine=psync --direct=0";
const PLAIN_1M: &str = "--bs=1M --ioengine=psync --direct=0";
const NEW_DIRECT_1M: &str = "--bs=1M --ioengine=psync --direct=1 --end_fsync=1 --fallocate=none";
const NEW_PLAIN_4K: &str = "--bs=4k --ioengine=psync --direct=0 --end_fsync=1 --fallocate=none";
const NEW_PLAIN_1M: &str = "--bs=1M --ioengine=psync --direct=0 --end_fsync=1 --fallocate=none";
/// As fast as the disk goes: large requests, many of them in flight, space allocated in advance.
const DISK: &str = "--bs=1M --ioengine=io_uring --iodepth=16 --direct=1";
const DISK_SYNCED: &str = "--bs=1M --ioengine=io_uring --iodepth=16 --direct=1 --end_fsync=1";

const WORKS: &[FioWorkload] = &[
    FioWorkload {
        title: "8 threads, random writes of 8 KiB to one file",
        job: "--rw=randwrite --bs=8k",
        workers: Threads(8),
        metric: "iops",
        file: Cold,
        amount: Seconds,
        ways: &[
            bare("bare, O_DIRECT", DIRECT_SYNCED),
            bare("bare, cached", PLAIN_SYNCED),
            mounted("concurrent", "cio,io_uring", PLAIN_SYNCED, AtLeast(0.97)),
            mounted("concurrent, O_DIRECT", "cio,io_uring", DIRECT_SYNCED, AtLeast(0.97)),
            mounted("concurrent, by the device", "cio,no_io_uring", PLAIN_SYNCED, AtLeast(0.97)),
            mounted("direct, range locks", "dio,lock=range,io_uring", PLAIN_SYNCED, AtLeast(0.95)),
            mounted(
                "direct, range locks, O_DIRECT",
                "dio,lock=range,io_uring",
                DIRECT_SYNCED,
                AtLeast(0.95),
            ),
            mounted("direct, file lock", "dio,lock=file,no_io_uring", PLAIN_SYNCED, AtMost(0.5)),
            mounted(
                "direct, file lock, O_DIRECT",
                "dio,lock=file,no_io_uring",
                DIRECT_SYNCED,
                AtMost(0.5),
            ),
        ],
    },
    FioWorkload {
        title: "8 threads, random reads of 4 KiB of one file",
        job: "--rw=randread --bs=4k",
        workers: Threads(8),
        metric: "iops",
        file: Cold,
        amount: Seconds,
        ways: &[
            bare("bare, O_DIRECT", DIRECT),
            mounted("concurrent", "cio,io_uring", PLAIN, AtLeast(0.8)),
            mounted("concurrent, O_DIRECT", "cio,io_uring", DIRECT, AtLeast(0.8)),
            mounted("concurrent, O_DIRECT, by the device", "cio,no_io_uring", DIRECT, AtLeast(0.8)),
            mounted("direct, range locks", "dio,lock=range,io_uring", PLAIN, AtLeast(0.8)),
            mounted(
                "direct, range locks, O_DIRECT",
                "dio,lock=range,io_uring",
                DIRECT,
                AtLeast(0.8),
            ),
        ],
    },
    FioWorkload {
        title: "sequential read",
        job: "--rw=read",
        workers: Threads(1),
        metric: "mib_per_second",
        file: Cold,
        amount: Times(1),
        ways: &[
            bare("the disk", DISK),
            bare("bare, O_DIRECT, 1 MiB", DIRECT_1M),
            bare("bare, cached, 4 KiB", PLAIN_4K),
            mounted("concurrent, 1 MiB", "cio,io_uring", PLAIN_1M, AtLeast(0.9)),
            mounted("concurrent, 4 KiB", "cio,io_uring", PLAIN_4K, AtLeast(0.9)),
            mounted("direct, 1 MiB", "dio,io_uring", PLAIN_1M, AtLeast(0.9)),
            mounted("direct, 4 KiB", "dio,io_uring", PLAIN_4K, AtLeast(0.9)),
            mounted("auto, 1 MiB", "auto,io_uring", PLAIN_1M, AtLeast(0.9)),
            mounted("auto, 4 KiB", "auto,io_uring", PLAIN_4K, AtLeast(0.9)),
        ],
    },
    FioWorkload {
        title: "sequential write of a new file",
        job: "--rw=write",
        workers: Threads(1),
        metric: "mib_per_second",
        file: New,
        amount: Times(1),
        ways: &[
            bare("the disk", DISK_SYNCED),
            bare("bare, O_DIRECT, 1 MiB", NEW_DIRECT_1M),
            bare("bare, cached, 4 KiB", NEW_PLAIN_4K),
            mounted("concurrent, 1 MiB", "cio,io_uring", NEW_PLAIN_1M, AtLeast(0.9)),
            mounted("concurrent, 4 KiB", "cio,io_uring", NEW_PLAIN_4K, AtLeast(0.9)),
            mounted(
                "concurrent, 4 KiB, by the device",
                "cio,no_io_uring",
                NEW_PLAIN_4K,
                AtLeast(0.9),
            ),
            mounted("direct, 1 MiB", "dio,io_uring", NEW_PLAIN_1M, AtLeast(0.9)),
            mounted("direct, 4 KiB", "dio,io_uring", NEW_PLAIN_4K, AtLeast(0.9)),
            mounted("auto, 1 MiB", "auto,io_uring", NEW_PLAIN_1M, AtLeast(0.9)),
            mounted("auto, 4 KiB", "auto,io_uring", NEW_PLAIN_4K, AtLeast(0.9)),
        ],
    },
];

/// A load of programs for parallel computers, as IOR makes it: each process has its part of one
/// file, and moves it from front to back.
const fn shared(title: &'static str, job: &'static str, file: FileKind) -> FioWorkload {
    let (metric, amount, workers) = ("mib_per_second", Times(1), Processes(4));
    let ways = match file {
        New => SHARED_WRITE,
        Cold | Warm => SHARED_READ,
    };
    FioWorkload { title, job, metric, file, amount, workers, ways }
}

const NEW_PLAIN: &str = "--ioengine=psync --direct=0 --end_fsync=1 --fallocate=none";
const NEW_DIRECT: &str = "--ioengine=psync --direct=1 --end_fsync=1 --fallocate=none";

/// The ways of processes that share a file, by fio's options for direct and for plain calls.
const fn shared_ways(direct: &'static str, plain: &'static str) -> [Variant; 6] {
    [
        bare("bare, O_DIRECT", direct),
        bare("bare, cached", plain),
        mounted("default, O_DIRECT", "dio", direct, AtLeast(0.95)),
        mounted("default", "dio", plain, AtLeast(0.95)),
        mounted("concurrent, O_DIRECT", "cio", direct, AtLeast(0.95)),
        mounted("concurrent, native, O_DIRECT", "cio,native", direct, AtLeast(0.95)),
    ]
}

const SHARED_WRITE: &[Variant] = &shared_ways(NEW_DIRECT, NEW_PLAIN);
const SHARED_READ: &[Variant] = &shared_ways(DIRECT, PLAIN);

const SHARED: &[FioWorkload] = &[
    shared("4 processes, one file, writes of 64 KiB", "--rw=write --bs=64k", New),
    shared("4 processes, one file, writes of 1 MiB", "--rw=write --bs=1M", New),
    shared("4 processes, one file, writes of 4 MiB", "--rw=write --bs=4M", New),
    shared("4 processes, one file, writes of 16 MiB", "--rw=write --bs=16M", New),
    shared("4 processes, one file, reads of 64 KiB", "--rw=read --bs=64k", Cold),
    shared("4 processes, one file, reads of 1 MiB", "--rw=read --bs=1M", Cold),
    shared("4 processes, one file, reads of 4 MiB", "--rw=read --bs=4M", Cold),
    shared("4 processes, one file, reads of 16 MiB", "--rw=read --bs=16M", Cold),
];

const CACHED_READ: &[Variant] =
    &[bare("bare", PLAIN), mounted("mount", "cached", PLAIN, AtLeast(0.95))];
const CACHED_WRITE: &[Variant] =
    &[bare("bare", PLAIN_SYNCED), mounted("mount", "cached", PLAIN_SYNCED, AtLeast(0.95))];

/// Workloads through the page cache, served by the kernel, which have to reach the speed of the
/// file system itself.
const CACHED: &[FioWorkload] = &[
    FioWorkload {
        title: "cached mode, sequential read of 128 KiB at a time, cold",
        job: "--rw=read --bs=128k",
        workers: Threads(1),
        metric: "mib_per_second",
        file: Cold,
        amount: Times(1),
        ways: CACHED_READ,
    },
    FioWorkload {
        title: "cached mode, sequential read of 4 KiB at a time, warm",
        job: "--rw=read --bs=4k",
        workers: Threads(1),
        metric: "mib_per_second",
        file: Warm,
        amount: Times(4),
        ways: CACHED_READ,
    },
    FioWorkload {
        title: "cached mode, sequential read of 128 KiB at a time, warm",
        job: "--rw=read --bs=128k",
        workers: Threads(1),
        metric: "mib_per_second",
        file: Warm,
        amount: Times(8),
        ways: CACHED_READ,
    },
    FioWorkload {
        title: "cached mode, 8 threads, random reads of 4 KiB, cold",
        job: "--rw=randread --bs=4k",
        workers: Threads(8),
        metric: "iops",
        file: Cold,
        amount: Seconds,
        ways: CACHED_READ,
    },
    FioWorkload {
        title: "cached mode, 8 threads, random reads of 4 KiB, warm",
        job: "--rw=randread --bs=4k",
        workers: Threads(8),
        metric: "iops",
        file: Warm,
        amount: Seconds,
        ways: CACHED_READ,
    },
    FioWorkload {
        title: "cached mode, sequential write of 128 KiB at a time, synced at the end",
        job: "--rw=write --bs=128k",
        workers: Threads(1),
        metric: "mib_per_second",
        file: Warm,
        amount: Times(1),
        ways: CACHED_WRITE,
    },
    FioWorkload {
        title: "cached mode, 8 threads, random writes of 8 KiB, synced at the end",
        job: "--rw=randwrite --bs=8k",
        workers: Threads(8),
        metric: "iops",
        file: Warm,
        amount: Seconds,
        ways: CACHED_WRITE,
    },
];

fn seconds(lab: &Lab) -> u64 {
    lab.options.seconds.unwrap_or(2)
}

/// The file's name in the directory and in the mount.
const NAME: &str = "mount-data";

impl Workers {
    fn count(self) -> u64 {
        match self {
            Threads(count) | Processes(count) => count,
        }
    }
}

struct Bench<'a> {
    lab: &'a Lab,
    size: u64,
}

impl Bench<'_> {
    /// fio's command. fio must not drop caches, which it could do for the bare file only, and does
    /// not time single requests.
    fn script(&self, work: &FioWorkload, way: &Variant) -> String {
        let dir = if way.mount.is_some() { "$DIR-mnt" } else { "$DIR" };
        let (workers, part) = match work.workers {
            Threads(1) => ("--thread".to_owned(), self.size),
            Threads(count) => (format!("--thread --numjobs={count}"), self.size),
            Processes(count) => {
                let part = self.size / count;
                (format!("--numjobs={count} --offset_increment={}", size_text(part)), part)
            }
        };
        let amount = match work.amount {
            Seconds => format!("--time_based --runtime={}", seconds(self.lab)),
            Times(times) => format!("--io_size={}", size_text(part * times)),
        };
        let size = size_text(part);
        format!(
            "fio --output-format=json --name=work {workers} --invalidate=0 --gtod_reduce=1 \
             --randrepeat=0 {} {} --size={size} {amount} --filename={dir}/{NAME}",
            work.job, way.calls
        )
    }

    fn file(&self) -> PathBuf {
        self.lab.dir.join(NAME)
    }

    /// Brings the file into the state that the workload needs. It is written again only if a
    /// previous run has removed it or if another size is needed.
    fn prepare(&self, work: &FioWorkload) -> Result<()> {
        let there = fs::metadata(self.file()).map_or(0, |found| found.len());
        if work.file == New {
            remove(&self.file())
        } else if there < self.size {
            remove(&self.file())?;
            let source = source(&self.lab.dir, self.size)?;
            output(tool(&self.lab.dio).arg("cp").arg(source).arg(self.file())).map(|_| ())
        } else {
            Ok(())
        }
    }

    fn run(&self, work: &FioWorkload, way: &Variant, script: &str) -> Result<Sample> {
        self.prepare(work)?;
        let mounted = way
            .mount
            .map(|options| ComparedMount::new(self.lab, Server::Dio(options)))
            .transpose()?;
        mounted.as_ref().map(ComparedMount::warm_up).transpose()?;
        self.lab.cool()?;
        if work.file == Warm {
            let mut beginning = File::open(self.file())?.take(self.size);
            std::io::copy(&mut beginning, &mut std::io::sink())?;
        }
        let before = mounted.as_ref().map(ComparedMount::cpu).transpose()?;
        let finished = measure(&mut self.lab.shell(script))?;
        let mut sample = finished.sample;
        let (bytes, seconds) = moved(&fio::json_of(&finished.stdout)?, work.workers.count())?;
        let gib = bytes / GIB as f64;
        if work.metric == "iops" {
            let block = if work.job.contains("--bs=8k") { 8192.0 } else { 4096.0 };
            sample.insert("iops", bytes / block / seconds);
        } else {
            sample.insert("mib_per_second", bytes / MIB as f64 / seconds);
        }
        if let (Some(mounted), Some(before)) = (&mounted, before) {
            sample.insert("server_cpu_seconds_per_gib", (mounted.cpu()? - before) / gib);
            sample.insert("server_rss_bytes", mounted.memory()?);
        }
        sample.insert("machine_cpu_seconds_per_gib", sample["machine_cpu_seconds"] / gib);
        sample.retain(|key, _| {
            !["wall_seconds", "cpu_seconds", "machine_cpu_seconds", "peak_rss_bytes"].contains(key)
        });
        sample.insert("pages_source", resident_pages([self.file()])?);
        if mounted.is_some() {
            // This comes after the source, since counting through the mount opens the file there.
            sample.insert("pages_mount", resident_pages([mount_point(self.lab).join(NAME)])?);
        }
        Ok(sample)
    }

    fn group(&self, work: &'static FioWorkload, report: &mut ComparisonReport) -> Result<()> {
        let mut entries = Vec::new();
        for way in work.ways {
            let script = self.script(work, way);
            let shown = match way.mount {
                Some(options) => format!("{}; {script}", Server::Dio(options).shown()),
                None => script.clone(),
            };
            entries.push(Rival::new(way.name, &shown, move |_| self.run(work, way, &script)));
        }
        let group = interleave(work.title, entries, self.lab.options.runs as usize, &[])?;
        let group = group.against_first(&[work.metric, "machine_cpu_seconds_per_gib"]);
        let first = work.ways[0].name;
        for way in work.ways {
            let ratio = group.ratio(way.name, work.metric);
            let goal = format!("{}: {} ÷ {first}", work.title, way.name);
            match way.goal {
                Some(AtLeast(limit)) => report.goal(Goal::at_least(&goal, limit, ratio)),
                Some(AtMost(limit)) => report.goal(Goal::at_most(&goal, limit, ratio)),
                None => {}
            }
        }
        report.groups.push(group);
        Ok(())
    }
}

/// Bytes that all threads moved, and the seconds of the slowest thread, including its final sync.
fn moved(report: &Value, threads: u64) -> Result<(f64, f64)> {
    let jobs = report["jobs"].as_array().ok_or("fio's report has no jobs")?;
    let of = |job: &Value, part: &str| job[part]["io_bytes"].as_f64().unwrap_or(0.0);
    let bytes: f64 = jobs.iter().map(|job| of(job, "read") + of(job, "write")).sum();
    let millis = jobs.iter().filter_map(|job| job["job_runtime"].as_f64()).fold(0.0, f64::max);
    let failed = jobs.iter().any(|job| job["error"].as_i64() != Some(0));
    if jobs.len() as u64 != threads || failed || bytes <= 0.0 || millis <= 0.0 {
        return Err(
            "fio's report lacks a thread, its bytes or its time, or tells of an error".into()
        );
    }
    Ok((bytes, millis / 1e3))
}

/// CPU time of the machine for starting fio with one request. The figures of every row include it.
fn start_of_fio(lab: &Lab) -> Result<f64> {
    let script = format!(
        "fio --output-format=json --name=start --thread --rw=read --bs=4k --io_size=4k \
         --filename=$DIR/{NAME}"
    );
    measure(&mut lab.shell(&script))?;
    Ok(measure(&mut lab.shell(&script))?.sample["machine_cpu_seconds"])
}

/// The comparison `mount`: data.
pub(crate) fn compare(lab: &Lab) -> Result<ComparisonReport> {
    ["fio", "fincore"].map(must).into_iter().collect::<Result<Vec<_>>>()?;
    let size = lab.options.size.unwrap_or(GIB);
    let mut report = report::begin("mount", Host::of(&lab.dir)?, lab.programs(&["fio"]))?;
    report.set("size", size_text(size));
    report.set("seconds", seconds(lab));
    report.set("rounds", lab.options.runs);
    let bench = Bench { lab, size };
    bench.prepare(&WORKS[0])?;
    report.set("CPU_seconds_of_the_machine_for_the_start_of_fio", start_of_fio(lab)?);
    // A smaller file is enough here, since filling the cache again and again takes long.
    let cached = Bench { lab, size: size / 2 };
    let mut done = WORKS.iter().try_for_each(|work| bench.group(work, &mut report));
    done = done.and_then(|()| CACHED.iter().try_for_each(|work| cached.group(work, &mut report)));
    remove(&bench.file())?;
    done?;
    let _ = fs::remove_dir(mount_point(lab));
    NOTES.iter().for_each(|note| report.note(*note));
    Ok(report)
}

/// The comparison `mount-shared`: processes that share one file.
pub(crate) fn compare_shared(lab: &Lab) -> Result<ComparisonReport> {
    ["fio", "fincore"].map(must).into_iter().collect::<Result<Vec<_>>>()?;
    let size = lab.options.size.unwrap_or(GIB);
    let mut report = report::begin("mount-shared", Host::of(&lab.dir)?, lab.programs(&["fio"]))?;
    report.set("size", size_text(size));
    report.set("rounds", lab.options.runs);
    let bench = Bench { lab, size };
    let done = SHARED.iter().try_for_each(|work| bench.group(work, &mut report));
    remove(&bench.file())?;
    done?;
    let _ = fs::remove_dir(mount_point(lab));
    NOTES.iter().skip(2).for_each(|note| report.note(*note));
    Ok(report)
}

const NOTES: [&str; 5] = [
    "A rate is what all threads moved by the time that the slowest took, with its final sync \
     (`end_fsync`) where there is one.",
    "`the disk`: 16 direct requests of 1 MiB in flight, space allocated before. New files are \
     written without allocation otherwise.",
    "Where O_DIRECT is not said, programs below the mount open the file as any program does (a \
     buffered open).",
    "CPU of the machine has the program, the server, and what the kernel does in threads of its \
     own, per GiB moved.",
    "Pages after: of the file, seen in the source first and then through the mount, each of 4 KiB.",
];

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::moved;

    fn job(millis: u64, bytes: u64, error: i64) -> Value {
        json!({
            "job_runtime": millis, "error": error, "read": {"io_bytes": 0},
            "write": {"io_bytes": bytes}
        })
    }

    #[test]
    fn time_ends_with_the_slowest_thread() {
        let report = json!({"jobs": [job(1000, 4096, 0), job(2500, 8192, 0)]});
        assert_eq!(moved(&report, 2).expect("complete"), (12288.0, 2.5));
    }

    #[test]
    fn a_report_that_lacks_something_is_an_error() {
        for jobs in [
            vec![job(1000, 1, 0)],
            vec![job(1000, 1, 0), job(1000, 1, 5)],
            vec![job(1000, 0, 0), job(1000, 0, 0)],
        ] {
            assert!(moved(&json!({"jobs": jobs}), 2).is_err(), "{jobs:?}");
        }
    }
}

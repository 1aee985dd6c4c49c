//! The Python module beside other ways to read and write from Python, and beside the programs of
//! dio.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::COSTS;
use crate::Result;
use crate::data::{remove, source};
use crate::lab::Lab;
use crate::measure::{measure, per_gib, resident_pages};
use crate::report;
use crate::rounds::{Rival, interleave};
use crate::tool::{home, output, tool};
use dio_bench::suite::{ComparisonGroup, ComparisonReport, Goal, Host, Sample};
use dio_common::size::{GIB, exact as size_text};

/// The work of a group, which decides what is measured of it.
#[derive(Clone, Copy, PartialEq)]
enum Work {
    /// The whole file; its pages are counted afterwards.
    Whole,
    /// Requests of 4 KiB, as many as the script says.
    Requests,
    /// As `Requests`, of a cached file.
    Cached,
    /// A new file.
    New,
}

/// One way: its name, and the arguments of the script; or the command of a program of dio.
type Way = (&'static str, &'static str);

/// Requests in flight, as in the script.
const DEPTH: u32 = 32;

struct Bench<'a> {
    lab: &'a Lab,
    python: PathBuf,
    file: PathBuf,
    target: PathBuf,
    bytes: u64,
}

/// The comparison `python`.
pub(crate) fn compare(lab: &Lab) -> Result<ComparisonReport> {
    let bytes = lab.options.size.unwrap_or(4 * GIB);
    let (python, file) = (environment()?, source(&lab.dir, bytes)?);
    let target = lab.dir.join("target");
    let bench = Bench { lab, python, file, target, bytes };
    let mut report = report::begin("python", Host::of(&lab.dir)?, lab.programs(&["python3"]))?;
    report.set("size", size_text(bytes));
    report.set("rounds", lab.options.runs);
    let whole = bench.group("in order", Work::Whole, &bench.file, READING)?;
    report.goal(Goal::at_least(
        "in order: speed ÷ dio cat",
        0.97,
        whole.ratio("dio cat", "mib_per_second"),
    ));
    let random = bench.group("100,000 ranges of 4 KiB", Work::Requests, &bench.file, RANDOM)?;
    let bench_random = ("dio bench random", "iops");
    for memory in ["used", "new"] {
        let ways = (&*format!("dio.read_ranges, {memory} memory"), "iops");
        report.goal(Goal::at_least(
            &format!("ranges into {memory} memory: reads/s ÷ dio bench random"),
            0.9,
            random.quotient(ways, bench_random).map(|ratio| ratio.median),
        ));
    }
    let written = bench.group("a new file, durable", Work::New, &bench.target, WRITING)?;
    report.goal(Goal::at_least(
        "a new file: speed ÷ dio cp",
        0.97,
        written.ratio("dio cp", "mib_per_second"),
    ));
    report.groups.extend([whole, random, written]);
    let tensors = bench.tensors()?;
    report.groups.push(bench.group("tensors", Work::Whole, &tensors, TENSORS)?);
    report.groups.push(bench.group(
        "one cached read of 4 KiB at a time",
        Work::Cached,
        &bench.file,
        SMALL,
    )?);
    report.note(
        "Time and CPU of Python are those of the work, without the start of the interpreter and \
         imports; those of programs are whole. `dio cp` reads as much as it writes.",
    );
    report.note(
        "`dio cat` to /dev/null never looks at the bytes, which stay in the caches of the processor \
         that the disk's driver runs on; every reader into its own memory does.",
    );
    report.note(
        "Used memory has been stored into before, as the blocks that `dio bench random` reads into \
         again and again; new memory is given its pages while the ranges are read.",
    );
    remove(&bench.target)?;
    Ok(report)
}

const READING: &[Way] = &[
    ("dio.open, readinto", "read dio FILE"),
    ("dio cat", "dio cat FILE > /dev/null"),
    ("dio.open, readinto a bytearray", "read dio-bytearray FILE"),
    ("dio.numpy.fromfile", "read dio-numpy FILE"),
    ("open, readinto", "read readinto FILE"),
    ("numpy.fromfile", "read numpy FILE"),
    ("numpy.memmap", "read memmap FILE"),
    ("os.preadv, O_DIRECT, mmap", "read preadv FILE"),
    ("directio", "read directio FILE"),
];

const RANDOM: &[Way] = &[
    ("dio.read_ranges, used memory", "random dio-used FILE"),
    (
        "dio bench random",
        "dio bench random --file FILE --size SIZE --block 4K --seconds 5 --depth DEPTH --json",
    ),
    ("dio.read_ranges, new memory", "random dio FILE"),
    ("dio.read_ranges into a bytearray", "random dio-bytearray FILE"),
    ("os.preadv, O_DIRECT, 32 threads", "random preadv-threads FILE"),
    ("os.preadv, O_DIRECT", "random preadv FILE"),
    ("os.pread", "random pread FILE"),
];

const WRITING: &[Way] = &[
    ("dio.open, write", "write dio FILE BYTES"),
    ("dio cp", "dio cp SOURCE FILE"),
    ("open, write", "write write FILE BYTES"),
    ("os.pwritev, O_DIRECT, mmap", "write pwritev FILE BYTES"),
    ("directio", "write directio FILE BYTES"),
];

const TENSORS: &[Way] = &[
    ("dio.safetensors.load_file", "tensors dio FILE"),
    ("safetensors.numpy.load_file", "tensors safetensors FILE"),
];

const SMALL: &[Way] = &[
    ("dio, direct=False", "small dio FILE"),
    ("os.pread", "small pread FILE"),
    ("os.preadv, mmap", "small preadv FILE"),
    ("dio, direct", "small dio-direct FILE"),
    ("os.preadv, O_DIRECT, mmap", "small preadv-direct FILE"),
];

/// Python with the packages of `python/requirements.txt` and the module of this source.
fn environment() -> Result<PathBuf> {
    let place = home().join("target/python");
    let (python, wheels) = (place.join("bin/python"), place.join("wheels"));
    if !python.exists() {
        output(tool("python3").args(["-m", "venv"]).arg(&place))?;
    }
    let pip = |args: &[&str], path: &Path| {
        let mut pip = tool(&python);
        pip.args(["-m", "pip", "--disable-pip-version-check", "install", "--quiet"]).args(args);
        output(pip.arg(path)).map(drop)
    };
    pip(&["--requirement"], &home().join("python/requirements.txt"))?;
    if wheels.exists() {
        fs::remove_dir_all(&wheels)?;
    }
    let mut build = tool(place.join("bin/maturin"));
    build.args(["build", "--quiet", "--release", "--locked", "--out"]).arg(&wheels);
    build
        .current_dir(home().join("../bindings/python"))
        .env("CARGO_TARGET_DIR", place.join("built"));
    output(&mut build)?;
    let wheel = fs::read_dir(&wheels)?.next().ok_or("maturin built no wheel")??.path();
    pip(&["--no-deps", "--force-reinstall"], &wheel)?;
    Ok(python)
}

impl Bench<'_> {
    /// The command of a way, as a reader types it.
    fn command(&self, way: &str, file: &Path) -> String {
        let name = |path: &Path| {
            format!("$DIR/{}", path.file_name().unwrap_or_default().to_string_lossy())
        };
        let filled = way
            .replace("SOURCE", &name(&self.file))
            .replace("FILE", &name(file))
            .replace("SIZE", &size_text(self.bytes))
            .replace("BYTES", &self.bytes.to_string())
            .replace("DEPTH", &DEPTH.to_string());
        if way.starts_with("dio ") { filled } else { format!("python3 rival.py {filled}") }
    }

    fn group(&self, title: &str, work: Work, file: &Path, ways: &[Way]) -> Result<ComparisonGroup> {
        let entries = ways.iter().map(|(name, way)| {
            let command = self.command(way, file);
            Rival::new(name, &command.clone(), move |_| self.run(&command, work, file))
        });
        let compared = match work {
            Work::Whole | Work::New => &["mib_per_second", COSTS[0], COSTS[1]],
            Work::Requests | Work::Cached => &["iops", "cpu_seconds", "wall_seconds"],
        };
        interleave(title, entries.collect(), self.lab.options.runs as usize, compared)
    }

    fn run(&self, command: &str, work: Work, file: &Path) -> Result<Sample> {
        if work == Work::New {
            remove(&self.target)?;
        }
        if work != Work::Cached {
            self.lab.cool()?;
        }
        let script = home().join("python/rival.py");
        let here = format!("{} {}", self.python.display(), script.display());
        let finished = measure(&mut self.lab.shell(&command.replace("python3 rival.py", &here)))?;
        let (mut sample, is_program) = (finished.sample, command.starts_with("dio "));
        let said: Value = serde_json::from_str(&finished.stdout).unwrap_or_default();
        if !is_program {
            for key in ["wall_seconds", "cpu_seconds"] {
                let value = said[key].as_f64().ok_or("the script says no time")?;
                sample.insert(key, value);
            }
        }
        match work {
            Work::Whole | Work::New => {
                per_gib(&mut sample, fs::metadata(file)?.len());
                sample.insert("pages_source", resident_pages([file])?);
            }
            Work::Requests | Work::Cached => {
                let rate = match is_program {
                    true => said["rows"][0]["reads_per_second"].as_f64(),
                    false => said["requests"].as_f64().map(|n| n / sample["wall_seconds"]),
                };
                sample.insert("iops", rate.ok_or("no rate was said")?);
                let kept = ["iops", "cpu_seconds", "peak_rss_bytes", "wall_seconds"];
                sample.retain(|key, _| kept.contains(key) && !(is_program && *key != "iops"));
            }
        }
        Ok(sample)
    }

    /// A file of tensors, made by the library of the format once.
    fn tensors(&self) -> Result<PathBuf> {
        let path = self.lab.dir.join(format!("tensors-{}.safetensors", size_text(self.bytes)));
        if !path.exists() {
            let part = self.lab.dir.join("tensors.part");
            let mut make = tool(&self.python);
            make.arg(home().join("python/rival.py")).args(["make-tensors", "-"]);
            output(make.arg(&part).arg(self.bytes.to_string()))?;
            fs::rename(part, &path)?;
        }
        Ok(path)
    }
}

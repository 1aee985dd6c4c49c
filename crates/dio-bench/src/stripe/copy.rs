//! Measures copying a file from one modelled disk to another: by `dio cp`, which reads and writes
//! at the same time, and by `dd`, which alternates between reading and writing.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::plan::StripeBenchPlan;
use super::report::{DiskToDisk, MIB};
use crate::BenchError;
use crate::commands::{PipelineCommand, run_line};
use crate::progress;
use crate::stats::Summary;
use crate::study::turns;

/// Bytes of the buffer for comparing source and copy.
const BUFFER: usize = 4 << 20;

/// Copies by both programs in turns, each time to a new file.
pub(super) fn measure(
    plan: &StripeBenchPlan,
    from: &Path,
    to: &Path,
) -> Result<DiskToDisk, BenchError> {
    let (source, target) = (from.join("source"), to.join("copy"));
    make(&source, plan.copy)?;
    let dio: [&OsStr; 4] = [plan.program.as_ref(), "cp".as_ref(), source.as_ref(), target.as_ref()];
    let named = |name: &str, path: &Path| [name.as_ref(), path.as_os_str()].join(OsStr::new("="));
    let (input, output) = (named("if", &source), named("of", &target));
    let words = ["bs=8M", "iflag=direct", "oflag=direct", "conv=fsync", "status=none"];
    let [size, reading, writing, synced, quiet] = words.map(OsStr::new);
    let dd: [&OsStr; 8] =
        [OsStr::new("dd"), &input, &output, size, reading, writing, synced, quiet];
    let parts = [PipelineCommand::new(dio), PipelineCommand::new(dd)];
    let mut rates: [Vec<f64>; 2] = [Vec::new(), Vec::new()];
    for (round, place) in turns(plan.runs, parts.len()) {
        let nothing = File::create("/dev/null")
            .map_err(BenchError::system("open", Path::new("/dev/null")))?;
        progress::step(["dio cp", "dd"][place]);
        let begin = Instant::now();
        run_line(&parts[place..=place], nothing)?;
        rates[place].push(plan.copy as f64 / MIB / begin.elapsed().as_secs_f64());
        if round == 0 {
            compare(&source, &target)?;
        }
        std::fs::remove_file(&target).map_err(BenchError::system("remove", &target))?;
    }
    std::fs::remove_file(&source).map_err(BenchError::system("remove", &source))?;
    let median = |rates: &Vec<f64>| Summary::of(rates.iter().copied()).median;
    Ok(DiskToDisk {
        bytes: plan.copy,
        dio_cp_mib_s: median(&rates[0]),
        dd_mib_s: median(&rates[1]),
        gain: Summary::of(rates[0].iter().zip(&rates[1]).map(|(dio, dd)| dio / dd)),
    })
}

/// Creates a file of random bytes.
fn make(path: &Path, bytes: u64) -> Result<(), BenchError> {
    let directory = path.parent().unwrap_or(Path::new("."));
    let scratch = crate::data::Scratch::new(directory)?;
    let made: PathBuf = scratch.random_file("data", bytes)?;
    std::fs::rename(&made, path).map_err(BenchError::system("rename", &made))
}

fn compare(source: &Path, target: &Path) -> Result<(), BenchError> {
    let open = |path: &Path| dio::File::open(path);
    let (one, other) = (open(source)?, open(target)?);
    let (mut here, mut there) = (vec![0; BUFFER], vec![0; BUFFER]);
    let mut at = 0;
    loop {
        let read = one.read_at(&mut here, at)?;
        if other.read_at(&mut there, at)? != read || here[..read] != there[..read] {
            return Err(BenchError::Asked(format!(
                "'{}' is no copy of '{}'",
                target.display(),
                source.display()
            )));
        }
        if read == 0 {
            return Ok(());
        }
        at += read as u64;
    }
}

//! `cargo xtask fuzz`: builds the fuzzer, and divides the time among its targets.
//!
//! The fuzzer is libFuzzer, through the crate `libfuzzer-sys`: it needs a C++ compiler and no other
//! tool. Its program has all targets (`fuzz/src/targets`). The crates of dio in it are instrumented
//! by compiler flags that stable Rust accepts (`fuzz/rustc.sh`).

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

use crate::Error;
use crate::tally::Tally;
use crate::tool::{cargo, root, tool};

/// Seconds that one input may take in an unoptimized build with debug assertions.
const TIMEOUT: u64 = 20;
/// Total memory that a target may use, in MiB. The allocations of Rust code have a lower limit
/// (`fuzz/src/main.rs`).
const MEMORY_MAX: u64 = 1024;
/// Largest input in bytes. No file of the corpora is larger.
const INPUT_MAX: u64 = 16 << 10;

/// Fuzzes the `targets`, or all targets, for `time` in all. Prints a line for each and the count as
/// the last line. Returns whether nothing failed. With `keep`, inputs that reach new code are added
/// to the corpora.
pub(crate) fn fuzz(time: Duration, keep: bool, targets: &[String]) -> bool {
    let tally = counted(time, None, keep, targets, |line| println!("{line}"));
    println!("{tally}");
    tally.failed == 0
}

/// As [`fuzz`], but counts each target, or a failed build, as one test. With a seed, inputs are
/// made in the same order every time.
pub(crate) fn counted(
    time: Duration,
    seed: Option<u32>,
    keep: bool,
    targets: &[String],
    show: impl Fn(&str) + Sync,
) -> Tally {
    let failed = Tally { failed: 1, ..Tally::default() };
    let fuzzer = match Fuzzer::build(seed, keep) {
        Ok(fuzzer) => fuzzer,
        Err(error) => {
            show(&format!("fuzz: {error}"));
            return failed;
        }
    };
    let unknown: Vec<&String> =
        targets.iter().filter(|target| !fuzzer.targets.contains(target)).collect();
    if !unknown.is_empty() {
        show(&format!("fuzz: no such target: {unknown:?}; there are {:?}", fuzzer.targets));
        return failed;
    }
    let wanted = if targets.is_empty() { fuzzer.targets.clone() } else { targets.to_vec() };
    let threads = thread::available_parallelism().map_or(1, usize::from).min(wanted.len());
    let each = time.mul_f64(threads as f64 / wanted.len() as f64);
    let left = Mutex::new(VecDeque::from(wanted));
    let tally = Mutex::new(Tally::default());
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                // A thread that panicked has taken no target.
                let next = || left.lock().pop_front();
                while let Some(target) = next() {
                    let found = fuzzer.run(&target, each);
                    let success = found.is_ok();
                    show(&found.unwrap_or_else(|failure| failure));
                    let one = Tally {
                        passed: u64::from(success),
                        failed: u64::from(!success),
                        skipped: 0,
                    };
                    *tally.lock() += one;
                }
            });
        }
    });
    tally.into_inner()
}

/// The built program.
struct Fuzzer {
    program: PathBuf,
    targets: Vec<String>,
    seed: Option<u32>,
    keep: bool,
}

impl Fuzzer {
    fn build(seed: Option<u32>, keep: bool) -> Result<Fuzzer, Error> {
        let place = root().join("fuzz");
        let target = std::env::var_os("CARGO_TARGET_DIR")
            .map_or_else(|| root().join("target"), PathBuf::from);
        let target = root().join(target).join("fuzz");
        let mut build = tool("nice");
        build
            .args(["-n", "10"])
            .arg(cargo().get_program())
            .args(["build", "--quiet", "--locked"])
            .current_dir(&place);
        build
            .env("RUSTC_WRAPPER", place.join("rustc.sh"))
            .env("CARGO_TARGET_DIR", &target)
            .env_remove("RUSTFLAGS");
        if !build.status()?.success() {
            return Err("the fuzzer does not build".into());
        }
        let program = target.join("debug/dio-fuzz");
        let listed = tool(&program).env("DIO_FUZZ_TARGET", "list").output()?;
        let targets: Vec<String> =
            String::from_utf8(listed.stdout)?.lines().map(str::to_owned).collect();
        let corpora = names(&root().join("fuzz/corpus"))?;
        match targets == corpora {
            true => Ok(Fuzzer { program, targets, seed, keep }),
            false => {
                Err(format!("the fuzzer has the targets {targets:?}, and fuzz/corpus {corpora:?}")
                    .into())
            }
        }
    }

    fn command(&self, target: &str) -> Command {
        let mut command = tool("nice");
        command.args(["-n", "10"]).arg(&self.program).env("DIO_FUZZ_TARGET", target);
        command.args([format!("-timeout={TIMEOUT}"), format!("-rss_limit_mb={MEMORY_MAX}")]);
        command.arg(format!("-max_len={INPUT_MAX}"));
        command.args(self.seed.map(|seed| format!("-seed={seed}")));
        command
    }

    /// Runs a target, first on its corpus and then on inputs that are derived from it.
    ///
    /// # Errors
    /// The defect that was found, and the command that shows it again.
    fn run(&self, target: &str, time: Duration) -> Result<String, String> {
        let failed = |error: &dyn std::fmt::Display| format!("fuzz: {target}: FAILED: {error}");
        let crashes = root().join("fuzz/crashes").join(target);
        let corpus = root().join("fuzz/corpus").join(target);
        let new = tempfile::tempdir().map_err(|error| failed(&error))?;
        fs::create_dir_all(&crashes).map_err(|error| failed(&error))?;
        let mut command = self.command(target);
        command.arg(format!("-artifact_prefix={}/", crashes.display()));
        command.args([
            format!("-max_total_time={}", time.as_secs().max(1)),
            "-print_final_stats=1".to_owned(),
        ]);
        let out = command.args([new.path(), &corpus]).output().map_err(|error| failed(&error))?;
        let said = String::from_utf8_lossy(&out.stderr);
        if !out.status.success() {
            return Err(failed(&failure(&said, target)));
        }
        if self.keep {
            self.merge(target, new.path(), &corpus).map_err(|error| failed(&error))?;
        }
        Ok(format!("fuzz: {target}: {}", progress(&said)))
    }

    /// Adds inputs that reach new code to the corpus.
    fn merge(&self, target: &str, new: &Path, corpus: &Path) -> Result<(), Error> {
        let out = self.command(target).arg("-merge=1").args([corpus, new]).output()?;
        if out.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&out.stderr).into()) }
    }
}

/// The names of the directories in a directory, in order.
fn names(directory: &Path) -> Result<Vec<String>, Error> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

/// Executions, and coverage before and after: `#9 INITED cov: 1065 ft: 1960 …`, `#20064 DONE cov:
/// 1212 ft: 3950 …`.
fn progress(said: &str) -> String {
    let line = |word: &str| said.lines().find(|line| line.split_whitespace().nth(1) == Some(word));
    let number = |line: Option<&str>, name: &str| {
        let mut words =
            line.unwrap_or_default().split_whitespace().skip_while(|word| *word != name);
        words.nth(1).unwrap_or("?").to_owned()
    };
    let (first, last) = (line("INITED"), line("DONE"));
    let runs =
        last.and_then(|line| line.split_whitespace().next()).unwrap_or("?").trim_start_matches('#');
    let [before, after] = [first, last].map(|line| number(line, "cov:"));
    let [features_before, features_after] = [first, last].map(|line| number(line, "ft:"));
    format!(
        "{runs} runs, edges {before} -> {after}, features {features_before} -> {features_after}"
    )
}

/// The cause of a failure, and the command that shows it again.
fn failure(said: &str, target: &str) -> String {
    let is_cause =
        |line: &&str| line.contains("panicked at") || line.contains("memory allocation of");
    let cause = said
        .lines()
        .find(is_cause)
        .or_else(|| said.lines().find(|line| line.contains("ERROR: libFuzzer")));
    let written = said
        .lines()
        .find_map(|line| line.split_once("Test unit written to "))
        .map(|(_, path)| path);
    let behind = cause
        .and_then(|cause| said.lines().skip_while(|line| *line != cause).nth(1))
        .unwrap_or_default();
    let Some(input) = written else {
        return said.lines().last().unwrap_or("it said nothing").to_owned();
    };
    let input = Path::new(input).strip_prefix(root()).unwrap_or(Path::new(input)).display();
    format!(
        "{}\n  {behind}\n  again: DIO_FUZZ_TARGET={target} target/fuzz/debug/dio-fuzz {input}",
        cause.unwrap_or("no cause was told")
    )
}

/// Reads `60s`, `40m`, `8h`, or a number of seconds.
pub(crate) fn parse_time(text: &str) -> Result<Duration, String> {
    let units = [("s", 1), ("m", 60), ("h", 3600), ("", 1)];
    let parts = units.iter().find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, seconds)));
    let seconds = parts.and_then(|(number, unit)| number.parse::<u64>().ok()?.checked_mul(*unit));
    seconds
        .filter(|seconds| *seconds > 0)
        .map(Duration::from_secs)
        .ok_or_else(|| "such as 60s, 40m or 8h".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit_or_are_seconds() {
        for (text, seconds) in [("60s", 60), ("40m", 2400), ("8h", 28_800), ("7", 7)] {
            assert_eq!(parse_time(text), Ok(Duration::from_secs(seconds)));
        }
        for wrong in ["", "0", "s", "1d", "-1s", "99999999999999999h"] {
            assert!(parse_time(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_line_tells_runs_and_coverage() {
        let said = "#9\tINITED cov: 1065 ft: 1960 corp: 8/717b\n#12 NEW cov: 1066 ft: \
                    1961\n#20064\tDONE   cov: 1212 ft: 3950 corp: 212";
        assert_eq!(progress(said), "20064 runs, edges 1065 -> 1212, features 1960 -> 3950");
    }

    #[test]
    fn a_failure_tells_cause_input_and_command() {
        let input = root().join("fuzz/crashes/tar/crash-1");
        let said = format!(
            "#3 NEW\nthread 'x' panicked at a.rs:7:9:\nassertion failed\n== ERROR: libFuzzer: \
             deadly signal\nartifact_prefix='x'; Test unit written to {}\n",
            input.display()
        );
        let told = failure(&said, "tar");
        assert!(
            told.starts_with("thread 'x' panicked at a.rs:7:9:\n  assertion failed\n"),
            "{told}"
        );
        assert!(
            told.ends_with(
                "DIO_FUZZ_TARGET=tar target/fuzz/debug/dio-fuzz fuzz/crashes/tar/crash-1"
            ),
            "{told}"
        );
        assert_eq!(failure("cannot run\n", "tar"), "cannot run");
    }
}
